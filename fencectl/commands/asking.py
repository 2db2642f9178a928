"""A question at a terminal, whose wait for the answer ends with any signal that ends the command."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fencectl.commands.output import write


def answer_to(ask: Callable[[], object]) -> str:
    """
    Ask, and return the line that is typed then, with its newline; without one where the input ends.

    `ask` writes the question, whose line is ended here when Enter did not, whatever stopped the wait. What was
    typed before the question stood there is no answer to it, and is thrown away. For the main thread, and a
    standard input that is a terminal.
    """
    termios.tcflush(sys.stdin, termios.TCIFLUSH)
    line = ""
    try:
        with _woken_by_signals() as woken:
            ask()
            while not select.select([sys.stdin, woken], [], [])[0].count(sys.stdin):
                os.read(woken, 64)
            line = sys.stdin.readline()
    finally:
        if not line.endswith("\n"):
            write(stderr="\n")
    return line


@contextmanager
def _woken_by_signals() -> Iterator[int]:
    """Yield a descriptor that can be read once a signal came."""
    # NB: a read that begins just after a signal came is not interrupted by it: Python runs the handler when the
    # read returns, so ctrl-c at the very moment of the question would wait for another key.
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    before = signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    try:
        yield woken
    finally:
        signal.set_wakeup_fd(before)
        os.close(woken)
        os.close(wakes)
