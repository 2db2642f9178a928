"""Draw one story from a seed: who takes part, what befalls them, and how bad the network is."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tests.sim.agents import Trip
from tests.sim.doors import Weather
from tests.sim.holder import DeploySpec


@dataclass(frozen=True, slots=True)
class Actor:
    """
    One run: when it starts, what befalls it at which of its calls, and how its machine is.

    `jumps`: when its wall clock is set by how much. `cut`: when its network is down. `hidden`: a pause of its
    machine is not counted by its boot clock.
    """

    starts_s: float
    trips: dict[int, Trip] = field(default_factory=dict)
    skew_s: float = 0.0
    jumps: tuple[tuple[float, float], ...] = ()
    cut: tuple[tuple[float, float], ...] = ()
    hidden: bool = False
    killed_s: float | None = None
    paused: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """One story. `believed_dead_s`: from when on the first deploy is said to have ended, whether it has or not."""

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
    foreign: int
    rough: bool
    believed_dead_s: float | None
    recoverer_believed_dead_s: float | None
    lease: str
    lease_deleted_s: float | None
    nodes: tuple[bool, bool]
    flux: tuple[dict[str, Any], dict[str, str]]
    words: str


# How many calls a deploy makes before it is past its second reading, roughly; and altogether.
_DEPLOY_CALLS = 110
_RECOVER_CALLS = 75


def draw(seed: int) -> Scenario:
    """The story of a seed."""
    dice = random.Random(seed ^ 0x5EED)  # noqa: S311 (not for secrets)
    fate = dice.choices(("killed", "paused", "starved", "lives"), (50, 25, 10, 15))[0]
    lied = (fate in ("paused", "starved") and dice.random() < 0.8) or (fate == "lives" and dice.random() < 0.4)
    operator = dice.random() < 0.35
    # NB: `fences` trusts the heartbeat's times; with a lie and a wrong clock at once nothing is left to trust.
    odd_clocks = dice.random() < 0.3 and not (lied and operator)
    duration_s = dice.choice((15, 30, 30, 60))
    first = _first(dice, fate, odd_clocks=odd_clocks)
    recoverers = tuple(
        _recoverer(dice, odd_clocks=odd_clocks) for _ in range(dice.choices((0, 1, 2), (1, 6, 3))[0])
    )
    second = Actor(dice.uniform(10, 250), _trips(dice, 0.3, _DEPLOY_CALLS)) if dice.random() < 0.4 else None
    calm = dice.random() < 0.3
    weather = Weather(
        latency_s=dice.choice((0.02, 0.05, 0.3)),
        slow=0.0 if calm else dice.choice((0.01, 0.05)),
        lost_before=0.0 if calm else 0.04,
        lost_after=0.0 if calm else 0.06,
        late=0.0 if calm else dice.choice((0.03, 0.1, 0.25)),
        busy=0.0 if calm else 0.03,
        read_fails=0.0 if calm else 0.01,
        away=_away(dice),
    )
    children = dice.random() < 0.8
    return Scenario(
        first=first,
        spec=DeploySpec(
            ("root", "apps") if children else ("apps",),
            dice.choice((("n1", "n2"), ("n1",), ())),
            duration_s=duration_s,
            works_s=dice.choice((0.5, 8.0, 25.0)),
            keeps=dice.random() < 0.2,
        ),
        second=second,
        second_spec=DeploySpec(("root", "apps"), ("n2",), works_s=5.0, waits_s=dice.choice((0.0, 60.0, 300.0))),
        recoverers=recoverers,
        operator=Actor(dice.uniform(5, 120)) if operator else None,
        operator_waits_s=dice.choice((0.5, 10.0, 90.0)),
        careless=dice.random() < 0.3,
        weather=weather,
        silent=0.0 if dice.random() < 0.6 else 0.15,
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


def _first(dice: random.Random, fate: str, *, odd_clocks: bool) -> Actor:
    at = dice.randrange(12, _DEPLOY_CALLS)
    when = dice.choice(("before", "before", "sent", "after"))
    trips = {}
    cut: tuple[tuple[float, float], ...] = ()
    killed_s = None
    paused = None
    if fate == "killed":
        trips[at] = Trip("kill", when)
        killed_s = dice.uniform(1, 60) if dice.random() < 0.5 else None
    elif fate == "paused":
        trips[at] = Trip("pause", when, dice.choice((5.0, 12.0, 25.0, 70.0, 150.0, 300.0)))
        paused = (dice.uniform(0.5, 30), dice.uniform(30, 200)) if dice.random() < 0.3 else None
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
    return Actor(dice.uniform(2, 150), _trips(dice, 0.5, _RECOVER_CALLS), skew_s=skew_s)


def _trips(dice: random.Random, how_often: float, calls: int) -> dict[int, Trip]:
    if dice.random() >= how_often:
        return {}
    what = dice.choice(("kill", "kill", "pause", "stop"))
    trip = Trip(what, dice.choice(("before", "sent", "after")), dice.choice((8.0, 30.0, 100.0)))
    return {dice.randrange(1, calls): trip}


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
