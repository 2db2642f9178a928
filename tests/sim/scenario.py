"""Draw one story from a seed: who takes part, what befalls them, and how bad the network is."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
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
_LOOKS, _DEPLOY_CALLS = 25, 75
_DEPLOY_WRITES = ("place.1", "place.2", "place.3", "place.4", "journal.1", "journal.2", "renew.1", "renew.2", "renew.4",
                  "release.1", "release.2", "release.3", "release.4", "free.1", "take.1")  # fmt: skip
# The calls of a recovery: a look, the window, a look, everything once as dry-run, then its writes, and a sweep.
_RECOVER_CALLS = 65
_RECOVER_WRITES = ("take.1", "release.1", "release.2", "release.3", "release.4", "renew.1", "free.1", "hand-back.1",
                   "dry.1", "dry.3")  # fmt: skip


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
        Actor(dice.uniform(10, 250), _trips(dice, 0.4, _DEPLOY_WRITES, _LOOKS, _DEPLOY_CALLS))
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
    chosen = dice.choice(("any",) * 6 + ("sleeper", *(name for name in EDGES if name not in _AIMED)))
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


def _gentle(dice: random.Random, story: Scenario, words: str) -> Scenario:
    """Less of what ends a story early."""
    weather = replace(story.weather, away=(), busy=0.01, lost_before=0.01, read_fails=0.0, slow=0.0, late=0.03)
    first = replace(story.first, skew_s=0.0, jumps=(), cut=(), killed_s=None, paused=None)
    return replace(
        story,
        first=first,
        weather=weather,
        silent=0.0,
        rough=story.rough and dice.random() < 0.3,
        second=story.second if dice.random() < 0.5 else None,
        lease_deleted_s=None,
        spec=replace(story.spec, works_s=dice.choice((0.5, 8.0))),
        words=f"{words}, T={story.spec.duration_s}",
    )


def _sleeper(dice: random.Random, story: Scenario) -> Scenario:
    """A deploy sleeps between its last check and a write, is believed dead, recovered, and wakes up."""
    story = _gentle(dice, story, "sleeper")
    where = dice.choice(
        ("place.1", "place.2", "place.3", "place.4", "journal.1", "renew.1", "renew.2", "release.1")
    )
    trips = {where: Trip("pause", "before", dice.uniform(40, 140))}
    starts = [dice.uniform(3, 30), dice.uniform(3, 60)][: dice.choice((1, 1, 2))]
    recoverers = tuple(Actor(at_s, _trips(dice, 0.2, _RECOVER_WRITES, 20, _RECOVER_CALLS)) for at_s in starts)
    first = replace(story.first, trips=trips, hidden=dice.random() < 0.3)
    return replace(story, first=first, recoverers=recoverers, believed_dead_s=0.0)


def _unproven(dice: random.Random, story: Scenario) -> Scenario:
    """The same, but nobody says that it has ended."""
    return replace(_sleeper(dice, story), believed_dead_s=None, recoverer_believed_dead_s=None)


def _late(dice: random.Random, story: Scenario) -> Scenario:
    """A deploy is killed with a write under way, which lands when somebody has begun to recover."""
    story = _gentle(dice, story, "late")
    where = dice.choice(
        ("place.1", "place.2", "place.3", "place.4", "journal.1", "journal.2", "renew.1", "renew.2")
    )
    trips = {where: Trip("kill", "sent", late=True)}
    recoverers = tuple(Actor(dice.uniform(2, 40)) for _ in range(dice.choice((1, 1, 2))))
    return replace(story, first=replace(story.first, trips=trips), recoverers=recoverers, believed_dead_s=None)


def _zombie(dice: random.Random, story: Scenario) -> Scenario:
    """A recoverer sleeps (or dies) half-way, is believed dead and recovered in turn, and wakes up."""
    story = _gentle(dice, story, "zombie")
    where = dice.choice(_RECOVER_WRITES)
    what = dice.choice(("pause", "pause", "kill", "stop"))
    first = Actor(
        dice.uniform(15, 60), {where: Trip(what, dice.choice(("before", "sent")), dice.uniform(40, 140))}
    )
    then = Actor(first.starts_s + dice.uniform(0, 90), _trips(dice, 0.2, _RECOVER_WRITES, 20, _RECOVER_CALLS))
    killed = {dice.choice(_DEPLOY_WRITES[4:9]): Trip("kill", dice.choice(("before", "sent")))}
    return replace(
        story,
        first=replace(story.first, trips=killed),
        recoverers=(first, then),
        believed_dead_s=None,
        recoverer_believed_dead_s=dice.uniform(0, 120),
    )


def _printed(dice: random.Random, story: Scenario) -> Scenario:
    """Commands are printed while a write of the dead run is still under way, and run later."""
    story = _late(dice, story)
    recoverers = story.recoverers if dice.random() < 0.3 else ()
    operator = Actor(dice.uniform(10, 45))
    waits_s = dice.choice((0.5, 5.0, 30.0, 60.0))
    return replace(
        story, operator=operator, operator_waits_s=waits_s, recoverers=recoverers, words=f"printed, {story.words}"
    )


def _printed_soon(dice: random.Random, story: Scenario) -> Scenario:
    """The same, by somebody who looks as soon as a short lease has run out, and runs them at once."""
    story = _late(dice, story)
    where = dice.choice(("place.1", "place.2", "place.3"))
    first = replace(story.first, trips={where: Trip("kill", "sent", late=True)})
    spec = replace(story.spec, duration_s=15)
    operator = Actor(dice.uniform(15, 19))
    return replace(
        story,
        first=first,
        spec=spec,
        operator=operator,
        operator_waits_s=0.1,
        careless=False,
        recoverers=(),
        words="printed soon",
    )


def _woken(dice: random.Random, story: Scenario) -> Scenario:
    """Commands of a deploy that sleeps are printed; it wakes up, begins to work on a node, and then they are run."""
    story = _gentle(dice, story, "woken")
    trips = {"journal.1": Trip("pause", "before", dice.uniform(70, 90))}
    return replace(
        story,
        first=replace(story.first, trips=trips),
        spec=replace(story.spec, duration_s=15, nodes=("n1", "n2"), rolls=True),
        operator=Actor(dice.uniform(50, 60)),
        operator_waits_s=dice.uniform(20, 40),
        recoverers=(),
        second=None,
        rough=False,
        believed_dead_s=0.0,
    )


def _kept(dice: random.Random, story: Scenario) -> Scenario:
    """A deploy ends after a rollback, and a person lets only the parent of what it kept be resumed."""
    story = _gentle(dice, story, "kept")
    spec = replace(story.spec, suspends=("base", "web"), keeps=True, works_s=0.3)
    first = replace(story.first, trips={})
    recoverers = (Actor(dice.uniform(30, 60)),)
    return replace(
        story,
        first=first,
        spec=spec,
        recoverers=recoverers,
        operator=None,
        rough=False,
        believed_dead_s=None,
        resumes=frozenset({"kustomization/flux-system/base"}),
    )


def _overtaken(dice: random.Random, story: Scenario) -> Scenario:
    """A deploy that saw no fence sleeps before it takes the lease; another one fences, dies, and its lease goes."""
    story = _gentle(dice, story, "overtaken")
    starts_s, deleted_s = dice.uniform(0.5, 2.0), dice.uniform(8, 10)
    # NB: dead before its lease goes, wherever it is by then.
    trips = {"place.3": Trip("kill", "before")}
    first = replace(story.first, starts_s=starts_s, trips=trips, killed_s=deleted_s - 0.5 - starts_s)
    second = Actor(0.0, {"take.1": Trip("pause", "before", deleted_s + dice.uniform(0.5, 3))})
    return replace(
        story,
        first=first,
        second=second,
        second_spec=replace(story.second_spec, waits_s=0.0),
        spec=replace(story.spec, suspends=("base", "web")),
        recoverers=(),
        operator=None,
        rough=False,
        lease="absent",
        lease_deleted_s=deleted_s,
        believed_dead_s=None,
    )


def _answered_late(dice: random.Random, story: Scenario) -> Scenario:
    """One renewal is lost, and the next one is acknowledged only when the deploy has lost its lease."""
    story = _gentle(dice, story, "answered late")
    trips = {"renew.1": Trip("lost", "sent"), "renew.2": Trip("slow", "sent", dice.uniform(1.1, 3.0))}
    return replace(
        story,
        first=replace(story.first, trips=trips),
        spec=replace(story.spec, duration_s=30, works_s=25.0, nodes=("n1", "n2")),
        recoverers=(),
        operator=None,
        believed_dead_s=None,
    )


def _starved(dice: random.Random, story: Scenario) -> Scenario:
    """The network of a deploy goes down while its command runs, which does not heed TERM."""
    story = _gentle(dice, story, "starved")
    begin_s = dice.uniform(5, 11)
    return replace(
        story,
        first=replace(story.first, trips={}, cut=((begin_s, begin_s + 60.0),)),
        spec=replace(story.spec, duration_s=15, works_s=25.0, nodes=(), drain_s=0.0, heeds=False),
        recoverers=(),
        operator=None,
        believed_dead_s=None,
    )


def _unanswered(dice: random.Random, story: Scenario) -> Scenario:
    """The child is fenced, the answer is lost, and so is the network until the lease is; then it is back."""
    story = _gentle(dice, story, "unanswered")
    begin_s = dice.uniform(1.5, 6.0)
    return replace(
        story,
        first=replace(
            story.first, trips={"place.2": Trip("unanswered", "sent")}, cut=((begin_s, begin_s + 15.0),)
        ),
        spec=replace(story.spec, duration_s=15, suspends=("base", "web"), drain_s=0.0),
        recoverers=(),
        operator=None,
        believed_dead_s=None,
    )


def _crowded(dice: random.Random, story: Scenario) -> Scenario:
    """Kubelets, controllers and people write all the time, in between a read and the write that follows it."""
    story = _gentle(dice, story, "crowded")
    return replace(
        story,
        first=replace(story.first, trips={}),
        weather=replace(story.weather, latency_s=0.3),
        spec=replace(story.spec, suspends=("base", "web"), nodes=("n1", "n2"), rolls=False, drain_s=0.0),
        foreign=600,
        rough=False,
        recoverers=(),
        operator=None,
        believed_dead_s=None,
    )


def _first(dice: random.Random, fate: str, *, odd_clocks: bool) -> Actor:
    trips: dict[str, Trip] = {}
    cut: tuple[tuple[float, float], ...] = ()
    killed_s = None
    paused = None
    if fate == "killed":
        trips = _trip(dice, "kill", _DEPLOY_WRITES, _LOOKS, _DEPLOY_CALLS)
        killed_s = dice.uniform(1, 60) if dice.random() < 0.3 else None
    elif fate == "paused":
        writes = ("place.1", "place.2", "place.3", "place.4") if dice.random() < 0.5 else _DEPLOY_WRITES
        trips = _trip(dice, "pause", writes, _LOOKS, _DEPLOY_CALLS)
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
    trips = _trips(dice, 0.5, _RECOVER_WRITES, 20, _RECOVER_CALLS)
    starts_s = dice.uniform(2, 60) if dice.random() < 0.7 else dice.uniform(2, 200)
    return Actor(starts_s, trips, skew_s=skew_s)


def _trips(
    dice: random.Random, how_often: float, writes: tuple[str, ...], first: int, last: int
) -> dict[str, Trip]:
    if dice.random() >= how_often:
        return {}
    return _trip(dice, dice.choice(("kill", "kill", "pause", "pause", "stop")), writes, first, last)


def _trip(dice: random.Random, what: str, writes: tuple[str, ...], first: int, last: int) -> dict[str, Trip]:
    """Something at one call: a write of a certain kind, or just any."""
    where = (
        dice.choice(writes)
        if dice.random() < 0.6
        else str(dice.randrange(1 if dice.random() < 0.1 else first, last))
    )
    when = dice.choice(("before", "before", "sent", "after"))
    for_s = dice.choice((5.0, 12.0, 25.0, dice.uniform(40, 140), dice.uniform(40, 140), 300.0))
    return {where: Trip(what, when, for_s, late=dice.random() < 0.4)}


def _repeated(dice: random.Random, story: Scenario) -> Scenario:
    """A placement is sent again since nobody answered; the first copy lands when all is long released."""
    story = _gentle(dice, story, "repeated")
    where = dice.choice(("place.1", "place.2", "place.3", "place.4"))
    trips = {where: Trip("nothing", "sent", late=True)}
    spec = replace(story.spec, works_s=0.3, keeps=False)
    return replace(story, first=replace(story.first, trips=trips), spec=spec, believed_dead_s=None)


def _believed(dice: random.Random, story: Scenario) -> Scenario:
    """A deploy lives and renews, and everybody says that it has ended."""
    story = _gentle(dice, story, "believed dead")
    first = replace(story.first, trips={})
    starts = tuple(Actor(dice.uniform(2, 40)) for _ in range(2))
    spec = replace(story.spec, works_s=25.0)
    operator = Actor(dice.uniform(5, 40))
    return replace(
        story,
        first=first,
        spec=spec,
        recoverers=starts,
        operator=operator,
        operator_waits_s=0.5,
        believed_dead_s=0.0,
    )


def _rivals(dice: random.Random, story: Scenario) -> Scenario:
    """Two deploys start at once."""
    story = _gentle(dice, story, "rivals")
    second = Actor(dice.uniform(0.0, 0.5))
    spec = replace(story.second_spec, waits_s=0.0)
    first = replace(story.first, trips={})
    lease = dice.choice(("free", "never-held", "absent"))
    return replace(story, first=first, second=second, second_spec=spec, lease=lease, believed_dead_s=None)


def _stale(dice: random.Random, story: Scenario) -> Scenario:
    """Commands are printed, somebody recovers, the next deploy fences the same things, and then they are run."""
    story = _gentle(dice, story, "stale")
    first = replace(story.first, trips={dice.choice(("journal.1", "release.1", "place.3")): Trip("kill", "after")})
    return replace(
        story,
        first=first,
        spec=replace(story.spec, duration_s=15),
        operator=Actor(dice.uniform(46, 52)),
        operator_waits_s=dice.uniform(20, 70),
        recoverers=(Actor(dice.uniform(14, 20)),),
        second=Actor(dice.uniform(10, 60)),
        second_spec=replace(story.second_spec, waits_s=300.0, works_s=30.0, rolls=False, drain_s=0.0),
        believed_dead_s=None,
    )


# Stories that are looked for by mutations, and by few of the seeds.
_AIMED = ("printed-soon", "woken", "kept", "overtaken", "answered-late", "starved", "unanswered", "crowded")
EDGES: Mapping[str, Callable[[random.Random, Scenario], Scenario]] = {
    "any": lambda _, story: story,
    "sleeper": _sleeper,
    "sleeper-unproven": _unproven,
    "late": _late,
    "zombie": _zombie,
    "printed": _printed,
    "printed-soon": _printed_soon,
    "woken": _woken,
    "kept": _kept,
    "overtaken": _overtaken,
    "answered-late": _answered_late,
    "starved": _starved,
    "unanswered": _unanswered,
    "crowded": _crowded,
    "repeated": _repeated,
    "believed": _believed,
    "rivals": _rivals,
    "stale": _stale,
}


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
