"""
What the server checks in an object before it stores it.

Only rules that clients of the sandbox meet: names, labels and annotations, Leases, and the structural
schema of custom kinds.
"""

from __future__ import annotations

import re
from typing import Any

from fencectl.sandbox.event_rules import event_findings
from fencectl.sandbox.gojson import Obj, encode, kind_of, quote
from fencectl.sandbox.resources import Resource
from fencectl.sandbox.schema import Type
from fencectl.sandbox.status import Cause

DATA_LIMIT = 1024 * 1024
ANNOTATIONS_LIMIT = 256 * 1024
_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_NAME_PART = re.compile(r"^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$")
_LABEL_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_QUALIFIED_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
    "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def _invalid(value: Any, why: str, where: str) -> Cause:
    shown = quote(value) if isinstance(value, str) else encode(value)
    return Cause("FieldValueInvalid", f"Invalid value: {shown}: {why}", where)


def _too_long(limit: int, where: str) -> Cause:
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", where)


_UNCHECKED = Cause(
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the "
    "existing errors to complete validation",
    "<nil>",
)


def validate(resource: Resource, obj: Obj, *, subresource: str = "", strict: bool = False) -> list[Cause]:
    """Return every finding, in the server's order. `strict`: an event that came through events.k8s.io."""
    causes = _metadata(resource, obj["metadata"])
    if resource.kind == "Lease":
        causes += _lease(obj.get("spec") or {})
    if resource.kind == "Event":
        causes += event_findings(obj, strict=strict, name_problems=label_key_problems)
    if resource.kind in ("ConfigMap", "Secret"):
        causes += _data(resource.kind, obj)
    if resource.kind == "Pod" and not (obj.get("spec") or {}).get("containers"):
        causes.append(Cause("FieldValueRequired", "Required value", "spec.containers"))
    if resource.custom:
        causes += _custom(resource, obj, subresource=subresource)
    return causes


def _data(kind: str, obj: Obj) -> list[Cause]:
    """Check the size of what is held, its keys not counted."""
    size = sum(len(value.encode()) for value in (obj.get("data") or {}).values())
    size += sum(len(value) for value in (obj.get("binaryData") or {}).values()) * 3 // 4
    if kind == "Secret":
        size = size * 3 // 4
    return [_too_long(DATA_LIMIT, "data" if kind == "Secret" else "[]")] if size > DATA_LIMIT else []


def _custom(resource: Resource, obj: Obj, *, subresource: str) -> list[Cause]:
    if subresource == "status":
        known = resource.type.fields.get("status")
        found = schema_findings(known.type, obj.get("status", {}), path="status", root="status") if known else []
    else:
        found = schema_findings(resource.type, obj, path="")
    broken = any(cause.reason in ("FieldValueTypeInvalid", "FieldValueRequired") for cause in found)
    return [*found, _UNCHECKED] if broken and resource.has_rules else found


def _metadata(resource: Resource, metadata: Obj) -> list[Cause]:
    causes = []
    name = metadata.get("name", "")
    where = "metadata.name"
    if not name:
        causes.append(Cause("FieldValueRequired", "Required value: name or generateName is required", where))
    elif resource.kind == "Namespace":
        if len(name) > 63:
            causes.append(_too_long(63, where))
        if not _LABEL.match(name):
            causes.append(_invalid(name, _LABEL_TEXT, where))
    elif resource.group != "rbac.authorization.k8s.io":
        if len(name) > 253:
            causes.append(_too_long(253, where))
        if not _SUBDOMAIN.match(name):
            causes.append(_invalid(name, _SUBDOMAIN_TEXT, where))
    total = 0
    for key, value in (metadata.get("annotations") or {}).items():
        # NB: annotation keys may have upper-case prefixes, label keys may not.
        causes += _qualified_name(key, key.lower(), "metadata.annotations")
        total += len(key.encode()) + len(value.encode())
    if total > ANNOTATIONS_LIMIT:
        causes.append(_too_long(ANNOTATIONS_LIMIT, "metadata.annotations"))
    for key, value in (metadata.get("labels") or {}).items():
        causes += _qualified_name(key, key, "metadata.labels")
        causes += [Cause("FieldValueInvalid", text, "metadata.labels") for text in label_value_problems(value)]
    for index, finalizer in enumerate(metadata.get("finalizers") or ()):
        causes += _qualified_name(finalizer, finalizer, f"metadata.finalizers[{index}]")
    return causes


def label_key_problems(key: str, *, shown: str | None = None) -> list[str]:
    """Return what is wrong with a label key, one text per finding."""
    shown = key if shown is None else shown
    prefix, slash, name = key.rpartition("/")
    found = []
    if "/" in prefix:
        text = _QUALIFIED_TEXT.removeprefix("name part ")
        found.append(
            f"a valid label key {text} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )
    else:
        if slash and not prefix:
            found.append("prefix part must be non-empty")
        elif slash and not _SUBDOMAIN.match(prefix):
            found.append(f"prefix part {_SUBDOMAIN_TEXT}")
        if not name:
            found.append("name part must be non-empty")
        elif len(name) > 63:
            found.append("name part must be no more than 63 bytes")
        if not _NAME_PART.match(name):
            found.append(_QUALIFIED_TEXT)
    return [f"Invalid value: {quote(shown)}: {text}" for text in found]


def label_value_problems(value: str) -> list[str]:
    """Return what is wrong with a label value."""
    found = []
    if len(value) > 63:
        found.append("must be no more than 63 bytes")
    if not _LABEL_VALUE.match(value):
        found.append(_VALUE_TEXT)
    return [f"Invalid value: {quote(value)}: {text}" for text in found]


def _qualified_name(shown: str, key: str, where: str) -> list[Cause]:
    return [Cause("FieldValueInvalid", text, where) for text in label_key_problems(key, shown=shown)]


def _lease(spec: Obj) -> list[Cause]:
    causes = []
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        causes.append(_invalid(duration, "must be greater than 0", "spec.leaseDurationSeconds"))
    transitions = spec.get("leaseTransitions")
    if transitions is not None and transitions < 0:
        causes.append(_invalid(transitions, "must be greater than or equal to 0", "spec.leaseTransitions"))
    return causes


_WORDS: dict[str, tuple[Any, str]] = {
    "string": (str, "string"),
    "boolean": (bool, "boolean"),
    "int64": (int, "integer"),
    "int32": (int, "integer"),
    "number": ((int, float), "number"),
    "struct": (dict, "object"),
    "map": (dict, "object"),
    "list": (list, "array"),
}


def schema_findings(shape: Type, value: Any, *, path: str, root: str = "") -> list[Cause]:
    """Check a custom object against its structural schema; texts name paths from `root` on."""
    shown = path.removeprefix(f"{root}.") if root else path
    if shape.kind not in _WORDS:
        return []
    accepted, word = _WORDS[shape.kind]
    fits = isinstance(value, accepted) and not (isinstance(value, bool) and word in ("integer", "number"))
    if not fits:
        have = {"bool": "boolean"}.get(kind_of(value).split()[0], kind_of(value).split()[0])
        have = "null" if value is None else "integer" if isinstance(value, int) and have == "number" else have
        return [
            Cause(
                "FieldValueTypeInvalid",
                f"Invalid value: {quote(have)}: {shown} in body must be of type {word}: {quote(have)}",
                path,
            )
        ]
    causes = []
    if shape.kind == "struct":
        for name, known in shape.fields.items():
            if path == "" and name in ("apiVersion", "kind", "metadata"):
                continue
            below = f"{path}.{name}" if path else name
            if name in value:
                causes += schema_findings(known.type, value[name], path=below, root=root)
            elif known.required:
                causes.append(Cause("FieldValueRequired", "Required value", below))
    elif shape.kind == "map" and shape.item:
        for name, item in value.items():
            causes += schema_findings(shape.item, item, path=f"{path}.{name}", root=root)
    elif shape.kind == "list" and shape.item:
        for index, item in enumerate(value):
            causes += schema_findings(shape.item, item, path=f"{path}[{index}]", root=root)
    elif shape.enum and value not in shape.enum:
        allowed = ", ".join(quote(str(item)) for item in shape.enum)
        causes.append(
            Cause(
                "FieldValueNotSupported",
                f"Unsupported value: {quote(str(value))}: supported values: {allowed}",
                path,
            )
        )
    elif shape.pattern and isinstance(value, str) and not re.search(shape.pattern, value):
        causes.append(_invalid(value, f"{shown} in body should match '{shape.pattern}'", path))
    return causes


def changed_identity(old: Obj, new: Obj) -> list[Cause]:
    """Refuse changes of what an update may not change."""
    causes = []
    for name in ("name", "namespace", "uid", "deletionTimestamp"):
        before, after = old["metadata"].get(name), new["metadata"].get(name)
        if before != after:
            causes.append(_invalid(after or "", "field is immutable", f"metadata.{name}"))
    if old["metadata"].get("deletionTimestamp"):
        before = old["metadata"].get("finalizers") or ()
        added = [item for item in new["metadata"].get("finalizers") or () if item not in before]
        if added:
            shown = ", ".join(quote(item) for item in sorted(added))
            text = (
                "Forbidden: no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{shown}}}"
            )
            causes.append(Cause("FieldValueForbidden", text, "metadata.finalizers"))
    return causes + _changed_immutable(old, new)


def _changed_immutable(old: Obj, new: Obj) -> list[Cause]:
    """A Secret or ConfigMap that says so keeps its data."""
    if old.get("kind") not in ("Secret", "ConfigMap") or old.get("immutable") is not True:
        return []
    changed = ["immutable"] if new.get("immutable") is not True else []
    changed += [key for key in ("data", "binaryData") if (old.get(key) or {}) != (new.get(key) or {})]
    text = "Forbidden: field is immutable when `immutable` is set"
    return [Cause("FieldValueForbidden", text, key) for key in changed]
