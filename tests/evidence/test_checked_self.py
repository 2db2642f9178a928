"""
The own job, checked with GitHub while it runs.

Aspects: confirmed · somebody else's · found by the runner's name · GitHub says nothing · nobody to ask about.
"""

from __future__ import annotations

from typing import Any

import pytest

from fencectl.evidence.checked_self import describe_checked_self
from fencectl.evidence.machine import Machine
from fencectl.evidence.self_identity import SelfIdentity
from tests.evidence.github_desk import ATTEMPT, JOB, JOB_PATH, JOBS_PATH, RUN, SIBLING
from tests.support.github import SELF_HOSTED, TOKEN, Fault, LoopbackGitHub, hang
from tests.support.objects import NOW

IN_ACTIONS = {"GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": str(RUN), "GITHUB_RUN_ATTEMPT": str(ATTEMPT)}
WITH_JOB = IN_ACTIONS | {"FENCECTL_JOB_ID": str(JOB)}


def described(github: LoopbackGitHub, environ: dict[str, str], **more: Any) -> SelfIdentity:
    own = describe_checked_self(github.env() | environ, Machine(), command=["fencectl"], at=NOW, **more)
    assert TOKEN not in repr(own)
    return own


def test_job_that_runs_is_recorded_as_verified_with_one_question(github: LoopbackGitHub) -> None:
    """Later it is judged alone: a heal job of the same run may recover."""
    github.job(RUN, ATTEMPT, JOB, status="in_progress")
    own = described(github, WITH_JOB)
    assert (own.job, own.job_verified, own.warnings) == (JOB, True, ())
    assert f"-gh{RUN}.{ATTEMPT}-j{JOB}-" in own.identity
    assert github.paths() == [JOB_PATH]


def test_job_of_another_attempt_is_left_out_and_said(github: LoopbackGitHub) -> None:
    """Its end would be taken for ours."""
    github.job(RUN, 1, JOB, status="in_progress")
    own = described(github, WITH_JOB)
    assert (own.job, own.job_verified) == (None, None)
    assert f"-j{JOB}" not in own.identity
    assert own.warnings == (
        f"FENCECTL_JOB_ID is not this job: job {JOB} belongs to run {RUN} attempt 1; it is ignored",
    )


def test_job_is_found_by_the_name_of_its_runner(github: LoopbackGitHub) -> None:
    """Only one job of this attempt runs there."""
    github.job(RUN, ATTEMPT, JOB, runner=SELF_HOSTED, status="in_progress")
    github.job(RUN, ATTEMPT, SIBLING, status="in_progress")
    own = described(github, IN_ACTIONS | {"RUNNER_NAME": str(SELF_HOSTED["runner_name"])})
    assert (own.job, own.job_verified, own.warnings) == (JOB, True, ())
    assert JOBS_PATH in github.paths()[0]


@pytest.mark.parametrize(
    ("fault", "why"),
    [(Fault(401), "401: the token is not valid, or has expired"), (hang(), "no answer within 0.2s")],
)
def test_case_50_job_that_nobody_confirms_is_recorded_as_unverified(
    github: LoopbackGitHub, fault: Fault, why: str
) -> None:
    """A deploy neither fails nor waits for that; whoever judges it later asks about the whole attempt."""
    github.fault(JOB_PATH, fault)
    own = described(github, WITH_JOB, deadline_s=0.2)
    assert (own.job, own.job_verified) == (JOB, False)
    assert own.warnings == (f"GitHub did not confirm that this is job {JOB}: {why}",)


@pytest.mark.parametrize(
    "environ",
    [{}, {"GITHUB_ACTIONS": "true"}, WITH_JOB | {"GITHUB_REPOSITORY": ""}],
    ids=["workstation", "no-run", "no-repository"],
)
def test_without_a_run_and_its_repository_nobody_is_asked(github: LoopbackGitHub, environ: dict[str, str]) -> None:
    """There is nothing that could be confirmed."""
    own = described(github, environ)
    assert own.job_verified is not True
    assert github.asked == []
