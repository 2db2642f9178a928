"""
What the API server answers to a PATCH that it refuses, and to one that changes nothing.

Aspects: 400, 404, 409, 413, 415 and the three shapes of 422 · what each says and what it must not be asked ·
dry run · strict fields · no-op writes · field managers.
"""

from __future__ import annotations

import json

import pytest

from tests.contract.answers import not_applicable, ok, refused, settled, version
from tests.support.clusters import (
    Cluster,
    Raw,
    make_configmap,
    make_kustomization,
    make_lease,
    make_node,
    managers_of,
    path_of,
)
from tests.support.rawhttp import APPLY_PATCH, JSON, JSON_PATCH

ANNOTATE = [{"op": "add", "path": "/metadata/annotations", "value": {"k": "v"}}]


@pytest.mark.parametrize("body", ["", "nonsense", "{", '[{"op":"test"', "[1]"])
def test_patch_that_is_not_json_operations_is_a_bad_request(cluster: Cluster, body: str) -> None:
    """Broken text is 400, and the object stays."""
    obj = make_configmap(cluster)
    refused(cluster.json_patch(path_of(obj), body or b"".decode()), 400, "BadRequest")
    assert cluster.get(path_of(obj)) == obj


def test_patch_that_is_an_object_is_a_bad_request(cluster: Cluster) -> None:
    """A JSON patch is a list."""
    path = path_of(make_configmap(cluster))
    answer = cluster.request("PATCH", path, body={"op": "test"}, content_type=JSON_PATCH)
    refused(answer, 400, "BadRequest")


def test_patch_of_a_missing_object_is_not_found(cluster: Cluster) -> None:
    """A JSON patch never creates; the Status names what is missing."""
    name = cluster.unique("missing")
    status = refused(cluster.json_patch(f"/api/v1/nodes/{name}", ANNOTATE), 404, "NotFound")
    assert status["message"] == f'nodes "{name}" not found'
    assert status["details"] == {"name": name, "kind": "nodes"}


def test_patch_of_a_missing_custom_resource_names_its_group(cluster: Cluster) -> None:
    """The kind in the details is the plural, the group stands beside it."""
    name = cluster.unique("missing")
    path = f"/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/default/kustomizations/{name}"
    status = refused(cluster.json_patch(path, ANNOTATE), 404, "NotFound")
    assert status["message"] == f'kustomizations.kustomize.toolkit.fluxcd.io "{name}" not found'
    assert status["details"] == {
        "name": name,
        "group": "kustomize.toolkit.fluxcd.io",
        "kind": "kustomizations",
    }


def test_patch_that_carries_a_stale_version_is_a_conflict(cluster: Cluster) -> None:
    """Setting resourceVersion to what is not current is 409; to what is current, an ordinary write."""
    obj = make_configmap(cluster)
    path, old = path_of(obj), version(obj)
    ok(cluster.json_patch(path, ANNOTATE))
    stale = [{"op": "replace", "path": "/metadata/resourceVersion", "value": old}]

    status = refused(cluster.json_patch(path, stale), 409, "Conflict")

    name = obj["metadata"]["name"]
    assert status["message"] == (
        f'Operation cannot be fulfilled on configmaps "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert status["details"] == {"name": name, "kind": "configmaps"}


def test_patch_with_the_current_version_and_a_change_is_written(cluster: Cluster) -> None:
    """The version in the patch is a precondition."""
    obj = make_configmap(cluster)
    same = {"op": "replace", "path": "/metadata/resourceVersion", "value": version(obj)}
    after = ok(cluster.json_patch(path_of(obj), [same, *ANNOTATE]))
    assert version(after) != version(obj)


def test_patch_of_the_uid_is_invalid(cluster: Cluster) -> None:
    """An object never changes its uid."""
    path = path_of(make_configmap(cluster))
    other = [{"op": "replace", "path": "/metadata/uid", "value": "5b3c1c0e-0000-4000-8000-000000000000"}]
    status = refused(cluster.json_patch(path, other), 422, "Invalid")
    assert [cause["field"] for cause in status["details"]["causes"]] == ["metadata.uid"]


def test_patch_of_the_name_is_a_bad_request(cluster: Cluster) -> None:
    """The URL names the object."""
    path = path_of(make_configmap(cluster))
    other = [{"op": "replace", "path": "/metadata/name", "value": "other"}]
    refused(cluster.json_patch(path, other), 400, "BadRequest")


def test_more_than_ten_thousand_operations_are_too_large(cluster: Cluster) -> None:
    """The limit is on the count, whatever they do."""
    path = path_of(make_configmap(cluster, annotations={"k": "v"}))
    one = {"op": "test", "path": "/metadata/annotations/k", "value": "v"}
    ok(cluster.json_patch(path, [one] * 10_000))
    refused(cluster.json_patch(path, [one] * 10_001), 413, "RequestEntityTooLarge")


def test_body_over_three_mebibytes_is_too_large(cluster: Cluster) -> None:
    """The limit on a body holds before anything of it is read."""
    path = path_of(make_configmap(cluster))
    body = json.dumps([{"op": "add", "path": "/data", "value": {"k": "x" * (3 * 1024 * 1024)}}])
    refused(cluster.json_patch(path, body), 413, "RequestEntityTooLarge")


def test_annotations_over_256_kibibytes_are_invalid(cluster: Cluster) -> None:
    """All annotations of one object together are limited."""
    obj = make_configmap(cluster)
    big = [{"op": "add", "path": "/metadata/annotations", "value": {"k": "x" * (256 * 1024)}}]
    status = refused(cluster.json_patch(path_of(obj), big), 422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "metadata.annotations"


@pytest.mark.parametrize("content_type", ["text/plain", "application/json"])
def test_patch_of_an_unknown_content_type_is_unsupported(cluster: Cluster, content_type: str) -> None:
    """Only the patch types are patches."""
    path = path_of(make_configmap(cluster))
    answer = cluster.request("PATCH", path, body="[]", content_type=content_type)
    refused(answer, 415, "UnsupportedMediaType")


def test_custom_resource_refuses_a_strategic_merge(cluster: Cluster) -> None:
    """Strategic merge needs Go types; a custom resource has none."""
    path = path_of(make_kustomization(cluster))
    answer = cluster.request(
        "PATCH", path, body={"spec": {}}, content_type="application/strategic-merge-patch+json"
    )
    refused(answer, 415, "UnsupportedMediaType")


def test_failed_test_says_nothing(cluster: Cluster) -> None:
    """Neither which test failed nor on what: 422 without details is 'the patch did not apply'."""
    obj = make_configmap(cluster)
    guard = [{"op": "test", "path": "/metadata/uid", "value": "other"}]
    not_applicable(cluster.json_patch(path_of(obj), guard))
    assert cluster.get(path_of(obj)) == obj


def test_result_that_is_not_valid_names_the_field(cluster: Cluster) -> None:
    """The second shape: name, kind and causes, and the name in the message."""
    lease = make_lease(cluster)
    name = lease["metadata"]["name"]
    bad = [{"op": "add", "path": "/spec/leaseDurationSeconds", "value": -5}]

    status = refused(cluster.json_patch(path_of(lease), bad), 422, "Invalid")

    assert status["message"].startswith(f'Lease.coordination.k8s.io "{name}" is invalid: ')
    assert status["details"]["name"] == name
    assert status["details"]["kind"] == "Lease"
    assert status["details"]["group"] == "coordination.k8s.io"
    assert [cause["field"] for cause in status["details"]["causes"]] == ["spec.leaseDurationSeconds"]
    assert status["details"]["causes"][0]["reason"] == "FieldValueInvalid"


def test_result_of_a_wrong_type_on_a_custom_resource_names_the_field(cluster: Cluster) -> None:
    """A custom resource is checked against its schema."""
    obj = make_kustomization(cluster)
    bad = [{"op": "add", "path": "/spec/suspend", "value": "yes"}]
    status = refused(cluster.json_patch(path_of(obj), bad), 422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "spec.suspend"
    assert status["details"]["name"] == obj["metadata"]["name"]


def test_result_that_cannot_be_decoded_quotes_the_whole_object(cluster: Cluster) -> None:
    """The third shape: the cause's field is `patch`, there is no name, and the message quotes everything."""
    secret = cluster.create(
        "/api/v1/namespaces/default/secrets",
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": cluster.unique("secret")},
            "data": {"password": "aHVudGVyMg=="},
        },
    )
    bad = [{"op": "add", "path": "/metadata/labels", "value": {"k": 5}}]

    status = refused(cluster.json_patch(path_of(secret), bad), 422, "Invalid")

    assert "name" not in status["details"]
    assert [cause["field"] for cause in status["details"]["causes"]] == ["patch"]
    assert "aHVudGVyMg==" in status["message"]


def test_dry_run_runs_the_tests_but_stores_nothing(cluster: Cluster) -> None:
    """The answer shows the result with the version before; a failed test fails."""
    obj = make_configmap(cluster)
    path = path_of(obj)

    shown = ok(cluster.json_patch(path, ANNOTATE, dryRun="All"))

    assert shown["metadata"]["annotations"] == {"k": "v"}
    assert version(shown) == version(obj)
    assert cluster.get(path) == obj
    guard = [{"op": "test", "path": "/metadata/uid", "value": "other"}]
    not_applicable(cluster.json_patch(path, guard, dryRun="All"))


def test_dry_run_of_another_value_is_a_bad_request(cluster: Cluster) -> None:
    """`All` is the only one."""
    path = path_of(make_configmap(cluster))
    answer = cluster.json_patch(path, ANNOTATE, dryRun="Some")
    assert answer.status in (400, 422), answer.text


def test_dry_run_create_and_delete_store_nothing(cluster: Cluster) -> None:
    """A dry create has a uid and no version; a dry delete leaves the object."""
    name = cluster.unique("cm")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    base = "/api/v1/namespaces/default/configmaps"
    made = ok(cluster.request("POST", base, body=body, query={"dryRun": "All"}), 201)
    assert made["metadata"]["uid"]
    assert "resourceVersion" not in made["metadata"]
    refused(cluster.request("GET", f"{base}/{name}"), 404, "NotFound")

    cluster.create(base, body)
    ok(cluster.request("DELETE", f"{base}/{name}", query={"dryRun": "All"}))
    cluster.get(f"{base}/{name}")


@pytest.mark.parametrize(
    "make", [make_node, make_lease, make_kustomization], ids=["node", "lease", "kustomization"]
)
def test_unknown_field_is_refused_when_strict(cluster: Cluster, make) -> None:  # type: ignore[no-untyped-def]
    """A typing mistake in a path is caught, and the object stays."""
    obj = make(cluster)
    typo = [{"op": "add", "path": "/spec/unschedulabel", "value": True}]
    status = refused(cluster.json_patch(path_of(obj), typo, fieldValidation="Strict"), 422, "Invalid")
    assert 'unknown field "spec.unschedulabel"' in status["message"]
    assert [cause["field"] for cause in status["details"]["causes"]] == ["patch"]
    assert cluster.get(path_of(obj)) == obj


@pytest.mark.parametrize("make", [make_node, make_kustomization], ids=["node", "kustomization"])
@pytest.mark.parametrize("validation", [None, "Warn"], ids=["default", "warn"])
def test_unknown_field_is_dropped_with_a_warning(cluster: Cluster, make, validation) -> None:  # type: ignore[no-untyped-def]
    """By default the field is left out, and a Warning header says so."""
    obj = settled(cluster, make(cluster))
    typo = [{"op": "add", "path": "/spec/unschedulabel", "value": True}]
    query = {} if validation is None else {"fieldValidation": validation}

    answer = cluster.json_patch(path_of(obj), typo, **query)

    assert "unschedulabel" not in ok(answer)["spec"]
    assert answer.warnings == ['299 - "unknown field \\"spec.unschedulabel\\""']
    assert version(answer.json()) == version(obj)


def test_unknown_field_is_dropped_silently_when_ignored(cluster: Cluster) -> None:
    """`Ignore` says nothing."""
    typo = [{"op": "add", "path": "/spec/unschedulabel", "value": True}]
    answer = cluster.json_patch(path_of(make_node(cluster)), typo, fieldValidation="Ignore")
    ok(answer)
    assert answer.warnings == []


@pytest.mark.parametrize(
    "ops",
    [
        [],
        [{"op": "replace", "path": "/metadata/annotations/k", "value": "v"}],
        [{"op": "test", "path": "/metadata/annotations/k", "value": "v"}],
    ],
    ids=["empty", "same-value", "tests-only"],
)
@pytest.mark.parametrize("make", [make_configmap, make_kustomization], ids=["configmap", "kustomization"])
def test_patch_that_changes_nothing_is_not_written(cluster: Cluster, make, ops: list[Raw]) -> None:  # type: ignore[no-untyped-def]
    """200 with the same version: success does not prove a write."""
    obj = settled(cluster, make(cluster, annotations={"k": "v"}))
    assert ok(cluster.json_patch(path_of(obj), ops, manager="another")) == obj


def test_first_empty_patch_of_a_new_kustomization_is_written(cluster: Cluster) -> None:
    """The default of its status is stored with the first write, so the version moves once and the rest stays."""
    obj = make_kustomization(cluster)
    assert obj["status"] == {"observedGeneration": -1}

    after = ok(cluster.json_patch(path_of(obj), []))

    assert version(after) != version(obj)
    assert {**after["metadata"], "resourceVersion": version(obj)} == obj["metadata"]
    assert ok(cluster.json_patch(path_of(obj), [])) == after


def test_put_that_changes_nothing_is_not_written(cluster: Cluster) -> None:
    """The same holds for a PUT, by any manager."""
    obj = make_configmap(cluster, data={"k": "v"})
    again = {key: value for key, value in obj.items() if key != "managedFields"}
    answer = cluster.request("PUT", path_of(obj), body=again, query={"fieldManager": "configmap-maker"})
    assert version(ok(answer)) == version(obj)


def test_manager_of_a_patch_is_recorded_with_its_fields(cluster: Cluster) -> None:
    """Each write enters managedFields with manager, operation, time and the fields that it set."""
    obj = make_node(cluster, labels={"k": "v"})
    ops: list[Raw] = [
        {"op": "add", "path": "/metadata/annotations", "value": {"fencectl.dev/holder": "x"}},
        {"op": "add", "path": "/spec/unschedulable", "value": True},
    ]

    after = ok(cluster.json_patch(path_of(obj), ops, manager="fencectl"))

    entry = next(one for one in after["metadata"]["managedFields"] if one["manager"] == "fencectl")
    assert (entry["operation"], entry["apiVersion"], entry["fieldsType"]) == ("Update", "v1", "FieldsV1")
    assert entry["time"].endswith("Z")
    assert entry["fieldsV1"]["f:spec"] == {"f:unschedulable": {}}
    assert entry["fieldsV1"]["f:metadata"] == {"f:annotations": {".": {}, "f:fencectl.dev/holder": {}}}


def test_object_without_managed_fields_stays_without(cluster: Cluster) -> None:
    """Where nothing was owned (or somebody cleared the list), later writes leave no trace of their manager."""
    obj = make_node(cluster)
    assert "managedFields" not in obj["metadata"]
    ops = [{"op": "add", "path": "/spec/unschedulable", "value": True}]
    assert "managedFields" not in ok(cluster.json_patch(path_of(obj), ops))["metadata"]


def test_managed_fields_that_were_cleared_stay_cleared(cluster: Cluster) -> None:
    """A list with one empty entry is how a client clears them."""
    obj = make_configmap(cluster, annotations={"k": "v"})
    cleared = ok(cluster.merge_patch(path_of(obj), {"metadata": {"managedFields": [{}]}}))
    assert "managedFields" not in cleared["metadata"]
    after = ok(cluster.json_patch(path_of(obj), [*ANNOTATE, {"op": "add", "path": "/data", "value": {"a": "b"}}]))
    assert "managedFields" not in after["metadata"]


def test_field_that_another_manager_overwrites_changes_hands(cluster: Cluster) -> None:
    """Who last set a field to another value owns it."""
    obj = make_configmap(cluster, annotations={"k": "v"}, manager="first")
    put = [{"op": "replace", "path": "/metadata/annotations/k", "value": "w"}]
    after = ok(cluster.json_patch(path_of(obj), put, manager="second"))

    owners = {
        entry["manager"]
        for entry in after["metadata"]["managedFields"]
        if "f:k" in entry["fieldsV1"].get("f:metadata", {}).get("f:annotations", {})
    }
    assert owners == {"second"}


def test_field_that_is_removed_belongs_to_nobody(cluster: Cluster) -> None:
    """A manager that owns nothing any more leaves the list."""
    obj = make_node(cluster, unschedulable=True, manager="first")
    gone = [{"op": "remove", "path": "/spec/unschedulable"}]
    after = ok(cluster.json_patch(path_of(obj), gone, manager="second"))
    text = json.dumps(after["metadata"].get("managedFields", []))
    assert "f:unschedulable" not in text


def test_manager_is_the_user_agent_where_none_is_named(cluster: Cluster) -> None:
    """Up to the first slash."""
    obj = make_configmap(cluster, labels={"k": "v"})
    answer = cluster.request(
        "PATCH",
        path_of(obj),
        body=json.dumps(ANNOTATE),
        content_type=JSON_PATCH,
        headers={"User-Agent": "some-tool/v1.2 (linux)"},
    )
    assert "some-tool" in managers_of(ok(answer))


def test_manager_of_more_than_128_characters_is_invalid(cluster: Cluster) -> None:
    """The name of a manager is limited."""
    path = path_of(make_configmap(cluster))
    ok(cluster.json_patch(path, ANNOTATE, manager="m" * 128))
    status = refused(cluster.json_patch(path, ANNOTATE, manager="m" * 129), 422, "Invalid")
    assert "fieldManager" in status["message"]


def test_apply_without_a_manager_is_refused(cluster: Cluster) -> None:
    """Server-side apply needs a name."""
    name = cluster.unique("cm")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    answer = cluster.request(
        "PATCH", f"/api/v1/namespaces/default/configmaps/{name}", body=body, content_type=APPLY_PATCH
    )
    status = refused(answer, 422, "Invalid")
    assert "fieldManager" in status["message"]


def test_answers_are_json_with_an_audit_id_and_a_date(cluster: Cluster) -> None:
    """The `Date` is the clock that heartbeats are judged by."""
    answer = cluster.request("GET", path_of(make_node(cluster)))
    assert answer.content_type == JSON
    assert answer.headers["Date"].endswith(" GMT")
    assert answer.headers["Audit-Id"]
