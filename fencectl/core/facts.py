"""
Facts about a holder, as they were answered: the input of the verdict.

`fencectl.evidence` fills them; nothing in here weighs one against another. An answer that could not be had is a
fact of its own (`UNKNOWN`, with why), never a missing one.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from fencectl.core.identity import Holder
from fencectl.core.journal import Journal


class State(StrEnum):
    """What an answer says about whether the holder runs."""

    ALIVE = "alive"
    ENDED = "ended"
    VANISHED = "vanished"  # a pod whose uid is gone: nobody saw its container end
    UNKNOWN = "unknown"


class Fact(msgspec.Struct, frozen=True):
    """
    One answer.

    `question` and `answer` are one line each, for people; text from elsewhere in them is escaped when
    it is shown. `at`: when it was asked.
    """

    state: State
    question: str
    answer: str
    at: datetime


class JobFact(Fact, frozen=True):
    """
    What GitHub says of a job, or of a whole attempt where no job is recorded.

    `recorded`: the answer is about the job that the holder recorded (or that its runner's name proves), not about
    the attempt. `hosted`: every job in question ran on a GitHub-hosted runner; None where it has not ended.
    `ended_for_s`: how long ago it ended, by GitHub's own clock.
    """

    recorded: bool = False
    hosted: bool | None = None
    ended_for_s: float | None = None


class HolderEvidence(msgspec.Struct, frozen=True):
    """Everything that was answered about one holder; None: there was nothing to ask there."""

    job: JobFact | None = None
    process: Fact | None = None
    pod: Fact | None = None


NOT_ASKED = HolderEvidence()


class Subject(msgspec.Struct, frozen=True):
    """
    A holder to ask about, with everything that tells where to ask.

    `journal`: the fullest one that names it (the lease's, with `details`, if there is one); None where there is
    none that can be read. `repository`, `server_url`: from the journal, else the config; hostile until checked.
    `context`: the one that printed commands name.
    """

    holder: Holder
    journal: Journal | None = None
    repository: str | None = None
    server_url: str | None = None
    context: str | None = None
