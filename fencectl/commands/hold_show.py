"""What `hold` shows: the list on stdout, questions and results on stderr; with `-o json` each result on stdout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fencectl.commands.options import Color, Output
from fencectl.commands.output import style_of, write
from fencectl.core.record_hold import Lift, Lifted
from fencectl.core.record_until import end_text
from fencectl.core.records import Entry, claim_words
from fencectl.core.times import age_text, second_time
from fencectl.report.escape import cut, log_safe, visible
from fencectl.report.machine import encode_json
from fencectl.report.shell import NotPrintableError, quote
from fencectl.report.style import Style, wrap
from fencectl.report.words import count, listed

_HELD = 6


@dataclass(frozen=True, slots=True)
class Where:
    """The cluster and the record that a run of the verb is about; names are hostile until escaped."""

    cluster: str
    context: str | None
    server: str
    record: str
    flags: tuple[str, ...]

    @property
    def label(self) -> str:
        """The cluster's name, made harmless."""
        return visible(self.cluster)

    def command(self, *words: str) -> str:
        """A command line of this verb for the same record."""
        return " ".join(["fencectl", "hold", *words, *map(_word, self.flags)])


@dataclass(frozen=True, slots=True)
class Show:
    """Shows one run of the verb, in the shape that was asked for."""

    output: Output
    color: Color
    where: Where

    def placed(self, entry: Entry, now: datetime) -> None:
        """Say that a hold is in place, until when, and how it goes."""
        if self.output is Output.JSON:
            self._result("placed", entry, now)
            return
        command = self.where.command("lift", entry.lifted_as)
        stays = f"It stays until it is lifted: `{command}`"
        if entry.until is not None:
            stays = f"At {end_text(entry.until, now=now)} it is overdue, but stays until it is lifted: `{command}`"
        self._good(f"hold `{entry.lifted_as}` on {self.where.label}: no deploy starts. {stays}")

    def asked_about(self, entry: Entry, now: datetime) -> None:
        """Show what is about to be lifted, below which the question stands."""
        style = style_of(sys.stderr, self.color)
        lines = wrap(style.bold(f"{visible(entry.title)} on {self.where.label}") + f", {_held(entry, now)}")
        lines += _about(entry, now, indent="  ", style=style)
        if entry.key.startswith("claim-"):
            left = "this cluster may run neither the old state nor the new one: what succeeds retires it by itself"
            lines += wrap(left, first=f"  {style.look} ", rest="    ")
        self._say(lines)

    @staticmethod
    def ask(question: str) -> None:
        """Ask; the answer is the caller's to read."""
        write(stderr=question)

    def lifted(
        self, entry: Entry, lifted: Lift, now: datetime, *, by_other: Lifted | None, left: Sequence[Entry]
    ) -> None:
        """Say that a hold is gone, by whom if not by us, and what is still held."""
        if self.output is Output.JSON:
            who = lifted.by if by_other is None else by_other.by
            why = lifted.reason if by_other is None else by_other.reason
            self._result("lifted", entry, now, lifted={"reason": why, "by": who, "byOther": by_other is not None})
            return
        name = f"{'claim' if entry.key.startswith('claim-') else 'hold'} `{entry.lifted_as}`"
        sentence = f"{name} is lifted on {self.where.label}"
        if by_other is not None:
            whom = f"`{visible(cut(by_other.by))}`" if by_other.by else "somebody who left no word"
            sentence = f"{name} was lifted on {self.where.label} by {whom} meanwhile"
        if left:
            names = listed(f"`{other.lifted_as}`" for other in left)
            sentence += f"; {'stays' if len(left) == 1 else 'stay'} held: {names}"
        else:
            sentence += ": deploys can start again"
        self._good(sentence)

    def listed(self, entries: Sequence[Entry], now: datetime, *, before: Sequence[Lifted]) -> None:
        """List the holds and claims, and the last lift of each type."""
        if self.output is Output.JSON:
            holds = [_as_data(entry, now) for entry in entries]
            lifts = [
                {
                    "type": one.type,
                    "reason": one.reason,
                    "by": one.by,
                    "at": second_time(one.at) if one.at else None,
                }
                for one in before
            ]
            found = self._document("HoldList", observedAt=second_time(now), holds=holds, lifted=lifts)
            write(stdout=encode_json(found))
            return
        style = style_of(sys.stdout, self.color)
        if not entries:
            lines = [f"no hold is on {self.where.label} ({self.where.record})"]
        else:
            lines = wrap(style.bold(f"{count(len(entries), 'hold')} on {self.where.label}: no deploy starts"))
            width = max(4, *(len(entry.lifted_as) for entry in entries))
            lines.append(f"{'TYPE':<{width}}  {'HELD':<{_HELD}}  UNTIL")
            for entry in entries:
                until = end_text(entry.until, now=now) if entry.until is not None else "it is lifted"
                lines.append(f"{style.bold(entry.lifted_as)}{' ' * (width - len(entry.lifted_as))}"
                             f"  {_age(entry, now):<{_HELD}}  {until}")  # fmt: skip
                lines += _about(entry, now, indent=" " * (width + 2), style=style)
        for one in before:
            when = f"{age_text((now - one.at).total_seconds())} ago" if one.at is not None else "once"
            who = f" by {visible(cut(one.by))}" if one.by else ""
            why = f": {visible(one.reason)}" if one.reason else ""
            told = wrap(f"last lifted: {visible(one.type)}, {when}{who}{why}", rest="  ")
            lines += map(style.dim, told)
        write(stdout="".join(f"{log_safe(style.spelled(line))}\n" for line in lines))

    def _good(self, sentence: str) -> None:
        style = style_of(sys.stderr, self.color)
        self._say(wrap(sentence, first=f"{style.good} ", rest="  "))

    def _say(self, lines: Sequence[str]) -> None:
        style = style_of(sys.stderr, self.color)
        write(stderr="".join(f"{log_safe(style.spelled(line))}\n" for line in lines))

    def _result(self, action: str, entry: Entry, now: datetime, **more: Any) -> None:
        write(stdout=encode_json(self._document("HoldResult", result=action, hold=_as_data(entry, now), **more)))

    def _document(self, kind: str, **more: Any) -> dict[str, Any]:
        about = {"context": self.where.context, "server": self.where.server, "record": self.where.record}
        return {"apiVersion": "fencectl.dev/v1", "kind": kind, **about, **more}


def _about(entry: Entry, now: datetime, *, indent: str, style: Style) -> list[str]:
    """What a hold says of itself, below its row: the reason whole, whatever its length."""
    if entry.problem is not None:
        return wrap(visible(entry.problem), first=f"{indent}{style.failed} ", rest=f"{indent}  ")
    why = f"reason: {visible(entry.why)}" if entry.why else "it gives no reason"
    lines = wrap(visible(claim_words(entry)), first=indent, rest=indent) if entry.is_claim else []
    lines += wrap(why, first=indent, rest=indent)
    if entry.by:
        lines += wrap(f"by {visible(cut(entry.by))}", first=indent, rest=indent)
    if entry.overdue and entry.until is not None:
        late = f"overdue for {age_text((now - entry.until).total_seconds())}; it stays until it is lifted"
        lines += wrap(style.yellow(late), first=f"{indent}{style.look} ", rest=f"{indent}  ")
    return lines


def _held(entry: Entry, now: datetime) -> str:
    held = f"held for {_age(entry, now)}" if entry.since is not None else "held since nobody knows when"
    return f"{held}, until {end_text(entry.until, now=now)}" if entry.until is not None else held


def _age(entry: Entry, now: datetime) -> str:
    return age_text((now - entry.since).total_seconds()) if entry.since is not None else "?"


def _as_data(entry: Entry, now: datetime) -> dict[str, Any]:
    return {
        "type": entry.lifted_as,
        "reason": entry.why,
        "by": entry.by,
        "at": second_time(entry.since) if entry.since is not None else None,
        "age_s": (now - entry.since).total_seconds() if entry.since is not None else None,
        "until": second_time(entry.until) if entry.until is not None else None,
        "overdue": entry.overdue,
        "problem": entry.problem,
        "key": entry.key,
        **({"class": entry.moved, "restore": entry.restore} if entry.is_claim else {}),
    }


def _word(text: str) -> str:
    try:
        return quote(text)
    except NotPrintableError:
        return quote(visible(text))
