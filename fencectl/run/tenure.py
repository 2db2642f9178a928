"""
The hold of one run on its lease: taken or borrowed, proven before each write, perhaps lost, freed last of all.

NB: that no renewal was acknowledged does not say that somebody else has taken the lease; where that matters, it is
read.
"""

from __future__ import annotations

from collections.abc import Callable

from fencectl.core.deploy import DeployPlan
from fencectl.core.errors import ExitCode, FencectlError, NotReadableError
from fencectl.core.happening import Happening
from fencectl.core.identity import parse_holder
from fencectl.core.journal import Journal, LeaseRef
from fencectl.core.lease import LeaseTerms, free_own_lease
from fencectl.core.nesting import Around
from fencectl.core.refs import Seen
from fencectl.core.report import FenceKind
from fencectl.run.fencing import Fence, Ledger
from fencectl.run.keeper import Keeper, LeaseLostError, Loss
from fencectl.run.leasing import Freed, LeaseAt, free_lease, take_lease, theft
from fencectl.run.nesting import borrow
from fencectl.run.stage import Result, Stage
from fencectl.run.story import WRITE_S, StoppedError, read
from fencectl.run.timeline import Timeline


class Tenure:
    """
    One run's hold on the lease of its target.

    `around`: the run that lends its lease. `note`: takes a loss in, as all that ends the run. `lost`: why it does
    not hold the lease any more; `own`: the run's journal, with what proves its end.
    """

    def __init__(
        self,
        stage: Stage,
        plan: DeployPlan,
        own: Journal,
        around: Around | None,
        result: Result,
        ledger: Ledger,
        note: Callable[[FencectlError], None],
    ) -> None:
        self._stage = stage
        self._plan = plan
        self.own = own
        self._around = around
        self._result = result
        self._ledger = ledger
        self._note = note
        self.lost: LeaseLostError | None = None
        self.keeper: Keeper | None = None
        self.ref: LeaseRef | None = None

    def take(self, last_token: Callable[[], int], timeline: Timeline) -> None:
        """Take the lease, or borrow it (2); raises what taking it raises, and nothing was changed then."""
        stage, plan = self._stage, self._plan
        if self._around is not None:
            self.keeper = borrow(stage.door, stage.keeper_door, stage.clock, stage.threads, self._around)
            self._remember(self.keeper)
            self._result.within = self._around.holder
            whose = parse_holder(self._around.holder).title
            stage.tell(2, f"inside of {whose}, under {self.keeper.lease.ref.display}")
            return
        terms = LeaseTerms(self.own.holder, plan.lease_duration_s, stage.clock.wall(), self.own)
        at = LeaseAt(*plan.lease, last_token=last_token())
        self.keeper = take_lease(stage.door, stage.keeper_door, stage.clock, stage.threads, at, terms)
        self._remember(self.keeper)
        timeline.begin(2, "lease")
        stage.events.tell(self.keeper.lease.ref, Happening.FENCED, "taken for a deploy", self.own.holder)
        stage.tell(2, f"{self.keeper.lease.ref.display} taken, token {self.keeper.transitions}")

    def _remember(self, keeper: Keeper) -> None:
        self._result.token = keeper.transitions
        self.ref = LeaseRef(*self._plan.lease, keeper.lease.ref.uid, keeper.duration_s, keeper.transitions)

    def held(self) -> Keeper:
        """Who keeps the lease; raises LeaseLostError where none was taken."""
        if self.keeper is None:
            raise LeaseLostError(Loss.NOT_RENEWED, reason="no lease was taken")
        return self.keeper

    def must_hold(self) -> None:
        """Prove that the lease is held for as long as one write takes; raises LeaseLostError."""
        if self.lost is not None:
            # NB: the keeper learns of it with its next renewal only.
            raise self.lost
        self.held().must_hold(WRITE_S)

    @property
    def is_stolen(self) -> bool:
        """Whether the lease is known to be somebody else's."""
        return self.lost is not None and self.lost.loss is Loss.STOLEN

    def may_release(self, fence: Fence) -> str | None:
        """
        Why a fence must stay, or None.

        A suspension goes only under a lease that is ours: held, or lost and read again; or where it landed only
        after the loss. Raises where the lease cannot be read. NB: that no renewal was acknowledged does not say
        that nobody else has taken it.
        """
        if fence.seen.ref in self._result.kept.stuck:
            return self._result.kept.stuck[fence.seen.ref]
        keeper = self.keeper
        if keeper is None or fence.kind is not FenceKind.SUSPENSION or self._ledger.came_late(fence):
            return None
        lost = self.lost
        if lost is None:
            try:
                keeper.must_hold(0.0)
            except LeaseLostError as now_lost:
                self._note(now_lost)
                lost = now_lost
        if self._around is not None if lost is None else lost.loss is not Loss.STOLEN:
            # NB: inside of another run nobody renews for us, so what is known of the lease may be a while old.
            lost = self._stolen(keeper)
        return None if lost is None else f"the lease is in somebody else's hands: {lost.reason}"

    def _stolen(self, keeper: Keeper) -> LeaseLostError | None:
        """Read the lease that was lost: taken by somebody else, or None where it is still ours."""
        return self.judge(keeper, read(self._stage.door, keeper.lease.ref))

    def judge(self, keeper: Keeper, now: Seen | None) -> LeaseLostError | None:
        """Whether the lease as it was read is somebody else's; that is noted."""
        stolen = theft(keeper, now)
        if stolen is not None:
            keeper.is_stolen(str(stolen.reason))
            self._note(stolen)
        return stolen

    def end(self, freed_as: Seen | None, *, end_s: float) -> None:
        """Free the lease, unless something of this run is still fenced; `freed_as`: as it was read last (10)."""
        result, stage, keeper = self._result, self._stage, self.keeper
        if keeper is None:
            return
        keeper.stop()
        if self._around is not None:
            return
        freed_as = freed_as or keeper.lease
        patch = free_own_lease(freed_as, holder=keeper.holder, transitions=keeper.transitions)
        if result.unwound is None or not result.unwound.clean or result.unresolved:
            # NB: a lease that somebody has taken is his, not one that we have left.
            result.lease_kept = self.lost is None or self.lost.loss is not Loss.STOLEN
            result.lease_patch = patch
            return
        match free_lease(stage.door, stage.clock, keeper, freed_as, end_s=end_s):
            case Freed.FREE:
                stage.tell(10, f"freed {keeper.lease.ref.display}")
                stage.events.tell(keeper.lease.ref, Happening.RELEASED, "freed", keeper.holder)
            case Freed.IN_OTHER_HANDS:
                try:
                    self._stolen(keeper)
                except (NotReadableError, StoppedError):
                    self._note(LeaseLostError(Loss.STOLEN, reason="somebody else has taken it"))
            case Freed.STILL_OURS:
                result.lease_kept, result.lease_patch = True, patch
                result.codes.append(ExitCode.STILL_FENCED)
