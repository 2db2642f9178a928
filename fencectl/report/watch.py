"""
What `--watch` shows: a frame on a terminal, one line per change elsewhere.

Pure: a state is folded over the reports as they come; the clock is the API server's, as in the reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from fencectl.core.report import FenceEntry, FenceReport
from fencectl.core.times import clock_text
from fencectl.report import words
from fencectl.report.escape import cut, log_safe, visible
from fencectl.report.style import PLAIN, Style
from fencectl.report.text import overview

Key = tuple[str, str, str]
"""Kind of fence, name and uid of the object: what makes a fence the same one in two reports."""


@dataclass(frozen=True, slots=True)
class Watched:
    """
    What is known of one cluster so far.

    `fences` keeps what an incomplete report does not show: a fence that could not be read is not released.
    """

    changed_at: datetime | None = None
    complete: bool | None = None
    fences: Mapping[Key, tuple[str, str]] = field(default_factory=dict)
    verdicts: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def step(before: Watched, report: FenceReport) -> tuple[Watched, list[str]]:
    """The new state, and one line for each thing that has changed since `before`."""
    fences = {_key(entry): (words.name_of(entry), _state(entry)) for entry in _shown(report)}
    verdicts = {block.holder.identity: (words.run_of(block), block.judgement.words) for block in report.blocks}
    if not report.complete:
        fences = {**before.fences, **fences}
        verdicts = {**before.verdicts, **verdicts}
    changes = list(_changes(before, report, fences, verdicts))
    changed_at = report.observed_at if changes else before.changed_at
    prefix = clock_text(report.observed_at, now=report.observed_at)
    label = words.label_of(report)
    # The sum names the cluster itself.
    told = words.held_sentence(report)
    lines = [log_safe(f"{prefix}  {'' if change == told else f'{label}: '}{change}") for change in changes]
    return Watched(changed_at, report.complete, fences, verdicts), lines


def _changes(
    before: Watched,
    report: FenceReport,
    fences: Mapping[Key, tuple[str, str]],
    verdicts: Mapping[str, tuple[str, str]],
) -> Iterator[str]:
    first = before.complete is None
    if first:
        yield words.held_sentence(report)
    elif report.complete and not before.complete:
        yield "the report is complete again"
    if not report.complete and (first or before.complete):
        for part in report.unreadable:
            yield f"INCOMPLETE: {visible(part.what)} could not be read: {cut(visible(part.why))}"
    for key, (name, state) in fences.items():
        old = before.fences.get(key)
        if old is None:
            yield f"{name} {state}"
        elif old[1] != state:
            yield f"{name} {state} (was: {old[1]})"
    for key, (name, _) in before.fences.items():
        if key not in fences:
            yield f"{name} is no longer fenced"
    for identity, (who, verdict) in verdicts.items():
        known = before.verdicts.get(identity)
        if known is None or known[1] != verdict:
            yield f"{who} {verdict}" + (f" (was: {known[1]})" if known else "")
    if not first and report.complete and before.fences and not report.held:
        yield words.held_sentence(report)


def _shown(report: FenceReport) -> tuple[FenceEntry, ...]:
    return (*report.held, *report.not_ours)


def _key(entry: FenceEntry) -> Key:
    return entry.kind.value, words.name_of(entry), entry.object.uid


def _state(entry: FenceEntry) -> str:
    if not entry.ours:
        return f"{words.now_of(entry)}, not ours, {words.by_whom(entry)}"
    holder = "" if entry.holder is None else f" by {cut(visible(entry.holder.title))}"
    phase = f", phase `{visible(entry.phase)}`" if entry.phase else ""
    return f"{words.now_of(entry)}{holder}{phase}"


def frame(
    reports: list[FenceReport], *, changed_at: datetime | None, verbs: frozenset[str], style: Style = PLAIN
) -> str:
    """The overviews without commands, and the footer; the caller clears the screen."""
    lines: list[str] = []
    for report in reports:
        lines += [*overview(report, style=style, verbs=verbs), ""]
    if reports:
        now = reports[-1].observed_at
        last = f"last change {clock_text(changed_at, now=now)}" if changed_at is not None else "no change yet"
        lines.append(style.dim(f"watching, {last}, ctrl-c ends"))
    return "".join(f"{log_safe(style.spelled(line))}\n" for line in lines)
