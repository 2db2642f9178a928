"""
Past deploys of a target, read from its record: what they did, when, and what came of it.

Each `record-<n>` of the ConfigMap beside the lease is the story of one deploy, written while it ran. An entry that
cannot be read is listed with the reason: a deploy that is not shown never happened, to whoever looks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import structs

from fencectl.core.certification import Certification, read_certification
from fencectl.core.identity import Holder, parse_holder
from fencectl.core.records import INTERRUPTED, decode_entry
from fencectl.core.recovery_point import KEPT_POINTS, Summary, read_summary
from fencectl.core.refs import text_or_none
from fencectl.core.restored import RestoreVerdict
from fencectl.core.times import parse_time

_OUTCOMES = {"rolled-back": "rolled back"}
_KEY = re.compile(r"record-([0-9]{1,18})", re.ASCII)


class Span(msgspec.Struct, frozen=True):
    """
    Something that lasted: a fence, from its placing to its release, or a step.

    `what`: `node/worker-2`, `lease`, `command`, hostile until escaped. `ended_at` None: it had not ended when the
    record was written. `how`: `released`, `kept`, `held`, `failed`, …; None where nobody said.
    """

    step: int
    what: str
    began_at: datetime
    ended_at: datetime | None = None
    how: str | None = None


class Rollback(msgspec.Struct, frozen=True):
    """
    What a deploy's record tells of a rollback: of its own failure, or as what it was for; texts are foreign.

    `verdict`: `back`, `partial`, …, `owed`; `undoes` and `back`: generations, None where none is told; `changed`
    and `left`: how many objects were put back, and were not.
    """

    verdict: str
    undoes: int | None = None
    back: int | None = None
    changed: int | None = None
    left: int | None = None
    why: str | None = None

    @property
    def words(self) -> str:
        """What came of it, as a clause."""
        if self.verdict == RestoreVerdict.OWED:
            return "owed: it was asked for, and was not done"
        what = "what ran before" if self.undoes is None else f"the state before generation {self.undoes}"
        what = what if self.back is None else f"generation {self.back}"
        numbers = [(self.changed, "put back"), (self.left, "left as they were")]
        told = ", ".join(f"{number} {word}" for number, word in numbers if number)
        is_back = "is back" if self.verdict == RestoreVerdict.BACK else f"is not back ({self.verdict})"
        return ": ".join(part for part in (f"{what} {is_back}", told, self.why) if part)


class Past(msgspec.Struct, frozen=True):
    """
    One deploy, as its record tells it; every text is hostile until escaped.

    `outcome` None: none was written. `held`: the lease is still its own, so it may be running. `code`: its exit
    code. `certification`: None where the record tells none. `failed_at` and `failure`: what failed first.
    `rollback`: None where there was none. `found_by`, `found_at`: which later run found it dead, and when.
    `more`: so many spans found no room in the record.
    `problem`: why the entry cannot be read, else None; then nothing else is known. `recovery`: its recovery point;
    `restorable`: which is one of the newest three, so that it is still kept.
    """

    generation: int
    holder: Holder | None = None
    token: int | None = None
    phase: str | None = None
    outcome: str | None = None
    command: str | None = None
    step: int | None = None
    code: int | None = None
    certification: Certification | None = None
    rollback: Rollback | None = None
    began_at: datetime | None = None
    ended_at: datetime | None = None
    spans: tuple[Span, ...] = ()
    more: int = 0
    failed_at: datetime | None = None
    failure: str | None = None
    held: bool = False
    found_by: Holder | None = None
    found_at: datetime | None = None
    problem: str | None = None
    recovery: Summary | None = None
    restorable: bool = False

    @property
    def result(self) -> str:
        """The outcome in a word or two."""
        if self.problem is not None:
            return "unreadable"
        if self.outcome is not None:
            kept = sum(span.how == "kept" for span in self.spans)
            outcome = _OUTCOMES.get(self.outcome, self.outcome)
            return f"{outcome}, {kept} kept" if kept else outcome
        return f"{self.phase or 'running'}" if self.held else INTERRUPTED

    @property
    def revision(self) -> str | None:
        """The first eight digits of what was deployed; None where the holder does not tell."""
        revision = self.holder.revision if self.holder is not None else None
        return revision[:8] if revision is not None and revision.strip("0") else None

    @property
    def took_s(self) -> float | None:
        """How long it took, in seconds; None where it has no end."""
        if self.began_at is None or self.ended_at is None:
            return None
        return (self.ended_at - self.began_at).total_seconds()


def read_history(data: Mapping[str, Any], *, lease_holder: str | None = None) -> tuple[Past, ...]:
    """Read every record, the newest first. `lease_holder`: who holds the lease now."""
    found = []
    for key, text in data.items():
        match = _KEY.fullmatch(key)
        if match is not None:
            found.append(_read(int(match.group(1)), text, lease_holder))
    newest = sorted((past.generation for past in found if past.recovery is not None), reverse=True)[:KEPT_POINTS]
    found = [structs.replace(past, restorable=past.generation in newest) for past in found]
    return tuple(sorted(found, key=lambda past: -past.generation))


def _read(generation: int, text: Any, lease_holder: str | None) -> Past:
    value, problem, _ = decode_entry(text)
    if problem is not None:
        return Past(generation, problem=problem)
    identity = text_or_none(value.get("holder"))
    outcome = text_or_none(value.get("outcome"))
    failure = value.get("failure")
    failure = failure if isinstance(failure, dict) else {}
    spans, unread = _spans(value.get("timeline"))
    return Past(
        generation,
        holder=parse_holder(identity) if identity else None,
        token=_number(value.get("token")),
        phase=text_or_none(value.get("phase")),
        outcome=outcome,
        command=text_or_none(value.get("command")),
        step=_number(value.get("step")),
        code=_number(value.get("code")),
        certification=read_certification(value.get("certification")),
        rollback=_rollback(value.get("rollback")),
        began_at=parse_time(value.get("startedAt")),
        ended_at=parse_time(value.get("endedAt")),
        spans=spans,
        more=(_number(value.get("more")) or 0) + unread,
        failed_at=parse_time(failure.get("at")),
        failure=text_or_none(failure.get("what")),
        found_by=_holder(value.get("foundBy")),
        found_at=parse_time(value.get("foundAt")),
        held=outcome is None and bool(identity) and identity == lease_holder,
        recovery=read_summary(value.get("recovery")),
    )


def _rollback(value: Any) -> Rollback | None:
    data = {"verdict": value} if isinstance(value, str) else value if isinstance(value, dict) else {}
    verdict = text_or_none(data.get("verdict"))
    if verdict is None:
        return None
    numbers = {key: _number(data.get(key)) for key in ("undoes", "back", "changed", "left")}
    return Rollback(verdict, **numbers, why=text_or_none(data.get("why")))


def _spans(value: Any) -> tuple[tuple[Span, ...], int]:
    found, unread = [], 0
    for item in value if isinstance(value, list) else ():
        one = item if isinstance(item, dict) else {}
        step, what, began_at = _number(one.get("step")), text_or_none(one.get("what")), parse_time(one.get("from"))
        if step is None or what is None or began_at is None:
            unread += 1
            continue
        found.append(Span(step, what, began_at, parse_time(one.get("to")), text_or_none(one.get("how"))))
    return tuple(found), unread


def _holder(value: Any) -> Holder | None:
    return parse_holder(value) if isinstance(value, str) and value else None


def _number(value: Any) -> int | None:
    return value if type(value) is int and abs(value) < 1 << 53 else None
