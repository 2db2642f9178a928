"""
`fencectl deploy` as a process of its own: started, waited for, signalled; and what it has fenced.

The child of a deploy is a script that writes a file when it runs, and ends when another file is there: so a test
knows where the deploy stands without counting seconds.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

from fencectl.core.times import micro_time
from tests.support import prefork
from tests.support.clusters import Cluster, expect, make_kustomization, make_node, path_of
from tests.support.fencing import LEASE_PARENT, essence, state
from tests.support.objects import OTHER
from tests.support.program import TIMEOUT_S, Ran, environment, run_program

HASTY = "tests.support.hasty"
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/flux-system/leases/fencectl-deploy"
RECORD_PATH = "/api/v1/namespaces/flux-system/configmaps/fencectl-deploy-record"
FENCES = ("--suspend", "kustomization/flux-system/infrastructure", "--node", "worker-2", "--node", "worker-3")
POLL_S = 0.02


def wait_until(true: Callable[[], Any], what: str, *, timeout_s: float = TIMEOUT_S) -> Any:
    """Wait for a condition, and give what it gave; `what` is said when it never comes."""
    end_s = time.monotonic() + timeout_s
    while not (found := true()):
        assert time.monotonic() < end_s, f"never: {what}"
        time.sleep(POLL_S)
    return found


@dataclass(slots=True)
class Running:
    """A deploy that runs. Its output goes to files, so that it can be read while it runs."""

    process: prefork.Process
    out: Path
    err: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def said(self) -> str:
        return self.err.read_text(errors="replace")

    def wait_for(self, text: str) -> None:
        """Wait until it says this."""

        def found() -> bool:
            assert self.process.poll() is None or text in self.said, f"ended without {text!r}:\n{self.said}"
            return text in self.said

        wait_until(found, f"{text!r} in\n{self.said}")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(TIMEOUT_S)

    def ended(self, *, timeout_s: float = TIMEOUT_S) -> Ran:
        """Wait for its end."""
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it never ended:\n{self.said}") from None
        return Ran(code, self.out.read_text(errors="replace"), self.said)


@dataclass(slots=True)
class Child:
    """What a deploy runs: it says `began`, and ends with `code` once it may."""

    folder: Path
    code: int = 0
    script: str = ""

    @property
    def began(self) -> Path:
        return self.folder / "child-began"

    @property
    def may_end(self) -> Path:
        return self.folder / "child-may-end"

    @property
    def command(self) -> tuple[str, ...]:
        began, may_end = shlex.quote(str(self.began)), shlex.quote(str(self.may_end))
        wait = f"while [ ! -e {may_end} ]; do sleep 0.05; done"
        return (
            "sh",
            "-c",
            f"{self.script}\necho $$ > {began}.new; mv {began}.new {began}; {wait}; exit {self.code}",
        )

    def wait_begun(self, running: Running) -> int:
        """Wait until it runs; its pid."""

        def begun() -> bool:
            there = self.began.exists()
            assert there or running.process.poll() is None, f"ended before its command ran:\n{running.said}"
            return there

        wait_until(begun, "the command began")
        return int(self.began.read_text())

    def let_end(self) -> None:
        self.may_end.touch()


@dataclass(slots=True)
class DeployScene:
    """A cluster with a parent and its child, two nodes (one cordoned by somebody else), and deploys that fence it."""

    cluster: Cluster
    folder: Path
    before: dict[str, Any]
    started: list[Running]
    env: dict[str, str]

    @classmethod
    def on(cls, cluster: Cluster, folder: Path) -> DeployScene:
        if cluster.name == "sandbox":
            cluster.sandbox.flux.automatic()
        objects = [
            make_kustomization(cluster, "flux-system"),
            make_kustomization(cluster, "infrastructure", applied_by=LEASE_PARENT),
            make_node(cluster, "worker-2"),
            make_node(cluster, "worker-3", unschedulable=True),
        ]
        before = {path_of(obj): essence(cluster.get(path_of(obj))) for obj in objects}
        return cls(cluster, folder, before, [], {})

    @property
    def kubeconfig(self) -> Path:
        return self.cluster.kubeconfig_file(context="prod")

    @property
    def fences(self) -> tuple[str, ...]:
        """Options that fence all of it; without a controller there is no drain proof."""
        return FENCES if self.cluster.name == "sandbox" else (*FENCES, "--drain-timeout", "0s")

    def environment(self, **more: str) -> dict[str, str]:
        """What a deploy runs with: the real kubectl is on the path, its temporary files go to a folder of ours."""
        temporary = self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        path = self.cluster.kubectl_environment()["PATH"]
        return environment(self.kubeconfig, PATH=path, TMPDIR=str(temporary), **self.env | more)

    def start(
        self,
        *arguments: str,
        command: Sequence[str] = (),
        module: str = "fencectl",
        env: Mapping[str, str] | None = None,
        script: str | None = None,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
        stdin: bytes | None = None,
        payload: bool = True,
        verb: str = "deploy",
    ) -> Running:
        """
        Start a deploy of this command. `payload` False: of what the arguments say, with `stdin` to read.

        `script`: one for bash in which `DEPLOY` stands for it, as a step's `run:` would.
        """
        number = len(self.started)
        out, err = self.folder / f"out-{number}", self.folder / f"err-{number}"
        behind = ("--", *(command or ("true",))) if payload else ()
        line = [sys.executable, "-m", module, verb, *arguments, *behind]
        if script is not None:
            line = ["bash", "-e", "-c", script.replace("DEPLOY", shlex.join(line))]
        into = self.folder / f"in-{number}"
        into.write_bytes(stdin or b"")
        environ = self.environment(**(env or {}))
        plain = script is None and stdout is None and stderr is None
        process: prefork.Process
        with out.open("wb") as out_file, err.open("wb") as err_file, into.open("rb") as in_file:
            if plain and prefork.can_fork(environ):
                descriptors = in_file.fileno(), out_file.fileno(), err_file.fileno()
                process = prefork.start(
                    module, line[3:], environ=environ, cwd=self.folder, descriptors=descriptors, new_session=True
                )
            else:
                process = subprocess.Popen(
                    line,
                    stdin=in_file,
                    stdout=out_file if stdout is None else stdout,
                    stderr=err_file if stderr is None else stderr,
                    cwd=self.folder,
                    env=environ,
                    start_new_session=True,
                )
        running = Running(process, out, err)
        self.started.append(running)
        return running

    def deploy(self, *arguments: str, **more: Any) -> Ran:
        """Run one to its end."""
        return self.start(*arguments, **more).ended()

    def run(self, *arguments: str, module: str = HASTY, env: Mapping[str, str] | None = None) -> Ran:
        """Run another verb."""
        return run_program(
            *arguments, kubeconfig=self.kubeconfig, cwd=self.folder, module=module, env=self.env | dict(env or {})
        )

    def now(self) -> dict[str, Any]:
        """What everything that was there before says now."""
        return state(self.cluster, *self.before)

    def lease(self) -> Any:
        return self.cluster.get(LEASE_PATH)["spec"]

    def record(self, generation: int = 1) -> Any:
        return json.loads(self.cluster.get(RECORD_PATH)["data"][f"record-{generation}"])

    def age_lease(self) -> None:
        """Put the heartbeat of a run that has ended an hour back, as if that time had passed; its lease was short."""
        if self.cluster.request("GET", LEASE_PATH).status == 200:
            at = datetime.now(UTC) - timedelta(hours=1)
            spec = {"renewTime": micro_time(at), "leaseDurationSeconds": 1}
            expect(self.cluster.merge_patch(LEASE_PATH, {"spec": spec}, manager="time"), 200)

    def assert_free(self, token: int = 1) -> None:
        """Nothing is fenced: everything is as it was before, the lease is free."""
        assert self.now() == self.before
        assert (self.lease()["holderIdentity"], self.lease()["leaseTransitions"]) == ("", token)

    def end(self) -> None:
        """End what a failed test has left running, each by its own pid."""
        for running in self.started:
            if running.process.poll() is None:
                running.kill()


def take_over(scene: DeployScene) -> None:
    """Somebody takes the lease over, as a recovery does."""
    spec = scene.lease()
    at = micro_time(datetime.now(UTC))
    taken = {
        "holderIdentity": OTHER,
        "leaseTransitions": spec["leaseTransitions"] + 1,
        "acquireTime": at,
        "renewTime": at,
    }
    scene.cluster.merge_patch(LEASE_PATH, {"spec": taken, "metadata": {"annotations": None}}, manager="other")


def alive(pid: int) -> bool:
    """Whether a process is there, and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def processes_of(environ_value: str) -> list[int]:
    """Processes whose environment holds this text."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                if environ_value.encode() in (entry / "environ").read_bytes() and alive(int(entry.name)):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
