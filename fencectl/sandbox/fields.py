"""
Who owns which field: sets of field paths, their `fieldsV1` spelling, and the comparison of two objects.

A path is a tuple of the keys that `fieldsV1` uses: `f:name`, `k:{"key":"value"}` for an item of a keyed
list, `v:value` for an item of a set.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from fencectl.sandbox.gojson import Obj, encode
from fencectl.sandbox.schema import ANY, Type

Path = tuple[str, ...]
Paths = frozenset[Path]

_META = ("name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation")
NEVER_OWNED: Paths = frozenset(
    [("f:apiVersion",), ("f:kind",), ("f:metadata",)]
    + [("f:metadata", f"f:{name}") for name in (*_META, "managedFields", "resourceVersion")]
)


_MISSING = object()


def _is_leaf(shape: Type, value: Any) -> bool:
    if isinstance(value, dict):
        return shape.merge == "atomic" and shape.kind in ("struct", "map")
    if isinstance(value, list):
        return shape.kind != "list" or shape.merge not in ("map", "set")
    return True


def item_key(shape: Type, item: Any) -> str:
    """Return the path element of one item of a list that is merged."""
    if shape.merge == "set":
        return f"v:{encode(item)}"
    key = {}
    for name in shape.keys:
        known = shape.below.fields.get(name)
        value = item.get(name) if isinstance(item, dict) else None
        if value is None and known is not None:
            value = known.default
        if value is not None:
            key[name] = value
    return "k:" + json.dumps(key, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _below(shape: Type, key: str) -> Type:
    """Return the type of one member of a struct or a map."""
    if shape.kind == "struct":
        known = shape.fields.get(key)
        return known.type if known else ANY
    return shape.below if shape.kind == "map" else ANY


def children(shape: Type, value: Any) -> Iterator[tuple[str, Type, Any, bool]]:
    """Yield path element, type, value, and whether it is a declared field of a struct."""
    if isinstance(value, dict):
        for key, item in value.items():
            if shape.kind == "struct":
                known = shape.fields.get(key)
                yield f"f:{key}", known.type if known else ANY, item, known is not None
            else:
                yield f"f:{key}", shape.below if shape.kind == "map" else ANY, item, False
    elif isinstance(value, list):
        for item in value:
            yield item_key(shape, item), shape.below, item, False


def field_set(shape: Type, value: Any) -> Paths:
    """Return what an apply of `value` owns."""
    found: set[Path] = set()

    def walk(shape: Type, value: Any, path: Path) -> None:
        if _is_leaf(shape, value):
            found.add(path)
            return
        for element, below, item, declared in children(shape, value):
            inner = (*path, element)
            walk(below, item, inner)
            if item is None or item == {} or not declared:
                found.add(inner)

    walk(shape, value, ())
    return frozenset(path for path in found if path and path not in NEVER_OWNED)


@dataclass(slots=True)
class Comparison:
    """What differs between two objects, as paths."""

    added: set[Path] = field(default_factory=set)
    modified: set[Path] = field(default_factory=set)
    removed: set[Path] = field(default_factory=set)

    def without(self, reset: Iterable[Path]) -> Comparison:
        """Leave out what a writer may not own: identity fields, and everything below `reset`."""
        prefixes = tuple(reset)

        def keep(paths: set[Path]) -> set[Path]:
            return {
                path
                for path in paths
                if path not in NEVER_OWNED and not any(path[: len(prefix)] == prefix for prefix in prefixes)
            }

        return Comparison(keep(self.added), keep(self.modified), keep(self.removed))


def compare(shape: Type, old: Any, new: Any) -> Comparison:
    """Compare two objects of one type."""
    found = Comparison()

    def everything(shape: Type, value: Any, path: Path, into: set[Path]) -> None:
        into.add(path)
        if not _is_leaf(shape, value):
            for element, below, item, _ in children(shape, value):
                everything(below, item, (*path, element), into)

    def members(shape: Type, old: Obj, new: Obj, path: Path) -> None:
        for key, item in new.items():
            before = old.get(key, _MISSING)
            # NB: most texts stay, and one that does is no difference, whatever its type is called.
            if item is before or (type(item) is str is type(before) and item == before):
                continue
            inner = (*path, f"f:{key}")
            below = _below(shape, key)
            if before is _MISSING:
                everything(below, item, inner, found.added)
            else:
                walk(below, before, item, inner)
        for key, item in old.items():
            if key not in new:
                everything(_below(shape, key), item, (*path, f"f:{key}"), found.removed)

    def walk(shape: Type, old: Any, new: Any, path: Path) -> None:
        # NB: a null is an empty list or map here: only what is in it counts.
        if old is None and isinstance(new, dict | list) and not _is_leaf(shape, new):
            old = type(new)()
        elif new is None and isinstance(old, dict | list) and not _is_leaf(shape, old):
            new = type(old)()
        if type(old) is not type(new) or _is_leaf(shape, new):
            # NB: False == 0 in Python, not in JSON.
            if old != new or type(old) is not type(new):
                found.modified.add(path)
            return
        if old is new:
            return
        if isinstance(new, dict):
            members(shape, old, new, path)
            return
        before = {element: item for element, _, item, _ in children(shape, old)}
        seen = set()
        for element, below, item, _ in children(shape, new):
            seen.add(element)
            inner = (*path, element)
            if element in before:
                walk(below, before[element], item, inner)
            else:
                everything(below, item, inner, found.added)
        for element, below, item, _ in children(shape, old):
            if element not in seen:
                everything(below, item, (*path, element), found.removed)

    walk(shape, old, new, ())
    return found


@lru_cache(maxsize=2048)
def to_fields_v1(members: Paths) -> Obj:
    """Spell a set of paths as `fieldsV1`. The same set is the same object: it must not be changed."""
    tree: Obj = {}
    for path in sorted(members):
        node = tree
        for element in path:
            node = node.setdefault(element, {})
    for path in members:
        node = tree
        for element in path:
            node = node[element]
        if node:
            node["."] = {}
    return _ordered(tree)


def _ordered(tree: Obj) -> Obj:
    return {key: _ordered(tree[key]) for key in sorted(tree)}


def from_fields_v1(tree: Any) -> Paths:
    """Read `fieldsV1`."""
    # NB: objects keep their owners through most writes, and the text is made faster than the set.
    return _read_fields(json.dumps(tree))


@lru_cache(maxsize=2048)
def _read_fields(text: str) -> Paths:
    tree = json.loads(text)
    found: set[Path] = set()

    def walk(node: Any, path: Path) -> None:
        if not node or "." in node:
            found.add(path)
        for key, below in node.items():
            if key != ".":
                walk(below, (*path, key))

    walk(tree or {}, ())
    return frozenset(path for path in found if path)


def readable(path: Path) -> str:
    """Spell a path as conflicts name it: `.spec.containers[name="a"].image`."""
    out = []
    for element in path:
        kind, _, rest = element.partition(":")
        if kind == "f":
            out.append(f".{rest}")
        elif kind == "k":
            pairs = json.loads(rest)
            out.append("[" + ",".join(f"{key}={encode(value)}" for key, value in pairs.items()) + "]")
        else:
            out.append(f"[={rest}]")
    return "".join(out)
