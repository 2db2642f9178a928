"""What a deploy of manifests would change, as a table and as data; shown before the first write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencectl.core.apply_plan import Change, What
from fencectl.core.diffing import FieldChange
from fencectl.report.escape import cut, visible
from fencectl.report.rollout import followed_object
from fencectl.report.words import count
from fencectl.run.applying import conflict_text
from fencectl.run.handing_over import Handed

_SIGNS = {
    What.CREATE: "+",
    What.CHANGE: "~",
    What.SAME: "=",
    What.UNTRIED: "?",
    What.CONFLICT: "!",
    What.REFUSED: "!",
    What.PRUNE: "-",
}
_SHOWN_FIELDS = 40


def summary(changes: Sequence[Change]) -> str:
    """How many would become what: 14 objects: 2 new, 1 changed, 11 as they are."""
    words = {
        What.CREATE: "new",
        What.CHANGE: "changed",
        What.UNTRIED: "not tried",
        What.CONFLICT: "in conflict",
        What.REFUSED: "refused",
        What.SAME: "as they are",
    }
    numbers = {what: sum(change.what is what for change in changes) for what in What}
    total = len(changes) - numbers[What.PRUNE]
    parts = [f"{numbers[what]} {word}" for what, word in words.items() if numbers[what]]
    pruned = f"; {numbers[What.PRUNE]} no longer rendered" if numbers[What.PRUNE] else ""
    return f"{count(total, 'object')}{': ' if parts else ''}{', '.join(parts)}{pruned}"


def table(changes: Sequence[Change], *, diff: bool, withheld: str | None) -> list[str]:
    """A line for each object that does not stay as it is, with its fields where `diff` asks for them."""
    shown = [change for change in changes if change.what is not What.SAME or change.left_out]
    width = max((len(visible(change.ref.display)) for change in shown), default=0)
    lines = []
    for change in shown:
        name = visible(change.ref.display)
        lines.append(f"  {_SIGNS[change.what]} {name:<{width}}  {_what(change, withheld)}".rstrip())
        if change.left_out:
            lines.append(f"      left out, a fence has it: {_safe(', '.join(change.left_out))}")
        if diff:
            lines += [f"      {_field(field)}" for field in change.fields[:_SHOWN_FIELDS]]
            if len(change.fields) > _SHOWN_FIELDS:
                lines.append(f"      … {len(change.fields) - _SHOWN_FIELDS} more")
    return lines


def _what(change: Change, withheld: str | None) -> str:
    match change.what:
        case What.CREATE:
            return "new"
        case What.CHANGE:
            return count(len(change.fields), "field")
        case What.SAME:
            return "as it is"
        case What.UNTRIED:
            return f"not tried: {_safe(change.why)}"
        case What.CONFLICT:
            return f"conflict: {_safe(conflict_text(change.conflicts))} ({_safe(change.where)})"
        case What.REFUSED:
            return f"refused: {_safe(change.why)} ({_safe(change.where)})"
        case What.PRUNE:
            return "no longer rendered: pruned" if withheld is None else "no longer rendered: prune withheld"


def _field(field: FieldChange) -> str:
    path = _safe(field.path)
    if field.before is None:
        return f"{path}: {_safe(str(field.after))} (new)"
    if field.after is None:
        return f"{path}: {_safe(field.before)} (removed)"
    return f"{path}: {_safe(field.before)} → {_safe(field.after)}"


def _safe(text: str) -> str:
    return visible(cut(text))


def as_data(changes: Sequence[Change], withheld: str | None, part: str | None = None) -> dict[str, Any]:
    """The event of the table, for JSON lines. `part`: which objects these are, where it is not those of step 8."""
    return {
        "type": "changes",
        **({} if part is None else {"part": part}),
        "summary": summary(changes),
        "pruneWithheld": withheld,
        "objects": [
            {
                "object": change.ref.display,
                "apiVersion": change.ref.api_version,
                "what": change.what.value,
                "manifest": change.where or None,
                "fields": [
                    {"path": field.path, "before": field.before, "after": field.after} for field in change.fields
                ],
                "conflicts": [{"manager": one.manager, "field": one.field} for one in change.conflicts],
                "why": change.why or None,
                "leftOut": list(change.left_out),
            }
            for change in changes
        ],
    }


def objects_data(handed: Handed | None) -> dict[str, object]:
    """What the result of a deploy says more, where it applied manifests or followed Flux."""
    if handed is None:
        return {}
    pruned = handed.pruned
    return {
        "objects": {
            "planned": handed.planned,
            "applied": len(handed.tally.made),
            "changed": handed.tally.changed,
            "pruned": [ref.display for ref in pruned.gone] if pruned else [],
            "pruneWithheld": pruned.withheld if pruned else None,
        },
        "followed": followed_object(handed.followed) if handed.followed is not None else None,
    }
