"""
Releases of the default profile: each fence's one patch that lifts it, built from the object as it is now.

A release guards what must still hold (uid, mark, journal, the fenced values as they are) and never the
resourceVersion, which kubelets and controllers move all the time. It follows the live value, field by field: what
still has the value of the fence goes back to what was there before; what somebody else has changed meanwhile is
left as it is and guarded as seen; the mark goes in every case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fencectl.core.journal import Journal
from fencectl.core.patches import ABSENT, GuardedPatch, Op, annotation, drop, guard, put, seal
from fencectl.core.profiles import DISABLED, HOLDER, JOURNAL, NESTED, RECONCILE, REQUESTED_AT, SUSPENDED_BY
from fencectl.core.refs import Seen, annotations_of, dig

SUSPEND = "/spec/suspend"
UNSCHEDULABLE = "/spec/unschedulable"


def _is_flag(value: Any) -> bool:
    # NB: not `in (None, True, False)`: the number 1 equals True.
    return value is None or isinstance(value, bool)


class Lifted(msgspec.Struct, frozen=True):
    """A release: the patch, what it does in words, and what will be so afterwards."""

    patch: GuardedPatch
    title: str
    now: str
    after: str


class CannotLift(msgspec.Struct, frozen=True):
    """Why no patch can lift the fence."""

    why: str


def drain_token(holder: str, seq: int, *, rewrite: int = 0) -> str:
    """
    The token that a suspension writes to `requestedAt`: the holder's nonce and a sequence, never a clock.

    `rewrite` counts how often somebody else's token had to be replaced.
    """
    nonce = holder.rpartition("-")[2]
    return f"{nonce}.{seq}" if rewrite == 0 else f"{nonce}.{seq}.{rewrite}"


def is_own_token(value: Any, holder: str, seq: int) -> bool:
    """Whether `requestedAt` still has a token of this fence."""
    own = drain_token(holder, seq)
    return isinstance(value, str) and (value == own or value.startswith(own + "."))


def lift_suspension(seen: Seen, journal: Journal) -> Lifted | CannotLift:
    """Resume what this fence suspended, and take its mark, exclusion, token and name away."""
    before, annotations = journal.prior, annotations_of(seen.raw)
    suspend = dig(seen.raw, "spec", "suspend")
    if "suspend" not in before or not _is_flag(before["suspend"]) or not _is_flag(suspend):
        return CannotLift("its journal does not say what `spec.suspend` was before")
    guards, changes = _mark_guards(journal), []
    guards.append(guard(SUSPEND, suspend))
    if suspend is True and before["suspend"] is not True:
        changes.append(drop(SUSPEND) if before["suspend"] is None else put(SUSPEND, False, present=True))
    if "reconcile" in before:
        reconcile, was = annotations.get(RECONCILE), before["reconcile"]
        if was is not None and not isinstance(was, str):
            return CannotLift("its journal does not say what the reconcile annotation was before")
        guards.append(guard(annotation(RECONCILE), reconcile))
        if reconcile == DISABLED and was != DISABLED:
            path = annotation(RECONCILE)
            changes.append(drop(path) if was is None else put(path, was, present=True))
    for key, own in (
        (REQUESTED_AT, is_own_token(annotations.get(REQUESTED_AT), journal.holder, journal.seq)),
        (SUSPENDED_BY, annotations.get(SUSPENDED_BY) == journal.holder),
    ):
        if before.get(_PRIOR_KEYS[key], key) is None and own:
            guards.append(guard(annotation(key), annotations[key]))
            changes.append(drop(annotation(key)))
    patch = seal(seen.ref, [*guards, *changes, *_drop_mark()])
    if suspend is not True:
        return Lifted(patch, "drop the mark; it was resumed meanwhile", "reconciles", "mark gone")
    if before["suspend"] is True:
        return Lifted(
            patch, "drop the mark; it was suspended before, so it stays so", "suspended", "stays suspended"
        )
    return Lifted(patch, "resume, drop the mark", "suspended", "reconciles")


_PRIOR_KEYS = {REQUESTED_AT: "requestedAt", SUSPENDED_BY: "suspendedBy"}


def lift_cordon(seen: Seen, journal: Journal) -> Lifted | CannotLift:
    """Uncordon a node only if this fence cordoned it, and take its mark away."""
    was, live = journal.prior.get("unschedulable"), dig(seen.raw, "spec", "unschedulable")
    if not isinstance(was, bool) or not _is_flag(live):
        return CannotLift("its journal does not say whether the node was schedulable before")
    uncordon = live is True and was is False
    patch = seal(
        seen.ref,
        [
            *_mark_guards(journal),
            guard(UNSCHEDULABLE, live),
            *([drop(UNSCHEDULABLE)] if uncordon else []),
            *_drop_mark(),
        ],
    )
    if uncordon:
        return Lifted(patch, "uncordon (it was schedulable before), drop the mark", "cordoned", "schedulable")
    if live is True:
        return Lifted(patch, "drop the mark; it was cordoned before, so it stays so", "cordoned", "stays cordoned")
    return Lifted(patch, "drop the mark; it was uncordoned meanwhile", "schedulable", "mark gone")


def lift_lease(seen: Seen) -> Lifted:
    """
    Free a held lease.

    The renewTime is guarded too, so a printed command is refused as soon as the holder shows a sign of life.
    The duration becomes 1, since the server refuses 0; the journal goes with the holder it speaks of.
    """
    spec = dig(seen.raw, "spec")
    spec = spec if isinstance(spec, Mapping) else {}
    changes: list[Op] = [
        put("/spec/holderIdentity", "", present=True),
        put("/spec/leaseDurationSeconds", 1, present=spec.get("leaseDurationSeconds") is not None),
    ]
    changes += [drop(annotation(key)) for key in (JOURNAL, NESTED) if key in annotations_of(seen.raw)]
    patch = seal(
        seen.ref,
        [
            guard("/spec/holderIdentity", spec.get("holderIdentity")),
            guard("/spec/renewTime", spec.get("renewTime", ABSENT)),
            *changes,
        ],
    )
    return Lifted(patch, "free it", "taken", "free")


def _mark_guards(journal: Journal) -> list[Op]:
    return [guard(annotation(HOLDER), journal.holder), guard(annotation(JOURNAL), journal.text)]


def _drop_mark() -> list[Op]:
    return [drop(annotation(HOLDER)), drop(annotation(JOURNAL))]
