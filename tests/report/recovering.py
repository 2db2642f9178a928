"""The invented story's recovery: its plan, and its steps as they are told."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec.structs import replace

from fencectl.core.evidence import Source
from fencectl.core.outcome import Outcome, Told
from fencectl.core.recovery import LeaseTarget, RecoveryPlan
from fencectl.core.refs import Seen
from fencectl.core.report import FenceKind, FenceReport, HolderBlock
from tests.report import story

AT = datetime(2026, 11, 30, 2, 48, 19, tzinfo=UTC)


def plan_of(block: HolderBlock) -> RecoveryPlan:
    """What a recovery of this holder releases."""
    going = [entry for entry in block.entries if not entry.kept]
    lease = next((entry for entry in going if entry.kind is FenceKind.LEASE), None)
    ref = lease.object if lease is not None else story.lease()
    target = LeaseTarget(ref.namespace or "", ref.name, Seen(ref, {}), block.holder.identity, lease)
    kept = tuple(entry for entry in block.entries if entry.kept)
    return RecoveryPlan(block, tuple(entry for entry in going if entry is not lease), kept, target)


def watched(report: FenceReport) -> FenceReport:
    """The report after a window in which the heartbeat stood still."""
    blocks = []
    for block in report.blocks:
        facts = tuple(
            replace(fact, answer="watched for 40s: stands still, last 01:47:02Z")
            if fact.source is Source.HEARTBEAT
            else fact
            for fact in block.judgement.evidence
        )
        blocks.append(replace(block, judgement=replace(block.judgement, evidence=facts)))
    return replace(report, blocks=tuple(blocks))


def told(result: str, order: int, fence: str, detail: str, total: int = 5) -> Told:
    """One step."""
    return Told(result, order, total, fence, detail, AT)


def steps_of(plan: RecoveryPlan) -> list[Told]:
    """Every step of a recovery in which nothing goes wrong."""
    lease = f"lease/{plan.lease.namespace}/{plan.lease.name}"
    total = plan.total
    taken = told("taken", 0, lease, f"taken over from {plan.block.holder.identity}", total)
    released = [
        told("released", number, entry.object.display, entry.after or "released", total)
        for number, entry in enumerate(plan.going, 1)
    ]
    return [taken, *released, told("freed", total, lease, "free", total)]


def done(plan: RecoveryPlan) -> Outcome:
    """A recovery in which nothing went wrong."""
    return Outcome(told=steps_of(plan), released=plan.total, wrote=True, lease="freed")


def stopped(plan: RecoveryPlan) -> Outcome:
    """A recovery that the third fence stopped."""
    left = [entry.object.display for entry in plan.block.entries[2:]]
    why = "spec.suspend was true when read, now it is absent; changed by `flux` at 02:48:17Z"
    steps = [*steps_of(plan)[:3], told("refused", 3, left[0], why)]
    return Outcome(told=steps, released=2, left=left, stopped=why, wrote=True, lease="handed-back")
