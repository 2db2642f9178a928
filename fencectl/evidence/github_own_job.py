"""
The id of the job that this very process runs in: given, and checked; or found by the runner's name.

An id that was checked while the job ran may be judged alone later on. One that was not may be a sibling's.
"""

from __future__ import annotations

from dataclasses import dataclass

from fencectl.evidence.github_failures import UnansweredError
from fencectl.evidence.github_runs import Run
from fencectl.evidence.github_shapes import Job


@dataclass(frozen=True, slots=True)
class OwnJob:
    """
    What is known of the own job.

    `job`: its id, as given or as found; None where there is none. `verified`: GitHub says that it belongs to this
    run and attempt and is in progress (True), says otherwise (False: not to be recorded), or said nothing (None).
    `why`: one line, with GitHub's answer.
    """

    job: int | None
    verified: bool | None
    why: str


def check_own_job(run: Run, *, job: int | None, runner_name: str | None) -> OwnJob:
    """Ask GitHub. Never raises for what it answers."""
    try:
        return _find(run, runner_name) if job is None else _check(run, job)
    except UnansweredError as error:
        return OwnJob(job, None, error.words)


def _check(run: Run, number: int) -> OwnJob:
    job, _ = run.job(number)
    if job.run is None or job.attempt is None:
        return OwnJob(number, None, f"GitHub does not say what job {number} belongs to")
    if (job.run, job.attempt) != (run.run, run.attempt):
        return OwnJob(number, False, f"job {number} belongs to run {job.run} attempt {job.attempt}")
    if not _runs(job):
        return OwnJob(number, False, f"job {number} says {job.status.text}, not in_progress")
    return OwnJob(number, True, f"job {number} is in_progress")


def _find(run: Run, runner_name: str | None) -> OwnJob:
    if not runner_name:
        return OwnJob(None, None, "neither a job's id nor a runner's name is known")
    # NB: jobs of that name that have ended count too: a runner that had two of them proves nothing later.
    named = [job for job in run.jobs().own if job.runner_name == runner_name]
    if len(named) != 1:
        return OwnJob(None, None, f"{len(named) or 'no'} jobs of this attempt ran on a runner of this name")
    if not _runs(named[0]):
        return OwnJob(None, None, f"the job on this runner says {named[0].status.text}, not in_progress")
    return OwnJob(named[0].number, True, f"job {named[0].number}, by the runner's name, is in_progress")


def _runs(job: Job) -> bool:
    return job.status.text == "in_progress"
