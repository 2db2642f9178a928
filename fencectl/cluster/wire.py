"""
One connection to an API server: dialled, through a proxy where there is one, with TLS where there is any.

NB: a socket's own time-out counts per read, so a server that sends a byte a second could hold a caller for
ever. Every read and write in here is bounded by one deadline for the whole request.
"""

from __future__ import annotations

import contextlib
import io
import select
import socket
import ssl
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any

from fencectl.cluster.dial import Left, Stream, as_wire_error, at_least_some, dial
from fencectl.cluster.endpoint import Endpoint
from fencectl.cluster.failures import Kind, WireError
from fencectl.cluster.proxy import Proxy

_CHUNK = 1 << 18


class Wire:
    """A connection that can be used for one request after the other by one thread."""

    def __init__(
        self, endpoint: Endpoint, *, proxy: Proxy | None, tls: ssl.SSLContext | None, server_name: str = ""
    ) -> None:
        self._endpoint = endpoint
        self._proxy = proxy
        self._tls = tls
        self._server_name = server_name
        self._http = _Connection(endpoint.host, endpoint.port)
        self._timed: _TimedSocket | None = None
        self._response: HTTPResponse | None = None

    def connect(self, *, connect_timeout_s: float, left_s: Left) -> bool:
        """Open the connection unless it is open and the server has not hung up; return whether it was opened."""
        if self._timed is not None and self._http.sock is not None and self._timed.is_alive():
            return False
        self.close()
        end_s = _now_s() + connect_timeout_s

        def connect_left_s() -> float:
            return min(end_s - _now_s(), left_s())

        self._timed = _TimedSocket(
            dial(
                self._endpoint,
                proxy=self._proxy,
                tls=self._tls,
                server_name=self._server_name,
                left_s=connect_left_s,
            )
        )
        self._http.sock = self._timed
        return True

    def request(
        self,
        method: str,
        target: str,
        *,
        headers: list[tuple[str, str | bytes]],
        body: bytes | None,
        left_s: Left,
    ) -> HTTPResponse:
        """Send one request and return its response, of which only the head has been read."""
        self.set_left(left_s)
        if self._proxy is not None and self._tls is None and not self._proxy.scheme.startswith("socks"):
            # A proxy for plain http wants to see where to go.
            target = f"http://{self._endpoint.host_header}{target}"
            if self._proxy.authorization is not None:
                headers = [*headers, ("Proxy-Authorization", self._proxy.authorization)]
        try:
            self._http.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            self._http.putheader("Host", self._endpoint.host_header)
            for name, value in headers:
                self._http.putheader(name, value)
            if body is not None:
                self._http.putheader("Content-Length", str(len(body)))
            self._http.endheaders(body)
            self._response = self._http.getresponse()
        except (OSError, HTTPException) as error:
            self.close()
            raise as_wire_error(error, sent=True) from None
        return self._response

    def read(self, response: HTTPResponse) -> bytes:
        """Return the next block of a body that is wanted whole; empty at its end."""
        data = self._read(response.read)
        if not data and response.length:
            # NB: http.client takes a body that was cut off for one that ended. A list cut short hides fences.
            self.close()
            raise WireError(Kind.RESET, sent=True)
        return data

    def read_some(self, response: HTTPResponse) -> bytes:
        """Return what of a body is there, after waiting for the first byte of it; empty at its end."""
        return self._read(response.read1)

    def _read(self, read: Callable[[int], bytes]) -> bytes:
        try:
            return read(_CHUNK)
        except (OSError, HTTPException, ValueError) as error:
            self.close()
            raise as_wire_error(error, sent=True) from None

    def set_left(self, left_s: Left) -> None:
        """Change how long the next reads may take."""
        if self._timed is not None:
            self._timed.left_s = left_s

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._timed is not None:
            self._timed.destroy()
            self._timed = None
        if self._response is not None:
            self._response.close()
            self._response = None
        self._http.close()


class _Connection(HTTPConnection):
    # NB: without this http.client would dial by itself, past proxy, TLS and deadline.
    auto_open = 0

    sock: Any


class _TimedSocket:
    """As much of a socket as http.client uses, with one deadline over all reads and writes."""

    def __init__(self, sock: Stream) -> None:
        self._sock = sock
        self._readers = 0
        self._closing = False
        self.left_s: Left = lambda: 1.0

    def makefile(self, mode: str) -> io.BufferedReader:
        self._readers += 1
        return io.BufferedReader(_TimedReader(self), _CHUNK)

    def sendall(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            self._sock.settimeout(at_least_some(self.left_s()))
            view = view[self._sock.send(view) :]

    def recv_into(self, buffer: memoryview) -> int:
        self._sock.settimeout(at_least_some(self.left_s()))
        return self._sock.recv_into(buffer)

    def close(self) -> None:
        # NB: http.client closes its socket as soon as a head says `Connection: close`, and reads on after that.
        self._closing = True
        self._close_unless_read()

    def reader_closed(self) -> None:
        self._readers -= 1
        self._close_unless_read()

    def _close_unless_read(self) -> None:
        if self._closing and self._readers <= 0:
            self._sock.close()

    def destroy(self) -> None:
        """Close at once; a thread that waits for a byte of it wakes up."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def is_alive(self) -> bool:
        """Whether the peer has not hung up; costs no round trip."""
        try:
            readable = select.poll()
            readable.register(self._sock.fileno(), select.POLLIN)
            if not readable.poll(0):
                return True
            self._sock.settimeout(0.0)
            # NB: readable and nothing to read are the tickets that TLS 1.3 sends when it likes.
            self._sock.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except (OSError, ValueError):
            return False
        return False


class _TimedReader(io.RawIOBase):
    def __init__(self, timed: _TimedSocket) -> None:
        self._timed = timed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._timed.recv_into(buffer)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._timed.reader_closed()


def _now_s() -> float:
    return time.monotonic()
