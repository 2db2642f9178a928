"""
What GitHub says of a holder that recorded its job, or none.

Aspects: its own job · a job of somebody else · never verified · by the runner's name · by the whole attempt ·
zombies · whose runner · when it ended · every status word.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from fencectl.core.facts import JobFact, State
from fencectl.core.identity import parse_holder
from tests.evidence.github_desk import (
    ATTEMPT,
    ATTEMPT_PATH,
    ENDED_AT,
    JOB,
    JOB_PATH,
    JOBS_PATH,
    RUN,
    SIBLING,
    ask,
    journal,
    subject,
)
from tests.support.github import HOSTED, NO_RUNNER, SELF_HOSTED, Fault, LoopbackGitHub
from tests.support.objects import NOW, before


def told(fact: JobFact) -> tuple[State, bool, bool | None, float | None]:
    return fact.state, fact.recorded, fact.hosted, fact.ended_for_s


# The job that was recorded, and verified while it ran.


def test_recorded_job_that_is_completed_in_a_run_in_progress_has_ended(github: LoopbackGitHub) -> None:
    """The heal job of the same run can recover; one question is enough."""
    github.job(RUN, ATTEMPT, JOB, ended_at=ENDED_AT)
    fact = ask(github)
    assert told(fact) == (State.ENDED, True, True, 3622.0)
    assert fact.answer == "completed (cancelled) at 01:47:09Z, github-hosted runner"
    assert fact.question == f"has job {JOB} of run {RUN} attempt {ATTEMPT} ended? (127.0.0.1:{github.port})"
    assert fact.at == NOW
    assert github.paths() == [JOB_PATH]


def test_recorded_job_in_progress_is_alive_whatever_the_attempt_says(github: LoopbackGitHub) -> None:
    """The job decides, not the run."""
    github.job(RUN, ATTEMPT, JOB, status="in_progress", started_at="2026-11-30T02:49:55Z")
    github.attempt(RUN, ATTEMPT)
    fact = ask(github)
    assert told(fact) == (State.ALIVE, True, None, None)
    assert fact.answer == "in_progress since 02:49:55Z"


def test_job_recorded_in_the_journal_alone_is_as_good_as_in_the_identity(github: LoopbackGitHub) -> None:
    """An identity without a job part, whose job became known later."""
    github.job(RUN, ATTEMPT, JOB)
    assert ask(github, subject(None, job=JOB)).recorded
    assert github.paths() == [JOB_PATH]


@pytest.mark.parametrize("conclusion", ["cancelled", "timed_out", "startup_failure", "stale", "neutral", "success", "new_one", 7, None])  # fmt: skip
def test_case_13_every_conclusion_of_a_completed_job_is_an_end(github: LoopbackGitHub, conclusion: Any) -> None:
    """None of them is taken for a success or a failure, and the word is shown."""
    github.job(RUN, ATTEMPT, JOB)["conclusion"] = conclusion
    fact = ask(github)
    assert fact.state is State.ENDED
    shown = {7: "?", None: "no conclusion"}.get(conclusion, conclusion)
    assert fact.answer.startswith(f"completed ({shown})")


@pytest.mark.parametrize("conclusion", ["cancelled", "timed_out", "startup_failure", "stale", "neutral"])
def test_case_13_every_conclusion_of_a_completed_attempt_is_an_end(
    github: LoopbackGitHub, conclusion: str
) -> None:
    """The same where no job is recorded."""
    github.job(RUN, ATTEMPT, JOB, ended_at=ENDED_AT)
    github.attempt(RUN, ATTEMPT, conclusion=conclusion)
    fact = ask(github, subject(None))
    assert told(fact) == (State.ENDED, False, True, 3622.0)
    assert fact.answer == (
        f"attempt completed ({conclusion}), its only job has ended, the last at 01:47:09Z, github-hosted runner"
    )


ALIVE = ["queued", "in_progress", "waiting", "pending", "requested"]
UNKNOWN = [
    "action_required",
    "brand_new_state",
    "Completed",
    "completed ",
    "success",
    "",
    None,
    7,
    ["completed"],
    True,
]


@pytest.mark.parametrize("status", ALIVE)
def test_case_44_job_that_waits_or_runs_is_alive(github: LoopbackGitHub, status: str) -> None:
    """Whatever has not ended may begin any time."""
    github.job(RUN, ATTEMPT, JOB, status=status)
    fact = ask(github)
    assert (fact.state, fact.recorded) == (State.ALIVE, True)
    assert fact.answer.startswith(f"{status} since ")


@pytest.mark.parametrize("status", ALIVE)
def test_case_44_attempt_that_waits_or_runs_is_alive(github: LoopbackGitHub, status: str) -> None:
    """The same where no job is recorded."""
    github.attempt(RUN, ATTEMPT, status=status)
    fact = ask(github, subject(None))
    assert (fact.state, fact.recorded) == (State.ALIVE, False)
    assert fact.answer.startswith(f"attempt {status} since ")


@pytest.mark.parametrize("status", UNKNOWN)
def test_case_44_unknown_status_of_a_job_is_unknown_and_shown(github: LoopbackGitHub, status: Any) -> None:
    """Only the very word `completed` is an end."""
    github.job(RUN, ATTEMPT, JOB)["status"] = status
    fact = ask(github)
    assert told(fact) == (State.UNKNOWN, False, None, None)
    shown = (
        {None: "null", "": "", 7: "7", True: "true"}.get(status, status) if not isinstance(status, list) else ""
    )
    assert f"a status that is not known: {shown}" in fact.answer


@pytest.mark.parametrize("status", UNKNOWN)
def test_case_44_unknown_status_of_an_attempt_is_unknown_and_shown(github: LoopbackGitHub, status: Any) -> None:
    """Even where every job of it has ended."""
    github.job(RUN, ATTEMPT, JOB)
    github.attempt(RUN, ATTEMPT)["status"] = status
    fact = ask(github, subject(None))
    assert fact.state is State.UNKNOWN
    assert fact.answer.startswith("the attempt has a status that is not known: ")


def test_case_44_missing_status_is_unknown(github: LoopbackGitHub) -> None:
    """A field that is not there says nothing."""
    del github.job(RUN, ATTEMPT, JOB)["status"]
    assert ask(github).answer == "the job has a status that is not known: none"


@pytest.mark.parametrize("left", [*ALIVE, "brand_new_state", None])
def test_case_44_attempt_completed_with_a_job_that_is_not_is_unknown(github: LoopbackGitHub, left: Any) -> None:
    """Two answers that contradict each other prove nothing."""
    github.job(RUN, ATTEMPT, JOB)
    github.job(RUN, ATTEMPT, SIBLING)["status"] = left
    github.attempt(RUN, ATTEMPT)
    fact = ask(github, subject(None))
    assert fact.state is State.UNKNOWN
    assert f"but job {SIBLING} of it says" in fact.answer


# A job that is not this holder's.


@pytest.mark.parametrize(("run", "attempt"), [(RUN + 1, ATTEMPT), (RUN, 1), (RUN, 3)])
def test_job_of_another_run_or_attempt_is_ignored_and_said(github: LoopbackGitHub, run: int, attempt: int) -> None:
    """FENCECTL_JOB_ID was taken from somewhere else: then the attempt decides, and it goes on."""
    github.job(run, attempt, JOB)
    github.job(RUN, ATTEMPT, SIBLING, status="in_progress")
    fact = ask(github)
    assert (fact.state, fact.recorded) == (State.ALIVE, False)
    assert f"job {JOB}, which was recorded, belongs to run {run} attempt {attempt}: ignored" in fact.answer


def test_job_whose_attempt_github_does_not_say_is_ignored(github: LoopbackGitHub) -> None:
    """`run_attempt` is optional in GitHub's own schema."""
    del github.job(RUN, ATTEMPT, JOB)["run_attempt"]
    github.attempt(RUN, ATTEMPT, status="in_progress")
    fact = ask(github)
    assert fact.state is State.ALIVE
    assert "belongs to nothing that it names: ignored" in fact.answer


def test_answer_about_another_job_than_asked_is_unknown(github: LoopbackGitHub) -> None:
    """A cache on the way that mixes up its entries."""
    github.job(RUN, ATTEMPT, JOB)["id"] = SIBLING
    assert ask(github).answer == f"GitHub answered about job {SIBLING} instead"


@pytest.mark.parametrize("field", ["id", "run_attempt"])
def test_answer_about_another_attempt_than_asked_is_unknown(github: LoopbackGitHub, field: str) -> None:
    """The plain run answers in the shape of an attempt, of the latest one."""
    github.attempt(RUN, ATTEMPT)[field] = 3
    fact = ask(github, subject(None))
    assert fact.state is State.UNKNOWN
    assert "instead" in fact.answer


def test_identity_and_journal_that_name_different_jobs_are_both_ignored(github: LoopbackGitHub) -> None:
    """Neither is better than the other."""
    github.job(RUN, ATTEMPT, JOB)
    github.job(RUN, ATTEMPT, SIBLING, status="in_progress")
    fact = ask(github, subject(job=SIBLING))
    assert (fact.state, fact.recorded) == (State.ALIVE, False)
    assert "the journal another: both are ignored" in fact.answer


@pytest.mark.parametrize("number", [0, -1, 10**30])
def test_recorded_job_that_can_be_none_is_ignored(github: LoopbackGitHub, number: int) -> None:
    """A journal can hold any integer."""
    github.attempt(RUN, ATTEMPT, status="in_progress")
    fact = ask(github, subject(None, job=number))
    assert fact.state is State.ALIVE
    assert fact.answer.endswith("the recorded job is no job's id: ignored")


def test_journal_of_another_holder_tells_nothing_about_this_one(github: LoopbackGitHub) -> None:
    """A nested run's journal on a fence of the chain: its job and its word on the runner are its own."""
    about = subject(None)
    nested = journal("9be1c04477aa02d1-gh1.1-20d7bb3f", job=JOB, details={"runner_name": "x"})
    github.job(RUN, ATTEMPT, JOB, runner=SELF_HOSTED | {"labels": [], "runner_group_name": None})
    github.attempt(RUN, ATTEMPT)
    about = type(about)(about.holder, nested, repository=about.repository, server_url=about.server_url)
    assert told(ask(github, about))[:3] == (State.ENDED, False, False)


# A job whose id was never checked while it ran.


@pytest.mark.parametrize("verified", [None, False])
def test_unverified_job_that_ended_in_an_attempt_in_progress_is_unknown(
    github: LoopbackGitHub, verified: bool | None
) -> None:
    """It may be a sibling's id: the attempt must be completed as well."""
    github.job(RUN, ATTEMPT, JOB)
    fact = ask(github, subject(job_verified=verified))
    assert fact.state is State.UNKNOWN
    assert "its id was never verified, and the attempt says in_progress" in fact.answer
    assert github.paths() == [JOB_PATH, ATTEMPT_PATH]


def test_unverified_job_that_runs_is_alive(github: LoopbackGitHub) -> None:
    """There is nothing to prove."""
    github.job(RUN, ATTEMPT, JOB, status="in_progress")
    assert told(ask(github, subject(job_verified=None)))[:2] == (State.ALIVE, True)


def test_unverified_job_has_ended_once_the_attempt_is_completed(github: LoopbackGitHub) -> None:
    """Job and journal agree on GitHub's own runner: nothing more has to be asked."""
    github.job(RUN, ATTEMPT, JOB, ended_at=ENDED_AT)
    github.attempt(RUN, ATTEMPT)
    fact = ask(github, subject(job_verified=False))
    assert told(fact) == (State.ENDED, True, True, 3622.0)
    assert github.paths() == [JOB_PATH, ATTEMPT_PATH]


@pytest.mark.parametrize("status", ["brand_new_state", None])
def test_unverified_job_in_an_attempt_of_unknown_status_is_unknown(github: LoopbackGitHub, status: Any) -> None:
    """Unknown is not completed."""
    github.job(RUN, ATTEMPT, JOB)
    github.attempt(RUN, ATTEMPT)["status"] = status
    assert ask(github, subject(job_verified=False)).state is State.UNKNOWN


@pytest.mark.parametrize(("sibling", "hosted"), [(HOSTED, True), (SELF_HOSTED, False)])
def test_unverified_job_without_a_recorded_runner_is_as_hosted_as_the_whole_attempt(
    github: LoopbackGitHub, sibling: dict[str, Any], hosted: bool
) -> None:
    """The id may be a sibling's, and nobody wrote down that this holder ran on GitHub's runner."""
    github.job(RUN, ATTEMPT, JOB, ended_at=before(7200))
    github.job(RUN, ATTEMPT, SIBLING, ended_at=before(60), runner=sibling)
    github.attempt(RUN, ATTEMPT)
    fact = ask(github, subject(journalled=False))
    assert told(fact) == (State.ENDED, True, hosted, 60.0)
    assert "never verified, but the whole attempt is completed" in fact.answer


def test_unverified_job_of_a_completed_attempt_that_lists_a_running_job_is_unknown(
    github: LoopbackGitHub,
) -> None:
    """The running one may be this holder's."""
    github.job(RUN, ATTEMPT, JOB)
    github.job(RUN, ATTEMPT, SIBLING, status="in_progress")
    github.attempt(RUN, ATTEMPT)
    assert ask(github, subject(journalled=False)).state is State.UNKNOWN


# No job recorded: by the runner's name.


def test_runner_name_of_exactly_one_job_finds_it(github: LoopbackGitHub) -> None:
    """Then it is as good as recorded, and the attempt may go on."""
    github.job(RUN, ATTEMPT, JOB, ended_at=ENDED_AT)
    github.job(RUN, ATTEMPT, SIBLING, status="in_progress", runner=HOSTED | {"runner_name": "GitHub Actions 2"})
    about = subject(None, details={"runner_name": "GitHub Actions 1007"})
    fact = ask(github, about)
    assert told(fact) == (State.ENDED, True, True, 3622.0)
    assert f"job {JOB}, known by its runner's name" in fact.answer
    assert github.paths() == [JOBS_PATH]


def test_runner_name_of_a_running_job_is_alive(github: LoopbackGitHub) -> None:
    """Found, and it runs."""
    github.job(RUN, ATTEMPT, JOB, status="in_progress", runner=SELF_HOSTED)
    github.job(RUN, ATTEMPT, SIBLING)
    assert told(ask(github, subject(None, details={"runner_name": "builder-21"})))[:2] == (State.ALIVE, True)


@pytest.mark.parametrize("name", ["builder-21", "another", "", None, 7, ["builder-21"]])
def test_runner_name_of_several_jobs_or_none_leaves_the_attempt(github: LoopbackGitHub, name: Any) -> None:
    """A self-hosted runner may have had two of them, one after the other."""
    github.job(RUN, ATTEMPT, JOB, runner=SELF_HOSTED)
    github.job(RUN, ATTEMPT, SIBLING, status="in_progress", runner=SELF_HOSTED)
    fact = ask(github, subject(None, details={"runner_name": name}))
    assert (fact.state, fact.recorded) == (State.ALIVE, False)


def test_runner_name_of_a_job_of_an_earlier_attempt_is_no_match(github: LoopbackGitHub) -> None:
    """A partial re-run may list what did not run again."""
    github.job(RUN, ATTEMPT, SIBLING, runner=HOSTED | {"runner_name": "GitHub Actions 2"})
    earlier = github.job(RUN, ATTEMPT, JOB, runner=SELF_HOSTED) | {"run_attempt": 1}
    listed = [github._jobs[SIBLING], earlier]
    github.fault("/jobs$", Fault(body={"total_count": 2, "jobs": listed}))
    github.attempt(RUN, ATTEMPT, status="in_progress")
    fact = ask(github, subject(None, details={"runner_name": "builder-21"}))
    assert fact.recorded is False


# No job recorded: by the whole attempt.


def test_attempt_whose_jobs_all_ended_has_ended(github: LoopbackGitHub) -> None:
    """The last of them counts."""
    github.job(RUN, ATTEMPT, JOB, ended_at=before(7200))
    github.job(RUN, ATTEMPT, SIBLING, conclusion="success", ended_at=ENDED_AT)
    github.attempt(RUN, ATTEMPT)
    fact = ask(github, subject(None))
    assert told(fact) == (State.ENDED, False, True, 3622.0)
    assert fact.answer == (
        "attempt completed (cancelled), all its 2 jobs have ended, the last at 01:47:09Z, github-hosted runners"
    )
    assert github.paths() == [ATTEMPT_PATH, JOBS_PATH]


def test_attempt_with_one_self_hosted_job_is_not_hosted(github: LoopbackGitHub) -> None:
    """Without a recorded job, any of them may have been this holder's."""
    github.job(RUN, ATTEMPT, JOB)
    github.job(RUN, ATTEMPT, SIBLING, runner=SELF_HOSTED)
    github.attempt(RUN, ATTEMPT)
    fact = ask(github, subject(None))
    assert told(fact)[:3] == (State.ENDED, False, False)
    assert fact.answer.endswith("self-hosted runners (group Default)")


@pytest.mark.parametrize("conclusion", ["skipped", "cancelled"])
def test_job_that_never_had_a_runner_does_not_count(github: LoopbackGitHub, conclusion: str) -> None:
    """Skipped, or cancelled in the queue: it cannot have held anything."""
    github.job(RUN, ATTEMPT, JOB, ended_at=ENDED_AT)
    github.job(RUN, ATTEMPT, SIBLING, conclusion=conclusion, ended_at=before(5), runner=NO_RUNNER)
    github.attempt(RUN, ATTEMPT)
    assert told(ask(github, subject(None, runner=None))) == (State.ENDED, False, True, 3622.0)


@pytest.mark.parametrize("ran", [{"steps": [{"name": "Set up job"}]}, {"conclusion": "failure"}, {"runner_id": 5}])
def test_job_that_ran_somewhere_unsaid_counts_as_self_hosted(github: LoopbackGitHub, ran: dict[str, Any]) -> None:
    """It had steps, a result of its own, or a runner: it did run, and GitHub does not say where."""
    github.job(RUN, ATTEMPT, JOB)
    github.job(RUN, ATTEMPT, SIBLING, runner=NO_RUNNER | ran)
    github._jobs[SIBLING] |= ran
    github.attempt(RUN, ATTEMPT)
    assert told(ask(github, subject(None, runner=None)))[:3] == (State.ENDED, False, False)


def test_attempt_none_of_whose_jobs_ever_ran_is_no_evidence(github: LoopbackGitHub) -> None:
    """Then none of them can have been the holder, and something else is wrong."""
    github.job(RUN, ATTEMPT, JOB, conclusion="skipped", runner=NO_RUNNER)
    github.attempt(RUN, ATTEMPT)
    fact = ask(github, subject(None))
    assert fact.state is State.UNKNOWN
    assert "none of its jobs ever had a runner" in fact.answer


def test_case_43_empty_list_of_jobs_is_no_evidence(github: LoopbackGitHub) -> None:
    """Never "all jobs have ended"."""
    github.attempt(RUN, ATTEMPT)
    fact = ask(github, subject(None))
    assert fact.state is State.UNKNOWN
    assert "lists no job of its own: no evidence about a job" in fact.answer


def test_case_43_empty_list_of_jobs_of_an_attempt_in_progress_is_no_zombie(github: LoopbackGitHub) -> None:
    """Its jobs may be about to be made."""
    github.attempt(RUN, ATTEMPT, status="queued")
    assert ask(github, subject(None)).state is State.ALIVE


def test_zombie_attempt_without_a_recorded_job_is_unknown(github: LoopbackGitHub) -> None:
    """Such runs say in_progress for weeks; but another job may also be about to begin."""
    github.job(RUN, ATTEMPT, JOB)
    github.job(RUN, ATTEMPT, SIBLING)
    fact = ask(github, subject(None))
    assert fact.state is State.UNKNOWN
    assert fact.answer.startswith(
        "the attempt says in_progress, but all its 2 jobs have ended; without a recorded job"
    )


def test_zombie_attempt_is_judged_by_its_recorded_job(github: LoopbackGitHub) -> None:
    """The run may say in_progress for weeks: the job has ended."""
    github.job(RUN, ATTEMPT, JOB)
    github.job(RUN, ATTEMPT, SIBLING)
    assert ask(github).state is State.ENDED


def test_attempt_in_progress_whose_jobs_cannot_be_listed_is_alive(github: LoopbackGitHub) -> None:
    """What is in progress needs no proof; what could not be read is said."""
    github.attempt(RUN, ATTEMPT, status="in_progress")
    github.fault("/jobs$", Fault(status=502))
    fact = ask(github, subject(None))
    assert fact.state is State.ALIVE
    assert fact.answer.endswith("its jobs could not be listed: 502: GitHub itself failed")


def test_older_identity_with_a_pid_is_judged_by_its_attempt(github: LoopbackGitHub) -> None:
    """The other tool's spelling names no job."""
    github.job(RUN, ATTEMPT, JOB)
    github.attempt(RUN, ATTEMPT)
    older = subject(None, journalled=False)
    older = type(older)(parse_holder(f"4f2a91c07be3-gh{RUN}.{ATTEMPT}-2045-1f3a"), repository=older.repository)
    assert told(ask(github, older))[:3] == (State.ENDED, False, True)


# Whose runner it was, and when it ended.


@pytest.mark.parametrize(
    ("runner", "journalled", "hosted", "words"),
    [
        (HOSTED, "self-hosted", True, "github-hosted runner"),
        (HOSTED, None, True, "github-hosted runner"),
        (SELF_HOSTED, "github-hosted", False, "self-hosted runner (group Default)"),
        (HOSTED | {"runner_group_name": "Larger runners"}, "github-hosted", False, "self-hosted runner (group Larger runners)"),
        (HOSTED | {"runner_group_name": "github actions"}, "github-hosted", False, "self-hosted runner (group github actions)"),
        (HOSTED | {"runner_group_name": None}, "github-hosted", True, "github-hosted runner"),
        (HOSTED | {"runner_group_name": ""}, "github-hosted", True, "github-hosted runner"),
        (HOSTED | {"runner_group_name": None}, "self-hosted", False, "self-hosted runner"),
        (HOSTED | {"runner_group_name": None}, None, False, "self-hosted runner"),
        (HOSTED | {"runner_group_name": 0}, "github-hosted", False, "self-hosted runner (group ?)"),
        (HOSTED | {"labels": ["self-hosted"]}, "github-hosted", False, "self-hosted runner"),
        (HOSTED | {"labels": ["Self-Hosted"], "runner_group_name": None}, "github-hosted", False, "self-hosted runner"),
    ],
)  # fmt: skip
def test_case_46_runner_is_githubs_own_only_where_that_is_said(
    github: LoopbackGitHub, runner: dict[str, Any], journalled: str | None, hosted: bool, words: str
) -> None:
    """On another one the process may outlive its job; the journal counts only where GitHub does not say."""
    github.job(RUN, ATTEMPT, JOB, runner=runner, ended_at=ENDED_AT)
    fact = ask(github, subject(runner=journalled))
    assert told(fact) == (State.ENDED, True, hosted, 3622.0)
    assert fact.answer == f"completed (cancelled) at 01:47:09Z, {words}"


@pytest.mark.parametrize(
    ("completed_at", "ended_for_s"),
    [
        ("2026-11-30T02:47:01Z", 30.0),
        ("2026-11-30T03:47:01+01:00", 30.0),
        ("2026-11-30T02:50:00Z", 0.0),  # ahead of GitHub's own clock
        ("0001-01-01T00:00:00Z", None),
        ("soon", None),
        ("", None),
        (None, None),
        (1764470821, None),
    ],
)
def test_end_is_measured_by_githubs_own_clock(
    github: LoopbackGitHub, completed_at: Any, ended_for_s: float | None
) -> None:
    """A time before the job was made, or that is none, does not let a grace run out."""
    github.job(RUN, ATTEMPT, JOB, ended_at=before(30), runner=SELF_HOSTED)["completed_at"] = completed_at
    fact = ask(github)
    assert told(fact) == (State.ENDED, True, False, ended_for_s)


def test_own_clock_of_whoever_asks_does_not_count(github: LoopbackGitHub) -> None:
    """A laptop that is two hours ahead must not end a grace."""
    github.date_at = NOW - timedelta(hours=2)
    github.job(RUN, ATTEMPT, JOB, ended_at=NOW - timedelta(hours=2, seconds=30), runner=SELF_HOSTED)
    assert ask(github).ended_for_s == 30.0


def test_one_job_without_an_end_leaves_the_whole_attempts_end_open(github: LoopbackGitHub) -> None:
    """The one that is not known may be the last."""
    github.job(RUN, ATTEMPT, JOB)
    github.job(RUN, ATTEMPT, SIBLING)["completed_at"] = None
    github.attempt(RUN, ATTEMPT)
    assert ask(github, subject(None)).ended_for_s is None


@pytest.mark.parametrize("date", ["", "yesterday", "30 Nov", "99999999999"])
def test_answer_without_a_date_leaves_the_end_open(github: LoopbackGitHub, date: str) -> None:
    """There is no other clock to measure by."""
    github.date_text = date
    github.job(RUN, ATTEMPT, JOB, runner=SELF_HOSTED)
    assert told(ask(github)) == (State.ENDED, True, False, None)
