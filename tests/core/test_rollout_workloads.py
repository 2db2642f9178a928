"""
Verdicts on Deployments, StatefulSets and ReplicaSets, one look at a time.

Aspects: counts · generations · paused · OnDelete, partitions · progress deadline · doomed pods, and of which
revision · nodes that are down · somebody else's newer state.
"""

from __future__ import annotations

from typing import Any

import pytest

from fencectl.core.rollout import Cause, RolloutVerdict as V
from tests.core.rolling_out import TEMPLATE, Raw, condition, container, look, obj, owner, pod

GOOD = [condition("Available"), condition("Progressing", reason="NewReplicaSetAvailable")]
LATE = condition("Progressing", "False", "ProgressDeadlineExceeded", "late")
REVISION = "deployment.kubernetes.io/revision"


def deployment(wanted_replicas: int | None = 3, /, *, spec: Raw | None = None, **status: Any) -> Raw:
    """Give a Deployment that is done; what is given replaces a field of its status, None takes it away."""
    whole: Raw = {
        "observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
        "conditions": GOOD, **status,
    }  # fmt: skip
    wanted = {} if wanted_replicas is None else {"replicas": wanted_replicas}
    return obj(
        "Deployment",
        {**wanted, "template": TEMPLATE, **(spec or {})},
        {key: value for key, value in whole.items() if value is not None},
        annotations={REVISION: "4"},
    )


def replica_set(revision: str, uid: str) -> Raw:
    metadata = {"name": uid, "uid": uid, "ownerReferences": owner("uid-web"), "annotations": {REVISION: revision}}
    return {"metadata": metadata}


NONE: Raw = {"replicas": None, "updatedReplicas": None, "readyReplicas": None, "availableReplicas": None}
FOUR: Raw = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 4)
ONE: Raw = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1)


@pytest.mark.parametrize(
    ("raw", "verdict", "cause"),
    [
        (deployment(), V.SUCCEEDED, Cause.DONE),
        (deployment(0, **NONE), V.SUCCEEDED, Cause.DONE),  # the API leaves zeros out
        (deployment(None, **ONE), V.SUCCEEDED, Cause.DONE),  # one replica is the default
        (deployment(updatedReplicas=2), V.WAITING, Cause.ROLLING),
        (deployment(replicas=4), V.WAITING, Cause.ROLLING),  # an old pod is left
        (deployment(availableReplicas=2), V.WAITING, Cause.NOT_READY),
        (deployment(readyReplicas=None), V.WAITING, Cause.NOT_READY),
        (deployment(conditions=None), V.WAITING, Cause.NOT_READY),
        (deployment(conditions=[condition("Available", "False")]), V.WAITING, Cause.NOT_READY),
        (deployment(conditions=[*GOOD[:1], LATE]), V.FAILED, Cause.DEADLINE),
        (deployment(spec={"paused": True}), V.UNKNOWN, Cause.PAUSED),
        (deployment(spec={"paused": True}, conditions=[LATE], availableReplicas=0), V.UNKNOWN, Cause.PAUSED),
        (deployment(observedGeneration=1), V.WAITING, Cause.NOT_SEEN),
        (deployment(observedGeneration=1, conditions=[LATE]), V.WAITING, Cause.NOT_SEEN),
        (deployment(observedGeneration=None), V.WAITING, Cause.NOT_SEEN),
        (deployment(observedGeneration="two"), V.UNKNOWN, Cause.MALFORMED),
        (deployment(observedGeneration=True), V.UNKNOWN, Cause.MALFORMED),
        (deployment(availableReplicas="3"), V.UNKNOWN, Cause.MALFORMED),
        (deployment(availableReplicas=-3), V.UNKNOWN, Cause.MALFORMED),
    ],
)  # fmt: skip
def test_deployment_is_judged_by_its_present_generation_only(raw: Raw, verdict: V, cause: Cause) -> None:
    """case_52, case_57: perfect counts of the state before are no success, and its deadline is no failure."""
    found = look(raw)
    assert (found.verdict, found.cause) == (verdict, cause)


def test_deployment_that_no_controller_has_seen_waits() -> None:
    """A missing status is no success (kstatus says Current)."""
    bare = obj("Deployment", {"template": TEMPLATE}, None)
    assert look(bare).cause is Cause.NOT_SEEN
    assert look(bare | {"status": {}}).cause is Cause.NOT_SEEN


def test_read_that_is_older_than_the_deploy_waits() -> None:
    """A cache may lag: all of it is of the state before."""
    found = look(deployment() | {"metadata": deployment()["metadata"] | {"generation": 1}})
    assert (found.verdict, found.cause) == (V.WAITING, Cause.NOT_SEEN)
    assert found.reason == "reads still show generation 1, not 2"


def test_progress_deadline_counts_only_after_a_moment() -> None:
    """case_57: it may come through within that time."""
    found = look(deployment(availableReplicas=1, conditions=[*GOOD[:1], LATE]))
    assert (found.grace_s, found.reason) == (
        20.0,
        "its progress deadline is over: 3 of 3 updated, 1 available",
    )


@pytest.mark.parametrize(
    ("status", "cause", "grace_s", "reason"),
    [
        (container("ErrImagePull"), Cause.IMAGE, 30.0, "image cannot be pulled (ErrImagePull)"),
        (container("ImagePullBackOff"), Cause.IMAGE, 30.0, "image cannot be pulled (ImagePullBackOff)"),
        (container("InvalidImageName"), Cause.IMAGE, 0.0, "image cannot be pulled (InvalidImageName)"),
        (container("CreateContainerConfigError"), Cause.CONFIG, 30.0, "container cannot be created (CreateContainerConfigError)"),
        (container("CrashLoopBackOff", restarts=4, code=137), Cause.CRASH, 0.0, "crash loop, 4 restarts (budget 3)"),
        (container(None, restarts=4, code=1), Cause.CRASH, 0.0, "crash loop, 4 restarts (budget 3)"),
        (container("CrashLoopBackOff", restarts=9, code=0), Cause.CRASH, 0.0, "crash loop, 9 restarts (budget 3)"),
    ],
)  # fmt: skip
def test_pod_that_cannot_become_ready_fails_the_deployment_with_its_node(
    status: Raw, cause: Cause, grace_s: float, reason: str
) -> None:
    """Long before any deadline, and the pod that is doomed is named first."""
    pods = [pod("web-2-b", "new", "n2"), pod("web-2-a", "new", "n7", status=status)]
    found = look(deployment(availableReplicas=1), pods=pods, sets=[replica_set("4", "new")])
    assert (found.verdict, found.cause, found.grace_s, found.reason) == (V.FAILED, cause, grace_s, reason)
    [one] = found.pods
    assert (one.pod, one.node, one.container) == ("web-2-a", "n7", "app")
    if one.exit_code is not None:
        assert (one.ended, one.ran_s) == ("OOMKilled", 11.0)


@pytest.mark.parametrize(
    "status",
    [
        container("CrashLoopBackOff", restarts=3, code=1),  # within the budget
        container("ContainerCreating"),
        container("PodInitializing"),
        {"phase": "Pending", "conditions": [condition("PodScheduled", "False", "Unschedulable", "no node")]},
        {"phase": "Pending"},
        {},
    ],
)
def test_pod_that_may_still_become_ready_is_waited_for(status: Raw) -> None:
    """Nothing here can be told apart from a slow start."""
    found = look(
        deployment(availableReplicas=1), pods=[pod("a", "new", status=status)], sets=[replica_set("4", "new")]
    )
    assert found.verdict is V.WAITING
    assert "pod a on n1: " in found.reason


def test_init_container_that_loops_is_seen() -> None:
    """kstatus looks at the others only."""
    looping = container("CrashLoopBackOff", restarts=5, code=2)
    status = {"phase": "Pending", "initContainerStatuses": looping["containerStatuses"]}
    found = look(
        deployment(availableReplicas=0), pods=[pod("a", "new", status=status)], sets=[replica_set("4", "new")]
    )
    assert (found.cause, found.pods[0].exit_code) == (Cause.CRASH, 2)


def test_container_that_ended_after_a_long_run_is_no_loop() -> None:
    """Ten restarts over a year, and one just now."""
    status = container("CrashLoopBackOff", restarts=10, code=1)
    last = status["containerStatuses"][0]["lastState"]["terminated"]
    last["startedAt"] = "2026-11-29T02:59:00Z"
    found = look(
        deployment(availableReplicas=2), pods=[pod("a", "new", status=status)], sets=[replica_set("4", "new")]
    )
    assert found.verdict is V.WAITING


@pytest.mark.parametrize("revision", ["3", "5", None])
def test_doomed_pod_of_another_revision_says_nothing_about_this_one(revision: str | None) -> None:
    """What is being replaced may well be broken: that is why it is."""
    sets = [replica_set("4", "new"), replica_set(revision or "1", "old")]
    pods = [pod("old", "old", status=container("CrashLoopBackOff", restarts=50, code=1))]
    found = look(deployment(updatedReplicas=1), pods=pods, sets=sets)
    assert (found.verdict, found.cause, found.pods) == (V.WAITING, Cause.ROLLING, ())


def test_pod_that_ends_or_was_evicted_is_not_counted() -> None:
    """Its controller has replaced it already."""
    doomed = container("CrashLoopBackOff", restarts=50, code=1)
    ending = pod("a", "new", status=doomed)
    ending["metadata"]["deletionTimestamp"] = "2026-11-30T03:00:00Z"
    evicted = pod("b", "new", status={**doomed, "phase": "Failed", "reason": "Evicted"})
    found = look(deployment(updatedReplicas=1), pods=[ending, evicted], sets=[replica_set("4", "new")])
    assert (found.verdict, found.pods) == (V.WAITING, ())


def test_pods_that_cannot_be_made_are_said() -> None:
    """A quota: the reason stands in no pod."""
    full = condition("ReplicaFailure", reason="FailedCreate", message="exceeded quota")
    found = look(deployment(updatedReplicas=1, availableReplicas=1, conditions=[*GOOD, full]))
    assert found.verdict is V.WAITING
    assert "pods cannot be created: FailedCreate: exceeded quota" in found.reason


def test_missing_pods_on_a_node_that_is_down_are_a_node_problem() -> None:
    """Also after the deadline, and whatever the last word about the container was."""
    stale = container("CrashLoopBackOff", restarts=9, code=1)
    pods = [pod("a", "new", "n3", status=stale), pod("b", "new", "n4", status=container("ContainerCreating"))]
    raw = deployment(availableReplicas=1, conditions=[*GOOD[:1], LATE])
    sets = [replica_set("4", "new")]
    found = look(raw, pods=pods, sets=sets, down=("n3", "n4"))
    assert (found.verdict, found.cause) == (V.WAITING, Cause.NODE)
    assert "pod a on n3: its node is down" in found.reason
    assert look(raw, pods=pods, sets=sets, down=("n4",)).cause is Cause.CRASH


def test_newer_state_of_somebody_else_is_not_judged() -> None:
    """Perfect or broken: it is another rollout. Who wrote it is said."""
    newer = deployment(observedGeneration=3)
    newer["metadata"] |= {
        "generation": 3,
        "managedFields": [
            {"manager": "kubectl-edit", "time": "2026-11-30T02:00:00Z", "fieldsV1": {"f:spec": {}}},
            {"manager": "fencectl", "time": "2026-11-30T01:00:00Z", "fieldsV1": {"f:spec": {}}},
        ],
    }
    changed = deployment(spec={"template": TEMPLATE | {"metadata": {"labels": {"app": "other"}}}})
    for ours in (None, changed):
        found = look(newer, ours=ours)
        assert (found.verdict, found.cause, found.grace_s) == (V.UNKNOWN, Cause.TAKEN_OVER, 0.0)
        assert "generation 3 (ours was 2), last written by `kubectl-edit` at 2026-11-30T02:00:00Z" in found.reason


def test_change_of_replicas_alone_is_still_our_rollout() -> None:
    """An autoscaler counts the generation up too."""
    scaled = deployment(4, observedGeneration=3, **FOUR)
    scaled["metadata"]["generation"] = 3
    assert look(scaled, ours=deployment()).verdict is V.SUCCEEDED
    seen_before = deployment(4, observedGeneration=2, **FOUR)
    seen_before["metadata"]["generation"] = 3
    assert look(seen_before, ours=deployment()).cause is Cause.NOT_SEEN


def test_object_made_anew_is_not_judged() -> None:
    """Same name, other uid: a generation of it says nothing."""
    anew = deployment()
    anew["metadata"]["uid"] = "another"
    assert look(anew).cause is Cause.REPLACED


def test_object_that_is_being_deleted_is_no_success() -> None:
    ending = deployment()
    ending["metadata"]["deletionTimestamp"] = "2026-11-30T03:00:00Z"
    assert (look(ending).verdict, look(ending).cause) == (V.WAITING, Cause.DELETING)


def stateful(spec: Raw | None = None, **status: Any) -> Raw:
    whole: Raw = {
        "observedGeneration": 2, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "updatedReplicas": 3,
        "currentRevision": "web-b", "updateRevision": "web-b", **status,
    }  # fmt: skip
    kept = {key: value for key, value in whole.items() if value is not None}
    return obj("StatefulSet", {"replicas": 3, "template": TEMPLATE, **(spec or {})}, kept)


PARTITION = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}
OLD: Raw = {"controller-revision-hash": "web-a"}
ON_DELETE = {"updateStrategy": {"type": "OnDelete"}}


@pytest.mark.parametrize(
    ("raw", "verdict", "cause"),
    [
        (stateful(), V.SUCCEEDED, Cause.DONE),
        (stateful({"replicas": 0}, replicas=0, readyReplicas=None, availableReplicas=0, updatedReplicas=None), V.SUCCEEDED, Cause.DONE),
        (stateful(currentRevision="web-a", updatedReplicas=1), V.WAITING, Cause.ROLLING),
        (stateful(currentRevision="web-a"), V.WAITING, Cause.NOT_READY),
        (stateful(availableReplicas=2), V.WAITING, Cause.NOT_READY),
        (stateful(readyReplicas=2), V.WAITING, Cause.NOT_READY),
        (stateful(observedGeneration=1), V.WAITING, Cause.NOT_SEEN),
        (stateful(PARTITION, currentRevision="web-a", updatedReplicas=1), V.SUCCEEDED, Cause.DONE),
        (stateful(PARTITION, currentRevision="web-a", updatedReplicas=None), V.WAITING, Cause.ROLLING),
        (stateful(ON_DELETE, currentRevision="web-a", updatedReplicas=0), V.UNKNOWN, Cause.ON_DELETE),
        (stateful(ON_DELETE, currentRevision="web-a", updatedReplicas=2), V.UNKNOWN, Cause.ON_DELETE),
        (stateful(ON_DELETE, currentRevision="web-a"), V.SUCCEEDED, Cause.DONE),  # all were deleted and made anew
        (stateful(ON_DELETE, currentRevision="web-a", availableReplicas=2), V.WAITING, Cause.NOT_READY),
        (stateful(updateRevision=None), V.UNKNOWN, Cause.MALFORMED),
        (stateful(replicas="3"), V.UNKNOWN, Cause.MALFORMED),
    ],
)  # fmt: skip
def test_stateful_set_is_judged_by_its_update_revision(raw: Raw, verdict: V, cause: Cause) -> None:
    """Not by its counts alone: OnDelete moves nothing, and a partition keeps some on purpose."""
    found = look(raw)
    assert (found.verdict, found.cause) == (verdict, cause)


def test_stateful_set_stuck_in_the_middle_names_the_pod_that_holds_it_up() -> None:
    """The others are old and ready, so the counts look nearly good."""
    hashes: Raw = {"controller-revision-hash": "web-b"}
    pods = [
        pod("web-2", "uid-web", "n2", **hashes),
        pod("web-1", "uid-web", "n1", status=container("CrashLoopBackOff", restarts=4, code=1), **hashes),
        pod("web-0", "uid-web", "n0", **OLD),
    ]
    found = look(stateful(currentRevision="web-a", updatedReplicas=2, readyReplicas=2), pods=pods)
    assert (found.verdict, found.cause, found.pods[0].pod, found.pods[0].node) == (V.FAILED, Cause.CRASH, "web-1", "n1")  # fmt: skip


def test_old_pod_that_is_broken_does_not_fail_a_stateful_set() -> None:
    """It holds the rollout up, and is said; whether the new state is good nobody can tell."""
    pods = [pod("web-2", "uid-web", status=container("CrashLoopBackOff", restarts=9, code=1), **OLD)]  # fmt: skip
    found = look(stateful(currentRevision="web-a", updatedReplicas=0, readyReplicas=2), pods=pods)
    assert found.verdict is V.WAITING
    assert "pod web-2 on n1: CrashLoopBackOff" in found.reason


def test_replica_set_is_done_when_all_are_available() -> None:
    status = {"observedGeneration": 2, "replicas": 1, "availableReplicas": 1}
    assert look(obj("ReplicaSet", {"template": TEMPLATE}, status)).verdict is V.SUCCEEDED
    assert look(obj("ReplicaSet", {"template": TEMPLATE}, status | {"availableReplicas": 0})).verdict is V.WAITING
