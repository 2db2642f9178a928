"""
What the demo plays on: a sandbox, a private folder with its kubeconfig, and child processes that see only these.

Nothing of the user's is read or touched: children get an environment of their own (kubeconfig, home, no
settings), and the folder is gone on every way out.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import fencectl
from fencectl.cluster.clock import SystemClock
from fencectl.cluster.kubeconfig import resolve
from fencectl.cluster.transport import Transport
from fencectl.commands.demo_holder import AT_WORK, CHILD, NAMESPACE, NODE, PARENT, SERVER, subject_of
from fencectl.core.profiles import FENCECTL
from fencectl.core.refs import dig
from fencectl.core.report import FenceReport
from fencectl.sandbox import Sandbox, SandboxClock

CONTEXT = "demo"
NODES = ("worker-1", NODE, "worker-3")
_OWN_CONFIG = "apiVersion: fencectl.dev/v1\nkind: Config\n"
_TICK_S = 0.1
_READY = {
    "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is ready"}],
    "nodeInfo": {"kubeletVersion": "v1.37.2"},
}
# Settings and credentials of the user that no child needs.
_NOT_FOR_CHILDREN = ("FENCECTL_", "KUBE", "GITHUB_", "GH_")


@dataclass(frozen=True, slots=True)
class Fenced:
    """What stands on the demo's cluster: the lease's holder (empty: free), and the objects that are fenced."""

    holder: str = ""
    suspended: tuple[str, ...] = ()
    cordoned: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: its status, and what it said; `errors` where its stderr was kept apart."""

    status: int
    lines: tuple[str, ...]
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stage:
    """The sandbox, and the ways to it. `kubectl`: None where there is none on this machine."""

    sandbox: Sandbox
    transport: Transport
    kubeconfig: Path
    environment: Mapping[str, str]
    kubectl: str | None
    clock: LateClock

    def run(self, command: Sequence[str], *, input_text: str = "", joined: bool = True) -> Ended:
        """Run a command to its end; its two streams are joined as on a terminal, unless they are wanted apart."""
        child = _start(command, self.environment, joined=joined)
        try:
            said, errors = child.communicate(input_text)
        finally:
            _end(child)
        return Ended(child.returncode, tuple(said.splitlines()), tuple((errors or "").splitlines()))

    def fencectl(self, *arguments: str, joined: bool = True) -> Ended:
        """Run this very program on the demo's cluster."""
        return self.run([*_PYTHON, "fencectl", *arguments], joined=joined)

    def look(self) -> FenceReport:
        """Read the cluster as `fences` does."""
        connection = resolve(str(self.kubeconfig), CONTEXT, {}, self.kubeconfig.parent)
        return subject_of(connection).look(self.transport, SystemClock()).report

    def fenced(self) -> Fenced:
        """Read the story's objects one by one, whatever marks they carry."""
        flux = {
            f"kustomization/{NAMESPACE}/{name}": self.read(
                f"/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/{NAMESPACE}/kustomizations/{name}"
            )
            for name in (PARENT, CHILD)
        }
        nodes = {f"node/{name}": self.read(f"/api/v1/nodes/{name}") for name in NODES}
        namespace, name = FENCECTL.lease
        lease = self.read(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}")
        marks = tuple(
            shown
            for shown, obj in (flux | nodes).items()
            if any(key in (dig(obj, "metadata", "annotations") or {}) for key in FENCECTL.node_keys)
        )
        return Fenced(
            holder=dig(lease, "spec", "holderIdentity") or "",
            suspended=tuple(shown for shown, obj in flux.items() if dig(obj, "spec", "suspend")),
            cordoned=tuple(shown for shown, obj in nodes.items() if dig(obj, "spec", "unschedulable")),
            marked=marks,
        )

    def read(self, path: str) -> Any:
        """Read one object; None where there is none."""
        answer = self.transport.get(path)
        return json.loads(answer.body) if answer.ok else None


class LateClock:
    """Keeps a sandbox's clock running some time behind ours, until it is turned on to the present."""

    def __init__(self, clock: SandboxClock, behind: timedelta) -> None:
        self._clock = clock
        self._behind = behind
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._ticking = threading.Thread(target=self._tick, name="demo-clock", daemon=True)

    def __enter__(self) -> Self:
        if self._clock.is_manual:
            self._ticking.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        if self._ticking.is_alive():
            self._ticking.join()

    def turn_on(self) -> float:
        """Turn the clock on to the present; return by how many seconds."""
        with self._lock:
            turned_by, self._behind = self._behind, timedelta()
        self._catch_up()
        return turned_by.total_seconds()

    def _tick(self) -> None:
        while not self._stop.wait(_TICK_S):
            self._catch_up()

    def _catch_up(self) -> None:
        with self._lock:
            late_s = (datetime.now(UTC) - self._behind - self._clock.now()).total_seconds()
            # NB: our own clock may be set back; the cluster's only goes on.
            if self._clock.is_manual and late_s > 0:
                self._clock.advance(late_s)


class Deployer:
    """
    A deploy of the demo in a process of its own.

    It ends with the `with` block at the latest: whatever becomes of the demo, no process of it stays.
    """

    def __init__(self, stage: Stage, *, behind_s: float = 0.0) -> None:
        command = [*_PYTHON, "fencectl.commands.demo_holder", "--behind", str(behind_s)]
        self._child = _start(command, stage.environment)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        _end(self._child)

    def begin(self) -> tuple[str, ...]:
        """Return what it says until it is at work, or all of it where it ends before that."""
        lines: list[str] = []
        assert self._child.stdout is not None  # noqa: S101  asked for a pipe
        for line in self._child.stdout:
            lines.append(line.rstrip("\n"))
            if AT_WORK in line:
                break
        return tuple(lines)

    def finish(self) -> Ended:
        """Let it end by itself, and return what it says on the way."""
        said, _ = self._child.communicate()
        return Ended(self._child.returncode, tuple(said.splitlines()))

    def kill(self) -> int:
        """Kill it as nothing can be caught, wait until it is gone, and return how it ended."""
        self._child.kill()
        return self._child.wait()


@contextmanager
def staged(*, behind: timedelta = timedelta(), environ: Mapping[str, str] | None = None) -> Iterator[Stage]:
    """Start a cluster with three nodes and two Kustomizations, whose clock is `behind` ours."""
    environ = os.environ if environ is None else environ
    interrupt = signal.getsignal(signal.SIGINT)
    with ExitStack() as after:
        after.callback(signal.signal, signal.SIGINT, interrupt)
        folder = Path(after.enter_context(TemporaryDirectory(prefix="fencectl-demo-")))
        sandbox = after.enter_context(Sandbox(manual_clock_at=datetime.now(UTC) - behind if behind else None))
        clock = after.enter_context(LateClock(sandbox.clock, behind))
        _furnish(sandbox)
        sandbox.flux.automatic()
        kubeconfig = _private(folder / "kubeconfig", sandbox.kubeconfig(context=CONTEXT))
        config = _private(folder / "fencectl.yaml", _OWN_CONFIG)
        transport = resolve(str(kubeconfig), CONTEXT, {}, folder).open()
        after.callback(transport.close)
        kubectl = find_kubectl(environ)
        # NB: the last one is called first: a second ctrl-c must not cut the clearing up short.
        after.callback(signal.signal, signal.SIGINT, signal.SIG_IGN)
        yield Stage(
            sandbox=sandbox,
            transport=transport,
            kubeconfig=kubeconfig,
            environment=_for_children(environ, kubeconfig=kubeconfig, config=config, kubectl=kubectl)
            | {SERVER: sandbox.url},
            kubectl=kubectl,
            clock=clock,
        )


def find_kubectl(environ: Mapping[str, str]) -> str | None:
    """Look for kubectl on the PATH, and beside this Python, where a virtual environment has it."""
    return shutil.which("kubectl", path=environ.get("PATH")) or shutil.which(
        "kubectl", path=str(Path(sys.executable).parent)
    )


# NB: `-P` keeps the current folder out of the import path; with it, `-m` would prefer what lies there.
_PYTHON = (sys.executable, "-P", "-m")


def _furnish(sandbox: Sandbox) -> None:
    for name in NODES:
        sandbox.store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": _READY})
    for name in (PARENT, CHILD):
        labels = {
            "kustomize.toolkit.fluxcd.io/name": PARENT,
            "kustomize.toolkit.fluxcd.io/namespace": NAMESPACE,
        }
        sandbox.store.create(
            {
                "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
                "kind": "Kustomization",
                "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels if name == CHILD else {}},
                "spec": {
                    "interval": "10m",
                    "prune": True,
                    "path": f"./{name}",
                    "sourceRef": {"kind": "GitRepository", "name": PARENT},
                },
            }
        )


def _private(path: Path, text: str) -> Path:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123  it is open already
        file.write(text)
    return path


def _for_children(
    environ: Mapping[str, str], *, kubeconfig: Path, config: Path, kubectl: str | None
) -> dict[str, str]:
    kept = {
        key: value
        for key, value in environ.items()
        if not key.startswith(_NOT_FOR_CHILDREN) and not key.lower().endswith("_proxy")
    }
    package = str(Path(fencectl.__file__).resolve().parent.parent)
    more_path = [str(Path(kubectl).parent)] if kubectl else []
    return kept | {
        "KUBECONFIG": str(kubeconfig),
        "KUBERC": "off",
        # NB: kubectl keeps its discovery cache and its preferences below HOME.
        "HOME": str(kubeconfig.parent),
        "FENCECTL_FENCES_CONFIG": str(config),
        "FENCECTL_RELEASE_CONFIG": str(config),
        "PATH": os.pathsep.join([*filter(None, [environ.get("PATH")]), *more_path]),
        # NB: with another HOME a child would not find what is installed below the user's.
        "PYTHONPATH": os.pathsep.join([package, *filter(None, sys.path)]),
        # What a child says is spelled for the terminal here, not there.
        "PYTHONIOENCODING": "utf-8",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }


def _start(
    command: Sequence[str], environment: Mapping[str, str], *, joined: bool = True
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if joined else subprocess.PIPE,
        encoding="utf-8",
        errors="backslashreplace",
        env=dict(environment),
        # NB: ctrl-c reaches every process of a terminal's foreground group; the story decides who ends when.
        start_new_session=True,
    )


def _end(child: subprocess.Popen[str]) -> None:
    """Kill a child and what it started, if it still runs, and close its pipes."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
    with child:
        child.wait()
