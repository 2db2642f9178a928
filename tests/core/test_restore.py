"""
What goes back and what does not.

Aspects: what the deploy changed goes back, guarded · what it did not change stays · changed by others since · lists of
named items · nobody says what was planned · deleted since · new since · under a fence · an ApplySet's parent.
"""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any, ClassVar

import jsonpatch
import pytest

from fencectl.core.applyset import ID, KINDS
from fencectl.core.profiles import HOLDER, JOURNAL, RECONCILE
from fencectl.core.recovery_point import Captured
from fencectl.core.refs import ObjectRef, Raw, Seen
from fencectl.core.restore import Doing, Restoration, restore_one

REF = ObjectRef("apps/v1", "Deployment", "deployments", "shop", "web", "uid-1")
ENDED = datetime(2026, 11, 30, 3, 0, tzinfo=UTC)


def deployment(image: str = "web:1", replicas: int = 3, **more: Any) -> dict[str, Any]:
    """As `before` is: without what the server owns."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}, **more},
        "spec": {
            "replicas": replicas,
            "template": {
                "spec": {
                    "containers": [
                        {"name": "app", "image": image, "env": [{"name": "A", "value": "1"}]},
                        {"name": "sidecar", "image": "mesh:1"},
                    ]
                }
            },
        },
    }


def live(obj: dict[str, Any], *entries: dict[str, Any], uid: str = "uid-1") -> Seen:
    raw = copy.deepcopy(obj)
    raw["metadata"] |= {"uid": uid, "resourceVersion": "9", "managedFields": list(entries)}
    raw["status"] = {"readyReplicas": 1}
    ref = ObjectRef(REF.api_version, REF.kind, REF.plural, REF.namespace, REF.name, uid)
    return Seen(ref, raw)


def entry(manager: str, at: str, fields: Any, **more: str) -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "time": at, "fieldsV1": fields, **more}


def wish(raw: Raw) -> Any:
    """An object without what only the server writes."""
    kept = {key: value for key, value in raw.items() if key != "status"}
    hidden = ("uid", "resourceVersion", "managedFields")
    return kept | {"metadata": {k: v for k, v in raw["metadata"].items() if k not in hidden}}


def after(done: Restoration, seen: Seen) -> Any:
    """The object once the patch was applied; every guard must hold."""
    assert done.patch is not None
    operations: list[Any] = [
        one if one["op"] != "test" or one["value"] is not None else None for one in done.patch.operations
    ]
    return wish(jsonpatch.apply_patch(seen.raw, [one for one in operations if one is not None]))


def test_what_the_deploy_changed_goes_back_and_each_value_that_goes_is_guarded() -> None:
    """The smallest patch: the image, with its value as read; the uid in front."""
    seen = live(deployment("web:2"))
    done = restore_one(Captured(REF, deployment(), deployment("web:2")), seen)
    assert done.doing is Doing.PATCH
    assert after(done, seen) == deployment()
    assert done.patch is not None
    image = "/spec/template/spec/containers/0/image"
    assert done.patch.operations == [
        {"op": "test", "path": "/metadata/uid", "value": "uid-1"},
        {"op": "test", "path": image, "value": "web:2"},
        {"op": "replace", "path": image, "value": "web:1"},
    ]
    assert [one.path for one in done.fields] == ["spec.template.spec.containers[0].image"]


def test_added_and_removed_fields_go_back_also_where_a_map_is_missing() -> None:
    """Annotations that the deploy took away altogether, and a field that it brought."""
    before = deployment(annotations={"a": "1", "b": "2"})
    planned = deployment()
    planned["spec"]["minReadySeconds"] = 5
    seen = live(planned)
    done = restore_one(Captured(REF, before, planned), seen)
    assert after(done, seen) == before


def test_what_the_deploy_did_not_change_stays_as_others_have_it_by_now() -> None:
    """An autoscaler's replicas, an annotation of an operator: no business of the restore."""
    seen = live(deployment("web:2", replicas=10, annotations={"note": "mine"}))
    done = restore_one(Captured(REF, deployment(), deployment("web:2")), seen)
    assert after(done, seen) == deployment(replicas=10, annotations={"note": "mine"})


@pytest.mark.parametrize("fix", ["web:3", None])
def test_field_that_somebody_else_has_changed_since_leaves_its_object_alone(fix: str | None) -> None:
    """Neither as before nor as planned: the whole object stays, and field, manager and time are named."""
    now = deployment("web:2", replicas=5)
    container = now["spec"]["template"]["spec"]["containers"][0]
    if fix is None:
        del container["image"]
    else:
        container["image"] = fix
    owned: Any = {"f:spec": {"f:template": {"f:spec": {"f:containers": {'k:{"name":"app"}': {"f:image": {}}}}}}}
    edited = entry("kubectl-edit", "2026-11-30T03:07:40Z", owned)
    seen = live(now, *([edited] if fix is not None else []))
    done = restore_one(Captured(REF, deployment(), deployment("web:2", replicas=5)), seen)
    assert (done.doing, done.patch) == (Doing.LEFT, None)
    by = "" if fix is None else " by `kubectl-edit` at 2026-11-30T03:07:40Z"
    assert done.why == f"spec.template.spec.containers[0].image was changed since{by}"


def test_object_that_is_as_before_needs_nothing() -> None:
    """Somebody has brought it back already; what only the server writes does not count."""
    assert restore_one(Captured(REF, deployment(), deployment("web:2")), live(deployment())).doing is Doing.NOTHING


def test_list_that_has_another_length_goes_back_whole() -> None:
    """A container that the deploy added: items cannot be told apart by number then."""
    planned = deployment("web:2")
    planned["spec"]["template"]["spec"]["containers"].insert(0, {"name": "init", "image": "x"})
    seen = live(planned)
    done = restore_one(Captured(REF, deployment(), planned), seen)
    assert after(done, seen) == deployment()
    changed = copy.deepcopy(planned)
    changed["spec"]["template"]["spec"]["containers"][2]["image"] = "mesh:2"
    assert restore_one(Captured(REF, deployment(), planned), live(changed)).doing is Doing.LEFT


def test_true_is_not_one_and_null_is_not_absent() -> None:
    """As JSON has it, not as Python compares."""
    before, planned = deployment(), deployment()
    before["spec"]["paused"], planned["spec"]["paused"] = True, 1
    seen = live(planned)
    done = restore_one(Captured(REF, before, planned), seen)
    assert done.patch is not None
    assert done.patch.operations[-1]["value"] is True


class TestNobodySaysWhatWasPlanned:
    """A command, or Flux: what differs is taken for the deploy's, unless its writer shows otherwise."""

    REPLICAS: ClassVar[Any] = {"f:spec": {"f:replicas": {}}}

    def test_everything_that_differs_goes_back(self) -> None:
        """Whoever wrote it while the deploy ran."""
        seen = live(deployment("web:2", replicas=1), entry("kubectl", "2026-11-30T02:59:00Z", self.REPLICAS))
        done = restore_one(Captured(REF, deployment(), None), seen, ended_at=ENDED)
        assert after(done, seen) == deployment()

    def test_what_an_autoscaler_says_stays(self) -> None:
        """It comes by the scale subresource."""
        scaled = entry("kube-controller-manager", "2026-11-30T02:59:00Z", self.REPLICAS, subresource="scale")
        seen = live(deployment("web:2", replicas=10), scaled)
        done = restore_one(Captured(REF, deployment(), None), seen, ended_at=ENDED)
        assert after(done, seen) == deployment(replicas=10)

    def test_what_others_wrote_after_its_end_leaves_the_object_alone_but_not_what_flux_wrote(self) -> None:
        """Flux goes on to apply the bad revision once it is resumed: that is still the deploy's."""
        for manager, doing in (("kubectl-edit", Doing.LEFT), ("kustomize-controller", Doing.PATCH)):
            seen = live(deployment(replicas=1), entry(manager, "2026-11-30T03:00:01Z", self.REPLICAS))
            done = restore_one(Captured(REF, deployment(), None), seen, ended_at=ENDED)
            assert done.doing is doing, manager
        running = restore_one(Captured(REF, deployment(), None), seen)
        assert running.doing is Doing.PATCH


def test_object_that_was_not_there_before_stays_and_is_named() -> None:
    """Nothing is deleted, ever."""
    assert restore_one(Captured(REF, None, deployment()), live(deployment())).doing is Doing.NEW
    assert restore_one(Captured(REF, None, deployment()), None).doing is Doing.NOTHING


def test_object_that_was_deleted_since_is_made_again_without_owners() -> None:
    """Its owner may be another one by now, and a dangling owner would have it collected."""
    before = deployment(ownerReferences=[{"uid": "gone"}])
    done = restore_one(Captured(REF, before, None), None)
    assert done.doing is Doing.CREATE
    assert done.body == deployment()


@pytest.mark.parametrize(
    ("api_version", "kind"), [("batch/v1", "Job"), ("v1", "PersistentVolumeClaim"), ("v1", "Pod")]
)
def test_what_would_not_be_what_it_was_is_not_made_again(api_version: str, kind: str) -> None:
    """A job would run again, a claim would be empty."""
    ref = ObjectRef(api_version, kind, "x", "shop", "web", "uid-1")
    done = restore_one(Captured(ref, {"metadata": {"name": "web"}}, None), None)
    assert (done.doing, done.body) == (Doing.LEFT, None)
    assert done.why.startswith("it was deleted since")


def test_object_that_is_being_deleted_is_left() -> None:
    """Whatever is written to it would be lost."""
    seen = live(deployment("web:2", deletionTimestamp="2026-11-30T03:00:00Z"))
    done = restore_one(Captured(REF, deployment(), deployment("web:2")), seen)
    assert (done.doing, done.why) == (Doing.LEFT, "it is being deleted")


def test_object_that_was_made_anew_is_patched_by_its_new_uid() -> None:
    """Flux makes immutable objects anew: the content decides, and the guard is on the one that is there."""
    seen = live(deployment("web:2"), uid="uid-2")
    done = restore_one(Captured(REF, deployment(), deployment("web:2")), seen)
    assert done.patch is not None
    assert done.patch.operations[0]["value"] == "uid-2"


def test_fence_on_an_object_stays_and_only_its_wish_goes_back() -> None:
    """The mark, the suspension under it and its exclusion are this run's own."""
    before = deployment()
    before["spec"]["interval"] = "10m"
    now = copy.deepcopy(before)
    now["spec"] |= {"interval": "1m", "suspend": True}
    now["metadata"]["annotations"] = {HOLDER: "h", JOURNAL: "{}", RECONCILE: "disabled"}
    seen = live(now)
    done = restore_one(Captured(REF, before, None), seen)
    assert [one.path for one in done.fields] == ["spec.interval"]
    del now["metadata"]["annotations"]
    bare = restore_one(Captured(REF, before, None), live(now))
    assert sorted(one.path for one in bare.fields) == ["spec.interval", "spec.suspend"]


def test_scheduling_of_a_node_is_no_part_of_it() -> None:
    """Labels are."""
    before: Any = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"a": "1"}}, "spec": {}}
    now = copy.deepcopy(before)
    now["spec"] = {"unschedulable": True, "taints": [{"key": "x"}]}
    now["metadata"]["labels"]["a"] = "2"
    done = restore_one(Captured(REF, before, None), live(now))
    assert [one.path for one in done.fields] == ["metadata.labels.a"]


def test_parent_of_an_applyset_goes_on_to_name_what_the_set_has_come_to_hold() -> None:
    """What is new stays in the cluster, so it must stay in sight; what comes back must come into sight again."""
    parent: Any = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "set", "labels": {ID: "x"}, "annotations": {KINDS: "ConfigMap,Secret"}},
    }
    now = copy.deepcopy(parent)
    now["metadata"]["annotations"][KINDS] = "ConfigMap,Service"
    seen = live(now)
    done = restore_one(Captured(REF, parent, None), seen)
    assert after(done, seen)["metadata"]["annotations"] == {KINDS: "ConfigMap,Secret,Service"}
    wider = copy.deepcopy(parent)
    wider["metadata"]["annotations"][KINDS] = "ConfigMap,Secret,Service"
    assert restore_one(Captured(REF, parent, None), live(wider)).doing is Doing.NOTHING


def test_paused_deployment_is_told_unless_the_restore_ends_the_pause() -> None:
    """It goes back, and does not roll out."""
    before, planned = deployment(), deployment("web:2")
    before["spec"]["paused"] = planned["spec"]["paused"] = True
    assert restore_one(Captured(REF, before, planned), live(planned)).paused
    del before["spec"]["paused"]
    assert not restore_one(Captured(REF, before, planned), live(planned)).paused
