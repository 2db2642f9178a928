"""
Who may do what, and how a refusal reads.

Aspects: 401 · 403 on lists, names, subresources and paths · rights that were granted · reviews · impersonation.
"""

from __future__ import annotations

import pytest

from tests.contract.answers import ok, refused
from tests.support.clusters import (
    KUSTOMIZE,
    LEASES,
    NODES,
    Cluster,
    Raw,
    grant,
    make_lease,
    make_namespace,
    make_node,
    path_of,
)

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
NODES_RULE = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}


def test_wrong_token_is_unauthorized(cluster: Cluster) -> None:
    """401 without details, whatever was asked for."""
    for path in (NODES, "/apis", f"{NODES}/x"):
        answer = cluster.request("GET", path, headers={"Authorization": "Bearer wrong"})
        status = refused(answer, 401, "Unauthorized")
        assert status["message"] == "Unauthorized"
        assert "details" not in status


def test_list_without_rights_is_forbidden(cluster: Cluster) -> None:
    """The message names user, verb, resource, group and scope."""
    status = refused(cluster.request("GET", NODES, user="user-1"), 403, "Forbidden")
    assert status["message"] == (
        'nodes is forbidden: User "user-1" cannot list resource "nodes" in API group "" at the cluster scope'
    )
    assert status["details"] == {"kind": "nodes"}


def test_object_without_rights_is_forbidden_whether_it_exists_or_not(cluster: Cluster) -> None:
    """403 with the name: nothing is told about it."""
    node = make_node(cluster)
    for name in (node["metadata"]["name"], "missing"):
        status = refused(cluster.request("GET", f"{NODES}/{name}", user="user-1"), 403, "Forbidden")
        assert status["message"] == (
            f'nodes "{name}" is forbidden: User "user-1" cannot get resource "nodes" '
            'in API group "" at the cluster scope'
        )
        assert status["details"] == {"name": name, "kind": "nodes"}


@pytest.mark.parametrize(
    ("method", "path", "verb", "resource"),
    [
        ("PATCH", f"{KUSTOMIZE}/namespaces/a/kustomizations/x", "patch", "kustomizations"),
        ("PATCH", f"{KUSTOMIZE}/namespaces/a/kustomizations/x/status", "patch", "kustomizations/status"),
        ("PUT", f"{KUSTOMIZE}/namespaces/a/kustomizations/x", "update", "kustomizations"),
        ("DELETE", f"{KUSTOMIZE}/namespaces/a/kustomizations/x", "delete", "kustomizations"),
    ],
)
def test_write_without_rights_is_forbidden(
    cluster: Cluster, method: str, path: str, verb: str, resource: str
) -> None:
    """Group and namespace are named; the subresource belongs to the resource."""
    answer = cluster.request(
        method,
        path,
        user="user-1",
        body=None if method == "DELETE" else "[]",
        content_type="application/json-patch+json",
    )
    status = refused(answer, 403, "Forbidden")
    assert status["message"] == (
        f'kustomizations.kustomize.toolkit.fluxcd.io "x" is forbidden: User "user-1" cannot {verb} resource '
        f'"{resource}" in API group "kustomize.toolkit.fluxcd.io" in the namespace "a"'
    )
    assert status["details"] == {"name": "x", "group": "kustomize.toolkit.fluxcd.io", "kind": "kustomizations"}


@pytest.mark.parametrize(
    ("method", "path", "verb", "where"),
    [
        ("POST", f"{LEASES}/namespaces/a/leases", "create", 'in the namespace "a"'),
        ("GET", f"{LEASES}/namespaces/a/leases", "list", 'in the namespace "a"'),
        ("GET", f"{LEASES}/leases", "list", "at the cluster scope"),
        ("GET", f"{LEASES}/leases?watch=1", "watch", "at the cluster scope"),
        ("DELETE", f"{LEASES}/namespaces/a/leases", "deletecollection", 'in the namespace "a"'),
    ],
    ids=["create", "list", "list-all", "watch", "delete-all"],
)
def test_collection_without_rights_is_forbidden(
    cluster: Cluster, method: str, path: str, verb: str, where: str
) -> None:
    """A list over all namespaces is another right than one in a namespace."""
    body: Raw | None = {} if method == "POST" else None
    status = refused(cluster.request(method, path, user="user-1", body=body), 403, "Forbidden")
    assert status["message"] == (
        f'leases.coordination.k8s.io is forbidden: User "user-1" cannot {verb} resource "leases" '
        f'in API group "coordination.k8s.io" {where}'
    )


def test_path_without_rights_is_forbidden(cluster: Cluster) -> None:
    """What is no resource is named by path; discovery is for everybody who is known."""
    status = refused(cluster.request("GET", "/metrics", user="user-1"), 403, "Forbidden")
    assert status["message"] == 'forbidden: User "user-1" cannot get path "/metrics"'
    for path in ("/version", "/api", "/apis", "/apis/coordination.k8s.io/v1", "/readyz"):
        assert cluster.request("GET", path, user="user-1").status == 200


def test_granted_right_works_and_no_other(cluster: Cluster) -> None:
    """`list` on nodes is neither `patch` nor leases."""
    node = make_node(cluster)
    grant(cluster, "user-2", NODES_RULE)
    assert cluster.request("GET", path_of(node), user="user-2").status == 200
    refused(
        cluster.request(
            "PATCH", path_of(node), body="[]", user="user-2", content_type="application/json-patch+json"
        ),
        403,
        "Forbidden",
    )
    refused(cluster.request("GET", NODES, user="user-2", query={"watch": "1"}), 403, "Forbidden")
    refused(cluster.request("GET", f"{LEASES}/leases", user="user-2"), 403, "Forbidden")
    refused(cluster.request("GET", NODES, user="user-1"), 403, "Forbidden")


def test_right_in_a_namespace_ends_there(cluster: Cluster) -> None:
    """A Role allows its own namespace only, and never the list over all."""
    one, two = make_namespace(cluster), make_namespace(cluster)
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list"]}
    grant(cluster, "user-3", rule, namespace=one)
    refused(cluster.request("GET", f"{LEASES}/namespaces/{two}/leases", user="user-3"), 403, "Forbidden")
    refused(cluster.request("GET", f"{LEASES}/leases", user="user-3"), 403, "Forbidden")


def test_right_on_a_name_is_for_that_name(cluster: Cluster) -> None:
    """`resourceNames` allow a get, and a list only with a selector on that name."""
    one, two = make_lease(cluster), make_lease(cluster)
    name = one["metadata"]["name"]
    rule = {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "list"],
        "resourceNames": [name],
    }
    grant(cluster, "user-4", rule)
    refused(cluster.request("GET", path_of(two), user="user-4"), 403, "Forbidden")
    base = f"{LEASES}/namespaces/default/leases"
    refused(cluster.request("GET", base, user="user-4"), 403, "Forbidden")
    ok(cluster.request("GET", base, user="user-4", query={"fieldSelector": f"metadata.name={name}"}))


def _review(cluster: Cluster, user: str, attributes: Raw) -> Raw:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    status: Raw = ok(cluster.request("POST", REVIEWS, body=body, user=user), 201)["status"]
    return status


def test_review_says_what_a_user_may(cluster: Cluster) -> None:
    """Everybody may ask for themselves, without doing it."""
    grant(cluster, "user-5", NODES_RULE)
    assert _review(cluster, "user-5", {"verb": "list", "resource": "nodes"})["allowed"] is True
    assert _review(cluster, "user-5", {"verb": "patch", "resource": "nodes"})["allowed"] is False
    lease = {
        "verb": "patch",
        "resource": "leases",
        "group": "coordination.k8s.io",
        "namespace": "default",
        "name": "x",
    }
    assert _review(cluster, "user-5", lease)["allowed"] is False
    assert _review(cluster, "admin", lease)["allowed"] is True


@pytest.mark.parametrize("user", ["user-1", "admin"])
def test_self_review_names_the_user(cluster: Cluster, user: str) -> None:
    """What `kubectl auth whoami` prints."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = cluster.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=body, user=user)
    info = ok(answer, 201)["status"]["userInfo"]
    assert info["username"] == user
    expected = ["system:masters", "system:authenticated"] if user == "admin" else ["system:authenticated"]
    assert info["groups"] == expected


def test_admin_may_impersonate(cluster: Cluster) -> None:
    """The request is then the other user's."""
    status = refused(cluster.request("GET", NODES, headers={"Impersonate-User": "user-1"}), 403, "Forbidden")
    assert 'User "user-1" cannot list resource "nodes"' in status["message"]
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = cluster.request(
        "POST",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        body=body,
        headers={"Impersonate-User": "somebody", "Impersonate-Group": "some-group", "Impersonate-Uid": "some-uid"},
    )
    info = ok(answer, 201)["status"]["userInfo"]
    assert (info["username"], info["uid"]) == ("somebody", "some-uid")
    assert info["groups"] == ["some-group", "system:authenticated"]


def test_impersonation_without_rights_is_forbidden(cluster: Cluster) -> None:
    """Before the request is looked at."""
    answer = cluster.request("GET", NODES, headers={"Impersonate-User": "admin"}, user="user-1")
    status = refused(answer, 403, "Forbidden")
    assert 'User "user-1" cannot impersonate' in status["message"]


def test_refused_patch_is_not_applied(cluster: Cluster) -> None:
    """Rights come before the patch is read."""
    node = make_node(cluster)
    answer = cluster.request(
        "PATCH", path_of(node), body="nonsense", content_type="application/json-patch+json", user="user-1"
    )
    refused(answer, 403, "Forbidden")
    assert cluster.get(path_of(node)) == node
