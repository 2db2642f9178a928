"""
What a release guards, what it changes and what the object will be afterwards, as comments above its command.

The result is computed: the patch's changes are applied to the object that was read, by an implementation of
RFC 6902 that shares nothing with the builder of the patch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from fencectl.core.patches import Op
from fencectl.core.profiles import (
    BRIDGE_CHILD_OWNER,
    BRIDGE_NODE_JOURNAL,
    BRIDGE_NODE_OWNER,
    BRIDGE_PARENT_OWNER,
    HOLDER,
    JOURNAL,
    RECONCILE,
    REQUESTED_AT,
    SUSPENDED_BY,
)
from fencectl.core.refs import annotations_of, dig, text_or_none
from fencectl.core.report import FenceEntry, FenceKind
from fencectl.core.times import clock_text
from fencectl.report.escape import cut, in_comment
from fencectl.report.style import wrap

_MARKS = {
    HOLDER: "holder",
    JOURNAL: "journal",
    BRIDGE_CHILD_OWNER: "owner",
    BRIDGE_PARENT_OWNER: "owner",
    BRIDGE_NODE_OWNER: "owner",
    BRIDGE_NODE_JOURNAL: "journal",
}
_KNOWN = {RECONCILE: "reconcile", REQUESTED_AT: "requestedAt", SUSPENDED_BY: "suspendedBy"}
_VALUE_LIMIT = 60


def explanation(entry: FenceEntry, *, read_at: datetime) -> list[str]:
    """The comment lines `if`, `then` and `result`; none for a fence without a release."""
    if entry.release is None:
        return []
    operations = entry.release.patch.operations
    guards = [op for op in operations if op["op"] == "test"]
    changes = [op for op in operations if op["op"] != "test"]
    return [
        *_lines("if", ", ".join(_guards(guards, entry, read_at))),
        *_lines("then", "; ".join(_changes(changes))),
        *_lines("result", "; ".join(_result(entry, changes))),
    ]


def _lines(label: str, text: str) -> list[str]:
    return wrap(text, first=f"#   {label:<8}", rest=f"#   {'':<8}")


def _guards(guards: Sequence[Op], entry: FenceEntry, read_at: datetime) -> Iterator[str]:
    as_read: list[str] = []
    others: list[str] = []
    for op in guards:
        keys = _keys(op["path"])
        if keys == ["metadata", "uid"]:
            as_read.append(f"uid {in_comment(entry.object.uid[:8])}…")
        elif op["value"] is None:
            others.append(f"{_field(keys)} is absent")
        elif _is_mark(keys) or isinstance(op["value"], list | dict) or keys[-1] in {"holderIdentity", "renewTime"}:
            as_read.append(_field(keys))
        else:
            others.append(f"{_field(keys)} is {_value(op['value'])}")
    verb = "is" if len(as_read) == 1 else "are"
    yield f"{_and(as_read)} {verb} as read at {clock_text(read_at, now=read_at)}"
    yield from others


def _changes(changes: Sequence[Op]) -> Iterator[str]:
    removed = [_field(_keys(op["path"])) for op in changes if op["op"] == "remove"]
    for op in changes:
        if op["op"] != "remove":
            yield f"set {_field(_keys(op['path']))} to {_value(op['value'])}"
    if removed:
        yield f"remove {_and(removed)}"


def _result(entry: FenceEntry, changes: Sequence[Op]) -> Iterator[str]:
    after = _applied(entry.raw, changes)
    if after is None:
        yield "cannot be computed from the object as it was read"
        return
    marks = [_keys(op["path"]) for op in changes]
    for keys in marks:
        if not _is_mark(keys):
            value = dig(after, *keys)
            yield f"{_field(keys)} {'absent' if value is None else _value(value)}"
    if not any(key in _MARKS for key in annotations_of(after)):
        yield "no mark left"
    elif any(_is_mark(keys) for keys in marks):
        yield "a mark is left"
    interval = text_or_none(dig(after, "spec", "interval"))
    if entry.kind is FenceKind.SUSPENSION and dig(after, "spec", "suspend") is not True:
        yield f"Flux reconciles it, then every {_value(interval)}" if interval else "Flux reconciles it"


def _applied(raw: Mapping[str, Any], changes: Sequence[Op]) -> Mapping[str, Any] | None:
    if not raw:
        return None
    import jsonpatch
    from jsonpointer import JsonPointerException

    operations: list[Any] = list(changes)
    try:
        after = jsonpatch.apply_patch(raw, operations, in_place=False)
    except (jsonpatch.JsonPatchException, JsonPointerException):
        return None
    return after if isinstance(after, Mapping) else None


def _keys(path: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _is_mark(keys: Sequence[str]) -> bool:
    return keys[:2] == ["metadata", "annotations"] and len(keys) == 3 and keys[2] in _MARKS


def _field(keys: Sequence[str]) -> str:
    if keys[:2] == ["metadata", "annotations"] and len(keys) == 3:
        return _MARKS.get(keys[2]) or f"{_KNOWN.get(keys[2]) or in_comment(keys[2])} annotation"
    return in_comment(".".join(keys))


def _value(value: Any) -> str:
    if isinstance(value, str):
        return in_comment(cut(value, _VALUE_LIMIT)) if value else "empty"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, Mapping):
        return f"an object of {len(value)} keys"
    return json.dumps(value)


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
