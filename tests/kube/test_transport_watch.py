"""Watches over loopback: lines however they were cut, ends told from breaks, and no silence for ever."""

from __future__ import annotations

import gzip
import threading
from pathlib import Path

import pytest

from fencectl.cluster.answer import read_refusal
from fencectl.cluster.failures import Kind, Unreachable
from fencectl.cluster.watching import StreamRefused
from tests.kube.support_kube import Asked, Desk, Handler, Peer
from tests.kube.support_loopback import At, fine, in_turn, status

JSON_PATCH = "application/json-patch+json"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Sit down in an empty home folder."""
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path)


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
