"""
End what runs for a deploy when its lease is lost, whatever the thread that waits for it is doing just then.

That thread may hang in a request for seconds; a command must be dead before the lease can be somebody else's.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence

from fencectl.cluster.clock import Clock
from fencectl.run.keeper import Keeper
from fencectl.run.payload import POLL_S, grace_of
from fencectl.run.ports import Process, Processes, Threads

# NB: loss is declared at two thirds of the duration. This, the grace and a moment fit into the last third of the
# shortest one (5 of 15 s), also where a wall clock that was set ahead ends the lease at once.
LOOK_S = 0.5


class Overseer:
    """Starts commands, and keeps an eye on each from a thread of its own until it has ended."""

    def __init__(self, processes: Processes, keeper: Keeper, clock: Clock, threads: Threads) -> None:
        self._processes = processes
        self._keeper = keeper
        self._clock = clock
        self._threads = threads

    def start(self, command: Sequence[str], environ: Mapping[str, str]) -> Process:
        """Start a command; call it from the main thread."""
        process = self._processes.start(command, environ)
        self._threads.start(lambda: self._oversee(process, grace_of(environ)), name="overseer")
        return process

    def _oversee(self, process: Process, grace_s: float) -> None:
        # NB: by its leader, and never after that has ended: the number of its group may be another's by then.
        while process.poll() is None:
            left_s = self._keeper.held_for_s()
            if left_s == 0:
                self._end(process, grace_s)
                return
            self._clock.wait(None, min(left_s, LOOK_S))

    def _end(self, process: Process, grace_s: float) -> None:
        process.signal(signal.SIGTERM)
        end_s = self._clock.monotonic_s() + grace_s
        while process.poll() is None and self._clock.monotonic_s() < end_s:
            self._clock.wait(None, POLL_S)
        if process.poll() is None:
            process.signal(signal.SIGKILL)
