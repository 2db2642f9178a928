"""
The keeper under a driven clock: what is certainly held, for how long, and three kinds of loss.

Aspects: renewed in time · a clock set back, ahead, or a machine asleep · stolen · deleted · made anew · refused ·
nobody answers · loss is for good · a lost answer · a release that races the last renewal.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass

import pytest

from fencectl.cluster.write import create, send
from fencectl.core.answers import Applied
from fencectl.core.journal import Phase
from fencectl.core.lease import LeaseTerms, free_own_lease, new_lease, take_over_lease
from fencectl.core.refs import ObjectRef, Seen
from fencectl.run.keeper import Keeper, LeaseLostError, Loss
from fencectl.run.ports import SystemThreads
from fencectl.sandbox import Request, Sandbox
from tests.support.inprocess import START_AT, HandClock, SandboxDoor
from tests.support.objects import HOLDER, OTHER, journal

T = 30
PATH = "/apis/coordination.k8s.io/v1/namespaces/flux-system/leases/fencectl-deploy"


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
    """A lease that was just taken, and its keeper; time stands still."""
    sandbox = Sandbox(manual_clock_at=START_AT)
    clock = HandClock()
    door = SandboxDoor(sandbox, clock)
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


def test_case_03_lease_taken_by_another_is_stolen_for_good(scene: Scene) -> None:
    """By whom, and from which token to which."""
    taken = take_over_lease(
        scene.lease, LeaseTerms(OTHER, T, scene.clock.wall(), journal(holder=OTHER, recovering=HOLDER))
    )
    assert isinstance(send(scene.door, taken.patch), Applied)
    assert not scene.keeper.renew()
    error = lost(scene)
    assert error.loss is Loss.STOLEN
    assert error.reason == f"`{OTHER}` holds it now (token 1 → 2)"
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
    """Applied, and never answered: the next one passes with the same guards."""
    scene.sandbox.faults.drop_after(verb="patch", resource="leases", times=1)
    scene.clock.advance(10)
    assert not scene.keeper.renew()
    assert scene.lease.raw["spec"]["renewTime"] == "2026-11-30T02:00:10.000000Z"
    scene.clock.advance(1)
    assert scene.keeper.renew()
    assert scene.keeper.held_for_s() == 20


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
