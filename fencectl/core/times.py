"""
Times as the API writes and reads them, and as a person does.

A Lease's MicroTime is written with exactly six fraction digits (the server refuses any other number,
apimachinery `micro_time.go`), and is read in every spelling of RFC 3339.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


def micro_time(at: datetime) -> str:
    """Write a MicroTime; `isoformat()` would drop the fraction once in a million times, and be refused."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "Z"


def second_time(at: datetime) -> str:
    """Write a time to the second, as Kubernetes' own `Time` does."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: object) -> datetime | None:
    """Read RFC 3339 with 0 to 9 fraction digits and any offset; None for everything else."""
    if not isinstance(text, str):
        return None
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        at = datetime(
            int(year), int(month), int(day), int(hour), int(minute), int(second),
            int((fraction or "0")[:6].ljust(6, "0")), tzinfo=UTC,
        )  # fmt: skip
        if zone not in "Zz":
            offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
            at = at - offset if zone[0] == "+" else at + offset
    except (ValueError, OverflowError):
        return None
    return at


def clock_text(at: datetime, *, now: datetime) -> str:
    """`02:47:31Z` on the same UTC day as `now`, else `Nov 29 16:20Z`, with the year when it is another."""
    at, now = at.astimezone(UTC), now.astimezone(UTC)
    if at.date() == now.date():
        return at.strftime("%H:%M:%SZ")
    if at.year == now.year:
        return at.strftime("%b %d %H:%MZ")
    return at.strftime("%Y-%m-%d %H:%MZ")


def span_text(seconds: float) -> str:
    """How long something may take: `10m`, `1h30m`, `90s` as `1m30s`."""
    text = age_text(seconds)
    return text.removesuffix("00s") if text != "00s" and text.endswith("m00s") else text.replace("h00m", "h")


def age_text(age_s: float) -> str:
    """Two units at most, rounded down: `8s`, `5m31s`, `1h15m`, `3d4h`, `12d`. Below zero: `0s`."""
    seconds = max(0, int(age_s))
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days >= 10:
        return f"{days}d"
    if days:
        return f"{days}d{hour}h"
    if hours:
        return f"{hours}h{minute:02}m"
    if minutes:
        return f"{minutes}m{second:02}s"
    return f"{second}s"
