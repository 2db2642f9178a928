"""Aspects: the log · requests without sockets · watches without threads · what a path asks for."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from fencectl.sandbox import Sandbox, make_request
from fencectl.sandbox.requests import Action, read_action
from fencectl.sandbox.watch import WatchStream
from tests.sandbox.support import JSON_PATCH, Raw, ask, node


def test_log_holds_what_was_on_the_wire(quiet: Sandbox) -> None:
    """Bytes, headers and query as they came, and the status that went back."""
    quiet.store.create(node("a"))
    body = '[{"op":"test","path":"/metadata/name","value":"b"}]'
    ask(quiet, "PATCH", "/api/v1/nodes/a?fieldManager=fencectl&dryRun=All", body, content_type=JSON_PATCH)
    ask(quiet, "GET", "/api/v1/nodes/a")
    first, second = quiet.requests
    assert (first.method, first.path, first.status, first.user) == ("PATCH", "/api/v1/nodes/a", 422, "admin")
    assert (first.verb, first.resource) == ("patch", "nodes")
    assert first.body == body.encode()
    assert first.json()[0]["op"] == "test"
    assert first.query == {"fieldManager": "fencectl", "dryRun": "All"}
    assert first.headers["content-type"] == JSON_PATCH
    assert quiet.requests.where(method="GET") == [second]
    assert quiet.requests.where(path="nodes", verb="patch") == [first]
    quiet.requests.clear()
    assert len(quiet.requests) == 0


def test_set_up_through_the_store_is_not_logged(quiet: Sandbox) -> None:
    """The log is about clients."""
    quiet.store.create(node("a"))
    quiet.store.patch("nodes", "a", {"metadata": {"labels": {"a": "b"}}})
    assert list(quiet.requests) == []


def _events(stream: WatchStream | None) -> list[tuple[str, str]]:
    assert stream is not None
    found = [json.loads(line) for line in stream.poll()]
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in found]


def test_watch_is_polled_without_a_thread(quiet: Sandbox) -> None:
    """A scheduler of its own can drive it."""
    quiet.store.create(node("a"))
    stream = ask(quiet, "GET", "/api/v1/nodes?watch=1").stream
    assert _events(stream) == [("ADDED", "a")]
    assert _events(stream) == []
    quiet.store.create(node("b"))
    quiet.store.patch("nodes", "a", {"spec": {"unschedulable": True}})
    quiet.store.delete("nodes", "b")
    assert _events(stream) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]


def test_watch_of_a_selector_sees_objects_come_and_go(quiet: Sandbox) -> None:
    """What stops to match is shown as deleted, as it was."""
    quiet.store.create(node("a"))
    stream = ask(quiet, "GET", "/api/v1/nodes?watch=1&fieldSelector=spec.unschedulable%3Dtrue").stream
    assert _events(stream) == []
    quiet.store.patch("nodes", "a", {"spec": {"unschedulable": True}})
    quiet.store.patch("nodes", "a", {"spec": {"unschedulable": None}})
    assert _events(stream) == [("ADDED", "a"), ("DELETED", "a")]


def test_watch_ends_by_the_sandbox_clock() -> None:
    """`timeoutSeconds` and bookmarks follow it."""
    sandbox = Sandbox(manual_clock_at=datetime(2026, 1, 1, tzinfo=UTC))
    path = "/api/v1/nodes?watch=1&timeoutSeconds=100&allowWatchBookmarks=true"
    stream = ask(sandbox, "GET", path).stream
    assert stream is not None
    assert _events(stream) == []
    sandbox.clock.advance(61)
    assert _events(stream) == [("BOOKMARK", "")]
    sandbox.clock.advance(40)
    assert _events(stream) == []
    assert stream.ended
    sandbox.store.create(node("a"))
    assert _events(stream) == []


def test_watch_of_any_version_may_trail_a_moment(quiet: Sandbox) -> None:
    """It begins a little in the past and then tells everything: kubectl throws the first event away."""
    quiet.store.create(node("a"))
    quiet.store.patch("nodes", "a", {"spec": {"unschedulable": True}})
    stream = ask(quiet, "GET", "/api/v1/nodes?watch=1&resourceVersion=0").stream
    assert _events(stream)[-1] == ("MODIFIED", "a")


@pytest.mark.parametrize(
    ("method", "path", "action"),
    [
        ("GET", "/api/v1/nodes", Action("list", "nodes", "", "v1")),
        ("GET", "/api/v1/nodes?watch=true", Action("watch", "nodes", "", "v1")),
        ("GET", "/api/v1/nodes/a?watch=true", Action("get", "nodes", "", "v1", "", "a")),
        ("PATCH", "/api/v1/nodes/a/status", Action("patch", "nodes", "", "v1", "", "a", "status")),
        ("DELETE", "/api/v1/namespaces/x/pods", Action("deletecollection", "pods", "", "v1", "x")),
        ("GET", "/api/v1/namespaces/x", Action("get", "namespaces", "", "v1", "x", "x")),
        ("PUT", "/api/v1/namespaces/x/finalize", Action("update", "namespaces", "", "v1", "x", "x", "finalize")),
        ("POST", "/apis/g/v2/namespaces/x/as", Action("create", "as", "g", "v2", "x")),
        ("GET", "/apis/g/v2/as/%62", Action("get", "as", "g", "v2", "", "b")),
        ("GET", "/version", Action("get")),
    ],
)
def test_path_is_taken_apart(method: str, path: str, action: Action) -> None:
    """Verb, resource, group, version, namespace, name, subresource."""
    assert read_action(make_request(method, path)) == action


@pytest.mark.parametrize("body", [b"{}", "{}", {}])
def test_body_is_made_of_bytes_text_or_objects(body: bytes | str | Raw) -> None:
    """Objects are sent as JSON, the rest as it is."""
    assert make_request("POST", "/x", body=body).body == b"{}"
    assert make_request("GET", "/as/a%40b/x?q=1&e=").query == {"q": "1", "e": ""}
    assert make_request("GET", "/as/a%40b/x").as_user == "a@b"
