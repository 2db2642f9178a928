"""
Nodes as fences: the field, the taint, who wrote it, and how they are found.

Aspects: what a new node looks like · `unschedulable` · field selectors · what else writes to a node · PUT.
"""

from __future__ import annotations

import pytest

from tests.contract.answers import not_applicable, ok, refused, version
from tests.support.clusters import NODES, Cluster, Raw, make_configmap, make_kustomization, make_node, path_of
from tests.support.rawhttp import STRATEGIC_MERGE_PATCH

NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def _names(items: list[Raw]) -> set[str]:
    return {item["metadata"]["name"] for item in items}


def test_new_node_is_tainted_not_ready(cluster: Cluster) -> None:
    """Admission puts the taint on each node that is created; the field is another thing."""
    node = make_node(cluster)
    assert node["spec"] == {"taints": [NOT_READY]}
    assert "generation" not in node["metadata"]
    assert "namespace" not in node["metadata"]


def test_false_is_not_stored(cluster: Cluster) -> None:
    """`unschedulable: false` and its absence are the same node."""
    assert "unschedulable" not in make_node(cluster, unschedulable=False)["spec"]
    assert make_node(cluster, unschedulable=True)["spec"]["unschedulable"] is True


def test_cordon_sets_the_field_and_no_taint(cluster: Cluster) -> None:
    """The taint comes later, from a controller: the field is what counts."""
    node = make_node(cluster, taints=[])
    after = ok(cluster.json_patch(path_of(node), [{"op": "add", "path": "/spec/unschedulable", "value": True}]))
    assert after["spec"] == {"unschedulable": True}


@pytest.mark.parametrize("selector", ["spec.unschedulable=true", "spec.unschedulable==true"])
def test_field_selector_finds_the_cordoned_nodes(cluster: Cluster, selector: str) -> None:
    """And those only."""
    cordoned, _free = make_node(cluster, unschedulable=True), make_node(cluster)
    assert _names(cluster.get(NODES, fieldSelector=selector)["items"]) == {cordoned["metadata"]["name"]}


@pytest.mark.parametrize("selector", ["spec.unschedulable=false", "spec.unschedulable!=true"])
def test_field_selector_finds_the_free_nodes(cluster: Cluster, selector: str) -> None:
    """For a selector the absent field is `false`."""
    _cordoned, free = make_node(cluster, unschedulable=True), make_node(cluster)
    assert _names(cluster.get(NODES, fieldSelector=selector)["items"]) == {free["metadata"]["name"]}


def test_field_selectors_are_joined_by_comma(cluster: Cluster) -> None:
    """All of them hold."""
    one, two = make_node(cluster, unschedulable=True), make_node(cluster, unschedulable=True)
    name = one["metadata"]["name"]
    selector = f"spec.unschedulable=true,metadata.name={name}"
    assert _names(cluster.get(NODES, fieldSelector=selector)["items"]) == {name}
    selector = f"spec.unschedulable=true,metadata.name!={name}"
    assert _names(cluster.get(NODES, fieldSelector=selector)["items"]) == {two["metadata"]["name"]}


def test_field_selector_works_on_a_list_of_metadata(cluster: Cluster) -> None:
    """The two reads of a report: all nodes without spec, and the cordoned ones."""
    node = make_node(cluster, unschedulable=True)
    make_node(cluster)
    answer = cluster.request(
        "GET",
        NODES,
        query={"fieldSelector": "spec.unschedulable=true"},
        accept="application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    )
    assert _names(ok(answer)["items"]) == {node["metadata"]["name"]}


@pytest.mark.parametrize("field", ["spec.providerID", "metadata.uid", "status.phase"])
def test_field_selector_on_another_field_of_nodes_is_a_bad_request(cluster: Cluster, field: str) -> None:
    """Only the name and `spec.unschedulable` are known."""
    status = refused(cluster.request("GET", NODES, query={"fieldSelector": f"{field}=x"}), 400, "BadRequest")
    assert status["message"] == f"field label not supported: {field}"


def test_field_selector_on_the_suspension_is_a_bad_request(cluster: Cluster) -> None:
    """Suspended objects cannot be found by selector."""
    make_kustomization(cluster, suspend=True)
    answer = cluster.request(
        "GET",
        "/apis/kustomize.toolkit.fluxcd.io/v1/kustomizations",
        query={"fieldSelector": "spec.suspend=true"},
    )
    status = refused(answer, 400, "BadRequest")
    assert "field label not supported: spec.suspend" in status["message"]


def test_field_selector_that_cannot_be_read_is_a_bad_request(cluster: Cluster) -> None:
    """A name without a value is no selector."""
    refused(cluster.request("GET", NODES, query={"fieldSelector": "nonsense"}), 400, "BadRequest")


def test_field_selector_by_name_and_namespace(cluster: Cluster) -> None:
    """Every kind knows these two, custom resources too."""
    for obj, base in (
        (make_configmap(cluster, namespace="default"), "/api/v1/configmaps"),
        (make_kustomization(cluster), "/apis/kustomize.toolkit.fluxcd.io/v1/kustomizations"),
    ):
        name, namespace = obj["metadata"]["name"], obj["metadata"]["namespace"]
        found = cluster.get(base, fieldSelector=f"metadata.name={name},metadata.namespace={namespace}")
        assert _names(found["items"]) == {name}
        none = cluster.get(base, fieldSelector=f"metadata.name={name},metadata.namespace=elsewhere")
        assert not none["items"]


def test_label_and_status_writes_move_the_version_but_not_a_value_guard(cluster: Cluster) -> None:
    """Kubelets write all the time: a guard on the version goes stale, a guard on the fenced value does not."""
    node = make_node(cluster, annotations={"fencectl.dev/holder": "me"}, unschedulable=True)
    path = path_of(node)
    ok(cluster.merge_patch(path, {"metadata": {"labels": {"a": "b"}}}, manager="somebody"))
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}}
    beat = cluster.request("PATCH", f"{path}/status", body=ready, content_type=STRATEGIC_MERGE_PATCH)
    assert ok(beat)["status"]["conditions"][0]["status"] == "True"
    assert version(beat.json()) != version(node)

    by_version = [{"op": "test", "path": "/metadata/resourceVersion", "value": version(node)}]
    not_applicable(cluster.json_patch(path, by_version))
    by_value = [
        {"op": "test", "path": "/metadata/uid", "value": node["metadata"]["uid"]},
        {"op": "test", "path": "/metadata/annotations/fencectl.dev~1holder", "value": "me"},
        {"op": "test", "path": "/spec/unschedulable", "value": True},
        {"op": "remove", "path": "/spec/unschedulable"},
        {"op": "remove", "path": "/metadata/annotations/fencectl.dev~1holder"},
    ]
    after = ok(cluster.json_patch(path, by_value))
    assert "unschedulable" not in after["spec"]
    assert "annotations" not in after["metadata"]


def test_status_of_a_node_is_written_by_its_subresource_only(cluster: Cluster) -> None:
    """A patch of `/status` leaves the spec, a patch of the node leaves the status."""
    node = make_node(cluster)
    path = path_of(node)
    both = {"spec": {"unschedulable": True}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}

    by_status = ok(cluster.request("PATCH", f"{path}/status", body=both, content_type=STRATEGIC_MERGE_PATCH))
    assert "unschedulable" not in by_status["spec"]
    assert [one["status"] for one in by_status["status"]["conditions"]] == ["True"]

    both["status"]["conditions"][0]["status"] = "False"  # type: ignore[index]
    by_node = ok(cluster.request("PATCH", path, body=both, content_type=STRATEGIC_MERGE_PATCH))
    assert by_node["spec"]["unschedulable"] is True


def test_conditions_are_merged_by_type(cluster: Cluster) -> None:
    """A strategic merge changes the condition of that type and keeps the others."""
    path = path_of(make_node(cluster)) + "/status"

    def write(kind: str, value: str) -> list[tuple[str, str]]:
        body = {"status": {"conditions": [{"type": kind, "status": value}]}}
        after = ok(cluster.request("PATCH", path, body=body, content_type=STRATEGIC_MERGE_PATCH))
        return sorted((one["type"], one["status"]) for one in after["status"]["conditions"])

    write("Ready", "True")
    write("DiskPressure", "False")
    assert write("Ready", "Unknown") == [("DiskPressure", "False"), ("Ready", "Unknown")]


def test_strategic_merge_cordons_and_uncordons_without_any_guard(cluster: Cluster) -> None:
    """What kubectl cordon sends overrides whatever is there."""
    node = make_node(cluster, unschedulable=True, annotations={"fencectl.dev/holder": "me"})
    free = {"spec": {"unschedulable": None}}
    after = ok(cluster.request("PATCH", path_of(node), body=free, content_type=STRATEGIC_MERGE_PATCH))
    assert "unschedulable" not in after["spec"]
    assert after["metadata"]["annotations"] == {"fencectl.dev/holder": "me"}
    again = {"spec": {"unschedulable": True}}
    after = ok(cluster.request("PATCH", path_of(node), body=again, content_type=STRATEGIC_MERGE_PATCH))
    assert after["spec"]["unschedulable"] is True


def test_put_to_a_node_needs_no_version_and_creates_none(cluster: Cluster) -> None:
    """The other way round than a Lease."""
    node = make_node(cluster, labels={"a": "b"})
    name = node["metadata"]["name"]
    bare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"unschedulable": True}}
    after = ok(cluster.request("PUT", path_of(node), body=bare))
    assert after["spec"]["unschedulable"] is True
    assert "labels" not in after["metadata"]
    assert after["metadata"]["uid"] == node["metadata"]["uid"]

    other = cluster.unique("node")
    bare["metadata"] = {"name": other}
    refused(cluster.request("PUT", f"{NODES}/{other}", body=bare), 404, "NotFound")


def test_placement_guarded_by_version_cannot_be_repeated_after_the_release(cluster: Cluster) -> None:
    """A node has no generation; its version only grows."""
    node = make_node(cluster, annotations={"a": "b"})
    path, mark = path_of(node), "/metadata/annotations/fencectl.dev~1holder"
    place: list[Raw] = [
        {"op": "test", "path": "/metadata/uid", "value": node["metadata"]["uid"]},
        {"op": "test", "path": "/metadata/resourceVersion", "value": version(node)},
        {"op": "test", "path": mark, "value": None},
        {"op": "add", "path": mark, "value": "me"},
        {"op": "add", "path": "/spec/unschedulable", "value": True},
    ]
    release: list[Raw] = [
        {"op": "test", "path": mark, "value": "me"},
        {"op": "test", "path": "/spec/unschedulable", "value": True},
        {"op": "remove", "path": "/spec/unschedulable"},
        {"op": "remove", "path": mark},
    ]
    ok(cluster.json_patch(path, place))
    not_applicable(cluster.json_patch(path, place))
    ok(cluster.json_patch(path, release))
    not_applicable(cluster.json_patch(path, place))
    unguarded = [op for op in place if op["path"] != "/metadata/resourceVersion"]
    ok(cluster.json_patch(path, unguarded))


@pytest.mark.parametrize("name", ["Upper", "under_score", "-dash", "a" * 254, ""])
def test_node_of_an_invalid_name_is_refused(cluster: Cluster, name: str) -> None:
    """Names are DNS subdomains."""
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    status = refused(cluster.request("POST", NODES, body=body), 422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "metadata.name"


@pytest.mark.parametrize(("key", "value"), [("k", "with blank"), ("k", "a" * 64), ("-k", "v"), ("a/b/c", "v")])
def test_label_that_is_not_valid_is_refused(cluster: Cluster, key: str, value: str) -> None:
    """Labels are narrow; annotations take any text."""
    node = make_node(cluster)
    status = refused(cluster.merge_patch(path_of(node), {"metadata": {"labels": {key: value}}}), 422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "metadata.labels"


@pytest.mark.parametrize("key", ["with blank", "-k", "a/b/c", "", "a" * 64])
def test_annotation_of_an_invalid_key_is_refused(cluster: Cluster, key: str) -> None:
    """The keys of annotations are qualified names."""
    node = make_node(cluster)
    answer = cluster.merge_patch(path_of(node), {"metadata": {"annotations": {key: "v"}}})
    status = refused(answer, 422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "metadata.annotations"
