"""
What each answer that is none is called, and that none of them proves anything.

Aspects: 404 and how far the token sees · 401, 403, SSO · rate limits, and that they are kept to · retired versions ·
GitHub's own failures · redirects · broken, huge, hostile bodies · silence · the token in no text.
"""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from typing import Any

import pytest

from fencectl.core.facts import State
from fencectl.evidence.github import GitHub, ask_github
from fencectl.evidence.github_wire import LARGEST_BODY
from tests.evidence.github_desk import (
    ATTEMPT,
    ATTEMPT_PATH,
    JOB,
    JOB_PATH,
    JOBS_PATH,
    ROOT,
    RUN,
    ask,
    ask_again,
    settings,
    subject,
)
from tests.support.github import REPOSITORY, TOKEN, Fault, LoopbackGitHub, hang, rate_limited, redirected
from tests.support.objects import NOW


def message(status: int, text: str, **headers: str) -> Fault:
    return Fault(status, headers, {"message": text, "documentation_url": "https://docs.github.com/rest"})


def unknown(github: LoopbackGitHub, about: Any = None, **others: Any) -> str:
    """Ask, make sure that nothing was proven, and return what was said."""
    fact = ask(github, about, **others)
    assert (fact.state, fact.recorded, fact.hosted, fact.ended_for_s) == (State.UNKNOWN, False, None, None)
    assert TOKEN not in repr(fact)
    return fact.answer


@pytest.mark.parametrize("about", [subject(), subject(None)])
def test_case_48_repository_that_cannot_be_seen_is_unknown(github: LoopbackGitHub, about: Any) -> None:
    """404 for the run and for the repository: a token without rights looks like a missing object."""
    github.fault("^/repos/", message(404, "Not Found"))
    assert unknown(github, about) == f"404: the token cannot see the repository {REPOSITORY}, or there is none"
    assert github.paths()[-1] == ROOT


def test_case_48_run_that_is_missing_in_a_visible_repository_is_unknown(github: LoopbackGitHub) -> None:
    """404 for the run, 200 for the repository: deleted, or hidden; gone proves nothing."""
    assert unknown(github, subject(None)) == (
        "404: no such run, or the token may not see it: deleted or hidden, since the repository can be seen"
    )
    assert github.paths() == [ATTEMPT_PATH, ROOT]


def test_case_48_job_that_is_missing_in_a_visible_repository_is_unknown(github: LoopbackGitHub) -> None:
    """The neighbour: even where the attempt is there, and over."""
    github.attempt(RUN, ATTEMPT)
    assert unknown(github).startswith("404: no such job, or the token may not see it: deleted or hidden")
    assert github.paths() == [JOB_PATH, ROOT]


@pytest.mark.parametrize("status", [403, 500, 429])
def test_case_48_repository_that_cannot_be_asked_about_leaves_both_possible(
    github: LoopbackGitHub, status: int
) -> None:
    """The second question failed as well."""
    github.fault(f"^{ROOT}$", message(status, "no"))
    assert unknown(github, subject(None)) == "404: no such run, or the token may not see it"


def test_case_48_jobs_that_are_missing_while_the_attempt_is_there_are_unknown(github: LoopbackGitHub) -> None:
    """The neighbour: half of an answer is none."""
    github.attempt(RUN, ATTEMPT)
    github.fault("/jobs$", message(404, "Not Found"))
    assert unknown(github, subject(None)).startswith("404: ")


@pytest.mark.parametrize(
    "fault",
    [
        message(403, "Resource not accessible by integration"),
        message(403, "Forbidden", **{"X-Accepted-GitHub-Permissions": "actions=read"}),
    ],
)
def test_case_48_token_without_the_permission_is_said(github: LoopbackGitHub, fault: Fault) -> None:
    """By GitHub's header, or by its words where there is none."""
    github.fault(JOB_PATH, fault)
    assert unknown(github) == "403: the token lacks `actions: read`"


def test_case_48_token_that_is_not_valid_is_said(github: LoopbackGitHub) -> None:
    """Expired and mistyped look alike."""
    github.token = None
    assert unknown(github) == "401: the token is not valid, or has expired"


def test_case_48_token_without_single_sign_on_is_said(github: LoopbackGitHub) -> None:
    """The neighbour: a classic token that the organisation has not been shown."""
    sso = {"X-GitHub-SSO": "required; url=https://github.com/orgs/acme/sso?authorization_request=A"}
    github.fault(JOB_PATH, message(403, "Resource protected by organization SAML enforcement.", **sso))
    assert unknown(github) == "403: the token is not authorised for the organisation's single sign-on"


def test_other_refusal_is_shown_in_githubs_words(github: LoopbackGitHub) -> None:
    """An address that is not on the allow list, say: nobody could guess that."""
    github.fault(JOB_PATH, message(403, "the `acme` organization has an IP allow list enabled"))
    assert unknown(github) == "403: GitHub said: the `acme` organization has an IP allow list enabled"


def test_case_50_token_that_expires_makes_only_githubs_word_unknown(github: LoopbackGitHub) -> None:
    """200 for an hour, then 401: nothing is raised, and nothing remembered is taken for an answer."""
    github.job(RUN, ATTEMPT, JOB)
    client = GitHub(settings(github))
    assert ask_again(client).state is State.ENDED
    github.token = "another"
    later = ask_again(client, now=NOW + timedelta(hours=1))
    assert (later.state, later.answer) == (State.UNKNOWN, "401: the token is not valid, or has expired")


# Rate limits.


@pytest.mark.parametrize("status", [403, 429])
def test_rate_limit_says_when_it_ends(github: LoopbackGitHub, status: int) -> None:
    """The primary limit: none left, and when it is reset."""
    github.fault(JOB_PATH, rate_limited(status, reset_at=NOW + timedelta(minutes=12)))
    assert unknown(github) == f"{status}: rate limit, it ends at 02:59:31Z"


@pytest.mark.parametrize("status", [403, 429])
def test_secondary_rate_limit_says_when_to_ask_again(github: LoopbackGitHub, status: int) -> None:
    """Too many at once: seconds, in a header of its own."""
    github.fault(JOB_PATH, rate_limited(status, retry_after="90"))
    assert unknown(github) == f"{status}: rate limit, ask again in 1m30s"


def test_rate_limit_with_a_date_to_come_again_is_read(github: LoopbackGitHub) -> None:
    """The other spelling of that header."""
    github.fault(JOB_PATH, rate_limited(429, retry_after="Mon, 30 Nov 2026 02:48:01 GMT"))
    assert unknown(github) == "429: rate limit, ask again in 30s"


@pytest.mark.parametrize("reset", ["", "soon", "-5", "9" * 40, "1e3", "²"])
def test_rate_limit_without_an_end_is_still_one(github: LoopbackGitHub, reset: str) -> None:
    """A proxy that limits by itself tells nothing."""
    github.fault(JOB_PATH, message(429, "slow down", **{"x-ratelimit-reset": reset, "retry-after": reset}))
    assert unknown(github) == "429: rate limit, GitHub does not say until when"


def test_rate_limit_without_any_header_is_known_by_its_words(github: LoopbackGitHub) -> None:
    """403 is also "not allowed": the text tells them apart."""
    github.fault(JOB_PATH, message(403, "You have exceeded a secondary rate limit"))
    assert unknown(github) == "403: rate limit, GitHub does not say until when"


def test_rate_limit_is_kept_to(github: LoopbackGitHub) -> None:
    """Whoever asks on is banned: neither the other holders nor the next look of a display go on asking."""
    github.fault("/", rate_limited(reset_at=NOW + timedelta(minutes=12)))
    client = GitHub(settings(github))
    abouts = [subject(JOB + number) for number in range(20)]
    facts = client.ask(abouts, now=NOW)
    assert {fact.answer for fact in facts.values()} == {"403: rate limit, it ends at 02:59:31Z"}
    asked = len(github.asked)
    assert asked <= 4  # as many as were on their way at once
    client.ask(abouts, now=NOW + timedelta(minutes=1))
    assert len(github.asked) == asked


def test_rate_limit_that_is_over_is_forgotten(github: LoopbackGitHub) -> None:
    """A reset that lies in the past holds nobody up."""
    github.job(RUN, ATTEMPT, JOB)
    github.fault(JOB_PATH, rate_limited(reset_at=NOW - timedelta(seconds=1))).times = 1
    client = GitHub(settings(github))
    assert ask_again(client).state is State.UNKNOWN
    assert ask_again(client).state is State.ENDED


# Versions and failures.


def test_retired_version_of_the_api_is_said(github: LoopbackGitHub) -> None:
    """Only a newer fencectl helps."""
    github.fault(JOB_PATH, message(410, "Gone"))
    assert unknown(github) == "410: GitHub has retired version 2022-11-28 of its API"


def test_unknown_version_of_the_api_is_shown(github: LoopbackGitHub) -> None:
    """An older Enterprise Server."""
    github.fault(JOB_PATH, message(400, '"2022-11-28" is not a supported version'))
    assert unknown(github) == '400: GitHub said: "2022-11-28" is not a supported version'


@pytest.mark.parametrize("status", [500, 502, 503, 504, 599])
@pytest.mark.parametrize("path", [JOB_PATH, ATTEMPT_PATH + "$", JOBS_PATH])
def test_failure_of_github_itself_is_unknown(github: LoopbackGitHub, status: int, path: str) -> None:
    """At each of the three questions, after the ones before it were answered."""
    github.job(RUN, ATTEMPT, JOB)
    github.attempt(RUN, ATTEMPT)
    github.fault(path, Fault(status, body="<html>Unicorn!</html>"))
    assert unknown(github, subject(journalled=False)) == f"{status}: GitHub itself failed"


@pytest.mark.parametrize("status", [201, 202, 204, 206, 300, 305, 418])
def test_status_that_was_not_expected_is_unknown(github: LoopbackGitHub, status: int) -> None:
    """Even where its body looks like an end."""
    raw = github.job(RUN, ATTEMPT, JOB)
    github.fault(JOB_PATH, Fault(status, body=b"" if status == 204 else json.dumps(raw)))
    assert unknown(github) == f"{status}: an answer that was not expected"


# Redirects.


def test_repository_that_was_renamed_is_followed(github: LoopbackGitHub) -> None:
    """On the same host, with the token: GitHub redirects from the old name to the repository's number."""
    github.job(RUN, ATTEMPT, JOB)
    github.attempt(RUN, ATTEMPT)
    github.renamed("acme/old-name")
    about = subject(None, repository="acme/old-name")
    assert ask(github, about).state is State.ENDED
    assert github.paths() == [
        ATTEMPT_PATH.replace(REPOSITORY, "acme/old-name"),
        f"/repositories/4711/actions/runs/{RUN}/attempts/{ATTEMPT}",
        JOBS_PATH.replace(REPOSITORY, "acme/old-name"),
        f"/repositories/4711/actions/runs/{RUN}/attempts/{ATTEMPT}/jobs",
    ]
    assert github.asked[-1].query == {"per_page": "100", "page": "1"}


def test_relative_redirect_is_followed(github: LoopbackGitHub) -> None:
    """A Location without a host stays on this one."""
    github.job(RUN, ATTEMPT, JOB)
    github.fault("^/repos/acme/old", redirected(JOB_PATH, 307))
    assert ask(github, subject(repository="acme/old")).state is State.ENDED


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_to_another_host_is_refused_and_said(github: LoopbackGitHub, status: int) -> None:
    """The token stays here, and nobody else is asked."""
    with LoopbackGitHub(date_at=NOW) as other:
        other.job(RUN, ATTEMPT, JOB)
        github.fault(JOB_PATH, redirected(other.url + JOB_PATH, status))
        said = unknown(github)
        assert said == f"{status}: redirected to another host (127.0.0.1:{other.port}), which was not followed"
        assert other.connections == 0


@pytest.mark.parametrize(
    "to",
    [
        "https://evil.example/x",
        "//evil.example/x",
        "http://evil.example:80/x",
        "ftp://127.0.0.1/x",
        "https://127.0.0.1:{port}/x",
        "http://user:{token}@127.0.0.1:{port}/x",
        "http://127.0.0.1:{port}@evil.example/x",
        "http://127.0.0.1:99999/x",
        "http://[::1/x",
        "javascript:alert(1)",
        "http://127.0.0.1:{port}/a b",
        "/\xfc",
    ],
)
def test_redirect_to_anything_but_this_very_host_is_refused(github: LoopbackGitHub, to: str) -> None:
    """Another scheme, another port, a user in it, and what is no URL at all."""
    to = to.format(port=github.port, token=TOKEN)
    github.fault(JOB_PATH, redirected(to, 302))
    assert unknown(github).startswith("302: redirected to ")
    assert github.paths() == [JOB_PATH]


def test_redirect_without_a_location_is_refused(github: LoopbackGitHub) -> None:
    """It leads to itself, again and again."""
    github.fault(JOB_PATH, Fault(301))
    assert unknown(github) == "301: redirected more than twice"
    assert len(github.asked) == 3


# Bodies.


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "an answer that is no JSON"),
        (b"{", "an answer that is no JSON"),
        (b"<html>sign in</html>", "an answer that is no JSON"),
        (b"\xff\xfe\x00", "an answer that is no JSON"),
        (b"[" * 200_000, "an answer that is no JSON"),
        (b'{"id": ' + b"9" * 5000 + b"}", "an answer that is no JSON"),
        (b"null", "an answer that is no JSON object"),
        (b"[]", "an answer that is no JSON object"),
        (b'"completed"', "an answer that is no JSON object"),
        (b"{}", "an answer without the shape of a job"),
        (b'{"id": "51234567890", "status": "completed"}', "an answer without the shape of a job"),
        (b'{"status": "completed", "conclusion": "success"}', "an answer without the shape of a job"),
    ],
)
def test_body_that_is_not_understood_is_unknown(github: LoopbackGitHub, body: bytes, said: str) -> None:
    """A page of a captive portal, half an answer, JSON that would break its reader."""
    github.fault(JOB_PATH, Fault(body=body))
    assert unknown(github) == said


def test_body_that_is_cut_off_is_unknown(github: LoopbackGitHub) -> None:
    """Its first half reads like an end."""
    raw = json.dumps(github.job(RUN, ATTEMPT, JOB))
    github.fault(JOB_PATH, Fault(body=raw + " " * 100, cut=len(raw)))
    assert unknown(github) == "an answer that was cut off"


def test_body_that_is_too_large_is_not_read_to_its_end(github: LoopbackGitHub) -> None:
    """Nobody holds a gigabyte for one word."""
    github.fault(JOB_PATH, Fault(body=b" " * (LARGEST_BODY + 1)))
    assert unknown(github) == "an answer of more than 16 MB"


def test_foreign_words_are_cut(github: LoopbackGitHub) -> None:
    """A conclusion, a status, a group or a message cannot bury the report; they are escaped when shown."""
    github.job(RUN, ATTEMPT, JOB, conclusion="\x1b[31m" + "c" * 10_000)
    assert len(ask(github).answer) < 200
    github.job(RUN, ATTEMPT, JOB)["status"] = "::error::" + "s" * 10_000
    assert len(ask(github).answer) < 200
    github.job(RUN, ATTEMPT, JOB, runner={"runner_group_name": "g" * 10_000})
    assert len(ask(github).answer) < 200
    github.fault(JOB_PATH, message(403, "m" * 10_000))
    assert len(ask(github).answer) < 200


def test_token_that_is_sent_back_is_in_no_answer(github: LoopbackGitHub) -> None:
    """A debugging proxy that quotes what it got, in a message or in a Location."""
    github.fault(JOB_PATH, message(418, f"bad header: Bearer {TOKEN}"))
    assert unknown(github) == "418: GitHub said: bad header: Bearer (token)"
    github.fault(JOB_PATH, redirected(f"https://{TOKEN}.evil.example/"))
    assert "(token).evil.example" in unknown(github)
    github.job(RUN, ATTEMPT, JOB, conclusion=TOKEN)
    github.heal()
    assert TOKEN not in repr(ask(github))


# Silence.


def test_connection_that_breaks_is_unknown(github: LoopbackGitHub) -> None:
    """The server hangs up without a word."""
    github.fault(JOB_PATH, Fault(drop=True))
    assert unknown(github) == "the connection broke"


def test_kept_connection_that_was_closed_meanwhile_is_opened_again(github: LoopbackGitHub) -> None:
    """Between two questions of one look: the server only tidied up."""
    github.job(RUN, ATTEMPT, JOB)
    github.attempt(RUN, ATTEMPT)
    github.fault("/jobs$", Fault(drop=True, times=1))
    assert ask(github, subject(None)).state is State.ENDED
    assert github.connections == 2


def test_nobody_listens_is_unknown(github: LoopbackGitHub) -> None:
    """A server that is switched off."""
    assert unknown(github, env={"GITHUB_API_URL": "http://127.0.0.1:1"}) == "connection refused"


def test_server_that_never_answers_is_given_up_in_time(github: LoopbackGitHub) -> None:
    """The bound is that of the whole look."""
    github.fault(JOB_PATH, hang())
    assert unknown(github, deadline_s=0.2) == "no answer within 0.2s"


def test_one_run_that_hangs_does_not_keep_the_others_from_being_answered(github: LoopbackGitHub) -> None:
    """Four holders, of which one hangs."""
    github.fault(JOB_PATH, hang())
    others = [subject(JOB + number) for number in (1, 2, 3, 4, 5)]
    for number in (1, 2, 3, 4, 5):
        github.job(RUN, ATTEMPT, JOB + number)
    facts = ask_github([subject(), *others], settings=settings(github), now=NOW, deadline_s=1.5)
    assert facts[subject().holder.identity].answer == "no answer within 1.5s"
    assert {facts[other.holder.identity].state for other in others} == {State.ENDED}


def test_no_thread_is_left_behind(github: LoopbackGitHub) -> None:
    """Whoever still waits for a byte when the time is over is woken up."""
    github.fault(JOB_PATH, hang())
    ask(github, deadline_s=0.2)
    for thread in threading.enumerate():
        if thread.name == "fencectl-github":
            thread.join(5.0)
            assert not thread.is_alive()


def test_time_that_is_over_before_it_begins_asks_nobody(github: LoopbackGitHub) -> None:
    """A report that has no time left."""
    assert unknown(github, deadline_s=0.0) == "no answer within 0s"
    assert github.asked == []
