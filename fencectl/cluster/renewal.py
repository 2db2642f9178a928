"""
Credentials that run out: fetched once for all threads, and never waited for longer than the caller has time.

The fetch runs in a thread of its own. A heartbeat with two seconds left therefore does not hang on a plugin
that takes ten; it fails in time, and the next one finds what the plugin answered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from fencectl.cluster.clock import Clock
from fencectl.cluster.credentials import CredentialsMissing, Ticket
from fencectl.core.errors import FencectlError

_EARLY_S = 60.0
_AFTER_FAILURE_S = 10.0


@dataclass(frozen=True, slots=True)
class Fetched:
    """A ticket and when it ends; `None`: it is used until the server refuses it."""

    ticket: Ticket
    expires_at: datetime | None


class _Run:
    """One fetch, for everybody who waits for it."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.failure: FencectlError | None = None


class RenewedTicket:
    """A ticket source over a function that fetches; `what` names it in "… did not answer within 5s"."""

    def __init__(self, fetch: Callable[[], Fetched], *, what: str, clock: Clock) -> None:
        self._fetch = fetch
        self._what = what
        self._clock = clock
        self._lock = threading.Lock()
        self._current: Fetched | None = None
        self._renew_at_s = float("-inf")
        self._run: _Run | None = None
        self._failed: tuple[float, FencectlError] | None = None

    def ticket(self, *, wait_s: float) -> Ticket:
        with self._lock:
            current = self._current
            usable = current is not None and self._lasts(current)
            if current is not None and usable and self._clock.monotonic_s() < self._renew_at_s:
                return current.ticket
            recent = self._recent_failure()
            if recent is None:
                run = self._run or self._start()
            elif not usable:
                raise recent
        if current is not None and usable:
            # Renewed in the background; what is there is good for a while yet.
            return current.ticket
        return self._await(run, wait_s)

    def renew(self, refused: Ticket, *, wait_s: float) -> bool:
        with self._lock:
            if self._current is not None and self._current.ticket != refused:
                return True
            self._current = None
            run = self._run or self._start()
        return self._await(run, wait_s) != refused

    def _lasts(self, fetched: Fetched) -> bool:
        return fetched.expires_at is None or self._clock.wall() < fetched.expires_at

    def _recent_failure(self) -> FencectlError | None:
        if self._failed is None or self._clock.monotonic_s() - self._failed[0] > _AFTER_FAILURE_S:
            return None
        return self._failed[1]

    def _start(self) -> _Run:
        run = self._run = _Run()
        threading.Thread(target=self._work, args=(run,), name="fencectl-login", daemon=True).start()
        return run

    def _work(self, run: _Run) -> None:
        fetched: Fetched | None = None
        failure: FencectlError | None = CredentialsMissing(f"{self._what} failed")
        try:
            fetched = self._fetch()
            failure = None
        except FencectlError as error:
            failure = error
        finally:
            with self._lock:
                now_s = self._clock.monotonic_s()
                run.failure = failure
                self._failed = None if failure is None else (now_s, failure)
                if fetched is not None:
                    self._current = fetched
                    self._renew_at_s = now_s + self._good_for_s(fetched)
                self._run = None
            run.done.set()

    def _good_for_s(self, fetched: Fetched) -> float:
        if fetched.expires_at is None:
            return float("inf")
        lifetime_s = (fetched.expires_at - self._clock.wall()).total_seconds()
        return lifetime_s - min(_EARLY_S, lifetime_s / 5)

    def _await(self, run: _Run, wait_s: float) -> Ticket:
        if not run.done.wait(max(0.0, wait_s)):
            raise CredentialsMissing(f"{self._what} did not answer within {wait_s:.0f}s")
        if run.failure is not None:
            raise run.failure
        with self._lock:
            if self._current is None:
                raise CredentialsMissing(f"{self._what} answered nothing that the server accepts")
            return self._current.ticket
