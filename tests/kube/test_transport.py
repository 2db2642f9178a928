"""Reads over loopback: what is sent, what is tried again, and that nothing outlasts its time."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fencectl.cluster.answer import Answer, read_refusal
from fencectl.cluster.failures import AnswerTooLarge, Kind, Unauthorised, Unreachable
from fencectl.cluster.transport import Transport
from fencectl.core.errors import ExitCode
from tests.kube.support_kube import Asked, Desk, FakeClock, LoopbackServer, Peer
from tests.kube.support_loopback import At, connection, dropped, fine, in_turn, silent, status, until

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
            until(lambda: _peer_gone(transport))
    assert [asked.method for asked in at.server.asked] == ["GET", "GET", "PUT"]


def _peer_gone(transport: Transport) -> bool:
    wire = transport._idle[0][0]
    assert wire._timed is not None
    return not wire._timed.is_alive()


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


def test_401_after_which_nothing_can_be_renewed_is_its_own_failure(desk: Desk) -> None:
    """Who was refused, where, and how to check it by hand."""
    at = At(desk, lambda _, peer: peer.say(401, status(401, "Unauthorized", "Unauthorized")))
    with at as transport, pytest.raises(Unauthorised) as caught:
        transport.get("/")
    error = caught.value
    assert error.sentence == f"prod did not accept the credentials of user `prod`: {at.server.url}"
    assert error.hint == "kubectl --context prod auth whoami"
    assert error.exit_code is ExitCode.INCOMPLETE


def test_an_answer_without_a_clock_is_an_answer(desk: Desk) -> None:
    """A missing or broken Date is `None`, never a guess."""

    def handle(asked: Asked, peer: Peer) -> None:
        peer.say(200, b"x", **({"Date": "yesterday"} if asked.target == "/broken" else {"Date": ""}))

    with At(desk, handle) as transport:
        assert transport.get("/broken").date_at is None
        assert transport.get("/empty").date_at is None
