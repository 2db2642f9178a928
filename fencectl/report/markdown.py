"""
The report as Markdown: for the summary of a CI step, an issue, or a chat that renders it.

Sum and next step are outside of `<details>`, evidence and commands inside. Foreign text is prose, or it stands in
a code span: no link, mention, HTML or further cell comes of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC

from fencectl.core.errors import FencectlError
from fencectl.core.report import FenceEntry, FenceReport, HolderBlock, NoRelease
from fencectl.core.times import clock_text
from fencectl.report import words
from fencectl.report.commands import zone
from fencectl.report.escape import code_span, cut, fence_for, html_inline, inline
from fencectl.report.hints import hint_for
from fencectl.report.shell import Shell

# What GitHub takes for the summary of one step; a larger one is dropped whole.
SUMMARY_LIMIT_BYTES = 1024 * 1024
_LANGUAGE = {Shell.POSIX: "sh", Shell.POWERSHELL: "powershell"}


def as_markdown(
    reports: Sequence[FenceReport],
    *,
    verbs: frozenset[str],
    shell: Shell = Shell.POSIX,
    explain: bool = False,
    commands: bool = True,
    limit_bytes: int = SUMMARY_LIMIT_BYTES,
) -> str:
    """
    Show reports as Markdown.

    Longer than `limit_bytes`, the commands are left out, and it is said: what would be dropped whole tells nobody.
    """
    whole = _document(reports, verbs, shell, explain=explain, commands=commands)
    if len(whole.encode()) <= limit_bytes or not commands:
        return whole
    note = "The release commands are left out here, since the report would be too long: see `fencectl fences`"
    return f"{_document(reports, verbs, shell, explain=explain, commands=False)}\n{note}\n"


def failed_part(failure: FencectlError) -> str:
    """A cluster of which nothing could be read, as a part of its own."""
    lines = [f"#### report INCOMPLETE: {inline(failure.sentence)}", "", "> [!CAUTION]"]
    lines.append(f"> {inline(cut(failure.reason or failure.sentence))}")
    return "".join(f"{line}\n" for line in ("", *lines))


def _document(
    reports: Sequence[FenceReport], verbs: frozenset[str], shell: Shell, *, explain: bool, commands: bool
) -> str:
    lines: list[str] = []
    for report in reports:
        lines += ["", *_one(report, verbs, shell, explain=explain, commands=commands)]
    return "".join(f"{line}\n" for line in lines[1:])


def _one(
    report: FenceReport, verbs: frozenset[str], shell: Shell, *, explain: bool, commands: bool
) -> Iterator[str]:
    yield f"#### {_title(report)}"
    at = report.observed_at.astimezone(UTC)
    yield ""
    yield f"Read {at:%Y-%m-%d %H:%M:%S} UTC: {inline(words.counts_of(report)) or 'nothing'}"
    if report.unreadable:
        yield from ("", "> [!CAUTION]", "> Could not be read:", ">")
        for part in report.unreadable:
            yield f"> - {inline(part.what)}: {inline(cut(part.why))}"
    for note in report.notes:
        yield from ("", "> [!WARNING]", f"> {inline(note)}")
    hint = hint_for([report], verbs=verbs, commands=False)
    if hint is not None:
        yield from ("", "> [!IMPORTANT]", f"> {_hint(hint)}")
    for block in report.blocks:
        yield from ("", *_block(block, report))
    for title, entries in (
        ("Without a usable holder: a person has to look", report.unowned),
        ("Holds, lifted by hand", report.holds),
        ("Found in the records, holding nothing", report.findings),
        ("Not ours, never released by fencectl", report.not_ours),
    ):
        if entries:
            after = "set by" if entries is report.not_ours else "after release"
            yield from ("", title, "", *_table(entries, report, after=after))
    if commands:
        yield from _commands(report, shell, explain=explain)


def _title(report: FenceReport) -> str:
    label = inline(report.label)
    if not report.complete:
        return f"{label}: report INCOMPLETE, {words.count(len(report.held), 'fence')} found elsewhere"
    if not report.held:
        return f"{label}: no fence is held"
    if report.unowned or report.holds:
        return f"{label}: {words.count(len(report.held), 'fence')} held"
    holders = words.count(len(report.blocks), "holder")
    return f"{label}: {words.count(len(report.held), 'fence')} held by {holders}, {words.verdicts(report.blocks)}"


def _hint(hint: str) -> str:
    # NB: the only address in a hint is that of a run, built from checked parts.
    head, found, url = hint.partition("https://")
    shown = inline(head)
    return f"{shown}<{found}{url}>" if found else f"{shown[:1].upper()}{shown[1:]}"


def _block(block: HolderBlock, report: FenceReport) -> Iterator[str]:
    url = words.run_url(block)
    who = words.run_of(block)
    holder = block.holder
    if url is not None:
        job = f", job {holder.job}" if holder.job is not None else ""
        yield f"[run {holder.run} attempt {holder.attempt}]({url}){job}: {block.judgement.words}"
    else:
        yield f"{inline(who)}: {block.judgement.words}"
    yield from ("", *_table(block.entries, report))
    facts = "; ".join(f"{fact.source.value} {cut(fact.answer)}" for fact in block.judgement.evidence)
    yield ""
    yield f"<details><summary>Evidence: {html_inline(facts or block.judgement.because)}</summary>"
    yield from ("", "| source | question | answer | at |", "| --- | --- | --- | --- |")
    for fact in block.judgement.evidence:
        at = clock_text(fact.at, now=report.observed_at)
        cells = (fact.source.value, fact.question, cut(fact.answer), at)
        yield f"| {' | '.join(inline(cell, cell=True) for cell in cells)} |"
    yield ""
    yield f"holder {code_span(words.identity_of(block))}, because {inline(block.judgement.because)}"
    if block.judgement.check is not None:
        yield from ("", f"check: {code_span(block.judgement.check)}")
    yield from ("", "</details>")


def _table(entries: Sequence[FenceEntry], report: FenceReport, *, after: str = "after release") -> Iterator[str]:
    yield f"| # | fence | now | {after} | held since (UTC) |"
    yield "| --: | --- | --- | --- | --- |"
    for entry in entries:
        name = words.name_of(entry)
        cells = (
            str(entry.order) if entry.order else "-",
            code_span(name, cell=True),
            inline(words.now_of(entry), cell=True),
            _after(entry),
            _since(entry, report),
        )
        yield f"| {' | '.join(cells)} |"


def _after(entry: FenceEntry) -> str:
    if not entry.ours:
        return inline(words.by_whom(entry).removeprefix("by "), cell=True)
    parts = []
    refusal = entry.refusal
    if refusal is not None and refusal.kind is NoRelease.WAITS:
        parts.append(refusal.short)
    elif refusal is not None:
        parts.append(f"{'REFUSED' if refusal.kind is NoRelease.REFUSED else 'none'}: {refusal.why}")
    elif entry.after:
        parts.append(entry.after)
    if entry.kept:
        parts.append(f"KEPT: {entry.kept_because or 'on purpose'}")
    parts += entry.notes
    return "; ".join(inline(part, cell=True) for part in parts)


def _since(entry: FenceEntry, report: FenceReport) -> str:
    if entry.since is None:
        return "unknown"
    at = clock_text(entry.since, now=report.observed_at).removesuffix("Z")
    return f"{at} ({words.held_for(entry)})"


def _commands(report: FenceReport, shell: Shell, *, explain: bool) -> Iterator[str]:
    lines = zone(report, shell=shell, explain=explain)
    if not lines:
        return
    number = len(report.releasable)
    first = "in this order; stop at the first that fails" if number > 1 else "as it stands"
    fence = fence_for("\n".join(lines))
    yield ""
    yield f"<details><summary>{words.count(number, 'release command')}, {first}</summary>"
    yield from ("", f"{fence}{_LANGUAGE[shell]}", *lines, fence, "", "</details>")
