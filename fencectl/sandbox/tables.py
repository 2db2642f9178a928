"""Tables, as `kubectl get` prints them, and metadata-only views."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from fencectl.sandbox.gojson import Obj
from fencectl.sandbox.resources import Resource

NONE = "<none>"
Cells = list[Any]


def metadata_only(obj: Obj) -> Obj:
    """Return the PartialObjectMetadata of an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def age(obj: Obj, now: datetime, *, at: str = "") -> str:
    """Return the time since creation in kubectl's short form."""
    text = at or obj["metadata"].get("creationTimestamp")
    if not text:
        return "<unknown>"
    created = datetime.fromisoformat(text)
    return short_duration((now.astimezone(UTC) - created).total_seconds())


def short_duration(seconds: float) -> str:
    """Spell a duration as kubectl does: two units at most, fewer the longer it is."""
    left = int(seconds)
    if left < -1:
        return "<invalid>"
    if left < 0:
        return "0s"
    if left < 120:
        return f"{left}s"
    minutes = left // 60
    if minutes < 10:
        return f"{minutes}m{left % 60}s" if left % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    return f"{days // 365}y{days % 365}d"


def _column(name: str, kind: str = "string", *, wide: bool = False) -> Obj:
    return {
        "name": name,
        "type": kind,
        "format": "name" if name == "Name" else "",
        "description": f"{name} of the object",
        "priority": 1 if wide else 0,
    }


def _columns(names: Sequence[str], wide: Sequence[str] = (), *, numbers: Sequence[str] = ()) -> list[Obj]:
    made = [_column(name) for name in names] + [_column(name, wide=True) for name in wide]
    for column in made:
        if column["name"] in numbers:
            column["type"] = "integer"
    return made


def _node(obj: Obj, now: datetime) -> Cells:
    conditions = {item["type"]: item["status"] for item in obj.get("status", {}).get("conditions") or ()}
    ready = {"True": "Ready", "False": "NotReady"}.get(conditions.get("Ready", ""), "Unknown")
    if "Ready" not in conditions:
        ready = "Unknown"
    if obj.get("spec", {}).get("unschedulable"):
        ready += ",SchedulingDisabled"
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    roles = ",".join(sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))) or NONE
    info = obj.get("status", {}).get("nodeInfo", {})
    addresses = {item["type"]: item["address"] for item in obj.get("status", {}).get("addresses") or ()}
    return [
        obj["metadata"]["name"],
        ready,
        roles,
        age(obj, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        info.get("osImage") or "<unknown>",
        info.get("kernelVersion") or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _pod(obj: Obj, now: datetime) -> Cells:
    spec, state = obj.get("spec", {}), obj.get("status", {})
    statuses = state.get("containerStatuses") or []
    reason = state.get("reason") or state.get("phase", "")
    for item in statuses:
        for which in ("waiting", "terminated"):
            reason = item.get("state", {}).get(which, {}).get("reason") or reason
    if obj["metadata"].get("deletionTimestamp"):
        reason = "Terminating"
    ready = sum(bool(item.get("ready")) for item in statuses)
    return [
        obj["metadata"]["name"],
        f"{ready}/{len(spec.get('containers') or ())}",
        reason,
        str(sum(item.get("restartCount", 0) for item in statuses)),
        age(obj, now),
        state.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
        state.get("nominatedNodeName") or NONE,
        NONE,
    ]


def _deployment(obj: Obj, now: datetime) -> Cells:
    spec, state = obj.get("spec", {}), obj.get("status", {})
    return [
        obj["metadata"]["name"],
        f"{state.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        str(state.get("updatedReplicas", 0)),
        str(state.get("availableReplicas", 0)),
        age(obj, now),
        *_template(spec),
    ]


def _template(spec: Obj) -> Cells:
    """Return the wide columns of everything that has a pod template."""
    containers = spec.get("template", {}).get("spec", {}).get("containers") or ()
    names = ",".join(item.get("name", "") for item in containers)
    images = ",".join(item.get("image", "") for item in containers)
    return [names, images, _selector_text(spec.get("selector"))]


def _selector_text(selector: Any) -> str:
    labels = (selector or {}).get("matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE


def _replicas(obj: Obj, now: datetime) -> Cells:
    spec, state = obj.get("spec", {}), obj.get("status", {})
    return [
        obj["metadata"]["name"],
        spec.get("replicas", 1),
        state.get("replicas", 0),
        state.get("readyReplicas", 0),
        age(obj, now),
        *_template(spec),
    ]


def _stateful_set(obj: Obj, now: datetime) -> Cells:
    spec, state = obj.get("spec", {}), obj.get("status", {})
    ready = f"{state.get('readyReplicas', 0)}/{spec.get('replicas', 1)}"
    return [obj["metadata"]["name"], ready, age(obj, now), *_template(spec)[:2]]


def _daemon_set(obj: Obj, now: datetime) -> Cells:
    state = obj.get("status", {})
    names = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    selector = obj.get("spec", {}).get("template", {}).get("spec", {}).get("nodeSelector") or {}
    shown = ",".join(f"{key}={value}" for key, value in sorted(selector.items())) or NONE
    return [
        obj["metadata"]["name"],
        *(state.get(name, 0) for name in names),
        shown,
        age(obj, now),
        *_template(obj["spec"]),
    ]


def _job(obj: Obj, now: datetime) -> Cells:
    spec, state = obj.get("spec", {}), obj.get("status", {})
    conditions = {item["type"] for item in state.get("conditions") or () if item.get("status") == "True"}
    shown = next((name for name in ("Complete", "Failed", "Suspended") if name in conditions), "Running")
    completions = f"{state.get('succeeded', 0)}/{spec.get('completions', 1)}"
    return [obj["metadata"]["name"], shown, completions, "", age(obj, now), *_template(spec)]


def _namespace(obj: Obj, now: datetime) -> Cells:
    return [obj["metadata"]["name"], obj.get("status", {}).get("phase", ""), age(obj, now)]


def _lease(obj: Obj, now: datetime) -> Cells:
    return [obj["metadata"]["name"], obj.get("spec", {}).get("holderIdentity") or "", age(obj, now)]


def _data(obj: Obj, now: datetime) -> Cells:
    count = len(obj.get("data") or ()) + len(obj.get("binaryData") or ())
    return [obj["metadata"]["name"], count, age(obj, now)]


def _secret(obj: Obj, now: datetime) -> Cells:
    return [obj["metadata"]["name"], obj.get("type", ""), len(obj.get("data") or ()), age(obj, now)]


def _budget(obj: Obj, now: datetime) -> Cells:
    spec = obj.get("spec", {})
    return [
        obj["metadata"]["name"],
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        obj.get("status", {}).get("disruptionsAllowed", 0),
        age(obj, now),
    ]


def _event(obj: Obj, now: datetime) -> Cells:
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    seen = obj.get("lastTimestamp") or obj.get("eventTime") or obj["metadata"].get("creationTimestamp")
    return [
        age(obj, now, at=str(seen or "")),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        (obj.get("source") or {}).get("component") or obj.get("reportingComponent", ""),
        (obj.get("message") or obj.get("note") or "").strip(),
        age(obj, now, at=str(obj.get("firstTimestamp") or seen or "")),
        str(obj.get("count") or 1),
        obj["metadata"]["name"],
    ]


def _service(obj: Obj, now: datetime) -> Cells:
    spec = obj.get("spec", {})
    shown = ",".join(f"{key}={value}" for key, value in sorted((spec.get("selector") or {}).items())) or NONE
    ports = (
        ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in spec.get("ports") or ()) or NONE
    )
    return [
        obj["metadata"]["name"],
        spec.get("type", ""),
        spec.get("clusterIP") or NONE,
        NONE,
        ports,
        age(obj, now),
        shown,
    ]


def _created_at(obj: Obj, now: datetime) -> Cells:
    return [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp", "")]


def _definition(obj: Obj, now: datetime) -> Cells:
    spec = obj["spec"]
    versions = ",".join(
        item["name"] + ("(storage)" if item.get("storage") else "") for item in spec.get("versions") or ()
    )
    established = any(
        item["type"] == "Established" and item["status"] == "True"
        for item in (obj.get("status") or {}).get("conditions") or ()
    )
    names = spec["names"]
    return [
        *[obj["metadata"]["name"], spec["scope"], versions, obj["metadata"].get("creationTimestamp", "")],
        *[spec["group"], names["kind"], ",".join(names.get("shortNames") or ()), established],
    ]


_WIDE = ("Containers", "Images", "Selector")
_CREATED = [_column("Name"), {**_column("Created At"), "type": "date"}]
_DEFINITION = [
    *_columns(("Name", "Scope", "Versions")),
    _CREATED[1],
    *_columns((), ("Group", "Kind", "ShortNames")),
    {**_column("Established", wide=True), "type": "boolean"},
]


_KINDS: dict[str, tuple[list[Obj], Callable[[Obj, datetime], Cells]]] = {
    "Node": (
        _columns(
            ("Name", "Status", "Roles", "Age", "Version"),
            ("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        ),
        _node,
    ),
    "Pod": (
        _columns(
            ("Name", "Ready", "Status", "Restarts", "Age"), ("IP", "Node", "Nominated Node", "Readiness Gates")
        ),
        _pod,
    ),
    "Deployment": (
        _columns(("Name", "Ready", "Up-to-date", "Available", "Age"), ("Containers", "Images", "Selector")),
        _deployment,
    ),
    "ReplicaSet": (
        _columns(("Name", "Desired", "Current", "Ready", "Age"), _WIDE, numbers=("Desired", "Current", "Ready")),
        _replicas,
    ),
    "StatefulSet": (_columns(("Name", "Ready", "Age"), _WIDE[:2]), _stateful_set),
    "DaemonSet": (
        _columns(
            ("Name", "Desired", "Current", "Ready", "Up-to-date", "Available", "Node Selector", "Age"),
            _WIDE,
            numbers=("Desired", "Current", "Ready", "Up-to-date", "Available"),
        ),
        _daemon_set,
    ),
    "Job": (_columns(("Name", "Status", "Completions", "Duration", "Age"), _WIDE), _job),
    "Namespace": (_columns(("Name", "Status", "Age")), _namespace),
    "Lease": (_columns(("Name", "Holder", "Age")), _lease),
    "ConfigMap": (_columns(("Name", "Data", "Age")), _data),
    "Secret": (_columns(("Name", "Type", "Data", "Age")), _secret),
    "PodDisruptionBudget": (
        _columns(
            ("Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"),
            numbers=("Allowed Disruptions",),
        ),
        _budget,
    ),
    "Event": (
        [
            *_columns(("Last Seen", "Type", "Reason", "Object"), ("Subobject", "Source")),
            *_columns(("Message",), ("First Seen", "Count", "Name")),
        ],
        _event,
    ),
    "Service": (
        _columns(("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age"), ("Selector",)),
        _service,
    ),
    "CustomResourceDefinition": (_DEFINITION, _definition),
    "ClusterRole": (_CREATED, _created_at),
    "Role": (_CREATED, _created_at),
}
_PLAIN = (_columns(("Name", "Age")), lambda obj, now: [obj["metadata"]["name"], age(obj, now)])


def read_path(obj: Any, path: str) -> Any:
    """Evaluate the small part of JSONPath that printer columns use."""
    value = obj
    for part in re.findall(r"\.([^.\[\]]+)|\[\?\(@\.(\w+)==\"([^\"]*)\"\)\]|\[(\d+)\]", path):
        name, key, wanted, index = part
        if name:
            value = value.get(name.replace("\\", "")) if isinstance(value, dict) else None
        elif key:
            items = value if isinstance(value, list) else []
            value = next((item for item in items if isinstance(item, dict) and item.get(key) == wanted), None)
        else:
            value = value[int(index)] if isinstance(value, list) and int(index) < len(value) else None
    return value


def _custom(resource: Resource) -> tuple[list[Obj], Callable[[Obj, datetime], Cells]]:
    columns = [_column("Name")] + [
        {"name": name, "type": kind, "format": "", "description": name, "priority": priority}
        for name, kind, _, priority in resource.columns
    ]

    def cells(obj: Obj, now: datetime) -> Cells:
        out: Cells = [obj["metadata"]["name"]]
        for _, kind, path, _ in resource.columns:
            value = read_path(obj, path)
            out.append(age(obj, now, at=value) if kind == "date" and value else value if value is not None else "")
        return out

    return columns, cells


def as_table(
    resource: Resource, items: Sequence[Obj], *, metadata: Obj, now: datetime, include: str, headers: bool = True
) -> Obj:
    """Return the Table of some objects. `include` says what each row carries: Metadata, Object or None."""
    columns, cells = _custom(resource) if resource.columns else _KINDS.get(resource.kind, _PLAIN)
    rows = []
    for obj in items:
        row: Obj = {"cells": cells(obj, now)}
        if include != "None":
            row["object"] = obj if include == "Object" else metadata_only(obj)
        rows.append(row)
    table: Obj = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    table["columnDefinitions"] = columns if headers else None
    table["rows"] = rows
    return table
