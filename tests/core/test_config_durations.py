"""Aspects: every unit · combinations · what is no duration."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from fencectl.core.durations import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30), ("1m", 60), ("1h30m", 5400), ("2d", 172_800), ("500ms", 0.5), ("1m500ms", 60.5), ("90", 90),
        ("1.5h", 5400), ("0.5", 0.5), ("0", 0), ("0s", 0), ("1d2h3m4s5ms", 93_784.005),
    ],
)  # fmt: skip
def test_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    """The spellings of kubectl and Go, days, and plain seconds."""
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    ["", " ", "s", "-1s", "+1s", "1 s", "1s1m", "1m1m", "1S", "1w", "1:30", "1e3", "٣s", ".5s", "1.", "1y", "m5"],
)
def test_anything_else_is_no_duration(text: str) -> None:
    """Nothing is guessed: units in the wrong order, twice, unknown, signs, other digits."""
    assert parse_duration(text) is None


@given(st.integers(0, 10**6), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_parts_add_up(days: int, hours: int, minutes: int, seconds: int) -> None:
    """The sum of the parts, whichever are there."""
    assert parse_duration(f"{days}d{hours}h{minutes}m{seconds}s") == pytest.approx(
        ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    )
