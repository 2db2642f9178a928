"""
The drain of a claimed node on both clusters: what goes, what holds it back, and what may go wrong on the way.

Aspects: which pods · refused before anything is evicted · budgets · throttling · lost answers · pods that never end,
come late or come anew · rights · time · interrupts · the fence changed by somebody else.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from fencectl.core.errors import ExitCode, NotReadableError
from fencectl.core.journal import Phase
from fencectl.core.refs import ObjectRef
from fencectl.run.fencing import Fence
from fencectl.run.keeper import LeaseLostError
from fencectl.run.nodes import NodeError, RollStoppedError
from fencectl.run.story import WRITE_S
from tests.support.clusters import Cluster
from tests.support.inprocess import SandboxDoor
from tests.support.kubelet import owned_by, running
from tests.support.rolling import Rolling, rolling

TRUE = (sys.executable, "-c", "pass")


@pytest.fixture
def stage(cluster: Cluster) -> Iterator[Rolling]:
    with rolling(cluster) as stage:
        yield stage


@pytest.fixture
def boxed(sandbox_cluster: Cluster) -> Iterator[Rolling]:
    """Give a roll on the sandbox, for what can only be scripted there."""
    with rolling(sandbox_cluster) as stage:
        yield stage


def evictions(stage: Rolling) -> list[tuple[str, str]]:
    """Give the pods for which evictions were sent on the sandbox, with the uid that each asked for."""
    assert isinstance(stage.door, SandboxDoor)
    sent = [(path, json.loads(body)) for _, path, body in stage.door.sent if path.endswith("/eviction")]
    return [(path.split("/")[-2], body["deleteOptions"]["preconditions"]["uid"]) for path, body in sent]


def make_daemon_set(stage: Rolling, name: str) -> None:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name}, "spec": spec}
    stage.cluster.create(f"/apis/apps/v1/namespaces/{stage.namespace}/daemonsets", body)


def fails_to_drain(stage: Rolling, node: ObjectRef, **more: float) -> NodeError:
    """Roll a node that cannot be drained; its fence stays claimed, so it can be released."""
    with pytest.raises(NodeError) as raised:
        stage.roller(*TRUE, **more).roll(node)
    assert [fence.journal.phase for fence in stage.ledger.fences] == [Phase.CLAIMED]
    assert "its node command runs" not in stage.texts()
    return raised.value


def test_case_54_cordon_stops_no_daemon_set_pod(stage: Rolling) -> None:
    """A drain leaves it, with its data; static pods too; finished pods and those of controllers go."""
    node = stage.ref(stage.kubelet.join())
    make_daemon_set(stage, "agent")
    stage.pod("daemon", node, owner=owned_by("DaemonSet", "agent"), volumes=[{"name": "v", "emptyDir": {}}])
    stage.pod("static", node, annotations={"kubernetes.io/config.mirror": "x"})
    stage.pod("web", node)
    stage.pod("done", node, owner=None, status={"phase": "Succeeded"})
    stage.pod("starting", node, status={"phase": "Pending"})

    stage.roller(*TRUE).roll(node)

    assert stage.pods(node) == {"daemon", "static"}
    assert stage.texts(node)[1] == "draining, 3 pods left"


def test_pods_that_would_be_lost_refuse_the_drain_and_nothing_is_evicted(stage: Rolling) -> None:
    """All of them are named at once."""
    node = stage.ref(stage.kubelet.join())
    stage.pod("web", node)
    stage.pod("alone", node, owner=None)
    stage.pod("data", node, volumes=[{"name": "v", "emptyDir": {}}])
    stage.pod("orphan", node, owner=owned_by("DaemonSet", "gone"))

    error = fails_to_drain(stage, node)

    assert error.sentence == f"{node.display} cannot be drained because of 3 pods"
    for name, why in (("alone", "no controller"), ("data", "emptyDir"), ("orphan", "its DaemonSet gone is gone")):
        assert f"{stage.namespace}/{name}: " in (error.reason or "")
        assert why in (error.reason or "")
    assert (error.hint or "").endswith("Nothing was evicted")
    assert error.exit_code is ExitCode.FAILED_PREVIOUS_RUNS
    assert stage.pods(node) == {"web", "alone", "data", "orphan"}


def test_budget_that_blocks_is_said_once_and_waited_for(stage: Rolling) -> None:
    """Which one, which pods, and the numbers; it is freed in the middle, and the drain goes on."""
    node = stage.ref(stage.kubelet.join())
    stage.pod("web-1", node)
    stage.pod("web-2", node)
    stage.budget(allowed=0)
    stage.after(12, lambda: stage.budget(allowed=2, healthy=4))

    stage.roller(*TRUE).roll(node)

    told = [text for text in stage.texts(node) if "budget" in text]
    space = stage.namespace
    assert told == [
        f"disruption budget {space}/web holds back {space}/web-1, {space}/web-2: needs 2 healthy pods and has 2"
    ]
    assert stage.mark(node) is None


def test_change_of_what_blocks_is_said_again(stage: Rolling) -> None:
    """Other numbers, then one pod fewer."""
    node = stage.ref(stage.kubelet.join())
    stage.pod("web-1", node)
    stage.pod("web-2", node)
    stage.budget(allowed=0, healthy=1)
    stage.after(8, lambda: stage.budget(allowed=0, healthy=2))
    stage.after(16, lambda: stage.budget(allowed=1, healthy=3))
    stage.after(28, lambda: stage.budget(allowed=1, healthy=3))

    stage.roller(*TRUE).roll(node)

    told = [text.partition(" holds back ")[2] for text in stage.texts(node) if "budget" in text]
    both, second = f"{stage.namespace}/web-1, {stage.namespace}/web-2", f"{stage.namespace}/web-2"
    assert told[0] == f"{both}: needs 2 healthy pods and has 1"
    assert told[1] == f"{both}: needs 2 healthy pods and has 2"
    assert told[2].startswith(second)
    assert len(told) == 3


def test_budget_that_never_allows_it_ends_the_drain_in_time(stage: Rolling) -> None:
    """The error names the pods and the budget; the pods run on, and the node can be released."""
    node = stage.ref(stage.kubelet.join())
    stage.pod("web-1", node)
    stage.budget(allowed=0)

    error = fails_to_drain(stage, node, drain_timeout_s=20)

    assert error.sentence == f"{node.display} is not drained after 20s, 1 pod left: {stage.namespace}/web-1"
    assert f"disruption budget {stage.namespace}/web holds back" in (error.reason or "")
    assert error.exit_code is ExitCode.TIMED_OUT_PREVIOUS_RUNS
    assert stage.pods(node) == {"web-1"}


def test_two_budgets_on_a_pod_end_the_drain(stage: Rolling) -> None:
    """No waiting helps: the server will never evict it."""
    node = stage.ref(stage.kubelet.join())
    stage.pod("web-1", node)
    stage.budget("one", allowed=1)
    stage.budget("two", allowed=1)
    error = fails_to_drain(stage, node)
    assert "more than one PodDisruptionBudget" in (error.reason or "")
    assert f"{stage.namespace}/web-1" in error.sentence


def test_unready_pod_goes_where_the_budget_is_met(stage: Rolling) -> None:
    """As the server decides."""
    node = stage.ref(stage.kubelet.join())
    stage.kubelet.scripts["web-1"] = [running(ready=False)]
    stage.pod("web-1", node, status=running(ready=False))
    stage.budget(allowed=0)
    stage.roller(*TRUE).roll(node)
    assert stage.mark(node) is None


def test_pod_that_never_ends_is_waited_for_and_named(stage: Rolling) -> None:
    """Beyond its grace too: what runs on must not be changed under its feet. One eviction is enough."""
    node = stage.ref(stage.kubelet.join())
    stage.pod("web-1", node)
    stage.kubelet.stuck.add("web-1")
    error = fails_to_drain(stage, node, drain_timeout_s=20)
    assert error.reason == f"still ending: {stage.namespace}/web-1"
    if stage.cluster.name == "sandbox":
        assert len(evictions(stage)) == 1


def test_pod_that_takes_its_time_to_end_is_waited_for(stage: Rolling) -> None:
    """Until it is gone, not until it was asked."""
    node = stage.ref(stage.kubelet.join())
    stage.pod("web-1", node)
    stage.kubelet.stuck.add("web-1")
    stage.after(12, stage.kubelet.stuck.clear)
    stage.roller(*TRUE).roll(node)
    assert stage.said_at_s["drained"] - stage.said_at_s["draining, 1 pod left"] > 10


def test_pod_that_was_bound_just_before_the_cordon_goes_too(stage: Rolling) -> None:
    """It shows up after the first list."""
    node = stage.ref(stage.kubelet.join())
    stage.pod("web-1", node)
    stage.kubelet.stuck.add("web-1")
    stage.after(5, lambda: stage.pod("late", node))
    stage.after(10, stage.kubelet.stuck.clear)
    stage.roller(*TRUE).roll(node)
    assert stage.pods(node) == set()


def test_pod_that_tolerates_the_cordon_and_comes_back_does_not_hold_up_the_drain(stage: Rolling) -> None:
    """The one of the first list is evicted, as kubectl does; the next one is left alone."""
    node = stage.ref(stage.kubelet.join())
    anywhere = [{"operator": "Exists"}]
    stage.pod("everywhere-1", node, tolerations=anywhere)
    stage.when(
        lambda: "everywhere-1" not in stage.pods(node),
        lambda: stage.pod("everywhere-2", node, tolerations=anywhere),
    )
    stage.pod("web-1", node)
    stage.kubelet.stuck.add("web-1")
    stage.after(10, stage.kubelet.stuck.clear)
    stage.roller(*TRUE).roll(node)
    assert stage.pods(node) == {"everywhere-2"}


def test_pod_that_came_anew_under_the_same_name_is_another_one(boxed: Rolling) -> None:
    """The eviction carries the uid, so one that was decided a moment ago takes no pod that nobody has judged."""
    node = boxed.ref(boxed.kubelet.join())
    first = boxed.pod("web-1", node)["metadata"]["uid"]
    path = f"/api/v1/namespaces/{boxed.namespace}/pods/web-1"
    again: list[str] = []

    def replace() -> None:
        boxed.cluster.request("DELETE", path, query={"gracePeriodSeconds": 0})
        again.append(boxed.pod("web-1", node)["metadata"]["uid"])

    boxed.cluster.sandbox.faults.on(replace, verb="create", resource="pods", subresource="eviction")
    boxed.roller(*TRUE).roll(node)
    assert evictions(boxed) == [("web-1", first), ("web-1", again[0])]


def test_throttled_eviction_waits_as_long_as_it_is_asked_to(boxed: Rolling) -> None:
    """Plain text and Retry-After: no budget is blamed, and no other pod is tried meanwhile."""
    node = boxed.ref(boxed.kubelet.join())
    boxed.pod("web-1", node)
    boxed.pod("web-2", node)
    throttled = boxed.cluster.sandbox.faults.throttle(
        retry_after=17, times=1, verb="create", resource="pods", subresource="eviction"
    )
    begun_s = boxed.clock.boot_s
    seen: list[tuple[float, int]] = []
    boxed.each_s.append(lambda: seen.append((boxed.clock.boot_s - begun_s, len(evictions(boxed)))))
    boxed.roller(*TRUE).roll(node)
    assert throttled.hits == 1
    assert {sent for at_s, sent in seen if at_s < 16.5} == {1}
    assert not any("budget" in text for text in boxed.texts())


def test_retry_after_of_a_budget_is_kept(stage: Rolling) -> None:
    """A budget that its controller has not computed yet asks for ten seconds."""
    node = stage.ref(stage.kubelet.join())
    stage.pod("web-1", node)
    budgets = f"/apis/policy/v1/namespaces/{stage.namespace}/poddisruptionbudgets"
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}}
    stage.cluster.create(budgets, body | {"spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "a"}}}})
    stage.after(2, lambda: stage.budget(allowed=1, healthy=3))
    stage.roller(*TRUE).roll(node)
    assert stage.said_at_s["drained"] - stage.said_at_s["draining, 1 pod left"] > 10
    assert any(text.endswith("web-1: is still being processed by the server") for text in stage.texts(node))


@pytest.mark.parametrize("kind", ["drop_before", "drop_after", "unavailable", "internal"])
def test_eviction_without_a_usable_answer_is_looked_after(boxed: Rolling, kind: str) -> None:
    """Whether it was carried out is seen in the list; else it is sent again."""
    node = boxed.ref(boxed.kubelet.join())
    boxed.pod("web-1", node)
    match: dict[str, Any] = {"verb": "create", "resource": "pods", "subresource": "eviction", "times": 1}
    faults = boxed.cluster.sandbox.faults
    if kind == "drop_before":
        faults.drop_before(**match)
    elif kind == "drop_after":
        faults.drop_after(**match)
    else:
        faults.refuse(status=503 if kind == "unavailable" else 500, **match)
    boxed.roller(*TRUE).roll(node)
    assert len(evictions(boxed)) == (1 if kind == "drop_after" else 2)
    assert boxed.mark(node) is None


def test_lists_that_fail_are_read_again(boxed: Rolling) -> None:
    """One lost, one refused, one expired half-way; the drain concludes nothing from them."""
    node = boxed.ref(boxed.kubelet.join())
    boxed.pod("web-1", node)
    faults = boxed.cluster.sandbox.faults
    match: dict[str, Any] = {"verb": "list", "resource": "pods", "path": "/api/v1/pods", "times": 1}
    boxed.kubelet.nodes.clear()  # NB: its own lists would be struck instead
    faults.drop_before(**match)
    faults.refuse(status=503, **match)
    faults.refuse(status=410, **match)
    boxed.when(
        lambda: evictions(boxed),
        lambda: boxed.kubelet.nodes.append(node.name),
    )
    boxed.roller(*TRUE).roll(node)
    assert boxed.mark(node) is None
    assert len(evictions(boxed)) == 1


def test_list_that_never_succeeds_ends_the_drain_with_the_reason(boxed: Rolling) -> None:
    """An empty node is never concluded from it."""
    node = boxed.ref(boxed.kubelet.join())
    boxed.kubelet.nodes.clear()
    boxed.cluster.sandbox.faults.refuse(status=500, message="etcd is slow", verb="list", resource="pods")
    error = fails_to_drain(boxed, node, drain_timeout_s=30)
    assert error.sentence == f"{node.display} is not drained after 30s, its pods could not be listed"
    assert error.reason == "the API server answers 500: etcd is slow"


def test_many_pods_are_listed_page_by_page(boxed: Rolling, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the last page refuses the whole drain."""
    monkeypatch.setattr("fencectl.run.nodes_reads.PAGE_SIZE", 2)
    node = boxed.ref(boxed.kubelet.join())
    for number in range(5):
        boxed.pod(f"web-{number}", node)
    boxed.pod("zz-alone", node, owner=None)
    error = fails_to_drain(boxed, node)
    assert "zz-alone" in (error.reason or "")
    assert boxed.pods(node) == {"zz-alone", *(f"web-{number}" for number in range(5))}


RIGHTS = [
    ({"verb": "list", "resource": "pods"}, "list", "pods", "`list` pods (cluster scope)"),
    (
        {"verb": "create", "resource": "pods", "subresource": "eviction"},
        "create",
        "pods/eviction",
        "`create` pods/eviction (namespace NS)",
    ),
    ({"verb": "get", "resource": "daemonsets"}, "get", "daemonsets", "`get` daemonsets.apps (namespace NS)"),
]


@pytest.mark.parametrize(("match", "verb", "resource", "named"), RIGHTS, ids=["list", "evict", "daemon-sets"])
def test_missing_right_is_named(
    boxed: Rolling, match: dict[str, Any], verb: str, resource: str, named: str
) -> None:
    """Who lacks which verb, on what, where; the node stays claimed."""
    node = boxed.ref(boxed.kubelet.join())
    boxed.pod("web-1", node)
    boxed.pod("daemon", node, owner=owned_by("DaemonSet", "agent"))
    make_daemon_set(boxed, "agent")
    boxed.kubelet.nodes.clear()
    message = f'{resource} is forbidden: User "ci" cannot {verb} resource "{resource}" in API group ""'
    boxed.cluster.sandbox.faults.refuse(status=403, message=message, **match)
    with pytest.raises(NotReadableError) as raised:
        boxed.roller(*TRUE).roll(node)
    assert raised.value.sentence == f"user ci may not {named.replace('NS', boxed.namespace)}"
    assert boxed.phase(node) is Phase.CLAIMED


def test_pod_of_a_namespace_that_is_being_deleted_goes_by_itself(boxed: Rolling) -> None:
    """There the server forbids every eviction: no right is missing, and the pod is waited for."""
    node = boxed.ref(boxed.kubelet.join())
    boxed.pod("web-1", node)
    cause = {"reason": "NamespaceTerminating", "message": "being terminated", "field": "metadata.namespace"}
    body = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no", "details": {"causes": [cause]}}
    boxed.cluster.sandbox.faults.refuse(
        status=403, body=body, verb="create", resource="pods", subresource="eviction"
    )
    path = f"/api/v1/namespaces/{boxed.namespace}/pods/web-1"
    boxed.after(15, lambda: boxed.cluster.request("DELETE", path))
    boxed.roller(*TRUE).roll(node)
    assert boxed.mark(node) is None


def test_interrupt_during_the_drain_sends_no_more_and_leaves_the_node_releasable(stage: Rolling) -> None:
    """Nothing of the node was changed."""
    node = stage.ref(stage.kubelet.join())
    stage.pod("web-1", node)
    stage.budget(allowed=0)
    stage.after(8, lambda: setattr(stage, "stop", "SIGTERM"))
    with pytest.raises(RollStoppedError) as raised:
        stage.roller(*TRUE).roll(node)
    assert (raised.value.why, raised.value.mutating) == ("SIGTERM", ())
    assert (stage.phase(node), stage.pods(node)) == (Phase.CLAIMED, {"web-1"})


def test_interrupt_between_two_evictions_stops_before_the_second(boxed: Rolling) -> None:
    """It is asked for before each one, not once a round."""
    node = boxed.ref(boxed.kubelet.join())
    for number in range(3):
        boxed.pod(f"web-{number}", node)
    boxed.cluster.sandbox.faults.on(
        lambda: setattr(boxed, "stop", "SIGTERM"), verb="create", resource="pods", subresource="eviction"
    )
    with pytest.raises(RollStoppedError):
        boxed.roller(*TRUE).roll(node)
    assert len(evictions(boxed)) == 1


def test_lost_lease_during_the_drain_evicts_nothing_more(boxed: Rolling) -> None:
    """Each eviction proves first that the lease is held for as long as it may take."""
    node = boxed.ref(boxed.kubelet.join())
    boxed.pod("web-1", node)
    boxed.budget(allowed=0)
    boxed.after(12, lambda: boxed.cluster.sandbox.faults.refuse(verb="patch", resource="leases", status=503))
    seen: list[tuple[bool, int]] = []
    boxed.each_s.append(lambda: seen.append((boxed.keeper.held_for_s() > WRITE_S, len(evictions(boxed)))))
    with pytest.raises(LeaseLostError):
        boxed.roller(*TRUE).roll(node)
    assert max(sent for enough, sent in seen if enough) == len(evictions(boxed)) > 1
    assert not seen[-1][0]
    assert boxed.phase(node) is Phase.CLAIMED


def test_uncordon_during_the_drain_ends_it(stage: Rolling) -> None:
    """Somebody wants the node to take pods: that is said, and nothing is changed on it."""
    node = stage.ref(stage.kubelet.join())
    stage.pod("web-1", node)
    stage.budget(allowed=0)
    stage.after(5, lambda: stage.cluster.kubectl("uncordon", node.name))
    error = fails_to_drain(stage, node)
    assert error.sentence == f"{node.display} was uncordoned by somebody else while it was drained"


@pytest.mark.parametrize(
    ("how", "keys"),
    [
        ("taken away", ("fencectl.dev/holder", "fencectl.dev/journal")),
        ("changed", ("fencectl.dev/holder",)),
        ("changed", ("fencectl.dev/journal",)),
    ],
)
def test_mark_of_another_during_the_drain_ends_it(stage: Rolling, how: str, keys: tuple[str, ...]) -> None:
    """The fence is no longer this run's."""
    node = stage.ref(stage.kubelet.join())
    stage.pod("web-1", node)
    stage.budget(allowed=0)
    value = None if how == "taken away" else "else"
    stage.after(5, lambda: stage.patch_node(node, {"metadata": {"annotations": dict.fromkeys(keys, value)}}))
    error = fails_to_drain(stage, node)
    assert error.sentence == f"the mark on {node.display} was {how} by somebody else"
    assert error.phase is None


def test_fence_in_the_ledger_is_the_one_on_the_node(stage: Rolling) -> None:
    """What the unwinding finds there is what the node says."""
    node = stage.ref(stage.kubelet.join())
    stage.pod("alone", node, owner=None)
    fails_to_drain(stage, node)
    fence: Fence = stage.ledger.fences[0]
    mark = stage.mark(node)
    assert mark is not None
    assert mark.journal_text == fence.journal.text
