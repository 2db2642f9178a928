"""Aspects: one meaning per code · worst wins, in its order · errors carry fields and a code."""

from __future__ import annotations

import itertools

import pytest

from fencectl.core.errors import (
    WORST_FIRST,
    ExitCode,
    FencectlError,
    NotReadableError,
    PersonNeededError,
    UsageError,
    worst,
)


def test_every_code_has_a_meaning_of_its_own_and_a_place_in_the_order() -> None:
    """A code that is not in the order could not be compared with another."""
    assert sorted(WORST_FIRST) == sorted(ExitCode)
    assert len(set(WORST_FIRST)) == len(WORST_FIRST)
    assert len({code.meaning for code in ExitCode}) == len(ExitCode)
    assert all(code.meaning and not code.meaning.endswith(".") for code in ExitCode)


def test_codes_are_plain_numbers_to_the_operating_system() -> None:
    """`sys.exit` takes them as they are."""
    assert int(ExitCode.STILL_FENCED) == 11
    assert int(ExitCode.TERMINATED) == 143
    assert {int(code) for code in ExitCode} == {
        0, 1, 2, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 129, 130, 143,
    }  # fmt: skip


@pytest.mark.parametrize(("worse", "better"), list(itertools.pairwise(WORST_FIRST)))
def test_worse_of_two_decides_whichever_comes_first(worse: ExitCode, better: ExitCode) -> None:
    """The result of several contexts does not depend on their order."""
    assert worst([worse, better]) is worst([better, worse]) is worse


def test_still_fenced_wins_over_everything_and_nothing_is_fine() -> None:
    """11 must reach the caller whatever else happened; no result at all is 0."""
    assert worst(ExitCode) is ExitCode.STILL_FENCED
    assert worst([]) is ExitCode.OK
    assert worst([ExitCode.OK, ExitCode.FENCES_FOUND, ExitCode.INCOMPLETE]) is ExitCode.INCOMPLETE


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (FencectlError, ExitCode.UNEXPECTED),
        (UsageError, ExitCode.USAGE),
        (NotReadableError, ExitCode.INCOMPLETE),
        (PersonNeededError, ExitCode.HELD_PERSON_NEEDED),
    ],
)
def test_error_carries_what_why_and_what_next(kind: type[FencectlError], code: ExitCode) -> None:
    """The boundary needs no more than these fields."""
    error = kind("nodes could not be read", reason="forbidden", hint="ask for the role")
    assert (error.exit_code, error.sentence, error.reason, error.hint, str(error)) == (
        code,
        "nodes could not be read",
        "forbidden",
        "ask for the role",
        "nodes could not be read",
    )
