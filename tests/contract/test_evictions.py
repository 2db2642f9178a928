"""
Evictions and disruption budgets, pods and their nodes.

Aspects: no budget · a budget that is used up, not yet computed, doubled · dry run · what ignores budgets · grace ·
pods by node.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.answers import ok, refused
from tests.support.clusters import POLICY, Cluster, Raw, make_namespace, make_node
from tests.support.rawhttp import STRATEGIC_MERGE_PATCH, RawAnswer

READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


class Place:
    """A namespace with pods and budgets."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.namespace = make_namespace(cluster)
        self.pods = f"/api/v1/namespaces/{self.namespace}/pods"
        self.budgets = f"{POLICY}/namespaces/{self.namespace}/poddisruptionbudgets"

    def pod(self, name: str = "p", *, status: Raw | None = READY, **spec: Any) -> Raw:
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
        }
        made = self.cluster.create(self.pods, body)
        if status is None:
            return made
        path = f"{self.pods}/{name}/status"
        patch = {"status": status}
        return ok(self.cluster.request("PATCH", path, body=patch, content_type=STRATEGIC_MERGE_PATCH))

    def budget(self, name: str = "b", *, allowed: int | None) -> None:
        body = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
        }
        self.cluster.create(self.budgets, body)
        if allowed is not None:
            # What the controller would compute.
            status = {
                "observedGeneration": 1,
                "disruptionsAllowed": allowed,
                "currentHealthy": 1 + allowed,
                "desiredHealthy": 1,
                "expectedPods": 1 + allowed,
            }
            ok(self.cluster.merge_patch(f"{self.budgets}/{name}/status", {"status": status}))

    def evict(self, name: str = "p", *, options: Raw | None = None, **query: Any) -> RawAnswer:
        body: Raw = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": self.namespace},
        }
        if options is not None:
            body["deleteOptions"] = options
        return self.cluster.request("POST", f"{self.pods}/{name}/eviction", body=body, query=query)


@pytest.fixture
def place(cluster: Cluster) -> Place:
    return Place(cluster)


def test_pod_without_a_budget_is_evicted(place: Place) -> None:
    """201 with a Status of success, and the pod that no node has goes at once."""
    place.pod(status=None)
    status = ok(place.evict(), 201)
    assert (status["kind"], status["status"]) == ("Status", "Success")
    refused(place.cluster.request("GET", f"{place.pods}/p"), 404, "NotFound")


def test_eviction_of_a_missing_pod_is_not_found(place: Place) -> None:
    """404 names the pod."""
    assert refused(place.evict("gone"), 404, "NotFound")["details"] == {"name": "gone", "kind": "pods"}


def test_pod_on_a_node_ends_with_its_grace(place: Place) -> None:
    """It is marked, and the kubelet ends it."""
    place.pod(nodeName="node-x")
    ok(place.evict(), 201)
    pod = place.cluster.get(f"{place.pods}/p")
    assert pod["metadata"]["deletionTimestamp"]
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    assert "DisruptionTarget" in {one["type"] for one in pod["status"]["conditions"]}


def test_grace_in_the_eviction_counts(place: Place) -> None:
    """`deleteOptions` are those of a DELETE."""
    place.pod(nodeName="node-x")
    ok(place.evict(options={"gracePeriodSeconds": 5}), 201)
    assert place.cluster.get(f"{place.pods}/p")["metadata"]["deletionGracePeriodSeconds"] == 5


def test_deletion_without_grace_takes_the_pod_at_once(place: Place) -> None:
    """By force."""
    place.pod(nodeName="node-x")
    ok(place.cluster.request("DELETE", f"{place.pods}/p", query={"gracePeriodSeconds": 0}))
    refused(place.cluster.request("GET", f"{place.pods}/p"), 404, "NotFound")


def test_budget_that_is_used_up_refuses(place: Place) -> None:
    """429 with a cause, no Retry-After, and the pod untouched."""
    place.pod(nodeName="node-x")
    place.budget(allowed=0)

    answer = place.evict()

    status = refused(answer, 429, "TooManyRequests")
    assert status["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert status["details"]["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget b needs 1 healthy pods and has 1 currently",
        }
    ]
    assert "Retry-After" not in answer.headers
    assert "deletionTimestamp" not in place.cluster.get(f"{place.pods}/p")["metadata"]


def test_budget_that_is_not_computed_yet_asks_to_come_again(place: Place) -> None:
    """429 with Retry-After."""
    place.pod(nodeName="node-x")
    place.budget(allowed=None)
    answer = place.evict()
    status = refused(answer, 429, "TooManyRequests")
    assert answer.headers["Retry-After"] == "10"
    assert status["details"]["retryAfterSeconds"] == 10
    assert status["details"]["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget b is still being processed by the server.",
        }
    ]


def test_budget_that_allows_one_is_then_used_up(place: Place) -> None:
    """The eviction counts it down itself."""
    place.pod("p", nodeName="node-x")
    place.pod("q", nodeName="node-x")
    place.budget(allowed=1)
    ok(place.evict("p"), 201)
    budget = place.cluster.get(f"{place.budgets}/b")
    assert budget["status"]["disruptionsAllowed"] == 0
    assert list(budget["status"]["disruptedPods"]) == ["p"]
    refused(place.evict("q"), 429, "TooManyRequests")


def test_dry_run_of_an_eviction_changes_nothing(place: Place) -> None:
    """But a budget refuses."""
    place.pod(nodeName="node-x")
    place.budget(allowed=1)
    ok(place.evict(dryRun="All"), 201)
    assert place.cluster.get(f"{place.budgets}/b")["status"]["disruptionsAllowed"] == 1
    assert "deletionTimestamp" not in place.cluster.get(f"{place.pods}/p")["metadata"]


def test_two_budgets_on_a_pod_are_an_error(place: Place) -> None:
    """500: neither is asked."""
    place.pod(nodeName="node-x")
    place.budget("b", allowed=1)
    place.budget("c", allowed=1)
    answer = place.evict()
    assert answer.status == 500
    message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    assert answer.json()["message"] == message


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_pod_that_does_not_run_ignores_the_budget(place: Place, phase: str) -> None:
    """Nothing is disrupted."""
    place.pod(nodeName="node-x", status={"phase": phase})
    place.budget(allowed=0)
    ok(place.evict(), 201)


def test_budget_over_other_pods_does_not_count(place: Place) -> None:
    """The selector decides."""
    place.pod(nodeName="node-x")
    place.budget(allowed=0)
    ok(place.cluster.merge_patch(f"{place.pods}/p", {"metadata": {"labels": {"app": "other"}}}))
    ok(place.evict(), 201)


def test_pods_are_found_by_node(place: Place) -> None:
    """As a drain reads them."""
    place.pod("p", nodeName="node-x")
    place.pod("q", nodeName="node-y")
    place.pod("r")
    listed = place.cluster.get(place.pods, fieldSelector="spec.nodeName=node-x")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["p"]
    unbound = place.cluster.get(place.pods, fieldSelector="spec.nodeName=")
    assert [item["metadata"]["name"] for item in unbound["items"]] == ["r"]
    running = place.cluster.get(place.pods, fieldSelector="status.phase=Running,spec.nodeName!=node-x")
    assert [item["metadata"]["name"] for item in running["items"]] == ["q", "r"]


def test_pod_is_bound_to_a_node_once(place: Place) -> None:
    """By the binding subresource."""
    node = make_node(place.cluster)["metadata"]["name"]
    place.pod(status=None)
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    ok(place.cluster.request("POST", f"{place.pods}/p/binding", body=body), 201)
    pod = place.cluster.get(f"{place.pods}/p")
    assert pod["spec"]["nodeName"] == node
    assert {one["type"]: one["status"] for one in pod["status"]["conditions"]} == {"PodScheduled": "True"}
    refused(place.cluster.request("POST", f"{place.pods}/p/binding", body=body), 409, "Conflict")


def test_new_pod_has_its_defaults(place: Place) -> None:
    """Those that a drain and a follower read."""
    pod = place.pod(status=None)
    assert pod["status"]["phase"] == "Pending"
    assert pod["spec"]["terminationGracePeriodSeconds"] == 30
    assert pod["spec"]["restartPolicy"] == "Always"
    assert "nodeName" not in pod["spec"]
