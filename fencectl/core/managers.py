"""Who last wrote a field, and when, as managedFields tell (they may be absent: then nobody is named)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fencectl.core.refs import Raw, dig, text_or_none
from fencectl.core.times import parse_time


@dataclass(frozen=True, slots=True)
class Writer:
    """Who owns a field. `at`: of his last write to any; `subresource`: the door it came by, empty for none."""

    manager: str
    at: datetime | None
    subresource: str


def last_writer(obj: Raw, *keys: str) -> tuple[str | None, datetime | None]:
    """
    Return the field manager that owns a field and the time of its last write.

    `keys` is the path, such as `spec`, `suspend`. Several owners: the latest. An entry's time is that of the
    manager's last change to any of its fields, so it is "at the latest then", not "then".
    """
    found = last_entry(obj, *keys)
    return (None, None) if found is None else (found.manager, found.at)


def last_entry(obj: Raw, *keys: str) -> Writer | None:
    """
    Return who wrote a field last, with the door it came by; None where nobody is named.

    As `last_writer`; a key may be the number of a list's item too.
    """
    entries = dig(obj, "metadata", "managedFields")
    owners: list[Writer] = []
    for entry in entries if isinstance(entries, list) else []:
        manager = text_or_none(dig(entry, "manager"))
        if manager and _owns(dig(entry, "fieldsV1"), obj, keys):
            at = parse_time(dig(entry, "time"))
            owners.append(Writer(manager, at, text_or_none(dig(entry, "subresource")) or ""))
    return max(
        owners,
        key=lambda owner: (owner.at is not None, owner.at and owner.at.timestamp(), owner.manager),
        default=None,
    )


def _owns(fields: Any, value: Any, keys: tuple[str, ...]) -> bool:
    """Whether a field set names this path, or something above it as a whole."""
    for key in keys:
        if not isinstance(fields, Mapping):
            return False
        if isinstance(value, list):
            item = value[int(key)] if key.isdecimal() and int(key) < len(value) else None
            below = next(
                (fields[name] for name in fields if name.startswith("k:") and _is_key_of(name, item)), None
            )
        else:
            item, below = dig(value, key), fields.get(f"f:{key}")
        if below is None:
            # NB: what is owned as a whole (an atomic list) names nothing below it.
            return fields == {}
        fields, value = below, item
    return isinstance(fields, Mapping)


def _is_key_of(name: str, item: Any) -> bool:
    """Whether `k:{"name":"app"}` is the key of this item."""
    try:
        wanted = json.loads(name[2:])
    except ValueError:
        return False
    return isinstance(wanted, dict) and all(dig(item, key) == value for key, value in wanted.items())
