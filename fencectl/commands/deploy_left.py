"""What a deploy leaves fenced, as its last words: the names with the reasons, and what releases them."""

from __future__ import annotations

from datetime import datetime

from fencectl.report.commands import NotPrintableError, Where, as_kubectl
from fencectl.report.escape import cut, visible
from fencectl.report.style import WIDTH, Style, wrap
from fencectl.report.words import count, quoted
from fencectl.run.left import patches_left
from fencectl.run.stage import Result


def left_lines(result: Result, lease: str, label: str, style: Style) -> list[str]:
    """
    Every fence that is left, and why; nothing where none is.

    `lease`: `NAMESPACE/NAME`; `label`: of the target, escaped already.
    """
    unwound = result.unwound
    if unwound is None:
        return []
    names = [(one.fence.seen.ref.display, one.why) for one in unwound.left]
    names += [(fence.seen.ref.display, "waits for those above") for fence in unwound.waiting]
    told = {name for name, _ in names}
    unresolved = [name for name in result.unresolved if name not in told]
    names += [(name, "nobody can say whether it was fenced") for name in unresolved]
    if result.lease_kept:
        names.append((f"lease/{lease}", "it keeps other deploys out until the rest is released"))
    if not names:
        return []
    width = max(len(visible(name)) for name, _ in names)
    return [
        f"{style.failed} {count(len(names), 'fence')} {style.capitals('STILL HELD')} on {label}",
        *(line for name, why in names for line in _row(visible(name), visible(cut(why)), width)),
        f"hint: fencectl runbook still-fenced --context {quoted(label)}",
    ]


def commands_left(result: Result, where: Where, *, now: datetime) -> list[str]:
    """The releases of what is left, up to the first that no line would run as."""
    commands: list[str] = []
    for patch in patches_left(result, now=now):
        try:
            commands.append(as_kubectl(patch, where))
        except NotPrintableError:
            break
    return commands


def reasons(result: Result) -> list[str]:
    """Why a deploy ended as it did, without what its sentence has said already."""
    lines, told = list[str](), result.lost.sentence if result.lost is not None else "interrupted"
    for text in (result.cause, result.reason):
        if text and not text.startswith(told) and (result.lost is None or text != result.lost.reason):
            lines += wrap(visible(cut(text)), first="reason: ", rest="        ")
    return lines


def _row(name: str, why: str, width: int) -> list[str]:
    """A name and what there is to say of it, beside it or, where that is too long, below."""
    beside = f"  {name:<{width}}  {why}"
    return [beside] if len(beside) <= WIDTH else [f"  {name}", *wrap(why, first="    ", rest="    ")]
