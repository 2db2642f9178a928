"""
Watches: what comes first, what follows, and how they end.

Aspects: from a list's version · from nothing · initial events and their bookmark · selectors · metadata and tables ·
time-outs · a version that is too old.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from http.client import HTTPResponse
from typing import Any

import pytest

from tests.contract.answers import ok, refused, version
from tests.support.clusters import (
    KUSTOMIZE,
    NODES,
    Cluster,
    Raw,
    Watch,
    make_configmap,
    make_kustomization,
    make_namespace,
    make_node,
    path_of,
)
from tests.support.rawhttp import JSON

METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
INITIAL: Raw = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}


def _take(watch: Watch, count: int) -> list[tuple[str, str]]:
    events = watch.events()
    return [
        (event["type"], event["object"]["metadata"].get("name", ""))
        for event in (next(events) for _ in range(count))
    ]


def _configmaps(cluster: Cluster, *names: str) -> str:
    namespace = make_namespace(cluster)
    for name in names:
        make_configmap(cluster, name, namespace=namespace)
    return f"/api/v1/namespaces/{namespace}/configmaps"


def _make(cluster: Cluster, base: str, name: str, **keywords: Any) -> Raw:
    return make_configmap(cluster, name, namespace=base.split("/")[4], **keywords)


def test_watch_from_a_list_shows_what_follows_in_order(cluster: Cluster) -> None:
    """Made, changed, deleted; the last with the state before and the version of the deletion."""
    base = _configmaps(cluster, "before")
    start = cluster.get(base)["metadata"]["resourceVersion"]
    with cluster.watch(base, resourceVersion=start) as watch:
        assert watch.status == 200
        assert watch.response.headers["Content-Type"] == JSON
        made = _make(cluster, base, "a", data={"k": "1"})
        changed = ok(cluster.merge_patch(f"{base}/a", {"data": {"k": "2"}}))
        ok(cluster.request("DELETE", f"{base}/a"))
        events = watch.events()
        first, second, third = next(events), next(events), next(events)

    assert first == {"type": "ADDED", "object": made}
    assert second == {"type": "MODIFIED", "object": changed}
    assert third["type"] == "DELETED"
    assert third["object"]["data"] == {"k": "2"}
    assert int(version(third["object"])) > int(version(changed))


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}], ids=["unset", "zero"])
def test_watch_from_nothing_begins_with_what_is_there(cluster: Cluster, query: Raw) -> None:
    """As if each object had just been made."""
    base = _configmaps(cluster, "a", "b")
    cluster.get(base)
    with cluster.watch(base, **query) as watch:
        assert sorted(_take(watch, 2)) == [("ADDED", "a"), ("ADDED", "b")]
        _make(cluster, base, "c")
        assert _take(watch, 1) == [("ADDED", "c")]


def test_write_that_changes_nothing_is_no_event(cluster: Cluster) -> None:
    """The next event is the next real change."""
    base = _configmaps(cluster)
    _make(cluster, base, "a", data={"k": "1"})
    start = cluster.get(base)["metadata"]["resourceVersion"]
    with cluster.watch(base, resourceVersion=start) as watch:
        ok(cluster.merge_patch(f"{base}/a", {"data": {"k": "1"}}))
        ok(cluster.merge_patch(f"{base}/a", {"data": {"k": "2"}}, dryRun="All"))
        ok(cluster.merge_patch(f"{base}/a", {"data": {"k": "3"}}))
        assert watch.next()["object"]["data"] == {"k": "3"}


def test_initial_events_end_with_a_bookmark(cluster: Cluster) -> None:
    """A list and a watch in one request."""
    base = _configmaps(cluster, "a", "b")
    with cluster.watch(base, **INITIAL) as watch:
        events = watch.events()
        first = [next(events) for _ in range(3)]
        _make(cluster, base, "c")
        after = next(events)

    assert sorted((event["type"], event["object"]["metadata"].get("name")) for event in first[:2]) == [
        ("ADDED", "a"),
        ("ADDED", "b"),
    ]
    bookmark = first[2]
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["kind"] == "ConfigMap"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(version(bookmark["object"])) > 0
    assert (after["type"], after["object"]["metadata"]["name"]) == ("ADDED", "c")


def test_initial_events_of_nothing_are_the_bookmark_alone(cluster: Cluster) -> None:
    """An empty cluster is known to be empty."""
    base = f"{KUSTOMIZE}/namespaces/{make_namespace(cluster)}/kustomizations"
    with cluster.watch(base, **INITIAL) as watch:
        event = watch.next()
    assert event["type"] == "BOOKMARK"
    assert event["object"]["kind"] == "Kustomization"
    assert event["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_initial_events_without_a_match_are_refused(cluster: Cluster) -> None:
    """422, with the option's name."""
    answer = cluster.request("GET", NODES, query={"watch": "1", "sendInitialEvents": "true"})
    status = refused(answer, 422, "Invalid")
    assert [cause["field"] for cause in status["details"]["causes"]] == ["resourceVersionMatch"]


def test_timeout_ends_the_stream(cluster: Cluster) -> None:
    """Cleanly, after what was there."""
    base = _configmaps(cluster, "a")
    with cluster.watch(base, timeoutSeconds=1) as watch:
        assert [event["object"]["metadata"]["name"] for event in watch.events()] == ["a"]


@pytest.mark.parametrize("query", [{"resourceVersion": "1"}], ids=["one"])
def test_version_that_is_too_old_is_an_error_event(cluster: Cluster, query: Raw) -> None:
    """Status 200, then one event of type ERROR with the 410, then the end."""
    obj = make_kustomization(cluster)
    cluster.expire()
    base = path_of(obj).rpartition("/")[0]
    with cluster.watch(base, timeoutSeconds=5, **query) as watch:
        assert watch.status == 200
        (event,) = watch.events()
    assert event["type"] == "ERROR"
    status = event["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
    assert status["message"].startswith("too old resource version: 1 (")


def test_label_selector_turns_changes_into_arrivals_and_departures(cluster: Cluster) -> None:
    """What leaves the selection is DELETED although it is still there."""
    base = _configmaps(cluster)
    _make(cluster, base, "a", labels={"pick": "no"})
    start = cluster.get(base)["metadata"]["resourceVersion"]
    with cluster.watch(base, resourceVersion=start, labelSelector="pick=yes") as watch:
        _make(cluster, base, "b")
        ok(cluster.merge_patch(f"{base}/a", {"metadata": {"labels": {"pick": "yes"}}}))
        ok(cluster.merge_patch(f"{base}/a", {"data": {"k": "1"}}))
        ok(cluster.merge_patch(f"{base}/a", {"metadata": {"labels": {"pick": "no"}}}))
        assert _take(watch, 3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    cluster.get(f"{base}/a")


def test_field_selector_follows_cordons(cluster: Cluster) -> None:
    """A watch of the cordoned nodes tells of each cordon and uncordon."""
    node = make_node(cluster)
    name = node["metadata"]["name"]
    start = cluster.get(NODES)["metadata"]["resourceVersion"]
    with cluster.watch(NODES, resourceVersion=start, fieldSelector="spec.unschedulable=true") as watch:
        ok(cluster.merge_patch(path_of(node), {"spec": {"unschedulable": True}}))
        ok(cluster.merge_patch(path_of(node), {"metadata": {"annotations": {"a": "b"}}}))
        ok(cluster.merge_patch(path_of(node), {"spec": {"unschedulable": None}}))
        assert _take(watch, 3) == [("ADDED", name), ("MODIFIED", name), ("DELETED", name)]


def test_field_selector_by_name_watches_one_object(cluster: Cluster) -> None:
    """As kubectl wait does."""
    base = _configmaps(cluster, "a", "b")
    start = cluster.get(base)["metadata"]["resourceVersion"]
    with cluster.watch(base, resourceVersion=start, fieldSelector="metadata.name=b") as watch:
        ok(cluster.merge_patch(f"{base}/a", {"data": {"k": "1"}}))
        ok(cluster.merge_patch(f"{base}/b", {"data": {"k": "1"}}))
        assert _take(watch, 1) == [("MODIFIED", "b")]


def test_field_selector_that_is_not_known_is_a_bad_request(cluster: Cluster) -> None:
    """Before the stream begins."""
    answer = cluster.request(
        "GET", f"{KUSTOMIZE}/kustomizations", query={"watch": "1", "fieldSelector": "spec.suspend=true"}
    )
    refused(answer, 400, "BadRequest")


def test_watch_of_metadata(cluster: Cluster) -> None:
    """Each event's object is its metadata."""
    base = _configmaps(cluster)
    start = cluster.get(base)["metadata"]["resourceVersion"]
    with cluster.watch(base, accept=METADATA, resourceVersion=start) as watch:
        made = _make(cluster, base, "a", data={"k": "1"})
        event = watch.next()
    expected = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"]}
    assert event == {"type": "ADDED", "object": expected}


def test_watch_of_tables_sends_the_columns_once(cluster: Cluster) -> None:
    """As kubectl get --watch reads them."""
    base = _configmaps(cluster)
    start = cluster.get(base)["metadata"]["resourceVersion"]
    with cluster.watch(base, accept=TABLE, resourceVersion=start) as watch:
        _make(cluster, base, "a")
        _make(cluster, base, "b")
        events = watch.events()
        first, second = next(events)["object"], next(events)["object"]
    assert [column["name"] for column in first["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert second["columnDefinitions"] is None
    assert [first["rows"][0]["cells"][0], second["rows"][0]["cells"][0]] == ["a", "b"]


def test_watch_over_all_namespaces(cluster: Cluster) -> None:
    """And of one namespace only what is in it."""
    one, two = _configmaps(cluster), _configmaps(cluster)
    start = cluster.get("/api/v1/configmaps")["metadata"]["resourceVersion"]
    with (
        cluster.watch("/api/v1/configmaps", resourceVersion=start) as everywhere,
        cluster.watch(two, resourceVersion=start) as there,
    ):
        _make(cluster, one, "a")
        _make(cluster, two, "b")
        assert _take(everywhere, 2) == [("ADDED", "a"), ("ADDED", "b")]
        assert _take(there, 1) == [("ADDED", "b")]


def test_status_writes_are_seen_by_a_watch(cluster: Cluster) -> None:
    """The drain proof arrives as an event."""
    obj = make_kustomization(cluster)
    base = path_of(obj).rpartition("/")[0]
    with cluster.watch(base, resourceVersion=version(obj)) as watch:
        proof = {"status": {"lastHandledReconcileAt": "token"}}
        ok(cluster.merge_patch(f"{path_of(obj)}/status", proof))
        event = watch.next()
    assert event["type"] == "MODIFIED"
    assert event["object"]["status"]["lastHandledReconcileAt"] == "token"
    assert event["object"]["metadata"]["generation"] == 1


def _unpacked(response: HTTPResponse) -> Iterator[Raw]:
    """Read events out of a compressed stream as they come: it may be any number of gzip members."""
    reader, text = zlib.decompressobj(31), b""
    while data := response.read1():
        while data:
            text += reader.decompress(data)
            data = reader.unused_data
            if reader.eof:
                reader = zlib.decompressobj(31)
        *lines, text = text.split(b"\n")
        for line in lines:
            yield json.loads(line)


@pytest.mark.parametrize("flux", [False, True], ids=["configmap", "kustomization"])
def test_initial_events_are_compressed_for_who_asks(cluster: Cluster, flux: bool) -> None:
    """And what follows in the same stream arrives without delay."""
    namespace = make_namespace(cluster)
    make = make_kustomization if flux else make_configmap
    obj = make(cluster, "a", namespace=namespace)
    base = path_of(obj).rpartition("/")[0]
    with cluster.watch(base, headers={"Accept-Encoding": "gzip"}, **INITIAL) as watch:
        assert watch.response.headers["Content-Encoding"] == "gzip"
        events = _unpacked(watch.response)
        assert [next(events)["type"], next(events)["type"]] == ["ADDED", "BOOKMARK"]
        ok(cluster.merge_patch(path_of(obj), {"metadata": {"annotations": {"a": "b"}}}))
        event = next(events)
    assert event["type"] == "MODIFIED"
    assert event["object"]["metadata"]["annotations"] == {"a": "b"}


def test_plain_watch_is_never_compressed(cluster: Cluster) -> None:
    """Whatever the client accepts."""
    base = _configmaps(cluster, "a")
    with cluster.watch(base, headers={"Accept-Encoding": "gzip"}) as watch:
        assert "Content-Encoding" not in watch.response.headers
        assert watch.next()["type"] == "ADDED"
