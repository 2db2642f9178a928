"""
What a client finds out about the server before it asks for anything.

Aspects: versions and health · groups and resources · aggregated discovery · what is missing.
"""

from __future__ import annotations

import pytest

from tests.contract.answers import ok, refused
from tests.support.clusters import Cluster, Raw

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def test_version_is_a_kubernetes_version(cluster: Cluster) -> None:
    """kubectl warns when it is too far from its own."""
    version = cluster.get("/version")
    assert version["major"] == "1"
    assert version["gitVersion"].startswith(f"v1.{version['minor']}.")


@pytest.mark.parametrize("path", ["/readyz", "/livez", "/healthz"])
def test_health_is_ok_as_text(cluster: Cluster, path: str) -> None:
    """Two letters."""
    answer = cluster.request("GET", path)
    assert (answer.status, answer.text) == (200, "ok")
    assert answer.content_type.startswith("text/plain")


def test_core_group_has_one_version(cluster: Cluster) -> None:
    """It is found apart from the others."""
    versions = cluster.get("/api")
    assert (versions["kind"], versions["versions"]) == ("APIVersions", ["v1"])


def test_groups_name_their_versions(cluster: Cluster) -> None:
    """With the preferred one."""
    groups = {group["name"]: group for group in cluster.get("/apis")["groups"]}
    for name in ("kustomize.toolkit.fluxcd.io", "source.toolkit.fluxcd.io", "coordination.k8s.io", "policy"):
        assert groups[name]["preferredVersion"] == {"groupVersion": f"{name}/v1", "version": "v1"}
        assert groups[name]["preferredVersion"] in groups[name]["versions"]
    one = cluster.get("/apis/coordination.k8s.io")
    assert (one["kind"], one["name"]) == ("APIGroup", "coordination.k8s.io")


def _resource(listed: Raw, name: str) -> Raw:
    (found,) = [one for one in listed["resources"] if one["name"] == name]
    return dict(found)


def test_resources_of_the_core_group(cluster: Cluster) -> None:
    """`groupVersion` is `v1`, without a slash."""
    listed = cluster.get("/api/v1")
    assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", "v1")
    nodes = _resource(listed, "nodes")
    assert (nodes["kind"], nodes["namespaced"], nodes["singularName"]) == ("Node", False, "node")
    assert nodes["shortNames"] == ["no"]
    assert {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} == set(
        nodes["verbs"]
    )
    assert set(_resource(listed, "nodes/status")["verbs"]) == {"get", "patch", "update"}
    eviction = _resource(listed, "pods/eviction")
    assert (eviction["kind"], eviction["group"], eviction["version"]) == ("Eviction", "policy", "v1")
    assert eviction["verbs"] == ["create"]


def test_resources_of_a_flux_group(cluster: Cluster) -> None:
    """Kinds that can be listed, with their short names."""
    listed = cluster.get("/apis/kustomize.toolkit.fluxcd.io/v1")
    kind = _resource(listed, "kustomizations")
    assert (kind["kind"], kind["namespaced"], kind["shortNames"]) == ("Kustomization", True, ["ks"])
    assert "list" in kind["verbs"]
    assert set(_resource(listed, "kustomizations/status")["verbs"]) == {"get", "patch", "update"}
    sources = cluster.get("/apis/source.toolkit.fluxcd.io/v1")
    names = {one["name"] for one in sources["resources"] if "/" not in one["name"]}
    assert {"gitrepositories", "ocirepositories", "buckets", "helmrepositories", "helmcharts"} <= names


@pytest.mark.parametrize(("path", "group"), [("/api", ""), ("/apis", "kustomize.toolkit.fluxcd.io")])
def test_aggregated_discovery_tells_all_in_one_answer(cluster: Cluster, path: str, group: str) -> None:
    """Where the client takes it."""
    answer = cluster.request("GET", path, accept=f"{AGGREGATED},application/json")
    assert answer.content_type == AGGREGATED
    found = ok(answer)
    assert (found["kind"], found["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    (item,) = [one for one in found["items"] if one["metadata"].get("name", "") == group]
    (version,) = [one for one in item["versions"] if one["version"] == "v1"]
    assert version["freshness"] == "Current"
    resources = {one["resource"]: one for one in version["resources"]}
    name = "kustomizations" if group else "nodes"
    assert resources[name]["responseKind"]["kind"] == ("Kustomization" if group else "Node")
    assert resources[name]["scope"] == ("Namespaced" if group else "Cluster")
    assert "list" in resources[name]["verbs"]
    assert "status" in {one["subresource"] for one in resources[name]["subresources"]}


def test_unknown_version_of_aggregated_discovery_is_not_acceptable(cluster: Cluster) -> None:
    """With plain JSON behind it, that is given."""
    unknown = AGGREGATED.replace("v=v2", "v=v9")
    refused(cluster.request("GET", "/apis", accept=unknown), 406, "NotAcceptable")
    assert ok(cluster.request("GET", "/apis", accept=f"{unknown},application/json"))["kind"] == "APIGroupList"


@pytest.mark.parametrize(
    "path",
    [
        "/nowhere",
        "/apis/nowhere.example",
        "/apis/nowhere.example/v1",
        "/apis/nowhere.example/v1/things",
        "/apis/kustomize.toolkit.fluxcd.io/v9",
        "/apis/kustomize.toolkit.fluxcd.io/v9/kustomizations",
        "/apis/kustomize.toolkit.fluxcd.io/v1/nothings",
        "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/default/nothings/x",
    ],
)
def test_what_is_not_served_is_a_404_in_plain_text(cluster: Cluster, path: str) -> None:
    """No Status object: a kind that is not installed reads otherwise than an object that is missing."""
    answer = cluster.request("GET", path)
    assert (answer.status, answer.text) == (404, "404 page not found\n")
    assert answer.content_type.startswith("text/plain")


def test_unknown_resource_of_the_core_group_is_a_404_with_a_status(cluster: Cluster) -> None:
    """Built-in groups answer in JSON, without a name."""
    status = refused(cluster.request("GET", "/api/v1/nothings"), 404, "NotFound")
    assert status["message"] == "the server could not find the requested resource"
    assert status["details"] == {}
