"""
Rollouts on a real API server with the real controllers: a kubelet that plays what a pod's label asks for.

Label `does`: `ready`; `crash`, a crash loop; `fail`, the container ends with 3 for good; `crash-1`, a crash loop in
the pod whose name ends in `-1`; `image-NODE`, an image that cannot be pulled there; `nothing`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from fencectl.cluster.clock import SystemClock
from fencectl.cluster.kubeconfig import resolve
from fencectl.core.refs import ObjectRef
from fencectl.core.rollout import Followed, Target
from fencectl.run.follow import Follower
from tests.support.clusters import NODES, Cluster, Raw, expect
from tests.support.kubelet import Kubelet, running, waiting
from tests.support.rawhttp import STRATEGIC_MERGE_PATCH
from tests.support.realcluster import RealCluster

APPS = "/apis/apps/v1"
NOT_READY = "node.kubernetes.io/not-ready"
ENDED = {
    "exitCode": 3,
    "reason": "Error",
    "startedAt": "2026-11-30T02:00:00Z",
    "finishedAt": "2026-11-30T02:00:04Z",
}


class HastyClock:
    """The clock of this machine, so many times as fast: graces of half a minute need not be waited out."""

    def __init__(self, times: float) -> None:
        self._times = times
        self._clock = SystemClock()

    def wall(self) -> datetime:
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        return self._clock.monotonic_s() * self._times

    def wait(self, event: threading.Event | None, timeout_s: float) -> bool:
        return self._clock.wait(event, timeout_s / self._times)


class LabelledKubelet(Kubelet):
    """Plays what labels ask for; spreads pods over the nodes that take them."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.schedules = True
        self.reserved: set[str] = set()  # nodes for DaemonSets only

    def _tend(self, pod: Raw) -> None:
        meta, phase = pod["metadata"], pod["status"].get("phase")
        wanted = _played(pod)
        if meta.get("deletionTimestamp") or wanted is None:
            super()._tend(pod)
        elif phase in (None, "Pending") and pod["status"].get("containerStatuses") is None:
            self.write(meta["namespace"], meta["name"], wanted)

    def _schedule(self) -> None:
        nodes = [self.node(name) for name in self.nodes if name not in self.silent]
        free = [
            one["metadata"]["name"]
            for one in nodes
            if not one["spec"].get("unschedulable") and one["metadata"]["name"] not in self.reserved
        ]
        for pod in self.cluster.get("/api/v1/pods", fieldSelector="spec.nodeName=")["items"]:
            namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
            taken = {
                one["spec"].get("nodeName")
                for one in self.cluster.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
            }
            chosen = _named(pod) or next((node for node in free if node not in taken), free[0])
            body = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name},
                "target": {"apiVersion": "v1", "kind": "Node", "name": chosen},
            }
            path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
            answer = self.cluster.request("POST", path, body=body)
            assert answer.status in (201, 404), answer.text

    # NB: controllers delete pods whenever they like; what a kubelet says about such a one nobody hears.

    def write(self, namespace: str, name: str, status: Raw) -> Raw:
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
        body = {"status": status}
        answer = self.cluster.request("PATCH", path, body=body, content_type=STRATEGIC_MERGE_PATCH)
        return {} if answer.status == 404 else expect(answer, 200)


def _named(pod: Raw) -> str | None:
    from tests.support.kubelet import _named_node

    return _named_node(pod)


def _played(pod: Raw) -> Raw | None:
    """Give the status that a pod's label asks for; None: as any other kubelet would."""
    does = pod["metadata"].get("labels", {}).get("does", "ready")
    node = pod["spec"].get("nodeName")
    if does == "ready":
        return None
    if does == "nothing":
        return {"phase": "Pending"}
    if does == "fail":
        status = {
            "name": "c",
            "image": "i",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": ENDED},
        }
        return {"phase": "Failed", "containerStatuses": [status]}
    if does == "crash" or (does == "crash-1" and pod["metadata"]["name"].endswith("-1")):
        looping = waiting("CrashLoopBackOff", restarts=4)
        looping["containerStatuses"][0]["lastState"] = {"terminated": ENDED}
        return looping
    if does == f"image-{node}":
        return waiting("ImagePullBackOff")
    return running()


@dataclass
class Played:
    """What came of one follow. `told`: with the seconds, of the machine's clock, since it began."""

    followed: Followed
    told: list[tuple[float, str]]
    took_s: float

    def second_of(self, text: str) -> float:
        """When something was said for the first time."""
        return next(at for at, said in self.told if text in said)

    @property
    def said(self) -> list[str]:
        return [text for _, text in self.told]


class Follow(Protocol):
    """Follows one target; `on_tell` is called with all that is told meanwhile."""

    def __call__(
        self, target: Target, on_tell: Callable[[str], None] | None = None, *, timeout_s: float = 600.0
    ) -> Played: ...


@dataclass
class Theatre:
    """A cluster with controllers, nodes and a kubelet that plays; follows run beside each other."""

    real: RealCluster
    folder: Path
    times: float
    kubelet: LabelledKubelet = field(init=False)
    played: dict[str, Played] = field(default_factory=dict)
    _asked: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _errors: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cluster = self._handle()
        self.cluster.kubeconfig_file()  # written once, before there are threads
        self.kubelet = LabelledKubelet(self._handle())

    def _handle(self) -> Cluster:
        # NB: one for each thread: a handle keeps one connection per user.
        return Cluster("real", self.real, self.folder)

    def begin(self) -> None:
        """Let the kubelet play until `end`."""
        self._run(self._play)

    def _play(self) -> None:
        while not self._stop.is_set():
            self.kubelet.step()
            self._stop.wait(0.1)

    def end(self) -> None:
        """Wait for all follows, then stop the kubelet; raises what went wrong in any of them."""
        kubelet, *others = self._threads
        for thread in others:
            thread.join()
        self._stop.set()
        kubelet.join()
        if self._errors:
            raise self._errors[0]

    def _must_stop(self) -> str | None:
        return "something else on the stage went wrong" if self._errors else None

    def _run(self, work: Callable[[], Any]) -> None:
        def guarded() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 (raised by `end`)
                self._errors.append(error)

        thread = threading.Thread(target=guarded)
        self._threads.append(thread)
        thread.start()

    def lose(self, cluster: Cluster, node: str, *, after: int) -> None:
        """Let a node go down once so many scenes ask for it: its kubelet falls silent, and the controllers notice."""
        with self._lock:
            self._asked += 1
            if self._asked == after:
                self.kubelet.silent.add(node)
                Kubelet(cluster).say_ready(node, ready=False, reason="NodeStatusUnknown")
        until(
            lambda: any(
                one["key"] == NOT_READY for one in cluster.get(f"{NODES}/{node}")["spec"].get("taints", [])
            )
        )

    def scene(self, name: str, play: Callable[[Cluster, Follow, Theatre], Played]) -> None:
        """Play one scene in a thread of its own: it makes its objects and follows them."""

        def work() -> None:
            self.played[name] = play(self._handle(), self._follow, self)

        self._run(work)

    def _follow(
        self, target: Target, on_tell: Callable[[str], None] | None = None, *, timeout_s: float = 600.0
    ) -> Played:
        began_s = time.monotonic()
        told: list[tuple[float, str]] = []

        def tell(text: str) -> None:
            told.append((time.monotonic() - began_s, text))
            if on_tell is not None:
                on_tell(text)

        connection = resolve(str(self.cluster.kubeconfig_file()), None, {}, Path("/nonexistent"))
        with connection.open() as transport:
            clock = HastyClock(self.times)
            found = Follower(transport, clock, tell, self._must_stop).follow([target], timeout_s)
        return Played(found, told, time.monotonic() - began_s)


def workload(kind: str, name: str, does: str, **spec: Any) -> Raw:
    """Give a workload whose pods do what is asked for."""
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels | {"does": does}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    body: Raw = {"selector": {"matchLabels": labels}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body}


def make(cluster: Cluster, plural: str, raw: Raw, *, namespace: str) -> Target:
    """Create an object, and name it as a deploy does."""
    path = f"/apis/{raw['apiVersion']}/namespaces/{namespace}/{plural}"
    return target_of(cluster.create(path, raw), plural)


def target_of(made: Raw, plural: str) -> Target:
    meta = made["metadata"]
    ref = ObjectRef(made["apiVersion"], made["kind"], plural, meta["namespace"], meta["name"], meta["uid"])
    return Target(ref, meta["generation"], made=made)


def change(cluster: Cluster, target: Target, patch: Raw) -> Target:
    """Change an object, and name it in its new state."""
    answer = cluster.merge_patch(target.ref.path, patch)
    return target_of(expect(answer, 200), target.ref.plural)


def until(condition: Callable[[], Any], *, within_s: float = 60.0) -> None:
    """Wait for something that the controllers do."""
    end_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end_s, "the controllers did not do it"
        threading.Event().wait(0.05)
