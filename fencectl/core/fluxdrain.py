"""
The drain proof: a suspension does not stop a reconcile that is in flight, and this says when none is.

The controllers copy `requestedAt` to `status.lastHandledReconcileAt` at the end of a reconcile, of a suspended
object too, and never run two reconciles of one object at once. One read that shows our mark, the suspension and
our token as handled proves that whatever ran before the suspension has ended (kustomize-controller,
`kustomization_controller.go`, the deferred status patch).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from fencectl.core.journal import Journal
from fencectl.core.marks import read_mark
from fencectl.core.profiles import REQUESTED_AT
from fencectl.core.refs import Raw, Seen, annotations_of, dig
from fencectl.core.releases import is_own_token

NO_PROOF = frozenset({"ImageUpdateAutomation", "Alert", "Provider"})
"""Kinds whose controllers do not answer a request while suspended, or not at all."""
LEAST_TIMEOUT_S = 30.0
SLACK_S = 30.0

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|m|s|us|µs|ns)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


class Drained(StrEnum):
    """What one read says of a suspended object."""

    PROVEN = "proven"
    WAITING = "waiting"
    OVERWRITTEN = "overwritten"  # somebody else's request stands where our token stood
    CHANGED = "changed"  # the mark or the suspension is not ours any more


def read_drain(seen: Seen, journal: Journal) -> Drained:
    """Judge one read of an object that this run suspended."""
    mark = read_mark(seen)
    if mark is None or mark.journal_text != journal.text or dig(seen.raw, "spec", "suspend") is not True:
        return Drained.CHANGED
    requested = annotations_of(seen.raw).get(REQUESTED_AT)
    if not is_own_token(requested, journal.holder, journal.seq):
        return Drained.OVERWRITTEN
    handled = dig(seen.raw, "status", "lastHandledReconcileAt")
    return Drained.PROVEN if handled == requested else Drained.WAITING


def reconcile_timeout_s(obj: Raw) -> float:
    """How long a reconcile of this object may take: `spec.timeout`, else the interval less 30 s; at least 30 s."""
    timeout = duration_s(dig(obj, "spec", "timeout"))
    if timeout is None:
        interval = duration_s(dig(obj, "spec", "interval"))
        timeout = interval - 30.0 if interval is not None else LEAST_TIMEOUT_S
    return max(LEAST_TIMEOUT_S, timeout)


def duration_s(text: object) -> float | None:
    """Read a Go duration such as `1h30m`; None for what is none."""
    if not isinstance(text, str) or _WHOLE.fullmatch(text) is None:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


@dataclass(frozen=True, slots=True)
class DrainBound:
    """How long to wait for all proofs together, and which objects can give none."""

    timeout_s: float
    without_proof: tuple[str, ...]


def drain_bound(objects: tuple[Seen, ...], *, asked_s: float | None) -> DrainBound:
    """
    Settle the time-out: what was asked for, else the longest reconcile of these objects plus 30 s.

    With 0 s nothing is waited for, which is the only way for kinds that give no proof.
    """
    without = tuple(seen.ref.display for seen in objects if seen.ref.kind in NO_PROOF)
    longest = max((reconcile_timeout_s(seen.raw) for seen in objects), default=0.0)
    return DrainBound(longest + SLACK_S if asked_s is None else asked_s, without)
