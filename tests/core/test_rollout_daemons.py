"""
Verdicts on DaemonSets: each node says updated, failing or not confirmed.

Aspects: counts · old and new pods · nodes that are down, cordoned, without a pod · OnDelete · no node at all.
"""

from __future__ import annotations

from typing import Any

import pytest

from fencectl.core.rollout import Cause, NodeRollout as N, RolloutVerdict as V
from tests.core.rolling_out import TEMPLATE, Raw, container, look, obj, pod

GENERATION = "deprecated.daemonset.template.generation"
LOOPS = container("CrashLoopBackOff", restarts=4, code=1)


def daemon_set(desired: int | None = 3, *, spec: Raw | None = None, **status: Any) -> Raw:
    whole: Raw = {
        "observedGeneration": 2, "desiredNumberScheduled": desired, "currentNumberScheduled": 3, "numberReady": 3,
        "updatedNumberScheduled": 3, "numberAvailable": 3, **status,
    }  # fmt: skip
    kept = {key: value for key, value in whole.items() if value is not None}
    return obj("DaemonSet", {"template": TEMPLATE, **(spec or {})}, kept, annotations={GENERATION: "5"})


def on(node: str | None, *, new: bool = True, status: Raw | None = None) -> Raw:
    labels: Raw = {"pod-template-generation": "5" if new else "4"}
    return pod(f"agent-{node}", "uid-web", node, status=status, **labels)


@pytest.mark.parametrize(
    ("raw", "verdict", "cause"),
    [
        (daemon_set(), V.SUCCEEDED, Cause.DONE),
        (daemon_set(0, updatedNumberScheduled=None, numberAvailable=None), V.SUCCEEDED, Cause.DONE),
        (daemon_set(updatedNumberScheduled=2), V.WAITING, Cause.ROLLING),
        (daemon_set(numberAvailable=2), V.WAITING, Cause.NOT_READY),
        (daemon_set(None), V.WAITING, Cause.NOT_SEEN),
        (daemon_set(observedGeneration=1), V.WAITING, Cause.NOT_SEEN),
        (daemon_set(observedGeneration=None), V.WAITING, Cause.NOT_SEEN),
        (daemon_set(spec={"updateStrategy": {"type": "OnDelete"}}), V.SUCCEEDED, Cause.DONE),
        (daemon_set(spec={"updateStrategy": {"type": "OnDelete"}}, updatedNumberScheduled=1), V.UNKNOWN, Cause.ON_DELETE),
        (daemon_set(numberAvailable=3.0), V.UNKNOWN, Cause.MALFORMED),
        (daemon_set(spec={"updateStrategy": []}, updatedNumberScheduled=1), V.UNKNOWN, Cause.MALFORMED),
    ],
)  # fmt: skip
def test_daemon_set_is_done_when_each_node_is(raw: Raw, verdict: V, cause: Cause) -> None:
    """case_54: no node at all is a success, too."""
    found = look(raw)
    assert (found.verdict, found.cause) == (verdict, cause)


def test_missing_pods_on_nodes_that_are_down_are_a_node_problem() -> None:
    """case_54: 97 of 100, and the three are named. Going back would help nobody."""
    pods = [on(f"n{number}") for number in range(97)]
    pods += [on(f"x{number}", status=container(None)) for number in range(3)]
    raw = daemon_set(100, updatedNumberScheduled=100, numberAvailable=97)
    found = look(raw, pods=pods, down=("x0", "x1", "x2"))
    assert (found.verdict, found.cause) == (V.WAITING, Cause.NODE)
    assert found.reason == "updated on 100 of 100 nodes, available on 97; x0, x1, x2 are down"
    assert [one.node for one in found.nodes if one.state is N.NOT_CONFIRMED] == ["x0", "x1", "x2"]
    assert found.nodes[0].why == "the node is down: its condition Ready is Unknown"
    assert sum(one.state is N.UPDATED for one in found.nodes) == 97


def test_missing_pods_that_crash_on_good_nodes_are_a_failure() -> None:
    """case_54: the same counts, but the nodes are Ready."""
    pods = [on("n1"), on("n2", status=LOOPS), on("n3", status=LOOPS), on("n4", status=container(None))]
    found = look(daemon_set(4, numberAvailable=1), pods=pods, down=("n4",))
    assert (found.verdict, found.cause) == (V.FAILED, Cause.CRASH)
    assert found.reason == "crash loop, 4 restarts (budget 3) on n2, n3"
    assert [(one.node, one.state) for one in found.nodes] == [
        ("n2", N.FAILING), ("n3", N.FAILING), ("n4", N.NOT_CONFIRMED), ("n1", N.UPDATED),
    ]  # fmt: skip


def test_node_that_is_down_holds_up_the_others() -> None:
    """kubernetes issue 139226: with maxUnavailable 1 nothing else moves."""
    pods = [on("n1", status=container(None)), on("n2", new=False), on("n3", new=False)]
    raw = daemon_set(updatedNumberScheduled=1, numberAvailable=2)
    found = look(raw, pods=pods, down=("n1",))
    assert (found.cause, found.reason) == (
        Cause.NODE,
        "updated on 1 of 3 nodes, available on 2; n1 is down, and the rollout waits for it",
    )
    assert {one.why for one in found.nodes if one.node != "n1"} == {"still has the old pod"}


def test_old_pod_on_a_node_that_is_down_is_not_confirmed_by_its_node() -> None:
    """The new one has not even been made."""
    pods = [on("n1"), on("n2", new=False, status=container(None))]
    found = look(daemon_set(2, updatedNumberScheduled=1, numberAvailable=1), pods=pods, down=("n2",))
    assert found.cause is Cause.NODE
    assert found.nodes[0].why.startswith("the node is down")


def test_pod_that_ends_for_ever_leaves_its_node_open_beside_a_success() -> None:
    """Its controller does not want the node any more (its taint), and deleted the pod; nobody there carries it out."""
    ending = on("n3", new=False)
    ending["metadata"]["deletionTimestamp"] = "2026-11-30T03:00:00Z"
    raw = daemon_set(2, updatedNumberScheduled=2, numberAvailable=2)
    found = look(raw, pods=[ending, on("n1"), on("n2")])
    assert (found.verdict, found.reason) == (V.SUCCEEDED, "updated and available on 2 nodes; not confirmed on n3")
    assert found.nodes[0].why == "its pod is ending"
    assert look(raw, pods=[on("n3"), ending, on("n1")]).nodes[0].state is N.UPDATED


def test_pod_that_waits_for_its_node_is_placed_by_what_it_asks_for() -> None:
    """Nobody has bound it yet; the DaemonSet names the node in its affinity."""
    waits = on(None, status={"phase": "Pending"})
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n9"]}]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    waits["spec"]["affinity"] = affinity
    found = look(daemon_set(2, numberAvailable=1, updatedNumberScheduled=2), pods=[on("n1"), waits])
    assert [(one.node, one.state) for one in found.nodes] == [("n9", N.NOT_CONFIRMED), ("n1", N.UPDATED)]


def test_old_pod_that_crashes_says_nothing_about_the_new_ones() -> None:
    found = look(daemon_set(2, updatedNumberScheduled=1, numberAvailable=1), pods=[on("n1"), on("n2", new=False, status=LOOPS)])  # fmt: skip
    assert (found.verdict, found.nodes[0].state, found.nodes[0].why) == (V.WAITING, N.NOT_CONFIRMED, "still has the old pod")  # fmt: skip


def test_node_with_an_old_and_a_new_pod_is_judged_by_the_new_one() -> None:
    """With maxSurge a node has both for a moment."""
    for pods in ([on("n1"), on("n1", new=False)], [on("n1", new=False), on("n1")]):
        assert look(daemon_set(1), pods=pods).nodes[0].state is N.UPDATED


def test_pods_that_could_not_be_read_leave_the_nodes_open() -> None:
    """The counts still decide; no node is said to be anything."""
    assert look(daemon_set(), pods=None).verdict is V.SUCCEEDED
    assert look(daemon_set(numberAvailable=1), pods=None).nodes == ()
