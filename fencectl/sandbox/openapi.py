"""The published schema, as much as `kubectl apply` and `kubectl explain` ask for."""

from __future__ import annotations

from fencectl.sandbox.gojson import Obj
from fencectl.sandbox.requests import Request, Response, json_response
from fencectl.sandbox.resources import Resource, ResourceTable
from fencectl.sandbox.schema import Field, Type

_JSON_TYPES = {
    "string": {"type": "string"},
    "boolean": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "number": {"type": "number", "format": "double"},
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "quantity": {"type": "string"},
    "intorstring": {"type": "string", "format": "int-or-string"},
}


def openapi_response(table: ResourceTable, request: Request) -> Response | None:
    """Answer a request below `/openapi`."""
    parts = request.path.strip("/").split("/")
    if parts == ["openapi", "v2"]:
        return json_response(200, _v2(table))
    if parts == ["openapi", "v3"]:
        versions = sorted({_path(resource) for resource in table.all()})
        return json_response(
            200, {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash=1"} for path in versions}}
        )
    if parts[:2] == ["openapi", "v3"]:
        path = "/".join(parts[2:])
        resources = [resource for resource in table.all() if _path(resource) == path]
        if resources:
            return json_response(200, _v3(resources))
    return None


def _path(resource: Resource) -> str:
    return f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"


def _schema(shape: Type) -> Obj:
    """Return the JSON schema of a type, written out in full."""
    out: Obj
    if shape.kind == "struct":
        out = {"type": "object", "properties": {n: _field(f) for n, f in shape.fields.items()}}
        if shape.keeps_unknown:
            out["x-kubernetes-preserve-unknown-fields"] = True
        if shape.merge == "atomic":
            out["x-kubernetes-map-type"] = "atomic"
        return out
    if shape.kind == "map" and shape.item:
        return {"type": "object", "additionalProperties": _schema(shape.item)}
    if shape.kind == "list" and shape.item:
        out = {"type": "array", "items": _schema(shape.item), "x-kubernetes-list-type": shape.merge}
        if shape.keys:
            out["x-kubernetes-list-map-keys"] = list(shape.keys)
        return out
    return dict(_JSON_TYPES.get(shape.kind, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}))


def _field(known: Field) -> Obj:
    out = _schema(known.type)
    if known.default is not None:
        out["default"] = known.default
    if known.merge_key is not None:
        out["x-kubernetes-patch-strategy"] = "merge"
        if known.merge_key:
            out["x-kubernetes-patch-merge-key"] = known.merge_key
    return out


def _model(resource: Resource) -> Obj:
    schema = _schema(resource.type)
    gvk = {"group": resource.group, "kind": resource.kind, "version": resource.version}
    return {"description": resource.kind, **schema, "x-kubernetes-group-version-kind": [gvk]}


def _model_name(resource: Resource) -> str:
    group = ".".join(reversed(resource.group.split("."))) if resource.group else "core"
    return f"sandbox.{group}.{resource.version}.{resource.kind}"


def _operations(resource: Resource, *, v3: bool) -> Obj:
    """Return the paths that say which options a kind's patch takes: kubectl looks for `fieldValidation`."""
    base = f"/{_path(resource)}"
    spaced = f"{base}/namespaces/{{namespace}}" if resource.namespaced else base
    gvk = {"group": resource.group, "kind": resource.kind, "version": resource.version}
    names = ("dryRun", "fieldManager", "fieldValidation", "force")
    parameters = [
        {"name": name, "in": "query", **({"schema": {"type": "string"}} if v3 else {"type": "string"})}
        for name in names
    ]
    patch = {
        "operationId": f"patch{resource.group}{resource.version}{resource.kind}",
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": gvk,
    }
    return {f"{spaced}/{resource.plural}/{{name}}": {"patch": patch}}


def _v2(table: ResourceTable) -> Obj:
    paths: Obj = {}
    definitions: Obj = {}
    for resource in table.all():
        paths.update(_operations(resource, v3=False))
        definitions[_model_name(resource)] = _model(resource)
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.37.2"},
        "paths": paths,
        "definitions": definitions,
    }


def _v3(resources: list[Resource]) -> Obj:
    paths: Obj = {}
    schemas: Obj = {}
    for resource in resources:
        paths.update(_operations(resource, v3=True))
        schemas[_model_name(resource)] = _model(resource)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.37.2"},
        "paths": paths,
        "components": {"schemas": schemas},
    }
