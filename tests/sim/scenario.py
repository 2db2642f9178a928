"""Draw one story from a seed: who takes part, what befalls them, and how bad the network is."""

from __future__ import annotations

import random
from typing import Any

from tests.sim.actors import (
    DEPLOY_CALLS,
    DEPLOY_WRITES,
    LOOKS,
    RECOVER_CALLS,
    RECOVER_WRITES,
    Actor,
    Scenario,
    one_trip,
    some_trips,
)
from tests.sim.agents import Trip
from tests.sim.deploy_spec import DeploySpec
from tests.sim.doors import Weather
from tests.sim.edges import AIMED, EDGES


def draw(seed: int, edge: str | None = None) -> Scenario:
    """
    The story of a seed: any one, or (every other time) one of those that are closest to an edge.

    `edge`: only stories of this one.
    """
    dice = random.Random(seed ^ 0x5EED)  # noqa: S311 (not for secrets)
    fate = dice.choices(("killed", "paused", "starved", "lives"), (40, 37, 10, 13))[0]
    lied = (fate in ("paused", "starved") and dice.random() < 0.8) or (fate == "lives" and dice.random() < 0.4)
    operator = dice.random() < 0.35
    odd_clocks = dice.random() < 0.3
    duration_s = dice.choice((15, 30, 30, 60))
    first = _first(dice, fate, odd_clocks=odd_clocks)
    recoverers = tuple(
        _recoverer(dice, odd_clocks=odd_clocks) for _ in range(dice.choices((0, 1, 2), (1, 6, 3))[0])
    )
    second = (
        Actor(dice.uniform(10, 250), some_trips(dice, 0.4, DEPLOY_WRITES, LOOKS, DEPLOY_CALLS))
        if dice.random() < 0.4
        else None
    )
    calm = dice.random() < 0.3
    weather = Weather(
        latency_s=dice.choice((0.02, 0.05, 0.3)),
        slow=0.0 if calm else dice.choice((0.003, 0.02)),
        lost_before=0.0 if calm else 0.04,
        lost_after=0.0 if calm else 0.06,
        late=0.0 if calm else dice.choice((0.03, 0.1, 0.25)),
        busy=0.0 if calm else 0.03,
        read_fails=0.0 if calm else 0.003,
        away=_away(dice),
    )
    children = dice.random() < 0.8
    any_story = Scenario(
        first=first,
        spec=DeploySpec(
            ("base", "web") if children else ("web",),
            dice.choice((("n1", "n2"), ("n1",), ())),
            duration_s=duration_s,
            works_s=dice.choice((0.5, 8.0, 25.0)),
            keeps=dice.random() < 0.2,
            **_ways(dice),
        ),
        second=second,
        second_spec=DeploySpec(
            ("base", "web"), ("n2",), works_s=5.0, waits_s=dice.choice((0.0, 60.0, 300.0)), **_ways(dice)
        ),
        recoverers=recoverers,
        operator=Actor(dice.uniform(5, 120)) if operator else None,
        operator_waits_s=dice.choice((0.5, 10.0, 90.0)),
        careless=dice.random() < 0.3,
        weather=weather,
        silent=0.0 if dice.random() < 0.6 else 0.15,
        silent_flux=0.0 if dice.random() < 0.9 else 0.5,
        foreign=dice.choice((0, 3, 12, 40)),
        rough=dice.random() < 0.4,
        believed_dead_s=dice.uniform(0, 40) if lied else None,
        recoverer_believed_dead_s=dice.uniform(60, 200) if dice.random() < 0.3 else None,
        lease=dice.choice(("absent", "free", "never-held")),
        lease_deleted_s=dice.uniform(20, 200) if dice.random() < 0.03 else None,
        nodes=(dice.random() < 0.2, dice.random() < 0.2),
        flux=_flux(dice),
        words=f"{fate}{', believed dead' if lied else ''}, T={duration_s}",
    )
    chosen = dice.choice(("any",) * 6 + ("sleeper", *(name for name in EDGES if name not in AIMED)))
    return EDGES[edge or chosen](dice, any_story)


def _ways(dice: random.Random) -> dict[str, Any]:
    """How a deploy goes about its work."""
    return {
        "rolls": dice.random() < 0.6,
        "at_once": dice.choice((1, 1, 2)),
        "drain_s": dice.choice((0.0, 0.0, 15.0)),
        "code": dice.choice((0, 0, 0, 1)),
        "heeds": dice.random() < 0.7,
    }


def _first(dice: random.Random, fate: str, *, odd_clocks: bool) -> Actor:
    trips: dict[str, Trip] = {}
    cut: tuple[tuple[float, float], ...] = ()
    killed_s = None
    paused = None
    if fate == "killed":
        trips = one_trip(dice, "kill", DEPLOY_WRITES, LOOKS, DEPLOY_CALLS)
        killed_s = dice.uniform(1, 60) if dice.random() < 0.3 else None
    elif fate == "paused":
        writes = ("place.1", "place.2", "place.3", "place.4") if dice.random() < 0.5 else DEPLOY_WRITES
        trips = one_trip(dice, "pause", writes, LOOKS, DEPLOY_CALLS)
        paused = (dice.uniform(0.5, 30), dice.uniform(30, 200)) if dice.random() < 0.2 else None
        killed_s = dice.uniform(60, 300) if dice.random() < 0.2 else None
    elif fate == "starved":
        begin = dice.uniform(0.5, 30)
        cut = ((begin, begin + dice.choice((8.0, 25.0, 60.0, 150.0))),)
    return Actor(
        0.0,
        trips,
        skew_s=dice.choice((-90.0, -9.0, 9.0, 90.0)) if odd_clocks else dice.uniform(-1.0, 1.0),
        jumps=((dice.uniform(1, 60), dice.choice((-300.0, -20.0, 5.0, 30.0))),) if odd_clocks else (),
        cut=cut,
        # NB: either clock may be fooled, not both at once.
        hidden=not odd_clocks and dice.random() < 0.3,
        killed_s=killed_s,
        paused=paused,
    )


def _recoverer(dice: random.Random, *, odd_clocks: bool) -> Actor:
    skew_s = dice.choice((-60.0, 0.0, 60.0)) if odd_clocks else 0.0
    trips = some_trips(dice, 0.5, RECOVER_WRITES, 20, RECOVER_CALLS)
    starts_s = dice.uniform(2, 60) if dice.random() < 0.7 else dice.uniform(2, 200)
    return Actor(starts_s, trips, skew_s=skew_s)


def _away(dice: random.Random) -> tuple[tuple[float, float], ...]:
    if dice.random() < 0.75:
        return ()
    begin = dice.uniform(5, 120)
    return ((begin, begin + dice.choice((4.0, 15.0, 45.0))),)


def _flux(dice: random.Random) -> tuple[dict[str, Any], dict[str, str]]:
    spec = dice.choice(({}, {}, {"suspend": False}))
    annotations = dice.choice(
        (
            {},
            {"team": "a"},
            {"reconcile.fluxcd.io/requestedAt": "2024-11-29T00:00:00Z"},
            {"kustomize.toolkit.fluxcd.io/reconcile": "enabled"},
        )
    )
    return spec, annotations
