"""
One connection to GitHub's API, for one thread: bounded in time and size, and the only place that holds the token.

A connection leads to the configured host and nowhere else, so neither a redirect nor a journal can make the token
go to another one.
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead

import fencectl
from fencectl.evidence.github_failures import UnansweredError, cut
from fencectl.evidence.github_proxy import proxy_for
from fencectl.evidence.github_settings import GitHubSettings

API_VERSION = "2022-11-28"
# GitHub itself gives up on a request after ten seconds.
REQUEST_TIMEOUT_S = 8.0
LARGEST_BODY = 16_000_000

_LEAST_S = 0.001
_PIECE = 1 << 16
_TUNNEL_STATUS = re.compile(r"Tunnel connection failed: ([0-9]{3})", re.ASCII)


class Deadline:
    """The end of a whole look, on a clock that never jumps."""

    def __init__(self, within_s: float) -> None:
        self.within_s = within_s
        self._end_s = time.monotonic() + within_s

    @property
    def left_s(self) -> float:
        """Seconds that are left; below zero when it is over."""
        return self._end_s - time.monotonic()


@dataclass(frozen=True, slots=True)
class Reply:
    """One whole answer. `headers` have lower-case names."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class Trust:
    """The certificates that are trusted, loaded once and only when there is a connection with TLS."""

    def __init__(self, settings: GitHubSettings) -> None:
        self._file = settings.way.get("SSL_CERT_FILE")
        self._folder = settings.way.get("SSL_CERT_DIR")
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """
        Return the context.

        Raises UnansweredError where SSL_CERT_FILE or SSL_CERT_DIR, which an Enterprise Server with a CA of its
        own needs, cannot be used.
        """
        if self._context is None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            try:
                if self._file or self._folder:
                    context.load_verify_locations(self._file, self._folder)
                else:
                    context.load_default_certs()
            except (OSError, ValueError):
                raise UnansweredError("TLS failure: SSL_CERT_FILE or SSL_CERT_DIR cannot be read") from None
            self._context = context
        return self._context


class Wire:
    """Requests one after the other; not safe for several threads, `abort` excepted."""

    def __init__(self, settings: GitHubSettings, *, trust: Trust, deadline: Deadline) -> None:
        self._settings = settings
        self._to = settings.api
        self._trust = trust
        self._deadline = deadline
        self._connection: HTTPConnection | None = None
        # NB: http.client lets go of its socket as soon as a head says that the body ends with the connection, and
        # reads on. Time and `abort` go by this one.
        self._sock: socket.socket | None = None

    def __repr__(self) -> str:
        return f"Wire({self._settings.host!r})"

    def get(self, target: str, *, etag: str | None = None) -> Reply:
        """Ask once. `target` is the path from the root of the host on, with its query. Raises UnansweredError."""
        while True:
            reused = self._connection is not None
            try:
                return self._once(target, etag)
            except ConnectionError:
                self.close()
                # NB: a kept connection that the server has closed meanwhile says nothing about the server.
                if not reused:
                    raise UnansweredError("the connection broke") from None

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = self._sock = None

    def abort(self) -> None:
        """From another thread: make whoever waits for a byte of this connection wake up."""
        sock = self._sock
        if sock is not None:
            with contextlib.suppress(OSError):
                # NB: the plain shutdown, not that of TLS, which would take the session away under its reader.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def _once(self, target: str, etag: str | None) -> Reply:
        timeout_s = min(self._left_s(), REQUEST_TIMEOUT_S)
        try:
            connection = self._connection or self._connect(timeout_s)
            self._wait_at_most(timeout_s)
            connection.request("GET", target, headers=self._headers(etag))
            return self._read(connection.getresponse())
        except ConnectionRefusedError:
            self.close()
            raise UnansweredError("connection refused") from None
        except (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
            raise ConnectionResetError from None
        except (OSError, HTTPException, ValueError) as error:
            self.close()
            raise UnansweredError(self._words(error, timeout_s)) from None

    def _connect(self, timeout_s: float) -> HTTPConnection:
        host, port = self._to.host, self._to.port
        connection: HTTPConnection
        if self._to.scheme == "http":
            connection = HTTPConnection(host, port, timeout=timeout_s)
        else:
            context = self._trust.context()
            proxy = proxy_for(self._settings.way, self._to)
            if proxy is None:
                connection = HTTPSConnection(host, port, timeout=timeout_s, context=context)
            else:
                connection = HTTPSConnection(proxy.host, proxy.port, timeout=timeout_s, context=context)
                header = {"Proxy-Authorization": proxy.authorization} if proxy.authorization else {}
                connection.set_tunnel(host, port, headers=header)
        self._connection = connection
        connection.connect()
        self._sock = connection.sock
        return connection

    def _wait_at_most(self, timeout_s: float) -> None:
        if self._sock is not None:
            self._sock.settimeout(timeout_s)

    def _headers(self, etag: str | None) -> dict[str, str]:
        headers = {
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": API_VERSION,
            "User-Agent": f"fencectl/{fencectl.__version__}",
        }
        if self._settings.token is not None:
            headers["Authorization"] = f"Bearer {self._settings.token}"
        if etag is not None:
            headers["If-None-Match"] = etag
        return headers

    def _read(self, response: HTTPResponse) -> Reply:
        expected = response.length
        parts, size = [], 0
        # NB: a response closes itself, and the socket with it, as soon as the last byte that it counts on is read.
        while not response.isclosed():
            self._wait_at_most(min(self._left_s(), REQUEST_TIMEOUT_S))
            part = response.read(_PIECE)
            if not part:
                break
            parts.append(part)
            size += len(part)
            if size > LARGEST_BODY:
                self.close()
                raise UnansweredError(f"an answer of more than {LARGEST_BODY // 1_000_000} MB")
        # NB: http.client calls a body that ends too early complete.
        if expected is not None and size != expected:
            self.close()
            raise UnansweredError("an answer that was cut off")
        headers = {name.lower(): self._without_token(value) for name, value in response.getheaders()}
        if response.will_close:
            self.close()
        body = self._without_token(b"".join(parts).decode("latin-1")).encode("latin-1")
        return Reply(response.status, headers, body)

    def _without_token(self, text: str) -> str:
        """What came back, without the token that a proxy on the way may quote: it ends up in reports."""
        token = self._settings.token
        return text.replace(token, "(token)") if token else text

    def _left_s(self) -> float:
        left_s = self._deadline.left_s
        if left_s <= 0:
            self.close()
            raise UnansweredError(f"no answer within {self._deadline.within_s:g}s")
        return max(left_s, _LEAST_S)

    def _words(self, error: Exception, timeout_s: float) -> str:
        """Say what happened, without the libraries' own texts, which can quote headers."""
        if isinstance(error, TimeoutError):
            return f"no answer within {timeout_s:.1f}s" if timeout_s < 1 else f"no answer within {timeout_s:.0f}s"
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"TLS failure: the certificate is not accepted ({cut(error.verify_message)})"
        if isinstance(error, ssl.SSLError):
            reason = (error.reason or "no reason given").lower().replace("_", " ")
            return f"TLS failure: {cut(reason)}"
        if isinstance(error, socket.gaierror | UnicodeError):
            return f"the name {self._to.host} cannot be looked up"
        if isinstance(error, IncompleteRead):
            return "an answer that was cut off"
        if isinstance(error, HTTPException | ValueError):
            return "an answer that is no HTTP"
        tunnel = _TUNNEL_STATUS.match(str(error.args[0]) if error.args else "")
        if tunnel is not None:
            return f"the proxy of HTTPS_PROXY refused: {tunnel[1]}"
        return cut((getattr(error, "strerror", None) or "the connection broke").lower())
