"""
The sandbox's own clock.

Real by default. Made manual, it stands still until somebody advances it, and everything in the sandbox
that waits (delays, watch time-outs, bookmarks, the `Date` header) follows it.
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta


class SandboxClock:
    """Tells the time, and lets threads wait for it."""

    def __init__(self, *, start_at: datetime | None = None) -> None:
        """Make a real clock, or with `start_at` a manual one that begins there."""
        self._changed = threading.Condition()
        self._waiting = 0
        self._manual_at = start_at

    @property
    def is_manual(self) -> bool:
        return self._manual_at is not None

    def now(self) -> datetime:
        return self._manual_at or datetime.now(UTC)

    def monotonic_s(self) -> float:
        at = self._manual_at
        return at.timestamp() if at else time.monotonic()

    def freeze(self, at: datetime | None = None) -> None:
        """Make the clock manual, standing at `at` or at the present moment."""
        with self._changed:
            self._manual_at = at or self._manual_at or datetime.now(UTC)
            self._changed.notify_all()

    def advance(self, seconds: float) -> datetime:
        """Move a manual clock on and wake what waits for it."""
        with self._changed:
            if self._manual_at is None:
                raise RuntimeError("only a manual clock can be advanced: call freeze() first")
            self._manual_at += timedelta(seconds=seconds)
            if self._waiting:
                self._changed.notify_all()
            return self._manual_at

    def wait_until(self, moment_s: float, *, stop: threading.Event) -> bool:
        """Block until `monotonic_s()` reaches `moment_s`. False when `stop` came first."""
        while not stop.is_set():
            left_s = moment_s - self.monotonic_s()
            if left_s <= 0:
                return True
            with self._changed:
                # NB: `stop` has no way to notify this condition, so it is looked at now and then.
                self._waiting += 1
                self._changed.wait(0.05 if self._manual_at else min(left_s, 0.05))
                self._waiting -= 1
        return False


def rfc3339(moment: datetime) -> str:
    """Seconds, as metadata times are written."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def http_date(moment: datetime) -> str:
    """Write the `Date` header; not by locale."""
    at = moment.astimezone(UTC)
    day = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[at.weekday()]
    month = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")[at.month - 1]
    return f"{day}, {at.day:02d} {month} {at.year:04d} {at:%H:%M:%S} GMT"
