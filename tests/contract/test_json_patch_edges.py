"""
JSON patches at the edges: what the server accepts although it should not be relied on, and what it has no room for.

Aspects: paths without a slash · the whole document · nulls and doubled keys · content types · sizes.
"""

from __future__ import annotations

import json

import pytest

from tests.contract.answers import not_applicable, ok, refused
from tests.support.clusters import Cluster, make_configmap, make_lease, path_of
from tests.support.rawhttp import JSON_PATCH


def test_path_without_its_slash_loses_the_first_part(cluster: Cluster) -> None:
    """`metadata/uid` is read as `/uid`: such a guard looks at another place and lets everything pass."""
    path = path_of(make_configmap(cluster))
    ok(cluster.json_patch(path, [{"op": "test", "path": "metadata/uid", "value": None}]))
    not_applicable(cluster.json_patch(path, [{"op": "test", "path": "/metadata/uid", "value": None}]))


@pytest.mark.parametrize("op", ["test", "add"])
def test_whole_document_is_no_target(cluster: Cluster, op: str) -> None:
    """The empty path of RFC 6902 is refused."""
    path = path_of(make_configmap(cluster))
    not_applicable(cluster.json_patch(path, [{"op": op, "path": "", "value": {}}]))


def test_whole_document_can_be_replaced(cluster: Cluster) -> None:
    """By one operation only: the result must still name the object."""
    obj = make_configmap(cluster, annotations={"a": "b"})
    refused(cluster.json_patch(path_of(obj), [{"op": "replace", "path": "", "value": {}}]), 400, "BadRequest")
    obj["metadata"]["annotations"] = {"c": "d"}
    after = ok(cluster.json_patch(path_of(obj), [{"op": "replace", "path": "", "value": obj}]))
    assert after["metadata"]["annotations"] == {"c": "d"}


def test_null_instead_of_a_list_changes_nothing(cluster: Cluster) -> None:
    """It is read as an empty list; a null in the list is an operation without a name."""
    obj = make_configmap(cluster)
    assert ok(cluster.json_patch(path_of(obj), "null")) == obj
    not_applicable(cluster.json_patch(path_of(obj), "[null]"))


def test_text_after_the_list_is_a_bad_request(cluster: Cluster) -> None:
    """One value, and no more."""
    refused(cluster.json_patch(path_of(make_configmap(cluster)), "[] []"), 400, "BadRequest")


def test_null_in_a_map_of_texts_is_an_empty_text(cluster: Cluster) -> None:
    """It neither removes the key nor is refused."""
    path = path_of(make_configmap(cluster))
    after = ok(cluster.json_patch(path, [{"op": "add", "path": "/metadata/annotations", "value": {"a": None}}]))
    assert after["metadata"]["annotations"] == {"a": ""}


def test_map_that_is_set_to_null_is_absent(cluster: Cluster) -> None:
    """As if it had been removed."""
    path = path_of(make_configmap(cluster, annotations={"a": "b"}))
    after = ok(cluster.json_patch(path, [{"op": "replace", "path": "/metadata/annotations", "value": None}]))
    assert "annotations" not in after["metadata"]


def test_last_of_two_equal_keys_counts(cluster: Cluster) -> None:
    """In a value and in an operation."""
    path = path_of(make_configmap(cluster))
    value = '[{"op":"add","path":"/metadata/annotations","value":{"a":"1","a":"2"}}]'
    assert ok(cluster.json_patch(path, value))["metadata"]["annotations"] == {"a": "2"}
    operation = '[{"op":"add","op":"remove","path":"/metadata/annotations/a"}]'
    assert "annotations" not in ok(cluster.json_patch(path, operation))["metadata"]


def test_content_type_may_name_a_charset(cluster: Cluster) -> None:
    """Parameters are not looked at."""
    obj = make_configmap(cluster)
    answer = cluster.request("PATCH", path_of(obj), body="[]", content_type=f"{JSON_PATCH}; charset=utf-8")
    assert ok(answer) == obj


def test_copies_of_more_than_three_mebibytes_do_not_apply(cluster: Cluster) -> None:
    """They are counted before the result is looked at."""
    path = path_of(make_configmap(cluster, data={"a": "x" * 200_000}))

    def copies(count: int) -> str:
        return json.dumps(
            [{"op": "copy", "from": "/data/a", "path": f"/data/b{number}"} for number in range(count)]
        )

    ok(cluster.json_patch(path, copies(3)))
    too_big = refused(cluster.json_patch(path, copies(8)), 422, "Invalid")
    assert "Too long: may not be more than 1048576 bytes" in too_big["message"]
    not_applicable(cluster.json_patch(path, copies(20)))


def test_object_that_the_storage_cannot_take_is_a_server_error(cluster: Cluster) -> None:
    """500, nothing written: a holder has no limit of its own."""
    lease = make_lease(cluster)
    big = [{"op": "add", "path": "/spec/holderIdentity", "value": "x" * 1_600_000}]
    answer = cluster.json_patch(path_of(lease), big)
    assert (answer.status, answer.json()["message"]) == (500, "etcdserver: request is too large")
    assert cluster.get(path_of(lease)) == lease
