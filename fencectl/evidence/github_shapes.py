"""
Jobs and attempts as GitHub's API shows them, read on guard: every value may be missing, null or of another type.

Only the words that GitHub documents are understood. `completed` is the only end, whatever the conclusion; a word
that is not known is shown as it stands and means nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from fencectl.core.facts import State
from fencectl.core.times import clock_text, parse_time
from fencectl.evidence.github_failures import UnansweredError, cut

HOSTED_GROUP = "GitHub Actions"
HOSTED = "github-hosted"

_ALIVE = frozenset({"queued", "in_progress", "waiting", "requested", "pending"})
_NEVER_RAN = frozenset({"skipped", "cancelled"})
# A job cannot have ended before it was made; some slack, since several machines write these times.
_SLACK = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Status:
    """Whether something has ended; `text` and `conclusion` as GitHub wrote them, cut."""

    state: State
    text: str
    conclusion: str
    since: datetime | None

    def words(self, *, now: datetime) -> str:
        """`completed (cancelled)`, `in_progress since 02:49:55Z`, or the unknown word itself."""
        if self.state is State.ENDED:
            return f"{self.text} ({self.conclusion})"
        if self.state is State.ALIVE:
            return f"{self.text} since {clock_text(self.since, now=now)}" if self.since else self.text
        return f"a status that is not known: {self.text}"


@dataclass(frozen=True, slots=True)
class Job:
    """
    One job of a list, or asked for by its id.

    `run`, `attempt`: what it belongs to; None where GitHub does not say. `group`: of its runner, likewise.
    `never_ran`: it ended without ever getting a runner.
    """

    number: int
    run: int | None
    attempt: int | None
    status: Status
    ended_at: datetime | None
    runner_name: str | None
    group: str | None
    labelled_self_hosted: bool
    never_ran: bool

    def is_hosted(self, runner: str | None) -> bool:
        """Whether GitHub's own runner had it. `runner`: the journal's word, for where GitHub does not say."""
        if self.labelled_self_hosted:
            return False
        return runner == HOSTED if self.group is None else self.group == HOSTED_GROUP


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a run."""

    run: int | None
    number: int | None
    status: Status


def read_job(raw: object) -> Job:
    """Read a job; raises UnansweredError for what is none."""
    number = _integer(raw.get("id")) if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or number is None:
        raise UnansweredError("an answer without the shape of a job")
    status = _status(raw, "started_at", waiting_since="created_at")
    labels, steps = raw.get("labels"), raw.get("steps")
    runner_name = raw.get("runner_name")
    has_runner = bool(runner_name) or bool(raw.get("runner_id"))
    return Job(
        number,
        _integer(raw.get("run_id")),
        _integer(raw.get("run_attempt")),
        status,
        _ended_at(raw),
        runner_name if isinstance(runner_name, str) and runner_name else None,
        _group(raw.get("runner_group_name")),
        isinstance(labels, list) and any(isinstance(x, str) and x.lower() == "self-hosted" for x in labels),
        status.state is State.ENDED and status.conclusion in _NEVER_RAN and not has_runner and not steps,
    )


def read_attempt(raw: Mapping[str, Any]) -> Attempt:
    """Read an attempt of a run; there is nothing in it that could not be missing."""
    status = _status(raw, "run_started_at", waiting_since="run_started_at")
    return Attempt(_integer(raw.get("id")), _integer(raw.get("run_attempt")), status)


def _status(raw: Mapping[str, Any], since: str, *, waiting_since: str) -> Status:
    word, conclusion = raw.get("status"), raw.get("conclusion")
    if isinstance(word, str):
        state = State.ENDED if word == "completed" else State.ALIVE if word in _ALIVE else State.UNKNOWN
        text = cut(word, 40)
    else:
        state, text = State.UNKNOWN, cut(json.dumps(word), 40) if "status" in raw else "none"
    # NB: `started_at` is filled for jobs that only wait.
    since = since if word == "in_progress" else waiting_since
    return Status(
        state,
        text,
        "no conclusion" if conclusion is None else cut(conclusion if isinstance(conclusion, str) else "?", 40),
        parse_time(raw.get(since)),
    )


def _ended_at(raw: Mapping[str, Any]) -> datetime | None:
    """When it ended; None also for a time before its beginning, such as the year 1."""
    ended_at, created_at = parse_time(raw.get("completed_at")), parse_time(raw.get("created_at"))
    if ended_at is None or created_at is None or ended_at < created_at - _SLACK:
        return None
    return ended_at


def _group(value: object) -> str | None:
    if value is None or value == "":
        return None
    return cut(value if isinstance(value, str) else "?")


def _integer(value: object) -> int | None:
    return value if type(value) is int else None
