"""
Step 10 after a rollback, and after a deploy that failed over what it had adopted: keep what must not be resumed.

A kept suspension gets another journal by one guarded patch, so that a release that was printed before no longer
passes. Outermost ancestor first: should it fail in between, only a parent is kept that need not be. What must stay
and could not be marked is not released either; it is named as still held.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fencectl.cluster.clock import Clock
from fencectl.cluster.write import send
from fencectl.core.answers import Applied, Refused, Unknown, Why, explain_refusal
from fencectl.core.config import AfterRollback
from fencectl.core.errors import ExitCode, FencectlError, NotReadableError
from fencectl.core.happening import Happening
from fencectl.core.journal import Journal, Phase
from fencectl.core.keeping import Keys, is_resumed, keys_of, why_kept, with_ancestors, would_bring_back
from fencectl.core.marks import read_mark
from fencectl.core.placements import rewrite_journal
from fencectl.core.plan import keeping_order
from fencectl.core.refs import ObjectRef, Seen
from fencectl.core.report import FenceKind
from fencectl.run.fencing import Fence, Ledger
from fencectl.run.ports import Door
from fencectl.run.reporting import Tells
from fencectl.run.story import PAUSE_S, WRITE_S, StoppedError, read

if TYPE_CHECKING:
    from fencectl.core.deploy import DeployPlan
    from fencectl.run.stage import Result, Stage
    from fencectl.run.tenure import Tenure


@dataclass(frozen=True, slots=True)
class Reasons:
    """
    Why suspensions are kept.

    `restored`: what was rolled back, where anything was; `because`: what their journals say of it. `adopted`:
    where this deploy has not succeeded, those that were kept before it, each with the reason that it had.
    """

    rolled_back: bool = False
    restored: Keys = None
    because: str = ""
    adopted: Mapping[ObjectRef, str] = field(default_factory=dict)


@dataclass(slots=True)
class Kept:
    """
    What is left suspended on purpose.

    `fences`: kept by this run, each as the server has it now. `before`: kept by others as before, since this run
    did not come to adopt them. `stuck`: must stay, and could not be marked; why.
    """

    fences: list[Fence] = field(default_factory=list)
    before: list[ObjectRef] = field(default_factory=list)
    stuck: dict[ObjectRef, str] = field(default_factory=dict)


def keep_what_must(
    stage: Stage, plan: DeployPlan, result: Result, ledger: Ledger, tenure: Tenure, *, end_s: float
) -> None:
    """
    Decide what stays of this run's suspensions, and mark it so; the result tells.

    After a success, what was adopted goes with the rest; after anything else it stays as kept as it was.
    """
    failed, restore = bool(result.codes), result.rolled_back
    adopted = {one.ref: one.reason for one in plan.adopt if one.ref in ledger.adopted}
    if not failed:
        ledger.going |= set(adopted)
    reasons = Reasons(adopted=adopted if failed else {})
    if restore is not None and (restore.is_back or restore.moved) and plan.after_rollback is AfterRollback.KEEP:
        because = why_kept(restore.revision, restore.generation)
        reasons = replace(reasons, rolled_back=True, restored=keys_of(restore), because=because)
    result.kept = keep(
        stage.door,
        stage.clock,
        ledger,
        reasons,
        own=tenure.own,
        must_hold=tenure.must_hold,
        tell=lambda text: stage.tell(10, text),
        events=stage.events,
        end_s=end_s,
    )
    if failed and result.held is None:
        mine = ledger.adopted | {fence.seen.ref for fence in ledger.fences}
        result.kept.before = [one.ref for one in plan.adopt if one.ref not in mine]
    if result.kept.fences or result.kept.before:
        result.codes.append(ExitCode.STILL_FENCED)


def keep(
    door: Door,
    clock: Clock,
    ledger: Ledger,
    reasons: Reasons,
    *,
    own: Journal,
    must_hold: Callable[[], None],
    tell: Callable[[str], None],
    events: Tells,
    end_s: float,
) -> Kept:
    """
    Keep what has to be kept, out of the ledger; a lost answer is resolved until `end_s`.

    `own`: this run's journal, with what proves its end. `must_hold`: proves the lease for one write, or raises
    LeaseLostError: after a loss nothing is written.
    """
    kept = Kept()
    suspensions = [
        fence
        for fence in ledger.fences
        if fence.kind is FenceKind.SUSPENSION and fence.seen.ref not in ledger.going
    ]
    # NB: what was applied since it was fenced is in the object's inventory only now.
    now = {fence.seen.ref: _seen_now(door, fence) for fence in suspensions}
    wanted = _wanted(suspensions, now, reasons)
    for fence in keeping_order([one for one in suspensions if one.seen.ref in wanted], rank=lambda one: one.rank):
        name = fence.seen.ref.display
        if fence.journal.phase is Phase.KEPT:
            kept.fences.append(fence)
            continue
        again = reasons.adopted.get(fence.seen.ref)
        journal = fence.journal.with_phase(
            Phase.KEPT, at=clock.wall(), reason=reasons.because if reasons.rolled_back or not again else again
        )
        if journal.holder == own.holder:
            # NB: the lease, whose journal proves this run's end, is free by the time that anybody wants to know.
            journal = replace(journal, details=own.details)
        try:
            found = _mark(door, clock, fence, journal, must_hold, end_s)
        except FencectlError as failure:
            found = failure.cause_in_short
        if found is None:
            tell(f"{name} was released by somebody else: what was rolled back may come back")
        elif isinstance(found, Fence):
            ledger.replace(fence, found)
            kept.fences.append(found)
            tell(f"KEPT {name}: {journal.reason}")
            events.tell(fence.seen.ref, Happening.FENCED, f"kept on purpose: {journal.reason}", journal.holder)
        else:
            kept.stuck[fence.seen.ref] = f"it is to be KEPT, and could not be marked so: {found}"
    return kept


def _seen_now(door: Door, fence: Fence) -> Seen | None:
    """The object as it is; None where it is gone or cannot be read."""
    try:
        return read(door, fence.seen.ref)
    except (NotReadableError, StoppedError):
        return None


def _wanted(
    suspensions: Collection[Fence], now: Mapping[ObjectRef, Seen | None], reasons: Reasons
) -> frozenset[ObjectRef]:
    def is_wanted(fence: Fence) -> bool:
        seen = now[fence.seen.ref]
        if fence.journal.phase is Phase.KEPT:
            return True
        if seen is not None and is_resumed(seen):
            return False
        if fence.seen.ref in reasons.adopted:
            return True
        return reasons.rolled_back and (seen is None or would_bring_back(seen, reasons.restored))

    chosen = [fence.seen.ref for fence in suspensions if is_wanted(fence)]
    return with_ancestors(chosen, [fence.seen for fence in suspensions])


def _mark(
    door: Door,
    clock: Clock,
    fence: Fence,
    journal: Journal,
    must_hold: Callable[[], None],
    end_s: float,
) -> Fence | str | None:
    """The fence as it is kept; None where it is nobody's any more; or why it could not be kept."""
    patch = rewrite_journal(fence.seen, fence.journal, journal)
    while True:
        must_hold()
        match send(door, patch, deadline_s=WRITE_S):
            case Applied(raw):
                return Fence(fence.kind, Seen(fence.seen.ref, raw), journal)
            case Unknown(detail) | Refused(Why.BUSY, _, detail):
                if clock.monotonic_s() + PAUSE_S >= end_s:
                    return detail
                clock.wait(None, PAUSE_S)
            case Refused(_, status, detail):
                seen = read(door, fence.seen.ref)
                mark = read_mark(seen) if seen is not None else None
                if seen is None or mark is None or mark.holder_text != fence.journal.holder:
                    return None
                if mark.journal_text == journal.text:
                    # NB: an earlier try of ours, whose answer was lost.
                    return Fence(fence.kind, seen, journal)
                broken = explain_refusal(patch, seen.raw)
                return broken.sentence if broken else f"the API server refuses ({status}: {detail})"
