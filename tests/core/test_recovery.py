"""
What `recover` may release: whose fences, under which lease, and which refusal comes first.

Aspects: one holder is picked, or the same ones again · every lease is watched · refusals before the window · a lease
held by a stranger or an unproven recoverer · kept children · a foreign profile · a lease that was deleted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fencectl.core.assemble import assemble, read_runs
from fencectl.core.errors import FencectlError
from fencectl.core.facts import Fact, HolderEvidence, JobFact, State
from fencectl.core.journal import LeaseRef, Phase
from fencectl.core.marks_reader import Vouched
from fencectl.core.observation import Observation
from fencectl.core.profiles import FENCECTL, GHCR_BRIDGE
from fencectl.core.recovery import RecoveryPlan, Wanted, leases_to_watch, plan_recovery
from fencectl.core.refs import Seen
from fencectl.core.report import FenceReport
from tests.support.objects import (
    HOLDER,
    NOW,
    OTHER,
    before,
    journal,
    lease,
    mark,
    marked_kustomization,
    marked_node,
    node,
    observation,
)

SIBLING = "4f2a91c07be3d855-gh18093344127.2-j51234569999-77777777"
RECOVERER = "0000000000000000-local-ops-laptop-815-0badcafe"
ENDED = HolderEvidence(
    job=JobFact(State.ENDED, "has the job ended?", "completed", NOW, recorded=True, hosted=True)
)
Evidence = dict[str, HolderEvidence]
GONE = HolderEvidence(process=Fact(State.ENDED, "has the process ended?", "gone", NOW))
ALIVE = HolderEvidence(job=JobFact(State.ALIVE, "has the job ended?", "in_progress", NOW, recorded=True))
OURS = ("flux-system", "fencectl-deploy")


def look(
    *seen: Seen, vouched: Vouched | None = None, evidence: Evidence | None = None
) -> tuple[FenceReport, Observation]:
    seen_all = observation(*seen)
    runs = read_runs(seen_all, FENCECTL, vouched=vouched or Vouched())
    return assemble(runs, evidence=evidence or {}), seen_all


def plans(
    *seen: Seen, wanted: Wanted | None = None, vouched: Vouched | None = None, evidence: Evidence | None = None
) -> tuple[RecoveryPlan, ...]:
    report, seen_all = look(*seen, vouched=vouched, evidence=evidence)
    return plan_recovery(report, seen_all, FENCECTL, wanted or Wanted())


def refused(*seen: Seen, wanted: Wanted | None = None, **more: Any) -> tuple[int, str]:
    with pytest.raises(FencectlError) as raised:
        plans(*seen, wanted=wanted, **more)
    error = raised.value
    return int(error.exit_code), f"{error.sentence}: {error.reason} ({error.hint})"


def watched(
    *seen: Seen, wanted: Wanted | None = None, evidence: Evidence | None = None
) -> tuple[tuple[str, str], ...]:
    report, seen_all = look(*seen, evidence=evidence)
    return leases_to_watch(report, FENCECTL, wanted or Wanted(), seen_all)[1]


def taken_by(recoverer: str = RECOVERER, **more: Any) -> Seen:
    story = journal(holder=recoverer, uid="uid-fencectl-deploy", phase=Phase.RECOVERING, recovering=HOLDER)
    return lease(holder=recoverer, annotations={"fencectl.dev/journal": story.text}, **more)


def test_run_and_attempt_that_two_holders_share_pick_neither() -> None:
    """Two jobs of one attempt are two holders; each is recovered by its own name."""
    seen = (marked_node("n1"), marked_node("n2", holder=SIBLING))
    code, said = refused(
        *seen, wanted=Wanted("18093344127.2", accept_presumed=True), evidence={HOLDER: ENDED, SIBLING: ENDED}
    )
    assert code == 2
    assert HOLDER in said
    assert SIBLING in said
    (one,) = plans(*seen, wanted=Wanted(SIBLING, accept_presumed=True), evidence={HOLDER: ENDED, SIBLING: ENDED})
    assert one.block.holder.identity == SIBLING


def test_second_look_decides_on_those_that_were_watched_only() -> None:
    """A holder that turns up dead meanwhile was never watched, and makes nothing ambiguous."""
    seen = (lease(), marked_node("n1"), lease("second", holder=OTHER), marked_node("n2", holder=OTHER))
    evidence = {HOLDER: ENDED, OTHER: ENDED}
    (one,) = plans(*seen, wanted=Wanted(keys=frozenset({HOLDER})), evidence=evidence)
    assert one.block.holder.identity == HOLDER
    (one,) = plans(*seen, wanted=Wanted(every=True, keys=frozenset({OTHER})), evidence=evidence)
    assert one.block.holder.identity == OTHER
    assert plans(*seen, wanted=Wanted(keys=frozenset({"gone"})), evidence=evidence) == ()


def test_every_lease_of_the_holder_is_watched() -> None:
    """The one that it holds, a second one, and the one that its journals name."""
    assert watched(lease(), lease("second"), marked_node(), evidence={HOLDER: ENDED}) == (
        OURS,
        ("flux-system", "second"),
    )
    where = LeaseRef("other", "by-journal", "u", 30, 1)
    story = journal(uid="uid-n1", rank=1000, phase=Phase.CLAIMED, prior={"unschedulable": False}, lease=where)
    named = node("n1", unschedulable=True, annotations=mark(story))
    assert watched(named, wanted=Wanted(accept_presumed=True), evidence={HOLDER: ENDED}) == (
        ("other", "by-journal"),
    )


def test_lease_without_a_journal_that_names_one_is_the_profiles() -> None:
    """Where nothing is recorded, the default lease is what a deploy would take."""
    story = journal(uid="uid-n1", phase=Phase.CLAIMED, prior={"unschedulable": False}, lease=None)
    bare = node("n1", unschedulable=True, annotations=mark(story))
    assert watched(bare, wanted=Wanted(accept_presumed=True), evidence={HOLDER: ENDED}) == (OURS,)


def test_refused_fence_is_told_before_the_window() -> None:
    """Nobody has to wait for a refusal that is known."""
    report, seen = look(lease(), marked_node(phase=Phase.MUTATING), evidence={HOLDER: ENDED})
    with pytest.raises(FencectlError, match="cannot be released") as raised:
        leases_to_watch(report, FENCECTL, Wanted(), seen)
    assert int(raised.value.exit_code) == 19


def test_holder_that_only_its_heartbeat_keeps_alive_is_watched() -> None:
    """Its fences have no release yet; the window decides."""
    assert watched(lease(renewed_at=before(3)), marked_node(), evidence={HOLDER: ENDED}) == (OURS,)


@pytest.mark.parametrize(
    ("evidence", "code", "said"),
    [
        ({}, 12, "is held by run 18093399201"),
        ({OTHER: ALIVE}, 12, "is held by run 18093399201"),
        ({OTHER: ENDED}, 19, "--all releases both"),
    ],
)
def test_lease_of_a_stranger_is_not_taken(evidence: Evidence, code: int, said: str) -> None:
    """Without it a deploy could start over a half-released chain."""
    seen = (lease(holder=OTHER), marked_node())
    found = refused(*seen, wanted=Wanted(HOLDER, accept_presumed=True), evidence={HOLDER: ENDED} | evidence)
    assert found[0] == code
    assert said in found[1]


def test_lease_with_a_blank_holder_is_not_taken() -> None:
    """Case 28: blank is malformed and held."""
    code, said = refused(
        lease(holder="  "), marked_node(), wanted=Wanted(HOLDER, accept_presumed=True), evidence={HOLDER: ENDED}
    )
    assert code == 12, said


@pytest.mark.parametrize(
    ("recoverer", "code"),
    [
        (HolderEvidence(), 12),
        (HolderEvidence(process=Fact(State.UNKNOWN, "?", "another machine", NOW)), 12),
        (GONE, None),
        (HolderEvidence(pod=Fact(State.VANISHED, "?", "gone", NOW)), None),
    ],
)
def test_lease_of_a_recoverer_is_taken_only_if_that_one_is_dead_too(
    recoverer: HolderEvidence, code: int | None
) -> None:
    """To accept that the run is presumed dead says nothing about whoever is recovering it."""
    evidence = {HOLDER: ENDED, RECOVERER: recoverer}
    seen = (taken_by(), marked_node())
    if code is None:
        (plan,) = plans(*seen, wanted=Wanted(accept_presumed=True), evidence=evidence)
        assert plan.lease.dead_holder == RECOVERER
        return
    found, said = refused(*seen, wanted=Wanted(accept_presumed=True), evidence=evidence)
    assert found == code
    assert "pid 815" in said


def test_recoverer_that_is_only_presumed_dead_needs_the_same_choice() -> None:
    """Nothing of it is taken without a person."""
    vanished = HolderEvidence(pod=Fact(State.VANISHED, "?", "gone", NOW))
    assert refused(taken_by(), marked_node(), evidence={HOLDER: ENDED, RECOVERER: vanished})[0] == 19


def test_parent_of_a_kept_child_is_refused_and_says_what_a_person_can_do() -> None:
    """Nothing is changed: the person resumes the child too, or keeps the parent."""
    child = marked_kustomization(phase=Phase.KEPT, applied_by="flux-system", rank=2)
    code, said = refused(lease(), child, marked_kustomization("flux-system", rank=1), evidence={HOLDER: ENDED})
    assert code == 19
    assert "waits for kustomization/flux-system/infrastructure" in said
    assert "--resume-kept kustomization/flux-system/infrastructure" in said


def test_kept_parent_is_not_resumed_without_its_kept_child() -> None:
    """Its applier would drop the child from its inventory."""
    child = marked_kustomization(phase=Phase.KEPT, applied_by="flux-system", rank=2)
    parent = marked_kustomization("flux-system", phase=Phase.KEPT, rank=1)
    seen = (lease(), child, parent)
    parent_only = Vouched(resumed=frozenset({"kustomization/flux-system/flux-system"}))
    code, said = refused(*seen, vouched=parent_only, evidence={HOLDER: ENDED})
    assert (code, "waits for" in said) == (19, True)
    child_only = Vouched(resumed=frozenset({"kustomization/flux-system/infrastructure"}))
    (plan,) = plans(*seen, vouched=child_only, evidence={HOLDER: ENDED})
    assert [entry.object.name for entry in plan.going] == ["infrastructure"]
    assert [entry.object.name for entry in plan.kept] == ["flux-system"]
    both = Vouched(resumed=parent_only.resumed | child_only.resumed)
    (plan,) = plans(*seen, vouched=both, evidence={HOLDER: ENDED})
    assert [entry.object.name for entry in plan.going] == ["infrastructure", "flux-system"]


def test_forged_rank_never_lets_a_parent_go_before_its_child() -> None:
    """A child whose journal claims a rank below its parent's stops both."""
    child = marked_kustomization(applied_by="flux-system", rank=1)
    code, said = refused(lease(), child, marked_kustomization("flux-system", rank=5), evidence={HOLDER: ENDED})
    assert code == 19
    assert "waits for kustomization/flux-system/infrastructure" in said


def test_lease_that_was_deleted_starts_again_above_the_last_token() -> None:
    """The token must grow, or a write under the old lease would look newer than one under the new."""
    (plan,) = plans(marked_node(), wanted=Wanted(accept_presumed=True), evidence={HOLDER: ENDED})
    assert (plan.lease.seen, plan.lease.last_token) == (None, 119)
    huge = journal(
        uid="uid-n1",
        phase=Phase.CLAIMED,
        prior={"unschedulable": False},
        lease=LeaseRef("flux-system", "fencectl-deploy", "u", 30, 10**18),
    )
    odd = node("n1", unschedulable=True, annotations=mark(huge))
    (plan,) = plans(odd, wanted=Wanted(accept_presumed=True), evidence={HOLDER: ENDED})
    assert plan.lease.last_token == 0


def test_free_lease_is_acquired_and_not_taken_over() -> None:
    """Case 28, and with a journal of ours left in it."""
    story = journal(uid="uid-fencectl-deploy", phase=Phase.HELD)
    free = lease(holder="", annotations={"fencectl.dev/journal": story.text})
    (plan,) = plans(free, marked_node(), wanted=Wanted(accept_presumed=True), evidence={HOLDER: ENDED})
    assert (plan.lease.dead_holder, plan.lease.entry) == (None, None)
    assert plan.lease.seen is not None


@pytest.mark.parametrize("other", ["a-second", "z-second"])
def test_lease_is_never_one_of_the_fences_released_before_it(other: str) -> None:
    """Of two leases that which its fences name is taken over; the other one is its last fence but one."""
    (plan,) = plans(lease(), lease(other), marked_node(), evidence={HOLDER: ENDED})
    assert [entry.object.name for entry in plan.going] == ["worker-2", other]
    assert plan.lease.name == "fencectl-deploy"


def test_fences_of_nested_runs_go_by_every_name_in_the_chain() -> None:
    """A fence of the innermost run is still one of this chain when it is read alone."""
    inner = replace(journal(holder=SIBLING, rank=3000, within=HOLDER), uid="uid-n1", phase=Phase.CLAIMED)
    story = replace(inner, prior={"unschedulable": False})
    (plan,) = plans(lease(), node("n1", unschedulable=True, annotations=mark(story)), evidence={HOLDER: ENDED})
    assert plan.keys == {HOLDER, SIBLING}


BRIDGE_HOLDER = "deadbeefdeadbeef-gh18093344127.2-3904-20451"
BRIDGE_OTHER = "deadbeefdeadbeef-gh18093399201.1-3904-20451"


def bridge_node(name: str = "n1", holder: str = BRIDGE_HOLDER) -> Seen:
    key = "platform.devantler.tech/ghcr-auth-drain-"
    return node(name, unschedulable=True, annotations={f"{key}owner": holder, f"{key}phase": "claimed"})


@pytest.mark.parametrize(
    ("evidence", "wanted", "code"),
    [
        ({}, Wanted("18093344127.2", accept_presumed=True), 12),
        ({BRIDGE_OTHER: ENDED}, Wanted("18093344127.2", accept_presumed=True), 19),
        ({BRIDGE_OTHER: ENDED}, Wanted(every=True, accept_presumed=True), None),
    ],
)
def test_foreign_lease_held_by_another_run_keeps_the_dead_one_back(
    evidence: Evidence, wanted: Wanted, code: int | None
) -> None:
    """That run believes itself alone; its heartbeat would show only after the first release."""
    seen = observation(bridge_node(), lease("ghcr-auth-refresh", holder=BRIDGE_OTHER))
    report = assemble(read_runs(seen, GHCR_BRIDGE), evidence={BRIDGE_HOLDER: ENDED} | evidence)
    if code is None:
        first, second = plan_recovery(report, seen, GHCR_BRIDGE, wanted)
        assert (first.lease.entry is not None, second.lease.entry) == (True, None)
        return
    with pytest.raises(FencectlError) as raised:
        plan_recovery(report, seen, GHCR_BRIDGE, wanted)
    assert int(raised.value.exit_code) == code
