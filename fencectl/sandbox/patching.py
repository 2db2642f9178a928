"""PATCH: the four kinds of patch, each with the server's refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencectl.sandbox import status
from fencectl.sandbox.api import Api
from fencectl.sandbox.apply import apply_config, untyped
from fencectl.sandbox.decode import DecodeError, decode_object, unconvertible
from fencectl.sandbox.gojson import NotJsonError, Obj, decode, duplicate_fields, encode, kind_of, quote, show
from fencectl.sandbox.jsonpatch import (
    MAX_OPERATIONS,
    NotAPatchError,
    PatchFailedError,
    apply_patch,
    read_patch,
    unknown_members,
)
from fencectl.sandbox.mergepatch import merge
from fencectl.sandbox.options import WriteOptions
from fencectl.sandbox.resources import Resource
from fencectl.sandbox.strategic import merge_strategic
from fencectl.sandbox.targets import Target

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_YAML = "application/apply-patch+yaml"


def patch_types(resource: Resource) -> list[str]:
    """Return the content types that this resource takes."""
    types = [JSON_PATCH, MERGE_PATCH]
    if not resource.custom:
        types.append(STRATEGIC_PATCH)
    return [*types, APPLY_YAML]


def patch_object(
    api: Api, target: Target, *, content_type: str, body: bytes, options: WriteOptions
) -> tuple[Obj, bool]:
    """Apply a patch. Says whether the object was created (only an apply can)."""
    text = body.decode("utf-8", "replace")
    if content_type == APPLY_YAML:
        return _apply(api, target, text, options=options)
    try:
        decoded = decode(text)
    except NotJsonError:
        raise status.bad_request("invalid JSON patch") from None
    if content_type == JSON_PATCH:
        change = _json_change(text, target.resource, options=options)
    elif content_type == MERGE_PATCH:
        change = _merge_change(text, decoded, target.resource, options=options)
    else:
        change = _strategic_change(decoded, target.resource, options=options)
    return api.update(target, change=change, options=options), False


def _finish(
    resource: Resource, patched: Obj, *, shown: Callable[[], str], found: list[str], options: WriteOptions
) -> Obj:
    """Decode the patched object; what cannot be decoded is the 422 that quotes the object."""
    api_version, kind = patched.get("apiVersion"), patched.get("kind")
    if not resource.custom and (kind or resource.kind, api_version or resource.api_version) != (
        resource.kind,
        resource.api_version,
    ):
        raise status.undecodable(shown(), why=unregistered(str(api_version), str(kind)))
    if resource.custom:
        check_custom_kind(resource, patched)
    try:
        done = decode_object(resource, patched)
    except DecodeError as err:
        raise status.undecodable(shown(), why=str(err)) from err
    problems = found + [f"unknown field {quote(path)}" for path in done.unknown]
    if problems and options.validation == "Strict":
        raise status.undecodable(shown(), why=f"strict decoding error: {', '.join(problems)}")
    if problems and options.validation == "Warn":
        options.warnings += problems
    done.obj.setdefault("metadata", {})
    return done.obj


def check_custom_kind(resource: Resource, obj: Obj) -> None:
    """Refuse a custom object of another kind or version than its path says."""
    api_version, kind = str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
    causes = [
        status.Cause("FieldValueInvalid", f"Invalid value: {quote(have)}: must be {wanted}", where)
        for where, have, wanted in (
            ("apiVersion", api_version, resource.api_version),
            ("kind", kind, resource.kind),
        )
        if have != wanted
    ]
    if causes:
        group = api_version.rpartition("/")[0]
        name = str((obj.get("metadata") or {}).get("name", ""))
        raise status.invalid(kind, group=group, name=name, causes=causes)


def unregistered(api_version: str, kind: str) -> str:
    """Say, as the real server does, that it knows no such kind."""
    return (
        f"no kind {quote(kind)} is registered for version {quote(api_version)} in scheme "
        '"pkg/runtime/scheme.go:111"'
    )


def _no_map(value: Any) -> str:
    return f"json: cannot unmarshal {kind_of(value)} into Go value of type map[string]interface {{}}"


def _json_change(text: str, resource: Resource, *, options: WriteOptions) -> Callable[[Obj], Obj]:
    def change(current: Obj) -> Obj:
        # NB: the patch is looked at only when the object was found, so a bad patch for nothing is a 404.
        try:
            patch = read_patch(text)
        except NotAPatchError as err:
            raise status.bad_request(f"error decoding patch: {err}") from err
        if len(patch) > MAX_OPERATIONS:
            limit = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}"
            raise status.too_large(f"Request entity too large: {limit}")
        try:
            patched = apply_patch(current, patch=patch)
        except PatchFailedError:
            raise status.patch_refused() from None
        found = unknown_members(patch) if options.validation != "Ignore" else []
        return _finish(resource, patched, shown=lambda: quote(encode(patched)), found=found, options=options)

    return change


def _merge_change(text: str, decoded: Any, resource: Resource, *, options: WriteOptions) -> Callable[[Obj], Obj]:
    def change(current: Obj) -> Obj:
        if not isinstance(decoded, dict):
            raise status.bad_request(f"error decoding patch: {_no_map(decoded)}")
        patched = merge(current, decoded)
        found = [f"duplicate field {quote(path)}" for path in duplicate_fields(text)]
        return _finish(resource, patched, shown=lambda: quote(encode(patched)), found=found, options=options)

    return change


def _strategic_change(decoded: Any, resource: Resource, *, options: WriteOptions) -> Callable[[Obj], Obj]:
    def change(current: Obj) -> Obj:
        if not isinstance(decoded, dict):
            raise status.bad_request(_no_map(decoded))
        patched = merge_strategic(resource.type, current, decoded)
        wrong = unconvertible(resource.type, patched)
        if wrong:
            # NB: this door converts maps without JSON between, and complains in other words.
            raise status.undecodable(quote(show(decoded)), why=wrong)
        return _finish(resource, patched, shown=lambda: quote(show(decoded)), found=[], options=options)

    return change


def read_yaml(text: str) -> Any:
    """Read YAML or JSON, as apply bodies come in either."""
    try:
        return decode(text)
    except NotJsonError:
        import yaml

        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as err:
            raise status.bad_request(f"error encoding patch: yaml: {' '.join(str(err).split())}") from err


def _apply(api: Api, target: Target, text: str, *, options: WriteOptions) -> tuple[Obj, bool]:
    resource = target.resource
    config = read_yaml(text)
    if not isinstance(config, dict):
        where = "error decoding patch: error unmarshaling JSON: while decoding JSON"
        raise status.bad_request(f"{where}: {_no_map(config)}")
    _check_config(target, config)
    key = (options.manager, "Apply", resource.api_version, options.subresource)

    def applied(current: Obj, *, exists: bool) -> Obj:
        # NB: decoded first, so that a value spelled differently (a time zone) compares as what it is.
        wanted = _decoded_config(resource, config, options=options)
        done = apply_config(
            resource, live=current, config=wanted, key=key, now=api.now(), force=options.force, exists=exists
        )
        return decode_object(resource, done).obj

    if api.storage.get(resource.key, name=target.key) is None:
        if options.subresource:
            raise target.not_found()
        if config.get("metadata", {}).get("uid"):
            uid = config["metadata"]["uid"]
            raise target.conflict(
                f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            )
        empty = decode_object(resource, {"metadata": {"name": target.name}}).obj
        new = applied(empty, exists=False)
        if new["metadata"]["name"] != target.name:
            raise target.other_name(new["metadata"]["name"])
        return api.create_applied(resource, namespace=target.namespace, obj=new, options=options), True
    done = api.update(target, change=lambda current: applied(current, exists=True), options=options, tracked=True)
    return done, False


def _check_config(target: Target, config: Obj) -> None:
    metadata = config.get("metadata") or {}
    api_version, kind = config.get("apiVersion", ""), config.get("kind", "")
    if (api_version, kind) != (target.resource.api_version, target.resource.kind):
        raise status.bad_request(f"invalid object type: {_with_group(api_version)}, Kind={kind}")
    if metadata.get("managedFields"):
        raise status.bad_request("metadata.managedFields must be nil")


def _with_group(api_version: str) -> str:
    """Spell a group and version as Go prints the pair: an empty group leaves its slash."""
    return api_version if "/" in api_version else f"/{api_version}"


def _decoded_config(resource: Resource, config: Obj, *, options: WriteOptions) -> Obj:
    """Normalise the values of an applied configuration without adding fields that it does not have."""
    findings = untyped(resource.type, config, path="")
    if findings:
        metadata = config.get("metadata") or {}
        what = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        shown = findings[0] if len(findings) == 1 else "errors:\n" + "\n".join(f"  {text}" for text in findings)
        spelled = f"{_with_group(resource.api_version)}, Kind={resource.kind}"
        message = f"failed to create typed patch object ({what}; {spelled}): {shown}"
        raise status.StatusError(500, reason="", message=message)
    try:
        done = decode_object(resource, config)
    except DecodeError as err:
        raise status.StatusError(500, reason="", message=f"failed to convert new object: {err}") from err
    given: Obj = _only_given(done.obj, config)
    return given


def _only_given(decoded: Any, given: Any) -> Any:
    if isinstance(decoded, dict) and isinstance(given, dict):
        out = {}
        for key, value in given.items():
            if key in decoded:
                out[key] = _only_given(decoded[key], value)
            elif value is not None:
                out[key] = value
        return out
    if isinstance(decoded, list) and isinstance(given, list) and len(decoded) == len(given):
        return [_only_given(item, sent) for item, sent in zip(decoded, given, strict=True)]
    return decoded
