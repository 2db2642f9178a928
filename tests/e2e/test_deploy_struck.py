"""
The crash matrix with processes on a real API server: every write of a deploy, struck in every way.

The writes are those of an undisturbed deploy, so a step that is added to the transaction joins by itself. On each run
one write in each way; `--matrix-real` strikes all of them. After each cell the state is that before the deploy, or
every leftover is listed by `fences` with a command, and running those by `sh` in order gives the state before.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.between import Between, Drop, Hang, Refuse, Write
from tests.support.clusters import Cluster
from tests.support.deploying import undisturbed_writes
from tests.support.deploys import HASTY, LEASE_PATH, Child, DeployScene, take_over, wait_until
from tests.support.objects import OTHER
from tests.support.program import run_shell

STRIKES = (
    "refused",
    "forbidden",
    "error",
    "timed out before",
    "answer lost",
    "killed before",
    "killed after",
    "terminated",
    "stolen",
    "away",
)
REFUSALS = {"refused": 503, "forbidden": 403, "error": 500}
# Where nobody answers any more, a deploy need not try for a minute here.
SHORT = {"HASTY_UNWIND_S": "1"}


def cells(*, everything: bool) -> list[tuple[str, int]]:
    """All of the matrix, or for each way of striking one write, spread over the whole deploy."""
    writes = len(undisturbed_writes())
    if everything:
        return [(how, number) for how in STRIKES for number in range(1, writes + 1)]
    return [(how, 1 + (3 + 4 * at) % writes) for at, how in enumerate(STRIKES)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "how" in metafunc.fixturenames:
        chosen = cells(everything=metafunc.config.getoption("--matrix-real"))
        metafunc.parametrize(
            ("how", "number"), chosen, ids=[f"{how.replace(' ', '-')}-{number}" for how, number in chosen]
        )


class Strike:
    """Comes over one write of one deploy."""

    def __init__(self, scene: DeployScene, between: Between, how: str, number: int) -> None:
        self._scene, self._between, self._how, self._number = scene, between, how, number
        self.struck = False

    def _signal(self, number: signal.Signals) -> None:
        # NB: its first write may come before its start is known here; and the test waits for its end already.
        os.kill(wait_until(lambda: self._scene.started, "it was started")[0].pid, number)

    def before(self, write: Write) -> None:
        if write.number != self._number:
            return
        self.struck = True
        if self._how in REFUSALS:
            raise Refuse(REFUSALS[self._how])
        match self._how:
            case "timed out before":
                raise Hang
            case "killed before":
                self._signal(signal.SIGKILL)
                raise Drop
            case "stolen":
                self._steal()
            case "away":
                self._between.away = True

    def after(self, write: Write) -> None:
        if write.number != self._number:
            return
        match self._how:
            case "answer lost":
                raise Drop
            case "killed after":
                self._signal(signal.SIGKILL)
                raise Drop
            case "terminated":
                self._signal(signal.SIGTERM)

    def _steal(self) -> None:
        """Take the lease over, and let the next heartbeat learn it before the write goes on."""
        raw = self._scene.cluster.request("GET", LEASE_PATH)
        if raw.status != 200 or not raw.json()["spec"]["holderIdentity"]:
            return
        take_over(self._scene)
        heartbeats = self._between.heartbeats
        if self._number < len(undisturbed_writes()):  # the keeper has ended before the last one
            wait_until(lambda: self._between.heartbeats > heartbeats, "a heartbeat has come")


def give_back(scene: DeployScene) -> None:
    """Whoever stole the lease ends, and frees it."""
    answer = scene.cluster.request("GET", LEASE_PATH)
    if answer.status == 200 and answer.json()["spec"].get("holderIdentity") == OTHER:
        scene.cluster.merge_patch(LEASE_PATH, {"spec": {"holderIdentity": ""}}, manager="other")


@pytest.mark.real
def test_struck_deploy_on_a_real_server_gives_everything_back_or_names_it_with_commands_that_work(
    real: Cluster, tmp_path: Path, how: str, number: int
) -> None:
    """One cell: this write, struck in this way."""
    real.wipe(everything=True)
    scene = DeployScene.on(real, tmp_path)
    with Between(real) as between:
        strike = Strike(scene, between, how, number)
        between.before, between.after = strike.before, strike.after
        env = SHORT | {"KUBECONFIG": str(between.kubeconfig(tmp_path))}
        # NB: a short lease tells sooner that it is stolen, or that nobody answers; on a busy machine 3 s are too short.
        short = ("--lease-duration", "5s") if how in ("stolen", "away") else ()
        running = scene.start(*scene.fences, *short, module=HASTY, env=env)
        try:
            done = running.ended()
        finally:
            scene.end()
    assert strike.struck, done.text
    assert done.code != 1, done.text
    if done.code == 0:
        assert how not in ("stolen", "away") or number == 1, done.text  # with the first one there is no lease yet
        # NB: a signal while a success is being released changes nothing about it.
        assert how != "terminated" or "the command has ended with 0" in done.stderr, done.text
    give_back(scene)
    if is_free(scene):
        return
    assert done.code == 11 or how.startswith("killed"), done.text
    scene.age_lease()
    report = scene.run("fences", "-o", "json")
    assert report.json["complete"], report.text
    # NB: listed too, and not held: the cordon of somebody else, and the record of a run that has died.
    held = [fence for fence in report.json["fences"] if fence["ours"] and fence["kind"] != "record"]
    assert 0 < len(held) == report.json["held"], report.text
    if done.code == 11:
        words = done.stderr.partition("STILL HELD")[2].partition("hint:")[0]
        assert [fence["object"]["name"] for fence in held if fence["object"]["name"] not in words] == [], done.text
    released = run_shell(real, "\n".join(["set -e", *(fence["release"]["command"] for fence in held)]))
    assert released.code == 0, released.text
    assert is_free(scene)


def is_free(scene: DeployScene) -> bool:
    """Whether everything is as it was before the deploy, and nobody holds the lease."""
    lease = scene.cluster.request("GET", LEASE_PATH)
    return scene.now() == scene.before and (lease.status == 404 or not lease.json()["spec"]["holderIdentity"])


@pytest.mark.real
def test_undisturbed_deploy_makes_the_writes_that_are_struck(real: Cluster, tmp_path: Path) -> None:
    """
    Lease, record, suspensions, recovery point, record, nodes, record; then the reverse: as many as the matrix in
    process counts.
    """
    real.wipe(everything=True)
    scene = DeployScene.on(real, tmp_path)
    child = Child(tmp_path)
    child.let_end()
    with Between(real) as between:
        env = {"KUBECONFIG": str(between.kubeconfig(tmp_path))}
        done = scene.deploy(*scene.fences, command=child.command, env=env)
    assert done.code == 0, done.text
    assert len(between.writes) == len(undisturbed_writes())
    kinds = [write.resource for write in between.writes]
    assert kinds[:4] == ["leases", "configmaps", *["kustomizations"] * 2]
    assert kinds[4:9] == ["secrets", "configmaps", *["nodes"] * 2, "configmaps"]
    assert (kinds[9:11], kinds[11:13]) == (["nodes"] * 2, ["kustomizations"] * 2)
    assert kinds[13:] == ["configmaps", "leases"]
    scene.assert_free()
