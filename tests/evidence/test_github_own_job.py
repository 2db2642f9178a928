"""
The id of the job that fencectl itself runs in.

Aspects: given and right · given and wrong · not given, found by the runner's name · GitHub says nothing.
"""

from __future__ import annotations

from typing import Any

import pytest

from fencectl.evidence.github import GitHub, OwnJob
from tests.evidence.github_desk import ATTEMPT, JOB, JOB_PATH, JOBS_PATH, ROOT, RUN, SIBLING, settings
from tests.support.github import HOSTED, REPOSITORY, SELF_HOSTED, TOKEN, Fault, LoopbackGitHub, hang
from tests.support.objects import NOW

NAME = SELF_HOSTED["runner_name"]


def own(github: LoopbackGitHub, *, env: dict[str, str] | None = None, **others: Any) -> OwnJob:
    given: dict[str, Any] = {"repository": REPOSITORY, "run": RUN, "attempt": ATTEMPT, "now": NOW} | others
    found = GitHub(settings(github, env)).own_job(**given)
    assert TOKEN not in repr(found)
    return found


def test_given_job_that_runs_in_this_attempt_is_verified(github: LoopbackGitHub) -> None:
    """One question at the start, and later the job alone is proof enough."""
    github.job(RUN, ATTEMPT, JOB, status="in_progress")
    assert own(github, job=JOB) == OwnJob(JOB, True, f"job {JOB} is in_progress")
    assert github.paths() == [JOB_PATH]


@pytest.mark.parametrize(("run", "attempt"), [(RUN + 1, ATTEMPT), (RUN, 1)])
def test_given_job_of_another_run_or_attempt_is_not_to_be_recorded(
    github: LoopbackGitHub, run: int, attempt: int
) -> None:
    """`FENCECTL_JOB_ID` was taken from somewhere else."""
    github.job(run, attempt, JOB, status="in_progress")
    assert own(github, job=JOB) == OwnJob(JOB, False, f"job {JOB} belongs to run {run} attempt {attempt}")


@pytest.mark.parametrize("status", ["completed", "queued", "waiting", "brand_new_state"])
def test_given_job_that_does_not_run_is_not_ours(github: LoopbackGitHub, status: str) -> None:
    """We do run: so this is another one."""
    github.job(RUN, ATTEMPT, JOB, status=status)
    assert own(github, job=JOB) == OwnJob(JOB, False, f"job {JOB} says {status}, not in_progress")


@pytest.mark.parametrize("field", ["run_id", "run_attempt"])
def test_given_job_that_names_no_attempt_is_not_verified(github: LoopbackGitHub, field: str) -> None:
    """GitHub's own schema leaves it open."""
    github.job(RUN, ATTEMPT, JOB, status="in_progress")[field] = None
    assert own(github, job=JOB).verified is None


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (Fault(404), "404: nothing there, or the token may not see it"),
        (Fault(401), "401: the token is not valid, or has expired"),
        (Fault(503), "503: GitHub itself failed"),
        (Fault(body="no"), "an answer that is no JSON"),
    ],
)
def test_given_job_that_cannot_be_asked_about_is_not_verified(
    github: LoopbackGitHub, fault: Fault, why: str
) -> None:
    """It may be recorded, as never verified."""
    github.fault(JOB_PATH, fault)
    assert own(github, job=JOB) == OwnJob(JOB, None, why)


def test_silence_is_bounded(github: LoopbackGitHub) -> None:
    """A deploy does not wait for GitHub."""
    github.fault(JOB_PATH, hang())
    assert own(github, job=JOB, deadline_s=0.2) == OwnJob(JOB, None, "no answer within 0.2s")


def test_job_is_found_by_the_runners_name(github: LoopbackGitHub) -> None:
    """Without an id, on an Enterprise Server say: exactly one job of this attempt runs on it."""
    github.job(RUN, ATTEMPT, JOB, status="in_progress", runner=SELF_HOSTED)
    github.job(RUN, ATTEMPT, SIBLING, status="in_progress", runner=HOSTED)
    github.job(RUN, 1, 7, runner=SELF_HOSTED)
    assert own(github, runner_name=NAME) == OwnJob(JOB, True, f"job {JOB}, by the runner's name, is in_progress")
    assert github.paths() == [JOBS_PATH]


def test_runner_that_had_another_job_of_the_attempt_finds_none(github: LoopbackGitHub) -> None:
    """What is ambiguous now is so later as well."""
    github.job(RUN, ATTEMPT, JOB, status="in_progress", runner=SELF_HOSTED)
    github.job(RUN, ATTEMPT, SIBLING, runner=SELF_HOSTED)
    found = own(github, runner_name=NAME)
    assert found == OwnJob(None, None, "2 jobs of this attempt ran on a runner of this name")


def test_runner_without_a_job_finds_none(github: LoopbackGitHub) -> None:
    """GitHub has not noted the runner's name yet."""
    github.job(RUN, ATTEMPT, JOB, status="in_progress", runner=HOSTED)
    assert own(github, runner_name=NAME) == OwnJob(
        None, None, "no jobs of this attempt ran on a runner of this name"
    )


def test_runner_whose_only_job_has_ended_finds_none(github: LoopbackGitHub) -> None:
    """It cannot be ours: we run."""
    github.job(RUN, ATTEMPT, JOB, runner=SELF_HOSTED)
    assert own(github, runner_name=NAME) == OwnJob(
        None, None, "the job on this runner says completed, not in_progress"
    )


@pytest.mark.parametrize("name", [None, ""])
def test_neither_id_nor_name_asks_nobody(github: LoopbackGitHub, name: str | None) -> None:
    """There is nothing to ask."""
    assert own(github, runner_name=name).why == "neither a job's id nor a runner's name is known"
    assert github.asked == []


@pytest.mark.parametrize(
    ("env", "repository", "why"),
    [
        ({"GITHUB_TOKEN": ""}, REPOSITORY, "not asked: no token (set GITHUB_TOKEN or GH_TOKEN)"),
        ({"GITHUB_API_URL": "ftp://x"}, REPOSITORY, "not asked: GITHUB_API_URL is no https URL"),
        ({}, "acme/..", "not asked: the repository is no owner/name"),
    ],
)
def test_what_is_missing_is_said(github: LoopbackGitHub, env: dict[str, str], repository: str, why: str) -> None:
    """The deploy goes on, with a job that was never verified."""
    assert own(github, env=env, job=JOB, repository=repository) == OwnJob(JOB, None, why)
    assert github.connections == 0
    assert ROOT not in str(github.asked)
