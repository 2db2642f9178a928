"""
Verdicts on Jobs and pods.

Aspects: complete · failed · backing off · suspended · not started · doomed pods · nodes · phases of a pod.
"""

from __future__ import annotations

from typing import Any

import pytest

from fencectl.core.rollout import Cause, RolloutVerdict as V
from tests.core.rolling_out import TEMPLATE, Raw, condition, container, look, obj, pod

STARTED = {"startTime": "2026-11-30T02:00:00Z"}
CRASHED: Raw = {
    "phase": "Failed",
    "containerStatuses": [{"name": "app", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}],
}


def job(spec: Raw | None = None, *found: Raw, **status: Any) -> Raw:
    conditions = {"conditions": list(found)} if found else {}
    return obj("Job", {"template": TEMPLATE, **(spec or {})}, {**STARTED, **conditions, **status}, generation=1)


@pytest.mark.parametrize(
    ("raw", "verdict", "cause"),
    [
        (job({"backoffLimit": 0}, condition("Complete"), succeeded=1), V.SUCCEEDED, Cause.DONE),
        (job({}, condition("Failed", reason="BackoffLimitExceeded"), failed=7), V.FAILED, Cause.JOB),
        (job({}, condition("FailureTarget", reason="PodFailurePolicy"), failed=1), V.FAILED, Cause.JOB),
        (job({}, condition("SuccessCriteriaMet"), succeeded=1), V.WAITING, Cause.ROLLING),
        (job({}, condition("Complete", "False"), active=1), V.WAITING, Cause.ROLLING),
        (job({"backoffLimit": 1}, failed=1, active=1), V.WAITING, Cause.ROLLING),
        (job({"backoffLimit": 0}, active=1), V.WAITING, Cause.ROLLING),
        (job({"suspend": True}), V.UNKNOWN, Cause.SUSPENDED),
        (job({}, condition("Suspended")), V.UNKNOWN, Cause.SUSPENDED),
        (obj("Job", {}, {}, generation=1), V.WAITING, Cause.NOT_SEEN),
        (obj("Job", {}, None, generation=1), V.WAITING, Cause.NOT_SEEN),
        (job({}, active="1"), V.UNKNOWN, Cause.MALFORMED),
        (job({"suspend": "yes"}), V.UNKNOWN, Cause.MALFORMED),
        (job({}, {"type": "Complete"}), V.UNKNOWN, Cause.MALFORMED),
    ],
)
def test_job_is_judged_by_its_own_end(raw: Raw, verdict: V, cause: Cause) -> None:
    """case_55: neither a running one nor a suspended one is done (kstatus says Current), and a limit of 0 is no failure."""
    found = look(raw, generation=1)
    assert (found.verdict, found.cause) == (verdict, cause)


def test_job_that_backs_off_says_how_often_it_failed_and_where() -> None:
    """Not a failure yet: it tries again by itself."""
    pods = [pod("job-1", "uid-web", "n4", status=CRASHED)]
    found = look(job({"backoffLimit": 4}, failed=2), pods=pods, generation=1)
    assert found.reason == (
        "0 pods active, 0 succeeded; backs off after 2 pods failed (limit 4); pod job-1 on n4 ended with 3"
    )
    assert (found.verdict, found.pods[0].node, found.pods[0].exit_code) == (V.WAITING, "n4", 3)


def test_failed_job_names_its_last_pod() -> None:
    found = look(
        job({}, condition("Failed", reason="BackoffLimitExceeded", message="limit"), failed=7),
        pods=[pod("job-1", "uid-web", "n4", status=CRASHED), pod("job-2", "other", status=CRASHED)],
        generation=1,
    )
    assert found.reason == "BackoffLimitExceeded: limit; pod job-1 on n4 ended with 3"
    assert [one.pod for one in found.pods] == ["job-1"]


def test_pod_of_a_job_whose_image_is_missing_fails_it() -> None:
    """It would wait for ever: no back-off limit counts that."""
    pods = [pod("job-1", "uid-web", status=container("ErrImageNeverPull"))]
    found = look(job({}, active=1), pods=pods, generation=1)
    assert (found.verdict, found.cause) == (V.FAILED, Cause.IMAGE)


def test_crashes_of_a_job_are_counted_by_the_job() -> None:
    """A container that it restarts is within its own limit."""
    pods = [pod("job-1", "uid-web", status=container("CrashLoopBackOff", restarts=5, code=1))]
    assert look(job({}, active=1), pods=pods, generation=1).verdict is V.WAITING


def test_job_on_a_node_that_is_down_is_a_node_problem() -> None:
    pods = [pod("job-1", "uid-web", "n3", status=container(None))]
    found = look(job({}, active=1), pods=pods, down=("n3",), generation=1)
    assert (found.verdict, found.cause) == (V.WAITING, Cause.NODE)


READY = {"phase": "Running", "conditions": [condition("Ready")]}


@pytest.mark.parametrize(
    ("status", "verdict", "cause"),
    [
        (READY, V.SUCCEEDED, Cause.DONE),
        ({"phase": "Succeeded"}, V.SUCCEEDED, Cause.DONE),
        ({"phase": "Failed", "reason": "Evicted"}, V.FAILED, Cause.POD),  # kstatus says Current
        (CRASHED, V.FAILED, Cause.POD),
        ({"phase": "Pending"}, V.WAITING, Cause.NOT_READY),
        ({"phase": "Running"}, V.WAITING, Cause.NOT_READY),
        (None, V.WAITING, Cause.NOT_READY),
        ({"phase": "Unknown"}, V.WAITING, Cause.NOT_READY),
        (container("CrashLoopBackOff", restarts=4, code=1), V.FAILED, Cause.CRASH),
        ({"phase": "Bouncing"}, V.UNKNOWN, Cause.MALFORMED),
        ({"phase": "Running", "conditions": "Ready"}, V.UNKNOWN, Cause.MALFORMED),
    ],
)
def test_pod_is_judged_by_its_phase_and_readiness(status: Any, verdict: V, cause: Cause) -> None:
    found = look(obj("Pod", {"nodeName": "n1"}, status))
    assert (found.verdict, found.cause) == (verdict, cause)
