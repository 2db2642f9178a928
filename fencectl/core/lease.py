"""
The deploy lease: taken, renewed, taken over from a dead holder, handed back; each by one guarded patch.

`leaseTransitions` is the fencing token: it grows with every change of hands and is guarded in every patch here, so
that no late or repeated one can revive what has gone on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from fencectl.core.journal import Journal, Phase
from fencectl.core.patches import ABSENT, GuardedPatch, Op, annotation, drop, guard, put, put_annotations, seal
from fencectl.core.placements import CannotPlace, Placed
from fencectl.core.profiles import JOURNAL, LEASE_LABEL, NESTED
from fencectl.core.refs import Seen, annotations_of, dig, labels_of
from fencectl.core.times import micro_time

HOLDER_FIELD = "/spec/holderIdentity"
TRANSITIONS = "/spec/leaseTransitions"
RENEWED = "/spec/renewTime"


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """What a lease is taken with: the holder, for how long (whole seconds), when, and its journal."""

    holder: str
    duration_s: int
    at: datetime
    journal: Journal


def new_lease(namespace: str, name: str, terms: LeaseTerms, *, transitions: int = 1) -> dict[str, Any]:
    """The body of a lease that does not exist yet; its creation is the guard."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {LEASE_LABEL: "lease"},
            "annotations": {JOURNAL: replace(terms.journal, uid="", phase=_phase(terms.journal)).to_text()},
        },
        "spec": _lease_spec(terms, transitions),
    }


def acquire_lease(seen: Seen, terms: LeaseTerms, *, last_token: int = 0) -> Placed | CannotPlace:
    """
    Take a free lease: guard uid, holder and transitions as read; transitions + 1 is the fencing token.

    `last_token`: the highest that was given before as far as is known; a lease that was deleted and made anew may
    have counted less, and the token goes on from the higher one.

    NB: an absent holder is guarded as null, an empty one as `""`; the server tells the two apart.
    """
    spec = dig(seen.raw, "spec")
    spec = spec if isinstance(spec, Mapping) else None
    holder = dig(spec, "holderIdentity")
    if holder:
        return CannotPlace("it is held by another holder")
    transitions = dig(spec, "leaseTransitions")
    token = max(transitions if isinstance(transitions, int) else 0, last_token) + 1
    written = replace(terms.journal, uid=seen.ref.uid, phase=_phase(terms.journal), source=None)
    values = _lease_spec(terms, token)
    if spec is None:
        changes: list[Op] = [guard("/spec", ABSENT), put("/spec", values, present=False)]
    else:
        changes = [
            guard(HOLDER_FIELD, holder),
            guard(TRANSITIONS, transitions),
            *_put_spec(spec, values),
        ]
    labels = labels_of(seen.raw)
    if not labels:
        changes += [
            guard("/metadata/labels", ABSENT),
            put("/metadata/labels", {LEASE_LABEL: "lease"}, present=False),
        ]
    elif LEASE_LABEL not in labels:
        changes.append(put("/metadata/labels/" + LEASE_LABEL.replace("/", "~1"), "lease", present=False))
    changes += put_annotations(annotations_of(seen.raw), {JOURNAL: written.text})
    return Placed(seal(seen.ref, changes), written)


def renew_lease(seen: Seen, *, holder: str, transitions: int, at: datetime) -> GuardedPatch:
    """
    Renew a lease that is held: guard uid, holder and token, so that a lost lease is never revived.

    And guard the heartbeat that `seen` shows: the API server may carry a renewal out long after its sender has
    given it up and renewed again. Without this guard such a late copy would set the heartbeat back, and a living
    holder would look like one that stands still.
    """
    renewed = dig(seen.raw, "spec", "renewTime")
    return seal(
        seen.ref,
        [
            guard(HOLDER_FIELD, holder),
            guard(TRANSITIONS, transitions),
            guard(RENEWED, ABSENT if renewed is None else renewed),
            put(RENEWED, micro_time(at), present=renewed is not None),
        ],
    )


def take_over_lease(seen: Seen, terms: LeaseTerms) -> Placed:
    """
    Take a lease from a holder that is proven dead, so that it is excluded and not only believed dead.

    Guards the very heartbeat that was observed: a holder that wakes up in between keeps its lease. `terms.journal`
    says whom it is taken to recover.
    """
    spec = dig(seen.raw, "spec")
    spec = spec if isinstance(spec, Mapping) else {}
    transitions = spec.get("leaseTransitions")
    token = (transitions if isinstance(transitions, int) else 0) + 1
    written = replace(terms.journal, uid=seen.ref.uid, phase=Phase.RECOVERING, source=None)
    patch = seal(
        seen.ref,
        [
            guard(HOLDER_FIELD, spec.get("holderIdentity")),
            guard(RENEWED, spec.get("renewTime", ABSENT)),
            guard(TRANSITIONS, transitions),
            *(
                put(f"/spec/{key}", value, present=spec.get(key) is not None)
                for key, value in _lease_spec(terms, token).items()
            ),
            *put_annotations(annotations_of(seen.raw), {JOURNAL: written.text}),
        ],
    )
    return Placed(patch, written)


def hand_back_lease(taken: Seen, before: Seen) -> GuardedPatch:
    """
    Give a lease that was taken over back to the holder it was taken from, as `before` shows it.

    Transitions grow by one more: that holder still cannot renew, and whoever recovers it next finds its chain as
    it was. Its old heartbeat comes back too, or the lease would look alive for one more duration.
    """
    now, was = dig(taken.raw, "spec") or {}, dig(before.raw, "spec") or {}
    changes: list[Op] = [put(TRANSITIONS, now["leaseTransitions"] + 1, present=True)]
    for key in ("holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime"):
        value = was.get(key)
        if value is not None:
            changes.append(put(f"/spec/{key}", value, present=now.get(key) is not None))
        elif now.get(key) is not None:
            changes.append(drop(f"/spec/{key}"))
    journal = annotations_of(before.raw).get(JOURNAL)
    present = JOURNAL in annotations_of(taken.raw)
    if journal is not None:
        changes.append(put(annotation(JOURNAL), journal, present=present))
    elif present:
        changes.append(drop(annotation(JOURNAL)))
    return seal(
        taken.ref,
        [
            guard(HOLDER_FIELD, now.get("holderIdentity")),
            guard(TRANSITIONS, now.get("leaseTransitions")),
            *changes,
        ],
    )


def free_own_lease(taken: Seen, *, holder: str, transitions: int) -> GuardedPatch:
    """
    Free the lease that this run holds.

    NB: without a guard on renewTime: a renewal of our own may still be in flight, and must not wedge the release.
    """
    changes = [put(HOLDER_FIELD, "", present=True), put("/spec/leaseDurationSeconds", 1, present=True)]
    changes += [drop(annotation(key)) for key in (JOURNAL, NESTED) if key in annotations_of(taken.raw)]
    return seal(taken.ref, [guard(HOLDER_FIELD, holder), guard(TRANSITIONS, transitions), *changes])


def _phase(journal: Journal) -> Phase:
    return Phase.RECOVERING if journal.recovering else Phase.HELD


def _put_spec(spec: Mapping[str, Any], values: Mapping[str, Any]) -> list[Op]:
    return [put(f"/spec/{key}", value, present=spec.get(key) is not None) for key, value in values.items()]


def _lease_spec(terms: LeaseTerms, transitions: int) -> dict[str, Any]:
    return {
        "holderIdentity": terms.holder,
        "leaseDurationSeconds": terms.duration_s,
        "acquireTime": micro_time(terms.at),
        "renewTime": micro_time(terms.at),
        "leaseTransitions": transitions,
    }
