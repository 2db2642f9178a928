"""What a run needs of the world: a door to read and write, a clock, threads. A simulation has its own of each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from fencectl.cluster.ports import Getter
from fencectl.cluster.write import Sender


class Door(Getter, Sender, Protocol):
    """A way to one cluster that may read and write."""


class Thread(Protocol):
    """A thread that was started."""

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended."""
        ...

    def is_alive(self) -> bool:
        """Whether it still runs."""
        ...


class Threads(Protocol):
    """How threads are started."""

    def start(self, work: Callable[[], None], *, name: str) -> Thread:
        """Run `work` beside the caller."""
        ...


class SystemThreads:
    """The threads of this process. They never keep it alive: what they guard is guarded by a time, not by them."""

    def start(self, work: Callable[[], None], *, name: str) -> Thread:
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        return thread
