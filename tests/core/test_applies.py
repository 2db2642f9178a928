"""Aspects: order of kinds · what a fence has of a manifest is left out · marks never go along · kinds of definitions."""

from __future__ import annotations

import json
from typing import Any

from fencectl.core.applies import configure, in_order, is_established, kinds_defined
from fencectl.core.manifests import Manifest, Source, read_manifests
from fencectl.core.profiles import HOLDER, JOURNAL, RECONCILE, REQUESTED_AT, SUSPENDED_BY
from fencectl.core.refs import ObjectRef

KS = ObjectRef("kustomize.toolkit.fluxcd.io/v1", "Kustomization", "kustomizations", "flux-system", "apps", "")
NODE = ObjectRef("v1", "Node", "nodes", None, "n1", "")


def manifest(**raw: Any) -> Manifest:
    (one,) = read_manifests([Source("a.yaml", json.dumps(raw).encode())])
    return one


def flux(**metadata: Any) -> Manifest:
    return manifest(
        apiVersion=KS.api_version,
        kind=KS.kind,
        metadata={"name": "apps", **metadata},
        spec={"suspend": False, "path": "./"},
    )


def test_what_others_need_goes_first_and_what_refuses_others_goes_last() -> None:
    """Within one stage as written."""
    kinds = [
        "ValidatingWebhookConfiguration",
        "Deployment",
        "Widget",
        "ConfigMap",
        "Role",
        "CustomResourceDefinition",
    ]
    kinds += ["Namespace", "Job"]
    ordered = in_order([manifest(apiVersion="v1", kind=kind, metadata={"name": "a"}) for kind in kinds])
    assert [one.kind for one in ordered] == [
        "Namespace",
        "CustomResourceDefinition",
        "Role",
        "ConfigMap",
        "Deployment",
        "Widget",
        "Job",
        "ValidatingWebhookConfiguration",
    ]


def test_fenced_flux_object_is_applied_without_suspend_and_what_the_fence_wrote() -> None:
    """All of it is named, everything else stays."""
    annotations = dict.fromkeys((HOLDER, JOURNAL, RECONCILE, REQUESTED_AT, SUSPENDED_BY), "x") | {"mine": "y"}
    made = configure(flux(annotations=annotations), KS, fenced=True)
    body = json.loads(made.body)
    assert body["spec"] == {"path": "./"}
    assert body["metadata"] == {"name": "apps", "namespace": "flux-system", "annotations": {"mine": "y"}}
    assert made.left_out == (
        f"metadata.annotations[{HOLDER}]",
        f"metadata.annotations[{JOURNAL}]",
        f"metadata.annotations[{RECONCILE}]",
        f"metadata.annotations[{REQUESTED_AT}]",
        f"metadata.annotations[{SUSPENDED_BY}]",
        "spec.suspend",
    )


def test_object_that_is_not_fenced_keeps_its_suspend_but_never_brings_a_mark() -> None:
    """Suspending is the operator's business; a mark that was copied off a cluster is no fence."""
    made = configure(flux(annotations={HOLDER: "x", REQUESTED_AT: "y"}), KS, fenced=False)
    body = json.loads(made.body)
    assert body["spec"]["suspend"] is False
    assert body["metadata"]["annotations"] == {REQUESTED_AT: "y"}
    assert made.left_out == (f"metadata.annotations[{HOLDER}]",)


def test_fenced_node_is_applied_without_its_cordon() -> None:
    """Neither the field nor the taint that stands for it; other taints stay."""
    taints = [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "gpu", "effect": "NoSchedule"},
    ]
    node = manifest(
        apiVersion="v1", kind="Node", metadata={"name": "n1"}, spec={"unschedulable": True, "taints": taints}
    )
    made = configure(node, NODE, fenced=True)
    assert json.loads(made.body)["spec"] == {"taints": [taints[1]]}
    assert made.left_out == ("spec.unschedulable", "spec.taints[node.kubernetes.io/unschedulable]")
    assert json.loads(configure(node, NODE, fenced=False).body)["spec"]["unschedulable"] is True


def test_manifest_itself_is_not_changed() -> None:
    """It is read by aliases, previews and digests too."""
    one = flux(annotations={HOLDER: "x"}, labels={"a": "b"})
    before = json.dumps(one.raw)
    configure(one, KS, fenced=True, labels={"c": "d"})
    assert json.dumps(one.raw) == before


def test_namespace_is_written_for_namespaced_kinds_and_dropped_for_others() -> None:
    """As kubectl does; the labels of a set are added to those that are there."""
    node = manifest(apiVersion="v1", kind="Node", metadata={"name": "n1", "namespace": "shop", "labels": None})
    made = json.loads(configure(node, NODE, fenced=False, labels={"set": "x"}).body)
    assert made["metadata"] == {"name": "n1", "labels": {"set": "x"}}


def test_definition_among_the_manifests_says_which_resource_its_kind_is() -> None:
    """Versions that are not served are none; a broken definition is left to the server."""
    crd = manifest(
        apiVersion="apiextensions.k8s.io/v1",
        kind="CustomResourceDefinition",
        metadata={"name": "widgets.acme.io"},
        spec={
            "group": "acme.io",
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": True}, {"name": "v0", "served": False}, "x"],
        },
    )
    broken = manifest(apiVersion=crd.api_version, kind=crd.kind, metadata={"name": "x"}, spec="x")
    found = kinds_defined([crd, broken])
    assert {key: (one.plural, one.namespaced, one.definition) for key, one in found.items()} == {
        ("acme.io/v1", "Widget"): ("widgets", True, "widgets.acme.io")
    }


def test_definition_is_established_only_if_it_says_so() -> None:
    """No status, another condition, False: not yet."""
    assert is_established({"status": {"conditions": [{"type": "Established", "status": "True"}]}})
    for status in ({}, None, {"conditions": "x"}, {"conditions": [{"type": "Established", "status": "False"}]}):
        assert not is_established({"status": status})
