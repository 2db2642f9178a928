"""
A terminal that is drawn anew in place, with nothing but home and erase.

No alternate screen, no hidden cursor, no changed settings: whatever ends the program, the terminal is as before.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from fencectl.report.style import cells
from fencectl.report.words import count

HOME_AND_ERASE = "\x1b[H\x1b[J"
RESET = "\x1b[0m"
_SGR = re.compile(r"\x1b\[[0-9;]*m")
_FALLBACK = os.terminal_size((80, 24))


class Screen:
    """Draws frames. The last line of a frame is its footer and is always shown."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._drawn = False

    def size(self) -> os.terminal_size:
        """Return the size now."""
        return size_of(self._stream)

    def draw(self, lines: Sequence[str]) -> None:
        """Draw a frame in the place of the last one."""
        size = self.size()
        # What was on the screen before goes up into the scrollback, instead of being erased.
        before = "" if self._drawn else "\n" * (size.lines - 1)
        self._drawn = True
        # NB: no line feed at the end; it would scroll a frame that fills the screen.
        self._stream.write(f"{before}{HOME_AND_ERASE}{chr(10).join(fit(lines, size))}")
        self._stream.flush()

    def leave(self) -> None:
        """Go below the frame."""
        if self._drawn:
            self._stream.write(f"{RESET}\n")
            self._stream.flush()


def size_of(stream: TextIO) -> os.terminal_size:
    """Return the size of a terminal now; one that does not tell is taken for 80 by 24."""
    with suppress(OSError, ValueError):
        size = os.get_terminal_size(stream.fileno())
        if size.columns > 0 and size.lines > 0:
            return size
    return _FALLBACK


def fit(lines: Sequence[str], size: os.terminal_size) -> list[str]:
    """Leave out what does not fit, and say so; the footer stays. A long line takes as many rows as it wraps to."""
    if sum(rows(line, size.columns) for line in lines) <= size.lines:
        return list(lines)
    *body, footer = lines
    left = size.lines - rows(footer, size.columns) - 1
    shown: list[str] = []
    for line in body:
        left -= rows(line, size.columns)
        if left < 0:
            break
        shown.append(line)
    return [*shown, f".. {count(len(body) - len(shown), 'more line')}: a taller window shows all", footer]


def rows(line: str, columns: int) -> int:
    """How many rows of a terminal a line takes."""
    return max(1, -(-cells(_SGR.sub("", line)) // columns))
