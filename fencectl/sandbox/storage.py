"""
Where objects live: one revision counter, immutable objects, and a history that watches and pages read.

Nothing here knows about kinds. A stored object is never changed in place: each write puts a new one.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from fencectl.sandbox.gojson import Obj

Key = tuple[str, str]
ObjectName = tuple[str, str]  # namespace ("" where there is none), name
HISTORY = 10_000


@dataclass(frozen=True, slots=True)
class Change:
    """One write. `before` is None for a creation, `after` for a deletion."""

    revision: int
    resource: Key
    name: ObjectName
    before: Obj | None
    after: Obj | None
    # What a deletion shows: the last state with the revision of the deletion.
    shown: Obj
    at_s: float


class CompactedError(Exception):
    """The history no longer reaches back that far."""


class RaceLostError(Exception):
    """Somebody else wrote between the read and the write."""


class Storage:
    """All objects, and what happened to them."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self._objects: dict[Key, dict[ObjectName, Obj]] = {}
        self._history: deque[Change] = deque()
        self._compacted = 0
        # A real server has written a few hundred things before anybody asks it something.
        self._revision = 100
        self._listeners: list[Callable[[Change], None]] = []

    @property
    def revision(self) -> int:
        return self._revision

    def on_change(self, listener: Callable[[Change], None]) -> None:
        """Call `listener` after each write, on the writer's thread, outside the lock."""
        self._listeners.append(listener)

    def get(self, resource: Key, *, name: ObjectName) -> Obj | None:
        with self.changed:
            return self._objects.get(resource, {}).get(name)

    def put(self, resource: Key, *, name: ObjectName, expected: Obj | None, obj: Obj) -> Obj:
        """Write `obj` if `expected` is still what is stored (None: nothing). Returns it with its revision."""
        with self.changed:
            table = self._objects.setdefault(resource, {})
            before = table.get(name)
            if before is not expected:
                raise RaceLostError
            stored = self._stamped(obj)
            table[name] = stored
            change = self._record(resource, name=name, before=before, after=stored, shown=stored)
        self._tell(change)
        return stored

    def delete(self, resource: Key, *, name: ObjectName, expected: Obj) -> Obj:
        """Remove an object if `expected` is still what is stored. Returns its last state."""
        with self.changed:
            table = self._objects.get(resource, {})
            if table.get(name) is not expected:
                raise RaceLostError
            shown = self._stamped(expected)
            del table[name]
            change = self._record(resource, name=name, before=expected, after=None, shown=shown)
        self._tell(change)
        return shown

    def _stamped(self, obj: Obj) -> Obj:
        self._revision += 1
        metadata = {**obj["metadata"], "resourceVersion": str(self._revision)}
        return {**obj, "metadata": metadata}

    def _record(
        self, resource: Key, *, name: ObjectName, before: Obj | None, after: Obj | None, shown: Obj
    ) -> Change:
        change = Change(self._revision, resource, name, before, after, shown, time.monotonic())
        self._history.append(change)
        while len(self._history) > HISTORY:
            self._compacted = self._history.popleft().revision
        self.changed.notify_all()
        return change

    def _tell(self, change: Change) -> None:
        for listener in tuple(self._listeners):
            listener(change)

    def list(self, resource: Key, *, at: int | None = None) -> tuple[list[tuple[ObjectName, Obj]], int]:
        """Return the objects in key order as they were at revision `at` (default: now), and that revision."""
        with self.changed:
            table = self._objects.get(resource, {})
            if at is None or at >= self._revision:
                return sorted(table.items(), key=lambda item: item[0]), self._revision
            if at < self._compacted:
                raise CompactedError
            past = dict(table)
            for change in reversed(self._history):
                if change.revision <= at:
                    break
                if change.resource != resource:
                    continue
                if change.before is None:
                    past.pop(change.name, None)
                else:
                    past[change.name] = change.before
            return sorted(past.items(), key=lambda item: item[0]), at

    def count(self, resource: Key) -> int:
        with self.changed:
            return len(self._objects.get(resource, {}))

    def since(self, revision: int) -> tuple[Sequence[Change], int]:
        """Return what was written after `revision`, and the revision up to which that is complete."""
        with self.changed:
            if revision < self._compacted:
                raise CompactedError
            start = bisect_right(self._history, revision, key=lambda change: change.revision)
            return list(islice(self._history, start, None)), self._revision

    def revision_before(self, seconds: float) -> int:
        """Return the revision as it was some real time ago, as far back as the history goes."""
        limit_s = time.monotonic() - seconds
        with self.changed:
            revision = self._revision
            for change in reversed(self._history):
                if change.at_s < limit_s:
                    break
                revision = max(change.revision - 1, self._compacted)
            return revision

    def compact(self) -> None:
        """Forget the history: old pages and old watches expire."""
        with self.changed:
            # NB: a revision of its own, so that a token of this very moment expires too.
            self._revision += 1
            self._history.clear()
            self._compacted = self._revision
            self.changed.notify_all()

    def drop(self, resource: Key) -> None:
        """Delete every object of a resource that is no longer served."""
        for name, obj in self.list(resource)[0]:
            self.delete(resource, name=name, expected=obj)

    def wake(self) -> None:
        with self.changed:
            self.changed.notify_all()
