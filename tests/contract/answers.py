"""Read answers of the API server in tests: each assertion says the whole answer when it fails."""

from __future__ import annotations

from typing import Any

from tests.support.clusters import Cluster, path_of
from tests.support.rawhttp import RawAnswer

# The three shapes of a 422.
NOT_APPLICABLE = "the server rejected our request due to an error in our request"


def ok(answer: RawAnswer, status: int = 200) -> dict[str, Any]:
    """Demand success, and give the object."""
    assert answer.status == status, f"{answer.status}: {answer.text}"
    obj: dict[str, Any] = answer.json()
    return obj


def refused(answer: RawAnswer, code: int, reason: str) -> dict[str, Any]:
    """Demand a Status object of this code and reason, and give it."""
    assert answer.status == code, f"{answer.status}: {answer.text}"
    status: dict[str, Any] = answer.json()
    assert (status["kind"], status["apiVersion"]) == ("Status", "v1")
    assert status["status"] == "Failure"
    assert status["code"] == code
    assert status.get("reason") == reason, status
    return status


def not_applicable(answer: RawAnswer) -> None:
    """Demand the 422 of a patch that did not apply: it says nothing, so nothing can be read from it."""
    status = refused(answer, 422, "Invalid")
    assert status["message"] == NOT_APPLICABLE
    assert not {"name", "kind", "causes"} & set(status.get("details") or {}), status


def version(obj: dict[str, Any]) -> str:
    """Give the resourceVersion."""
    return str(obj["metadata"]["resourceVersion"])


def settled(cluster: Cluster, obj: dict[str, Any]) -> dict[str, Any]:
    """
    Send a patch that changes nothing, and give the object as it then is.

    NB: the first one on a new custom resource whose status has a default *is* written: the status was dropped
    at the creation, and the default is stored with the first write.
    """
    return ok(cluster.json_patch(path_of(obj), "[]"))
