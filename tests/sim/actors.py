"""Who takes part in a story, what befalls them at which of their calls, and the story as a whole."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.sim.agents import Trip
from tests.sim.deploy_spec import DeploySpec
from tests.sim.doors import Weather


@dataclass(frozen=True, slots=True)
class Actor:
    """
    One run: when it starts, what befalls it at which of its calls, and how its machine is.

    `jumps`: when its wall clock is set by how much. `cut`: when its network is down. `hidden`: a pause of its
    machine is not counted by its boot clock.
    """

    starts_s: float
    trips: Mapping[str, Trip] = field(default_factory=dict)
    skew_s: float = 0.0
    jumps: tuple[tuple[float, float], ...] = ()
    cut: tuple[tuple[float, float], ...] = ()
    hidden: bool = False
    killed_s: float | None = None
    paused: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """
    One story.

    `silent_flux`: how often no drain is proven. `believed_dead_s`: from when on the first deploy is said to have
    ended, whether it has or not. `resumes`: the kept suspensions that whoever recovers vouches for.
    """

    first: Actor
    spec: DeploySpec
    second: Actor | None
    second_spec: DeploySpec
    recoverers: tuple[Actor, ...]
    operator: Actor | None
    operator_waits_s: float
    careless: bool
    weather: Weather
    silent: float
    silent_flux: float
    foreign: int
    rough: bool
    believed_dead_s: float | None
    recoverer_believed_dead_s: float | None
    lease: str
    lease_deleted_s: float | None
    nodes: tuple[bool, bool]
    flux: tuple[dict[str, Any], dict[str, str]]
    words: str
    resumes: frozenset[str] = frozenset()


# The calls of a deploy: two looks and the lease, then its fences, its work, and their release.
LOOKS, DEPLOY_CALLS = 25, 75
DEPLOY_WRITES = ("place.1", "place.2", "place.3", "place.4", "journal.1", "journal.2", "renew.1", "renew.2", "renew.4",
                  "release.1", "release.2", "release.3", "release.4", "free.1", "take.1")  # fmt: skip
# The calls of a recovery: a look, the window, a look, everything once as dry-run, then its writes, and a sweep.
RECOVER_CALLS = 65
RECOVER_WRITES = ("take.1", "release.1", "release.2", "release.3", "release.4", "renew.1", "free.1", "hand-back.1",
                   "dry.1", "dry.3")  # fmt: skip


def some_trips(
    dice: random.Random, how_often: float, writes: tuple[str, ...], first: int, last: int
) -> dict[str, Trip]:
    """Something that befalls it, so often."""
    if dice.random() >= how_often:
        return {}
    return one_trip(dice, dice.choice(("kill", "kill", "pause", "pause", "stop")), writes, first, last)


def one_trip(dice: random.Random, what: str, writes: tuple[str, ...], first: int, last: int) -> dict[str, Trip]:
    """Something at one call: a write of a certain kind, or just any."""
    where = (
        dice.choice(writes)
        if dice.random() < 0.6
        else str(dice.randrange(1 if dice.random() < 0.1 else first, last))
    )
    when = dice.choice(("before", "before", "sent", "after"))
    for_s = dice.choice((5.0, 12.0, 25.0, dice.uniform(40, 140), dice.uniform(40, 140), 300.0))
    return {where: Trip(what, when, for_s, late=dice.random() < 0.4)}
