"""Two deploys that begin in the same moment: one runs, the other says who does."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from fencectl.core.errors import ExitCode
from fencectl.core.identity import parse_holder
from fencectl.run.leasing import LeaseBusyError
from tests.support.deploying import LEASE_PATH, Scene

RACES = 50
BOUND_S = 30.0


class Racer(threading.Thread):
    """One deploy in a thread: asks for the lease at the same time as the other, and ends when the other has."""

    def __init__(self, scene: Scene, start: threading.Barrier, ran: list[str]) -> None:
        super().__init__(daemon=True)
        self.scene, self.over = scene, threading.Event()
        self.other: Racer | None = None
        self.came_of_it: Any = None
        self._start_together, self._ran = start, ran

    def run(self) -> None:
        self.scene.door.before = self._together
        self.scene.payload = self._payload
        try:
            self.came_of_it = self.scene.deploy()
        except LeaseBusyError as busy:
            self.came_of_it = busy
        finally:
            self.over.set()

    def _together(self, number: int) -> None:
        if number == 1:
            self._start_together.wait(BOUND_S)

    def _payload(self) -> int:
        self._ran.append(self.scene.holder)
        assert self.other is not None
        assert self.other.over.wait(BOUND_S)
        return 0


@pytest.mark.no_cover
def test_of_two_deploys_at_once_one_runs_and_the_other_says_who_fifty_times() -> None:
    """Both have read a free lease, and write in the same moment; the token grows by one each time."""
    first = Scene()
    for race in range(1, RACES + 1):
        ran: list[str] = []
        start = threading.Barrier(2)
        names = [f"deadbeefdeadbeef-local-host{number}-{race}-{race:08x}" for number in (1, 2)]
        racers = [Racer(Scene(holder=name, beside=first, bare=True), start, ran) for name in names]
        for one, other in (racers, reversed(racers)):
            one.other = other
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join(BOUND_S)
        (holder,) = ran
        winner, loser = racers if racers[0].scene.holder == holder else reversed(racers)
        assert (winner.came_of_it.code, winner.came_of_it.token) == (ExitCode.OK, race)
        assert isinstance(loser.came_of_it, LeaseBusyError), loser.came_of_it
        assert loser.came_of_it.holder == holder
        assert parse_holder(holder).title in loser.came_of_it.sentence
        assert loser.came_of_it.exit_code is ExitCode.HELD_LIVE
        assert first.state() == first.before
        lease = first.raw(LEASE_PATH)["spec"]
        assert (lease["holderIdentity"], lease["leaseTransitions"]) == ("", race)
