"""
Exit codes and errors: one table, one tree.

Every error carries what is so (`sentence`), why (`reason`), what to do next (`hint`) and its exit code as
fields. One boundary, in `fencectl.cli`, turns them into output and a status.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Self


class ExitCode(IntEnum):
    """What a command's status means. README holds the same table, and a test compares the two."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> Self:
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    OK = 0, "done, or no fence held"
    UNEXPECTED = 1, "unexpected, report it"
    USAGE = 2, "usage or invalid input; nothing was read or changed"
    FAILED_PREVIOUS_RUNS = 10, "deploy failed, the previous state runs, nothing fenced"
    STILL_FENCED = 11, "something is **still fenced** (commands printed); also `recover` stopped half-way"
    HELD_LIVE = 12, "held by a live holder: waiting helps"
    LEASE_LOST = 13, "lease lost while running"
    TIMED_OUT_PREVIOUS_RUNS = 14, "as 10, by time-out"
    OUTCOME_UNKNOWN = 15, "outcome unknown (not followable), or prune withheld"
    HELD_DEAD = 16, "held, but the holder is provably dead and `recover --dry-run` has no refusal"
    ROLLBACK_IN_PROGRESS = 17, "a rollback is already in progress"
    FAILED_NEW_STATE_LIVE = 18, "failed or timed out, the **new** state is live, nothing fenced"
    HELD_PERSON_NEEDED = (
        19,
        "held and a person is needed: unproven or presumed holder, hold, foreign or kept fence, refused node",
    )
    FENCES_FOUND = 20, "`fences --exit-code` found some"
    INCOMPLETE = 21, 'could not be read whole (API unreachable, forbidden, …): never shown as "no fence"'
    DOCTOR_FAILED = 22, "a `doctor` check failed"
    HANGUP = 129, "interrupted by HUP, after unwinding"
    INTERRUPTED = 130, "interrupted by INT, after unwinding"
    TERMINATED = 143, "interrupted by TERM, after unwinding"


WORST_FIRST: tuple[ExitCode, ...] = (
    ExitCode.STILL_FENCED,
    ExitCode.LEASE_LOST,
    ExitCode.INCOMPLETE,
    ExitCode.FAILED_NEW_STATE_LIVE,
    ExitCode.OUTCOME_UNKNOWN,
    ExitCode.UNEXPECTED,
    ExitCode.ROLLBACK_IN_PROGRESS,
    ExitCode.HELD_PERSON_NEEDED,
    ExitCode.HELD_DEAD,
    ExitCode.HELD_LIVE,
    ExitCode.TIMED_OUT_PREVIOUS_RUNS,
    ExitCode.FAILED_PREVIOUS_RUNS,
    ExitCode.TERMINATED,
    ExitCode.INTERRUPTED,
    ExitCode.HANGUP,
    ExitCode.DOCTOR_FAILED,
    ExitCode.FENCES_FOUND,
    # NB: usage errors are found before anything runs, so 2 meets another code only when one of several
    # contexts was misspelt; it must not hide what the others found, nor be hidden by success.
    ExitCode.USAGE,
    ExitCode.OK,
)


def worst(codes: Iterable[ExitCode]) -> ExitCode:
    """Return the code that decides when several results meet; `OK` when there is none."""
    return min(codes, key=WORST_FIRST.index, default=ExitCode.OK)


class FencectlError(Exception):
    """
    What a command could not do.

    `sentence`: what is so, lower case, no full stop. `reason`: the evidence. `hint`: the next step, best a
    command that runs as it stands. Foreign text in any of them is escaped when it is shown, not before.
    """

    exit_code: ExitCode = ExitCode.UNEXPECTED

    def __init__(self, sentence: str, *, reason: str | None = None, hint: str | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.reason = reason
        self.hint = hint

    @property
    def cause_in_short(self) -> str:
        """What is behind it, on one line, for where it explains something else that is said."""
        return self.reason or self.sentence


class UsageError(FencectlError):
    """Wrong options, config or kubeconfig: nothing was read from or changed on a cluster."""

    exit_code = ExitCode.USAGE


class NotReadableError(FencectlError):
    """A cluster, or a part of it, could not be read. Never to be shown as "no fence"."""

    exit_code = ExitCode.INCOMPLETE


class PersonNeededError(FencectlError):
    """Something is held and only a person can decide."""

    exit_code = ExitCode.HELD_PERSON_NEEDED
