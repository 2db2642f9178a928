"""
JSON Patch as kube-apiserver applies it (json-patch v4, not RFC 6902 to the letter).

What differs from the RFC and matters to guards: a `test` compares the *bytes* of scalars with the Go-encoded
document; `test … null` on a missing key passes; `replace` of a missing key acts as `add`; negative indexes
count from the end. Whatever fails, the server's answer is the same text, so `PatchFailedError` needs none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from fencectl.sandbox.gojson import NotJsonError, Obj, clone, decode, encode, kind_of

MAX_OPERATIONS = 10_000
MAX_COPY_BYTES = 3 * 1024 * 1024


class PatchFailedError(Exception):
    """The patch cannot be applied to this document."""


class NotAPatchError(ValueError):
    """The body is JSON, but no list of operations."""


@dataclass(frozen=True, slots=True)
class Raw:
    """A scalar of the patch, as it was written."""

    text: str


_TOKEN = re.compile(
    r'[ \t\r\n]*(?:(?P<string>"(?:[^"\\]|\\.)*")'
    r"|(?P<other>-?[0-9][-+0-9.eE]*|true|false|null)|(?P<mark>[\[\]{},:]))"
)


def _parse(text: str) -> Any:
    """Parse valid JSON, keeping each scalar as it was written; `null` becomes None."""
    tokens = _TOKEN.finditer(text)

    def value(token: re.Match[str]) -> Any:
        mark = token["mark"]
        if mark == "{":
            return members()
        if mark == "[":
            return elements()
        raw = token["string"] or token["other"]
        return None if raw == "null" else Raw(raw)

    def members() -> Any:
        out: dict[str, Any] = {}
        for token in tokens:
            if token["mark"] == "}":
                return out
            if token["mark"] == ",":
                continue
            key = _scalar(token["string"])
            next(tokens)
            out[key] = value(next(tokens))
        return out

    def elements() -> Any:
        out: list[Any] = []
        for token in tokens:
            if token["mark"] == "]":
                return out
            if token["mark"] != ",":
                out.append(value(token))
        return out

    return value(next(tokens))


def resolve(value: Any) -> Any:
    """Replace raw scalars by their values."""
    if isinstance(value, Raw):
        return _scalar(value.text)
    if isinstance(value, dict):
        return {key: item if type(item) is str else resolve(item) for key, item in value.items()}
    if isinstance(value, list):
        return [resolve(item) for item in value]
    return value


def _scalar(text: str) -> Any:
    """Read one scalar of a text that is known to be JSON."""
    # NB: most are plain texts, which are what stands between the quotes.
    if text[0] == '"' and "\\" not in text and text.isascii():
        return text[1:-1]
    return decode(text)


def read_patch(body: str) -> list[dict[str, Any]]:
    """Read a patch; the scalars of its values stay as written."""
    decode(body)
    patch = _parse(body)
    if patch is None:
        return []
    if not isinstance(patch, list):
        raise NotAPatchError(_not_a_patch(patch, go_type="[]handlers.jsonPatchOp"))
    for operation in patch:
        if not isinstance(operation, dict):
            if operation is None:
                continue
            raise NotAPatchError(_not_a_patch(operation, go_type="handlers.jsonPatchOp"))
        for name in ("op", "path", "from"):
            given = operation.get(name)
            if given is not None and not (isinstance(given, Raw) and given.text.startswith('"')):
                place = f"Go struct field jsonPatchOp.{name} of type string"
                raise NotAPatchError(f"json: cannot unmarshal {kind_of(resolve(given))} into {place}")
    return patch


def _not_a_patch(value: Any, *, go_type: str) -> str:
    return f"json: cannot unmarshal {kind_of(resolve(value))} into Go value of type {go_type}"


def unknown_members(patch: list[dict[str, Any]]) -> list[str]:
    """Return what strict decoding objects to in the operations themselves."""
    return [
        f'json patch unknown field "[{index}].{name}"'
        for index, operation in enumerate(patch)
        if operation
        for name in operation
        if name not in ("op", "path", "from", "value")
    ]


def apply_patch(document: Obj, *, patch: list[dict[str, Any]]) -> Obj:
    """Return the patched copy of `document`."""
    target = clone(document)
    copied = 0
    for operation in patch:
        copied += _apply(target, operation or {})
        if copied > MAX_COPY_BYTES:
            raise PatchFailedError
    done: Obj = resolve(target)
    return done


def _text(operation: dict[str, Any], name: str) -> str:
    given = operation.get(name)
    if given is None:
        raise PatchFailedError
    return str(_scalar(given.text))


def _apply(document: Any, operation: dict[str, Any]) -> int:
    """Apply one operation in place; returns the bytes that a `copy` made."""
    name = _text(operation, "op")
    value = operation.get("value")
    if name not in ("add", "remove", "replace", "move", "copy", "test"):
        raise PatchFailedError
    if name in ("move", "copy"):
        source, source_key = _find(document, _text(operation, "from"))
        moved = _get(source, source_key)
        if name == "move":
            _remove(source, source_key)
            size = 0
        else:
            moved = clone(moved)
            size = len(encode(resolve(moved)))
        where, key = _find(document, _text(operation, "path"))
        _add(where, key, moved)
        return size
    path = _text(operation, "path")
    if path == "" and name == "replace":
        if not isinstance(value, dict):
            raise PatchFailedError
        document.clear()
        document.update(clone(value))
        return 0
    if path == "" and name == "test":
        if not _equal(document, value):
            raise PatchFailedError
        return 0
    where, key = _find(document, path)
    if name == "add":
        _add(where, key, clone(value))
    elif name == "remove":
        _remove(where, key)
    elif name == "replace":
        _get(where, key)
        _set(where, key, clone(value))
    elif not _equal(_get(where, key), value):
        raise PatchFailedError
    return 0


def _find(document: Any, path: str) -> tuple[Any, str]:
    """Return the container that holds the last part of `path`, and that part."""
    parts = path.split("/")
    if len(parts) < 2:
        raise PatchFailedError
    # NB: what stands before the first slash is ignored, as the server does.
    *above, key = [part.replace("~1", "/").replace("~0", "~") for part in parts[1:]]
    where = document
    for part in above:
        where = _get(where, part)
        if not isinstance(where, dict | list):
            raise PatchFailedError
    return where, key


def _index(items: list[Any], key: str) -> int:
    if not re.fullmatch(r"[-+]?\d+", key):
        raise PatchFailedError
    index = int(key)
    if not -len(items) <= index < len(items):
        raise PatchFailedError
    return index


def _get(where: Any, key: str) -> Any:
    if isinstance(where, list):
        return where[_index(where, key)]
    return where.get(key)


def _set(where: Any, key: str, value: Any) -> None:
    if isinstance(where, list):
        where[_index(where, key)] = value
    else:
        where[key] = value


def _add(where: Any, key: str, value: Any) -> None:
    if not isinstance(where, list):
        where[key] = value
        return
    if key == "-":
        where.append(value)
        return
    if not re.fullmatch(r"[-+]?\d+", key):
        raise PatchFailedError
    index = int(key)
    size = len(where) + 1
    if not -size <= index < size:
        raise PatchFailedError
    where.insert(index if index >= 0 else index + size, value)


def _remove(where: Any, key: str) -> None:
    if isinstance(where, list):
        del where[_index(where, key)]
    elif key in where:
        del where[key]
    else:
        raise PatchFailedError


def _equal(have: Any, wanted: Any) -> bool:
    """Compare as the server does: containers by content, scalars by their bytes."""
    if isinstance(have, dict) and isinstance(wanted, dict):
        return have.keys() == wanted.keys() and all(_equal(have[key], wanted[key]) for key in have)
    if isinstance(have, list) and isinstance(wanted, list):
        return len(have) == len(wanted) and all(map(_equal, have, wanted))
    if isinstance(have, dict | list) or isinstance(wanted, dict | list):
        return False
    return _bytes(have) == _bytes(wanted)


def _bytes(value: Any) -> str:
    return value.text if isinstance(value, Raw) else encode(value)


__all__ = [
    "MAX_OPERATIONS",
    "NotAPatchError",
    "NotJsonError",
    "PatchFailedError",
    "apply_patch",
    "read_patch",
    "unknown_members",
]
