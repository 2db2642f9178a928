"""
`deploy -f` as a process, on both clusters.

Aspects: broken input reads nothing · dry run · conflicts and refusals before the first write · forms.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.clusters import Cluster, make_configmap
from tests.support.deploys import DeployScene
from tests.support.manifests import CM, config_map, deploy, names, no_lease, write


@pytest.fixture
def scene(clean_cluster: Cluster, tmp_path: Path) -> Iterator[DeployScene]:
    made = DeployScene.on(clean_cluster, tmp_path)
    yield made
    made.end()


def test_manifest_that_is_broken_in_the_last_file_reads_and_changes_nothing(
    sandbox_cluster: Cluster, tmp_path: Path
) -> None:
    """Exit 2, with file, line and what; not one request was sent, and no record advances."""
    scene = DeployScene.on(sandbox_cluster, tmp_path)
    folder = tmp_path / "app"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.yaml").write_text(yaml.safe_dump(config_map(f"cm-{number}")))
    (folder / "9.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  name: y\n")
    before = len(sandbox_cluster.sandbox.requests)
    done = deploy(scene, "-f", str(folder))
    assert done.code == 2, done.text
    assert f"{folder}/9.yaml:5: duplicate key, first on line 4" in done.stderr
    assert "Nothing was read or changed" in done.stderr
    assert len(sandbox_cluster.sandbox.requests) == before


def test_dry_run_tries_every_object_and_changes_nothing(scene: DeployScene) -> None:
    """No lease is taken; created and changed are told, with the fields; `=server` is taken too."""
    make_configmap(scene.cluster, "there", data={"a": "1"}, manager="fencectl")
    before = scene.cluster.get(f"{CM}/there")
    path = write(scene, config_map("there", b="2"), config_map("new"))
    done = deploy(scene, "--dry-run=server", "--diff", "-f", path)
    assert done.code == 0, done.text
    assert "prod: 2 objects: 1 new, 1 changed" in done.stdout
    assert 'data.b: "2" (new)' in done.stdout
    assert "   8  apply and follow 2 objects: 1 new, 1 changed" in done.stdout
    assert "nothing was changed" in done.stderr
    assert scene.cluster.get(f"{CM}/there") == before
    assert names(scene) == ["there"]
    assert no_lease(scene)


def test_conflict_names_manager_and_field_before_anything_is_fenced(scene: DeployScene) -> None:
    """10, nothing changed."""
    make_configmap(scene.cluster, "shared", data={"a": "theirs"}, manager="helm")
    path = write(scene, config_map("new"), config_map("shared", a="ours"))
    done = deploy(scene, *scene.fences, "-f", path)
    assert done.code == 10, done.text
    assert "! configmap/default/shared  conflict: `helm` owns data.a" in done.stderr
    assert "fields belong to others (10)" in done.stderr
    assert (names(scene), scene.now()) == (["shared"], scene.before)
    assert no_lease(scene)


def test_object_that_the_server_refuses_is_found_before_the_first_write(scene: DeployScene) -> None:
    """A field that the kind has not: 10, with the manifest's place; no word of a Secret's data."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "dataa": {"p": "hunter2"}}
    done = deploy(scene, "-f", write(scene, config_map("new"), secret))
    assert done.code == 10, done.text
    assert "! secret/default/s" in done.stderr
    assert "app.yaml:" in done.stderr
    assert "hunter2" not in done.text
    assert names(scene) == []
    assert no_lease(scene)


def test_own_lease_among_the_manifests_is_refused(sandbox_cluster: Cluster, tmp_path: Path) -> None:
    """What the deploy stands on is not for a manifest to write."""
    scene = DeployScene.on(sandbox_cluster, tmp_path)
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "fencectl-deploy", "namespace": "flux-system"},
        "spec": {"holderIdentity": "x"},
    }
    done = deploy(scene, "-f", write(scene, lease))
    assert done.code == 2, done.text
    assert "lease/flux-system/fencectl-deploy is what this deploy itself stands on" in done.stderr
    assert no_lease(scene)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "deploy needs manifests, `--flux` or a command"),
        (
            ("-f", "x.yaml", "y.yaml"),
            "deploy takes manifests, `--flux` or a command, and got manifests and the command `y.yaml`",
        ),
        (("--prune", "--", "true"), "`--prune` is about manifests, and there are none"),
        (("--allow-partial-prune", "-f", "x.yaml"), "`--allow-partial-prune` goes with `--prune`"),
        (("-f", "/nowhere.yaml"), "/nowhere.yaml: No such file or directory"),
        (("--flux", "kustomization/a/b", "-f", "x.yaml"), "and got manifests and `--flux`"),
        (("--flux", "apps"), "`apps` is not `kind/NAMESPACE/NAME`"),
        (("--revision", "main", "--", "true"), "`--revision` goes with `--flux`"),
        (("-f", ""), "`--filename` is empty"),
    ],
)
def test_forms_exclude_each_other(
    sandbox_cluster: Cluster, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    """Exactly one: else 2, and nothing was read."""
    scene = DeployScene.on(sandbox_cluster, tmp_path)
    before = len(sandbox_cluster.sandbox.requests)
    done = deploy(scene, *arguments)
    assert (done.code, sentence in done.stderr) == (2, True), done.text
    assert len(sandbox_cluster.sandbox.requests) == before
