"""
The fenced transaction, in steps that are numbered alike in code, log, record and runbooks.

0. Everything is validated; any failure: nothing was read or changed.
1. The fences are read; if anything is held, the deploy is refused and nothing was changed.
2. The lease is taken, the fences are read again under it, its keeper starts.
3. The record is written, before anything becomes observable.
4. Flux is suspended, outermost first, with the drain proof.
5. What ran before is captured and stored: the recovery point.
6. The nodes are fenced, and rolled where a node command is given.
7. The canary is applied, followed and certified.
8. The payload: a command runs, manifests are applied and followed, or Flux takes a revision.
9. On failure, where that is asked for: what ran before is put back, with a time budget of its own.
10. Everything is released in reverse order, the outcome is written, the lease is freed last of all.

Whatever happens in between, step 10 follows; what it cannot release is named, and stays visible with its holder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from fencectl.core.deploy import DeployPlan, HeldError
from fencectl.core.errors import ExitCode, FencectlError
from fencectl.core.journal import Journal
from fencectl.core.nesting import Around, handed_on
from fencectl.core.recovery_point import RecoveryPoint
from fencectl.core.refs import ObjectRef, Seen
from fencectl.run.certifying import certified_so_far, certifier_of, certify_canary
from fencectl.run.deploy_record import story_of
from fencectl.run.fencing import Fencer, Ledger, changed_fence
from fencectl.run.flux_revision import Hands
from fencectl.run.handing_over import code_of
from fencectl.run.keeper import Keeper, LeaseLostError
from fencectl.run.keeping import keep_what_must
from fencectl.run.nesting import (
    NOTHING_INSIDE,
    WHAT_IS_INSIDE,
    announce_inside,
    find_inside,
    may_have_run_inside,
    release_all,
)
from fencectl.run.nodes import NodeRoller
from fencectl.run.overseer import Overseer
from fencectl.run.paying import pay
from fencectl.run.recovery_points import capture
from fencectl.run.rolling_back import RollingBack, after_failure, restore_payload
from fencectl.run.stage import Result, Stage
from fencectl.run.story import StoppedError
from fencectl.run.suspending import Suspender, ToSuspend
from fencectl.run.tenure import Tenure
from fencectl.run.timeline import Timeline
from fencectl.run.unwind import Unwound

__all__ = ["Deploy", "Result", "Stage"]

# How long the releases may take after an interrupt: what CI gives between its first signal and its last.
UNWIND_AFTER_SIGNAL_S = 7.0
UNWIND_S = 60.0


class Deploy:
    """
    One deploy on one target, from step 2 on.

    `around`: the run of whose command it is a part, whose lease, record and chain of fences it goes under then.
    """

    def __init__(self, stage: Stage, plan: DeployPlan, own: Journal, around: Around | None = None) -> None:
        self._stage = stage
        self._plan = plan
        self._own = own
        self._around = around
        self._result = Result()
        self._timeline = Timeline(stage.clock, stage.events)
        self._ledger = Ledger(noting=self._timeline.fence)
        self._tenure = Tenure(stage, plan, own, around, self._result, self._ledger, self._note)
        self._seq = 0
        self._checked_s = 0.0
        self._story = story_of(stage, plan, own, self._timeline)
        self._freed_as: Seen | None = None
        self._point: RecoveryPoint | None = None

    def run(self) -> Result:
        """Do all of it; raises only where nothing was changed at all (the lease was not taken)."""
        self._begin(2)
        self._tenure.take(self._story.last_token, self._timeline)  # (2)
        try:
            self._stop_if_asked()
            if self._around is None:
                # NB: inside of another run the first look was under the lease already.
                self._stage.read_again(self._own.holder)  # (2)
            self._stop_if_asked()
            self._begin(3)
            self._write_record("placing")  # (3)
            self._suspend()  # (4)
            self._capture()  # (5)
            self._roll_nodes()  # (6)
            self._certify_canary()  # (7)
            self._run_payload()  # (8)
        except FencectlError as failure:
            self._note(failure)
        except BaseException as failure:
            self._result.codes.append(ExitCode.UNEXPECTED)
            self._result.cause = f"unexpected {type(failure).__name__}"
            self._unwind()  # (10)
            raise
        try:
            self._roll_back()  # (9)
        finally:
            self._unwind()  # (10)
        return self._result

    # (3)

    def _write_record(self, phase: str, *, outcome: str | None = None) -> None:
        keeper = self._tenure.keeper
        if keeper is None:
            return
        if self._around is not None:
            if phase == "placing" and (self._plan.suspend or self._plan.nodes):
                announce_inside(self._stage.door, self._stage.clock, keeper, self._around)
            return
        self._story.certification = certified_so_far(self._plan, self._result, ended=outcome is not None)
        self._result.generation = self._story.write(
            phase,
            token=keeper.transitions,
            outcome=outcome,
            result=self._result,
            before=self._tenure.must_hold,
        )

    # (4)

    def _suspend(self, chain: Sequence[tuple[ObjectRef, int]] | None = None, step: int = 4) -> None:
        chain = self._plan.suspend if chain is None else chain
        if not chain:
            return
        self._begin(step)
        suspender = Suspender(
            self._stage.door,
            self._stage.clock,
            self._fencer(),
            self.keeper,
            journal_for=self._journal,
            must_stop=self._must_stop,
            tell=lambda text: self._stage.tell(step, text),
        )
        targets = [ToSuspend(*one, self._plan.kept_by(one[0]), self._own.details) for one in chain]
        suspender.suspend_all(targets, drain_timeout_s=self._plan.drain_timeout_s)

    # (5)

    def _capture(self) -> None:
        if self._around is not None or self._plan.restore is not None:
            return  # NB: what ran before is in the point of the run around this one, or in the one to be put back.
        self._begin(5)
        hands = self.keeper, self._stop_if_asked, self._write_record
        self._point = capture(self._stage, self._result, self._plan, self._story, *hands)

    # (6)

    def _roll_nodes(self) -> None:
        if not self._plan.nodes:
            return
        self._begin(6)
        roller = NodeRoller(
            self._stage.door,
            self._stage.clock,
            self._fencer(),
            self.keeper,
            self._ledger,
            journal_for=lambda: self._journal(1000),
            command=self._plan.node_command or None,
            environ=self._child_environ(),
            processes=self._overseer(),
            drain_timeout_s=self._plan.node_timeout_s,
            node_timeout_s=self._plan.node_timeout_s,
            must_stop=self._must_stop,
            tell=lambda node, text: self._stage.tell(6, f"{node}: {text}"),
            handed_over=self._stage.handed_over,
            certifier=certifier_of(self._plan, self._result),
        )
        roller.roll_all(self._plan.nodes, max_unavailable=self._plan.max_unavailable)

    # (7)

    def _certify_canary(self) -> None:
        if self._plan.certify is None or self._plan.certify.canary is None:
            return
        self._begin(7)
        self._announce("certifying")
        self._timeline.begin(7, "canary")
        step = (self._stage, self._result, self._plan, self.keeper, self._lent(), self._child_environ())
        try:
            certify_canary(*step, self._overseer)
        finally:
            self._timeline.end(7, "canary", self._result.certification.word)

    # (8)

    def _run_payload(self) -> None:
        form = self._plan.form
        if form is None:
            return
        self._begin(8)
        if form == "restore":
            self._must_go_on()
            self._timeline.begin(8, form)
            self._restore()
            return
        self._announce("deploying")
        self._timeline.begin(8, form)
        step = (self._stage, self._result, self._plan, self.keeper, self._lent(), self._child_environ())
        pay(*step, self._overseer)
        self._timeline.end(8, form, "failed" if self._result.codes else "done")
        if not self._result.codes:
            return
        self._timeline.fail(f"{form}: {self._result.reason or self._result.cause}")
        self._note_interrupt()
        if self._tenure.lost is not None:
            self._note(self._tenure.lost)

    def _announce(self, phase: str) -> None:
        """Record that the state is about to change; then it may."""
        self._stop_if_asked()
        self._write_record(phase)
        self._must_go_on()  # NB: the record may have taken a while.

    def _must_go_on(self) -> None:
        self._stop_if_asked()
        self.keeper.must_hold(0.0)

    def _lent(self) -> Hands:
        return Hands(self._ledger, self._suspend, self._tenure.may_release, self._stop_if_asked, self._must_stop)

    def _restore(self) -> None:
        """Do what `rollback` is for; its record says so before anything is put back."""
        try:
            restore_payload(self._plan, self._result, self._rolling(8))
        finally:
            self._timeline.end(8, "restore", "failed" if self._result.codes else "done")

    # (9)

    def _roll_back(self) -> None:
        lent = self._ledger, self._timeline, self._rolling, self._note
        after_failure(self._stage, self._plan, self._result, self._story, self._point, *lent)

    def _rolling(self, step: int) -> RollingBack:
        # NB: a fence that was lifted meanwhile would undo it: looked at before anything is put back.
        self._checked_s = float("-inf")
        return RollingBack(
            self._stage,
            self._result,
            self.keeper,
            self._story,
            write_record=self._write_record,
            must_stop=self._must_stop,
            stop_if_asked=self._stop_if_asked,
            step=step,
        )

    # (10)

    def _unwind(self) -> None:
        result, stage = self._result, self._stage
        self._begin(10)
        self._timeline.begin(10, "release")
        end_s = stage.clock.monotonic_s() + (UNWIND_AFTER_SIGNAL_S if stage.interrupted.is_set() else UNWIND_S)
        result.unwound = self._release_all(end_s)
        result.unresolved = self._ledger.unknown + result.unresolved
        if not result.unwound.clean or result.unresolved:
            result.codes.append(ExitCode.STILL_FENCED)
        self._timeline.unwound(result.unwound.clean, self._ledger.fences)
        self._write_outcome()
        self._tenure.end(self._freed_as, end_s=end_s)
        result.ended_at = stage.clock.wall()

    def _release_all(self, end_s: float) -> Unwound:
        """Release what runs inside of this one have left, then its own fences; the ranks see to that order."""
        result, plan, inside, keeper = self._result, self._plan, NOTHING_INSIDE, self._tenure.keeper
        if keeper is not None and may_have_run_inside(plan, result):
            on_lease = partial(self._tenure.judge, keeper) if self._around is None else lambda _: None
            to, has_own = (
                (self._stage.door, self._stage.clock, keeper, self._own.holder),
                bool(self._ledger.fences),
            )
            inside = find_inside(*to, has_own=has_own, end_s=end_s, on_lease=on_lease)
        self._freed_as = inside.lease
        result.unresolved += [WHAT_IS_INSIDE] if inside.unread is not None else []
        tenure, ledger = self._tenure, self._ledger
        keep = partial(keep_what_must, self._stage, plan, result, ledger, tenure, end_s=end_s)
        return release_all(self._stage, ledger, inside, tenure.is_stolen, tenure.may_release, keep, end_s=end_s)

    def _write_outcome(self) -> None:
        if self._result.generation is None:
            # NB: refused under the lease, before anything was recorded: no deploy of this target began.
            return
        outcome = self._result.outcome(interrupted=self._stage.interrupted.is_set())
        try:
            self._write_record("ended", outcome=outcome)
        except LeaseLostError:
            # NB: nothing is recorded after a loss; the next reader sees a record without an outcome.
            return
        except FencectlError as failure:
            self._stage.tell(10, f"the outcome could not be recorded: {failure.sentence}")
            self._result.codes.append(ExitCode.OUTCOME_UNKNOWN)

    # What all steps share

    def _begin(self, step: int) -> None:
        self._result.step = step if step != 10 else self._result.step

    @property
    def keeper(self) -> Keeper:
        """Who keeps the lease; raises LeaseLostError before it was taken."""
        return self._tenure.held()

    def _overseer(self) -> Overseer:
        return Overseer(self._stage.processes, self.keeper, self._stage.clock, self._stage.threads)

    def _fencer(self) -> Fencer:
        return Fencer(self._stage.door, self._stage.clock, self.keeper, self._ledger)

    def _journal(self, rank: int) -> Journal:
        self._seq += 1
        return replace(
            self._own,
            seq=self._seq,
            rank=rank + (self._around.rank if self._around is not None else 0),
            at=self._stage.clock.wall(),
            lease=self._tenure.ref,
            details=None,
            reason=f"deploy {self._result.generation}" if self._around is None else "a deploy inside of another",
            source=None,
        )

    def _child_environ(self) -> dict[str, str]:
        holder, around = self._own.holder, self._around
        inner = (
            Around(holder, self._result.token or 0, self._plan.lease) if around is None else around.deeper(holder)
        )
        return handed_on(self._stage.environ, inner)

    def _must_stop(self) -> str | None:
        """Why the work must end now, or None. Asked often; the cluster is read at most once a heartbeat."""
        if self._stage.interrupted.is_set():
            return "interrupted"
        keeper = self.keeper
        try:
            keeper.must_hold(0.0)
        except LeaseLostError as lost:
            self._tenure.lost = lost
            return f"{lost.sentence}: {lost.reason}"
        now_s = self._stage.clock.monotonic_s()
        if now_s - self._checked_s < keeper.duration_s / 3:
            return None
        self._checked_s = now_s
        return changed_fence(
            self._stage.door,
            self._ledger,
            lambda: self._stage.interrupted.is_set() or keeper.held_for_s() == 0,  # NB: said when asked next.
        )

    def _stop_if_asked(self) -> None:
        if (why := self._must_stop()) is not None:
            raise self._tenure.lost or StoppedError(why)

    def _note(self, failure: FencectlError) -> None:
        result = self._result
        if isinstance(failure, LeaseLostError):
            self._tenure.lost = result.lost = failure
        self._timeline.fail(failure)
        result.timed_out |= failure.exit_code is ExitCode.TIMED_OUT_PREVIOUS_RUNS
        if isinstance(failure, HeldError):
            result.held = failure.report
        result.blame(failure)
        if self._tenure.lost is not None and result.lost is None:
            # NB: a step that was told to stop because of it says only that it has stopped.
            self._note(self._tenure.lost)
        interrupted = self._note_interrupt()
        if interrupted and not isinstance(failure, LeaseLostError):
            # NB: whatever ended the step, it was asked to: its own code would hide the interrupt.
            return
        result.codes.append(code_of(failure, applied=result.applied))

    def _note_interrupt(self) -> bool:
        code = self._stage.interrupt_code()
        if code is None:
            return False
        self._result.codes.append(ExitCode.FAILED_NEW_STATE_LIVE if self._result.applied else code)
        return True
