"""
Rollbacks as processes, on both clusters: one at a time, killed in the middle, and what each leaves on its target.

What is put back is a Deployment without a controller: its status is the test's to write, so that a rollback that
follows it goes on for as long as the test wants, with everything put back and nothing proven.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencectl.sandbox import Sandbox
from tests.support.clusters import Cluster, expect
from tests.support.deploys import LEASE_PATH, RECORD_PATH, DeployScene, Running, wait_until
from tests.support.manifests import config_map, deploy, write
from tests.support.pairs import Pair
from tests.support.program import Ran
from tests.support.restoring import deployment

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
WEB = f"{DEPLOYMENTS}/web"


@pytest.fixture
def scene(clean_cluster: Cluster, tmp_path: Path) -> Iterator[DeployScene]:
    made = DeployScene.on(clean_cluster, tmp_path)
    yield made
    made.end()


def web(image: str) -> dict[str, Any]:
    made = deployment(image)
    return made | {"metadata": {"name": "web"}}


def image(scene: DeployScene) -> Any:
    return scene.cluster.get(WEB)["spec"]["template"]["spec"]["containers"][0]["image"]


def become_ready(scene: DeployScene) -> None:
    """What its controller and a kubelet would say once it has rolled out."""
    generation = scene.cluster.get(WEB)["metadata"]["generation"]
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1)
    available = {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": ""}
    status = {"observedGeneration": generation, "conditions": [available], **counts}
    expect(scene.cluster.merge_patch(f"{WEB}/status", {"status": status}, manager="controller"), 200)


def data(scene: DeployScene) -> dict[str, str]:
    found: dict[str, str] = scene.cluster.get(RECORD_PATH)["data"]
    return found


def claims(scene: DeployScene) -> list[str]:
    return sorted(key for key in data(scene) if key.startswith("claim-"))


def said(done: Ran) -> str:
    return " ".join(done.text.split())


def changed(scene: DeployScene, *arguments: str) -> None:
    """Generation 1 has changed a Deployment that was there before."""
    expect(scene.cluster.request("POST", DEPLOYMENTS, body=web("web:1"), query={"fieldManager": "fencectl"}), 201)
    become_ready(scene)
    running = scene.start("-f", write(scene, web("web:2")), "--force-conflicts", *arguments, payload=False)
    wait_until(lambda: image(scene) == "web:2", "it was applied")
    become_ready(scene)
    done = running.ended()
    assert done.code == 0, done.text


def restoring(scene: DeployScene, generation: int = 2, *arguments: str) -> Running:
    """A rollback that has put everything back, and follows it."""
    running = scene.start("--yes", *arguments, payload=False, verb="rollback")

    def is_back() -> bool:
        assert running.process.poll() is None, running.said
        return bool(image(scene) == "web:1")

    wait_until(is_back, "it was put back")
    assert scene.record(generation)["phase"] == "restoring"
    return running


def everything(scene: DeployScene) -> Any:
    """All that a second rollback could have changed; a lease that is renewed is the same lease."""
    lease = scene.lease()
    lease.pop("renewTime")
    return lease, data(scene), scene.cluster.get(WEB), scene.now()


def test_two_rollbacks_at_once_one_runs_and_one_exits_17_with_nothing_changed(scene: DeployScene) -> None:
    """Nor does a deploy begin; the first one ends as if nobody had asked."""
    changed(scene)
    first = restoring(scene)
    before = everything(scene)
    second = scene.run("rollback", "--yes")
    assert second.code == 17, second.text
    assert "a rollback is in progress (17)" in said(second)
    third = deploy(scene, "-f", write(scene, config_map("a"), name="b.yaml"))
    assert third.code == 17, third.text
    assert everything(scene) == before
    become_ready(scene)
    done = first.ended()
    assert done.code == 0, done.text
    assert scene.record(2)["outcome"] == "restored"
    assert claims(scene) == []


def test_rollback_that_was_killed_is_seen_by_the_next_command_and_never_refused_for_ever(
    scene: DeployScene,
) -> None:
    """16 and recovered; then it is interrupted, holds deploys back, and the next rollback goes over it."""
    changed(scene)
    restoring(scene).kill()
    scene.age_lease()
    assert scene.run("rollback", "--yes").code == 16
    recovered = scene.run("recover", "--yes")
    assert recovered.code == 0, recovered.text
    shown = scene.run("fences", "--exit-code")
    assert shown.code == 0, shown.text  # a finding: listed, not counted
    assert "its restore may have stopped half-way" in said(shown)
    assert "interrupted" in scene.run("history").stdout
    refused = deploy(scene, "-f", write(scene, web("web:3")))
    assert refused.code == 19, refused.text
    assert "generation 2 died while it restored this target" in said(refused)
    assert (scene.record(2)["outcome"], claims(scene)) == ("interrupted", ["claim-2"])
    again = deploy(scene, "-f", write(scene, web("web:3")))
    assert again.code == 19, again.text
    assert "`fencectl rollback --context prod` runs over it too" in said(again)
    assert image(scene) == "web:1"
    become_ready(scene)
    done = scene.run("rollback", "--yes")
    assert done.code == 0, done.text
    assert claims(scene) == []
    assert scene.lease()["holderIdentity"] == ""


@pytest.fixture
def pair(sandbox_cluster: Cluster, tmp_path: Path) -> Iterator[Pair]:
    """Two sandboxes as targets `a` and `b`."""
    with Sandbox() as running:
        folder = tmp_path / "second"
        folder.mkdir()
        handle = Cluster("sandbox", running, folder)
        made = Pair.of(sandbox_cluster, handle, tmp_path)
        yield made
        made.end()
        handle.close()


def test_unconfirmed_restore_holds_its_target_until_a_success_while_a_sibling_stays_deployable(pair: Pair) -> None:
    """Each target is what its own record says: a deploy of both is refused for the one, and changes neither."""
    a, b = pair.a, pair.b
    changed(a, "--context", "a")
    restoring(a, 2, "--context", "a").kill()
    a.age_lease()
    assert pair.run("recover", "--yes", "--context", "a").code == 0
    manifest = write(a, config_map("shared"), name="shared.yaml")
    first = deploy(a, "--context", "a", "-f", manifest)
    assert (first.code, claims(a)) == (19, ["claim-2"]), first.text
    assert '"class":"unconfirmed"' in data(a)["claim-2"]
    sibling = deploy(a, "--context", "b", "-f", manifest)
    assert sibling.code == 0, sibling.text
    before = data(a), data(b)
    both = pair.deploy("-f", manifest, payload=False)
    assert both.code == 19, both.text
    assert (data(a), data(b)) == before
    over = deploy(a, "--context", "a", "--over-claim", "-f", manifest)
    assert over.code == 0, over.text
    assert claims(a) == []
    both = pair.deploy("-f", manifest, payload=False)
    assert both.code == 0, both.text
    assert a.cluster.get(LEASE_PATH)["spec"]["holderIdentity"] == ""
