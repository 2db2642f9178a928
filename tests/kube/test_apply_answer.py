"""Aspects: what an answer to an apply means · conflicts by manager and field · a Secret is never quoted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fencectl.cluster.answer import Answer
from fencectl.cluster.api_resources import ApiResources
from fencectl.cluster.apply_answer import read_apply_answer
from fencectl.cluster.read import ReadFailedError, Reads
from fencectl.core.answers import Applied, Conflicted, FieldConflict, Refused, Unknown, Why
from fencectl.core.refs import ObjectRef
from tests.support.inprocess import HandClock

DEPLOYMENT = ObjectRef("apps/v1", "Deployment", "deployments", "shop", "web", "")
SECRET = ObjectRef("v1", "Secret", "secrets", "shop", "s", "")


def answer(status: int, body: Any, **headers: str) -> Answer:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Answer(status, headers, data, None, 0.0, 0.0)


def refusal(status: int, reason: str, message: str = "", causes: Any = ()) -> Answer:
    return answer(
        status, {"kind": "Status", "reason": reason, "message": message, "details": {"causes": list(causes)}}
    )


def cause(field: str, message: str, reason: str = "FieldValueInvalid") -> dict[str, str]:
    return {"reason": reason, "field": field, "message": message}


def test_applied_object_is_given_as_the_server_answered_it() -> None:
    """Created or changed alike; what cannot be decoded is no success."""
    for status in (200, 201):
        assert read_apply_answer(answer(status, {"kind": "Deployment"}), DEPLOYMENT) == Applied(
            {"kind": "Deployment"}
        )
    for broken in (b"{", b"[]"):
        assert isinstance(read_apply_answer(answer(200, broken), DEPLOYMENT), Unknown)


def test_conflicts_name_every_field_with_its_manager() -> None:
    """However Go has quoted the name, and whatever it says behind it."""
    causes = [
        cause(".spec.replicas", 'conflict with "hpa" using autoscaling/v2', "FieldManagerConflict"),
        cause(
            ".spec.paused", 'conflict with "a \\"b\\"" with subresource "status" using v1', "FieldManagerConflict"
        ),
        cause(".spec.x", "in words of its own", "FieldManagerConflict"),
    ]
    assert read_apply_answer(refusal(409, "Conflict", causes=causes), DEPLOYMENT) == Conflicted(
        (
            FieldConflict("hpa", ".spec.replicas"),
            FieldConflict('a "b"', ".spec.paused"),
            FieldConflict("in words of its own", ".spec.x"),
        )
    )


@pytest.mark.parametrize(
    ("found", "why", "status", "detail"),
    [
        (refusal(404, "NotFound", 'namespaces "x" not found'), Why.GONE, 404, 'namespaces "x" not found'),
        (refusal(403, "Forbidden", "no right"), Why.FORBIDDEN, 403, "no right"),
        (refusal(409, "Conflict", "the object has been modified"), Why.GUARD, 409, "the object has been modified"),
        (refusal(429, "TooManyRequests", "later"), Why.BUSY, 429, "later"),
        (answer(503, b"down", **{"retry-after": "1"}), Why.BUSY, 503, "down"),
        (
            refusal(422, "Invalid", "…", [cause("spec.a", "Required value"), cause("spec.b", "Too long")]),
            Why.INVALID,
            422,
            "spec.a: Required value; spec.b: Too long",
        ),
        (
            refusal(500, "", "failed to create typed patch object (shop/web; apps/v1): .x: field not declared in schema"),
            Why.INVALID,
            500,
            "failed to create typed patch object (shop/web; apps/v1): .x: field not declared in schema",
        ),
    ],
)  # fmt: skip
def test_refusals_are_told_apart(found: Answer, why: Why, status: int, detail: str) -> None:
    """Only what the server has certainly not done is a refusal."""
    assert read_apply_answer(found, DEPLOYMENT) == Refused(why, status, detail)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_failing_server_leaves_it_unknown(status: int) -> None:
    """It may have been stored before it failed."""
    assert isinstance(read_apply_answer(refusal(status, "InternalError", "oops"), DEPLOYMENT), Unknown)


def test_many_causes_are_cut_with_their_number() -> None:
    """A table line is no page."""
    found = read_apply_answer(refusal(422, "Invalid", "…", [cause(f"f{n}", "bad") for n in range(9)]), DEPLOYMENT)
    assert isinstance(found, Refused)
    assert found.detail.endswith("f4: bad; 4 more")


@pytest.mark.parametrize("status", [400, 422, 500])
def test_refused_secret_is_told_by_its_fields_only(status: int) -> None:
    """The server's words may hold the value."""
    message = "failed to create typed patch object: hunter2"
    found = read_apply_answer(refusal(status, "Invalid", message, [cause("data[p]", "hunter2")]), SECRET)
    assert found == Refused(Why.INVALID, status, "Invalid: data[p]")


class Api:
    """Answers the paths that a test gives it."""

    def __init__(self, **paths: Any) -> None:
        self.paths = {path.replace("__", "/"): found for path, found in paths.items()}
        self.asked: list[str] = []

    def get(self, path: str, **_: Any) -> Answer:
        self.asked.append(path)
        found = self.paths.get(path.strip("/"))
        if isinstance(found, int):
            return answer(found, b"")
        return answer(404, b"404 page not found") if found is None else answer(200, found)

    def stream(self, path: str, **_: Any) -> Any:
        raise AssertionError(path)


def resources(api: Api) -> ApiResources:
    return ApiResources(Reads(api, clock=HandClock(), deadline_s=10.0))


DEPLOYMENTS = {
    "resources": [
        {"name": "deployments", "kind": "Deployment", "namespaced": True},
        {"name": "deployments/status", "kind": "Deployment", "namespaced": True},
        {"name": "deployments/scale", "kind": "Scale", "namespaced": True},
        {"name": "../x", "kind": "Evil"},
        "x",
    ]
}


def test_kind_is_found_with_its_status_by_one_request_for_its_version() -> None:
    """Subresources are none, and neither is what no path can hold."""
    api = Api(apis__apps__v1=DEPLOYMENTS)
    found = resources(api)
    kind = found.find("apps/v1", "Deployment")
    assert kind is not None
    assert (kind.plural, kind.namespaced, found.has_status(kind)) == ("deployments", True, True)
    assert found.find("apps/v1", "Scale") is None
    assert found.find("apps/v1", "Evil") is None
    assert found.find("acme.io/v1", "Widget") is None
    assert api.asked == ["/apis/apps/v1", "/apis/acme.io/v1"]


def test_kind_without_a_version_is_found_in_the_preferred_one() -> None:
    """As the parent of a set names it; a group that is not there has none."""
    api = Api(
        apis={"groups": [{"name": "apps", "preferredVersion": {"version": "v1"}, "versions": [{"version": "v1beta1"}, {"version": "v1"}]}]},
        apis__apps__v1=DEPLOYMENTS,
        api__v1={"resources": [{"name": "secrets", "kind": "Secret", "namespaced": True}]},
    )  # fmt: skip
    found = resources(api)
    deployment, secret = found.find_any("apps", "Deployment"), found.find_any("", "Secret")
    assert deployment is not None
    assert secret is not None
    assert (deployment.api_version, secret.api_version) == ("apps/v1", "v1")
    assert found.find_any("acme.io", "Widget") is None


def test_version_that_cannot_be_told_now_is_not_absent() -> None:
    """An aggregated API that is down may have the kind."""
    with pytest.raises(ReadFailedError):
        resources(Api(apis__metrics__v1=503)).find("metrics/v1", "Metric")
    with pytest.raises(ReadFailedError):
        resources(Api(apis__x__v1={"no": "list"})).find("x/v1", "X")
