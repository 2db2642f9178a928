"""
Durations as a person writes them: `30s`, `1m`, `1h30m`, `500ms`, or plain seconds.

The same spellings on the command line and in `fencectl.yaml`.
"""

from __future__ import annotations

import re

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = r"\d{1,9}(?:\.\d{1,9})?"
_WHOLE = re.compile(
    rf"(?:({_PART})d)?(?:({_PART})h)?(?:({_PART})m(?!s))?(?:({_PART})s)?(?:({_PART})ms)?", re.ASCII
)
_SECONDS = re.compile(_PART, re.ASCII)

SPELLINGS = "such as 30s, 1m or 1h30m"


def parse_duration(text: str) -> float | None:
    """Read a duration in seconds; None for everything that is not one. Units come largest first, each once."""
    if _SECONDS.fullmatch(text):
        return float(text)
    match = _WHOLE.fullmatch(text)
    if not text or match is None:
        return None
    units = ("d", "h", "m", "s", "ms")
    return sum(float(part) * _UNITS_S[unit] for part, unit in zip(match.groups(), units, strict=True) if part)
