"""
One holder, asked about: by its job where one is recorded, else by its runner's name, else by its whole attempt.

Gives one fact and decides nothing. Whatever is missing, contradicts itself or was not understood makes the fact
UNKNOWN, with the reason in its answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from fencectl.core.facts import JobFact, State, Subject
from fencectl.core.identity import HolderKind
from fencectl.core.journal import Journal
from fencectl.core.times import clock_text
from fencectl.evidence.github_failures import UnansweredError
from fencectl.evidence.github_runs import Jobs, Run
from fencectl.evidence.github_shapes import HOSTED, HOSTED_GROUP, Job

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}/(?!\.{1,2}$)[A-Za-z0-9_.-]{1,100}", re.ASCII)
_LARGEST_ID = 10**18


def is_repository(text: str) -> bool:
    """Whether this is `owner/name`, and can thus be a part of a path."""
    return _REPOSITORY.fullmatch(text) is not None


def question_about(subject: Subject, host: str) -> str:
    """What is asked, and of whom."""
    holder, (job, _) = subject.holder, recorded_job(subject)
    what = (
        f"job {job} of run {holder.run} attempt {holder.attempt}"
        if job
        else f"attempt {holder.attempt} of run {holder.run}"
    )
    return f"has {what} ended? ({host})"


def own_journal(subject: Subject) -> Journal | None:
    """Return the journal, unless it is that of another holder (of a nested run, say), and so tells of its job."""
    journal = subject.journal
    return journal if journal is not None and journal.holder == subject.holder.identity else None


def recorded_job(subject: Subject) -> tuple[int | None, str | None]:
    """Return the job that the holder recorded, and why one that is written somewhere is none."""
    journal = own_journal(subject)
    written = {job for job in (subject.holder.job, journal.job if journal else None) if job is not None}
    if len(written) > 1:
        return None, f"the identity names job {subject.holder.job}, the journal another: both are ignored"
    job = next(iter(written), None)
    if job is not None and not 0 < job < _LARGEST_ID:
        return None, "the recorded job is no job's id: ignored"
    return job, None


@dataclass(slots=True)
class Lookup:
    """One look at one holder. `notes`: what was ignored on the way, said behind the answer."""

    subject: Subject
    run: Run
    question: str
    now: datetime
    notes: list[str] = field(default_factory=list)
    asking_about: str = "run"

    def fact(self) -> JobFact:
        """Ask, and return what was answered."""
        try:
            return self._ask()
        except UnansweredError as error:
            return self._unknown(self._explained(error))

    def _ask(self) -> JobFact:
        number, why_none = recorded_job(self.subject)
        if why_none is not None:
            self.notes.append(why_none)
        if number is not None:
            self.asking_about = "job"
            job, date_at = self.run.job(number)
            self.asking_about = "run"
            if (job.run, job.attempt) == (self.run.run, self.run.attempt):
                return self._recorded(job, date_at)
            belongs = (
                f"run {job.run} attempt {job.attempt}" if job.run and job.attempt else "nothing that it names"
            )
            self.notes.append(f"job {number}, which was recorded, belongs to {belongs}: ignored")
        name = self._runner_name()
        if name is None:
            return self._whole_attempt(None)
        jobs = self.run.jobs()
        of_that_name = [job for job in jobs.own if job.runner_name == name]
        if len(of_that_name) == 1:
            job = of_that_name[0]
            self.notes.append(f"job {job.number}, known by its runner's name")
            return self._one_job(job, jobs.date_at)
        return self._whole_attempt(jobs)

    def _recorded(self, job: Job, date_at: datetime | None) -> JobFact:
        journal = own_journal(self.subject)
        if job.status.state is not State.ENDED or (journal is not None and journal.job_verified is True):
            return self._one_job(job, date_at)
        # The id was never checked while the job ran: it may be that of a sibling. Then all of them must be over.
        attempt = self.run.this_attempt()
        if attempt.status.state is not State.ENDED:
            words = attempt.status.words(now=self.now)
            return self._unknown(
                f"the job says {job.status.words(now=self.now)}, but its id was never verified, and the attempt"
                f" says {words}"
            )
        if job.is_hosted(self._runner) and self._runner == HOSTED:
            return self._one_job(job, date_at)
        return self._ended_with_all(job, self.run.jobs())

    def _one_job(self, job: Job, date_at: datetime | None) -> JobFact:
        words = job.status.words(now=self.now)
        if job.status.state is State.ALIVE:
            return self._fact(State.ALIVE, words, recorded=True)
        if job.status.state is State.UNKNOWN:
            return self._unknown(f"the job has {words}")
        at = f" at {clock_text(job.ended_at, now=self.now)}" if job.ended_at else ""
        return self._fact(
            State.ENDED,
            f"{words}{at}, {self._runner_words([job])}",
            recorded=True,
            hosted=job.is_hosted(self._runner),
            ended_for_s=_since(job.ended_at, date_at),
        )

    def _ended_with_all(self, job: Job, jobs: Jobs) -> JobFact:
        """Judge a job that has ended, but may be a sibling's, by what holds for every job of the attempt."""
        if not jobs.all_ended:
            return self._unknown("the attempt says completed, but not every job that it lists has ended")
        at = f" at {clock_text(job.ended_at, now=self.now)}" if job.ended_at else ""
        ran = _ran(jobs)
        return self._fact(
            State.ENDED,
            f"{job.status.words(now=self.now)}{at}, never verified, but the whole attempt is completed,"
            f" {self._runner_words(ran)}",
            recorded=True,
            hosted=all(one.is_hosted(self._runner) for one in ran) and bool(ran),
            ended_for_s=_since_last(jobs),
        )

    def _whole_attempt(self, jobs: Jobs | None) -> JobFact:
        attempt = self.run.this_attempt()
        words = attempt.status.words(now=self.now)
        if attempt.status.state is State.UNKNOWN:
            return self._unknown(f"the attempt has {words}")
        if attempt.status.state is State.ALIVE:
            return self._attempt_goes_on(words, attempt.status.text, jobs)
        jobs = jobs or self.run.jobs()
        if not jobs.own:
            return self._unknown(f"the attempt says {words}, but lists no job of its own: no evidence about a job")
        left = [job for job in jobs.every if job.status.state is not State.ENDED]
        if left:
            said = left[0].status.words(now=self.now)
            return self._unknown(f"the attempt says {words}, but job {left[0].number} of it says {said}")
        ran = _ran(jobs)
        if not ran:
            return self._unknown(f"the attempt says {words}, but none of its jobs ever had a runner")
        last = max((job.ended_at for job in ran if job.ended_at), default=None)
        at = f", the last at {clock_text(last, now=self.now)}" if last else ""
        return self._fact(
            State.ENDED,
            f"attempt {words}, {_all_ended(jobs)}{at}, {self._runner_words(ran)}",
            hosted=all(job.is_hosted(self._runner) for job in ran),
            ended_for_s=_since_last(jobs),
        )

    def _attempt_goes_on(self, words: str, status: str, jobs: Jobs | None) -> JobFact:
        if jobs is None:
            try:
                jobs = self.run.jobs()
            except UnansweredError as error:
                # What is running needs no proof. That a list could not be had does not make it less so.
                self.notes.append(f"its jobs could not be listed: {error.words}")
        if jobs is not None and jobs.all_ended:
            # NB: https://github.com/actions/runner/issues/3872: runs that stay in_progress for weeks.
            return self._unknown(
                f"the attempt says {status}, but {_all_ended(jobs)}; without a recorded job nobody can say whether"
                " there is another to come"
            )
        return self._fact(State.ALIVE, f"attempt {words}")

    def _explained(self, error: UnansweredError) -> str:
        """A 404 hides what the token may not see: say how far it can see."""
        if error.status != 404:
            return error.words
        missing = f"404: no such {self.asking_about}, or the token may not see it"
        try:
            visible = self.run.repository_is_visible()
        except UnansweredError:
            return missing
        if visible:
            return f"{missing}: deleted or hidden, since the repository can be seen"
        return f"404: the token cannot see the repository {self.run.repository}, or there is none"

    def _runner_name(self) -> str | None:
        journal = own_journal(self.subject)
        name = (journal.details or {}).get("runner_name") if journal else None
        return name if isinstance(name, str) and name else None

    @property
    def _runner(self) -> str | None:
        journal = own_journal(self.subject)
        return journal.runner if journal else None

    def _runner_words(self, jobs: Sequence[Job]) -> str:
        others = [job for job in jobs if not job.is_hosted(self._runner)]
        plural = "" if len(jobs) == 1 else "s"
        if jobs and not others:
            return f"github-hosted runner{plural}"
        group = next((job.group for job in others if job.group not in (None, HOSTED_GROUP)), None)
        return f"self-hosted runner{plural}" + (f" (group {group})" if group else "")

    def _unknown(self, answer: str) -> JobFact:
        return self._fact(State.UNKNOWN, answer)

    def _fact(
        self,
        state: State,
        answer: str,
        *,
        recorded: bool = False,
        hosted: bool | None = None,
        ended_for_s: float | None = None,
    ) -> JobFact:
        return JobFact(
            state,
            self.question,
            "; ".join((answer, *self.notes)),
            self.now,
            recorded=recorded,
            hosted=hosted,
            ended_for_s=ended_for_s,
        )


def not_asked(subject: Subject, why: str, *, host: str, now: datetime) -> JobFact:
    """The fact that nobody was asked, and why."""
    return JobFact(State.UNKNOWN, question_about(subject, host), f"not asked: {why}", now)


def is_askable(subject: Subject) -> bool:
    """Whether a holder names a run of GitHub Actions."""
    holder = subject.holder
    return holder.kind is HolderKind.GITHUB and holder.run is not None and holder.attempt is not None


def _all_ended(jobs: Jobs) -> str:
    return "its only job has ended" if len(jobs.every) == 1 else f"all its {len(jobs.every)} jobs have ended"


def _ran(jobs: Jobs) -> list[Job]:
    """The jobs that had a runner: one that was skipped, or cancelled in the queue, cannot have held anything."""
    return [job for job in jobs.every if not job.never_ran]


def _since(ended_at: datetime | None, date_at: datetime | None) -> float | None:
    """How long ago, by GitHub's clock alone."""
    if ended_at is None or date_at is None:
        return None
    return max(0.0, (date_at - ended_at).total_seconds())


def _since_last(jobs: Jobs) -> float | None:
    """How long ago the last of them ended; None where that is not known of each."""
    ended = [_since(job.ended_at, jobs.date_at) for job in _ran(jobs)]
    known = [age_s for age_s in ended if age_s is not None]
    return min(known) if known and len(known) == len(ended) else None
