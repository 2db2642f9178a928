"""
The payload: the command that a deploy runs, in a process group of its own, ended whole when it must not go on.

Its output passes through unharmed: it inherits our streams. It dies with us on Linux; whatever it has forked is
ended with its group, TERM first, KILL after a grace.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TextIO

from fencectl.cluster.clock import Clock
from fencectl.core.nesting import depth
from fencectl.run import payload_stub
from fencectl.run.ports import Process, Processes

GRACE_S = 2.0
"""Between TERM and KILL; a command inside of a nested run gets less, or that run itself is killed meanwhile."""
POLL_S = 0.1


def grace_of(environ: Mapping[str, str]) -> float:
    """The grace of a command with this environment."""
    return GRACE_S / (1 + depth(environ))


@dataclass(frozen=True, slots=True)
class Ended:
    """
    How a payload ended.

    `code`: its exit code, 128 + N for a signal. `why_stopped`: why it was ended by us; None where it ended itself.
    """

    code: int
    why_stopped: str | None = None

    @property
    def ok(self) -> bool:
        """Whether it did what it should: ended by itself, with 0."""
        return self.code == 0 and self.why_stopped is None

    @property
    def timed_out(self) -> bool:
        """Whether it was ended because its time was over."""
        return self.why_stopped == TIME_OVER


class SystemProcess:
    """A process of this machine, started through a stub that binds its life to ours (see `ports.Process`)."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], stdout: TextIO | None) -> None:
        self._process = subprocess.Popen(
            # NB: isolated: what lies in the current folder, or in PYTHONPATH, is the command's, not the stub's.
            [sys.executable, "-I", "-S", payload_stub.__file__, str(os.getpid()), *command],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            process_group=0,
        )

    @property
    def group(self) -> int:
        """The pid of its leader."""
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code of its leader, or None while it runs."""
        code = self._process.poll()
        return None if code is None else _status(code)

    def wait(self) -> int:
        """Wait until its leader has ended."""
        return _status(self._process.wait())

    def signal(self, number: signal.Signals) -> None:
        """Signal the whole group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.group, number)

    def group_lives(self) -> bool:
        """Whether anything of the group is still there."""
        try:
            os.killpg(self.group, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


@dataclass(frozen=True, slots=True)
class SystemProcesses:
    """The processes of this machine. `stdout`: where theirs goes; None: they inherit ours."""

    stdout: TextIO | None = None

    def start(self, command: Sequence[str], environ: Mapping[str, str]) -> Process:
        """Start a command."""
        return SystemProcess(command, environ, self.stdout)


TIME_OVER = "its time is over"


class Payload:
    """One command under way. Start it from the main thread: on Linux its life is bound to the starting thread."""

    def __init__(
        self, command: Sequence[str], *, environ: Mapping[str, str], clock: Clock, processes: Processes
    ) -> None:
        self._clock = clock
        self.grace_s = grace_of(environ)
        self._process = processes.start(command, environ)

    @property
    def group(self) -> int:
        """The process group, which is the pid of its leader."""
        return self._process.group

    def wait(self, *, timeout_s: float, must_stop: Callable[[], str | None]) -> Ended:
        """
        Wait until it has ended, its time is over, or `must_stop` gives a reason to end it.

        A command that ends with 0 in the very moment in which it must stop has not succeeded.
        """
        end_s = self._clock.monotonic_s() + timeout_s
        while True:
            code = self._process.poll()
            why = must_stop()
            if why is None and code is None and self._clock.monotonic_s() >= end_s:
                why = TIME_OVER
            if why is not None:
                return Ended(self.stop(), why)
            if code is not None:
                # NB: what it left behind in its group must not outlive the fences.
                self._process.signal(signal.SIGKILL)
                return Ended(code)
            self._clock.wait(None, POLL_S)

    def stop(self, *, grace_s: float | None = None) -> int:
        """End the whole group: TERM, a grace, KILL. Returns the exit code of its leader."""
        self._process.signal(signal.SIGTERM)
        end_s = self._clock.monotonic_s() + (self.grace_s if grace_s is None else grace_s)
        while self._process.group_lives() and self._clock.monotonic_s() < end_s:
            self._process.poll()
            self._clock.wait(None, POLL_S)
        self._process.signal(signal.SIGKILL)
        return self._process.wait()


def _status(code: int) -> int:
    return 128 - code if code < 0 else code
