"""
Server-side apply: who owns which field, and who is refused.

Aspects: create and repeat · conflicts with an applier and with a plain writer · force · shared and given-up fields ·
what is refused · what Flux's controller would do to a suspension.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.answers import ok, refused, settled, version
from tests.support.clusters import (
    KUSTOMIZE,
    Cluster,
    Raw,
    make_configmap,
    make_kustomization,
    make_namespace,
    managers_of,
    path_of,
)
from tests.support.rawhttp import APPLY_PATCH, RawAnswer

DEFAULT = "/api/v1/namespaces/default/configmaps"


def _manifest(name: str, data: dict[str, str], **metadata: Any) -> Raw:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": data}


def _apply(cluster: Cluster, body: Raw | str, *, name: str, manager: str, **query: Any) -> RawAnswer:
    return cluster.request(
        "PATCH",
        f"{DEFAULT}/{name}",
        body=body,
        content_type=APPLY_PATCH,
        query={"fieldManager": manager, **query},
    )


def _owners(obj: Raw, field: str) -> set[tuple[str, str]]:
    return {
        (entry["manager"], entry["operation"])
        for entry in obj["metadata"]["managedFields"]
        if f"f:{field}" in entry["fieldsV1"].get("f:data", {})
    }


def test_apply_creates_what_is_missing(cluster: Cluster) -> None:
    """201, with the applier as the only owner."""
    name = cluster.unique("cm")
    made = ok(_apply(cluster, _manifest(name, {"a": "1"}), name=name, manager="one"), 201)
    (entry,) = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["fieldsV1"]) == ("one", "Apply", {"f:data": {"f:a": {}}})


def test_same_apply_again_writes_nothing(cluster: Cluster) -> None:
    """The version stays, the time of the entry too."""
    name = cluster.unique("cm")
    body = _manifest(name, {"a": "1"})
    made = ok(_apply(cluster, body, name=name, manager="one"), 201)
    assert ok(_apply(cluster, body, name=name, manager="one")) == made


def test_apply_takes_yaml(cluster: Cluster) -> None:
    """As its content type says."""
    name = cluster.unique("cm")
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  a: '1'\n"
    assert ok(_apply(cluster, text, name=name, manager="one"), 201)["data"] == {"a": "1"}


def test_apply_of_another_value_conflicts_with_its_owner(cluster: Cluster) -> None:
    """409 with a cause for each field; nothing is written."""
    name = cluster.unique("cm")
    made = ok(_apply(cluster, _manifest(name, {"a": "1", "b": "1"}), name=name, manager="one"), 201)

    answer = _apply(cluster, _manifest(name, {"a": "2", "c": "2"}), name=name, manager="two")

    status = refused(answer, 409, "Conflict")
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.a'
    assert status["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.a"}
    ]
    assert cluster.get(path_of(made)) == made


def test_apply_conflicts_with_a_plain_writer_too(cluster: Cluster) -> None:
    """The message then says in which version it wrote."""
    name = cluster.unique("cm")
    make_configmap(cluster, name, data={"a": "1"}, manager="writer")
    status = refused(_apply(cluster, _manifest(name, {"a": "2"}), name=name, manager="one"), 409, "Conflict")
    assert status["details"]["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "writer" using v1',
            "field": ".data.a",
        }
    ]


def test_conflicts_on_several_fields_are_all_named(cluster: Cluster) -> None:
    """One message for each manager, one cause for each field."""
    name = cluster.unique("cm")
    ok(_apply(cluster, _manifest(name, {"a": "1", "b": "1"}), name=name, manager="one"), 201)
    answer = _apply(cluster, _manifest(name, {"a": "2", "b": "2"}), name=name, manager="two")
    status = refused(answer, 409, "Conflict")
    assert status["message"] == 'Apply failed with 2 conflicts: conflicts with "one":\n- .data.a\n- .data.b'
    assert [cause["field"] for cause in status["details"]["causes"]] == [".data.a", ".data.b"]


def test_force_takes_the_field_over(cluster: Cluster) -> None:
    """The owner before loses it, and its entry where nothing is left."""
    name = cluster.unique("cm")
    ok(_apply(cluster, _manifest(name, {"a": "1"}), name=name, manager="one"), 201)
    after = ok(_apply(cluster, _manifest(name, {"a": "2"}), name=name, manager="two", force="true"))
    assert after["data"] == {"a": "2"}
    assert list(managers_of(after)) == ["two"]


def test_same_value_is_shared(cluster: Cluster) -> None:
    """No conflict; then neither can change it without force, nor remove it alone."""
    name = cluster.unique("cm")
    ok(_apply(cluster, _manifest(name, {"a": "1"}), name=name, manager="one"), 201)
    after = ok(_apply(cluster, _manifest(name, {"a": "1"}), name=name, manager="two"))
    assert _owners(after, "a") == {("one", "Apply"), ("two", "Apply")}
    after = ok(_apply(cluster, _manifest(name, {}), name=name, manager="one"))
    assert after["data"] == {"a": "1"}
    assert _owners(after, "a") == {("two", "Apply")}


def test_field_that_is_no_longer_applied_goes(cluster: Cluster) -> None:
    """What only the applier owned; what others wrote stays."""
    name = cluster.unique("cm")
    ok(_apply(cluster, _manifest(name, {"a": "1", "b": "1"}), name=name, manager="one"), 201)
    ok(cluster.merge_patch(f"{DEFAULT}/{name}", {"data": {"c": "1"}}, manager="writer"))
    after = ok(_apply(cluster, _manifest(name, {"a": "1"}), name=name, manager="one"))
    assert after["data"] == {"a": "1", "c": "1"}


def test_plain_patch_never_conflicts(cluster: Cluster) -> None:
    """It takes the field from the applier, whose next apply then conflicts."""
    name = cluster.unique("cm")
    body = _manifest(name, {"a": "1"})
    ok(_apply(cluster, body, name=name, manager="one"), 201)
    after = ok(cluster.merge_patch(f"{DEFAULT}/{name}", {"data": {"a": "2"}}, manager="writer"))
    assert _owners(after, "a") == {("writer", "Update")}
    refused(_apply(cluster, body, name=name, manager="one"), 409, "Conflict")


def test_apply_and_update_of_one_manager_are_two_entries(cluster: Cluster) -> None:
    """The same name as applier and as writer conflicts with itself."""
    name = cluster.unique("cm")
    make_configmap(cluster, name, data={"a": "1"}, manager="one")
    refused(_apply(cluster, _manifest(name, {"a": "2"}), name=name, manager="one"), 409, "Conflict")
    after = ok(_apply(cluster, _manifest(name, {"a": "1"}), name=name, manager="one"))
    assert _owners(after, "a") == {("one", "Apply"), ("one", "Update")}


def test_dry_run_of_an_apply_stores_nothing(cluster: Cluster) -> None:
    """Neither when it would create nor when it would change."""
    name = cluster.unique("cm")
    shown = ok(_apply(cluster, _manifest(name, {"a": "1"}), name=name, manager="one", dryRun="All"), 201)
    assert shown["data"] == {"a": "1"}
    refused(cluster.request("GET", f"{DEFAULT}/{name}"), 404, "NotFound")
    made = ok(_apply(cluster, _manifest(name, {"a": "1"}), name=name, manager="one"), 201)
    shown = ok(_apply(cluster, _manifest(name, {"a": "2"}), name=name, manager="one", dryRun="All"))
    assert (shown["data"], version(shown)) == ({"a": "2"}, version(made))


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"apiVersion": None, "kind": None}, 400, "invalid object type: /, Kind="),
        ({"datum": {}}, 500, ".datum: field not declared in schema"),
        (
            {"metadata": {"name": "other"}},
            400,
            "the name of the object (other) does not match the name on the URL (x)",
        ),
        ({"metadata": {"name": "x", "managedFields": [{}]}}, 400, "metadata.managedFields must be nil"),
    ],
    ids=["no-kind", "unknown-field", "another-name", "managed-fields"],
)
def test_apply_of_what_makes_no_sense_is_refused(cluster: Cluster, change: Raw, code: int, message: str) -> None:
    """An unknown field is a 500 on a built-in kind."""
    body = {key: value for key, value in {**_manifest("x", {}), **change}.items() if value is not None}
    answer = _apply(cluster, body, name="x", manager="one")
    assert (answer.status, answer.json()["status"]) == (code, "Failure")
    assert answer.json()["message"].endswith(message)


def test_apply_that_carries_a_version_or_uid_keeps_to_it(cluster: Cluster) -> None:
    """A stale version is 409, another uid on an existing object is 422, on a missing one 409."""
    name = cluster.unique("cm")
    ok(_apply(cluster, _manifest(name, {"a": "1"}), name=name, manager="one"), 201)
    stale = _manifest(name, {"a": "2"}, resourceVersion="1")
    refused(_apply(cluster, stale, name=name, manager="one"), 409, "Conflict")
    uid = "5b3c1c0e-0000-4000-8000-000000000000"
    refused(_apply(cluster, _manifest(name, {"a": "2"}, uid=uid), name=name, manager="one"), 422, "Invalid")
    missing = cluster.unique("cm")
    refused(_apply(cluster, _manifest(missing, {}, uid=uid), name=missing, manager="one"), 409, "Conflict")


def _child(name: str, namespace: str, spec: Raw) -> Raw:
    return {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "interval": "10m",
            "prune": True,
            "path": "./",
            "sourceRef": {"kind": "GitRepository", "name": "flux-system"},
            **spec,
        },
    }


def test_apply_without_suspend_leaves_our_suspension(cluster: Cluster) -> None:
    """The field belongs to whoever wrote it; a manifest that does not name it does not touch it."""
    namespace = make_namespace(cluster)
    path = f"{KUSTOMIZE}/namespaces/{namespace}/kustomizations/child"
    query = {"fieldManager": "kustomize-controller", "force": "true"}
    body = _child("child", namespace, {})
    ok(cluster.request("PATCH", path, body=body, content_type=APPLY_PATCH, query=query), 201)
    suspend = {"spec": {"suspend": True}, "metadata": {"annotations": {"fencectl.dev/holder": "x"}}}
    ok(cluster.merge_patch(path, suspend))

    after = ok(cluster.request("PATCH", path, body=body, content_type=APPLY_PATCH, query=query))

    assert after["spec"]["suspend"] is True
    assert after["metadata"]["annotations"] == {"fencectl.dev/holder": "x"}


def test_apply_with_suspend_false_conflicts_and_with_force_undoes_it(cluster: Cluster) -> None:
    """Why a fenced child also carries `reconcile: disabled`."""
    namespace = make_namespace(cluster)
    path = f"{KUSTOMIZE}/namespaces/{namespace}/kustomizations/child"
    body = _child("child", namespace, {"suspend": False})
    query = {"fieldManager": "kustomize-controller"}
    ok(cluster.request("PATCH", path, body=body, content_type=APPLY_PATCH, query=query), 201)
    ok(cluster.merge_patch(path, {"spec": {"suspend": True}}))

    status = refused(
        cluster.request("PATCH", path, body=body, content_type=APPLY_PATCH, query=query), 409, "Conflict"
    )
    assert [cause["field"] for cause in status["details"]["causes"]] == [".spec.suspend"]
    assert status["message"].startswith('Apply failed with 1 conflict: conflict with "fencectl" using kustomize')
    query["force"] = "true"
    after = ok(cluster.request("PATCH", path, body=body, content_type=APPLY_PATCH, query=query))
    assert after["spec"]["suspend"] is False


def test_unknown_field_of_an_applied_custom_resource(cluster: Cluster) -> None:
    """A 500 as on a built-in kind."""
    namespace = make_namespace(cluster)
    path = f"{KUSTOMIZE}/namespaces/{namespace}/kustomizations/child"
    body = _child("child", namespace, {"suspended": True})
    answer = cluster.request("PATCH", path, body=body, content_type=APPLY_PATCH, query={"fieldManager": "one"})
    assert answer.status == 500
    assert answer.json()["message"].endswith(".spec.suspended: field not declared in schema")


def test_no_op_apply_of_a_custom_resource_writes_nothing(cluster: Cluster) -> None:
    """Once its defaults are stored."""
    namespace = make_namespace(cluster)
    path = f"{KUSTOMIZE}/namespaces/{namespace}/kustomizations/child"
    body = _child("child", namespace, {})
    query = {"fieldManager": "one"}
    ok(cluster.request("PATCH", path, body=body, content_type=APPLY_PATCH, query=query), 201)
    obj = settled(cluster, cluster.get(path))
    assert ok(cluster.request("PATCH", path, body=body, content_type=APPLY_PATCH, query=query)) == obj


def test_managers_renamed_by_a_patch_are_taken_over(cluster: Cluster) -> None:
    """Flux moves entries of `kubectl*` to its own by patching managedFields; our own name is not among them."""
    obj = make_kustomization(cluster, labels={"l": "1"})
    ok(cluster.merge_patch(path_of(obj), {"spec": {"suspend": True}}, manager="kubectl-patch"))
    entries = cluster.get(path_of(obj))["metadata"]["managedFields"]
    index = next(number for number, entry in enumerate(entries) if entry["manager"] == "kubectl-patch")
    taken = {**entries[index], "manager": "kustomize-controller", "operation": "Apply"}
    ops = [{"op": "replace", "path": f"/metadata/managedFields/{index}", "value": taken}]

    after = ok(cluster.json_patch(path_of(obj), ops, manager="kustomize-controller"))

    assert ("kustomize-controller", "Apply") in {
        (entry["manager"], entry["operation"]) for entry in after["metadata"]["managedFields"]
    }
    assert "kubectl-patch" not in managers_of(after)
