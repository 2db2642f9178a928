"""How kustomize-controller applies what a Kustomization holds: it takes fields over, then applies by force."""

from __future__ import annotations

from typing import Any

from fencectl.sandbox.api import Api
from fencectl.sandbox.gojson import Obj, encode
from fencectl.sandbox.managers import ManagerKey, read_managers, with_managers
from fencectl.sandbox.options import WriteOptions
from fencectl.sandbox.patching import APPLY_YAML, patch_object
from fencectl.sandbox.targets import Target

MANAGER = "kustomize-controller"
RECONCILE = "kustomize.toolkit.fluxcd.io/reconcile"
OWNER_LABELS = ("kustomize.toolkit.fluxcd.io/name", "kustomize.toolkit.fluxcd.io/namespace")


def is_disabled(obj: Obj | None) -> bool:
    """Say whether an object asks to be left alone, by annotation or label."""
    metadata: Any = (obj or {}).get("metadata") or {}
    for where in ("annotations", "labels"):
        if str((metadata.get(where) or {}).get(RECONCILE, "")).lower() == "disabled":
            return True
    return False


def _is_taken_over(key: ManagerKey) -> bool:
    manager, operation = key[0], key[1]
    if manager.startswith("kubectl"):
        return True
    return operation == "Update" and manager in ("before-first-apply", MANAGER)


def _taken_over(obj: Obj, *, api_version: str) -> Obj:
    """Return `obj` with the fields of kubectl's managers handed to the controller."""
    managers = read_managers(obj)
    taken = [key for key in managers.sets if _is_taken_over(key) and not key[3]]
    if not taken:
        return obj
    ours: ManagerKey = (MANAGER, "Apply", api_version, "")
    paths = managers.sets.get(ours, frozenset()).union(*(managers.sets.pop(key) for key in taken))
    times = [managers.times.pop(key, "") for key in taken]
    managers.sets[ours] = paths
    managers.times[ours] = max([*times, managers.times.get(ours, "")])
    return with_managers(obj, managers)


def apply_manifest(api: Api, manifest: Obj, *, owner: Obj) -> bool:
    """Apply one manifest for a Kustomization. False: the object asks to be left alone."""
    resource = api.resources.of_object(api_version=manifest["apiVersion"], kind=manifest["kind"])
    metadata = manifest["metadata"]
    namespace = metadata.get("namespace") or owner["metadata"]["namespace"]
    target = Target(resource, namespace if resource.namespaced else "", metadata["name"])
    live = api.storage.get(resource.key, name=target.key)
    if is_disabled(live) or (live is None and is_disabled(manifest)):
        return False
    options = WriteOptions(manager=MANAGER, force=True)
    if live is not None:
        api.update(
            target,
            change=lambda current: _taken_over(current, api_version=resource.api_version),
            options=options,
            tracked=True,
        )
    owned = dict(zip(OWNER_LABELS, (owner["metadata"]["name"], owner["metadata"]["namespace"]), strict=True))
    labelled = {**metadata, "labels": {**(metadata.get("labels") or {}), **owned}}
    if resource.namespaced:
        labelled["namespace"] = namespace
    body = encode({**manifest, "metadata": labelled}).encode()
    patch_object(api, target, content_type=APPLY_YAML, body=body, options=options)
    return True
