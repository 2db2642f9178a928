"""
What the records of a target say of its state: which deploy runs, and what a rollback may put back. Pure.

A record tells how a deploy ended by its exit code; one without an end may have changed anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fencectl.core.errors import ExitCode
from fencectl.core.identity import parse_holder
from fencectl.core.records import decode_entry
from fencectl.core.recovery_point import Summary, read_summary
from fencectl.core.refs import dig, text_or_none
from fencectl.core.times import parse_time

# Exit codes after which the target may be another one than before.
_MAY_HAVE_CHANGED = frozenset(
    {
        ExitCode.OK,
        ExitCode.UNEXPECTED,
        ExitCode.STILL_FENCED,
        ExitCode.LEASE_LOST,
        ExitCode.OUTCOME_UNKNOWN,
        ExitCode.FAILED_NEW_STATE_LIVE,
    }
)


@dataclass(frozen=True, slots=True)
class Past:
    """
    One record. `outcome` None: it has not ended. `point`: its recovery point, as it tells of it.

    `undoes`: the generation that it rolled back, where it was a rollback; `is_back`: whether that has succeeded.
    """

    generation: int
    holder: str | None
    outcome: str | None
    code: int | None
    ended_at: datetime | None
    point: Summary | None
    undoes: int | None = None
    is_back: bool = False

    @property
    def title(self) -> str:
        """The run, as messages call it."""
        return parse_holder(self.holder).title if self.holder else "nobody knows who"

    @property
    def revision(self) -> str | None:
        """The revision that its holder names, cut to 8 characters; None where it names none."""
        found = parse_holder(self.holder).revision if self.holder else None
        return found[:8] if found and found.strip("0") else None

    @property
    def may_have_changed(self) -> bool:
        """Whether the target may be another one since than it was before."""
        if self.outcome is None or self.code is None:
            return True
        if self.undoes == self.generation and self.is_back:
            return False
        return self.code in _MAY_HAVE_CHANGED


def read_past(data: Mapping[str, str]) -> dict[int, Past]:
    """Read the records among the entries of a record ConfigMap, by generation; newest first."""
    found: dict[int, Past] = {}
    for key, text in data.items():
        number = key.removeprefix("record-")
        if key.startswith("record-") and number.isascii() and number.isdecimal() and len(number) < 19:
            found[int(number)] = _read(int(number), decode_entry(text)[0])
    return dict(sorted(found.items(), reverse=True))


def _read(generation: int, value: Mapping[str, Any]) -> Past:
    code, undoes = value.get("code"), dig(value, "rollback", "undoes")
    return Past(
        generation,
        text_or_none(value.get("holder")),
        text_or_none(value.get("outcome")),
        code if type(code) is int else None,
        parse_time(value.get("endedAt")),
        read_summary(value.get("recovery")),
        undoes if type(undoes) is int else None,
        dig(value, "rollback", "verdict") == "back",
    )


def ran_before(past: Mapping[int, Past], generation: int) -> Past | None:
    """The deploy whose result ran before a generation began; None where no record can tell."""
    below = sorted((one for one in past if one < generation), reverse=True)
    skip_to: int | None = None
    for number in below:
        one = past[number]
        if skip_to is not None and number >= skip_to:
            continue
        if one.undoes is not None and one.undoes != number and one.is_back:
            # NB: what a rollback put back is what ran before the deploy that it undid.
            skip_to = one.undoes
            continue
        if one.outcome == "deployed":
            return one
        if one.may_have_changed:
            return None
    return None


def changed_since(past: Mapping[int, Past], generation: int) -> Past | None:
    """The newest later deploy that has changed the target and is not undone again; None where there is none."""
    return next((one for one in _changes(past) if one.generation > generation), None)


def newest_with_point(past: Mapping[int, Past]) -> Past | None:
    """
    What `rollback` undoes where no generation is named: the newest deploy that may have changed the target.

    None where there is none, or where that one has no recovery point: an older one is not undone instead of it.
    """
    newest = next(_changes(past), None)
    return newest if newest is not None and newest.point is not None else None


def _changes(past: Mapping[int, Past]) -> Iterator[Past]:
    """
    The deploys that may have changed the target and are not undone, newest first.

    NB: a rollback by itself is none of them: what it has not brought back is still the change of what it undoes.
    """
    undone: set[int] = set()
    for number in sorted(past, reverse=True):
        one = past[number]
        if one.undoes is not None and one.undoes != number:
            if one.is_back and number not in undone:
                undone |= set(range(one.undoes, number))
        elif number not in undone and one.may_have_changed:
            yield one
