"""
What a restore does to each object: pure, from what was captured before a change and from the object as it is now.

Only fields that the deploy changed go back, and only where they still are as the deploy left them; a field that
somebody else has changed since leaves its object alone, whole, and is named. Nothing is ever deleted. Fences are
no part of it: marks, suspensions under a mark and the scheduling of nodes stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from fencectl.core.applyset import ID, KINDS, NAMESPACES
from fencectl.core.managers import last_entry
from fencectl.core.patches import ABSENT, GuardedPatch, Op, drop, guard, pointer, put, seal
from fencectl.core.profiles import HOLDER, JOURNAL, NESTED, RECONCILE, REQUESTED_AT, SUSPENDED_BY
from fencectl.core.recovery_point import Captured
from fencectl.core.refs import ObjectRef, Raw, Seen, annotations_of, dig, is_deleting, labels_of
from fencectl.core.times import second_time

_ABSENT = object()
_SERVERS_OWN = frozenset({"apiVersion", "kind", "metadata", "status"})
# Marks and requests are nobody's state; the revision is the Deployment controller's own count.
_NEVER = (HOLDER, JOURNAL, NESTED, REQUESTED_AT, "deployment.kubernetes.io/revision")
_FENCED = (RECONCILE, SUSPENDED_BY)
_CONTENTS = (KINDS, NAMESPACES)
_FLUX_MANAGERS = frozenset({"kustomize-controller", "helm-controller"})

# What is not made again, and why: to make it anew would not bring back what it was.
_NOT_MADE_AGAIN = {
    ("", "Pod"): "its owner makes pods",
    ("batch", "Job"): "a job is not run again",
    ("", "PersistentVolumeClaim"): "a new one would be empty",
    ("", "PersistentVolume"): "a new one would be empty",
    ("", "Node"): "a node registers itself",
}


class Doing(StrEnum):
    """What a restore does to one object."""

    NOTHING = "nothing"  # it is as it was
    PATCH = "patch"
    CREATE = "create"  # it was deleted since
    NEW = "new"  # it was not there before; it stays
    LEFT = "left"  # `why` says why it is not touched


@dataclass(frozen=True, slots=True)
class FieldBack:
    """One field that goes back: its path in words, its value as it is and as it will be (None: absent)."""

    path: str
    now: Any
    before: Any


@dataclass(frozen=True, slots=True)
class Restoration:
    """
    What is to be done to one object.

    `patch`: of PATCH; `body`: of CREATE; `why`: of LEFT, a clause that may quote foreign text. `paused`: it does
    not roll out, whatever is written to it.
    """

    ref: ObjectRef
    doing: Doing
    patch: GuardedPatch | None = None
    body: Raw | None = None
    fields: tuple[FieldBack, ...] = ()
    why: str = ""
    paused: bool = False

    @property
    def writes(self) -> bool:
        """Whether anything is sent for it."""
        return self.doing in (Doing.PATCH, Doing.CREATE)


def restore_one(was: Captured, live: Seen | None, *, ended_at: datetime | None = None) -> Restoration:
    """
    Say what is to be done to one object. `live`: as it is now, None where it is not there.

    `ended_at`: when the deploy that is undone had ended; None while it still runs. Where nobody can say what that
    deploy made of an object, what was written later by others is theirs.
    """
    ref = was.ref
    if was.before is None:
        if live is None:
            return Restoration(ref, Doing.NOTHING)
        return Restoration(live.ref, Doing.NEW)
    if live is None:
        return _made_again(ref, was.before)
    if is_deleting(live.raw):
        return Restoration(live.ref, Doing.LEFT, why="it is being deleted")
    comparing = _Comparing(live.raw, ended_at)
    for path, before, meant, now in _parts(was.before, was.planned, live.raw):
        comparing.compare(path, before, meant, now)
    if comparing.others is not None:
        return Restoration(live.ref, Doing.LEFT, why=comparing.others)
    if not comparing.changes:
        return Restoration(live.ref, Doing.NOTHING)
    return Restoration(
        live.ref,
        Doing.PATCH,
        patch=seal(live.ref, [*comparing.guards, *comparing.changes]),
        fields=tuple(comparing.fields),
        paused=dig(live.raw, "spec", "paused") is True and "spec.paused" not in {f.path for f in comparing.fields},
    )


def _made_again(ref: ObjectRef, before: Raw) -> Restoration:
    why = _NOT_MADE_AGAIN.get((ref.group, ref.kind))
    if why is not None:
        return Restoration(ref, Doing.LEFT, why=f"it was deleted since, and {why}")
    metadata = {
        key: value
        for key, value in (dig(before, "metadata") or {}).items()
        if key in ("name", "namespace", "labels", "annotations", "finalizers")
    }
    body = {key: value for key, value in before.items() if key != "status"}
    body |= {"apiVersion": ref.api_version, "kind": ref.kind, "metadata": {**metadata, "name": ref.name}}
    return Restoration(ref, Doing.CREATE, body=body)


def _parts(before: Raw, planned: Raw | None, live: Raw) -> Iterator[tuple[tuple[str, ...], Any, Any, Any]]:
    """
    Give the parts of an object that are somebody's wish: path, before, planned and now.

    Labels and annotations key by key, so that the map itself is never replaced; planned is `_UNSAID` where nobody
    can say.
    """
    unsaid = planned is None
    wished: Raw = live if planned is None else planned
    is_node = live.get("kind") == "Node" and live.get("apiVersion") == "v1"
    fenced = HOLDER in annotations_of(live)
    for what in ("labels", "annotations"):
        maps = [_map(one, what) for one in (before, wished, live)]
        skipped = (*_NEVER, *(_FENCED if fenced else ())) if what == "annotations" else ()
        for key in dict.fromkeys(key for one in maps for key in one):
            was, meant, now = (one.get(key, _ABSENT) for one in maps)
            if what == "annotations" and key in _CONTENTS and ID in labels_of(live):
                # NB: nothing is deleted, so the set must go on to name whatever it has come to hold.
                yield ("metadata", what, key), _either(was, now), now, now
            elif key not in skipped:
                yield ("metadata", what, key), was, _UNSAID if unsaid else meant, now
    for key in dict.fromkeys(key for one in (before, wished, live) for key in one if key not in _SERVERS_OWN):
        was, meant, now = (one.get(key, _ABSENT) for one in (before, wished, live))
        hidden = ("unschedulable", "taints") if is_node else ("suspend",) if fenced else ()
        if key == "spec":
            was, meant, now = (_without(value, hidden) for value in (was, meant, now))
        yield (key,), was, _UNSAID if unsaid else meant, now


_UNSAID = object()


def _either(before: Any, now: Any) -> Any:
    """Both lists of names (text, separated by commas) as one; what is there already stays as it is."""
    names = [set(value.split(",")) - {""} if isinstance(value, str) else set() for value in (before, now)]
    return now if names[0] <= names[1] else ",".join(sorted(names[0] | names[1]))


def _map(obj: Raw, what: str) -> Mapping[str, Any]:
    found = dig(obj, "metadata", what)
    return found if isinstance(found, Mapping) else {}


def _without(value: Any, names: Sequence[str]) -> Any:
    if not names or not isinstance(value, Mapping):
        return value
    return {key: below for key, below in value.items() if key not in names}


class _Comparing:
    """Compares one object part by part, and collects the guarded changes that bring it back."""

    def __init__(self, live: Raw, ended_at: datetime | None) -> None:
        self._live = live
        self._ended_at = ended_at
        self._made: set[tuple[str, ...]] = set()
        self.guards: list[Op] = []
        self.changes: list[Op] = []
        self.fields: list[FieldBack] = []
        self.others: str | None = None

    def compare(self, path: tuple[str, ...], before: Any, planned: Any, now: Any) -> None:
        """Compare one part: `planned` is what the deploy was to make of it, or `_UNSAID`."""
        if _same(before, now) or _same(before, planned):
            # NB: what the deploy did not change is not its to bring back, whoever has changed it since.
            return
        said = planned is not _UNSAID
        if said and _same(planned, now):
            self._goes_back(path, before, now)
        elif _maps(before, now) and (not said or isinstance(planned, Mapping)):
            for key in dict.fromkeys((*before, *(planned if said else ()), *now)):
                meant = planned.get(key, _ABSENT) if said else _UNSAID
                self.compare((*path, key), before.get(key, _ABSENT), meant, now.get(key, _ABSENT))
        elif _lists(before, planned if said else now, now):
            for number, (old, live) in enumerate(zip(before, now, strict=True)):
                self.compare((*path, str(number)), old, planned[number] if said else _UNSAID, live)
        elif said:
            self._is_of_others(path)
        else:
            self._unsaid(path, before, now)

    def _unsaid(self, path: tuple[str, ...], before: Any, now: Any) -> None:
        """Bring back a field of which nobody says who was to change it, unless its writer shows that it is his."""
        entry = last_entry(self._live, *path)
        if entry is not None and entry.subresource:
            # NB: an autoscaler's or a controller's word, written through `scale` or `status`.
            return
        late = (
            entry is not None
            and self._ended_at is not None
            and entry.at is not None
            and entry.at > self._ended_at
            and entry.manager not in _FLUX_MANAGERS
        )
        if late:
            self._is_of_others(path)
        else:
            self._goes_back(path, before, now)

    def _goes_back(self, path: tuple[str, ...], before: Any, now: Any) -> None:
        if _maps(before, now):
            # NB: field by field, so that a guard is no longer than what changes.
            for key in dict.fromkeys((*before, *now)):
                old, live = before.get(key, _ABSENT), now.get(key, _ABSENT)
                if not _same(old, live):
                    self._goes_back((*path, key), old, live)
            return
        if _lists(before, now):
            for number, (old, live) in enumerate(zip(before, now, strict=True)):
                if not _same(old, live):
                    self._goes_back((*path, str(number)), old, live)
            return
        where = pointer(*path)
        missing = self._missing_map(path)
        if now is not _ABSENT:
            self.guards.append(guard(where, now))
        elif missing is None:
            self.guards.append(guard(where, ABSENT))
        elif missing not in self._made:
            self._made.add(missing)
            self.guards.append(guard(pointer(*missing), ABSENT))
            self.changes.append(put(pointer(*missing), {}, present=False))
        self.changes.append(drop(where) if before is _ABSENT else put(where, before, present=now is not _ABSENT))
        self.fields.append(
            FieldBack(words(path), *(None if value is _ABSENT else value for value in (now, before)))
        )

    def _missing_map(self, path: tuple[str, ...]) -> tuple[str, ...] | None:
        """The map that a label or annotation needs first, where the object has none."""
        above = path[:-1]
        is_label = above in (("metadata", "labels"), ("metadata", "annotations"))
        return above if is_label and not dig(self._live, *above) else None

    def _is_of_others(self, path: tuple[str, ...]) -> None:
        if self.others is None:
            entry = last_entry(self._live, *path)
            whom = "" if entry is None else f" by `{entry.manager}`"
            at = "" if entry is None or entry.at is None else f" at {second_time(entry.at)}"
            self.others = f"{words(path)} was changed since{whom}{at}"


def words(path: Sequence[str]) -> str:
    """A path as people write it; a key with a dot or slash stands in brackets."""
    parts = [f"[{key}]" if "." in key or "/" in key or key.isdecimal() else f".{key}" for key in path]
    return "".join(parts).removeprefix(".")


def _maps(*values: Any) -> bool:
    return all(isinstance(value, Mapping) for value in values)


def _lists(*values: Any) -> bool:
    """Whether these lists can be compared item by item: as long as each other, each item of the same name."""
    if not all(isinstance(value, list) for value in values) or len({len(value) for value in values}) != 1:
        return False
    return all(
        all(isinstance(item, Mapping) and isinstance(item.get("name"), str) for item in items)
        and len({item["name"] for item in items}) == 1
        for items in zip(*values, strict=True)
    )


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: true is not 1, and an absent field is not null."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, bool) is not isinstance(other, bool):
        return False
    return one is other or bool(one == other)
