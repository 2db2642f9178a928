"""
Which GitHub is asked, and with what.

Aspects: either URL from the other · variables that contradict each other · what is no URL and no token · holders of
another server · what is missing · nothing secret in any text.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fencectl.core.facts import State
from fencectl.evidence.github import GitHub, GitHubSettings
from fencectl.evidence.github_settings import origin_of
from tests.evidence.github_desk import ATTEMPT, JOB, RUN, SERVER, ask, settings, subject
from tests.support.github import TOKEN, LoopbackGitHub
from tests.support.objects import NOW

ROOT = Path(__file__).parents[2]


def read(**environ: str) -> GitHubSettings:
    return GitHubSettings.from_environment(environ)


@pytest.mark.parametrize(
    ("environ", "api_url", "server_url"),
    [
        ({}, "https://api.github.com", "https://github.com"),
        ({"GITHUB_SERVER_URL": "https://github.com/"}, "https://api.github.com", "https://github.com"),
        ({"GITHUB_SERVER_URL": "https://ghe.example"}, "https://ghe.example/api/v3", "https://ghe.example"),
        ({"GITHUB_SERVER_URL": "https://GHE.example:8443/"}, "https://ghe.example:8443/api/v3", "https://ghe.example:8443"),
        ({"GITHUB_SERVER_URL": "https://acme.ghe.com"}, "https://api.acme.ghe.com", "https://acme.ghe.com"),
        ({"GITHUB_API_URL": "https://api.github.com"}, "https://api.github.com", "https://github.com"),
        ({"GITHUB_API_URL": "https://ghe.example/api/v3"}, "https://ghe.example/api/v3", "https://ghe.example"),
        ({"GITHUB_API_URL": "https://ghe.example/api/v3/"}, "https://ghe.example/api/v3", "https://ghe.example"),
        ({"GITHUB_API_URL": "https://api.acme.ghe.com/"}, "https://api.acme.ghe.com", "https://acme.ghe.com"),
        ({"GITHUB_API_URL": "https://gateway.example/github"}, "https://gateway.example/github", "https://gateway.example/github"),
        ({"GITHUB_API_URL": "", "GITHUB_SERVER_URL": ""}, "https://api.github.com", "https://github.com"),
        (
            {"GITHUB_API_URL": "https://gateway.example/github", "GITHUB_SERVER_URL": "https://github.com"},
            "https://gateway.example/github",
            "https://github.com",
        ),
    ],
)  # fmt: skip
def test_case_50_either_url_follows_from_the_other(environ: dict[str, str], api_url: str, server_url: str) -> None:
    """github.com, an Enterprise Server (with and without a slash at the end), a tenant with data residency."""
    found = read(**environ)
    assert (found.api_url, found.server_url, found.problem) == (api_url, server_url, None)


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({"GITHUB_API_URL": "http://ghe.example/api/v3"}, "GITHUB_API_URL is no https URL"),
        ({"GITHUB_API_URL": "ghe.example"}, "GITHUB_API_URL is no https URL"),
        ({"GITHUB_API_URL": "https://"}, "GITHUB_API_URL is no https URL"),
        ({"GITHUB_API_URL": f"https://user:{TOKEN}@ghe.example/api/v3"}, "GITHUB_API_URL is no https URL"),
        ({"GITHUB_API_URL": "https://ghe.example/api/v3?x=1"}, "GITHUB_API_URL is no https URL"),
        ({"GITHUB_API_URL": "https://ghe.example:port/"}, "GITHUB_API_URL is no https URL"),
        ({"GITHUB_API_URL": "https://ghe.example/\r\nHost: evil"}, "GITHUB_API_URL is no https URL"),
        ({"GITHUB_SERVER_URL": "ftp://ghe.example"}, "GITHUB_SERVER_URL is no https URL"),
        (
            {"GITHUB_API_URL": "https://ghe.example/api/v3", "GITHUB_SERVER_URL": "https://github.com"},
            "GITHUB_API_URL and GITHUB_SERVER_URL name different servers",
        ),
        (
            {"GITHUB_API_URL": "https://api.github.com", "GITHUB_SERVER_URL": "https://ghe.example"},
            "GITHUB_API_URL and GITHUB_SERVER_URL name different servers",
        ),
        ({"GITHUB_TOKEN": "two words of a password"}, "GITHUB_TOKEN or GH_TOKEN holds what can be no token"),
        ({"GITHUB_TOKEN": "line-one\nline-two"}, "GITHUB_TOKEN or GH_TOKEN holds what can be no token"),
        ({"GH_TOKEN": "tökentöken"}, "GITHUB_TOKEN or GH_TOKEN holds what can be no token"),
        ({"GH_TOKEN": "null"}, "GITHUB_TOKEN or GH_TOKEN holds what can be no token"),
    ],
)
def test_settings_that_cannot_be_used_ask_nobody(environ: dict[str, str], problem: str) -> None:
    """A run's id means something on one server only; a token goes nowhere on a guess. Nothing is quoted."""
    found = read(**(environ if "GH_TOKEN" in environ else {"GITHUB_TOKEN": TOKEN} | environ))
    assert found.problem == problem
    fact = GitHub(found).ask([subject()], now=NOW)[subject().holder.identity]
    assert (fact.state, fact.answer) == (State.UNKNOWN, f"not asked: {problem}")
    assert found.token in (None, TOKEN)
    for secret in (TOKEN, "password", "line-", "tökentöken"):
        assert secret not in repr(found)


@pytest.mark.parametrize(
    ("environ", "token"),
    [
        ({"GITHUB_TOKEN": TOKEN}, TOKEN),
        ({"GH_TOKEN": TOKEN}, TOKEN),
        ({"GITHUB_TOKEN": TOKEN, "GH_TOKEN": "ghp_another1"}, TOKEN),
        ({"GITHUB_TOKEN": "", "GH_TOKEN": TOKEN}, TOKEN),
        ({"GITHUB_TOKEN": f"{TOKEN}\n"}, TOKEN),  # read from a file
        ({"GITHUB_TOKEN": "  "}, None),
        ({}, None),
    ],
)
def test_token_is_found_in_either_variable(environ: dict[str, str], token: str | None) -> None:
    """An empty variable is an unset one."""
    assert read(**environ).token == token
    assert read(**environ).problem is None


def test_without_a_token_nobody_is_asked(github: LoopbackGitHub) -> None:
    """Without one there are sixty questions an hour for everybody behind an address."""
    fact = ask(github, env={"GITHUB_TOKEN": ""})
    assert (fact.state, fact.answer) == (State.UNKNOWN, "not asked: no token (set GITHUB_TOKEN or GH_TOKEN)")
    assert (fact.recorded, fact.hosted, fact.ended_for_s, fact.at) == (False, None, None, NOW)
    assert github.connections == 0


@pytest.mark.parametrize("repository", [None, ""])
def test_without_a_repository_nobody_is_asked(github: LoopbackGitHub, repository: str | None) -> None:
    """A run's id alone is no address."""
    fact = ask(github, subject(repository=repository), env={"GITHUB_REPOSITORY": ""})
    assert fact.answer == "not asked: no repository is recorded (set github.repository in the config)"
    assert github.connections == 0


def test_holder_without_a_repository_is_looked_for_in_the_environments(github: LoopbackGitHub) -> None:
    """GITHUB_REPOSITORY, as a step in Actions has it; what a holder recorded goes before it."""
    github.job(RUN, ATTEMPT, JOB)
    assert ask(github, subject(repository=None)).state is State.ENDED
    assert ask(github, subject(), env={"GITHUB_REPOSITORY": "acme/another"}).state is State.ENDED
    assert ask(github, subject(repository=None), env={"GITHUB_REPOSITORY": "acme/another"}).state is State.UNKNOWN


@pytest.mark.parametrize(
    "repository",
    ["acme", "acme/", "/platform", "acme/platform/x", "acme/..", "acme/.", "../..", "acme/pl?x", "acme/pl#x", "a b/c", "acme/p\r\nX: y", "acme/%2e%2e", "ä/b"],
)  # fmt: skip
def test_recorded_repository_that_is_none_is_put_into_no_address(github: LoopbackGitHub, repository: str) -> None:
    """It is text off the cluster."""
    fact = ask(github, subject(repository=repository))
    assert (fact.state, fact.answer) == (State.UNKNOWN, "not asked: the recorded repository is no owner/name")
    assert github.connections == 0


@pytest.mark.parametrize("repository", ["acme/platform", "a/b", "Acme-1/.github", "acme/a.b_c-d", "acme/...x"])
def test_recorded_repository_in_every_spelling_is_asked_about(github: LoopbackGitHub, repository: str) -> None:
    """The neighbours that are names."""
    github.repository = repository
    github.job(RUN, ATTEMPT, JOB)
    assert ask(github, subject(repository=repository)).state is State.ENDED


@pytest.mark.parametrize(
    ("recorded", "shown"),
    [
        ("https://ghe.example", "ghe.example"),
        ("https://GHE.example:8443/", "ghe.example:8443"),
        ("https://github.com.evil.example", "github.com.evil.example"),
        ("https://www.github.com", "www.github.com"),
        ("http://github.com", "http://github.com"),
        ("https://github.com:444", "github.com:444"),
        ("https://github.com@evil.example", "https://github.com@evil.example"),
        ("https://acme.ghe.com", "acme.ghe.com"),
        ("github.com", "github.com"),
        ("", ""),
    ],
)
def test_case_50_run_recorded_on_another_server_is_unknown_and_gets_no_token(
    github: LoopbackGitHub, recorded: str, shown: str
) -> None:
    """A journal says where a run was; it never says where the token goes."""
    github.job(RUN, ATTEMPT, JOB)
    fact = ask(github, subject(server_url=recorded))
    assert (fact.state, fact.answer) == (State.UNKNOWN, f"not asked: recorded on another GitHub server: {shown}")
    assert github.connections == 0


@pytest.mark.parametrize(
    "recorded", [None, SERVER, "https://github.com/", "https://GitHub.com", "https://github.com:443"]
)
def test_case_50_run_recorded_on_this_server_is_asked_about(github: LoopbackGitHub, recorded: str | None) -> None:
    """In every spelling of it; where nobody wrote it down, the configured one is meant."""
    github.job(RUN, ATTEMPT, JOB)
    assert ask(github, subject(server_url=recorded)).state is State.ENDED


@pytest.mark.parametrize("slash", ["", "/"])
def test_case_50_enterprise_server_is_asked_below_its_path(slash: str) -> None:
    """With and without a slash at the end of GITHUB_API_URL."""
    with LoopbackGitHub(date_at=NOW) as enterprise:
        enterprise.prefix = "/api/v3"
        enterprise.job(RUN, ATTEMPT, JOB)
        server = f"http://127.0.0.1:{enterprise.port}"
        env = {"GITHUB_API_URL": f"{server}/api/v3{slash}", "GITHUB_SERVER_URL": server}
        assert ask(enterprise, subject(server_url=server), env=env).state is State.ENDED
        assert ask(enterprise, subject(server_url=SERVER), env=env).answer.startswith(
            "not asked: recorded on another"
        )
        assert [asked.path for asked in enterprise.asked] == [f"/api/v3/repos/acme/platform/actions/jobs/{JOB}"]


def test_several_holders_are_each_told_why_they_were_not_asked_about(github: LoopbackGitHub) -> None:
    """One that can be asked about is, beside others that cannot."""
    github.job(RUN, ATTEMPT, JOB)
    abouts = [subject(), subject(JOB + 1, repository="acme"), subject(JOB + 2, server_url="https://ghe.example")]
    facts = GitHub(settings(github)).ask(abouts, now=NOW)
    assert [facts[about.holder.identity].state for about in abouts] == [State.ENDED, State.UNKNOWN, State.UNKNOWN]
    assert len(github.asked) == 1


@pytest.mark.parametrize(
    "url",
    [
        "https://ghe.example",
        "http://127.0.0.1:8080/api/v3",
        "http://localhost",
        "https://[::1]:8443",
        "http://[::1]",
    ],
)
def test_url_of_a_server_is_read_and_written_the_same(url: str) -> None:
    """Plain http is for this machine only."""
    origin = origin_of(url)
    assert origin is not None
    assert origin.url == url


@pytest.mark.parametrize("url", ["http://localhost.evil.example", "http://128.0.0.1", "http://0.0.0.0", "https://a b", "https://a/../b c", "x" * 600, "https://é.example", "https://[v1.x]"])  # fmt: skip
def test_url_that_names_no_safe_server_is_none(url: str) -> None:
    """Nothing is sent there."""
    assert origin_of(url) is None


def test_nothing_secret_is_in_any_representation(github: LoopbackGitHub) -> None:
    """Whatever ends up in a log or a traceback."""
    found = settings(github, {"HTTPS_PROXY": f"http://user:{TOKEN}@127.0.0.1:3128"})
    client: Any = GitHub(found)
    for thing in (found, client, client._trust, client._memory):
        assert TOKEN not in repr(thing)
        assert TOKEN not in str(thing)


def test_settings_are_read_without_loading_http_or_tls() -> None:
    """A report without a holder on GitHub does not pay for them."""
    script = (
        "import sys; from fencectl.evidence.github_settings import GitHubSettings;"
        " GitHubSettings.from_environment({'GITHUB_API_URL': 'https://ghe.example/api/v3'});"
        " sys.exit(' '.join({'http.client', 'ssl', 'socket', 'json', 'threading'} & set(sys.modules)))"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stderr.strip() == ""
