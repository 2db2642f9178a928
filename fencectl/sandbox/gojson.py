"""
JSON as Go's encoder writes it, and the few Go spellings that the API server's messages use.

Guards of a JSON patch compare bytes with this encoding, so it is part of the behaviour, not a detail:
`&`, `<`, `>`, U+2028 and U+2029 are escaped, every other non-ASCII character is raw UTF-8.
"""

from __future__ import annotations

import json
import re
from typing import Any

Obj = dict[str, Any]

# NB: made once; `json.dumps` and `json.loads` with options of one's own make them anew for each call.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_HTML = re.compile("[&<>\u2028\u2029]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_MAY_BE_LONE = re.compile("\\\\u[dD]|[\ud800-\udfff]")
_ESCAPED = {"&": "\\u0026", "<": "\\u003c", ">": "\\u003e", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def encode(value: Any) -> str:
    """Return compact JSON, spelled as Go's `encoding/json` spells it."""
    return escape(_ENCODER.encode(value))


def escape(text: str) -> str:
    """Escape what Go escapes in JSON and Python does not."""
    return _HTML.sub(lambda found: _ESCAPED[found.group()], text)


def encode_bytes(value: Any) -> bytes:
    """Return `encode(value)` as UTF-8 with the newline that Go's encoder ends with."""
    return (encode(value) + "\n").encode("utf-8", "replace")


# NB: most of an object are these; what is asked of each saves a call for each.
_ATOMS = frozenset((str, int, bool, type(None)))
_COPIED = _ATOMS | {float}


def clone(value: Any) -> Any:
    """Copy a JSON value; several times faster than a deep copy that knows of cycles."""
    if isinstance(value, dict):
        # NB: a set of owned fields is a tree of empty objects.
        return {
            key: item if type(item) in _COPIED else clone(item) if item else type(item)()
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [item if type(item) in _COPIED else clone(item) for item in value]
    return value


def plain(value: Any) -> Any:
    """Return `value` with whole floats as integers: a number without a type is written without `.0`."""
    if isinstance(value, dict):
        return {key: item if type(item) in _ATOMS else plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [item if type(item) in _ATOMS else plain(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    return value


def _sane(value: Any) -> Any:
    """Replace lone surrogates, as Go's decoder does."""
    if isinstance(value, dict):
        return {_sane(key): _sane(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_sane(item) for item in value]
    if isinstance(value, str) and _LONE_SURROGATE.search(value):
        return _LONE_SURROGATE.sub("\ufffd", value)
    return value


class NotJsonError(ValueError):
    """A text is not JSON; the message is spelled as Go spells it where that is cheap."""


def _refuse_constant(name: str) -> Any:
    raise NotJsonError(f"invalid character {name[0]!r} looking for beginning of value")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def decode(text: str | bytes) -> Any:
    """Read JSON strictly: no NaN, no trailing text."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    try:
        value = _DECODER.decode(text)
        return _sane(value) if _MAY_BE_LONE.search(text) else value
    except json.JSONDecodeError as err:
        raise NotJsonError(_go_syntax_error(text, err.pos)) from err
    except RecursionError as err:
        raise NotJsonError("exceeded max depth") from err


def _go_syntax_error(text: str, position: int) -> str:
    if position >= len(text.rstrip()):
        return "unexpected end of JSON input"
    character = text[position]
    shown = "'\\''" if character == "'" else f"'{character}'"
    return f"invalid character {shown} looking for beginning of value"


def duplicate_fields(text: str) -> list[str]:
    """Return the dotted paths of keys that occur twice in one object of `text`."""
    found: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> Any:
        seen: dict[str, Any] = {}
        for key, value in items:
            if key in seen:
                found.append(key)
            seen[key] = value
        return seen

    json.loads(text, object_pairs_hook=pairs)
    return found


_SHORT = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def quote(text: str) -> str:
    """Return `text` as Go's %q writes it."""
    out = ['"']
    for character in text:
        if character in '"\\':
            out.append("\\" + character)
        elif character in _SHORT:
            out.append(_SHORT[character])
        elif character < " " or character == "\x7f":
            out.append(f"\\x{ord(character):02x}")
        elif character.isprintable():
            out.append(character)
        else:
            code = ord(character)
            out.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    out.append('"')
    return "".join(out)


def show(value: Any) -> str:
    """Return `value` as Go's %v writes a decoded JSON value (maps sorted by key)."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{show(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(show(item) for item in value) + "]"
    return str(value)


def kind_of(value: Any) -> str:
    """Return the word that Go's decoder uses for the JSON type of `value`."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    if isinstance(value, str):
        return "string"
    if isinstance(value, float):
        return f"number {value}"
    return "number"
