"""Suspend Flux, outermost ancestor first, and wait until no reconcile of any of it is in flight."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fencectl.cluster.clock import Clock
from fencectl.core.errors import ExitCode, FencectlError
from fencectl.core.fluxdrain import Drained, drain_bound, read_drain
from fencectl.core.journal import Journal, Phase
from fencectl.core.marks import read_mark
from fencectl.core.placements import CannotPlace, Placed, adopt_kept, place_suspension, rewrite_token
from fencectl.core.refs import ObjectRef, Seen
from fencectl.core.report import FenceKind
from fencectl.core.times import age_text
from fencectl.run.fencing import Fence, Fencer, NotFencedError
from fencectl.run.keeper import Keeper
from fencectl.run.ports import Door
from fencectl.run.story import read

POLL_S = 0.5


class SuspendingStoppedError(FencectlError):
    """The suspending was told to stop; whoever told it so knows the exit code."""

    exit_code = ExitCode.FAILED_PREVIOUS_RUNS


class NotDrainedError(FencectlError):
    """A reconcile may still be in flight: the proof did not come in time."""

    exit_code = ExitCode.TIMED_OUT_PREVIOUS_RUNS


@dataclass(frozen=True, slots=True)
class ToSuspend:
    """
    One object to suspend; `rank` is 1 plus the number of its fenced ancestors.

    `kept_by`: the holder of a kept suspension that is to be taken over; None: it has to be free. `details`: what
    proves the end of this run, for what may stay when it has ended.
    """

    ref: ObjectRef
    rank: int
    kept_by: str | None = None
    details: Mapping[str, Any] | None = None


class Suspender:
    """Suspends, proves, and keeps looking."""

    def __init__(
        self,
        door: Door,
        clock: Clock,
        fencer: Fencer,
        keeper: Keeper,
        *,
        journal_for: Callable[[int], Journal],
        must_stop: Callable[[], str | None],
        tell: Callable[[str], None],
    ) -> None:
        self._door = door
        self._clock = clock
        self._fencer = fencer
        self._keeper = keeper
        self._journal_for = journal_for
        self._must_stop = must_stop
        self._tell = tell

    def suspend_all(self, targets: Sequence[ToSuspend], *, drain_timeout_s: float | None) -> None:
        """
        Suspend in the order given, then wait for every proof.

        Raises NotFencedError, NotDrainedError, SuspendingStoppedError, LeaseLostError or NotReadableError.
        """
        fences = [self._suspend(target) for target in targets]
        bound = drain_bound(tuple(fence.seen for fence in fences), asked_s=drain_timeout_s)
        if bound.timeout_s == 0:
            if fences:
                self._tell("went on without the drain proof: a reconcile may still be in flight")
            return
        if bound.without_proof:
            names = ", ".join(bound.without_proof)
            raise NotFencedError(
                f"{names} gives no proof that its last reconcile has ended",
                hint="leave it out, or go on without any proof: --drain-timeout 0s",
            )
        self._drain(fences, bound.timeout_s)

    def _suspend(self, target: ToSuspend) -> Fence:
        def build(seen: Seen) -> Placed | CannotPlace:
            mark = read_mark(seen) if target.kept_by is not None else None
            if mark is not None and mark.kept and mark.journal is not None and mark.holder_text == target.kept_by:
                story = replace(self._journal_for(target.rank), details=target.details)
                return adopt_kept(seen, mark.journal, story)
            return place_suspension(seen, self._journal_for(target.rank))

        why = self._must_stop()
        if why is not None:
            raise SuspendingStoppedError(f"stopped before {target.ref.display} was suspended: {why}")
        fence = self._fencer.place(FenceKind.SUSPENSION, target.ref, build)
        adopted = fence.journal.phase is Phase.KEPT
        self._tell(f"{'adopted' if adopted else 'suspended'} {target.ref.display}")
        return fence

    def _drain(self, fences: list[Fence], timeout_s: float) -> None:
        begun_s = self._clock.monotonic_s()
        waiting = {fence.seen.ref: fence for fence in fences}
        rewrites: dict[ObjectRef, int] = {}
        while waiting:
            for ref, fence in list(waiting.items()):
                if self._is_drained(fence, waiting, rewrites):
                    del waiting[ref]
            if not waiting:
                break
            why = self._must_stop()
            if why is not None:
                raise SuspendingStoppedError(f"stopped while waiting for the drain proof: {why}")
            self._keeper.must_hold(0.0)
            if self._clock.monotonic_s() - begun_s > timeout_s:
                names = ", ".join(ref.display for ref in waiting)
                raise NotDrainedError(
                    f"no drain proof of {names} within {age_text(timeout_s)}",
                    reason="its controller did not answer the request: it does not run, or reconciles for longer",
                    hint="--drain-timeout 0s goes on without the proof",
                )
            self._clock.wait(None, POLL_S)
        self._tell(f"drained in {age_text(self._clock.monotonic_s() - begun_s)}")

    def _is_drained(self, fence: Fence, waiting: dict[ObjectRef, Fence], rewrites: dict[ObjectRef, int]) -> bool:
        ref = fence.seen.ref
        seen = read(self._door, ref)
        if seen is None:
            raise NotFencedError(f"{ref.display} vanished while it was fenced")
        match read_drain(seen, fence.journal):
            case Drained.PROVEN:
                return True
            case Drained.CHANGED:
                raise NotFencedError(f"the fence on {ref.display} was changed by somebody else")
            case Drained.OVERWRITTEN:
                rewrites[ref] = rewrites.get(ref, 0) + 1
                patch = rewrite_token(seen, fence.journal, rewrite=rewrites[ref])
                waiting[ref] = self._fencer.change(fence, patch, fence.journal)
                self._tell(f"{ref.display}: somebody else asked for a reconcile; our token was written again")
        return False
