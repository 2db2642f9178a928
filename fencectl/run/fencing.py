"""
Place fences: each by one guarded patch, never after the lease is lost, never left unresolved in silence.

A lost answer is not a failure: the same patch is sent again until the server says yes or no, then the object is
read back and only the exact state that this run wrote is adopted. After each placement the lease is checked again,
and a fence that came too late is taken back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fencectl.cluster.clock import Clock
from fencectl.cluster.write import send
from fencectl.core.answers import Applied, Refused, Unknown, Why, explain_field, explain_refusal, is_carried_out
from fencectl.core.errors import ExitCode, FencectlError, NotReadableError
from fencectl.core.journal import Journal, Phase
from fencectl.core.marks import read_mark
from fencectl.core.patches import GuardedPatch
from fencectl.core.placements import CannotPlace, Placed
from fencectl.core.refs import ObjectRef, Raw, Seen, dig
from fencectl.core.report import FenceKind
from fencectl.run.keeper import Keeper, LeaseLostError
from fencectl.run.ports import Door
from fencectl.run.story import PAUSE_S, WRITE_S, StoppedError, read

# A node's resourceVersion is moved by its kubelet all the time, so a claim may need several fresh reads.
FRESH_READS = 20
# So long after it was sent a write may still be carried out: 34 s by an API server, and some on the way.
LANDS_WITHIN_S = 40.0


class NotFencedError(FencectlError):
    """An object could not be fenced; nothing of this run is on it."""

    exit_code = ExitCode.HELD_PERSON_NEEDED


class _CannotLandError(NotFencedError):
    """The object has changed so that no copy of the placement can be carried out any more."""


@dataclass(frozen=True, slots=True)
class Fence:
    """A fence of this run, as the server answered its placement."""

    kind: FenceKind
    seen: Seen
    journal: Journal

    @property
    def rank(self) -> int:
        """Where it stands in the order of release."""
        return self.journal.rank


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A placement of which nobody knows whether it was carried out; until `until_s` (boot clock) it may be."""

    fence: Fence
    until_s: float


@dataclass(slots=True)
class Ledger:
    """
    What this run has fenced, in the order in which it did.

    `unresolved`: placements of which nobody knows whether they were carried out. `late`: those whose fence landed
    when the lease was lost already: it is taken back, whoever holds the lease by then. `adopted`: kept suspensions
    that this run has taken over; `going`: those that it is to release all the same. `noting`: told of each fence
    that is placed (True) or released (False).
    """

    fences: list[Fence] = field(default_factory=list)
    unresolved: list[Unresolved] = field(default_factory=list)
    late: list[ObjectRef] = field(default_factory=list)
    adopted: set[ObjectRef] = field(default_factory=set)
    going: set[ObjectRef] = field(default_factory=set)
    noting: Callable[[Fence, bool], None] = lambda _fence, _placed: None

    def add(self, fence: Fence) -> None:
        """Take in a fence that was placed."""
        self.fences.append(fence)
        if fence.journal.phase is Phase.KEPT:
            self.adopted.add(fence.seen.ref)
        self.noting(fence, True)

    def stays(self, fence: Fence) -> bool:
        """Whether a fence is kept on purpose, so that no unwinding may release it."""
        return fence.journal.phase is Phase.KEPT and fence.seen.ref not in self.going

    @property
    def unknown(self) -> list[str]:
        """
        The objects of which nobody can say whether they are fenced.

        NB: one whose adoption was not answered is kept in either case, by us or by whom it was before.
        """
        return [one.fence.seen.ref.display for one in self.unresolved if not self.stays(one.fence)]

    def came_late(self, fence: Fence) -> bool:
        """Whether a fence may have landed after the lease was lost; if so it is taken back in any case."""
        unresolved = any(one.fence.seen.ref == fence.seen.ref for one in self.unresolved)
        return unresolved or fence.seen.ref in self.late

    def replace(self, old: Fence, new: Fence) -> None:
        """Put another state of a fence in its place."""
        self.fences[self.fences.index(old)] = new

    def forget(self, fence: Fence) -> None:
        """Take out a fence that is released, or was never placed."""
        self.unresolved = [one for one in self.unresolved if one.fence is not fence]
        if any(one is fence for one in self.fences):
            self.fences = [one for one in self.fences if one is not fence]
            self.noting(fence, False)


class Fencer:
    """Places fences under a lease that its keeper vouches for."""

    def __init__(self, door: Door, clock: Clock, keeper: Keeper, ledger: Ledger) -> None:
        self._door = door
        self._clock = clock
        self._keeper = keeper
        self._ledger = ledger

    def place(self, kind: FenceKind, ref: ObjectRef, build: Callable[[Seen], Placed | CannotPlace]) -> Fence:
        """
        Fence an object as it is now.

        Raises NotFencedError, LeaseLostError or NotReadableError; a placement whose outcome nobody knows is in the
        ledger then.
        """
        for _ in range(FRESH_READS):
            seen = read(self._door, ref)
            if seen is None:
                raise NotFencedError(f"{ref.display} cannot be fenced: there is no such object")
            built = build(seen)
            if isinstance(built, CannotPlace):
                raise NotFencedError(f"{ref.display} cannot be fenced: {built.why}")
            found = self._send(kind, seen, built)
            if found is not None:
                return self._keep(Fence(kind, found, built.journal))
        raise NotFencedError(f"{ref.display} cannot be fenced: it is changed all the time")

    def _send(self, kind: FenceKind, seen: Seen, built: Placed) -> Seen | None:
        """The object as fenced; None where it has changed and is to be read again."""
        asked: Unresolved | None = None
        while True:
            try:
                self._keeper.must_hold(WRITE_S)
                match send(self._door, built.patch, deadline_s=WRITE_S):
                    case Applied(raw):
                        return Seen(seen.ref, raw)
                    case Refused(Why.GUARD):
                        return self._after_refusal(seen, built)
                    case Refused(why, status, detail) if why is not Why.BUSY:
                        raise _never(seen, why, f"({status}: {detail})")
                    case Unknown():
                        # NB: counted from now: a process that was stopped may have sent it long after it meant to.
                        until_s = self._clock.monotonic_s() + LANDS_WITHIN_S
                        asked = Unresolved(Fence(kind, seen, built.journal), until_s)
                self._clock.wait(None, PAUSE_S)
            except FencectlError as failure:
                # NB: whatever ends it, the one before whose answer was lost may have been carried out.
                if asked is not None and not isinstance(failure, _CannotLandError):
                    self._ledger.unresolved.append(asked)
                raise

    def _after_refusal(self, seen: Seen, built: Placed) -> Seen | None:
        now = read(self._door, seen.ref)
        if now is None:
            raise _CannotLandError(f"{seen.ref.display} cannot be fenced: it is gone")
        mark = read_mark(now)
        if mark is not None and mark.journal_text == built.journal.text:
            # NB: an earlier try was carried out and its answer lost. Only this very text is ours.
            return now
        if mark is not None:
            broken = explain_refusal(built.patch, now.raw)
            raise _CannotLandError(
                f"{seen.ref.display} cannot be fenced: {broken.sentence if broken else 'it changed'}"
            )
        return None

    def _keep(self, fence: Fence) -> Fence:
        self._ledger.add(fence)
        # NB: the check before the send may be older than a pause of this process; a late fence goes back.
        try:
            self._keeper.must_hold(0.0)
        except LeaseLostError:
            self._ledger.late.append(fence.seen.ref)
            raise
        return fence

    def change(self, fence: Fence, patch: GuardedPatch, journal: Journal) -> Fence:
        """
        Change a fence of this run (its phase, its token) by a guarded patch.

        Raises NotFencedError where somebody else has changed it, LeaseLostError where nobody answers for too long.
        """
        while True:
            self._keeper.must_hold(WRITE_S)
            match send(self._door, patch, deadline_s=WRITE_S):
                case Applied(raw):
                    return self._changed(fence, raw, journal)
                case Unknown() | Refused(Why.BUSY):
                    self._clock.wait(None, PAUSE_S)
                case Refused(_, status, detail):
                    now = read(self._door, fence.seen.ref)
                    if now is not None and is_carried_out(patch, now.raw):
                        # NB: an earlier try of ours, whose answer was lost.
                        return self._changed(fence, now.raw, journal)
                    broken = explain_refusal(patch, now.raw if now is not None else None)
                    why = broken.sentence if broken else f"the API server refuses ({status}: {detail})"
                    raise NotFencedError(
                        f"the fence on {fence.seen.ref.display} was changed by somebody else: {why}"
                    )

    def _changed(self, fence: Fence, raw: Raw, journal: Journal) -> Fence:
        changed = Fence(fence.kind, Seen(fence.seen.ref, raw), journal)
        self._ledger.replace(fence, changed)
        return changed


def changed_fence(door: Door, ledger: Ledger, is_over: Callable[[], bool]) -> str | None:
    """
    Name the first own fence that vanished or was changed by somebody else.

    `is_over`: whether the work must end anyway, so that nothing may wait for more reads; asked before each.
    """
    for fence in list(ledger.fences):
        if is_over():
            return None
        try:
            seen = read(door, fence.seen.ref)
        except (NotReadableError, StoppedError):
            # NB: the keeper judges whether the server is away; a missed look is no change.
            return None
        mark = read_mark(seen) if seen is not None else None
        if seen is None or mark is None:
            return f"the fence on {fence.seen.ref.display} was lifted by somebody else"
        if mark.holder_text != fence.journal.holder:
            return f"the fence on {fence.seen.ref.display} was changed by somebody else"
        if not _still_fenced(fence, seen.raw):
            field = explain_field(seen.raw, _fenced_field(fence), before=True)
            return f"the fence on {fence.seen.ref.display} was changed by somebody else: {field}"
    return None


def _fenced_field(fence: Fence) -> tuple[str, ...]:
    return ("spec", "suspend") if fence.kind is FenceKind.SUSPENSION else ("spec", "unschedulable")


def _still_fenced(fence: Fence, raw: Raw) -> bool:
    if fence.journal.phase is Phase.VERIFIED:
        return True
    return dig(raw, *_fenced_field(fence)) is True


def _never(seen: Seen, why: Why, detail: str) -> NotFencedError:
    """Why an object is not fenced; where it is gone, no copy of the placement can be carried out any more."""
    if why is Why.GONE:
        return _CannotLandError(f"{seen.ref.display} cannot be fenced: it is gone")
    return NotFencedError(f"{seen.ref.display} cannot be fenced {detail}")
