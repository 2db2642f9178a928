"""What an apply changes: two objects, field by field, without what the server keeps itself and without secrets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fencectl.core.refs import Raw

# What the server and the controllers write; an apply does not.
_SERVERS_OWN = frozenset(
    {"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink", "deletionTimestamp"}
)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
HIDDEN = "(hidden)"
_LONGEST = 80


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field: its path, its values before and after as short text; None: it is not there. Foreign text."""

    path: str
    before: str | None
    after: str | None


def field_changes(before: Raw, after: Raw) -> tuple[FieldChange, ...]:
    """Compare an object as it is with what the server says it would be. `status` is no part of it."""
    secret = after.get("kind") == "Secret" and str(after.get("apiVersion")) == "v1"
    found = []
    for path, old, new in _walk("", _wanted(before), _wanted(after)):
        hide = (secret and path.startswith((".data", ".stringData"))) or _LAST_APPLIED in path
        found.append(FieldChange(path.removeprefix("."), _shown(old, hide=hide), _shown(new, hide=hide)))
    return tuple(found)


def _wanted(obj: Raw) -> Raw:
    metadata = obj.get("metadata")
    kept = {key: value for key, value in obj.items() if key not in ("status", "kind", "apiVersion")}
    if isinstance(metadata, Mapping):
        kept["metadata"] = {key: value for key, value in metadata.items() if key not in _SERVERS_OWN}
    return kept


_ABSENT = object()


def _walk(path: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            # NB: a key with a dot in it is no path.
            below = f"{path}[{key}]" if "." in key or "/" in key else f"{path}.{key}"
            yield from _walk(below, old.get(key, _ABSENT), new.get(key, _ABSENT))
    elif isinstance(old, list) and isinstance(new, list):
        yield from _walk_lists(path, old, new)
    elif old is _ABSENT and isinstance(new, Mapping) and new:
        yield from _walk(path, {}, new)
    elif new is _ABSENT and isinstance(old, Mapping) and old:
        yield from _walk(path, old, {})
    elif type(old) is not type(new) or old != new:
        yield path, old, new


def _walk_lists(path: str, old: Sequence[Any], new: Sequence[Any]) -> Iterator[tuple[str, Any, Any]]:
    names = [_named(old), _named(new)]
    if names[0] is not None and names[1] is not None:
        for name in [*names[0], *(name for name in names[1] if name not in names[0])]:
            yield from _walk(f"{path}[{name}]", names[0].get(name, _ABSENT), names[1].get(name, _ABSENT))
        return
    for number in range(max(len(old), len(new))):
        before = old[number] if number < len(old) else _ABSENT
        after = new[number] if number < len(new) else _ABSENT
        yield from _walk(f"{path}[{number}]", before, after)


def _named(items: Sequence[Any]) -> dict[str, Any] | None:
    """The items by their names; None where they have none, or not each its own."""
    found: dict[str, Any] = {}
    for item in items:
        name = item.get("name") if isinstance(item, Mapping) else None
        if not isinstance(name, str) or name in found:
            return None
        found[name] = item
    return found


def _shown(value: Any, *, hide: bool) -> str | None:
    return None if value is _ABSENT else value_text(value, hide=hide)


def value_text(value: Any, *, hide: bool) -> str:
    """A value as short text, or that it is hidden. Foreign text."""
    if hide:
        return HIDDEN
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
