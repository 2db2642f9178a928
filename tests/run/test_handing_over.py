"""Aspects of step 8 by apply: order and idempotence · conflicts · fenced objects · new kinds · lost answers · loss."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from fencectl.core.apply_plan import What
from fencectl.core.errors import ExitCode, NotReadableError, UsageError
from fencectl.core.profiles import HOLDER
from fencectl.core.refs import ObjectRef
from fencectl.core.rollout import (
    Cause,
    Followed,
    PodEvidence,
    PodTrouble,
    Result as FollowResult,
    RolloutVerdict,
    Target,
)
from tests.support.applying import CM, Applying, config_map
from tests.support.deploying import KS

APPLY = "application/apply-patch+yaml"
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.acme.io"},
    "spec": {
        "group": "acme.io",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
WIDGET = {"apiVersion": "acme.io/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}


def record(applying: Applying, generation: int = 1) -> Any:
    found = applying.get("/api/v1/namespaces/flux-system/configmaps/fencectl-deploy-record")
    return json.loads(found["data"][f"record-{generation}"])


def managers(obj: Any) -> list[tuple[str, str]]:
    return [(entry["manager"], entry["operation"]) for entry in obj["metadata"]["managedFields"]]


def applied(applying: Applying) -> list[str]:
    """Paths of what was applied for good, in order."""
    return [
        path for method, path, body in applying.scene.door.sent if method == "PATCH" and b'"kind"' in body[:400]
    ]


def test_objects_are_applied_in_order_followed_and_recorded() -> None:
    """Namespace first, whatever the file says; with our manager; each followed by what the server answered."""
    applying = Applying()
    result = applying.deploy(config_map("in-new", "new"), config_map("a"), NAMESPACE)
    assert (result.code, result.generation, result.applied) == (ExitCode.OK, 1, True)
    assert applied(applying) == [
        "/api/v1/namespaces/new",
        "/api/v1/namespaces/new/configmaps/in-new",
        f"{CM}/a",
    ]
    made = applying.get(f"{CM}/a")
    assert managers(made) == [("fencectl", "Apply")]
    assert [target.ref.uid for target in applying.follower.targets][-1] == made["metadata"]["uid"]
    assert result.handed
    assert result.handed.counts == "3 of 3 objects applied, 3 changed"
    assert (record(applying)["outcome"], record(applying)["command"]) == ("deployed", "-f all.yaml")


def test_same_manifests_again_change_nothing() -> None:
    """The versions stay; it is a success, and says that nothing changed."""
    applying = Applying()
    applying.deploy(config_map("a"))
    before = applying.get(f"{CM}/a")
    preview = applying.preview(config_map("a"))
    assert [change.what for change in preview.changes] == [What.SAME]
    result = applying.deploy(config_map("a"))
    assert result.code is ExitCode.OK
    assert result.handed
    assert result.handed.counts == "1 of 1 objects applied, 0 changed"
    assert applying.get(f"{CM}/a") == before


def test_preview_says_what_would_change_and_changes_nothing() -> None:
    """Created, changed with its fields, and what cannot be tried because it comes with this deploy."""
    applying = Applying()
    applying.deploy(config_map("a"))
    before = applying.get(f"{CM}/a")
    preview = applying.preview(
        config_map("a", a="2"), config_map("b"), config_map("c", "new"), NAMESPACE, CRD, WIDGET
    )
    assert [(change.ref.name, change.what) for change in preview.changes] == [
        ("new", What.CREATE),
        ("widgets.acme.io", What.CREATE),
        ("a", What.CHANGE),
        ("b", What.CREATE),
        ("c", What.UNTRIED),
        ("w", What.UNTRIED),
    ]
    ((field),) = preview.changes[2].fields
    assert (field.path, field.before, field.after) == ("data.a", '"1"', '"2"')
    assert applying.get(f"{CM}/a") == before
    assert applying.names() == ["a"]


def test_kind_that_comes_with_the_deploy_waits_until_it_is_served() -> None:
    """The definition first, then its objects, once it is established."""
    applying = Applying()
    result = applying.deploy(WIDGET, CRD)
    assert result.code is ExitCode.OK, result.cause
    assert applying.get("/apis/acme.io/v1/namespaces/shop/widgets/w")["spec"] == {"size": 1}


def test_kind_that_the_cluster_has_not_is_refused_with_its_place() -> None:
    """Before anything is written."""
    applying = Applying()
    with pytest.raises(UsageError) as raised:
        applying.preview(WIDGET)
    assert raised.value.sentence == "all.yaml:1: the cluster has no Widget in acme.io/v1"


def test_field_of_somebody_else_is_a_conflict_that_names_him() -> None:
    """In the preview, and at the write where it came in between: nothing is forced, the value stays."""
    applying = Applying()
    applying.scene.sandbox.store.create(config_map("a", a="theirs"), manager="helm")
    (change,) = applying.preview(config_map("a", a="ours")).changes
    assert [(one.manager, one.field) for one in change.conflicts] == [("helm", ".data.a")]
    result = applying.deploy(config_map("a", a="ours"))
    assert result.code is ExitCode.FAILED_PREVIOUS_RUNS
    assert "configmap/shop/a was not applied: `helm` owns data.a" in (result.cause or "")
    assert applying.get(f"{CM}/a")["data"] == {"a": "theirs"}
    assert applying.follower.targets == []


def test_case_22_suspension_of_somebody_else_is_a_conflict_and_not_undone() -> None:
    """The manifest says `suspend: false`, the live object was suspended by hand: he is named, it stays suspended."""
    applying = Applying()
    live = applying.get(f"{KS}/apps")
    live["spec"]["suspend"] = True
    applying.scene.sandbox.store.update(live, manager="kubectl-patch")
    manifest = {
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": {"name": "apps", "namespace": "flux-system"},
        "spec": {"suspend": False},
    }
    (change,) = applying.preview(manifest).changes
    assert [(one.manager, one.field) for one in change.conflicts] == [("kubectl-patch", ".spec.suspend")]
    result = applying.deploy(manifest)
    assert result.code is ExitCode.FAILED_PREVIOUS_RUNS
    assert applying.get(f"{KS}/apps")["spec"]["suspend"] is True


def test_conflict_is_forced_only_if_that_was_asked_for() -> None:
    """Then the field is ours."""
    applying = Applying()
    applying.scene.sandbox.store.create(config_map("a", a="theirs"), manager="helm")
    result = applying.deploy(config_map("a", a="ours"), force=True)
    assert result.code is ExitCode.OK
    assert applying.get(f"{CM}/a")["data"] == {"a": "ours"}


def test_refusal_after_the_first_object_says_that_the_new_state_may_live() -> None:
    """18, with how far it came; nothing after it is applied."""
    applying = Applying()
    applying.scene.sandbox.store.create(config_map("b", a="theirs"), manager="helm")
    result = applying.deploy(config_map("a"), config_map("b"), config_map("c"))
    assert result.code is ExitCode.FAILED_NEW_STATE_LIVE
    assert result.handed
    assert result.handed.counts == "1 of 3 objects applied, 1 changed"
    assert applying.names() == ["a", "b"]
    assert record(applying)["outcome"] == "failed"


def test_fenced_object_is_applied_without_what_the_fence_has_and_said() -> None:
    """Its manifest says `suspend: false` and carries a mark; both fences hold, and come off as they were."""
    applying = Applying(fences=True)
    before = applying.scene.state()
    live = applying.get(f"{KS}/apps")
    manifest = {
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": {
            "name": "apps",
            "namespace": "flux-system",
            "labels": live["metadata"]["labels"],
            "annotations": {HOLDER: "somebody"},
        },
        "spec": {**live["spec"], "suspend": False, "path": "./new"},
    }
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {"unschedulable": False}}
    seen: list[Any] = []
    applying.follower.on_follow = lambda: seen.append(
        (applying.get(f"{KS}/apps"), applying.get("/api/v1/nodes/n1"))
    )
    result = applying.deploy(manifest, node, force=True)
    assert result.code is ExitCode.OK, (result.cause, result.reason)
    ((kustomization, n1),) = seen
    assert (kustomization["spec"]["suspend"], kustomization["spec"]["path"]) == (True, "./new")
    assert kustomization["metadata"]["annotations"][HOLDER] == applying.scene.holder
    assert n1["spec"]["unschedulable"] is True
    said = [text for step, text in applying.scene.told if step == 8 and "left out" in text]
    assert said == [
        f"kustomization/flux-system/apps: left out, a fence has it: metadata.annotations[{HOLDER}], spec.suspend",
        "node/n1: left out, a fence has it: spec.unschedulable",
    ]
    after = applying.scene.state()
    after[1][0]["path"] = before[1][0]["path"]
    assert after == before


def test_object_under_the_fence_of_the_run_around_is_applied_without_it_too() -> None:
    """Its mark is there although the deploy may begin; it is not followed, since it cannot move."""
    applying = Applying()
    live = applying.get(f"{KS}/apps")
    live["metadata"]["annotations"] = {HOLDER: "the run around"}
    live["spec"]["suspend"] = True
    applying.scene.sandbox.store.update(live)
    manifest = {
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": {"name": "apps", "namespace": "flux-system", "labels": {"new": "label"}},
        "spec": {"suspend": False},
    }
    result = applying.deploy(manifest)
    assert result.code is ExitCode.OK, result.cause
    after = applying.get(f"{KS}/apps")
    assert (after["spec"]["suspend"], after["metadata"]["labels"]["new"]) == (True, "label")
    assert applying.follower.targets == []


@pytest.mark.parametrize("how", ["drop_before", "drop_after"])
def test_lost_answer_is_no_failure_and_the_same_is_sent_again(how: str) -> None:
    """A configuration says what shall be, so a second time does no harm."""
    applying = Applying()
    plan = applying.plan(config_map("a"), config_map("b"))
    fault = getattr(applying.scene.sandbox.faults, how)(verb="patch", resource="configmaps", name="a", times=1)
    result = applying.run(plan)
    assert result
    assert result.code is ExitCode.OK
    assert (applying.names(), fault.hits) == (["a", "b"], 1)


def test_server_that_never_answers_an_apply_ends_as_unknown() -> None:
    """15, never a success; the lease is ours, so everything is given back."""
    applying = Applying()
    plan = replace(applying.plan(config_map("a"), config_map("b")), timeout_s=30.0)
    applying.scene.sandbox.faults.drop_after(verb="patch", resource="configmaps", name="a")

    def wait(seconds: float) -> None:
        applying.scene.sandbox.clock.advance(seconds)
        applying.scene.renew()

    applying.scene.clock.on_wait = wait
    result = applying.run(plan)
    assert result
    assert result.code is ExitCode.OUTCOME_UNKNOWN
    assert "nobody can say whether configmap/shop/a was applied" in (result.cause or "")
    assert applying.names() == ["a"]


def test_lease_that_is_lost_between_two_objects_ends_it_without_another_write() -> None:
    """13: nothing is applied after the loss."""
    applying = Applying()

    def lose(number: int) -> None:
        if f"{CM}/a" in applied(applying)[-1:]:
            applying.scene.clock.advance(25)

    applying.scene.door.after = lose
    result = applying.deploy(config_map("a"), config_map("b"))
    assert result.code is ExitCode.LEASE_LOST
    assert applying.names() == ["a"]


def test_interrupt_between_two_objects_is_18_and_stops_there() -> None:
    """The new state may be live in part; before the first object it would have been 130."""
    applying = Applying()

    def interrupt(number: int) -> None:
        if f"{CM}/a" in applied(applying)[-1:]:
            applying.scene.interrupt_code = ExitCode.INTERRUPTED
            applying.scene.interrupted.set()

    applying.scene.door.after = interrupt
    result = applying.deploy(config_map("a"), config_map("b"))
    assert result.code is ExitCode.FAILED_NEW_STATE_LIVE
    assert applying.names() == ["a"]
    assert record(applying)["outcome"] == "interrupted"


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (RolloutVerdict.FAILED, ExitCode.FAILED_NEW_STATE_LIVE),
        (RolloutVerdict.TIMED_OUT, ExitCode.FAILED_NEW_STATE_LIVE),
        (RolloutVerdict.WAITING, ExitCode.FAILED_NEW_STATE_LIVE),
        (RolloutVerdict.UNKNOWN, ExitCode.OUTCOME_UNKNOWN),
    ],
)
def test_what_was_not_followed_to_success_is_no_success(verdict: RolloutVerdict, code: ExitCode) -> None:
    """Whatever the apply said; the first object that is not well is named."""
    applying = Applying()
    applying.follower.verdict = verdict
    result = applying.deploy(config_map("a"))
    assert result.code is code
    assert result.cause == f"of 1 objects 1 {verdict.value}"
    assert result.reason == f"configmap/shop/a {verdict.value}: as told"
    assert record(applying)["outcome"] != "deployed"


def test_first_failure_names_the_container_and_its_exit_code() -> None:
    """In the record too: who looks at the history months later finds no pod any more."""
    applying = Applying()
    trouble = PodTrouble("shop", "web-1", "u", "worker-3", Cause.CRASH, "x", container="app", exit_code=137)

    def follow(targets: Sequence[Target], timeout_s: float) -> Followed:
        bad = FollowResult(
            targets[0], RolloutVerdict.FAILED, Cause.CRASH, "crash loop", 1.0, pods=(PodEvidence(trouble),)
        )
        return Followed((bad,), RolloutVerdict.FAILED)

    applying.follower.follow = follow  # type: ignore[method-assign]
    result = applying.deploy(config_map("a"))
    assert result.reason == "configmap/shop/a failed: crash loop, container `app`, exit 137"
    assert record(applying)["failure"]["what"] == f"apply: {result.reason}"


def test_object_that_may_not_be_read_ends_the_preview() -> None:
    """A conflict could be hidden there: 21, with the verb."""
    applying = Applying()
    applying.scene.sandbox.faults.refuse(verb="get", resource="configmaps", name="a", status=403)
    with pytest.raises(NotReadableError) as raised:
        applying.preview(config_map("a"))
    assert "403, `get` configmap (namespace shop) is forbidden" in (raised.value.reason or "")


def test_right_that_is_missing_is_found_before_the_first_write() -> None:
    """21, with the verb and the resource."""
    applying = Applying()
    applying.scene.sandbox.faults.refuse(verb="patch", resource="configmaps", status=403, message="no such right")
    with pytest.raises(NotReadableError) as raised:
        applying.preview(config_map("a"))
    assert raised.value.sentence == (
        "configmap/shop/a could not be tried: 403, `patch` configmap (namespace shop) is forbidden"
    )
    assert "Nothing was changed" in (raised.value.reason or "")


def test_webhook_that_cannot_be_tried_does_not_stop_the_deploy() -> None:
    """The preview says so; the apply itself is asked for good."""
    applying = Applying()
    fault = applying.scene.sandbox.faults.refuse(
        verb="patch",
        resource="configmaps",
        status=400,
        message='admission webhook "x.io" does not support dry run',
    )
    (change,) = applying.preview(config_map("a")).changes
    assert (change.what, "does not support dry run" in change.why) == (What.UNTRIED, True)
    fault.cancel()


def test_secret_that_the_server_refuses_is_never_quoted() -> None:
    """The server's own text holds the value."""
    applying = Applying()
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "immutable": "hunter2"}
    (change,) = applying.preview(secret).changes
    assert change.what is What.REFUSED
    assert "hunter2" not in repr(change)


def test_object_that_is_there_twice_by_the_contexts_namespace_is_refused() -> None:
    """One names it, the other leaves it out."""
    bare = config_map("a")
    del bare["metadata"]["namespace"]
    with pytest.raises(UsageError, match="is there twice, first at"):
        Applying().preview(bare, config_map("a"))


def test_uid_of_what_was_read_is_kept_with_its_plan() -> None:
    """Empty where there was none."""
    applying = Applying()
    applying.deploy(config_map("a"))
    refs: list[ObjectRef] = [one.ref for one in applying.preview(config_map("a"), config_map("b")).objects]
    assert [bool(ref.uid) for ref in refs] == [True, False]
