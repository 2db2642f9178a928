"""What a deploy did when: each step and each fence from its beginning to its end, and the first failure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from fencectl.cluster.clock import Clock
from fencectl.core.errors import FencectlError
from fencectl.core.happening import Happening
from fencectl.core.journal import Phase
from fencectl.core.report import FenceKind
from fencectl.core.times import second_time
from fencectl.run.fencing import Fence
from fencectl.run.reporting import Silent, Tells

# A record has room for so many: 50 records share one ConfigMap of a megabyte.
MOST_SPANS = 60
_LONGEST = 300


@dataclass(slots=True)
class _Span:
    step: int
    what: str
    began_at: datetime
    ended_at: datetime | None = None
    how: str | None = None


@dataclass(slots=True)
class Timeline:
    """
    Takes notes; only `as_data` gives anything back. What begins twice under one name is one span.

    `events`: where fences are told as well.
    """

    clock: Clock
    events: Tells = field(default_factory=Silent)
    _spans: dict[tuple[int, str], _Span] = field(default_factory=dict)
    _failure: tuple[datetime, str] | None = None

    def begin(self, step: int, what: str) -> None:
        """Note that something began."""
        self._spans.setdefault((step, what), _Span(step, what, self.clock.wall()))

    def end(self, step: int, what: str, how: str) -> None:
        """Note how it ended; what never began is not noted."""
        span = self._spans.get((step, what))
        if span is not None:
            span.ended_at, span.how = self.clock.wall(), how

    def fence(self, fence: Fence, placed: bool) -> None:
        """Note that a fence was placed or released."""
        step, what = _fence_span(fence)
        how = Happening.FENCED if placed else Happening.RELEASED
        self.events.tell(fence.seen.ref, how, _sentence(fence, placed), fence.journal.holder)
        if placed:
            self.begin(step, what)
        else:
            self.end(step, what, "released")

    def unwound(self, clean: bool, fences: Iterable[Fence]) -> None:
        """Note the end of the releases, and the fences that are left: `kept` on purpose, or `held`."""
        self.end(10, "release", "done" if clean else "failed")
        for fence in fences:
            span = self._spans.get(_fence_span(fence))
            if span is not None:
                span.ended_at, span.how = None, "kept" if fence.journal.phase is Phase.KEPT else "held"

    def fail(self, failed: FencectlError | str) -> None:
        """Note what failed; only the first counts."""
        if isinstance(failed, str):
            what = failed
        else:
            what = f"{failed.sentence}: {failed.reason}" if failed.reason else failed.sentence
        if self._failure is None:
            self._failure = (self.clock.wall(), what)

    def as_data(self) -> dict[str, Any]:
        """What a record tells of it: `timeline`, with `more` where some found no room, and `failure`."""
        spans = sorted(self._spans.values(), key=lambda span: (span.step, span.began_at))
        data: dict[str, Any] = {"timeline": [_as_data(span) for span in spans[:MOST_SPANS]]}
        if len(spans) > MOST_SPANS:
            data["more"] = len(spans) - MOST_SPANS
        if self._failure is not None:
            at, what = self._failure
            data["failure"] = {"at": second_time(at), "what": what[:_LONGEST]}
        return data


def _sentence(fence: Fence, placed: bool) -> str:
    """What an Event says of it, beside who holds it."""
    if not placed:
        return "released"
    if fence.journal.phase is Phase.KEPT:
        return "taken over, stays suspended on purpose"
    doing = "suspended" if fence.kind is FenceKind.SUSPENSION else "cordoned"
    return f"{doing} for {fence.journal.reason}" if fence.journal.reason else doing


def _fence_span(fence: Fence) -> tuple[int, str]:
    return 4 if fence.kind is FenceKind.SUSPENSION else 6, fence.seen.ref.display


def _as_data(span: _Span) -> dict[str, Any]:
    data: dict[str, Any] = {"step": span.step, "what": span.what, "from": second_time(span.began_at)}
    if span.ended_at is not None:
        data["to"] = second_time(span.ended_at)
    if span.how is not None:
        data["how"] = span.how
    return data
