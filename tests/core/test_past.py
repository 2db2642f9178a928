"""
What the records tell.

Aspects: which deploy ran before · what has changed the target since · what a rollback undoes by default.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from fencectl.core.past import Past, changed_since, newest_with_point, ran_before, read_past

POINT = {"digest": "0" * 64, "parts": 1, "objects": 2, "bytes": 10}
HOLDER = "c01d33fe07be3d85-gh18.1-9c41e07a"


def entry(outcome: str | None, code: int | None, *, point: bool = True, **more: Any) -> dict[str, Any]:
    value: dict[str, Any] = {"v": 1, "holder": HOLDER} | ({"recovery": POINT} if point else {}) | more
    return (
        value if outcome is None else value | {"outcome": outcome, "code": code, "endedAt": "2026-11-30T03:00:00Z"}
    )


def back(undoes: int) -> dict[str, Any]:
    return {"rollback": {"undoes": undoes, "verdict": "back"}}


def past(*entries: dict[str, Any] | str) -> dict[int, Past]:
    """Records of generation 1, 2, …; text that cannot be read is one too."""
    texts = [one if isinstance(one, str) else json.dumps(one) for one in entries]
    return read_past({f"record-{number}": text for number, text in enumerate(texts, 1)} | {"hold-freeze": "{}"})


DEPLOYED, FAILED = entry("deployed", 0), entry("failed", 18)
UNCHANGED, ROLLED_BACK = entry("failed", 10), entry("rolled-back", 11, **back(3))
RESTORED = entry("restored", 0, point=False, **back(2))
NO_END = entry(None, None)


@pytest.mark.parametrize(
    ("entries", "generation", "expected"),
    [
        ([DEPLOYED, DEPLOYED], 2, 1),
        ([DEPLOYED, UNCHANGED, DEPLOYED], 3, 1),
        ([DEPLOYED, DEPLOYED, ROLLED_BACK, DEPLOYED], 4, 2),
        ([DEPLOYED, DEPLOYED, RESTORED, DEPLOYED], 4, 1),
        ([DEPLOYED, FAILED, DEPLOYED], 3, None),
        ([DEPLOYED, NO_END, DEPLOYED], 3, None),
        ([DEPLOYED, "{", DEPLOYED], 3, None),
        ([DEPLOYED], 1, None),
    ],
)
def test_what_ran_before_is_the_last_deploy_that_nothing_unknown_has_come_after(
    entries: list[Any], generation: int, expected: int | None
) -> None:
    """A deploy that changed nothing, or was rolled back, is passed over; one that may have is not."""
    found = ran_before(past(*entries), generation)
    assert (found and found.generation) == expected


def test_revision_of_a_deploy_is_that_of_its_holder() -> None:
    """Zeros are none."""
    (found,) = past(DEPLOYED).values()
    assert (found.revision, found.title) == ("c01d33fe", "run 18 attempt 1")
    (none,) = past(DEPLOYED | {"holder": "0000000000000000-gh18.1-9c41e07a"}).values()
    assert none.revision is None


@pytest.mark.parametrize(
    ("entries", "generation", "expected"),
    [
        ([DEPLOYED, DEPLOYED], 1, 2),
        ([DEPLOYED, UNCHANGED], 1, None),
        ([DEPLOYED, FAILED], 1, 2),
        ([DEPLOYED, NO_END], 1, 2),
        ([DEPLOYED, DEPLOYED, ROLLED_BACK], 2, None),
        ([DEPLOYED, DEPLOYED, RESTORED], 1, None),
        ([DEPLOYED, DEPLOYED, RESTORED], 2, None),
        ([DEPLOYED, DEPLOYED, RESTORED, DEPLOYED], 1, 4),
        (
            [DEPLOYED, DEPLOYED, entry("failed", 18, point=False, rollback={"undoes": 2, "verdict": "partial"})],
            2,
            None,
        ),
    ],
)
def test_case_64_later_run_that_may_have_changed_the_target_supersedes(
    entries: list[Any], generation: int, expected: int | None
) -> None:
    """What was undone again does not count."""
    found = changed_since(past(*entries), generation)
    assert (found and found.generation) == expected


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([DEPLOYED, DEPLOYED], 2),
        ([DEPLOYED, UNCHANGED], 1),
        ([DEPLOYED, DEPLOYED, RESTORED], 1),
        ([DEPLOYED, entry("deployed", 0, point=False)], None),
        ([], None),
    ],
)
def test_newest_run_that_has_changed_the_target_is_undone_by_default(
    entries: list[Any], expected: int | None
) -> None:
    """Not one further down, where the newest has no recovery point."""
    found = newest_with_point(past(*entries))
    assert (found and found.generation) == expected
