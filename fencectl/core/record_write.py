"""
Write entries of a record: compare-and-swap, each entry guarded as it was read, all of them in one patch.

A write names the entries that it depends on and what each is to be. Whatever else is in the ConfigMap is not its
business, and no other writer's key can make it fail.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fencectl.core.patches import ABSENT, GuardedPatch, Op, drop, guard, pointer, put, seal
from fencectl.core.refs import ObjectRef, Seen, dig

RECORD_LABEL = "fencectl.dev/record"
KEPT_RECORDS = 50
# What the API server allows the data of a ConfigMap together (kubernetes, pkg/apis/core/types.go, MaxSecretSize).
LARGEST_BYTES = 1024 * 1024

_RECORD_KEY = re.compile(r"record-([0-9]{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Change:
    """One entry: its text as it was read, and as it is to be; None: absent. Both alike: only guarded."""

    key: str
    before: str | None
    after: str | None


def data_of(seen: Seen | None) -> Mapping[str, str]:
    """The entries; empty where there is no ConfigMap yet."""
    data = dig(seen.raw, "data") if seen is not None else None
    return data if isinstance(data, Mapping) else {}


def write_record(seen: Seen, changes: Sequence[Change]) -> GuardedPatch:
    """Patch these entries, if each of them still is what was read. Records beyond the newest 50 go with it."""
    data = data_of(seen)
    changes = (*changes, *_outlived(data, changes))
    if not data:
        # NB: the server leaves an empty map out, and `add` below a missing one fails.
        return seal(
            seen.ref, [guard(pointer("data"), ABSENT), put(pointer("data"), _after(changes), present=False)]
        )
    return seal(seen.ref, [op for change in changes for op in _operations(change)])


def new_record(ref: ObjectRef, changes: Sequence[Change]) -> dict[str, Any]:
    """The body of a record that does not exist yet; its creation is the guard."""
    return {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "metadata": {"name": ref.name, "namespace": ref.namespace, "labels": {RECORD_LABEL: "record"}},
        "data": _after(changes),
    }


def is_written(seen: Seen | None, changes: Sequence[Change]) -> bool:
    """Whether every entry is exactly what this write made of it."""
    data = data_of(seen)
    return all(data.get(change.key) == change.after for change in changes)


def size_after(seen: Seen | None, changes: Sequence[Change]) -> int:
    """How many bytes the server would count after this write."""
    data = dict(data_of(seen))
    for change in (*changes, *_outlived(data, changes)):
        if change.after is None:
            data.pop(change.key, None)
        else:
            data[change.key] = change.after
    binary = dig(seen.raw, "binaryData") if seen is not None else None
    coded = sum(len(text) for text in binary.values()) * 3 // 4 if isinstance(binary, Mapping) else 0
    return coded + sum(len(text.encode("utf-8", "surrogatepass")) for text in data.values())


def _operations(change: Change) -> list[Op]:
    path = pointer("data", change.key)
    ops = [guard(path, change.before)]
    if change.after == change.before:
        return ops
    if change.after is None:
        return [*ops, drop(path)]
    return [*ops, put(path, change.after, present=change.before is not None)]


def _after(changes: Sequence[Change]) -> dict[str, str]:
    return {change.key: change.after for change in changes if change.after is not None}


def _outlived(data: Mapping[str, str], changes: Sequence[Change]) -> list[Change]:
    """The records that a new one pushes out: all but the newest 50, by their generation."""
    written = {change.key for change in changes}
    if not any(_RECORD_KEY.fullmatch(key) for key in written):
        return []
    records = [match for key in {*data, *written} if (match := _RECORD_KEY.fullmatch(key))]
    oldest = sorted(records, key=lambda match: int(match.group(1)), reverse=True)[KEPT_RECORDS:]
    return [Change(match[0], data[match[0]], None) for match in oldest if match[0] not in written]
