"""
A deploy that is told to end, in each way in which systems say so: it unwinds once, and leaves nothing fenced.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.between import Between, Write
from tests.support.clusters import Cluster, make_kustomization, make_node
from tests.support.deploys import Child, DeployScene, alive, wait_until
from tests.support.prefork import Process

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
ACTIONS = {"GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "18093344127", "GITHUB_RUN_ATTEMPT": "2"}
# Between its first signal and its last CI gives 10 s; whoever is asked to end has this much of it.
CI_S = 7.0


@pytest.fixture
def scene(sandbox_cluster: Cluster, tmp_path: Path) -> Iterator[DeployScene]:
    made = DeployScene.on(sandbox_cluster, tmp_path)
    yield made
    made.end()


@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
def test_case_47_signal_before_the_command_unwinds_and_tells_which(
    scene: DeployScene, number: signal.Signals
) -> None:
    """While the drain proof is waited for: nothing was applied."""
    held = scene.cluster.sandbox.faults.delay(
        0.3, verb="patch", resource="kustomizations", name="infrastructure", times=1
    )
    running = scene.start(*scene.fences)
    assert held.arrived.wait(30), running.said
    running.signal(number)
    done = running.ended()
    assert done.code == CODES[number], done.text
    assert "nothing was applied" in done.stderr
    assert "claimed" not in done.stderr
    scene.assert_free()
    assert scene.record()["outcome"] == "interrupted"


@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
def test_case_13_signal_while_the_command_runs_ends_it_and_says_that_it_may_have_acted(
    scene: DeployScene, number: signal.Signals
) -> None:
    """It is 18: interrupted is not the same as nothing happened."""
    child = Child(scene.folder)
    running = scene.start(*scene.fences, command=child.command)
    pid = child.wait_begun(running)
    running.signal(number)
    done = running.ended()
    assert done.code == 18, done.text
    assert "the new state may be live" in done.stderr
    assert not alive(pid)
    scene.assert_free()
    assert scene.record()["outcome"] == "interrupted"


def test_fences_of_one_rank_are_released_side_by_side_and_the_parent_after_its_child(
    sandbox_cluster: Cluster, tmp_path: Path
) -> None:
    """16 nodes, a chain of three and the lease: no release of a node is answered before all of them were sent."""
    nodes = [make_node(sandbox_cluster, f"n{number:02}")["metadata"]["name"] for number in range(16)]
    sandbox_cluster.sandbox.flux.automatic()
    chain = ("flux-system", "infrastructure", "apps")
    for parent, name in zip((None, *chain), chain, strict=False):
        make_kustomization(sandbox_cluster, name, applied_by=("flux-system", parent) if parent else None)
    scene = DeployScene(sandbox_cluster, tmp_path, {}, [], {})
    together = threading.Barrier(len(nodes))
    releasing = threading.Event()

    def before(write: Write) -> None:
        if releasing.is_set() and write.resource == "nodes":
            together.wait(30)

    with Between(sandbox_cluster, before=before) as between:
        child = Child(tmp_path)
        fences = [f"--node={name}" for name in nodes] + ["--suspend", "kustomization/flux-system/apps"]
        env = {"KUBECONFIG": str(between.kubeconfig(tmp_path))}
        running = scene.start(*fences, command=child.command, env=env)
        child.wait_begun(running)
        releasing.set()
        writes = len(between.writes)
        running.signal(signal.SIGINT)
        done = running.ended()
    assert done.code == 18, done.text
    released = [write for write in between.writes[writes:] if not write.path.endswith("/events")]
    assert sorted(write.path.rpartition("/")[2] for write in released[:16]) == nodes
    assert [write.path.rpartition("/")[2] for write in released[16:]] == [
        "apps", "infrastructure", "flux-system", "fencectl-deploy-record", "fencectl-deploy",
    ]  # fmt: skip
    assert scene.lease()["holderIdentity"] == ""
    shown = scene.run("fences", "--exit-code")
    assert shown.code == 0, shown.text


def test_second_signal_does_not_hurry_it(scene: DeployScene) -> None:
    """Twice INT, TERM and HUP too, while the first release is under way."""
    child = Child(scene.folder)
    running = scene.start(*scene.fences, command=child.command)
    child.wait_begun(running)
    held = scene.cluster.sandbox.faults.delay(0.3, verb="patch", resource="nodes")
    running.signal(signal.SIGINT)
    assert held.arrived.wait(30), running.said
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        running.signal(number)
    done = running.ended()
    assert done.code == 18, done.text
    scene.assert_free()


def test_group_signalled_by_a_terminal_ends_the_command_through_us(scene: DeployScene) -> None:
    """The command has a group of its own: ^C reaches us, and we end it before anything is released."""
    child = Child(scene.folder)
    running = scene.start(*scene.fences, command=child.command)
    pid = child.wait_begun(running)
    assert os.getpgid(pid) != os.getpgid(running.pid)
    os.killpg(os.getpgid(running.pid), signal.SIGINT)
    assert running.ended().code == 18
    assert not alive(pid)
    scene.assert_free()


def test_child_that_ignores_term_and_forks_is_ended_whole(scene: DeployScene) -> None:
    """After its grace it is killed, and what it has forked too."""
    script = "trap '' TERM; (trap '' TERM; echo $BASHPID > fork; while true; do sleep 0.1; done) &"
    child = Child(scene.folder, script=script)
    command = ("bash", *child.command[1:])
    running = scene.start(*scene.fences, command=command)
    pid = child.wait_begun(running)
    fork = wait_until(lambda: (scene.folder / "fork").exists() and (scene.folder / "fork").read_text(), "forked")
    begun_s = time.monotonic()
    running.signal(signal.SIGTERM)
    done = running.ended()
    assert done.code == 18, done.text
    assert time.monotonic() - begun_s < 60
    assert not alive(pid)
    wait_until(lambda: not alive(int(fork)), "its fork has ended")
    scene.assert_free()


def test_ignored_hangup_stays_ignored(scene: DeployScene) -> None:
    """As `nohup` asks."""
    child = Child(scene.folder)
    running = scene.start(*scene.fences, command=child.command, script="trap '' HUP; exec DEPLOY")
    child.wait_begun(running)
    running.signal(signal.SIGHUP)
    child.let_end()
    done = running.ended()
    assert done.code == 0, done.text
    scene.assert_free()


@pytest.mark.parametrize(
    ("closing", "ending"),
    [(">&-", "well"), ("2>&-", "TERM"), ("<&-", "TERM"), ("<&- >&- 2>&-", "well"), ("<&- >&- 2>&-", "TERM")],
)
def test_closed_streams_change_nothing(scene: DeployScene, closing: str, ending: str) -> None:
    """stdin, stdout, stderr or all of them."""
    child = Child(scene.folder)
    running = scene.start(*scene.fences, command=child.command, script=f"exec DEPLOY {closing}")
    child.wait_begun(running)
    if ending == "TERM":
        running.signal(signal.SIGTERM)
    else:
        child.let_end()
    assert running.ended().code == (0 if ending == "well" else 18)
    scene.assert_free()


@pytest.mark.parametrize("output", ["text", "json"])
@pytest.mark.parametrize("ending", ["well", "INT"])
def test_case_47_broken_pipe_does_not_abort_it(scene: DeployScene, output: str, ending: str) -> None:
    """Whoever read our output has gone while the command ran: everything is released all the same."""
    child = Child(scene.folder)
    read_end, write_end = os.pipe()
    running = scene.start(
        "-o", output, *scene.fences, command=child.command, stdout=write_end, stderr=subprocess.STDOUT
    )
    os.close(write_end)
    wait_until(child.began.exists, "the command began")
    os.close(read_end)
    if ending == "INT":
        running.signal(signal.SIGINT)
    else:
        child.let_end()
    assert running.ended().code == (0 if ending == "well" else 18)
    scene.assert_free()


def cancel_as_ci_does(running: Process, *, term_after_s: float = 0.5) -> float:
    """INT to the entry process, TERM a while later, to that one process only; returns when it was dead."""
    running.send_signal(signal.SIGINT)
    end_s = time.monotonic() + term_after_s
    while running.poll() is None and time.monotonic() < end_s:
        time.sleep(0.02)
    if running.poll() is None:
        running.send_signal(signal.SIGTERM)
        running.wait(10)
    return time.monotonic()


def test_death_of_the_parent_shell_in_ci_unwinds(scene: DeployScene) -> None:
    """bash waits for its child and forwards nothing; its death is all that we learn of a cancelled step."""
    child = Child(scene.folder)
    running = scene.start(*scene.fences, command=child.command, env=ACTIONS, script="DEPLOY; true")
    pid = child.wait_begun(running)
    assert "is not the entry process of its step" in running.said
    dead_s = cancel_as_ci_does(running.process)
    wait_until(lambda: scene.lease()["holderIdentity"] == "", "the lease is free", timeout_s=30)
    took_s = time.monotonic() - dead_s
    scene.assert_free()
    assert not alive(pid)
    assert took_s < 30
    wait_until(lambda: "nothing is fenced" in running.said, "it says so")


def test_entry_process_by_exec_is_told_itself(scene: DeployScene) -> None:
    """With `exec` the signal of CI reaches us."""
    child = Child(scene.folder)
    running = scene.start(*scene.fences, command=child.command, env=ACTIONS, script="exec DEPLOY")
    child.wait_begun(running)
    running.signal(signal.SIGINT)
    done = running.ended()
    assert done.code == 18, done.text
    scene.assert_free()


def test_death_of_the_parent_elsewhere_is_no_reason(scene: DeployScene) -> None:
    """A deploy that somebody has put into the background and logged out goes on."""
    child = Child(scene.folder)
    running = scene.start(*scene.fences, command=child.command, script="DEPLOY & echo $! > pid; wait")
    child.wait_begun(running)
    pid = int((scene.folder / "pid").read_text())
    running.kill()
    child.let_end()
    wait_until(lambda: not alive(pid), "it has ended")
    assert "✓ deployed generation 1" in running.said
    scene.assert_free()
