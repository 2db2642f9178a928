"""
Which addresses are asked, and how often.

Aspects: only with the attempt · all pages · partial re-runs · lists that are not what was asked for · one look per
holder · what has not changed is not sent again.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from fencectl.core.facts import State, Subject
from fencectl.core.identity import HolderKind, parse_holder
from fencectl.evidence.github import GitHub, ask_github
from fencectl.evidence.github_runs import MOST_PAGES
from tests.evidence.github_desk import (
    ATTEMPT,
    ATTEMPT_PATH,
    JOB,
    JOB_PATH,
    JOBS_PATH,
    ROOT,
    RUN,
    SIBLING,
    ask,
    ask_again,
    settings,
    subject,
)
from tests.support.github import HOSTED, SELF_HOSTED, Fault, LoopbackGitHub
from tests.support.objects import NOW

ATTEMPT_1 = f"{ROOT}/actions/runs/{RUN}/attempts/1"


def test_case_16_attempt_that_was_re_run_is_judged_by_itself(github: LoopbackGitHub) -> None:
    """The run says in_progress, since attempt 2 runs; attempt 1 is long over, and attempt 2's holder lives."""
    github.job(RUN, 1, JOB, conclusion="failure")
    github.attempt(RUN, 1, conclusion="failure")
    github.job(RUN, 2, SIBLING, status="in_progress")
    assert ask(github, subject(None, attempt=1)).state is State.ENDED
    assert ask(github, subject(None, attempt=2)).state is State.ALIVE
    assert ask(github, subject(JOB, attempt=1)).state is State.ENDED
    assert ask(github, subject(SIBLING, attempt=2)).state is State.ALIVE


def test_case_16_attempt_that_runs_is_not_ended_by_a_later_one(github: LoopbackGitHub) -> None:
    """The neighbour: a later attempt that has ended says nothing about this one."""
    github.job(RUN, 1, JOB, status="in_progress")
    github.job(RUN, 2, SIBLING)
    github.attempt(RUN, 2)
    assert ask(github, subject(None, attempt=1)).state is State.ALIVE


def test_case_41_only_addresses_with_the_attempt_are_asked(github: LoopbackGitHub) -> None:
    """All four differ here: the run, its jobs, the attempt, the attempt's jobs."""
    github.job(RUN, 1, JOB, status="in_progress")
    github.job(RUN, 2, SIBLING)
    github.attempt(RUN, 2, conclusion="success")
    fact = ask(github, subject(None, attempt=1))
    assert fact.state is State.ALIVE
    assert github.paths() == [ATTEMPT_1, f"{ATTEMPT_1}/jobs"]


def test_case_41_times_are_those_of_the_attempt(github: LoopbackGitHub) -> None:
    """The plain run mixes the first and the last attempt."""
    github.attempt(RUN, 1, status="in_progress", run_started_at="2026-11-30T01:00:00Z", created_at="2026-11-29T00:00:00Z")  # fmt: skip
    assert ask(github, subject(None, attempt=1)).answer == "attempt in_progress since 01:00:00Z"


@pytest.mark.parametrize("listed", [[SIBLING], [JOB, SIBLING]])
def test_case_41_list_with_jobs_of_a_later_attempt_is_not_believed(
    github: LoopbackGitHub, listed: list[int]
) -> None:
    """A server, or a cache on the way, that answers with the latest attempt's jobs."""
    jobs = {JOB: github.job(RUN, 1, JOB), SIBLING: github.job(RUN, 2, SIBLING)}
    github.attempt(RUN, 1)
    github.fault("/attempts/1/jobs$", Fault(body={"total_count": len(listed), "jobs": [jobs[n] for n in listed]}))
    fact = ask(github, subject(None, attempt=1))
    assert (fact.state, fact.answer) == (State.UNKNOWN, "GitHub listed a job of attempt 2")


def test_case_41_list_with_jobs_of_another_run_is_not_believed(github: LoopbackGitHub) -> None:
    """The neighbour: right attempt, wrong run."""
    other = github.job(RUN + 1, ATTEMPT, SIBLING)
    github.attempt(RUN, ATTEMPT)
    github.fault(f"/{RUN}/attempts/2/jobs$", Fault(body={"total_count": 1, "jobs": [other]}))
    assert ask(github, subject(None)).answer == f"GitHub listed a job of run {RUN + 1}"


def test_case_43_job_on_the_second_page_of_its_attempt_is_found(github: LoopbackGitHub) -> None:
    """More than a hundred jobs, and the one that counts is the last of them; attempt 2 has others."""
    for number in range(120):
        github.job(RUN, 1, SIBLING + number, conclusion="success")
    github.job(RUN, 1, JOB, status="in_progress", runner=SELF_HOSTED)
    github.job(RUN, 2, 7, status="in_progress", runner=SELF_HOSTED)
    about = subject(None, attempt=1, details={"runner_name": "builder-21"})
    fact = ask(github, about)
    assert (fact.state, fact.recorded) == (State.ALIVE, True)
    assert github.paths() == [f"{ATTEMPT_1}/jobs", f"{ATTEMPT_1}/jobs?page=2"]
    assert {asked.query["per_page"] for asked in github.asked} == {"100"}


def test_case_43_one_job_left_on_the_last_page_keeps_the_attempt_from_having_ended(
    github: LoopbackGitHub,
) -> None:
    """Two pages in which everything has ended are not all pages."""
    for number in range(250):
        github.job(RUN, ATTEMPT, SIBLING + number)
    github.job(RUN, ATTEMPT, JOB, status="in_progress")
    assert ask(github, subject(None)).state is State.ALIVE
    assert github.paths()[-1] == f"{JOBS_PATH}?page=3"


def test_case_43_jobs_of_earlier_attempts_alone_are_no_evidence(github: LoopbackGitHub) -> None:
    """A partial re-run whose list names only what did not run again."""
    earlier = github.job(RUN, 1, JOB)
    github.attempt(RUN, 2)
    github.fault("/attempts/2/jobs$", Fault(body={"total_count": 1, "jobs": [earlier]}))
    fact = ask(github, subject(None))
    assert fact.state is State.UNKNOWN
    assert "lists no job of its own" in fact.answer


def test_pages_are_counted_without_a_link_header(github: LoopbackGitHub) -> None:
    """A proxy may drop it; the count of all jobs still tells."""
    jobs = [github.job(RUN, ATTEMPT, SIBLING + number) for number in range(3)]
    github.attempt(RUN, ATTEMPT)
    rest = github.fault("/jobs$", Fault(body={"total_count": 3, "jobs": jobs[2:]}))
    github.fault("/jobs$", Fault(body={"total_count": 3, "jobs": jobs[:2]}, times=1))
    assert "all its 3 jobs" in ask(github, subject(None)).answer
    assert rest.status == 200


def test_links_to_pages_are_not_followed(github: LoopbackGitHub) -> None:
    """The next page is the next number of what was asked; a header does not choose the address."""
    jobs = [github.job(RUN, ATTEMPT, JOB), github.job(RUN, ATTEMPT, SIBLING)]
    github.attempt(RUN, ATTEMPT)
    github.fault("/jobs$", Fault(body={"total_count": 2, "jobs": jobs[1:]}))
    link = {"Link": '<https://evil.example/jobs?page=9>; rel="next"'}
    github.fault("/jobs$", Fault(headers=link, body={"total_count": 2, "jobs": jobs[:1]}, times=1))
    assert ask(github, subject(None)).state is State.ENDED
    assert github.paths() == [ATTEMPT_PATH, JOBS_PATH, f"{JOBS_PATH}?page=2"]


def test_list_that_ends_before_its_own_count_is_unknown(github: LoopbackGitHub) -> None:
    """The missing one may be running."""
    job = github.job(RUN, ATTEMPT, JOB)
    github.attempt(RUN, ATTEMPT)
    github.fault("/jobs$", Fault(body={"total_count": 2, "jobs": []}))
    github.fault("/jobs$", Fault(body={"total_count": 2, "jobs": [job]}, times=1))
    assert ask(github, subject(None)).answer == "GitHub counts 2 jobs, but lists 1"


def test_list_without_end_is_given_up(github: LoopbackGitHub) -> None:
    """The same page again and again."""
    job = github.job(RUN, ATTEMPT, JOB)
    github.attempt(RUN, ATTEMPT)
    link = {"Link": '<https://api.github.com/x>; rel="next"'}
    github.fault("/jobs$", Fault(headers=link, body={"total_count": 1, "jobs": [job]}))
    assert ask(github, subject(None)).answer == "more than 2000 jobs"
    assert len(github.asked) == 1 + MOST_PAGES


@pytest.mark.parametrize(
    "body",
    [
        {"jobs": []},
        {"total_count": "1", "jobs": []},
        {"total_count": True, "jobs": []},
        {"total_count": 1, "jobs": {}},
        {"total_count": 1},
    ],
)
def test_list_in_another_shape_is_unknown(github: LoopbackGitHub, body: Any) -> None:
    """What is not understood is no empty list."""
    github.attempt(RUN, ATTEMPT)
    github.fault("/jobs$", Fault(body=body))
    assert ask(github, subject(None)).answer == "an answer without the shape of a list of jobs"


@pytest.mark.parametrize("job", [None, [], "job", {}, {"id": "7"}, {"id": True}])
def test_list_with_what_is_no_job_is_unknown(github: LoopbackGitHub, job: Any) -> None:
    """One entry that cannot be read may be the one that runs."""
    github.attempt(RUN, ATTEMPT)
    github.fault("/jobs$", Fault(body={"total_count": 1, "jobs": [job]}))
    assert ask(github, subject(None)).answer == "an answer without the shape of a job"


# How often.


def test_twenty_fences_of_one_run_cause_one_look(github: LoopbackGitHub) -> None:
    """Counted on the wire."""
    github.job(RUN, ATTEMPT, JOB)
    facts = ask_github([subject() for _ in range(20)], settings=settings(github), now=NOW)
    assert [fact.state for fact in facts.values()] == [State.ENDED]
    assert github.paths() == [JOB_PATH]


def test_twenty_holders_are_each_looked_up_once(github: LoopbackGitHub) -> None:
    """Requests grow with the holders, over four connections at most."""
    abouts = []
    for number in range(20):
        github.job(RUN, ATTEMPT, JOB + number, status="completed" if number % 2 else "in_progress")
        abouts.append(subject(JOB + number))
    facts = ask_github(abouts, settings=settings(github), now=NOW)
    assert [facts[about.holder.identity].state for about in abouts] == [State.ALIVE, State.ENDED] * 10
    assert len(github.asked) == 20
    assert 1 <= github.connections <= 4


@pytest.mark.parametrize(
    "identity",
    [
        "4f2a91c07be3d855-local-host-77-9c41e07a",
        "4f2a91c07be3d855-pod-ci.deployer-9c41e07a",
        "deadbeef-3904-2045",
        "$(touch pwned)",
    ],
)
def test_holder_that_is_no_run_is_not_asked_about(github: LoopbackGitHub, identity: str) -> None:
    """There is no fact about it either: somebody else is asked."""
    holder = parse_holder(identity)
    assert holder.kind is not HolderKind.GITHUB
    assert ask_github([Subject(holder, repository="acme/platform")], settings=settings(github), now=NOW) == {}
    assert github.asked == []


def test_what_has_not_changed_is_not_sent_again(github: LoopbackGitHub) -> None:
    """With its ETag; and the time since the end still grows, by GitHub's clock of the second answer."""
    github.job(RUN, ATTEMPT, JOB, runner=SELF_HOSTED, ended_at=NOW - timedelta(seconds=60))
    client = GitHub(settings(github))
    first = ask_again(client)
    github.date_at = NOW + timedelta(minutes=15)
    second = ask_again(client, now=NOW + timedelta(minutes=15))
    assert (first.ended_for_s, second.ended_for_s) == (60.0, 960.0)
    assert first.answer == second.answer
    assert github.not_modified == 1
    assert "if-none-match" not in github.asked[0].headers
    assert github.asked[1].headers["if-none-match"].startswith('W/"')


def test_what_has_changed_is_sent_and_believed(github: LoopbackGitHub) -> None:
    """A job that was alive at the first look has ended at the second."""
    github.job(RUN, ATTEMPT, JOB, status="in_progress")
    client = GitHub(settings(github))
    assert ask_again(client).state is State.ALIVE
    github.job(RUN, ATTEMPT, JOB)
    assert ask_again(client).state is State.ENDED
    assert github.not_modified == 0


def test_all_pages_of_a_list_are_remembered(github: LoopbackGitHub) -> None:
    """An unchanged first page must not hide that there is a second."""
    github.page_size = 1
    github.job(RUN, ATTEMPT, JOB)
    github.job(RUN, ATTEMPT, SIBLING, runner=HOSTED)
    github.attempt(RUN, ATTEMPT)
    client = GitHub(settings(github))
    first = ask_again(client, subject(None))
    assert ask_again(client, subject(None)) == first
    assert "all its 2 jobs" in first.answer
    assert github.not_modified == 3


@pytest.mark.parametrize("etag", ['"x y"', "plain", '"' + "x" * 300 + '"', '"ü"', ""])
def test_etag_that_is_none_is_not_sent_back(github: LoopbackGitHub, etag: str) -> None:
    """What came in a header goes into one only if it can be nothing else."""
    raw = github.job(RUN, ATTEMPT, JOB)
    github.fault(JOB_PATH, Fault(headers={"ETag": etag}, body=raw))
    client = GitHub(settings(github))
    assert ask_again(client).state is State.ENDED
    assert ask_again(client).state is State.ENDED
    assert "if-none-match" not in github.asked[1].headers


def test_not_modified_without_having_asked_so_is_unknown(github: LoopbackGitHub) -> None:
    """There is nothing that could have stayed the same."""
    github.fault(JOB_PATH, Fault(status=304))
    assert ask(github).state is State.UNKNOWN


def test_memory_of_answers_is_bounded() -> None:
    """A display that is refreshed for weeks sees many runs come and go."""
    from fencectl.evidence.github_api import _REMEMBERED, Answered, Memory

    memory = Memory()
    for number in range(_REMEMBERED + 10):
        memory.keep(f"/{number}", '"x"', Answered({}, None))
    assert memory.recall("/9") is None
    assert memory.recall("/10") is not None
