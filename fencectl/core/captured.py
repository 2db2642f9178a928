"""
What an object was before a deploy came near it: without what only the server owns, and without any fence on it.

A fence is no part of a previous good state. Restored, its mark would hold the object for a run that has ended long
ago, and its suspension would stop Flux with nobody there to resume it. So what a sound journal has noted of the
time before stands in for what the fence has put there, field by field, as its release would do it.
"""

from __future__ import annotations

from typing import Any

from fencectl.core.marks import read_mark
from fencectl.core.profiles import (
    DISABLED,
    HOLDER,
    JOURNAL,
    NESTED,
    RECONCILE,
    REQUESTED_AT,
    SUSPENDED_BY,
)
from fencectl.core.refs import Raw, Seen, annotations_of, dig
from fencectl.core.releases import is_own_token

SERVER_OWNED = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "managedFields",
)
"""What only the server writes of `metadata`. The uid is kept beside the object, in its reference."""

_MARKS = (HOLDER, JOURNAL, NESTED)
_CORDON_TAINT = "node.kubernetes.io/unschedulable"


def before_of(seen: Seen) -> dict[str, Any]:
    """
    The object as it is to be put back: no status, nothing of the server's own, no mark, no suspension, no cordon.

    What a reader gave is left as it is; what comes back shares its parts. A mark that is not sound (copied onto
    the object, say) only goes: it tells nothing of what was there before.
    """
    return cleaned(without_fence(seen))


def cleaned(raw: Raw) -> dict[str, Any]:
    """The object without its status and without what only the server writes of its metadata."""
    metadata = dig(raw, "metadata")
    kept = {} if metadata is None else {key: value for key, value in metadata.items() if key not in SERVER_OWNED}
    for key in ("annotations", "labels"):
        # NB: the server keeps no empty map, and a fence that was the first to write one leaves one behind.
        if not kept.get(key):
            kept.pop(key, None)
    return {key: kept if key == "metadata" else value for key, value in raw.items() if key != "status"}


def without_fence(seen: Seen) -> dict[str, Any]:
    """The object as it would be had no run ever fenced it, as far as its journal tells."""
    raw, mark = dict(seen.raw), read_mark(seen)
    annotations: dict[str, Any] = dict(annotations_of(raw))
    if mark is not None and mark.problem is None and mark.journal is not None:
        prior, holder, seq = mark.journal.prior, mark.journal.holder, mark.journal.seq
        _put_back_annotations(annotations, dict(prior), holder, seq)
        spec = dig(raw, "spec")
        if isinstance(spec, dict):
            raw["spec"] = _spec_before(spec, dict(prior))
    for key in _MARKS:
        annotations.pop(key, None)
    metadata = dict(dig(raw, "metadata") or {})
    metadata["annotations"] = annotations
    raw["metadata"] = metadata
    return raw


def _put_back_annotations(annotations: dict[str, Any], prior: dict[str, Any], holder: str, seq: int) -> None:
    ours = {
        RECONCILE: ("reconcile", annotations.get(RECONCILE) == DISABLED),
        REQUESTED_AT: ("requestedAt", is_own_token(annotations.get(REQUESTED_AT), holder, seq)),
        SUSPENDED_BY: ("suspendedBy", annotations.get(SUSPENDED_BY) == holder),
    }
    for annotation, (noted_as, is_ours) in ours.items():
        if noted_as not in prior or not is_ours:
            continue  # NB: not touched by this fence, or written by somebody else since.
        if prior[noted_as] is None:
            annotations.pop(annotation, None)
        else:
            annotations[annotation] = prior[noted_as]


def _spec_before(spec: dict[str, Any], prior: dict[str, Any]) -> dict[str, Any]:
    before = dict(spec)
    if "suspend" in prior and before.get("suspend") is True:
        _put_back(before, "suspend", prior["suspend"])
    if prior.get("unschedulable") is False and before.get("unschedulable") is True:
        # NB: on a node that is schedulable the field is absent, and the taint that follows it goes with it.
        del before["unschedulable"]
        _take_cordon_taint(before, prior.get("taints"))
    return before


def _put_back(spec: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        spec.pop(key, None)
    else:
        spec[key] = value


def _take_cordon_taint(spec: dict[str, Any], taints_before: Any) -> None:
    taints = spec.get("taints")
    if not isinstance(taints, list) or _has_cordon_taint(taints_before):
        return
    left = [taint for taint in taints if dig(taint, "key") != _CORDON_TAINT]
    if left:
        spec["taints"] = left
    else:
        del spec["taints"]


def _has_cordon_taint(taints: Any) -> bool:
    return isinstance(taints, list) and any(dig(taint, "key") == _CORDON_TAINT for taint in taints)
