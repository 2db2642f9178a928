"""
Recovery points as a process, on both clusters: taken by `deploy`, shown by `history`, read with kubectl alone.

The rights are those that `doctor` prints, on the real RBAC.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencectl.core.recovery_point import RECOVERY
from tests.e2e.test_doctor import USER, grant_printed, run
from tests.support.clusters import Cluster, ensure_namespace, make_kustomization, path_of
from tests.support.deploys import DeployScene
from tests.support.fencing import essence, state
from tests.support.manifests import config_map, deploy, write

SECRETS = "/api/v1/namespaces/flux-system/secrets"
VALUE, NEW = "canary-of-the-old-secret", "canary-of-the-new-secret"


@pytest.fixture
def scene(clean_cluster: Cluster, tmp_path: Path) -> Iterator[DeployScene]:
    made = DeployScene.on(clean_cluster, tmp_path)
    yield made
    made.end()


def secret(value: str) -> dict[str, object]:
    data = {"password": base64.b64encode(value.encode()).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db", "namespace": "default"}, "data": data}


def test_point_holds_what_ran_before_and_nothing_else_tells_a_secrets_contents(scene: DeployScene) -> None:
    """Three are kept of four; each is text that `gunzip` gives back, whose digest the record knows."""
    said = []
    for number, value in enumerate((VALUE, NEW, NEW, NEW), 1):
        done = deploy(scene, "-v", "--diff", "-f", write(scene, secret(value), config_map("a", a=str(number))))
        assert done.code == 0, done.text
        assert f"  5  recovery point {number}: 2 objects" in done.stderr
        said.append(done.text)
    parts = scene.cluster.get(SECRETS)["items"]
    own = {one["metadata"]["name"]: one for one in parts if one.get("type") == RECOVERY}
    assert sorted(own) == [f"fencectl-deploy-recovery-{number}-0" for number in (2, 3, 4)]
    data = base64.b64decode(own["fencectl-deploy-recovery-2-0"]["data"]["part"])
    assert hashlib.sha256(data).hexdigest() == scene.record(2)["recovery"]["digest"]
    point = json.loads(gzip.decompress(data))
    before = {one["ref"]["kind"]: one["before"] for one in point["objects"]}
    assert before["ConfigMap"]["data"] == {"a": "1"}
    assert base64.b64decode(before["Secret"]["data"]["password"]).decode() == VALUE
    shown = scene.run("history", "show", "2", "-v")
    assert shown.code == 0, shown.text
    size = scene.record(2)["recovery"]["bytes"]
    assert f"recovery point  2 objects, {size} bytes" in shown.stdout
    assert "2 objects" in scene.run("history", "show", "1").stdout
    assert "no longer kept" in scene.run("history", "show", "1").stdout
    said += [shown.text, scene.run("history", "show", "2", "-o", "json").text, json.dumps(scene.record(2))]
    for value in (VALUE, NEW, *(base64.b64encode(one.encode()).decode() for one in (VALUE, NEW))):
        assert not [text for text in said if value in text]
    scene.assert_free(token=4)


@pytest.mark.parametrize("verb", ["create", "list"])
def test_role_without_a_verb_for_secrets_changes_nothing_and_works_once_it_is_granted(
    clean_cluster: Cluster, tmp_path: Path, verb: str
) -> None:
    """Which verb is missing is said; the deploy of before runs once the role is whole."""
    cluster = clean_cluster
    ensure_namespace(cluster, "flux-system")
    grant_printed(cluster, tmp_path, "deploy", without=(verb, "secrets"))
    fenced = make_kustomization(cluster, "apps")
    before = {path_of(fenced): essence(fenced)}
    marker = tmp_path / "ran"
    line = ("--suspend", "kustomization/flux-system/apps", "--drain-timeout", "0s", "--", "touch", str(marker))
    done = run(cluster, tmp_path, "deploy", *line, user=USER)
    assert state(cluster, *before) == before
    assert done.code == 21, done.text
    assert f"`{verb}` secrets (namespace flux-system)" in done.stderr
    assert "Nothing was changed" in done.stderr
    assert not marker.exists()
    grant_printed(cluster, tmp_path, "deploy")
    again = run(cluster, tmp_path, "deploy", *line, user=USER)
    assert again.code == 0, again.text
    assert marker.exists()
