"""
Decide what a canary proves: the closed table from what became of it, and of the command that judges it.

Four outcomes. Whatever is not known is never `certified`; a canary that was seen to be bad is `uncertified` by
rejection, and nobody may go on over it. What is merely not certified goes on only where somebody allowed it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, assert_never

from fencectl.core.rollout import RolloutVerdict
from fencectl.core.times import age_text

# What a shell and our own stub exit with for a command that never began: not executable, not found.
_NOT_RUN = (126, 127)
# 128 + N: ended by signal N. There are 64; above are codes of the command's own, such as 255 of ssh.
_SIGNALS = range(129, 128 + 65)


class Outcome(StrEnum):
    """What is known of the canary."""

    CERTIFIED = "certified"
    UNCERTIFIED = "uncertified"
    UNAVAILABLE = "unavailable"
    NOT_REQUESTED = "not-requested"


class Judged(StrEnum):
    """What the certify command did."""

    PASSED = "passed"
    REJECTED = "rejected"
    NOT_RUN = "not-run"
    KILLED = "killed"
    TIMED_OUT = "timed-out"
    NOT_GIVEN = "not-given"


@dataclass(frozen=True, slots=True)
class Certification:
    """
    The decision. `rejected`: seen to be bad, beyond any permission. `why`: the evidence in words, foreign text.

    `allowed`: it was not certified, and the deploy went on because somebody had allowed that.
    """

    outcome: Outcome
    why: str = ""
    rejected: bool = False
    allowed: bool = False

    @property
    def word(self) -> str:
        """The outcome in one word; a rejection by its own name."""
        return "rejected" if self.rejected else self.outcome.value

    def goes_on(self, *, allow_uncertified: bool) -> bool:
        """Whether the deploy may go on."""
        if self.outcome in (Outcome.CERTIFIED, Outcome.NOT_REQUESTED):
            return True
        return allow_uncertified and not self.rejected

    def as_data(self) -> dict[str, Any]:
        """For a record and for JSON; `why` where there is something to say."""
        data: dict[str, Any] = {"outcome": self.outcome.value}
        if self.rejected:
            data["rejected"] = True
        if self.allowed:
            data["allowed"] = True
        return data | ({"why": self.why[:_LONGEST]} if self.why else {})


# A record has room for a sentence.
_LONGEST = 300

NOT_REQUESTED = Certification(Outcome.NOT_REQUESTED)


def read_certification(value: Any) -> Certification | None:
    """Read what a record tells; None where it tells none that is understood. `why` is foreign text."""
    data = value if isinstance(value, dict) else {}
    try:
        outcome = Outcome(str(data.get("outcome")))
    except ValueError:
        return None
    why = data.get("why")
    rejected, allowed = (data.get(key) is True for key in ("rejected", "allowed"))
    return Certification(outcome, why if isinstance(why, str) else "", rejected=rejected, allowed=allowed)


def judged(code: int, *, timed_out: bool) -> Judged:
    """Read how the certify command ended: its exit code (128 + N for a signal), and whether its time was over."""
    if timed_out:
        return Judged.TIMED_OUT
    if code == 0:
        return Judged.PASSED
    if code in _NOT_RUN:
        return Judged.NOT_RUN
    return Judged.KILLED if code in _SIGNALS else Judged.REJECTED


def by_command(code: int, *, timeout_s: float | None = None) -> Certification:
    """Decide over what is up and running by its certify command. `timeout_s`: its time, where that was over."""
    found = judged(code, timed_out=timeout_s is not None)
    match found:
        case Judged.TIMED_OUT:
            why = f"the certify command was ended after {age_text(timeout_s or 0)}"
        case Judged.NOT_RUN:
            why = f"the certify command could not be run ({code})"
        case Judged.KILLED:
            why = f"the certify command was killed by signal {code - 128}"
        case _:
            why = f"the certify command ended with {code}"
    return certify(RolloutVerdict.SUCCEEDED, found, why=why)


def worse(one: Certification, other: Certification) -> Certification:
    """Of two decisions the one that says less good of what was looked at; the first of equals."""
    return max(one, other, key=_badness)


def _badness(one: Certification) -> int:
    order = (Outcome.NOT_REQUESTED, Outcome.CERTIFIED, Outcome.UNCERTIFIED, Outcome.UNAVAILABLE)
    return len(order) if one.rejected else order.index(one.outcome)


def certify(rollout: RolloutVerdict | None, command: Judged, *, why: str = "") -> Certification:
    """
    Decide over a canary that came to `rollout` (None: there was none) and was judged by a command.

    `why`: the evidence in words. A canary that has not come to success is not handed to the command, so that it
    is decided by its rollout alone.
    """
    match rollout:
        case None:
            return NOT_REQUESTED
        case RolloutVerdict.UNKNOWN | RolloutVerdict.WAITING:
            return Certification(Outcome.UNAVAILABLE, why)
        case RolloutVerdict.FAILED | RolloutVerdict.TIMED_OUT:
            return Certification(Outcome.UNCERTIFIED, why, rejected=True)
        case RolloutVerdict.SUCCEEDED:
            pass
        case _:
            assert_never(rollout)
    match command:
        case Judged.PASSED:
            return Certification(Outcome.CERTIFIED, why)
        case Judged.REJECTED:
            return Certification(Outcome.UNCERTIFIED, why, rejected=True)
        case Judged.NOT_GIVEN:
            return Certification(Outcome.UNCERTIFIED, why or "no certify command was given")
        case Judged.NOT_RUN | Judged.KILLED | Judged.TIMED_OUT:
            return Certification(Outcome.UNAVAILABLE, why)
        case _:
            assert_never(command)
