"""
When a list is read, when a way to read it is given up, and when an object counts as missing. All times in seconds.

While a watch stands nothing is read, except to see whether what is gone stays gone. Each number is a bound of the
follow's contract: who waits must know for how long.
"""

from __future__ import annotations

from dataclasses import dataclass, field

LONGEST_S = 1800.0
"""Nothing is followed for longer than this."""
MISSING_S = 20.0
"""An object that is missing for so long, in reads that succeed, is not there."""
FAILURES = 5
LOST_S = 60.0
"""So many failures in a row, and no good read for so long: it cannot be followed."""
DETERMINISTIC = frozenset({400, 401, 403})
"""Asking again gives the same answer."""
# A watch that ends sooner than this was none.
GOOD_WATCH_S = 1.0
# NB: a server that forgets each version at once must not be asked a thousand times a second.
FORGOTTEN_PAUSE_S = 1.0


def poll_s(elapsed_s: float) -> float:
    """How long to wait between two reads: often at first, when most rollouts end."""
    if elapsed_s < 60.0:
        return 2.0
    return 5.0 if elapsed_s < 300.0 else 15.0


@dataclass(slots=True)
class Missing:
    """
    For how long one object has been missing.

    Only the time between two reads that both succeeded counts: an error in between says nothing about the object.
    """

    total_s: float = 0.0
    _last_s: float | None = None

    def saw_missing(self, now_s: float) -> bool:
        """Note a good read without the object; whether it is missing for good."""
        if self._last_s is not None:
            self.total_s += now_s - self._last_s
        self._last_s = now_s
        return self.total_s >= MISSING_S

    def broke(self) -> None:
        """Note a read that failed."""
        self._last_s = None


@dataclass(slots=True)
class Pace:
    """
    The reads of one list.

    `lost`: why it is given up; None as long as it is not. `failures`: in a row, `why` the last of them.
    """

    start_s: float
    next_s: float = field(init=False)
    lost: str | None = None
    failures: int = 0
    why: str = ""
    is_reading: bool = False
    is_watching: bool = False
    watchable: bool = True
    _good_s: float = field(init=False)
    _read_s: float | None = None

    def __post_init__(self) -> None:
        self.next_s = self.start_s
        self._good_s = self.start_s

    def is_due(self, now_s: float, *, something_missing: bool) -> bool:
        """Whether to read the list now."""
        if self.lost is not None or self.is_reading or now_s < self.next_s:
            return False
        return something_missing or not self.is_watching

    def begins(self) -> None:
        """Note that a read begins."""
        self.is_reading = True

    def read(self, now_s: float) -> None:
        """Note a read that succeeded."""
        self.is_reading = False
        self.failures = 0
        self._good_s = self._read_s = now_s
        self.next_s = now_s + poll_s(now_s - self.start_s)

    def heard(self, now_s: float) -> None:
        """Note a word of the watch: as good as a read."""
        self.failures = 0
        self._good_s = now_s

    def failed(self, now_s: float, why: str, status: int | None) -> None:
        """Note a read that failed."""
        self.is_reading = False
        self.failures += 1
        self.why = why
        self.next_s = now_s + poll_s(now_s - self.start_s)
        if status in DETERMINISTIC:
            self.lost = why
        elif self.failures >= FAILURES and now_s - self._good_s >= LOST_S:
            self.lost = f"{why} ({self.failures} times in a row, no good read for {now_s - self._good_s:.0f}s)"

    def watch_ended(self, now_s: float, lasted_s: float, *, forgotten: bool, refused: bool) -> bool:
        """Note the end of a watch; whether to watch on from where it was. `refused`: only polls from now on."""
        self.is_watching = False
        if refused:
            self.watchable = False
        if lasted_s >= GOOD_WATCH_S and not forgotten and not refused:
            return True
        pause_s = FORGOTTEN_PAUSE_S if forgotten else poll_s(now_s - self.start_s)
        self.next_s = max(now_s, (self._read_s if self._read_s is not None else now_s) + pause_s)
        return False
