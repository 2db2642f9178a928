"""The scale subresource of workloads."""

from __future__ import annotations

from collections.abc import Callable

from fencectl.sandbox.api import Api
from fencectl.sandbox.gojson import Obj
from fencectl.sandbox.options import WriteOptions
from fencectl.sandbox.targets import Target

_META = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def read_scale(obj: Obj) -> Obj:
    """Return the Scale of a workload."""
    metadata = {key: obj["metadata"][key] for key in _META if key in obj["metadata"]}
    labels = (obj.get("spec", {}).get("selector") or {}).get("matchLabels") or {}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": obj.get("spec", {}).get("replicas", 0)},
        "status": {
            "replicas": obj.get("status", {}).get("replicas", 0),
            "selector": ",".join(f"{key}={value}" for key, value in sorted(labels.items())),
        },
    }


def write_scale(api: Api, target: Target, *, change: Callable[[Obj], Obj], options: WriteOptions) -> Obj:
    """Set the replicas of a workload through its Scale."""

    def scaled(current: Obj) -> Obj:
        wanted = change(read_scale(current))
        version = wanted.get("metadata", {}).get("resourceVersion") or current["metadata"]["resourceVersion"]
        replicas = int((wanted.get("spec") or {}).get("replicas", 0))
        metadata = {**current["metadata"], "resourceVersion": version}
        return {**current, "metadata": metadata, "spec": {**current["spec"], "replicas": replicas}}

    return read_scale(api.update(target, change=scaled, options=options))
