"""Who last wrote a field, and when, as managedFields tell (they may be absent: then nobody is named)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from fencectl.core.refs import Raw, dig, text_or_none
from fencectl.core.times import parse_time


def last_writer(obj: Raw, *keys: str) -> tuple[str | None, datetime | None]:
    """
    Return the field manager that owns a field and the time of its last write.

    `keys` is the path, such as `spec`, `suspend`. Several owners: the latest. An entry's time is that of the
    manager's last change to any of its fields, so it is "at the latest then", not "then".
    """
    entries = dig(obj, "metadata", "managedFields")
    owners: list[tuple[datetime | None, str]] = []
    for entry in entries if isinstance(entries, list) else []:
        manager = text_or_none(dig(entry, "manager"))
        owned = dig(entry, "fieldsV1", *(f"f:{key}" for key in keys))
        if manager and isinstance(owned, Mapping):
            owners.append((parse_time(dig(entry, "time")), manager))
    if not owners:
        return None, None
    at, manager = max(
        owners, key=lambda owner: (owner[0] is not None, owner[0] and owner[0].timestamp(), owner[1])
    )
    return manager, at
