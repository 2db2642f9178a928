"""
From GitHub's word to the verdict, through the rules that decide.

Aspects: proven, presumed, live, unknown, each from a real answer; the heartbeat that beats them all.
"""

from __future__ import annotations

from typing import Any

import pytest

from fencectl.core.evidence import Judgement, Source
from fencectl.core.facts import HolderEvidence, Subject
from fencectl.core.found import Heartbeat
from fencectl.core.times import micro_time
from fencectl.core.verdict import HolderFacts, judge
from tests.evidence.github_desk import ATTEMPT, ENDED_AT, JOB, JOB_PATH, RUN, SIBLING, ask, subject
from tests.support.github import SELF_HOSTED, Fault, LoopbackGitHub
from tests.support.objects import NOW, before


def judged(github: LoopbackGitHub, about: Subject | None = None, *, renewed_s: float = 3629) -> Judgement:
    about = about or subject()
    heartbeat = Heartbeat(micro_time(before(renewed_s)), before(renewed_s), 30)
    evidence = HolderEvidence(job=ask(github, about))
    return judge(HolderFacts(about.holder, heartbeat, None, NOW, evidence=evidence))


def test_case_46_job_ended_on_a_self_hosted_runner_and_the_heartbeat_moves(github: LoopbackGitHub) -> None:
    """A starved runner: GitHub failed the job, and its worker goes on."""
    github.job(RUN, ATTEMPT, JOB, conclusion="failure", runner=SELF_HOSTED, ended_at=ENDED_AT)
    assert judged(github, renewed_s=5).words == "unknown"


def test_case_46_job_ended_on_a_self_hosted_runner_and_the_heartbeat_stands_still(github: LoopbackGitHub) -> None:
    """Weaker proof, after a grace."""
    github.job(RUN, ATTEMPT, JOB, conclusion="failure", runner=SELF_HOSTED, ended_at=ENDED_AT)
    assert judged(github).words == "dead (presumed)"
    github.job(RUN, ATTEMPT, JOB, conclusion="failure", runner=SELF_HOSTED, ended_at=before(14 * 60))
    within = judged(github)
    assert within.words == "unknown"
    assert "its grace ends in 1m01s" in within.because


@pytest.mark.parametrize(
    "conclusion", ["cancelled", "timed_out", "startup_failure", "stale", "neutral", "success"]
)
def test_case_13_holder_whose_job_is_completed_is_dead_whatever_the_conclusion(
    github: LoopbackGitHub, conclusion: str
) -> None:
    """Inside a run that goes on."""
    github.job(RUN, ATTEMPT, JOB, conclusion=conclusion, ended_at=ENDED_AT)
    found = judged(github)
    assert found.words == "dead (proven)"
    assert found.evidence[0].source is Source.JOB
    assert found.evidence[0].answer == f"completed ({conclusion}) at 01:47:09Z, github-hosted runner"


@pytest.mark.parametrize("status", ["in_progress", "queued", "waiting", "pending", "requested"])
def test_case_44_holder_whose_job_has_not_ended_is_live(github: LoopbackGitHub, status: str) -> None:
    """However long its heartbeat stands still."""
    github.job(RUN, ATTEMPT, JOB, status=status)
    assert judged(github).words == "live"


def test_case_16_holder_of_an_attempt_that_was_re_run_is_dead(github: LoopbackGitHub) -> None:
    """And that of the attempt that runs is live."""
    github.job(RUN, 1, JOB, conclusion="failure", ended_at=ENDED_AT)
    github.attempt(RUN, 1, conclusion="failure")
    github.job(RUN, 2, SIBLING, status="in_progress")
    assert judged(github, subject(None, attempt=1)).words == "dead (proven)"
    assert judged(github, subject(None, attempt=2)).words == "live"


@pytest.mark.parametrize(
    "fault",
    [
        *(Fault(status, body={"message": "no"}) for status in (301, 304, 400, 401, 403, 404, 410, 429, 500, 503)),
        Fault(body="{"),
        Fault(body={"status": "completed"}),
        Fault(drop=True),
        Fault(headers={"Location": "https://evil.example"}, status=302),
    ],
)
def test_case_48_holder_is_unknown_by_every_answer_that_is_none(github: LoopbackGitHub, fault: Fault) -> None:
    """What was answered is the reason that is given."""
    github.job(RUN, ATTEMPT, JOB)
    github.attempt(RUN, ATTEMPT)
    github.fault(JOB_PATH, fault)
    found = judged(github)
    assert found.words == "unknown"
    assert f"GitHub gave no proof ({found.evidence[0].answer})" in found.because


@pytest.mark.parametrize("missing", [{"repository": "acme"}, {"server_url": "https://ghe.example"}])
def test_case_50_holder_that_cannot_be_asked_about_is_unknown(
    github: LoopbackGitHub, missing: dict[str, Any]
) -> None:
    """Nobody was asked, and that is said."""
    github.job(RUN, ATTEMPT, JOB)
    assert "was not asked (" in judged(github, subject(**missing)).because
