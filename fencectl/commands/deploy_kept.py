"""What a deploy says of the suspensions that it keeps on purpose: which, why, and the two ways on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from fencectl.core.placements import applier_of
from fencectl.report.commands import NotPrintableError, Where, as_kubectl
from fencectl.report.escape import cut, visible
from fencectl.report.style import Style, wrap
from fencectl.report.words import count, quoted
from fencectl.run.fencing import Fence
from fencectl.run.keeping import Kept
from fencectl.run.left import in_release_order, release_of


def kept_lines(kept: Kept, label: str, style: Style) -> list[str]:
    """Say it in the result; the commands follow the last line. Nothing where nothing is kept."""
    fences = in_release_order(kept.fences)
    lines = []
    if fences:
        verb = "is" if len(fences) == 1 else "are"
        lines.append(f"now     {count(len(fences), 'fence')} {verb} {style.capitals('KEPT')} on purpose:")
        lines += wrap(f"{_names(fences)}, suspended", first="        ", rest="        ")
        for reason in dict.fromkeys(fence.journal.reason or "" for fence in fences):
            lines += wrap(f"{visible(cut(reason))}; Flux would apply it again", first="reason: ", rest="        ")
    if kept.before:
        names = ", ".join(visible(ref.display) for ref in kept.before)
        lines += wrap(f"as before this deploy, {names}", first="now     ", rest="        ")
        lines[-1] += f": {style.capitals('KEPT')} on purpose"
    if lines:
        adopt = "merge the fix or the revert first, then `fencectl deploy --adopt-kept`"
        shows = f"`fencectl fences --context {quoted(label)}` shows how to resume"
        or_ = shows if kept.before else _resume(fences)
        lines += wrap(f"{adopt}, or {or_}", first="hint: ", rest="      ")
    return lines


def _names(fences: Sequence[Fence]) -> str:
    names = [visible(fence.seen.ref.display) for fence in fences]
    if len(fences) == 2 and _is_parent(fences[1], fences[0]):
        return f"{names[0]} and its parent {visible(fences[1].seen.ref.name)}"
    return ", ".join(names)


def _resume(fences: Sequence[Fence]) -> str:
    if len(fences) == 1:
        return "resume it:"
    if len(fences) == 2 and _is_parent(fences[1], fences[0]):
        return "resume both, child first (the parent's line follows this one):"
    return f"resume all {len(fences)}, in this order:"


def _is_parent(parent: Fence, child: Fence) -> bool:
    ref = parent.seen.ref
    return ref.kind == "Kustomization" and applier_of(child.seen.raw) == (ref.namespace, ref.name)


def kept_commands(kept: Kept, where: Where, *, now: datetime) -> list[str]:
    """The commands that resume what is kept, child first, up to the first that no line would run as."""
    commands: list[str] = []
    for fence in in_release_order(kept.fences):
        patch = release_of(fence, now=now)
        try:
            if patch is None:
                break
            commands.append(as_kubectl(patch, where))
        except NotPrintableError:
            break
    return commands


def kept_data(kept: Kept) -> dict[str, object]:
    """What the result says of it as data; nothing where nothing is kept."""
    own = [
        {"object": fence.seen.ref.display, "reason": fence.journal.reason}
        for fence in in_release_order(kept.fences)
    ]
    before = [ref.display for ref in kept.before]
    return ({"kept": own} if own else {}) | ({"keptBefore": before} if before else {})
