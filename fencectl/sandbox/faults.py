"""
Faults that a test scripts in one line each.

A fault matches requests by verb, resource, name, namespace, user or path; it lets the first `after` matches
pass and strikes `times` times (None: always). Nothing sleeps: delays follow the sandbox's clock or a gate.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fencectl.sandbox.clock import SandboxClock
from fencectl.sandbox.gojson import encode
from fencectl.sandbox.requests import Action, Request, Response
from fencectl.sandbox.status import StatusError
from fencectl.sandbox.storage import Storage

THROTTLED = "Too many requests, please try again later."
_REASONS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Expired",
    422: "Invalid", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


class Gate:
    """Something that a test opens once."""

    def __init__(self) -> None:
        self._open = threading.Event()

    def open(self) -> None:
        self._open.set()

    @property
    def is_open(self) -> bool:
        return self._open.is_set()

    def wait(self, *, stop: threading.Event) -> None:
        # NB: two events cannot be waited for at once, so `stop` is looked at now and then.
        while not self._open.wait(0.02) and not stop.is_set():
            pass


@dataclass(slots=True)
class Fault:
    """One scripted fault. `hits` counts how often it struck."""

    kind: str
    verb: str | None = None
    resource: str | None = None
    name: str | None = None
    namespace: str | None = None
    subresource: str | None = None
    user: str | None = None
    path: str | None = None
    after: int = 0
    times: int | None = None
    response: Response | None = None
    seconds: float = 0.0
    gate: Gate | None = None
    action: Callable[..., Any] | None = None
    hits: int = 0
    cancelled: bool = False
    arrived: threading.Event = field(default_factory=threading.Event)

    def cancel(self) -> None:
        """Strike no more; what it holds goes on."""
        self.cancelled = True
        if self.gate:
            self.gate.open()

    def release(self) -> None:
        """Let go of what it holds."""
        if self.gate:
            self.gate.open()

    def matches(self, action: Action, request: Request, user: str) -> bool:
        if self.cancelled:
            return False
        wanted = (
            (self.verb, action.verb),
            (self.resource, action.resource),
            (self.name, action.name),
            (self.namespace, action.namespace),
            (self.subresource, action.subresource),
            (self.user, user),
        )
        if any(want is not None and want != have for want, have in wanted):
            return False
        return self.path is None or self.path in request.path


@dataclass(slots=True)
class Faults:
    """The faults of one sandbox, in the order in which they were scripted."""

    storage: Storage
    clock: SandboxClock
    stop: threading.Event = field(default_factory=threading.Event)
    _faults: list[Fault] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def _add(self, fault: Fault) -> Fault:
        with self._lock:
            self._faults.append(fault)
        return fault

    def refuse(
        self,
        *,
        status: int = 503,
        retry_after: int | None = None,
        body: Any = None,
        message: str = "",
        **match: Any,
    ) -> Fault:
        """Answer with this status instead. `body`: an object, or text that is sent as plain text."""
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        if isinstance(body, str | bytes):
            data = body.encode() if isinstance(body, str) else body
            response = Response(status, {"Content-Type": "text/plain; charset=utf-8", **headers}, data)
        else:
            if body is None:
                details = {"retryAfterSeconds": retry_after} if retry_after is not None else None
                text = message or f"scripted refusal with status {status}"
                body = StatusError(status, reason=_REASONS.get(status, ""), message=text, details=details).body
            response = Response(status, {"Content-Type": "application/json", **headers}, encode(body).encode())
        return self._add(Fault("refuse", response=response, **match))

    def throttle(self, *, retry_after: int = 1, **match: Any) -> Fault:
        """Answer as priority and fairness does: 429 with plain text."""
        return self.refuse(status=429, retry_after=retry_after, body=THROTTLED + "\n", **match)

    def delay(self, seconds: float = 0.0, *, gate: Gate | None = None, **match: Any) -> Fault:
        """Hold a request before it is carried out, for seconds of the sandbox's clock or until `gate` opens."""
        return self._add(Fault("delay", seconds=seconds, gate=gate, **match))

    def drop_before(self, **match: Any) -> Fault:
        """Close the connection; nothing was carried out."""
        return self._add(Fault("drop_before", **match))

    def drop_after(self, **match: Any) -> Fault:
        """Carry the request out, then close the connection: the answer is lost."""
        return self._add(Fault("drop_after", **match))

    def hang(self, **match: Any) -> Fault:
        """Take the request and never answer, until the fault is released; it is not carried out."""
        return self._add(Fault("hang", gate=Gate(), **match))

    def on(self, action: Callable[[], Any], **match: Any) -> Fault:
        """Run `action` between the read and the write of a matching change."""
        match.setdefault("times", 1)
        return self._add(Fault("on", action=action, **match))

    def expire(self) -> None:
        """Forget the history: every page token and every watch so far is too old."""
        self.storage.compact()

    def clear(self) -> None:
        """Take all faults away."""
        with self._lock:
            faults, self._faults = self._faults, []
        for fault in faults:
            fault.cancel()

    def strike(self, kinds: tuple[str, ...], *, action: Action, request: Request, user: str) -> list[Fault]:
        """Count a request and return the faults that strike it."""
        struck = []
        with self._lock:
            for fault in self._faults:
                if fault.kind not in kinds or not fault.matches(action, request, user):
                    continue
                if fault.after > 0:
                    fault.after -= 1
                    continue
                if fault.times is not None and fault.hits >= fault.times:
                    continue
                fault.hits += 1
                struck.append(fault)
        for fault in struck:
            fault.arrived.set()
        return struck

    def before(self, *, action: Action, request: Request, user: str) -> Response | None:
        """Let the faults before a request strike; a response ends it."""
        kinds = ("refuse", "delay", "drop_before", "hang")
        # NB: taken once, because stopping replaces it.
        stop = self.stop
        for fault in self.strike(kinds, action=action, request=request, user=user):
            made = fault.response
            if made is not None:
                return Response(made.status, dict(made.headers), made.body)
            if fault.kind == "drop_before":
                return Response(drop=True)
            if fault.gate is not None:
                fault.gate.wait(stop=stop)
            else:
                self.clock.wait_until(self.clock.monotonic_s() + fault.seconds, stop=stop)
            if fault.kind == "hang" or stop.is_set():
                return Response(drop=True)
        return None
