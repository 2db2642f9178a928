"""What was asked: a bounded log of requests, for assertions on the wire."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

KEPT = 20_000


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One request and how it was answered. `status` is 0 where no answer was sent."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    status: int
    user: str
    verb: str = ""
    resource: str = ""

    def json(self) -> Any:
        import json

        return json.loads(self.body)


@dataclass(slots=True)
class RequestLog:
    """The requests so far, oldest first."""

    _entries: deque[LoggedRequest] = field(default_factory=lambda: deque(maxlen=KEPT))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, entry: LoggedRequest) -> None:
        with self._lock:
            self._entries.append(entry)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()

    def all(self) -> list[LoggedRequest]:
        with self._lock:
            return list(self._entries)

    def where(
        self, *, method: str | None = None, path: str | None = None, verb: str | None = None
    ) -> list[LoggedRequest]:
        """Return those with this method, verb, and this text in their path."""
        return [
            entry
            for entry in self.all()
            if (method is None or entry.method == method)
            and (verb is None or entry.verb == verb)
            and (path is None or path in entry.path)
        ]

    def __iter__(self) -> Iterator[LoggedRequest]:
        return iter(self.all())

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: int) -> LoggedRequest:
        return self.all()[index]
