"""Colour, marks and widths of a terminal: the identity where there is none."""

from __future__ import annotations

import re

import msgspec

from fencectl.report.escape import ascii_only

WIDTH = 80
_SGR = re.compile(r"\x1b\[[0-9;]*m")
_BACKTICKED = re.compile(r"[^\s`]*`[^`]*`[^\s`]*|\S+")


class Style(msgspec.Struct, frozen=True):
    """
    How one stream is written.

    `colour`: ANSI colours and bold. `unicode`: `✓` and the like, and other text beyond ASCII as it stands;
    where it is off, the marks have their ASCII spelling and the rest is spelled out. Only our own words are
    ever coloured, and nothing in a command.
    """

    colour: bool = False
    unicode: bool = True

    def bold(self, text: str) -> str:
        """Sum sentences, and names to act on."""
        return self._sgr("1", text)

    def dim(self, text: str) -> str:
        """Details, and what is not ours."""
        return self._sgr("2", text)

    def red(self, text: str) -> str:
        """What failed, and the words in capitals."""
        return self._sgr("1;31", text)

    def yellow(self, text: str) -> str:
        """What to look at: `!`, live."""
        return self._sgr("33", text)

    def green(self, text: str) -> str:
        """The mark of what is good, and nothing else."""
        return self._sgr("32", text)

    def _sgr(self, codes: str, text: str) -> str:
        return f"\x1b[{codes}m{text}\x1b[0m" if self.colour and text else text

    @property
    def good(self) -> str:
        """The mark of what is done or good."""
        return self.green("✓" if self.unicode else "ok")

    @property
    def look(self) -> str:
        """The mark of what to look at."""
        return self.yellow("!")

    @property
    def failed(self) -> str:
        """The mark of what failed."""
        return self.red("✗" if self.unicode else "x")

    def capitals(self, line: str) -> str:
        """A line with the words in capitals that must not be overlooked in red."""
        return _CAPITALS.sub(lambda match: self.red(match[0]), line) if self.colour else line

    def spelled(self, text: str) -> str:
        """The text as this stream can show it."""
        return text if self.unicode else ascii_only(text)


_CAPITALS = re.compile(
    r"\b(?:REFUSED|INCOMPLETE|KEPT|STILL HELD|NOT PROVEN DEAD|STOLEN|NOT RENEWED|UNREACHABLE)\b"
)
PLAIN = Style()


def cells(text: str) -> int:
    """How many cells of a terminal the text takes."""
    if text.isascii():
        return len(text)
    # NB: 1 MB of tables, and names in Kubernetes are ASCII.
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def bare_cells(text: str) -> int:
    """How many cells a text takes that may be coloured."""
    return cells(_SGR.sub("", text)) if "\x1b" in text else cells(text)


def pad(text: str, width: int) -> str:
    """The text, filled up with blanks; never cut."""
    return text + " " * (width - cells(text))


def wrap(text: str, *, first: str = "", rest: str = "", width: int = WIDTH) -> list[str]:
    """
    Break between words; what is in backticks stays whole, and so does a word that is too long.

    `first` and `rest` go in front of the first line and of the others.
    """
    lines: list[str] = []
    line, taken, empty = first, bare_cells(first), True
    for word in _BACKTICKED.findall(text):
        room = bare_cells(word)
        if not empty and taken + 1 + room > width:
            lines.append(line)
            line, taken, empty = rest, bare_cells(rest), True
        line = f"{line}{word}" if empty else f"{line} {word}"
        taken += room if empty else room + 1
        empty = False
    return [*lines, line]
