"""
The three questions about a run: one job, one attempt, and all jobs of an attempt.

Always with the attempt. The run itself mixes its first and its latest attempt, and its list of jobs is that of the
latest one (https://github.com/cli/cli/issues/7823).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fencectl.core.facts import State
from fencectl.evidence.github_api import Api
from fencectl.evidence.github_failures import UnansweredError
from fencectl.evidence.github_shapes import Attempt, Job, read_attempt, read_job

PER_PAGE = 100
MOST_PAGES = 20


@dataclass(frozen=True, slots=True)
class Jobs:
    """
    Every job that GitHub lists for an attempt, and GitHub's clock.

    `own`: those of this very attempt. A partial re-run may list jobs of earlier ones, which did not run again.
    """

    every: tuple[Job, ...]
    own: tuple[Job, ...]
    date_at: datetime | None

    @property
    def all_ended(self) -> bool:
        """Whether there is any job of this attempt, and none is left that has not ended."""
        return bool(self.own) and all(job.status.state is State.ENDED for job in self.every)


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt of a run of a repository, to be asked about."""

    api: Api
    repository: str
    run: int
    attempt: int

    def job(self, number: int) -> tuple[Job, datetime | None]:
        """Return a job by its id, whatever it belongs to, and GitHub's clock. Raises UnansweredError."""
        answered = self.api.get(f"/repos/{self.repository}/actions/jobs/{number}")
        job = read_job(answered.value)
        if job.number != number:
            raise UnansweredError(f"GitHub answered about job {job.number} instead")
        return job, answered.date_at

    def this_attempt(self) -> Attempt:
        """Return the attempt. Raises UnansweredError, also where GitHub answers about another one."""
        attempt = read_attempt(self.api.get(self._path).value)
        if attempt.run != self.run or attempt.number != self.attempt:
            raise UnansweredError(f"GitHub answered about run {attempt.run} attempt {attempt.number} instead")
        return attempt

    def jobs(self) -> Jobs:
        """Return all jobs of the attempt, all pages. Raises UnansweredError where that is not all of them."""
        found: dict[int, Job] = {}
        for page in range(1, MOST_PAGES + 1):
            answered = self.api.get(f"{self._path}/jobs", query=f"per_page={PER_PAGE}&page={page}")
            listed, total = answered.value.get("jobs"), answered.value.get("total_count")
            if not isinstance(listed, list) or type(total) is not int:
                raise UnansweredError("an answer without the shape of a list of jobs")
            for raw in listed:
                job = read_job(raw)
                self._check(job)
                found[job.number] = job
            # NB: pages are counted here; where the header's link leads is not followed.
            if not answered.has_next and len(found) >= total:
                every = tuple(found.values())
                own = tuple(job for job in every if job.attempt in (None, self.attempt))
                return Jobs(every, own, answered.date_at)
            if not listed:
                raise UnansweredError(f"GitHub counts {total} jobs, but lists {len(found)}")
        raise UnansweredError(f"more than {MOST_PAGES * PER_PAGE} jobs")

    def repository_is_visible(self) -> bool:
        """Whether the token can see the repository at all. Raises UnansweredError for anything but 200 and 404."""
        try:
            self.api.get(f"/repos/{self.repository}")
        except UnansweredError as error:
            if error.status == 404:
                return False
            raise
        return True

    def _check(self, job: Job) -> None:
        if job.run is not None and job.run != self.run:
            raise UnansweredError(f"GitHub listed a job of run {job.run}")
        if job.attempt is not None and job.attempt > self.attempt:
            raise UnansweredError(f"GitHub listed a job of attempt {job.attempt}")

    @property
    def _path(self) -> str:
        return f"/repos/{self.repository}/actions/runs/{self.run}/attempts/{self.attempt}"
