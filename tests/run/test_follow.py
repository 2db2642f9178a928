"""
Following under a clock that the test moves, by polls: when something is known, and what is said about it.

Aspects: success, and its being taken back · pace and bounds · missing, errors and refusals · stop, time-out, first
failure · doomed pods, their evidence, their nodes · others that take over or delete.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from fencectl.cluster.pages import METADATA_ONLY
from fencectl.core.rollout import Cause, RolloutVerdict as V
from fencectl.sandbox import Fault
from tests.core.rolling_out import condition, container
from tests.run.following import NAMESPACE, TEMPLATE, Stage, stage_on
from tests.support.clusters import Cluster, Raw

AT = "2026-11-30T02:00:00Z"
IMAGE = container("ImagePullBackOff")
LOOPS = container("CrashLoopBackOff", restarts=4, code=137)


def status(raw: Raw) -> Raw:
    """Give a pod's status as the API server takes it."""
    conditions = [{**one, "lastTransitionTime": AT, "lastProbeTime": None} for one in raw.get("conditions", [])]
    return raw | {"conditions": conditions}


@pytest.fixture
def stage(sandbox_cluster: Cluster) -> Stage:
    return stage_on(sandbox_cluster)


def test_deployment_is_done_once_it_has_been_available_for_a_moment(stage: Stage) -> None:
    """Seen by the poll after, and steady for 3 s."""
    web = stage.deployment(replicas=2)
    stage.at(3, lambda: stage.available(1, replicas=2))
    stage.at(7, lambda: stage.available(2, replicas=2))
    found = stage.follow(web)
    assert (found.outcome, found.results[0].cause) == (V.SUCCEEDED, Cause.DONE)
    assert 11.0 <= found.results[0].noticed_s <= 12.0
    assert [text for text in stage.said() if text.startswith("deployment/")] == [
        "deployment/shop/web its controller has seen nothing of it yet, not generation 1",
        "deployment/shop/web 2 of 2 updated, 1 available",
        "deployment/shop/web succeeded: 2 replicas updated and available",
    ]


def test_nothing_to_follow_is_done_without_a_request(stage: Stage) -> None:
    assert (stage.follow().outcome, stage.door.asked) == (V.SUCCEEDED, [])


def test_success_that_does_not_last_is_taken_back(stage: Stage) -> None:
    """While another object is still followed: a container without a probe is ready until it ends."""
    web, slow = stage.deployment(available=1), stage.deployment("slow")
    stage.at(20, lambda: stage.available(0))
    stage.at(60, lambda: stage.available(1, "slow"))
    found = stage.follow(web, slow, timeout_s=90)
    assert [(one.target.ref.name, one.verdict) for one in found.results] == [
        ("web", V.TIMED_OUT),
        ("slow", V.SUCCEEDED),
    ]


def test_what_happens_to_a_success_afterwards_changes_nothing_about_it(stage: Stage) -> None:
    """Another deploy, or a deletion: ours came through."""
    web, slow = stage.deployment(available=1), stage.deployment("slow")
    stage.at(20, lambda: stage.change("Deployment", "web", {"spec": {"template": {"metadata": {"labels": {"x": "y"}}}}}))  # fmt: skip
    stage.at(30, lambda: stage.delete("Deployment", "web"))
    stage.at(60, lambda: stage.available(1, "slow"))
    assert stage.follow(web, slow, timeout_s=90).outcome is V.SUCCEEDED


def test_polls_slow_down_and_end_after_half_an_hour(stage: Stage) -> None:
    """2 s for a minute, then 5 s, then 15 s; longer than 30 minutes is followed by nobody."""
    found = stage.follow(stage.deployment(), timeout_s=7200)
    assert found.outcome is V.TIMED_OUT
    assert 1800 <= found.took_s < 1801
    assert found.results[0].reason.endswith("not generation 1, after 30m00s")
    read = stage.lists("Deployment")
    gaps = {(60 * (at // 60), round(later - at)) for at, later in itertools.pairwise(read)}
    assert {gap for minute, gap in gaps if minute == 0} == {2}
    assert {gap for minute, gap in gaps if 60 < minute < 240} == {5}
    assert {gap for minute, gap in gaps if minute > 300} == {15}
    assert stage.lists("Pod") == read  # beside it, the same list for all targets of the namespace


def test_object_that_is_not_there_is_not_found_after_20_s_of_good_reads(stage: Stage) -> None:
    """A cache may lag behind a deploy for a moment."""
    result = stage.follow_one(stage.target("Deployment", "web"))
    assert (result.verdict, result.cause) == (V.UNKNOWN, Cause.NOT_FOUND)
    assert 20.0 <= result.noticed_s <= 22.0
    assert result.reason == "not found: it is not there (20s of reads without it)"


def test_errors_do_not_count_towards_not_found(stage: Stage) -> None:
    """From second 6 to 36 nothing is known: the 20 s go on after that."""
    fault: list[Fault] = []
    stage.at(6, lambda: fault.append(stage.sandbox.faults.refuse(status=500, verb="list", resource="deployments")))
    stage.at(36, lambda: [one.cancel() for one in fault])  # type: ignore[func-returns-value]
    result = stage.follow_one(stage.target("Deployment", "web"))
    assert result.cause is Cause.NOT_FOUND
    assert 50.0 <= result.noticed_s <= 56.0


def test_object_deleted_by_somebody_is_unknown_soon(stage: Stage) -> None:
    """case_55: whether it would have become good nobody knows."""
    web = stage.deployment()
    stage.at(11, lambda: stage.delete("Deployment", "web"))
    result = stage.follow_one(web)
    assert (result.verdict, result.cause) == (V.UNKNOWN, Cause.NOT_FOUND)
    assert "it was there, and somebody deleted it" in result.reason
    assert 31.0 <= result.noticed_s <= 35.0


def test_job_deleted_after_it_was_complete_has_succeeded(stage: Stage) -> None:
    """case_55: its time to live is over."""
    spec = {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}
    done = {"conditions": [condition("Complete")], "startTime": AT, "succeeded": 1}
    stage.make("Job", "job", spec, done)
    job, slow = stage.target("Job", "job"), stage.deployment("slow")
    stage.at(5, lambda: stage.delete("Job", "job"))
    stage.at(60, lambda: stage.available(1, "slow"))
    assert stage.follow(job, slow).outcome is V.SUCCEEDED


@pytest.mark.parametrize("code", [400, 401, 403])
def test_one_refusal_that_asking_again_cannot_change_is_unknown_at_once(stage: Stage, code: int) -> None:
    """Never 0: nobody knows."""
    web = stage.deployment()
    stage.at(9, lambda: stage.sandbox.faults.refuse(status=code, verb="list", resource="deployments"))
    result = stage.follow_one(web)
    assert (result.verdict, result.cause) == (V.UNKNOWN, Cause.UNREADABLE)
    assert 10.0 <= result.noticed_s <= 11.0


def test_five_errors_in_a_row_are_no_end_before_60_s_without_a_good_read(stage: Stage) -> None:
    """The API server restarts: nine errors, and it goes on."""
    web = stage.deployment()
    fault: list[Fault] = []
    stage.at(5, lambda: fault.append(stage.sandbox.faults.refuse(status=500, verb="list", resource="deployments")))
    stage.at(55, lambda: [one.cancel() for one in fault])  # type: ignore[func-returns-value]
    stage.at(55, lambda: stage.available(1))
    found = stage.follow(web)
    assert found.outcome is V.SUCCEEDED
    assert "deployments.apps (namespace shop) can be read again" in stage.said()


def test_60_s_without_a_good_read_end_in_unknown(stage: Stage) -> None:
    """Nobody answers any more: after five errors and a minute it is given up, with what is known."""
    web = stage.deployment()
    stage.at(10, lambda: setattr(stage.door, "away", True))
    result = stage.follow_one(web)
    assert (result.verdict, result.cause) == (V.UNKNOWN, Cause.UNREADABLE)
    assert 70.0 <= result.noticed_s <= 76.0
    assert "times in a row, no good read for" in result.reason


def test_5xx_then_403_ends_at_the_403(stage: Stage) -> None:
    """Transient first, then a word that asking again cannot change, then nothing more is asked."""
    web = stage.deployment()
    stage.at(5, lambda: stage.sandbox.faults.refuse(status=503, verb="list", resource="deployments", times=3))
    stage.at(13, lambda: stage.sandbox.faults.refuse(status=403, verb="list", resource="deployments"))
    stage.at(16, lambda: setattr(stage.door, "away", True))
    result = stage.follow_one(web)
    assert (result.verdict, result.cause) == (V.UNKNOWN, Cause.UNREADABLE)
    assert result.noticed_s < 16


def test_time_out_while_nothing_can_be_read_is_unknown(stage: Stage) -> None:
    """What was seen before may be old; it is said beside it."""
    web = stage.deployment()
    stage.at(10, lambda: setattr(stage.door, "away", True))
    result = stage.follow_one(web, timeout_s=30)
    assert (result.verdict, result.cause) == (V.UNKNOWN, Cause.UNREADABLE)
    assert "when last seen: its controller has seen nothing of it yet" in result.reason


def test_stop_is_heard_within_a_second(stage: Stage) -> None:
    """What had ended keeps its verdict; the others were waiting. Nothing more is asked."""
    web, slow = stage.deployment(available=1), stage.deployment("slow", available=0)
    stage.at(10.1, lambda: setattr(stage, "stop", "INT"))
    found = stage.follow(web, slow)
    assert (found.stopped, found.outcome) == ("INT", V.WAITING)
    assert found.took_s <= 11.1
    assert [(one.target.ref.name, one.verdict) for one in found.results] == [
        ("slow", V.WAITING),
        ("web", V.SUCCEEDED),
    ]
    assert found.results[0].reason == "1 of 1 updated, 0 available when the follow ended"


def test_first_failure_ends_the_follow_soon(stage: Stage) -> None:
    """The others are said as they were; those that fail at the same time are failures, too."""
    bad, slow, also = (stage.deployment(name, available=0) for name in ("bad", "slow", "also"))
    for name, second in (("bad", 10), ("also", 13)):
        one = stage.replica_set(name)
        stage.at(second, lambda one=one, name=name: stage.pod(f"{name}-1", one, status(LOOPS)))  # type: ignore[misc]
    found = stage.follow(bad, slow, also)
    assert [(one.target.ref.name, one.verdict) for one in found.results] == [
        ("also", V.FAILED),
        ("bad", V.FAILED),
        ("slow", V.WAITING),
    ]
    assert found.took_s <= 17.0


def test_crash_loop_is_named_with_container_exit_code_node_events_and_log(stage: Stage) -> None:
    """All that a person would look up next, without `-v`."""
    web = stage.deployment(available=0)
    made = stage.pod(
        "web-1", stage.replica_set("web"), status(LOOPS), node="n7", log="\n".join(f"line {n}" for n in range(30))
    )
    for number, kind in enumerate(("Warning", "Normal", "Warning")):
        stage.make(
            "Event", f"e{number}", type=kind, reason="BackOff", message=f"said {number}", count=4,
            lastTimestamp=f"2026-11-30T02:59:3{number}Z",
            involvedObject={"kind": "Pod", "name": "web-1", "namespace": NAMESPACE, "uid": made["metadata"]["uid"]},
        )  # fmt: skip
    result = stage.follow_one(web)
    assert (result.verdict, result.cause, result.reason) == (
        V.FAILED,
        Cause.CRASH,
        "crash loop, 4 restarts (budget 3)",
    )
    [one] = result.pods
    assert (one.trouble.node, one.trouble.container, one.trouble.exit_code) == ("n7", "app", 137)
    assert [(event.message, event.times) for event in one.events] == [("said 0", 4), ("said 2", 4)]
    assert one.log == tuple(f"line {n}" for n in range(20, 30))
    assert (one.log_of, one.previous, one.missing) == ("app", True, ())


def test_evidence_that_cannot_be_read_is_said_and_changes_nothing(stage: Stage) -> None:
    web = stage.deployment(available=0)
    stage.pod("web-1", stage.replica_set("web"), status(LOOPS))
    stage.sandbox.faults.refuse(status=403, resource="events")
    stage.sandbox.faults.refuse(status=500, subresource="log", message="dial tcp: no route")
    result = stage.follow_one(web)
    assert result.verdict is V.FAILED
    assert result.pods[0].missing == (
        "events: 403: scripted refusal with status 403",
        "log: 500: dial tcp: no route",
    )


def test_image_that_cannot_be_pulled_fails_after_half_a_minute(stage: Stage) -> None:
    """Said at once, failed when it stays so."""
    web = stage.deployment(available=0)
    stage.pod("web-1", stage.replica_set("web"), status(IMAGE), node="n4")
    result = stage.follow_one(web)
    assert (result.verdict, result.cause) == (V.FAILED, Cause.IMAGE)
    assert 30.0 <= result.noticed_s <= 31.0
    assert result.pods[0].trouble.node == "n4"
    assert (0.0, "deployment/shop/web image cannot be pulled (ImagePullBackOff)") in [
        (at // 1, text) for at, text in stage.told
    ]


def test_image_that_comes_late_is_no_failure(stage: Stage) -> None:
    """A registry stumbles: 20 s of it, twice, are not 30 s."""
    web = stage.deployment(available=0)
    stage.pod("web-1", stage.replica_set("web"), status(IMAGE))
    for second in (20, 60):
        stage.at(second, lambda: stage.write("Pod", "web-1", **status(container("ContainerCreating"))))
    stage.at(40, lambda: stage.write("Pod", "web-1", **status(IMAGE)))
    stage.at(70, lambda: stage.available(1))
    assert stage.follow(web).outcome is V.SUCCEEDED


def test_node_that_is_down_is_a_node_problem_until_the_time_is_over(stage: Stage) -> None:
    """case_54: the last word of its kubelet was a crash loop; that is old news."""
    stage.node("n9", ready=False)
    web = stage.deployment(available=0)
    stage.pod("web-1", stage.replica_set("web"), status(LOOPS), node="n9")
    found = stage.follow(web, timeout_s=60)
    assert (found.outcome, found.results[0].cause, found.blames_nodes) == (V.TIMED_OUT, Cause.NODE, True)
    assert "pod web-1 on n9: its node is down" in found.results[0].reason
    [one] = found.results[0].pods
    assert one.trouble.message == "its condition Ready is Unknown (NodeStatusUnknown)"


def test_without_a_right_to_nodes_a_crash_is_a_failure_and_the_gap_is_said(stage: Stage) -> None:
    web = stage.deployment(available=0)
    stage.pod("web-1", stage.replica_set("web"), status(LOOPS))
    stage.sandbox.faults.refuse(status=403, verb="get", resource="nodes")
    found = stage.follow(web)
    assert found.outcome is V.FAILED
    assert found.notes == ("nodes could not be read, so none is said to be down: forbidden: may not `get` nodes (cluster scope)",)  # fmt: skip


def test_without_a_right_to_pods_the_counts_decide_and_the_gap_is_said(stage: Stage) -> None:
    """A failing pod is not seen then; the controller's own deadline is."""
    web = stage.deployment(available=0)
    stage.sandbox.faults.refuse(status=403, verb="list", resource="pods")
    stage.at(10, lambda: stage.available(1))
    found = stage.follow(web)
    assert found.outcome is V.SUCCEEDED
    assert found.notes == (
        "pods (namespace shop) could not be read: forbidden: may not `list` pods (namespace shop)",
    )


def test_newer_rollout_of_somebody_else_is_said_and_not_judged(stage: Stage) -> None:
    """Whether theirs is good is theirs to know."""
    web = stage.deployment(available=0)
    template = {"spec": {"template": {"metadata": {"labels": {"app": "web", "their": "change"}}}}}
    stage.at(10, lambda: stage.change("Deployment", "web", template))
    result = stage.follow_one(web)
    assert (result.verdict, result.cause) == (V.UNKNOWN, Cause.TAKEN_OVER)
    assert (
        "taken over by a newer state, generation 2 (ours was 1), last written by `kubectl-edit`" in result.reason
    )


def test_autoscaler_does_not_take_a_rollout_over(stage: Stage) -> None:
    """Its change of replicas is a new generation of the same rollout."""
    web = stage.deployment(available=0)
    stage.at(10, lambda: stage.change("Deployment", "web", {"spec": {"replicas": 2}}, manager="hpa"))
    stage.at(20, lambda: stage.available(2, replicas=2, generation=2))
    assert stage.follow(web).outcome is V.SUCCEEDED


def test_object_made_anew_by_somebody_is_not_judged(stage: Stage) -> None:
    web = stage.deployment(available=0)
    stage.at(9, lambda: stage.delete("Deployment", "web"))
    stage.at(9, lambda: stage.deployment(available=1))
    result = stage.follow_one(web)
    assert (result.verdict, result.cause) == (V.UNKNOWN, Cause.REPLACED)


def test_paused_deployment_ends_at_once(stage: Stage) -> None:
    """case_57, case_62: nothing will move before somebody resumes it."""
    stage.deployment()
    stage.change("Deployment", "web", {"spec": {"paused": True}})
    result = stage.follow_one(stage.target("Deployment", "web"))
    assert (result.verdict, result.cause) == (V.UNKNOWN, Cause.PAUSED)
    assert result.noticed_s <= 1.0


def test_progress_deadline_that_is_overtaken_is_a_success(stage: Stage) -> None:
    """case_57: said as a failure to be, and 12 s later it came through."""
    web = stage.deployment(available=0)
    late = [
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "lastTransitionTime": AT}
    ]
    stage.at(5, lambda: stage.write("Deployment", "web", conditions=late))
    stage.at(17, lambda: stage.available(1))
    assert stage.follow(web).outcome is V.SUCCEEDED
    assert "deployment/shop/web its progress deadline is over: 1 of 1 updated, 0 available" in stage.said()


def test_progress_deadline_that_stays_is_a_failure(stage: Stage) -> None:
    web = stage.deployment(available=0)
    late = [
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "lastTransitionTime": AT}
    ]
    stage.at(5, lambda: stage.write("Deployment", "web", conditions=late))
    result = stage.follow_one(web)
    assert (result.verdict, result.cause) == (V.FAILED, Cause.DEADLINE)
    assert 25.0 <= result.noticed_s <= 27.0


def test_flux_object_that_fails_again_and_again_fails(stage: Stage) -> None:
    """Progressing in between each time: the third failure counts, long before the time is over."""
    spec = {"interval": "10m", "prune": True, "path": ".", "sourceRef": {"kind": "GitRepository", "name": "x"}}
    stage.make("Kustomization", "apps", spec)
    apps = stage.target("Kustomization", "apps", revision="main@sha1:4f2a91c07be3d855")

    def say(kind: str, reason: str) -> None:
        one: dict[str, Any] = {
            "type": "Ready",
            "status": kind,
            "reason": reason,
            "message": "m",
            "lastTransitionTime": AT,
        }
        stage.write("Kustomization", "apps", conditions=[one], lastAttemptedRevision="main@sha1:4f2a91c07be3d855")

    for number in range(3):
        stage.at(10 * number, lambda: say("Unknown", "Progressing"))
        stage.at(10 * number + 5, lambda: say("False", "HealthCheckFailed"))
    result = stage.follow_one(apps)
    assert (result.verdict, result.reason) == (V.FAILED, "HealthCheckFailed: m")
    assert 25.0 <= result.noticed_s <= 27.5


def test_helm_release_stuck_on_a_pending_record_names_it_without_reading_it(stage: Stage) -> None:
    """case_09: not tried again as if it passed; the record stays, and none of its data is asked for."""
    stage.make(
        "HelmRelease",
        "app",
        {
            "interval": "10m",
            "chart": {"spec": {"chart": "app", "sourceRef": {"kind": "HelmRepository", "name": "x"}}},
        },
    )
    for version, kind in ((1, "deployed"), (2, "pending-upgrade")):
        labels = {"owner": "helm", "name": "app", "version": str(version), "status": kind}
        stage.make("Secret", f"sh.helm.release.v1.app.v{version}", labels=labels, data={"release": "aHVudGVyMg=="})
    message = "Helm upgrade failed: another operation (install/upgrade/rollback) is in progress"
    one = {
        "type": "Ready",
        "status": "False",
        "reason": "UpgradeFailed",
        "message": message,
        "lastTransitionTime": AT,
    }
    stage.write("HelmRelease", "app", conditions=[one])
    result = stage.follow_one(stage.target("HelmRelease", "app"))
    assert (result.verdict, result.noticed_s <= 1.0) == (V.FAILED, True)
    [line] = result.events
    assert line.message == "Helm's record 2 is pending since then; the last deployed one is 1"
    assert [accept for _, path, _, accept in stage.door.asked if "secrets" in path] == [METADATA_ONLY]
    assert stage.cluster.request("GET", stage.path("Secret", "sh.helm.release.v1.app.v2")).status == 200


def test_secret_is_followed_without_its_data_and_without_its_neighbours(stage: Stage) -> None:
    """Name and generation are enough, and a right to this one, too."""
    stage.make("Secret", "token", data={"password": "aHVudGVyMg=="})
    assert stage.follow(stage.target("Secret", "token")).outcome is V.SUCCEEDED
    [(_, _, query, accept)] = stage.door.asked
    assert query["fieldSelector"] == "metadata.name=token"
    assert "PartialObjectMetadataList" in accept
