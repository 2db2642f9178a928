"""
A server between a program and its API server, through which a test strikes single writes of that program.

It stands in front of either cluster, counts what changes something (reviews and dry runs do not), and asks the test
before each such write is passed on and after it was carried out. The program talks to it as to any API server.
"""

from __future__ import annotations

import base64
import json
import select
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from tests.support.clusters import Cluster
from tests.support.realcluster import kubeconfig_text

# Reviews are sent as a POST and change nothing.
REVIEWS = ("subjectaccessreviews", "subjectrulesreviews", "subjectreviews")
# What a connection says about itself, and not about the request.
HOP_BY_HOP = {"host", "connection", "content-length", "transfer-encoding", "keep-alive", "authorization"}
SILENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Write:
    """A request that changes something: the `number`th of the program, counted from 1."""

    number: int
    method: str
    path: str
    body: bytes

    @property
    def resource(self) -> str:
        """Which kind of object: `leases`, `nodes`, …"""
        parts = self.path.split("/")
        at = parts.index("namespaces") + 2 if "namespaces" in parts else 3 if parts[1] == "api" else 4
        return parts[at]

    @property
    def ops(self) -> list[dict[str, Any]]:
        """The operations of a JSON patch; none of anything else."""
        try:
            found = json.loads(self.body or b"null")
        except ValueError:
            return []
        return found if isinstance(found, list) else []

    def is_heartbeat(self) -> bool:
        """Whether it renews the lease: that comes when its time has come, and not in the order of the writes."""
        written = [op["path"] for op in self.ops if op["op"] != "test"]
        return self.resource == "leases" and written == ["/spec/renewTime"]


class Drop(Exception):  # noqa: N818  what a hook asks for; nothing went wrong
    """Close the connection without an answer."""


class Hang(Exception):  # noqa: N818
    """Never answer: keep the connection until the program gives it up."""


@dataclass(frozen=True, slots=True)
class Refuse(Exception):  # noqa: N818
    """Answer with this status, as the API server does."""

    status: int

    @property
    def body(self) -> bytes:
        """A `Status` of the API."""
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": self.status}
        return json.dumps(status | {"message": "struck", "reason": ""}).encode()


def nothing(_: Write) -> None:
    """Let a write pass."""


@dataclass
class Between:
    """
    In front of `cluster`, as its administrator; use it as a context manager.

    `before` is called with each write that is to be passed on, `after` with each that was carried out, before its
    answer is; they may raise Drop, Hang or Refuse. Heartbeats are passed on uncounted. `away`: nobody answers.
    """

    cluster: Cluster
    before: Callable[[Write], None] = nothing
    after: Callable[[Write], None] = nothing
    away: bool = False
    tokens: set[str] | None = None
    """Whom to let in, if not everybody."""
    certificate: Path | None = None
    """With its key; without one, there is no TLS, and programs send no credentials then."""
    writes: list[Write] = field(default_factory=list)
    heartbeats: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.between = self
        if self.certificate is not None:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(self.certificate, self.certificate.with_suffix(".key"))
            # NB: the handshake is left to the thread of the connection.
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.url = f"http{'s' * (self.certificate is not None)}://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def kubeconfig(self, folder: Path, *, context: str = "prod", entry: Mapping[str, Any] | None = None) -> Path:
        """Write a kubeconfig that leads here; `entry`: what its user logs in with, which nobody here reads."""
        path = folder / f"between-{context}.kubeconfig"
        path.touch(mode=0o600)
        ca = base64.b64encode(self.certificate.read_bytes()).decode() if self.certificate is not None else None
        text = kubeconfig_text(
            server=self.url, context=context, user="somebody", entry=dict(entry or {}), ca_data=ca
        )
        path.write_text(text)
        return path

    def let_in(self, authorization: str) -> None:
        """Raise for whoever has no token that counts."""
        if self.tokens is not None and authorization.removeprefix("Bearer ") not in self.tokens:
            raise Refuse(401)

    def allow(self, write: Write | None, ask: Callable[[Write], None]) -> None:
        """Raise where a request, or its answer, is not to be passed on."""
        if write is not None:
            ask(write)
        if self.away:
            raise Drop

    def count(self, method: str, path: str, body: bytes) -> Write | None:
        """Number a request that changes something; None for any other, heartbeats and Events included."""
        place = urlsplit(path)
        review = place.path.rpartition("/")[2].endswith(REVIEWS)
        if method in ("GET", "HEAD") or review or "dryRun=" in place.query:
            return None
        with self._lock:
            write = Write(len(self.writes) + 1, method, place.path, body)
            if write.is_heartbeat():
                self.heartbeats += 1
                return None
            if write.resource == "events":
                return None  # NB: told beside the work, in no order, and never waited for.
            self.writes.append(write)
            return write


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    between: Between

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: programs that are killed leave connections behind."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = SILENCE_S

    def handle_one_request(self) -> None:
        """Take one request; whoever has left is no failure."""
        with suppress(ConnectionError, TimeoutError):
            super().handle_one_request()
            return
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""

    def do_GET(self) -> None:
        self._pass_on()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_GET  # noqa: N815

    def _pass_on(self) -> None:
        server = self.server
        assert isinstance(server, _Server)
        between = server.between
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            between.let_in(self.headers.get("Authorization") or "")
            write = between.count(self.command, self.path, body)
            between.allow(write, between.before)
            headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
            path, _, query = self.path.partition("?")
            if "watch=1" in query.split("&"):
                self._stream(between.cluster, path, query, headers)
                return
            found = between.cluster.request(
                self.command, path, query=query, body=body or None, headers=headers, accept=None
            )
            between.allow(write, between.after)
            kept = {k: v for k, v in found.headers.items() if k.lower() not in HOP_BY_HOP}
            self._answer(found.status, kept, found.body)
        except Drop:
            self._close()
        except Hang:
            # NB: readable is what a connection is that the other side has closed; nothing else is sent on it.
            select.select([self.connection], [], [], SILENCE_S)
            self._close()
        except Refuse as refused:
            self._answer(refused.status, {"Content-Type": "application/json"}, refused.body)

    def _stream(self, cluster: Cluster, path: str, query: str, headers: Mapping[str, str]) -> None:
        """Pass a watch on event by event."""
        asked = dict(parse_qsl(query))
        with cluster.watch(path, headers=headers, timeout_s=SILENCE_S, **asked) as watch:
            self.send_response_only(watch.status)
            self.send_header("Content-Type", watch.response.headers.get("Content-Type", ""))
            self.send_header("Connection", "close")
            self.end_headers()
            while line := watch.response.readline():
                self.wfile.write(line)
                self.wfile.flush()
        self.close_connection = True

    def _answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _close(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
