"""
When a hold should end, as a person says it: a time, a time of day in UTC, or how long from now.

The end only warns. So one that lies in the past, or that cannot be what was meant, is refused at once: nothing
later would bring it up.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from fencectl.core.durations import parse_duration
from fencectl.core.errors import UsageError
from fencectl.core.times import age_text, clock_text, parse_time

_OF_DAY = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?(Z|z)?", re.ASCII)
_SPELLINGS = "a duration such as 3h, a time of day such as 06:00Z, or 2026-11-30T06:00:00Z"


def end_time(text: str, *, now: datetime) -> datetime:
    """
    Read the end of a hold; `06:00Z` is the next one, today or tomorrow.

    Raises UsageError for what is no time, for one without a zone, and for one that has passed.
    """
    text = text.strip()
    at = _read(text, now.astimezone(UTC))
    if at <= now:
        passed_s = (now - at).total_seconds()
        raise UsageError(
            f"`--until`: `{text}` has passed" + (f" {age_text(passed_s)} ago" if passed_s >= 1 else ""),
            hint=f"it is {clock_text(now, now=now)}; {_SPELLINGS}",
        )
    return at


def _read(text: str, now: datetime) -> datetime:
    if (at := parse_time(text)) is not None:
        return at.replace(microsecond=0)
    if match := _OF_DAY.fullmatch(text):
        hour, minute, second, zone = match.groups()
        if zone is None:
            raise UsageError(f"`--until`: `{text}` has no zone", hint=f"times are in UTC: {text}Z")
        today = now.replace(hour=int(hour), minute=int(minute), second=int(second or 0), microsecond=0)
        return today if today > now else today + timedelta(days=1)
    seconds = parse_duration(text)
    # NB: a plain number is a duration elsewhere; here `6` may as well mean six o'clock.
    if seconds is None or text[-1].isdigit():
        raise UsageError(f"`--until`: `{text}` is no time", hint=_SPELLINGS)
    try:
        return (now + timedelta(seconds=seconds)).replace(microsecond=0)
    except OverflowError:
        raise UsageError(f"`--until`: `{text}` is too far away", hint=_SPELLINGS) from None


def end_text(until: datetime, *, now: datetime) -> str:
    """`06:00Z (in 3h12m)`; a time that has passed: `06:00Z (14m00s ago)`."""
    left_s = (until - now).total_seconds()
    away = f"in {age_text(left_s)}" if left_s >= 0 else f"{age_text(-left_s)} ago"
    return f"{end_clock(until, now=now)} ({away})"


def end_clock(until: datetime, *, now: datetime) -> str:
    """The time alone: `06:00Z` for a whole minute of the same UTC day, else as every other time."""
    until = until.astimezone(UTC)
    if until.second == 0 and until.date() == now.astimezone(UTC).date():
        return until.strftime("%H:%MZ")
    return clock_text(until, now=now)
