"""
Process evidence with real processes of this machine, in real namespaces.

Aspects: alive · ended · zombie · main thread ended · reused pid · payload orphaned by SIGKILL, whole and in part ·
payload that was never recorded · another pid namespace, with its own `/proc` and without · another time namespace.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import pytest

from fencectl.core.facts import Fact, State, Subject
from fencectl.evidence.machine import Machine
from fencectl.evidence.process import ask_process
from tests.evidence.machines import (
    ask_within,
    journalled,
    local,
    real_details,
    real_machine,
    subject,
    way_into_namespaces,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

SLEEPER = "import sys, time; print('up', flush=True); time.sleep(300)"

# A holder: starts a payload in a process group of its own, says what it would record, and waits to be killed.
HOLDER = """
import json, os, subprocess, sys, time
from fencectl.evidence.machine import Machine
environment = dict(os.environ)
if sys.argv[2]:
    environment["FENCECTL_HOLDER"] = f"4f2a91c07be3d855-local-build-7-{os.getpid()}-9c41e07a"
payload = subprocess.Popen(["sh", "-c", sys.argv[1]], process_group=0, env=environment, stdout=subprocess.PIPE)
payload.stdout.readline()
print(json.dumps(Machine().describe_group(payload.pid)), flush=True)
time.sleep(300)
"""


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that the test starts; whatever is left of them is ended."""
    running: list[subprocess.Popen[bytes]] = []
    yield running
    for process in running:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def machine() -> Machine:
    return real_machine()


def start(
    started: list[subprocess.Popen[bytes]], code: str, *arguments: str
) -> tuple[subprocess.Popen[bytes], bytes]:
    """Start Python code and wait for its first line."""
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE)
    started.append(process)
    return process, line_of(process.stdout)


def line_of(stream: IO[bytes] | None) -> bytes:
    assert stream is not None
    line = stream.readline()
    assert line, "the process ended before it said anything"
    return line


def ask(given: Subject, machine: Machine) -> Fact:
    fact = ask_process(given, machine, at=datetime.now(UTC))
    assert fact is not None
    return fact


def until(true: Callable[[], bool]) -> None:
    """Wait for the kernel, within bounds."""
    ends = time.monotonic() + 20
    while not true():
        assert time.monotonic() < ends, "it did not come to that"
        time.sleep(0.01)


def test_running_process_is_alive_and_a_reaped_one_ended(
    started: list[subprocess.Popen[bytes]], machine: Machine
) -> None:
    """The same question before and after the end."""
    process, _ = start(started, SLEEPER)
    given = subject(real_details(machine, process.pid), identity=local(process.pid))
    assert ask(given, machine).state is State.ALIVE
    process.kill()
    process.wait()
    assert ask(given, machine).state is State.ENDED


def test_killed_process_that_nobody_reaped_is_ended(
    started: list[subprocess.Popen[bytes]], machine: Machine
) -> None:
    """It stays listed as a zombie, for as long as its parent does not look."""
    process, _ = start(started, SLEEPER)
    given = subject(real_details(machine, process.pid), identity=local(process.pid))
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    fact = ask(given, machine)
    assert (fact.state, fact.answer) == (State.ENDED, f"gone: process {process.pid} is a zombie")


def test_process_whose_main_thread_ended_is_alive(
    started: list[subprocess.Popen[bytes]], machine: Machine
) -> None:
    """The kernel shows it as a zombie while another thread of it runs."""
    code = (
        "import ctypes, platform, threading, time\n"
        "threading.Thread(target=time.sleep, args=(300,)).start()\n"
        "print('up', flush=True)\n"
        "ctypes.CDLL(None).syscall({'x86_64': 60}.get(platform.machine(), 93), 0)\n"
    )
    process, _ = start(started, code)
    given = subject(real_details(machine, process.pid), identity=local(process.pid))
    stat = Path(f"/proc/{process.pid}/stat")
    until(lambda: ") Z " in stat.read_text(encoding="ascii"))
    assert ask(given, machine).state is State.ALIVE


def test_case_46_pid_of_a_later_process_is_not_the_holder(
    started: list[subprocess.Popen[bytes]], machine: Machine
) -> None:
    """The number has been given away: its start time differs."""
    process, _ = start(started, SLEEPER)
    details = real_details(machine, process.pid)
    given = subject(details | {"pid_started": details["pid_started"] - 1}, identity=local(process.pid))
    fact = ask(given, machine)
    assert (fact.state, fact.answer) == (State.ENDED, f"gone: process {process.pid} is a later one")


def killed_holder(
    started: list[subprocess.Popen[bytes]], machine: Machine, payload: str, *, named: bool = True
) -> tuple[Subject, int]:
    """A holder that is killed alone; its payload's group lives on."""
    holder, said = start(started, HOLDER, payload, "named" if named else "")
    group = json.loads(said)
    given = subject(real_details(machine, holder.pid, payload_group=group), identity=local(holder.pid))
    assert ask(given, machine).answer == f"alive: process {holder.pid} runs"
    holder.kill()
    holder.wait()
    return given, group["id"]


@pytest.fixture
def groups() -> Iterator[list[int]]:
    """Process groups that a test leaves behind are ended."""
    left: list[int] = []
    yield left
    for group in left:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


@pytest.mark.parametrize("recorded", [True, False])
def test_case_46_payload_of_a_killed_parent_is_alive_until_it_ends(
    started: list[subprocess.Popen[bytes]], groups: list[int], machine: Machine, recorded: bool
) -> None:
    """SIGKILL ends the parent alone; recorded or not yet, what it had started is found, and its end too."""
    given, group = killed_holder(started, machine, "echo up; sleep 300 & wait")
    groups.append(group)
    if not recorded:
        assert given.journal is not None
        assert given.journal.details is not None
        given = journalled(given, details={**given.journal.details, "payload_group": None})
    assert ask(given, machine).state is State.ALIVE
    os.killpg(group, signal.SIGKILL)
    until(lambda: ask(given, machine).state is State.ENDED)


@pytest.mark.parametrize(("named", "state"), [(True, State.ALIVE), (False, State.UNKNOWN)])
def test_case_46_payload_whose_leader_was_killed_too_is_not_ended(
    started: list[subprocess.Popen[bytes]], groups: list[int], machine: Machine, named: bool, state: State
) -> None:
    """The shell is killed as well, its child works on: alive where it carries the name, else nobody can tell."""
    given, group = killed_holder(started, machine, "sleep 300 & echo up; wait", named=named)
    groups.append(group)
    os.kill(group, signal.SIGKILL)
    until(lambda: not alive(machine, group))
    assert ask(given, machine).state is state


def alive(machine: Machine, pid: int) -> bool:
    process = machine.process(pid)
    return process is not None and process.alive


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        (("--pid", "--mount-proc"), "another pid namespace on this machine, where it cannot be seen"),
        (("--pid",), "its pid namespace, or ours, is not known"),
    ],
)
def test_live_process_looks_gone_from_another_pid_namespace_and_is_unknown(
    started: list[subprocess.Popen[bytes]], machine: Machine, options: tuple[str, ...], answer: str
) -> None:
    """Same machine, same boot, same host name, and its number is free or somebody else's there."""
    process, _ = start(started, SLEEPER)
    details, identity = real_details(machine, process.pid), local(process.pid)
    assert ask_within(*options, details=details, identity=identity) == ("unknown", answer)


def test_live_process_looks_later_from_another_time_namespace_and_is_unknown(
    started: list[subprocess.Popen[bytes]], machine: Machine
) -> None:
    """Its start is counted from another boot time there, which must not pass for a reused number."""
    process, _ = start(started, SLEEPER)
    details, identity = real_details(machine, process.pid), local(process.pid)
    state, answer = ask_within("--time", "--boottime", "1000", details=details, identity=identity)
    assert state == "unknown"
    assert "no start time" in answer


def test_process_in_its_own_pid_namespace_is_found_there(machine: Machine) -> None:
    """What is recorded and asked within one namespace, though not the first one, is a proof."""
    code = """
import os, subprocess, sys
from datetime import UTC, datetime
from fencectl.evidence.process import ask_process
from tests.evidence.machines import local, real_details, real_machine, subject
machine = real_machine()
child = subprocess.Popen(["sleep", "300"])
given = subject(real_details(machine, child.pid), identity=local(child.pid))
print(ask_process(given, machine, at=datetime.now(UTC)).state.value)
child.kill(); child.wait()
print(ask_process(given, machine, at=datetime.now(UTC)).state.value)
"""
    assert within(code) == ["alive", "ended"]


def within(code: str) -> list[Any]:
    command = [*way_into_namespaces(), "--pid", "--mount-proc", "--fork", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()
