"""What the server's answer to a server-side apply means: it names who owns what, and what it found invalid."""

from __future__ import annotations

import json
import re

from fencectl.cluster.answer import Answer, Refusal, read_refusal
from fencectl.core.answers import Applied, ApplyAnswer, Conflicted, FieldConflict, Refused, Unknown, Why
from fencectl.core.refs import ObjectRef

_CONFLICT = "FieldManagerConflict"
_MANAGER = re.compile(r'conflict with ("(?:[^"\\]|\\.)*")')
_UNTYPED = b"failed to create typed patch object"
_HEAD = 1000
_SHOWN_CAUSES = 5


def read_apply_answer(found: Answer, target: ObjectRef) -> ApplyAnswer:
    """Classify an answer. Of a Secret no word of the server's is kept that could quote it."""
    if found.ok:
        try:
            raw = json.loads(found.body)
        except ValueError:
            return Unknown("the answer could not be decoded")
        return Applied(raw) if isinstance(raw, dict) else Unknown("the answer is no object")
    refusal = read_refusal(found)
    conflicts = tuple(
        FieldConflict(_manager(cause.message), cause.field)
        for cause in refusal.causes
        if cause.reason == _CONFLICT
    )
    if found.status == 409 and conflicts:
        return Conflicted(conflicts)
    detail = _detail(refusal, secret=target.kind == "Secret" and not target.group)
    match found.status:
        case 404:
            return Refused(Why.GONE, 404, detail)
        case 401 | 403:
            return Refused(Why.FORBIDDEN, found.status, detail)
        case 409:
            return Refused(Why.GUARD, 409, detail)
        case 429:
            return Refused(Why.BUSY, 429, detail)
        case 503 if refusal.retry_after_s is not None:
            return Refused(Why.BUSY, 503, detail)
        case 500 if _UNTYPED in found.body[:_HEAD]:
            # NB: a manifest that does not fit the schema is answered as if the server were at fault.
            return Refused(Why.INVALID, 500, detail)
        case status if 400 <= status < 500:
            return Refused(Why.INVALID, status, detail)
    return Unknown(f"the server answered {found.status}: {detail}")


def _detail(refusal: Refusal, *, secret: bool) -> str:
    if secret and refusal.code not in (401, 403, 404, 429, 503):
        fields = ", ".join(dict.fromkeys(cause.field for cause in refusal.causes if cause.field))
        return f"{refusal.reason or 'refused'}: {fields}" if fields else refusal.reason or "refused"
    texts = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in refusal.causes]
    if not texts:
        return refusal.message
    more = len(texts) - _SHOWN_CAUSES
    return "; ".join([*texts[:_SHOWN_CAUSES], *([f"{more} more"] if more > 0 else [])])


def _manager(message: str) -> str:
    """The manager's name, as Go quoted it, with what it did: `"x" using v1` is one that updates."""
    match = _MANAGER.search(message)
    if match is None:
        return message
    try:
        name = str(json.loads(match[1]))
    except ValueError:
        # NB: Go quotes some characters in a way that JSON has not.
        name = match[1][1:-1]
    return name
