"""The streams of a deploy: closed ones get a place to write to, and a reader that has left ends nothing."""

from __future__ import annotations

import os
import sys

from fencectl.commands.output import write


def write_what_can(*, stdout: str = "", stderr: str = "") -> None:
    """
    Write what can be written.

    NB: a reader that has left must neither end a deploy nor its unwinding: the exit code still tells.
    """
    try:
        write(stdout=stdout)
    except OSError:
        _give_up_on(1)
    try:
        write(stderr=stderr)
    except OSError:
        _give_up_on(2)


def to_stderr(text: str) -> None:
    """Write to stderr alone."""
    write_what_can(stderr=text)


def open_closed_streams() -> None:
    """
    Give a stream that the caller has closed (`>&-`) a place to write to, ours and the command's.

    NB: a descriptor that is closed when the command starts would become that of the first file which it opens.
    """
    for number in range(3):
        os.set_inheritable(number, True)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _give_up_on(number: int) -> None:
    """Lead a stream that nobody reads to nowhere, or its buffer fails again when the interpreter ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, number)
    os.close(null)
