"""
Holds as they are written: placed once, lifted once, and never silently another one.

Lifting leaves `lifted-<type>` behind: by whom and why, with the hold as it was. A placing guards that entry, which
changes with each lift: one that arrives late, or is sent again after its answer was lost, cannot put back a hold
that somebody has lifted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fencectl.core.gojson import StrictJSONError, decode_strict, encode_ascii
from fencectl.core.record_write import Change
from fencectl.core.records import VERSION, Entry
from fencectl.core.refs import text_or_none
from fencectl.core.times import parse_time, second_time

PLACED_BY_HAND = ("freeze", "incident", "maintenance")
LONGEST_REASON = 1000


@dataclass(frozen=True, slots=True)
class Hold:
    """A hold that is to be placed. `id` is random, so that two alike can be told apart. `until` only warns."""

    type: str
    reason: str
    by: str
    at: datetime
    id: str
    until: datetime | None = None

    @property
    def key(self) -> str:
        """Its key in the record."""
        return f"hold-{self.type}"

    def to_text(self) -> str:
        """Write it as the entry's text."""
        value = {"v": VERSION, "type": self.type, "reason": self.reason, "by": self.by, "at": second_time(self.at)}
        value |= {"until": second_time(self.until)} if self.until is not None else {}
        return encode_ascii(value | {"id": self.id})


@dataclass(frozen=True, slots=True)
class Lift:
    """That a hold is lifted: why, by whom, when. `id` as that of a hold."""

    reason: str
    by: str
    at: datetime
    id: str


@dataclass(frozen=True, slots=True)
class Lifted:
    """What the last lift of a type left behind, as far as it can be read; hostile until escaped."""

    type: str
    reason: str | None = None
    by: str | None = None
    at: datetime | None = None
    id: str | None = None


def place(data: Mapping[str, str], hold: Hold) -> tuple[Change, ...]:
    """The write that places a hold where none of its type is."""
    lifted = _lifted_key(hold.key)
    before = data.get(lifted)
    return (Change(hold.key, None, hold.to_text()), Change(lifted, before, before))


def lift(data: Mapping[str, str], entry: Entry, lifted: Lift) -> tuple[Change, ...]:
    """The write that lifts a hold or claim, as `entry` shows it, and keeps what it was."""
    key = _lifted_key(entry.key)
    value = {
        "v": VERSION,
        "type": entry.lifted_as,
        "reason": lifted.reason,
        "by": lifted.by,
        "at": second_time(lifted.at),
        "id": lifted.id,
        "hold": _as_it_was(entry),
    }
    return (Change(entry.key, entry.text, None), Change(key, data.get(key), encode_ascii(value)))


def is_lifted_since(data: Mapping[str, str], key: str, unanswered: tuple[Change, ...]) -> bool:
    """Whether an entry of this type was lifted after a placing that got no answer: it may have been that one."""
    lifted = _lifted_key(key)
    return any(change.key == lifted and data.get(lifted) != change.before for change in unanswered)


def last_lift(data: Mapping[str, str], key: str) -> Lifted | None:
    """Who last lifted an entry of this kind, and why; None where nobody has, or it cannot be read."""
    return _read_lifted(data, _lifted_key(key))


def last_lifts(data: Mapping[str, str]) -> tuple[Lifted, ...]:
    """The last lift of each type, in the order of their names."""
    found = (_read_lifted(data, key) for key in sorted(data) if key.startswith("lifted-"))
    return tuple(lifted for lifted in found if lifted is not None)


def _read_lifted(data: Mapping[str, str], key: str) -> Lifted | None:
    text = data.get(key)
    try:
        value = decode_strict(text) if text is not None else None
    except StrictJSONError:
        return None
    if not isinstance(value, dict):
        return None
    reason, by, at, mark = (text_or_none(value.get(name)) for name in ("reason", "by", "at", "id"))
    return Lifted(key.removeprefix("lifted-"), reason, by, parse_time(at), mark)


def _lifted_key(key: str) -> str:
    # NB: claims are numbered, so one key for all of them: or the record would grow with each.
    return "lifted-claim" if key.startswith("claim-") else f"lifted-{key.removeprefix('hold-')}"


def _as_it_was(entry: Entry) -> Any:
    """The whole entry, with keys that this version does not know; None where it cannot be read."""
    try:
        return decode_strict(entry.text) if entry.text is not None else None
    except StrictJSONError:
        return None
