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

GRACE_S = 2.0
"""Between TERM and KILL; a command inside of a nested run gets less, or that run itself is killed meanwhile."""
POLL_S = 0.1


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


class Payload:
    """One command. Start it from the main thread: on Linux its life is bound to the thread that started it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environ: Mapping[str, str],
        clock: Clock,
        stdout: TextIO | None = None,
    ) -> None:
        self._clock = clock
        self.grace_s = GRACE_S / (1 + depth(environ))
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
        """The process group, which is the pid of its leader."""
        return self._process.pid

    def wait(self, *, timeout_s: float, must_stop: Callable[[], str | None]) -> Ended:
        """
        Wait until it has ended, its time is over, or `must_stop` gives a reason to end it.

        A command that ends with 0 in the very moment in which it must stop has not succeeded.
        """
        end_s = self._clock.monotonic_s() + timeout_s
        while True:
            code = self._poll()
            why = must_stop()
            if why is None and code is None and self._clock.monotonic_s() >= end_s:
                why = "its time is over"
            if why is not None:
                return Ended(self.stop(), why)
            if code is not None:
                # NB: what it left behind in its group must not outlive the fences.
                self._signal(signal.SIGKILL)
                return Ended(code)
            self._clock.wait(None, POLL_S)

    def stop(self, *, grace_s: float | None = None) -> int:
        """End the whole group: TERM, a grace, KILL. Returns the exit code of its leader."""
        self._signal(signal.SIGTERM)
        end_s = self._clock.monotonic_s() + (self.grace_s if grace_s is None else grace_s)
        while self._group_lives() and self._clock.monotonic_s() < end_s:
            self._poll()
            self._clock.wait(None, POLL_S)
        self._signal(signal.SIGKILL)
        return _status(self._process.wait())

    def _poll(self) -> int | None:
        code = self._process.poll()
        return None if code is None else _status(code)

    def _group_lives(self) -> bool:
        try:
            os.killpg(self.group, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.group, number)


def _status(code: int) -> int:
    return 128 - code if code < 0 else code
