"""
A few threads, each with a connection of its own, and one end for all of them.

Threads are daemons and the wait is bounded: neither a name look-up that hangs nor a server that sends a byte a
second can delay the report.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from fencectl.evidence.github_wire import Deadline, Wire

_Given = TypeVar("_Given")


def each_within(
    tasks: Mapping[str, Callable[[Wire], _Given]],
    *,
    open_wire: Callable[[], Wire],
    deadline: Deadline,
    threads: int,
) -> dict[str, _Given]:
    """
    Do every task, `threads` at a time, until the deadline; what was not done by then is missing from the result.

    What a task raises is raised here: tasks handle what they expect themselves.
    """
    return _Pool(tasks, open_wire).run(deadline, min(threads, len(tasks)))


class _Pool(Generic[_Given]):
    def __init__(self, tasks: Mapping[str, Callable[[Wire], _Given]], open_wire: Callable[[], Wire]) -> None:
        self._waiting = deque(tasks.items())
        self._open_wire = open_wire
        self._changed = threading.Condition()
        self._done: dict[str, _Given] = {}
        self._wires: list[Wire] = []
        self._running = 0
        self._over = False
        self._failure: BaseException | None = None

    def run(self, deadline: Deadline, threads: int) -> dict[str, _Given]:
        self._running = threads
        for _ in range(threads):
            threading.Thread(target=self._work, name="fencectl-github", daemon=True).start()
        with self._changed:
            self._changed.wait_for(lambda: self._running == 0 or self._failure, timeout=max(0.0, deadline.left_s))
            self._over = True
            done, wires = dict(self._done), tuple(self._wires)
        for wire in wires:
            wire.abort()
        if self._failure is not None:
            raise self._failure
        return done

    def _work(self) -> None:
        wire = self._open_wire()
        try:
            self._work_with(wire)
        except BaseException as failure:  # noqa: BLE001 (handed to the thread that waits)
            with self._changed:
                self._failure = self._failure or failure
        finally:
            wire.close()
            with self._changed:
                if wire in self._wires:
                    self._wires.remove(wire)
                self._running -= 1
                self._changed.notify_all()

    def _work_with(self, wire: Wire) -> None:
        with self._changed:
            self._wires.append(wire)
        while True:
            with self._changed:
                if self._over or not self._waiting:
                    return
                name, task = self._waiting.popleft()
            given = task(wire)
            with self._changed:
                self._done[name] = given
