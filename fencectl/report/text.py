"""
The report for people: an overview that fits 80 columns, then the commands, then the sum and the next step.

The overview holds no command; the commands stand flush left after it, one physical line each, and are valid
shell with their comments. What goes to stdout and what to stderr is apart, so that either can be redirected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from fencectl.core.evidence import Source, Verdict
from fencectl.core.report import FenceReport, HolderBlock
from fencectl.core.times import clock_text
from fencectl.report import table, words
from fencectl.report.commands import zone
from fencectl.report.escape import cut, log_safe, visible
from fencectl.report.hints import hint_for, vouch_command
from fencectl.report.shell import Shell
from fencectl.report.style import PLAIN, WIDTH, Style, bare_cells, cells, wrap

_SKEW_TOLERATED_S = 2.0
_LABEL = 11


@dataclass(frozen=True, slots=True)
class TextOptions:
    """
    How the text is made.

    `verbs`: the verbs of fencectl that exist, so that no hint names another. `commands`: whether the second
    zone is wanted. `out` and `err`: how stdout and stderr are written.
    """

    verbs: frozenset[str]
    shell: Shell = Shell.POSIX
    explain: bool = False
    commands: bool = True
    out: Style = PLAIN
    err: Style = PLAIN


@dataclass(frozen=True, slots=True)
class Rendered:
    """What goes to stdout and what to stderr, each with its final line feed, or empty."""

    stdout: str
    stderr: str


def render(reports: Sequence[FenceReport], *, options: TextOptions) -> Rendered:
    """Show reports, in the order of the contexts as they were asked for."""
    style = options.out
    overviews = [overview(report, style=style, verbs=options.verbs) for report in reports]
    out = [*_parted(overviews)]
    zones = [
        zone(report, shell=options.shell, explain=options.explain, capitals=style.capitals)
        for report in reports
        if options.commands
    ]
    zones = [lines for lines in zones if lines]
    shown = [log_safe(style.spelled(line)) for line in out]
    # NB: a command is never respelled for a poorer terminal: it would be another command.
    shown += [line for lines in zones for line in ("", *lines)]
    err = _closing(reports, options=options, repeat=bool(zones))
    if err and zones:
        shown.append("")
    return Rendered(_text(shown), _text([log_safe(options.err.spelled(line)) for line in err]))


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _parted(parts: Sequence[Sequence[str]]) -> Iterator[str]:
    first = True
    for part in parts:
        if not part:
            continue
        if not first:
            yield ""
        yield from part
        first = False


def _closing(reports: Sequence[FenceReport], *, options: TextOptions, repeat: bool) -> list[str]:
    style = options.err
    lines: list[str] = []
    if repeat:
        for report in reports:
            lines += map(style.bold, wrap(words.held_sentence(report)))
    hint = hint_for(reports, verbs=options.verbs, commands=repeat)
    if hint is not None:
        lines += wrap(hint, first="hint: ", rest="      ")
    return lines


def overview(report: FenceReport, *, style: Style = PLAIN, verbs: frozenset[str]) -> list[str]:
    """The first zone: sum, holders with their evidence and tables, and what is not ours. No command in it."""
    vouching = partial(vouch_command, report) if "recover" in verbs else lambda _: None
    listing = partial(table.rows, style=style, verbs=verbs, vouching=vouching)
    parts: list[list[str]] = [_opening(report, style)]
    for block in report.blocks:
        parts += [_block(block, report, style), listing(block.entries)]
    if report.unowned:
        parts.append([style.red("without a usable holder: a person has to look"), *listing(report.unowned)])
    if report.holds:
        parts.append([style.bold("holds, lifted by hand"), *listing(report.holds)])
    if report.findings:
        parts.append(["found in the records, holding nothing", *listing(report.findings, header=False)])
    if report.not_ours and (report.held or not report.complete or len(report.not_ours) > 3):
        title = style.dim("not ours, never released by fencectl")
        parts.append([title, *listing(report.not_ours, header=False, quiet=True)])
    return [*_parted(parts)]


def _opening(report: FenceReport, style: Style) -> list[str]:
    empty = report.complete and not report.held
    sentence = words.opening(report)
    if empty and report.not_ours:
        number = len(report.not_ours)
        names = words.listed(
            f"{words.name_of(entry)} ({visible(entry.now)} {words.by_whom(entry)})" for entry in report.not_ours
        )
        sentence = f"{sentence} {number} {'is' if number == 1 else 'are'} not ours: {names}"
    if empty:
        # One sentence has no full stop; several do, but for the last.
        sentence = sentence if report.not_ours else sentence.removesuffix(".")
    lines = [style.capitals(line) if style.colour and not report.complete else style.bold(line)
             for line in wrap(sentence)]  # fmt: skip
    for part in report.unreadable:
        lines += _labelled(style.failed, visible(part.what), cut(visible(part.why)))
    counted = words.counts_of(report)
    if not report.complete and counted:
        lines += _labelled(style.good, "read", counted)
    if empty:
        lines += wrap(f"read at {words.read_at(report)}: {counted}")
    for note in report.notes:
        lines += wrap(visible(note), first=f"  {style.look} ", rest="    ")
    return lines


def _labelled(mark: str, label: str, text: str) -> list[str]:
    """A line with a mark: `  ✗ nodes    forbidden: …`; a long label gets a line of its own."""
    filled = 3 + bare_cells(mark) + cells(label)
    if filled < _LABEL + 2:
        return wrap(text, first=f"  {mark} {label}{' ' * (_LABEL + 2 - filled)}", rest=" " * (_LABEL + 2))
    return [f"  {mark} {label}", *wrap(text, first=" " * (_LABEL + 2), rest=" " * (_LABEL + 2))]


def _block(block: HolderBlock, report: FenceReport, style: Style) -> list[str]:
    lines = [style.bold(words.title_of(block))]
    lines += _field("holder", words.identity_of(block), dim=style)
    verdict = block.judgement.words
    shown = style.yellow(verdict) if block.judgement.verdict is Verdict.LIVE else verdict
    meaning = _meaning(block)
    lines += _field("verdict", f"{shown}: {meaning}" if meaning else shown)
    for fact in block.judgement.evidence:
        lines += _field(fact.source.value, cut(visible(fact.answer)))
    lines += _asked(block, report, style)
    if block.judgement.check is not None:
        lines += _command_field("check", visible(block.judgement.check))
    return lines


def _meaning(block: HolderBlock) -> str | None:
    verdict = block.judgement.verdict
    if verdict is Verdict.DEAD and words.all_releasable(block):
        return "every fence below can be released" if len(block.entries) > 1 else "the fence below can be released"
    if verdict is Verdict.LIVE and block.judgement.evidence:
        return None
    return visible(block.judgement.because)


def _field(label: str, text: str, *, dim: Style = PLAIN) -> list[str]:
    lines = wrap(text, first=f"  {label:<{_LABEL}}", rest=" " * (_LABEL + 2))
    return [dim.dim(line) for line in lines]


def _command_field(label: str, command: str) -> list[str]:
    """A command is never broken: too wide for its place, it gets a line of its own, flush left to be copied."""
    line = f"  {label:<{_LABEL}}{command}"
    return [line] if cells(line) <= WIDTH else [f"  {label:<{_LABEL}}by hand, with this:", command]


def _asked(block: HolderBlock, report: FenceReport, style: Style) -> list[str]:
    facts = [fact for fact in block.judgement.evidence if not fact.answer.startswith("not asked")]
    whom = dict.fromkeys(_whom(fact.source, block) for fact in facts)
    if not whom:
        return []
    at = max(fact.at for fact in facts)
    text = f"{' and '.join(whom)} at {clock_text(at, now=report.observed_at)}"
    # A larger one is among the report's notes.
    if report.skew_s is not None and abs(report.skew_s) <= _SKEW_TOLERATED_S:
        text += f", clock skew {abs(report.skew_s):.1f}s"
    return _field("asked", text, dim=style)


def _whom(source: Source, block: HolderBlock) -> str:
    if source is Source.PROCESS:
        return "this machine"
    if source in {Source.JOB, Source.RUN}:
        return words.github_api_of(block)
    return "the API server"
