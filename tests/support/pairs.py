"""Two clusters as the targets of one deploy, `a` and `b`, each with the same things to fence on it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.clusters import Cluster
from tests.support.deploys import HASTY, LEASE_PATH, RECORD_PATH, DeployScene, Running
from tests.support.program import Ran

BOTH = ("--context", "a", "--context", "b")
# Without a controller there is no drain proof, and one of the two may be a real server.
FENCES = (
    "--suspend", "kustomization/flux-system/infrastructure", "--node", "worker-2", "--node", "worker-3",
    "--drain-timeout", "0s",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pair:
    """Two scenes, in one kubeconfig; what is started is started once, for both."""

    a: DeployScene
    b: DeployScene
    folder: Path

    @classmethod
    def of(cls, first: Cluster, second: Cluster, folder: Path) -> Pair:
        a, b = DeployScene.on(first, folder), DeployScene.on(second, folder)
        path = folder / "both.kubeconfig"
        path.write_text(merged(a=first, b=second))
        a.env["KUBECONFIG"] = str(path)
        return cls(a, b, folder)

    def start(self, *arguments: str, contexts: Sequence[str] = BOTH, **more: Any) -> Running:
        """Start a deploy on both."""
        return self.a.start(*contexts, *arguments, **more)

    def deploy(self, *arguments: str, contexts: Sequence[str] = BOTH, **more: Any) -> Ran:
        """Run one to its end."""
        return self.start(*arguments, contexts=contexts, **more).ended()

    def run(self, *arguments: str, module: str = HASTY) -> Ran:
        """Run another verb."""
        return self.a.run(*arguments, module=module)

    def end(self) -> None:
        self.a.end()


def merged(**clusters: Cluster) -> str:
    """One kubeconfig with a context for each. NB: in a list of files, users of one name would be one user."""
    found: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}
    for name, cluster in clusters.items():
        own = yaml.safe_load(cluster.kubeconfig_file(context=name).read_text())
        found["clusters"].append({**own["clusters"][0], "name": name})
        found["users"].append({**own["users"][0], "name": name})
        found["contexts"].append({"name": name, "context": {"cluster": name, "user": name}})
    return json.dumps(found)


def assert_never_begun(scene: DeployScene) -> None:
    """Everything is as it was, and no deploy of this target ever took its lease or was recorded."""
    assert scene.now() == scene.before
    assert scene.cluster.request("GET", LEASE_PATH).status == 404
    answer = scene.cluster.request("GET", RECORD_PATH)
    assert answer.status == 404 or not [key for key in answer.json()["data"] if key.startswith("record-")]
