"""Ways through a proxy: HTTP CONNECT, SOCKS5 with names resolved by the proxy, and TLS inside of TLS."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from typing import TypeVar

from fencectl.cluster.endpoint import Endpoint
from fencectl.cluster.failures import Kind, WireError
from fencectl.cluster.proxy import Proxy

_Result = TypeVar("_Result")

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


class TlsOverTls:
    """TLS to the server inside of the TLS to an https proxy: as much of a socket as a request uses."""

    def __init__(self, outer: ssl.SSLSocket, context: ssl.SSLContext, server_name: str) -> None:
        self._outer = outer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._inner = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        self._exchange(self._inner.do_handshake)

    def settimeout(self, value: float | None) -> None:
        self._outer.settimeout(value)

    def send(self, data: memoryview) -> int:
        return self._exchange(lambda: self._inner.write(data))

    def recv(self, count: int) -> bytes:
        buffer = bytearray(count)
        return bytes(buffer[: self.recv_into(memoryview(buffer))])

    def recv_into(self, buffer: memoryview) -> int:
        try:
            return int(self._exchange(lambda: self._inner.read(len(buffer), buffer)))
        except ssl.SSLZeroReturnError:
            return 0

    def fileno(self) -> int:
        return self._outer.fileno()

    def shutdown(self, how: int) -> None:
        self._outer.shutdown(how)

    def close(self) -> None:
        self._outer.close()

    def _exchange(self, step: Callable[[], _Result]) -> _Result:
        """Do one step of the inner protocol, carrying its bytes to and from the proxy as long as it asks."""
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                self._flush()
                data = self._outer.recv(65_536)
                if data:
                    self._incoming.write(data)
                else:
                    self._incoming.write_eof()
                continue
            self._flush()
            return result

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._outer.sendall(self._outgoing.read())


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
