"""
The processes of the demo: each in a session and an environment of its own, and gone when the demo is.

One of them is the real deploy, which is killed in the middle of its work.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

# NB: `-P` keeps the current folder out of the import path; with it, `-m` would prefer what lies there.
PROGRAM = (sys.executable, "-P", "-m", "fencectl")
AT_WORK = " 8  the command runs"
"""How the line ends that a deploy says when all its fences are placed, and its command runs."""
BOUND_S = 60.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: its status, and what it said; `errors` where its stderr was kept apart."""

    status: int
    lines: tuple[str, ...]
    errors: tuple[str, ...] = ()


class Deployer:
    """
    A deploy that is at work, to be killed.

    It ends with the `with` block at the latest: whatever becomes of the demo, no process of it stays.
    """

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self._child = start([*PROGRAM, *arguments], environment)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._child.poll() is None:
            self.kill()
        end(self._child)

    def begin(self, *, within_s: float = BOUND_S) -> tuple[str, ...]:
        """Return what it says until its command runs, or all of it where it ends before that, or is too slow."""
        lines: list[str] = []
        assert self._child.stdout is not None  # noqa: S101  asked for a pipe
        late = threading.Timer(within_s, self._child.kill)
        late.daemon = True
        late.start()
        try:
            for line in self._child.stdout:
                lines.append(line.rstrip("\n"))
                if lines[-1].endswith(AT_WORK):
                    break
        finally:
            late.cancel()
        return tuple(lines)

    def kill(self) -> int:
        """
        Kill it as nothing can be caught, wait until it is gone, and return how it ended.

        Its command dies with it on Linux; elsewhere nothing binds the one to the other, and it is killed too.
        """
        commands = [] if sys.platform == "linux" else self.commands()
        self._child.kill()
        status = self._child.wait()
        for group in commands:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        return status

    def commands(self) -> list[int]:
        """Return the process groups of what it has started."""
        found = subprocess.run(["pgrep", "-P", str(self.pid)], capture_output=True, text=True, check=False)
        return [int(line) for line in found.stdout.split()]

    def is_silent(self, *, within_s: float = BOUND_S) -> bool:
        """Whether its command is gone too, which writes where it does: until then, that has no end."""
        try:
            self._child.communicate(timeout=within_s)
        except subprocess.TimeoutExpired:
            return False
        return True


def start(command: Sequence[str], environment: Mapping[str, str], *, joined: bool = True) -> subprocess.Popen[str]:
    """Start a child in its home; its two streams are joined as on a terminal, unless they are wanted apart."""
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if joined else subprocess.PIPE,
        encoding="utf-8",
        errors="backslashreplace",
        env=dict(environment),
        # NB: a settings file or a checkout that the user stands in is none of its business.
        cwd=environment["HOME"],
        # NB: ctrl-c reaches every process of a terminal's foreground group; the story decides who ends when.
        start_new_session=True,
    )


def end(child: subprocess.Popen[str]) -> None:
    """Kill a child and what it started, if it still runs, and close its pipes."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
    with child:
        child.wait()
