"""
Another tool's chain: no take-over, so its lease is read again before each patch, and any sign of life stops it.

Aspects: a lease that moves, appears, is absent or free · two dead runs one after the other · lost answers · what is
said of a server that is away.
"""

from __future__ import annotations

from typing import Any

import pytest

from fencectl.core.outcome import Told
from fencectl.core.profiles import GHCR_BRIDGE
from fencectl.core.recovery import Wanted
from tests.run.recovering import ENDED, Scene

PATH = "/apis/coordination.k8s.io/v1/namespaces/flux-system/leases/ghcr-auth-refresh"
FIRST = "deadbeefdeadbeef-gh18093344127.2-3904-20451"
SECOND = "deadbeefdeadbeef-gh18093399201.1-3904-20451"
DRAIN = "platform.devantler.tech/ghcr-auth-drain-"
OLD = "2026-11-30T01:00:00.000000Z"
NEW = "2026-11-30T01:59:59.000000Z"


def bridge(*, lease: str | None = FIRST, nodes: dict[str, str] | None = None) -> Scene:
    scene = Scene(profile=GHCR_BRIDGE, evidence={FIRST: ENDED, SECOND: ENDED})
    for name, holder in (nodes or {"n1": FIRST, "n2": FIRST}).items():
        scene.make(
            "/api/v1/nodes",
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "annotations": {f"{DRAIN}owner": holder, f"{DRAIN}phase": "claimed"}},
                "spec": {"unschedulable": True},
            },
        )
    if lease is not None:
        hold(scene, lease)
    return scene


def hold(scene: Scene, holder: str, renewed: str = OLD) -> None:
    scene.make(
        PATH.rpartition("/")[0],
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "ghcr-auth-refresh", "namespace": "flux-system"},
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": 120,
                "renewTime": renewed,
                "leaseTransitions": 4,
            },
        },
    )


def test_chain_goes_in_order_and_its_lease_last() -> None:
    """Undisturbed."""
    scene = bridge()
    outcome = scene.recover_foreign()
    assert outcome.stopped is None
    assert scene.story == [("released", "n1"), ("released", "n2"), ("released", "ghcr-auth-refresh")]
    assert scene.lease(PATH)["holderIdentity"] == ""


@pytest.mark.parametrize(
    "spec", [{"renewTime": NEW}, {"holderIdentity": SECOND}, {"holderIdentity": SECOND, "renewTime": NEW}]
)
@pytest.mark.parametrize("after", [0, 1, 2])
def test_lease_that_moves_stops_it_before_the_next_patch(spec: dict[str, Any], after: int) -> None:
    """At the first, between two, before the last."""
    scene = bridge()
    plan = scene.plan()
    scene.sandbox.faults.on(lambda: scene.write(PATH, {"spec": spec}), verb="patch", after=2 + after, times=1)
    outcome = scene.recover_foreign(plan)
    assert outcome.alive
    assert outcome.released == after
    assert len(outcome.left) == 3 - after
    assert outcome.wrote is (after > 0)


def test_lease_that_was_absent_and_appears_stops_it() -> None:
    """A run of that tool has started, and believes itself alone."""
    scene = bridge(lease=None)
    plan = scene.plan()
    scene.sandbox.faults.on(lambda: hold(scene, SECOND, NEW), verb="patch", name="n1", after=1, times=1)
    outcome = scene.recover_foreign(plan)
    assert outcome.alive
    assert outcome.released == 1
    assert outcome.left == ["node/n2"]


def test_lease_that_is_absent_or_free_and_stays_so_holds_nothing_back() -> None:
    """The nodes go; no lease is made."""
    absent = bridge(lease=None)
    assert absent.recover_foreign().stopped is None
    assert absent.get(PATH) is None
    free = bridge(lease="")
    assert free.recover_foreign().stopped is None
    assert free.story == [("released", "n1"), ("released", "n2")]


def test_free_lease_that_is_taken_stops_it() -> None:
    """Between two patches."""
    scene = bridge(lease="")
    plan = scene.plan()
    scene.sandbox.faults.on(
        lambda: scene.write(PATH, {"spec": {"holderIdentity": SECOND}}), verb="patch", name="n1", after=1, times=1
    )
    assert scene.recover_foreign(plan).alive


def test_two_dead_runs_are_recovered_one_after_the_other() -> None:
    """The first one's recovery frees the lease; that is no sign of life to the second."""
    scene = bridge(nodes={"n1": SECOND, "n2": FIRST})
    first, second = scene.plans(Wanted(every=True, accept_presumed=True))
    assert scene.recover_foreign(first).stopped is None
    assert scene.recover_foreign(second).stopped is None
    assert scene.lease(PATH)["holderIdentity"] == ""


def test_second_of_two_dead_runs_waits_for_nobody_who_came_in_between() -> None:
    """The lease was freed, and a living run took it before the second began."""
    scene = bridge(nodes={"n1": SECOND, "n2": FIRST})
    first, second = scene.plans(Wanted(every=True, accept_presumed=True))
    assert scene.recover_foreign(first).stopped is None
    scene.write(PATH, {"spec": {"holderIdentity": "deadbeefdeadbeef-gh1.1-1-1", "renewTime": NEW}})
    outcome = scene.recover_foreign(second)
    assert (outcome.alive, outcome.wrote) == (True, False)


@pytest.mark.parametrize("lost", range(3))
def test_any_answer_may_be_lost(lost: int) -> None:
    """Read back, the lease's own freeing too."""
    scene = bridge()
    scene.sandbox.faults.drop_after(verb="patch", after=3 + lost, times=1)
    assert scene.recover_foreign().stopped is None
    assert scene.lease(PATH)["holderIdentity"] == ""


def test_lease_is_read_again_before_a_patch_is_sent_again() -> None:
    """While nobody answered, the run may have woken up."""
    scene = bridge()
    plan = scene.plan()
    scene.sandbox.faults.throttle(verb="patch", name="n1", after=1, times=1)
    scene.clock.on_wait = lambda _: scene.write(PATH, {"spec": {"renewTime": NEW}})
    outcome = scene.recover_foreign(plan)
    assert (outcome.alive, outcome.released) == (True, 0)


def test_server_that_is_away_is_not_a_refusal() -> None:
    """Nothing changed; it could not be read."""
    scene = bridge()
    plan = scene.plan()
    scene.door.away = True
    outcome = scene.recover_foreign(plan)
    assert (outcome.unread, outcome.wrote) == (True, False)


def test_fence_that_is_gone_already_is_no_write() -> None:
    """A node that was deleted meanwhile; then the lease moves: nothing was changed by us."""
    scene = bridge()
    plan = scene.plan()
    scene.delete("/api/v1/nodes/n1")
    tell = scene.told

    class Then(list[Told]):
        def append(self, told: Told) -> None:
            tell.append(told)
            scene.write(PATH, {"spec": {"renewTime": NEW}})

    scene.told = Then()
    outcome = scene.recover_foreign(plan)
    assert [told.result for told in tell] == ["already"]
    assert (outcome.alive, outcome.wrote) == (True, False)


def test_release_whose_answers_are_all_lost_is_unresolved() -> None:
    """It may have been carried out: said, and not called untouched."""
    scene = bridge()
    plan = scene.plan()
    scene.sandbox.faults.drop_before(verb="patch", name="n1", after=1)
    outcome = scene.recover_foreign(plan)
    assert (outcome.stopped is not None, outcome.unresolved) == (True, True)
