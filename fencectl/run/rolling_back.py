"""
A rollback inside of a transaction: whether one is due after a failure (9), and how either kind is carried out.

It has its own time budget, keeps the first cause of the failure, and is recorded before it changes anything. An
interrupt never starts one: it is recorded as owed. What is not known to have failed is not rolled back.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from fencectl.core.deploy import DeployPlan
from fencectl.core.errors import ExitCode, FencectlError, NotReadableError
from fencectl.core.past import ran_before, read_past
from fencectl.core.record_write import data_of
from fencectl.core.recovery_point import RecoveryPoint
from fencectl.core.restored import Restored, RestoreVerdict
from fencectl.core.rollout import RolloutVerdict
from fencectl.core.times import span_text
from fencectl.run.deploy_record import DeployRecord
from fencectl.run.fencing import Ledger
from fencectl.run.keeper import Keeper
from fencectl.run.restoring import Hands, Restorer
from fencectl.run.stage import Result, Stage
from fencectl.run.timeline import Timeline


def why_not_due(plan: DeployPlan, result: Result, ledger: Ledger) -> str | None:
    """Why a failed deploy is not rolled back although that was asked for; None where it is."""
    if result.lost is not None:
        return "the lease is lost"
    if not result.applied:
        return "nothing was changed"
    if ExitCode.FAILED_NEW_STATE_LIVE not in result.codes:
        return "it is not known to have failed"
    if result.followed is not None and result.followed.blames_nodes:
        return "nodes are down: that is no fault of what was deployed"
    if plan.flux is not None:
        fenced = {fence.seen.ref for fence in ledger.fences}
        open_ = [ref.display for ref, _ in plan.flux.chain if ref not in fenced]
        if open_:
            return f"{open_[0]} is not suspended, and would undo it"
    return None


class RollingBack:
    """
    Carries out one rollback of a transaction.

    `write_record`: writes the phase, before anything is changed. `must_stop`: why the work must end now, or None;
    `stop_if_asked`: raises it. `step`: which one it is in the log.
    """

    def __init__(
        self,
        stage: Stage,
        result: Result,
        keeper: Keeper,
        story: DeployRecord,
        *,
        write_record: Callable[[str], None],
        must_stop: Callable[[], str | None],
        stop_if_asked: Callable[[], None],
        step: int,
    ) -> None:
        self._stage = stage
        self._result = result
        self._keeper = keeper
        self._story = story
        self._write_record = write_record
        self._must_stop = must_stop
        self._stop_if_asked = stop_if_asked
        self._step = step

    def run(self, point: RecoveryPoint, *, budget_s: float, ended_at: datetime | None) -> Restored:
        """
        Put a point back; what came of it is in the result and, from here on, in the record.

        Raises what the record raises, then nothing was changed, and LeaseLostError.
        """
        restored = Restored(point.generation, revision=revision_of(point), budget_s=budget_s)
        self._what_ran_before(restored)
        self._story.rollback = _as_data(restored)
        self._write_record("restoring")
        self._result.rolled_back = restored
        budget = span_text(budget_s)
        number = len(point.objects)
        self._tell(f"puts back {restored.what}: {number} object{'s' * (number != 1)}, own budget {budget}")
        follower = self._stage.follower
        hands = Hands(
            self._stage.door,
            self._stage.clock,
            self._keeper,
            self._story.superseded,
            self._stop_if_asked,
            self._tell,
            follower(self._must_stop, self._tell) if follower is not None else None,
        )
        try:
            Restorer(hands, restored, ended_at=ended_at).run(point)
        finally:
            self._story.rollback = _as_data(restored)
        self._tell(
            f"{restored.what} is back" if restored.is_back else f"{restored.what} is NOT back: {restored.why}"
        )
        return restored

    def _tell(self, text: str) -> None:
        self._stage.tell(self._step, text)

    def _what_ran_before(self, restored: Restored) -> None:
        try:
            past = read_past(data_of(self._story.book.read().seen))
        except NotReadableError:
            # NB: only words depend on it.
            return
        before = ran_before(past, restored.generation)
        if before is not None:
            restored.back, restored.back_revision = before.generation, before.revision


def after_failure(
    stage: Stage,
    plan: DeployPlan,
    result: Result,
    story: DeployRecord,
    point: RecoveryPoint | None,
    ledger: Ledger,
    timeline: Timeline,
    rolling: Callable[[int], RollingBack],
    note: Callable[[FencectlError], None],
) -> None:
    """
    Put back what ran before a deploy that has failed, where that is asked for and due (9).

    Its first cause stays, its exit code follows. `note`: takes in what stops it; nothing is raised for that.
    """
    tell = partial(stage.tell, 9)
    if plan.rollback_s is None or plan.restore is not None or result.lost is not None:
        return
    if not result.codes or not result.applied:
        return
    if stage.interrupted.is_set():
        # NB: an interrupt never starts one: whoever interrupts may not leave the time for it.
        result.rollback_owed, story.rollback = True, "owed"
        tell("interrupted: the rollback is owed, not begun")
        return
    why = why_not_due(plan, result, ledger)
    if point is None or why is not None:
        result.not_rolled_back = why or "there is no recovery point"
        tell(f"not rolled back: {result.not_rolled_back}")
        return
    failed_in, timed_out = result.step, is_timed_out(result)
    timeline.begin(9, "rollback")
    try:
        restored = rolling(9).run(point, budget_s=plan.rollback_s, ended_at=None)
        result.codes = codes_after(result.codes, restored, timed_out=timed_out)
    except FencectlError as failure:
        if result.rolled_back is None:
            result.not_rolled_back = f"{failure.sentence}{f': {failure.reason}' if failure.reason else ''}"
            tell(f"not rolled back: {result.not_rolled_back}")
        note(failure)
    finally:
        back = result.rolled_back is not None and result.rolled_back.is_back
        timeline.end(9, "rollback", "done" if back else "failed")
        result.step = failed_in
        result.rollback_owed = stage.interrupted.is_set() and not back
        if result.rollback_owed:
            story.rollback = "owed"


def revision_of(point: RecoveryPoint) -> str | None:
    """The revision that Flux was to take, where one was named; what else a deploy brings has no such name."""
    return (point.revision.partition("--revision ")[2] or None) if point.form == "flux" else None


def is_timed_out(result: Result) -> bool:
    """Whether a time-out is what failed."""
    followed = result.followed
    if followed is not None and followed.outcome is RolloutVerdict.TIMED_OUT:
        return True
    return result.timed_out or (result.payload is not None and result.payload.timed_out)


def codes_after(codes: list[ExitCode], restored: Restored, *, timed_out: bool) -> list[ExitCode]:
    """The reasons for an exit code once a failed deploy was rolled back, or not."""
    failed = {ExitCode.FAILED_NEW_STATE_LIVE, ExitCode.FAILED_PREVIOUS_RUNS, ExitCode.TIMED_OUT_PREVIOUS_RUNS}
    others = [code for code in codes if code not in failed | {ExitCode.OUTCOME_UNKNOWN}]
    match restored.verdict:
        case RestoreVerdict.BACK:
            ended = ExitCode.TIMED_OUT_PREVIOUS_RUNS if timed_out else ExitCode.FAILED_PREVIOUS_RUNS
            return [*others, ended]
        case RestoreVerdict.UNKNOWN:
            return [*others, ExitCode.OUTCOME_UNKNOWN]
        case _:
            return [*others, ExitCode.FAILED_NEW_STATE_LIVE]


def restore_payload(plan: DeployPlan, result: Result, rolling: RollingBack) -> None:
    """Do step 8 of `rollback`; the result tells what came of it."""
    restore = plan.restore
    if restore is None:
        return
    try:
        restored = rolling.run(restore.point, budget_s=restore.timeout_s, ended_at=restore.ended_at)
    finally:
        found = result.rolled_back
        result.applied = found is not None and found.moved
    result.acknowledged = restored.is_back
    if not restored.is_back:
        result.codes += codes_after([], restored, timed_out=False)
        result.cause, result.reason = f"{restored.what} is not back", restored.why


def _as_data(restored: Restored) -> dict[str, object]:
    """What a record tells of a rollback."""
    data: dict[str, object] = {"undoes": restored.generation, "verdict": restored.verdict.value}
    if restored.back is not None:
        data["back"] = restored.back
    if restored.verdict is not RestoreVerdict.OWED:
        data |= {"changed": len(restored.touched), "left": len(restored.left)}
    return data | ({"why": restored.why[:300]} if restored.why else {})
