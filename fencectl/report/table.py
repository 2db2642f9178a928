"""The table of fences: one row each in release order, the reason right below where one cannot be released."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fencectl.core.report import FenceEntry, FenceKind, NoRelease
from fencectl.report.escape import visible
from fencectl.report.style import PLAIN, WIDTH, Style, cells, pad, wrap
from fencectl.report.words import by_whom, held_for, name_of, names_only, now_of

_NUMBER = 3
_GAP = 2
_NOW = 9
_AFTER = 14
# What the column may take of the names without asking how long they are.
_SPARE = 6
_HELD = 6
_BELOW = " " * (_NUMBER + _GAP)
_COMMANDS = ("fencectl ", "kubectl ", "gh ")
# In these rows the column itself says why: `none: live`, `none: nodes`, `none: hold`, `waits for 1`.
_TOLD_IN_THE_ROW = frozenset(NoRelease) - {NoRelease.REFUSED, NoRelease.FRESH}


def rows(
    entries: Sequence[FenceEntry],
    *,
    verbs: frozenset[str],
    style: Style = PLAIN,
    header: bool = True,
    quiet: bool = False,
    vouching: Callable[[FenceEntry], str | None] = lambda _: None,
) -> list[str]:
    """
    The rows, with a header if asked for; `quiet` dims them. `vouching`: the command of who has checked a fence.

    All rows are shown, always: what is cut from this table is a fence that nobody releases.
    """
    now_width = max(_NOW, *(cells(now_of(entry)) for entry in entries))
    after_width, held_width = _widths(entries, now_width)
    name_width = WIDTH - _NUMBER - held_width - now_width - after_width - 4 * _GAP
    lines: list[str] = []
    if header:
        released = any(_speaks_of_release(entry) for entry in entries)
        title = "AFTER RELEASE" if released else "RELEASE"
        fence = f"{style.bold('FENCE')}{' ' * (name_width - 5)}"
        lines.append(f"  #  {fence}  {'NOW':<{now_width}}  {title:<{after_width}}  HELD")
    told: set[str] = set()
    for entry in entries:
        number = f"{entry.order:>{_NUMBER}}" if entry.order else f"{'-':>{_NUMBER}}"
        name = name_of(entry)
        row = f"{pad(now_of(entry), now_width)}  {_fitted(entry, after_width, style)}  {held_for(entry)}"
        shown = name if quiet else style.bold(name)
        if cells(name) <= name_width:
            lines.append(f"{number}  {shown}{' ' * (name_width - cells(name))}  {row}")
        else:
            # NB: an object's name is never cut; it gets a line of its own.
            lines += [f"{number}  {shown}", f"{_BELOW}{' ' * name_width}  {row}"]
        if quiet and style.colour:
            lines[-1] = style.dim(lines[-1])
        lines += _below(entry, after_width, told=told, verbs=verbs, style=style)
        command = vouching(entry)
        if command is not None:
            lines += [f"{_BELOW}then vouch for it:", f"{_BELOW}{visible(command)}"]
    return lines


def _widths(entries: Sequence[FenceEntry], now_width: int) -> tuple[int, int]:
    """How wide the last two columns are; the third may take what the names of all rows leave."""
    needed = max(_AFTER, *(cells(_after(entry)) for entry in entries))
    if needed <= _AFTER + _SPARE:
        return needed, _HELD
    held = max(cells(held_for(entry)) for entry in entries)
    name = max(cells(name_of(entry)) for entry in entries)
    if needed <= WIDTH - _NUMBER - held - now_width - name - 4 * _GAP:
        return needed, held
    return _AFTER + _SPARE, _HELD


def _speaks_of_release(entry: FenceEntry) -> bool:
    refusal = entry.refusal
    return entry.release is not None or (
        refusal is not None and refusal.kind in {NoRelease.REFUSED, NoRelease.WAITS}
    )


def _after(entry: FenceEntry) -> str:
    if not entry.ours:
        return by_whom(entry)
    if entry.refusal is not None:
        return visible(entry.refusal.short)
    return visible(entry.after or "")


def _fitted(entry: FenceEntry, width: int, style: Style) -> str:
    text = _after(entry)
    if cells(text) > width:
        text = "see below"
    return style.capitals(pad(text, width))


def _below(entry: FenceEntry, width: int, *, told: set[str], verbs: frozenset[str], style: Style) -> list[str]:
    lines: list[str] = []
    if cells(_after(entry)) > width:
        lines += wrap(_after(entry), first=_BELOW, rest=_BELOW)
    if entry.kept:
        because = f": {visible(entry.kept_because)}" if entry.kept_because else " on purpose"
        lines += map(style.capitals, wrap(f"KEPT{because}", first=_BELOW, rest=_BELOW))
    refusal = entry.refusal
    if refusal is not None and refusal.kind not in _TOLD_IN_THE_ROW:
        why = visible(refusal.why)
        if refusal.kind is NoRelease.REFUSED or why not in told:
            lines += wrap(why, first=_BELOW, rest=_BELOW)
        told.add(why)
    for line in refusal.advice if refusal is not None else ():
        # A later verb's advice waits until that verb exists.
        if names_only(verbs, line):
            lines += _advice(visible(line))
    for note in entry.notes:
        # What a hold says of itself is its content, not a warning beside it; that it is overdue is one.
        content = entry.kind in {FenceKind.HOLD, FenceKind.RECORD} and not note.startswith("overdue ")
        mark = "" if content else f"{style.look} "
        lines += wrap(visible(note), first=f"{_BELOW}{mark}", rest=f"{_BELOW}{'  ' if mark else ''}")
    return lines


def _advice(line: str) -> list[str]:
    if line.startswith(_COMMANDS):
        # A command that runs as it stands is not broken.
        return [f"{_BELOW}{line}"]
    return wrap(line, first=_BELOW, rest=_BELOW)
