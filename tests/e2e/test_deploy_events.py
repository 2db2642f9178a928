"""What `kubectl describe` tells of a deploy without this program: Events on the fenced objects, on both clusters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters import Cluster
from tests.support.deploys import Child, DeployScene

EVENTS = "/api/v1/events"


@pytest.fixture
def scene(clean_cluster: Cluster, tmp_path: Path) -> Iterator[DeployScene]:
    made = DeployScene.on(clean_cluster, tmp_path)
    yield made
    made.end()


def test_described_node_tells_who_fenced_it_and_that_it_was_released(scene: DeployScene) -> None:
    """By the real kubectl, with the holder; the Flux object and the lease have theirs in their own namespace."""
    done = scene.deploy(*scene.fences)
    assert done.code == 0, done.text
    said = scene.cluster.kubectl("describe", "node", "worker-2").stdout
    story = said[said.index("Events:") :]
    assert "Fenced" in story
    assert "Released" in story
    assert "cordoned for deploy 1; holder " in story
    told = {
        (event["involvedObject"]["kind"], event["involvedObject"]["name"], event["reason"])
        for event in scene.cluster.get(EVENTS)["items"]
        if event.get("reportingComponent") == "fencectl.dev/fencectl"
    }
    names = [("Node", "worker-2"), ("Kustomization", "infrastructure"), ("Lease", "fencectl-deploy")]
    assert told >= {(*name, reason) for name in names for reason in ("Fenced", "Released")}


def test_suspended_object_names_its_holder_as_flux_would_show_it(scene: DeployScene) -> None:
    """`suspendedBy`, which Flux's own web UI shows while it is suspended, and no longer."""
    path = next(path for path in scene.before if path.endswith("/kustomizations/infrastructure"))
    child = Child(scene.folder)
    running = scene.start(*scene.fences, command=child.command)
    child.wait_begun(running)
    annotations = scene.cluster.get(path)["metadata"]["annotations"]
    assert annotations["fluxcd.controlplane.io/suspendedBy"] == annotations["fencectl.dev/holder"]
    child.let_end()
    assert running.ended().code == 0
    scene.assert_free()
