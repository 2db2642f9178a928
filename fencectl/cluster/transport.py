"""
Requests to one API server: reads that are tried again where that is safe, and one way to send what is not.

Each thread has a connection of its own, kept open between requests. Redirects are never followed. A read that
gets 429 or 503 waits as long as the server asks, within its deadline. `send` is for the one module that writes:
it is never repeated, and tells "certainly not sent" from "may have been applied".
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from http.client import HTTPResponse
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import quote, urlencode

import msgspec

import fencectl
from fencectl.cluster.answer import Answer, retry_after, server_date
from fencectl.cluster.clock import Clock, SystemClock
from fencectl.cluster.credentials import KeyPair, Ticket, impersonation_headers
from fencectl.cluster.failures import (
    AnswerTooLarge,
    Kind,
    NoAnswer,
    Unauthorised,
    Unreachable,
    WireError,
)
from fencectl.cluster.inflate import Inflate, TooMuch
from fencectl.cluster.ports import Query
from fencectl.cluster.wire import Wire
from fencectl.core.errors import NotReadableError, UsageError

if TYPE_CHECKING:
    import ssl

    from fencectl.cluster.kubeconfig import Connection
    from fencectl.cluster.watching import Lines

_Found = TypeVar("_Found")
_Tried = TypeVar("_Tried")

CONNECT_TIMEOUT_S = 5.0
REQUEST_TIMEOUT_S = 30.0
TRIES = 3
PAUSES_S = (0.5, 1.5)
THROTTLED_TRIES = 8
LARGEST_ANSWER = 512_000_000


class Call(msgspec.Struct, frozen=True):
    """One request with the time it may take, all tries together."""

    method: str
    path: str
    target: str
    headers: tuple[tuple[str, str | bytes], ...]
    body: bytes | None
    started_s: float
    left_s: Callable[[], float]


class Opened(msgspec.Struct):
    """A connection on which a response has begun. Whoever holds it gives it back or closes it."""

    wire: Wire
    ticket: Ticket
    response: HTTPResponse
    sent_s: float

    @property
    def headers(self) -> dict[str, str]:
        """Return the response's headers, lower-case, several of one name joined."""
        found: dict[str, str] = {}
        for name, value in self.response.getheaders():
            key = name.lower()
            found[key] = f"{found[key]}, {value}" if key in found else value
        return found


class Transport:
    """The way to one API server, for any number of threads."""

    def __init__(
        self,
        connection: Connection,
        *,
        clock: Clock | None = None,
        request_timeout_s: float | None = None,
        largest_answer: int = LARGEST_ANSWER,
    ) -> None:
        self._to = connection
        self._clock = clock or SystemClock()
        self._timeout_s = request_timeout_s or REQUEST_TIMEOUT_S
        self._largest = largest_answer
        self._tickets = connection.login.source(self._clock)
        self._impersonation = impersonation_headers(connection.impersonation)
        self._idle: list[tuple[Wire, KeyPair | None]] = []
        self._lock = threading.Lock()
        self._closed = False
        self._tls: tuple[KeyPair | None, ssl.SSLContext] | None = None

    def __repr__(self) -> str:
        return f"Transport({self._to.context_name!r}, {self._to.server!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are not in use; one that is in use is closed when it is given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for wire, _ in idle:
            wire.close()

    def get(
        self,
        path: str,
        *,
        query: Query | None = None,
        accept: str = "application/json",
        deadline_s: float | None = None,
    ) -> Answer:
        """
        Return the server's answer, whatever its status, except 401.

        Raises `Unreachable`, `Unauthorised`, `AnswerTooLarge`, `CredentialsMissing`.
        """
        call = self._call("GET", path, query, accept=accept, deadline_s=deadline_s)
        for _ in range(THROTTLED_TRIES):
            answer = self._known(call, lambda: self._patiently(call, lambda: self._once(call)))
            pause_s = _pause_asked_for(answer)
            if pause_s is None or pause_s >= call.left_s():
                break
            self._clock.wait(None, pause_s)
        return answer

    def stream(
        self,
        path: str,
        *,
        query: Query | None = None,
        accept: str = "application/json",
        idle_s: float = 60.0,
    ) -> Lines:
        """
        Return the lines of a watch as they come, until the server ends it.

        A silence of more than `idle_s` raises `Unreachable` (kind `TIMEOUT`); an answer that is not 200 raises
        `StreamRefused`, which carries it. The connection is the stream's own and is closed with it.
        """
        from fencectl.cluster.watching import Lines, StreamRefused

        call = self._call("GET", path, query, accept=accept, deadline_s=None)

        def begin() -> tuple[Answer | Lines, Ticket]:
            opened = self._begin(call)
            if opened.response.status != 200:
                return self._finish(call, opened), opened.ticket
            lines = Lines(
                opened,
                idle_s=idle_s,
                clock=self._clock,
                unreachable=lambda error: self._unreachable(error, call, tries=1),
            )
            return lines, opened.ticket

        found = self._known(call, lambda: self._patiently(call, begin))
        if isinstance(found, Answer):
            raise StreamRefused(found, context=self._to.context_name, path=path)
        return found

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes,
        content_type: str,
        deadline_s: float | None = None,
    ) -> Answer:
        """
        Send a change once and return the answer. For the module that writes, and for nobody else.

        Raises `NoAnswer`, which knows whether the change may have been applied. Only a 401 is followed by a
        second try, with fresh credentials: the server has then certainly done nothing.
        """
        call = self._call(
            method,
            path,
            query,
            accept="application/json",
            deadline_s=deadline_s,
            body=body,
            content_type=content_type,
        )
        try:
            return self._known(call, lambda: self._once(call))
        except WireError as error:
            raise NoAnswer(self._unreachable(error, call, tries=1), sent=error.sent) from None
        except AnswerTooLarge as error:
            raise NoAnswer(error, sent=True) from None
        except (NotReadableError, UsageError) as error:
            # No credentials, refused ones, or ones that cannot be used: nothing was done.
            raise NoAnswer(error, sent=False) from None

    def _call(
        self,
        method: str,
        path: str,
        query: Query | None,
        *,
        accept: str,
        deadline_s: float | None,
        body: bytes | None = None,
        content_type: str | None = None,
    ) -> Call:
        target = self._to.endpoint.base_path + quote(path, safe="/:@!$&'()*+,;=~")
        if query:
            target += "?" + urlencode(list(query.items()))
        headers: list[tuple[str, str | bytes]] = [
            ("Accept", accept),
            ("User-Agent", f"fencectl/{fencectl.__version__}"),
        ]
        if self._to.compression:
            headers.append(("Accept-Encoding", "gzip"))
        if content_type is not None:
            headers.append(("Content-Type", content_type))
        headers.extend(self._impersonation)
        started_s = self._clock.monotonic_s()
        end_s = started_s + (self._timeout_s if deadline_s is None else deadline_s)
        return Call(
            method=method,
            path=path,
            target=target,
            headers=tuple(headers),
            body=body,
            started_s=started_s,
            left_s=lambda: end_s - self._clock.monotonic_s(),
        )

    def _known(self, call: Call, attempt: Callable[[], tuple[_Found, Ticket]]) -> _Found:
        """Try, and once more with fresh credentials when the server does not know who we are."""
        found, ticket = attempt()
        if _is_401(found) and self._tickets.renew(ticket, wait_s=call.left_s()):
            found, ticket = attempt()
        if _is_401(found):
            raise Unauthorised(
                context=self._to.context_name,
                server=self._to.server,
                user=self._to.user_name,
                flags=self._to.kubectl_flags,
            )
        return found

    def _patiently(self, call: Call, attempt: Callable[[], _Tried]) -> _Tried:
        """Try a read until it is answered, at most `TRIES` times over fresh connections."""
        tries = 0
        while True:
            try:
                return attempt()
            except WireError as error:
                if error.stale:
                    # The server hung up on an idle connection: not a failure, and the next one is another.
                    continue
                tries += 1
                pause_s = PAUSES_S[min(tries, len(PAUSES_S)) - 1]
                if not error.passing or tries >= TRIES or pause_s >= call.left_s():
                    raise self._unreachable(error, call, tries=tries) from None
            self._clock.wait(None, pause_s)

    def _once(self, call: Call) -> tuple[Answer, Ticket]:
        opened = self._begin(call)
        return self._finish(call, opened), opened.ticket

    def _begin(self, call: Call) -> Opened:
        ticket = self._tickets.ticket(wait_s=call.left_s())
        headers = list(call.headers)
        if ticket.authorization is not None:
            headers.append(("Authorization", ticket.authorization))
        wire, reused = self._take_wire(ticket.key_pair)
        try:
            reused = not wire.connect(connect_timeout_s=CONNECT_TIMEOUT_S, left_s=call.left_s) and reused
            sent_s = self._clock.monotonic_s()
            response = wire.request(call.method, call.target, headers=headers, body=call.body, left_s=call.left_s)
        except WireError as error:
            error.stale = reused and error.sent and error.kind is Kind.RESET
            raise
        return Opened(wire=wire, ticket=ticket, response=response, sent_s=sent_s)

    def _finish(self, call: Call, opened: Opened) -> Answer:
        """Read the whole body and give the connection back."""
        wire, response = opened.wire, opened.response
        headers = opened.headers
        inflate = Inflate(encoding=headers.get("content-encoding", ""), limit=self._largest)
        parts: list[bytes] = []
        wire_bytes = 0
        try:
            while data := wire.read(response):
                wire_bytes += len(data)
                parts.append(inflate.feed(data))
            if not inflate.complete:
                wire.close()
                raise WireError(Kind.RESET, "a gzip stream that was cut off", sent=True)
        except TooMuch:
            wire.close()
            raise AnswerTooLarge(context=self._to.context_name, path=call.path, limit=self._largest) from None
        except zlib.error:
            wire.close()
            raise WireError(Kind.RESET, "a broken gzip stream", sent=True) from None
        received_s = self._clock.monotonic_s()
        self._give_back(wire, opened.ticket.key_pair)
        return Answer(
            status=response.status,
            headers=headers,
            body=b"".join(parts),
            date_at=server_date(headers),
            sent_s=opened.sent_s,
            received_s=received_s,
            wire_bytes=wire_bytes,
        )

    def _take_wire(self, key_pair: KeyPair | None) -> tuple[Wire, bool]:
        with self._lock:
            while self._idle:
                wire, proven_by = self._idle.pop()
                if proven_by == key_pair:
                    return wire, True
                # The certificate was rotated: the old connection still speaks for the old one.
                wire.close()
        tls = self._to.tls
        return Wire(
            self._to.endpoint,
            proxy=self._to.proxy,
            tls=None if tls is None else self._tls_context(key_pair),
            server_name="" if tls is None else tls.server_name,
        ), False

    def _give_back(self, wire: Wire, key_pair: KeyPair | None) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append((wire, key_pair))
                return
        # NB: a thread that was given up may still come back with it, long after the end.
        wire.close()

    def _tls_context(self, key_pair: KeyPair | None) -> ssl.SSLContext:
        from fencectl.cluster.tls import build_context

        assert self._to.tls is not None  # noqa: S101 - asked for TLS only
        with self._lock:
            if self._tls is None or self._tls[0] != key_pair:
                self._tls = (key_pair, build_context(self._to.tls, key_pair))
            return self._tls[1]

    def _unreachable(self, error: WireError, call: Call, *, tries: int) -> Unreachable:
        return Unreachable(
            error,
            context=self._to.context_name,
            server=self._to.server,
            tries=tries,
            elapsed_s=self._clock.monotonic_s() - call.started_s,
            flags=self._to.kubectl_flags,
        )


def _is_401(found: object) -> bool:
    return isinstance(found, Answer) and found.status == 401


def _pause_asked_for(answer: Answer) -> float | None:
    """Return how long to wait before a read is tried again; `None`: the answer stands."""
    asked_s = retry_after(answer.headers)
    if answer.status in (429, 503):
        return 1.0 if asked_s is None else max(asked_s, 0.1)
    return asked_s if answer.status >= 500 else None
