"""The scheduler itself: reproducible, and a killed process reaches nothing any more."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from tests.sim.kernel import Kernel, KilledError, SimClock, SimThreads
from tests.sim.story import tell


def test_seed_played_twice_same_story() -> None:
    """A seed alone decides everything: events, times and answers."""
    first, second = tell(4711), tell(4711)
    assert first.events == second.events
    assert first.digest == second.digest


def test_other_seed_other_story() -> None:
    """The digest tells stories apart."""
    assert tell(1).digest != tell(2).digest


def test_seed_in_another_process_same_story() -> None:
    """Nothing depends on the hashing of texts, which differs from process to process."""
    program = "from tests.sim.story import tell; print([tell(seed).digest for seed in (3, 4, 5)])"
    seen = set()
    for hashing in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hashing, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
        seen.add(done.stdout)
    assert seen == {f"{[tell(seed).digest for seed in (3, 4, 5)]}\n".encode()}


def test_wait_nobody_ready_time_moves_at_once() -> None:
    """An hour of simulated waiting costs none; the clocks of the process have counted it."""
    kernel = Kernel(0)
    process = kernel.process("p", wall_offset_s=5.0)
    clock, seen = SimClock(process), []

    def work() -> None:
        before_s, before_at = clock.monotonic_s(), clock.wall()
        clock.wait(None, 3600.0)
        seen.append((clock.monotonic_s() - before_s, (clock.wall() - before_at).total_seconds()))

    process.start(work)
    kernel.run()
    kernel.close()
    assert seen == [(3600.0, 3600.0)]


def test_wait_event_set_by_another_thread_ends_early() -> None:
    """Setting an event lets its waiter go on at that very time."""
    kernel = Kernel(0)
    process = kernel.process("p")
    clock, event, woken = SimClock(process), threading.Event(), []

    def waiter() -> None:
        woken.append((clock.wait(event, 100.0), kernel.now_s))

    def setter() -> None:
        clock.wait(None, 7.0)
        event.set()

    process.start(waiter)
    process.start(setter)
    kernel.run()
    kernel.close()
    assert woken == [(True, 7.0)]


def test_join_waits_for_the_thread() -> None:
    """A thread of the code under test is joined in simulated time, with or without a limit."""
    kernel = Kernel(0)
    process = kernel.process("p")
    clock, seen = SimClock(process), []

    def work() -> None:
        thread = SimThreads(process).start(lambda: void(clock.wait(None, 10.0)), name="t")
        thread.join(3.0)
        seen.append((thread.is_alive(), kernel.now_s))
        thread.join()
        seen.append((thread.is_alive(), kernel.now_s))

    process.start(work)
    kernel.run()
    kernel.close()
    assert seen == [(True, 3.0), (False, 10.0)]


def test_killed_process_finally_runs_and_reaches_nothing() -> None:
    """What a dying thread still wants to do raises again, so that it has no effect."""
    kernel = Kernel(0)
    process = kernel.process("p")
    clock, reached = SimClock(process), []

    def work() -> None:
        try:
            clock.wait(None, 100.0)
            reached.append("after")
        finally:
            with pytest.raises(KilledError):
                clock.wait(None, 1.0)
            reached.append("finally")

    process.start(work)
    kernel.at(5.0, process.kill)
    kernel.run()
    assert reached == []
    kernel.close()
    assert reached == ["finally"]


def test_paused_process_goes_on_later_and_its_clocks_have_counted() -> None:
    """SIGSTOP: nothing runs, time passes; a boot clock may be blind for it, the wall clock is not."""
    kernel = Kernel(0)
    process = kernel.process("p")
    clock, seen = SimClock(process), []

    def work() -> None:
        began_s, began_at = clock.monotonic_s(), clock.wall()
        clock.wait(None, 10.0)
        seen.append((kernel.now_s, clock.monotonic_s() - began_s, (clock.wall() - began_at).total_seconds()))

    process.start(work)
    kernel.at(5.0, lambda: process.pause(60.0, boot_counts=False))
    kernel.run()
    kernel.close()
    assert seen == [(65.0, 5.0, 65.0)]


def test_thread_raises_the_simulation_raises() -> None:
    """A fault of the code under test is no silent end of a thread."""
    kernel = Kernel(0)

    def work() -> None:
        raise ZeroDivisionError

    kernel.process("p").start(work)
    with pytest.raises(ZeroDivisionError):
        kernel.run()
    kernel.close()


def void(_: object) -> None:
    """For calls whose result nobody wants."""
