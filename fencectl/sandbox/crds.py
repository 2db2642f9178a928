"""CustomResourceDefinitions: creating one adds a resource, deleting one takes it and its objects away."""

from __future__ import annotations

import re
from typing import Any

from fencectl.sandbox.api import Api
from fencectl.sandbox.gojson import Obj, encode
from fencectl.sandbox.options import WriteOptions
from fencectl.sandbox.resources import Resource, ResourceTable
from fencectl.sandbox.schema import ANY, Field, Type, from_openapi
from fencectl.sandbox.storage import Change, Storage
from fencectl.sandbox.targets import Target
from fencectl.sandbox.types_builtin import TYPES

KEY = ("apiextensions.k8s.io", "customresourcedefinitions")


def resources_of(crd: Obj) -> list[Resource]:
    """Return the resources that a definition serves."""
    spec = crd["spec"]
    names = spec["names"]
    return [
        Resource(
            group=spec["group"],
            version=version["name"],
            plural=names["plural"],
            kind=names["kind"],
            singular=names.get("singular", names["kind"].lower()),
            type=_type(version),
            namespaced=spec.get("scope") == "Namespaced",
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            subresources=tuple(sorted(version.get("subresources") or {})),
            field_selectors=tuple(item["jsonPath"].lstrip(".") for item in version.get("selectableFields") or ()),
            custom=True,
            has_rules="x-kubernetes-validations" in encode(version),
            has_generation=True,
            unconditional_update=False,
            columns=tuple(_column(column) for column in version.get("additionalPrinterColumns") or ())
            or (("Age", "date", ".metadata.creationTimestamp", 0),),
        )
        for version in _preferred(spec["versions"])
        if version.get("served")
    ]


def _preferred(versions: list[Any]) -> list[Any]:
    """Order versions as discovery does: stable before beta before alpha, newest first."""

    def rank(version: Any) -> tuple[int, int, int]:
        found = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version["name"])
        if not found:
            return (9, 0, 0)
        return ({None: 0, "beta": 1, "alpha": 2}[found[2]], -int(found[1]), -int(found[3] or 0))

    return sorted(versions, key=rank)


def _column(column: Obj) -> tuple[str, str, str, int]:
    return (column["name"], column["type"], column["jsonPath"], int(column.get("priority", 0)))


def _type(version: Obj) -> Type:
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    shape = from_openapi({**schema, "type": "object"})
    fields = {
        **shape.fields,
        "apiVersion": Field(Type("string"), pointer=True),
        "kind": Field(Type("string"), pointer=True),
        "metadata": Field(TYPES["ObjectMeta"], pointer=True),
    }
    return Type("struct", fields=fields, keeps_unknown=shape.keeps_unknown or shape is ANY)


def follow(storage: Storage, table: ResourceTable, api: Api) -> None:
    """Keep the table of resources in step with the definitions."""

    def changed(change: Change) -> None:
        if change.resource != KEY:
            return
        if change.after is None:
            gone = resources_of(change.shown)
            table.remove(gone)
            for resource in gone:
                storage.drop(resource.key)
            return
        table.add(resources_of(change.after))
        if not (change.after.get("status") or {}).get("conditions"):
            _accept(api, change.after)

    storage.on_change(changed)


def _accept(api: Api, crd: Obj) -> None:
    """Write the conditions that a served definition has."""
    now = api.now()
    names = crd["spec"]["names"]
    state = {
        "acceptedNames": {"listKind": f"{names['kind']}List", **names},
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "lastTransitionTime": now,
                "reason": reason,
                "message": message,
            }
            for kind, reason, message in (
                ("NamesAccepted", "NoConflicts", "no conflicts found"),
                ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            )
        ],
        "storedVersions": [version["name"] for version in crd["spec"]["versions"] if version.get("storage")],
    }
    resource = api.resources.of("customresourcedefinitions")
    target = Target(resource, "", crd["metadata"]["name"])
    options = WriteOptions(manager="kube-apiserver", subresource="status")
    api.update(target, change=lambda current: {**current, "status": state}, options=options)
