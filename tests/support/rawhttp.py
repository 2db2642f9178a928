"""
A bare HTTP client for tests: what was sent is what the test wrote, and the answer comes back whole.

No retry, no redirect, no decoding of bodies unless asked. Connections are kept alive and pooled, so that
threads of one test may use the client together.
"""

from __future__ import annotations

import http.client
import json
import select
import ssl
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

# A test server that is silent for this long hangs; the slowest answer wanted from one takes a second or two.
TIMEOUT_S = 30.0

Body = bytes | str | dict[str, Any] | list[Any] | None


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """Status, headers and undecoded body of one answer."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def content_type(self) -> str:
        return str(self.headers.get("Content-Type", ""))

    @property
    def warnings(self) -> list[str]:
        return list(self.headers.get_all("Warning") or [])


@dataclass(frozen=True, slots=True)
class Server:
    """Where requests go, and as whom."""

    url: str
    token: str | None = None
    ca_pem: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class RawClient:
    """Keep-alive connections to one server as one user."""

    def __init__(self, server: Server) -> None:
        parts = urllib.parse.urlsplit(server.url)
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port
        self._base_path = parts.path.rstrip("/")
        self._tls = _trust(server.ca_pem) if parts.scheme == "https" else None
        self._headers = dict(server.headers)
        if server.token is not None:
            self._headers["Authorization"] = f"Bearer {server.token}"
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | str | None = None,
        body: Body = None,
        content_type: str | None = None,
        accept: str | None = JSON,
        headers: Mapping[str, str] | None = None,
    ) -> RawAnswer:
        """Send one request; a body that is not bytes is encoded as JSON, text as it stands."""
        connection = self._take()
        try:
            connection.request(
                method,
                self._target(path, query),
                body=_encode(body),
                headers=self._all_headers(body, content_type, accept, headers),
            )
            answer = connection.getresponse()
            raw = RawAnswer(answer.status, answer.headers, answer.read())
        except BaseException:
            connection.close()
            raise
        if answer.will_close:
            connection.close()
        else:
            with self._lock:
                self._idle.append(connection)
        return raw

    @contextmanager
    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, Any] | str | None = None,
        accept: str | None = JSON,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Iterator[http.client.HTTPResponse]:
        """Open a long answer (a watch) on a connection of its own."""
        connection = self._connect(timeout_s)
        try:
            connection.request(
                "GET", self._target(path, query), headers=self._all_headers(None, None, accept, headers)
            )
            with connection.getresponse() as answer:
                yield answer
        finally:
            connection.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self) -> http.client.HTTPConnection:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self._connect(TIMEOUT_S)
            # NB: something to read on an idle connection means that the server closed it.
            if connection.sock is not None and not select.select([connection.sock], [], [], 0)[0]:
                return connection
            connection.close()

    def _connect(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=self._tls)

    def _target(self, path: str, query: Mapping[str, Any] | str | None) -> str:
        text = query if isinstance(query, str) else urllib.parse.urlencode(dict(query or {}), doseq=True)
        return self._base_path + path + (f"?{text}" if text else "")

    def _all_headers(
        self,
        body: Body,
        content_type: str | None,
        accept: str | None,
        headers: Mapping[str, str] | None,
    ) -> dict[str, str]:
        chosen = dict(self._headers)
        if accept is not None:
            chosen["Accept"] = accept
        if body is not None:
            chosen["Content-Type"] = content_type or JSON
        return {**chosen, **(headers or {})}


def _encode(body: Body) -> bytes | None:
    if body is None or isinstance(body, bytes):
        return body
    return (body if isinstance(body, str) else json.dumps(body)).encode()


def _trust(ca_pem: str | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca_pem is not None:
        context.load_verify_locations(cadata=ca_pem)
    return context
