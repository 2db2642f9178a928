"""What a run needs of the world: a door, a clock, threads, processes. A simulation has its own of each."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping, Sequence
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


class Process(Protocol):
    """A command that was started in a process group of its own."""

    @property
    def group(self) -> int:
        """The process group, which is the pid of its leader."""
        ...

    def poll(self) -> int | None:
        """The exit code of its leader (128 + N for a signal), or None while it runs."""
        ...

    def wait(self) -> int:
        """Wait until its leader has ended; its exit code."""
        ...

    def signal(self, number: signal.Signals) -> None:
        """Signal the whole group; nothing where it is gone."""
        ...

    def group_lives(self) -> bool:
        """Whether anything of the group is still there."""
        ...


class Processes(Protocol):
    """How commands are started."""

    def start(self, command: Sequence[str], environ: Mapping[str, str]) -> Process:
        """
        Start a command that dies with this process where the system can do that.

        From the main thread: on Linux its life is bound to the thread that started it.
        """
        ...
