"""What the tests of GitHub's word share: a run with its job, its holder, and one call that asks about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from fencectl.core.facts import JobFact, Subject
from fencectl.core.identity import github_identity, parse_holder
from fencectl.core.journal import Journal, Phase
from fencectl.evidence.github import GitHub, GitHubSettings, ask_github
from tests.support.github import REPOSITORY, LoopbackGitHub
from tests.support.objects import NOW, before

RUN = 18093344127
ATTEMPT = 2
JOB = 51234567890
SIBLING = 51234567999
ENDED_AT = before(3622)  # 01:47:09Z

SERVER = "https://github.com"
ROOT = f"/repos/{REPOSITORY}"
JOB_PATH = f"{ROOT}/actions/jobs/{JOB}"
ATTEMPT_PATH = f"{ROOT}/actions/runs/{RUN}/attempts/{ATTEMPT}"
JOBS_PATH = f"{ATTEMPT_PATH}/jobs"


def identity(job: int | None = JOB, *, run: int = RUN, attempt: int = ATTEMPT, nonce: str = "9c41e07a") -> str:
    return github_identity(revision="4f2a91c07be3d855", run=run, attempt=attempt, job=job, nonce=nonce)


def journal(holder: str, **others: Any) -> Journal:
    """A lease's journal; `others` replace its fields. As a rule the job was verified, on GitHub's runner."""
    written = Journal(
        holder, "uid-1", 1, 0, before(4500), Phase.HELD, job_verified=True, runner="github-hosted", server=SERVER
    )
    return replace(written, **others)


def subject(
    job: int | None = JOB,
    /,
    *,
    run: int = RUN,
    attempt: int = ATTEMPT,
    nonce: str = "9c41e07a",
    repository: str | None = REPOSITORY,
    server_url: str | None = SERVER,
    journalled: bool = True,
    **others: Any,
) -> Subject:
    """A holder to ask about; `others` are fields of its journal."""
    holder = parse_holder(identity(job, run=run, attempt=attempt, nonce=nonce))
    written = journal(holder.identity, **others) if journalled else None
    return Subject(holder, written, repository=repository, server_url=server_url)


def settings(github: LoopbackGitHub, env: Mapping[str, str] | None = None) -> GitHubSettings:
    return GitHubSettings.from_environment(github.env() | dict(env or {}))


def ask(
    github: LoopbackGitHub,
    about: Subject | None = None,
    *,
    deadline_s: float = 10.0,
    env: Mapping[str, str] | None = None,
) -> JobFact:
    """Ask about one holder; `env` goes over what the loopback GitHub gives."""
    about = about or subject()
    facts = ask_github([about], settings=settings(github, env), now=NOW, deadline_s=deadline_s)
    assert list(facts) == [about.holder.identity]
    return facts[about.holder.identity]


def ask_again(client: GitHub, about: Subject | None = None, *, now: datetime = NOW) -> JobFact:
    """Ask about one holder with a client that remembers."""
    about = about or subject()
    return client.ask([about], now=now)[about.holder.identity]
