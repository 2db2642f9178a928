"""Opening a connection in time: names looked up, addresses tried in turn, proxies asked, TLS begun."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from http.client import HTTPException
from typing import Any, Protocol

from fencectl.cluster.endpoint import Endpoint
from fencectl.cluster.failures import Kind, WireError
from fencectl.cluster.proxy import Proxy

_LEAST_S = 0.001

Left = Callable[[], float]


class Stream(Protocol):
    """What a connection is used by: a socket, plain or with TLS."""

    def settimeout(self, value: float | None, /) -> None: ...
    def send(self, data: memoryview, /) -> int: ...
    def recv(self, count: int, /) -> bytes: ...
    def recv_into(self, buffer: memoryview, /) -> int: ...
    def fileno(self) -> int: ...
    def shutdown(self, how: int, /) -> None: ...
    def close(self) -> None: ...


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


def dial(
    endpoint: Endpoint, *, proxy: Proxy | None, tls: ssl.SSLContext | None, server_name: str, left_s: Left
) -> Stream:
    """
    Return an open connection, with TLS where there is any; raise `WireError` when there is none in time.

    `server_name` is what the certificate must be for, where that is not the host.
    """
    sni = server_name or endpoint.host
    try:
        if proxy is None:
            sock = _open_socket(endpoint.host, endpoint.port, left_s)
            return sock if tls is None else _secured(sock, tls, sni, left_s)
        from fencectl.cluster.tunnel import TlsOverTls, through_proxy

        outer = _to_proxy(proxy, tls, server_name, left_s)
        try:
            through_proxy(outer, proxy, endpoint, left_s)
            if tls is None:
                return outer
            if isinstance(outer, ssl.SSLSocket):
                outer.settimeout(at_least_some(left_s()))
                return TlsOverTls(outer, tls, sni)
        except BaseException:
            outer.close()
            raise
        return _secured(outer, tls, sni, left_s)
    except (OSError, ValueError) as error:
        raise as_wire_error(error, sent=False) from None


def _to_proxy(proxy: Proxy, tls: ssl.SSLContext | None, server_name: str, left_s: Left) -> socket.socket:
    try:
        sock = _open_socket(proxy.host, proxy.port, left_s)
        if proxy.scheme != "https":
            return sock
        # NB: Go checks the proxy like the server: by the cluster's CA, and by `tls-server-name` if given.
        return _secured(sock, tls or _system_context(), server_name or proxy.host, left_s)
    except WireError as error:
        raise WireError(Kind.PROXY, f"{proxy.shown} {error.said}", passing=error.passing) from None


def _secured(sock: socket.socket, tls: ssl.SSLContext, sni: str, left_s: Left) -> ssl.SSLSocket:
    try:
        sock.settimeout(at_least_some(left_s()))
        return tls.wrap_socket(sock, server_hostname=spelled(sni))
    except (OSError, ValueError) as error:
        sock.close()
        raise as_wire_error(error, sent=False) from None


def _system_context() -> ssl.SSLContext:
    from fencectl.cluster.tls import TlsSettings, build_context

    return build_context(TlsSettings(whose="the proxy"), None)


def _open_socket(host: str, port: int, left_s: Left) -> socket.socket:
    addresses = _look_up(host, port, left_s)
    failed: WireError | None = None
    for position, (family, kind, protocol, _, address) in enumerate(addresses):
        sock = socket.socket(family, kind, protocol)
        try:
            # NB: an address that swallows packets must not take the time of those after it.
            sock.settimeout(at_least_some(left_s() / (len(addresses) - position)))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            sock.close()
            failed = as_wire_error(error, sent=False)
            continue
        return sock
    raise failed or WireError(Kind.DNS, host)


def spelled(host: str) -> str | bytes:
    """Spell a name for the resolver or TLS: bytes if ASCII, as the codec for others takes 3 ms to load."""
    return host.encode() if host.isascii() else host


def _look_up(host: str, port: int, left_s: Left) -> list[Any]:
    try:
        return socket.getaddrinfo(spelled(host), port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        pass
    # NB: getaddrinfo knows no time-out, so it gets a thread that may be left behind.
    found: list[Any] = []
    failure: list[Exception] = []

    def ask() -> None:
        try:
            found.extend(socket.getaddrinfo(spelled(host), port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            failure.append(error)

    asking = threading.Thread(target=ask, name="fencectl-dns", daemon=True)
    asking.start()
    asking.join(at_least_some(left_s()))
    if failure:
        again = isinstance(failure[0], socket.gaierror) and failure[0].errno == socket.EAI_AGAIN
        raise WireError(Kind.DNS, host, passing=again)
    if not found:
        raise WireError(Kind.TIMEOUT, f"looking up {host}")
    return found


def at_least_some(seconds: float) -> float:
    """Return a time-out that a socket takes; raise when no time is left."""
    if seconds <= 0:
        raise TimeoutError
    return max(seconds, _LEAST_S)
