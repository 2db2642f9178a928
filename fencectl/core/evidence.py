"""
Evidence and judgements: facts about a holder, and what they prove.

Facts are gathered by `fencectl.evidence` (GitHub, processes, pods) or read off the lease; `core.verdict` turns
them into one judgement. Nothing here asks anybody.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec


class Verdict(StrEnum):
    """What is known about a holder."""

    LIVE = "live"
    DEAD = "dead"
    UNKNOWN = "unknown"


class Strength(StrEnum):
    """How strong a proof of death is."""

    PROVEN = "proven"
    PRESUMED = "presumed"


class Source(StrEnum):
    """Who answered. The order is the order of display."""

    JOB = "job"
    RUN = "run"
    PROCESS = "process"
    POD = "pod"
    HEARTBEAT = "heartbeat"


class Evidence(msgspec.Struct, frozen=True):
    """
    One question, whom it was put to, the answer, and when.

    `answer` is one line for people, such as "stands still: last 01:47:02Z, 1h00m ago, duration 30s"; text in
    it that came off the network is escaped when shown. `at` is when it was asked, on the API server's clock.
    """

    source: Source
    question: str
    answer: str
    at: datetime


class Judgement(msgspec.Struct, frozen=True):
    """
    A verdict with the fact that decided it.

    `because` is a sentence without a full stop. `fresh`: the heartbeat is younger than its duration, or everything
    says dead and a last write of the dead may still land: no command may be printed yet. `only_heartbeat`:
    everything else says dead, and only a heartbeat that is fresh, may be followed by a write, or tells no usable
    time keeps it from being so; watching it decides. `check`: the command that a person can run to see for
    themselves, always with the attempt.
    """

    verdict: Verdict
    strength: Strength | None
    because: str
    evidence: tuple[Evidence, ...] = ()
    fresh: bool = False
    only_heartbeat: bool = False
    check: str | None = None

    @property
    def words(self) -> str:
        """`live`, `unknown`, `dead (proven)` or `dead (presumed)`."""
        return f"{self.verdict.value} ({self.strength.value})" if self.strength else self.verdict.value
