"""
The sandbox's objects, driven from Python without HTTP.

The same write path as for a client: the same checks, the same managers, the same refusals (as
`StatusError`). For set-up in tests, and for simulations with a scheduler of their own.
"""

from __future__ import annotations

from typing import Any

from fencectl.sandbox.api import Api
from fencectl.sandbox.gojson import Obj, clone, encode
from fencectl.sandbox.options import WriteOptions
from fencectl.sandbox.patching import APPLY_YAML, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, patch_object
from fencectl.sandbox.reading import ListOptions, list_objects
from fencectl.sandbox.targets import Target

_PATCHES = {"json": JSON_PATCH, "merge": MERGE_PATCH, "strategic": STRATEGIC_PATCH, "apply": APPLY_YAML}


def copied(obj: Obj) -> Obj:
    """Return a copy that a test may change: what is stored is shared and never changes in place."""
    done: Obj = clone(obj)
    return done


class Store:
    """Objects by resource (`nodes`, `ks`, `leases.coordination.k8s.io`), namespace and name."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def _target(self, resource: str, name: str, namespace: str) -> Target:
        found = self._api.resources.of(resource)
        return Target(found, namespace if found.namespaced else "", name)

    def create(self, obj: Obj, *, manager: str = "sandbox", namespace: str = "") -> Obj:
        """Create an object. Its status is stored too, as a controller would have written it."""
        resource = self._api.resources.of_object(api_version=obj["apiVersion"], kind=obj["kind"])
        space = obj.get("metadata", {}).get("namespace") or namespace or "default"
        made = self._api.create(
            resource,
            namespace=space if resource.namespaced else "",
            sent=obj,
            options=WriteOptions(manager=manager),
        )
        if obj.get("status") and "status" in resource.subresources and made.get("status") != obj["status"]:
            metadata = made["metadata"]
            made = self.set_status(
                resource.plural,
                metadata["name"],
                obj["status"],
                namespace=metadata.get("namespace", ""),
                manager=manager,
            )
        return copied(made)

    def get(self, resource: str, name: str, *, namespace: str = "") -> Obj:
        """Return an object; a missing one is the server's 404."""
        found = self.find(resource, name, namespace=namespace)
        if found is None:
            raise self._target(resource, name, namespace).not_found()
        return found

    def find(self, resource: str, name: str, *, namespace: str = "", shared: bool = False) -> Obj | None:
        """Return an object, or None. `shared`: the one that is stored itself, for who only looks at it."""
        target = self._target(resource, name, namespace)
        obj = self._api.storage.get(target.resource.key, name=target.key)
        return obj if obj is None or shared else copied(obj)

    def list(
        self, resource: str, *, namespace: str = "", labels: str = "", fields: str = "", shared: bool = False
    ) -> list[Obj]:
        """Return all objects of a resource that match. `shared`: as with `find`."""
        found = self._api.resources.of(resource)
        options = ListOptions(label_selector=labels, field_selector=fields)
        page = list_objects(self._api.storage, found, namespace=namespace, options=options)
        return page.items if shared else [copied(obj) for obj in page.items]

    def update(self, obj: Obj, *, manager: str = "sandbox", subresource: str = "") -> Obj:
        """PUT an object."""
        resource = self._api.resources.of_object(api_version=obj["apiVersion"], kind=obj["kind"])
        metadata = obj["metadata"]
        target = Target(resource, metadata.get("namespace", "") if resource.namespaced else "", metadata["name"])
        options = WriteOptions(manager=manager, subresource=subresource)
        return copied(self._api.put_or_create(target, sent=obj, options=options)[0])

    def patch(
        self,
        resource: str,
        name: str,
        patch: Any,
        *,
        namespace: str = "",
        kind: str = "merge",
        manager: str = "sandbox",
        subresource: str = "",
        force: bool = False,
    ) -> Obj:
        """Patch an object: `kind` is json, merge, strategic or apply. Text is sent as it is."""
        body = patch if isinstance(patch, bytes) else (patch if isinstance(patch, str) else encode(patch)).encode()
        options = WriteOptions(manager=manager, subresource=subresource, force=force)
        target = self._target(resource, name, namespace)
        done, _ = patch_object(self._api, target, content_type=_PATCHES[kind], body=body, options=options)
        return copied(done)

    def set_status(
        self, resource: str, name: str, status: Obj, *, namespace: str = "", manager: str = "sandbox"
    ) -> Obj:
        """Write the whole status, as a controller does."""
        target = self._target(resource, name, namespace)
        options = WriteOptions(manager=manager, subresource="status")
        done = self._api.update(
            target, change=lambda current: {**current, "status": copied(status)}, options=options
        )
        return copied(done)

    def delete(self, resource: str, name: str, *, namespace: str = "", uid: str | None = None) -> None:
        """Delete an object."""
        wanted = {"uid": uid} if uid else {}
        self._api.delete(self._target(resource, name, namespace), preconditions=wanted)
