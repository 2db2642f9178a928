"""Stories that are close to an edge: each kind makes one thing likely that is rare in any story."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from tests.sim.actors import (
    DEPLOY_WRITES,
    RECOVER_CALLS,
    RECOVER_WRITES,
    Actor,
    Scenario,
    some_trips,
)
from tests.sim.agents import Trip


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
    recoverers = tuple(Actor(at_s, some_trips(dice, 0.2, RECOVER_WRITES, 20, RECOVER_CALLS)) for at_s in starts)
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
    where = dice.choice(RECOVER_WRITES)
    what = dice.choice(("pause", "pause", "kill", "stop"))
    first = Actor(
        dice.uniform(15, 60), {where: Trip(what, dice.choice(("before", "sent")), dice.uniform(40, 140))}
    )
    then = Actor(first.starts_s + dice.uniform(0, 90), some_trips(dice, 0.2, RECOVER_WRITES, 20, RECOVER_CALLS))
    killed = {dice.choice(DEPLOY_WRITES[4:9]): Trip("kill", dice.choice(("before", "sent")))}
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
AIMED = ("printed-soon", "woken", "kept", "overtaken", "answered-late", "starved", "unanswered", "crowded")
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
