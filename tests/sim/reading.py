"""Read objects of the simulated cluster: marks, journals, and what a release should have left."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fencectl.core.journal import Journal, parse_journal
from fencectl.core.marks import Mark, read_mark
from fencectl.core.profiles import DISABLED, JOURNAL, RECONCILE, REQUESTED_AT, SUSPENDED_BY
from fencectl.core.refs import ObjectRef, Seen, annotations_of, dig
from fencectl.core.releases import is_own_token
from fencectl.core.times import parse_time

PLURALS = {"Node": "nodes", "Kustomization": "kustomizations", "Lease": "leases"}


def seen_of(obj: Mapping[str, Any]) -> Seen:
    metadata, kind = obj["metadata"], str(obj["kind"])
    ref = ObjectRef(
        str(obj["apiVersion"]), kind, PLURALS[kind], metadata.get("namespace"), metadata["name"], metadata["uid"]
    )
    return Seen(ref, obj)


def renewed_at(lease: Mapping[str, Any]) -> datetime | None:
    return parse_time(dig(lease, "spec", "renewTime"))


def mark_of(obj: Mapping[str, Any] | None) -> Mark | None:
    return None if obj is None else read_mark(seen_of(obj))


def journal_of(lease: Mapping[str, Any] | None) -> Journal | None:
    text = annotations_of(lease or {}).get(JOURNAL)
    parsed = parse_journal(text) if isinstance(text, str) else None
    return parsed if isinstance(parsed, Journal) else None


def group_of(mark: Mark) -> str:
    within = mark.journal.within if mark.journal is not None else None
    return within or str(mark.owner)


def placement_of(seen: Seen, mark: Mark) -> tuple[str, str, int]:
    return (seen.ref.uid, str(mark.owner), mark.journal.seq if mark.journal is not None else 0)


def not_restored(was: Seen, now: Seen, journal: Journal) -> list[tuple[str, Any, Any]]:
    """I3: the fields that the release of a fence should have left otherwise (what, wanted, found)."""
    prior, before, after = journal.prior, annotations_of(was.raw), annotations_of(now.raw)
    if was.ref.kind == "Node":
        live = bool(dig(was.raw, "spec", "unschedulable"))
        wanted = prior["unschedulable"] if live else False
        found = bool(dig(now.raw, "spec", "unschedulable"))
        return [] if found == wanted else [("unschedulable", wanted, found)]
    live = dig(was.raw, "spec", "suspend")
    fields = [("suspend", prior["suspend"] if live is True else live, dig(now.raw, "spec", "suspend"))]
    excluded = before.get(RECONCILE)
    by_us = "reconcile" in prior and excluded == DISABLED
    fields.append((RECONCILE, prior.get("reconcile") if by_us else excluded, after.get(RECONCILE)))
    for key, name, own in (
        (SUSPENDED_BY, "suspendedBy", before.get(SUSPENDED_BY) == journal.holder),
        (REQUESTED_AT, "requestedAt", is_own_token(before.get(REQUESTED_AT), journal.holder, journal.seq)),
    ):
        wanted = None if own and prior.get(name) is None else before.get(key)
        fields.append((key, wanted, after.get(key)))
    return [(name, wanted, found) for name, wanted, found in fields if wanted != found]
