"""What a terminal shows after some output: as much of one as our programs use, with a line's delayed wrap."""

from __future__ import annotations

import re

_PIECE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|\r|\n|[^\x1b\r\n]")


class Screen:
    """Rows of text; a terminal without a lower end, so that nothing ever scrolls away."""

    def __init__(self, columns: int = 80) -> None:
        self.columns = columns
        self._rows: list[list[str]] = [[]]
        self._row = self._column = 0

    def feed(self, text: str) -> Screen:
        """Take in output, with the line feeds of a terminal's driver or bare ones."""
        for piece in _PIECE.finditer(text):
            self._take(piece[0], piece[1], piece[2])
        return self

    @property
    def rows(self) -> list[str]:
        """What is shown, without blanks at the ends, down to the last row with something on it."""
        shown = ["".join(row).rstrip() for row in self._rows]
        while shown and not shown[-1]:
            shown.pop()
        return shown

    @property
    def cursor(self) -> tuple[int, int]:
        """Row and column where the next letter goes."""
        return self._row, self._column

    def _take(self, piece: str, number: str | None, what: str | None) -> None:
        if piece == "\r":
            self._column = 0
        elif piece == "\n":
            self._go_down()
            self._column = 0
        elif what == "A":
            self._row = max(0, self._row - int(number or 1))
        elif what == "K":
            del self._line[self._column :]
        elif what == "J":
            del self._line[self._column :]
            del self._rows[self._row + 1 :]
        elif what is None:
            self._put(piece)
        else:
            assert what == "m", f"this terminal does not know {piece!r}"

    def _put(self, letter: str) -> None:
        if self._column == self.columns:
            self._go_down()
            self._column = 0
        line = self._line
        line.extend(" " * (self._column + 1 - len(line)))
        line[self._column] = letter
        self._column += 1

    @property
    def _line(self) -> list[str]:
        return self._rows[self._row]

    def _go_down(self) -> None:
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append([])
