"""A runbook on a terminal: prose by Rich, commands past it, each flush left on one line, to be copied as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import StringIO
from typing import Any, ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown
from rich.text import Text
from rich.theme import Theme

from fencectl.report.escape import code_span, visible
from fencectl.report.runbook import Block, Filled
from fencectl.report.style import Style

# Longer lines are no easier to read, however wide the terminal is.
WIDEST = 100
# Bold is for what to act on and for headings; nothing here is good, bad or urgent by itself.
_THEME = Theme(
    {
        "markdown.h1": "bold",
        "markdown.h2": "bold",
        "markdown.code": "bold",
        "markdown.block_quote": "dim",
        "markdown.item.bullet": "none",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    }
)
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_ASCII = str.maketrans({"─": "-", "━": "-", "▌": "|", "•": "*"})


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
        theme=_THEME,
    )
    console.print(_Markdown(_SPAN.sub(_quoted, part), hyperlinks=False))
    for line in into.getvalue().splitlines():
        yield style.spelled(line.rstrip() if style.unicode else line.rstrip().translate(_ASCII))


def _quoted(match: re.Match[str]) -> str:
    """A code span that shows its backticks: without colour nothing else would tell a name from a word."""
    ticks, text = match[1], match[2]
    if len(ticks) > 1 and text.startswith(" ") and text.endswith(" ") and text.strip():
        text = text[1:-1]
    if "\\|" in text:  # the pipe of a cell
        return code_span("`" + text.replace("\\|", "|") + "`", cell=True)
    return code_span(f"`{text}`")
