"""Aspects: the whole decision table · what may go on · how an exit code is read · the worse of two · what a record tells."""

from __future__ import annotations

from itertools import product

import pytest

from fencectl.core.certification import (
    NOT_REQUESTED,
    Certification,
    Judged,
    Outcome,
    by_command,
    certify,
    judged,
    worse,
)
from fencectl.core.rollout import RolloutVerdict

CERTIFIED, UNCERTIFIED, REJECTED = ("certified", False), ("uncertified", False), ("uncertified", True)
UNAVAILABLE, NOTHING_ASKED = ("unavailable", False), ("not-requested", False)

OVER_A_SUCCESS = {
    Judged.PASSED: CERTIFIED,
    Judged.REJECTED: REJECTED,
    Judged.NOT_RUN: UNAVAILABLE,
    Judged.KILLED: UNAVAILABLE,
    Judged.TIMED_OUT: UNAVAILABLE,
    Judged.NOT_GIVEN: UNCERTIFIED,
}
BY_ITS_ROLLOUT = {
    None: NOTHING_ASKED,
    RolloutVerdict.FAILED: REJECTED,
    RolloutVerdict.TIMED_OUT: REJECTED,
    RolloutVerdict.WAITING: UNAVAILABLE,
    RolloutVerdict.UNKNOWN: UNAVAILABLE,
}
ALL = list(product([None, *RolloutVerdict], Judged))


@pytest.mark.parametrize(("rollout", "command"), ALL)
def test_every_cell_of_the_table_is_decided_as_written(rollout: RolloutVerdict | None, command: Judged) -> None:
    """Only a canary that came to success and whose command passed is certified."""
    wanted = OVER_A_SUCCESS[command] if rollout is RolloutVerdict.SUCCEEDED else BY_ITS_ROLLOUT[rollout]
    found = certify(rollout, command, why="as seen")
    assert (found.outcome.value, found.rejected) == wanted
    assert (found.outcome is Outcome.CERTIFIED) == (
        (rollout, command) == (RolloutVerdict.SUCCEEDED, Judged.PASSED)
    )


@pytest.mark.parametrize(
    ("certification", "by_itself", "where_allowed"),
    [
        (Certification(Outcome.CERTIFIED), True, True),
        (Certification(Outcome.NOT_REQUESTED), True, True),
        (Certification(Outcome.UNCERTIFIED), False, True),
        (Certification(Outcome.UNAVAILABLE), False, True),
        (Certification(Outcome.UNCERTIFIED, rejected=True), False, False),
    ],
    ids=lambda value: value.word if isinstance(value, Certification) else str(value),
)
def test_what_is_not_certified_goes_on_only_where_allowed_and_a_rejection_never(
    certification: Certification, by_itself: bool, where_allowed: bool
) -> None:
    """A permission covers what nobody knows, not what somebody has seen."""
    assert certification.goes_on(allow_uncertified=False) is by_itself
    assert certification.goes_on(allow_uncertified=True) is where_allowed


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        (0, Judged.PASSED),
        (1, Judged.REJECTED),
        (125, Judged.REJECTED),
        (126, Judged.NOT_RUN),
        (127, Judged.NOT_RUN),
        (128, Judged.REJECTED),
        (129, Judged.KILLED),
        (137, Judged.KILLED),
        (192, Judged.KILLED),
        (193, Judged.REJECTED),
        (255, Judged.REJECTED),
    ],
)
def test_exit_code_that_is_no_word_of_the_command_judges_nothing(code: int, wanted: Judged) -> None:
    """Not found, not executable, killed: nobody has looked at the canary. Every other one is its own no."""
    assert judged(code, timed_out=False) is wanted
    assert judged(code, timed_out=True) is Judged.TIMED_OUT


@pytest.mark.parametrize(
    ("code", "timeout_s", "word", "why"),
    [
        (0, None, "certified", "the certify command ended with 0"),
        (3, None, "rejected", "the certify command ended with 3"),
        (127, None, "unavailable", "the certify command could not be run (127)"),
        (137, None, "unavailable", "the certify command was killed by signal 9"),
        (143, 300.0, "unavailable", "the certify command was ended after 5m00s"),
        (0, 300.0, "unavailable", "the certify command was ended after 5m00s"),
    ],
)
def test_word_and_evidence_of_a_command(code: int, timeout_s: float | None, word: str, why: str) -> None:
    """One that ends with 0 only because it was ended has certified nothing."""
    found = by_command(code, timeout_s=timeout_s)
    assert (found.word, found.why) == (word, why)


def test_of_two_decisions_the_less_good_stays_and_the_first_of_equals() -> None:
    """A node that nobody could certify is not forgotten over a canary that passed."""
    rising = [
        NOT_REQUESTED,
        Certification(Outcome.CERTIFIED),
        Certification(Outcome.UNCERTIFIED),
        Certification(Outcome.UNAVAILABLE),
        Certification(Outcome.UNCERTIFIED, rejected=True),
    ]
    for (low, one), (high, other) in product(enumerate(rising), repeat=2):
        assert worse(one, other) is rising[max(low, high)]
    first, second = Certification(Outcome.UNAVAILABLE, "a"), Certification(Outcome.UNAVAILABLE, "b")
    assert worse(first, second) is first


def test_record_tells_outcome_rejection_permission_and_why_in_short() -> None:
    """A rejection is `uncertified` by outcome, and called by its name; a long text is cut."""
    assert Certification(Outcome.CERTIFIED).as_data() == {"outcome": "certified"}
    told = Certification(Outcome.UNCERTIFIED, "x" * 400, rejected=True).as_data()
    assert told == {"outcome": "uncertified", "rejected": True, "why": "x" * 300}
    assert Certification(Outcome.UNCERTIFIED, rejected=True).word == "rejected"
    assert Certification(Outcome.UNAVAILABLE, "y", allowed=True).as_data() == {
        "outcome": "unavailable",
        "allowed": True,
        "why": "y",
    }
