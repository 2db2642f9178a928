"""
Placements of the default profile: mark and change in one guarded patch, so a kill cannot leave an unowned fence.

A placement guards something that only grows (a lease's transitions, an object's generation, a node's
resourceVersion): sent again after its release, late or by a retry, it is refused instead of fencing anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from fencectl.core.journal import Journal, Phase
from fencectl.core.patches import ABSENT, GuardedPatch, Op, annotation, guard, put, put_annotations, seal
from fencectl.core.profiles import (
    APPLIED_BY_NAME,
    APPLIED_BY_NAMESPACE,
    DISABLED,
    HOLDER,
    JOURNAL,
    RECONCILE,
    REQUESTED_AT,
    SUSPENDED_BY,
)
from fencectl.core.refs import Raw, Seen, annotations_of, dig, is_deleting, labels_of
from fencectl.core.releases import SUSPEND, UNSCHEDULABLE, drain_token

_DELETION = "/metadata/deletionTimestamp"


class CannotPlace(msgspec.Struct, frozen=True):
    """Why an object cannot be fenced now; a sentence without a full stop."""

    why: str


class Placed(msgspec.Struct, frozen=True):
    """A placement: the patch, and the journal that it writes."""

    patch: GuardedPatch
    journal: Journal


def applier_of(obj: Raw) -> tuple[str, str] | None:
    """The Kustomization (namespace, name) that applies an object, as kustomize-controller's labels say."""
    labels = labels_of(obj)
    namespace, name = labels.get(APPLIED_BY_NAMESPACE), labels.get(APPLIED_BY_NAME)
    return (namespace, name) if isinstance(namespace, str) and isinstance(name, str) else None


def place_suspension(seen: Seen, journal: Journal) -> Placed | CannotPlace:
    """
    Suspend a Flux object.

    `journal` comes without `prior`, phase and uid; they are filled from the object as read. An object that a
    Kustomization applies also gets `reconcile: disabled`, or the applier would undo the suspension.
    """
    refused = _cannot_mark(seen)
    suspend = dig(seen.raw, "spec", "suspend")
    if refused is not None:
        return refused
    if suspend not in (None, False):
        return CannotPlace("it is already suspended, and not by this run")
    generation = dig(seen.raw, "metadata", "generation")
    if not isinstance(generation, int):
        return CannotPlace("it has no generation, so that a repeated placement could not be told from the first")
    current = annotations_of(seen.raw)
    prior: dict[str, Any] = {"suspend": suspend}
    values = {REQUESTED_AT: drain_token(journal.holder, journal.seq)}
    prior["requestedAt"] = current.get(REQUESTED_AT)
    prior["suspendedBy"] = current.get(SUSPENDED_BY)
    if prior["suspendedBy"] is None:
        values[SUSPENDED_BY] = journal.holder
    if applier_of(seen.raw) is not None:
        prior["reconcile"] = current.get(RECONCILE)
        values[RECONCILE] = DISABLED
    written = replace(journal, uid=seen.ref.uid, phase=Phase.SUSPENDED, prior=prior, source=None)
    # NB: a generation does not move with annotations, so each one whose prior value is recorded is guarded too.
    as_read = [guard(annotation(key), current.get(key)) for key in values if current]
    return Placed(
        seal(
            seen.ref,
            [
                guard("/metadata/generation", generation),
                guard(_DELETION, ABSENT),
                guard(SUSPEND, suspend),
                *_no_mark(current),
                *as_read,
                *put_annotations(current, values | _mark(written)),
                put(SUSPEND, True, present=suspend is not None),
            ],
        ),
        written,
    )


def adopt_kept(seen: Seen, kept: Journal, journal: Journal) -> Placed | CannotPlace:
    """
    Take over a suspension that another run has kept, as `journal` (without `prior`, phase and uid) will tell.

    It stays `kept`, with its reason and with what was there before anybody fenced it: whatever becomes of this
    run, nobody resumes it by rule. Its new token asks for a drain proof of its own.
    """
    suspend, current = dig(seen.raw, "spec", "suspend"), annotations_of(seen.raw)
    if is_deleting(seen.raw):
        return CannotPlace("it is being deleted")
    if suspend is not True:
        return CannotPlace("it was kept, and was resumed meanwhile")
    written = replace(
        journal,
        uid=seen.ref.uid,
        phase=Phase.KEPT,
        prior=kept.prior,
        reason=kept.reason,
        extra={**kept.extra, **journal.extra},
        source=None,
    )
    values = {REQUESTED_AT: drain_token(journal.holder, journal.seq)}
    if kept.prior.get("suspendedBy") is None and current.get(SUSPENDED_BY) == kept.holder:
        values[SUSPENDED_BY] = journal.holder
    return Placed(
        seal(
            seen.ref,
            [
                guard(annotation(HOLDER), kept.holder),
                guard(annotation(JOURNAL), kept.text),
                guard(_DELETION, ABSENT),
                guard(SUSPEND, True),
                *[guard(annotation(key), current.get(key)) for key in values],
                *put_annotations(current, values | _mark(written)),
            ],
        ),
        written,
    )


def place_cordon(seen: Seen, journal: Journal) -> Placed | CannotPlace:
    """
    Claim a node and cordon it; a node that is cordoned already is claimed and will stay cordoned.

    The whole object is guarded by its resourceVersion: nodes have no generation, and what is recorded as prior
    (taints included) must be what was there.
    """
    refused = _cannot_mark(seen)
    if refused is not None:
        return refused
    resource_version = dig(seen.raw, "metadata", "resourceVersion")
    if not isinstance(resource_version, str):
        return CannotPlace("it has no resourceVersion")
    live = dig(seen.raw, "spec", "unschedulable")
    taints = dig(seen.raw, "spec", "taints")
    written = replace(
        journal,
        uid=seen.ref.uid,
        phase=Phase.CLAIMED,
        prior={"unschedulable": live is True, "taints": taints if isinstance(taints, list) else []},
        source=None,
    )
    current = annotations_of(seen.raw)
    return Placed(
        seal(
            seen.ref,
            [
                guard("/metadata/resourceVersion", resource_version),
                guard(_DELETION, ABSENT),
                *_no_mark(current),
                *put_annotations(current, _mark(written)),
                put(UNSCHEDULABLE, True, present=live is not None),
            ],
        ),
        written,
    )


def rewrite_journal(seen: Seen, old: Journal, new: Journal) -> GuardedPatch:
    """Change the phase or the reason of a fence: guard uid, mark and the journal as read."""
    return seal(
        seen.ref,
        [
            guard(annotation(HOLDER), old.holder),
            guard(annotation(JOURNAL), old.text),
            put(annotation(JOURNAL), new.text, present=True),
        ],
    )


def _cannot_mark(seen: Seen) -> CannotPlace | None:
    if is_deleting(seen.raw):
        return CannotPlace("it is being deleted")
    annotations = annotations_of(seen.raw)
    if HOLDER in annotations or JOURNAL in annotations:
        return CannotPlace("it carries a mark already")
    return None


def _mark(journal: Journal) -> dict[str, str]:
    return {HOLDER: journal.holder, JOURNAL: journal.text}


def _no_mark(current: Mapping[str, Any]) -> list[Op]:
    # NB: with no map at all, its absence is the guard (see put_annotations), and these paths would not resolve.
    return [guard(annotation(HOLDER), ABSENT), guard(annotation(JOURNAL), ABSENT)] if current else []


def rewrite_token(seen: Seen, journal: Journal, *, rewrite: int) -> GuardedPatch:
    """Write another drain token, where somebody else has overwritten ours: guard uid, mark and journal."""
    current = annotations_of(seen.raw)
    return seal(
        seen.ref,
        [
            guard(annotation(HOLDER), journal.holder),
            guard(annotation(JOURNAL), journal.text),
            put(
                annotation(REQUESTED_AT),
                drain_token(journal.holder, journal.seq, rewrite=rewrite),
                present=REQUESTED_AT in current,
            ),
        ],
    )
