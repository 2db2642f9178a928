"""
The progress of a deploy, drawn in place below what it says: which step, what it waits for, for how long.

Only at a terminal that can do it, and never beside a command of ours: that one has the terminal for itself. The
block ends with a line feed, so that whatever else writes, or a kill, begins on a line of its own; nothing is
hidden or set, so that there is nothing to put back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TextIO

from fencectl.commands.watch_screen import RESET, rows, size_of
from fencectl.core.times import age_text
from fencectl.report.style import Style, cells

STEPS: Mapping[int, str] = {
    1: "look",
    2: "lease",
    3: "record",
    4: "suspend Flux",
    6: "nodes",
    7: "canary",
    8: "command",
    9: "rollback",
    10: "release",
}
LAST_STEP = 10
_UP = "\x1b[{}A"
_ERASE_BELOW = "\r\x1b[J"
_ERASE_LINE = "\x1b[K"


def can_draw(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether a stream can be drawn on: a terminal, neither a dumb one nor that of a CI runner."""
    in_ci = environ.get("CI", "") not in ("", "0", "false") or environ.get("GITHUB_ACTIONS") == "true"
    return stream.isatty() and environ.get("TERM", "dumb") != "dumb" and not in_ci


class Live:
    """
    The block. Not for several threads at once: whoever draws holds a lock.

    `write`: to the terminal, which `stream` is; it never raises. Times in seconds of one monotonic clock.
    """

    def __init__(
        self, stream: TextIO, write: Callable[[str], None], style: Style, label: str, now_s: float
    ) -> None:
        self._stream = stream
        self._write = write
        self._style = style
        self._label = label
        self._began_s = self._since_s = now_s
        self._step = 0
        self._doing = ""
        self._drawn: list[str] = []
        self._handed_over = 0
        self._ended = False

    def say(self, text: str, now_s: float) -> None:
        """Write lines for good, above the block, or below what a command has written so far."""
        self._write((self._fresh_line() if self._handed_over else self._erased()) + text)
        self.draw(now_s)

    def begin(self, step: int, doing: str, now_s: float) -> None:
        """What is done from now on; shown by the next drawing."""
        self._step, self._doing, self._since_s = step, doing, now_s

    def draw(self, now_s: float) -> None:
        """Draw the block anew, in a terminal of the size that it has now."""
        if self._ended or self._handed_over or not self._step:
            return
        columns = size_of(self._stream).columns
        erased = self._erased()
        self._drawn = [self._style.spelled(line) for line in self._lines(columns, now_s)]
        block = "".join(f"{self._painted(number, line)}\n" for number, line in enumerate(self._drawn))
        self._write(erased + block)

    def hand_over(self) -> None:
        """Give the terminal to a command, without a trace of the block."""
        self._write(self._erased())
        self._handed_over += 1

    def take_back(self, now_s: float) -> None:
        """Go on below what a command has written, also where it has not ended its last line or its colour."""
        self._handed_over -= 1
        if not self._handed_over and not self._ended:
            self._write(RESET + self._fresh_line())
            self.draw(now_s)

    def end(self) -> None:
        """Take the block away, for good."""
        self._write(self._erased())
        self._ended = True

    def _fresh_line(self) -> str:
        # NB: as many blanks as the line is wide: they wrap only where the cursor was not at its beginning.
        return f"{' ' * size_of(self._stream).columns}\r{_ERASE_LINE}"

    def _erased(self) -> str:
        """What takes the block away: a terminal that has become narrower shows it on more rows than were drawn."""
        drawn, self._drawn = self._drawn, []
        if not drawn:
            return ""
        columns = size_of(self._stream).columns
        return _UP.format(sum(rows(line, columns) for line in drawn)) + _ERASE_BELOW

    def _lines(self, columns: int, now_s: float) -> list[str]:
        took, waits = age_text(now_s - self._began_s), age_text(now_s - self._since_s)
        title = f"{self._label}  step {self._step} of {LAST_STEP}: {STEPS.get(self._step, '')}"
        return [_fit(title, took, columns), _fit(f"  … {self._doing}", waits, columns)]

    def _painted(self, number: int, line: str) -> str:
        return self._style.bold(line) if number == 0 else self._style.dim(line)


def _fit(text: str, age: str, columns: int) -> str:
    """The text, cut where it must be, and the age at the right; narrower than the terminal, or it would wrap."""
    room = columns - 1 - cells(age) - 2
    if room < 8:
        return _cut(text, max(1, columns - 1))
    shown = _cut(text, room)
    return f"{shown}{' ' * (room - cells(shown))}  {age}"


def _cut(text: str, room: int) -> str:
    if cells(text) <= room:
        return text
    while text and cells(text) > room - 1:
        text = text[:-1]
    return f"{text}…"


def drawing_on(
    stream: TextIO, write: Callable[[str], None], style: Style, label: str, now_s: float
) -> Live | None:
    """A block on this stream; None where it cannot be drawn on."""
    return Live(stream, write, style, label, now_s) if can_draw(stream, os.environ) else None
