"""
GitHub's word on holders: one look per holder, a few at a time, within one bound, however many fences they hold.

Asks and returns facts; what they prove is decided elsewhere. To be imported only where there is a holder to ask
about: it brings in http.client and TLS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TypeVar

from fencectl.core.facts import JobFact, State, Subject
from fencectl.evidence.github_api import Api, Memory
from fencectl.evidence.github_failures import UnansweredError, cut
from fencectl.evidence.github_lookup import Lookup, is_askable, is_repository, not_asked, question_about
from fencectl.evidence.github_own_job import OwnJob, check_own_job
from fencectl.evidence.github_runs import Run
from fencectl.evidence.github_settings import GitHubSettings, origin_of
from fencectl.evidence.github_wire import Deadline, Trust, Wire
from fencectl.evidence.github_workers import each_within

__all__ = ["TOTAL_S", "GitHub", "GitHubSettings", "OwnJob", "ask_github"]

_Given = TypeVar("_Given")

TOTAL_S = 10.0
PARALLEL = 4

NO_TOKEN = "no token (set GITHUB_TOKEN or GH_TOKEN)"  # noqa: S105 - says that there is none
NO_REPOSITORY = "no repository is recorded (set github.repository in the config)"


def ask_github(
    subjects: Sequence[Subject], *, settings: GitHubSettings, now: datetime, deadline_s: float = TOTAL_S
) -> dict[str, JobFact]:
    """Ask once about every holder that names a run; by holder identity. Never raises for what GitHub does."""
    return GitHub(settings).ask(subjects, now=now, deadline_s=deadline_s)


class GitHub:
    """
    GitHub, to be asked again and again: what has not changed since is not sent again (ETag).

    `now` in its methods is the time that people are shown beside the answer, on the API server's clock; how long
    ago something ended is measured by GitHub's clock only.
    """

    def __init__(self, settings: GitHubSettings) -> None:
        self._settings = settings
        self._memory = Memory()
        self._trust = Trust(settings)

    def __repr__(self) -> str:
        return f"GitHub({self._settings.host!r})"

    def ask(
        self, subjects: Sequence[Subject], *, now: datetime, deadline_s: float = TOTAL_S
    ) -> dict[str, JobFact]:
        """Return a fact for each holder that names a run of GitHub Actions, by its identity, and for no other."""
        facts: dict[str, JobFact] = {}
        lookable: dict[str, Subject] = {}
        for subject in subjects:
            if not is_askable(subject):
                continue
            why_not = self._why_not(subject)
            if why_not is None:
                lookable.setdefault(subject.holder.identity, subject)
            else:
                fact = not_asked(subject, why_not, host=self._settings.host, now=now)
                facts.setdefault(subject.holder.identity, fact)
        if lookable:
            facts |= self._look_up(lookable, now=now, deadline=Deadline(deadline_s))
        return facts

    def own_job(
        self,
        *,
        repository: str,
        run: int,
        attempt: int,
        job: int | None = None,
        runner_name: str | None = None,
        now: datetime,
        deadline_s: float = TOTAL_S,
    ) -> OwnJob:
        """
        Check, from within a job, that `job` is its id; without one, find it by the runner's name.

        `OwnJob.verified` is None where GitHub could not be asked or gave no usable answer.
        """
        why_not = self._settings.problem or (None if self._settings.token else NO_TOKEN)
        if why_not is None and not is_repository(repository):
            why_not = "the repository is no owner/name"
        if why_not is not None:
            return OwnJob(job, None, f"not asked: {why_not}")

        def check(wire: Wire) -> OwnJob:
            return check_own_job(self._run(wire, repository, run, attempt, now), job=job, runner_name=runner_name)

        done = self._within({"own": check}, Deadline(deadline_s))
        return done.get("own", OwnJob(job, None, f"no answer within {deadline_s:g}s"))

    def why_unreadable(self, repository: str | None, *, now: datetime, deadline_s: float = TOTAL_S) -> str | None:
        """Say why the runs of a repository cannot be read with what the environment gives; None: they can."""
        settings = self._settings
        if settings.problem is not None or not settings.token:
            return settings.problem or NO_TOKEN
        if not repository:
            return NO_REPOSITORY
        if not is_repository(repository):
            return "the repository is no owner/name"

        def ask(wire: Wire) -> str | None:
            try:
                api = Api(settings, wire=wire, memory=self._memory, now=now)
                api.get(f"/repos/{repository}/actions/runs", query="per_page=1")
            except UnansweredError as error:
                return error.words
            return None

        done = self._within({"ask": ask}, Deadline(deadline_s))
        return done.get("ask", f"no answer within {deadline_s:g}s")

    def _why_not(self, subject: Subject) -> str | None:
        """Return why a holder cannot be asked about, before anything is sent."""
        settings = self._settings
        if settings.problem is not None:
            return settings.problem
        if not settings.speaks_for(subject.server_url):
            return f"recorded on another GitHub server: {_shown(subject.server_url)}"
        if not settings.token:
            return NO_TOKEN
        repository = self._repository(subject)
        if not repository:
            return NO_REPOSITORY
        return None if is_repository(repository) else "the recorded repository is no owner/name"

    def _repository(self, subject: Subject) -> str:
        """Where to ask: a run of another repository is not found there, which proves nothing."""
        return subject.repository or self._settings.repository or ""

    def _look_up(
        self, lookable: Mapping[str, Subject], *, now: datetime, deadline: Deadline
    ) -> dict[str, JobFact]:
        questions = {key: question_about(subject, self._settings.host) for key, subject in lookable.items()}

        def look(wire: Wire, subject: Subject) -> JobFact:
            holder = subject.holder
            run = self._run(wire, self._repository(subject), holder.run or 0, holder.attempt or 0, now)
            return Lookup(subject, run, questions[holder.identity], now).fact()

        facts = self._within({key: partial(look, subject=subject) for key, subject in lookable.items()}, deadline)
        late = f"no answer within {deadline.within_s:g}s"
        return {
            key: facts.get(key) or JobFact(State.UNKNOWN, question, late, now)
            for key, question in questions.items()
        }

    def _run(self, wire: Wire, repository: str, run: int, attempt: int, now: datetime) -> Run:
        return Run(Api(self._settings, wire=wire, memory=self._memory, now=now), repository, run, attempt)

    def _within(self, tasks: Mapping[str, Callable[[Wire], _Given]], deadline: Deadline) -> dict[str, _Given]:
        return each_within(
            tasks,
            open_wire=lambda: Wire(self._settings, trust=self._trust, deadline=deadline),
            deadline=deadline,
            threads=PARALLEL,
        )


def _shown(server_url: str | None) -> str:
    """A recorded server for people: its host, or the text itself, cut."""
    origin = origin_of(server_url or "")
    return origin.authority if origin else cut(server_url or "")
