"""A transport to a loopback server that answers as a test says, and the usual ways to answer."""

from __future__ import annotations

import json
import threading
import time

from fencectl.cluster.kubeconfig import Connection
from fencectl.cluster.transport import Transport
from tests.kube.support_kube import Asked, Desk, FakeClock, Handler, LoopbackServer, Peer, Raw, config


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


def until(condition: object, timeout_s: float = 10.0) -> None:
    assert callable(condition)
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s
        threading.Event().wait(0.005)
