"""Aspects: base path · token · nobody · rules · impersonation · reviews."""

from __future__ import annotations

import pytest

from fencectl.sandbox import Rule, Sandbox
from tests.sandbox.support import LEASES, Raw, ask, lease, node

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def test_base_path_chooses_the_user(quiet: Sandbox) -> None:
    """kubectl sends no credentials over plain HTTP; without a path it is the admin."""
    quiet.users.add("viewer")
    answer = ask(quiet, "GET", "/as/viewer/api/v1/nodes")
    assert answer.status == 403
    assert answer.json()["message"] == (
        'nodes is forbidden: User "viewer" cannot list resource "nodes" in API group "" at the cluster scope'
    )
    assert ask(quiet, "GET", "/api/v1/nodes").status == 200
    assert [entry.user for entry in quiet.requests] == ["viewer", "admin"]


def test_token_chooses_the_user_before_the_path(quiet: Sandbox) -> None:
    """As on a server that authenticates."""
    quiet.users.add("viewer", token="secret")
    headers = {"Authorization": "Bearer secret"}
    assert ask(quiet, "GET", "/as/admin/api/v1/nodes", headers=headers).status == 403


@pytest.mark.parametrize("header", ["Bearer nobody", "Basic YTpi", "Bearer"])
def test_credentials_of_nobody_are_unauthorized(quiet: Sandbox, header: str) -> None:
    """401, for discovery too."""
    answer = ask(quiet, "GET", "/api", headers={"Authorization": header})
    assert (answer.status, answer.json()["reason"]) == (401, "Unauthorized")


def test_user_that_is_removed_is_unauthorized(quiet: Sandbox) -> None:
    """A token that expires while somebody works."""
    quiet.users.add("viewer", rules=[Rule(("*",), ("*",))])
    assert ask(quiet, "GET", "/api/v1/nodes", user="viewer").status == 200
    quiet.users.remove("viewer")
    assert quiet.users.named("viewer") is None
    assert ask(quiet, "GET", "/api/v1/nodes", user="viewer").status == 401


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", f"{LEASES}/l", True),
        ("GET", LEASES, True),
        ("GET", "/apis/coordination.k8s.io/v1/leases", False),
        ("GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases", False),
        ("DELETE", f"{LEASES}/l", False),
        ("GET", "/api/v1/namespaces/flux-system/pods/p/log", True),
        ("GET", "/api/v1/namespaces/flux-system/pods/p", False),
        ("GET", "/api/v1/namespaces/flux-system/secrets/one", True),
        ("GET", "/api/v1/namespaces/flux-system/secrets/two", False),
        ("GET", "/api/v1/nodes", False),
    ],
)
def test_rule_allows_its_verbs_resources_namespaces_and_names(
    quiet: Sandbox, method: str, path: str, allowed: bool
) -> None:
    """And nothing beside them."""
    quiet.users.add(
        "some",
        rules=[
            Rule(("get", "list"), ("leases.coordination.k8s.io",), ("flux-system",)),
            Rule(("get",), ("pods/log",)),
            Rule(("get",), ("secrets",), names=("one",)),
        ],
    )
    assert (ask(quiet, method, path, user="some").status != 403) is allowed


def test_right_can_be_given_later(quiet: Sandbox) -> None:
    """Rights change while a session goes on."""
    quiet.users.add("some")
    quiet.users.allow("some", "list", resources=["nodes"])
    assert ask(quiet, "GET", "/api/v1/nodes", user="some").status == 200
    assert ask(quiet, "POST", "/api/v1/nodes", node("a"), user="some").status == 403


def test_everybody_may_discover_but_not_read_other_paths(quiet: Sandbox) -> None:
    """As the default roles say."""
    quiet.users.add("some")
    for path in ("/api", "/apis", "/api/v1", "/version", "/healthz", "/openapi/v3"):
        assert ask(quiet, "GET", path, user="some").status == 200
    assert ask(quiet, "GET", "/metrics", user="some").status == 403
    assert ask(quiet, "GET", "/", user="some").status == 403
    assert "/api/v1" in ask(quiet, "GET", "/").json()["paths"]


def test_impersonated_user_has_the_rights_of_that_user(quiet: Sandbox) -> None:
    """And the groups that were asked for."""
    quiet.users.add("viewer", rules=[Rule(("list",), ("nodes",))])
    as_viewer = {"Impersonate-User": "viewer"}
    assert ask(quiet, "GET", "/api/v1/nodes", headers=as_viewer).status == 200
    assert ask(quiet, "GET", "/api/v1/pods", headers=as_viewer).status == 403
    masters = {"Impersonate-User": "bob", "Impersonate-Group": "system:masters"}
    assert ask(quiet, "GET", "/api/v1/pods", headers=masters).status == 200
    assert ask(quiet, "GET", "/api/v1/pods", headers={"Impersonate-User": "bob"}).status == 403
    assert ask(quiet, "GET", "/api/v1/pods", headers={"Impersonate-Group": "g"}).status == 400


def test_impersonation_needs_a_right(quiet: Sandbox) -> None:
    """A viewer cannot become the admin."""
    quiet.users.add("viewer", rules=[Rule(("list",), ("nodes",))])
    answer = ask(quiet, "GET", "/api/v1/nodes", headers={"Impersonate-User": "admin"}, user="viewer")
    assert answer.status == 403
    assert "impersonate" in answer.json()["message"]


def _review(sandbox: Sandbox, user: str, **attributes: str) -> bool:
    body: Raw = {"spec": {"resourceAttributes": attributes}}
    return bool(ask(sandbox, "POST", REVIEWS, body, user=user).json()["status"]["allowed"])


def test_access_review_agrees_with_what_happens(quiet: Sandbox) -> None:
    """The same rules decide both."""
    quiet.users.add("some", rules=[Rule(("patch",), ("leases",), ("flux-system",))])
    quiet.store.create(lease("l"))
    asked = {"verb": "patch", "resource": "leases", "group": "coordination.k8s.io"}
    assert _review(quiet, "some", **asked, namespace="flux-system")
    assert not _review(quiet, "some", **asked, namespace="default")
    assert not _review(quiet, "some", **{**asked, "verb": "get"}, namespace="flux-system")
    assert _review(quiet, "admin", **asked)


def test_reviews_say_who_asks_and_list_rules(quiet: Sandbox) -> None:
    """`auth whoami` and `auth can-i --list`."""
    quiet.users.add("some", rules=[Rule(("get",), ("nodes",))], groups=["team"])
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    info = ask(quiet, "POST", path, {}, user="some").json()["status"]["userInfo"]
    assert info == {"username": "some", "uid": "some", "groups": ["team", "system:authenticated"]}
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    rules = ask(quiet, "POST", path, {"spec": {"namespace": "x"}}, user="some").json()["status"]
    assert rules["resourceRules"] == [{"verbs": ["get"], "apiGroups": ["*"], "resources": ["nodes"]}]
    assert ask(quiet, "GET", path).status == 405
    assert ask(quiet, "POST", REVIEWS, {"spec": {}}).status == 422
    asked = {"spec": {"nonResourceAttributes": {"path": "/version", "verb": "get"}}}
    assert ask(quiet, "POST", REVIEWS, asked).json()["status"] == {"allowed": True}
