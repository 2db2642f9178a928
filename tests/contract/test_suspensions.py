"""
Flux objects as fences: guarded suspension and release of custom resources.

Aspects: absent, false and true · generation · place, release and the same placement again · a release that follows
the live value · the status subresource · what the schema keeps and refuses.
"""

from __future__ import annotations

import pytest

from tests.contract.answers import not_applicable, ok, refused, settled, version
from tests.support.clusters import (
    KUSTOMIZE,
    Cluster,
    Raw,
    make_git_repository,
    make_kustomization,
    path_of,
)

HOLDER = "/metadata/annotations/fencectl.dev~1holder"
GENERATION = "/metadata/generation"


def _place(obj: Raw, *, guard_generation: bool) -> list[Raw]:
    ops: list[Raw] = [
        {"op": "test", "path": "/metadata/uid", "value": obj["metadata"]["uid"]},
        {"op": "test", "path": HOLDER, "value": None},
        {"op": "test", "path": "/spec/suspend", "value": obj["spec"].get("suspend")},
        {"op": "add", "path": HOLDER, "value": "me"},
        {"op": "add", "path": "/spec/suspend", "value": True},
    ]
    if guard_generation:
        ops.insert(1, {"op": "test", "path": GENERATION, "value": obj["metadata"]["generation"]})
    return ops


def _release(prior: bool | None) -> list[Raw]:
    restore: Raw = (
        {"op": "remove", "path": "/spec/suspend"}
        if prior is None
        else {"op": "replace", "path": "/spec/suspend", "value": prior}
    )
    return [
        {"op": "test", "path": HOLDER, "value": "me"},
        {"op": "test", "path": "/spec/suspend", "value": True},
        restore,
        {"op": "remove", "path": HOLDER},
    ]


@pytest.mark.parametrize("suspend", [None, False, True], ids=["absent", "false", "true"])
@pytest.mark.parametrize("make", [make_kustomization, make_git_repository], ids=["kustomization", "gitrepository"])
def test_suspension_is_stored_as_written(cluster: Cluster, make, suspend: bool | None) -> None:  # type: ignore[no-untyped-def]
    """On a custom resource an explicit false stays, unlike on a node."""
    spec = make(cluster, suspend=suspend)["spec"]
    assert ("suspend" in spec, spec.get("suspend")) == (suspend is not None, suspend)


@pytest.mark.parametrize(
    ("suspend", "value", "passes"),
    [
        (None, None, True),
        (None, False, False),
        (False, False, True),
        (False, None, False),
        (True, True, True),
        (True, "true", False),
    ],
)
def test_guard_on_the_suspension_tells_absent_from_false(
    cluster: Cluster, suspend: bool | None, value: object, passes: bool
) -> None:
    """A guard says which of the two it read."""
    obj = make_kustomization(cluster, suspend=suspend)
    answer = cluster.json_patch(path_of(obj), [{"op": "test", "path": "/spec/suspend", "value": value}])
    if passes:
        ok(answer)
    else:
        not_applicable(answer)


@pytest.mark.parametrize("prior", [None, False], ids=["absent", "false"])
@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])
def test_place_release_and_the_same_placement_again(cluster: Cluster, prior: bool | None, guarded: bool) -> None:
    """A repeated placement fences again, unless it guards the generation, which only grows."""
    obj = make_kustomization(cluster, suspend=prior, annotations={"a": "b"})
    path, place = path_of(obj), _place(obj, guard_generation=guarded)
    ok(cluster.json_patch(path, place))
    released = ok(cluster.json_patch(path, _release(prior)))
    assert released["spec"] == obj["spec"]
    assert released["metadata"]["annotations"] == {"a": "b"}

    again = cluster.json_patch(path, place)

    if guarded:
        not_applicable(again)
        assert cluster.get(path) == released
    else:
        assert ok(again)["spec"]["suspend"] is True


def test_mark_and_suspension_come_in_one_write(cluster: Cluster) -> None:
    """One patch, one version: nobody sees a suspension without its mark."""
    obj = settled(cluster, make_kustomization(cluster, annotations={"a": "b"}))
    after = ok(cluster.json_patch(path_of(obj), _place(obj, guard_generation=True)))
    assert after["metadata"]["generation"] == obj["metadata"]["generation"] + 1
    assert after["metadata"]["annotations"] == {"a": "b", "fencectl.dev/holder": "me"}


def test_generation_grows_with_the_spec_only(cluster: Cluster) -> None:
    """Annotations, labels and status leave it."""
    obj = make_kustomization(cluster)
    path = path_of(obj)
    assert obj["metadata"]["generation"] == 1
    after = ok(cluster.merge_patch(path, {"metadata": {"annotations": {"a": "b"}, "labels": {"c": "d"}}}))
    assert after["metadata"]["generation"] == 1
    after = ok(cluster.merge_patch(f"{path}/status", {"status": {"observedGeneration": 1}}))
    assert after["metadata"]["generation"] == 1
    after = ok(cluster.merge_patch(path, {"spec": {"suspend": True}}))
    assert after["metadata"]["generation"] == 2
    after = ok(cluster.merge_patch(path, {"spec": {"suspend": True}}))
    assert after["metadata"]["generation"] == 2
    after = ok(cluster.merge_patch(path, {"spec": {"suspend": None}}))
    assert after["metadata"]["generation"] == 3
    assert "suspend" not in after["spec"]


def test_generation_cannot_be_set(cluster: Cluster) -> None:
    """The server counts."""
    obj = make_kustomization(cluster)
    after = ok(cluster.merge_patch(path_of(obj), {"metadata": {"generation": 77}}))
    assert after["metadata"]["generation"] == 1


def test_release_of_a_resumed_object_changes_nothing(cluster: Cluster) -> None:
    """The guard on the suspension holds the mark too: a new patch is needed that removes marks only."""
    obj = make_kustomization(cluster)
    path = path_of(obj)
    ok(cluster.json_patch(path, [{"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}]))
    ok(cluster.json_patch(path, _place(obj, guard_generation=False)))
    resumed = ok(cluster.merge_patch(path, {"spec": {"suspend": None}}, manager="flux"))

    not_applicable(cluster.json_patch(path, _release(None)))

    assert cluster.get(path) == resumed
    marks_only: list[Raw] = [
        {"op": "test", "path": HOLDER, "value": "me"},
        {"op": "test", "path": "/spec/suspend", "value": None},
        {"op": "remove", "path": HOLDER},
    ]
    assert ok(cluster.json_patch(path, marks_only))["metadata"]["annotations"] == {"a": "b"}


def test_release_that_removes_a_vanished_annotation_is_refused_whole(cluster: Cluster) -> None:
    """One operation that cannot apply undoes all of the patch."""
    obj = make_kustomization(cluster, suspend=True, annotations={"fencectl.dev/holder": "me"})
    ops = [*_release(None), {"op": "remove", "path": "/metadata/annotations/reconcile.fluxcd.io~1requestedAt"}]
    not_applicable(cluster.json_patch(path_of(obj), ops))
    assert cluster.get(path_of(obj)) == obj


def test_merge_patch_as_flux_sends_it_wins_over_anybody(cluster: Cluster) -> None:
    """`flux resume` carries no guard and no version."""
    obj = make_kustomization(cluster, suspend=True, annotations={"fencectl.dev/holder": "me"})
    after = ok(cluster.merge_patch(path_of(obj), {"spec": {"suspend": None}}, manager="flux"))
    assert "suspend" not in after["spec"]
    assert after["metadata"]["annotations"] == {"fencectl.dev/holder": "me"}


def test_manager_of_a_suspension_is_recorded(cluster: Cluster) -> None:
    """`f:suspend` says who set the field, but not whether to true or to false."""
    obj = make_kustomization(cluster)
    after = ok(
        cluster.json_patch(path_of(obj), [{"op": "add", "path": "/spec/suspend", "value": True}], manager="x")
    )
    entry = next(one for one in after["metadata"]["managedFields"] if one["manager"] == "x")
    assert (entry["operation"], entry["apiVersion"]) == ("Update", "kustomize.toolkit.fluxcd.io/v1")
    assert entry["fieldsV1"] == {"f:spec": {"f:suspend": {}}}
    assert "subresource" not in entry


def test_status_is_written_by_its_subresource_only(cluster: Cluster) -> None:
    """The manager's entry names the subresource; a write of the object leaves the status."""
    obj = make_kustomization(cluster)
    path = path_of(obj)
    token = {"status": {"lastHandledReconcileAt": "token-1"}, "spec": {"suspend": True}}
    after = ok(cluster.merge_patch(f"{path}/status", token, manager="kustomize-controller"))
    assert after["status"]["lastHandledReconcileAt"] == "token-1"
    assert "suspend" not in after["spec"]
    entry = next(one for one in after["metadata"]["managedFields"] if one["manager"] == "kustomize-controller")
    assert entry["subresource"] == "status"

    after = ok(cluster.merge_patch(path, {"status": {"lastHandledReconcileAt": "token-2"}}))
    assert after["status"]["lastHandledReconcileAt"] == "token-1"


def test_drain_proof_is_one_read(cluster: Cluster) -> None:
    """uid, mark, suspension and the handled token stand in one object of one version."""
    obj = make_kustomization(cluster, annotations={"reconcile.fluxcd.io/requestedAt": "old"})
    path = path_of(obj)
    ops = [
        *_place(obj, guard_generation=True),
        {"op": "replace", "path": "/metadata/annotations/reconcile.fluxcd.io~1requestedAt", "value": "n-1"},
    ]
    ok(cluster.json_patch(path, ops))
    ok(cluster.merge_patch(f"{path}/status", {"status": {"lastHandledReconcileAt": "n-1"}}))
    proof = cluster.get(path)
    assert proof["spec"]["suspend"] is True
    assert proof["status"]["lastHandledReconcileAt"] == "n-1"
    assert proof["metadata"]["annotations"]["fencectl.dev/holder"] == "me"


def test_required_field_cannot_be_removed(cluster: Cluster) -> None:
    """The schema's required fields are checked after the patch."""
    obj = make_kustomization(cluster)
    status = refused(
        cluster.json_patch(path_of(obj), [{"op": "remove", "path": "/spec/interval"}]), 422, "Invalid"
    )
    missing = {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.interval"}
    assert missing in status["details"]["causes"]


def test_value_outside_of_the_schema_is_refused(cluster: Cluster) -> None:
    """Patterns and enumerations hold too."""
    obj = make_kustomization(cluster)
    answer = cluster.merge_patch(path_of(obj), {"spec": {"interval": "soon"}})
    assert refused(answer, 422, "Invalid")["details"]["causes"][0]["field"] == "spec.interval"
    answer = cluster.merge_patch(path_of(obj), {"spec": {"sourceRef": {"kind": "Nonsense"}}})
    assert refused(answer, 422, "Invalid")["details"]["causes"][0]["field"] == "spec.sourceRef.kind"


def test_defaults_are_filled_in(cluster: Cluster) -> None:
    """What the CRD defaults is there after creation."""
    obj = make_kustomization(cluster)
    assert obj["spec"]["force"] is False
    repository = make_git_repository(cluster)
    assert repository["spec"]["timeout"] == "60s"


def test_items_of_a_list_of_custom_resources_say_their_kind(cluster: Cluster) -> None:
    """Unlike those of built-in kinds."""
    obj = make_kustomization(cluster)
    listed = cluster.get(f"{KUSTOMIZE}/kustomizations")
    assert (listed["kind"], listed["apiVersion"]) == ("KustomizationList", "kustomize.toolkit.fluxcd.io/v1")
    assert listed["items"] == [obj]
    assert "resourceVersion" in listed["metadata"]


def test_deleting_a_suspended_object_with_a_finalizer_only_marks_it(cluster: Cluster) -> None:
    """It is shown as being deleted until the finalizer goes; a release still works meanwhile."""
    obj = make_kustomization(cluster, suspend=True, annotations={"fencectl.dev/holder": "me"})
    path = path_of(obj)
    ok(cluster.merge_patch(path, {"metadata": {"finalizers": ["finalizers.fluxcd.io"]}}))
    deleting = ok(cluster.request("DELETE", path))
    assert deleting["metadata"]["deletionTimestamp"]
    assert deleting["metadata"]["generation"] == 2
    assert version(cluster.get(path)) == version(deleting)
    ok(cluster.json_patch(path, _release(None)))
    ok(cluster.merge_patch(path, {"metadata": {"finalizers": None}}))
    refused(cluster.request("GET", path), 404, "NotFound")
