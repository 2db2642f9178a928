"""
Suspensions that stay after a rollback, and the deploy that takes them over: the real transaction on the sandbox.

Aspects: which stay · the order in which they are marked · each mark struck · resumed by others · adopted: success,
failure, death, refusal · what is printed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fencectl.cluster.observe import observe
from fencectl.cluster.write import send
from fencectl.core.answers import Applied, Refused
from fencectl.core.assemble import assemble, read_runs
from fencectl.core.config import AfterRollback
from fencectl.core.deploy import Adopted, adoptable
from fencectl.core.errors import ExitCode, FencectlError, NotReadableError
from fencectl.core.facts import HolderEvidence, JobFact, State
from fencectl.core.marks import read_mark
from fencectl.core.patches import GuardedPatch
from fencectl.core.placements import Placed, adopt_kept
from fencectl.core.profiles import FENCECTL
from fencectl.core.recovery import Wanted, plan_recovery
from fencectl.core.refs import ObjectRef, Seen
from fencectl.core.report import FenceReport
from fencectl.core.restored import Restored, RestoreVerdict
from fencectl.run.left import in_release_order, patches_left, release_of
from fencectl.run.transaction import Result
from tests.run.test_crash_matrix import steal
from tests.support.deploying import KS, LEASE, LEASE_PATH, Scene
from tests.support.inprocess import SandboxDoor
from tests.support.objects import OTHER, journal

ADOPTER = OTHER.replace("20d7bb3f", "5a5a5a5a")
WEB = ObjectRef("apps/v1", "Deployment", "deployments", "shop", "web", "uid")
ENDED = JobFact(State.ENDED, "has the job ended?", "completed", journal().at, recorded=True, hosted=True)


def rolls_back(scene: Scene, *restored: ObjectRef, also: Callable[[], None] = lambda: None) -> Scene:
    """Let its command fail and be rolled back, as step 9 tells step 10."""

    def payload() -> int:
        assert scene.current is not None
        verdict = RestoreVerdict.BACK if restored else RestoreVerdict.UNKNOWN
        scene.current._result.rolled_back = Restored(
            1,
            revision="main@sha1:9be1c044",
            done=list(restored),
            unresolved=[] if restored else [WEB],
            verdict=verdict,
        )
        also()
        return 7

    scene.payload = payload
    return scene


def ended(scene: Scene) -> Result:
    result = scene.deploy()
    assert result is not None
    return result


def journals(scene: Scene) -> dict[str, tuple[str, str, str | None]]:
    """Holder, phase and reason of each suspension that carries a mark."""
    found = {}
    for name in ("flux-system", "apps"):
        raw = scene.raw(f"{KS}/{name}")
        mark = read_mark(Seen(ref_of(raw), raw))
        if mark is not None and mark.journal is not None:
            found[name] = (mark.journal.holder, mark.journal.phase.value, mark.journal.reason)
    return found


def ref_of(raw: Any) -> ObjectRef:
    return ObjectRef(raw["apiVersion"], raw["kind"], "kustomizations", "flux-system", raw["metadata"]["name"],
                     raw["metadata"]["uid"])  # fmt: skip


def suspended(scene: Scene) -> list[bool]:
    return [scene.raw(f"{KS}/{name}")["spec"].get("suspend", False) for name in ("flux-system", "apps")]


def report(scene: Scene, *dead: str) -> FenceReport:
    door = SandboxDoor(scene.sandbox, scene.clock)
    found = observe(
        door, profile=FENCECTL, clock=scene.clock, deadline_s=60, server="http://sandbox", context="prod"
    )
    evidence = {holder: HolderEvidence(job=ENDED) for holder in (dead or (scene.holder,))}
    return assemble(read_runs(found, FENCECTL), evidence=evidence, unchanged_for_s={LEASE: 40.0})


def set_inventory(scene: Scene, name: str, *ids: str) -> None:
    raw = scene.raw(f"{KS}/{name}")
    raw["status"] = {"inventory": {"entries": [{"id": one, "v": "v1"} for one in ids]}}
    scene.sandbox.store.update(raw, subresource="status")


def run_commands(scene: Scene, patches: list[GuardedPatch | None]) -> None:
    for patch in patches:
        assert patch is not None
        assert isinstance(send(SandboxDoor(scene.sandbox, scene.clock), patch), Applied)


def test_rolled_back_deploy_keeps_its_suspensions_and_frees_the_lease() -> None:
    """11; nodes go, the reason is in the journals, and the resume commands, child first, give all of it back."""
    scene = rolls_back(Scene())
    result = ended(scene)
    assert result.code is ExitCode.STILL_FENCED
    why = "rolled back: main@sha1:9be1c044 must not come back"
    assert journals(scene) == dict.fromkeys(("flux-system", "apps"), (scene.holder, "kept", why))
    assert scene.raw(LEASE_PATH)["spec"]["holderIdentity"] == ""
    assert scene.state()[2:] == scene.before[2:]
    assert patches_left(result, now=scene.clock.wall()) == []
    fences = in_release_order(result.kept.fences)
    assert [fence.seen.ref.name for fence in fences] == ["apps", "flux-system"]
    run_commands(scene, [release_of(fence, now=scene.clock.wall()) for fence in fences])
    assert scene.state() == scene.before


def test_command_that_was_printed_before_does_not_resume_what_is_kept() -> None:
    """It guards the journal as it was: the reason why somebody had it printed is gone."""
    printed: list[GuardedPatch] = []
    scene = Scene()

    def look() -> None:
        entries = [entry for entry in report(scene).held if entry.object.name == "apps"]
        assert entries[0].release is not None
        printed.append(entries[0].release.patch)

    ended(rolls_back(scene, also=look))
    assert isinstance(send(SandboxDoor(scene.sandbox, scene.clock), printed[0]), Refused)
    assert suspended(scene) == [True, True]


def test_rollback_with_resume_keeps_nothing() -> None:
    """`--on-rollback resume`: a person wants Flux to go on."""
    scene = rolls_back(Scene(after_rollback=AfterRollback.RESUME))
    result = ended(scene)
    assert (result.code, result.kept.fences) == (ExitCode.FAILED_NEW_STATE_LIVE, [])
    assert scene.state() == scene.before


@pytest.mark.parametrize(
    ("inventories", "kept"),
    [
        ({"apps": ["shop_web_apps_Deployment"], "flux-system": ["flux-system_apps_x_Kustomization"]},
         ["flux-system", "apps"]),
        ({"apps": ["shop_other_apps_Deployment"], "flux-system": ["shop_web_apps_Deployment"]}, ["flux-system"]),
        ({"apps": [], "flux-system": []}, []),
        ({"apps": [], "flux-system": ["unreadable"]}, ["flux-system"]),
    ],
)  # fmt: skip
def test_only_what_applies_a_restored_object_stays_with_its_ancestors(
    inventories: dict[str, list[str]], kept: list[str]
) -> None:
    """A child takes its parent with it, a parent no child; what tells no inventory stays in doubt."""
    scene = Scene()

    def applied() -> None:
        # NB: while the command runs; one that could not be read before would have ended the deploy.
        for name, ids in inventories.items():
            set_inventory(scene, name, *ids)

    result = ended(rolls_back(scene, WEB, also=applied))
    assert list(journals(scene)) == kept
    assert (ExitCode.STILL_FENCED in result.codes) == bool(kept)
    assert scene.raw(LEASE_PATH)["spec"]["holderIdentity"] == ""


def test_what_was_applied_under_the_fence_counts_as_well() -> None:
    """The inventory is read again when it is decided, not as it was when the object was suspended."""
    scene = Scene()
    set_inventory(scene, "apps")
    set_inventory(scene, "flux-system")
    ended(rolls_back(scene, WEB, also=lambda: set_inventory(scene, "apps", "shop_web_apps_Deployment")))
    assert list(journals(scene)) == ["flux-system", "apps"]


def test_suspension_that_somebody_ended_is_not_called_kept() -> None:
    """`flux resume` before step 10: the mark goes, and what follows from it is said."""
    scene = Scene()

    def resume() -> None:
        for name in ("apps", "flux-system"):
            raw = scene.raw(f"{KS}/{name}")
            del raw["spec"]["suspend"]
            scene.sandbox.store.update(raw)

    result = ended(rolls_back(scene, also=resume))
    assert journals(scene) == {}
    assert result.kept.fences == []


HOW = ("refused", "unanswered", "answer lost", "away", "stolen", "not renewed", "interrupted", "killed")


def strike(scene: Scene, how: str) -> None:
    """Let the write that is about to be sent meet this."""
    match how:
        case "refused":
            scene.sandbox.faults.refuse(status=403, verb=None, times=1)
        case "unanswered":
            scene.sandbox.faults.drop_before(times=1)
        case "answer lost":
            scene.sandbox.faults.drop_after(times=1)
        case "away":
            scene.door.away = True
        case "stolen":
            steal(scene)
            scene.clock.advance(11)
            scene.renew()
        case "not renewed":
            scene.clock.advance(21)
        case "interrupted":
            scene.interrupt_code = ExitCode.TERMINATED
            scene.interrupted.set()
        case "killed":
            scene.door.killed = True
        case _:
            raise ValueError(how)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("how", HOW)
def test_each_mark_that_is_struck_leaves_nothing_resumed_and_nothing_hidden(how: str, number: int) -> None:
    """Whatever happens to it, Flux does not come back by itself, and each fence is listed with its holder."""
    scene = Scene()
    begun = {"writes": 0}

    def before(_: int) -> None:
        if not begun["writes"]:
            return
        begun["writes"] += 1
        if begun["writes"] != number + 1:
            return
        strike(scene, how)

    def done() -> None:
        begun["writes"] = 1

    scene.door.before = before
    result = rolls_back(scene, also=done).deploy()
    scene.door.away = scene.door.killed = False
    assert suspended(scene) == [True, True], how
    held = {entry.object.name for entry in report(scene).held}
    assert {"apps", "flux-system"} <= held
    phases = {name: phase for name, (_, phase, _) in journals(scene).items()}
    both = phases == {"flux-system": "kept", "apps": "kept"}
    assert both or how not in ("unanswered", "answer lost", "interrupted")
    if how in ("not renewed", "stolen"):
        # The one that was on its way may land; after a loss no other is sent.
        assert phases["apps"] == ("suspended" if number == 1 else "kept")
    # Freed is the lease only where nothing but what is kept is left.
    holder = scene.raw(LEASE_PATH)["spec"]["holderIdentity"]
    assert holder == (OTHER if how == "stolen" else "" if both else scene.holder)
    # Outermost first: a child that is kept under a parent that is not would be dropped by it.
    assert (phases["flux-system"], phases["apps"]) != ("suspended", "kept") or how == "refused"
    if result is None:
        assert how == "killed"
        return
    assert result.code is ExitCode.STILL_FENCED
    printed = {patch.target.name for patch in patches_left(result, now=scene.clock.wall())}
    # No line resumes by the way what had to be kept.
    assert not printed & {ref.name for ref in result.kept.stuck}


def kept_scene() -> Scene:
    """Rolled back for sure: an uncertain restore would leave a claim, which holds the target as well."""
    scene = Scene()
    for name in ("apps", "flux-system"):
        set_inventory(scene, name, "shop_web_apps_Deployment")
    rolls_back(scene, WEB)
    ended(scene)
    return scene


def adopter(scene: Scene, **more: Any) -> Scene:
    """Another deploy that takes over what was kept."""
    return Scene(holder=ADOPTER, beside=scene, adopt=adoptable(report(scene)), **more)


def test_what_was_kept_is_adopted_and_released_after_a_success() -> None:
    """The drain proof is asked for anew; at the end everything is as before the deploy that was rolled back."""
    scene = kept_scene()
    during: list[Any] = []
    fix = adopter(scene)

    def payload() -> int:
        during.append(journals(scene))
        return 0

    fix.payload = payload
    result = ended(fix)
    assert result.code is ExitCode.OK
    why = "rolled back: main@sha1:9be1c044 must not come back"
    assert during == [dict.fromkeys(("flux-system", "apps"), (ADOPTER, "kept", why))]
    assert scene.state() == scene.before
    assert [text for step, text in fix.told if step == 4][:2] == [
        "adopted kustomization/flux-system/flux-system",
        "adopted kustomization/flux-system/apps",
    ]


def test_adopted_suspensions_stay_kept_after_a_failure() -> None:
    """By the adopter, with the reason that they had; its lease is free, and it ends with 11."""
    scene = kept_scene()
    fix = adopter(scene, payload=lambda: 7)
    result = ended(fix)
    assert result.code is ExitCode.STILL_FENCED
    why = "rolled back: main@sha1:9be1c044 must not come back"
    assert journals(scene) == dict.fromkeys(("flux-system", "apps"), (ADOPTER, "kept", why))
    assert scene.raw(LEASE_PATH)["spec"]["holderIdentity"] == ""
    fences = in_release_order(result.kept.fences)
    run_commands(scene, [release_of(fence, now=scene.clock.wall()) for fence in fences])
    assert scene.state() == scene.before


def test_recovery_of_a_dead_adopter_leaves_what_it_adopted_kept() -> None:
    """Killed while its command ran: it had promised nothing that makes the bad revision welcome."""
    scene = kept_scene()
    fix = adopter(scene)

    def die() -> int:
        fix.door.killed = True
        return 0

    fix.payload = die
    assert fix.deploy() is None
    found = report(scene, ADOPTER)
    (plan,) = plan_recovery(found, observed(scene), FENCECTL, Wanted(holder=ADOPTER))
    assert {entry.object.name for entry in plan.kept} == {"apps", "flux-system"}
    assert {entry.object.kind for entry in plan.going} == {"Node"}


def observed(scene: Scene) -> Any:
    door = SandboxDoor(scene.sandbox, scene.clock)
    return observe(door, profile=FENCECTL, clock=scene.clock, deadline_s=60, server="http://sandbox")


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("how", ["refused", "unanswered", "answer lost", "away", "stolen", "killed"])
def test_each_adoption_that_is_struck_leaves_them_kept(how: str, number: int) -> None:
    """By the one or by the other, never resumed, never without a holder."""
    scene = kept_scene()
    fix = adopter(scene)
    seen = {"writes": 0}

    def before(_: int) -> None:
        # NB: the lease and the record come first; the third and fourth writes adopt.
        seen["writes"] += 1
        if seen["writes"] != number + 2:
            return
        strike(fix, how)

    fix.door.before = before
    result = fix.deploy()
    if how in ("unanswered", "answer lost"):
        assert result is not None
        assert result.code is ExitCode.OK
        assert scene.state() == scene.before
        return
    assert suspended(scene) == [True, True]
    assert {phase for _, phase, _ in journals(scene).values()} == {"kept"}
    assert result is None or result.code is ExitCode.STILL_FENCED


def test_suspension_that_was_released_before_it_is_adopted_is_suspended_as_any_other() -> None:
    """A person resumed it in between: then it is ours like the rest, and goes with it, whatever comes of it."""
    scene = kept_scene()
    fix = adopter(scene, payload=lambda: 7)
    child = next(entry for entry in report(scene).held if entry.object.name == "apps")
    assert child.release is not None
    parent = next(entry for entry in report(scene).held if entry.object.name == "flux-system")
    assert parent.release is not None
    patches = [child.release.patch, parent.release.patch]
    result = ended_with(fix, lambda _: run_commands(scene, list(patches)))
    assert result.code is ExitCode.FAILED_NEW_STATE_LIVE
    assert scene.state() == scene.before


def ended_with(scene: Scene, read_again: Callable[[str], None]) -> Result:
    result = scene.deploy(read_again=read_again)
    assert result is not None
    return result


def test_adopter_that_ends_before_it_adopts_says_that_they_are_kept_as_before() -> None:
    """11 too: something is still fenced, by the one who had kept it."""
    scene = kept_scene()
    before = journals(scene)

    def unread(_: str) -> None:
        raise NotReadableError("nodes could not be read again")

    result = ended_with(adopter(scene), unread)
    assert result.code is ExitCode.STILL_FENCED
    assert sorted(ref.name for ref in result.kept.before) == ["apps", "flux-system"]
    assert journals(scene) == before


def test_adopter_adopts_only_from_the_holder_that_it_has_seen() -> None:
    """Another one has adopted and kept them since: that one was not judged, so nothing of his is taken."""
    scene = kept_scene()
    late = adopter(scene)
    other = Scene(holder=OTHER, beside=scene, adopt=late.adopt, payload=lambda: 7)
    ended(other)
    taken = journals(scene)
    with pytest.raises(FencectlError, match="carries a mark already"):
        late.deploy()
    assert journals(scene) == taken
    assert {one.holder for one in late.adopt} == {scene.holder}
    assert isinstance(late.adopt[0], Adopted)


def test_adoption_whose_answer_never_came_is_not_taken_back_once_the_server_is_there_again() -> None:
    """It had landed, the lease was lost over it: to release it would resume what was kept."""
    scene = kept_scene()
    fix = adopter(scene)
    waited = {"s": 0.0}

    def before(number: int) -> None:
        if number == 3:
            scene.sandbox.faults.drop_after(times=1)
        fix.door.away = fix.door.away or number == 4

    def wait(seconds: float) -> None:
        waited["s"] += seconds
        if waited["s"] > 25:
            fix.door.away = False
        scene.sandbox.clock.advance(seconds)

    fix.door.before, fix.clock.on_wait = before, wait
    result = ended(fix)
    assert not fix.door.away, "the server was there again"
    assert ExitCode.LEASE_LOST in result.codes
    assert result.code is ExitCode.STILL_FENCED
    assert suspended(scene) == [True, True]
    assert {name: (holder, phase) for name, (holder, phase, _) in journals(scene).items()} == {
        "flux-system": (ADOPTER, "kept"),
        "apps": (scene.holder, "kept"),
    }


def test_suspension_that_another_adopts_between_look_and_write_stays_his() -> None:
    """Kept as before, but by somebody who was not judged: nothing of his is taken, or written over."""
    scene = kept_scene()
    fix = adopter(scene)

    def adopt(_: str) -> None:
        for name in ("flux-system", "apps"):
            raw = scene.raw(f"{KS}/{name}")
            seen = Seen(ref_of(raw), raw)
            mark = read_mark(seen)
            assert mark is not None
            assert mark.journal is not None
            found = adopt_kept(seen, mark.journal, replace(mark.journal, holder=OTHER, source=None))
            assert isinstance(found, Placed)
            run_commands(scene, [found.patch])

    result = ended_with(fix, adopt)
    assert result.code is ExitCode.STILL_FENCED
    assert "carries a mark already" in (result.cause or "")
    assert {holder for holder, _, _ in journals(scene).values()} == {OTHER}
    assert sorted(ref.name for ref in result.kept.before) == ["apps", "flux-system"]
