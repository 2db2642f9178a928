"""
The journal of the profile `ghcr-bridge`: its exact schema, and the taints that it compares.

The schema is that tool's, to the letter: a number is only what is spelled as one. A journal that fails it stands
for a state that nobody understands, so it is never guessed at, and it never ends a report.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any

from fencectl.core.gojson import StrictJSONError, decode_strict

_KEYS = frozenset({"v", "owner", "uid", "phase", "desiredRevision", "wasCordoned", "initialTaints"})
_REVISION = re.compile(r"[0-9a-f]{64}", re.ASCII)
_TAINT_ORDER = ("key", "effect", "value", "timeAdded")
_BYTE_ORDER_MARK = "\ufeff"

Taint = Mapping[str, Any]


class BridgePhase(StrEnum):
    """How far the work on a node had come."""

    ACTIVE = "active"
    RETAIN = "retain"
    RELEASE_READY = "release-ready"
    ROLLBACK_SAFE = "rollback-safe"


UNPROVEN = frozenset({BridgePhase.ACTIVE, BridgePhase.RETAIN})
"""Nothing shows that the node works: no run clears these."""


@dataclass(frozen=True, slots=True)
class BridgeJournal:
    """A journal that has the full schema. Whether it fits its node is for the node's reader to say."""

    owner: str
    uid: str
    phase: BridgePhase
    was_cordoned: bool
    initial_taints: tuple[Taint, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """Owner and phase as a journal names them, sound or not: what the batch rule goes by."""

    owner: str
    phase: str


@dataclass(frozen=True, slots=True)
class JournalReading:
    """
    What could be read of a journal.

    `journal`, or `fault`: a clause that says what is wrong and quotes nothing. `phase`: the text that a
    readable object has there, sound or not. `owner`: likewise. `claim`: None where owner or phase is no text.
    """

    journal: BridgeJournal | None
    fault: str | None
    phase: str | None = None
    owner: str | None = None
    claim: Claim | None = None


@dataclass(frozen=True, slots=True)
class _Number:
    """A number as it is spelled: to a decoder `0`, `-0` and `0.0` are all equal, to the schema they are not."""

    spelling: str


class _Pairs(tuple[tuple[str, Any], ...]):
    """The members of a JSON object in their order, duplicates included; not a list, which is a JSON array."""

    __slots__ = ()


def read_journal(value: Any) -> JournalReading:
    """Read the annotation's value; every way in which it can be unusable has its own clause."""
    if not isinstance(value, str):
        return JournalReading(None, "it is not text")
    loose = _members(value)
    owner, phase = loose.get("owner"), loose.get("phase")
    claim = Claim(owner, phase) if isinstance(owner, str) and isinstance(phase, str) else None
    owner = owner if isinstance(owner, str) else None
    try:
        decoded = decode_strict(value)
    except StrictJSONError as broken:
        return JournalReading(None, f"it cannot be read: {broken}", owner=owner, claim=claim)
    if not isinstance(decoded, dict):
        return JournalReading(None, "it is not a JSON object")
    judged = _judge(decoded, loose)
    sound = isinstance(judged, BridgeJournal)
    return JournalReading(
        judged if isinstance(judged, BridgeJournal) else None,
        None if sound else str(judged),
        phase=phase if isinstance(phase, str) else None,
        owner=owner,
        claim=claim,
    )


def _members(text: str) -> dict[str, Any]:
    """
    The members of the outermost object, numbers as spelled; empty where there is none.

    NB: read less strictly than the schema (a byte-order mark, duplicates of which the last counts), since what
    this journal claims may only ever hold more back.
    """
    try:
        pairs = json.loads(
            text.removeprefix(_BYTE_ORDER_MARK), object_pairs_hook=_Pairs, parse_int=_Number, parse_float=_Number
        )
    except (ValueError, RecursionError):
        return {}
    return dict(pairs) if isinstance(pairs, _Pairs) else {}


def _judge(decoded: dict[str, Any], spelled: Mapping[str, Any]) -> BridgeJournal | str:
    if decoded.keys() != _KEYS:
        return "its keys are not exactly those of version 1"
    if spelled.get("v") != _Number("1"):
        return "its `v` is not the number 1"
    owner, uid, phase = decoded["owner"], decoded["uid"], decoded["phase"]
    if not isinstance(owner, str) or not owner:
        return "its `owner` is not a text"
    if not isinstance(uid, str) or not uid:
        return "its `uid` is not a text"
    if not isinstance(phase, str) or phase not in frozenset(BridgePhase):
        return "its `phase` is not one of that tool's"
    revision = decoded["desiredRevision"]
    if not isinstance(revision, str) or _REVISION.fullmatch(revision) is None:
        return "its `desiredRevision` is not 64 hexadecimal digits"
    cordoned = spelled.get("wasCordoned")
    if cordoned not in (_Number("0"), _Number("1")):
        return "its `wasCordoned` is neither the number 0 nor 1"
    taints = decoded["initialTaints"]
    if not are_taints(taints):
        return "its `initialTaints` is not a list of taints"
    return BridgeJournal(owner, uid, BridgePhase(phase), cordoned == _Number("1"), tuple(taints))


def are_taints(value: Any) -> bool:
    """Whether a value is a list of objects that have nothing but texts, or null, in them."""
    return isinstance(value, list) and all(
        isinstance(taint, Mapping) and all(part is None or isinstance(part, str) for part in taint.values())
        for taint in value
    )


def normalised(taints: Iterable[Taint]) -> tuple[str, ...]:
    """
    Taints without those that come and go by themselves, sorted, each as one text.

    Whole objects are compared: an absent value is not an empty one, an absent time is not null, and duplicates
    count. Only the order is none of it.
    """
    kept = [taint for taint in taints if not _comes_and_goes(taint)]
    kept.sort(key=lambda taint: tuple(_spelled(taint.get(part)) for part in _TAINT_ORDER))
    return tuple(_spelled(dict(taint)) for taint in kept)


def taint_drift(journal: BridgeJournal, live: Sequence[Taint]) -> tuple[str, ...] | None:
    """How the taints differ from what the journal recorded, in clauses; None where they do not."""
    before, now = normalised(journal.initial_taints), normalised(live)
    if before == now:
        return None
    changes = (("not recorded", _surplus(now, before)), ("recorded and gone", _surplus(before, now)))
    return tuple(f"{what}: {', '.join(names)}" for what, names in changes if names)


def _comes_and_goes(taint: Taint) -> bool:
    key, effect = taint.get("key"), taint.get("effect")
    if (key, effect) == ("node.kubernetes.io/unschedulable", "NoSchedule"):
        # NB: absent or empty, but not null: that is no spelling of the node lifecycle controller.
        return bool(taint.get("value", "") == "")
    return (key, effect) == ("DeletionCandidateOfClusterAutoscaler", "PreferNoSchedule")


def _spelled(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _surplus(these: Iterable[str], those: Iterable[str]) -> list[str]:
    """The names of the first three taints that are more often in `these` than in `those`."""
    more = Counter(these)
    more.subtract(those)
    decoded = (json.loads(taint) for taint, count in more.items() if count > 0)
    return [f"{taint.get('key')}:{taint.get('effect')}" for taint in islice(decoded, 3)]
