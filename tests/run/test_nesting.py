"""
A run inside of another one under a driven clock: the borrowed lease, and what the run around releases for it.

Aspects: read before each write · lost as the run around would lose it · stolen, deleted · nobody answers · fences in
the chain of the run around, above its own · left by a killed one and released first · not readable at the end.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fencectl.core.errors import ExitCode
from fencectl.core.nesting import Around, announced
from fencectl.run.keeper import LeaseLostError, Loss
from fencectl.run.nesting import Borrowed, NotBelievedError, borrow
from fencectl.run.targets import CannotBeginError, find_nodes, find_suspensions
from fencectl.run.transaction import Deploy, Result
from fencectl.sandbox import Request
from tests.support.deploying import KS, KUSTOMIZATION, LEASE, LEASE_PATH, KilledError, OneAtATime, Scene
from tests.support.inprocess import SandboxDoor
from tests.support.objects import HOLDER, OTHER

INNER = "4f2a91c07be3d855-gh18093344127.2-j51234567890-1111aaaa"
AROUND = Around(HOLDER, 1, LEASE)


class Nest(Scene):
    """A scene whose deploy has the lease alone; what its command starts fences the rest."""

    def outer(self, command: Any) -> Result | None:
        """Run the deploy around; `command` is called while its command runs."""

        def payload() -> int:
            command()
            return 0

        self.payload = payload
        plan = replace(self.plan(), suspend=(), nodes=())
        self.current = Deploy(self.stage(), plan, self.own())
        return self.current.run()

    def inner(self, *, kill_at: int | None = None, **more: Any) -> Result | None:
        """Run a deploy inside; killed before its write with that number."""
        within = Scene(holder=INNER, payload=more.get("payload", lambda: 0))
        within.sandbox, within.clock = self.sandbox, self.clock
        within.door.sandbox, within.door.clock = self.sandbox, self.clock
        within.told = self.told

        def strike(number: int) -> None:
            within.door.killed = within.door.killed or number == kill_at

        within.door.before = strike
        own = replace(within.own(), within=HOLDER)
        try:
            return Deploy(within.stage(), within.plan(), own, AROUND).run()
        except KilledError:
            return None


@pytest.fixture
def nest() -> Nest:
    return Nest()


def lease(scene: Scene) -> Any:
    return scene.raw(LEASE_PATH)


def change_lease(scene: Scene, **spec: Any) -> None:
    raw = lease(scene)
    raw["spec"] |= spec
    scene.sandbox.store.update(raw)


def journals(scene: Scene) -> list[Any]:
    marks = [annotations.get("fencectl.dev/journal") for _, annotations in scene.state()]
    return [json.loads(mark) for mark in marks if mark]


def borrowed(scene: Scene) -> Borrowed:
    door = SandboxDoor(scene.sandbox, scene.clock)
    return borrow(door, door, scene.clock, OneAtATime(), AROUND)


def test_fences_go_into_the_chain_of_the_run_around_and_are_given_back(nest: Nest) -> None:
    """Within it, each rank 2000 above; no lease taken, no record written, announced on the lease before the first."""
    seen: list[Any] = []

    def look() -> int:
        seen.append((journals(nest), announced(lease(nest)), lease(nest)["spec"]["holderIdentity"]))
        return 0

    results: list[Result | None] = []
    outer = nest.outer(lambda: results.append(nest.inner(payload=look)))
    ((found, named, holder),) = seen
    assert {(one["holder"], one["within"]) for one in found} == {(INNER, HOLDER)}
    assert sorted(one["rank"] for one in found) == [2001, 2002, 3000, 3000]
    assert (named, holder) == ((HOLDER,), HOLDER)
    assert outer
    assert results[0]
    assert (outer.code, results[0].code, results[0].within) == (ExitCode.OK, ExitCode.OK, HOLDER)
    assert nest.state() == nest.before
    data = nest.raw("/api/v1/namespaces/flux-system/configmaps/fencectl-deploy-record")["data"]
    assert list(data) == ["record-1"]
    assert announced(lease(nest)) == ()
    assert lease(nest)["spec"]["leaseTransitions"] == 1


@pytest.mark.parametrize("write", range(1, 12))
def test_killed_before_any_write_the_run_around_gives_everything_back(nest: Nest, write: int) -> None:
    """Whatever it had fenced by then is released first, and the run around ends as if nothing had been."""
    results: list[Result | None] = []
    outer = nest.outer(lambda: results.append(nest.inner(kill_at=write)))
    assert outer
    assert (outer.code, nest.state()) == (ExitCode.OK, nest.before)
    assert lease(nest)["spec"]["holderIdentity"] == ""
    # NB: announced, two suspensions, two drain proofs' worth of none, two nodes, four releases.
    assert (results == [None]) == (write <= 9)


def test_what_was_left_inside_is_released_in_reverse_order(nest: Nest) -> None:
    """Nodes, then the child, then its parent."""
    nest.outer(lambda: nest.inner(kill_at=6))
    released = [text.removeprefix("released ") for step, text in nest.told if text.startswith("released")]
    assert released[-2:] == ["kustomization/flux-system/apps", "kustomization/flux-system/flux-system"]
    assert released[0].startswith("node/")
    assert any(text == "left by a deploy inside of the command: node/n1" for _, text in nest.told)


def test_what_cannot_be_listed_at_the_end_stays_fenced_with_the_lease(nest: Nest) -> None:
    """Own fences wait for what may be above them: 11, never a freed lease over a fence that nobody has seen."""

    def command() -> None:
        nest.inner(kill_at=6)
        nest.sandbox.faults.refuse(status=503, verb="list", resource="nodes")

    outer = nest.outer(command)
    assert outer
    assert outer.code is ExitCode.STILL_FENCED
    assert outer.unresolved == ["what a deploy inside of the command has fenced"]
    assert lease(nest)["spec"]["holderIdentity"] == HOLDER


def test_command_without_a_deploy_inside_costs_one_read(nest: Nest) -> None:
    """Nothing is listed where nobody has announced anything."""
    nest.outer(lambda: None)
    asked = [entry for entry in nest.sandbox.requests.all() if entry.verb == "list" and entry.resource == "nodes"]
    assert asked == []


def test_mutating_node_left_inside_is_never_released_and_keeps_the_lease(nest: Nest) -> None:
    """A person has to look at it: 11, and it is named."""

    def command() -> None:
        nest.inner(kill_at=6)
        raw = nest.raw("/api/v1/nodes/n1")
        journal = json.loads(raw["metadata"]["annotations"]["fencectl.dev/journal"])
        raw["metadata"]["annotations"]["fencectl.dev/journal"] = json.dumps(journal | {"phase": "mutating"})
        nest.sandbox.store.update(raw)

    outer = nest.outer(command)
    assert outer
    assert outer.unwound
    assert outer.code is ExitCode.STILL_FENCED
    assert [one.fence.seen.ref.name for one in outer.unwound.left] == ["n1"]
    assert {fence.seen.ref.name for fence in outer.unwound.waiting} == {"apps", "flux-system"}
    assert lease(nest)["spec"]["holderIdentity"] == HOLDER


def test_write_is_preceded_by_a_read_of_the_lease(nest: Nest) -> None:
    """A lease that was taken in this very moment is noticed before the next write, not a renewal later."""

    def command() -> None:
        keeper = borrowed(nest)
        keeper.must_hold(5)
        change_lease(nest, holderIdentity=OTHER, leaseTransitions=2)
        keeper.must_hold(0)
        with pytest.raises(LeaseLostError) as raised:
            keeper.must_hold(5)
        assert raised.value.loss is Loss.STOLEN
        assert f"`{OTHER}` holds it now (token 1 → 2, renewTime " in (raised.value.reason or "")

    nest.outer(command)


def test_run_around_that_renews_no_more_is_lost_when_it_gives_up_itself(nest: Nest) -> None:
    """Two thirds after its last renewal was sent, however often its lease is read; and for good."""

    def command() -> None:
        keeper = borrowed(nest)
        nest.clock.advance(10)
        assert nest.renew()
        nest.clock.advance(14)
        keeper.must_hold(5)
        nest.clock.advance(2)
        with pytest.raises(LeaseLostError) as raised:
            keeper.must_hold(5)
        assert raised.value.loss is Loss.NOT_RENEWED
        keeper.must_hold(1)
        nest.clock.advance(4)
        with pytest.raises(LeaseLostError):
            keeper.must_hold(0)
        change_lease(nest, renewTime="2026-11-30T02:00:30.000000Z")
        with pytest.raises(LeaseLostError):
            keeper.must_hold(1)

    nest.outer(command)


def test_clock_that_is_set_back_lengthens_nothing(nest: Nest) -> None:
    """The same renewal was seen before: since then at least that much has passed."""

    def command() -> None:
        keeper = borrowed(nest)
        nest.clock.advance(19, wall_s=-3600)
        assert keeper.held_for_s() == 1

    nest.outer(command)


def test_lease_that_cannot_be_read_in_time_is_not_renewed(nest: Nest) -> None:
    """It is waited for until the run around would give it up itself, as the keeper of that run does."""

    def command() -> None:
        keeper = borrowed(nest)
        nest.sandbox.faults.refuse(status=503, verb="get", resource="leases")
        nest.clock.advance(16)
        with pytest.raises(LeaseLostError) as raised:
            keeper.must_hold(5)
        assert raised.value.loss is Loss.NOT_RENEWED
        nest.sandbox.faults.clear()

    nest.outer(command)


@pytest.mark.parametrize("wrong_s", [-3600, 3600])
def test_clock_that_is_an_hour_off_changes_nothing(nest: Nest, wrong_s: int) -> None:
    """The heartbeat is written by the server's clock, and its age is measured by that one too."""

    def command() -> None:
        nest.clock.advance(0, wall_s=wrong_s)
        keeper = borrowed(nest)
        assert 18 <= keeper.held_for_s() <= 20
        nest.clock.advance(19)
        assert keeper.held_for_s() <= 1
        nest.clock.advance(0, wall_s=-wrong_s)

    nest.outer(command)


def test_deleted_lease_is_stolen(nest: Nest) -> None:
    """Also while there would be time left."""

    def command() -> None:
        keeper = borrowed(nest)
        nest.sandbox.handle(Request("DELETE", LEASE_PATH, {}, {}, b"", "admin"))
        with pytest.raises(LeaseLostError) as gone:
            keeper.must_hold(1)
        assert (gone.value.loss, gone.value.reason) == (Loss.STOLEN, "the lease was deleted")

    nest.outer(command)


def test_run_around_that_lost_its_lease_ends_it_before_anything_is_written(nest: Nest) -> None:
    """13, and nothing of it is anywhere."""

    def command() -> None:
        change_lease(nest, holderIdentity=OTHER, leaseTransitions=2)
        sent = len(nest.sandbox.requests.all())
        with pytest.raises(NotBelievedError) as raised:
            nest.inner()
        assert raised.value.exit_code is ExitCode.LEASE_LOST
        assert {entry.method for entry in nest.sandbox.requests.all()[sent:]} == {"GET"}

    nest.outer(command)
    assert nest.state() == nest.before


def test_lease_lost_while_its_command_runs_ends_it_with_13_and_its_fences_released(nest: Nest) -> None:
    """Not renewed for too long, and still the run around's: everything goes."""
    results: list[Result | None] = []

    def payload() -> int:
        nest.clock.advance(21)
        return 143

    nest.outer(lambda: results.append(nest.inner(payload=payload)))
    assert results[0]
    assert results[0].code is ExitCode.LEASE_LOST
    assert nest.state() == nest.before


def test_what_the_run_around_has_fenced_is_not_fenced_again(nest: Nest) -> None:
    """The same config inside: its suspensions and claims are covered; a node that is to be rolled is not."""

    def payload() -> int:
        door = SandboxDoor(nest.sandbox, nest.clock)
        own = replace(nest.own(), holder=INNER)
        names = [("kustomization", "flux-system", "apps")]
        found = find_suspensions(door, names, [KUSTOMIZATION], own, around=AROUND)
        assert found.objects == ()
        assert {ref.name for ref in found.covered} == {"apps", "flux-system"}
        nodes = find_nodes(door, ["n1"], own, around=AROUND)
        assert (nodes.objects, [ref.name for ref in nodes.covered]) == ((), ["n1"])
        with pytest.raises(CannotBeginError, match="carries a mark already"):
            find_nodes(door, ["n1"], own, around=AROUND, is_rolled=True)
        with pytest.raises(CannotBeginError, match="carries a mark already"):
            find_suspensions(door, names, [KUSTOMIZATION], own, around=replace(AROUND, holder=OTHER))
        raw = nest.raw(f"{KS}/apps")
        del raw["spec"]["suspend"]
        nest.sandbox.store.update(raw)
        with pytest.raises(CannotBeginError, match="carries a mark already"):
            find_suspensions(door, names, [KUSTOMIZATION], own, around=AROUND)
        return 0

    nest.payload = payload
    result = nest.deploy()
    assert result
    assert result.code is ExitCode.OK
