"""
Verdicts on all other kinds, and on objects that are not what an API server writes.

Aspects: CRDs · claims · services · no status · conditions with and without a generation · hostile shapes.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fencectl.core.rollout import Cause, RolloutVerdict as V
from tests.core.rolling_out import API, Raw, condition, container, look, obj, owner, pod

UNDEFINED: Any = object()


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ([condition("Established"), condition("NamesAccepted")], V.SUCCEEDED),
        ([condition("Established", "False", "Installing")], V.WAITING),
        ([condition("Established", "False", "NotAccepted")], V.FAILED),
        ([condition("Established"), condition("NamesAccepted", "False", "ListKindConflict")], V.FAILED),
        ([], V.WAITING),
    ],
)
def test_crd_is_done_when_it_is_established(found: list[Raw], verdict: V) -> None:
    raw = obj("CustomResourceDefinition", {}, {"conditions": found})
    assert look(raw).verdict is verdict
    late = obj("CustomResourceDefinition", {}, {"conditions": found, "observedGeneration": 1})
    assert look(late).cause is Cause.NOT_SEEN


@pytest.mark.parametrize(
    ("kind", "spec", "status", "verdict"),
    [
        ("PersistentVolumeClaim", {}, {"phase": "Bound"}, V.SUCCEEDED),
        ("PersistentVolumeClaim", {}, {"phase": "Pending"}, V.WAITING),
        ("PersistentVolumeClaim", {}, None, V.WAITING),
        ("PersistentVolumeClaim", {}, {"phase": "Lost"}, V.FAILED),
        ("PersistentVolumeClaim", {}, {"phase": 1}, V.UNKNOWN),
        ("PersistentVolumeClaim", {}, {"phase": "Bound", "conditions": [condition("Resizing")]}, V.WAITING),
        ("PersistentVolume", {}, {"phase": "Available"}, V.SUCCEEDED),
        ("PersistentVolume", {}, {"phase": "Failed"}, V.FAILED),
        ("PersistentVolume", {}, {"phase": "Pending"}, V.WAITING),
        ("Service", {"type": "LoadBalancer"}, {}, V.WAITING),
        ("Service", {"type": "LoadBalancer", "clusterIP": "10.0.0.7"}, {}, V.SUCCEEDED),
        ("Service", {"type": "ClusterIP"}, {}, V.SUCCEEDED),
        ("Namespace", {}, {"phase": "Active"}, V.SUCCEEDED),
        ("Namespace", {}, {"phase": "Terminating"}, V.WAITING),
        ("ConfigMap", None, None, V.SUCCEEDED),
        ("Secret", None, None, V.SUCCEEDED),
        ("Role", None, None, V.SUCCEEDED),
        ("CronJob", {"suspend": True}, {}, V.SUCCEEDED),
    ],
)
def test_kind_of_the_core_is_judged_by_its_own_rule(kind: str, spec: Any, status: Any, verdict: V) -> None:
    raw = obj(kind, spec, status, generation=None)
    assert look(raw, generation=None).verdict is verdict


def test_budget_is_done_when_its_controller_has_counted() -> None:
    """Whether it allows a disruption is no matter of a deploy."""
    assert look(obj("PodDisruptionBudget", {}, {"observedGeneration": 2, "disruptionsAllowed": 0})).verdict is V.SUCCEEDED  # fmt: skip
    assert look(obj("PodDisruptionBudget", {}, {"observedGeneration": 1})).verdict is V.WAITING


@pytest.mark.parametrize(
    ("status", "generation", "verdict", "cause"),
    [
        ({"observedGeneration": 2, "conditions": [condition("Ready")]}, 2, V.SUCCEEDED, Cause.DONE),
        ({"observedGeneration": "2", "conditions": [condition("Ready")]}, 2, V.SUCCEEDED, Cause.DONE),
        ({"conditions": [condition("Ready", observedGeneration=2)]}, 2, V.SUCCEEDED, Cause.DONE),
        ({"conditions": [condition("Ready")]}, 1, V.SUCCEEDED, Cause.DONE),  # there was no state before
        ({"conditions": [condition("Ready")]}, 2, V.UNKNOWN, Cause.NO_STATUS),
        ({"conditions": [condition("Ready", observedGeneration=1)]}, 2, V.UNKNOWN, Cause.NO_STATUS),
        ({"observedGeneration": 1, "conditions": [condition("Ready")]}, 2, V.WAITING, Cause.NOT_SEEN),
        ({"observedGeneration": "5d4f8c", "conditions": [condition("Ready")]}, 2, V.UNKNOWN, Cause.MALFORMED),
        ({"observedGeneration": 2, "conditions": [condition("Ready", "False", "Syncing")]}, 2, V.WAITING, Cause.NOT_READY),
        ({"observedGeneration": 2, "conditions": [condition("Ready", "Unknown")]}, 2, V.WAITING, Cause.NOT_READY),
        ({"observedGeneration": 2, "conditions": [condition("Ready"), condition("Reconciling")]}, 2, V.WAITING, Cause.ROLLING),
        ({"observedGeneration": 2, "conditions": [condition("Ready"), condition("Stalled")]}, 2, V.FAILED, Cause.CONDITION),
        ({"observedGeneration": 2, "conditions": [condition("Failed")]}, 2, V.FAILED, Cause.CONDITION),
        ({"observedGeneration": 2, "conditions": [condition("Synced")]}, 2, V.UNKNOWN, Cause.NO_STATUS),
        ({"observedGeneration": 2, "conditions": []}, 2, V.UNKNOWN, Cause.NO_STATUS),
        ({}, 2, V.UNKNOWN, Cause.NO_STATUS),
        (None, 2, V.UNKNOWN, Cause.NO_STATUS),
        ("Ready", 2, V.UNKNOWN, Cause.MALFORMED),
    ],
)  # fmt: skip
def test_custom_kind_is_believed_where_it_says_which_generation_it_is_of(
    status: Any, generation: int, verdict: V, cause: Cause
) -> None:
    """case_52: and not where it says nothing (kstatus says Current)."""
    found = look(obj("Widget", {}, status, generation=generation), generation=generation)
    assert (found.verdict, found.cause) == (verdict, cause)


def test_custom_kind_that_has_no_status_by_its_schema_is_done_when_it_is_there() -> None:
    """Whoever follows it knows that from discovery."""
    assert look(obj("Widget", {}, None), has_status=False).verdict is V.SUCCEEDED


@pytest.mark.parametrize("raw", [None, 7, "text", [], {}, {"metadata": None}, {"metadata": []}])
@pytest.mark.parametrize("kind", sorted(API))
def test_what_is_no_object_is_unknown(kind: str, raw: Any) -> None:
    found = look(raw, kind=kind)
    assert (found.verdict, found.cause, found.grace_s) == (V.UNKNOWN, Cause.MALFORMED, 20.0)


@pytest.mark.parametrize("generation", [None, "2", 2.5, True, -1, [], 2**70])
@pytest.mark.parametrize("kind", sorted(API))
def test_generation_that_is_none_is_unknown(kind: str, generation: Any) -> None:
    """Nothing can be said about an object of which nobody knows the state."""
    raw = obj(kind, {}, {"observedGeneration": 2, "conditions": [condition("Ready")]}, generation=None)
    if generation is not None:
        raw["metadata"]["generation"] = generation
    assert look(raw).cause is Cause.MALFORMED


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "status", "reason", "x"]), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
KEYS = (
    "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "conditions",
    "desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable", "updateRevision", "currentRevision",
    "phase", "active", "failed", "succeeded", "startTime", "history", "artifact", "lastAppliedRevision",
    "containerStatuses", "initContainerStatuses", "reason", "paused", "suspend", "updateStrategy", "backoffLimit",
    "type", "nodeName", "affinity", "template",
)  # fmt: skip
fields = st.dictionaries(st.sampled_from(KEYS), junk, max_size=8) | junk


@settings(max_examples=80, deadline=None)
@given(
    kind=st.sampled_from(sorted(API)), spec=fields, status=fields, meta=junk, pods=st.lists(fields, max_size=2),
    revision=st.none() | st.text(max_size=8),
)  # fmt: skip
def test_junk_is_never_an_exception(kind: str, spec: Any, status: Any, meta: Any, pods: Any, revision: Any) -> None:  # fmt: skip
    """Whatever is in it: one of the verdicts comes back."""
    raw = obj(kind, None, None, labels=meta, annotations=meta, managedFields=meta, ownerReferences=meta)
    raw |= {"spec": spec, "status": status}
    owned = [
        {"metadata": {"ownerReferences": owner("uid-web"), "name": one}, "spec": one, "status": one}
        for one in pods
    ]
    found = look(raw, pods=[*owned, *pods], sets=[*owned, *pods], revision=revision)
    assert found.verdict in set(V)


@settings(max_examples=80, deadline=None)
@given(kind=st.sampled_from(["Deployment", "StatefulSet", "DaemonSet", "Kustomization", "Widget"]), key=st.sampled_from(KEYS), value=junk)  # fmt: skip
def test_one_field_of_an_unfinished_object_that_is_junk_never_makes_it_a_success(kind: str, key: str, value: Any) -> None:  # fmt: skip
    """A count that is a text, a condition that is a number: it stays unfinished."""
    status: Raw = {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 1, "desiredNumberScheduled": 3}
    if key == "observedGeneration" and (value == 2 or (type(value) is int and value > 1)):
        value = str(value) + "x"
    found = look(obj(kind, {"replicas": 3}, status | {key: value}))
    assert found.verdict is not V.SUCCEEDED


def test_pods_that_are_junk_are_passed_over() -> None:
    """The one that can be read decides."""
    broken: list[Any] = [None, 3, {"metadata": 1}, {"metadata": {"ownerReferences": "x"}}]
    doomed = pod("a", "uid-web", status=container("InvalidImageName"))
    raw = obj("ReplicaSet", {"replicas": 1}, {"observedGeneration": 2, "replicas": 1})
    assert look(raw, pods=[*broken, doomed]).cause is Cause.IMAGE
