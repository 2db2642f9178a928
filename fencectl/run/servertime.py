"""
The API server's time, as its answers tell it, for what others will compare with the server's clock.

`fences` measures the age of a heartbeat against the server's `Date`. One that is written by the clock of a machine
that is behind looks older than it is, and a living holder like one that stands still.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime, timedelta

from fencectl.cluster.answer import Answer
from fencectl.cluster.clock import Clock
from fencectl.cluster.ports import Query
from fencectl.run.ports import Door


class ServerTime:
    """
    What the server's clock shows now, by its latest answer; threads may share one.

    That answer's `Date` names the second in which it was made, between our sending and our receiving; since then
    the longer of boot clock and wall clock counts, as for a lease (a machine may have slept). Where the local wall
    clock lies within these bounds it is as good as any and is taken as it is; else the nearer bound is. Without
    any answer yet it is the local wall clock.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._latest: tuple[Answer, datetime, datetime] | None = None

    def saw(self, answer: Answer) -> None:
        """Take in one answer."""
        if answer.date_at is not None:
            with self._lock:
                self._latest = (answer, answer.date_at, self._clock.wall())

    def now(self) -> datetime:
        """The server's time, to about a second and the length of a request."""
        with self._lock:
            latest = self._latest
        wall = self._clock.wall()
        if latest is None:
            return wall
        answer, date_at, seen_at = latest
        since_s = max(self._clock.monotonic_s() - answer.received_s, (wall - seen_at).total_seconds())
        at_least = date_at + timedelta(seconds=since_s)
        at_most = at_least + timedelta(seconds=answer.received_s - answer.sent_s + 1)
        return min(max(wall, at_least), at_most)


class DatedDoor:
    """A door whose every answer is also a look at the server's clock."""

    def __init__(self, door: Door, time: ServerTime) -> None:
        self._door = door
        self._time = time

    def get(
        self,
        path: str,
        *,
        query: Query | None = None,
        accept: str = "application/json",
        deadline_s: float | None = None,
    ) -> Answer:
        answer = self._door.get(path, query=query, accept=accept, deadline_s=deadline_s)
        self._time.saw(answer)
        return answer

    def stream(
        self,
        path: str,
        *,
        query: Query | None = None,
        accept: str = "application/json",
        idle_s: float = 60.0,
    ) -> Iterator[bytes]:
        return self._door.stream(path, query=query, accept=accept, idle_s=idle_s)

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes,
        content_type: str,
        deadline_s: float | None = None,
    ) -> Answer:
        answer = self._door.send(
            method, path, query=query, body=body, content_type=content_type, deadline_s=deadline_s
        )
        self._time.saw(answer)
        return answer
