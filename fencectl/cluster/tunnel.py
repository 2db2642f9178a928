"""Asking a proxy for a tunnel to the API server: HTTP CONNECT, and SOCKS5 with names resolved by the proxy."""

from __future__ import annotations

import socket
from collections.abc import Callable

from fencectl.cluster.endpoint import Endpoint
from fencectl.cluster.failures import Kind, WireError
from fencectl.cluster.proxy import Proxy

_LONGEST_HEAD = 16_384

_SOCKS_REFUSALS = {
    1: "general failure",
    2: "not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
}


def through_proxy(sock: socket.socket, proxy: Proxy, endpoint: Endpoint, left_s: Callable[[], float]) -> None:
    """Turn a connection to a proxy into one to the server; plain http through an HTTP proxy needs nothing."""
    try:
        if proxy.scheme.startswith("socks"):
            _socks5(_Talk(sock, left_s), proxy, endpoint)
        elif endpoint.secure:
            _connect(_Talk(sock, left_s), proxy, endpoint)
    except TimeoutError:
        raise WireError(Kind.PROXY, f"{proxy.shown} did not answer") from None
    except OSError:
        raise WireError(Kind.PROXY, f"{proxy.shown} closed the connection") from None


class _Talk:
    """Bytes to and from a proxy within the time that is left."""

    def __init__(self, sock: socket.socket, left_s: Callable[[], float]) -> None:
        self._sock = sock
        self._left_s = left_s

    def send(self, data: bytes) -> None:
        self._set_timeout()
        self._sock.sendall(data)

    def take(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            self._set_timeout()
            more = self._sock.recv(count - len(data))
            if not more:
                raise ConnectionResetError
            data += more
        return data

    def _set_timeout(self) -> None:
        left_s = self._left_s()
        if left_s <= 0:
            raise TimeoutError
        self._sock.settimeout(left_s)


def _connect(talk: _Talk, proxy: Proxy, endpoint: Endpoint) -> None:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    head = f"CONNECT {host}:{endpoint.port} HTTP/1.1\r\nHost: {host}:{endpoint.port}\r\n"
    if proxy.authorization is not None:
        head += f"Proxy-Authorization: {proxy.authorization}\r\n"
    talk.send(f"{head}\r\n".encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        # NB: one byte at a time, because what follows the head is the server's.
        answer += talk.take(1)
        if len(answer) > _LONGEST_HEAD:
            raise WireError(Kind.PROXY, f"{proxy.shown} does not speak HTTP", passing=False)
    status = answer.split(b"\r\n", 1)[0].split()
    code = status[1] if len(status) > 1 and status[0].startswith(b"HTTP/1.") else b""
    if not code.isdigit():
        raise WireError(Kind.PROXY, f"{proxy.shown} does not speak HTTP", passing=False)
    if code != b"200":
        raise WireError(Kind.PROXY, f"{proxy.shown} answered {code.decode()}", passing=False)


def _socks5(talk: _Talk, proxy: Proxy, endpoint: Endpoint) -> None:
    by_password = bool(proxy.username)
    talk.send(b"\x05\x02\x00\x02" if by_password else b"\x05\x01\x00")
    version, method = talk.take(2)
    if version != 5 or method not in ((0, 2) if by_password else (0,)):
        raise WireError(Kind.PROXY, f"{proxy.shown} accepts no way to log in", passing=False)
    if method == 2:
        name, password = proxy.username.encode(), proxy.password.encode()
        talk.send(b"\x01" + bytes([len(name)]) + name + bytes([len(password)]) + password)
        if talk.take(2)[1] != 0:
            raise WireError(Kind.PROXY, f"{proxy.shown} refused the password", passing=False)
    talk.send(b"\x05\x01\x00" + _socks_address(endpoint.host) + endpoint.port.to_bytes(2, "big"))
    _, code, _, kind = talk.take(4)
    if code != 0:
        why = _SOCKS_REFUSALS.get(code, f"code {code}")
        raise WireError(Kind.PROXY, f"{proxy.shown} refused: {why}", passing=code in (1, 3, 4, 5))
    length = {1: 4, 4: 16}.get(kind) or talk.take(1)[0]
    talk.take(length + 2)


def _socks_address(host: str) -> bytes:
    for family, kind in ((socket.AF_INET, b"\x01"), (socket.AF_INET6, b"\x04")):
        try:
            return kind + socket.inet_pton(family, host)
        except OSError:
            continue
    name = host.encode("idna")
    return b"\x03" + bytes([len(name)]) + name
