"""
Aspects: drain proof · suspension · what a parent applies · take-over of kubectl's fields · in flight · failures · automatic.

The behaviour was tried with the real kustomize-controller; these tests hold the script to it.
"""

from __future__ import annotations

from typing import Any

import pytest

from fencectl.sandbox import Sandbox, StatusError
from tests.sandbox.support import MERGE_PATCH, Raw, ask, kustomization

REQUESTED = "reconcile.fluxcd.io/requestedAt"
DISABLED = "kustomize.toolkit.fluxcd.io/reconcile"
NAMESPACE = "flux-system"


def _get(sandbox: Sandbox, name: str, kind: str = "ks") -> Raw:
    return sandbox.store.get(kind, name, namespace=NAMESPACE)


def _patch(sandbox: Sandbox, name: str, *, manager: str = "fencectl", suspend: Any = "keep", **marks: Any) -> None:
    patch: Raw = {"metadata": {"annotations": marks}}
    if suspend != "keep":
        patch["spec"] = {"suspend": suspend}
    sandbox.store.patch("ks", name, patch, namespace=NAMESPACE, manager=manager)


def _handled(sandbox: Sandbox, name: str, kind: str = "ks") -> Any:
    return _get(sandbox, name, kind).get("status", {}).get("lastHandledReconcileAt")


def _ready(sandbox: Sandbox, name: str) -> str:
    conditions = _get(sandbox, name)["status"]["conditions"]
    return str(next(item["status"] for item in conditions if item["type"] == "Ready"))


@pytest.fixture
def cluster(quiet: Sandbox) -> Sandbox:
    """A parent that applies a child, both reconciled once."""
    quiet.store.create(kustomization("root"))
    quiet.flux.applies("root", [kustomization("apps", path="./apps")])
    quiet.flux.run()
    return quiet


def test_first_reconcile_applies_and_reports(cluster: Sandbox) -> None:
    """Status as the controller writes it, the child labelled with its owner."""
    root, apps = _get(cluster, "root"), _get(cluster, "apps")
    assert root["status"]["observedGeneration"] == root["metadata"]["generation"]
    assert _ready(cluster, "root") == "True"
    assert [entry["id"] for entry in root["status"]["inventory"]["entries"]] == [
        "flux-system_apps_kustomize.toolkit.fluxcd.io_Kustomization"
    ]
    assert apps["metadata"]["labels"] == {
        "kustomize.toolkit.fluxcd.io/name": "root",
        "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
    }
    assert apps["status"]["lastAppliedRevision"]
    assert cluster.flux.run() == []


def test_suspended_object_still_handles_its_token(cluster: Sandbox) -> None:
    """That is the drain proof: nothing is applied."""
    revision = _get(cluster, "root")["status"]["lastAppliedRevision"]
    _patch(cluster, "root", suspend=True, **{REQUESTED: "token-1"})
    assert _handled(cluster, "root") is None
    assert cluster.flux.reconcile("ks", "root", revision="main@sha1:2") is False
    assert _handled(cluster, "root") == "token-1"
    assert _get(cluster, "root")["status"]["lastAppliedRevision"] == revision


@pytest.mark.parametrize(
    ("kind", "api", "proof"),
    [
        ("HelmRelease", "helm.toolkit.fluxcd.io/v2", True),
        ("GitRepository", "source.toolkit.fluxcd.io/v1", True),
        ("ImagePolicy", "image.toolkit.fluxcd.io/v1", True),
        ("Receiver", "notification.toolkit.fluxcd.io/v1", True),
        ("ImageUpdateAutomation", "image.toolkit.fluxcd.io/v1", False),
        ("Alert", "notification.toolkit.fluxcd.io/v1beta3", False),
        ("Provider", "notification.toolkit.fluxcd.io/v1beta3", False),
    ],
)
def test_kinds_differ_in_their_proof(quiet: Sandbox, kind: str, api: str, proof: bool) -> None:
    """Some copy the token only while they are active, some have no such status."""
    metadata = {"name": "x", "namespace": NAMESPACE, "annotations": {REQUESTED: "token"}}
    spec = {"suspend": True, "interval": "1m", "url": "https://example.com/x"}
    quiet.store.create({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec})
    quiet.flux.run()
    assert (_handled(quiet, "x", kind) == "token") is proof
    quiet.store.patch(kind, "x", {"spec": {"suspend": None}}, namespace=NAMESPACE)
    quiet.flux.run()
    assert (_handled(quiet, "x", kind) == "token") is (kind not in ("Alert", "Provider"))


def test_parent_leaves_what_its_manifest_does_not_hold(cluster: Sandbox) -> None:
    """A suspension and marks under a manager of their own survive."""
    _patch(cluster, "apps", suspend=True, mark="mine")
    cluster.flux.reconcile("ks", "root")
    apps = _get(cluster, "apps")
    assert apps["spec"]["suspend"] is True
    assert apps["metadata"]["annotations"] == {"mark": "mine"}


def test_parent_undoes_a_suspension_that_its_manifest_denies(cluster: Sandbox) -> None:
    """An explicit `suspend: false` wins; marks stay."""
    cluster.flux.applies("root", [kustomization("apps", path="./apps", suspend=False)])
    _patch(cluster, "apps", suspend=True, mark="mine")
    cluster.flux.reconcile("ks", "root")
    apps = _get(cluster, "apps")
    assert apps["spec"]["suspend"] is False
    assert apps["metadata"]["annotations"] == {"mark": "mine"}


@pytest.mark.parametrize("where", ["annotations", "labels"])
@pytest.mark.parametrize("value", ["disabled", "Disabled"])
def test_disabled_child_is_left_alone_and_leaves_the_inventory(cluster: Sandbox, where: str, value: str) -> None:
    """By annotation or label, in any case of letters."""
    cluster.flux.applies("root", [kustomization("apps", path="./apps", suspend=False)])
    patch = {"spec": {"suspend": True}, "metadata": {where: {DISABLED: value}}}
    cluster.store.patch("ks", "apps", patch, namespace=NAMESPACE, manager="fencectl")
    cluster.flux.reconcile("ks", "root")
    assert _get(cluster, "apps")["spec"]["suspend"] is True
    assert _get(cluster, "root")["status"]["inventory"]["entries"] == []
    assert _ready(cluster, "root") == "True"


@pytest.mark.parametrize("manager", ["kubectl-patch", "kubectl", "kubectl-annotate"])
def test_fields_of_kubectl_are_taken_over_and_dropped(cluster: Sandbox, manager: str) -> None:
    """Suspension and marks are wiped, although the manifest says nothing of them."""
    _patch(cluster, "apps", suspend=True, mark="mine", manager=manager)
    cluster.flux.reconcile("ks", "root")
    apps = _get(cluster, "apps")
    assert "suspend" not in apps["spec"]
    assert "annotations" not in apps["metadata"]
    assert manager not in {entry["manager"] for entry in apps["metadata"]["managedFields"]}


def test_reconcile_in_flight_goes_on_to_its_end(cluster: Sandbox) -> None:
    """It does not see the suspension, and never copies a token that came after its start."""
    begun = cluster.flux.begin("ks", "root")
    assert begun is not None
    assert _ready(cluster, "root") == "Unknown"
    _patch(cluster, "root", suspend=True, **{REQUESTED: "token"})
    assert cluster.flux.run() == []
    assert _handled(cluster, "root") is None
    begun.end(revision="main@sha1:new")
    begun.end(revision="main@sha1:ignored")
    assert _handled(cluster, "root") is None
    assert _get(cluster, "root")["status"]["lastAppliedRevision"] == "main@sha1:new"
    assert cluster.flux.run() == ["kustomization/flux-system/root"]
    assert _handled(cluster, "root") == "token"


def test_root_that_applies_itself_can_undo_its_own_suspension(cluster: Sandbox) -> None:
    """The drain proof then appears while nothing is suspended any more; the annotation keeps both."""
    manifests = [kustomization("root", suspend=False)]
    cluster.flux.applies("root", manifests)
    begun = cluster.flux.begin("ks", "root")
    assert begun is not None
    _patch(cluster, "root", suspend=True, **{REQUESTED: "one"})
    begun.end()
    cluster.flux.run()
    assert (_get(cluster, "root")["spec"]["suspend"], _handled(cluster, "root")) == (False, "one")
    begun = cluster.flux.begin("ks", "root")
    assert begun is not None
    _patch(cluster, "root", suspend=True, **{REQUESTED: "two", DISABLED: "disabled"})
    begun.end()
    cluster.flux.run()
    assert (_get(cluster, "root")["spec"]["suspend"], _handled(cluster, "root")) == (True, "two")


def test_object_reconciles_once_at_a_time(cluster: Sandbox) -> None:
    """As a controller's queue has it; a missing one is an error of the test."""
    assert cluster.flux.begin("ks", "root")
    with pytest.raises(RuntimeError, match="in flight"):
        cluster.flux.begin("ks", "root")
    with pytest.raises(StatusError):
        cluster.flux.reconcile("ks", "none")


def test_object_deleted_in_flight_is_not_revived(cluster: Sandbox) -> None:
    """The status write finds another object, or none."""
    begun = cluster.flux.begin("ks", "apps")
    assert begun is not None
    cluster.store.delete("ks", "apps", namespace=NAMESPACE)
    begun.end()
    assert cluster.store.find("ks", "apps", namespace=NAMESPACE) is None
    cluster.store.create(kustomization("apps"))
    begun = cluster.flux.begin("ks", "apps")
    assert begun is not None
    cluster.store.delete("ks", "apps", namespace=NAMESPACE)
    made = cluster.store.create(kustomization("apps"))
    begun.end()
    assert _get(cluster, "apps")["status"] == made["status"]


def test_failure_leaves_the_observed_generation(cluster: Sandbox) -> None:
    """And says what was attempted."""
    before = _get(cluster, "apps")["status"]["observedGeneration"]
    cluster.store.patch("ks", "apps", {"spec": {"path": "./new"}}, namespace=NAMESPACE)
    cluster.flux.reconcile("ks", "apps", revision="main@sha1:bad", failed="health check failed")
    status = _get(cluster, "apps")["status"]
    assert (status["observedGeneration"], status["lastAttemptedRevision"]) == (before, "main@sha1:bad")
    assert status["lastAppliedRevision"] != "main@sha1:bad"
    assert _ready(cluster, "apps") == "False"


def test_revision_comes_from_the_source(cluster: Sandbox) -> None:
    """What its artifact says, once it is published."""
    with pytest.raises(StatusError):
        cluster.flux.publish("flux-system", "main@sha1:1")
    repository: Raw = {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "GitRepository",
        "metadata": {"name": "flux-system", "namespace": NAMESPACE},
        "spec": {"interval": "1m", "url": "https://example.com/x.git"},
    }
    cluster.store.create(repository)
    cluster.flux.publish("flux-system", "main@sha1:42")
    cluster.flux.reconcile("ks", "apps")
    assert _get(cluster, "apps")["status"]["lastAppliedRevision"] == "main@sha1:42"


def test_helm_release_reports_a_history(quiet: Sandbox) -> None:
    """It has no last applied revision."""
    metadata = {"name": "loki", "namespace": NAMESPACE}
    quiet.store.create({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": metadata})
    quiet.flux.reconcile("hr", "loki", revision="6.1.0")
    status = _get(quiet, "loki", "hr")["status"]
    assert status["history"][0]["chartVersion"] == "6.1.0"
    assert "lastAppliedRevision" not in status


def test_automatic_flux_answers_within_the_write(cluster: Sandbox) -> None:
    """For a demo: no thread, no waiting. What it writes is not the client's request."""
    cluster.flux.automatic()
    cluster.faults.on(lambda: None, verb="patch", times=None)
    patch = {"spec": {"suspend": True}, "metadata": {"annotations": {REQUESTED: "t"}}}
    path = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/apps"
    assert ask(cluster, "PATCH", path, patch, content_type=MERGE_PATCH).status == 200
    assert _handled(cluster, "apps") == "t"
    cluster.flux.automatic(False)
    _patch(cluster, "apps", **{REQUESTED: "u"})
    assert _handled(cluster, "apps") == "t"


def test_reconcile_held_open_ends_and_automatic_flux_goes_on(cluster: Sandbox) -> None:
    """What came meanwhile is carried out right after it."""
    cluster.flux.automatic()
    begun = cluster.flux.begin("ks", "apps")
    assert begun is not None
    _patch(cluster, "apps", suspend=True, **{REQUESTED: "t"})
    assert _handled(cluster, "apps") is None
    begun.end()
    assert _handled(cluster, "apps") == "t"


def test_flux_that_is_not_installed_has_nothing_to_do() -> None:
    """No kinds, nothing pending."""
    assert Sandbox(flux=False).flux.run() == []
