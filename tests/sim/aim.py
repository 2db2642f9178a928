"""
Stories that are aimed: a process wakes up (or dies) at the very moment at which another one does what matters.

The same seed is played twice. The first time the sleeper never wakes up, and shows when the others do what; up to
that moment the second time is the same story.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.sim.actors import Scenario
from tests.sim.agents import Trip
from tests.sim.kernel import Event
from tests.sim.scenario import draw
from tests.sim.story import Told, tell

_NEVER_S = 3000.0
_RARE = {0: "woken", 8: "printed-soon", 16: "kept", 24: "overtaken", 32: "answered-late"}
_MOMENTS = ("dry-run", "take", "release", "free")


def tell_any(seed: int) -> Told:
    """The story of a seed; two of eight are aimed, and some at an edge that is rarely met by chance."""
    if seed % 40 in _RARE:
        return tell_edge(_RARE[seed % 40], seed)
    return tell_edge({6: "aimed-recoverer", 7: "aimed"}.get(seed % 8, ""), seed)


def tell_edge(edge: str, seed: int) -> Told:
    """The story of a seed at one edge."""
    if edge == "aimed":
        return tell_aimed(seed)
    if edge == "aimed-renewal":
        return tell_aimed(seed, ("renew.1", "renew.2"))
    if edge == "aimed-recoverer":
        return tell_aimed(
            seed, ("release.1", "release.2", "free.1", "hand-back.1", "renew.1"), sleeper="recoverer"
        )
    return tell(seed, draw(seed, edge or None))


def tell_aimed(
    seed: int, where: tuple[str, ...] = ("place.1", "place.2", "place.3", "renew.1"), *, sleeper: str = "deploy"
) -> Told:
    """Play a sleeper that wakes up just when somebody recovers what it holds."""
    dice = random.Random(seed ^ 0xA13)  # noqa: S311 (not for secrets)
    scenario = draw(seed, "sleeper" if sleeper == "deploy" else "zombie")
    asleep = _deploy_sleeps if sleeper == "deploy" else _recoverer_sleeps
    call = dice.choice(where)
    told = tell(seed, asleep(scenario, call, _NEVER_S))
    slept = next(((event.at_s, event.who) for event in told.events if event.what.startswith("SIGSTOP")), None)
    if told.failures or slept is None:
        return told
    slept_s, who = slept
    moments = [e.at_s for e in told.events if e.who.startswith("recover") and e.who != who and _matters(e)]
    moments = [at_s for at_s in moments if at_s > slept_s]
    if not moments:
        return told
    wakes_s = dice.choice(moments) + dice.uniform(-0.15, 0.1)
    return tell(seed, asleep(scenario, call, max(1.0, wakes_s - slept_s)))


def _deploy_sleeps(story: Scenario, where: str, for_s: float) -> Scenario:
    first = replace(story.first, trips={where: Trip("pause", "before", for_s)})
    # NB: the first playing makes the weather calm at its end.
    return replace(story, first=first, weather=replace(story.weather), words=f"aimed at {where}, {story.words}")


def _recoverer_sleeps(story: Scenario, where: str, for_s: float) -> Scenario:
    trips = {where: Trip("pause", "before", for_s)}
    if where == "hand-back.1":
        trips["release.1"] = Trip("stop", "after")
    first, *others = story.recoverers
    recoverers = (replace(first, trips=trips), *(replace(other, trips={}) for other in others))
    words = f"aimed at {where}, {story.words}"
    return replace(
        story,
        recoverers=recoverers,
        weather=replace(story.weather),
        recoverer_believed_dead_s=0.0,
        words=words,
    )


def _matters(event: Event) -> bool:
    return event.what.startswith(_MOMENTS) and event.what.endswith(": sent")
