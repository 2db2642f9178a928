"""
Records, holds and claims: the entries of the ConfigMap `<lease>-record` beside each lease.

Data keys `record-<n>` (the story of generation n), `hold-<type>` and `claim-<n>`; each value is a JSON object with
a version. A hold is a fence that only its own verb lifts; so is a claim, unless it moved nothing: then it is only
told. An entry that cannot be read is a fence too: what it says may matter, and "not readable" must not look like
"nothing there". Written by `core.record_write`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from fencectl.core.gojson import StrictJSONError, decode_strict
from fencectl.core.observation import Observation
from fencectl.core.record_until import end_text
from fencectl.core.refs import Seen, dig, text_or_none
from fencectl.core.report import FenceKind
from fencectl.core.times import age_text, parse_time

_KEY = re.compile(r"(record|hold|claim)-([a-z0-9][a-z0-9-]{0,62})", re.ASCII)
VERSION = 1
INTERRUPTED = "interrupted"
"""The outcome of a run that was ended by a signal, or died without writing any."""
HOLDS_NOTHING = "pre-mutation"
"""The class of a claim that moved nothing: it is told, and keeps nobody out."""


class Entry(msgspec.Struct, frozen=True):
    """
    One entry of a record ConfigMap.

    `title`: `hold incident`, `claim 42`, `record 42`; `why`: the reason as written, hostile until escaped;
    `overdue`: its end time has passed (which only warns); `problem`: why it cannot be read, else None. `newer`: a
    later version of fencectl wrote it. `id`: what tells one placing of a hold from another. `text`: as it stands,
    for guards; None where it is no text at all. `moved`, `restore`: of a claim, its class and which generation was
    to be undone.
    """

    kind: FenceKind
    seen: Seen
    key: str
    title: str
    why: str | None
    by: str | None
    since: datetime | None
    until: datetime | None
    overdue: bool
    problem: str | None
    phase: str | None = None
    holder: str | None = None
    outcome: str | None = None
    newer: bool = False
    id: str | None = None
    text: str | None = None
    moved: str | None = None
    restore: int | None = None

    @property
    def is_claim(self) -> bool:
        """Whether a restore that failed has left it."""
        return self.key.startswith("claim-")

    @property
    def lifted_as(self) -> str:
        """What `hold lift` calls it: `incident`, `claim-42`."""
        return self.key.removeprefix("hold-")

    @property
    def unfinished(self) -> bool:
        """Whether it is a record whose run has written no outcome."""
        is_record = self.kind is FenceKind.RECORD and not self.is_claim
        return is_record and self.problem is None and self.outcome is None


def read_entries(observation: Observation) -> tuple[Entry, ...]:
    """Read every entry of every record ConfigMap, in the order of their keys."""
    return tuple(entry for seen in observation.records for entry in read_record(seen, observation.observed_at))


def read_record(seen: Seen, now: datetime) -> tuple[Entry, ...]:
    """Read the entries of one record ConfigMap, in the order of their keys."""
    data = dig(seen.raw, "data")
    entries = []
    for key in sorted(data) if isinstance(data, Mapping) else ():
        match = _KEY.fullmatch(key)
        if match is not None:
            entries.append(_read(seen, key, match.group(1), match.group(2), data[key], now))
    return tuple(entries)


def decode_entry(text: Any) -> tuple[dict[str, Any], str | None, bool]:
    """Read an entry's value: the object, or an empty one with why not; whether a later version wrote it."""
    value: Any = None
    try:
        value = decode_strict(text) if isinstance(text, str) else None
    except StrictJSONError as broken:
        return {}, f"it cannot be read: {broken}", False
    if not isinstance(value, dict):
        return {}, "it is not a JSON object", False
    version = value.get("v")
    if type(version) is not int or version < 1:
        return value, "it has no version", False
    if version > VERSION:
        return value, f"it was written by a newer fencectl (version {version}, this one reads {VERSION})", True
    return value, None, False


def _read(seen: Seen, key: str, kind: str, name: str, text: Any, now: datetime) -> Entry:
    value, problem, newer = decode_entry(text)
    moved = text_or_none(value.get("class")) if kind == "claim" and problem is None else None
    is_told_only = kind == "record" or moved == HOLDS_NOTHING
    fence_kind = FenceKind.RECORD if is_told_only else FenceKind.HOLD
    restore = value.get("restore")
    until = parse_time(value.get("until"))
    return Entry(
        fence_kind,
        seen,
        key,
        title=f"{kind} {name}",
        why=text_or_none(value.get("reason")) or text_or_none(value.get("why")),
        by=text_or_none(value.get("by")),
        since=parse_time(value.get("at") or value.get("startedAt")),
        until=until,
        overdue=until is not None and until < now,
        problem=problem,
        phase=text_or_none(value.get("phase")),
        holder=text_or_none(value.get("holder")),
        outcome=text_or_none(value.get("outcome")),
        newer=newer,
        id=text_or_none(value.get("id")),
        text=text_or_none(text),
        moved=moved,
        restore=restore if kind == "claim" and type(restore) is int else None,
    )


def hold_notes(entry: Entry, now: datetime) -> tuple[str, ...]:
    """What a hold says of itself: its reason, who placed it, until when; a claim what its restore has changed."""
    notes = [f"reason: {entry.why}" if entry.why else "it gives no reason"]
    if entry.is_claim:
        notes.insert(0, claim_words(entry))
    if entry.by:
        notes.append(f"by {entry.by}")
    if entry.overdue and entry.until is not None:
        notes.append(f"overdue for {age_text((now - entry.until).total_seconds())}; it stays until it is lifted")
    elif entry.until is not None:
        notes.append(f"until {end_text(entry.until, now=now)}, but it stays until it is lifted")
    return tuple(notes)


def unfinished_words(entry: Entry) -> str:
    """What there is to say of a record whose run has died."""
    said = f"phase `{entry.phase}`, no outcome was written; the next deploy or rollback records it as interrupted"
    return f"{said}, and that its restore may have stopped half-way" if entry.phase == "restoring" else said


def claim_words(entry: Entry) -> str:
    """What a claim says in its class: whether the restore that failed has changed anything."""
    what = "a restore" if entry.restore is None else f"the restore of what ran before generation {entry.restore}"
    said = _SAID_BY_CLASS.get(entry.moved or "", "failed, and whether it changed anything is not said")
    return f"{what} {said}" + (f" ({entry.moved})" if entry.moved else "")


_SAID_BY_CLASS = {
    HOLDS_NOTHING: "was refused before anything was changed",
    "post-mutation": "failed after it may have changed something",
    "unconfirmed": "gave no answer that could be trusted, so nobody knows what it has changed",
}
