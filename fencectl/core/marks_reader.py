"""
Read the fences of the default profile out of an observation.

Every object that was read ends in exactly one place: a fence (with its own release or its own refusal), something
foreign that is only shown, or nothing at all. An unusable value never drops its object, or a later one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from fencectl.core.found import Foreign, Found, Heartbeat, Reading
from fencectl.core.identity import parse_holder
from fencectl.core.journal import Journal, Phase, parse_journal
from fencectl.core.managers import last_writer
from fencectl.core.marks import Mark, read_mark
from fencectl.core.observation import Observation
from fencectl.core.placements import applier_of
from fencectl.core.profiles import DISABLED, FENCECTL, JOURNAL, RECONCILE, SUSPENDED_BY
from fencectl.core.refs import Seen, annotations_of, dig, is_deleting, text_or_none
from fencectl.core.releases import CannotLift, lift_cordon, lift_lease, lift_suspension
from fencectl.core.report import FenceKind, NoRelease, Refusal, Release
from fencectl.core.times import clock_text, parse_time

NODE_RANK = 1000
SUSPENSION_RANK = 1
LEASE_RANK = 0


class Vouched(msgspec.Struct, frozen=True):
    """
    What a person has vouched for, by the fences' display names.

    `nodes`: nodes in phase `mutating` that were checked by hand; `resumed`: kept suspensions that may go.
    """

    nodes: frozenset[str] = frozenset()
    resumed: frozenset[str] = frozenset()


NOTHING_VOUCHED = Vouched()


def read_marks(observation: Observation, vouched: Vouched = NOTHING_VOUCHED) -> Reading:
    """Find every fence of the default profile, and what is fenced by others."""
    everything = (*observation.nodes, *observation.flux, *observation.leases)
    items = [read_object(seen, now=observation.observed_at, vouched=vouched) for seen in everything]
    return Reading(
        tuple(item for item in items if isinstance(item, Found)),
        tuple(item for item in items if isinstance(item, Foreign)),
    )


def read_object(seen: Seen, *, now: datetime, vouched: Vouched = NOTHING_VOUCHED) -> Found | Foreign | None:
    """Read one object; None where it is fenced by nobody."""
    if seen.ref.kind == "Node":
        return _read_node(seen, now, vouched)
    if seen.ref.kind == "Lease":
        return _read_lease(seen)
    return _read_flux(seen, vouched)


def refused(why: str, *advice: str) -> Refusal:
    """A fence that cannot be released for its own sake."""
    return Refusal(NoRelease.REFUSED, why, "REFUSED", advice)


def _read_node(seen: Seen, observed_at: datetime, vouched: Vouched) -> Found | Foreign | None:
    mark = read_mark(seen)
    cordoned = dig(seen.raw, "spec", "unschedulable") is True
    now = "cordoned" if cordoned else "schedulable"
    manager, changed_at = last_writer(seen.raw, "spec", "unschedulable")
    if mark is None:
        return Foreign(FenceKind.CORDON, seen, now, changed_at, manager) if cordoned else None
    lifted = None if mark.problem or mark.journal is None else _lift_node(seen, mark.journal, observed_at, vouched)
    notes = []
    if is_deleting(seen.raw):
        notes.append("the node is being deleted")
    if mark.journal is not None and _taints_changed(seen, mark.journal):
        notes.append("its taints have changed since it was fenced")
    return _found(seen, FenceKind.CORDON, mark, now, lifted, manager, notes)


def _lift_node(seen: Seen, journal: Journal, observed_at: datetime, vouched: Vouched) -> Release | Refusal:
    mutating = journal.phase is Phase.MUTATING
    if mutating and seen.ref.display not in vouched.nodes:
        since = clock_text(journal.at, now=observed_at)
        boot = text_or_none(dig(seen.raw, "status", "nodeInfo", "bootID"))
        return refused(
            f"phase `mutating` since {since}: its node command may be half done",
            f"check that it is Ready, its kubelet version and its boot id{f' {boot[:8]}…' if boot else ''}, "
            "and repair or replace it by hand",
        )
    if not mutating and journal.phase not in (Phase.CLAIMED, Phase.VERIFIED):
        return refused(f"its journal has phase `{journal.phase.value}`, which no node can have")
    lifted = lift_cordon(seen, journal)
    return refused(lifted.why) if isinstance(lifted, CannotLift) else Release(lifted.patch, lifted.title)


def _taints_changed(seen: Seen, journal: Journal) -> bool:
    before, live = journal.prior.get("taints"), dig(seen.raw, "spec", "taints")
    return isinstance(before, list) and _own_taints(before) != _own_taints(live if isinstance(live, list) else [])


def _own_taints(taints: list[Any]) -> list[str]:
    # NB: the node lifecycle controller adds and removes this one by itself, whenever it sees the cordon.
    kept = [taint for taint in taints if dig(taint, "key") != "node.kubernetes.io/unschedulable"]
    return sorted(repr(sorted(taint.items())) if isinstance(taint, Mapping) else repr(taint) for taint in kept)


def _read_flux(seen: Seen, vouched: Vouched) -> Found | Foreign | None:
    mark = read_mark(seen)
    suspended = dig(seen.raw, "spec", "suspend") is True
    now = "suspended" if suspended else "reconciles"
    manager, changed_at = last_writer(seen.raw, "spec", "suspend")
    named = text_or_none(annotations_of(seen.raw).get(SUSPENDED_BY))
    if mark is None:
        return Foreign(FenceKind.SUSPENSION, seen, now, changed_at, named or manager) if suspended else None
    lifted: Release | Refusal | None = None
    if mark.problem is None and mark.journal is not None:
        result = (
            CannotLift(f"its journal has phase `{mark.journal.phase.value}`, which no suspension can have")
            if mark.journal.phase not in (Phase.SUSPENDED, Phase.KEPT)
            else lift_suspension(seen, mark.journal)
        )
        lifted = refused(result.why) if isinstance(result, CannotLift) else Release(result.patch, result.title)
    notes = []
    if is_deleting(seen.raw):
        notes.append("it is being deleted: while it is suspended, what it applied stays behind")
    found = _found(seen, FenceKind.SUSPENSION, mark, now, lifted, manager, notes)
    return replace(found, kept_because=None) if seen.ref.display in vouched.resumed else found


def _read_lease(seen: Seen) -> Found | Foreign | None:
    holder_text = dig(seen.raw, "spec", "holderIdentity")
    if holder_text is None or holder_text == "":
        return None
    holder_text = str(holder_text)
    renewed_text = dig(seen.raw, "spec", "renewTime")
    acquired_at = parse_time(dig(seen.raw, "spec", "acquireTime"))
    manager, _ = last_writer(seen.raw, "spec", "holderIdentity")
    if (seen.ref.namespace, seen.ref.name) == FENCECTL.other_lease:
        note = "it belongs to the profile ghcr-bridge"
        return Foreign(FenceKind.LEASE, seen, "taken", acquired_at, holder_text, (note,))
    journal_text = annotations_of(seen.raw).get(JOURNAL)
    parsed = parse_journal(journal_text) if isinstance(journal_text, str) else None
    journal = parsed if isinstance(parsed, Journal) and parsed.holder == holder_text else None
    notes = []
    if parsed is not None and journal is None:
        notes.append("its journal is not that of its holder" if isinstance(parsed, Journal) else parsed.why)
    if not holder_text.strip():
        notes.append("its holder is blank: no run can be named")
    duration = dig(seen.raw, "spec", "leaseDurationSeconds")
    lifted = lift_lease(seen) if seen.ref.uid else None
    return Found(
        FenceKind.LEASE,
        seen,
        holder_text,
        parse_holder(holder_text),
        group=(journal.recovering or journal.within if journal else None) or holder_text,
        rank=LEASE_RANK,
        seq=journal.seq if journal else 0,
        now="taken",
        after=lifted.after if lifted else None,
        release=Release(lifted.patch, lifted.title) if lifted else None,
        refusal=None if lifted else refused("it has no uid, so that no patch of it could be guarded"),
        since=acquired_at,
        phase=journal.phase.value if journal else None,
        manager=manager,
        notes=tuple(notes),
        heartbeat=Heartbeat(
            None if renewed_text is None else str(renewed_text),
            parse_time(renewed_text),
            duration if isinstance(duration, int) and not isinstance(duration, bool) else None,
        ),
        journal=journal,
    )


_RANKS = {FenceKind.CORDON: NODE_RANK, FenceKind.SUSPENSION: SUSPENSION_RANK}
_UNOWNED_ADVICE = "find out who wrote it, then correct the object by hand"


def _found(
    seen: Seen,
    kind: FenceKind,
    mark: Mark,
    now: str,
    lifted: Release | Refusal | None,
    manager: str | None,
    notes: list[str],
) -> Found:
    if lifted is None:
        lifted = refused(mark.problem or "its mark cannot be used", _UNOWNED_ADVICE)
    release, refusal = (lifted, None) if isinstance(lifted, Release) else (None, lifted)
    journal = mark.journal
    usable = journal if journal is not None and journal.holder == mark.holder_text else None
    annotations = annotations_of(seen.raw)
    kept = mark.kept and kind is FenceKind.SUSPENSION
    return Found(
        kind,
        seen,
        mark.holder_text,
        parse_holder(mark.owner) if mark.owner else None,
        group=(usable.within if usable else None) or mark.owner,
        # NB: whatever a journal claims, nothing stands beside or behind the lease.
        rank=max(usable.rank, SUSPENSION_RANK) if usable else _RANKS[kind],
        seq=usable.seq if usable else 0,
        now=now,
        after=None if release is None else _after(kind, now, release),
        release=release,
        refusal=refusal,
        since=usable.at if usable else None,
        phase=journal.phase.value if journal else None,
        manager=manager,
        # NB: a node is never left on purpose; one whose journal says so must not be passed over.
        kept_because=_kept_because(seen, journal) if kept and journal else None,
        notes=tuple(notes),
        applier=applier_of(seen.raw) if kind is FenceKind.SUSPENSION else None,
        excluded=annotations.get(RECONCILE) == DISABLED and (usable is None or "reconcile" in usable.prior),
        journal=usable,
    )


def _after(kind: FenceKind, now: str, release: Release) -> str:
    if kind is FenceKind.CORDON:
        if now != "cordoned":
            return "mark gone"
        return "schedulable" if release.title.startswith("uncordon") else "stays cordoned"
    if now != "suspended":
        return "mark gone"
    return "reconciles" if release.title.startswith("resume") else "stays suspended"


def _kept_because(seen: Seen, journal: Journal) -> str:
    revision = text_or_none(dig(seen.raw, "status", "lastAttemptedRevision"))
    return f"Flux would apply {revision} again" if revision else (journal.reason or "it was left on purpose")
