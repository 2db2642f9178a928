"""Machines that tests make up as a file tree, what a holder's journal records of one, and ways into namespaces."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fencectl.core.facts import Subject
from fencectl.core.identity import parse_holder
from fencectl.core.journal import Journal, Phase
from fencectl.evidence.machine import INITIAL_PID_NAMESPACE, Machine
from tests.support.objects import NOW

Raw = dict[str, Any]

MACHINE_ID = "3d1219c7c4c5404aaa1f6d2a48adfda4"
BOOT_ID = "fc1c5832-9d9c-4e99-8b2f-71c70c15671a"
OTHER_ID = "9b1c4477aa02d1e0f3a5c6d7e8f90a1b"
OTHER_BOOT = "0b7d9d7e-52a4-4f3e-9a43-5d1f0b6f2f11"
CONTAINER_NAMESPACE = "pid:[4026532179]"
BOOTED_S = int(NOW.timestamp()) - 86400
TICKS = os.sysconf("SC_CLK_TCK")

LOCAL = "4f2a91c07be3d855-local-build-7-4711-9c41e07a"
GITHUB = "4f2a91c07be3d855-gh18093344127.2-j51234567890-9c41e07a"
POD = "4f2a91c07be3d855-pod-ci.deployer-0-9c41e07a"


class Tree:
    """A machine made of files. `hidden`: pids and (below zero) groups that the kernel knows and `/proc` hides."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.hidden: set[int] = set()
        self.alive: dict[int, int] = {}
        self.write("etc/machine-id", f"{MACHINE_ID}\n")
        self.write("proc/sys/kernel/random/boot_id", f"{BOOT_ID}\n")
        self.write("proc/stat", f"cpu  1 2 3\nbtime {BOOTED_S}\nprocesses 9\n")
        self.add(900, group=900, started=50)
        self.link("proc/self", "900")
        self.namespace(INITIAL_PID_NAMESPACE)

    def write(self, name: str, text: str | bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def link(self, name: str, target: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    def namespace(self, name: str) -> None:
        self.link("proc/900/ns/pid", name)

    def add(
        self,
        pid: int,
        *,
        group: int,
        started: int,
        state: str = "S",
        threads: int = 1,
        name: str = "fencectl",
        environment: dict[str, str] | None = None,
    ) -> None:
        before = (
            f"{pid} ({name}) {state} 1 {group} {group} 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 {threads} 0 {started}"
        )
        self.write(f"proc/{pid}/stat", f"{before} 0 0 18446744073709551615\n")
        if environment is not None:
            pairs = [f"{key}={value}".encode() for key, value in environment.items()]
            self.write(f"proc/{pid}/environ", b"\0".join(pairs) + b"\0")
        self.alive[pid] = group

    def knows(self, pid: int) -> bool:
        return pid in self.hidden or (pid in self.alive if pid > 0 else -pid in self.alive.values())

    def machine(self, *, host: str = "build-7") -> Machine:
        return Machine(root=self.root, system="linux", pid=900, host=host, knows=self.knows)


def recorded(**changes: Any) -> Raw:
    """What a deploy on that machine records: fencectl is process 4711, started a tick before the journal."""
    return {
        "machine_id": MACHINE_ID,
        "boot_id": BOOT_ID,
        "pid_namespace": INITIAL_PID_NAMESPACE,
        "pid": 4711,
        "pid_started": 8_000_000,
        "payload_group": None,
        "host": "build-7",
    } | changes


def subject(details: Raw | None, *, identity: str = LOCAL, journal_holder: str | None = None) -> Subject:
    """A holder whose lease bears these details; None: nothing can be read of its journal."""
    if details is None:
        return Subject(parse_holder(identity))
    journal = Journal(journal_holder or identity, "uid", 1, 0, NOW, Phase.HELD, details=details)
    return Subject(parse_holder(identity), journal)


def real_details(machine: Machine, pid: int, **changes: Any) -> Raw:
    """What a process of this machine would record about itself."""
    process = machine.process(pid)
    assert process is not None
    return recorded(
        machine_id=MACHINE_ID,
        boot_id=machine.boot_id(),
        pid_namespace=machine.pid_namespace(),
        pid=pid,
        pid_started=process.started,
        host=machine.host,
        **changes,
    )


def real_machine() -> Machine:
    """The machine that the test runs on, with an id even where an image has none."""
    return _Known()


class _Known(Machine):
    """The machine id is the one thing that a test's machine may lack."""

    __slots__ = ()

    def machine_id(self) -> str | None:
        return MACHINE_ID


def local(pid: int) -> str:
    """The identity of a process."""
    return f"4f2a91c07be3d855-local-build-7-{pid}-9c41e07a"


def journalled(given: Subject, **changes: Any) -> Subject:
    """The same holder, its journal changed."""
    assert given.journal is not None
    return structs.replace(given, journal=replace(given.journal, **changes))


@functools.cache
def way_into_namespaces() -> tuple[str, ...]:
    """The command that makes namespaces here: as root, as root of a user namespace, or through sudo."""
    for way in (("unshare",), ("unshare", "--user", "--map-root-user"), ("sudo", "-n", "unshare")):
        try:
            done = subprocess.run([*way, "--pid", "--fork", "true"], capture_output=True, check=False, timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return way
    pytest.skip(
        "no namespaces can be made here: run it as root, with user namespaces allowed, or with sudo that asks nothing"
    )


_ASK = """
import json, sys
from datetime import UTC, datetime
from fencectl.evidence.process import ask_process
from tests.evidence.machines import real_machine, subject
given = json.loads(sys.argv[1])
fact = ask_process(subject(given["details"], identity=given["identity"]), real_machine(), at=datetime.now(UTC))
print(json.dumps([fact.state.value, fact.answer]))
"""


def ask_within(*options: str, details: Raw, identity: str) -> tuple[str, str]:
    """Ask for a process from within new namespaces."""
    given = json.dumps({"details": details, "identity": identity})
    command = [*way_into_namespaces(), *options, "--fork", sys.executable, "-c", _ASK, given]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, cwd=Path(__file__).parents[2]
    )
    assert done.returncode == 0, done.stderr
    state, answer = json.loads(done.stdout)
    return state, answer
