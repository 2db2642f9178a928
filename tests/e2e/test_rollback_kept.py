"""
Suspensions that are kept after a rollback, and the deploy that takes them over: as processes, on both clusters.

Aspects: kept and said · refused over, left alone · the printed commands · adopted: failure, then success.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.test_rollback import BREAKS, data, said
from tests.support.clusters import Cluster, Raw, expect
from tests.support.deploys import DeployScene
from tests.support.manifests import config_map, deploy, write

FLUX = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations"
PARENT, CHILD = f"{FLUX}/flux-system", f"{FLUX}/infrastructure"
ROLLS_BACK = ("--rollback", "on-failure")
NEVER_READY: Raw = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"there": "is-none"}},
        },
    },
}


@pytest.fixture
def scene(clean_cluster: Cluster, tmp_path: Path) -> Iterator[DeployScene]:
    made = DeployScene.on(clean_cluster, tmp_path)
    set_inventory(made, CHILD, "default_a__ConfigMap")
    set_inventory(made, PARENT, "flux-system_infrastructure_kustomize.toolkit.fluxcd.io_Kustomization")
    assert deploy(made, "-f", write(made, config_map("a", a="1"))).code == 0
    yield made
    made.end()


def set_inventory(scene: DeployScene, path: str, *ids: str) -> None:
    """What the object has applied, as its controller would say."""
    status = {"inventory": {"entries": [{"id": one, "v": "v1"} for one in ids]}}
    expect(scene.cluster.merge_patch(f"{path}/status", {"status": status}, manager="kustomize-controller"), 200)


def phases(scene: DeployScene) -> list[str | None]:
    """The phase of the parent and the child, and None for the one that has no mark."""
    marks = [scene.cluster.get(path)["metadata"].get("annotations", {}) for path in (PARENT, CHILD)]
    texts = [mark.get("fencectl.dev/journal") for mark in marks]
    return [None if text is None else json.loads(text)["phase"] for text in texts]


def test_failed_manifests_are_rolled_back_and_what_would_bring_them_back_is_kept(scene: DeployScene) -> None:
    """11: nodes and lease are free, child and parent stay, the last words are why and what to do."""
    path = write(scene, config_map("a", a="2"), NEVER_READY)
    done = deploy(scene, *scene.fences, *ROLLS_BACK, "--timeout", "2s", "-f", path)
    assert done.code == 11, done.text
    assert data(scene) == {"a": "1"}
    assert phases(scene) == ["kept", "kept"]
    assert scene.lease()["holderIdentity"] == ""
    text = said(done)
    assert "now 2 fences are KEPT on purpose:" in text
    assert "kustomization/flux-system/infrastructure and its parent flux-system, suspended" in text
    assert "reason: rolled back: " in text
    assert " must not come back; Flux would apply it again" in text
    assert "hint: merge the fix or the revert first, then `fencectl deploy --adopt-kept`, or resume both" in text
    assert "nothing is fenced" not in text
    commands = [line for line in done.stderr.splitlines() if line.startswith("kubectl ")]
    assert [line.split(" patch ")[1].split()[1] for line in commands] == ["infrastructure", "flux-system"]
    assert scene.record(2)["outcome"] == "rolled-back"
    # Left alone by whoever only wants to clear up, refused over by the next deploy.
    recovered = scene.run("recover", "--yes", "--accept-presumed")
    assert "KEPT on purpose" in recovered.stderr, recovered.text
    refused = scene.deploy()
    assert refused.code == 19, refused.text
    assert "add `--adopt-kept`" in refused.stderr
    assert phases(scene) == ["kept", "kept"]
    # As they were printed, in that order, by the real kubectl.
    script = "set -eu\n" + "\n".join(commands)
    subprocess.run(["sh", "-c", script], check=True, env=scene.cluster.kubectl_environment(context="prod"))
    assert scene.now() == scene.before


def test_kept_suspensions_are_adopted_kept_again_after_a_failure_and_released_after_a_success(
    scene: DeployScene,
) -> None:
    """The fix comes with `--adopt-kept`: its first try fails and changes nothing of that, its second succeeds."""
    broken = ("sh", "-c", f"{BREAKS}; exit 3")
    assert scene.deploy(*scene.fences, *ROLLS_BACK, command=broken).code == 11
    first = scene.cluster.get(CHILD)["metadata"]["annotations"]
    adopt = ("--adopt-kept", *scene.fences[-2:]) if scene.cluster.name == "real" else ("--adopt-kept",)
    planned = scene.deploy(*adopt, "--dry-run")
    assert "   4  adopt kustomization/flux-system/infrastructure" in planned.stdout, planned.text
    failed = scene.deploy(*adopt, command=("false",))
    assert failed.code == 11, failed.text
    assert "2 fences are KEPT on purpose" in failed.stderr
    assert phases(scene) == ["kept", "kept"]
    again = scene.cluster.get(CHILD)["metadata"]["annotations"]
    assert again["fencectl.dev/holder"] != first["fencectl.dev/holder"]
    why = [json.loads(one["fencectl.dev/journal"])["reason"] for one in (first, again)]
    assert why[0] == why[1]
    # The lease is free: what proves the end of a run on a workstation stays with what it has kept.
    assert all(json.loads(one["fencectl.dev/journal"])["details"]["pid"] for one in (first, again))
    fixed = scene.deploy(*adopt, command=("true",))
    assert fixed.code == 0, fixed.text
    scene.assert_free(token=4)


def test_rollback_that_is_to_resume_or_concerns_no_flux_object_keeps_nothing(scene: DeployScene) -> None:
    """10: what was restored is in nobody's inventory; the same run with `resume` keeps nothing either way."""
    broken = ("sh", "-c", f"{BREAKS}; exit 3")
    resumed = scene.deploy(*scene.fences, *ROLLS_BACK, "--on-rollback", "resume", command=broken)
    assert resumed.code == 10, resumed.text
    assert data(scene) == {"a": "1"}
    scene.assert_free(token=2)
