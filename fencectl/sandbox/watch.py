"""Watches: what happened after a revision, as the events that a client gets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fencectl.sandbox import status
from fencectl.sandbox.clock import SandboxClock
from fencectl.sandbox.gojson import Obj, encode_bytes
from fencectl.sandbox.reading import ListOptions
from fencectl.sandbox.resources import Resource
from fencectl.sandbox.selectors import Matcher
from fencectl.sandbox.storage import Change, CompactedError, Storage

TRAILING_S = 0.1
BOOKMARK_EVERY_S = 60.0
Render = Callable[[Obj], Obj]


@dataclass(slots=True)
class WatchStream:
    """
    One open watch.

    `poll()` returns what is due now and never blocks, so it can be driven without threads; `chunks()` is
    the loop that a connection runs.
    """

    storage: Storage
    resource: Resource
    clock: SandboxClock
    matches: Matcher
    render: Render
    namespace: str = ""
    cursor: int = 0
    bookmarks: bool = False
    ends_at_s: float | None = None
    ended: bool = False
    # Whether it may be sent compressed: only those are that begin with the state.
    is_compressible: bool = False
    _pending: list[bytes] = field(default_factory=list)
    _last_s: float = 0.0

    def poll(self) -> list[bytes]:
        """Return the events that are due."""
        due, self._pending = self._pending, []
        if self.ended:
            return due
        now_s = self.clock.monotonic_s()
        try:
            changes, upto = self.storage.since(self.cursor)
        except CompactedError:
            self.ended = True
            refused = status.expired(f"too old resource version: {self.cursor} ({self.storage.revision})")
            return [*due, self._event("ERROR", refused.body)]
        for change in changes:
            event = self._of(change)
            if event:
                due.append(event)
        self.cursor = max(self.cursor, upto)
        if due or not self._last_s:
            self._last_s = now_s
        timed_out = self.ends_at_s is not None and now_s >= self.ends_at_s
        if self.bookmarks and not timed_out and now_s - self._last_s >= BOOKMARK_EVERY_S:
            self._last_s = now_s
            due.append(self._bookmark())
        self.ended = timed_out
        return due

    def _in_scope(self, obj: Obj | None) -> bool:
        if obj is None:
            return False
        return (not self.namespace or obj["metadata"].get("namespace") == self.namespace) and self.matches(obj)

    def _of(self, change: Change) -> bytes | None:
        if change.resource != self.resource.key:
            return None
        before, after = self._in_scope(change.before), self._in_scope(change.after)
        if after:
            return self._event("MODIFIED" if before else "ADDED", self.render(change.shown))
        if not before or change.before is None:
            return None
        # NB: what leaves a selector is shown as it was while it matched, with the new revision.
        metadata = {**change.before["metadata"], "resourceVersion": str(change.revision)}
        return self._event("DELETED", self.render({**change.before, "metadata": metadata}))

    def _event(self, kind: str, obj: Obj) -> bytes:
        return encode_bytes({"type": kind, "object": obj})

    def _bookmark(self, *, initial_end: bool = False) -> bytes:
        metadata: Obj = {"resourceVersion": str(self.cursor)}
        if initial_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        shape: Obj = {"kind": self.resource.kind, "apiVersion": self.resource.api_version, "metadata": metadata}
        return self._event("BOOKMARK", self.render(shape))

    def begin(self, options: ListOptions) -> None:
        """Start at the revision asked for; without one, begin with what exists."""
        version = int(options.version or 0)
        if version and not options.initial_events:
            self.cursor = version
            return
        self.is_compressible = options.initial_events
        # NB: "any version" may trail by a moment, as the real server's cache does. kubectl relies on it: it
        # reads an object, watches from 0, and throws the first event away.
        at = self.storage.revision_before(TRAILING_S) if options.version == "0" else None
        rows, self.cursor = self.storage.list(self.resource.key, at=at)
        self._pending = [self._event("ADDED", self.render(obj)) for _, obj in rows if self._in_scope(obj)]
        if options.initial_events and options.bookmarks:
            self._pending.append(self._bookmark(initial_end=True))

    def chunks(self, *, stop: threading.Event) -> Iterator[bytes]:
        """Yield events as they come; ends with the watch, or soon after `stop`."""
        while not stop.is_set():
            due = self.poll()
            if due:
                yield b"".join(due)
                continue
            if self.ended:
                return
            with self.storage.changed:
                if self.storage.revision <= self.cursor and not stop.is_set():
                    self.storage.changed.wait(self._patience_s())
            # NB: an empty chunk lets the connection notice that its client is gone.
            yield b""

    def _patience_s(self) -> float:
        if self.clock.is_manual:
            return 0.05
        if self.ends_at_s is None:
            return 1.0
        return max(0.0, min(1.0, self.ends_at_s - self.clock.monotonic_s()))
