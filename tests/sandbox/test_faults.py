"""Aspects: refuse · throttle · delay · drop before and after · hang · expire · interleave · which request, how often."""

from __future__ import annotations

import http.client
import json
from datetime import UTC, datetime

import pytest

from fencectl.sandbox import Gate, Sandbox, StatusError
from tests.sandbox.support import (
    JSON_PATCH,
    LEASES,
    MERGE_PATCH,
    Background,
    Raw,
    ask,
    lease,
    node,
    until,
)


def _patch(sandbox: Sandbox, name: str = "a") -> int:
    patch = {"spec": {"unschedulable": True}}
    return ask(sandbox, "PATCH", f"/api/v1/nodes/{name}", patch, content_type=MERGE_PATCH).status


def test_refusal_strikes_only_what_it_matches(quiet: Sandbox) -> None:
    """Verb, resource and name are looked at; nothing is carried out."""
    quiet.store.create(node("a"))
    quiet.store.create(node("b"))
    fault = quiet.faults.refuse(verb="patch", resource="nodes", name="a", status=503, retry_after=2)
    assert _patch(quiet, "b") == 200
    answer = ask(quiet, "PATCH", "/api/v1/nodes/a", {}, content_type=MERGE_PATCH)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "2")
    body = answer.json()
    assert (body["kind"], body["reason"], body["details"]["retryAfterSeconds"]) == (
        "Status",
        "ServiceUnavailable",
        2,
    )
    assert "unschedulable" not in quiet.store.get("nodes", "a")["spec"]
    assert fault.hits == 1
    fault.cancel()
    assert _patch(quiet, "a") == 200


def test_fault_lets_some_pass_and_strikes_a_number_of_times(quiet: Sandbox) -> None:
    """`after` and `times`."""
    quiet.store.create(node("a"))
    quiet.faults.refuse(resource="nodes", status=500, after=1, times=2)
    assert [ask(quiet, "GET", "/api/v1/nodes/a").status for _ in range(5)] == [200, 500, 500, 200, 200]


def test_throttling_is_plain_text(quiet: Sandbox) -> None:
    """Not a Status: clients that expect one must cope."""
    quiet.faults.throttle(retry_after=3, user="admin")
    answer = ask(quiet, "GET", "/api/v1/nodes")
    assert (answer.status, answer.headers["Retry-After"]) == (429, "3")
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert answer.body == b"Too many requests, please try again later.\n"


@pytest.mark.parametrize("body", [b"<html>", "<html>", {"kind": "Status", "code": 410}])
def test_refusal_has_any_body(quiet: Sandbox, body: bytes | str | Raw) -> None:
    """Proxies answer with pages, servers with objects."""
    quiet.faults.refuse(status=410, body=body, path="/api/v1/nodes")
    answer = ask(quiet, "GET", "/api/v1/nodes")
    assert answer.status == 410
    assert answer.body == (
        json.dumps(body, separators=(",", ":")).encode() if isinstance(body, dict) else b"<html>"
    )


def test_dropped_request_is_not_carried_out(served: Sandbox) -> None:
    """The connection closes without an answer."""
    served.faults.drop_before(verb="create", resource="nodes")
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
    connection.request("POST", "/api/v1/nodes", body=json.dumps(node("a")))
    with pytest.raises(http.client.RemoteDisconnected):
        connection.getresponse()
    connection.close()
    assert served.store.find("nodes", "a") is None
    assert served.requests[-1].status == 0


def test_lost_answer_was_carried_out(served: Sandbox) -> None:
    """The client sees the same as for a dropped request."""
    served.faults.drop_after(verb="create", resource="nodes", times=1)
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
    connection.request("POST", "/api/v1/nodes", body=json.dumps(node("a")))
    with pytest.raises(http.client.RemoteDisconnected):
        connection.getresponse()
    connection.close()
    assert served.store.get("nodes", "a")["metadata"]["uid"]


def test_delay_follows_the_sandbox_clock() -> None:
    """No real time passes: the test moves the clock."""
    sandbox = Sandbox(manual_clock_at=datetime(2026, 1, 1, tzinfo=UTC))
    fault = sandbox.faults.delay(30, resource="nodes")
    client = Background(lambda: ask(sandbox, "GET", "/api/v1/nodes").status)
    assert fault.arrived.wait(10)
    sandbox.clock.advance(29)
    assert client.is_running
    sandbox.clock.advance(1)
    assert client.result() == 200


def test_delay_may_wait_for_a_gate(quiet: Sandbox) -> None:
    """The request is carried out when the test opens it, and not before."""
    gate = Gate()
    fault = quiet.faults.delay(gate=gate, verb="create")
    client = Background(lambda: ask(quiet, "POST", "/api/v1/nodes", node("a")).status)
    assert fault.arrived.wait(10)
    assert quiet.store.find("nodes", "a") is None
    assert not gate.is_open
    gate.open()
    assert client.result() == 201


def test_hanging_request_is_never_carried_out(quiet: Sandbox) -> None:
    """Released, it is dropped."""
    fault = quiet.faults.hang(verb="create")
    client = Background(lambda: ask(quiet, "POST", "/api/v1/nodes", node("a")))
    assert fault.arrived.wait(10)
    fault.release()
    assert client.result().drop
    assert quiet.store.find("nodes", "a") is None


def test_request_that_waits_when_the_sandbox_stops_is_not_carried_out() -> None:
    """A stop is no release."""
    sandbox = Sandbox().start()
    fault = sandbox.faults.delay(gate=Gate(), verb="create")
    client = Background(lambda: ask(sandbox, "POST", "/api/v1/nodes", node("a")))
    assert fault.arrived.wait(10)
    sandbox.stop()
    assert client.result().drop
    assert sandbox.store.find("nodes", "a") is None


def test_clearing_takes_all_faults_away(quiet: Sandbox) -> None:
    """What they hold goes on."""
    fault = quiet.faults.hang(resource="nodes")
    quiet.faults.refuse(resource="nodes", status=500)
    client = Background(lambda: ask(quiet, "GET", "/api/v1/nodes"))
    assert fault.arrived.wait(10)
    quiet.faults.clear()
    client.result()
    assert ask(quiet, "GET", "/api/v1/nodes").status == 200


def test_expiry_ends_pages_and_watches(quiet: Sandbox) -> None:
    """410 for a token, an error event for a watch."""
    for name in ("a", "b"):
        quiet.store.create(node(name))
    token = ask(quiet, "GET", "/api/v1/nodes?limit=1").json()["metadata"]["continue"]
    watch = ask(quiet, "GET", "/api/v1/nodes?watch=1").stream
    assert watch is not None
    assert len(watch.poll()) == 2
    quiet.faults.expire()
    answer = ask(quiet, "GET", f"/api/v1/nodes?limit=1&continue={token}")
    assert (answer.status, answer.json()["reason"]) == (410, "Expired")
    rest = answer.json()["metadata"]["continue"]
    names = ask(quiet, "GET", f"/api/v1/nodes?limit=1&continue={rest}").json()["items"]
    assert [item["metadata"]["name"] for item in names] == ["b"]
    (event,) = watch.poll()
    assert json.loads(event)["object"]["code"] == 410
    assert watch.ended


def test_other_writer_between_read_and_write_is_seen(quiet: Sandbox) -> None:
    """The patch is applied again to what the other wrote: its guard then fails."""
    quiet.store.create(lease("l", holder=""))
    quiet.faults.on(
        lambda: quiet.store.patch("leases", "l", {"spec": {"holderIdentity": "other"}}, namespace="flux-system"),
        verb="patch",
        resource="leases",
    )
    patch = [
        {"op": "test", "path": "/spec/holderIdentity", "value": ""},
        {"op": "replace", "path": "/spec/holderIdentity", "value": "me"},
    ]
    answer = ask(quiet, "PATCH", f"{LEASES}/l", patch, content_type=JSON_PATCH)
    assert answer.status == 422
    assert quiet.store.get("leases", "l", namespace="flux-system")["spec"]["holderIdentity"] == "other"


def test_other_writer_before_a_creation_wins(quiet: Sandbox) -> None:
    """The creation is then a conflict."""
    quiet.faults.on(lambda: quiet.store.create(node("a")), verb="create")
    assert ask(quiet, "POST", "/api/v1/nodes", node("a")).json()["reason"] == "AlreadyExists"


def test_other_writer_before_a_deletion_is_deleted_too(quiet: Sandbox) -> None:
    """A deletion without preconditions takes what is there."""
    quiet.store.create(node("a"))
    quiet.faults.on(lambda: quiet.store.patch("nodes", "a", {"metadata": {"labels": {"a": "b"}}}), verb="delete")
    assert ask(quiet, "DELETE", "/api/v1/nodes/a").status == 200
    assert quiet.store.find("nodes", "a") is None


def test_error_of_a_callback_reaches_the_test(quiet: Sandbox) -> None:
    """A refusal inside it is the answer."""
    quiet.store.create(node("a"))

    def refuse() -> None:
        raise StatusError(500, reason="InternalError", message="scripted")

    quiet.faults.on(refuse, verb="patch")
    assert _patch(quiet) == 500
    assert _patch(quiet) == 200


def test_faults_are_counted_across_threads(quiet: Sandbox) -> None:
    """`times` holds however many ask at once."""
    quiet.faults.refuse(status=500, times=3, resource="nodes")
    runs = [Background(lambda: ask(quiet, "GET", "/api/v1/nodes").status) for _ in range(8)]
    assert sorted(run.result() for run in runs) == [200] * 5 + [500] * 3
    until(lambda: len(quiet.requests) == 8)
