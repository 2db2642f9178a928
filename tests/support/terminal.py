"""A program as a process of its own whose output is read as it comes: in a pipe, or at a terminal of its own."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

WAIT_S = 60.0
# NB: a session leader that opens a terminal is controlled by it: only so does ctrl-c there interrupt it.
_ON_TERMINAL = 'terminal=$1; shift; exec "$@" <>"$terminal" >&0 2>&1'


@dataclass
class Spoken:
    """A running program. `said`: what it has said so far, both streams as they came."""

    process: subprocess.Popen[bytes]
    descriptor: int
    said: str = ""
    _theirs: int | None = None
    _end_s: float = field(default_factory=lambda: time.monotonic() + WAIT_S)

    def read(self) -> bool:
        """Wait for more, and take it in; False at the end."""
        left_s = self._end_s - time.monotonic()
        ready, _, _ = select.select([self.descriptor], [], [], max(0.0, left_s))
        assert ready, f"nothing more within {WAIT_S:.0f}s of:\n{self.said}"
        try:
            data = os.read(self.descriptor, 65536)
        except OSError:  # a terminal whose other side is closed
            return False
        self.said += data.decode("utf-8")
        self.let_go()
        return bool(data)

    def let_go(self) -> None:
        """Close our copy of the program's side, without which its terminal would not end; it has its own by now."""
        theirs, self._theirs = self._theirs, None
        if theirs is not None:
            os.close(theirs)

    def until(self, text: str, *, times: int = 1) -> str:
        """Read until it has said this; return everything so far."""
        while self.said.count(text) < times:
            assert self.read(), f"it ended before {text!r}:\n{self.said}"
        return self.said

    def to_the_end(self) -> int:
        """Read until it says nothing more; return its status."""
        while self.read():
            pass
        return self.process.wait(WAIT_S)

    def type(self, keys: str) -> None:
        """Type at its terminal."""
        os.write(self.descriptor, keys.encode())

    def resize(self, *, rows: int, columns: int) -> None:
        """Give its terminal another size."""
        termios.tcsetwinsize(self.descriptor, (rows, columns))

    def settings(self) -> list[object]:
        """Return the settings of its terminal."""
        return list(termios.tcgetattr(self.descriptor))


@contextmanager
def spoken(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    terminal: bool = False,
    module: str = "fencectl",
) -> Iterator[Spoken]:
    """Start `fencectl` with these arguments, in a pipe or at a terminal of 80 by 24; it is gone after the block."""
    command = [sys.executable, "-m", module, *arguments]
    theirs: int | None
    if terminal:
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, 80))
        command = ["sh", "-c", _ON_TERMINAL, "sh", os.ttyname(theirs), *command]
        process = subprocess.Popen(command, env=dict(env), cwd=cwd, start_new_session=True)
    else:
        ours, theirs = os.pipe()
        process = subprocess.Popen(
            command,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        theirs = None
    running = Spoken(process, ours, _theirs=theirs)
    try:
        yield running
    finally:
        process.kill()
        process.wait()
        running.let_go()
        os.close(ours)
