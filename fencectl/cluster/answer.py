"""What an API server said: status, headers, body, and when; and the error in it, cut to what may be shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

_SHOWN_TEXT = 200
_CUT = "the server's reason is left out, since it may quote a whole object"
# A quote that Go escaped is inside of what it quotes.
_CLOSING_QUOTE = re.compile(r'(?<!\\)": ')


@dataclass(frozen=True, slots=True)
class Answer:
    """
    One whole answer, whatever its status.

    `headers` have lower-case names, several of one name joined by `, `. `date_at` is the server's clock.
    `sent_s` and `received_s` are readings of `Clock.monotonic_s` around the request that was answered.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    date_at: datetime | None
    sent_s: float
    received_s: float
    wire_bytes: int = 0

    @property
    def ok(self) -> bool:
        """Whether the server did what was asked."""
        return 200 <= self.status < 300


class Cause(msgspec.Struct, frozen=True):
    """One reason among several: which field, and what kind of reason."""

    field: str
    reason: str
    message: str


class Refusal(msgspec.Struct, frozen=True):
    """
    An error answer, read. `message` is the server's text, which is foreign: escape it before it is shown.

    `reason` is the API's word (`Forbidden`, `Conflict`, `Expired`, ...), empty where the answer is plain text.
    """

    code: int
    reason: str
    message: str
    name: str = ""
    group: str = ""
    kind: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_s: float | None = None
    continue_token: str = ""


def read_refusal(answer: Answer) -> Refusal:
    """Return what an error answer says, never whole objects that it may quote."""
    raw = _json(answer)
    retry_after_s = retry_after(answer.headers)
    if raw is None or raw.get("kind") != "Status":
        return Refusal(answer.status, "", _plain(answer), retry_after_s=retry_after_s)
    details = raw.get("details")
    details = details if isinstance(details, dict) else {}
    metadata = raw.get("metadata")
    return Refusal(
        code=answer.status,
        reason=_text(raw, "reason"),
        message=cut_message(_text(raw, "message")),
        name=_text(details, "name"),
        group=_text(details, "group"),
        kind=_text(details, "kind"),
        causes=_causes(details.get("causes")),
        retry_after_s=retry_after_s,
        continue_token=_text(metadata, "continue") if isinstance(metadata, dict) else "",
    )


def cut_message(message: str) -> str:
    """
    Return what of a server's message may be shown.

    NB: a patch that applies but does not decode is answered with the whole patched object in Go quotes (for a
    Secret, its data). Of a message that may quote one, only what follows the last closing quote is kept, and
    nothing at all if that does not look like the end of it.
    """
    if _may_quote(message):
        message = _CLOSING_QUOTE.split(message)[-1] if _CLOSING_QUOTE.search(message) else ""
        if not message or _may_quote(message):
            return _CUT
    return message if len(message) <= _SHOWN_TEXT else f"{message[:_SHOWN_TEXT]}… (+{len(message) - _SHOWN_TEXT})"


def _may_quote(message: str) -> bool:
    return "{" in message or " value: " in message or len(message) > 4 * _SHOWN_TEXT


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that `Retry-After` asks for, if it does."""
    raw = headers.get("retry-after", "").strip()
    return float(raw) if raw.isascii() and raw.isdigit() and len(raw) < 7 else None


def server_date(headers: Mapping[str, str]) -> datetime | None:
    """Return the `Date` of an answer, aware and in UTC."""
    from email.utils import parsedate_to_datetime  # NB: http.client has it loaded already

    try:
        found = parsedate_to_datetime(headers["date"])
    except (KeyError, ValueError, TypeError, IndexError, OverflowError):
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _json(answer: Answer) -> dict[str, Any] | None:
    import json

    if not answer.body.lstrip().startswith(b"{"):
        return None
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _plain(answer: Answer) -> str:
    text = answer.body[: 4 * _SHOWN_TEXT].decode("utf-8", errors="replace").strip()
    if not text or text.startswith(("<", "{")):
        # NB: a page of a proxy, or an object: nothing in it is meant for people.
        return f"HTTP {answer.status}"
    first = text.splitlines()[0]
    return first if len(first) <= _SHOWN_TEXT else f"{first[:_SHOWN_TEXT]}…"


def _text(raw: Mapping[str, Any], key: str) -> str:
    value = raw.get(key)
    return value if isinstance(value, str) else ""


def _causes(raw: object) -> tuple[Cause, ...]:
    if not isinstance(raw, list):
        return ()
    return tuple(
        Cause(_text(cause, "field"), _text(cause, "reason"), cut_message(_text(cause, "message")))
        for cause in raw
        if isinstance(cause, dict)
    )
