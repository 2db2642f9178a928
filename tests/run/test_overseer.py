"""A command is ended when the lease is lost, although the thread that waits for it hangs."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from fencectl.core.refs import ObjectRef, Seen
from fencectl.run.keeper import Keeper
from fencectl.run.overseer import Overseer
from tests.support.inprocess import HandClock

T = 15


@dataclass
class Command:
    """Runs until a signal that it heeds."""

    clock: HandClock
    heeds: tuple[signal.Signals, ...]
    runs_s: float = 1e9
    signals: list[tuple[float, signal.Signals]] = field(default_factory=list)
    group: int = 4711

    def poll(self) -> int | None:
        ended = self.clock.boot_s >= 1000 + self.runs_s or any(sent in self.heeds for _, sent in self.signals)
        return 0 if ended else None

    def wait(self) -> int:
        return 0

    def signal(self, number: signal.Signals) -> None:
        self.signals.append((self.clock.boot_s - 1000, number))

    def group_lives(self) -> bool:
        return self.poll() is None


@dataclass
class Stage:
    clock: HandClock
    command: Command

    def start(self, command: Sequence[str], environ: Mapping[str, str]) -> Command:
        return self.command

    def oversee(self) -> None:
        """Start it; the other thread runs to its end at once, since nobody else does anything."""
        ref = ObjectRef("coordination.k8s.io/v1", "Lease", "leases", "x", "x", "uid")
        lease = Seen(ref, {"spec": {"leaseTransitions": 1}})
        door: Any = None
        keeper = Keeper(
            door, self.clock, lease, holder="h", duration_s=T, sent_s=self.clock.boot_s, sent_at=self.clock.at
        )
        Overseer(self, keeper, self.clock, AtOnce()).start(("x",), {})


class AtOnce:
    def start(self, work: Callable[[], None], *, name: str) -> Any:
        work()
        return None


@pytest.mark.parametrize(
    ("heeds", "sent"),
    [
        ((signal.SIGTERM, signal.SIGKILL), [signal.SIGTERM]),
        ((signal.SIGKILL,), [signal.SIGTERM, signal.SIGKILL]),
    ],
)
def test_command_of_a_lost_lease_is_dead_before_its_time_is_over(
    heeds: tuple[signal.Signals, ...], sent: list[signal.Signals]
) -> None:
    """TERM at two thirds, KILL after the grace, both before the lease can be somebody else's."""
    clock = HandClock()
    command = Command(clock, heeds)
    Stage(clock, command).oversee()
    assert [number for _, number in command.signals] == sent
    assert command.signals[0][0] >= T * 2 / 3
    assert command.signals[-1][0] < T


def test_command_that_ends_by_itself_is_left_alone() -> None:
    """No signal to a number that may be another's by then."""
    clock = HandClock()
    command = Command(clock, (), runs_s=3)
    Stage(clock, command).oversee()
    assert command.signals == []


def test_wall_clock_that_jumps_ends_it_as_well() -> None:
    """The lease is lost by either clock."""
    clock = HandClock()
    command = Command(clock, (signal.SIGTERM,))
    clock.on_wait = lambda _: clock.advance(0, wall_s=60) if clock.boot_s >= 1003 else None
    Stage(clock, command).oversee()
    assert [(at_s < 4, number) for at_s, number in command.signals] == [(True, signal.SIGTERM)]
