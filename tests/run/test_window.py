"""
The window: every lease in question, for the whole time on the own clock, and any write ends it.

Aspects: each field that moves · made, deleted, made anew, freed, taken · only a label · several leases · interrupted ·
a server that is away for a while, at the end, or refuses · clocks that jump.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fencectl.commands.reading import Look
from fencectl.commands.recover import RecoverRun
from fencectl.core.assemble import assemble, read_runs
from fencectl.core.errors import ExitCode, FencectlError, NotReadableError
from fencectl.core.journal import LeaseRef, Phase
from fencectl.core.profiles import FENCECTL
from fencectl.core.refs import Seen
from fencectl.core.times import micro_time
from fencectl.run.window import Watched, watch_leases
from tests.run.recovering import LEASE, LEASE_PATH, Scene
from tests.support.objects import HOLDER, OTHER, journal, lease, mark, node, observation

WINDOW_S = 40.0
Key = tuple[str, str]
SECOND = ("flux-system", "second")
SECOND_PATH = LEASE_PATH.replace("fencectl-deploy", "second")


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.run_of().take_lease()
    return made


def watch(scene: Scene, *keys: Key, during: Callable[[], None] | None = None, at: int = 2) -> Watched:
    """Watch; `during` happens in the wait of that number."""
    before: dict[Key, Seen | None] = {}
    for key in keys or (LEASE,):
        before[key] = next(
            (one for one in scene.look().runs.observation.leases if (one.ref.namespace, one.ref.name) == key), None
        )
    waits = 0

    def on_wait(_: float) -> None:
        nonlocal waits
        waits += 1
        if waits == at and during is not None:
            during()

    scene.clock.on_wait = on_wait
    return watch_leases(
        scene.door, scene.clock, keys or (LEASE,), before=before, window_s=WINDOW_S, stop=scene.stop
    )


def take(scene: Scene) -> None:
    scene.run_of(OTHER).take_lease()


def refuse(scene: Scene, status: int) -> None:
    scene.sandbox.faults.refuse(status=status, verb="get")


def test_lease_that_stands_still_is_watched_for_the_whole_window(scene: Scene) -> None:
    """On the own clock; the last look comes after the last second."""
    watched = watch(scene)
    assert watched == Watched(WINDOW_S, None)
    assert sum(scene.clock.waited) == WINDOW_S


@pytest.mark.parametrize(
    ("spec", "said", "renewed"),
    [
        ({"renewTime": "2026-11-30T02:00:00.000000Z"}, "its renewTime moved during the watch", True),
        ({"renewTime": "2020-01-01T00:00:00.000000Z"}, "its renewTime moved during the watch", True),
        ({"leaseTransitions": 9}, "its leaseTransitions moved", False),
        ({"holderIdentity": OTHER}, "its holderIdentity moved", False),
        ({"holderIdentity": ""}, "its holderIdentity moved", False),
        ({"leaseDurationSeconds": 299}, "it was written", False),
    ],
)
@pytest.mark.parametrize("at", [1, 8])
def test_any_write_of_the_lease_ends_it(
    scene: Scene, spec: dict[str, Any], said: str, renewed: bool, at: int
) -> None:
    """In the first moment or the last; only a heartbeat of the holder itself shows that the holder lives."""
    watched = watch(scene, during=lambda: scene.write(LEASE_PATH, {"spec": spec}), at=at)
    assert watched.moved is not None
    assert said in watched.moved
    assert watched.renewed is renewed


@pytest.mark.parametrize("off_s", [600.0, -600.0])
def test_case_29_clock_that_is_off_by_ten_minutes_makes_no_holder_dead_and_none_alive(
    scene: Scene, off_s: float
) -> None:
    """What counts is a change that is seen, and time that passes here: neither ages of what was written nor dates."""
    scene.clock.advance(0.0, wall_s=off_s)
    assert watch(scene, during=lambda: scene.clock.advance(0.0, wall_s=off_s)) == Watched(WINDOW_S, None)
    assert sum(scene.clock.waited) == WINDOW_S
    written = micro_time(scene.clock.wall())
    lives = watch(scene, during=lambda: scene.write(LEASE_PATH, {"spec": {"renewTime": written}}))
    assert (lives.renewed, lives.moved is not None) == (True, True)


def test_label_alone_ends_it_too(scene: Scene) -> None:
    """Whoever writes a lease may be its holder."""
    watched = watch(scene, during=lambda: scene.write(LEASE_PATH, {"metadata": {"labels": {"a": "b"}}}))
    assert watched.moved is not None
    assert "it was written during the watch" in watched.moved
    assert not watched.renewed


def test_lease_that_is_deleted_ends_it(scene: Scene) -> None:
    """Somebody is at work there."""
    watched = watch(scene, during=lambda: scene.delete(LEASE_PATH))
    assert watched.moved is not None
    assert "it was deleted" in watched.moved


def test_lease_that_is_made_anew_alike_ends_it(scene: Scene) -> None:
    """Another uid, whatever it says."""

    def anew() -> None:
        scene.delete(LEASE_PATH)
        scene.run_of().take_lease()

    assert watch(scene, during=anew).moved is not None


def test_lease_that_does_not_exist_and_is_made_ends_it() -> None:
    """A deploy started."""
    scene = Scene()
    assert watch(scene).moved is None
    assert watch(scene, during=lambda: take(scene)).moved is not None


def test_free_lease_that_is_taken_ends_it(scene: Scene) -> None:
    """Waited for even when the lease is free."""
    scene.write(LEASE_PATH, {"spec": {"holderIdentity": ""}})
    assert watch(scene).moved is None
    scene.clock.on_wait = None
    assert watch(scene, during=lambda: take(scene)).moved is not None


@pytest.mark.parametrize("path", [LEASE_PATH, SECOND_PATH])
def test_each_of_several_leases_counts(scene: Scene, path: str) -> None:
    """The run lives if it renews any of them."""
    scene.run_of(lease=SECOND).take_lease()
    moved = watch(scene, LEASE, SECOND, during=lambda: scene.write(path, {"spec": {"leaseDurationSeconds": 9}}))
    assert moved.moved is not None


def test_signal_ends_it_at_once(scene: Scene) -> None:
    """Nothing was changed yet."""
    watched = watch(scene, during=scene.stop.set)
    assert watched.interrupted
    assert watched.for_s < WINDOW_S


def test_server_that_is_away_for_a_while_proves_no_less(scene: Scene) -> None:
    """A lease whose resourceVersion is the same at the end was not written in between."""

    def away() -> None:
        scene.door.away = True
        scene.clock.on_wait = lambda _: setattr(scene.door, "away", False)

    assert watch(scene, during=away) == Watched(WINDOW_S, None)


def test_server_that_is_away_at_the_end_is_not_readable(scene: Scene) -> None:
    """An unseen end proves nothing."""
    with pytest.raises(NotReadableError):
        watch(scene, during=lambda: setattr(scene.door, "away", True), at=8)


@pytest.mark.parametrize(("status", "at"), [(403, 2), (500, 8), (429, 8)])
def test_answer_that_is_none_is_not_readable_and_no_fault_of_ours(scene: Scene, status: int, at: int) -> None:
    """21, and never `unexpected`."""
    with pytest.raises(FencectlError) as raised:
        watch(scene, during=lambda: refuse(scene, status), at=at)
    assert raised.value.exit_code is ExitCode.INCOMPLETE
    assert str(status) in raised.value.sentence


@pytest.mark.parametrize("wall_s", [-86_400.0, 0.0, 86_400.0])
def test_clock_that_is_set_meanwhile_changes_nothing(scene: Scene, wall_s: float) -> None:
    """Only the clock that never jumps counts."""

    def jump() -> None:
        scene.clock.at += timedelta(seconds=wall_s)

    assert watch(scene, during=jump) == Watched(WINDOW_S, None)


@pytest.mark.parametrize(
    ("journal_s", "lease_s", "asked_s", "window_s"),
    [
        (30, 30, None, 40.0),
        (120, 30, None, 120.0),
        (30, 120, None, 120.0),
        (None, 1, None, 40.0),
        (10**9, 2**31 - 1, None, 300.0),
        (30, 30, 5.0, 40.0),
        (120, 30, 60.0, 120.0),
        (30, 30, 90.0, 90.0),
    ],
)
def test_window_is_the_larger_of_the_duration_and_forty_seconds(
    journal_s: int | None, lease_s: int, asked_s: float | None, window_s: float
) -> None:
    """Capped at 300 s, the longest lease that there is of ours; a shorter wish is no shorter watch."""
    story = journal(
        uid="uid-worker-2",
        phase=Phase.CLAIMED,
        prior={"unschedulable": False},
        lease=None if journal_s is None else LeaseRef(*LEASE, "u", journal_s, 1),
    )
    spec = {"holderIdentity": HOLDER, "leaseDurationSeconds": lease_s, "renewTime": "2026-11-30T01:00:00.000000Z"}
    seen = (lease(spec=spec), node(unschedulable=True, annotations=mark(story)))
    runs = read_runs(observation(*seen), FENCECTL)
    command = SimpleNamespace(_options=SimpleNamespace(watch_for_s=asked_s))
    found = cast("Any", RecoverRun)._window_s(command, Look(runs, assemble(runs)), (LEASE,))
    assert found == window_s
