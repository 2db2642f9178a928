"""
`deploy -f` as a process, on both clusters: what it applies, what it gives back, what it prunes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fencectl.core.applyset import PART_OF, set_id
from tests.support.clusters import Cluster, ensure_namespace, make_configmap
from tests.support.deploys import DeployScene
from tests.support.manifests import CM, config_map, deploy, names, write

CHILD = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/infrastructure"

LABELS = {"app": "web"}
WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "app", "image": "a"}]}},
    },
}


@pytest.fixture
def scene(clean_cluster: Cluster, tmp_path: Path) -> Iterator[DeployScene]:
    made = DeployScene.on(clean_cluster, tmp_path)
    yield made
    made.end()


def test_manifests_are_applied_inside_the_fences_and_the_table_comes_first(scene: DeployScene) -> None:
    """With our manager; a fenced object without its suspend, which is said; everything is given back."""
    live = scene.cluster.get(CHILD)
    child = {
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": {"name": "infrastructure", "namespace": "flux-system", "labels": {"touched": "yes"}},
        "spec": {"suspend": False},
    }
    make_configmap(scene.cluster, "old", data={"a": "1", "b": "1"}, manager="fencectl-test")
    made = config_map("new", a="1")
    done = deploy(scene, *scene.fences, "--diff", "-f", write(scene, made, child))
    assert done.code == 0, done.text
    said = done.stderr
    assert said.index("+ configmap/default/new") < said.index("lease/flux-system/fencectl-deploy taken")
    assert "~ kustomization/flux-system/infrastructure  1 field" in said
    assert 'metadata.labels.touched: "yes" (new)' in said
    assert "left out, a fence has it: spec.suspend" in said
    assert "kustomization/flux-system/infrastructure is not followed: this run suspends it" in said
    assert "✓ deployed generation 1 to prod" in said
    assert "2 of 2 objects applied, 2 changed: nothing is fenced" in said
    (entry,) = scene.cluster.get(f"{CM}/new")["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("fencectl", "Apply")
    now = scene.cluster.get(CHILD)
    assert now["metadata"]["labels"]["touched"] == "yes"
    assert not now["spec"].get("suspend")
    assert "fencectl.dev/holder" not in now["metadata"].get("annotations", {})
    assert (scene.lease()["holderIdentity"], scene.record()["outcome"]) == ("", "deployed")
    assert scene.record()["command"].startswith("-f ")
    again = deploy(scene, "-o", "json", "-f", write(scene, made))
    assert again.code == 0, again.text
    events = [json.loads(line) for line in again.stdout.splitlines()]
    (table,) = [event for event in events if event["type"] == "changes"]
    assert [(one["object"], one["what"]) for one in table["objects"]] == [("configmap/default/new", "same")]
    assert events[-1]["objects"]["changed"] == 0


def test_case_61_prune_takes_what_is_no_longer_rendered_and_is_withheld_on_too_little(scene: DeployScene) -> None:
    """One of five goes; of four, one or none is rendered: withheld, 15, nothing goes, and no record advances."""
    label = {"labelSelector": f"{PART_OF}={set_id('flux-system', 'fencectl-deploy-applyset')}"}
    make_configmap(scene.cluster, "foreign", data={"a": "1"})
    objects = [config_map(f"cm-{number}") for number in range(5)]
    first = deploy(scene, "--prune", "-f", write(scene, *objects))
    assert first.code == 0, first.text
    assert len(scene.cluster.get(CM, **label)["items"]) == 5
    second = deploy(scene, "--prune", "-f", write(scene, *objects[:4]))
    assert second.code == 0, second.text
    assert "- configmap/default/cm-4  no longer rendered: pruned" in second.stderr
    assert names(scene) == ["cm-0", "cm-1", "cm-2", "cm-3", "foreign"]
    third = deploy(scene, "--prune", "-f", write(scene, objects[0]))
    assert third.code == 15, third.text
    assert "the render has shrunk by more than half (1 rendered, 4 in the set)" in third.stderr
    assert scene.record(3)["outcome"] != "deployed"
    nothing = deploy(scene, "--prune", "-f", write(scene))
    assert nothing.code == 15, nothing.text
    assert "nothing was rendered (0 rendered, 4 in the set)" in nothing.stderr
    assert names(scene) == ["cm-0", "cm-1", "cm-2", "cm-3", "foreign"]
    # A deploy that does not prune takes nothing out of the set.
    assert deploy(scene, "-f", write(scene, *objects[:2])).code == 0
    assert len(scene.cluster.get(CM, **label)["items"]) == 4
    allowed = deploy(scene, "--prune", "--allow-partial-prune", "-f", write(scene, objects[0]))
    assert allowed.code == 0, allowed.text
    assert names(scene) == ["cm-0", "foreign"]


def test_kubectl_knows_the_set_as_one_of_another_tool(scene: DeployScene) -> None:
    """The id is the one that kubectl computes: it gets as far as the tooling, which it leaves alone."""
    path = write(scene, config_map("cm-0"))
    assert deploy(scene, "--prune", "-f", path).code == 0
    parent = "configmaps/fencectl-deploy-applyset"
    done = scene.cluster.kubectl(
        "apply",
        "--prune",
        "--applyset",
        parent,
        "-n",
        "flux-system",
        "-f",
        path,
        check=False,
        env={"KUBECTL_APPLYSET": "true"},
    )
    assert done.returncode != 0
    assert "fencectl" in done.stderr, done.stderr
    assert "tooling" in done.stderr


def test_stdin_is_applied_to_the_namespace_that_is_asked_for(scene: DeployScene) -> None:
    """`-n` for what names none; an object that names another one is refused."""
    ensure_namespace(scene.cluster, "elsewhere")
    made = yaml.safe_dump(config_map("new")).encode()
    done = deploy(scene, "-n", "elsewhere", "-f", "-", stdin=made)
    assert done.code == 0, done.text
    assert scene.cluster.get("/api/v1/namespaces/elsewhere/configmaps/new")["data"] == {"a": "1"}
    other = {**config_map("x"), "metadata": {"name": "x", "namespace": "default"}}
    refused = deploy(scene, "-n", "elsewhere", "-f", "-", stdin=yaml.safe_dump(other).encode())
    assert refused.code == 2, refused.text
    assert "stdin:1: configmap/default/x names the namespace default, and `-n` says elsewhere" in refused.stderr


def test_prune_is_withheld_where_a_list_is_forbidden(sandbox_cluster: Cluster, tmp_path: Path) -> None:
    """Half-way: what is applied stays, nothing goes, 15, and the record does not advance."""
    scene = DeployScene.on(sandbox_cluster, tmp_path)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "MQ=="}}
    assert deploy(scene, "--prune", "-f", write(scene, config_map("a"), config_map("b"), secret)).code == 0
    sandbox_cluster.sandbox.faults.refuse(verb="list", resource="secrets", status=403)
    done = deploy(scene, "--prune", "-f", write(scene, config_map("a"), secret))
    assert done.code == 15, done.text
    assert "prune withheld: Secret in default could not be listed: forbidden" in done.stderr
    assert names(scene) == ["a", "b"]
    assert scene.record(2)["outcome"] != "deployed"
    sandbox_cluster.sandbox.faults.clear()
    later = deploy(scene, "--prune", "-f", write(scene, config_map("a"), secret))
    assert later.code == 0, later.text
    assert names(scene) == ["a"]


def test_conflict_is_forced_only_where_that_is_asked_for(sandbox_cluster: Cluster, tmp_path: Path) -> None:
    """The field is ours then."""
    scene = DeployScene.on(sandbox_cluster, tmp_path)
    make_configmap(scene.cluster, "shared", data={"a": "theirs"}, manager="helm")
    path = write(scene, config_map("shared", a="ours"))
    assert deploy(scene, "-f", path).code == 10
    forced = deploy(scene, "--force-conflicts", "-f", path)
    assert forced.code == 0, forced.text
    assert scene.cluster.get(f"{CM}/shared")["data"] == {"a": "ours"}


def test_kind_and_its_object_come_with_one_deploy(scene: DeployScene) -> None:
    """The definition is served before its object is applied; without a status it is done once it is there."""
    kind = scene.cluster.unique("Widget").replace("-", "").capitalize()
    plural = kind.lower()
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.acme.io"},
        "spec": {
            "group": "acme.io",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": plural, "listKind": f"{kind}List"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                    },
                }
            ],
        },
    }
    made = {"apiVersion": "acme.io/v1", "kind": kind, "metadata": {"name": "w"}, "spec": {"size": 1}}
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.acme.io"
    try:
        done = deploy(scene, "-f", write(scene, made, crd))
        assert done.code == 0, done.text
        assert f"? {plural}/default/w" in done.stderr
        assert f"its kind comes with {plural}.acme.io" in done.stderr
        assert scene.cluster.get(f"/apis/acme.io/v1/namespaces/default/{plural}/w")["spec"] == {"size": 1}
    finally:
        scene.cluster.request("DELETE", path)


def test_what_does_not_come_up_in_time_is_18_with_a_block_that_names_it(
    sandbox_cluster: Cluster, tmp_path: Path
) -> None:
    """Nobody rolls it out here: the new state is live, nothing is fenced, and no record says `deployed`."""
    scene = DeployScene.on(sandbox_cluster, tmp_path)
    (tmp_path / "fencectl.yaml").write_text("apiVersion: fencectl.dev/v1\nkind: Config\nfollow: {timeout: 2s}\n")
    done = deploy(scene, *scene.fences, "-f", write(scene, WEB, config_map("new")))
    assert done.code == 18, done.text
    last = done.stderr[done.stderr.index("✗ deploy failed on prod") :]
    assert "1 of 2 objects timed out, 1 succeeded" in last
    assert "deployment/default/web  timed out: " in last
    assert "now     nothing is fenced" in last
    assert scene.record()["outcome"] != "deployed"
    scene.assert_free()


def test_server_that_fails_and_then_refuses_while_it_is_followed_ends_as_unknown(
    sandbox_cluster: Cluster, tmp_path: Path
) -> None:
    """Three times 503 are waited out, one 403 is not: 15, never 0; everything is given back, no record says `deployed`."""
    scene = DeployScene.on(sandbox_cluster, tmp_path)
    faults = sandbox_cluster.sandbox.faults
    failing = faults.refuse(status=503, verb="list", resource="deployments", times=3)
    faults.refuse(status=403, verb="list", resource="deployments")
    done = deploy(scene, *scene.fences, "-f", write(scene, WEB, config_map("new")))
    assert done.code == 15, done.text
    assert failing.hits == 3
    last = done.stderr[done.stderr.index("1 of 2 objects unknown, 1 succeeded") :]
    assert "deployment/default/web  unknown: it cannot be read: forbidden" in last
    assert scene.record()["outcome"] != "deployed"
    scene.assert_free()


def test_secret_that_changes_is_named_and_never_shown(sandbox_cluster: Cluster, tmp_path: Path) -> None:
    """Neither in the table, nor as data, nor in the record."""
    scene = DeployScene.on(sandbox_cluster, tmp_path)

    def secret(value: str) -> str:
        data = base64.b64encode(value.encode()).decode()
        return write(scene, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"p": data}})

    assert deploy(scene, "-f", secret("hunter2-old")).code == 0
    shown = deploy(scene, "--dry-run", "--diff", "-f", secret("hunter2-new"))
    data = deploy(scene, "-o", "json", "--diff", "-f", secret("hunter2-new"))
    assert (shown.code, data.code) == (0, 0), shown.text + data.text
    assert "data.p: (hidden) → (hidden)" in shown.stdout
    revisions = [scene.record(generation)["holder"].partition("-")[0] for generation in (1, 2)]
    assert len({*revisions, "0" * 16}) == 3  # without a commit it is the digest of what was rendered
    everything = shown.text + data.text + json.dumps(scene.cluster.get("/api/v1/configmaps"))
    for value in ("hunter2-old", "hunter2-new"):
        assert value not in everything
        assert base64.b64encode(value.encode()).decode() not in everything


def test_flux_takes_a_revision_inside_the_fences(sandbox_cluster: Cluster, tmp_path: Path) -> None:
    """Suspended while the node is fenced, resumed for step 8, followed; the dry run says so beforehand."""
    scene = DeployScene.on(sandbox_cluster, tmp_path)
    flux = ("--flux", "kustomization/flux-system/infrastructure", "--node", "worker-2")
    plan = deploy(scene, "--dry-run", *flux, "--revision", "main@sha1:9be1c04")
    assert plan.code == 0, plan.text
    assert (
        "   8  resume kustomization/flux-system/infrastructure and kustomization/flux-system/flux-system,"
        " and follow main@sha1:9be1c04"
    ) in plan.stdout
    done = deploy(scene, *flux)
    assert done.code == 0, done.text
    said = done.stderr
    assert said.index("4  drained") < said.index("8  resumed kustomization/flux-system/infrastructure")
    assert said.index("8  resumed kustomization/flux-system/flux-system") < said.index("✓ deployed generation 1")
    assert scene.record()["command"] == "--flux kustomization/flux-system/infrastructure"
    scene.assert_free()
    never = deploy(scene, *flux, "--revision", "main@sha1:9be1c04", "--timeout", "2s")
    assert never.code == 18, never.text
    assert "suspends them again" in never.stderr
    assert scene.now() == scene.before
