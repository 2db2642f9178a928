"""Manifests of tests, and deploys of them."""

from __future__ import annotations

from typing import Any

import yaml

from tests.support.deploys import LEASE_PATH, DeployScene
from tests.support.program import Ran

CM = "/api/v1/namespaces/default/configmaps"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data or {"a": "1"}}


def write(scene: DeployScene, *objects: Any, name: str = "app.yaml") -> str:
    path = scene.folder / name
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def deploy(scene: DeployScene, *arguments: str, **more: Any) -> Ran:
    return scene.start(*arguments, payload=False, **more).ended()


def names(scene: DeployScene) -> list[str]:
    """The ConfigMaps of the tests in the default namespace."""
    return sorted(
        item["metadata"]["name"]
        for item in scene.cluster.get(CM)["items"]
        if item["metadata"]["name"] != "kube-root-ca.crt"
    )


def no_lease(scene: DeployScene) -> bool:
    return scene.cluster.request("GET", LEASE_PATH).status == 404
