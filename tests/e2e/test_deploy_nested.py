"""
A deploy in the command of another one, as processes: it stands under the other's lease, and goes with it.

Aspects: its fences and what is shown of them · other verbs inside · killed, and the run around releases · the run
around killed, and it ends by itself · interrupted together · another lease, another target, a lease that is lost.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencectl.sandbox import Sandbox
from tests.support.clusters import Cluster
from tests.support.deploys import HASTY, LEASE_PATH, Child, DeployScene, wait_until


@pytest.fixture
def scene(sandbox_cluster: Cluster, tmp_path: Path) -> Iterator[DeployScene]:
    made = DeployScene.on(sandbox_cluster, tmp_path)
    yield made
    made.end()


def inner(*arguments: str, command: tuple[str, ...] = ("true",), module: str = HASTY) -> str:
    """A deploy as a line for the shell that is the command of another one."""
    return shlex.join([sys.executable, "-m", module, "deploy", *arguments, "--", *command])


def verb(*arguments: str) -> str:
    return shlex.join([sys.executable, "-m", "fencectl", *arguments])


def shell(script: str) -> tuple[str, ...]:
    return ("sh", "-c", script)


def test_nested_deploy_and_other_verbs_work_under_the_lease_of_the_run_around(scene: DeployScene) -> None:
    """One holder in the report, its own fences first; a hold that is placed meanwhile stops nothing that runs."""
    look = shell(
        f"{verb('fences', '-o', 'json')} > seen; {verb('hold', 'place', 'incident', '--reason', 'INC-1')}"
    )
    twice = f"{inner(*scene.fences, command=look)} && {inner(*scene.fences)}"
    done = scene.deploy(command=shell(twice), module=HASTY)
    assert done.code == 0, done.text
    report = json.loads((scene.folder / "seen").read_text())
    marks = [(one["object"]["name"], one["holder"]["identity"]) for one in report["fences"]]
    assert [name for name, _ in marks] == [
        "worker-3",
        "worker-2",
        "infrastructure",
        "flux-system",
        "fencectl-deploy",
    ]
    assert len({holder for _, holder in marks}) == 2
    assert {one["verdict"] for one in report["fences"]} == {"live"}
    assert done.stderr.count(" deployed to prod in ") == 2
    assert f"inside of {os.uname().nodename.lower()} pid {scene.started[0].pid}" in done.stderr
    assert "hold `incident` on prod" in done.stdout + done.stderr
    scene.assert_free()
    assert scene.record()["outcome"] == "deployed"
    assert scene.deploy().code == 19


def test_same_fences_inside_are_covered_by_those_around(scene: DeployScene) -> None:
    """The same options twice, as with one config for both: nothing is fenced or released twice."""
    plan = inner("--dry-run", *scene.fences)
    done = scene.deploy(*scene.fences, command=shell(f"{plan} && {inner(*scene.fences)}"), module=HASTY)
    assert done.code == 0, done.text
    assert done.stdout.count("is fenced by that run already") == 4
    assert done.stderr.count("suspended kustomization/") == 2
    scene.assert_free()


def kill_inner(scene: DeployScene) -> None:
    """Kill a nested deploy while its command runs; the run around goes on, and has released all of it at its end."""
    child, rest = Child(scene.folder), scene.folder / "rest"
    started = (
        f"{inner(*scene.fences, command=child.command, module='fencectl')} & echo $! > pid.new; mv pid.new pid"
    )
    script = f"{started}; wait $!; echo $? > ended; while [ ! -e {shlex.quote(str(rest))} ]; do sleep 0.05; done"
    running = scene.start(command=shell(script))
    child.wait_begun(running)
    outer = scene.lease()["holderIdentity"]
    os.kill(int((scene.folder / "pid").read_text()), signal.SIGKILL)
    wait_until((scene.folder / "ended").exists, "the nested deploy is dead")
    shown = json.loads(scene.run("fences", "-o", "json", module="fencectl").stdout)["fences"]
    assert [one["object"]["kind"] for one in shown] == ["Node", "Node", "Kustomization", "Kustomization", "Lease"]
    assert {one["verdict"] for one in shown} == {"live"}
    assert (shown[-1]["holder"]["identity"], shown[0]["holder"]["identity"] == outer) == (outer, False)
    rest.touch()
    done = running.ended()
    assert done.code == 0, done.text
    assert "left by a deploy inside of the command: node/worker-2" in done.stderr
    released = [line.rpartition(" ")[2] for line in done.stderr.splitlines() if " released " in line]
    assert sorted(released[:2]) == ["node/worker-2", "node/worker-3"]
    assert released[2:] == ["kustomization/flux-system/infrastructure", "kustomization/flux-system/flux-system"]
    scene.assert_free()


def test_killed_nested_deploy_is_released_by_the_run_around(scene: DeployScene) -> None:
    """First of all that it releases."""
    kill_inner(scene)


@pytest.mark.real
def test_killed_nested_deploy_on_a_real_server_is_released_by_the_run_around(
    real: Cluster, tmp_path: Path
) -> None:
    """The announcement on the lease, the listing, and the patches, with the server's own semantics."""
    real.wipe(everything=True)
    scene = DeployScene.on(real, tmp_path)
    try:
        kill_inner(scene)
    finally:
        scene.end()
    assert "fencectl.dev/nested" not in json.dumps(real.get(LEASE_PATH))


def test_nested_deploy_whose_run_around_is_killed_ends_its_command_and_releases(scene: DeployScene) -> None:
    """Nobody renews the lease any more: it ends by itself, and what is left is the lease of the dead run."""
    child = Child(scene.folder)
    line = f"{inner(*scene.fences, command=child.command)} 2> inner-err; echo $? > inner-code"
    running = scene.start(command=shell(line), module=HASTY)
    child.wait_begun(running)
    # NB: the shell between the two dies with the run around; only the nested one lives on for a while.
    running.kill()
    wait_until(lambda: scene.now() == scene.before, "it has released everything")
    said = scene.folder / "inner-err"
    wait_until(lambda: "NOT RENEWED" in said.read_text(), "it says why")
    assert scene.lease()["holderIdentity"]
    scene.age_lease()
    wait_until(lambda: scene.run("recover", "--yes").code == 0, "the lease of the dead run is recovered")
    assert scene.lease()["holderIdentity"] == ""


def test_interrupt_ends_both_and_everything_is_released(scene: DeployScene) -> None:
    """The one around is told; whoever of the two releases them, nothing is left."""
    child = Child(scene.folder)
    running = scene.start(command=shell(inner(*scene.fences, command=child.command)), module=HASTY)
    child.wait_begun(running)
    running.signal(signal.SIGTERM)
    done = running.ended()
    assert done.code == 18, done.text
    scene.assert_free()


def test_run_around_without_its_lease_is_not_believed(scene: DeployScene) -> None:
    """13 before anything is written: its lease was freed, or was never its own."""
    done = scene.deploy(command=shell(f"env > handed; {inner()}"), module=HASTY)
    assert done.code == 0, done.text
    handed = dict(line.split("=", 1) for line in (scene.folder / "handed").read_text().splitlines() if "=" in line)
    env = {key: value for key, value in handed.items() if key.startswith("FENCECTL_")}
    requests = scene.cluster.sandbox.requests
    requests.clear()
    late = scene.deploy(*scene.fences, env=env, module=HASTY)
    assert late.code == 13, late.text
    assert "lease/flux-system/fencectl-deploy is free now" in late.stderr
    assert "nothing was changed" in late.stderr
    assert {entry.method for entry in requests.all()} == {"GET"}
    assert scene.now() == scene.before


def test_nested_deploy_under_another_lease_is_refused_and_never_waits_for_itself(scene: DeployScene) -> None:
    """An ordinary deploy, over the fences of a live one: 12, although it would wait for others."""
    line = inner("--lease", "flux-system/other", "--wait-for-fences")
    done = scene.deploy(command=shell(f"{line}; echo $? > code"), module=HASTY)
    assert done.code == 0, done.text
    assert (scene.folder / "code").read_text() == "12\n"
    scene.assert_free()


def test_deploy_to_another_target_inside_is_an_ordinary_one(scene: DeployScene) -> None:
    """It takes the lease of that cluster, and frees it; nothing on it is within anybody."""
    with Sandbox() as other:
        other.store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "far"}, "spec": {}})
        (scene.folder / "other").write_text(other.kubeconfig(context="other"))
        look = shell("kubectl get node far -o json > far; env | grep ^FENCECTL_ > env")
        line = inner("--kubeconfig", str(scene.folder / "other"), "--node", "far", command=look)
        done = scene.deploy(command=shell(line), module=HASTY)
        assert done.code == 0, done.text
    annotations = json.loads((scene.folder / "far").read_text())["metadata"]["annotations"]
    assert "within" not in json.loads(annotations["fencectl.dev/journal"])
    assert f"FENCECTL_HOLDER={annotations['fencectl.dev/holder']}" in (scene.folder / "env").read_text()
    scene.assert_free()
