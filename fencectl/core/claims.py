"""
Claims: what a restore that failed leaves on its target, and what takes it away again. Pure.

A failed restore is classified by whether it can have changed its target. `pre-mutation`: refused before anything
moved, and that is proven; it is recorded, and holds nothing. `post-mutation`: it may have changed something.
`unconfirmed`: no answer came, or one that is not about the generation that was asked for. The last two hold their
target: no deploy starts, nothing recovers unattended. Each is the entry `claim-<n>` of the record beside the
lease, n being the generation of the run that tried, and keeps its own class and time beside whatever fails later.
Only success retires it: a later deploy or restore that ended well. One that moved nothing goes with any later end.

All of it is read from the record of one target, each time anew, and written to that one only. Nothing is stored
for several targets together: what came of one of them can neither release nor overwrite what holds another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, assert_never

from fencectl.core.gojson import encode_ascii
from fencectl.core.record_write import Change
from fencectl.core.records import HOLDS_NOTHING, INTERRUPTED, VERSION, decode_entry
from fencectl.core.refs import dig, text_or_none
from fencectl.core.restored import Restored, RestoreVerdict
from fencectl.core.times import second_time

RESTORING = "restoring"
"""The phase of a record while objects are being restored; written before the first of them is."""
LONGEST_REASON = 1000

# NB: what `fences` shows as a claim, whether or not a run of ours would name one so.
_ANY_CLAIM = re.compile(r"claim-[a-z0-9][a-z0-9-]{0,62}", re.ASCII)
_CLAIM = re.compile(r"claim-([0-9]{1,18})", re.ASCII)
_RECORD = re.compile(r"record-([0-9]{1,18})", re.ASCII)


class Moved(StrEnum):
    """The classes of a failed restore, by whether it can have changed its target."""

    PRE_MUTATION = HOLDS_NOTHING
    POST_MUTATION = "post-mutation"
    UNCONFIRMED = "unconfirmed"


class Unmoved(StrEnum):
    """
    The closed list of reasons that prove by themselves that a restore has moved nothing.

    Each is found out before a restore sends its first write, and can be found out then only. Whatever can also
    come later, such as a lost lease, a right that is missing or a signal, is not among them: there the restore has
    to say itself that it had sent nothing.
    """

    NO_POINT = "no-recovery-point"  # the generation has none
    POINT_UNREADABLE = "recovery-point-unreadable"  # a part is missing, or it is not what its digest says
    NOTHING_BEFORE = "no-previous-good-state"  # a first deploy
    SUPERSEDED = "superseded"  # another run has changed the target since
    TARGET_UNREADABLE = "target-unreadable"  # what is to be restored could not be read as it is now
    FENCES_NOT_PLACED = "fences-not-placed"  # Flux could not be suspended or drained


@dataclass(frozen=True, slots=True)
class RestoreEnd:
    """
    How a restore ended, as far as it is known.

    `wanted`: the generation that was to be undone. `answered`: the one that the restore's answer is about; None
    where there is no answer, because it died, or because a write of it has none. `moved`: the restore's own
    verdict, whether it has changed anything; None where it gives none. `unmoved`: the reason from the closed list,
    if it is one of them. `reason`: in words, hostile until escaped.
    """

    wanted: int
    answered: int | None = None
    succeeded: bool = False
    moved: bool | None = None
    unmoved: Unmoved | None = None
    reason: str | None = None


def end_of(restored: Restored, wanted: int) -> RestoreEnd | None:
    """
    How a restore of what ran before `wanted` ended, from what it tells itself; None where it was never begun.

    One of whose writes nobody knows what came has given no answer.
    """
    unmoved = None
    match restored.verdict:
        case RestoreVerdict.OWED:
            return None
        case RestoreVerdict.UNKNOWN:
            return RestoreEnd(wanted, moved=restored.moved or None, reason=restored.why)
        case RestoreVerdict.NO_PREVIOUS:
            unmoved = Unmoved.NOTHING_BEFORE
        case RestoreVerdict.SUPERSEDED:
            unmoved = Unmoved.SUPERSEDED
        case RestoreVerdict.BACK | RestoreVerdict.REFUSED | RestoreVerdict.PARTIAL:
            pass
        case _ as never:
            assert_never(never)
    return RestoreEnd(
        wanted,
        answered=None if restored.unresolved else restored.generation,
        succeeded=restored.is_back,
        moved=restored.moved,
        unmoved=unmoved,
        reason=restored.why,
    )


def classify(end: RestoreEnd) -> Moved | None:
    """
    The class of a failed restore; None where it has succeeded.

    The restore's own verdict decides, then the closed list. An answer about another generation proves nothing at
    all, not even a refusal; without any answer only the closed list does.
    """
    if end.answered is not None and end.answered != end.wanted:
        return Moved.UNCONFIRMED
    if end.answered is None:
        is_refused = end.unmoved is not None and end.moved is not True and not end.succeeded
        return Moved.PRE_MUTATION if is_refused else Moved.UNCONFIRMED
    if end.succeeded:
        return None
    moved = end.unmoved is None if end.moved is None else end.moved
    return Moved.POST_MUTATION if moved else Moved.PRE_MUTATION


@dataclass(frozen=True, slots=True)
class Claim:
    """
    What a failed restore leaves.

    `generation`: of the run that tried; `restore`: of the deploy that was to be undone. `moved` None: a class that
    this version does not know, which holds like every other but `pre-mutation`.
    """

    generation: int
    moved: Moved | None
    at: datetime | None
    restore: int | None
    reason: str
    holder: str | None

    @property
    def key(self) -> str:
        """Its key in the record."""
        return f"claim-{self.generation}"

    @property
    def holds(self) -> bool:
        """Whether it keeps deploys from its target."""
        return self.moved is not Moved.PRE_MUTATION

    def to_text(self) -> str:
        """Write it as the entry's text."""
        value: dict[str, Any] = {"v": VERSION, "generation": self.generation}
        value |= {"class": self.moved.value} if self.moved is not None else {}
        value |= {"at": second_time(self.at)} if self.at is not None else {}
        value |= {"restore": self.restore} if self.restore is not None else {}
        value |= {"reason": self.reason} | ({"holder": self.holder} if self.holder is not None else {})
        return encode_ascii(value)


@dataclass(frozen=True, slots=True)
class RunEnd:
    """
    How a run ended: a deploy, with or without a rollback of its own, or a rollback.

    `deployed`: something was applied or run on the target, and all of it was acknowledged. `restore`: None where
    it tried none.
    """

    generation: int
    holder: str
    at: datetime
    deployed: bool = False
    restore: RestoreEnd | None = None

    @property
    def is_success(self) -> bool:
        """Whether it is evidence that the target is whole again."""
        return self.deployed or (self.restore is not None and classify(self.restore) is None)


def claim_changes(data: Mapping[str, Any], end: RunEnd) -> tuple[Change, ...]:
    """
    What the end of a run changes of the claims: to be written together with its outcome, under its lease.

    Of earlier claims a success retires all that can be read, a failure those that moved nothing. A restore that
    failed leaves one of its own.
    """
    changes = []
    for key, claim in _claims(data):
        if claim is not None and claim.generation < end.generation and (end.is_success or not claim.holds):
            changes.append(Change(key, data[key], None))
    moved = classify(end.restore) if end.restore is not None else None
    if moved is not None and end.restore is not None:
        reason = (end.restore.reason or end.restore.unmoved or "it gave no reason")[:LONGEST_REASON]
        claim = Claim(end.generation, moved, end.at, end.restore.wanted, reason, end.holder)
        changes.append(Change(claim.key, data.get(claim.key), claim.to_text()))
    return tuple(changes)


def holding(data: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys of the claims that hold this target; what cannot be read holds as well."""
    return tuple(key for key, claim in _claims(data) if claim is None or claim.holds)


def claimed(data: Mapping[str, Any]) -> tuple[int, ...]:
    """The generations of all claims, also of those that cannot be read; and 0."""
    return (0, *(int(match.group(1)) for key in data if (match := _CLAIM.fullmatch(key))))


@dataclass(frozen=True, slots=True)
class Dead:
    """A run that has written no outcome and never will: somebody else holds its lease now, and asks."""

    generation: int
    phase: str | None
    holder: str | None
    claim: Claim | None


def close_dead(
    data: Mapping[str, Any], *, holder: str, at: datetime
) -> tuple[tuple[Dead, ...], tuple[Change, ...]]:
    """
    Which runs of this record are dead, and what reclassifies each of them as `interrupted`.

    To be asked by `holder` under the lease of this record: then no other run holds it, and after its loss no run
    writes an outcome any more. One that died in phase `restoring` gave no answer, and may have stopped half-way:
    it leaves an unconfirmed claim.
    """
    found, changes = [], []
    for key, number, value in _unfinished(data):
        whose = text_or_none(value.get("holder"))
        if whose == holder:
            continue
        phase = text_or_none(value.get("phase"))
        claim = None
        if phase == RESTORING:
            restore = dig(value, "rollback", "undoes")
            reason = "its run died in the middle of the restore, and gave no answer"
            claim = Claim(number, Moved.UNCONFIRMED, at, restore if _is_number(restore) else None, reason, whose)
        found.append(Dead(number, phase, whose, claim))
        told = {"outcome": INTERRUPTED, "foundBy": holder, "foundAt": second_time(at)}
        changes.append(Change(key, data[key], encode_ascii(value | told)))
        if claim is not None and claim.key not in data:
            changes.append(Change(claim.key, None, claim.to_text()))
    return tuple(found), tuple(changes)


def restoring_holder(data: Mapping[str, Any]) -> str | None:
    """Who is restoring: the holder that the newest record names, where that is in phase `restoring`; else None."""
    newest = max(_unfinished(data), key=lambda one: one[1], default=None)
    if newest is None or newest[1] < max(_generations(data)):
        return None
    _, _, value = newest
    return text_or_none(value.get("holder")) if value.get("phase") == RESTORING else None


def _claims(data: Mapping[str, Any]) -> list[tuple[str, Claim | None]]:
    """Every claim in the order of its key; None where it cannot be read, or is no claim of this version."""
    return [(key, _read(key, data[key])) for key in sorted(data) if _ANY_CLAIM.fullmatch(key)]


def _read(key: str, text: Any) -> Claim | None:
    match = _CLAIM.fullmatch(key)
    value, problem, _ = decode_entry(text)
    if match is None or problem is not None:
        return None
    named = value.get("class")
    moved = Moved(named) if named in frozenset(Moved) else None
    restore = value.get("restore")
    return Claim(
        int(match.group(1)),
        moved,
        None,
        restore if _is_number(restore) else None,
        text_or_none(value.get("reason")) or "",
        text_or_none(value.get("holder")),
    )


def _unfinished(data: Mapping[str, Any]) -> list[tuple[str, int, dict[str, Any]]]:
    found = []
    for key in sorted(data):
        match = _RECORD.fullmatch(key)
        if match is None:
            continue
        value, problem, _ = decode_entry(data[key])
        in_flight = text_or_none(value.get("phase")) is not None and text_or_none(value.get("outcome")) is None
        if problem is None and in_flight:
            found.append((key, int(match.group(1)), value))
    return found


def _generations(data: Mapping[str, Any]) -> list[int]:
    return [int(match.group(1)) for key in data if (match := _RECORD.fullmatch(key))]


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 53
