"""
A recovery step by step, with every answer lost, refused or late where it hurts most.

Aspects: the take-over · answers that are lost · stolen, freed and deleted leases · order of what appears late · kept ·
a second lease · a stop before and after the first write · what is said to be left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fencectl.core.journal import Phase
from fencectl.core.outcome import Outcome
from fencectl.core.refs import ObjectRef
from fencectl.run.keeper import Keeper
from tests.run.recovering import GONE, KUSTOMIZATIONS, LEASE, LEASE_PATH, RECOVERER, Scene
from tests.support.objects import HOLDER, OTHER

IN_ORDER = [
    ("taken", "fencectl-deploy"),
    ("released", "n2"),
    ("released", "n1"),
    ("released", "infrastructure"),
    ("released", "flux-system"),
    ("freed", "fencectl-deploy"),
]
NODE = "/api/v1/nodes/"
# Each of the five patches is tried first.
REHEARSED = 5


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.killed_chain()
    return made


def steal(scene: Scene, holder: str = OTHER, transitions: int = 7) -> Callable[[], None]:
    def now() -> None:
        scene.write(LEASE_PATH, {"spec": {"holderIdentity": holder, "leaseTransitions": transitions}})

    return now


def result(outcome: Outcome) -> tuple[bool, str | None]:
    return outcome.stopped is None, outcome.lease


def test_chain_is_released_in_order_and_the_lease_last(scene: Scene) -> None:
    """The undisturbed way, with the token growing by one."""
    assert result(scene.recover()) == (True, "freed")
    assert scene.story == IN_ORDER
    assert (scene.lease()["holderIdentity"], scene.lease()["leaseTransitions"]) == ("", 2)
    assert scene.marks() == []


@pytest.mark.parametrize("lost", range(6))
def test_any_answer_may_be_lost(scene: Scene, lost: int) -> None:
    """Applied and never answered: read back, and gone on with; nothing is done twice."""
    scene.sandbox.faults.drop_after(verb="patch", after=REHEARSED + lost, times=1)
    assert result(scene.recover()) == (True, "freed")
    assert [fence for _, fence in scene.story] == [fence for _, fence in IN_ORDER]
    assert scene.lease()["leaseTransitions"] == 2


@pytest.mark.parametrize("busy", range(REHEARSED + 6))
def test_any_write_may_be_throttled_once(scene: Scene, busy: int) -> None:
    """Refused before anything was tried (429): sent again, the rehearsal's too."""
    scene.sandbox.faults.throttle(verb="patch", after=busy, times=1)
    assert result(scene.recover()) == (True, "freed")
    assert scene.story == IN_ORDER


def test_take_over_that_is_carried_out_late_is_still_adopted(scene: Scene) -> None:
    """The first try times out, the read shows the old holder, and only then the server carries it out."""
    late: list[bytes] = []
    door = scene.door
    exchange = door._exchange

    def lossy(method: str, path: str, query: Any, headers: Any, body: bytes, *, may_be_lost: bool) -> Any:
        if method == "PATCH" and path == LEASE_PATH and not (query or {}).get("dryRun"):
            if not late:
                late.append(body)
                raise door._lost(sent=True)
            if len(late) == 1:
                late.append(body)
                exchange(method, path, query, headers, late[0], may_be_lost=may_be_lost)
        return exchange(method, path, query, headers, body, may_be_lost=may_be_lost)

    plan = scene.plan()
    object.__setattr__(scene, "door", _Wrapped(door, lossy))
    assert result(scene.recover(plan)) == (True, "freed")
    assert scene.lease()["leaseTransitions"] == 2


class _Wrapped:
    def __init__(self, door: Any, exchange: Any) -> None:
        self._door = door
        self._exchange = exchange

    def get(self, path: str, **more: Any) -> Any:
        return self._door.get(path, **more)

    def send(
        self, method: str, path: str, *, query: Any = None, body: bytes, content_type: str, deadline_s: Any = None
    ) -> Any:
        return self._exchange(method, path, query, {"content-type": content_type}, body, may_be_lost=True)


def test_take_over_that_nobody_can_confirm_is_named_as_unresolved(scene: Scene) -> None:
    """Its answer and every look after it are lost: something may be changed, and the run says so."""
    plan = scene.plan()
    scene.sandbox.faults.drop_after(verb="patch", resource="leases", after=1)
    scene.sandbox.faults.drop_before(verb="get", resource="leases")
    outcome = scene.recover(plan)
    assert outcome.stopped is not None
    assert outcome.unresolved
    assert len(outcome.left) == 5


def test_server_that_is_away_before_the_first_write_leaves_nothing_unresolved(scene: Scene) -> None:
    """Nothing was changed; that is no refusal, it could not be read."""
    plan = scene.plan()
    scene.door.away = True
    outcome = scene.recover(plan)
    assert outcome.stopped is not None
    assert (outcome.wrote, outcome.unresolved, outcome.unread) == (False, False, True)
    assert len(outcome.left) == 5


@pytest.mark.parametrize("status", [403, 401])
def test_right_that_is_missing_is_found_by_the_rehearsal(scene: Scene, status: int) -> None:
    """Before the first write."""
    scene.sandbox.faults.refuse(status=status, verb="patch", name="infrastructure")
    outcome = scene.recover()
    assert (outcome.forbidden, outcome.wrote) == (True, False)
    assert "infrastructure" in (outcome.stopped or "")


def test_holder_that_wakes_up_before_the_take_over_keeps_its_lease(scene: Scene) -> None:
    """Its heartbeat is guarded as it was observed."""
    plan = scene.plan()
    scene.write(LEASE_PATH, {"spec": {"renewTime": "2026-11-30T02:00:00.000000Z"}})
    outcome = scene.recover(plan)
    assert (outcome.alive, outcome.wrote) == (True, False)
    assert scene.lease()["holderIdentity"] == HOLDER


def test_lease_that_is_only_refused_is_not_called_alive(scene: Scene) -> None:
    """A server that will not have the patch says nothing about the holder."""
    scene.sandbox.faults.refuse(status=400, verb="patch", resource="leases", after=1)
    outcome = scene.recover()
    assert (outcome.alive, outcome.wrote) == (False, False)
    assert "400" in (outcome.stopped or "")


def test_take_over_after_the_lease_was_freed_by_hand_says_so(scene: Scene) -> None:
    """Its answer was lost, and a printed command freed what it had taken, or had not."""
    plan = scene.plan()
    scene.sandbox.faults.drop_before(verb="patch", resource="leases", after=1, times=1)
    scene.clock.on_wait = lambda _: scene.write(LEASE_PATH, {"spec": {"holderIdentity": ""}})
    outcome = scene.recover(plan)
    assert outcome.alive is False
    assert "free" in (outcome.stopped or "")
    assert len(scene.marks()) == 4


@pytest.mark.parametrize("after", range(1, 5))
def test_lease_stolen_half_way_stops_it_and_is_said(scene: Scene, after: int) -> None:
    """No further release, nothing handed back over somebody else's head."""
    written = 0

    def count(told: Any) -> None:
        nonlocal written
        scene.told.append(told)
        written += told.result == "released"
        if written == after and told.result == "released":
            steal(scene)()

    outcome = _with_renewals(scene, count)
    assert result(outcome) == (False, "lost")
    assert "18093399201" in (outcome.stopped or "") or OTHER in (outcome.stopped or "")
    assert scene.lease()["holderIdentity"] == OTHER
    assert outcome.released == after
    # The lease is in other hands: no fence of this run any more.
    assert len(outcome.left) == 4 - after


def _with_renewals(scene: Scene, tell: Any) -> Outcome:
    """Recover, with a renewal before each release, as the keeper's thread would have sent it by then."""
    world = scene.world
    must_hold = Keeper.must_hold

    def renewing(self: Keeper, for_s: float) -> None:
        self.renew()
        must_hold(self, for_s)

    def told_world() -> Any:
        made = world()
        made.tell = tell
        return made

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Keeper, "must_hold", renewing)
        patched.setattr(scene, "world", told_world)
        return scene.recover()


def test_lease_stolen_at_the_very_end_is_not_called_freed(scene: Scene) -> None:
    """Every fence is released, and yet others were not kept out: said, and no success."""
    scene.sandbox.faults.on(steal(scene), verb="patch", resource="leases", after=2, times=1)
    outcome = scene.recover()
    assert result(outcome) == (False, "lost")
    assert scene.lease()["holderIdentity"] == OTHER


def test_lease_freed_and_taken_by_the_next_deploy_before_the_answer_is_a_success(scene: Scene) -> None:
    """The answer to the freeing is lost, and the queue is quick."""
    scene.sandbox.faults.drop_after(verb="patch", resource="leases", after=2, times=1)
    scene.clock.on_wait = lambda _: steal(scene, transitions=3)()
    assert result(scene.recover()) == (True, "freed")
    assert scene.lease()["holderIdentity"] == OTHER


def test_renewals_that_are_refused_end_it_in_time(scene: Scene) -> None:
    """Once the lease is not certainly held any more nothing is released; it is handed back."""
    scene.sandbox.faults.on(lambda: scene.clock.advance(16), verb="patch", name="n2", after=1, times=1)
    outcome = scene.recover()
    assert result(outcome) == (False, "handed-back")
    assert outcome.released == 1
    assert scene.lease()["holderIdentity"] == HOLDER
    assert sorted(scene.marks()) == ["fencectl-deploy", "flux-system", "infrastructure", "n1"]


@pytest.mark.parametrize("lost", ["drop_before", "drop_after"])
def test_hand_back_whose_answer_is_lost_is_looked_up(scene: Scene, lost: str) -> None:
    """Carried out or not: in the end the old holder has its lease, token + 2, and it is said."""
    scene.sandbox.faults.on(scene.stop.set, verb="patch", name="n2", after=1, times=1)
    getattr(scene.sandbox.faults, lost)(verb="patch", resource="leases", after=2, times=1)
    outcome = scene.recover()
    assert result(outcome) == (False, "handed-back")
    assert (scene.lease()["holderIdentity"], scene.lease()["leaseTransitions"]) == (HOLDER, 3)


def test_stop_before_the_take_over_changes_nothing(scene: Scene) -> None:
    """A signal during the rehearsal."""
    plan = scene.plan()
    scene.stop.set()
    outcome = scene.recover(plan)
    assert (outcome.wrote, outcome.lease) == (False, None)
    assert "interrupted" in (outcome.stopped or "")
    assert scene.lease()["leaseTransitions"] == 1


def test_stop_during_the_last_rehearsal_takes_no_lease(scene: Scene) -> None:
    """The patch that is tried last is that of the take-over itself."""
    exchange = scene.door._exchange

    def stopping(method: str, path: str, query: Any, headers: Any, body: bytes, *, may_be_lost: bool) -> Any:
        if method == "PATCH" and path == LEASE_PATH:
            scene.stop.set()
        return exchange(method, path, query, headers, body, may_be_lost=may_be_lost)

    plan = scene.plan()
    object.__setattr__(scene, "door", _Wrapped(scene.door, stopping))
    outcome = scene.recover(plan)
    assert (outcome.wrote, outcome.lease) == (False, None)
    assert scene.lease()["leaseTransitions"] == 1


def test_stop_after_the_last_release_leaves_only_the_lease(scene: Scene) -> None:
    """What is said to be held is what is held."""
    scene.sandbox.faults.on(scene.stop.set, verb="patch", name="flux-system", after=1, times=1)
    outcome = scene.recover()
    assert result(outcome) == (False, "handed-back")
    assert outcome.left == ["lease/flux-system/fencectl-deploy"]


def test_free_lease_that_cannot_be_freed_again_names_no_fence_that_is_released() -> None:
    """The lease was not the run's own; everything of the run is released, and only the lease is left."""
    scene = Scene()
    scene.node("n1")
    scene.run_of().cordon("n1")
    scene.sandbox.faults.refuse(status=400, verb="patch", resource="leases")
    outcome = scene.recover()
    assert outcome.stopped is not None
    assert outcome.released == 1
    assert outcome.left == ["lease/flux-system/fencectl-deploy"]


def test_lease_that_was_deleted_is_made_above_the_last_token() -> None:
    """And is free in the end."""
    scene = Scene()
    scene.node("n1")
    run = scene.run_of()
    run.take_lease()
    scene.write(LEASE_PATH, {"spec": {"leaseTransitions": 41}})
    run._lease_ref = run._lease_ref and type(run._lease_ref)(*LEASE, run._lease_ref.uid, 30, 41)
    run.cordon("n1")
    scene.delete(LEASE_PATH)
    assert result(scene.recover()) == (True, "freed")
    assert (scene.lease()["holderIdentity"], scene.lease()["leaseTransitions"]) == ("", 42)


def test_free_lease_with_a_stale_journal_is_taken_and_freed() -> None:
    """The journal of whoever held it before is replaced, and then gone."""
    scene = Scene()
    scene.node("n1")
    run = scene.run_of()
    run.take_lease()
    run.cordon("n1")
    scene.write(LEASE_PATH, {"spec": {"holderIdentity": ""}})
    assert result(scene.recover()) == (True, "freed")
    found = scene.get(LEASE_PATH)
    assert found is not None
    assert "fencectl.dev/journal" not in found["metadata"].get("annotations", {})


def test_lease_taken_by_a_deploy_meanwhile_is_left_to_it() -> None:
    """It was free when it was observed."""
    scene = Scene()
    scene.node("n1")
    scene.run_of().cordon("n1")
    plan = scene.plan()
    scene.run_of(OTHER, age_s=0).take_lease()
    outcome = scene.recover(plan)
    assert (outcome.alive, outcome.wrote) == (True, False)
    assert scene.marks() == ["n1", "fencectl-deploy"]


def test_late_parent_and_child_are_swept_in_order(scene: Scene) -> None:
    """Writes of the dead run that the server carries out only now; the child goes first."""
    scene.kustomization("a-late-parent")
    scene.kustomization("z-late-child", applied_by="a-late-parent")

    def place() -> None:
        run = scene.run_of()
        run.suspend("flux-system", "a-late-parent", rank=1)
        run.suspend("flux-system", "z-late-child", rank=2)

    scene.sandbox.faults.on(place, verb="patch", name="flux-system", after=1, times=1)
    outcome = scene.recover()
    assert result(outcome) == (True, "freed")
    late = [fence for _, fence in scene.story if "late" in fence]
    assert late == ["z-late-child", "a-late-parent"]
    assert [told.order for told in scene.told] == [0, 1, 2, 3, 4, 5, 6, 7]


def test_late_parent_of_a_kept_child_stops_it(scene: Scene) -> None:
    """While the child is kept and excluded, its parent must not reconcile, nor the lease be free."""
    scene.kustomization("parent")
    scene.kustomization("child", applied_by="parent")

    def place() -> None:
        run = scene.run_of()
        run.suspend("flux-system", "parent", rank=1)
        run.enter_phase(run.suspend("flux-system", "child", rank=2), Phase.KEPT, reason="rolled back")

    scene.sandbox.faults.on(place, verb="patch", name="flux-system", after=1, times=1)
    outcome = scene.recover()
    assert result(outcome) == (False, "handed-back")
    assert "waits for kustomization/flux-system/child" in (outcome.stopped or "")
    assert {"parent", "child"} <= set(scene.marks())
    assert outcome.left == ["kustomization/flux-system/parent", "lease/flux-system/fencectl-deploy"]


def test_fence_that_was_kept_meanwhile_is_not_resumed(scene: Scene) -> None:
    """It was to be released when it was planned; now somebody has kept it on purpose."""
    plan = scene.plan()
    run = scene.run_of()
    ref = ObjectRef(
        "kustomize.toolkit.fluxcd.io/v1", "Kustomization", "kustomizations", "flux-system", "infrastructure", ""
    )
    kept = run._must_read((ref.api_version, ref.kind, ref.plural), "flux-system", "infrastructure")
    scene.sandbox.faults.on(
        lambda: run.enter_phase(kept, Phase.KEPT, reason="rolled back"), verb="patch", name="n1", after=1, times=1
    )
    outcome = scene.recover(plan)
    assert result(outcome) == (False, "handed-back")
    assert "KEPT" in (outcome.stopped or "")
    found = scene.get(f"{KUSTOMIZATIONS}/infrastructure")
    assert found is not None
    assert found["spec"]["suspend"] is True


def test_mark_that_nobody_can_read_any_more_is_not_called_lifted(scene: Scene) -> None:
    """Somebody has emptied it: the node is still cordoned, and whose it is nobody can say."""
    scene.sandbox.faults.on(
        lambda: scene.write(NODE + "n1", {"metadata": {"annotations": {"fencectl.dev/holder": ""}}}),
        verb="patch",
        name="n2",
        after=1,
        times=1,
    )
    outcome = scene.recover()
    assert result(outcome) == (False, "handed-back")
    assert "n1" in outcome.left[0]


def test_second_lease_of_the_run_is_freed_under_its_heartbeat_as_observed(scene: Scene) -> None:
    """A fresh read must not bring a fresh heartbeat into the guard."""
    scene.run_of(lease=("flux-system", "second")).take_lease()
    plan = scene.plan()
    path = LEASE_PATH.replace("fencectl-deploy", "second")
    scene.sandbox.faults.on(
        lambda: scene.write(path, {"spec": {"renewTime": "2026-11-30T02:00:00.000000Z"}}),
        verb="patch",
        name="flux-system",
        after=1,
        times=1,
    )
    outcome = scene.recover(plan)
    assert result(outcome) == (False, "handed-back")
    assert scene.lease(path)["holderIdentity"] == HOLDER
    assert scene.lease()["holderIdentity"] == HOLDER


def test_second_lease_of_the_run_is_freed_before_the_one_that_was_taken_over(scene: Scene) -> None:
    """Undisturbed, both are free in the end."""
    scene.run_of(lease=("flux-system", "second")).take_lease()
    assert result(scene.recover()) == (True, "freed")
    assert scene.story[-2:] == [("released", "second"), ("freed", "fencectl-deploy")]


def test_nothing_to_release_touches_no_lease() -> None:
    """Only kept suspensions are left, and they are left alone."""
    scene = Scene()
    scene.kustomization("apps")
    run = scene.run_of()
    run.take_lease()
    run.enter_phase(run.suspend("flux-system", "apps", rank=1), Phase.KEPT, reason="rolled back")
    scene.write(LEASE_PATH, {"spec": {"holderIdentity": ""}})
    before = scene.get(LEASE_PATH)
    outcome = scene.recover()
    assert (outcome.stopped, outcome.wrote) == (None, False)
    assert scene.get(LEASE_PATH) == before


def test_recovery_of_a_recovery_of_a_recovery_ends_with_everything_released(scene: Scene) -> None:
    """Two recoverers die, one after its first release and one right after its take-over."""
    for number, after in ((1, 2), (2, 1)):
        holder = f"0000000000000000-local-ops-laptop-{number}-0badcafe"
        with pytest.raises(KeyboardInterrupt):
            _dies(scene, holder, after)
        scene.evidence[holder] = GONE
        # NB: its heartbeat is that of its take-over; the window is another test's.
        scene.write(LEASE_PATH, {"spec": {"renewTime": "2026-11-30T01:00:00.000000Z"}})
    (plan,) = scene.plans(None)
    assert plan.block.judgement.words == "dead (proven)"
    assert result(scene.recover(plan)) == (True, "freed")
    assert scene.marks() == []


def _dies(scene: Scene, holder: str, after: int) -> None:
    told = 0

    def die(_: Any) -> None:
        nonlocal told
        told += 1
        if told == after:
            raise KeyboardInterrupt

    world = scene.world

    def dying() -> Any:
        made = world()
        made.tell = die
        return made

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scene, "world", dying)
        scene.recover(holder=holder)


def test_journal_of_another_holder_does_not_go_along_with_the_lease(scene: Scene) -> None:
    """A stale one tells of another process, whose end would prove nothing."""
    from fencectl.core.journal import Journal
    from fencectl.run.recovery import recovery_journal

    stale = Journal(OTHER, "", 1, 0, scene.clock.wall(), Phase.HELD, details={"pid": 1})
    scene.write(LEASE_PATH, {"metadata": {"annotations": {"fencectl.dev/journal": stale.text}}})
    own = Journal(RECOVERER, "", 1, 0, scene.clock.wall(), Phase.RECOVERING)
    assert recovery_journal(own, scene.plan()).before is None


def test_journal_that_would_grow_too_long_goes_along_without_details(scene: Scene) -> None:
    """A journal that nobody can read would tear the chain apart."""
    from fencectl.core.journal import MAX_LENGTH, Journal, parse_journal
    from fencectl.run.recovery import recovery_journal

    long = Journal(HOLDER, "", 1, 0, scene.clock.wall(), Phase.HELD, reason="x" * (MAX_LENGTH - 400))
    scene.write(LEASE_PATH, {"metadata": {"annotations": {"fencectl.dev/journal": long.text}}})
    own = Journal(RECOVERER, "", 1, 0, scene.clock.wall(), Phase.RECOVERING, details={"x": "y" * 1000})
    written = recovery_journal(own, scene.plan())
    assert isinstance(parse_journal(written.text), Journal)
