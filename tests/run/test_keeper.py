"""
The keeper under a driven clock: what is certainly held, for how long, and three kinds of loss.

Aspects: renewed in time · a clock set back, ahead, or a machine asleep · stolen · deleted · made anew · refused ·
nobody answers · loss is for good · a lost answer · a late copy · a wrong clock · a release that races the last renewal.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from fencectl.cluster.answer import Answer
from fencectl.cluster.write import create, send
from fencectl.core.answers import Applied
from fencectl.core.journal import Phase
from fencectl.core.lease import LeaseTerms, free_own_lease, new_lease, take_over_lease
from fencectl.core.refs import ObjectRef, Seen
from fencectl.core.times import parse_time
from fencectl.run.keeper import Keeper, LeaseLostError, Loss
from fencectl.run.leasing import LeaseAt, take_lease
from fencectl.run.ports import SystemThreads, Thread
from fencectl.sandbox import Request, Sandbox
from tests.support.inprocess import START_AT, HandClock, SandboxDoor
from tests.support.objects import HOLDER, OTHER, journal

T = 30
PATH = "/apis/coordination.k8s.io/v1/namespaces/flux-system/leases/fencectl-deploy"


class FollowedClock(HandClock):
    """A clock whose boot time the server's clock follows."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__()
        self._sandbox = sandbox

    def advance(self, seconds: float, *, wall_s: float | None = None) -> None:
        super().advance(seconds, wall_s=wall_s)
        self._sandbox.clock.advance(seconds)


class DatedSandboxDoor(SandboxDoor):
    """A door whose answers carry the server's `Date`, as those of a real one do."""

    def _exchange(self, *args: Any, **more: Any) -> Answer:
        answer = super()._exchange(*args, **more)
        return replace(answer, date_at=self.sandbox.clock.now().replace(microsecond=0))


@dataclass
class Scene:
    sandbox: Sandbox
    clock: HandClock
    door: SandboxDoor
    keeper: Keeper

    @property
    def lease(self) -> Seen:
        raw = json.loads(self.door.get(PATH).body)
        return Seen(self.keeper.lease.ref, raw)


@pytest.fixture
def scene() -> Scene:
    """A lease that was just taken, and its keeper; time stands still until the test moves it, for the server too."""
    sandbox = Sandbox(manual_clock_at=START_AT)
    clock = FollowedClock(sandbox)
    door = DatedSandboxDoor(sandbox, clock)
    terms = LeaseTerms(HOLDER, T, clock.wall(), journal(phase=Phase.HELD))
    collection = PATH.rpartition("/")[0]
    made = create(door, collection, new_lease("flux-system", "fencectl-deploy", terms))
    assert isinstance(made, Applied)
    uid = made.raw["metadata"]["uid"]
    ref = ObjectRef("coordination.k8s.io/v1", "Lease", "leases", "flux-system", "fencectl-deploy", uid)
    keeper = Keeper(
        door, clock, Seen(ref, made.raw), holder=HOLDER, duration_s=T, sent_s=clock.boot_s, sent_at=clock.at
    )
    return Scene(sandbox, clock, door, keeper)


class NoThreads:
    """Starts nothing: the test renews by hand."""

    def start(self, work: Callable[[], None], *, name: str) -> Thread:
        return threading.Thread(target=work, name=name)


def lost(scene: Scene) -> LeaseLostError:
    with pytest.raises(LeaseLostError) as raised:
        scene.keeper.must_hold(1)
    return raised.value


def test_lease_is_held_for_two_thirds_after_the_send_of_the_last_renewal(scene: Scene) -> None:
    """Never longer, and each acknowledged renewal begins anew."""
    assert scene.keeper.held_for_s() == 20
    scene.clock.advance(10)
    assert scene.keeper.held_for_s() == 10
    assert scene.keeper.renew()
    assert scene.keeper.held_for_s() == 20
    assert scene.lease.raw["spec"]["renewTime"] == "2026-11-30T02:00:10.000000Z"


def test_renewal_that_is_acknowledged_after_the_loss_takes_nothing_back(scene: Scene) -> None:
    """Sent in time, answered too late, and nobody has looked in between."""
    scene.clock.advance(18)
    scene.sandbox.faults.on(lambda: scene.clock.advance(4), verb="patch", resource="leases", times=1)
    assert not scene.keeper.renew()
    assert scene.keeper.held_for_s() == 0


def test_write_that_needs_more_time_waits_for_the_next_renewal(scene: Scene) -> None:
    """Short leases are renewed when little is left of them; that alone is no loss."""
    scene.clock.advance(16)
    scene.clock.on_wait = lambda _: void(scene.keeper.renew())
    scene.keeper.must_hold(5)
    assert scene.keeper.held_for_s() > 19


def void(_: object) -> None:
    """For calls whose result nobody wants."""


def test_write_is_refused_when_too_little_time_is_left_for_it(scene: Scene) -> None:
    """A write proves first that the lease outlasts it."""
    scene.clock.advance(16)
    scene.keeper.must_hold(3)
    with pytest.raises(LeaseLostError):
        scene.keeper.must_hold(5)


@pytest.mark.parametrize(
    ("boot_s", "wall_s", "left_s"),
    [(5, -3600, 15), (5, 12, 8), (12, 0, 8), (21, 0, 0), (1, 3600, 0)],
)
def test_case_29_longer_of_two_clocks_counts(scene: Scene, boot_s: float, wall_s: float, left_s: float) -> None:
    """A clock that was set back lengthens nothing; a machine that slept has slept."""
    scene.clock.advance(boot_s, wall_s=wall_s)
    assert scene.keeper.held_for_s() == left_s


def state(scene: Scene) -> str:
    """When the lease was renewed and its version, as the server has them now."""
    raw = scene.lease.raw
    return f"renewTime {raw['spec']['renewTime']}, resourceVersion {raw['metadata']['resourceVersion']}"


def test_case_03_lease_taken_by_another_is_stolen_for_good(scene: Scene) -> None:
    """By whom, and from which token to which."""
    taken = take_over_lease(
        scene.lease, LeaseTerms(OTHER, T, scene.clock.wall(), journal(holder=OTHER, recovering=HOLDER))
    )
    assert isinstance(send(scene.door, taken.patch), Applied)
    assert not scene.keeper.renew()
    error = lost(scene)
    assert error.loss is Loss.STOLEN
    assert error.reason == f"`{OTHER}` holds it now (token 1 → 2, {state(scene)})"
    sent = len(scene.door.sent)
    assert not scene.keeper.renew()
    assert len(scene.door.sent) == sent


def test_lease_freed_under_us_is_stolen(scene: Scene) -> None:
    """Nobody holds it, and we do not either."""
    freed = free_own_lease(scene.lease, holder=HOLDER, transitions=1)
    assert isinstance(send(scene.door, freed), Applied)
    assert not scene.keeper.renew()
    assert "nobody holds it now" in (lost(scene).reason or "")


@pytest.mark.parametrize("anew", [False, True])
def test_lease_that_was_deleted_is_stolen(scene: Scene, anew: bool) -> None:
    """Also where another one of the same name stands there."""
    scene.sandbox.handle(Request("DELETE", PATH, {}, {}, b"", "admin"))
    if anew:
        scene.sandbox.store.create(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": "fencectl-deploy", "namespace": "flux-system"},
                "spec": {"holderIdentity": HOLDER, "leaseTransitions": 1},
            }
        )
    assert not scene.keeper.renew()
    assert lost(scene).loss is Loss.STOLEN


def test_case_03_server_that_refuses_is_not_renewed_and_still_ours(scene: Scene) -> None:
    """The lease is ours until its time is over; a renewal that passes before then goes on."""
    fault = scene.sandbox.faults.refuse(verb="patch", resource="leases", status=503)
    scene.clock.advance(12)
    assert not scene.keeper.renew()
    scene.keeper.must_hold(5)
    fault.cancel()
    assert scene.keeper.renew()
    assert scene.keeper.held_for_s() == 20
    scene.sandbox.faults.refuse(verb="patch", resource="leases", status=403)
    scene.clock.advance(15)
    assert not scene.keeper.renew()
    scene.clock.advance(6)
    error = lost(scene)
    assert error.loss is Loss.NOT_RENEWED
    assert "403" in (error.reason or "")


def test_server_that_is_away_is_unreachable(scene: Scene) -> None:
    """Nobody can tell who holds it."""
    scene.sandbox.faults.drop_before()
    scene.clock.advance(15)
    assert not scene.keeper.renew()
    scene.clock.advance(6)
    assert lost(scene).loss is Loss.UNREACHABLE


def test_server_that_comes_back_after_the_loss_changes_nothing_of_how_it_was_lost(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A renewal that was on its way meanwhile is refused at last, and the lease shown: still lost to silence."""
    away = scene.sandbox.faults.drop_before()
    scene.clock.advance(15)
    assert not scene.keeper.renew()
    away.cancel()
    scene.sandbox.faults.refuse(status=503, verb="patch", resource="leases")
    look = scene.door.get

    def later(*path: Any, **how: Any) -> Any:
        scene.clock.advance(6)
        return look(*path, **how)

    monkeypatch.setattr(scene.door, "get", later)
    assert not scene.keeper.renew()
    assert lost(scene).loss is Loss.UNREACHABLE


@pytest.mark.parametrize("status", [500, 503, 504])
def test_case_03_server_that_fails_each_renewal_but_shows_the_lease_has_not_renewed_it(
    scene: Scene, status: int
) -> None:
    """It is still ours: read again, and said so."""
    scene.sandbox.faults.refuse(status=status, verb="patch", resource="leases")
    scene.clock.advance(15)
    assert not scene.keeper.renew()
    scene.clock.advance(6)
    error = lost(scene)
    assert error.loss is Loss.NOT_RENEWED
    assert str(status) in (error.reason or "")


def test_case_03_lease_that_was_taken_behind_a_lost_answer_is_stolen(scene: Scene) -> None:
    """The answer to the renewal was lost, and the lease shows another holder."""
    scene.sandbox.faults.refuse(status=503, verb="patch", resource="leases")
    raw = scene.sandbox.store.get("leases", "fencectl-deploy", namespace="flux-system")
    raw["spec"] |= {"holderIdentity": "somebody", "leaseTransitions": 7}
    scene.sandbox.store.update(raw)
    scene.clock.advance(10)
    assert not scene.keeper.renew()
    assert lost(scene).loss is Loss.STOLEN


def test_loss_is_never_taken_back(scene: Scene) -> None:
    """A process that slept past its time must not go on because a late renewal would still pass."""
    scene.clock.advance(21)
    assert scene.keeper.held_for_s() == 0
    assert not scene.keeper.renew()
    assert scene.keeper.held_for_s() == 0
    assert lost(scene).loss is Loss.NOT_RENEWED


def test_case_33_renewal_whose_answer_was_lost_is_no_loss(scene: Scene) -> None:
    """Applied, and never answered: what the server shows is guarded by the next one, which is sent at once."""
    scene.sandbox.faults.drop_after(verb="patch", resource="leases", times=1)
    scene.clock.advance(10)
    assert scene.keeper.renew()
    assert len(scene.door.sent) == 3
    assert scene.lease.raw["spec"]["renewTime"] == "2026-11-30T02:00:10.000000Z"
    assert scene.keeper.held_for_s() == 20


def send_again(scene: Scene, number: int) -> int:
    """Let the server carry out the very bytes that were sent; its status."""
    _, path, body = [one for one in scene.door.sent if one[0] == "PATCH"][number]
    headers = {"content-type": "application/json-patch+json"}
    return scene.sandbox.handle(Request("PATCH", path, {}, headers, body, "admin")).status


def test_case_33_late_copy_of_an_own_renewal_never_sets_the_heartbeat_back(scene: Scene) -> None:
    """Its client gave it up, the next renewal passed, and only then the server carries the first one out."""
    scene.sandbox.faults.drop_before(verb="patch", resource="leases", times=1)
    scene.clock.advance(10)
    assert not scene.keeper.renew()
    scene.clock.advance(5)
    assert scene.keeper.renew()
    assert send_again(scene, 0) == 422
    assert scene.lease.raw["spec"]["renewTime"] == "2026-11-30T02:00:15.000000Z"


def test_case_33_late_copy_that_lands_first_costs_no_renewal(scene: Scene) -> None:
    """Also where another one lands between the look and the next try: it is refused, and the same call goes on."""
    scene.sandbox.faults.drop_before(verb="patch", resource="leases", times=1)
    scene.clock.advance(10)
    assert not scene.keeper.renew()
    scene.clock.advance(5)
    assert send_again(scene, 0) == 200
    assert scene.keeper.renew()
    assert scene.keeper.held_for_s() == 20
    assert scene.lease.raw["spec"]["renewTime"] == "2026-11-30T02:00:15.000000Z"


def test_lease_whose_heartbeat_is_rewritten_all_the_time_is_not_renewed_and_still_ours(scene: Scene) -> None:
    """The tries of one call end; what the server shows is neither theft nor silence."""

    def meddle() -> None:
        raw = scene.sandbox.store.get("leases", "fencectl-deploy", namespace="flux-system")
        raw["spec"]["renewTime"] = f"2026-11-30T01:00:{len(scene.door.sent):02}.000000Z"
        scene.sandbox.store.update(raw)

    scene.sandbox.faults.on(meddle, verb="patch", resource="leases", times=None)
    scene.clock.advance(15)
    assert not scene.keeper.renew()
    scene.clock.advance(6)
    assert lost(scene).loss is Loss.NOT_RENEWED


def test_renewal_that_is_to_be_sent_again_after_the_loss_is_not(scene: Scene) -> None:
    """The refused one took the rest of the lease's time: nothing is sent any more."""

    def meddle() -> None:
        raw = scene.sandbox.store.get("leases", "fencectl-deploy", namespace="flux-system")
        raw["spec"]["renewTime"] = "2026-11-30T01:00:00.000000Z"
        scene.sandbox.store.update(raw)
        scene.clock.advance(20)

    scene.clock.advance(1)
    scene.sandbox.faults.on(meddle, verb="patch", resource="leases")
    sent = len(scene.door.sent)
    assert not scene.keeper.renew()
    assert len(scene.door.sent) == sent + 1
    assert lost(scene).loss is Loss.NOT_RENEWED


@pytest.mark.parametrize("wrong_s", [-3600, -25, 0, 25, 3600])
def test_case_29_heartbeat_is_written_by_the_servers_clock_whatever_ours_shows(
    scene: Scene, wrong_s: float
) -> None:
    """`fences` measures its age against the server's: a slow clock must not make a living holder look dead."""
    scene.clock.at += timedelta(seconds=wrong_s)
    terms = LeaseTerms(HOLDER, T, scene.clock.wall(), journal(phase=Phase.HELD))
    at = LeaseAt("flux-system", "second")
    keeper = take_lease(scene.door, scene.door, scene.clock, NoThreads(), at, terms)
    for passed_s in (0, 10, 20):
        assert passed_s == 0 or keeper.renew()
        shown = parse_time(json.loads(scene.door.get(at.ref.path).body)["spec"]["renewTime"])
        assert shown is not None
        assert abs(shown - scene.sandbox.clock.now()) <= timedelta(seconds=1)
        scene.clock.advance(10)


def test_case_29_clock_that_is_set_back_between_two_renewals_does_not_set_the_heartbeat_back(scene: Scene) -> None:
    """The next renewal is sent before any answer could tell of it; the boot clock has counted on."""
    assert scene.keeper.renew()
    scene.clock.advance(10, wall_s=-300)
    assert scene.keeper.renew()
    assert scene.lease.raw["spec"]["renewTime"] == "2026-11-30T02:00:10.000000Z"


def test_case_29_sleep_that_the_boot_clock_does_not_count_does_not_age_the_heartbeat(scene: Scene) -> None:
    """The machine slept for twelve seconds, and only its wall clock knows."""
    assert scene.keeper.renew()
    scene.clock.advance(3, wall_s=15)
    scene.sandbox.clock.advance(12)
    assert scene.keeper.renew()
    assert scene.lease.raw["spec"]["renewTime"] == "2026-11-30T02:00:15.000000Z"


def test_case_04_release_survives_a_renewal_in_flight(scene: Scene) -> None:
    """One, two or five renewals between the read and the release: the lease is freed, and stays so."""
    before = scene.lease
    for _ in range(5):
        scene.clock.advance(2)
        assert scene.keeper.renew()
    scene.keeper.stop()
    assert isinstance(send(scene.door, free_own_lease(before, holder=HOLDER, transitions=1)), Applied)
    assert not scene.keeper.renew()
    assert scene.lease.raw["spec"]["holderIdentity"] == ""


def test_keeper_thread_renews_every_third_and_ends_when_stopped(scene: Scene) -> None:
    """The thread itself: five rounds of ten seconds, then it is asked to stop."""
    rounds = threading.Semaphore(0)
    turns = iter(range(5))

    def count(_: float) -> None:
        rounds.release()
        if next(turns, None) is None:
            scene.keeper._stop.set()

    scene.clock.on_wait = count
    scene.keeper.start(SystemThreads())
    for _ in range(5):
        assert rounds.acquire(timeout=10)
    scene.keeper.stop()
    assert set(scene.clock.waited) == {10.0}
    assert scene.lease.raw["spec"]["renewTime"] > "2026-11-30T02:00:30"
