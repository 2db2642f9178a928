"""
Requests over loopback: what is sent, what is tried again and what never is, and that nothing outlasts its time.

- reads: keep-alive, stale connections, 429 and 503 with Retry-After, resets, gzip, limits, deadlines
- writes: once, with the truth about whether they may have been applied
- failures: one sentence each, without secrets
"""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fencectl.cluster.answer import Answer, cut_message, read_refusal
from fencectl.cluster.clock import SystemClock
from fencectl.cluster.credentials import CredentialsMissing
from fencectl.cluster.failures import AnswerTooLarge, Kind, NoAnswer, Unauthorised, Unreachable
from fencectl.cluster.inflate import Inflate, TooMuch
from fencectl.cluster.kubeconfig import Connection
from fencectl.cluster.transport import Transport
from fencectl.cluster.watching import StreamRefused
from fencectl.core.errors import ExitCode, UsageError
from tests.kube.support_kube import SECRET, Asked, Desk, FakeClock, Handler, LoopbackServer, Peer, Raw, config

JSON_PATCH = "application/json-patch+json"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Sit down in an empty home folder."""
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path)


@pytest.fixture
def clock() -> FakeClock:
    """Let waiting take no time."""
    return FakeClock()


def connection(desk: Desk, url: str, **cluster: object) -> Connection:
    """Resolve to a loopback server."""
    desk.write(".kube/config", config(cluster={"server": url, **cluster}))
    return desk.resolve()


class At:
    """A loopback server with one handler, and a transport to it."""

    def __init__(self, desk: Desk, handler: Handler, clock: FakeClock | None = None, **options: float) -> None:
        self.server = LoopbackServer(handler)
        self.clock = clock
        self.transport = Transport(
            connection(desk, self.server.url),
            clock=clock,
            request_timeout_s=options.get("request_timeout_s"),
            largest_answer=int(options.get("largest_answer", 512_000_000)),
        )

    def __enter__(self) -> Transport:
        self.server.__enter__()
        return self.transport

    def __exit__(self, *_: object) -> None:
        self.transport.close()
        self.server.__exit__()


def in_turn(*handlers: Handler) -> Handler:
    """Answer the first request with the first handler, and so on; the last one answers all that follow."""
    lock = threading.Lock()
    left = list(handlers)

    def handle(asked: Asked, peer: Peer) -> None:
        with lock:
            handler = left.pop(0) if len(left) > 1 else left[0]
        handler(asked, peer)

    return handle


def fine(asked: Asked, peer: Peer) -> None:
    peer.say(200, b'{"kind":"Fine"}')


def dropped(asked: Asked, peer: Peer) -> None:
    peer.drop()


def silent(until: threading.Event) -> Handler:
    """Take a request and say nothing."""

    def handle(asked: Asked, peer: Peer) -> None:
        until.wait(20)

    return handle


def status(code: int, reason: str, message: str, **more: object) -> bytes:
    raw: Raw = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message, **more}
    return json.dumps(raw).encode()


def test_a_read_says_who_asks_for_what(desk: Desk) -> None:
    """Path, query, Accept, User-Agent and gzip; credentials stay at home over plain http, as with kubectl."""
    at = At(desk, fine)
    with at as transport:
        answer = transport.get(
            "/api/v1/nodes", query={"limit": 500, "fieldSelector": "spec.unschedulable=true"}, accept="text/x"
        )
    asked = at.server.asked[0]
    assert asked.method == "GET"
    assert asked.target == "/api/v1/nodes?limit=500&fieldSelector=spec.unschedulable%3Dtrue"
    assert (asked.header("accept"), asked.header("accept-encoding")) == ("text/x", "gzip")
    assert str(asked.header("user-agent")).startswith("fencectl/")
    assert asked.header("authorization") is None
    assert asked.header("host") == at.server.url.removeprefix("http://")
    assert (answer.ok, answer.body) == (True, b'{"kind":"Fine"}')
    assert answer.date_at == datetime(2026, 11, 30, 2, 47, 31, tzinfo=UTC)
    assert answer.sent_s <= answer.received_s


def test_a_hostile_path_stays_a_path(desk: Desk) -> None:
    """A name from a cluster cannot begin a query or another request."""
    at = At(desk, fine)
    with at as transport:
        transport.get("/api/v1/nodes/a b?x=1#y\r\nEvil: 1%2f")
    assert at.server.asked[0].target == "/api/v1/nodes/a%20b%3Fx=1%23y%0D%0AEvil:%201%252f"
    assert at.server.asked[0].header("evil") is None


def test_reads_share_one_connection_and_threads_have_their_own(desk: Desk) -> None:
    """Keep-alive for one thread; four at once take four."""
    barrier = threading.Barrier(4, timeout=10)

    def handle(asked: Asked, peer: Peer) -> None:
        if asked.target == "/together":
            barrier.wait()
        fine(asked, peer)

    at = At(desk, handle)
    with at as transport:
        for _ in range(3):
            transport.get("/alone")
        assert at.server.connections == 1
        answers: list[Answer] = []
        threads = [threading.Thread(target=lambda: answers.append(transport.get("/together"))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert [answer.status for answer in answers] == [200] * 4
        assert at.server.connections == 4


def test_an_answer_that_ends_its_connection_is_read_to_its_end(desk: Desk) -> None:
    """`Connection: close` closes after the body, not before it, and the next read dials again."""
    at = At(desk, in_turn(lambda _, peer: peer.say(200, b"x" * 300_000, Connection="close"), fine))
    with at as transport:
        assert len(transport.get("/").body) == 300_000
        assert transport.get("/").ok
    assert at.server.connections == 2


def test_a_connection_that_was_closed_while_idle_is_replaced(desk: Desk) -> None:
    """A server that hung up between two reads costs nothing and is no failure; a write is sent on a fresh one."""
    hung_up = threading.Event()

    def answer_and_leave(asked: Asked, peer: Peer) -> None:
        fine(asked, peer)
        peer.drop()
        hung_up.set()

    at = At(desk, answer_and_leave)
    with at as transport:
        for number in range(1, 4):
            hung_up.clear()
            if number == 3:
                assert transport.send("PUT", "/", body=b"{}", content_type="application/json").ok
            else:
                assert transport.get("/").ok
            assert hung_up.wait(10)
            _until(lambda: _peer_gone(transport))
    assert [asked.method for asked in at.server.asked] == ["GET", "GET", "PUT"]


def _peer_gone(transport: Transport) -> bool:
    wire = transport._idle[0][0]
    assert wire._timed is not None
    return not wire._timed.is_alive()


def _until(condition: object, timeout_s: float = 10.0) -> None:
    assert callable(condition)
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s
        threading.Event().wait(0.005)


def test_a_read_whose_connection_breaks_is_tried_again(desk: Desk, clock: FakeClock) -> None:
    """Twice cut off, in the head and in the body, then answered."""

    def half(asked: Asked, peer: Peer) -> None:
        peer.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
        peer.drop()

    at = At(desk, in_turn(dropped, half, fine), clock)
    with at as transport:
        assert transport.get("/").body == b'{"kind":"Fine"}'
    assert len(at.server.asked) == 3
    assert clock.waits == [0.5, 1.5]


def test_a_server_that_never_answers_is_given_up_after_three_tries(desk: Desk, clock: FakeClock) -> None:
    """The sentence of the contract, with the numbers as they were."""
    at = At(desk, dropped, clock)
    with at as transport, pytest.raises(Unreachable) as caught:
        transport.get("/api")
    error = caught.value
    assert len(at.server.asked) == 3
    assert (error.kind, error.tries) == (Kind.RESET, 3)
    assert error.sentence == f"prod did not answer: {at.server.url}"
    assert error.reason == 'connection closed, 3 tries in 2s. This is not "no fence"'
    assert error.hint == "kubectl --context prod get --raw /readyz"
    assert error.exit_code is ExitCode.INCOMPLETE


def test_nobody_listening_is_refused(desk: Desk, clock: FakeClock) -> None:
    """A closed port, said within the time there is."""
    transport = Transport(connection(desk, "http://127.0.0.1:1"), clock=clock)
    with pytest.raises(Unreachable) as caught:
        transport.get("/")
    assert caught.value.reason == 'connection refused, 3 tries in 2s. This is not "no fence"'


def test_a_name_server_that_says_nothing_is_left_in_time(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """getaddrinfo knows no time-out of its own."""
    hold = threading.Event()
    real = socket.getaddrinfo

    def slow(host: str, *arguments: object, **options: object) -> object:
        if not options.get("flags"):
            hold.wait(20)
        return real(host, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    transport = Transport(connection(desk, "http://api.invalid"))
    with pytest.raises(Unreachable) as caught:
        transport.get("/", deadline_s=0.2)
    hold.set()
    assert (caught.value.kind, caught.value.detail) == (Kind.TIMEOUT, "looking up api.invalid")


def test_the_systems_clock_counts_on_and_waits() -> None:
    """Aware and in UTC; a wait ends with its time, or with its event."""
    clock = SystemClock()
    before_s = clock.monotonic_s()
    assert clock.wall().tzinfo is UTC
    assert clock.wait(None, 0.001) is False
    event = threading.Event()
    assert clock.wait(event, -1) is False
    event.set()
    assert clock.wait(event, 20) is True
    assert before_s < clock.monotonic_s() < before_s + 10


def test_a_name_that_does_not_exist_is_not_asked_for_again(desk: Desk, clock: FakeClock) -> None:
    """`.invalid` never resolves (RFC 6761)."""
    transport = Transport(connection(desk, "http://api.invalid"), clock=clock)
    with pytest.raises(Unreachable) as caught:
        transport.get("/")
    assert caught.value.kind is Kind.DNS
    assert "api.invalid" in str(caught.value.reason)


def test_throttling_is_waited_out_as_long_as_the_server_asks(desk: Desk, clock: FakeClock) -> None:
    """429 is plain text with Retry-After; 503 without one gets a second."""
    busy = b"Too many requests, please try again later."
    at = At(
        desk,
        in_turn(lambda _, peer: peer.say(429, busy, Retry_After="7"), lambda _, peer: peer.say(503), fine),
        clock,
    )
    with at as transport:
        assert transport.get("/").ok
    assert clock.waits == [7.0, 1.0]


def test_throttling_beyond_the_deadline_is_the_answer(desk: Desk, clock: FakeClock) -> None:
    """The server asks for more time than there is: what it said is returned, and read."""
    busy = b"Too many requests, please try again later."
    at = At(desk, lambda _, peer: peer.say(429, busy, Retry_After="32"), clock)
    with at as transport:
        answer = transport.get("/", deadline_s=20.0)
    assert (answer.status, clock.waits) == (429, [])
    refusal = read_refusal(answer)
    assert (refusal.code, refusal.reason, refusal.retry_after_s) == (429, "", 32.0)
    assert refusal.message == "Too many requests, please try again later."


def test_throttling_that_does_not_end_is_bounded(desk: Desk, clock: FakeClock) -> None:
    """A server that says `Retry-After: 0` for ever does not hold a read for ever."""
    at = At(desk, lambda _, peer: peer.say(503, Retry_After="0"), clock)
    with at as transport:
        assert transport.get("/").status == 503
    assert len(at.server.asked) == 8


def test_an_error_without_retry_after_is_the_answer(desk: Desk, clock: FakeClock) -> None:
    """500 is not tried again; 502 with Retry-After is."""
    at = At(
        desk, in_turn(lambda _, peer: peer.say(500), lambda _, peer: peer.say(502, Retry_After="1"), fine), clock
    )
    with at as transport:
        assert transport.get("/").status == 500
        assert transport.get("/").status == 200


@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(desk: Desk, code: int) -> None:
    """Credentials go to the configured server only."""
    with LoopbackServer(fine) as elsewhere:
        at = At(desk, lambda _, peer: peer.say(code, Location=elsewhere.url))
        with at as transport:
            assert transport.get("/").status == code
            assert transport.send("PUT", "/", body=b"{}", content_type=JSON_PATCH).status == code
        assert elsewhere.asked == []


def test_case_67_a_server_that_accepts_and_says_nothing_is_left_in_time(desk: Desk) -> None:
    """The deadline is that of the request, whatever the read."""
    hold = threading.Event()
    at = At(desk, silent(hold))
    with at as transport:
        started_s = time.monotonic()
        with pytest.raises(Unreachable) as caught:
            transport.get("/", deadline_s=0.3)
        hold.set()
    assert 0.25 < time.monotonic() - started_s < 5
    assert caught.value.kind is Kind.TIMEOUT
    assert caught.value.tries == 1


def test_case_67_a_server_that_drips_is_left_in_time(desk: Desk) -> None:
    """A byte now and then restarts a socket's time-out, but not the request's."""
    stop = threading.Event()

    def drip(asked: Asked, peer: Peer) -> None:
        for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1000:
            if stop.wait(0.02):
                return
            peer.sock.sendall(bytes([byte]))

    at = At(desk, drip)
    with at as transport:
        started_s = time.monotonic()
        with pytest.raises(Unreachable):
            transport.get("/", deadline_s=0.4)
        stop.set()
    assert time.monotonic() - started_s < 5


def test_a_transport_has_a_default_deadline(desk: Desk) -> None:
    """`--request-timeout` bounds a read that names no time of its own."""
    hold = threading.Event()
    at = At(desk, silent(hold), request_timeout_s=0.2)
    with at as transport:
        with pytest.raises(Unreachable):
            transport.get("/")
        hold.set()


def test_gzip_is_undone(desk: Desk) -> None:
    """One member or several, in chunks or whole."""
    text = json.dumps({"items": list(range(50_000))}).encode()
    packed = gzip.compress(text[:1000]) + gzip.compress(text[1000:])

    def chunked(asked: Asked, peer: Peer) -> None:
        peer.begin_chunks(Content_Encoding="gzip")
        for start in range(0, len(packed), 1000):
            peer.chunk(packed[start : start + 1000])
        peer.chunk(b"")

    at = At(desk, in_turn(lambda _, peer: peer.say(200, packed, Content_Encoding="gzip"), chunked))
    with at as transport:
        for _ in range(2):
            answer = transport.get("/")
            assert answer.body == text
            assert answer.wire_bytes == len(packed)
    assert at.server.connections == 1


def test_gzip_is_not_asked_for_where_the_cluster_says_so(desk: Desk) -> None:
    """`disable-compression: true` saves the server's CPU."""
    with LoopbackServer(fine) as server:
        found = connection(desk, server.url, **{"disable-compression": True})
        transport = found.open()
        assert transport.get("/").ok
        transport.close()
    assert server.asked[0].header("accept-encoding") is None


def test_a_body_that_is_cut_off_is_never_an_answer(desk: Desk, clock: FakeClock) -> None:
    """By length, in a chunk, between chunks, or inside of gzip: half a list would hide fences."""
    whole = b'{"items":[]}'

    def short(asked: Asked, peer: Peer) -> None:
        peer.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n" + whole[:5])
        peer.drop()

    def short_chunk(asked: Asked, peer: Peer) -> None:
        peer.begin_chunks()
        peer.sock.sendall(b"c\r\n" + whole[:5])
        peer.drop()

    def no_last_chunk(asked: Asked, peer: Peer) -> None:
        peer.begin_chunks()
        peer.chunk(whole)
        peer.drop()

    def short_gzip(asked: Asked, peer: Peer) -> None:
        peer.say(200, gzip.compress(whole)[:-9], Content_Encoding="gzip")

    for handler in (short, short_chunk, no_last_chunk, short_gzip):
        with At(desk, handler, clock) as transport, pytest.raises(Unreachable) as caught:
            transport.get("/")
        assert caught.value.kind is Kind.RESET


def test_broken_gzip_is_a_broken_answer(desk: Desk, clock: FakeClock) -> None:
    """Not an exception of zlib."""
    at = At(desk, lambda _, peer: peer.say(200, b"not gzip", Content_Encoding="gzip"), clock)
    with at as transport, pytest.raises(Unreachable) as caught:
        transport.get("/")
    assert "a broken gzip stream" in str(caught.value.reason)


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_without_end_is_cut_off(desk: Desk, packed: bool) -> None:
    """Also where a few kilobytes of gzip stand for gigabytes: the limit counts what they stand for."""
    body = gzip.compress(bytes(5_000_000)) if packed else bytes(2_000_000)
    encoding = {"Content_Encoding": "gzip"} if packed else {}
    at = At(desk, in_turn(lambda _, peer: peer.say(200, body, **encoding), fine), largest_answer=1_000_000)
    with at as transport:
        with pytest.raises(AnswerTooLarge) as caught:
            transport.get("/api/v1/nodes")
        assert caught.value.sentence == "prod answered /api/v1/nodes with more than 1 MB"
        assert transport.get("/").ok


def test_a_gzip_bomb_takes_no_memory() -> None:
    """Fifty megabytes in fifty kilobytes: given up before they are unpacked."""
    bomb = gzip.compress(bytes(50_000_000))
    tracemalloc.start()
    with pytest.raises(TooMuch):
        Inflate(encoding="gzip", limit=100_000).feed(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000


def test_401_after_which_nothing_can_be_renewed_is_its_own_failure(desk: Desk) -> None:
    """Who was refused, where, and how to check it by hand."""
    at = At(desk, lambda _, peer: peer.say(401, status(401, "Unauthorized", "Unauthorized")))
    with at as transport, pytest.raises(Unauthorised) as caught:
        transport.get("/")
    error = caught.value
    assert error.sentence == f"prod did not accept the credentials of user `prod`: {at.server.url}"
    assert error.hint == "kubectl --context prod auth whoami"
    assert error.exit_code is ExitCode.INCOMPLETE


def test_a_write_is_sent_once_with_its_body_byte_for_byte(desk: Desk) -> None:
    """Method, content type, query and the very bytes."""
    body = '[{"op":"test","value":"<é&>"}]'.encode()
    at = At(desk, lambda _, peer: peer.say(200, b"{}"))
    with at as transport:
        answer = transport.send(
            "PATCH", "/api/v1/nodes/a", query={"fieldManager": "fencectl"}, body=body, content_type=JSON_PATCH
        )
    asked = at.server.asked[0]
    assert answer.ok
    assert (asked.method, asked.target, asked.body) == ("PATCH", "/api/v1/nodes/a?fieldManager=fencectl", body)
    assert asked.header("content-type") == JSON_PATCH


def test_a_write_that_was_not_answered_may_have_been_applied(desk: Desk, clock: FakeClock) -> None:
    """The connection broke after the request: sent once, never again, and said so."""
    at = At(desk, dropped, clock)
    with at as transport, pytest.raises(NoAnswer) as caught:
        transport.send("PATCH", "/", body=b"[]", content_type=JSON_PATCH)
    assert caught.value.sent is True
    assert isinstance(caught.value.cause, Unreachable)
    assert (len(at.server.asked), clock.waits) == (1, [])


def test_a_write_that_found_nobody_was_certainly_not_sent(desk: Desk, clock: FakeClock) -> None:
    """Refused before a byte left."""
    transport = Transport(connection(desk, "http://127.0.0.1:1"), clock=clock)
    with pytest.raises(NoAnswer) as caught:
        transport.send("PATCH", "/", body=b"[]", content_type=JSON_PATCH)
    assert caught.value.sent is False
    assert clock.waits == []


def test_a_write_whose_answer_is_too_long_may_have_been_applied(desk: Desk) -> None:
    """The server did something; what it said of it was not read."""
    at = At(desk, lambda _, peer: peer.say(200, bytes(2_000)), largest_answer=1_000)
    with at as transport, pytest.raises(NoAnswer) as caught:
        transport.send("PATCH", "/", body=b"[]", content_type=JSON_PATCH)
    assert caught.value.sent is True
    assert isinstance(caught.value.cause, AnswerTooLarge)


@pytest.mark.parametrize("certificate", [True, False])
def test_a_write_without_usable_credentials_was_certainly_not_sent(
    desk: Desk, clock: FakeClock, certificate: bool
) -> None:
    """No plugin, or a certificate that is none: nothing was dialled."""
    plugin: Raw = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./gone",
        "interactiveMode": "Never",
    }
    user: Raw = {"client-certificate-data": "YQ==", "client-key-data": "YQ=="} if certificate else {"exec": plugin}
    desk.write(".kube/config", config(user=user))
    transport = desk.resolve().open(clock=clock)
    with pytest.raises(NoAnswer) as caught:
        transport.send("PATCH", "/", body=b"[]", content_type=JSON_PATCH)
    assert caught.value.sent is False
    assert isinstance(caught.value.cause, UsageError if certificate else CredentialsMissing)


def test_a_write_that_is_throttled_is_not_repeated(desk: Desk, clock: FakeClock) -> None:
    """429 is for whoever writes to decide."""
    at = At(desk, lambda _, peer: peer.say(429, b"later", Retry_After="1"), clock)
    with at as transport:
        assert transport.send("PATCH", "/", body=b"[]", content_type=JSON_PATCH).status == 429
    assert len(at.server.asked) == 1


def test_case_67_a_write_without_an_answer_ends_in_time(desk: Desk) -> None:
    """A server that took the write and is silent."""
    hold = threading.Event()
    at = At(desk, silent(hold))
    with at as transport:
        with pytest.raises(NoAnswer) as caught:
            transport.send("PATCH", "/", body=b"[]", content_type=JSON_PATCH, deadline_s=0.2)
        hold.set()
    assert caught.value.sent is True


def watch_of(*parts: bytes, gzipped: bool = False) -> Handler:
    """Answer with chunks, each its own gzip member where asked, then end."""

    def handle(asked: Asked, peer: Peer) -> None:
        peer.begin_chunks(**({"Content_Encoding": "gzip"} if gzipped else {}))
        for part in parts:
            peer.chunk(gzip.compress(part) if gzipped else part)
        peer.chunk(b"")

    return handle


@pytest.mark.parametrize("gzipped", [False, True])
def test_a_watch_yields_lines_however_they_were_cut(desk: Desk, gzipped: bool) -> None:
    """Several lines in a chunk, one line in several, many gzip members, a last line without a break."""
    at = At(desk, watch_of(b"one\ntwo\nth", b"ree\n", b"\n", b"four", gzipped=gzipped))
    with at as transport, transport.stream("/watch", query={"watch": "1"}) as lines:
        assert list(lines) == [b"one", b"two", b"three", b"four"]
    assert at.server.asked[0].target == "/watch?watch=1"


def test_a_line_of_a_watch_arrives_before_the_watch_ends(desk: Desk) -> None:
    """An event is handed out at once, also gzipped."""
    seen = threading.Event()

    def handle(asked: Asked, peer: Peer) -> None:
        peer.begin_chunks(Content_Encoding="gzip")
        peer.chunk(gzip.compress(b"first\n"))
        assert seen.wait(10)
        peer.chunk(gzip.compress(b"second\n"))
        peer.chunk(b"")

    at = At(desk, handle)
    with at as transport, transport.stream("/watch") as lines:
        assert next(lines) == b"first"
        seen.set()
        assert list(lines) == [b"second"]


def test_case_67_a_watch_that_falls_silent_is_left_in_time(desk: Desk) -> None:
    """One event, then nothing: the server's own timeoutSeconds does not help against a dead connection."""
    hold = threading.Event()

    def handle(asked: Asked, peer: Peer) -> None:
        peer.begin_chunks()
        peer.chunk(b"one\n")
        hold.wait(20)

    at = At(desk, handle)
    with at as transport:
        with transport.stream("/watch", idle_s=0.2) as lines:
            assert next(lines) == b"one"
            with pytest.raises(Unreachable) as caught:
                next(lines)
        hold.set()
    assert caught.value.kind is Kind.TIMEOUT


def test_a_watch_that_breaks_is_told_from_one_that_ends(desk: Desk) -> None:
    """A cut connection is no end."""

    def handle(asked: Asked, peer: Peer) -> None:
        peer.begin_chunks()
        peer.chunk(b"one\n")
        peer.drop()

    at = At(desk, handle)
    with at as transport, transport.stream("/watch") as lines:
        assert next(lines) == b"one"
        with pytest.raises(Unreachable):
            next(lines)


def test_a_watch_is_ended_from_another_thread(desk: Desk) -> None:
    """Whoever waits for a line sees the end when somebody closes the watch."""
    hold = threading.Event()

    def handle(asked: Asked, peer: Peer) -> None:
        peer.begin_chunks()
        peer.chunk(b"one\n")
        hold.wait(20)

    at = At(desk, handle)
    with at as transport:
        lines = transport.stream("/watch", idle_s=30.0)
        assert next(lines) == b"one"
        rest: list[list[bytes]] = []
        waiting = threading.Thread(target=lambda: rest.append(list(lines)))
        waiting.start()
        lines.close()
        waiting.join(10)
        hold.set()
        assert rest == [[]]


def test_a_watch_that_is_refused_carries_the_answer(desk: Desk) -> None:
    """410 tells the caller to list again."""
    gone = status(410, "Expired", "too old resource version: 1 (2)")
    at = At(desk, in_turn(lambda _, peer: peer.say(410, gone), fine))
    with at as transport:
        with pytest.raises(StreamRefused) as caught:
            transport.stream("/watch")
        assert read_refusal(caught.value.answer).reason == "Expired"
        assert transport.get("/").ok
    assert at.server.connections == 1


def test_a_line_without_end_is_cut_off(desk: Desk) -> None:
    """Seventeen megabytes without a line break are no event."""
    bomb = gzip.compress(b"x" * 17_000_000)

    def handle(asked: Asked, peer: Peer) -> None:
        peer.begin_chunks(Content_Encoding="gzip")
        peer.chunk(bomb)
        peer.chunk(b"")

    at = At(desk, handle)
    with at as transport, transport.stream("/watch") as lines, pytest.raises(Unreachable) as caught:
        next(lines)
    assert "a line without an end" in str(caught.value.reason)


def answer_of(code: int, body: bytes, **headers: str) -> Answer:
    return Answer(code, headers, body, None, 0.0, 0.0)


def test_a_status_is_read_with_details_and_causes() -> None:
    """What the API says, by field."""
    body = status(
        409,
        "Conflict",
        "Apply failed with 1 conflict",
        details={
            "name": "a",
            "group": "apps",
            "kind": "deployments",
            "causes": [
                {"reason": "FieldManagerConflict", "message": "conflict with kubectl", "field": ".spec"},
                7,
            ],
        },
        metadata={"continue": "token"},
    )
    refusal = read_refusal(answer_of(409, body, **{"retry-after": "3"}))
    assert (refusal.reason, refusal.name, refusal.group, refusal.kind) == ("Conflict", "a", "apps", "deployments")
    assert [(cause.field, cause.reason) for cause in refusal.causes] == [(".spec", "FieldManagerConflict")]
    assert (refusal.retry_after_s, refusal.continue_token) == (3.0, "token")


@pytest.mark.parametrize(
    "message",
    [
        f'Secret in version "v1" cannot be handled as a Secret: "{{\\"data\\":{{\\"x\\":\\"{SECRET}\\"}}}}": bad',
        f' "" is invalid: patch: Invalid value: "{{\\"data\\":\\"{SECRET}\\",\\"n\\":\\"a: b\\"}}": strict decoding error',
        f'x is invalid: patch: Invalid value: "{SECRET}\\": still": unknown field "spec.x"',
        f'x is invalid: patch: Invalid value: "{{\\"data\\":\\"{SECRET}\\"}}"',
        f'x is invalid: [patch: Invalid value: "{SECRET}": one, b: Invalid value: "{SECRET}": two]',
        f'is invalid: patch: Invalid value: {{"data":"{SECRET}"}}',
        "x" * 1000 + SECRET,
        f'x is invalid: patch: Invalid value: "[\\"note\\": {SECRET}',
    ],
)
def test_a_message_that_quotes_an_object_is_cut(message: str) -> None:
    """The server quotes the whole patched object, for a Secret with its data."""
    assert SECRET not in cut_message(message)
    body = status(422, "Invalid", message, details={"causes": [{"message": message, "field": "patch"}]})
    refusal = read_refusal(answer_of(422, body))
    assert SECRET not in repr(refusal)


def test_a_message_that_quotes_nothing_is_kept() -> None:
    """`Forbidden` says verb and resource; `": ` in a short text is no object."""
    message = 'nodes is forbidden: User "ci": cannot list resource "nodes" in API group "" at the cluster scope'
    assert cut_message(message) == message


@pytest.mark.parametrize("body", [b"", b"<html><h1>502</h1></html>", b"{broken", b"[1]", b'{"kind":"List"}'])
def test_an_answer_that_is_no_status_is_named_by_its_code(body: bytes) -> None:
    """A proxy's page, or nothing: no word of it is shown."""
    refusal = read_refusal(answer_of(502, body))
    assert (refusal.reason, refusal.message) == ("", "HTTP 502" if body != b"[1]" else "[1]")


@pytest.mark.parametrize("raw", ["soon", "-1", "1e3", "99999999", "Mon, 30 Nov 2026 02:47:31 GMT", "٣"])
def test_a_retry_after_that_is_no_number_is_passed_over(raw: str) -> None:
    """Only whole seconds of a sane size."""
    assert read_refusal(answer_of(429, b"x", **{"retry-after": raw})).retry_after_s is None


def test_an_answer_without_a_clock_is_an_answer(desk: Desk) -> None:
    """A missing or broken Date is `None`, never a guess."""

    def handle(asked: Asked, peer: Peer) -> None:
        peer.say(200, b"x", **({"Date": "yesterday"} if asked.target == "/broken" else {"Date": ""}))

    with At(desk, handle) as transport:
        assert transport.get("/broken").date_at is None
        assert transport.get("/empty").date_at is None


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    """Every test ends what it began."""
    yield
    _until(lambda: not [thread for thread in threading.enumerate() if thread.name == "fencectl-dns"])
