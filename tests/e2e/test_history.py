"""`history` after real deploys, on both clusters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters import Cluster
from tests.support.deploys import DeployScene


@pytest.fixture
def scene(clean_cluster: Cluster, tmp_path: Path) -> Iterator[DeployScene]:
    made = DeployScene.on(clean_cluster, tmp_path)
    yield made
    made.end()


def test_deploys_are_listed_and_one_is_told_with_its_timeline(scene: DeployScene) -> None:
    """One that went well and one that failed; what is asked for and not there is said, with what is."""
    nothing = scene.run("history")
    assert (nothing.code, "no deploy of prod is recorded" in nothing.stdout) == (0, True), nothing.text
    done = scene.deploy(*scene.fences, command=("true",))
    assert (done.code, "  story: fencectl history show 1 --context prod" in done.stderr) == (0, True), done.text
    assert scene.deploy(command=("sh", "-c", "exit 3")).code == 18

    listed = scene.run("history")
    assert listed.code == 0, listed.text
    rows = [line.split()[:2] for line in listed.stdout.splitlines()]
    assert rows == [["GEN", "OUTCOME"], ["2", "failed"], ["1", "deployed"]]

    story = json.loads(scene.run("history", "show", "1", "-o", "json").stdout)["deploy"]
    assert (story["outcome"], story["exitCode"], story["token"]) == ("deployed", 0, 1)
    assert (story["recovery"]["objects"], story["recovery"]["kept"]) == (0, True)
    assert "  5  recovery point 1: 0 objects" in done.stderr
    spans = {span["what"]: (span["step"], span.get("how")) for span in story["timeline"]}
    assert spans == {
        "lease": (2, None),
        "kustomization/flux-system/flux-system": (4, "released"),
        "kustomization/flux-system/infrastructure": (4, "released"),
        "node/worker-2": (6, "released"),
        "node/worker-3": (6, "released"),
        "command": (8, "done"),
        "release": (10, "done"),
    }
    failed = scene.run("history", "show", "2", "-o", "markdown").stdout
    assert "```mermaid\ngantt\n" in failed
    assert "First failure: " in failed
    missing = scene.run("history", "show", "7")
    assert missing.code == 2
    assert "no generation 7 on prod" in missing.stderr
    assert "1 to 2" in missing.stderr
