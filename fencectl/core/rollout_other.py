"""
Verdicts on everything else: CRDs, claims, services, what has no status at all, and whatever says `Ready`.

A custom kind is believed only where it says which generation it speaks of (or has had one only): conditions
without that may be those of the state before.
"""

from __future__ import annotations

from fencectl.core.refs import Raw, dig
from fencectl.core.rollout import Cause, Judgement, Target
from fencectl.core.rollout_reading import (
    Condition,
    MalformedError,
    conditions,
    done,
    failed,
    generation_of,
    is_so,
    not_seen,
    observed_generation,
    section,
    unknown,
    waiting,
)

SILENT_GRACE_S = 60.0
"""A controller that has said nothing for so long says nothing."""

# Kinds of Kubernetes that have no status, or none that anything waits for: done as soon as they are there.
_CORE = {
    "ConfigMap", "Secret", "ServiceAccount", "LimitRange", "ResourceQuota", "Endpoints", "PodTemplate", "Event",
}  # fmt: skip
_GROUPS: dict[str, set[str]] = {
    "": _CORE,
    "apps": {"ControllerRevision"},
    "batch": {"CronJob"},
    "rbac.authorization.k8s.io": {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"},
    "networking.k8s.io": {"NetworkPolicy", "Ingress", "IngressClass"},
    "storage.k8s.io": {"StorageClass", "CSIDriver", "VolumeAttributesClass"},
    "flowcontrol.apiserver.k8s.io": {"FlowSchema", "PriorityLevelConfiguration"},
    "resource.k8s.io": {"DeviceClass", "ResourceClaimTemplate"},
    "scheduling.k8s.io": {"PriorityClass"},
    "node.k8s.io": {"RuntimeClass"},
    "coordination.k8s.io": {"Lease"},
    "discovery.k8s.io": {"EndpointSlice"},
    "autoscaling": {"HorizontalPodAutoscaler"},
    "admissionregistration.k8s.io": {
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
    },
    "notification.toolkit.fluxcd.io": {"Alert", "Provider"},
}
# What says that all is well, the first that is there.
_GOOD = ("Ready", "Available", "Programmed", "Established", "Complete", "Succeeded")


def has_status(target: Target) -> bool:
    """Whether a status is to be waited for."""
    return target.has_status and target.ref.kind not in _GROUPS.get(target.ref.group, ())


def judge_crd(target: Target, obj: Raw) -> Judgement:
    """Judge one look at a CustomResourceDefinition."""
    found, observed, generation = conditions(obj), observed_generation(obj), generation_of(obj)
    if observed is not None and generation is not None and observed < generation:
        return waiting(Cause.NOT_SEEN, f"the API server has seen generation {observed}, not {generation}")
    names = found.get("NamesAccepted")
    if names is not None and names.status == "False":
        return failed(Cause.CONDITION, f"its names are not accepted: {names.words}")
    if is_so(found, "Established"):
        return done("established")
    established = found.get("Established")
    if established is not None and established.status == "False" and established.reason != "Installing":
        return failed(Cause.CONDITION, f"not established: {established.words}")
    return waiting(Cause.NOT_READY, "not established yet")


def judge_claim(target: Target, obj: Raw) -> Judgement:
    """Judge one look at a PersistentVolumeClaim."""
    phase = section(obj, "status").get("phase")
    if phase == "Lost":
        return failed(Cause.CONDITION, "its volume is lost")
    if phase == "Bound":
        if is_so(conditions(obj), "Resizing"):
            return waiting(Cause.ROLLING, "its volume is being resized")
        return done("bound")
    if phase in (None, "Pending"):
        return waiting(Cause.NOT_READY, "not bound yet (some volumes wait for the first pod that uses them)")
    raise MalformedError("status.phase")


def judge_volume(target: Target, obj: Raw) -> Judgement:
    """Judge one look at a PersistentVolume."""
    phase = section(obj, "status").get("phase")
    if phase in ("Available", "Bound"):
        return done("there")
    if phase == "Failed":
        return failed(Cause.CONDITION, "its volume could not be reclaimed")
    return waiting(Cause.NOT_READY, "its phase is not Available yet")


def judge_service(target: Target, obj: Raw) -> Judgement:
    """Judge one look at a Service: one with a load balancer needs an address."""
    if section(obj, "spec").get("type") == "LoadBalancer" and not dig(obj, "spec", "clusterIP"):
        return waiting(Cause.NOT_READY, "no address yet")
    return done("there")


def judge_namespace(target: Target, obj: Raw) -> Judgement:
    """Judge one look at a Namespace."""
    phase = section(obj, "status").get("phase")
    return done("active") if phase == "Active" else waiting(Cause.NOT_READY, f"its phase is {phase or 'open'}")


def judge_budget(target: Target, obj: Raw) -> Judgement:
    """Judge one look at a PodDisruptionBudget: what it allows is not a matter of a deploy."""
    return not_seen(target, obj) or done("counted")


def judge_any(target: Target, obj: Raw) -> Judgement:
    """Judge one look at a custom kind by its conditions."""
    found, generation = conditions(obj), generation_of(obj)
    observed = observed_generation(obj)
    if not section(obj, "status"):
        return unknown(Cause.NO_STATUS, "nothing has written a status for it", grace_s=SILENT_GRACE_S)
    if generation is not None and observed is not None and observed < generation:
        return waiting(Cause.NOT_SEEN, f"its controller has seen generation {observed}, not {generation}")
    for kind in ("Stalled", "Failed"):
        if is_so(found, kind) and _is_of(found[kind], observed, generation):
            return failed(Cause.CONDITION, f"{kind}: {found[kind].words}")
    if is_so(found, "Reconciling"):
        return waiting(Cause.ROLLING, f"reconciling: {found['Reconciling'].words}")
    good = next((kind for kind in _GOOD if kind in found), None)
    if good is None:
        reason = "it has no condition that says whether it is ready"
        return unknown(Cause.NO_STATUS, reason, grace_s=SILENT_GRACE_S)
    if found[good].status != "True":
        return waiting(Cause.NOT_READY, f"{good} is {found[good].status}: {found[good].words}")
    if not _is_of(found[good], observed, generation):
        reason = f"{good} does not say which generation it is of (now {generation})"
        return unknown(Cause.NO_STATUS, reason, grace_s=SILENT_GRACE_S)
    return done(f"{good} is True")


def _is_of(condition: Condition, observed: int | None, generation: int | None) -> bool:
    """Whether a condition speaks of the present generation; the first one has no predecessor."""
    if generation is None or generation == 1:
        return True
    said = condition.observed if condition.observed is not None else observed
    return said is not None and said >= generation
