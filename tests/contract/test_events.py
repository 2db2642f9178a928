"""
Events, which tell the story of a fence to whoever describes its object.

Aspects: what a new one needs · where those of a node live · the two groups that show them · kubectl.
"""

from __future__ import annotations

import pytest

from tests.contract.answers import ok, refused
from tests.support.clusters import Cluster, Raw, make_configmap, make_kustomization, make_namespace, make_node

NEW = "/apis/events.k8s.io/v1/namespaces"
OLD = "/api/v1/namespaces"


def _event(obj: Raw, **change: object) -> Raw:
    metadata = obj["metadata"]
    regarding = {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    if "namespace" in metadata:
        regarding["namespace"] = metadata["namespace"]
    event: Raw = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": "fencectl-"},
        "eventTime": "2026-11-30T12:00:00.000000Z",
        "reportingController": "fencectl.dev/fencectl",
        "reportingInstance": "run-1",
        "action": "Fence",
        "reason": "Fenced",
        "type": "Normal",
        "note": "held by somebody",
        "regarding": regarding,
    }
    return event | change


def test_event_of_a_node_is_written_to_the_default_namespace(cluster: Cluster) -> None:
    """And is read in both groups, under other names of its fields."""
    node = make_node(cluster)
    made = ok(cluster.request("POST", f"{NEW}/default/events", body=_event(node)), 201)
    old = cluster.get(f"{OLD}/default/events/{made['metadata']['name']}")
    assert (old["kind"], old["apiVersion"]) == ("Event", "v1")
    assert old["involvedObject"]["uid"] == node["metadata"]["uid"]
    assert (old["message"], old["reason"], old["reportingComponent"]) == (
        "held by somebody",
        "Fenced",
        "fencectl.dev/fencectl",
    )


def test_event_of_a_node_is_refused_elsewhere(cluster: Cluster) -> None:
    """What has no namespace has its events in `default`."""
    namespace = make_namespace(cluster)
    answer = cluster.request("POST", f"{NEW}/{namespace}/events", body=_event(make_node(cluster)))
    status = refused(answer, 422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "involvedObject.namespace"


def test_event_of_an_object_goes_where_it_is_sent(cluster: Cluster) -> None:
    """Its own namespace is right; another is not refused, so the writer must see to it."""
    namespace = make_namespace(cluster)
    for obj in (make_configmap(cluster, namespace=namespace), make_kustomization(cluster, namespace=namespace)):
        for where in (namespace, "default"):
            ok(cluster.request("POST", f"{NEW}/{where}/events", body=_event(obj)), 201)


@pytest.mark.parametrize("field", ["eventTime", "action", "reason", "reportingController", "reportingInstance"])
def test_event_without_a_required_field_is_invalid(cluster: Cluster, field: str) -> None:
    """The new group asks for all of them."""
    event = _event(make_node(cluster))
    del event[field]
    status = refused(cluster.request("POST", f"{NEW}/default/events", body=event), 422, "Invalid")
    assert field in {cause["field"] for cause in status["details"]["causes"]}


def test_events_are_shown_by_kubectl(cluster: Cluster) -> None:
    """By `kubectl events` and by `describe`."""
    node = make_node(cluster)
    cluster.create(f"{NEW}/default/events", _event(node))
    name = node["metadata"]["name"]
    out = cluster.kubectl("events", "--for", f"node/{name}", "-n", "default").stdout
    assert "Fenced" in out
    assert f"Node/{name}" in out
    assert "held by somebody" in cluster.kubectl("describe", "node", name).stdout
