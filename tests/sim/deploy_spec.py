"""What a simulated deploy is asked to do, and who it is."""

from __future__ import annotations

from dataclasses import dataclass

from fencectl.core.identity import github_identity


def deploy_identity(run: int, nonce: str) -> str:
    """The identity of one job of GitHub Actions."""
    return github_identity(revision="c0ffee00c0ffee00", run=run, attempt=1, job=run * 10, nonce=nonce)


@dataclass(frozen=True, slots=True)
class DeploySpec:
    """
    What a deploy fences and does.

    `suspends`: Kustomizations by name, outermost ancestor first. `works_s`: how long each command runs.
    `keeps`: it ends after a rollback, so that its suspensions are kept. `waits_s`: how long it waits for others.
    `rolls`: its nodes are rolled, `at_once` of them side by side; else they are only claimed. `drain_s`: how long it
    waits for the drain proof, 0: not at all. `code`: what its command ends with; `heeds`: whether TERM ends it.
    """

    suspends: tuple[str, ...]
    nodes: tuple[str, ...]
    duration_s: int = 30
    works_s: float = 20.0
    keeps: bool = False
    waits_s: float = 0.0
    rolls: bool = True
    at_once: int = 1
    drain_s: float = 0.0
    code: int = 0
    heeds: bool = True
