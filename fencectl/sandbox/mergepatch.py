"""JSON merge patch (RFC 7386), as the server applies it to built-in and custom kinds alike."""

from __future__ import annotations

from typing import Any


def merge(document: Any, patch: Any) -> Any:
    """Return `document` with `patch` merged in; neither is changed."""
    if not isinstance(patch, dict):
        return patch
    out = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merge(out.get(key), value)
    return out
