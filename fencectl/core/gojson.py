"""
JSON as Go's encoder writes it.

The API server applies JSON patches with json-patch v4, whose `test` compares the raw bytes of a scalar with
the Go-encoded document (https://github.com/kubernetes/apiserver/issues/100): a body that spells `é` or `&`
as Python does by default is refused although the values are equal.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

_GO_ESCAPES = {
    ord("&"): "\\u0026",
    ord("<"): "\\u003c",
    ord(">"): "\\u003e",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def encode(value: Any) -> str:
    """Encode as Go does: HTML-escaped, other non-ASCII raw, no spaces, keys in the order given."""
    # NB: the five characters occur inside of strings only, so a translation of the whole text is exact.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_GO_ESCAPES)


def encode_ascii(value: Any) -> str:
    """Encode in ASCII without `& < >`: text that survives every encoder on its way unchanged."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False).translate(_GO_ESCAPES)


class StrictJSONError(ValueError):
    """The text is not one JSON value that every reader understands alike. `at`: the offset, where it is known."""

    def __init__(self, message: str, *, at: int = 0) -> None:
        super().__init__(message)
        self.at = at


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen = dict(pairs)
    if len(seen) != len(pairs):
        raise StrictJSONError("a key occurs twice")
    return seen


def _no_constant(name: str) -> Any:
    raise StrictJSONError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise StrictJSONError("a number is beyond every measure")
    return number


_MAY_BE_HALF_A_PAIR = re.compile(r"\\u[dD][89a-fA-F]")


def decode_strict(text: str) -> Any:
    """
    Decode one JSON value, refusing what readers disagree about.

    Raises StrictJSONError for duplicate keys, NaN, infinities, half a surrogate pair, a byte-order mark and broken
    text; its message quotes nothing of the text.
    """
    try:
        value = json.loads(
            text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant, parse_float=_finite
        )
        if _MAY_BE_HALF_A_PAIR.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except StrictJSONError:
        raise
    except UnicodeEncodeError as broken:
        raise StrictJSONError("half a character, which no text can hold") from broken
    except (ValueError, RecursionError) as broken:
        raise StrictJSONError("not valid JSON") from broken
    return value


def decode_stream(text: str) -> list[tuple[int, Any]]:
    """
    Decode JSON values that follow each other, as strictly as `decode_strict`; each with the offset it begins at.

    Raises StrictJSONError.
    """
    decoder = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_no_constant, parse_float=_finite)
    found: list[tuple[int, Any]] = []
    at = 0
    while rest := text[at:].lstrip():
        at = len(text) - len(rest)
        try:
            value, end = decoder.raw_decode(text, at)
            if _MAY_BE_HALF_A_PAIR.search(text, at, end):
                json.dumps(value, ensure_ascii=False).encode()
        except StrictJSONError as broken:
            broken.at = at
            raise
        except UnicodeEncodeError as broken:
            raise StrictJSONError("half a character, which no text can hold", at=at) from broken
        except json.JSONDecodeError as broken:
            raise StrictJSONError("not JSON", at=broken.pos) from broken
        except (ValueError, RecursionError) as broken:
            raise StrictJSONError("not JSON", at=at) from broken
        found.append((at, value))
        at = end
    return found
