"""
The lease of a deploy: kept while the server is away for a moment, lost when it is not.

The program as a process; its lease lasts 6 s here instead of 30 s, and is lost 4 s after the last renewal.
"""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencectl.sandbox.faults import Gate
from fencectl.sandbox.requestlog import LoggedRequest
from tests.support.clusters import Cluster, make_lease
from tests.support.deploys import HASTY, Child, DeployScene, alive, take_over, wait_until
from tests.support.objects import OTHER
from tests.support.program import run_shell

LOST_S = 4.0


@pytest.fixture
def scene(sandbox_cluster: Cluster, tmp_path: Path) -> Iterator[DeployScene]:
    made = DeployScene.on(sandbox_cluster, tmp_path)
    yield made
    made.end()


@pytest.mark.parametrize("phase", ["before-the-command", "while-it-runs"])
def test_process_that_slept_beyond_its_lease_changes_nothing_more(scene: DeployScene, phase: str) -> None:
    """SIGSTOP, somebody takes over and fences are his to judge, SIGCONT: nothing is placed, run or recorded."""
    child = Child(scene.folder)
    sandbox = scene.cluster.sandbox
    held = None
    if phase == "before-the-command":
        gate = Gate()
        held = sandbox.faults.delay(gate=gate, verb="get", resource="nodes", name="worker-2", after=2, times=1)
    running = scene.start(*scene.fences, command=child.command, module=HASTY)
    if held is not None:
        assert held.arrived.wait(30), running.said
    else:
        child.wait_begun(running)
    running.signal(signal.SIGSTOP)
    paused_s = time.monotonic()
    if held is not None:
        held.cancel()
    take_over(scene)
    record = scene.record()
    wait_until(lambda: time.monotonic() - paused_s > LOST_S + 1, "its lease has run out")
    sandbox.requests.clear()
    running.signal(signal.SIGCONT)
    done = running.ended()
    assert done.code in (11, 13), done.text
    assert "STOLEN" in done.stderr or "NOT RENEWED" in done.stderr
    assert child.began.exists() == (phase == "while-it-runs")
    assert scene.record() == record
    assert scene.lease()["holderIdentity"] == OTHER
    # NB: events only tell of what was released; they change nothing.
    writes = [
        one
        for one in sandbox.requests.all()
        if one.method != "GET" and one.status < 300 and one.resource != "events"
    ]
    assert [entry.path for entry in writes if entry.resource == "configmaps" or places(entry)] == []


def places(entry: LoggedRequest) -> bool:
    """Whether a patch fences, rather than releases."""
    fenced = ("/spec/suspend", "/spec/unschedulable")
    return any(
        op["op"] in ("add", "replace") and (op["path"] in fenced or "fencectl" in json.dumps(op))
        for op in entry.json()
    )


def test_server_that_is_away_for_less_than_the_lease_is_nothing(scene: DeployScene) -> None:
    """A renewal before the deadline goes on."""
    child = Child(scene.folder)
    running = scene.start(*scene.fences, command=child.command, module=HASTY)
    child.wait_begun(running)
    sandbox = scene.cluster.sandbox
    port, renewed = sandbox.port, scene.lease()["renewTime"]
    sandbox.stop()
    away_s = time.monotonic()
    wait_until(lambda: time.monotonic() - away_s > 1.0, "a moment has passed")
    sandbox.start(port=port)
    wait_until(lambda: scene.lease()["renewTime"] != renewed, "it was renewed again")
    child.let_end()
    done = running.ended()
    assert done.code == 0, done.text
    scene.assert_free()


def test_server_that_is_away_for_longer_ends_the_command_and_gets_everything_back(scene: DeployScene) -> None:
    """UNREACHABLE: the command is ended before the lease has run out; when the server is back, all is released."""
    child = Child(scene.folder)
    running = scene.start(*scene.fences, command=child.command, module=HASTY)
    pid = child.wait_begun(running)
    sandbox = scene.cluster.sandbox
    port = sandbox.port
    sandbox.stop()
    away_s = time.monotonic()
    wait_until(lambda: not alive(pid), "the command was ended")
    ended_s = time.monotonic() - away_s
    sandbox.start(port=port)
    done = running.ended()
    assert done.code == 13, done.text
    assert "UNREACHABLE" in done.stderr
    assert "nothing is fenced" in done.stderr
    assert ended_s < 6 + 2
    scene.assert_free()
    # NB: nothing is recorded after a loss.
    assert "outcome" not in scene.record()


def test_server_that_does_not_come_back_leaves_commands(scene: DeployScene) -> None:
    """11, and the last words name what is held; a signal shortens the time to what CI gives."""
    child = Child(scene.folder)
    running = scene.start(*scene.fences, command=child.command, module=HASTY)
    child.wait_begun(running)
    port = scene.cluster.sandbox.port
    scene.cluster.sandbox.stop()
    running.signal(signal.SIGTERM)
    done = running.ended(timeout_s=60)
    assert done.code == 11, done.text
    words = done.stderr.partition("STILL HELD")[2]
    for name in ("node/worker-2", "node/worker-3", "kustomization/flux-system/infrastructure", "fencectl-deploy"):
        assert name in words
    assert "hint: fencectl runbook still-fenced --context prod" in words
    commands = [line for line in words.splitlines() if line.startswith("kubectl --context prod ")]
    names = [line.partition(" patch ")[2].split()[1] for line in commands]
    assert names == ["worker-3", "worker-2", "infrastructure", "flux-system", "fencectl-deploy"]
    scene.cluster.sandbox.start(port=port)
    released = run_shell(scene.cluster, "\n".join(["set -e", *commands]))
    assert released.code == 0, released.text
    scene.assert_free()
    again = run_shell(scene.cluster, "\n".join(commands))
    assert again.code != 0
    scene.assert_free()


def test_case_32_renewals_keep_their_pace_beside_slow_reads(scene: DeployScene) -> None:
    """Every read takes seconds, then each is told to come again later; the keeper has a connection of its own."""
    child = Child(scene.folder)
    running = scene.start(*scene.fences, command=child.command, module=HASTY)
    child.wait_begun(running)
    gate = Gate()
    scene.cluster.sandbox.faults.delay(gate=gate, verb="get")
    begun = len(renewals(scene))
    wait_until(lambda: len(renewals(scene)) >= begun + 3, "it was renewed three times")
    throttled = scene.cluster.sandbox.faults.throttle(retry_after=10, verb="get")
    gate.open()
    begun = len(renewals(scene))
    wait_until(lambda: len(renewals(scene)) >= begun + 2, "it was renewed while reads are throttled")
    throttled.cancel()
    child.let_end()
    done = running.ended()
    assert done.code == 0, done.text
    scene.assert_free()


def renewals(scene: DeployScene) -> list[object]:
    found = scene.cluster.sandbox.requests.where(method="PATCH", path="/leases/")
    return [entry for entry in found if b"renewTime" in entry.body]


def test_case_33_lost_answers_of_create_and_renewals_are_no_loss(scene: DeployScene) -> None:
    """The server did it; we recognise ourselves."""
    faults = scene.cluster.sandbox.faults
    faults.drop_after(verb="create", resource="leases", times=1)
    faults.drop_after(verb="patch", resource="leases", times=1)
    child = Child(scene.folder)
    running = scene.start(*scene.fences, command=child.command, module=HASTY)
    child.wait_begun(running)
    wait_until(lambda: len(renewals(scene)) >= 3, "it was renewed three times")
    child.let_end()
    done = running.ended()
    assert done.code == 0, done.text
    scene.assert_free()


def test_case_04_release_survives_renewals_in_flight(scene: DeployScene) -> None:
    """The last renewal is held while the command ends: the keeper is joined, and the lease freed."""
    child = Child(scene.folder)
    running = scene.start(*scene.fences, command=child.command, module=HASTY)
    child.wait_begun(running)
    gate = Gate()
    held = scene.cluster.sandbox.faults.delay(gate=gate, verb="patch", resource="leases", times=1)
    assert held.arrived.wait(30)
    child.let_end()
    running.wait_for("released kustomization/flux-system/flux-system")
    gate.open()
    done = running.ended()
    assert done.code == 0, done.text
    scene.assert_free()


def test_case_20_node_whose_kubelet_writes_all_the_time_is_claimed_and_released(scene: DeployScene) -> None:
    """Each of our writes meets another resourceVersion once."""
    sandbox = scene.cluster.sandbox

    def beat() -> None:
        raw = scene.cluster.sandbox.store.get("nodes", "worker-2")
        raw.setdefault("status", {})["beat"] = str(time.monotonic_ns())
        raw["metadata"].setdefault("labels", {})["beat"] = str(time.monotonic_ns())
        sandbox.store.update(raw)

    sandbox.faults.on(beat, verb="patch", resource="nodes", name="worker-2", times=3)
    done = scene.deploy(*scene.fences)
    assert done.code == 0, done.text
    now = scene.now()
    for node in now.values():
        node["metadata"].pop("labels", None)
    for node in scene.before.values():
        node["metadata"].pop("labels", None)
    assert now == scene.before


def test_case_23_parent_that_undoes_our_suspension_ends_the_deploy(scene: DeployScene) -> None:
    """Said with its name, and its release does not fail over it."""
    child = Child(scene.folder)
    running = scene.start(*scene.fences, command=child.command, module=HASTY)
    child.wait_begun(running)
    path = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/infrastructure"
    scene.cluster.merge_patch(path, {"spec": {"suspend": None}}, manager="flux")
    done = running.ended()
    assert done.code == 18, done.text
    assert "kustomization/flux-system/infrastructure was changed by somebody else" in " ".join(done.stderr.split())
    scene.assert_free()


def test_case_28_lease_that_names_nobody_is_free(scene: DeployScene) -> None:
    """An empty holder, as a release leaves it, and one without a spec."""
    make_lease(scene.cluster, "fencectl-deploy", namespace="flux-system", spec={})
    done = scene.deploy(*scene.fences)
    assert done.code == 0, done.text
    scene.assert_free(token=1)
    again = scene.deploy(*scene.fences)
    assert again.code == 0, again.text
    scene.assert_free(token=2)


def test_case_67_server_that_never_answers_a_release_is_reported_in_time(scene: DeployScene) -> None:
    """It is tried until the time is over; the rest waits for it, and both are named."""
    child = Child(scene.folder)
    running = scene.start(*scene.fences, command=child.command, module=HASTY)
    child.wait_begun(running)
    scene.cluster.sandbox.faults.hang(verb="patch", resource="nodes", name="worker-2")
    running.signal(signal.SIGTERM)
    done = running.ended()
    assert done.code == 11, done.text
    words = done.stderr.partition("STILL HELD")[2]
    assert "node/worker-2" in words
    assert "waits for those above" in words
    assert "node/worker-3" not in words
    scene.cluster.sandbox.faults.clear()
    scene.age_lease()
    recovered = scene.run("recover", "--yes")
    assert recovered.code == 0, recovered.text
    assert scene.now() == scene.before


def test_case_03_refused_renewals_end_it_as_still_ours_and_everything_is_given_back(scene: DeployScene) -> None:
    """The server answers 503 to renewals only: said so, which is not the same as stolen."""
    child = Child(scene.folder)
    running = scene.start(*scene.fences, command=child.command, module=HASTY)
    pid = child.wait_begun(running)
    refusing = scene.cluster.sandbox.faults.refuse(status=503, verb="patch", resource="leases")
    wait_until(lambda: not alive(pid), "the command was ended")
    refusing.cancel()
    done = running.ended()
    assert done.code == 13, done.text
    said = " ".join(done.stderr.split())
    seen = r"token 1, renewTime [0-9T:.-]+Z, resourceVersion \d+"
    ours = rf"the renewal did not pass although the lease is ours \({seen}\): the server answered 503"
    assert re.search(rf"✗ lease NOT RENEWED in step 8 \(command\) on prod: {ours}", said), said
    assert "nothing is fenced" in done.stderr
    scene.assert_free()


def test_case_03_stolen_lease_ends_it_and_names_the_thief(scene: DeployScene) -> None:
    """Its nodes are released, its suspensions stay and are named: 11."""
    child = Child(scene.folder)
    running = scene.start(*scene.fences, command=child.command, module=HASTY)
    child.wait_begun(running)
    take_over(scene)
    done = running.ended()
    assert done.code == 11, done.text
    assert (
        f"✗ lease STOLEN in step 8 (command) on prod: `{OTHER}` holds it now (token 1 → 2, renewTime "
        in " ".join(done.stderr.split())
    )
    words = done.stderr.partition("STILL HELD")[2]
    assert "kustomization/flux-system/infrastructure" in words
    assert "node/" not in words
    assert "held as long as anything else is" not in words
    assert scene.lease()["holderIdentity"] == OTHER


def test_case_18_node_that_is_gone_when_it_is_to_be_released_is_nothing_to_release(scene: DeployScene) -> None:
    """The autoscaler took it while the command ran; the rest is released."""
    child = Child(scene.folder)
    running = scene.start(*scene.fences, command=child.command)
    child.wait_begun(running)
    scene.cluster.sandbox.store.delete("nodes", "worker-2")
    child.let_end()
    done = running.ended()
    assert done.code == 0, done.text
    del scene.before["/api/v1/nodes/worker-2"]
    scene.assert_free()
