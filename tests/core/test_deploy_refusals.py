"""
Why a deploy may not begin: the codes of whoever holds, the one of a restore that runs, and claims.

Aspects: live · restoring · dead while restoring · unproven · taken over · claims passed over or not · siblings.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from fencectl.core.assemble import assemble, read_runs
from fencectl.core.deploy import HeldError, only_live, refuse_others, why_not, without_claims
from fencectl.core.errors import ExitCode, PersonNeededError
from fencectl.core.facts import HolderEvidence, JobFact, State
from fencectl.core.journal import Phase
from fencectl.core.observation import Observation
from fencectl.core.profiles import FENCECTL
from fencectl.core.recovery import Wanted, plan_recovery
from fencectl.core.refs import Seen
from fencectl.core.report import FenceReport
from tests.support.objects import (
    HOLDER,
    NOW,
    OTHER,
    before,
    lease,
    marked_kustomization,
    observation,
    record_map,
)

ENDED = HolderEvidence(
    job=JobFact(State.ENDED, "has the job ended?", "completed", NOW, hosted=True, recorded=True)
)


def record(phase: str = "restoring", holder: str = HOLDER, **more: Any) -> str:
    return json.dumps({"v": 1, "generation": 42, "holder": holder, "phase": phase} | more)


def claim(moved: str = "unconfirmed") -> str:
    return json.dumps({"v": 1, "generation": 41, "class": moved, "reason": "503"})


def look(*seen: Seen, evidence: HolderEvidence | None = None, **more: Any) -> tuple[FenceReport, Observation]:
    found = observation(*seen, **more)
    runs = read_runs(found, FENCECTL)
    if evidence is None:
        return assemble(runs), found
    watched = {("flux-system", "fencectl-deploy"): 60.0}
    return assemble(runs, evidence={HOLDER: evidence}, unchanged_for_s=watched), found


def code(*seen: Seen, over_claim: bool = False, **more: Any) -> ExitCode | None:
    report, found = look(*seen, **more)
    return why_not(without_claims(report) if over_claim else report, found, FENCECTL)


@pytest.mark.parametrize(
    ("phase", "more", "found"),
    [
        ("restoring", {}, ExitCode.ROLLBACK_IN_PROGRESS),
        ("deploying", {}, ExitCode.HELD_LIVE),
        ("restoring", {"outcome": "failed"}, ExitCode.HELD_LIVE),
        ("restoring", {"holder": OTHER}, ExitCode.HELD_LIVE),
    ],
)
def test_lease_whose_record_is_restoring_is_17_and_any_other_12(
    phase: str, more: dict[str, Any], found: ExitCode
) -> None:
    """While its holder lives: one restore of a target at a time."""
    records = (record_map(record_42=record(phase, **more), record_41=record(outcome="deployed")),)
    assert code(lease(renewed_at=before(1)), records=records) is found


def test_record_of_another_lease_makes_no_restore_of_this_one() -> None:
    """Nor does an older record of the same holder, when a newer one tells of another phase."""
    elsewhere = record_map("other", record_42=record(holder=OTHER))
    assert code(lease(renewed_at=before(1)), records=(elsewhere,)) is ExitCode.HELD_LIVE
    older = record_map(record_41=record(), record_42=record("deploying"))
    assert code(lease(renewed_at=before(1)), records=(older,)) is ExitCode.HELD_LIVE


def test_restore_whose_holder_is_dead_is_16_and_so_never_refused_for_ever() -> None:
    """Waiting would not help: `recover` does."""
    records = (record_map(record_42=record()),)
    assert code(lease(), evidence=ENDED, records=records) is ExitCode.HELD_DEAD


def test_restore_whose_holder_nobody_has_proven_dead_needs_a_person() -> None:
    """It may run or not; 17 would promise that it ends."""
    assert code(lease(), records=(record_map(record_42=record()),)) is ExitCode.HELD_PERSON_NEEDED


def test_restore_that_died_and_left_its_lease_blocks_nothing() -> None:
    """A record is a finding; what it leaves is decided by the next run, under the lease."""
    assert code(lease(holder=""), records=(record_map(record_42=record()),)) is None


def test_fences_of_a_restore_that_lost_its_lease_are_no_restore_in_progress() -> None:
    """Somebody else holds the lease by now."""
    records = (record_map(record_42=record()),)
    seen = (lease(holder=OTHER, renewed_at=before(1)), marked_kustomization(phase=Phase.SUSPENDED))
    assert code(*seen, records=records) is not ExitCode.ROLLBACK_IN_PROGRESS


@pytest.mark.parametrize("text", [claim(), claim("post-mutation"), claim("sideways"), "{"])
def test_claim_withholds_a_deploy_unless_it_runs_over_it(text: str) -> None:
    """A person is needed; under the lease as before it."""
    records = (record_map(claim_41=text),)
    assert code(records=records) is ExitCode.HELD_PERSON_NEEDED
    assert code(records=records, over_claim=True) is None
    report, found = look(lease(renewed_at=before(1)), records=records)
    with pytest.raises(HeldError) as held:
        refuse_others(report, found, FENCECTL, own=HOLDER)
    assert held.value.exit_code is ExitCode.HELD_PERSON_NEEDED
    refuse_others(without_claims(report), found, FENCECTL, own=HOLDER)
    assert (only_live(report), only_live(without_claims(report))) == (False, True)


def test_claim_that_moved_nothing_withholds_nothing() -> None:
    """A refused restore leaves its target deployable."""
    assert code(records=(record_map(claim_41=claim("pre-mutation")),)) is None


def test_no_other_hold_is_passed_over_with_the_claims() -> None:
    """`--over-claim` says nothing of a freeze, nor of a fence."""
    records = (record_map(claim_41=claim(), hold_freeze='{"v":1,"reason":"year end"}'),)
    assert code(records=records, over_claim=True) is ExitCode.HELD_PERSON_NEEDED
    alone = (record_map(claim_41=claim()),)
    assert code(lease(renewed_at=before(1)), records=alone, over_claim=True) is ExitCode.HELD_LIVE
    # NB: no `recover` that runs unattended would be let under the claim, so 16 would promise too much.
    assert code(lease(), evidence=ENDED, records=alone, over_claim=True) is ExitCode.HELD_PERSON_NEEDED


@pytest.mark.parametrize(
    ("moved", "held"), [("unconfirmed", True), ("post-mutation", True), ("pre-mutation", False)]
)
def test_claim_withholds_unattended_recovery_unless_it_moved_nothing(moved: str, held: bool) -> None:
    """A person who is asked may go on under it."""
    report, found = look(lease(), evidence=ENDED, records=(record_map(claim_41=claim(moved)),))
    assert plan_recovery(report, found, FENCECTL, Wanted(attended=True))
    if not held:
        assert plan_recovery(report, found, FENCECTL, Wanted())
        return
    with pytest.raises(PersonNeededError) as refused:
        plan_recovery(report, found, FENCECTL, Wanted())
    assert "a claim 41 is in place" in refused.value.sentence
    assert "`fencectl hold lift claim-41 --context prod`" in str(refused.value.hint)


def test_worst_of_a_restore_and_a_claim_is_the_restore() -> None:
    """17 before 19: the order of the codes."""
    records = (record_map(record_42=record(), claim_41=claim()),)
    assert code(lease(renewed_at=before(1)), records=records) is ExitCode.ROLLBACK_IN_PROGRESS
