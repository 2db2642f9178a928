"""
Single reads: what was asked, and in words of the report why it was not answered.

Every answer's `Date` is kept, so that a report has the server's clock and can say how far ours is off.
"""

from __future__ import annotations

import re
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from fencectl.cluster.answer import Answer, read_refusal
from fencectl.cluster.clock import Clock
from fencectl.cluster.failures import Kind, Unauthorised, Unreachable
from fencectl.cluster.kinds import ListedKind
from fencectl.cluster.ports import Getter
from fencectl.cluster.structs import BadPageError, decode_object
from fencectl.core.errors import NotReadableError
from fencectl.core.refs import dig

JSON = "application/json"
UNDECODABLE = "the answer could not be decoded"

_NAME = re.compile(r"[A-Za-z0-9_:-][A-Za-z0-9._:-]*", re.ASCII)
_USER = re.compile(r'User "((?:[^"\\]|\\.)*)" cannot ')


class ReadFailedError(Exception):
    """
    One read that gave no usable answer.

    `why` is the clause for the report. `total`: the sentence for all reads, where this one failed for a reason
    that concerns them all (nobody answers, the credentials are not known). `status`: of the answer, where there
    was one that says why.
    """

    def __init__(self, why: str, *, total: NotReadableError | None = None, status: int | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.total = total
        self.status = status


class Asked(Struct, frozen=True):
    """What a read needs permission for: `list` `nodes`, over the cluster or in one namespace."""

    verb: str
    resource: str
    namespace: str | None = None

    @property
    def scope(self) -> str:
        return f"(namespace {self.namespace})" if self.namespace else "(cluster scope)"


class ServerClock:
    """
    The server's clock, as far as answers prove it.

    A `Date` says the second in which the server answered, and that second lies between our sending and our
    receiving. So each answer bounds the difference, and all of them together bound it best.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: datetime | None = None
        self._least_s = float("-inf")
        self._most_s = float("inf")

    def saw(self, date_at: datetime, *, sent_at: datetime, received_at: datetime) -> None:
        """Take in one answer; both times of ours are of the local wall clock."""
        most_s = (received_at - date_at).total_seconds()
        least_s = (sent_at - date_at - timedelta(seconds=1)).total_seconds()
        with self._lock:
            self._latest = date_at if self._latest is None else max(date_at, self._latest)
            self._least_s = max(self._least_s, least_s)
            self._most_s = min(self._most_s, most_s)

    @property
    def latest(self) -> datetime | None:
        """The newest `Date` that was seen."""
        return self._latest

    @property
    def skew_s(self) -> float | None:
        """Ours minus the server's: the smallest difference that all answers agree with; None without answers."""
        if self._latest is None:
            return None
        if self._least_s > self._most_s:
            # One of the clocks was set meanwhile, or several servers answer; the middle is as good as any.
            return (self._least_s + self._most_s) / 2
        return min(max(0.0, self._least_s), self._most_s)


class Reads:
    """GET requests of one observation, bounded by one deadline."""

    def __init__(self, getter: Getter, *, clock: Clock, deadline_s: float) -> None:
        self._getter = getter
        self._clock = clock
        self._deadline_s = deadline_s
        self._ends_s = clock.monotonic_s() + deadline_s
        self._answered = threading.Event()
        self.server_clock = ServerClock()

    @property
    def any_answer(self) -> bool:
        """Whether the server has answered anything yet (401 is not an answer)."""
        return self._answered.is_set()

    @property
    def no_answer(self) -> str:
        """The clause for what the deadline cut off."""
        return f"no answer within {self._deadline_s:g}s"

    def left_s(self) -> float:
        """Seconds until the deadline."""
        return self._ends_s - self._clock.monotonic_s()

    def get(self, path: str, *, asked: Asked, query: dict[str, str] | None = None, accept: str = JSON) -> Answer:
        """Send one request; an answer comes back for 200, 404 and 410, all else raises ReadFailedError."""
        left_s = self.left_s()
        if left_s <= 0:
            raise ReadFailedError(self.no_answer)
        sent_at = self._clock.wall()
        try:
            answer = self._getter.get(path, query=query, accept=accept, deadline_s=left_s)
        except NotReadableError as failed:
            status = 401 if isinstance(failed, Unauthorised) else None
            raise ReadFailedError(self._why_not_read(failed), total=failed, status=status) from failed
        if answer.date_at is not None:
            self.server_clock.saw(answer.date_at, sent_at=sent_at, received_at=self._clock.wall())
        self._answered.set()
        if answer.status in (200, 404, 410):
            return answer
        raise ReadFailedError(_why_status(answer, asked), status=answer.status)

    def object_or_none(self, path: str, *, asked: Asked) -> dict[str, Any] | None:
        """Read one object by name; None where there is none."""
        answer = self.get(path, asked=asked)
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise ReadFailedError(_why_status(answer, asked), status=answer.status)
        try:
            obj = decode_object(answer.body)
        except BadPageError as bad:
            raise ReadFailedError(UNDECODABLE) from bad
        if not isinstance(dig(obj, "metadata", "name"), str):
            raise ReadFailedError(UNDECODABLE)
        return obj

    def named(self, kind: ListedKind, namespace: str | None, name: str) -> dict[str, Any] | None:
        """Read one object of a kind by name; None where there is none."""
        scope = f"/namespaces/{path_part(namespace)}" if namespace else ""
        path = f"{kind.root}{scope}/{kind.plural}/{path_part(name)}"
        return self.object_or_none(path, asked=Asked("get", kind.resource, namespace))

    def _why_not_read(self, failed: NotReadableError) -> str:
        if isinstance(failed, Unauthorised):
            return "401: the credentials were not accepted"
        if isinstance(failed, Unreachable):
            if failed.kind is Kind.TIMEOUT:
                return self.no_answer if self.left_s() <= 1 else f"no answer within {failed.elapsed_s:.0f}s"
            tries = "1 try" if failed.tries == 1 else f"{failed.tries} tries"
            return f"{failed.kind.value}, {tries} in {failed.elapsed_s:.0f}s"
        return failed.sentence


def path_part(name: str) -> str:
    """Check a name off the cluster before it becomes part of a path; no API server accepts any other."""
    if not _NAME.fullmatch(name):
        raise ReadFailedError(UNDECODABLE)
    return name


def utc_now(clock: Clock) -> datetime:
    """Return the local wall clock to the second, as the server's would be."""
    return clock.wall().astimezone(UTC).replace(microsecond=0)


def _why_status(answer: Answer, asked: Asked) -> str:
    refusal = read_refusal(answer)
    if answer.status == 403:
        user = _USER.search(refusal.message)
        who = f"user {_unquoted(user.group(1))} " if user else ""
        return f"forbidden: {who}may not `{asked.verb}` {asked.resource} {asked.scope}"
    return f"{answer.status}: {refusal.message}"


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
