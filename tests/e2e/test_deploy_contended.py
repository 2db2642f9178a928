"""
Deploys that meet: two at once, one that slept while it was recovered and followed by the next, one cut off.

The program as a process, on both clusters; its lease lasts 6 s here instead of 30 s, and is lost 4 s after the last
renewal.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.between import Between, Write
from tests.support.clusters import Cluster
from tests.support.deploys import (
    HASTY,
    LEASE_PATH,
    RECORD_PATH,
    Child,
    DeployScene,
    Running,
    alive,
    wait_until,
)
from tests.support.github import LoopbackGitHub

# On each run twice on each cluster, once for a new lease and once for one that is there; more by this variable.
RACES = int(os.environ.get("FENCECTL_DEPLOY_RACES", "2"))
BOUND_S = 30.0
LEASE_S, LOST_S = 6.0, 4.0
ELSEWHERE = "tests.support.elsewhere"
RUN, ATTEMPT, JOB = 18093344127, 2, 51234567890
STEP = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_RUN_ID": str(RUN),
    "GITHUB_RUN_ATTEMPT": str(ATTEMPT),
    "FENCECTL_JOB_ID": str(JOB),
    "RUNNER_ENVIRONMENT": "github-hosted",
}


@pytest.fixture
def github() -> Iterator[LoopbackGitHub]:
    """GitHub, where the job of the first deploy runs."""
    with LoopbackGitHub() as server:
        server.attempt(RUN, ATTEMPT, status="in_progress")
        server.job(RUN, ATTEMPT, JOB, status="in_progress")
        yield server


@pytest.fixture
def scene(clean_cluster: Cluster, tmp_path: Path) -> Iterator[DeployScene]:
    made = DeployScene.on(clean_cluster, tmp_path)
    yield made
    made.end()


@pytest.fixture
def real_scene(real: Cluster, tmp_path: Path) -> Iterator[DeployScene]:
    """On the real server only: each of these has its like on the sandbox, where its calls are scripted."""
    real.wipe(everything=True)
    made = DeployScene.on(real, tmp_path)
    yield made
    made.end()


def first_ended(running: list[Running]) -> Running | None:
    return next((one for one in running if one.process.poll() is not None), None)


def test_two_deploys_at_once_are_one_and_a_refusal_each_time(scene: DeployScene, tmp_path: Path) -> None:
    """Both have read that nothing is held, and write in the same moment; the token grows by one."""
    start = threading.Barrier(2)

    def together(write: Write) -> None:
        if write.resource == "leases" and not start.broken and len(asked) < 2:
            asked.append(write)
            start.wait(BOUND_S)

    with Between(scene.cluster, before=together) as between:
        env = {"KUBECONFIG": str(between.kubeconfig(tmp_path))}
        for race in range(1, RACES + 1):
            asked: list[Write] = []
            child = Child(tmp_path)
            child.began.unlink(missing_ok=True)
            child.may_end.unlink(missing_ok=True)
            both = [scene.start(command=child.command, env=env) for _ in range(2)]
            loser = wait_until(partial(first_ended, both), "one is refused")
            refused = loser.ended()
            assert refused.code == 12, refused.text
            holder = scene.lease()["holderIdentity"]
            (winner,) = [one for one in both if one is not loser]
            assert f"-{winner.pid}-" in holder
            assert f"pid {winner.pid}" in refused.stderr, refused.text
            child.wait_begun(winner)
            child.let_end()
            assert winner.ended().code == 0, winner.said
            assert len(asked) == 2
            assert (scene.lease()["holderIdentity"], scene.lease()["leaseTransitions"]) == ("", race)
    data = scene.cluster.get(RECORD_PATH)["data"]
    tokens = sorted(json.loads(text)["token"] for text in data.values())
    assert tokens == list(range(1, RACES + 1))


@pytest.mark.real
def test_deploy_that_slept_while_it_was_recovered_changes_nothing_of_the_next_one(
    real_scene: DeployScene, github: LoopbackGitHub, tmp_path: Path
) -> None:
    """SIGSTOP beyond the lease; its job ends, it is recovered from elsewhere, the next deploy runs; SIGCONT."""
    scene = real_scene
    with Between(scene.cluster) as between:
        # NB: a command that takes TERM for a success does not make it one.
        child = Child(tmp_path, script="trap 'exit 0' TERM")
        env = github.env() | STEP | {"KUBECONFIG": str(between.kubeconfig(tmp_path))}
        slept = scene.start(*scene.fences, command=child.command, module=HASTY, env=env)
        pid = child.wait_begun(slept)
        slept.signal(signal.SIGSTOP)
        stopped_s = time.monotonic()
        github.job(RUN, ATTEMPT, JOB)
        wait_until(lambda: time.monotonic() - stopped_s > LEASE_S + 1, "its heartbeat is too old")
        recovered = scene.run("recover", "--yes", module=ELSEWHERE, env=github.env())
        assert recovered.code == 0, recovered.text
        scene.assert_free(token=2)
        (tmp_path / "next").mkdir()
        other = Child(tmp_path / "next")
        following = scene.start(*scene.fences, command=other.command, module=HASTY)
        other.wait_begun(following)
        fenced, record = scene.now(), scene.record()
        writes = len(between.writes)
        slept.signal(signal.SIGCONT)
        done = slept.ended()
    assert done.code == 13, done.text
    assert "lease STOLEN" in done.stderr or "lease NOT RENEWED" in done.stderr, done.text
    assert not alive(pid)
    # NB: what it may send is to free its lease, in case that is still its own; the server refuses that. An event
    # changes nothing.
    assert {write.resource for write in between.writes[writes:]} <= {"leases", "events"}
    assert (scene.now(), scene.record()) == (fenced, record)
    assert f"-{following.pid}-" in scene.lease()["holderIdentity"]
    other.let_end()
    assert following.ended().code == 0, following.said
    scene.assert_free(token=3)


@pytest.mark.real
def test_server_that_is_away_for_less_and_then_for_longer_than_the_lease(
    real_scene: DeployScene, tmp_path: Path
) -> None:
    """A moment is nothing; longer ends the command, is UNREACHABLE, and all is released once the server is back."""
    scene = real_scene
    with Between(scene.cluster) as between:
        child = Child(tmp_path)
        env = {"KUBECONFIG": str(between.kubeconfig(tmp_path))}
        running = scene.start(*scene.fences, command=child.command, module=HASTY, env=env)
        pid = child.wait_begun(running)
        between.away = True
        away_s = time.monotonic()
        wait_until(lambda: time.monotonic() - away_s > 1.0, "a moment has passed")
        between.away = False
        heartbeats = between.heartbeats
        wait_until(lambda: between.heartbeats > heartbeats + 1, "it is renewed again")
        assert alive(pid), running.said
        between.away = True
        wait_until(lambda: not alive(pid), "the command was ended")
        between.away = False
        done = running.ended()
    assert done.code == 13, done.text
    assert "lease UNREACHABLE" in done.stderr
    assert "nothing is fenced" in done.stderr
    scene.assert_free()
    # NB: nothing is recorded after a loss.
    assert "outcome" not in scene.record()
    assert scene.cluster.get(LEASE_PATH)["spec"]["leaseTransitions"] == 1
