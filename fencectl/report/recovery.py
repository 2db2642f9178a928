"""A recovery in words and as data: its plan, its steps, its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencectl.core.outcome import Outcome, Told
from fencectl.core.recovery import RecoveryPlan
from fencectl.core.report import FenceReport
from fencectl.core.times import second_time
from fencectl.report.escape import cut, visible, workflow_data, workflow_property
from fencectl.report.machine import encode_json
from fencectl.report.style import Style
from fencectl.report.words import count, fencectl, label_of


def label(report: FenceReport) -> str:
    """The cluster's name, made harmless."""
    return label_of(report)


def shown(text: str) -> str:
    """Foreign text, made harmless and cut."""
    return visible(cut(text))


def these(total: int) -> str:
    """Name a number of fences: `this fence`, `these 5 fences`."""
    return "this fence" if total == 1 else f"these {total} fences"


_WORDS = {
    "released": "released",
    "already": "is released already:",
    "refused": "REFUSED",
    "freed": "freed",
    "taken": "taken over:",
    "handed-back": "handed back",
}


def step(told: Told) -> str:
    """One step as a line: what happened to which fence, and how it is now."""
    what = _WORDS.get(told.result, told.result)
    fence, detail = visible(told.fence), shown(told.detail)
    if told.result == "refused":
        return f"{what} {fence}: {detail}"
    return f"{what} {fence} ({detail})"


def plan_lines(report: FenceReport, plan: RecoveryPlan) -> list[str]:
    """The plan of a dry run: what would be released, in order."""
    block = plan.block
    whose = f"{count(plan.total, 'fence')} of {visible(block.title)} on {label(report)}"
    lines = [f"would release {whose}: {block.judgement.words}"]
    entries = [*plan.going, *([plan.lease.entry] if plan.lease.entry is not None else [])]
    width = max((len(entry.object.display) for entry in entries), default=0)
    for number, entry in enumerate(entries, 1):
        title = visible(entry.release.title) if entry.release is not None else "free it"
        lines.append(f"  {number}/{plan.total}  {visible(entry.object.display):<{width}}  {title}")
    lines += [f"  KEPT   {visible(entry.object.display)}, left alone" for entry in plan.kept]
    return lines


def ending(report: FenceReport, plan: RecoveryPlan, outcome: Outcome, *, style: Style) -> list[str]:
    """What is so now, why, and the next step."""
    where = label(report)
    if outcome.stopped is None:
        left = f"; {count(len(plan.kept), 'fence')} KEPT on purpose" if plan.kept else ""
        return [f"{style.good} released {outcome.released} of {plan.total} on {where}{left}"]
    lines = []
    if outcome.wrote:
        still = count(len(outcome.left), "fence")
        lines.append(
            f"{style.failed} stopped on {where}: {outcome.released} released, "
            f"{style.capitals(f'{still} STILL HELD')}"
        )
    else:
        lines.append(f"{style.failed} nothing was released on {where}")
    lines.append(f"reason: {shown(outcome.stopped)}")
    lines += [f"  still held: {visible(name)}" for name in outcome.left]
    if outcome.lease == "lost":
        lines.append("the lease is in somebody else's hands now")
    again = f"`{fencectl(report, 'recover')}` again takes every fence as it is now"
    return [*lines, f"hint: {outcome.hint or again}"]


def as_json(report: FenceReport, plans: Sequence[RecoveryPlan], outcomes: Sequence[Outcome]) -> str:
    """The result as data; without outcomes it is the plan of a dry run."""
    items = []
    for number, plan in enumerate(plans):
        outcome = outcomes[number] if number < len(outcomes) else None
        entries = [*plan.going, *([plan.lease.entry] if plan.lease.entry is not None else [])]
        items.append(
            {
                "holder": plan.block.holder.identity,
                "verdict": plan.block.judgement.verdict.value,
                "strength": plan.block.judgement.strength.value if plan.block.judgement.strength else None,
                "because": plan.block.judgement.because,
                "plan": [entry.object.display for entry in entries],
                "kept": [entry.object.display for entry in plan.kept],
                "steps": [] if outcome is None else [_step(told) for told in outcome.told],
                "released": 0 if outcome is None else outcome.released,
                "left": [entry.object.display for entry in entries] if outcome is None else list(outcome.left),
                "stopped": None if outcome is None else outcome.stopped,
                "lease": None if outcome is None else outcome.lease,
            }
        )
    return encode_json(
        {
            "apiVersion": "fencectl.dev/v1",
            "kind": "RecoveryResult",
            "context": report.context,
            "server": report.server,
            "profile": report.profile,
            "observedAt": second_time(report.observed_at),
            "dryRun": not outcomes,
            "recoveries": items,
        }
    )


def _step(told: Told) -> dict[str, Any]:
    return {
        "order": told.order,
        "fence": told.fence,
        "result": told.result,
        "detail": told.detail,
        "at": second_time(told.at),
    }


def as_annotation(report: FenceReport, outcomes: Sequence[tuple[RecoveryPlan, Outcome]]) -> str:
    """One workflow command per recovery."""
    lines = []
    for plan, outcome in outcomes:
        kind = "notice" if outcome.stopped is None else "error"
        title = f"{label(report)}: {outcome.released} of {plan.total} fences released"
        body = [visible(plan.block.title), *(step(told) for told in outcome.told)]
        if outcome.stopped is not None:
            body += [
                f"stopped: {shown(outcome.stopped)}",
                *(f"still held: {visible(name)}" for name in outcome.left),
            ]
        lines.append(f"::{kind} title={workflow_property(title)}::{workflow_data(chr(10).join(body))}")
    return "".join(f"{line}\n" for line in lines)
