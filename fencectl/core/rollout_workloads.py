"""
Verdicts on Deployments, StatefulSets and ReplicaSets.

Their status is of the generation that it names, so nothing in it counts before that one is the wanted one. Counts
of zero are left out by the API. A controller that has created all pods is not done: they must be available, and
stay so for a moment, since a container without a readiness probe is ready until it ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fencectl.core.refs import Raw, annotations_of, dig
from fencectl.core.rollout import Around, Cause, Judgement, PodTrouble, Target
from fencectl.core.rollout_pods import (
    are_nodes_to_blame,
    doom,
    is_finished,
    owned,
    pod_words,
    text,
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
    not_seen,
    section,
    unknown,
    waiting,
    whole,
)

STEADY_S = 3.0
"""What is available must be so for this long."""
DEADLINE_GRACE_S = 20.0
"""A rollout may come through just after its controller gave up waiting for it."""
BLOCKED_GRACE_S = 20.0
"""Whoever holds something back on purpose may be about to let it go."""
_REVISION = "deployment.kubernetes.io/revision"


def wanted_replicas(obj: Raw) -> int:
    """How many pods are wanted; the API's default is 1."""
    found = whole(section(obj, "spec"), "replicas", "spec")
    return 1 if found is None else found


def uid_of(obj: Raw) -> str:
    """The object's own uid."""
    return text(dig(obj, "metadata", "uid"))


def judge_deployment(target: Target, obj: Raw, around: Around) -> Judgement:
    """Judge one look at a Deployment."""
    if flag(section(obj, "spec"), "paused", "spec"):
        return unknown(Cause.PAUSED, "it is paused, and will not progress until somebody resumes it")
    early = not_seen(target, obj)
    if early is not None:
        return early
    status, found = section(obj, "status"), conditions(obj)
    wanted = wanted_replicas(obj)
    total, updated = count(status, "replicas"), count(status, "updatedReplicas")
    ready, available = count(status, "readyReplicas"), count(status, "availableReplicas")
    complete = total == updated == wanted and ready >= wanted and available >= wanted
    if complete and is_so(found, "Available") and not is_so(found, "Progressing", "False"):
        return done(f"{_replicas(wanted)} updated and available", grace_s=STEADY_S)
    bad = troubles(_pods_of_deployment(obj, around), around.nodes)
    progressing = found.get("Progressing")
    is_late = progressing is not None and progressing.reason == "ProgressDeadlineExceeded"
    left = f", {total - updated} of the old ones left" if total > updated else ""
    state = f"{updated} of {wanted} updated, {available} available{left}"
    judgement = _by_pods(state, bad)
    if judgement is not None:
        return judgement
    if is_late and progressing is not None and progressing.status == "False":
        reason = f"its progress deadline is over: {state}"
        return failed(Cause.DEADLINE, reason, grace_s=DEADLINE_GRACE_S, pods=bad)
    failure = found.get("ReplicaFailure")
    if failure is not None and failure.status == "True":
        return waiting(Cause.NOT_READY, f"{state}; pods cannot be created: {failure.words}", pods=bad)
    cause = Cause.ROLLING if updated < wanted or total > updated else Cause.NOT_READY
    return waiting(cause, _with_pod(state, bad), pods=bad)


def judge_stateful_set(target: Target, obj: Raw, around: Around) -> Judgement:
    """Judge one look at a StatefulSet."""
    early = not_seen(target, obj)
    if early is not None:
        return early
    status, strategy = section(obj, "status"), section(obj, "spec", "updateStrategy")
    wanted, new = wanted_replicas(obj), status.get("updateRevision")
    if not isinstance(new, str) or not new:
        raise MalformedError("status.updateRevision")
    # NB: pods below the partition stay as they are, on purpose.
    partition = whole(section(obj, "spec", "updateStrategy", "rollingUpdate"), "partition", "spec") or 0
    to_update = max(0, wanted - partition)
    total, ready, updated = (count(status, key) for key in ("replicas", "readyReplicas", "updatedReplicas"))
    available = count(status, "availableReplicas")
    is_new_everywhere = partition > 0 or status.get("currentRevision") == new
    state = f"{updated} of {to_update} updated, {available} of {wanted} available"
    stands = total == wanted and ready >= wanted and available >= wanted
    pods = [pod for pod in owned(around.pods, uid_of(obj)) if not is_finished(pod)]
    new_pods = [pod for pod in pods if dig(pod, "metadata", "labels", "controller-revision-hash") == new]
    bad = troubles(new_pods, around.nodes)
    if strategy.get("type") == "OnDelete":
        # NB: the controller moves nothing here, and never says that the update revision is the current one.
        if updated >= wanted and stands:
            return done(f"{_replicas(wanted)} updated and available", grace_s=STEADY_S)
        if updated < wanted:
            reason = f"its strategy is OnDelete, and {updated} of {wanted} pods were replaced"
            return unknown(Cause.ON_DELETE, reason, grace_s=BLOCKED_GRACE_S, pods=bad)
    elif updated >= to_update and stands and is_new_everywhere:
        kept = f", {wanted - to_update} kept by its partition" if partition else ""
        return done(f"{_replicas(to_update)} updated and available{kept}", grace_s=STEADY_S)
    judgement = _by_pods(state, bad)
    if judgement is not None:
        return judgement
    old = [pod for pod in pods if pod not in new_pods]
    bad += troubles(old, around.nodes)
    cause = Cause.ROLLING if updated < to_update else Cause.NOT_READY
    return waiting(cause, _with_pod(state, bad), pods=bad)


def judge_replica_set(target: Target, obj: Raw, around: Around) -> Judgement:
    """Judge one look at a ReplicaSet. It has no rollout: what it owns already stays as it is."""
    early = not_seen(target, obj)
    if early is not None:
        return early
    status, wanted = section(obj, "status"), wanted_replicas(obj)
    total, available = count(status, "replicas"), count(status, "availableReplicas")
    if total == wanted and available >= wanted:
        return done(f"{_replicas(wanted)} available", grace_s=STEADY_S)
    pods = [pod for pod in owned(around.pods, uid_of(obj)) if not is_finished(pod)]
    bad = troubles(pods, around.nodes)
    state = f"{available} of {wanted} available"
    return _by_pods(state, bad) or waiting(Cause.NOT_READY, _with_pod(state, bad), pods=bad)


def _pods_of_deployment(obj: Raw, around: Around) -> list[Raw]:
    """The pods of the newest ReplicaSet: those of older ones say nothing about what was deployed."""
    newest = annotations_of(obj).get(_REVISION)
    sets = owned(around.replica_sets, uid_of(obj))
    ours = [one for one in sets if newest is not None and annotations_of(one).get(_REVISION) == newest]
    if len(ours) != 1:
        return []
    return [pod for pod in owned(around.pods, uid_of(ours[0])) if not is_finished(pod)]


def _by_pods(state: str, bad: Sequence[PodTrouble]) -> Judgement | None:
    """Judge by the pods where they decide: one is doomed, or all that is missing is on nodes that are down."""
    judgement = doom(bad)
    if judgement is not None:
        return judgement
    if are_nodes_to_blame(bad):
        return waiting(Cause.NODE, _with_pod(state, bad), pods=tuple(bad))
    return None


def _with_pod(state: str, bad: Sequence[PodTrouble]) -> str:
    return f"{state}; {pod_words(bad[0])}" if bad else state


def _replicas(number: int) -> str:
    return "1 replica" if number == 1 else f"{number} replicas"


def same_template(before: Raw, after: Raw) -> bool:
    """Whether two states of an object would run the same: only what makes no new rollout differs."""
    one, other = _essence(before), _essence(after)
    return one is not None and one == other


_HELD_BACK = frozenset({"replicas", "paused", "suspend", "parallelism"})


def _essence(obj: Raw) -> Mapping[str, Any] | None:
    spec = dig(obj, "spec")
    if not isinstance(spec, Mapping):
        return None
    template = spec.get("template")
    if isinstance(template, Mapping) and dig(template, "spec", "containers") is not None:
        return template
    return {key: value for key, value in spec.items() if key not in _HELD_BACK}
