"""
Who owns what a restore has written: the deploys of this program, as before.

A patch makes its manager an owner by update, beside the same manager's ownership by apply. Left like that, the
next apply would be refused over fields that are its own, and would not take away what it does not name any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fencectl.core.patches import GuardedPatch, drop, guard, pointer, put, seal
from fencectl.core.profiles import FIELD_MANAGER, HOLDER
from fencectl.core.refs import Raw, Seen, annotations_of, dig


def is_applied(raw: Raw) -> bool:
    """Whether this program owns any of its fields by apply."""
    return "Apply" in _own_entries(raw)


def _own_entries(raw: Raw) -> dict[str, int]:
    """The numbers of this program's own entries, by their operation."""
    entries = dig(raw, "metadata", "managedFields")
    return {
        str(dig(entry, "operation")): number
        for number, entry in enumerate(entries if isinstance(entries, list) else [])
        if dig(entry, "manager") == FIELD_MANAGER
        and not dig(entry, "subresource")
        and isinstance(dig(entry, "fieldsV1"), Mapping)
    }


def hand_back(seen: Seen) -> GuardedPatch | None:
    """
    Make the fields that this program owns by update its own by apply; None where there is nothing to hand back.

    Not on an object under a fence: its mark and its suspension are owned by update, and no apply may take them.
    """
    mine = _own_entries(seen.raw)
    if HOLDER in annotations_of(seen.raw) or "Update" not in mine:
        return None
    entries = dig(seen.raw, "metadata", "managedFields")
    if "Apply" not in mine:
        only = pointer("metadata", "managedFields", str(mine["Update"]))
        renamed = put(f"{only}/operation", "Apply", present=True)
        return seal(seen.ref, [guard(only, entries[mine["Update"]]), renamed])
    applied, updated = (entries[mine[operation]] for operation in ("Apply", "Update"))
    if applied.get("apiVersion") != updated.get("apiVersion"):
        return None
    fields = _union(applied["fieldsV1"], updated["fieldsV1"])
    where = [pointer("metadata", "managedFields", str(mine[operation])) for operation in ("Apply", "Update")]
    return seal(
        seen.ref,
        [
            guard(where[0], applied),
            guard(where[1], updated),
            put(f"{where[0]}/fieldsV1", fields, present=True),
            drop(where[1]),
        ],
    )


def _union(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(one)
    for key, below in other.items():
        merged[key] = _union(merged[key], below) if key in merged else below
    return merged
