"""
One look at one object, judged: the door to the rules per kind.

Before any rule of a kind: is it the object that was deployed, of the state that was deployed, and not being
deleted? Whatever a rule cannot make sense of is `unknown`, never an exception and never a success.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fencectl.core.managers import last_writer
from fencectl.core.refs import Raw, dig, is_deleting
from fencectl.core.rollout import Around, Cause, Judgement, Target
from fencectl.core.rollout_daemons import judge_daemon_set
from fencectl.core.rollout_flux import GROUPS as FLUX_GROUPS, judge_flux
from fencectl.core.rollout_jobs import judge_job, judge_pod
from fencectl.core.rollout_other import (
    has_status,
    judge_any,
    judge_budget,
    judge_claim,
    judge_crd,
    judge_namespace,
    judge_service,
    judge_volume,
)
from fencectl.core.rollout_reading import MalformedError, done, generation_of, unknown, waiting
from fencectl.core.rollout_workloads import (
    judge_deployment,
    judge_replica_set,
    judge_stateful_set,
    same_template,
)
from fencectl.core.times import second_time

MALFORMED_GRACE_S = 20.0

_WITH_PODS: dict[tuple[str, str], Callable[[Target, Raw, Around], Judgement]] = {
    ("apps", "Deployment"): judge_deployment,
    ("apps", "StatefulSet"): judge_stateful_set,
    ("apps", "DaemonSet"): judge_daemon_set,
    ("apps", "ReplicaSet"): judge_replica_set,
    ("batch", "Job"): judge_job,
    ("", "Pod"): judge_pod,
}
_ALONE: dict[tuple[str, str], Callable[[Target, Raw], Judgement]] = {
    ("apiextensions.k8s.io", "CustomResourceDefinition"): judge_crd,
    ("", "PersistentVolumeClaim"): judge_claim,
    ("", "PersistentVolume"): judge_volume,
    ("", "Service"): judge_service,
    ("", "Namespace"): judge_namespace,
    ("policy", "PodDisruptionBudget"): judge_budget,
}


def needs_pods(target: Target) -> bool:
    """Whether the pods of its namespace say something about the target."""
    return (target.ref.group, target.ref.kind) in _WITH_PODS


def needs_replica_sets(target: Target) -> bool:
    """Whether the ReplicaSets of its namespace say which pods are the target's."""
    return (target.ref.group, target.ref.kind) == ("apps", "Deployment")


def judge(target: Target, obj: object, around: Around, *, ours: Raw | None = None) -> Judgement:
    """
    Judge one look at a target.

    `ours`: the object in the state that was deployed, as far as it was seen; it tells an autoscaler's change from
    somebody else's rollout. A verdict counts once it has been so for its `grace_s`.
    """
    try:
        raw = _object(obj)
        return _not_ours(target, raw, ours) or _by_kind(target, raw, around, ours)
    except MalformedError as bad:
        reason = f"`{bad.what}` has a value that cannot be read"
        return unknown(Cause.MALFORMED, reason, grace_s=MALFORMED_GRACE_S)


def _object(obj: object) -> Raw:
    if not isinstance(obj, Mapping) or not isinstance(obj.get("metadata"), Mapping):
        raise MalformedError("metadata")
    return obj


def _not_ours(target: Target, obj: Raw, ours: Raw | None) -> Judgement | None:
    uid, generation = dig(obj, "metadata", "uid"), generation_of(obj)
    if target.ref.uid and uid != target.ref.uid:
        return unknown(Cause.REPLACED, "it was deleted, and somebody made it anew: not ours to judge")
    if target.generation is not None:
        if generation is None:
            raise MalformedError("metadata.generation")
        if generation < target.generation:
            reason = f"reads still show generation {generation}, not {target.generation}"
            return waiting(Cause.NOT_SEEN, reason)
        if generation > target.generation and not (ours is not None and same_template(ours, obj)):
            reason = f"taken over by a newer state, generation {generation} (ours was {target.generation})"
            return unknown(Cause.TAKEN_OVER, f"{reason}{_by_whom(obj)}: not ours to judge")
    if is_deleting(obj):
        return waiting(Cause.DELETING, "it is being deleted")
    return None


def _by_kind(target: Target, obj: Raw, around: Around, ours: Raw | None) -> Judgement:
    kind = (target.ref.group, target.ref.kind)
    if kind in _WITH_PODS:
        return _WITH_PODS[kind](target, obj, around)
    if kind in _ALONE:
        return _ALONE[kind](target, obj)
    if not has_status(target):
        return done("there")
    if target.ref.group.endswith(FLUX_GROUPS):
        return judge_flux(target, obj, ours)
    return judge_any(target, obj)


def _by_whom(obj: Raw) -> str:
    manager, at = last_writer(obj, "spec")
    if manager is None:
        # NB: managedFields may be absent: nobody is named then.
        return ""
    return f", last written by `{manager}`" + (f" at {second_time(at)}" if at is not None else "")
