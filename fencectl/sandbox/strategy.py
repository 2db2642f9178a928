"""How each kind prepares an object for storage: defaults, what a door may change, the generation."""

from __future__ import annotations

from typing import Any

from fencectl.sandbox.decode import fill_defaults
from fencectl.sandbox.gojson import Obj
from fencectl.sandbox.resources import Resource

OPEN_STATUS_ON_CREATE = {"Node"}


def prepare_for_create(resource: Resource, obj: Obj) -> Obj:
    """Return a new object as its kind starts."""
    out = dict(obj)
    if "status" in resource.subresources and resource.kind not in OPEN_STATUS_ON_CREATE:
        out.pop("status", None)
    if resource.custom:
        out = fill_defaults(resource.type, out)
    if resource.has_generation:
        out["metadata"] = {**out["metadata"], "generation": 1}
    else:
        out["metadata"] = {key: value for key, value in out["metadata"].items() if key != "generation"}
    prepare = _ON_CREATE.get(resource.kind)
    return prepare(out) if prepare else out


def _namespace(obj: Obj) -> Obj:
    name = obj["metadata"].get("name", "")
    labels = {**(obj["metadata"].get("labels") or {}), "kubernetes.io/metadata.name": name}
    metadata = {**obj["metadata"], "labels": labels}
    return {**obj, "metadata": metadata, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}


def _pod(obj: Obj) -> Obj:
    spec = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        **obj.get("spec", {}),
    }
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    spec["containers"] = [_container(item) for item in spec.get("containers") or []]
    return {**obj, "spec": spec, "status": {"phase": "Pending", "qosClass": _qos(spec)}}


def _container(container: Obj) -> Obj:
    image = str(container.get("image", ""))
    latest = ":" not in image.rsplit("/", 1)[-1] or image.endswith(":latest")
    return {
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always" if latest else "IfNotPresent",
        **container,
    }


def _qos(spec: Obj) -> str:
    resources = [item.get("resources") or {} for item in spec["containers"]]
    if not any(item.get("requests") or item.get("limits") for item in resources):
        return "BestEffort"
    full = all(
        {"cpu", "memory"} <= set(item.get("limits") or {})
        and all((item.get("requests") or item["limits"]).get(key) == value for key, value in item["limits"].items())
        for item in resources
    )
    return "Guaranteed" if full else "Burstable"


def _secret(obj: Obj) -> Obj:
    import base64

    out = {"type": "Opaque", **obj}
    plain = out.pop("stringData", None)
    if plain:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        out["data"] = {**(out.get("data") or {}), **encoded}
    return out


def _replicated(obj: Obj) -> Obj:
    spec = {"replicas": 1, **obj.get("spec", {})}
    return {**obj, "spec": _with_template(spec)}


def _with_template(spec: Obj) -> Obj:
    template = spec.get("template") or {}
    pod = _pod({"spec": template.get("spec") or {}})["spec"]
    for name in ("enableServiceLinks", "preemptionPolicy", "priority"):
        if name not in (template.get("spec") or {}):
            pod.pop(name)
    return {**spec, "template": {**template, "spec": pod}}


def _deployment(obj: Obj) -> Obj:
    out = _replicated(obj)
    out["spec"] = {"revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, **out["spec"]}
    strategy = out["spec"].get("strategy") or {}
    if strategy.get("type", "RollingUpdate") == "RollingUpdate":
        rolling = {"maxUnavailable": "25%", "maxSurge": "25%", **(strategy.get("rollingUpdate") or {})}
        strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    out["spec"]["strategy"] = strategy
    return {**out, "status": {}}


def _stateful_set(obj: Obj) -> Obj:
    out = _replicated(obj)
    spec = {"podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10, **out["spec"]}
    spec["updateStrategy"] = spec.get("updateStrategy") or {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    return {**out, "spec": spec, "status": {"replicas": 0, "availableReplicas": 0}}


def _daemon_set(obj: Obj) -> Obj:
    spec = _with_template(obj.get("spec", {}))
    spec["updateStrategy"] = spec.get("updateStrategy") or {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
    }
    numbers = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    return {**obj, "spec": {"revisionHistoryLimit": 10, **spec}, "status": dict.fromkeys(numbers, 0)}


def _replica_set(obj: Obj) -> Obj:
    return {**_replicated(obj), "status": {"replicas": 0}}


def _job(obj: Obj) -> Obj:
    spec = {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
        **_with_template(obj.get("spec", {})),
    }
    return {**obj, "spec": spec, "status": {}}


def _budget(obj: Obj) -> Obj:
    names = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    return {**obj, "status": dict.fromkeys(names, 0)}


def _service(obj: Obj) -> Obj:
    spec = {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster", **obj.get("spec", {})}
    spec["ports"] = [
        {"protocol": "TCP", **port, "targetPort": port.get("targetPort", port.get("port"))}
        for port in spec.get("ports") or []
    ]
    return {**obj, "spec": spec, "status": {"loadBalancer": {}}}


_ON_CREATE: dict[str, Any] = {
    "Namespace": _namespace,
    "Pod": _pod,
    "Secret": _secret,
    "Deployment": _deployment,
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
    "ReplicaSet": _replica_set,
    "Job": _job,
    "PodDisruptionBudget": _budget,
    "Service": _service,
}


def prepare_for_update(resource: Resource, *, old: Obj, new: Obj, subresource: str) -> Obj:
    """Return `new` with everything put back that this door may not change, and its generation."""
    out = dict(new)
    if subresource == "status":
        for key in {*old, *out} - {"status", "metadata", "apiVersion", "kind"}:
            _put_back(out, old, key)
        if resource.custom:
            # NB: through the status door of a custom kind not even annotations can be changed.
            managed = new["metadata"].get("managedFields")
            metadata = {**old["metadata"], "resourceVersion": new["metadata"].get("resourceVersion")}
            out["metadata"] = {**metadata, "managedFields": managed}
    elif "status" in resource.subresources:
        _put_back(out, old, "status")
    if resource.custom:
        out = fill_defaults(resource.type, out)
    if resource.kind == "Secret":
        out = _secret(out)
    metadata = dict(out["metadata"])
    for name in ("uid", "creationTimestamp", "generateName", "selfLink"):
        if not metadata.get(name) and old["metadata"].get(name):
            metadata[name] = old["metadata"][name]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
        metadata.pop(name, None)
        if name in old["metadata"]:
            metadata[name] = old["metadata"][name]
    if resource.has_generation and _spec_changed(resource, old, out):
        metadata["generation"] = int(old["metadata"].get("generation", 0)) + 1
    out["metadata"] = {key: value for key, value in metadata.items() if value is not None}
    return out


def _put_back(out: Obj, old: Obj, key: str) -> None:
    out.pop(key, None)
    if key in old:
        out[key] = old[key]


def _spec_changed(resource: Resource, old: Obj, new: Obj) -> bool:
    if not resource.custom:
        return bool(old.get("spec") != new.get("spec"))
    skipped = {"metadata", "status"} if "status" in resource.subresources else {"metadata"}
    return {k: v for k, v in old.items() if k not in skipped} != {k: v for k, v in new.items() if k not in skipped}
