"""
Deploys beside Flux's real kustomize-controller, on a real API server: a parent that applies a child that applies a
ConfigMap, from a source whose artifacts the test serves.

Aspects: killed at each fence, recovered, and the right revision follows · a parent that would undo the child's
suspension · fields written under a manager's name that Flux takes over (case_26) · somebody's `flux resume`, `flux
suspend` and `kubectl cordon` in between · a new revision followed to applied, with prune · the drain proof of a
reconcile in flight.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.between import Between, Drop, Write
from tests.support.clusters import KUSTOMIZE, Cluster, Raw, expect, make_kustomization, make_node, managers_of
from tests.support.deploys import LEASE_PATH, Child, DeployScene, Running, wait_until
from tests.support.flux_source import NAMESPACE, Source
from tests.support.program import run_shell
from tests.support.realcluster import RealCluster

pytestmark = pytest.mark.real

FLUX = f"{KUSTOMIZE}/namespaces/{NAMESPACE}/kustomizations"
ROOT, APPS = f"{FLUX}/root", f"{FLUX}/apps"
MADE = "/api/v1/namespaces/default/configmaps/made"
EXTRA = "/api/v1/namespaces/default/configmaps/extra"
SUSPEND = ("--suspend", f"kustomization/{NAMESPACE}/apps")
HOLDER = "fencectl.dev/holder"
RECONCILE = "kustomize.toolkit.fluxcd.io/reconcile"
KUBECTL = ("kubectl", "-n", NAMESPACE, "get", "kustomization", "apps")
WEB_PATH = "/apis/apps/v1/namespaces/default/deployments/slow"
WEB = """apiVersion: apps/v1
kind: Deployment
metadata: {name: slow, namespace: default}
spec:
  selector: {matchLabels: {app: slow}}
  template:
    metadata: {labels: {app: slow}}
    spec: {containers: [{name: app, image: example.com/slow}]}
"""
# NB: a revision is never offered twice, or the controller would take it for what it has.
NUMBERS = itertools.count(1)


def child(path: str = "./apps", *, suspend: bool | None = None, interval: str = "10m", more: str = "") -> str:
    """Write the manifest of the child, as it stands in Git."""
    line = "" if suspend is None else f"  suspend: {str(suspend).lower()}\n"
    return (
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n"
        f"metadata: {{name: apps, namespace: {NAMESPACE}}}\n"
        f"spec:\n  interval: {interval}\n  retryInterval: 1s\n  prune: true\n  path: {path}\n"
        f"  sourceRef: {{kind: GitRepository, name: repo}}\n{line}{more}"
    )


def config_map(name: str, value: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default}}\ndata: {{v: '{value}'}}\n"


@dataclass
class Scene:
    """The controller at work, a source, and deploys that fence what it reconciles."""

    deploys: DeployScene
    source: Source

    @property
    def cluster(self) -> Cluster:
        return self.source.cluster

    def publish(self, *, extra: bool = False, also: Mapping[str, str] | None = None, **of_child: Any) -> str:
        """Offer a new revision whose ConfigMap tells its number."""
        number = next(NUMBERS)
        files = {"root/apps.yaml": child(**of_child), "apps/made.yaml": config_map("made", str(number))}
        files |= also or {}
        if extra:
            files["apps/extra.yaml"] = config_map("extra", str(number))
        return self.source.publish(f"{number:040x}", files)

    def get(self, path: str) -> Raw:
        return self.cluster.get(path)

    def applied(self, path: str) -> Any:
        """What revision a Kustomization has applied; None: none, or it is not there."""
        answer = self.cluster.request("GET", path)
        return answer.json().get("status", {}).get("lastAppliedRevision") if answer.status == 200 else None

    def wait_applied(self, revision: str) -> None:
        """Wait until the parent and the child have applied it, and the ConfigMap tells it."""
        wait_until(lambda: self.applied(ROOT) == revision, f"the parent has applied {revision}")
        wait_until(lambda: self.applied(APPS) == revision, f"the child has applied {revision}")
        assert self.get(MADE)["data"] == {"v": str(int(revision.rpartition(":")[2], 16))}

    def is_fenced(self, path: str) -> bool:
        raw = self.get(path)
        return HOLDER in raw["metadata"].get("annotations", {}) and raw["spec"].get("suspend") is True

    def kill(self, running: Running) -> None:
        running.kill()
        self.deploys.age_lease()


@pytest.fixture(scope="module")
def controller(real_cluster: RealCluster, real_handle: Cluster) -> Iterator[Source]:
    """Run kustomize-controller over a source for the tests of this module."""
    real_handle.wipe(everything=True)
    source = Source(real_handle)
    program = real_cluster.start_kustomize_controller()
    yield source
    real_cluster.stop_program(program)
    source.close()
    real_handle.wipe(everything=True)


@pytest.fixture
def scene(controller: Source, tmp_path: Path) -> Iterator[Scene]:
    cluster = controller.cluster
    made = Scene(DeployScene(cluster, tmp_path, {}, [], {}), controller)
    first = made.publish()
    reference = {"kind": "GitRepository", "name": "repo"}
    make_kustomization(cluster, "root", spec={"path": "./root", "retryInterval": "1s", "sourceRef": reference})
    made.wait_applied(first)
    yield made
    made.deploys.end()
    for path in (ROOT, APPS):  # NB: a suspended object leaves behind what it has applied
        cluster.merge_patch(path, {"spec": {"suspend": False}, "metadata": {"annotations": None}}, manager="test")
        cluster.request("DELETE", path)
        wait_until(partial(_is_gone, cluster, path), "it is gone")
    for path in (MADE, EXTRA, WEB_PATH, LEASE_PATH):
        cluster.request("DELETE", path)
    cluster.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/configmaps/fencectl-deploy-record")


def _is_gone(cluster: Cluster, path: str) -> bool:
    return cluster.request("GET", path).status == 404


def is_suspension_of(write: Write, path: str, *, released: bool = False) -> bool:
    wanted = any(op["op"] == "test" and op["path"] == "/spec/suspend" and op["value"] is True for op in write.ops)
    return write.path.partition("?")[0] == path and wanted is released


KILLED_AFTER: dict[str, Callable[[Write], bool]] = {
    "the-lease": lambda write: write.resource == "leases",
    "the-record": lambda write: write.resource == "configmaps",
    "the-parent": lambda write: is_suspension_of(write, ROOT),
    "the-child": lambda write: is_suspension_of(write, APPS),
    "the-release-of-the-child": lambda write: is_suspension_of(write, APPS, released=True),
    "the-release-of-the-parent": lambda write: is_suspension_of(write, ROOT, released=True),
}


@pytest.mark.parametrize("fence", KILLED_AFTER)
def test_killed_at_a_fence_is_reported_and_recovered_and_flux_applies_what_came_meanwhile(
    scene: Scene, tmp_path: Path, fence: str
) -> None:
    """Nothing is applied while both are fenced; after the recovery parent and child go on with the new revision."""
    deploys, struck = scene.deploys, list[int]()

    def after(write: Write) -> None:
        if not struck and KILLED_AFTER[fence](write):
            struck.append(write.number)
            os.kill(wait_until(lambda: deploys.started, "it was started")[0].pid, signal.SIGKILL)
            raise Drop

    with Between(scene.cluster, after=after) as between:
        running = deploys.start(*SUSPEND, env={"KUBECONFIG": str(between.kubeconfig(tmp_path))})
        running.process.wait(60)
    assert struck, running.said
    deploys.age_lease()
    fenced = [path for path in (ROOT, APPS) if scene.is_fenced(path)]
    newest = scene.publish()

    shown = deploys.run("fences", "-o", "json").json
    assert {fence["verdict"] for fence in shown["fences"]} == {"dead"}
    assert [one["object"]["name"] for one in shown["fences"] if one["kind"] == "suspension"] == [
        path.rpartition("/")[2] for path in reversed(fenced)
    ]
    if ROOT in fenced:
        assert scene.applied(ROOT) != newest
    done = deploys.run("recover", "--yes")
    assert done.code == 0, done.text

    scene.wait_applied(newest)
    assert not scene.is_fenced(ROOT)
    assert not scene.is_fenced(APPS)
    assert RECONCILE not in scene.get(APPS)["metadata"].get("annotations", {})
    assert deploys.run("fences").stdout.count("no fence is held") == 1


def test_resumed_parent_does_not_undo_the_suspension_of_its_child(scene: Scene, tmp_path: Path) -> None:
    """Git says `suspend: false` of the child, and somebody runs `flux resume` on the parent in between."""
    deploys, payload = scene.deploys, Child(tmp_path)
    scene.wait_applied(scene.publish(suspend=False))
    running = deploys.start(*SUSPEND, command=payload.command)
    payload.wait_begun(running)
    newest = scene.publish(suspend=False)

    expect(scene.cluster.merge_patch(ROOT, {"spec": {"suspend": None}}, manager="flux"), 200)
    wait_until(lambda: scene.applied(ROOT) == newest, "the parent has applied the new revision")
    assert scene.is_fenced(APPS)
    assert scene.applied(APPS) != newest

    ended = running.ended()
    assert ended.code == 18, ended.text
    said = " ".join(ended.stderr.split())
    assert (
        f"the fence on kustomization/{NAMESPACE}/root was changed by somebody else: spec.suspend was true" in said
    )
    scene.wait_applied(newest)
    assert "no fence is held" in deploys.run("fences").stdout


def test_plain_patches_of_other_tools_that_change_nothing_leave_a_deploy_alone(
    scene: Scene, tmp_path: Path
) -> None:
    """`flux suspend` of what is suspended, `kubectl cordon` of what is cordoned: no trace of either is left."""
    deploys, payload = scene.deploys, Child(tmp_path)
    node = make_node(scene.cluster)["metadata"]["name"]
    running = deploys.start(*SUSPEND, "--node", node, command=payload.command)
    payload.wait_begun(running)
    scene.cluster.kubectl("cordon", node)
    for path in (ROOT, APPS):
        expect(scene.cluster.merge_patch(path, {"spec": {"suspend": True}}, manager="flux"), 200)
    newest = scene.publish()
    payload.let_end()

    ended = running.ended()
    assert ended.code == 0, ended.text
    scene.wait_applied(newest)
    assert scene.get(f"/api/v1/nodes/{node}")["spec"].get("unschedulable") is None
    assert "no fence is held" in deploys.run("fences").stdout


def test_what_other_tools_have_lifted_of_a_killed_deploy_is_released_without_being_fenced_again(
    scene: Scene, tmp_path: Path
) -> None:
    """`flux resume` and `kubectl uncordon` before the recovery: only the marks go, by `sh` and the real kubectl."""
    deploys, payload = scene.deploys, Child(tmp_path)
    node = make_node(scene.cluster)["metadata"]["name"]
    running = deploys.start(*SUSPEND, "--node", node, command=payload.command)
    payload.wait_begun(running)
    scene.kill(running)
    scene.cluster.kubectl("uncordon", node)
    for path in (ROOT, APPS):
        expect(scene.cluster.merge_patch(path, {"spec": {"suspend": None}}, manager="flux"), 200)
    newest = scene.publish()
    wait_until(lambda: scene.applied(ROOT) == newest, "the parent goes on")

    shown = deploys.run("fences")
    done = run_shell(scene.cluster, "set -e\n" + "\n".join(shown.commands))
    assert done.code == 0, done.text
    scene.wait_applied(newest)
    assert HOLDER not in scene.get(f"/api/v1/nodes/{node}")["metadata"].get("annotations", {})
    assert RECONCILE not in scene.get(APPS)["metadata"].get("annotations", {})
    assert "no fence is held" in deploys.run("fences").stdout


def test_revision_that_flux_takes_inside_of_a_deploy_is_followed_until_it_is_applied_and_prunes(
    scene: Scene, tmp_path: Path
) -> None:
    """It is published only once all is suspended; what it does not render any more is gone at the end."""
    scene.wait_applied(scene.publish(extra=True))
    assert scene.get(EXTRA)
    published: list[str] = []

    def after(write: Write) -> None:
        if not published and is_suspension_of(write, APPS):
            published.append(scene.publish())

    number = next(NUMBERS) + 1
    with Between(scene.cluster, after=after) as between:
        ended = scene.deploys.deploy(
            "--flux",
            f"kustomization/{NAMESPACE}/apps",
            "--revision",
            f"{number:040x}",
            payload=False,
            env={"KUBECONFIG": str(between.kubeconfig(tmp_path))},
        )
    assert ended.code == 0, ended.text
    assert published == [f"main@sha1:{number:040x}"]
    scene.wait_applied(published[0])
    assert scene.cluster.request("GET", EXTRA).status == 404
    assert "no fence is held" in scene.deploys.run("fences").stdout


def test_deploy_begins_only_after_the_reconcile_that_was_in_flight_has_ended(scene: Scene, tmp_path: Path) -> None:
    """A health check that never comes true keeps it busy; a suspension alone would not have stopped it."""
    slow = "  wait: true\n  timeout: 3s\n"
    newest = scene.publish(more=slow, path="./slow", also={"slow/web.yaml": WEB})
    wait_until(lambda: _condition(scene.get(APPS), "Reconciling").get("reason") == "Progressing", "it is busy")
    wait_until(lambda: scene.cluster.request("GET", WEB_PATH).status == 200, "its objects are applied")

    ended = scene.deploys.deploy(*SUSPEND, command=(*KUBECTL, "-o", "jsonpath={.status}"))

    assert ended.code == 0, ended.text
    status = json.loads(ended.stdout)
    reasons = {one["type"]: one["reason"] for one in status["conditions"]}
    assert reasons["Ready"] == "HealthCheckFailed", "the old reconcile had ended before the command ran"
    assert status["lastAttemptedRevision"] == newest
    assert status["lastHandledReconcileAt"]


def _condition(raw: Raw, name: str) -> Raw:
    found: list[Raw] = [one for one in raw.get("status", {}).get("conditions", []) if one["type"] == name]
    return found[0] if found else {}


ROWS = {
    "ours-without-a-word-in-git": ("fencectl", True, None, (True, True)),
    "ours-not-disabled-without-a-word-in-git": ("fencectl", False, None, (True, True)),
    "ours-not-disabled-against-git": ("fencectl", False, False, (None, True)),
    "ours-against-git": ("fencectl", True, False, (True, True)),
    "kubectls-not-disabled": ("kubectl-patch", False, None, (None, False)),
}


@pytest.mark.parametrize("row", ROWS)
def test_case_26_what_a_reconciling_parent_leaves_of_a_suspension(scene: Scene, row: str) -> None:
    """
    By field manager, with and without `reconcile: disabled`, and by what Git says: (suspend, marks) that are left.

    So a mark is written by a manager of its own name, and never without that annotation where a parent applies it.
    """
    manager, is_disabled, in_git, (suspend, marks) = ROWS[row]
    scene.wait_applied(scene.publish(suspend=in_git))
    notes = {HOLDER: "somebody"} | ({RECONCILE: "disabled"} if is_disabled else {})
    patch = {"metadata": {"annotations": notes}, "spec": {"suspend": True}}
    expect(scene.cluster.merge_patch(APPS, patch, manager=manager), 200)

    newest = scene.publish(suspend=in_git, interval="11m")
    wait_until(lambda: scene.applied(ROOT) == newest, "the parent has applied the new revision")

    left = scene.get(APPS)
    assert left["spec"].get("suspend") or None is suspend
    assert (HOLDER in left["metadata"].get("annotations", {})) is marks


def test_case_26_placed_and_released_by_the_real_kubectl_under_our_name_survives_the_parent(
    scene: Scene, tmp_path: Path
) -> None:
    """What the deploy placed and what `sh` releases have one manager, which is none that Flux takes over from."""
    deploys, payload = scene.deploys, Child(tmp_path)
    running = deploys.start(*SUSPEND, command=payload.command)
    payload.wait_begun(running)
    assert "fencectl" in managers_of(scene.get(APPS))
    scene.kill(running)
    shown = deploys.run("fences")
    assert all(" --field-manager=fencectl " in line for line in shown.commands)
    assert "last-applied" not in shown.text
    done = run_shell(scene.cluster, "set -e\n" + "\n".join(shown.commands))
    assert done.code == 0, done.text
    assert not [name for name in managers_of(scene.get(APPS)) if name.startswith("kubectl")]
    scene.wait_applied(scene.publish())
