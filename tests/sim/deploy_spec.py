"""What a simulated deploy is asked to do, and who it is."""

from __future__ import annotations

from dataclasses import dataclass

from fencectl.core.errors import FencectlError
from fencectl.core.identity import github_identity


def deploy_identity(run: int, nonce: str) -> str:
    """The identity of one job of GitHub Actions."""
    return github_identity(revision="c0ffee00c0ffee00", run=run, attempt=1, job=run * 10, nonce=nonce)


class DeployFailedError(FencectlError):
    """The deploy cannot go on; its lease is not lost."""


@dataclass(frozen=True, slots=True)
class DeploySpec:
    """
    What a deploy fences and does.

    `suspends`: Kustomizations by name, outermost ancestor first. `works_s`: how long each piece of work takes.
    `keeps`: it ends after a rollback, so that its suspensions are kept. `waits_s`: how long it waits for others.
    """

    suspends: tuple[str, ...]
    nodes: tuple[str, ...]
    duration_s: int = 30
    works_s: float = 20.0
    keeps: bool = False
    waits_s: float = 0.0
