"""A door to a sandbox without sockets, and a clock that a test moves: for code that takes its world as ports."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from fencectl.cluster.answer import Answer, server_date
from fencectl.cluster.failures import Kind, NoAnswer, Unreachable, WireError
from fencectl.cluster.ports import Query
from fencectl.sandbox import Request, Sandbox

START_AT = datetime(2026, 11, 30, 2, 0, tzinfo=UTC)


@dataclass(slots=True)
class HandClock:
    """Stands still until `advance`; a wait moves it on by as much as was waited for."""

    at: datetime = START_AT
    boot_s: float = 1000.0
    waited: list[float] = field(default_factory=list)
    on_wait: Callable[[float], None] | None = None

    def wall(self) -> datetime:
        return self.at

    def monotonic_s(self) -> float:
        return self.boot_s

    def advance(self, seconds: float, *, wall_s: float | None = None) -> None:
        """Move both clocks; `wall_s`: the wall clock by another amount (it was set, or the machine slept)."""
        self.boot_s += seconds
        self.at += timedelta(seconds=seconds if wall_s is None else wall_s)

    def wait(self, event: threading.Event | None, timeout_s: float) -> bool:
        self.waited.append(timeout_s)
        self.advance(timeout_s)
        if self.on_wait is not None:
            self.on_wait(timeout_s)
        return event.is_set() if event is not None else False


@dataclass(slots=True)
class SandboxDoor:
    """Reads and sends by `Sandbox.handle`. `away`: nobody answers, and nothing is carried out."""

    sandbox: Sandbox
    clock: HandClock
    away: bool = False
    sent: list[tuple[str, str, bytes]] = field(default_factory=list)

    def get(
        self,
        path: str,
        *,
        query: Query | None = None,
        accept: str = "application/json",
        deadline_s: float | None = None,
    ) -> Answer:
        return self._exchange("GET", path, query, {"accept": accept}, b"", may_be_lost=False)

    def stream(
        self, path: str, *, query: Query | None = None, accept: str = "application/json", idle_s: float = 60.0
    ) -> Iterator[bytes]:
        raise AssertionError("nothing that is tested here watches")

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
        self.sent.append((method, path, body))
        return self._exchange(method, path, query, {"content-type": content_type}, body, may_be_lost=True)

    def _exchange(
        self,
        method: str,
        path: str,
        query: Query | None,
        headers: Mapping[str, str],
        body: bytes,
        *,
        may_be_lost: bool,
    ) -> Answer:
        if self.away:
            raise self._lost(sent=False) if may_be_lost else self._unreachable()
        asked = {key: str(value) for key, value in (query or {}).items()}
        found = self.sandbox.handle(Request(method, path, asked, headers, body, "admin"))
        if found.drop:
            raise self._lost(sent=True) if may_be_lost else self._unreachable()
        lower = {key.lower(): value for key, value in found.headers.items()}
        return Answer(found.status, lower, found.body, server_date(lower), self.clock.boot_s, self.clock.boot_s)

    def _lost(self, *, sent: bool) -> NoAnswer:
        return NoAnswer(self._unreachable(), sent=sent)

    @staticmethod
    def _unreachable() -> Unreachable:
        cause = WireError(Kind.TIMEOUT)
        return Unreachable(cause, context="prod", server="http://sandbox", tries=1, elapsed_s=1.0)
