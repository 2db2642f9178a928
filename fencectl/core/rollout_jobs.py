"""
Verdicts on Jobs and on single pods: what has an end of its own.

A Job counts its failures itself and tries again, so a crash is no failure before it says so; `failed` beside a
limit proves nothing (a Job that succeeds has none, https://github.com/helm/helm/issues/9285).
"""

from __future__ import annotations

from collections.abc import Sequence

from fencectl.core.refs import Raw, dig
from fencectl.core.rollout import Around, Cause, Judgement, PodTrouble, Target
from fencectl.core.rollout_pods import (
    are_nodes_to_blame,
    doom,
    is_ready,
    owned,
    pod_words,
    trouble_of,
    troubles,
)
from fencectl.core.rollout_reading import (
    MalformedError,
    conditions,
    count,
    done,
    failed,
    flag,
    is_so,
    section,
    unknown,
    waiting,
    whole,
)
from fencectl.core.rollout_workloads import BLOCKED_GRACE_S, STEADY_S, uid_of

_DEFAULT_LIMIT = 6


def judge_job(target: Target, obj: Raw, around: Around) -> Judgement:
    """Judge one look at a Job."""
    found, status = conditions(obj), section(obj, "status")
    pods = owned(around.pods, uid_of(obj))
    succeeded, active = count(status, "succeeded"), count(status, "active")
    retries = count(status, "failed")
    # NB: `Complete` and `Failed` are final for a Job, whatever else its status says.
    if is_so(found, "Complete"):
        return done(f"complete, {_pods(succeeded)} succeeded", for_good=True)
    ended = troubles((pod for pod in pods if dig(pod, "status", "phase") == "Failed"), {})
    for kind in ("Failed", "FailureTarget"):
        if is_so(found, kind):
            reason = f"{found[kind].words}{_last(ended)}"
            return failed(Cause.JOB, reason, for_good=kind == "Failed", pods=ended)
    if flag(section(obj, "spec"), "suspend", "spec") or is_so(found, "Suspended"):
        return unknown(Cause.SUSPENDED, "it is suspended, and runs nothing", grace_s=BLOCKED_GRACE_S)
    running = troubles((pod for pod in pods if dig(pod, "status", "phase") != "Failed"), around.nodes)
    judgement = doom(running, crashes=False)
    if judgement is not None:
        return judgement
    if "startTime" not in status:
        return waiting(Cause.NOT_SEEN, "its controller has not started it yet")
    limit = whole(section(obj, "spec"), "backoffLimit", "spec")
    allowed = _DEFAULT_LIMIT if limit is None else limit
    state = f"{_pods(active)} active, {succeeded} succeeded"
    if retries:
        again = "backs off" if not active else "tries again"
        state = f"{state}; {again} after {_pods(retries)} failed (limit {allowed}){_last(ended)}"
    bad = (*ended, *running)
    if are_nodes_to_blame(running):
        return waiting(Cause.NODE, f"{state}; {pod_words(running[0])}", pods=bad)
    return waiting(Cause.ROLLING, state, pods=bad)


def judge_pod(target: Target, obj: Raw, around: Around) -> Judgement:
    """Judge one look at a pod that was created by itself."""
    phase = section(obj, "status").get("phase")
    if phase not in (None, "Pending", "Running", "Succeeded", "Failed", "Unknown"):
        raise MalformedError("status.phase")
    if phase == "Succeeded":
        return done("it has ended with success", for_good=True)
    conditions(obj)
    if is_ready(obj) and phase == "Running":
        return done("ready", grace_s=STEADY_S)
    bad = trouble_of(obj, around.nodes)
    if bad is None:
        return waiting(Cause.NOT_READY, f"its phase is {phase or 'not there yet'}")
    if bad.cause is Cause.POD:
        return failed(Cause.POD, _ended(bad), for_good=True, pods=(bad,))
    judgement = doom((bad,))
    if judgement is not None:
        return judgement
    cause = Cause.NODE if bad.cause is Cause.NODE else Cause.NOT_READY
    return waiting(cause, pod_words(bad), pods=(bad,))


def _ended(one: PodTrouble) -> str:
    how = f", container {one.container} with {one.exit_code}" if one.container else ""
    return f"it has ended as {one.why}{how}"


def _last(ended: Sequence[PodTrouble]) -> str:
    if not ended:
        return ""
    one = ended[-1]
    code = f" ended with {one.exit_code}" if one.exit_code is not None else f": {one.why}"
    return f"; pod {one.pod}{f' on {one.node}' if one.node else ''}{code}"


def _pods(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"
