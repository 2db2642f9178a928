"""
Deploys that outlive what they have logged in with: at the API server by an exec plugin, at GitHub by a token.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.between import Between
from tests.support.clusters import Cluster
from tests.support.deploys import HASTY, LEASE_PATH, Child, DeployScene, alive, wait_until
from tests.support.github import TOKEN, Fault, LoopbackGitHub, server_certificate

RUN, ATTEMPT, JOB = 18093344127, 2, 51234567890
STEP = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_RUN_ID": str(RUN),
    "GITHUB_RUN_ATTEMPT": str(ATTEMPT),
    "FENCECTL_JOB_ID": str(JOB),
}


@pytest.fixture
def scene(sandbox_cluster: Cluster, tmp_path: Path) -> Iterator[DeployScene]:
    made = DeployScene.on(sandbox_cluster, tmp_path)
    yield made
    made.end()


class Plugin:
    """An exec plugin that gives the token which stands in a file, counts its runs, and fails where there is none."""

    def __init__(self, folder: Path) -> None:
        self._token, self._runs, self._program = folder / "token", folder / "runs", folder / "corp-login"
        status = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}'
        self._program.write_text(
            f"#!/bin/sh\necho run >> {self._runs}\n"
            f"[ -e {self._token} ] || {{ echo 'your session has ended' >&2; exit 1; }}\n"
            f"printf '{status}' \"$(cat {self._token})\"\n"
        )
        self._program.chmod(0o755)

    def gives(self, token: str) -> None:
        self._token.write_text(token)

    def fails(self) -> None:
        self._token.unlink()

    @property
    def runs(self) -> int:
        return self._runs.read_text().count("run")

    @property
    def entry(self) -> dict[str, object]:
        version = "client.authentication.k8s.io/v1"
        return {"exec": {"apiVersion": version, "command": str(self._program), "interactiveMode": "Never"}}


def test_case_69_token_that_is_revoked_during_a_deploy_is_fetched_anew_by_all_of_it(
    scene: DeployScene, tmp_path: Path
) -> None:
    """By the heartbeat, by the releases, and by kubectl in its command, which logs in by the same plugin."""
    plugin, child = Plugin(tmp_path), Child(tmp_path)
    plugin.gives("first")
    command = (*child.command[:2], child.command[2].replace("exit 0", "kubectl get nodes -o name"))
    with Between(scene.cluster, tokens={"first"}, certificate=server_certificate(tmp_path)) as between:
        env = {"KUBECONFIG": str(between.kubeconfig(tmp_path, entry=plugin.entry))}
        running = scene.start(*scene.fences, command=command, module=HASTY, env=env)
        child.wait_begun(running)
        runs = plugin.runs
        plugin.gives("second")
        between.tokens = {"second"}
        heartbeats = between.heartbeats
        wait_until(lambda: between.heartbeats > heartbeats + 1, "it is renewed with the new token")
        assert plugin.runs > runs
        child.let_end()
        done = running.ended()
    assert done.code == 0, done.text
    assert "node/worker-2" in done.stdout
    assert {"first", "second"} & set(done.text.split()) == set()
    scene.assert_free()


def test_case_69_plugin_that_fails_during_a_deploy_is_named_and_so_is_what_stays(
    scene: DeployScene, tmp_path: Path
) -> None:
    """Nobody knows any more who holds the lease: the command is ended, and what cannot be released is named."""
    plugin, child = Plugin(tmp_path), Child(tmp_path)
    plugin.gives("first")
    with Between(scene.cluster, tokens={"first"}, certificate=server_certificate(tmp_path)) as between:
        env = {"KUBECONFIG": str(between.kubeconfig(tmp_path, entry=plugin.entry)), "HASTY_UNWIND_S": "1"}
        running = scene.start(*scene.fences, command=child.command, module=HASTY, env=env)
        pid = child.wait_begun(running)
        plugin.fails()
        between.tokens = set()
        done = running.ended()
    assert not alive(pid)
    assert done.code == 11, done.text
    assert "corp-login" in done.stderr, done.text
    words = done.stderr.partition("STILL HELD")[2]
    assert words.count("kubectl --context prod ") == 5, done.text
    for name in ("node/worker-2", "node/worker-3", "kustomization/flux-system/infrastructure", "fencectl-deploy"):
        assert name in words, done.text


def test_case_69_plugin_that_is_not_there_is_said_and_nothing_was_changed(
    scene: DeployScene, tmp_path: Path
) -> None:
    """Before anything was read."""
    entry = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "corp-login-not-installed",
            "interactiveMode": "Never",
        }
    }
    with Between(scene.cluster, certificate=server_certificate(tmp_path)) as between:
        env = {"KUBECONFIG": str(between.kubeconfig(tmp_path, entry=entry))}
        done = scene.deploy(*scene.fences, env=env)
    assert done.code == 21, done.text
    assert "corp-login-not-installed" in done.stderr
    assert between.writes == []


def test_case_50_token_of_github_that_dies_during_a_deploy_harms_nobody(
    scene: DeployScene, tmp_path: Path
) -> None:
    """On an Enterprise Server: asked below its own path, 200 at first, then 401; one deploys, the next one waits."""
    with LoopbackGitHub() as enterprise:
        enterprise.prefix = "/api/v3"
        enterprise.attempt(RUN, ATTEMPT, status="in_progress")
        enterprise.job(RUN, ATTEMPT, JOB, status="in_progress")
        server = f"http://127.0.0.1:{enterprise.port}"
        urls = {"GITHUB_API_URL": f"{server}/api/v3/", "GITHUB_SERVER_URL": server}
        env = enterprise.env() | STEP | urls
        child = Child(tmp_path)
        first = scene.start(*scene.fences, command=child.command, module=HASTY, env=env)
        child.wait_begun(first)
        journal = json.loads(scene.cluster.get(LEASE_PATH)["metadata"]["annotations"]["fencectl.dev/journal"])
        assert (journal["job"], journal["job_verified"], journal["server"]) == (JOB, True, server)
        enterprise.fault("/repos/", Fault(401, body={"message": "Bad credentials"}))
        asked = len(enterprise.asked)
        second = scene.start("--wait-for-fences", *scene.fences, module=HASTY, env=env)
        second.wait_for(f"waits for run {RUN} attempt {ATTEMPT} job {JOB}")
        child.let_end()
        assert first.ended().code == 0, first.said
        done = second.ended()
        assert done.code == 0, done.text
        assert len(enterprise.asked) > asked
        assert {one.path.startswith("/api/v3/repos/acme/platform/") for one in enterprise.asked} == {True}
        assert f"GitHub did not confirm that this is job {JOB}: 401" in done.stderr
        assert TOKEN not in first.said + done.text
    scene.assert_free(token=2)
