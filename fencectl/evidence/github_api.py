"""
Questions to GitHub's REST API, and what each answer that is none means.

A 404 means "missing or no access", a 403 "not allowed" or "rate limit". Each is told apart as far as GitHub does
so, and none of them says anything about a holder.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urljoin, urlsplit

from fencectl.core.times import age_text, clock_text
from fencectl.evidence.github_failures import UnansweredError, cut
from fencectl.evidence.github_settings import GitHubSettings, origin_of
from fencectl.evidence.github_wire import API_VERSION, Reply, Wire

MOST_REDIRECTS = 2
# Where GitHub does not say how long its rate limit lasts, its documentation asks for a minute.
UNSAID_LIMIT_S = 60.0
LONGEST_LIMIT_S = 3600.0

_REMEMBERED = 256
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_ETAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e]{1,200}"', re.ASCII)
_TARGET = re.compile(r"/[\x21\x23-\x7e]{0,2000}", re.ASCII)
_NEXT = re.compile(r';\s*rel="?next"?', re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Answered:
    """A JSON object, GitHub's clock when it was sent, and whether GitHub says that there is a next page."""

    value: Mapping[str, Any] = field(repr=False)
    date_at: datetime | None
    has_next: bool = False


class Memory:
    """
    What outlives one look: answers by ETag, and a rate limit that still holds. Safe for several threads.

    A limit is remembered so that a display that is refreshed does not ask on: GitHub bans who does.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: OrderedDict[str, tuple[str, Answered]] = OrderedDict()
        self._limit: tuple[float, UnansweredError] | None = None

    def recall(self, target: str) -> tuple[str, Answered] | None:
        """Return the ETag and the answer that were last seen there."""
        with self._lock:
            return self._answers.get(target)

    def keep(self, target: str, etag: str, answered: Answered) -> None:
        """Remember an answer; the oldest of too many are forgotten."""
        with self._lock:
            self._answers[target] = (etag, answered)
            self._answers.move_to_end(target)
            while len(self._answers) > _REMEMBERED:
                self._answers.popitem(last=False)

    def limited(self, for_s: float, error: UnansweredError) -> None:
        """Remember a rate limit."""
        with self._lock:
            self._limit = (time.monotonic() + min(for_s, LONGEST_LIMIT_S), error)

    def check_limit(self) -> None:
        """Raise the rate limit again, while it holds."""
        with self._lock:
            limit = self._limit
        if limit is not None and time.monotonic() < limit[0]:
            raise UnansweredError(limit[1].words, status=limit[1].status)


class Api:
    """The API over one connection. `now`: the time that people are shown, to say when a limit ends."""

    def __init__(self, settings: GitHubSettings, *, wire: Wire, memory: Memory, now: datetime) -> None:
        self._settings = settings
        self._wire = wire
        self._memory = memory
        self._now = now

    def get(self, path: str, *, query: str = "") -> Answered:
        """
        Return the JSON object at this path below the API's address.

        Raises UnansweredError. A redirect on the same host (a repository that was renamed) is followed twice.
        """
        self._memory.check_limit()
        target = f"{self._settings.api.path}{path}" + (f"?{query}" if query else "")
        for _ in range(MOST_REDIRECTS + 1):
            known = self._memory.recall(target)
            reply = self._wire.get(target, etag=known[0] if known else None)
            if reply.status == 304 and known is not None:
                return Answered(known[1].value, _date(reply), known[1].has_next)
            if reply.status == 200:
                return self._answered(target, reply)
            if reply.status not in _REDIRECTS:
                raise self._refusal(reply)
            target = self._same_host(target, reply)
        raise UnansweredError(f"{reply.status}: redirected more than twice", status=reply.status)

    def _answered(self, target: str, reply: Reply) -> Answered:
        value = _json(reply.body)
        if not isinstance(value, dict):
            raise UnansweredError("an answer that is no JSON object")
        answered = Answered(value, _date(reply), _NEXT.search(reply.headers.get("link", "")) is not None)
        etag = reply.headers.get("etag", "")
        if _ETAG.fullmatch(etag):
            self._memory.keep(target, etag, answered)
        return answered

    def _same_host(self, target: str, reply: Reply) -> str:
        """Return where a redirect leads, as long as that is on the very host that was asked."""
        location, api = reply.headers.get("location", ""), self._settings.api
        try:
            parts = urlsplit(urljoin(f"{api.scheme}://{api.authority}{target}", location))
        except ValueError:
            raise UnansweredError(f"{reply.status}: redirected to what is no URL", status=reply.status) from None
        to = origin_of(f"{parts.scheme}://{parts.netloc}")
        if to is None or (to.scheme, to.host, to.port) != (api.scheme, api.host, api.port):
            whither = cut(parts.netloc.rpartition("@")[2] or "nowhere")
            raise UnansweredError(
                f"{reply.status}: redirected to another host ({whither}), which was not followed",
                status=reply.status,
            )
        onward = parts.path + (f"?{parts.query}" if parts.query else "")
        if not _TARGET.fullmatch(onward):
            raise UnansweredError(f"{reply.status}: redirected to what is no URL", status=reply.status)
        return onward

    def _refusal(self, reply: Reply) -> UnansweredError:
        status, message = reply.status, _message(reply)
        limit = self._limit(reply, message)
        if limit is not None:
            return limit
        if status == 401:
            words = "the token is not valid, or has expired"
        elif status == 403 and "x-github-sso" in reply.headers:
            words = "the token is not authorised for the organisation's single sign-on"
        elif status == 403 and ("x-accepted-github-permissions" in reply.headers or "not accessible" in message):
            words = "the token lacks `actions: read`"
        elif status == 410:
            words = f"GitHub has retired version {API_VERSION} of its API"
        elif status >= 500:
            words = "GitHub itself failed"
        elif status == 404:
            words = "nothing there, or the token may not see it"
        else:
            words = f"GitHub said: {cut(message)}" if message else "an answer that was not expected"
        return UnansweredError(f"{status}: {words}", status=status)

    def _limit(self, reply: Reply, message: str) -> UnansweredError | None:
        headers = reply.headers
        said = "retry-after" in headers or headers.get("x-ratelimit-remaining") == "0" or "rate limit" in message
        if reply.status != 429 and not (reply.status == 403 and said):
            return None
        ends = "GitHub does not say until when"
        for_s = _seconds(headers.get("retry-after", ""), _date(reply) or self._now)
        if for_s is not None:
            ends = f"ask again in {age_text(for_s)}"
        elif (reset_at := _epoch(headers.get("x-ratelimit-reset", ""))) is not None:
            ends = f"it ends at {clock_text(reset_at, now=self._now)}"
            for_s = (reset_at - (_date(reply) or self._now)).total_seconds()
        error = UnansweredError(f"{reply.status}: rate limit, {ends}", status=reply.status)
        self._memory.limited(UNSAID_LIMIT_S if for_s is None else for_s, error)
        return error


def _json(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise UnansweredError("an answer that is no JSON") from None


def _message(reply: Reply) -> str:
    try:
        value = _json(reply.body)
    except UnansweredError:
        return ""
    message = value.get("message") if isinstance(value, dict) else None
    return message if isinstance(message, str) else ""


def _date(reply: Reply) -> datetime | None:
    """GitHub's own clock; None where it does not tell."""
    try:
        at = parsedate_to_datetime(reply.headers.get("date", ""))
    except (ValueError, OverflowError):
        return None
    return at.astimezone(UTC) if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _seconds(text: str, now: datetime) -> float | None:
    """Read `retry-after`: seconds, or a date."""
    if text.isascii() and text.isdigit() and len(text) <= 7:
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max(0.0, (at - now) / timedelta(seconds=1))


def _epoch(text: str) -> datetime | None:
    """Read seconds since 1970; twelve digits are beyond the year 9999."""
    if not (text.isascii() and text.isdigit() and len(text) <= 11):
        return None
    return datetime.fromtimestamp(int(text), UTC)
