"""Aspects: jobs that add jobs · a job that breaks · a job that hangs · giving up."""

from __future__ import annotations

import threading

import pytest

from fencectl.cluster.workers import THREADS, Workers
from tests.kube.scripted import wait_until


def test_jobs_added_by_jobs_are_done_before_it_ends() -> None:
    """A page may lead to further reads; nothing is left when `run` returns."""
    workers, done = Workers(), []

    def grow(depth: int) -> None:
        done.append(depth)
        if depth:
            for _ in range(2):
                workers.add("more", lambda: grow(depth - 1))

    workers.add("first", lambda: grow(5))
    assert workers.run(timeout_s=10) == ()
    assert len(done) == 2**6 - 1


def test_jobs_run_side_by_side() -> None:
    """As many at a time as there are threads."""
    workers, together = Workers(), threading.Barrier(THREADS)
    for _ in range(THREADS):
        workers.add("wait", lambda: together.wait(10))
    assert workers.run(timeout_s=10) == ()


def test_nothing_to_do_ends_at_once() -> None:
    """Without jobs there is nothing to wait for."""
    assert Workers().run(timeout_s=10) == ()


def test_failure_of_a_job_is_raised_where_it_is_waited_for() -> None:
    """A defect in a thread must not vanish with the thread."""
    workers = Workers()

    def break_down() -> None:
        raise IndexError

    workers.add("broken", break_down)
    for _ in range(3):
        workers.add("fine", lambda: None)
    with pytest.raises(IndexError):
        workers.run(timeout_s=10)


def test_hanging_job_is_named_when_the_time_is_over() -> None:
    """One that hangs, and those that wait behind it."""
    workers, release = Workers(threads=1), threading.Event()
    workers.add("hangs", lambda: release.wait(10))
    workers.add("waits", lambda: None)
    try:
        assert workers.run(timeout_s=0.05) == ("hangs", "waits")
        assert workers.stopped
    finally:
        release.set()


def test_giving_up_drops_what_waits() -> None:
    """A job can say that the others are in vain."""
    workers, done = Workers(threads=1), []
    workers.add("gives up", workers.stop)
    workers.add("dropped", lambda: done.append("dropped"))
    assert workers.run(timeout_s=10) == ()
    workers.add("too late", lambda: done.append("too late"))
    assert done == []


def test_no_thread_is_left_behind() -> None:
    """Every thread ends with the work."""
    before = set(threading.enumerate())
    workers = Workers()
    workers.add("fine", lambda: None)
    workers.run(timeout_s=10)
    wait_until(lambda: not set(threading.enumerate()) - before)
