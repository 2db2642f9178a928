"""Server-side apply: merge by the schema, prune what this manager no longer applies, refuse conflicts."""

from __future__ import annotations

from typing import Any

from fencectl.sandbox.decode import decode_object
from fencectl.sandbox.fields import Path, Paths, children, compare, item_key, readable
from fencectl.sandbox.gojson import Obj, encode, kind_of, quote, show
from fencectl.sandbox.managers import (
    ManagerKey,
    Managers,
    applied_set,
    read_managers,
    reset_paths,
    track_update,
    with_managers,
)
from fencectl.sandbox.resources import Resource
from fencectl.sandbox.schema import ANY, Type
from fencectl.sandbox.status import Cause, StatusError, apply_conflict


def untyped(shape: Type, value: Any, *, path: str) -> list[str]:
    """Return what in an applied configuration does not fit the schema, in the server's words."""
    where = f"{path}: " if path else ""
    if value is None or shape.kind == "any":
        return []
    if shape.kind in ("string", "time", "microtime") and not isinstance(value, str):
        return [f"{where}expected string, got &value.valueUnstructured{{Value:{encode(value)}}}"]
    if shape.kind == "boolean" and not isinstance(value, bool):
        return [f"{where}expected boolean, got &{{{show(value)}}}"]
    if shape.kind in ("int32", "int64", "number") and (
        isinstance(value, bool) or not isinstance(value, int | float)
    ):
        return [f"{where}expected numeric (int or float), got {kind_of(value)}"]
    if shape.kind in ("struct", "map"):
        if not isinstance(value, dict):
            return [f"{where}expected map, got &{{{show(value)}}}"]
        return _untyped_members(shape, value, path=path)
    if shape.kind == "list":
        if not isinstance(value, list):
            return [f"{where}expected list, got &{{{show(value)}}}"]
        below = shape.item or ANY
        return [text for i, item in enumerate(value) for text in untyped(below, item, path=f"{path}[{i}]")]
    return []


def _untyped_members(shape: Type, value: Obj, *, path: str) -> list[str]:
    found = []
    for key, item in value.items():
        below = f"{path}.{key}"
        if shape.kind == "map":
            found += untyped(shape.item or ANY, item, path=below)
        elif key in shape.fields:
            found += untyped(shape.fields[key].type, item, path=below)
        elif not shape.keeps_unknown:
            found.append(f"{below}: field not declared in schema")
    return found


def merge_applied(shape: Type, live: Any, config: Any) -> Any:
    """Return `live` with `config` merged in, by the list and map types of the schema."""
    if isinstance(live, dict) and isinstance(config, dict) and shape.merge != "atomic":
        out = dict(live)
        for key, value in config.items():
            if shape.kind == "struct":
                known = shape.fields.get(key)
                below = known.type if known else ANY
            else:
                below = shape.item or ANY
            out[key] = merge_applied(below, live[key], value) if key in live else value
        return out
    if isinstance(live, list) and isinstance(config, list) and shape.merge in ("map", "set"):
        have = {item_key(shape, item): item for item in live}
        wanted = {item_key(shape, item): item for item in config}
        merged = [
            merge_applied(shape.below, item, wanted[key]) if key in wanted else item for key, item in have.items()
        ]
        return merged + [item for key, item in wanted.items() if key not in have]
    return config


def remove_paths(shape: Type, value: Any, *, gone: Paths, kept: Paths) -> Any:
    """Take out what is in `gone` unless somebody in `kept` needs it, and containers that become empty by it."""
    kept_prefixes = {path[:size] for path in kept for size in range(1, len(path) + 1)}

    def walk(shape: Type, value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            out: Any = {}
            for element, below, item, _ in children(shape, value):
                inner = (*path, element)
                new = _walk_item(below, item, inner)
                if new is not _GONE:
                    out[element[2:]] = new
            return out
        if isinstance(value, list) and shape.merge in ("map", "set"):
            items = []
            for element, below, item, _ in children(shape, value):
                new = _walk_item(below, item, (*path, element))
                if new is _GONE:
                    continue
                if shape.merge == "map":
                    # NB: an item that stays keeps its keys, whoever owned them.
                    new = {**{name: item[name] for name in shape.keys if name in item}, **new}
                items.append(new)
            return items
        return value

    def _walk_item(shape: Type, value: Any, path: Path) -> Any:
        if path in gone and path not in kept_prefixes:
            return _GONE
        if not isinstance(value, dict | list) or not value or shape.merge == "atomic":
            return value
        if isinstance(value, list) and shape.merge not in ("map", "set"):
            return value
        left = walk(shape, value, path)
        # NB: a container that is only implied by what was removed goes with it.
        implied = any(other[: len(path)] == path for other in gone) and path not in kept_prefixes
        return _GONE if not left and implied else left

    return walk(shape, value, ())


_GONE = object()


def conflicts(managers: Managers, *, key: ManagerKey, taken: Paths) -> dict[ManagerKey, Paths]:
    """Return what other managers own of the paths that this apply changes."""
    found = {other: paths & taken for other, paths in managers.sets.items() if other != key}
    return {other: paths for other, paths in found.items() if paths}


def conflict_error(found: dict[ManagerKey, Paths]) -> StatusError:
    """Build the 409 that names each manager and each field."""
    count = sum(len(paths) for paths in found.values())
    causes = []
    lines = []
    for key in sorted(found):
        manager, operation, api_version, subresource = key
        text = f"conflict with {quote(manager)}"
        if subresource:
            text += f" with subresource {quote(subresource)}"
        if operation == "Update":
            text += f" using {api_version}"
        names = [readable(path) for path in sorted(found[key])]
        causes += [Cause("FieldManagerConflict", text, name) for name in names]
        if count == 1:
            lines.append(f"{text}: {names[0]}")
        else:
            plural = text.replace("conflict", "conflicts", 1)
            lines.append(plural + ":\n" + "\n".join(f"- {name}" for name in names))
    joined = "\n".join(lines)
    word = "conflict" if count == 1 else "conflicts"
    return apply_conflict(causes, message=f"Apply failed with {count} {word}: {joined}")


def apply_config(
    resource: Resource, *, live: Obj, config: Obj, key: ManagerKey, now: str, force: bool, exists: bool
) -> Obj:
    """Return the object after this apply, its managers included; raises on conflicts."""
    reset = reset_paths(resource, key[3])
    managers = read_managers(live)
    if exists and not managers.sets:
        # NB: nobody was recorded as owner so far; the first apply finds one for what is there.
        before_key = ("before-first-apply", "Update", key[2], "")
        bare = {**live, "metadata": {k: v for k, v in live["metadata"].items() if k != "managedFields"}}
        empty = decode_object(resource, {"metadata": {}}).obj
        owned = track_update(resource, live=empty, new=bare, key=before_key, now=now, creating=True)
        managers = read_managers(owned)
    before = managers.copy()
    last = managers.sets.get(key, frozenset())
    mine = applied_set(resource, config, reset=reset)
    bare = {**live, "metadata": {k: v for k, v in live["metadata"].items() if k != "managedFields"}}
    merged = merge_applied(resource.type, bare, config)
    managers.sets[key] = mine
    gone = last - frozenset().union(*managers.sets.values())
    if gone:
        kept = frozenset().union(*managers.sets.values())
        merged = remove_paths(resource.type, merged, gone=gone, kept=kept)
    changes = compare(resource.type, bare, merged).without(reset)
    taken = frozenset(changes.added | changes.modified)
    found = conflicts(managers, key=key, taken=taken)
    if found and not force:
        raise conflict_error(found)
    removed = frozenset(changes.removed)
    for other in list(managers.sets):
        if other != key:
            managers.sets[other] = managers.sets[other] - found.get(other, frozenset()) - removed
    if mine != before.sets.get(key) or taken or removed:
        managers.times[key] = now
    managers.sets = {name: paths for name, paths in managers.sets.items() if paths}
    merged.setdefault("metadata", {})
    return with_managers(merged, managers)
