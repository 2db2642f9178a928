"""An orderly end, asked for by a signal: noted once, and obeyed between two writes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from types import FrameType

from fencectl.core.errors import ExitCode

SIGNALS = {
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGTERM: ExitCode.TERMINATED,
    signal.SIGHUP: ExitCode.HANGUP,
}


_SHELLS = frozenset({"bash", "sh", "dash", "ash", "busybox", "zsh", "ksh"})


def parent_shell(environ: Mapping[str, str]) -> str | None:
    """In Actions: the shell that this process was started by, which does not pass a cancel on; else None."""
    if environ.get("GITHUB_ACTIONS") != "true":
        return None
    try:
        parent = Path(f"/proc/{os.getppid()}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    return parent if parent in _SHELLS else None


@dataclass(slots=True)
class Signals:
    """`stop` is set by the first signal; `code` is that signal's exit code."""

    stop: threading.Event
    code: ExitCode | None = None
    _news: SimpleQueue[bool] = field(default_factory=SimpleQueue)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take INT, TERM and HUP for as long as the context lasts; a second signal changes nothing."""
        # NB: what the caller ignores stays ignored, as `nohup` asks.
        numbers = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        teller = threading.Thread(target=self._tell, name="signals", daemon=True)
        teller.start()
        before = {number: signal.signal(number, self._note) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self._news.put(False)
            teller.join(1)

    def raise_for(self, code: ExitCode) -> None:
        """End as if that signal had come."""
        if self.code is None:
            self.code = code
        self.stop.set()

    def _note(self, number: int, _frame: FrameType | None) -> None:
        # NB: the thread that this interrupts may be inside of `stop.wait`, with the event's own lock held: to set
        # it here would wait for that lock for ever. This queue may be used from within a signal handler.
        first = self.code is None
        if first:
            self.code = SIGNALS[signal.Signals(number)]
        self._news.put(True)
        self.interrupt(first)

    def interrupt(self, first: bool) -> None:
        """What else the handler does, in the middle of the main thread: it may raise, and take no lock."""

    def _tell(self) -> None:
        while self._news.get():
            self.stop.set()
