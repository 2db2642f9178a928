"""
The report as annotations of a workflow: one per holder, since a step shows ten.

Dead, incomplete or without a holder: an error; unknown, or a hold: a warning; live, or not ours: a notice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fencectl.core.errors import FencectlError
from fencectl.core.evidence import Strength, Verdict
from fencectl.core.report import FenceEntry, FenceReport, HolderBlock
from fencectl.report import words
from fencectl.report.escape import cut, log_safe, visible, workflow_data, workflow_property
from fencectl.report.hints import hint_for

# The runner cuts longer messages without a word.
_LIMIT = 4096
_LEVELS = ("error", "warning", "notice")
_OF_VERDICT = {Verdict.DEAD: "error", Verdict.UNKNOWN: "warning", Verdict.LIVE: "notice"}


def as_annotations(reports: Sequence[FenceReport], *, verbs: frozenset[str]) -> str:
    """Show reports as workflow commands, the worst first; a clean one as a line of plain text."""
    found: list[tuple[str, str, list[str]]] = []
    plain = []
    for report in reports:
        annotations = list(_annotations(report, verbs))
        found += annotations
        if report.complete and not report.held:
            counts = words.counts_of(report)
            plain.append(log_safe(f"{words.held_sentence(report)}, read at {words.read_at(report)}: {counts}"))
    found.sort(key=lambda one: _LEVELS.index(one[0]))
    lines = [*(_command(level, title, message) for level, title, message in found), *plain]
    return "".join(f"{line}\n" for line in lines)


def failed_annotation(failure: FencectlError) -> str:
    """A cluster of which nothing could be read, as an error."""
    reason = [cut(visible(failure.reason))] if failure.reason else []
    hint = [visible(failure.hint)] if failure.hint else []
    return f"{_command('error', 'report INCOMPLETE', [cut(visible(failure.sentence)), *reason, *hint])}\n"


def _command(level: str, title: str, message: Sequence[str]) -> str:
    text = "\n".join(message)
    if len(text) > _LIMIT:
        text = text[: _LIMIT - 20] + f"… (+{len(text) - _LIMIT + 20})"
    return f"::{level} title={workflow_property(title)}::{workflow_data(text)}"


def _annotations(report: FenceReport, verbs: frozenset[str]) -> Iterator[tuple[str, str, list[str]]]:
    label = words.label_of(report)
    if not report.complete:
        whys = [f"{visible(part.what)}: {cut(visible(part.why))}" for part in report.unreadable]
        hint = hint_for([report], verbs=verbs, commands=False)
        yield "error", f"{label}: report INCOMPLETE", [*whys, *([hint] if hint else [])]
    for block in report.blocks:
        number = words.count(len(block.entries), "fence")
        refused = f", {len(block.refused)} REFUSED" if block.refused else ""
        title = f"{label}: {number} held, {block.judgement.words}{refused}"
        yield _OF_VERDICT[block.judgement.verdict], title, _message(block, report, verbs)
    if report.unowned:
        number = words.count(len(report.unowned), "fence")
        lines = [f"{words.name_of(entry)}: {_why(entry)}" for entry in report.unowned]
        yield "error", f"{label}: {number} without a usable holder", lines
    if report.holds:
        number = words.count(len(report.holds), "hold")
        yield "warning", f"{label}: {number}", [_hold(entry) for entry in report.holds]
    if report.not_ours:
        are = "fence is" if len(report.not_ours) == 1 else "fences are"
        lines = [
            f"{words.name_of(entry)} {words.now_of(entry)} {words.by_whom(entry)} {_ago(entry)}".rstrip()
            for entry in report.not_ours
        ]
        yield "notice", f"{label}: {len(report.not_ours)} {are} not ours", lines


def _message(block: HolderBlock, report: FenceReport, verbs: frozenset[str]) -> list[str]:
    facts = [f"{fact.source.value} {cut(visible(fact.answer))}" for fact in block.judgement.evidence]
    lines = [words.run_of(block), *(facts or [visible(block.judgement.because)])]
    lines.append(words.listed(map(words.name_of, block.entries), limit=None))
    lines += [f"{words.name_of(entry)} REFUSED: {_why(entry)}" for entry in block.refused]
    lines += [
        f"{words.name_of(entry)} KEPT: {visible(entry.kept_because or '')}"
        for entry in block.entries
        if entry.kept
    ]
    url = words.run_url(block)
    if url is not None:
        lines.append(url)
    if block.judgement.verdict is Verdict.UNKNOWN and block.judgement.check is not None:
        lines.append(f"check: {visible(block.judgement.check)}")
    command = _release_command(block, report, verbs)
    return [*lines, f"release: {command}"] if command else lines


def _release_command(block: HolderBlock, report: FenceReport, verbs: frozenset[str]) -> str | None:
    if block.judgement.verdict is not Verdict.DEAD or not words.all_releasable(block):
        return None
    one_of_many = len(report.blocks) > 1
    more = ["--holder", words.holder_option(block)] if one_of_many else []
    if "recover" in verbs and block.judgement.strength is Strength.PROVEN and not report.unowned:
        # NB: under a hold only a person at a terminal recovers.
        return words.fencectl(report, "recover", *more, *([] if report.holds else ["--yes"]))
    return words.fencectl(report, "release", *more) if "release" in verbs else None


def _why(entry: FenceEntry) -> str:
    return visible(entry.refusal.why) if entry.refusal is not None else ""


def _hold(entry: FenceEntry) -> str:
    notes = "; ".join(visible(note) for note in entry.notes)
    held = "" if entry.age_s is None else f" for {words.held_for(entry)}"
    return f"{words.name_of(entry)}{held}" + (f": {notes}" if notes else "")


def _ago(entry: FenceEntry) -> str:
    return "" if entry.age_s is None else f"{words.held_for(entry)} ago"
