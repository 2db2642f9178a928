"""When a hold should end: times, times of day, durations; what cannot be meant is refused with what can."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fencectl.core.errors import UsageError
from fencectl.core.record_until import end_text, end_time
from tests.support.objects import NOW


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("3h", NOW + timedelta(hours=3)),
        ("1d12h", NOW + timedelta(days=1, hours=12)),
        ("06:00Z", datetime(2026, 11, 30, 6, tzinfo=UTC)),
        ("06:00:30Z", datetime(2026, 11, 30, 6, 0, 30, tzinfo=UTC)),
        ("02:47:31Z", datetime(2026, 12, 1, 2, 47, 31, tzinfo=UTC)),  # now: the next one
        ("00:00z", datetime(2026, 12, 1, tzinfo=UTC)),
        ("2026-12-24T18:00:00Z", datetime(2026, 12, 24, 18, tzinfo=UTC)),
        ("2026-11-30T08:00:00.9+02:00", datetime(2026, 11, 30, 6, tzinfo=UTC)),
        (" 30s ", NOW + timedelta(seconds=30)),
    ],
)
def test_end_is_read_in_each_spelling(text: str, at: datetime) -> None:
    """A time of day is the next one, today or tomorrow."""
    assert end_time(text, now=NOW) == at


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is no time"),
        ("tomorrow", "is no time"),
        ("6", "is no time"),
        ("24:00Z", "is no time"),
        ("6:00Z", "is no time"),
        ("-3h", "is no time"),
        ("2026-12-24", "is no time"),
        ("06:00", "has no zone"),
        ("0s", "has passed"),
        ("2026-11-30T02:47:31Z", "has passed"),
        ("2026-11-30T02:00:00Z", "has passed 47m31s ago"),
        ("999999999d", "is too far away"),
    ],
)
def test_end_that_cannot_be_meant_is_refused_with_a_hint(text: str, says: str) -> None:
    """It only warns later, so nothing else would ever bring a mistake up."""
    with pytest.raises(UsageError) as refused:
        end_time(text, now=NOW)
    assert says in refused.value.sentence
    assert refused.value.hint


def test_end_is_shown_with_how_far_it_is() -> None:
    """Seconds only where they say something; another day with its date."""
    assert end_text(datetime(2026, 11, 30, 6, tzinfo=UTC), now=NOW) == "06:00Z (in 3h12m)"
    assert end_text(datetime(2026, 11, 30, 2, 47, 1, tzinfo=UTC), now=NOW) == "02:47:01Z (30s ago)"
    assert end_text(datetime(2026, 12, 1, 6, tzinfo=UTC), now=NOW) == "Dec 01 06:00Z (in 1d3h)"
