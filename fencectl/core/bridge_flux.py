"""
Suspensions of the profile `ghcr-bridge`: that tool suspends one child Kustomization and its parent, nothing else.

A release follows the live value field by field: what still has that tool's value is taken back, what somebody
else has changed is left as it is and guarded as seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from fencectl.core.bridge_marks import (
    CHILD_RANK,
    PARENT_RANK,
    Mark,
    group_of,
    is_flag,
    marked_since,
    metadata_fault,
    read_holder,
    read_mark,
    refused,
    sealed_or_refused,
)
from fencectl.core.found import Foreign, Found
from fencectl.core.managers import last_writer
from fencectl.core.observation import Observation
from fencectl.core.patches import ABSENT, Op, annotation, drop, guard, pointer, put
from fencectl.core.profiles import (
    APPLIED_BY_NAME,
    APPLIED_BY_NAMESPACE,
    BRIDGE_CHILD_OWNER,
    BRIDGE_PARENT_OWNER,
    DISABLED,
    HOLDER,
    JOURNAL,
    RECONCILE,
)
from fencectl.core.refs import ObjectRef, Raw, Seen, annotations_of, dig, is_deleting, labels_of
from fencectl.core.report import FenceKind, Refusal, Release

CHILD = ("flux-system", "infrastructure")
PARENT = ("flux-system", "flux-system")
"""Namespace and name. An observation for this profile must hold both whenever they exist, fenced or not."""

_API_VERSION = "kustomize.toolkit.fluxcd.io/v1"
_SUSPEND = pointer("spec", "suspend")
_BY_HAND = "find out who wrote it, then correct the object by hand"


def read_flux(seen: Seen) -> Found | Foreign | None:
    """Read one Flux object: fenced by that tool, suspended by somebody else, or nothing to report."""
    place = _place_of(seen.ref)
    child, parent = read_mark(seen.raw, BRIDGE_CHILD_OWNER), read_mark(seen.raw, BRIDGE_PARENT_OWNER)
    if metadata_fault(seen.raw) is not None:
        return _found(seen, child, refused(str(metadata_fault(seen.raw)), _BY_HAND))
    if place == CHILD and child.held:
        return _found(seen, child, _release(seen, child), _notes(seen.raw, stray=parent))
    if place == PARENT and parent.held:
        return _found(seen, parent, _release(seen, parent), _notes(seen.raw, stray=child))
    if child.held or parent.held:
        mark, where = (child, CHILD) if child.held else (parent, PARENT)
        why = f"this tool marks only kustomization/{'/'.join(where)} with `{mark.key}`"
        return _found(seen, mark, refused(why, _BY_HAND))
    return _read_foreign(seen, place)


def absent_objects(observation: Observation) -> Iterable[Foreign]:
    """
    Child and parent where they do not exist: that tool's next run refuses without them.

    Said only where everything was read and Flux is installed, since a gap in a reading is no absence.
    """
    if observation.unreadable or not observation.counts.flux_kinds:
        return
    there = {_place_of(seen.ref) for seen in observation.flux}
    for place in (CHILD, PARENT):
        if place not in there:
            namespace, name = place
            ref = ObjectRef(_API_VERSION, "Kustomization", "kustomizations", namespace, name, "")
            notes = ("that tool's next run refuses while it does not exist",)
            yield Foreign(FenceKind.SUSPENSION, Seen(ref, {}), "absent", None, None, notes)


def _place_of(ref: ObjectRef) -> tuple[str, str] | None:
    if (ref.group, ref.kind) != ("kustomize.toolkit.fluxcd.io", "Kustomization") or ref.namespace is None:
        return None
    return ref.namespace, ref.name


def _release(seen: Seen, mark: Mark) -> Release | Refusal:
    if mark.fault is not None:
        return refused(mark.fault, _BY_HAND)
    suspend = dig(seen.raw, "spec", "suspend")
    if not _has_spec(seen.raw) or not is_flag(suspend):
        return refused("its `spec.suspend` is neither true nor false", _BY_HAND)
    is_child = mark.key == BRIDGE_CHILD_OWNER
    reconcile = annotations_of(seen.raw).get(RECONCILE)
    guards, changes = mark.guards(), []
    if is_child:
        guards.append(guard(annotation(RECONCILE), reconcile))
    if dig(seen.raw, "spec") is None:
        guards.append(guard(pointer("spec"), ABSENT))
    else:
        guards.append(guard(_SUSPEND, suspend))
    if suspend is True:
        changes.append(put(_SUSPEND, False, present=True))
    if is_child and reconcile == DISABLED:
        changes.append(drop(annotation(RECONCILE)))
    operations: list[Op] = [*guards, *changes, *mark.removal()]
    patch = sealed_or_refused(seen.ref, operations)
    if isinstance(patch, Refusal):
        return patch
    title = "drop the mark; it was resumed by somebody else"
    if suspend is True:
        title = "resume, drop the mark"
    elif is_child and reconcile == DISABLED:
        title = "drop the mark and `reconcile: disabled`; it was resumed by somebody else"
    return Release(patch, title, role="child" if is_child else "parent")


def _has_spec(raw: Raw) -> bool:
    spec = dig(raw, "spec")
    return spec is None or isinstance(spec, Mapping)


def _found(seen: Seen, mark: Mark, release: Release | Refusal, notes: tuple[str, ...] = ()) -> Found:
    owner = None if mark.owner is None else read_holder(mark.owner)
    manager, _ = last_writer(seen.raw, "spec", "suspend")
    is_child = mark.key == BRIDGE_CHILD_OWNER
    return Found(
        FenceKind.SUSPENSION,
        seen,
        mark.text,
        owner,
        group=None if owner is None else group_of(owner),
        rank=CHILD_RANK if is_child else PARENT_RANK,
        seq=0,
        now=_now(seen.raw),
        after="reconciles" if isinstance(release, Release) else None,
        release=release if isinstance(release, Release) else None,
        refusal=release if isinstance(release, Refusal) else None,
        since=marked_since(seen.raw, mark.key),
        manager=manager,
        notes=notes,
        applier=_applier_of(seen),
        excluded=is_child and annotations_of(seen.raw).get(RECONCILE) == DISABLED,
    )


def _now(raw: Raw) -> str:
    suspend = dig(raw, "spec", "suspend")
    if not _has_spec(raw) or not is_flag(suspend):
        return "malformed"
    return "suspended" if suspend else "reconciles"


def _notes(raw: Raw, *, stray: Mark) -> tuple[str, ...]:
    notes = []
    if stray.held:
        notes.append(f"it also carries `{stray.key}`, which this release leaves")
    if stray.key == BRIDGE_PARENT_OWNER and annotations_of(raw).get(RECONCILE) != DISABLED:
        notes.append(
            f"its annotation `{RECONCILE}: {DISABLED}` is gone"
            if annotations_of(raw).get(RECONCILE) is None
            else f"its annotation `{RECONCILE}` was changed and stays: that tool's next run refuses it"
        )
    if is_deleting(raw):
        notes.append("it is being deleted: what it applied stays behind if it goes while it is suspended")
    return tuple(notes)


def _applier_of(seen: Seen) -> tuple[str, str] | None:
    labels = labels_of(seen.raw)
    namespace, name = labels.get(APPLIED_BY_NAMESPACE), labels.get(APPLIED_BY_NAME)
    if isinstance(namespace, str) and isinstance(name, str):
        return namespace, name
    return PARENT if _place_of(seen.ref) == CHILD else None


def _read_foreign(seen: Seen, place: tuple[str, str] | None) -> Foreign | None:
    now, notes = _now(seen.raw), []
    changed: tuple[str | None, datetime | None] = last_writer(seen.raw, "spec", "suspend")
    if now == "malformed":
        notes.append("its `spec.suspend` is neither true nor false")
    if now != "reconciles" and place in (CHILD, PARENT):
        notes.append("that tool's next run refuses while it is suspended")
    if place == CHILD and annotations_of(seen.raw).get(RECONCILE) is not None:
        notes.append(f"that tool's next run refuses while it carries `{RECONCILE}`")
        if now == "reconciles":
            changed = last_writer(seen.raw, "metadata", "annotations", RECONCILE)
    if now == "reconciles" and not notes:
        return None
    if any(annotations_of(seen.raw).get(key) is not None for key in (HOLDER, JOURNAL)):
        notes.append("it carries a mark of the profile `fencectl`")
    return Foreign(FenceKind.SUSPENSION, seen, now, changed[1], changed[0], tuple(notes))
