"""
A deploy that is killed: what is left names its holder, is proven dead on its own machine, and is recovered.

It is killed while the server holds one of its writes, before that is carried out or right after; so each phase
is met without counting time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencectl.sandbox.faults import Fault
from tests.support.clusters import Cluster
from tests.support.deploys import Child, DeployScene, Running, alive, wait_until
from tests.support.program import run_shell


@pytest.fixture
def scene(sandbox_cluster: Cluster, tmp_path: Path) -> Iterator[DeployScene]:
    made = DeployScene.on(sandbox_cluster, tmp_path)
    yield made
    made.end()


PHASES: dict[str, dict[str, Any]] = {
    "lease": {"verb": "create", "resource": "leases"},
    "record": {"verb": "create", "resource": "configmaps"},
    "first-suspension": {"verb": "patch", "resource": "kustomizations", "name": "flux-system"},
    "second-suspension": {"verb": "patch", "resource": "kustomizations", "name": "infrastructure"},
    "second-node": {"verb": "patch", "resource": "nodes", "name": "worker-3"},
    "release-of-a-node": {"verb": "patch", "resource": "nodes", "name": "worker-2", "after": 1},
    "release-of-the-parent": {"verb": "patch", "resource": "kustomizations", "name": "flux-system", "after": 1},
}


def assert_recovers(scene: DeployScene) -> None:
    """What is left is dead (proven); `recover` gives back the state before."""
    scene.age_lease()
    shown = scene.run("fences")
    if "no fence is held" not in shown.stdout:
        assert "dead (proven)" in shown.stdout, shown.text
        done = scene.run("recover", "--yes")
        assert done.code == 0, done.text
    assert scene.now() == scene.before


@pytest.mark.parametrize("phase", ["lease", "first-suspension", "second-node", "release-of-the-parent"])
def test_killed_before_a_write_leaves_what_recover_takes_away(scene: DeployScene, phase: str) -> None:
    """The write that was under way is not carried out."""
    held: Fault = scene.cluster.sandbox.faults.hang(**PHASES[phase])
    running = scene.start(*scene.fences)
    assert held.arrived.wait(30), running.said
    running.kill()
    scene.cluster.sandbox.faults.clear()
    assert_recovers(scene)


@pytest.mark.parametrize("phase", ["record", "second-suspension", "release-of-a-node"])
def test_killed_right_before_its_write_is_carried_out_leaves_what_recover_takes_away(
    scene: DeployScene, phase: str
) -> None:
    """The server carries it out although nobody waits for the answer any more."""
    started: list[Running] = []

    def kill() -> None:
        started[0].kill()

    killing = scene.cluster.sandbox.faults.on(kill, **PHASES[phase])
    started.append(scene.start(*scene.fences))
    assert killing.arrived.wait(30), started[0].said
    started[0].process.wait(30)
    wait_until(lambda: killing.hits == 1, "it was carried out")
    assert_recovers(scene)


def test_killed_while_its_command_runs_takes_the_command_with_it(scene: DeployScene) -> None:
    """Nothing goes on that is not fenced by somebody who lives."""
    child = Child(scene.folder)
    running = scene.start(*scene.fences, command=child.command)
    pid = child.wait_begun(running)
    running.kill()
    wait_until(lambda: not alive(pid), "the command has ended")
    scene.age_lease()
    refused = scene.deploy(*scene.fences)
    assert refused.code == 16, refused.text
    assert_recovers(scene)
    child.let_end()
    again = scene.deploy(*scene.fences)
    assert again.code == 0, again.text
    assert scene.now() == scene.before


def test_printed_commands_of_a_killed_deploy_give_the_state_before(scene: DeployScene) -> None:
    """As a person would run them: in order, by the real kubectl."""
    child = Child(scene.folder)
    running = scene.start(*scene.fences, command=child.command)
    child.wait_begun(running)
    running.kill()
    scene.age_lease()
    shown = scene.run("fences", env={"HOME": os.environ.get("HOME", "/")})
    assert len(shown.commands) == 5, shown.text
    done = run_shell(scene.cluster, "set -e\n" + "\n".join(shown.commands))
    assert done.code == 0, done.text
    scene.assert_free()


@pytest.mark.real
def test_case_10_killed_deploys_on_a_real_server_are_recovered(real: Cluster, tmp_path: Path) -> None:
    """While its command runs; and again after a recovery."""
    real.wipe(everything=True)
    scene = DeployScene.on(real, tmp_path)
    for _ in range(2):
        child = Child(tmp_path)
        child.began.unlink(missing_ok=True)
        running = scene.start(*scene.fences, command=child.command)
        child.wait_begun(running)
        running.kill()
        scene.age_lease()
        assert "dead (proven)" in scene.run("fences").stdout
        done = scene.run("recover", "--yes")
        assert done.code == 0, done.text
        assert scene.now() == scene.before
    assert scene.lease()["leaseTransitions"] == 4
