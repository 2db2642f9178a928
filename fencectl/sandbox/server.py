"""
The sandbox: everything put together, and the HTTP shell around it.

The shell only moves bytes. What a request means is decided in `handle`, which needs neither sockets nor
threads.
"""

from __future__ import annotations

import gzip
import json
import random
import socket
import threading
import uuid
import zlib
from collections.abc import Iterable
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from fencectl.sandbox import crds
from fencectl.sandbox.api import Api
from fencectl.sandbox.clock import SandboxClock, http_date
from fencectl.sandbox.faults import Faults
from fencectl.sandbox.flux import Flux
from fencectl.sandbox.gojson import escape
from fencectl.sandbox.handle import MAX_BODY, Handler
from fencectl.sandbox.requestlog import RequestLog
from fencectl.sandbox.requests import Request, Response, split_user
from fencectl.sandbox.resources import ResourceTable, built_in_resources, flux_resources
from fencectl.sandbox.storage import Storage
from fencectl.sandbox.store import Store
from fencectl.sandbox.users import ADMIN, Users
from fencectl.sandbox.watch import WatchStream

GZIP_FROM = 128 * 1024
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class Sandbox:
    """
    An API server in this process.

    `with Sandbox() as sandbox:` serves it on a loopback port. Without `start()` it can be driven through
    `handle` and `store` alone.
    """

    def __init__(
        self,
        *,
        flux: bool = True,
        manual_clock_at: datetime | None = None,
        aggregated_discovery: bool = True,
        namespaces: Iterable[str] = ("flux-system",),
        seed: int | None = None,
        kubelet: bool = False,
    ) -> None:
        self.clock = SandboxClock(start_at=manual_clock_at)
        self.requests = RequestLog()
        self.users = Users()
        self.resources = ResourceTable()
        self.resources.add(built_in_resources())
        self.storage = Storage()
        # NB: not for secrets; a seed makes uids and names the same in every run.
        self.api = Api(self.storage, self.resources, self.clock, random=random.Random(seed))  # noqa: S311
        self.api.has_kubelet = kubelet
        crds.follow(self.storage, self.resources, self.api)
        self.faults = Faults(self.storage, self.clock)
        self._handler = Handler(self.api, self.users, self.faults, self.requests)
        self._handler.aggregated_discovery = aggregated_discovery
        self.store = Store(self.api)
        self.flux = Flux(self.api)
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        for name in (*NAMESPACES, *namespaces):
            self.store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        if flux:
            self.install_flux()

    def install_flux(self) -> None:
        """Serve the kinds of Flux."""
        self.resources.add(flux_resources())

    def remove_flux(self) -> None:
        """Stop serving the kinds of Flux; their objects are gone."""
        gone = flux_resources()
        self.resources.remove(gone)
        for resource in gone:
            self.storage.drop(resource.key)

    @property
    def aggregated_discovery(self) -> bool:
        return self._handler.aggregated_discovery

    @aggregated_discovery.setter
    def aggregated_discovery(self, served: bool) -> None:
        self._handler.aggregated_discovery = served

    def handle(self, request: Request) -> Response:
        """Answer a request without a socket."""
        return self._handler.handle(request)

    # -- serving

    @property
    def port(self) -> int:
        if self._server is None:
            raise RuntimeError("the sandbox is not started")
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, *, port: int = 0) -> Self:
        """Serve on a loopback port (0: a free one)."""
        server = _Server(("127.0.0.1", port), _Connection)
        server.sandbox = self
        server.stop = self.faults.stop
        self._server = server
        self._thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="sandbox", daemon=True
        )
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop serving; open watches and held requests end at once."""
        server, self._server = self._server, None
        if server is None:
            return
        server.stop.set()
        # NB: a new event, or what still waits on the old one would never learn that it was set.
        self.faults.stop = threading.Event()
        self.storage.wake()
        server.shutdown()
        server.close_connections()
        server.server_close()
        if self._thread is not None:
            self._thread.join(5)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def kubeconfig(self, user: str = ADMIN, context: str = "sandbox", *, namespace: str = "") -> str:
        """Return a kubeconfig for one user, as YAML text."""
        server = self.url if user == ADMIN else f"{self.url}/as/{user}"
        space = f"\n    namespace: {namespace}" if namespace else ""
        return (
            "apiVersion: v1\nkind: Config\n"
            f"current-context: {context}\n"
            f"clusters:\n- name: {context}\n  cluster:\n    server: {server}\n"
            f"users:\n- name: {user}\n  user: {{}}\n"
            f"contexts:\n- name: {context}\n  context:\n    cluster: {context}\n    user: {user}{space}\n"
        )


def _wants_indented(request: Request) -> bool:
    """Say whether a person is likely to look at the answer."""
    pretty = request.query.get("pretty")
    if pretty is not None:
        return pretty in ("true", "1")
    return request.headers.get("user-agent", "").startswith(("curl", "Wget", "Mozilla/5.0"))


def _indented(response: Response) -> bytes:
    if response.headers.get("Content-Type") != "application/json" or response.stream is not None:
        return response.body
    text = json.dumps(json.loads(response.body), ensure_ascii=False, indent=2)
    return escape(text).encode("utf-8", "replace")


class _Server(ThreadingHTTPServer):
    """One thread per connection, all of them known so that they can be cut."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    sandbox: Sandbox
    stop: threading.Event

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._open_lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        with self._open_lock:
            sockets = list(self._open)
        for one in sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                # Already gone, which is what was wanted.
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about clients that went away; anything else is a defect and is shown."""
        import sys

        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Connection(BaseHTTPRequestHandler):
    """Moves bytes between a socket and `Sandbox.handle`."""

    protocol_version = "HTTP/1.1"
    # NB: without this the answer's two small writes meet Nagle and a delayed acknowledgement: 40 ms each.
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing: the request log holds it."""

    def _request(self) -> Request:
        parts = urlsplit(self.path)
        path, user = split_user(parts.path)
        query = {key: values[-1] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
        headers = {key.lower(): value for key, value in self.headers.items()}
        groups = self.headers.get_all("Impersonate-Group")
        if groups:
            headers["impersonate-group"] = ",".join(groups)
        return Request(self.command, path, query, headers, self._body(), user)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return self._chunked_body()
        length = int(self.headers.get("Content-Length") or 0)
        if length > MAX_BODY:
            # NB: read and thrown away, so that the client gets the 413 and not a broken pipe.
            left = length
            while left > 0 and (part := self.rfile.read(min(left, 1 << 20))):
                left -= len(part)
            return b" " * (MAX_BODY + 1)
        return self.rfile.read(length)

    def _chunked_body(self) -> bytes:
        parts: list[bytes] = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _serve(self) -> None:
        request = self._request()
        response = self.server.sandbox.handle(request)
        if response.drop:
            self.close_connection = True
            return
        body = _indented(response) if _wants_indented(request) else response.body
        self.send_response_only(response.status)
        self.send_header("Audit-Id", str(uuid.uuid4()))
        self.send_header("Date", http_date(self.server.sandbox.clock.now()))
        if "Cache-Control" not in response.headers:
            self.send_header("Cache-Control", "no-cache, private")
        zipped = len(body) > GZIP_FROM and "gzip" in request.headers.get("accept-encoding", "")
        if zipped:
            body = gzip.compress(body, compresslevel=1, mtime=0)
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Vary", "Accept-Encoding")
        for name, value in response.headers.items():
            for line in value.split("\n"):
                self.send_header(name, line)
        if response.stream is not None:
            self._stream(response.stream, zipped="gzip" in request.headers.get("accept-encoding", ""))
            return
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _stream(self, stream: WatchStream, *, zipped: bool) -> None:
        packer = zlib.compressobj(1, zlib.DEFLATED, 31) if zipped and stream.is_compressible else None
        if packer:
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Vary", "Accept-Encoding")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        for chunk in stream.chunks(stop=self.server.stop):
            if chunk:
                # NB: flushed with each event, or the client would wait for the next one.
                self._write_chunk(packer.compress(chunk) + packer.flush(zlib.Z_SYNC_FLUSH) if packer else chunk)
            elif self._client_is_gone():
                self.close_connection = True
                return
        if packer:
            self._write_chunk(packer.flush(zlib.Z_FINISH))
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _write_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _client_is_gone(self) -> bool:
        try:
            self.connection.setblocking(False)
            return not self.connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        finally:
            self.connection.setblocking(True)
