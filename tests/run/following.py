"""A follow on a sandbox under a clock that a test moves: what the cluster does is scripted by seconds of the follow."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fencectl.cluster.answer import Answer
from fencectl.cluster.ports import Query
from fencectl.cluster.watching import StreamRefused
from fencectl.core.refs import ObjectRef
from fencectl.core.rollout import Followed, Result, Target
from fencectl.run.follow import Follower
from fencectl.sandbox import Sandbox
from tests.support.clusters import NODES, Cluster, Raw, ensure_namespace, expect, make_node
from tests.support.inprocess import HandClock, SandboxDoor

NAMESPACE = "shop"
AT = "2026-11-30T02:00:00Z"
PLURALS = {
    "Deployment": ("apps/v1", "deployments"), "StatefulSet": ("apps/v1", "statefulsets"),
    "DaemonSet": ("apps/v1", "daemonsets"), "Job": ("batch/v1", "jobs"), "Pod": ("v1", "pods"),
    "ReplicaSet": ("apps/v1", "replicasets"), "Secret": ("v1", "secrets"), "ConfigMap": ("v1", "configmaps"),
    "HelmRelease": ("helm.toolkit.fluxcd.io/v2", "helmreleases"),
    "Kustomization": ("kustomize.toolkit.fluxcd.io/v1", "kustomizations"), "Event": ("v1", "events"),
}  # fmt: skip
TEMPLATE: Raw = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "app", "image": "app:2"}]},
}


@dataclass(slots=True)
class EagerClock(HandClock):
    """Moves only where the real one would wait: not for an event that is set already."""

    def wait(self, event: threading.Event | None, timeout_s: float) -> bool:
        # NB: no `super()`, which finds no class in one with slots.
        return (event is not None and event.is_set()) or HandClock.wait(self, event, timeout_s)


class InlineThread:
    """A thread that has ended."""

    def join(self, timeout: float | None = None) -> None: ...

    def is_alive(self) -> bool:
        return False


class InlineThreads:
    """Work is done by whoever begins it, so that nothing runs beside a test."""

    def start(self, work: Callable[[], None], *, name: str) -> InlineThread:
        work()
        return InlineThread()


@dataclass(slots=True)
class FollowDoor(SandboxDoor):
    """
    A door that keeps what was asked, and when.

    `watch`: gives the lines of a watch for its query, or raises; without it nothing can be watched.
    """

    asked: list[tuple[float, str, dict[str, str], str]] = field(default_factory=list)
    watch: Callable[[str, dict[str, str]], Iterator[bytes]] | None = None

    def get(
        self,
        path: str,
        *,
        query: Query | None = None,
        accept: str = "application/json",
        deadline_s: float | None = None,
    ) -> Answer:
        given = {key: str(value) for key, value in (query or {}).items()}
        self.asked.append((self.clock.boot_s, path, given, accept))
        return self._exchange("GET", path, query, {"accept": accept}, b"", may_be_lost=False)

    def stream(
        self, path: str, *, query: Query | None = None, accept: str = "application/json", idle_s: float = 60.0
    ) -> Any:
        if self.watch is None:
            raise StreamRefused(Answer(405, {}, b"", None, 0.0, 0.0), context="sandbox", path=path)
        return Stream(self.watch(path, {key: str(value) for key, value in (query or {}).items()}))


class Stream:
    """Scripted lines with a `close`."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines

    def __iter__(self) -> Iterator[bytes]:
        return self._lines

    def close(self) -> None: ...


@dataclass
class Stage:
    """What a test of a follow needs; `told`: what was said, with the second of the follow."""

    cluster: Cluster
    clock: HandClock
    door: FollowDoor
    told: list[tuple[float, str]] = field(default_factory=list)
    stop: str | None = None
    _due: list[tuple[float, Callable[[], object]]] = field(default_factory=list)
    _start_s: float = 1000.0

    @property
    def sandbox(self) -> Sandbox:
        return self.cluster.sandbox

    @property
    def second(self) -> float:
        return self.clock.boot_s - self._start_s

    def at(self, second: float, action: Callable[[], object]) -> None:
        """Do something in this second of the follow."""
        self._due.append((second, action))

    def pass_time(self, _waited_s: float) -> None:
        for due in sorted(self._due, key=lambda one: one[0]):
            if due[0] <= self.second:
                self._due.remove(due)
                due[1]()

    def path(self, kind: str, name: str = "") -> str:
        api, plural = PLURALS[kind]
        root = f"/apis/{api}" if "/" in api else f"/api/{api}"
        return f"{root}/namespaces/{NAMESPACE}/{plural}" + (f"/{name}" if name else "")

    def make(self, kind: str, name: str, spec: Raw | None = None, status: Raw | None = None, **more: Any) -> Raw:
        """Create an object, with a status. `more`: fields of its metadata, or `data`."""
        raw: Raw = {"apiVersion": PLURALS[kind][0], "kind": kind}
        raw |= {key: more.pop(key) for key in ("data", "type", "involvedObject", "reason", "message", "lastTimestamp", "count") if key in more}  # fmt: skip
        raw["metadata"] = {"name": name, **more}
        if spec is not None:
            raw["spec"] = spec
        made = expect(
            self.cluster.request("POST", self.path(kind), body=raw, query={"fieldManager": "fencectl"}), 201
        )
        return made if status is None else self.write(kind, name, **status)

    def write(self, kind: str, name: str, **status: Any) -> Raw:
        """Change the status of an object; None takes a field away."""
        answer = self.cluster.merge_patch(f"{self.path(kind, name)}/status", {"status": status})
        assert answer.status == 200, answer.text
        found: Raw = answer.json()
        return found

    def change(self, kind: str, name: str, patch: Raw, *, manager: str = "kubectl-edit") -> Raw:
        answer = self.cluster.merge_patch(self.path(kind, name), patch, manager=manager)
        assert answer.status == 200, answer.text
        found: Raw = answer.json()
        return found

    def delete(self, kind: str, name: str) -> None:
        assert self.cluster.request("DELETE", self.path(kind, name), query={"gracePeriodSeconds": 0}).status in (
            200,
            202,
        )

    def target(self, kind: str, name: str, **more: Any) -> Target:
        """Name an object as a deploy does that has just written it; one that is not there has a generation of 1."""
        answer = self.cluster.request("GET", self.path(kind, name))
        meta: Raw = answer.json()["metadata"] if answer.status == 200 else {"uid": "", "generation": 1}
        api, plural = PLURALS[kind]
        return Target(ObjectRef(api, kind, plural, NAMESPACE, name, meta["uid"]), meta.get("generation"), **more)

    def deployment(self, name: str = "web", *, replicas: int = 1, available: int | None = None) -> Target:
        """Create a Deployment of which so many replicas are available; None: without a status."""
        labels = {"matchLabels": {"app": "web"}}
        self.make("Deployment", name, {"replicas": replicas, "selector": labels, "template": TEMPLATE})
        if available is not None:
            self.available(available, name, replicas=replicas)
        return self.target("Deployment", name)

    def available(self, number: int, name: str = "web", *, replicas: int = 1, generation: int = 1) -> None:
        """Write the status of a Deployment whose replicas are all updated."""
        at = "2026-11-30T02:00:00Z"
        found = [{"type": "Available", "status": "True" if number else "False", "lastTransitionTime": at}]
        counts = dict.fromkeys(("replicas", "updatedReplicas"), replicas)
        self.write("Deployment", name, observedGeneration=generation, readyReplicas=number, availableReplicas=number, conditions=found, **counts)  # fmt: skip

    def node(self, name: str, *, ready: bool = True) -> None:
        """Create a node, or change whether it is Ready."""
        if self.cluster.request("GET", f"{NODES}/{name}").status == 404:
            make_node(self.cluster, name)
        said = {"status": "True"} if ready else {"status": "Unknown", "reason": "NodeStatusUnknown"}
        condition = {"type": "Ready", "lastHeartbeatTime": AT, "lastTransitionTime": AT, **said}
        answer = self.cluster.merge_patch(f"{NODES}/{name}/status", {"status": {"conditions": [condition]}})
        assert answer.status == 200, answer.text

    def pod(
        self, name: str, owner: Raw, status: Raw, *, node: str | None = "n1", log: str = "", **labels: Any
    ) -> Raw:
        """Create a pod that an object owns, on a node that is Ready unless a test has made another."""
        if node and self.cluster.request("GET", f"{NODES}/{node}").status == 404:
            self.node(node)
        reference = {key: owner[key] for key in ("apiVersion", "kind")}
        reference |= {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": True}
        spec: Raw = {"containers": [{"name": "app", "image": "app:2"}]} | ({"nodeName": node} if node else {})
        notes = {"sandbox/log": log} if log else {}
        return self.make("Pod", name, spec, status, ownerReferences=[reference], labels=labels, annotations=notes)

    def replica_set(self, deployment: str, revision: str = "1") -> Raw:
        """Create the newest ReplicaSet of a Deployment."""
        key = "deployment.kubernetes.io/revision"
        owner = self.cluster.get(self.path("Deployment", deployment))
        # NB: annotations are no part of the generation.
        self.cluster.merge_patch(
            self.path("Deployment", deployment), {"metadata": {"annotations": {key: revision}}}
        )
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment, "uid": owner["metadata"]["uid"], "controller": True}  # fmt: skip
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
        return self.make("ReplicaSet", f"{deployment}-{revision}", spec, ownerReferences=[reference], annotations={key: revision})  # fmt: skip

    def follow(self, *targets: Target, timeout_s: float = 600.0) -> Followed:
        """Follow from now on."""
        self._start_s = self.clock.boot_s
        follower = Follower(self.door, self.clock, self._tell, lambda: self.stop, InlineThreads())
        return follower.follow(targets, timeout_s)

    def follow_one(self, target: Target, *, timeout_s: float = 600.0) -> Result:
        [result] = self.follow(target, timeout_s=timeout_s).results
        return result

    def _tell(self, text: str) -> None:
        self.told.append((round(self.second, 1), text))

    def said(self) -> list[str]:
        return [text for _, text in self.told]

    def lists(self, kind: str) -> list[float]:
        """The seconds of the follow in which a list of this kind was read."""
        return [round(at - self._start_s, 1) for at, path, _, _ in self.door.asked if path == self.path(kind)]


def stage_on(cluster: Cluster) -> Stage:
    """Set a stage on a sandbox."""
    clock = EagerClock()
    stage = Stage(cluster, clock, FollowDoor(cluster.sandbox, clock))
    clock.on_wait = stage.pass_time
    ensure_namespace(cluster, NAMESPACE)
    return stage
