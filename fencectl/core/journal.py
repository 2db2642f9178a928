"""
The journal: the JSON in a mark that says who holds a fence and what was there before.

ASCII without `& < >`, so that every encoder on the way to the server and back leaves it alone. Unknown keys
are kept; a higher version is refused with the reason, never guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from fencectl.core.gojson import StrictJSONError, decode_strict, encode_ascii
from fencectl.core.times import parse_time, second_time

VERSION = 1
MAX_LENGTH = 64 * 1024
MAX_TOKEN = 2**31 - 1
"""The server's `leaseTransitions`, which is the token, is an int32."""
# As apimachinery's validation has them (`IsDNS1123Label`, `IsDNS1123Subdomain`).
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAMESPACE = re.compile(_LABEL, re.ASCII)
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)


class Phase(StrEnum):
    """How far the work behind a fence had come."""

    SUSPENDED = "suspended"
    HELD = "held"
    CLAIMED = "claimed"
    MUTATING = "mutating"
    VERIFIED = "verified"
    KEPT = "kept"
    RECOVERING = "recovering"


@dataclass(frozen=True, slots=True)
class LeaseRef:
    """The lease under which a fence was placed: where a report looks for the heartbeat."""

    namespace: str
    name: str
    uid: str
    duration_s: int
    token: int


@dataclass(frozen=True, slots=True)
class Journal:
    """
    A journal that was read, or is to be written.

    `prior` holds what was there before, by field; a key that is present with None means "was absent", a key
    that is missing means "this fence did not touch it". `recovering`: the run that this holder took the lease over
    to recover, and `before`: that run's own journal of the lease, which tells how to prove it dead. `extra` holds
    the keys that this version does not know. `source` is the annotation's own text where the journal was read: a
    guard tests that text, never a new spelling of it.
    """

    holder: str
    uid: str
    seq: int
    rank: int
    at: datetime
    phase: Phase
    prior: Mapping[str, Any] = field(default_factory=dict)
    reason: str | None = None
    repository: str | None = None
    server: str | None = None
    job: int | None = None
    job_verified: bool | None = None
    runner: str | None = None
    lease: LeaseRef | None = None
    within: str | None = None
    details: Mapping[str, Any] | None = None
    recovering: str | None = None
    before: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None

    @property
    def text(self) -> str:
        """The text as it stands on the object, byte for byte, or as it would be written."""
        return self.to_text() if self.source is None else self.source

    def to_text(self) -> str:
        """Write the journal as the annotation's text."""
        known: dict[str, Any] = {
            "v": VERSION,
            "holder": self.holder,
            "uid": self.uid,
            "seq": self.seq,
            "rank": self.rank,
            "at": second_time(self.at),
            "phase": self.phase.value,
            "prior": dict(self.prior),
        }
        optional = {
            "reason": self.reason,
            "repository": self.repository,
            "server": self.server,
            "job": self.job,
            "job_verified": self.job_verified,
            "runner": self.runner,
            "within": self.within,
            "details": None if self.details is None else dict(self.details),
            "recovering": self.recovering,
            "before": None if self.before is None else dict(self.before),
        }
        known |= {key: value for key, value in optional.items() if value is not None}
        if self.lease is not None:
            known["lease"] = {
                "namespace": self.lease.namespace,
                "name": self.lease.name,
                "uid": self.lease.uid,
                "duration": self.lease.duration_s,
                "token": self.lease.token,
            }
        return encode_ascii(known | {key: value for key, value in self.extra.items() if key not in known})

    def to_object(self) -> dict[str, Any]:
        """The journal as a JSON object, to be kept inside of another one."""
        value: dict[str, Any] = decode_strict(self.to_text())
        return value

    def with_phase(self, phase: Phase, *, at: datetime, reason: str | None = None) -> Journal:
        """The same story in another phase."""
        return replace(self, phase=phase, at=at, reason=reason if reason is not None else self.reason, source=None)


@dataclass(frozen=True, slots=True)
class BadJournal:
    """A journal that cannot be used, and why; `why` quotes nothing of it."""

    why: str


_NEEDED: Mapping[str, type] = {
    "holder": str,
    "uid": str,
    "seq": int,
    "rank": int,
    "at": str,
    "phase": str,
    "prior": dict,
}
_OPTIONAL: Mapping[str, type] = {
    "reason": str,
    "repository": str,
    "server": str,
    "job": int,
    "job_verified": bool,
    "runner": str,
    "within": str,
    "details": dict,
    "recovering": str,
    "before": dict,
}


def parse_journal(text: str) -> Journal | BadJournal:
    """Read a journal; every way in which it can be unusable has its own sentence."""
    if not text:
        return BadJournal("the journal is empty")
    if len(text) > MAX_LENGTH:
        return BadJournal("the journal is longer than 64 KiB")
    try:
        value = decode_strict(text)
    except StrictJSONError as broken:
        return BadJournal(f"the journal cannot be read: {broken}")
    if not isinstance(value, dict):
        return BadJournal("the journal is not a JSON object")
    version = value.get("v")
    if type(version) is not int or version < 1:
        return BadJournal("the journal has no version")
    if version > VERSION:
        return BadJournal(
            f"the journal was written by a newer fencectl (version {version}, this one reads {VERSION})"
        )
    return _from_keys(value, text)


def _from_keys(value: dict[str, Any], source: str) -> Journal | BadJournal:
    for key, wanted in _NEEDED.items():
        if key not in value:
            return BadJournal(f"the journal lacks `{key}`")
        if type(value[key]) is not wanted:
            return BadJournal(f"the journal's `{key}` has the wrong type")
    for key, wanted in _OPTIONAL.items():
        if value.get(key) is not None and type(value[key]) is not wanted:
            return BadJournal(f"the journal's `{key}` has the wrong type")
    at = parse_time(value["at"])
    if at is None:
        return BadJournal("the journal's `at` is not a time")
    if value["phase"] not in frozenset(Phase):
        return BadJournal("the journal's `phase` is not one that this version knows")
    lease = _lease_ref(value.get("lease"))
    if isinstance(lease, BadJournal):
        return lease
    known_elsewhere = {"at", "phase"}
    known = {"v", "lease", *_NEEDED, *_OPTIONAL}
    checked: dict[str, Any] = {key: value.get(key) for key in (*_NEEDED, *_OPTIONAL) if key not in known_elsewhere}
    return Journal(
        **checked,
        at=at,
        phase=Phase(value["phase"]),
        lease=lease,
        extra={key: kept for key, kept in value.items() if key not in known},
        source=source,
    )


def _lease_ref(value: Any) -> LeaseRef | BadJournal | None:
    if value is None:
        return None
    wanted = {"namespace": str, "name": str, "uid": str, "duration": int, "token": int}
    if not isinstance(value, dict) or any(type(value.get(key)) is not kind for key, kind in wanted.items()):
        return BadJournal("the journal's `lease` has the wrong shape")
    # NB: the name becomes a path, on which a recovery reads and writes.
    if not (_is_name(value["namespace"], _NAMESPACE, 63) and _is_name(value["name"], _NAME, 253)):
        return BadJournal("the journal's `lease` has no name that a lease can have")
    return LeaseRef(value["namespace"], value["name"], value["uid"], value["duration"], value["token"])


def _is_name(text: str, pattern: re.Pattern[str], longest: int) -> bool:
    return len(text) <= longest and pattern.fullmatch(text) is not None
