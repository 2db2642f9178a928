"""
Who we are, with the id of our job checked while GitHub can still say that it runs.

Later, a job that was checked is proof by itself; one that was not may be a sibling's, and its whole attempt has to
have ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from fencectl.core.identity import parse_holder
from fencectl.evidence.github_own_job import OwnJob
from fencectl.evidence.machine import Machine
from fencectl.evidence.self_identity import SelfIdentity, describe_self

JOB_VARIABLE = "FENCECTL_JOB_ID"
# Once, before anything is read or changed; whoever waits for a deploy need not wait longer for GitHub.
CHECK_DEADLINE_S = 5.0


def describe_checked_self(
    environ: Mapping[str, str],
    machine: Machine,
    *,
    command: Sequence[str],
    at: datetime,
    digest: str | None = None,
    deadline_s: float = CHECK_DEADLINE_S,
) -> SelfIdentity:
    """
    Say who this process is, as `describe_self` does; in a run of GitHub Actions ask GitHub about the job once.

    A job that GitHub says is another's is left out, and that is said; without an id it is found by the runner's
    name where that is unambiguous. Where GitHub gives no answer within `deadline_s`, the id stays, unverified.
    """
    own = describe_self(environ, machine, command=command, at=at, digest=digest)
    holder = parse_holder(own.identity)
    if holder.run is None or holder.attempt is None or own.repository is None:
        return own
    found = _ask(environ, own, holder.run, holder.attempt, at=at, deadline_s=deadline_s)
    if found.verified is None and own.job is None:
        return own
    if found.verified is None:
        return _with_warning(own, f"GitHub did not confirm that this is job {own.job}: {found.why}")
    # NB: a job that is somebody else's must not be taken from the environment again.
    rest = {name: value for name, value in environ.items() if name != JOB_VARIABLE}
    job = found.job if found.verified else None
    checked = describe_self(
        rest,
        machine,
        command=command,
        at=at,
        digest=digest,
        job=job,
        job_verified=found.verified is True,
        nonce=holder.nonce,
    )
    if found.verified is False:
        return _with_warning(checked, f"{JOB_VARIABLE} is not this job: {found.why}; it is ignored")
    return checked


def _ask(
    environ: Mapping[str, str], own: SelfIdentity, run: int, attempt: int, *, at: datetime, deadline_s: float
) -> OwnJob:
    # NB: brings in http.client and TLS, which only a run of GitHub Actions needs.
    from fencectl.evidence.github import GitHub, GitHubSettings

    return GitHub(GitHubSettings.from_environment(environ)).own_job(
        repository=own.repository or "",
        run=run,
        attempt=attempt,
        job=own.job,
        runner_name=own.details.get("runner_name"),
        now=at,
        deadline_s=deadline_s,
    )


def _with_warning(own: SelfIdentity, text: str) -> SelfIdentity:
    return replace(own, warnings=(*own.warnings, text))
