"""Aspects: real and manual · advancing · waiting · how times are written."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest

from fencectl.sandbox import Sandbox, SandboxClock
from fencectl.sandbox.clock import http_date, rfc3339
from tests.sandbox.support import Background, node

START = datetime(2026, 11, 30, 1, 47, 2, tzinfo=UTC)


def test_real_clock_moves_and_cannot_be_advanced() -> None:
    """Only a manual clock is driven."""
    clock = SandboxClock()
    assert not clock.is_manual
    assert abs((clock.now() - datetime.now(UTC)).total_seconds()) < 5
    with pytest.raises(RuntimeError, match="freeze"):
        clock.advance(1)


def test_manual_clock_stands_until_it_is_advanced() -> None:
    """By any amount, without waiting."""
    clock = SandboxClock(start_at=START)
    assert (clock.now(), clock.now()) == (START, START)
    assert clock.advance(90.5) == START + timedelta(seconds=90.5)
    assert clock.monotonic_s() == START.timestamp() + 90.5


def test_clock_can_be_frozen_later() -> None:
    """At a moment, or at the present one."""
    clock = SandboxClock()
    clock.freeze()
    assert clock.is_manual
    clock.freeze(START)
    assert clock.now() == START


def test_waiting_ends_when_the_clock_gets_there_or_when_stopped() -> None:
    """True for the one, False for the other."""
    clock, stop = SandboxClock(start_at=START), threading.Event()
    waiting = Background(lambda: clock.wait_until(START.timestamp() + 10, stop=stop))
    clock.advance(10)
    assert waiting.result() is True
    waiting = Background(lambda: clock.wait_until(START.timestamp() + 99, stop=stop))
    stop.set()
    assert waiting.result() is False


def test_objects_carry_the_time_of_the_clock() -> None:
    """Creation and managers alike."""
    sandbox = Sandbox(manual_clock_at=START)
    made = sandbox.store.create({**node("a"), "metadata": {"name": "a", "labels": {"a": "b"}}})
    assert made["metadata"]["creationTimestamp"] == "2026-11-30T01:47:02Z"
    sandbox.clock.advance(3600)
    made = sandbox.store.patch("nodes", "a", {"metadata": {"labels": {"c": "d"}}}, manager="other")
    assert made["metadata"]["creationTimestamp"] == "2026-11-30T01:47:02Z"
    times = {entry["manager"]: entry["time"] for entry in made["metadata"]["managedFields"]}
    assert times == {"sandbox": "2026-11-30T01:47:02Z", "other": "2026-11-30T02:47:02Z"}


def test_times_are_written_in_utc() -> None:
    """Whatever the zone they come in."""
    moment = START.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert rfc3339(moment) == "2026-11-30T01:47:02Z"
    assert http_date(moment) == "Mon, 30 Nov 2026 01:47:02 GMT"
