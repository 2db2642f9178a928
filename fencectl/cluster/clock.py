"""
Time as seen from here: a wall clock to show, a clock that never jumps to measure, and a wait that ends early.

Code takes a `Clock`, so a test can drive all three.
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Protocol

# NB: CLOCK_MONOTONIC stands still while the machine sleeps; a heartbeat does not wait for a laptop lid.
_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class Clock(Protocol):
    """What the rest of the package may know about time."""

    def wall(self) -> datetime:
        """Return the local wall clock, aware and in UTC."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds that only grow, also while the machine is suspended."""
        ...

    def wait(self, event: threading.Event | None, timeout_s: float) -> bool:
        """Wait until the event is set or the time is over; return whether the event is set."""
        ...


class SystemClock:
    """The clock of this machine."""

    def wall(self) -> datetime:
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)

    def wait(self, event: threading.Event | None, timeout_s: float) -> bool:
        if event is not None:
            return event.wait(max(0.0, timeout_s))
        time.sleep(max(0.0, timeout_s))
        return False
