"""The Lease of the profile `ghcr-bridge`, and the leases of others that are shown beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fencectl.core.bridge_marks import (
    LEASE_RANK,
    group_of,
    is_held,
    names_somebody,
    read_holder,
    refused,
    sealed_or_refused,
)
from fencectl.core.found import Foreign, Found, Heartbeat
from fencectl.core.managers import last_writer
from fencectl.core.patches import ABSENT, guard, pointer, put
from fencectl.core.profiles import GHCR_BRIDGE, LEASE_LABEL
from fencectl.core.refs import Raw, Seen, dig, is_deleting, labels_of, text_or_none
from fencectl.core.report import FenceKind, Refusal, Release
from fencectl.core.times import parse_time

_HOLDER = pointer("spec", "holderIdentity")
_RENEWED = pointer("spec", "renewTime")
_DURATION = pointer("spec", "leaseDurationSeconds")
_BY_HAND = "prove that nothing runs under it, then free it by hand"


def read_lease(seen: Seen) -> Found | Foreign | None:
    """Read one lease: that tool's own is a fence while it is held, any other is only shown."""
    if (seen.ref.namespace, seen.ref.name) != GHCR_BRIDGE.lease:
        return _read_other(seen)
    holder = dig(seen.raw, "spec", "holderIdentity")
    if not is_held(holder):
        return _read_free(seen)
    owner = read_holder(holder) if isinstance(holder, str) and names_somebody(holder) else None
    release = _release(seen, holder)
    manager, _ = last_writer(seen.raw, "spec", "holderIdentity")
    return Found(
        FenceKind.LEASE,
        seen,
        text_or_none(holder),
        owner,
        group=None if owner is None else group_of(owner),
        rank=LEASE_RANK,
        seq=0,
        now="taken",
        after="free" if isinstance(release, Release) else None,
        release=release if isinstance(release, Release) else None,
        refusal=release if isinstance(release, Refusal) else None,
        since=parse_time(dig(seen.raw, "spec", "acquireTime")),
        manager=manager,
        notes=_notes(seen.raw),
        heartbeat=_heartbeat(seen.raw),
    )


def _release(seen: Seen, holder: Any) -> Release | Refusal:
    if not isinstance(holder, str):
        return refused("its holder is not text, so it names nobody", _BY_HAND)
    if not names_somebody(holder):
        return refused("its holder is blank, so it names nobody", _BY_HAND)
    spec: Mapping[str, Any] = dig(seen.raw, "spec")
    patch = sealed_or_refused(
        seen.ref,
        [
            guard(_HOLDER, holder),
            guard(_RENEWED, spec.get("renewTime", ABSENT)),
            put(_HOLDER, "", present=True),
            # NB: the server refuses 0; client-go frees a lease with 1 as well.
            put(_DURATION, 1, present=spec.get("leaseDurationSeconds") is not None),
        ],
    )
    return patch if isinstance(patch, Refusal) else Release(patch, "free it")


def _heartbeat(raw: Raw) -> Heartbeat:
    renewed, duration = dig(raw, "spec", "renewTime"), dig(raw, "spec", "leaseDurationSeconds")
    return Heartbeat(
        None if renewed is None else renewed if isinstance(renewed, str) else "not a text",
        parse_time(renewed),
        0 if duration is None else duration if type(duration) is int else None,
    )


def _notes(raw: Raw) -> tuple[str, ...]:
    notes = []
    renewed, acquired = (parse_time(dig(raw, "spec", key)) for key in ("renewTime", "acquireTime"))
    if renewed is None:
        notes.append("it has no `renewTime` that is a time: whether its holder lives is unknown")
    if renewed is None or acquired is None:
        notes.append("without both of its times that tool's next run refuses it even when it is free")
    duration = dig(raw, "spec", "leaseDurationSeconds")
    if duration is None:
        notes.append("it has no duration, which counts as 0")
    elif type(duration) is not int:
        notes.append("its duration is not a number of seconds")
    if is_deleting(raw):
        notes.append("it is being deleted")
    return tuple(notes)


def _read_free(seen: Seen) -> Foreign | None:
    """A Lease that nobody holds is nothing to report, unless that tool's next run refuses it."""
    faults = []
    if dig(seen.raw, "spec", "holderIdentity") is None:
        faults.append("its holder is absent")
    if type(dig(seen.raw, "spec", "leaseDurationSeconds")) is not int:
        faults.append("it has no duration")
    faults += [
        f"it has no `{key}` that is a time"
        for key in ("acquireTime", "renewTime")
        if parse_time(dig(seen.raw, "spec", key)) is None
    ]
    if not faults:
        return None
    manager, changed_at = last_writer(seen.raw, "spec")
    notes = (f"malformed: {', '.join(faults)}; that tool's next run refuses such a Lease",)
    return Foreign(FenceKind.LEASE, seen, "malformed", changed_at, manager, notes)


def _read_other(seen: Seen) -> Foreign | None:
    holder = dig(seen.raw, "spec", "holderIdentity")
    if not is_held(holder):
        return None
    manager, _ = last_writer(seen.raw, "spec", "holderIdentity")
    notes = [f"held by {holder}" if isinstance(holder, str) else "its holder is not text"]
    if (seen.ref.namespace, seen.ref.name) == GHCR_BRIDGE.other_lease or LEASE_LABEL in labels_of(seen.raw):
        notes.append("a lease of the profile `fencectl`")
    since = parse_time(dig(seen.raw, "spec", "acquireTime"))
    return Foreign(FenceKind.LEASE, seen, "taken", since, manager, tuple(notes))
