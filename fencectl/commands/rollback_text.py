"""What is said of a restore: what it would do, what came of it, and what runs now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fencectl.core.diffing import HIDDEN, value_text
from fencectl.core.restore import Doing, FieldBack, Restoration
from fencectl.core.restored import Restored, RestoreVerdict
from fencectl.core.times import age_text, span_text
from fencectl.report.escape import cut, visible
from fencectl.report.rollout import followed_object
from fencectl.report.style import Style, wrap
from fencectl.report.words import count, quoted
from fencectl.run.stage import Result

_SIGNS = {Doing.PATCH: "~", Doing.CREATE: "+", Doing.NEW: "=", Doing.LEFT: "!"}
_SHOWN_FIELDS = 40
_SHOWN_OBJECTS = 10


def _safe(text: str) -> str:
    return visible(cut(text))


def summary(restorations: Sequence[Restoration]) -> str:
    """How many would become what: 14 objects: 2 to go back, 11 as they were, 1 left."""
    words = {
        Doing.PATCH: "to go back",
        Doing.CREATE: "to be made again",
        Doing.NOTHING: "as they were",
        Doing.NEW: "new, and staying",
        Doing.LEFT: "left as they are",
    }
    numbers = {doing: sum(one.doing is doing for one in restorations) for doing in Doing}
    parts = [f"{numbers[doing]} {word}" for doing, word in words.items() if numbers[doing]]
    return f"{count(len(restorations), 'object')}: {', '.join(parts)}"


def table(restorations: Sequence[Restoration]) -> list[str]:
    """A line for each object that does not stay as it is, with its fields."""
    told = [one for one in restorations if one.doing is not Doing.NOTHING]
    width = max((len(visible(one.ref.display)) for one in told), default=0)
    lines = []
    for one in told:
        lines.append(f"  {_SIGNS[one.doing]} {visible(one.ref.display):<{width}}  {_what(one)}".rstrip())
        lines += [f"      {_field(one, field)}" for field in one.fields[:_SHOWN_FIELDS]]
        if len(one.fields) > _SHOWN_FIELDS:
            lines.append(f"      … {len(one.fields) - _SHOWN_FIELDS} more")
    return lines


def _what(one: Restoration) -> str:
    match one.doing:
        case Doing.PATCH:
            paused = ", but it is paused and does not roll out" if one.paused else ""
            return f"{count(len(one.fields), 'field')}{paused}"
        case Doing.CREATE:
            return "was deleted since: made again"
        case Doing.NEW:
            return "was not there before: stays, nothing is deleted"
        case _:
            return f"left as it is: {_safe(one.why)}"


def _field(one: Restoration, field: FieldBack) -> str:
    hide = hidden(one, field)
    now, before = (value_text(value, hide=hide) for value in (field.now, field.before))
    path = _safe(field.path)
    if field.now is None:
        return f"{path}: {_safe(before)} (again)"
    if field.before is None:
        return f"{path}: {_safe(now)} (removed)"
    return f"{path}: {_safe(now)} → {_safe(before)}"


def hidden(one: Restoration, field: FieldBack) -> bool:
    """Whether the values of a field are nobody's business: a Secret's, or a copy of the whole object."""
    secret = one.ref.kind == "Secret" and not one.ref.group
    return (secret and not field.path.startswith("metadata")) or "last-applied-configuration" in field.path


def restorations_data(restorations: Sequence[Restoration]) -> list[dict[str, Any]]:
    """The table as data."""
    return [
        {
            "object": one.ref.display,
            "apiVersion": one.ref.api_version,
            "what": one.doing.value,
            "fields": [
                {
                    "path": field.path,
                    "now": HIDDEN if hidden(one, field) else field.now,
                    "before": HIDDEN if hidden(one, field) else field.before,
                }
                for field in one.fields
            ],
            "why": one.why or None,
        }
        for one in restorations
    ]


def restored_data(result: Result) -> dict[str, Any]:
    """What the result of a run tells of a rollback; empty where none was begun or owed."""
    restored = result.rolled_back
    owed = {"rollbackOwed": True} if result.rollback_owed else {}
    if restored is None:
        return owed
    return owed | {
        "rollback": {
            "undoes": restored.generation,
            "back": restored.back,
            "verdict": restored.verdict.value,
            "why": restored.why,
            "changed": [ref.display for ref in restored.done],
            "made": [ref.display for ref in restored.made],
            "unchanged": restored.unchanged,
            "left": [{"object": one.ref.display, "why": one.why} for one in restored.left],
            "new": [ref.display for ref in restored.new],
            "unresolved": [ref.display for ref in restored.unresolved],
            "tookSeconds": round(restored.took_s, 3),
            "followed": followed_object(restored.followed) if restored.followed is not None else None,
        }
    }


def is_back(result: Result) -> bool:
    """Whether what ran before runs again."""
    return result.rolled_back is not None and result.rolled_back.is_back


def now_lines(result: Result, label: str, what_ran: Callable[[Result], str]) -> list[str]:
    """
    What runs now, as far as it is known: what was put back, or what a deploy may have left.

    `label`: escaped already; `what_ran`: says the latter. What `rollback` alone leaves is told by its own lines.
    """
    restored = result.rolled_back
    if restored is not None and restored.is_back:
        return [f"now     {label} runs {back_text(restored)} again"]
    is_own = restored is None or restored.generation == result.generation
    return [f"now     {what_ran(result)}"] if result.applied and is_own else []


def back_text(restored: Restored) -> str:
    """What runs again, with its revision: generation 41 (c01d33fe)."""
    revision = f" ({visible(restored.back_revision)})" if restored.back_revision else ""
    return f"{restored.what}{revision}"


def rollback_lines(result: Result, label: str, style: Style) -> list[str]:
    """
    What came of a rollback: whether it is back, what is not, what stays. `label`: escaped already.

    Empty where none was begun or owed.
    """
    restored, context = result.rolled_back, f"--context {quoted(label)}"
    lines = []
    if restored is not None:
        took, budget = age_text(restored.took_s), span_text(restored.budget_s)
        if restored.is_back:
            how_many = count(restored.objects, "object")
            lines.append(
                f"rollback  {style.good} {restored.what} is back after {took} (own budget {budget}): {how_many}"
            )
        else:
            lines.append(f"rollback  {style.failed} {_ended(restored)} after {took} (own budget {budget})")
            lines += wrap(_safe(restored.why or ""), first="        ", rest="        ")
        lines += _named([(one.ref.display, one.why) for one in restored.left], "left as it is")
        lines += _named(
            [(ref.display, "") for ref in restored.unresolved], "nobody can say whether it was changed"
        )
        lines += _named(
            [(ref.display, "") for ref in restored.new], "was not there before: it stays, nothing is deleted"
        )
    if restored is None and result.not_rolled_back is not None:
        lines += wrap(
            f"not begun: {_safe(result.not_rolled_back)}", first=f"rollback  {style.look} ", rest="        "
        )
    if result.rollback_owed:
        lines.append(f"rollback  {style.look} owed: an interrupt ends or never begins one; this puts it back:")
        lines.append(f"          fencectl rollback {result.generation} {context}")
    return lines


def _ended(restored: Restored) -> str:
    what = restored.what
    match restored.verdict:
        case RestoreVerdict.NO_PREVIOUS:
            return "there is no previous good state: nothing was changed"
        case RestoreVerdict.SUPERSEDED:
            return f"{what} was not put back: nothing was changed"
        case RestoreVerdict.PARTIAL:
            changed = count(len(restored.touched), "object")
            return f"{what} is not wholly back: {changed} of {restored.objects} changed"
        case RestoreVerdict.UNKNOWN:
            return f"nobody can say whether {what} is back"
        case _:
            return f"{what} is not back: nothing was changed"


def _named(found: Sequence[tuple[str, str]], what: str) -> list[str]:
    lines = []
    for name, why in found[:_SHOWN_OBJECTS]:
        text = f"{visible(name)} {what}{f': {_safe(why)}' if why else ''}"
        lines += wrap(text, first="        ", rest="          ")
    if len(found) > _SHOWN_OBJECTS:
        lines.append(f"        … and {len(found) - _SHOWN_OBJECTS} more")
    return lines
