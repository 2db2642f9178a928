"""A Deployment that a deploy breaks, put back by it: real API server, real controllers, a scripted kubelet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters import ensure_namespace
from tests.support.deploys import DeployScene
from tests.support.manifests import deploy, write
from tests.support.realcluster import RealCluster
from tests.support.rollouts import Theatre, until, workload

pytestmark = pytest.mark.real
WEB = "/apis/apps/v1/namespaces/default/deployments/web"


@pytest.fixture(scope="module")
def theatre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    with RealCluster(controllers=True) as real:
        made = Theatre(real, tmp_path_factory.mktemp("theatre"), 1.0)
        made.kubelet.join("n1")
        until(
            lambda: made.cluster.request("GET", "/api/v1/namespaces/default/serviceaccounts/default").status == 200
        )
        made.begin()
        yield made
        made.end()


def web(does: str, **spec: Any) -> Any:
    return workload("Deployment", "web", does, revisionHistoryLimit=0, **spec)


def does(theatre: Theatre) -> str:
    labels = theatre.cluster.get(WEB)["spec"]["template"]["metadata"]["labels"]
    return str(labels["does"])


def test_case_62_deployment_that_crash_loops_is_back_without_any_history_and_by_the_verb_a_paused_one_is_told(
    theatre: Theatre, tmp_path: Path
) -> None:
    """10, with the crash as cause; the recorded state goes back, not a ReplicaSet; a pause is told at once, 18."""
    scene = DeployScene(theatre.cluster, tmp_path, {}, [], {})
    ensure_namespace(theatre.cluster, "flux-system")
    try:
        first = deploy(scene, "-f", write(scene, web("ready")))
        assert first.code == 0, first.text
        broken = deploy(scene, "--rollback", "on-failure", "-f", write(scene, web("crash")))
        assert broken.code == 10, broken.text
        assert does(theatre) == "ready"
        assert theatre.cluster.get(WEB)["status"]["availableReplicas"] == 1
        assert "crash loop" in broken.stderr
        assert "rollback  ✓ generation 1 is back" in broken.stderr
        assert "now     prod runs generation 1" in broken.stderr
        assert scene.record(2)["outcome"] == "rolled-back"
        # A pause that somebody has begun since is his; what is behind it cannot roll out.
        assert deploy(scene, "-f", write(scene, web("ready", progressDeadlineSeconds=300))).code == 0
        theatre.cluster.merge_patch(WEB, {"spec": {"paused": True}}, manager="kubectl-rollout")
        paused = scene.run("rollback", "--yes")
        assert paused.code == 18, paused.text
        assert "deployment/default/web is paused" in paused.stderr
        assert theatre.cluster.get(WEB)["spec"]["progressDeadlineSeconds"] == 600
    finally:
        scene.end()
