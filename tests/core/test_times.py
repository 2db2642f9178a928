"""Times: six digits are written always, every spelling is read, ages are short and rounded down."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st

from fencectl.core.times import age_text, clock_text, micro_time, parse_time, second_time

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (NOON, "2026-11-30T12:00:00.000000Z"),
        (NOON + timedelta(microseconds=1), "2026-11-30T12:00:00.000001Z"),
        (NOON.astimezone(timezone(timedelta(hours=2))), "2026-11-30T12:00:00.000000Z"),
    ],
)
def test_case_27_micro_time_always_has_six_digits(at: datetime, text: str) -> None:
    """A whole second would lose its fraction with isoformat(), and be refused once in a million writes."""
    assert micro_time(at) == text


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-30T12:00:00Z",
        "2026-11-30T12:00:00.0Z",
        "2026-11-30T12:00:00.000Z",
        "2026-11-30T12:00:00.000000Z",
        "2026-11-30T12:00:00.000000000Z",
        "2026-11-30T12:00:00+00:00",
        "2026-11-30T14:00:00.000000+02:00",
        "2026-11-30t06:30:00.000-05:30",
    ],
)
def test_case_27_every_spelling_is_read_to_the_same_instant(text: str) -> None:
    """`Z`, offsets and 0 to 9 digits."""
    assert parse_time(text) == NOON


@pytest.mark.parametrize(
    "text",
    [
        None, 5, "", "now", "2026-11-30", "2026-11-30 12:00:00Z", "2026-11-30T12:00:00", "2026-13-30T12:00:00Z",
        "2026-11-30T12:00:00.0000000000Z", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00",
        "2026-11-30T12:00:00Z\n", "２026-11-30T12:00:00Z", "2026-11-30T24:00:00Z",
    ],
)  # fmt: skip
def test_what_is_no_time_is_none(text: object) -> None:
    """Nothing raises, nothing is guessed."""
    assert parse_time(text) is None


@given(st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(9000, 1, 1)))  # noqa: DTZ001 -- naive by design
def test_written_times_are_read_back(naive: datetime) -> None:
    """Microseconds survive in a MicroTime, seconds in a Time."""
    at = naive.replace(tzinfo=UTC)
    assert parse_time(micro_time(at)) == at
    assert parse_time(second_time(at)) == at.replace(microsecond=0)


@pytest.mark.parametrize(
    ("age_s", "text"),
    [
        (-5, "0s"), (0, "0s"), (8.9, "8s"), (59.9, "59s"), (331, "5m31s"), (3600, "1h00m"), (4500, "1h15m"),
        (86_399, "23h59m"), (3 * 86_400 + 4 * 3600, "3d4h"), (12 * 86_400 + 5, "12d"),
    ],
)  # fmt: skip
def test_age_has_two_units_at_most_and_is_rounded_down(age_s: float, text: str) -> None:
    """Never older than it is."""
    assert age_text(age_s) == text


def test_time_of_another_day_names_the_day() -> None:
    """A bare clock time means today, in UTC."""
    assert clock_text(NOON, now=NOON + timedelta(hours=11)) == "12:00:00Z"
    assert clock_text(NOON, now=NOON + timedelta(hours=12)) == "Nov 30 12:00Z"
    assert clock_text(NOON, now=NOON + timedelta(days=90)) == "2026-11-30 12:00Z"
