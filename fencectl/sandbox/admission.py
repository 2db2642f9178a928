"""What admission adds to new objects."""

from __future__ import annotations

from fencectl.sandbox.gojson import Obj
from fencectl.sandbox.resources import Resource

NOT_READY: Obj = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def admitted(resource: Resource, sent: Obj) -> Obj:
    """Do what admission does to a new object: a node is not ready yet, a pod has an account and tolerations."""
    spec = sent.get("spec") or {}
    if resource.kind == "Pod":
        return {**sent, "spec": _admitted_pod(spec)}
    if resource.kind != "Node":
        return sent
    taints = spec.get("taints") or []
    if not isinstance(taints, list) or NOT_READY in taints:
        return sent
    return {**sent, "spec": {**spec, "taints": [*taints, NOT_READY]}}


def _admitted_pod(spec: Obj) -> Obj:
    tolerations = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ]
    account = spec.get("serviceAccountName") or "default"
    added = {"serviceAccountName": account, "serviceAccount": account}
    added |= {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}
    return {**added, **spec, "tolerations": [*(spec.get("tolerations") or ()), *tolerations]}
