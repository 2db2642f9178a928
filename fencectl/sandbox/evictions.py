"""Evictions and PodDisruptionBudgets: what stands between a drain and a pod."""

from __future__ import annotations

from typing import Any

from fencectl.sandbox import status
from fencectl.sandbox.api import Api
from fencectl.sandbox.gojson import Obj
from fencectl.sandbox.options import WriteOptions
from fencectl.sandbox.selectors import labels_of, selector_matcher
from fencectl.sandbox.targets import Target, check_preconditions

_BUDGETS = ("policy", "poddisruptionbudgets")


def budgets_of(api: Api, pod: Obj) -> list[Obj]:
    """Return the budgets that select a pod."""
    namespace = pod["metadata"]["namespace"]
    return [
        budget
        for name, budget in api.storage.list(_BUDGETS)[0]
        if name[0] == namespace and selector_matcher(budget.get("spec", {}).get("selector"))(labels_of(pod))
    ]


def evict(api: Api, target: Target, *, body: Any, dry_run: bool) -> Obj:
    """Evict a pod, unless a budget forbids it; returns the Status of a success."""
    if ((body or {}).get("metadata") or {}).get("name") != target.name:
        raise status.bad_request("name in URL does not match name in Eviction object")
    pod = api.storage.get(("", "pods"), name=target.key)
    if pod is None:
        raise target.not_found()
    options = (body or {}).get("deleteOptions") or {}
    dry = dry_run or "All" in (options.get("dryRun") or ())
    wanted = options.get("preconditions") or {}
    phase = pod.get("status", {}).get("phase")
    counted = phase not in ("Succeeded", "Failed") and not pod["metadata"].get("deletionTimestamp")
    found = budgets_of(api, pod) if counted else []
    if len(found) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise status.StatusError(500, reason="", message=text)
    for budget in found:
        _take(api, budget, pod, dry_run=dry)
    check_preconditions(target, pod, wanted)
    if not dry:
        _mark(api, target)
        # NB: the mark is a write of its own; what was asked for is the version before it.
        wanted = {key: value for key, value in wanted.items() if key != "resourceVersion"}
    grace = options.get("gracePeriodSeconds")
    api.delete(target, preconditions=wanted, dry_run=dry, grace_s=grace)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _mark(api: Api, target: Target) -> None:
    """Write the condition that says why the pod ends."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": api.now(),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }

    def marked(pod: Obj) -> Obj:
        state = dict(pod.get("status") or {})
        others = [item for item in state.get("conditions") or () if item.get("type") != "DisruptionTarget"]
        return {**pod, "status": {**state, "conditions": [*others, condition]}}

    options = WriteOptions(manager="kube-apiserver", subresource="status")
    api.update(target, change=marked, options=options)


def _take(api: Api, budget: Obj, pod: Obj, *, dry_run: bool) -> None:
    """Use up one allowed disruption of a budget."""
    name = budget["metadata"]["name"]
    state = budget.get("status", {})
    if state.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _refused(f"The disruption budget {name} is still being processed by the server.", retry_after_s=10)
    healthy = any(
        item.get("type") == "Ready" and item.get("status") == "True"
        for item in pod.get("status", {}).get("conditions") or ()
    )
    unhealthy_goes = (
        not healthy
        and pod.get("status", {}).get("phase") == "Running"
        and (
            budget.get("spec", {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
            or (state.get("currentHealthy", 0) >= state.get("desiredHealthy", 0) > 0)
        )
    )
    if pod.get("status", {}).get("phase") == "Pending" or unhealthy_goes:
        return
    if state.get("disruptionsAllowed", 0) <= 0:
        needed, have = state.get("desiredHealthy", 0), state.get("currentHealthy", 0)
        raise _refused(f"The disruption budget {name} needs {needed} healthy pods and has {have} currently")
    if dry_run:
        return

    def used(current: Obj) -> Obj:
        before = current.get("status") or {}
        allowed = before["disruptionsAllowed"] - 1
        condition = {
            "type": "DisruptionAllowed",
            "status": "True" if allowed else "False",
            "observedGeneration": before.get("observedGeneration", 0),
            "lastTransitionTime": api.now(),
            "reason": "SufficientPods" if allowed else "InsufficientPods",
            "message": "",
        }
        others = [item for item in before.get("conditions") or () if item["type"] != "DisruptionAllowed"]
        left = {
            **before,
            "disruptionsAllowed": allowed,
            "disruptedPods": {**(before.get("disruptedPods") or {}), pod["metadata"]["name"]: api.now()},
            "conditions": [*others, condition],
        }
        return {**current, "status": left}

    target = Target(api.resources.of("poddisruptionbudgets"), budget["metadata"]["namespace"], name)
    api.update(target, change=used, options=WriteOptions(manager="kube-apiserver", subresource="status"))


def _refused(text: str, *, retry_after_s: int = 0) -> status.StatusError:
    details: Obj = {"causes": [{"reason": "DisruptionBudget", "message": text}]}
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
    return status.StatusError(
        429,
        reason="TooManyRequests",
        message="Cannot evict pod as it would violate the pod's disruption budget.",
        details=details,
        headers={"Retry-After": str(retry_after_s)} if retry_after_s else None,
    )
