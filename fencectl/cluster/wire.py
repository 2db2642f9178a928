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
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any

from fencectl.cluster.endpoint import Endpoint
from fencectl.cluster.failures import Kind, WireError
from fencectl.cluster.proxy import Proxy

_CHUNK = 1 << 18
_LEAST_S = 0.001

Left = Callable[[], float]


class Wire:
    """A connection that can be used for one request after the other by one thread."""

    def __init__(self, endpoint: Endpoint, *, proxy: Proxy | None, tls: ssl.SSLContext | None, sni: str) -> None:
        self._endpoint = endpoint
        self._proxy = proxy
        self._tls = tls
        self._sni = sni
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

        try:
            sock = _dial(self._endpoint, self._proxy, connect_left_s)
            try:
                if self._tls is not None:
                    sock.settimeout(_positive(connect_left_s()))
                    sock = self._tls.wrap_socket(sock, server_hostname=self._sni)
            except BaseException:
                sock.close()
                raise
        except (OSError, ValueError) as error:
            raise as_wire_error(error, sent=False) from None
        self._timed = _TimedSocket(sock)
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

    def __init__(self, sock: socket.socket) -> None:
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
            self._sock.settimeout(_positive(self.left_s()))
            view = view[self._sock.send(view) :]

    def recv_into(self, buffer: memoryview) -> int:
        self._sock.settimeout(_positive(self.left_s()))
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
            readable.register(self._sock, select.POLLIN)
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


def as_wire_error(error: Exception, *, sent: bool) -> WireError:
    """Return what happened, without the texts of the libraries, which can quote headers."""
    if isinstance(error, WireError):
        return error
    if isinstance(error, TimeoutError):
        return WireError(Kind.TIMEOUT, sent=sent)
    if isinstance(error, ConnectionRefusedError):
        return WireError(Kind.REFUSED, sent=sent)
    if isinstance(error, ssl.SSLCertVerificationError):
        return WireError(Kind.TLS, error.verify_message, sent=sent, passing=False)
    if isinstance(error, ssl.SSLEOFError):
        return WireError(Kind.RESET, sent=sent)
    if isinstance(error, ssl.SSLError):
        return WireError(Kind.TLS, (error.reason or "").lower().replace("_", " "), sent=sent, passing=False)
    if isinstance(error, ConnectionError | HTTPException):
        return WireError(Kind.RESET, sent=sent)
    if isinstance(error, OSError) and error.strerror:
        return WireError(Kind.REFUSED, error.strerror.lower(), sent=sent)
    return WireError(Kind.RESET, sent=sent)


def _dial(endpoint: Endpoint, proxy: Proxy | None, left_s: Left) -> socket.socket:
    if proxy is None:
        return _open_socket(endpoint.host, endpoint.port, left_s)
    from fencectl.cluster.tunnel import through_proxy

    try:
        sock = _open_socket(proxy.host, proxy.port, left_s)
    except WireError as error:
        raise WireError(Kind.PROXY, f"{proxy.shown} {error.said}", passing=error.passing) from None
    try:
        through_proxy(sock, proxy, endpoint, left_s)
    except BaseException:
        sock.close()
        raise
    return sock


def _open_socket(host: str, port: int, left_s: Left) -> socket.socket:
    addresses = _look_up(host, port, left_s)
    failed: WireError | None = None
    for position, (family, kind, protocol, _, address) in enumerate(addresses):
        sock = socket.socket(family, kind, protocol)
        try:
            # NB: an address that swallows packets must not take the time of those after it.
            sock.settimeout(_positive(left_s() / (len(addresses) - position)))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            sock.close()
            failed = as_wire_error(error, sent=False)
            continue
        return sock
    raise failed or WireError(Kind.DNS, host)


def _look_up(host: str, port: int, left_s: Left) -> list[Any]:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        pass
    # NB: getaddrinfo knows no time-out, so it gets a thread that may be left behind.
    found: list[Any] = []
    failure: list[Exception] = []

    def ask() -> None:
        try:
            found.extend(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            failure.append(error)

    asking = threading.Thread(target=ask, name="fencectl-dns", daemon=True)
    asking.start()
    asking.join(_positive(left_s()))
    if failure:
        again = isinstance(failure[0], socket.gaierror) and failure[0].errno == socket.EAI_AGAIN
        raise WireError(Kind.DNS, host, passing=again)
    if not found:
        raise WireError(Kind.TIMEOUT, f"looking up {host}")
    return found


def _positive(seconds: float) -> float:
    if seconds <= 0:
        raise TimeoutError
    return max(seconds, _LEAST_S)


def _now_s() -> float:
    return time.monotonic()
