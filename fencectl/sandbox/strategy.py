"""How each kind prepares an object for storage: defaults, what a door may change, the generation."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from fencectl.sandbox.decode import fill_defaults
from fencectl.sandbox.gojson import Obj
from fencectl.sandbox.resources import Resource

OPEN_STATUS_ON_CREATE = {"Node"}


def default_object(resource: Resource, obj: Obj) -> Obj:
    """Fill in the defaults of a kind. Whoever sends an object owns its defaults as well."""
    if resource.custom:
        return dict(fill_defaults(resource.type, obj))
    defaults = _DEFAULTS.get(resource.kind)
    return defaults(obj) if defaults else obj


def prepare_for_create(resource: Resource, obj: Obj) -> Obj:
    """Return a new object as its kind starts: nobody's fields, such as its first status."""
    out = dict(obj)
    if "status" in resource.subresources and resource.kind not in OPEN_STATUS_ON_CREATE:
        out.pop("status", None)
        if resource.custom:
            out = dict(fill_defaults(resource.type, out))
    if resource.kind in _FIRST_STATUS:
        out["status"] = dict(_FIRST_STATUS[resource.kind])
    if resource.kind == "Pod":
        out["status"]["qosClass"] = _qos(out["spec"])
    if resource.kind == "Job" and not out["spec"].get("manualSelector"):
        out["spec"] = _own_pods(out["spec"], out["metadata"])
        labels = out["metadata"].get("labels") or out["spec"]["template"]["metadata"]["labels"]
        out["metadata"] = {**out["metadata"], "labels": labels}
    if resource.kind == "Namespace":
        # Its controller takes this off when the namespace is empty.
        out["spec"] = {"finalizers": ["kubernetes"]}
    metadata = {key: value for key, value in out["metadata"].items() if key != "generation"}
    if resource.has_generation:
        metadata["generation"] = 1
    out["metadata"] = metadata
    return _normalised(resource, out)


def _own_pods(spec: Obj, metadata: Obj) -> Obj:
    """Give a job a selector that no other job has."""
    uid, name = metadata["uid"], metadata.get("name", "")
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    template = spec.get("template") or {}
    above = template.get("metadata") or {}
    marked = {**template, "metadata": {**above, "labels": {**(above.get("labels") or {}), **labels}}}
    selector = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    return {**spec, "selector": selector, "template": marked}


def _normalised(resource: Resource, obj: Obj) -> Obj:
    """Do what a kind does to its objects at every write."""
    if resource.kind == "Lease":
        # NB: both are dropped unless a feature is on that is off by default.
        spec = {
            key: value
            for key, value in (obj.get("spec") or {}).items()
            if key not in ("strategy", "preferredHolder")
        }
        return {**obj, "spec": spec}
    return obj


def _namespace(obj: Obj) -> Obj:
    name = obj["metadata"].get("name", "")
    labels = {**(obj["metadata"].get("labels") or {}), "kubernetes.io/metadata.name": name}
    return {**obj, "metadata": {**obj["metadata"], "labels": labels}}


def _pod(obj: Obj) -> Obj:
    return {**obj, "spec": {"enableServiceLinks": True, **_pod_spec(obj.get("spec") or {})}}


def _pod_spec(given: Obj) -> Obj:
    spec = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        **given,
    }
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    for name in ("containers", "initContainers"):
        if spec.get(name):
            spec[name] = [_container(item) for item in spec[name]]
    return spec


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
    resources = [item.get("resources") or {} for item in spec.get("containers") or ()]
    if not any(item.get("requests") or item.get("limits") for item in resources):
        return "BestEffort"
    full = all(
        {"cpu", "memory"} <= set(item.get("limits") or {})
        and all(
            (item.get("requests") or item["limits"]).get(key) == value for key, value in item["limits"].items()
        )
        for item in resources
    )
    return "Guaranteed" if full else "Burstable"


def _secret(obj: Obj) -> Obj:
    out = {"type": "Opaque", **obj}
    plain = out.pop("stringData", None)
    if plain:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        out["data"] = {**(out.get("data") or {}), **encoded}
    return out


def _with_template(obj: Obj, **defaults: Any) -> Obj:
    spec = {**defaults, **(obj.get("spec") or {})}
    template = spec.get("template") or {}
    return {**obj, "spec": {**spec, "template": {**template, "spec": _pod_spec(template.get("spec") or {})}}}


def _deployment(obj: Obj) -> Obj:
    out = _with_template(obj, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = out["spec"].get("strategy") or {}
    if strategy.get("type", "RollingUpdate") == "RollingUpdate":
        rolling = {"maxUnavailable": "25%", "maxSurge": "25%", **(strategy.get("rollingUpdate") or {})}
        strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    out["spec"]["strategy"] = strategy
    return out


def _stateful_set(obj: Obj) -> Obj:
    out = _with_template(obj, replicas=1, podManagementPolicy="OrderedReady", revisionHistoryLimit=10)
    retention = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    out["spec"].setdefault("persistentVolumeClaimRetentionPolicy", retention)
    if not out["spec"].get("updateStrategy"):
        out["spec"]["updateStrategy"] = {
            "type": "RollingUpdate",
            "rollingUpdate": {"partition": 0, "maxUnavailable": 1},
        }
    return out


def _daemon_set(obj: Obj) -> Obj:
    out = _with_template(obj, revisionHistoryLimit=10)
    annotations = {"deprecated.daemonset.template.generation": "1", **(out["metadata"].get("annotations") or {})}
    out["metadata"] = {**out["metadata"], "annotations": annotations}
    if not out["spec"].get("updateStrategy"):
        out["spec"]["updateStrategy"] = {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
        }
    return out


def _job(obj: Obj) -> Obj:
    return _with_template(
        obj,
        parallelism=1,
        completions=1,
        backoffLimit=6,
        completionMode="NonIndexed",
        suspend=False,
        podReplacementPolicy="TerminatingOrFailed",
        manualSelector=False,
    )


def _service(obj: Obj) -> Obj:
    spec = {
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
        **(obj.get("spec") or {}),
    }
    spec["ports"] = [
        {"protocol": "TCP", **port, "targetPort": port.get("targetPort", port.get("port"))}
        for port in spec.get("ports") or []
    ]
    return {**obj, "spec": spec}


def _node(obj: Obj) -> Obj:
    state = obj.get("status") or {}
    if state.get("capacity") and not state.get("allocatable"):
        return {**obj, "status": {**state, "allocatable": state["capacity"]}}
    return obj


_DEFAULTS: dict[str, Callable[[Obj], Obj]] = {
    "Node": _node,
    "Namespace": _namespace,
    "Pod": _pod,
    "Secret": _secret,
    "Deployment": _deployment,
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
    "ReplicaSet": lambda obj: _with_template(obj, replicas=1),
    "Job": _job,
    "Service": _service,
}
_FIRST_STATUS: dict[str, Obj] = {
    "Namespace": {"phase": "Active"},
    "Pod": {"phase": "Pending"},
    "Deployment": {},
    "StatefulSet": {"replicas": 0, "availableReplicas": 0},
    "DaemonSet": dict.fromkeys(
        ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0
    ),
    "ReplicaSet": {"replicas": 0},
    "Job": {},
    "PodDisruptionBudget": dict.fromkeys(
        ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0
    ),
    "Service": {"loadBalancer": {}},
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
        out = dict(fill_defaults(resource.type, out))
    out = _normalised(resource, out)
    metadata = dict(out["metadata"])
    for name in ("uid", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"):
        # NB: an update can leave these out, but never remove them.
        if not metadata.get(name) and old["metadata"].get(name):
            metadata[name] = old["metadata"][name]
    for name in ("generation", "creationTimestamp"):
        _put_back(metadata, old["metadata"], name)
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
