"""
What the demo plays on: a sandbox, a private folder with its kubeconfig, and child processes that see only these.

Nothing of the user's is read or touched: children get an environment of their own (kubeconfig, home, no
settings), and the folder is gone on every way out.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import fencectl
from fencectl.cluster.clock import SystemClock
from fencectl.cluster.kubeconfig import Connection, resolve
from fencectl.cluster.transport import Transport
from fencectl.commands.common import TargetSettings
from fencectl.commands.demo_process import BOUND_S, PROGRAM, Deployer, Ended, end, start
from fencectl.commands.reading import LOOK_DEADLINE_S, Subject
from fencectl.core.config import Settings
from fencectl.core.evidence import Verdict
from fencectl.core.profiles import FENCECTL
from fencectl.core.refs import dig
from fencectl.core.report import FenceReport
from fencectl.sandbox import Sandbox, SandboxClock

CONTEXT = "demo"
NAMESPACE = "flux-system"
PARENT, CHILD, NODE = "flux-system", "apps", "worker-2"
NODES = ("worker-1", NODE, "worker-3")
DEPLOY = ("deploy", "--suspend", f"kustomization/{NAMESPACE}/{CHILD}", "--node", NODE, "--")
"""The demo's deploy, up to the command that it runs."""
LONG_COMMAND = ("sleep", "600")
TURNED_BY = timedelta(minutes=2)
"""The cluster's clock is turned on by this, where one would have to wait until a heartbeat stands still."""
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
class Stage:
    """The sandbox, and the ways to it. `kubectl`: None where there is none on this machine."""

    sandbox: Sandbox
    transport: Transport
    kubeconfig: Path
    environment: Mapping[str, str]
    kubectl: str | None
    clock: StageClock

    def run(self, command: Sequence[str], *, input_text: str = "", joined: bool = True) -> Ended:
        """Run a command to its end; its two streams are joined as on a terminal, unless they are wanted apart."""
        child = start(command, self.environment, joined=joined)
        try:
            said, errors = child.communicate(input_text)
        finally:
            end(child)
        return Ended(child.returncode, tuple(said.splitlines()), tuple((errors or "").splitlines()))

    def fencectl(self, *arguments: str, joined: bool = True) -> Ended:
        """Run this very program on the demo's cluster."""
        return self.run([*PROGRAM, *arguments], joined=joined)

    def deploy(self, *command: str) -> Ended:
        """Run the demo's deploy to its end."""
        return self.fencectl(*DEPLOY, *command)

    def deployer(self) -> Deployer:
        """Start the demo's deploy with a command that does not end, so that there is time to kill it."""
        return Deployer([*DEPLOY, *LONG_COMMAND], self.environment)

    def look(self) -> FenceReport:
        """Read the cluster as `fences` does."""
        connection = resolve(str(self.kubeconfig), CONTEXT, {}, self.kubeconfig.parent)
        return subject_of(connection).look(self.transport, SystemClock()).report

    def look_at_the_dead(self) -> FenceReport:
        """Look until nothing that was killed is seen alive: a process closes its streams before it has ended."""
        end_s = time.monotonic() + BOUND_S
        while True:
            report = self.look()
            if not report.blocks_with(Verdict.LIVE) or time.monotonic() >= end_s:
                return report

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


class StageClock:
    """Keeps a sandbox's clock at ours, and ahead once it is turned on: what a deploy writes is by our clock."""

    def __init__(self, clock: SandboxClock) -> None:
        self._clock = clock
        self._ahead = timedelta()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._ticking = threading.Thread(target=self._tick, name="demo-clock", daemon=True)

    def __enter__(self) -> Self:
        self._ticking.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._ticking.join()

    def turn_on(self, by: timedelta = TURNED_BY) -> float:
        """Turn the clock on; return by how many seconds."""
        with self._lock:
            self._ahead += by
        self._go_on()
        return by.total_seconds()

    def _tick(self) -> None:
        while not self._stop.wait(_TICK_S):
            self._go_on()

    def _go_on(self) -> None:
        with self._lock:
            late_s = (datetime.now(UTC) + self._ahead - self._clock.now()).total_seconds()
            # NB: our own clock may be set back; the cluster's only goes on.
            if late_s > 0:
                self._clock.advance(late_s)


@contextmanager
def staged(*, environ: Mapping[str, str] | None = None) -> Iterator[Stage]:
    """Start a cluster with three nodes and two Kustomizations, of which one applies the other."""
    environ = os.environ if environ is None else environ
    interrupt = signal.getsignal(signal.SIGINT)
    with ExitStack() as after:
        after.callback(signal.signal, signal.SIGINT, interrupt)
        folder = Path(after.enter_context(TemporaryDirectory(prefix="fencectl-demo-")))
        sandbox = after.enter_context(Sandbox(manual_clock_at=datetime.now(UTC)))
        clock = after.enter_context(StageClock(sandbox.clock))
        _furnish(sandbox)
        sandbox.flux.automatic()
        kubeconfig = _private(folder / "kubeconfig", sandbox.kubeconfig(context=CONTEXT))
        config = _private(folder / "fencectl.yaml", _OWN_CONFIG)
        (folder / "tmp").mkdir(mode=0o700)
        transport = resolve(str(kubeconfig), CONTEXT, {}, folder).open()
        after.callback(transport.close)
        kubectl = find_kubectl(environ)
        # NB: the last one is called first: a second ctrl-c must not cut the clearing up short.
        after.callback(signal.signal, signal.SIGINT, signal.SIG_IGN)
        yield Stage(
            sandbox=sandbox,
            transport=transport,
            kubeconfig=kubeconfig,
            environment=_for_children(environ, kubeconfig=kubeconfig, config=config, kubectl=kubectl),
            kubectl=kubectl,
            clock=clock,
        )


def typed(*command: str) -> str:
    """The demo's deploy as one would type it."""
    return shlex.join(["fencectl", *DEPLOY, *command])


def subject_of(connection: Connection) -> Subject:
    """Read a cluster under the default names, whatever settings the user has."""
    target = TargetSettings(
        target=None,
        context=connection.context_flag,
        print_context=None,
        profile=FENCECTL,
        settings=Settings(),
        repository=None,
    )
    return Subject(target, connection, LOOK_DEADLINE_S, None)


def find_kubectl(environ: Mapping[str, str]) -> str | None:
    """Look for kubectl on the PATH, and beside this Python, where a virtual environment has it."""
    return shutil.which("kubectl", path=environ.get("PATH")) or shutil.which(
        "kubectl", path=str(Path(sys.executable).parent)
    )


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
    # NB: children do not run in the folder that a relative PATH is about.
    more_path = [str(Path(kubectl).absolute().parent)] if kubectl else []
    return kept | {
        "KUBECONFIG": str(kubeconfig),
        "KUBERC": "off",
        # NB: kubectl keeps its discovery cache and its preferences below HOME.
        "HOME": str(kubeconfig.parent),
        # NB: a killed deploy cannot take its private kubeconfig away.
        "TMPDIR": str(kubeconfig.parent / "tmp"),
        "FENCECTL_DEPLOY_CONFIG": str(config),
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
