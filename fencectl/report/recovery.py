"""A recovery in words and as data: its plan, its steps, its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencectl.core.evidence import Source
from fencectl.core.identity import parse_holder
from fencectl.core.outcome import Outcome, Told
from fencectl.core.recovery import RecoveryPlan
from fencectl.core.report import FenceEntry, FenceKind, FenceReport
from fencectl.core.times import age_text, clock_text, second_time
from fencectl.report.escape import cut, visible, workflow_data, workflow_property
from fencectl.report.machine import encode_json
from fencectl.report.style import Style, cells, pad, wrap
from fencectl.report.words import count, fencectl, label_of, listed, name_of, run_of


def label(report: FenceReport) -> str:
    """The cluster's name, made harmless."""
    return label_of(report)


def shown(text: str) -> str:
    """Foreign text, made harmless and cut."""
    return visible(cut(text))


def these(total: int) -> str:
    """Name a number of fences: `this fence`, `these 5 fences`."""
    return "this fence" if total == 1 else f"these {total} fences"


_STAYS = "stays cordoned"
_TAKEN_FROM = "taken over from "


def will_be(entry: FenceEntry) -> str:
    """What a release leads to, short enough for a row of the plan."""
    if entry.kind is FenceKind.LEASE:
        return "free"
    after = visible(entry.after or "released")
    return f"drop the mark, {after}" if after == _STAYS else after


def _is_now(told: Told) -> str:
    """How the fence is now, in words that fit a row."""
    match told.result:
        case "taken":
            return "taken over by this run" if told.detail.startswith(_TAKEN_FROM) else "taken by this run"
        case "handed-back":
            return "handed back as it was"
        case "already" if told.detail == "gone":
            return "gone already"
        case "released" if told.detail == _STAYS:
            return "mark gone, still cordoned"
        case _:
            return shown(told.detail)


def step_row(told: Told, *, width: int, style: Style) -> str:
    """One step on a terminal: a row under the last one. `width`: of the longest name."""
    number = f"{told.order}/{told.total}" if told.order else ""
    room = len(f"{told.total}/{told.total}")
    refused = told.result == "refused"
    # NB: why it was refused is said once, below.
    now = style.capitals("REFUSED") if refused else _is_now(told)
    mark = style.failed if refused else style.good
    return f"  {mark} {number:<{room}}  {pad(visible(told.fence), width)}  {now}".rstrip()


def step_line(told: Told) -> str:
    """One step in a log: when, what, and how the fence is now."""
    number = f"{told.order}/{told.total} " if told.order else ""
    return f"{clock_text(told.at, now=told.at)}  {number}{step(told)}"


def step(told: Told) -> str:
    """One step in words: what happened to which fence, and how it is now."""
    fence = visible(told.fence)
    match told.result:
        case "taken":
            whom = told.detail.removeprefix(_TAKEN_FROM) if told.detail.startswith(_TAKEN_FROM) else None
            return f"{fence} taken over from {shown(parse_holder(whom).title)}" if whom else f"{fence} taken"
        case "handed-back":
            return f"{fence} handed back, as it was before"
        case "refused":
            return f"REFUSED {fence}"
        case "freed" if not told.order:
            return f"{fence} free again"
        case "already":
            return f"already released {fence} ({shown(told.detail)})"
        case _:
            return f"released {fence} ({_is_now(told)})"


def entries_of(plan: RecoveryPlan) -> list[FenceEntry]:
    """Everything that a plan releases, in order."""
    return [*plan.going, *([plan.lease.entry] if plan.lease.entry is not None else [])]


def widest(plan: RecoveryPlan) -> int:
    """How wide the longest name of a plan is."""
    names = [entry.object.display for entry in (*entries_of(plan), *plan.kept)]
    lease = f"lease/{plan.lease.namespace}/{plan.lease.name}"
    return max(cells(visible(name)) for name in (*names, lease))


def plan_lines(report: FenceReport, plan: RecoveryPlan) -> list[str]:
    """The plan of a dry run: what would be released, in order."""
    block = plan.block
    whose = f"{count(plan.total, 'fence')} of {run_of(block)} on {label(report)}"
    lines = wrap(f"would release {whose}: {block.judgement.words}")
    names = [visible(entry.object.display) for entry in (*entries_of(plan), *plan.kept)]
    width = max(map(cells, names), default=0)
    room = len(f"{plan.total}/{plan.total}")
    for number, entry in enumerate(entries_of(plan), 1):
        lines.append(
            f"  {f'{number}/{plan.total}':<{room}}  {pad(visible(entry.object.display), width)}  {will_be(entry)}"
        )
    lines += [
        f"  {'-':<{room}}  {pad(visible(entry.object.display), width)}  KEPT, left alone" for entry in plan.kept
    ]
    return lines


def tried_lines(outcome: Outcome, *, style: Style) -> list[str]:
    """What the API server said to the patches of a plan, which it tried and did not store."""
    if outcome.stopped is None:
        return [f"{style.good} the API server would take each of its patches now"]
    return wrap(f"the API server would refuse: {shown(outcome.stopped)}", first=f"{style.failed} ", rest="  ")


def to_act_on(report: FenceReport) -> tuple[Any, ...]:
    """
    What a recovery goes by, without ages and times: two looks that agree in it show the same.

    A person who has read one of them has read what is about to be done.
    """
    return (
        report.complete,
        tuple((block.key, block.judgement.words, tuple(map(_acted_on, block.entries))) for block in report.blocks),
        tuple(map(_acted_on, (*report.unowned, *report.holds))),
    )


def _acted_on(entry: FenceEntry) -> tuple[Any, ...]:
    why = entry.refusal.kind if entry.refusal is not None else None
    body = entry.release.patch.body if entry.release is not None else None
    return entry.object, entry.order, name_of(entry), entry.now, entry.after, entry.kept, why, body


def heartbeat_lines(report: FenceReport, plans: Sequence[RecoveryPlan], window_s: float) -> list[str]:
    """What came of the watch, as a line of each block."""
    whose = {id(block) for block in report.blocks}
    lines: list[str] = []
    for plan in plans:
        facts = [fact for fact in plan.block.judgement.evidence if fact.source is Source.HEARTBEAT]
        answer = visible(cut(facts[0].answer)) if facts else "none"
        if not answer.startswith("watched "):
            answer = f"watched for {age_text(window_s)}: nothing has changed"
        who = f"{run_of(plan.block)}: " if len(whose) > 1 else ""
        lines += wrap(f"{who}{answer}", first=f"  {'heartbeat':<11}", rest=" " * 13)
    return lines


def ending(
    report: FenceReport,
    plan: RecoveryPlan,
    outcome: Outcome,
    *,
    style: Style,
    took_s: float | None = None,
    free: bool = False,
) -> list[str]:
    """What is so now, why, and the next step. `free`: nothing else keeps a deploy from starting."""
    where = label(report)
    if outcome.stopped is None:
        took = (
            "" if took_s is None else f" in {max(took_s, 0.1):.1f}s" if took_s < 60 else f" in {age_text(took_s)}"
        )
        left = f"; {count(len(plan.kept), 'fence')} KEPT on purpose" if plan.kept else ""
        also = "; deploys can start again" if free else ""
        sentence = f"released {outcome.released} of {plan.total + outcome.late} on {where}{took}{left}{also}"
        return wrap(style.capitals(sentence), first=f"{style.good} ", rest="  ")
    if outcome.wrote or outcome.unresolved:
        still = style.capitals(f"{count(len(outcome.left), 'fence')} STILL HELD")
        sum_line = f"stopped on {where}: {outcome.released} released, {still}"
    else:
        sum_line = style.bold(f"nothing was released on {where}")
    lines = [f"{style.failed} {sum_line}"]
    lines += wrap(shown(outcome.stopped), first="reason: ", rest=" " * 8)
    lines += [f"  still held: {visible(name)}" for name in outcome.left]
    if outcome.unresolved:
        lines.append("a write was sent of which nobody can say what came of it")
    if outcome.lease == "lost":
        lines.append("the lease is in somebody else's hands now")
    again = f"`{fencectl(report, 'recover')}` again takes every fence as it is now"
    return [*lines, *wrap(visible(outcome.hint) if outcome.hint else again, first="hint: ", rest=" " * 6)]


def left_beside(report: FenceReport, plans: Sequence[RecoveryPlan]) -> list[FenceEntry]:
    """The fences of a report that these plans do not release."""
    released = {entry.object for plan in plans for entry in entries_of(plan)}
    return [entry for entry in report.held if entry.object not in released]


def beside_lines(report: FenceReport, plans: Sequence[RecoveryPlan]) -> list[str]:
    """What is held besides, which no recovery releases: a deploy meets it next."""
    kept = {entry.object for plan in plans for entry in plan.kept}
    left = [entry for entry in left_beside(report, plans) if entry.object not in kept]
    if not left:
        return []
    held = (
        f"{count(len(left), 'more fence')} {'is' if len(left) == 1 else 'are'} held: {listed(map(name_of, left))}"
    )
    return [*wrap(held), *wrap(f"`{fencectl(report, 'fences')}` shows whose", first="hint: ", rest=" " * 6)]


def as_json(
    report: FenceReport,
    plans: Sequence[RecoveryPlan],
    outcomes: Sequence[Outcome],
    *,
    tried: Sequence[Outcome] = (),
) -> str:
    """
    The result as data; without outcomes it is the plan of a dry run.

    `tried`: what the API server said to the patches of a plan, where a dry run asked it.
    """
    items = []
    for number, plan in enumerate(plans):
        outcome = outcomes[number] if number < len(outcomes) else None
        entries = entries_of(plan)
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
                "rehearsal": None
                if number >= len(tried)
                else {"accepted": tried[number].stopped is None, "refused": tried[number].stopped},
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
        title = f"{label(report)}: {outcome.released} of {plan.total + outcome.late} fences released"
        body = [visible(plan.block.title), *(step(told) for told in outcome.told)]
        if outcome.stopped is not None:
            body += [
                f"stopped: {shown(outcome.stopped)}",
                *(f"still held: {visible(name)}" for name in outcome.left),
            ]
        lines.append(f"::{kind} title={workflow_property(title)}::{workflow_data(chr(10).join(body))}")
    return "".join(f"{line}\n" for line in lines)
