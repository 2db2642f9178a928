"""A run inside of another one, on both sides: it stands under that one's lease, which releases what it left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from fencectl.cluster.clock import Clock
from fencectl.cluster.observe import observe
from fencectl.cluster.write import send
from fencectl.core.answers import Applied, Refused, Unknown, Why
from fencectl.core.deploy import DeployPlan
from fencectl.core.errors import ExitCode, FencectlError, NotReadableError
from fencectl.core.marks_reader import read_marks
from fencectl.core.nesting import Around, announce, announced, duration_of, is_inside, why_not_believed
from fencectl.core.profiles import FENCECTL
from fencectl.core.refs import Raw, Seen, dig
from fencectl.core.times import parse_time
from fencectl.run.fencing import Fence, Ledger
from fencectl.run.keeper import Acknowledged, Keeper, Loss
from fencectl.run.leasing import LeaseAt
from fencectl.run.ports import Door, Threads
from fencectl.run.servertime import DatedDoor, ServerTime
from fencectl.run.story import PAUSE_S, WRITE_S, StoppedError, read
from fencectl.run.unwind import Left, Unwound, unwind

if TYPE_CHECKING:
    from fencectl.run.stage import Result, Stage

# A borrowed lease is read twice as often as it is renewed, so that what is known of it is never a renewal behind.
READS_PER_DURATION = 6
LOOK_S = 10.0


class NotBelievedError(FencectlError):
    """The run around this one does not hold its lease any more: nothing may be done in its name."""

    exit_code = ExitCode.LEASE_LOST


class Borrowed(Keeper):
    """
    The lease of the run around this one: watched instead of renewed, and read once more before each write.

    It is lost when that run would give it up: two thirds of the duration after its last renewal was sent.
    """

    _renewed_at: datetime | None = None

    def first_seen(self, renewed_at: datetime) -> None:
        """Remember the renewal with which this begins."""
        self._renewed_at = renewed_at

    def must_hold(self, for_s: float) -> None:
        """Prove that the lease is held for so long; for a write from a fresh read."""
        if for_s > 0:
            self.renew()
        super().must_hold(for_s)

    def renew(self) -> bool:
        """Read the heartbeat; whether the lease is still that run's. Nothing is written."""
        if self.held_for_s() == 0:
            return False
        return self._look("")

    def _deadline_s(self) -> float:
        return self.duration_s / READS_PER_DURATION

    def _is_ours(self, raw: Raw, detail: str) -> bool:
        renewed_at = parse_time(dig(raw, "spec", "renewTime"))
        if renewed_at is None:
            self._in_trouble(Loss.NOT_RENEWED, "the lease tells no usable time of its last renewal")
            return False
        with self._lock:
            # NB: the same renewal, seen again, is no younger than when it was first seen, whatever a clock says.
            if renewed_at != self._renewed_at:
                self._renewed_at = renewed_at
                self._acknowledged = acknowledged(renewed_at, self._clock, self._server_time)
            self._trouble = None
        self._seen = Seen(self.lease.ref, raw)
        return True


def acknowledged(renewed_at: datetime, clock: Clock, server_time: ServerTime) -> Acknowledged:
    """When a renewal that is seen now was sent, on our own clocks; its heartbeat was written by the server's."""
    age = max(server_time.now() - renewed_at, timedelta(0))
    return Acknowledged(clock.monotonic_s() - age.total_seconds(), clock.wall() - age)


def believe(door: Door, clock: Clock, around: Around, *, server_time: ServerTime | None = None) -> Seen:
    """Return the lease of the run around. Raises NotBelievedError where it is not held, or NotReadableError."""
    time = server_time or ServerTime(clock)
    seen = read(DatedDoor(door, time), LeaseAt(*around.lease).ref)
    why = why_not_believed(around, seen, now=time.now())
    if why is not None or seen is None:
        raise NotBelievedError(
            "this runs inside of another deploy, which does not hold its lease any more",
            reason=why,
            hint="nothing was changed",
        )
    return seen


def borrow(door: Door, keeper_door: Door, clock: Clock, threads: Threads, around: Around) -> Borrowed:
    """Begin to watch the lease of the run around. Raises as `believe` does."""
    server_time = ServerTime(clock)
    seen = believe(door, clock, around, server_time=server_time)
    renewed_at = parse_time(dig(seen.raw, "spec", "renewTime")) or server_time.now()
    sent = acknowledged(renewed_at, clock, server_time)
    keeper = Borrowed(
        keeper_door,
        clock,
        seen,
        holder=around.holder,
        duration_s=duration_of(seen.raw) or 1,
        sent_s=sent.boot_s,
        sent_at=sent.wall_at,
        server_time=server_time,
    )
    keeper.first_seen(renewed_at)
    keeper.start(threads)
    return keeper


def announce_inside(door: Door, clock: Clock, keeper: Keeper, around: Around) -> None:
    """
    Say on the lease that fences within it follow, until the server says yes.

    Raises LeaseLostError, NotReadableError or StoppedError.
    """
    while True:
        keeper.must_hold(WRITE_S)
        seen = read(door, keeper.lease.ref)
        patch = announce(seen, around) if seen is not None else None
        if seen is not None and patch is None:
            return
        if patch is not None:
            match send(door, patch, deadline_s=WRITE_S):
                case Applied():
                    return
                case Refused(Why.FORBIDDEN, _, detail):
                    raise StoppedError(f"{keeper.lease.ref.display} may not be patched: {detail}", forbidden=True)
                case Refused() | Unknown():
                    pass
        # NB: another run inside may have announced itself in between; a lease in other hands ends this above.
        clock.wait(None, PAUSE_S)


@dataclass(frozen=True, slots=True)
class Inside:
    """
    What runs inside of this one have left.

    `lease`: as it was read; None where it is gone. `unread`: why nobody could say what they have left.
    """

    lease: Seen | None
    fences: tuple[Fence, ...]
    unread: str | None = None


NOTHING_INSIDE = Inside(None, ())
WHAT_IS_INSIDE = "what a deploy inside of the command has fenced"


def may_have_run_inside(plan: DeployPlan, result: Result) -> bool:
    """Whether a command of this deploy has run: only that can have had a run inside."""
    certifies = plan.certify is not None and bool(plan.certify.command) and result.step >= 7
    return certifies or bool(plan.command and result.applied) or bool(plan.node_command and result.step >= 6)


def find_inside(
    door: Door,
    clock: Clock,
    keeper: Keeper,
    holder: str,
    *,
    has_own: bool,
    end_s: float,
    on_lease: Callable[[Seen | None], object],
) -> Inside:
    """
    Find the fences that runs inside of this one have left; one read tells where there never was such a run.

    It is tried until `end_s`. `on_lease`: told of the lease as soon as it is read. NB: where nobody answers until
    then, no time is left to release own fences either (`has_own`), and the lease stays with them; so what it said
    last will do for what is said of it.
    """
    last = keeper.last_seen
    while True:
        try:
            seen = read(door, keeper.lease.ref)
            on_lease(seen)
            last = seen or last
            if seen is not None and holder not in announced(seen.raw):
                return Inside(seen, ())
            deadline_s = min(LOOK_S, max(1.0, end_s - clock.monotonic_s()))
            return Inside(seen, _listed(door, clock, holder, deadline_s=deadline_s))
        except (NotReadableError, StoppedError) as failure:
            if clock.monotonic_s() + PAUSE_S >= end_s:
                if has_own and holder not in announced(last.raw):
                    return Inside(last, ())
                return Inside(None, (), unread=failure.sentence)
            clock.wait(None, PAUSE_S)


def _listed(door: Door, clock: Clock, holder: str, *, deadline_s: float) -> tuple[Fence, ...]:
    seen = observe(door, profile=FENCECTL, clock=clock, deadline_s=deadline_s, server="")
    if seen.unreadable:
        raise NotReadableError(f"{seen.unreadable[0].what} could not be read", reason=seen.unreadable[0].why)
    return tuple(
        Fence(found.kind, found.seen, found.journal)
        for found in read_marks(seen).found
        if found.journal is not None and is_inside(found.journal, holder)
    )


def release_all(
    stage: Stage,
    ledger: Ledger,
    inside: Inside,
    is_stolen: bool,
    may_release: Callable[[Fence], str | None],
    keep: Callable[[], None],
    *,
    end_s: float,
) -> Unwound:
    """
    Release what is inside, then what is in the ledger; nothing at all where nobody knows what is inside.

    `keep`: marks what is to stay on purpose, once all of it is in the ledger.
    """
    ledger.fences += () if is_stolen else inside.fences
    keep()
    if inside.unread is not None:
        stage.tell(10, f"NOT released: whether a deploy inside has fenced cannot be read: {inside.unread}")
        return Unwound(waiting=sorted(ledger.fences, key=lambda fence: -fence.rank))
    for fence in inside.fences:
        stage.tell(10, f"left by a deploy inside of the command: {fence.seen.ref.display}")
    unwound = unwind(
        stage.door,
        stage.clock,
        stage.threads,
        ledger,
        budget_s=max(0.0, end_s - stage.clock.monotonic_s()),
        tell=lambda text: stage.tell(10, text),
        may_release=may_release,
    )
    if is_stolen:
        # NB: whoever has the lease now releases them, as a part of this run's chain.
        unwound.left += [Left(fence, "the lease is in somebody else's hands") for fence in inside.fences]
    return unwound
