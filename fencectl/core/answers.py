"""
What the server's answer to a guarded patch means: applied, refused (and why), or unknown.

The server answers 422 to a guard that no longer holds, to a patch that never could apply and to a result that is
invalid; older ones answered 500 with json-patch's own text (https://github.com/kubernetes/kubernetes/issues/68202).
The status alone proves nothing: after a refusal the object is read again, and the guard that broke is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fencectl.core.managers import last_writer
from fencectl.core.patches import GuardedPatch
from fencectl.core.refs import Raw, dig
from fencectl.core.times import second_time


class Why(StrEnum):
    """Why the server refused."""

    GONE = "gone"  # 404: the object is no longer there
    GUARD = "guard"  # a guard does not hold any more
    FORBIDDEN = "forbidden"  # 401, 403
    INVALID = "invalid"  # our fault, or a rule of the server: never to be sent again unchanged
    BUSY = "busy"  # 429, 503 with Retry-After: refused before anything was tried


@dataclass(frozen=True, slots=True)
class Applied:
    """The patch holds. `raw` is the object as the server answered it."""

    raw: Raw


@dataclass(frozen=True, slots=True)
class Refused:
    """
    The server did not apply the patch. `detail`: its own words, cut; hostile until escaped.

    `fields`: those that it calls invalid.
    """

    why: Why
    status: int
    detail: str
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody can say whether the patch was applied: read the object back. `detail`: what happened instead."""

    detail: str


Answer = Applied | Refused | Unknown


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """A field that somebody else owns, and who: his field manager. Both are foreign text."""

    manager: str
    field: str


@dataclass(frozen=True, slots=True)
class Conflicted:
    """A server-side apply would take fields from others, so that nothing of it was applied."""

    conflicts: tuple[FieldConflict, ...]


ApplyAnswer = Applied | Conflicted | Refused | Unknown


def read_answer(status: int, body: Any, *, retry_after: bool = False) -> Answer:
    """
    Classify an answer. `body` is the decoded JSON, or text where it is none.

    The message of a 422 may quote the whole patched object, a Secret's data included, so it is never kept whole.
    """
    if 200 <= status < 300 and isinstance(body, Mapping):
        return Applied(body)
    detail = _message(body)
    if status == 404:
        return Refused(Why.GONE, status, detail)
    if status in (401, 403):
        return Refused(Why.FORBIDDEN, status, detail)
    if status == 409 or (status == 422 and not _has_details(body)):
        return Refused(Why.GUARD, status, detail)
    if status == 500 and "esting value" in detail:
        return Refused(Why.GUARD, status, detail)
    if status == 429 or (status == 503 and retry_after):
        return Refused(Why.BUSY, status, detail)
    if 400 <= status < 500:
        return Refused(Why.INVALID, status, detail, _fields(body))
    return Unknown(f"the server answered {status}: {detail}")


def _has_details(body: Any) -> bool:
    # NB: a failed `test` answers with an empty `details`; a validation error names the object and the causes.
    details = dig(body, "details")
    return isinstance(details, Mapping) and bool(details.get("name") or details.get("causes"))


def _fields(body: Any) -> tuple[str, ...]:
    causes = dig(body, "details", "causes")
    named = (dig(cause, "field") for cause in (causes if isinstance(causes, list) else []))
    return tuple(dict.fromkeys(name for name in named if isinstance(name, str) and name))


def _message(body: Any) -> str:
    message = dig(body, "message") if isinstance(body, Mapping) else body
    message = message if isinstance(message, str) else ""
    if dig(body, "details", "causes") and '": ' in message:
        message = message.rpartition('": ')[2]
    return message.strip()[:500]


@dataclass(frozen=True, slots=True)
class BrokenGuard:
    """The guard that broke: which field, the value that was read, the value now, who changed it and when."""

    sentence: str
    path: str


def explain_refusal(patch: GuardedPatch, fresh: Raw | None) -> BrokenGuard | None:
    """
    Name the first guard of a refused patch that the object, read again, no longer meets.

    None where all of them hold: then the patch was refused for another reason, and that is a fault of ours.
    """
    if fresh is None:
        return BrokenGuard(f"{patch.target.display} is gone", "")
    for operation in patch.operations:
        if operation["op"] != "test":
            continue
        keys = _keys(operation["path"])
        now = dig(fresh, *keys)
        if now != operation["value"]:
            if keys == ("metadata", "uid"):
                sentence = f"{patch.target.display} was deleted and made anew under the same name"
            else:
                sentence = f"{_field(keys)} was {_show(operation['value'])} when read, now it is {_show(now)}"
            return BrokenGuard(sentence + _changed_by(fresh, keys), operation["path"])
    return None


def is_carried_out(patch: GuardedPatch, fresh: Raw) -> bool:
    """Whether an object, read again, is exactly as this patch would leave it: an earlier try had come through."""
    changes = [operation for operation in patch.operations if operation["op"] != "test"]
    return dig(fresh, "metadata", "uid") == patch.target.uid and all(
        dig(fresh, *_keys(operation["path"])) == operation.get("value") for operation in changes
    )


def explain_field(fresh: Raw, keys: tuple[str, ...], before: Any) -> str:
    """Say what a field was and what it is now, and who changed it where that can be told."""
    return f"{_field(keys)} was {_show(before)}, now it is {_show(dig(fresh, *keys))}{_changed_by(fresh, keys)}"


def _keys(path: str) -> tuple[str, ...]:
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])


def _field(keys: tuple[str, ...]) -> str:
    if keys[:2] == ("metadata", "annotations") and len(keys) == 3:
        return f"annotation {keys[2]}"
    return ".".join(keys)


def _show(value: Any) -> str:
    if value is None:
        return "absent"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return f"`{text}`" if len(text) <= 60 else f"`{text[:60]}…`"


def _changed_by(fresh: Raw, keys: tuple[str, ...]) -> str:
    manager, at = last_writer(fresh, *keys)
    if manager is None or at is None:
        # NB: a removed field has no owner left, and managedFields may be absent: say less, not wrong.
        return ""
    return f"; changed by `{manager}` at {second_time(at)}"
