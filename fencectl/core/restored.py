"""What came of a restore: for the result, the record, and whoever has to decide what it leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from fencectl.core.refs import ObjectRef
from fencectl.core.rollout import Followed


class RestoreVerdict(StrEnum):
    """What can be said of a restore as a whole. Only BACK is a success."""

    BACK = "back"  # what ran before runs again
    NO_PREVIOUS = "no-previous"  # there was nothing before
    SUPERSEDED = "superseded"  # another run has changed the target since; this one left it alone
    REFUSED = "refused"  # nothing was changed
    PARTIAL = "partial"  # something was changed, and the previous state does not run
    UNKNOWN = "unknown"  # nobody can say
    OWED = "owed"  # it was asked for and never begun


@dataclass(frozen=True, slots=True)
class LeftAsItIs:
    """An object that was not brought back, and why; a clause that may quote foreign text."""

    ref: ObjectRef
    why: str


@dataclass(slots=True)
class Restored:
    """
    What came of one restore.

    `generation`: of the deploy that it undoes; `back`: the one that runs again by it, with its revision; None if
    no record tells of one. `done`: changed back; `made`: made again; `same`: as before all the time; `left`:
    not brought back; `new`: not there before, and staying; `unresolved`: nobody can say whether they were changed;
    `paused`: changed, and not rolling out. `revision`: what the deploy brought, in words, and must not come back.
    `why`: what stands in the way of success. Times in seconds.
    """

    generation: int
    back: int | None = None
    back_revision: str | None = None
    revision: str | None = None
    done: list[ObjectRef] = field(default_factory=list)
    made: list[ObjectRef] = field(default_factory=list)
    same: list[ObjectRef] = field(default_factory=list)
    left: list[LeftAsItIs] = field(default_factory=list)
    new: list[ObjectRef] = field(default_factory=list)
    unresolved: list[ObjectRef] = field(default_factory=list)
    paused: list[ObjectRef] = field(default_factory=list)
    followed: Followed | None = None
    verdict: RestoreVerdict = RestoreVerdict.OWED
    why: str | None = None
    took_s: float = 0.0
    budget_s: float = 0.0

    @property
    def is_back(self) -> bool:
        """Whether what ran before runs again."""
        return self.verdict is RestoreVerdict.BACK

    @property
    def moved(self) -> bool:
        """Whether it has changed anything, or may have."""
        return bool(self.touched)

    @property
    def touched(self) -> tuple[ObjectRef, ...]:
        """The objects that were changed back or made again, or may have been."""
        return (*self.done, *self.made, *self.unresolved)

    @property
    def unchanged(self) -> int:
        """How many were as before."""
        return len(self.same)

    @property
    def objects(self) -> int:
        """How many objects it is about, without those that are new."""
        return len(self.done) + len(self.made) + self.unchanged + len(self.left) + len(self.unresolved)

    @property
    def what(self) -> str:
        """What it brings back, in words: `generation 41`, or where no record tells of it what it undoes."""
        return (
            f"generation {self.back}"
            if self.back is not None
            else f"the state before generation {self.generation}"
        )
