"""A roll of nodes on either cluster under a clock that a test moves: lease, keeper, fencer and a scripted kubelet."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fencectl.cluster.kubeconfig import resolve
from fencectl.cluster.write import create
from fencectl.core.answers import Applied
from fencectl.core.journal import Journal, Phase
from fencectl.core.lease import LeaseTerms, new_lease
from fencectl.core.marks import Mark, read_mark
from fencectl.core.refs import ObjectRef, Seen
from fencectl.run.fencing import Fencer, Ledger
from fencectl.run.keeper import Keeper
from fencectl.run.nodes import NodeRoller
from fencectl.run.payload import SystemProcesses
from fencectl.run.ports import Door
from tests.support.clusters import NODES, POLICY, Cluster, Raw, ensure_namespace, make_namespace
from tests.support.inprocess import HandClock, SandboxDoor
from tests.support.kubelet import Kubelet, owned_by
from tests.support.objects import HOLDER, journal

REPLICAS = owned_by("ReplicaSet", "web")


@dataclass
class Rolling:
    """
    What a test of a roll needs.

    `told`: what was said, a node and a text; `said_at_s`: when a text was first said. `each_s`: called about once a second of the moved clock, after the
    kubelet; `stop`: the reason to stop, once a test sets one.
    """

    cluster: Cluster
    door: Door
    clock: HandClock
    kubelet: Kubelet
    namespace: str
    keeper: Keeper
    ledger: Ledger = field(default_factory=Ledger)
    told: list[tuple[str, str]] = field(default_factory=list)
    each_s: list[Callable[[], object]] = field(default_factory=list)
    stop: str | None = None
    said_at_s: dict[str, float] = field(default_factory=dict)
    _seq: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _next_s: float = 0.0

    def roller(self, *command: str, **more: Any) -> NodeRoller:
        """Give a roller; without a command nodes are only claimed."""
        settings: dict[str, Any] = {
            "environ": dict(os.environ),
            "processes": SystemProcesses(),
            "drain_timeout_s": 120,
            "node_timeout_s": 600,
        }
        return NodeRoller(
            self.door,
            self.clock,
            Fencer(self.door, self.clock, self.keeper, self.ledger),
            self.keeper,
            self.ledger,
            journal_for=self._journal,
            command=command or None,
            must_stop=lambda: self.stop,
            tell=self._tell,
            **(settings | more),
        )

    def _tell(self, node: str, text: str) -> None:
        self.told.append((node, text))
        self.said_at_s.setdefault(text, self.clock.boot_s)

    def _journal(self) -> Journal:
        return journal(seq=next(self._seq), rank=1000)

    def ref(self, node: Raw | str) -> ObjectRef:
        """Name a node as the transaction does after it has read it."""
        raw = self.kubelet.node(node) if isinstance(node, str) else node
        return ObjectRef("v1", "Node", "nodes", None, raw["metadata"]["name"], raw["metadata"]["uid"])

    def mark(self, node: ObjectRef) -> Mark | None:
        return read_mark(Seen(node, self.kubelet.node(node.name)))

    def phase(self, node: ObjectRef) -> Phase | None:
        mark = self.mark(node)
        return None if mark is None or mark.journal is None else mark.journal.phase

    def is_cordoned(self, node: ObjectRef) -> bool:
        return self.kubelet.node(node.name)["spec"].get("unschedulable", False) is True

    def pod(self, name: str, node: ObjectRef, **more: Any) -> Raw:
        return self.kubelet.pod(self.namespace, name, node=node.name, **{"owner": REPLICAS, **more})

    def pods(self, node: ObjectRef) -> set[str]:
        return {pod["metadata"]["name"] for pod in self.kubelet.pods_on(node.name)}

    def budget(self, name: str = "web", *, allowed: int, healthy: int = 2) -> None:
        """Create or change a disruption budget over all pods, with what its controller would compute."""
        budgets = f"{POLICY}/namespaces/{self.namespace}/poddisruptionbudgets"
        if self.cluster.request("GET", f"{budgets}/{name}").status == 404:
            body: Raw = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}}
            body["spec"] = {"minAvailable": 2, "selector": {"matchLabels": {"app": "a"}}}
            self.cluster.create(budgets, body)
        status = {
            "observedGeneration": 1,
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": 2,
            "expectedPods": 2,
        }
        answer = self.cluster.merge_patch(f"{budgets}/{name}/status", {"status": status})
        assert answer.status == 200, answer.text

    def texts(self, node: ObjectRef | None = None) -> list[str]:
        return [text for name, text in self.told if node is None or name == node.display]

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        """Do something once, so many seconds of the moved clock from now."""
        due_s = self.clock.boot_s + seconds
        self.when(lambda: self.clock.boot_s >= due_s, action)

    def when(self, condition: Callable[[], object], action: Callable[[], object]) -> None:
        """Do something once, as soon as a condition holds."""

        def look() -> None:
            if condition():
                self.each_s.remove(look)
                action()

        self.each_s.append(look)

    def patch_node(self, node: ObjectRef, patch: Raw, *, manager: str = "kubectl-patch") -> None:
        answer = self.cluster.merge_patch(f"{NODES}/{node.name}", patch, manager=manager)
        assert answer.status == 200, answer.text

    def delete_node(self, node: ObjectRef) -> None:
        self.cluster.request("DELETE", f"{NODES}/{node.name}")

    def pass_time(self, _waited_s: float) -> None:
        """Do what happens while the roll waits. A real command gets a moment of real time."""
        if any(text == "its node command runs" for _, text in self.told):
            time.sleep(0.002)
        if self.keeper.held_for_s() < 15:
            self.keeper.renew()
        if self.clock.boot_s < self._next_s:
            return
        self._next_s = self.clock.boot_s + 1.0
        self.kubelet.step()
        for action in list(self.each_s):
            action()


@contextmanager
def rolling(cluster: Cluster) -> Iterator[Rolling]:
    """Take a lease on a cluster, and give what a roll needs."""
    clock = HandClock()
    if cluster.name == "sandbox":
        door: Door = SandboxDoor(cluster.sandbox, clock)
        yield _begin(cluster, door, clock)
        return
    connection = resolve(str(cluster.kubeconfig_file()), None, {}, Path("/nonexistent"))
    with connection.open() as transport:
        yield _begin(cluster, transport, clock)


def _begin(cluster: Cluster, door: Door, clock: HandClock) -> Rolling:
    namespace = make_namespace(cluster)
    ensure_namespace(cluster, "kube-node-lease")
    terms = LeaseTerms(HOLDER, 30, clock.wall(), journal(phase=Phase.HELD))
    collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    made = create(door, collection, new_lease(namespace, "fencectl-deploy", terms))
    assert isinstance(made, Applied)
    lease = Seen(
        ObjectRef(
            "coordination.k8s.io/v1",
            "Lease",
            "leases",
            namespace,
            "fencectl-deploy",
            made.raw["metadata"]["uid"],
        ),
        made.raw,
    )
    keeper = Keeper(door, clock, lease, holder=HOLDER, duration_s=30, sent_s=clock.boot_s, sent_at=clock.at)
    stage = Rolling(cluster, door, clock, Kubelet(cluster), namespace, keeper)
    clock.on_wait = stage.pass_time
    return stage
