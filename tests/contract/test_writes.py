"""
Create, replace, merge, delete: what is checked and what is answered.

Aspects: what a creation adds · names and namespaces · preconditions of PUT and DELETE · finalizers · merge patches.
"""

from __future__ import annotations

import base64
import re

import pytest

from tests.contract.answers import ok, refused, version
from tests.support.clusters import (
    Cluster,
    Raw,
    make_configmap,
    make_kustomization,
    make_lease,
    make_namespace,
    make_node,
    path_of,
)

BASE = "/api/v1/namespaces/default/configmaps"


def _body(name: str | None, **more: object) -> Raw:
    metadata = {} if name is None else {"name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **more}


def test_creation_adds_uid_version_and_time(cluster: Cluster) -> None:
    """What identifies an object is the server's."""
    body = _body(cluster.unique("cm"))
    body["metadata"] |= {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}
    metadata = ok(cluster.request("POST", BASE, body=body), 201)["metadata"]
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert metadata["creationTimestamp"] != "2001-01-01T00:00:00Z"
    assert metadata["resourceVersion"].isdecimal()
    assert metadata["namespace"] == "default"


def test_versions_grow_over_all_kinds(cluster: Cluster) -> None:
    """One counter."""
    made = [make_configmap(cluster), make_lease(cluster), make_node(cluster), make_kustomization(cluster)]
    versions = [int(version(obj)) for obj in made]
    assert versions == sorted(set(versions))


def test_creation_of_what_exists_is_refused(cluster: Cluster) -> None:
    """409 `AlreadyExists`, not `Conflict`."""
    name = make_configmap(cluster)["metadata"]["name"]
    status = refused(cluster.request("POST", BASE, body=_body(name)), 409, "AlreadyExists")
    assert status["message"] == f'configmaps "{name}" already exists'
    assert status["details"] == {"name": name, "kind": "configmaps"}


def test_generated_name_gets_five_characters(cluster: Cluster) -> None:
    """From an alphabet without vowels."""
    body = _body(None)
    body["metadata"]["generateName"] = "gen-"
    obj = ok(cluster.request("POST", BASE, body=body), 201)
    assert re.fullmatch(r"gen-[bcdfghjklmnpqrstvwxz2456789]{5}", obj["metadata"]["name"])


def test_creation_without_a_name_is_invalid(cluster: Cluster) -> None:
    """Neither name nor generateName."""
    status = refused(cluster.request("POST", BASE, body=_body(None)), 422, "Invalid")
    assert status["details"]["causes"] == [
        {
            "reason": "FieldValueRequired",
            "message": "Required value: name or generateName is required",
            "field": "metadata.name",
        }
    ]


def test_creation_with_a_version_is_refused(cluster: Cluster) -> None:
    """It would be a replacement."""
    body = _body(cluster.unique("cm"))
    body["metadata"]["resourceVersion"] = "5"
    answer = cluster.request("POST", BASE, body=body)
    assert answer.status == 500
    assert answer.json()["message"] == "resourceVersion should not be set on objects to be created"


def test_creation_in_another_namespace_than_the_url_is_refused(cluster: Cluster) -> None:
    """The URL and the object must agree."""
    body = _body(cluster.unique("cm"))
    body["metadata"]["namespace"] = "elsewhere"
    status = refused(cluster.request("POST", BASE, body=body), 400, "BadRequest")
    assert status["message"] == (
        "the namespace of the provided object does not match the namespace sent on the request"
    )


def test_creation_in_a_missing_namespace_is_not_found(cluster: Cluster) -> None:
    """404 on the namespace."""
    namespace = cluster.unique("nowhere")
    answer = cluster.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body=_body("x"))
    status = refused(answer, 404, "NotFound")
    assert status["details"] == {"name": namespace, "kind": "namespaces"}


@pytest.mark.parametrize(
    "body",
    [
        "nonsense",
        '{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}',
        '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":5}}',
    ],
    ids=["not-json", "another-kind", "wrong-type"],
)
def test_creation_of_what_cannot_be_read_is_a_bad_request(cluster: Cluster, body: str) -> None:
    """400, and nothing is made."""
    refused(cluster.request("POST", BASE, body=body), 400, "BadRequest")


def test_creation_takes_yaml(cluster: Cluster) -> None:
    """By its content type."""
    name = cluster.unique("cm")
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  k: v\n"
    answer = cluster.request("POST", BASE, body=text, content_type="application/yaml")
    assert ok(answer, 201)["data"] == {"k": "v"}


def test_unknown_field_of_a_creation_is_refused_when_strict(cluster: Cluster) -> None:
    """A creation answers 400, where a patch answers 422."""
    body = _body(cluster.unique("cm"), datum={})
    answer = cluster.request("POST", BASE, body=body, query={"fieldValidation": "Strict"})
    status = refused(answer, 400, "BadRequest")
    assert 'unknown field "datum"' in status["message"]
    answer = cluster.request("POST", BASE, body=body)
    assert ok(answer, 201)
    assert answer.warnings == ['299 - "unknown field \\"datum\\""']


def test_secret_takes_text_and_keeps_base64(cluster: Cluster) -> None:
    """`stringData` is written, never read."""
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": cluster.unique("secret")},
        "stringData": {"k": "väl"},
    }
    secret = cluster.create("/api/v1/namespaces/default/secrets", body)
    assert secret["data"] == {"k": base64.b64encode("väl".encode()).decode()}
    assert "stringData" not in secret
    assert secret["type"] == "Opaque"


def test_secrets_are_listed_by_label_and_type_without_their_data(cluster: Cluster) -> None:
    """A label is anybody's to set, a type is not to be changed; what is listed as metadata has neither."""
    where, label = "/api/v1/namespaces/default/secrets", cluster.unique("label")
    names = {}
    for kind, labels in (("x.io/ours", {"l": label}), ("Opaque", {"l": label}), ("x.io/ours", {})):
        body = {"apiVersion": "v1", "kind": "Secret", "type": kind, "data": {"k": "dg=="}}
        metadata = {"name": cluster.unique("secret"), "labels": labels}
        names[kind, bool(labels)] = cluster.create(where, {**body, "metadata": metadata})["metadata"]["name"]
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    query = f"?labelSelector=l%3D{label}&fieldSelector=type%3Dx.io%2Fours"
    (found,) = ok(cluster.request("GET", where + query, accept=accept))["items"]
    assert found["metadata"]["name"] == names["x.io/ours", True]
    assert "data" not in found


def test_secret_that_is_immutable_takes_no_other_data_and_can_be_deleted(cluster: Cluster) -> None:
    """By its uid alone: nothing else of it can have changed since."""
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": cluster.unique("secret")}}
    made = cluster.create("/api/v1/namespaces/default/secrets", {**body, "immutable": True, "data": {"k": "dg=="}})
    assert made["immutable"] is True
    for patch, field in (({"data": {"k": "dw=="}}, "data"), ({"immutable": None}, "immutable")):
        status = refused(cluster.merge_patch(path_of(made), patch), 422, "Invalid")
        assert [cause["field"] for cause in status["details"]["causes"]] == [field]
        assert "field is immutable when `immutable` is set" in status["message"]
    ok(cluster.merge_patch(path_of(made), {"metadata": {"labels": {"l": "1"}}}))
    ok(cluster.request("DELETE", path_of(made), body={"preconditions": {"uid": made["metadata"]["uid"]}}))
    assert cluster.request("GET", path_of(made)).status == 404


def test_put_with_the_version_that_was_read_replaces(cluster: Cluster) -> None:
    """What is left out is gone."""
    obj = make_configmap(cluster, data={"a": "1"}, labels={"l": "1"})
    body = _body(obj["metadata"]["name"], data={"b": "2"})
    body["metadata"]["resourceVersion"] = version(obj)
    after = ok(cluster.request("PUT", path_of(obj), body=body))
    assert after["data"] == {"b": "2"}
    assert "labels" not in after["metadata"]
    assert after["metadata"]["uid"] == obj["metadata"]["uid"]
    assert after["metadata"]["creationTimestamp"] == obj["metadata"]["creationTimestamp"]
    refused(cluster.request("PUT", path_of(obj), body=body), 409, "Conflict")


def test_put_of_a_custom_resource_needs_a_version(cluster: Cluster) -> None:
    """Unlike a ConfigMap."""
    obj = make_kustomization(cluster)
    del obj["metadata"]["resourceVersion"]
    status = refused(cluster.request("PUT", path_of(obj), body=obj), 422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "metadata.resourceVersion"


def test_put_of_another_name_is_a_bad_request(cluster: Cluster) -> None:
    """The URL names the object."""
    obj = make_configmap(cluster)
    status = refused(cluster.request("PUT", path_of(obj), body=_body("other")), 400, "BadRequest")
    name = obj["metadata"]["name"]
    assert status["message"] == f"the name of the object (other) does not match the name on the URL ({name})"


def test_put_of_another_uid_is_a_conflict(cluster: Cluster) -> None:
    """The uid in a PUT is a precondition."""
    obj = make_configmap(cluster)
    obj["metadata"]["uid"] = "5b3c1c0e-0000-4000-8000-000000000000"
    refused(cluster.request("PUT", path_of(obj), body=obj), 409, "Conflict")


def test_put_does_not_write_the_status_of_a_custom_resource(cluster: Cluster) -> None:
    """Nor `/status` the spec."""
    obj = make_kustomization(cluster)
    obj["status"] = {"observedGeneration": 5}
    after = ok(cluster.request("PUT", path_of(obj), body=obj))
    assert after["status"] == {"observedGeneration": -1}
    after["status"] = {"observedGeneration": 5}
    after["spec"]["suspend"] = True
    written = ok(cluster.request("PUT", f"{path_of(obj)}/status", body=after))
    assert written["status"] == {"observedGeneration": 5}
    assert "suspend" not in written["spec"]


@pytest.mark.parametrize(
    ("make", "group", "plural"),
    [
        (make_configmap, "", "configmaps"),
        (make_node, "", "nodes"),
        (make_lease, "coordination.k8s.io", "leases"),
        (make_kustomization, "kustomize.toolkit.fluxcd.io", "kustomizations"),
    ],
    ids=["configmap", "node", "lease", "kustomization"],
)
def test_deletion_answers_with_the_uid(cluster: Cluster, make, group: str, plural: str) -> None:  # type: ignore[no-untyped-def]
    """A Status of success; the second deletion finds nothing."""
    obj = make(cluster)
    status = ok(cluster.request("DELETE", path_of(obj)))
    details = {"name": obj["metadata"]["name"], "kind": plural, "uid": obj["metadata"]["uid"]}
    assert (status["kind"], status["status"]) == ("Status", "Success")
    assert status["details"] == details | ({"group": group} if group else {})
    refused(cluster.request("DELETE", path_of(obj)), 404, "NotFound")
    refused(cluster.request("GET", path_of(obj)), 404, "NotFound")


@pytest.mark.parametrize("key", ["uid", "resourceVersion"])
@pytest.mark.parametrize("make", [make_configmap, make_kustomization], ids=["configmap", "kustomization"])
def test_deletion_keeps_to_its_preconditions(cluster: Cluster, make, key: str) -> None:  # type: ignore[no-untyped-def]
    """What is not the object that was read is not deleted."""
    obj = make(cluster)
    wrong = {"preconditions": {key: "1"}}
    status = refused(cluster.request("DELETE", path_of(obj), body=wrong), 409, "Conflict")
    assert "in the precondition (1) does not match" in status["message"]
    cluster.get(path_of(obj))
    ok(cluster.request("DELETE", path_of(obj), body={"preconditions": {key: obj["metadata"][key]}}))


def test_finalizer_holds_an_object_that_is_deleted(cluster: Cluster) -> None:
    """It can still be changed, but no finalizer may be added, and it goes with the last one."""
    obj = make_configmap(cluster)
    path = path_of(obj)
    ok(cluster.merge_patch(path, {"metadata": {"finalizers": ["example.dev/a", "example.dev/b"]}}))
    deleting = ok(cluster.request("DELETE", path))
    assert deleting["kind"] == "ConfigMap"
    assert deleting["metadata"]["deletionTimestamp"]
    assert deleting["metadata"]["deletionGracePeriodSeconds"] == 0

    again = ok(cluster.request("DELETE", path))
    assert version(again) == version(deleting)
    ok(cluster.merge_patch(path, {"data": {"k": "v"}}))
    more = {"metadata": {"finalizers": ["example.dev/a", "example.dev/b", "example.dev/c"]}}
    status = refused(cluster.merge_patch(path, more), 422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "metadata.finalizers"
    ok(cluster.merge_patch(path, {"metadata": {"finalizers": ["example.dev/b"]}}))
    cluster.get(path)
    ok(cluster.merge_patch(path, {"metadata": {"finalizers": None}}))
    refused(cluster.request("GET", path), 404, "NotFound")


def test_deletion_timestamp_cannot_be_set(cluster: Cluster) -> None:
    """Only a DELETE begins a deletion."""
    obj = make_configmap(cluster)
    at = {"metadata": {"deletionTimestamp": "2026-11-30T12:00:00Z"}}
    status = refused(cluster.merge_patch(path_of(obj), at), 422, "Invalid")
    assert [cause["field"] for cause in status["details"]["causes"]] == ["metadata.deletionTimestamp"]


def test_object_made_again_under_its_name_is_another(cluster: Cluster) -> None:
    """A uid is never given twice."""
    name = cluster.unique("node")
    before = make_node(cluster, name)
    ok(cluster.request("DELETE", path_of(before)))
    after = make_node(cluster, name)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]


def test_collection_is_deleted_by_selector(cluster: Cluster) -> None:
    """What does not match stays."""
    namespace = make_namespace(cluster)
    for name, label in (("a", "x"), ("b", "x"), ("c", "y")):
        make_configmap(cluster, name, namespace=namespace, labels={"l": label})
    base = f"/api/v1/namespaces/{namespace}/configmaps"
    ok(cluster.request("DELETE", base, query={"labelSelector": "l=x"}))
    assert [item["metadata"]["name"] for item in cluster.get(base)["items"]] == ["c"]


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        ({"a": "1", "b": "2"}, {"b": None}, {"a": "1"}),
        ({"a": "1"}, {"b": "2"}, {"a": "1", "b": "2"}),
        ({"a": "1"}, {"a": None}, None),
        ({"a": "1"}, {"z": None}, {"a": "1"}),
        ({"a": "1"}, None, None),
        (None, {"a": "1"}, {"a": "1"}),
        ({"a": "1"}, {}, {"a": "1"}),
    ],
    ids=["remove", "add", "remove-last", "remove-absent", "remove-map", "add-map", "nothing"],
)
def test_merge_patch_of_annotations(
    cluster: Cluster, before: dict[str, str] | None, patch: Raw | None, after: dict[str, str] | None
) -> None:
    """Null removes, and an empty map is no map."""
    obj = make_configmap(cluster, annotations=before)
    result = ok(cluster.merge_patch(path_of(obj), {"metadata": {"annotations": patch}}))
    assert result["metadata"].get("annotations") == after


def test_merge_patch_with_a_stale_version_is_a_conflict(cluster: Cluster) -> None:
    """The version in a merge patch is a precondition."""
    obj = make_configmap(cluster)
    ok(cluster.merge_patch(path_of(obj), {"data": {"k": "1"}}))
    stale = {"metadata": {"resourceVersion": version(obj)}, "data": {"k": "2"}}
    refused(cluster.merge_patch(path_of(obj), stale), 409, "Conflict")


def test_merge_patch_replaces_lists_whole(cluster: Cluster) -> None:
    """Unlike a strategic merge."""
    taints = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}]
    node = make_node(cluster, taints=taints)
    after = ok(cluster.merge_patch(path_of(node), {"spec": {"taints": taints[:1]}}))
    assert after["spec"]["taints"] == taints[:1]


@pytest.mark.parametrize(("method", "path"), [("POST", "/api/v1/nodes/x"), ("PUT", "/api/v1/nodes")])
def test_method_that_does_not_fit_is_not_allowed(cluster: Cluster, method: str, path: str) -> None:
    """405."""
    refused(cluster.request(method, path, body={}), 405, "MethodNotAllowed")
