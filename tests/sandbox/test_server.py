"""Aspects: start and stop · open watches · compression · dates · keep-alive · clients that go away · many at once."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import threading
import time
from datetime import UTC, datetime

import pytest
import yaml

from fencectl.sandbox import Gate, Sandbox
from tests.sandbox.support import LEASES, MERGE_PATCH, Background, ask, config_map, lease, node, until


def _connect(sandbox: Sandbox) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", sandbox.port, timeout=10)


def _get(sandbox: Sandbox, path: str, **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    connection = _connect(sandbox)
    connection.request("GET", path, headers={key.replace("_", "-"): value for key, value in headers.items()})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_stop_with_open_watches_is_prompt() -> None:
    """Watches end, their connections are cut, their threads are gone, and nothing waits for a client."""
    threads = threading.active_count()
    sandbox = Sandbox().start()
    sandbox.store.create(node("a"))
    connections = [_connect(sandbox) for _ in range(5)]
    for connection in connections:
        connection.request("GET", "/api/v1/nodes?watch=1")
        assert b"ADDED" in connection.getresponse().readline()
    began_s = time.monotonic()
    sandbox.stop()
    assert time.monotonic() - began_s < 2
    until(lambda: threading.active_count() <= threads)
    for connection in connections:
        connection.close()


def test_stop_releases_a_request_that_hangs() -> None:
    """A hanging fault must not outlive the sandbox, nor must its thread."""
    threads = threading.active_count()
    sandbox = Sandbox().start()
    fault = sandbox.faults.hang(resource="nodes")

    def ask_and_fail() -> bool:
        with pytest.raises((OSError, http.client.HTTPException)):
            _get(sandbox, "/api/v1/nodes")
        return True

    client = Background(ask_and_fail)
    assert fault.arrived.wait(10)
    sandbox.stop()
    assert client.result()
    until(lambda: threading.active_count() <= threads)


def test_sandbox_can_be_stopped_twice_and_started_again() -> None:
    """Its objects stay."""
    sandbox, opened = Sandbox(), Gate()
    opened.open()
    with pytest.raises(RuntimeError, match="not started"):
        _ = sandbox.port
    sandbox.start()
    sandbox.store.create(node("a"))
    sandbox.stop()
    sandbox.stop()
    sandbox.faults.delay(gate=opened, verb="list", times=1)
    assert ask(sandbox, "GET", "/api/v1/nodes").status == 200
    with sandbox:
        assert json.loads(_get(sandbox, "/api/v1/nodes/a")[1])["metadata"]["name"] == "a"


def test_large_answer_is_compressed_only_for_who_accepts_it(served: Sandbox) -> None:
    """From 128 KiB on, as the real server does."""
    served.store.create(config_map("small"))
    served.store.create(config_map("large", text="x" * 200_000))
    path = "/api/v1/namespaces/default/configmaps/"
    answer, body = _get(served, path + "large", Accept_Encoding="gzip")
    assert answer.headers["Content-Encoding"] == "gzip"
    assert json.loads(gzip.decompress(body))["data"]["text"] == "x" * 200_000
    assert _get(served, path + "large")[0].headers["Content-Encoding"] is None
    assert _get(served, path + "small", Accept_Encoding="gzip")[0].headers["Content-Encoding"] is None


def test_date_is_that_of_the_sandbox_clock() -> None:
    """Heartbeats are judged by it."""
    with Sandbox(manual_clock_at=datetime(2026, 11, 30, 1, 47, 2, tzinfo=UTC)) as sandbox:
        assert _get(sandbox, "/version")[0].headers["Date"] == "Mon, 30 Nov 2026 01:47:02 GMT"
        sandbox.clock.advance(61)
        assert _get(sandbox, "/version")[0].headers["Date"] == "Mon, 30 Nov 2026 01:48:03 GMT"


def test_connection_is_kept_alive(served: Sandbox) -> None:
    """One connection serves many requests, refusals included."""
    connection = _connect(served)
    for path, status in (("/version", 200), ("/api/v1/nodes/none", 404), ("/nothing", 404), ("/version", 200)):
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status
        assert not answer.will_close
    connection.close()


def test_body_may_come_in_chunks(served: Sandbox) -> None:
    """Clients that stream send no length."""
    connection = _connect(served)
    parts = iter([b'{"metadata":{"name":', b'"n1"}}'])
    headers = {"Transfer-Encoding": "chunked"}
    connection.request("POST", "/api/v1/nodes", body=parts, headers=headers, encode_chunked=True)
    assert connection.getresponse().status == 201
    connection.close()


def test_body_over_the_limit_is_refused_and_the_connection_lives(served: Sandbox) -> None:
    """413, and not a broken pipe."""
    connection = _connect(served)
    connection.request("POST", "/api/v1/nodes", body=b"x" * (4 * 1024 * 1024))
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["reason"]) == (413, "RequestEntityTooLarge")
    connection.request("GET", "/version")
    assert connection.getresponse().status == 200
    connection.close()


def test_watcher_that_goes_away_frees_its_thread(served: Sandbox) -> None:
    """Nobody pays for a client that is gone."""
    before = threading.active_count()
    raw = socket.create_connection(("127.0.0.1", served.port))
    raw.sendall(b"GET /api/v1/nodes?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert raw.recv(1000).startswith(b"HTTP/1.1 200")
    assert threading.active_count() > before
    raw.close()
    served.store.create(node("wakes-the-watch"))
    until(lambda: threading.active_count() <= before)


def test_watch_streams_events_as_they_happen(served: Sandbox) -> None:
    """Chunk by chunk, over one connection."""
    connection = _connect(served)
    connection.request("GET", "/api/v1/nodes?watch=1")
    answer = connection.getresponse()
    for name in ("a", "b"):
        served.store.create(node(name))
        event = json.loads(answer.readline())
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", name)
    served.store.delete("nodes", "a")
    assert json.loads(answer.readline())["type"] == "DELETED"
    connection.close()


def test_kubeconfig_names_server_user_and_context(served: Sandbox) -> None:
    """Any YAML reader understands it."""
    config = yaml.safe_load(served.kubeconfig("viewer", "prod", namespace="apps"))
    assert config["current-context"] == "prod"
    assert config["clusters"][0]["cluster"]["server"] == f"{served.url}/as/viewer"
    assert config["contexts"][0]["context"] == {"cluster": "prod", "user": "viewer", "namespace": "apps"}
    assert yaml.safe_load(served.kubeconfig())["clusters"][0]["cluster"]["server"] == served.url


def test_guarded_takes_at_once_have_one_winner(served: Sandbox) -> None:
    """A guard on what was read is never passed twice."""
    served.store.create(lease("l", holder=""))
    version = served.store.get("leases", "l", namespace="flux-system")["metadata"]["resourceVersion"]
    start = threading.Barrier(8)

    def take(number: int) -> int:
        patch = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "replace", "path": "/spec/holderIdentity", "value": f"run-{number}"},
        ]
        connection = _connect(served)
        start.wait(10)
        headers = {"Content-Type": "application/json-patch+json"}
        connection.request("PATCH", f"{LEASES}/l", body=json.dumps(patch), headers=headers)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status

    runs = [Background(lambda number=number: take(number)) for number in range(8)]  # type: ignore[misc]
    assert sorted(run.result() for run in runs) == [200] + [422] * 7


def test_unguarded_writes_at_once_all_land(served: Sandbox) -> None:
    """A change is computed again when another writer was faster: nothing is lost."""
    served.store.create(config_map("c"))

    def write(number: int) -> int:
        connection = _connect(served)
        body = json.dumps({"data": {f"k{number}": "v"}})
        path = "/api/v1/namespaces/default/configmaps/c"
        connection.request("PATCH", path, body=body, headers={"Content-Type": MERGE_PATCH})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status

    runs = [Background(lambda number=number: write(number)) for number in range(8)]  # type: ignore[misc]
    assert {run.result() for run in runs} == {200}
    assert len(served.store.get("cm", "c", namespace="default")["data"]) == 8


def test_large_uncompressed_body_is_not_delayed(served: Sandbox) -> None:
    """Twenty round trips on one connection: 40 ms each would show that acknowledgements are waited for."""
    served.store.create(config_map("c", text="x" * 5000))
    connection = _connect(served)
    began_s = time.monotonic()
    for _ in range(20):
        connection.request("GET", "/api/v1/namespaces/default/configmaps/c")
        connection.getresponse().read()
    assert time.monotonic() - began_s < 0.6
    connection.close()
