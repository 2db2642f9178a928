"""
What the tests of this folder share: somebody's desk with kubeconfig files and the real kubectl, a loopback API
server that answers as told, and a clock that a test drives.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from fencectl.cluster.kubeconfig import Connection, resolve
from tests.support.realcluster import find_kubectl

Raw = dict[str, Any]

# Planted wherever a secret may stand; found in a text, it has leaked.
SECRET = "s3cr3t-canary-7f41"

NO_ONE_LISTENS = "https://127.0.0.1:1"


@dataclass(frozen=True, slots=True)
class Desk:
    """A home folder and an environment; kubectl and `resolve` see the same of both."""

    home: Path
    environ: dict[str, str] = field(default_factory=dict)

    def write(self, name: str, text: str | Raw) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        return path

    def program(self, name: str, script: str) -> Path:
        """Write a shell script that can be run."""
        path = self.write(name, f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def resolve(self, context: str | None = None, *, kubeconfig: str | None = None) -> Connection:
        return resolve(
            kubeconfig, context, self.environ, self.home, service_account=self.home / "no-service-account"
        )

    def kubectl(self, *arguments: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        environ = {"HOME": str(self.home), "PATH": os.environ["PATH"], **self.environ}
        return subprocess.run(
            [find_kubectl(), *arguments],
            env=environ,
            cwd=Path.cwd(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def whoami(self, *flags: str) -> Raw:
        """Ask the real kubectl whom the API server takes us for."""
        done = self.kubectl("auth", "whoami", "-o", "json", *flags)
        assert done.returncode == 0, done.stderr
        info: Raw = json.loads(done.stdout)["status"]["userInfo"]
        return info


def config(
    *,
    user: Raw | None = None,
    cluster: Raw | None = None,
    context: Raw | None = None,
    name: str = "prod",
) -> Raw:
    """Build a kubeconfig with one context, its cluster and its user, all under one name."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": NO_ONE_LISTENS, **(cluster or {})}}],
        "users": [{"name": name, "user": {"token": "t"} if user is None else user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **(context or {})}}],
        "current-context": name,
    }


class FakeClock:
    """Time stands still until somebody waits for it or a test moves it."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.start_at = datetime(2026, 11, 30, 2, 47, 31, tzinfo=UTC)
        self.waits: list[float] = []

    def wall(self) -> datetime:
        return self.start_at + timedelta(seconds=self.now_s - 1000.0)

    def monotonic_s(self) -> float:
        return self.now_s

    def wait(self, event: threading.Event | None, timeout_s: float) -> bool:
        self.waits.append(timeout_s)
        self.now_s += timeout_s
        return event is not None and event.is_set()


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came over the wire; header names in lower case, values in order."""

    method: str
    target: str
    headers: Mapping[str, tuple[str, ...]]
    body: bytes

    def header(self, name: str) -> str | None:
        values = self.headers.get(name.lower())
        return None if values is None else ", ".join(values)


@dataclass(slots=True)
class Peer:
    """The server's end of one connection, for handlers that answer byte by byte."""

    sock: socket.socket
    number: int

    def say(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Send a whole answer; underscores in header names stand for dashes."""
        head = {"Content-Length": str(len(body)), "Date": "Mon, 30 Nov 2026 02:47:31 GMT"}
        head.update({name.replace("_", "-"): value for name, value in headers.items()})
        lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in head.items())]
        self.sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def begin_chunks(self, **headers: str) -> None:
        lines = ["HTTP/1.1 200 OK", "Transfer-Encoding: chunked"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")

    def chunk(self, data: bytes) -> None:
        self.sock.sendall(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def drop(self) -> None:
        """Hang up without another word."""
        self.sock.shutdown(socket.SHUT_RDWR)


Handler = Callable[[Asked, Peer], None]


class LoopbackServer:
    """An HTTP server on loopback: each request goes to the handler of the test and is remembered."""

    def __init__(self, handler: Handler, *, certificate: tuple[Path, Path] | None = None) -> None:
        self.asked: list[Asked] = []
        self.connections = 0
        self.stopping = threading.Event()
        self._handler = handler
        self._context: ssl.SSLContext | None = None
        if certificate is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(*certificate)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._peers: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.port = int(self._listener.getsockname()[1])
        scheme = "http" if certificate is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._spawn(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        with _ignoring_errors():
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for peer in self._peers:
            with _ignoring_errors():
                peer.shutdown(socket.SHUT_RDWR)
            peer.close()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def _spawn(self, work: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with _ignoring_errors():
            while not self.stopping.is_set():
                sock, _ = self._listener.accept()
                self.connections += 1
                self._peers.append(sock)
                self._spawn(self._serve, sock, self.connections)

    def _serve(self, sock: socket.socket, number: int) -> None:
        with _ignoring_errors():
            if self._context is not None:
                sock = self._context.wrap_socket(sock, server_side=True)
                self._peers.append(sock)
            peer = Peer(sock, number)
            with sock.makefile("rb") as reader:
                while (asked := _read_request(reader)) is not None:
                    self.asked.append(asked)
                    self._handler(asked, peer)
        sock.close()


def _read_request(reader: Any) -> Asked | None:
    first = reader.readline().split()
    if len(first) != 3:
        return None
    headers: dict[str, tuple[str, ...]] = {}
    while (line := reader.readline().strip()) != b"":
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = (*headers.get(name.lower(), ()), value.strip())
    length = int(headers.get("content-length", ("0",))[0])
    return Asked(first[0].decode(), first[1].decode(), headers, reader.read(length))


def _ignoring_errors() -> suppress:
    """The other side may hang up at any time; that is what these tests are about."""
    return suppress(OSError, ValueError)
