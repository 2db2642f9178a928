"""
A cooperative scheduler in simulated time: many threads, of which exactly one runs.

Each task is a real thread, so the code under test runs as it is. A task gives the baton away wherever it waits (for
the clock, for an answer, for another thread), and one seeded `Random` decides who has it next. Time moves only when
nobody can go on. Nothing here sleeps, and nothing depends on the machine: a seed tells the same story each time.
"""

from __future__ import annotations

import hashlib
import heapq
import math
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

START = datetime(2024, 11, 30, 2, 0, tzinfo=UTC)
MAX_STEPS = 200_000
FOREVER = math.inf


class KilledError(BaseException):
    """
    The process of this task is dead.

    It unwinds the thread; since every door and clock of a dead process raises it again, nothing that runs on the
    way (`finally`, `except`) can reach the cluster.
    """


class StuckError(Exception):
    """The story does not come to an end."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the story."""

    at_s: float
    who: str
    what: str

    def __str__(self) -> str:
        return f"{self.at_s:9.3f}  {self.who:<12} {self.what}"


class Task:
    """One thread of one process. It is ready when `due_s` has come, or `condition` holds."""

    __slots__ = ("condition", "due_s", "ended", "error", "gate", "name", "process", "thread", "work")

    def __init__(self, process: Process, work: Callable[[], None], name: str) -> None:
        self.process = process
        self.work = work
        self.name = name
        self.gate = threading.Lock()
        self.gate.acquire()
        self.due_s = process.kernel.now_s
        self.condition: Callable[[], bool] | None = None
        self.ended = False
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name=f"sim-{process.name}-{name}", daemon=True)

    def is_ready(self, now_s: float) -> bool:
        return self.due_s <= now_s or (self.condition is not None and self.condition())

    def _run(self) -> None:
        self.gate.acquire()
        try:
            if not self.process.dead:
                self.work()
        except KilledError:
            pass
        except BaseException as error:  # noqa: BLE001 (kept, and raised by whoever runs the simulation)
            self.error = error
        self.process.kernel.end_of(self)


@dataclass(slots=True)
class Process:
    """
    Threads that live and die together, with clocks of their own.

    `wall_offset_s`: how far the wall clock is off. `unseen_s`: time that the boot clock did not count, as a
    machine's does that has no clock for suspend. `dead`: killed, or ended, at `killed_s`. `pauses`: from when to when
    it was stopped.
    """

    kernel: Kernel
    name: str
    wall_offset_s: float = 0.0
    unseen_s: float = 0.0
    dead: bool = False
    paused: bool = False
    killed_s: float | None = None
    pauses: list[tuple[float, float]] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def start(self, work: Callable[[], None], name: str = "main") -> Task:
        task = Task(self, work, name)
        self.tasks.append(task)
        self.kernel.add(task)
        return task

    def say(self, what: str) -> None:
        self.kernel.say(self.name, what)

    def kill(self, how: str = "SIGKILL") -> None:
        """End it at once; where the running task is its own, the caller must raise KilledError."""
        if not self.dead:
            self.dead, self.killed_s = True, self.kernel.now_s
            self.say(how)

    def pause(self, for_s: float, *, boot_counts: bool = True) -> None:
        """SIGSTOP (or a machine that sleeps), and SIGCONT so much later."""
        if self.dead or self.paused:
            return
        self.paused = True
        self.say(f"SIGSTOP for {for_s:.1f}s")
        self.pauses.append((self.kernel.now_s, self.kernel.now_s + for_s))
        self.kernel.at(self.kernel.now_s + for_s, lambda: self._go_on(0.0 if boot_counts else for_s))

    def _go_on(self, unseen_s: float) -> None:
        self.paused = False
        self.unseen_s += unseen_s
        if not self.dead:
            self.say("SIGCONT")

    def boot_s(self) -> float:
        return 1000.0 + self.kernel.now_s - self.unseen_s

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.kernel.now_s + self.wall_offset_s)


class Kernel:
    """The scheduler: `run` until nobody has anything left to do."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 (not for secrets)
        self.now_s = 0.0
        self.steps = 0
        self.trace: list[Event] = []
        self.failures: list[str] = []
        self.on_advance: list[Callable[[float], None]] = []
        self._tasks: list[Task] = []
        self._timers: list[tuple[float, float, int, Callable[[], None]]] = []
        self._timers_made = 0
        self._main = threading.Lock()
        self._main.acquire()
        self._current: Task | None = None
        self._closing = False
        self._crash: Exception | None = None
        self._all: list[Task] = []

    # What tells the story

    def say(self, who: str, what: str) -> None:
        self.trace.append(Event(self.now_s, who, what))

    def fail(self, what: str) -> None:
        """Note that an invariant does not hold; the story ends at the next step."""
        self.say("INVARIANT", what)
        self.failures.append(what)

    def digest(self) -> str:
        """The story in one word: equal for equal stories."""
        text = "\n".join(str(event) for event in self.trace)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    # What makes things happen

    def process(self, name: str, *, wall_offset_s: float = 0.0) -> Process:
        return Process(self, name, wall_offset_s)

    def add(self, task: Task) -> None:
        self._tasks.append(task)
        self._all.append(task)
        task.thread.start()

    def at(self, at_s: float, action: Callable[[], None]) -> None:
        """Do something at a time, on whichever thread has the baton then; it must not wait."""
        self._timers_made += 1
        heapq.heappush(self._timers, (at_s, self.random.random(), self._timers_made, action))

    def run(self) -> None:
        """Go on until everybody has ended and nothing is due any more, or until an invariant is broken."""
        following = self._next()
        if following is not None:
            self._hand_to(following)
            self._main.acquire()
        if self._crash is not None:
            raise self._crash
        for task in self._all:
            if task.error is not None:
                raise task.error

    def close(self) -> None:
        """End every thread that is left; none of them can reach anything any more."""
        self._closing = True
        for task in self._all:
            task.process.dead = True
        for task in self._all:
            if not task.ended:
                self._hand_to(task)
                task.thread.join(10)
                if task.thread.is_alive():
                    raise StuckError(f"{task.process.name}/{task.name} does not end")
        self._tasks.clear()
        self._timers.clear()

    # What tasks call

    def wait(self, for_s: float, condition: Callable[[], bool] | None = None) -> None:
        """Give the baton away until the time is over or the condition holds."""
        task = self._current
        if task is None:
            raise RuntimeError("only a task can wait")
        if task.process.dead:
            raise KilledError
        task.due_s = self.now_s + max(0.0, for_s)
        task.condition = condition
        following = self._next()
        if following is not task:
            if following is None:
                self._to_main()
            else:
                self._hand_to(following)
            task.gate.acquire()
        if task.process.dead:
            raise KilledError

    def wake(self, task: Task, at_s: float) -> None:
        """Let a waiting task go on at that time at the latest."""
        task.due_s = min(task.due_s, at_s)

    @property
    def current(self) -> Task:
        """The task that runs."""
        if self._current is None:
            raise RuntimeError("no task runs")
        return self._current

    def end_of(self, task: Task) -> None:
        task.ended = True
        if task in self._tasks:
            self._tasks.remove(task)
        if self._closing:
            return
        if task.error is not None:
            self._to_main()
            return
        following = self._next()
        if following is None:
            self._to_main()
        else:
            self._hand_to(following)

    # Inside

    def _hand_to(self, task: Task) -> None:
        self._current = task
        task.gate.release()

    def _to_main(self) -> None:
        self._current = None
        self._main.release()

    def _next(self) -> Task | None:
        """Choose who goes on; timers that are due run right here. None: the main thread."""
        while not self.failures:
            self.steps += 1
            if self.steps > MAX_STEPS:
                self.fail(f"the story has no end: more than {MAX_STEPS} steps")
                return None
            now_s, next_s = self.now_s, FOREVER
            ready = []
            for task in self._tasks:
                if task.process.dead or task.process.paused:
                    continue
                if task.is_ready(now_s):
                    ready.append(task)
                elif task.due_s < next_s:
                    next_s = task.due_s
            timer_due = bool(self._timers) and self._timers[0][0] <= now_s
            choices = len(ready) + timer_due
            if choices:
                chosen = self.random.randrange(choices) if choices > 1 else 0
                if chosen < len(ready):
                    return ready[chosen]
                self._run_timer()
                continue
            if self._timers:
                next_s = min(next_s, self._timers[0][0])
            if next_s == FOREVER:
                return None
            self._advance(next_s - now_s)
        return None

    def _run_timer(self) -> None:
        action = heapq.heappop(self._timers)[3]
        before, self._current = self._current, None
        try:
            action()
        except Exception as error:  # noqa: BLE001 (raised by `run`, on the main thread)
            self._crash = error
            self.fail(f"{type(error).__name__}: {error}")
        finally:
            self._current = before

    def _advance(self, by_s: float) -> None:
        self.now_s += by_s
        for listener in self.on_advance:
            listener(by_s)


@dataclass(frozen=True, slots=True)
class SimClock:
    """The clocks of one process, as the code under test sees them."""

    process: Process

    def wall(self) -> datetime:
        return self.process.wall()

    def monotonic_s(self) -> float:
        return self.process.boot_s()

    def wait(self, event: threading.Event | None, timeout_s: float) -> bool:
        self.process.kernel.wait(timeout_s, None if event is None else event.is_set)
        return event is not None and event.is_set()


@dataclass(frozen=True, slots=True)
class SimThread:
    """A thread as the code under test sees it."""

    task: Task

    def join(self, timeout: float | None = None) -> None:
        kernel = self.task.process.kernel
        kernel.wait(FOREVER if timeout is None else timeout, lambda: self.task.ended)

    def is_alive(self) -> bool:
        return not self.task.ended


@dataclass(frozen=True, slots=True)
class SimThreads:
    """Starts threads of one process."""

    process: Process

    def start(self, work: Callable[[], None], *, name: str) -> SimThread:
        return SimThread(self.process.start(work, name))
