"""Proxies: which one is taken, by Go's rules, and that requests really go through it, as kubectl's do."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest

from fencectl.cluster.failures import Kind, Unreachable
from fencectl.cluster.proxy import proxy_from
from tests.kube.support_kube import SECRET, Desk, FakeClock, LoopbackServer, Raw, config
from tests.support.realcluster import RealCluster

NAME = "kube-api.example.test"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Sit down in an empty home folder."""
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path)


class TunnelProxy:
    """A proxy on loopback that leads every tunnel to one place, whatever name was asked for."""

    def __init__(self, leads_to: str, *, socks: bool = False, tls: ssl.SSLContext | None = None) -> None:
        host, _, port = leads_to.rpartition("//")[2].partition(":")
        self._target = (host, int(port))
        self._socks = socks
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._listener]
        self._threads: list[threading.Thread] = []
        self.asked: list[str] = []
        self.authorizations: list[str] = []
        self.refuse_with = b""
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._spawn(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        for sock in self._open:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def _spawn(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                self._open.append(sock)
                self._spawn(self._serve, sock)

    def _serve(self, sock: socket.socket) -> None:
        with suppress(OSError, ValueError):
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_side=True)
                self._open.append(sock)
            if not (self._greet_socks(sock) if self._socks else self._greet_http(sock)):
                sock.close()
                return
            onward = socket.create_connection(self._target)
            self._open.append(onward)
            self._spawn(_pump, onward, sock)
            _pump(sock, onward)

    def _greet_http(self, sock: socket.socket) -> bool:
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(1)
        lines = head.decode().split("\r\n")
        self.asked.append(lines[0])
        self.authorizations += [line.partition(": ")[2] for line in lines if line.startswith("Proxy-Auth")]
        sock.sendall(self.refuse_with or b"HTTP/1.1 200 Connection established\r\nX-Y: z\r\n\r\n")
        return not self.refuse_with

    def _greet_socks(self, sock: socket.socket) -> bool:
        methods = sock.recv(2)[1]
        offered = sock.recv(methods)
        if 2 in offered:
            sock.sendall(b"\x05\x02")
            _, length = sock.recv(2)
            name = sock.recv(length)
            password = sock.recv(sock.recv(1)[0])
            self.authorizations.append(f"{name.decode()}:{password.decode()}")
            sock.sendall(b"\x01\x00")
        else:
            sock.sendall(b"\x05\x00")
        kind = sock.recv(4)[3]
        host = sock.recv(sock.recv(1)[0]).decode() if kind == 3 else socket.inet_ntoa(sock.recv(4))
        self.asked.append(f"{host}:{int.from_bytes(sock.recv(2), 'big')}")
        sock.sendall(self.refuse_with or b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50")
        return not self.refuse_with


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError, ValueError):
        while data := source.recv(65_536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


@pytest.fixture
def behind(real_cluster: RealCluster) -> Raw:
    """Name a cluster entry by a host that only a proxy can find."""
    port = real_cluster.url.rpartition(":")[2]
    return {
        "server": f"https://{NAME}:{port}",
        "certificate-authority-data": base64.b64encode(real_cluster.ca_pem.encode()).decode(),
        "tls-server-name": "kubernetes",
    }


@pytest.fixture
def server_tls(real_cluster: RealCluster) -> ssl.SSLContext:
    """Let a proxy show the API server's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(
        real_cluster.folder / "certs/apiserver.crt", real_cluster.folder / "certs/apiserver.key"
    )
    return context


def both_get_through(desk: Desk, proxy: TunnelProxy) -> None:
    """Read once by kubectl and once by ourselves; the proxy must have been asked for the same by both."""
    done = desk.kubectl("get", "--raw", "/version")
    assert done.returncode == 0, done.stderr
    with desk.resolve().open() as transport:
        answer = transport.get("/version")
        assert json.loads(answer.body) == json.loads(done.stdout)
        assert transport.get("/version").ok
    theirs, *ours = proxy.asked
    assert ours == [theirs]
    assert len(set(proxy.authorizations)) <= 1


@pytest.mark.real
@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy"])
def test_a_proxy_of_the_environment_is_used(
    desk: Desk, real_cluster: RealCluster, behind: Raw, variable: str
) -> None:
    """CONNECT with the name, which only the proxy can resolve."""
    desk.write(".kube/config", config(user={"token": real_cluster.token("viewer")}, cluster=behind))
    with TunnelProxy(real_cluster.url) as proxy:
        desk.environ[variable] = f"http://{proxy.address}"
        both_get_through(desk, proxy)
        assert proxy.asked[0].startswith(f"CONNECT {NAME}:")


@pytest.mark.real
def test_proxy_url_beats_the_environment_and_logs_in(desk: Desk, real_cluster: RealCluster, behind: Raw) -> None:
    """`proxy-url` with a name and password, percent-encoded; HTTPS_PROXY and NO_PROXY do not matter then."""
    desk.environ.update({"HTTPS_PROXY": "http://127.0.0.1:1", "NO_PROXY": "*"})
    with TunnelProxy(real_cluster.url) as proxy:
        cluster = {**behind, "proxy-url": f"http://me:p%40ss@{proxy.address}"}
        desk.write(".kube/config", config(user={"token": real_cluster.token("viewer")}, cluster=cluster))
        both_get_through(desk, proxy)
        assert proxy.authorizations[0] == "Basic " + base64.b64encode(b"me:p@ss").decode()


@pytest.mark.real
@pytest.mark.parametrize("login", ["", "me:p%40ss@"])
def test_a_socks5_proxy_resolves_the_name(desk: Desk, real_cluster: RealCluster, behind: Raw, login: str) -> None:
    """With and without a password."""
    with TunnelProxy(real_cluster.url, socks=True) as proxy:
        cluster = {**behind, "proxy-url": f"socks5://{login}{proxy.address}"}
        desk.write(".kube/config", config(user={"token": real_cluster.token("viewer")}, cluster=cluster))
        both_get_through(desk, proxy)
        assert proxy.asked[0].startswith(f"{NAME}:")
        assert proxy.authorizations == (["me:p@ss"] * 2 if login else [])


@pytest.mark.real
def test_an_https_proxy_carries_tls_inside_of_tls(
    desk: Desk, real_cluster: RealCluster, behind: Raw, server_tls: ssl.SSLContext
) -> None:
    """The proxy is checked like the server, large answers and idle connections included."""
    with TunnelProxy(real_cluster.url, tls=server_tls) as proxy:
        cluster = {**behind, "proxy-url": f"https://{proxy.address}"}
        desk.write(".kube/config", config(user={"token": real_cluster.token("admin")}, cluster=cluster))
        both_get_through(desk, proxy)
        with desk.resolve().open() as transport:
            assert len(transport.get("/openapi/v2", deadline_s=60.0).body) > 1_000_000
            assert transport.get("/version").ok


@pytest.mark.real
def test_an_https_proxy_that_is_not_trusted_gets_nothing(
    desk: Desk, real_cluster: RealCluster, behind: Raw, server_tls: ssl.SSLContext
) -> None:
    """Its certificate is for another name."""
    with TunnelProxy(real_cluster.url, tls=server_tls) as proxy:
        cluster = {**behind, "tls-server-name": "example.test", "proxy-url": f"https://{proxy.address}"}
        desk.write(".kube/config", config(user={"token": real_cluster.token("admin")}, cluster=cluster))
        with desk.resolve().open(clock=FakeClock()) as transport, pytest.raises(Unreachable) as caught:
            transport.get("/version")
        assert caught.value.kind is Kind.PROXY
        assert proxy.asked == []


def test_plain_http_through_a_proxy_names_the_whole_address(desk: Desk) -> None:
    """No tunnel: the proxy gets the absolute URL, as from kubectl, and its password on each request."""
    with LoopbackServer(lambda _, peer: peer.say(200, b"{}")) as proxy:
        desk.environ["HTTP_PROXY"] = f"me:pw@{proxy.url.removeprefix('http://')}"
        desk.write(".kube/config", config(cluster={"server": f"http://{NAME}/base"}))
        assert desk.kubectl("get", "--raw", "/version").returncode == 0
        with desk.resolve().open() as transport:
            assert transport.get("/version").ok
            assert transport.get("/version").ok
    theirs, *ours = proxy.asked
    assert len(ours) == 2
    for asked in ours:
        assert asked.target == theirs.target == f"http://{NAME}/base/version"
        assert asked.headers["proxy-authorization"] == theirs.headers["proxy-authorization"]
        assert asked.header("host") == theirs.header("host") == NAME


def unreachable(desk: Desk, clock: FakeClock) -> Unreachable:
    with desk.resolve().open(clock=clock) as transport, pytest.raises(Unreachable) as caught:
        transport.get("/version")
    error = caught.value
    assert error.kind is Kind.PROXY
    assert SECRET not in f"{error!r} {error.reason} {error.hint}"
    return error


@pytest.mark.parametrize(
    ("answer", "said", "tries"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "answered 407", 1),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", "answered 502", 1),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "does not speak HTTP", 1),
        (b"HTTP/1.1 200 OK\r\n", "closed the connection", 3),
        (b"x" * 20_000, "does not speak HTTP", 1),
    ],
)
def test_a_proxy_that_refuses_is_named_without_its_password(
    desk: Desk, answer: bytes, said: str, tries: int
) -> None:
    """It is not the API server that failed."""
    with TunnelProxy("127.0.0.1:1") as proxy:
        proxy.refuse_with = answer
        cluster = {"server": f"https://{NAME}", "proxy-url": f"http://me:{SECRET}@{proxy.address}"}
        desk.write(".kube/config", config(cluster=cluster))
        error = unreachable(desk, FakeClock())
    assert f"proxy failed: http://{proxy.address} {said}, " in str(error.reason)
    assert error.tries == tries


def test_a_socks5_proxy_that_refuses_is_named(desk: Desk) -> None:
    """Its own reason, in words."""
    with TunnelProxy("127.0.0.1:1", socks=True) as proxy:
        proxy.refuse_with = b"\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00"
        cluster = {"server": f"https://{NAME}", "proxy-url": f"socks5://me:{SECRET}@{proxy.address}"}
        desk.write(".kube/config", config(cluster=cluster))
        assert "refused: not allowed by its rules" in str(unreachable(desk, FakeClock()).reason)


def test_a_proxy_that_is_not_there_is_named(desk: Desk) -> None:
    """Connection refused, by the proxy's address."""
    cluster = {"server": f"https://{NAME}", "proxy-url": f"http://me:{SECRET}@127.0.0.1:1"}
    desk.write(".kube/config", config(cluster=cluster))
    error = unreachable(desk, FakeClock())
    assert "http://127.0.0.1:1 connection refused, 3 tries" in str(error.reason)


@pytest.mark.parametrize(
    ("no_proxy", "host", "proxied"),
    [
        ("", "api.example.com", True),
        ("", "localhost", False),
        ("", "127.0.0.1", False),
        ("", "127.9.9.9", False),
        ("", "::1", False),
        ("*", "api.example.com", False),
        ("other.com,*", "api.example.com", False),
        ("example.com", "api.example.com", False),
        ("example.com", "example.com", False),
        ("example.com", "notexample.com", True),
        (".example.com", "api.example.com", False),
        (".example.com", "example.com", True),
        ("*.example.com", "api.example.com", False),
        ("*.example.com", "example.com", True),
        ("API.Example.COM", "api.example.com", False),
        (" other.com , api.example.com ", "api.example.com", False),
        ("api.example.com:6443", "api.example.com", False),
        ("api.example.com:443", "api.example.com", True),
        (":6443", "api.example.com", True),
        ("10.0.0.0/8", "10.1.2.3", False),
        ("10.0.0.0/8", "11.1.2.3", True),
        ("10.1.2.3", "10.1.2.3", False),
        ("10.1.2.3:6443", "10.1.2.3", False),
        ("10.1.2.3:443", "10.1.2.3", True),
        ("10.0.0.0/8", "ten.example.com", True),
        ("fd00::/8", "fd00::1", False),
        ("[fd00::1]:6443", "fd00::1", False),
        ("[fd00::1]:443", "fd00::1", True),
        ("fd00::1", "fd00::1", False),
        ("fd00::2", "fd00::1", True),
        ("10.1.2", "10.1.2.3", True),
        ("10.0.0.0/99", "10.1.2.3", True),
        (",,", "api.example.com", True),
        ("com", "api.example.com", False),
    ],
)
def test_no_proxy_is_read_by_gos_rules(no_proxy: str, host: str, proxied: bool) -> None:
    """Host, suffix, address, range, port, star; loopback is never proxied."""
    environ = {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": no_proxy}
    found = proxy_from(environ, scheme="https", host=host, port=6443)
    assert (found is not None) is proxied


@pytest.mark.parametrize(
    ("environ", "shown"),
    [
        ({"HTTPS_PROXY": "proxy"}, "http://proxy:80"),
        ({"HTTPS_PROXY": "proxy:3128"}, "http://proxy:3128"),
        ({"https_proxy": "https://proxy"}, "https://proxy:443"),
        ({"HTTPS_PROXY": "", "https_proxy": "http://lower:1"}, "http://lower:1"),
        ({"HTTPS_PROXY": "http://upper:1", "https_proxy": "http://lower:1"}, "http://upper:1"),
        ({"HTTPS_PROXY": "socks5://proxy"}, "socks5://proxy:1080"),
        ({"HTTPS_PROXY": "http://[fd00::1]:3128"}, "http://[fd00::1]:3128"),
        ({"HTTP_PROXY": "http://proxy:1"}, None),
        ({"ALL_PROXY": "http://proxy:1"}, None),
    ],
)
def test_the_proxy_of_the_environment_is_read_by_gos_rules(environ: dict[str, str], shown: str | None) -> None:
    """Upper case first, a missing scheme is http, HTTP_PROXY is for http and ALL_PROXY for nobody."""
    found = proxy_from(environ, scheme="https", host="api.example.com", port=6443)
    assert (None if found is None else found.shown) == shown


NO_PROXY_SAMPLE = ["", "*", "example.test", ".example.test", f"{NAME}:6443", f"{NAME}:1", "10.0.0.0/8", "test"]


@pytest.mark.parametrize("no_proxy", NO_PROXY_SAMPLE)
def test_no_proxy_is_read_as_kubectl_reads_it(desk: Desk, no_proxy: str) -> None:
    """A sample of the same rules, asked of kubectl: does it come to the proxy at all?"""
    with TunnelProxy("127.0.0.1:1") as proxy:
        proxy.refuse_with = b"HTTP/1.1 403 Forbidden\r\n\r\n"
        desk.environ.update({"HTTPS_PROXY": f"http://{proxy.address}", "NO_PROXY": no_proxy})
        desk.write(".kube/config", config(cluster={"server": f"https://{NAME}:6443"}))
        desk.kubectl("get", "--raw", "/version", "--request-timeout=5s")
        assert bool(proxy.asked) is (desk.resolve().proxy is not None)
