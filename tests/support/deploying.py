"""
A deploy in this process: the real transaction on a sandbox without sockets, its time driven, its payload scripted.

What the transaction writes can be counted and struck one by one, so a test can break it at every step.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from fencectl.cluster.answer import Answer
from fencectl.cluster.kinds import ListedKind
from fencectl.cluster.ports import Query
from fencectl.core.config import AfterRollback
from fencectl.core.deploy import Adopted, DeployPlan
from fencectl.core.errors import ExitCode
from fencectl.core.journal import Journal, Phase
from fencectl.core.refs import ObjectRef
from fencectl.run.record import RecordBook
from fencectl.run.targets import find_nodes, find_suspensions
from fencectl.run.transaction import Deploy, Result, Stage
from fencectl.sandbox import Request, Sandbox
from tests.support.inprocess import START_AT, HandClock, SandboxDoor
from tests.support.objects import HOLDER, journal

KUSTOMIZATION = ListedKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations", namespaced=True)
LEASE = ("flux-system", "fencectl-deploy")
RECORD = ObjectRef("v1", "ConfigMap", "configmaps", "flux-system", "fencectl-deploy-record", "")
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/flux-system/leases/fencectl-deploy"
KS = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations"
FENCED = (f"{KS}/flux-system", f"{KS}/apps", "/api/v1/nodes/n1", "/api/v1/nodes/n2")


class KilledError(BaseException):
    """The process was killed: nothing that it would still do has any effect."""


@dataclass(slots=True)
class StruckDoor(SandboxDoor):
    """Counts the writes of the run, and lets `strike` act before and after the one with that number."""

    writes: int = 0
    killed: bool = False
    before: Callable[[int], None] = lambda _: None
    after: Callable[[int], None] = lambda _: None

    def get(self, path: str, **more: Any) -> Answer:
        if self.killed:
            raise KilledError
        return SandboxDoor.get(self, path, **more)

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes,
        content_type: str,
        deadline_s: float | None = None,
    ) -> Answer:
        if self.killed:
            raise KilledError
        self.writes += 1
        number = self.writes
        self.before(number)
        if self.killed:
            raise KilledError
        answer = SandboxDoor.send(self, method, path, query=query, body=body, content_type=content_type)
        self.after(number)
        if self.killed:
            raise KilledError
        return answer


@dataclass
class Scene:
    """A parent and its child, two nodes (one cordoned by somebody else), and a deploy that fences all of it."""

    holder: str = HOLDER
    payload: Callable[[], int] = lambda: 0
    told: list[tuple[int, str]] = field(default_factory=list)
    interrupted: threading.Event = field(default_factory=threading.Event)
    interrupt_code: ExitCode | None = None
    beside: Scene | None = None
    """Another deploy on the same cluster, at the same time."""
    bare: bool = False
    """Whether it takes only the lease."""
    adopt: tuple[Adopted, ...] = ()
    """What it takes over of what was kept before."""
    after_rollback: AfterRollback = AfterRollback.KEEP
    rolled: bool = False
    """Whether it rolls its nodes, by a node command that ends well; a pod on one of them is evicted."""
    certifies: int = 0
    """What the certify command `smoke` of a rolled node ends with."""

    def __post_init__(self) -> None:
        self.clock = HandClock(on_wait=self._wait)
        self.current: Deploy | None = None
        if self.beside is None:
            self.sandbox = Sandbox(manual_clock_at=START_AT, seed=1)
            self.sandbox.flux.automatic()
            self._make_objects()
        else:
            self.sandbox = self.beside.sandbox
        self.door = StruckDoor(self.sandbox, self.clock)
        self.before = self.state()

    def _make_objects(self) -> None:
        labels = {
            "kustomize.toolkit.fluxcd.io/name": "flux-system",
            "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
        }
        for name in ("flux-system", "apps"):
            self.sandbox.store.create(
                {
                    "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
                    "kind": "Kustomization",
                    "metadata": {
                        "name": name,
                        "namespace": "flux-system",
                        "labels": labels if name == "apps" else {},
                    },
                    "spec": {
                        "interval": "10m",
                        "prune": True,
                        "path": "./",
                        "sourceRef": {"kind": "GitRepository", "name": "x"},
                    },
                }
            )
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        for name, spec in (("n1", {}), ("n2", {"unschedulable": True})):
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec, "status": ready}
            self.sandbox.store.create(node)
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}
        self.sandbox.store.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "web-1", "namespace": "flux-system", "ownerReferences": [owner]},
                "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
                "status": {"phase": "Running"},
            }
        )

    def renew(self) -> bool:
        """Let the keeper renew once, as its thread would."""
        return bool(self.current is not None and self.current.keeper.renew())

    def _wait(self, seconds: float) -> None:
        self.sandbox.clock.advance(seconds)
        pod = self.sandbox.store.find("pods", "web-1", namespace="flux-system")
        if pod is not None and pod["metadata"].get("deletionTimestamp"):
            path = "/api/v1/namespaces/flux-system/pods/web-1"
            self.sandbox.handle(Request("DELETE", path, {"gracePeriodSeconds": "0"}, {}, b"", "admin"))

    def raw(self, path: str) -> Any:
        return self.sandbox.handle(Request("GET", path, {}, {}, b"", "admin")).json()

    def state(self) -> list[Any]:
        """What a deploy must give back: spec and annotations of everything that it fences."""
        found = []
        for path in FENCED:
            raw = self.raw(path)
            annotations = dict(raw["metadata"].get("annotations") or {})
            found.append((raw["spec"], annotations))
        return found

    def own(self) -> Journal:
        return replace(journal(holder=self.holder, at=self.clock.wall()), lease=None, phase=Phase.HELD)

    def plan(self) -> DeployPlan:
        if self.bare:
            return DeployPlan(lease=LEASE, command=("upgrade",))
        quiet = SandboxDoor(self.sandbox, self.clock)
        suspensions = find_suspensions(
            quiet, [("kustomization", "flux-system", "apps")], [KUSTOMIZATION], self.own(), adopt=self.adopt
        )
        nodes = find_nodes(quiet, ["n1", "n2"], self.own()).objects
        return DeployPlan(
            lease=LEASE,
            command=("upgrade",),
            suspend=suspensions.objects,
            added=suspensions.added,
            nodes=nodes,
            node_command=("upgrade-node",) if self.rolled else (),
            adopt=self.adopt,
            after_rollback=self.after_rollback,
        )

    def stage(self, *, read_again: Callable[[str], None] = lambda _: None) -> Stage:
        return Stage(
            door=self.door,
            keeper_door=self.door,
            clock=self.clock,
            threads=OneAtATime(),
            book=RecordBook(self.door, self.clock, RECORD, "deploy", "prod"),
            environ={},
            interrupted=self.interrupted,
            interrupt_code=lambda: self.interrupt_code,
            read_again=read_again,
            tell=lambda step, text: self.told.append((step, text)),
            processes=Scripted(self),
        )

    def deploy(self, **more: Any) -> Result | None:
        """Run it; None where it was killed."""
        self.current = Deploy(self.stage(**more), self.plan(), self.own())
        try:
            return self.current.run()
        except KilledError:
            return None


@dataclass(frozen=True, slots=True)
class Scripted:
    """
    Instead of the command: the scene's payload, which runs when it is first looked at, and gives its exit code.

    A node command ends well after a moment.
    """

    scene: Scene

    def start(self, command: Sequence[str], environ: Mapping[str, str]) -> ScriptedProcess:
        if self.scene.door.killed:
            raise KilledError
        is_for_a_node = "FENCECTL_NODE" in environ
        ends_with = self.scene.certifies if is_for_a_node and command[0] == "smoke" else 0
        return ScriptedProcess(self.scene, looks=1 if is_for_a_node else 0, ends_with=ends_with)


@dataclass(slots=True)
class ScriptedProcess:
    """A command that has ended when it was looked at so many times: with that code, or the payload's."""

    scene: Scene
    looks: int
    ends_with: int = 0
    code: int | None = None
    group: int = 4711

    def poll(self) -> int | None:
        if self.looks:
            self.looks, self.code = 0, self.ends_with
            return None
        if self.code is None:
            self.code = self.scene.payload()
        return self.code

    def wait(self) -> int:
        return self.code or 0

    def signal(self, number: signal.Signals) -> None:
        return None

    def group_lives(self) -> bool:
        return False


class OneAtATime:
    """Threads of the unwinding run one after the other; the keeper's does not run at all: time stands still."""

    def start(self, work: Callable[[], None], *, name: str) -> Any:
        if name.startswith("release"):
            with suppress(KilledError):
                work()
        return _Ended()


class _Ended:
    def join(self, timeout: float | None = None) -> None:
        return None

    def is_alive(self) -> bool:
        return False


@cache
def undisturbed_writes(*, rolled: bool = False) -> tuple[str, ...]:
    """The path of each write of a deploy that nothing disturbs, in order."""
    scene = Scene(rolled=rolled)
    found: list[str] = []
    scene.door.after = lambda _: found.append(scene.door.sent[-1][1])
    result = scene.deploy()
    assert result is not None
    assert result.code is ExitCode.OK
    return tuple(found)
