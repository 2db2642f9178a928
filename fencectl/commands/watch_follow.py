"""
Follow one cluster: look, say when to look again, and never take an old look for a new one.

A look is repeated when something changed, and at the latest when time alone may change a verdict: a heartbeat
that gets old sends no event.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from fencectl.cluster.clock import Clock
from fencectl.cluster.ports import Getter
from fencectl.commands.reading import Subject
from fencectl.core.errors import NotReadableError
from fencectl.core.refs import dig
from fencectl.core.report import FenceKind, FenceReport
from fencectl.core.times import parse_time
from fencectl.core.verdict import MAX_DURATION_S

# Without news, this often: nothing that is shown is older.
LOOK_AGAIN_S = 5.0
LONGEST_RETRY_S = 30.0
# What is changed together is mostly changed within this time.
DEBOUNCE_S = 0.2
# A heartbeat is judged by whole requests and a `Date` of whole seconds: a little after it has expired.
EXPIRED_MARGIN_S = 1.0
_FIRST_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class Sight:
    """
    What came of one look: a report, or why there is none.

    `at`: on the API server's clock, as far as it is known. `again_in_s`: when to look again.
    """

    at: datetime
    again_in_s: float
    report: FenceReport | None = None
    failure: NotReadableError | None = None


@dataclass(frozen=True, slots=True)
class Looking:
    """A look has begun, at this time of the clock that never jumps."""

    since_s: float


@dataclass(frozen=True, slots=True)
class Broken:
    """A follower has met what it cannot handle; the main thread raises it."""

    error: BaseException


News = Sight | Looking | Broken


class Follower:
    """Looks at one cluster again and again. `tell` is called from its thread with whatever is new."""

    def __init__(self, subject: Subject, clock: Clock, tell: Callable[[News], None]) -> None:
        self._subject = subject
        self._clock = clock
        self._tell = tell
        self._wanted = threading.Event()
        self._stopped = threading.Event()
        self._failures = 0
        self._skew = timedelta()

    def start(self) -> None:
        """Follow in a thread of its own, until `stop` or the end of the program."""
        threading.Thread(target=self._run, name="fencectl-watch", daemon=True).start()

    def stop(self) -> None:
        """End after the look that is under way."""
        self._stopped.set()
        self._wanted.set()

    def look_soon(self) -> None:
        """Something has changed."""
        self._wanted.set()

    def look(self, getter: Getter) -> Sight:
        """Look once."""
        try:
            report = self._subject.look(getter, self._clock)
        except NotReadableError as failure:
            pause_s = min(_FIRST_RETRY_S * 2**self._failures, LONGEST_RETRY_S)
            self._failures += 1
            return Sight(self._clock.wall() - self._skew, pause_s, failure=failure)
        self._failures = 0
        self._skew = timedelta(seconds=report.skew_s or 0.0)
        return Sight(report.observed_at, pause_after(report), report=report)

    def _run(self) -> None:
        try:
            with self._subject.opened(self._clock) as transport:
                while not self._stopped.is_set():
                    # NB: before the look, or what changes during it would wait for the next pause.
                    self._wanted.clear()
                    self._tell(Looking(self._clock.monotonic_s()))
                    sight = self.look(transport)
                    self._tell(sight)
                    if self._clock.wait(self._wanted, sight.again_in_s):
                        self._clock.wait(self._stopped, DEBOUNCE_S)
        except BaseException as error:  # noqa: BLE001 (handed to the thread that waits)
            self._tell(Broken(error))


def pause_after(report: FenceReport) -> float:
    """Return how long a report may stand: not past the moment at which a heartbeat would be too old."""
    left = [left_s for entry in report.held if (left_s := _heartbeat_left_s(report, entry.raw, entry.kind)) > 0]
    return min([LOOK_AGAIN_S, *(left_s + EXPIRED_MARGIN_S for left_s in left)])


def _heartbeat_left_s(report: FenceReport, lease: object, kind: FenceKind) -> float:
    if kind is not FenceKind.LEASE:
        return 0.0
    renewed_at = parse_time(dig(lease, "spec", "renewTime"))
    duration_s = dig(lease, "spec", "leaseDurationSeconds")
    if renewed_at is None or type(duration_s) is not int:
        return 0.0
    return min(duration_s, MAX_DURATION_S) - (report.observed_at - renewed_at).total_seconds()
