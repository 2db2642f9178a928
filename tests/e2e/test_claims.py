"""
Claims as an operator meets them, on both clusters: what holds, which commands there are, and what takes it away.

Aspects: a claim of another lease and the command that lifts it · over a claim · told only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters import Cluster, ensure_namespace, make_configmap
from tests.support.deploys import RECORD_PATH, DeployScene
from tests.support.program import Ran

OTHER_RECORD = "/api/v1/namespaces/team/configmaps/app-record"


@pytest.fixture
def scene(clean_cluster: Cluster, tmp_path: Path) -> Iterator[DeployScene]:
    made = DeployScene.on(clean_cluster, tmp_path)
    yield made
    made.end()


def claim(moved: str = "unconfirmed") -> str:
    value = {"v": 1, "generation": 3, "class": moved, "restore": 2, "reason": "no answer", "holder": "x"}
    return json.dumps(value | {"at": "2026-11-30T02:00:00Z"})


def said(done: Ran) -> str:
    return " ".join(done.text.split())


def claims(scene: DeployScene, path: str = RECORD_PATH) -> list[str]:
    data: dict[str, Any] = scene.cluster.get(path)["data"]
    return sorted(key for key in data if key.startswith("claim-"))


def test_claim_beside_another_lease_is_lifted_by_the_very_command_that_is_printed(scene: DeployScene) -> None:
    """`deploy --lease` leaves its story there; the last resort must reach it."""
    assert scene.deploy("--lease", "team/app").code != 0  # there is no such namespace yet
    ensure_namespace(scene.cluster, "team")
    assert scene.deploy("--lease", "team/app").code == 0
    scene.cluster.merge_patch(OTHER_RECORD, {"data": {"claim-3": claim()}}, manager="other")
    shown = scene.run("fences", "--exit-code")
    assert shown.code == 20
    assert "none: claim" in shown.stdout
    assert "gave no answer that could be trusted" in said(shown)
    lift = "fencectl hold lift claim-3 --context prod --lease team/app"
    assert f"`{lift}` is the last resort" in said(shown)
    assert scene.run("hold", "lift", "claim", "--yes", "--reason", "x").code == 2
    listed = scene.run("hold", "list", "--lease", "team/app")
    assert "claim-3" in listed.stdout
    assert "the restore of what ran before generation 2 gave no answer" in said(listed)
    (hold,) = scene.run("hold", "list", "--lease", "team/app", "-o", "json").json["holds"]
    assert (hold["class"], hold["restore"], hold["reason"]) == ("unconfirmed", 2, "no answer")
    assert scene.run("hold", "list", "--lease", "nonsense").code == 2
    done = scene.run(*lift.split()[1:], "--yes", "--reason", "looked at it")
    assert done.code == 0, done.text
    assert claims(scene, OTHER_RECORD) == []
    assert scene.run("fences", "--exit-code").code == 0


def test_deploy_is_withheld_by_a_claim_until_a_person_deploys_over_it(scene: DeployScene) -> None:
    """19 with the way out; nothing is changed; what succeeds over it retires it, what fails does not."""
    make_configmap(
        scene.cluster, "fencectl-deploy-record", namespace="flux-system", data={"claim-3": claim("post-mutation")}
    )
    refused = scene.deploy(*scene.fences)
    assert refused.code == 19, refused.text
    assert "`--over-claim`" in said(refused)
    assert scene.now() == scene.before
    failed = scene.deploy("--over-claim", command=("false",))
    assert failed.code == 18, failed.text
    assert claims(scene) == ["claim-3"]
    done = scene.deploy(*scene.fences, "--over-claim")
    assert done.code == 0, done.text
    assert claims(scene) == []
    assert scene.deploy().code == 0


def test_claim_that_moved_nothing_is_told_and_holds_nothing(scene: DeployScene) -> None:
    """A finding, not counted; the next deploy takes the word of it away."""
    make_configmap(
        scene.cluster, "fencectl-deploy-record", namespace="flux-system", data={"claim-3": claim("pre-mutation")}
    )
    shown = scene.run("fences", "--exit-code")
    assert shown.code == 0, shown.text
    assert "was refused before anything was changed" in said(shown)
    assert scene.deploy().code == 0
    assert claims(scene) == []
