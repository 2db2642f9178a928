"""
Follow one cluster: look, say what was seen, and look again when something changed or time alone changes a verdict.

Watches say which part changed, and only that part is read again. A heartbeat that gets old sends no event, so the
leases are read again when it would be too old, and every now and then in any case.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from fencectl.cluster.changes import changes
from fencectl.cluster.clock import Clock
from fencectl.cluster.observe import WHOLE, Part, observe
from fencectl.cluster.ports import Getter
from fencectl.commands.reading import Subject
from fencectl.commands.watch_evidence import Asker
from fencectl.core.assemble import assemble, read_runs
from fencectl.core.errors import NotReadableError
from fencectl.core.found import Heartbeat
from fencectl.core.heartbeat import read_heartbeat
from fencectl.core.observation import Observation
from fencectl.core.refs import dig
from fencectl.core.report import FenceEntry, FenceKind, FenceReport
from fencectl.core.times import parse_time

# However quiet it is, the leases are read this often: ages go on, and a server that is gone is noticed.
LOOK_AGAIN_S = 10.0
FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 10.0
# `Date` has whole seconds: an expired heartbeat is surely seen as expired only so long after.
EXPIRED_MARGIN_S = 1.0
# How often it is asked whether a look is due; nothing is sent for that.
TICK_S = 1.0


@dataclass(frozen=True, slots=True)
class Sight:
    """What came of one look, `at` the API server's time as far as it is known: a report, or why there is none."""

    at: datetime
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


class Pace:
    """When to look, and at which parts. While the cluster is lost, only time counts: its watches fail as well."""

    def __init__(self) -> None:
        self._parts = WHOLE
        self._due_s: float | None = None
        self._failures = 0

    def hear(self, parts: frozenset[Part]) -> None:
        """Note that these parts may have changed."""
        self._parts |= parts

    def due(self, now_s: float) -> frozenset[Part]:
        """Return the parts to look at now; none: not yet."""
        if self._due_s is None or now_s >= self._due_s:
            return self._parts or frozenset({Part.LEASES})
        return frozenset() if self._failures else self._parts

    def looked(self, report: FenceReport, now_s: float) -> None:
        """Note a look that gave a report."""
        self._failures = 0
        self._parts = frozenset()
        self._due_s = now_s + pause_after(report)

    def failed(self, now_s: float) -> None:
        """Note a look at a cluster that could not be read: the next one is at everything."""
        self._parts = WHOLE
        self._due_s = now_s + min(FIRST_RETRY_S * 2**self._failures, LONGEST_RETRY_S)
        self._failures += 1


class Follower:
    """Looks at one cluster again and again. `tell` is called from its thread with whatever is new."""

    def __init__(self, subject: Subject, clock: Clock, tell: Callable[[News], None]) -> None:
        self._subject = subject
        self._clock = clock
        self._tell = tell
        self._stopped = threading.Event()
        self._pace = Pace()
        self._asker = Asker(clock)
        self._last: Observation | None = None
        self._skew = timedelta()

    def start(self) -> None:
        """Follow in a thread of its own, until `stop` or the end of the program."""
        threading.Thread(target=self._run, name="fencectl-follow", daemon=True).start()

    def stop(self) -> None:
        """End soon."""
        self._stopped.set()

    def look_if_due(self, getter: Getter, changed: frozenset[Part] = frozenset()) -> None:
        """Look, if something has changed or it is time to, and tell."""
        self._pace.hear(changed)
        parts = self._pace.due(self._clock.monotonic_s())
        if not parts:
            return
        self._tell(Looking(self._clock.monotonic_s()))
        try:
            report = self._look(getter, parts)
        except NotReadableError as failure:
            self._last = None
            self._pace.failed(self._clock.monotonic_s())
            self._tell(Sight(self._clock.wall() - self._skew, failure=failure))
            return
        self._skew = timedelta(seconds=report.skew_s or 0.0)
        self._pace.looked(report, self._clock.monotonic_s())
        self._tell(Sight(report.observed_at, report=report))

    def _look(self, getter: Getter, parts: frozenset[Part]) -> FenceReport:
        subject = self._subject
        settings, connection = subject.settings, subject.connection
        self._last = observe(
            getter,
            profile=settings.profile,
            clock=self._clock,
            deadline_s=subject.deadline_s,
            server=connection.server,
            context=connection.context_flag,
            print_context=settings.print_context or connection.context_flag,
            kubeconfig=subject.kubeconfig,
            previous=self._last,
            parts=parts,
        )
        runs = read_runs(self._last, settings.profile, repository=settings.repository)
        return assemble(runs, evidence=self._asker.ask(runs, getter))

    def _run(self) -> None:
        try:
            with self._subject.opened(self._clock) as transport:
                # NB: before the watches stand, which takes as long again; their first word repeats it.
                self.look_if_due(transport)
                profile = self._subject.settings.profile
                for changed in changes(transport, profile=profile, clock=self._clock, tick_s=TICK_S):
                    if self._stopped.is_set():
                        return
                    self.look_if_due(transport, changed)
        except BaseException as error:  # noqa: BLE001 (handed to the thread that waits)
            self._tell(Broken(error))


def pause_after(report: FenceReport) -> float:
    """Return how long a report may stand: not past the moment at which a heartbeat would be too old."""
    left = [_runs_out_s(entry, report.observed_at) for entry in report.held]
    return min([LOOK_AGAIN_S, *(left_s + EXPIRED_MARGIN_S for left_s in left if left_s is not None)])


def _runs_out_s(entry: FenceEntry, now: datetime) -> float | None:
    """Return in how many seconds a lease's heartbeat is too old; None where that makes no difference."""
    if entry.kind is not FenceKind.LEASE:
        return None
    text, duration = dig(entry.raw, "spec", "renewTime"), dig(entry.raw, "spec", "leaseDurationSeconds")
    beat = Heartbeat(
        text if isinstance(text, str) else None, parse_time(text), duration if type(duration) is int else None
    )
    return read_heartbeat(beat, no_heartbeat=None, now=now).runs_out_s
