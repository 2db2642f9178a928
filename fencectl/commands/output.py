"""Write what was rendered: data to stdout, talk to stderr, each in the style that its stream can show."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from fencectl.commands.options import Color
from fencectl.core.errors import FencectlError
from fencectl.report.escape import visible
from fencectl.report.style import Style


def style_of(stream: TextIO, color: Color) -> Style:
    """How a stream is written: colour only on a terminal (or when asked for), marks as its encoding allows."""
    terminal = stream.isatty()
    encoding = (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "")
    dumb = terminal and os.environ.get("TERM") == "dumb"
    return Style(
        colour=color is Color.ALWAYS or (color is Color.AUTO and terminal and not dumb),
        unicode=encoding in ("utf8", "utf16") and not dumb,
    )


def write(*, stdout: str = "", stderr: str = "") -> None:
    """Write both, stdout first, so that on a terminal the hint comes last."""
    sys.stdout.write(stdout)
    sys.stdout.flush()
    sys.stderr.write(stderr)
    sys.stderr.flush()


def tell_failure(failure: FencectlError) -> None:
    """Say what went wrong with one of several clusters, as the boundary says it of the only one."""
    lines = [f"error: {visible(failure.sentence)}"]
    lines += [f"reason: {visible(failure.reason)}"] if failure.reason else []
    lines += [f"hint: {visible(failure.hint)}"] if failure.hint else []
    write(stderr="".join(f"{line}\n" for line in lines))
