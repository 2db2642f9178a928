"""
The way to GitHub.

Aspects: what is sent, and to whom · TLS that is checked · proxies by Go's rules · what is no HTTP.
"""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import fencectl
from fencectl.core.facts import State
from fencectl.evidence.github_failures import UnansweredError
from fencectl.evidence.github_proxy import Proxy, proxy_for
from fencectl.evidence.github_settings import origin_of
from fencectl.evidence.github_wire import Deadline, Trust, Wire
from fencectl.evidence.github_workers import each_within
from tests.evidence.github_desk import ATTEMPT, JOB, JOB_PATH, RUN, ask, settings, subject
from tests.support.github import TOKEN, LoopbackGitHub

TO = "https://api.github.com"
# NB: a name that is no loopback, so that a proxy is used; nobody looks it up.
NOWHERE = "https://ghe.invalid"
BEHIND = {"GITHUB_API_URL": f"{NOWHERE}/api/v3", "GITHUB_SERVER_URL": NOWHERE}


def test_request_names_version_program_and_token(github: LoopbackGitHub) -> None:
    """What GitHub asks of its callers, and no more."""
    github.job(RUN, ATTEMPT, JOB)
    ask(github)
    (asked,) = github.asked
    assert dict(asked.headers) == {
        "host": f"127.0.0.1:{github.port}",
        "accept": "application/vnd.github+json",
        "accept-encoding": "identity",
        "authorization": f"Bearer {TOKEN}",
        "user-agent": f"fencectl/{fencectl.__version__}",
        "x-github-api-version": "2022-11-28",
    }


def test_token_goes_over_tls_that_is_trusted(github_tls: LoopbackGitHub) -> None:
    """An Enterprise Server with a CA of its own, in SSL_CERT_FILE."""
    github_tls.job(RUN, ATTEMPT, JOB)
    assert github_tls.url.startswith("https://")
    assert ask(github_tls).state is State.ENDED
    assert github_tls.asked[0].authorization == f"Bearer {TOKEN}"


def test_certificate_that_is_not_trusted_gets_no_token(github_tls: LoopbackGitHub) -> None:
    """Without the CA: the connection ends before anything was asked."""
    fact = ask(github_tls, env={"SSL_CERT_FILE": ""})
    assert fact.state is State.UNKNOWN
    assert fact.answer.startswith("TLS failure: the certificate is not accepted (")
    assert github_tls.asked == []


def test_certificate_for_another_name_gets_no_token(github_tls: LoopbackGitHub) -> None:
    """Trusted, but for 127.0.0.1 only."""
    fact = ask(github_tls, env={"GITHUB_API_URL": f"https://localhost:{github_tls.port}"})
    assert fact.answer.startswith("TLS failure: the certificate is not accepted (")
    assert github_tls.asked == []


@pytest.mark.parametrize("text", [None, "no certificate"])
def test_trusted_certificates_that_cannot_be_read_are_said(
    github_tls: LoopbackGitHub, tmp_path: Path, text: str | None
) -> None:
    """A file that is not there, or holds something else."""
    file = tmp_path / "ca.pem"
    if text is not None:
        file.write_text(text)
    fact = ask(github_tls, env={"SSL_CERT_FILE": str(file)})
    assert fact.answer == "TLS failure: SSL_CERT_FILE or SSL_CERT_DIR cannot be read"


def test_server_without_tls_is_said(github: LoopbackGitHub) -> None:
    """An https URL whose port speaks plain HTTP."""
    fact = ask(github, env={"GITHUB_API_URL": f"https://127.0.0.1:{github.port}"})
    assert fact.state is State.UNKNOWN
    assert fact.answer.startswith("TLS failure: ")
    assert github.asked == []


def test_name_that_cannot_be_looked_up_is_said(github: LoopbackGitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """No such name, or no name server."""

    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert (
        ask(github, subject(server_url=NOWHERE), env=BEHIND).answer == "the name ghe.invalid cannot be looked up"
    )


def test_name_that_can_be_none_is_said(github: LoopbackGitHub) -> None:
    """Two dots in a row."""
    env = {"GITHUB_API_URL": "https://ghe..invalid/api/v3", "GITHUB_SERVER_URL": "https://ghe..invalid"}
    about = subject(server_url="https://ghe..invalid")
    assert ask(github, about, env=env).answer == "the name ghe..invalid cannot be looked up"


class Listener:
    """Answers every connection with the same bytes, or forwards what a proxy is asked to; keeps the first line."""

    def __init__(self, reply: bytes, *, to_port: int | None = None) -> None:
        self.reply = reply
        self.heads: list[bytes] = []
        self._to_port = to_port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._open: list[socket.socket] = []
        self.dripped = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for sock in self._open:
            sock.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self._listening.accept()
                self._open.append(sock)
                threading.Thread(target=self._answer, args=(sock,), daemon=True).start()

    def _answer(self, sock: socket.socket) -> None:
        with suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head and (data := sock.recv(65536)):
                head += data
            self.heads.append(head)
            sock.sendall(self.reply)
            if self._to_port is None:
                sock.shutdown(socket.SHUT_RDWR)
                sock.close()
                return
            onward = socket.create_connection(("127.0.0.1", self._to_port))
            self._open.append(onward)
            threading.Thread(target=self._pump, args=(onward, sock), daemon=True).start()
            self._pump(sock, onward)

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


@pytest.fixture
def listeners() -> Iterator[list[Listener]]:
    """Listeners to be closed afterwards."""
    made: list[Listener] = []
    yield made
    for listener in made:
        listener.close()


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "an answer that is no HTTP"),
        (b"HTTP/1.1 abc\r\n\r\n", "an answer that is no HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n", "an answer that is no HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", "an answer that is no HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}", "an answer that was cut off"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n", "an answer that was cut off"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}", "an answer that was cut off"),
        (b"HTTP/1.1 200 OK\r\n\r\n{}", "an answer without the shape of a job"),
        (
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
            "an answer without the shape of a job",
        ),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", "an answer without the shape of a job"),
        (b"", "the connection broke"),
    ],
)
def test_answer_that_is_no_whole_http_is_unknown(
    github: LoopbackGitHub, listeners: list[Listener], reply: bytes, said: str
) -> None:
    """Another program on that port, a head without end, a body that breaks off."""
    listener = Listener(reply)
    listeners.append(listener)
    fact = ask(github, env={"GITHUB_API_URL": f"http://127.0.0.1:{listener.port}"})
    assert (fact.state, fact.answer) == (State.UNKNOWN, said)


class Dripping(Listener):
    """Sends the beginning of an answer, and then a byte at a time without end."""

    def _answer(self, sock: socket.socket) -> None:
        with suppress(OSError):
            sock.recv(65536)
            sock.sendall(self.reply)
            while True:
                sock.sendall(b" ")
                self.dripped.wait(0.02)


@pytest.mark.parametrize("reply", [b"HTTP/1.1 200 OK\r\nX-Long:", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_server_that_sends_a_byte_at_a_time_is_given_up_in_time(
    github: LoopbackGitHub, listeners: list[Listener], reply: bytes
) -> None:
    """No single read takes long, in the head or in the body; all together they would take for ever."""
    listener = Dripping(reply)
    listeners.append(listener)
    env = {"GITHUB_API_URL": f"http://127.0.0.1:{listener.port}"}
    assert ask(github, env=env, deadline_s=0.3).answer == "no answer within 0.3s"
    for thread in threading.enumerate():
        if thread.name == "fencectl-github":
            thread.join(5.0)
            assert not thread.is_alive()


# Proxies.


@pytest.mark.parametrize(
    ("environ", "to", "proxy"),
    [
        ({}, TO, None),
        ({"HTTPS_PROXY": "http://proxy.example:3128"}, TO, ("proxy.example", 3128)),
        ({"https_proxy": "http://proxy.example:3128"}, TO, ("proxy.example", 3128)),
        ({"HTTPS_PROXY": "http://a:1", "https_proxy": "http://b:2"}, TO, ("a", 1)),
        ({"HTTPS_PROXY": "proxy.example:3128"}, TO, ("proxy.example", 3128)),
        ({"HTTPS_PROXY": "http://proxy.example"}, TO, ("proxy.example", 80)),
        ({"HTTP_PROXY": "http://proxy.example:3128"}, TO, None),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "*"}, TO, None),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "github.com"}, TO, None),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "x, .github.com ,y"}, TO, None),
        ({"HTTPS_PROXY": "http://a:1", "no_proxy": "*.github.com"}, TO, None),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "API.GitHub.com:443"}, TO, None),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "api.github.com:8443"}, TO, ("a", 1)),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "hub.com,api.github.com.example,,"}, TO, ("a", 1)),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "10.0.0.0/8"}, "https://10.1.2.3", None),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "10.0.0.0/8"}, "https://11.1.2.3", ("a", 1)),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "10.0.0.0/99,10.1.2.3"}, "https://10.1.2.3", None),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "[fd00::1]:443"}, "https://[fd00::1]", None),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "fd00::1"}, "https://[fd00::1]", None),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "name"}, "https://[fd00::1]", ("a", 1)),
        ({"HTTPS_PROXY": "http://a:1"}, "https://127.0.0.1:8443", None),
        ({"HTTPS_PROXY": "http://a:1"}, "https://localhost", None),
    ],
)
def test_proxy_is_chosen_by_gos_rules(environ: dict[str, str], to: str, proxy: tuple[str, int] | None) -> None:
    """As `gh` would on the same machine."""
    origin = origin_of(to)
    assert origin is not None
    found = proxy_for(environ, origin)
    assert (found and (found.host, found.port)) == proxy


@pytest.mark.parametrize("url", ["socks5://a:1", "https://a:1", "http://", "http://a:port", "http://[::1"])
def test_proxy_that_cannot_be_spoken_to_is_not_gone_past(url: str) -> None:
    """Whoever set it up does not want a direct connection."""
    origin = origin_of(TO)
    assert origin is not None
    with pytest.raises(UnansweredError, match="HTTPS_PROXY"):
        proxy_for({"HTTPS_PROXY": url}, origin)


def test_proxy_with_a_password_shows_it_to_nobody() -> None:
    """It is in a header, and in no representation."""
    origin = origin_of(TO)
    assert origin is not None
    found = proxy_for({"HTTPS_PROXY": "http://user:p%40ss-7f41@a:1"}, origin)
    assert isinstance(found, Proxy)
    assert found.authorization == "Basic " + base64.b64encode(b"user:p@ss-7f41").decode()
    assert "7f41" not in repr(found)


def test_request_through_a_proxy_is_a_tunnel_with_tls_in_it(
    github_tls: LoopbackGitHub, listeners: list[Listener]
) -> None:
    """The proxy sees where to, and no token; the certificate is checked for the name behind it."""
    proxy = Listener(b"HTTP/1.1 200 Connection established\r\n\r\n", to_port=github_tls.port)
    listeners.append(proxy)
    url = f"http://user:secret-7f41@127.0.0.1:{proxy.port}"
    fact = ask(github_tls, subject(server_url=NOWHERE), env=BEHIND | {"HTTPS_PROXY": url})
    assert fact.answer.startswith("TLS failure: the certificate is not accepted (")
    assert "7f41" not in repr(fact)
    (head,) = proxy.heads
    assert head.startswith(b"CONNECT ghe.invalid:443 HTTP/1.")
    assert b"Proxy-Authorization: Basic " in head
    assert TOKEN.encode() not in head


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "the proxy of HTTPS_PROXY refused: 407"),
        (b"HTTP/1.1 403 Forbidden " + TOKEN.encode() + b"\r\n\r\n", "the proxy of HTTPS_PROXY refused: 403"),
        (b"", "the connection broke"),
    ],
)
def test_proxy_that_refuses_is_said(
    github: LoopbackGitHub, listeners: list[Listener], reply: bytes, said: str
) -> None:
    """It is not gone past, and not quoted."""
    proxy = Listener(reply)
    listeners.append(proxy)
    about = subject(server_url=NOWHERE)
    fact = ask(github, about, env=BEHIND | {"HTTPS_PROXY": f"http://127.0.0.1:{proxy.port}"})
    assert (fact.state, fact.answer) == (State.UNKNOWN, said)
    assert JOB_PATH not in str(proxy.heads)


def test_fault_of_our_own_is_raised_where_it_can_be_seen(github: LoopbackGitHub) -> None:
    """A thread must not swallow it: the holder would be unknown for ever, and nobody would know why."""

    def broken(_: Wire) -> None:
        raise ZeroDivisionError

    found = settings(github)
    deadline = Deadline(10.0)
    with pytest.raises(ZeroDivisionError):
        each_within(
            {"one": broken, "other": broken},
            open_wire=lambda: Wire(found, trust=Trust(found), deadline=deadline),
            deadline=deadline,
            threads=2,
        )
