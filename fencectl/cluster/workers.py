"""
A few threads and one queue of reads, each of which may add more.

`concurrent.futures` costs more to import than all of the reads of a small cluster. Threads are daemons, and the
wait has an end: a thread that hangs in a name look-up or a plugin can delay neither the report nor the exit.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

Job = Callable[[], object]

THREADS = 4


class Workers:
    """
    Runs named jobs; `add` is safe from within a job.

    What a job raises stops everything and is raised by `run`: jobs handle what they expect themselves.
    """

    def __init__(self, threads: int = THREADS) -> None:
        self._threads = threads
        self._changed = threading.Condition()
        self._waiting: deque[tuple[str, Job]] = deque()
        self._running: dict[int, str] = {}
        self._stopped = False
        self._failure: BaseException | None = None
        self._next = 0

    @property
    def lock(self) -> threading.Condition:
        """What jobs hold while they write results that `run`'s caller will read."""
        return self._changed

    @property
    def stopped(self) -> bool:
        """Whether results no longer count: the time is over, or a job gave up for all."""
        return self._stopped

    def add(self, name: str, job: Job) -> None:
        """Queue a job under the name of what it reads."""
        with self._changed:
            if not self._stopped:
                self._waiting.append((name, job))
                self._changed.notify()

    def stop(self) -> None:
        """Give up: jobs that wait are dropped, and `run` returns."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def run(self, *, timeout_s: float) -> tuple[str, ...]:
        """
        Work until nothing is left, or until the time is over or a job stopped it.

        Returns the names of what was left undone because the time was over.
        """
        for _ in range(self._threads):
            threading.Thread(target=self._work, name="fencectl-read", daemon=True).start()
        with self._changed:
            in_time = self._changed.wait_for(self._is_over, timeout=timeout_s)
            undone = () if in_time else (*self._running.values(), *(name for name, _ in self._waiting))
            self._stopped = True
            self._changed.notify_all()
        if self._failure is not None:
            raise self._failure
        return tuple(undone)

    def _is_over(self) -> bool:
        return self._stopped or not (self._waiting or self._running)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_over())
                if self._stopped or not self._waiting:
                    return
                name, job = self._waiting.popleft()
                number = self._next
                self._next += 1
                self._running[number] = name
            try:
                job()
            except BaseException as failure:  # noqa: BLE001 (handed to the thread that waits)
                with self._changed:
                    self._failure = self._failure or failure
                    self._stopped = True
            finally:
                with self._changed:
                    del self._running[number]
                    if self._is_over():
                        self._changed.notify_all()
