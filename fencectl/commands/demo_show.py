"""How the demo tells its story: a step at a time, real output flush left, and a mark for what was looked up."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from fencectl.commands.asking import answer_to
from fencectl.core.errors import ExitCode, FencectlError
from fencectl.report.escape import log_safe, visible
from fencectl.report.style import Style, wrap

STEPS = 5


class StepFailedError(FencectlError):
    """A step did not do what the story says. `step`: its number."""

    exit_code = ExitCode.UNEXPECTED


class Narrator:
    """
    Writes the story to stdout.

    `stops`: whether it waits for Enter after each step, which needs somebody at a terminal.
    """

    def __init__(self, style: Style, *, stops: bool) -> None:
        self._style = style
        self._stops = stops
        self._step = 0

    def step(self, sentence: str) -> None:
        """Begin the next step."""
        if self._step:
            self._pause()
        self._step += 1
        self.say("")
        self._lines(map(self._style.bold, wrap(sentence, first=f"{self._step}/{STEPS}  ", rest="     ")))

    def aside(self, text: str) -> None:
        """Say what the demo itself does."""
        self._lines(map(self._style.dim, wrap(f"({text})", first="  ", rest="   ")))

    def command(self, line: str) -> None:
        """Show a command as one would type it; it is never broken."""
        self._lines([f"$ {self._style.bold(visible(line))}"])

    def output(self, lines: Iterable[str]) -> None:
        """Show what a command really said."""
        self._lines(visible(line) for line in lines)

    def say(self, text: str) -> None:
        """Say a sentence."""
        self._lines(wrap(text) if text else [""])

    def check(self, sentence: str, *, expected: object, found: object) -> None:
        """
        Say what was looked up on the cluster or the machine.

        Raises StepFailedError where it is not as expected; what was found instead is shown before.
        """
        self.require(sentence, expected=expected, found=found)
        self._lines(wrap(sentence, first=f"{self._style.good} ", rest=" " * 3))

    def require(self, sentence: str, *, expected: object, found: object) -> None:
        """As `check`, for what goes without saying where it is so."""
        if expected == found:
            return
        self._lines(wrap(f"not so: {sentence}", first=f"{self._style.failed} ", rest=" " * 3))
        self._lines([f"   expected  {visible(str(expected))}", f"   found     {visible(str(found))}"])
        raise StepFailedError(f"step {self._step} of the demo did not do what it says", reason=sentence)

    def _pause(self) -> None:
        if not self._stops:
            return
        if not answer_to(self._asks):
            raise EOFError

    def _asks(self) -> None:
        sys.stdout.write(self._style.dim("Enter goes on, ctrl-c ends "))
        sys.stdout.flush()

    def _lines(self, lines: Iterable[str]) -> None:
        sys.stdout.write("".join(f"{log_safe(self._style.spelled(line))}\n" for line in lines))
        sys.stdout.flush()
