"""A runbook on a terminal: prose by Rich, commands past it, each flush left on one line, to be copied as it is."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any, ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown
from rich.text import Text

from fencectl.report.escape import visible
from fencectl.report.runbook import Block, Filled
from fencectl.report.style import Style

# Longer lines are no easier to read, however wide the terminal is.
WIDEST = 100


class _Heading(Heading):
    """A heading flush left, without a frame: a screen reader reads it first, and it is one line of a log."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        if self.tag != "h1":
            yield Text("")
        yield self.text


class _Markdown(Markdown):
    elements: ClassVar[dict[str, Any]] = {**Markdown.elements, "heading_open": _Heading}


def rendered(filled: Filled, *, style: Style, width: int) -> str:
    """The runbook as text for a terminal of so many columns, coloured where the style is."""
    text = "\n".join(line for part in filled.parts for line in _lines(part, style, width))
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.strip("\n") + "\n"


def _lines(part: str | Block, style: Style, width: int) -> Iterator[str]:
    if isinstance(part, Block):
        # NB: a command is never respelled, wrapped or indented for a terminal: it would be another command.
        yield ""
        yield from (style.bold(visible(line)) for line in part.text.splitlines())
        yield ""
        return
    if not part.strip():
        return
    into = StringIO()
    console = Console(
        file=into,
        width=max(20, min(width, WIDEST)),
        color_system="standard" if style.colour else None,
        force_terminal=style.colour,
        no_color=not style.colour,
        legacy_windows=False,
        emoji=False,
        highlight=False,
    )
    console.print(_Markdown(part, hyperlinks=False))
    yield from (style.spelled(line.rstrip()) for line in into.getvalue().splitlines())
