"""The `managedFields` of an object: one entry per manager, operation, version and subresource."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fencectl.sandbox.fields import Path, Paths, compare, field_set, from_fields_v1, to_fields_v1
from fencectl.sandbox.gojson import Obj
from fencectl.sandbox.resources import Resource

ManagerKey = tuple[str, str, str, str]  # manager, operation, apiVersion, subresource
MAX_UPDATE_MANAGERS = 10


@dataclass(slots=True)
class Managers:
    """Entries by manager, with the time of each one's last change."""

    sets: dict[ManagerKey, Paths] = field(default_factory=dict)
    times: dict[ManagerKey, str] = field(default_factory=dict)

    def copy(self) -> Managers:
        return Managers(dict(self.sets), dict(self.times))

    def entries(self) -> list[Obj]:
        """Spell the entries in the server's order: Apply first, then by time."""
        keys = sorted(self.sets, key=lambda key: (key[1], self.times.get(key, ""), key[0], key[2], key[3]))
        out = []
        for key in keys:
            manager, operation, api_version, subresource = key
            entry: Obj = {"manager": manager, "operation": operation, "apiVersion": api_version}
            if key in self.times:
                entry["time"] = self.times[key]
            entry["fieldsType"] = "FieldsV1"
            entry["fieldsV1"] = to_fields_v1(self.sets[key])
            if subresource:
                entry["subresource"] = subresource
            out.append(entry)
        return out


def read_managers(obj: Obj) -> Managers:
    """Read the entries of an object."""
    managers = Managers()
    for entry in obj.get("metadata", {}).get("managedFields") or ():
        key = (
            entry.get("manager", ""),
            entry.get("operation", ""),
            entry.get("apiVersion", ""),
            entry.get("subresource", ""),
        )
        managers.sets[key] = from_fields_v1(entry.get("fieldsV1"))
        if entry.get("time"):
            managers.times[key] = entry["time"]
    return managers


def with_managers(obj: Obj, managers: Managers) -> Obj:
    """Return `obj` with these entries in its metadata."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    entries = managers.entries()
    if entries:
        metadata["managedFields"] = entries
    return {**obj, "metadata": metadata}


def reset_paths(resource: Resource, subresource: str) -> tuple[Path, ...]:
    """Return what a write through this door cannot change, and so cannot own."""
    if subresource == "status":
        return (("f:spec",),)
    return (("f:status",),) if "status" in resource.subresources else ()


def track_update(resource: Resource, *, live: Obj, new: Obj, key: ManagerKey, now: str, creating: bool) -> Obj:
    """Return `new` with the entries that result from an update by `key`."""
    sent = new["metadata"].get("managedFields")
    if sent and all(not entry for entry in sent):
        # NB: `[{}]` is how a client asks to forget all owners.
        return with_managers(new, Managers())
    base = read_managers(new if sent else live)
    if not base.sets and not creating:
        return with_managers(new, Managers())
    changes = compare(resource.type, _bare(live), _bare(new))
    owned = changes.without(reset_paths(resource, key[3]))
    gone = frozenset(owned.removed)
    taken = frozenset(owned.added | owned.modified)
    before = dict(base.sets)
    for other in list(base.sets):
        if other != key:
            base.sets[other] = base.sets[other] - taken - gone
    mine = (base.sets.get(key, frozenset()) - gone) | taken
    base.sets[key] = mine
    # NB: a write through `scale` leaves no time.
    if mine != before.get(key) and key[3] != "scale":
        base.times[key] = now
    base.sets = {name: paths for name, paths in base.sets.items() if paths}
    _cap(base, now=now)
    return with_managers(new, base)


def _bare(obj: Obj) -> Obj:
    metadata = {key: value for key, value in obj.get("metadata", {}).items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


def _cap(managers: Managers, *, now: str) -> None:
    updates = sorted(
        (key for key in managers.sets if key[1] == "Update"), key=lambda key: managers.times.get(key, "")
    )
    excess = len(updates) - MAX_UPDATE_MANAGERS
    if excess <= 0:
        return
    by_version: dict[str, list[ManagerKey]] = {}
    for key in updates[: excess + 1]:
        by_version.setdefault(key[2], []).append(key)
    for version, keys in by_version.items():
        merged = ("ancient-changes", "Update", version, "")
        paths: Paths = frozenset().union(*(managers.sets.pop(key) for key in keys))
        times = [managers.times.pop(key, now) for key in keys]
        managers.sets[merged] = paths
        managers.times[merged] = max(times)


def applied_set(resource: Resource, config: Obj, *, reset: Iterable[Path]) -> Paths:
    """Return what an apply of `config` owns through this door."""
    prefixes = tuple(reset)
    return frozenset(
        path
        for path in field_set(resource.type, _bare(config))
        if not any(path[: len(prefix)] == prefix for prefix in prefixes)
    )
