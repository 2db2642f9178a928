"""
Runs and their fences: nested runs, several leases, whose journal may speak for whom.

Aspects: a nested run goes with the outermost one · only nested fences left · a lease of its own · claims on another
run · a journal that is not the holder's own · a run that holds two leases, or one beside a recovery.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fencectl.core.assemble import Runs, assemble, read_runs
from fencectl.core.evidence import Verdict
from fencectl.core.facts import Fact, HolderEvidence, JobFact, State
from fencectl.core.journal import Journal, Phase
from fencectl.core.profiles import FENCECTL
from fencectl.core.refs import Seen
from fencectl.core.report import FenceReport, HolderBlock
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

INNER = "4f2a91c07be3d855-gh18093344127.2-j51234567890-1111aaaa"
INNERMOST = "4f2a91c07be3d855-gh18093344127.2-j51234567890-2222bbbb"
RECOVERER = "0000000000000000-local-ops-laptop-815-0badcafe"
LOCAL = "0000000000000000-local-desk-77-00ff00ff"
ENDED = HolderEvidence(
    job=JobFact(State.ENDED, "has the job ended?", "completed", NOW, recorded=True, hosted=True)
)
GONE = HolderEvidence(process=Fact(State.ENDED, "has the process ended?", "gone", NOW))


def runs_of(*seen: Seen) -> Runs:
    return read_runs(observation(*seen), FENCECTL)


def blocks(*seen: Seen, **evidence: HolderEvidence) -> tuple[HolderBlock, ...]:
    return report(*seen, **evidence).blocks


def report(*seen: Seen, **evidence: HolderEvidence) -> FenceReport:
    return assemble(runs_of(*seen), evidence=evidence)


def node_of(story: Journal, name: str = "worker-2") -> Seen:
    whole = replace(story, uid=f"uid-{name}", prior={"unschedulable": False, "taints": []}, phase=Phase.CLAIMED)
    return node(name, unschedulable=True, annotations=mark(whole))


def lease_of(story: Journal, name: str = "fencectl-deploy", **more: Any) -> Seen:
    annotations = {"fencectl.dev/journal": story.text}
    return lease(name, holder=story.holder, annotations=annotations, **more)


def test_run_of_which_only_nested_fences_are_left_is_judged_as_the_outer_run() -> None:
    """The outer run decides whether they may go; the nested one's own end proves nothing about it."""
    left = node_of(journal(holder=INNER, rank=3000, within=HOLDER))
    (subject,) = runs_of(left).subjects
    assert subject.holder.identity == HOLDER
    (block,) = blocks(left, **{INNER: GONE})
    assert (block.holder.identity, block.key) == (HOLDER, HOLDER)
    assert block.judgement.verdict is Verdict.UNKNOWN


def test_outer_run_that_holds_only_its_lease_has_the_nested_fences_in_its_chain() -> None:
    """Nested ones first, the lease last."""
    (block,) = blocks(lease(), node_of(journal(holder=INNER, rank=3000, within=HOLDER)))
    assert [entry.object.kind for entry in block.entries] == ["Node", "Lease"]
    assert block.holder.identity == HOLDER


def test_run_nested_in_a_nested_run_goes_with_the_outermost_one() -> None:
    """However deep: the outermost run's lease is what keeps others out while they are released."""
    (block,) = blocks(
        lease(),
        node_of(journal(holder=INNERMOST, rank=5000, within=INNER), "n1"),
        node_of(journal(holder=INNER, rank=3000, within=HOLDER), "n2"),
        marked_node("n3"),
    )
    assert [entry.object.display for entry in block.entries[:3]] == ["node/n1", "node/n2", "node/n3"]
    assert block.holder.identity == HOLDER


def test_runs_that_claim_to_be_nested_in_each_other_are_still_reported_once() -> None:
    """A forged circle hides nothing and never ends in one."""
    found = report(
        node_of(journal(holder=INNER, rank=3000, within=OTHER), "n1"),
        node_of(journal(holder=OTHER, rank=3000, within=INNER), "n2"),
    )
    assert sorted(entry.object.name for block in found.blocks for entry in block.entries) == ["n1", "n2"]


def test_lease_of_a_nested_run_is_freed_before_that_of_the_outer_one() -> None:
    """Whatever both journals claim, the outer run's lease is the last of all."""
    inner = journal(holder=INNER, rank=2000, within=HOLDER, phase=Phase.HELD)
    outer = journal(holder=HOLDER, rank=10**18, seq=10**18, phase=Phase.HELD)
    (block,) = blocks(lease_of(outer), lease_of(inner, "inner"), marked_node())
    assert [entry.object.name for entry in block.entries] == ["worker-2", "inner", "fencectl-deploy"]
    assert block.holder.identity == HOLDER


@pytest.mark.parametrize("rank", [-(10**18), -1, 0, 10**18])
def test_lease_is_last_of_all_whatever_rank_a_journal_claims(rank: int) -> None:
    """Released early it lets a deploy start against a half-recovered cluster."""
    story = journal(rank=rank, phase=Phase.HELD)
    (block,) = blocks(lease_of(story), marked_kustomization(rank=-rank), node_of(journal(rank=rank)))
    assert block.entries[-1].object.kind == "Lease"


def test_refused_fence_of_the_lowest_rank_keeps_the_lease_back() -> None:
    """A suspension that claims the lease's own rank must not go beside it."""
    broken = marked_kustomization(rank=0, phase=Phase.MUTATING)
    (block,) = blocks(lease(), broken, **{HOLDER: ENDED})
    assert [entry.release is None for entry in block.entries] == [True, True]


def test_node_that_claims_to_recover_another_run_stays_with_its_holder() -> None:
    """Only a lease is taken over; the death of the run that is named proves nothing about the holder."""
    odd = node_of(journal(holder=OTHER, rank=1000, recovering=HOLDER))
    (block,) = blocks(odd, **{HOLDER: ENDED})
    assert (block.holder.identity, block.judgement.verdict) == (OTHER, Verdict.UNKNOWN)


def test_details_of_a_nested_run_do_not_speak_for_the_outer_one() -> None:
    """A process that they name is the nested run's; its end is no end of the outer run."""
    inner = journal(holder=INNER, within=HOLDER, phase=Phase.HELD, details={"pid": 4712, "machine_id": "m"})
    outer = journal(phase=Phase.HELD, details={"pid": 4711, "machine_id": "m"})
    (subject,) = runs_of(lease_of(inner, "inner"), lease_of(outer)).subjects
    assert subject.journal
    assert subject.journal.details == {"pid": 4711, "machine_id": "m"}
    (subject,) = runs_of(lease_of(inner, "inner")).subjects
    assert subject.holder.identity == HOLDER
    assert subject.journal is None or subject.journal.details is None


def test_journal_that_goes_along_speaks_only_for_its_own_holder() -> None:
    """A stale journal of somebody else on a lease that was taken over tells of another process."""
    stale = journal(holder=OTHER, uid="uid-fencectl-deploy", details={"pid": 4711, "machine_id": "m"})
    story = journal(holder=RECOVERER, phase=Phase.RECOVERING, recovering=HOLDER, before=stale.to_object())
    found = [one for one in runs_of(lease_of(story), marked_node()).subjects if one.holder.identity == HOLDER]
    assert [one.journal.details if one.journal else None for one in found] == [None]


def test_heartbeat_of_any_lease_that_a_run_holds_counts() -> None:
    """Of two leases the one that is still renewed speaks."""
    (block,) = blocks(lease(), lease("second", renewed_at=before(3)), **{HOLDER: ENDED})
    assert block.judgement.fresh


def test_run_whose_lease_is_being_recovered_and_that_renews_another_lives() -> None:
    """The recovery of one lease does not silence the heartbeat of the other."""
    story = journal(holder=RECOVERER, phase=Phase.RECOVERING, recovering=HOLDER)
    taken = lease_of(story, "z-taken")
    (block,) = blocks(taken, lease("a-own", renewed_at=before(3)), marked_node(), **{RECOVERER: GONE})
    assert (block.holder.identity, block.judgement.verdict) == (HOLDER, Verdict.LIVE)


def test_third_recovery_in_a_row_still_finds_the_first_run_proven_dead() -> None:
    """H was recovered by R1, which died, then by R2, which died too: what proves H dead went along twice."""
    own = journal(holder=LOCAL, phase=Phase.HELD, details={"pid": 77})
    story = journal(holder=RECOVERER, phase=Phase.RECOVERING, recovering=LOCAL, before=own.to_object())
    seen = (lease_of(story), marked_node(holder=LOCAL))
    (subject,) = [one for one in runs_of(*seen).subjects if one.holder.identity == LOCAL]
    assert subject.journal
    assert subject.journal.details == {"pid": 77}
    (block,) = blocks(*seen, **{LOCAL: GONE, RECOVERER: GONE})
    assert block.judgement.words == "dead (proven)"


def test_lease_handed_back_leaves_the_run_proven_dead() -> None:
    """Its old heartbeat is back, and stands still."""
    (block,) = blocks(lease(renewed_at=before(3600)), marked_node(), **{HOLDER: ENDED})
    assert block.judgement.words == "dead (proven)"
