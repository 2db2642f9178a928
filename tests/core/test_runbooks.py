"""Aspects: which runbook fits each fence · what its placeholders stand for · one of several · nothing that matches."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fencectl.core.evidence import Judgement, Strength, Verdict
from fencectl.core.refs import ObjectRef
from fencectl.core.report import FenceEntry, FenceKind, FenceReport, HolderBlock, NoRelease, Refusal
from fencectl.core.runbooks import RUNBOOKS, Match, Runbook, Situation, matching, situation_of, values_of
from tests.report import story

LEASE = ("flux-system", "fencectl-deploy")
PRESUMED = Judgement(Verdict.DEAD, Strength.PRESUMED, "its pod is gone")
UNKNOWN = Judgement(Verdict.UNKNOWN, None, "nobody was asked")
EXAMPLES = [
    (NoRelease.LIVE, Situation.LIVE),
    (NoRelease.FRESH, Situation.LIVE),
    (NoRelease.INCOMPLETE, Situation.INCOMPLETE),
    (NoRelease.REFUSED, Situation.UNUSABLE),
    (NoRelease.WAITS, Situation.PROVEN),
    (NoRelease.NOT_OURS, Situation.NOT_OURS),
    (NoRelease.NOT_A_PATCH, Situation.PROVEN),
]


def book(name: str) -> Runbook:
    return next(one for one in RUNBOOKS if one.name == name)


def without_release(kind: NoRelease, **more: object) -> FenceEntry:
    entry = story.dead_entries()[0]
    return replace(entry, release=None, refusal=Refusal(kind, "it is so", "none"), **more)


@pytest.mark.parametrize(("kind", "situation"), EXAMPLES)
def test_every_reason_without_a_release_leads_to_a_runbook(kind: NoRelease, situation: Situation) -> None:
    """A fence that waits is as its holder is: what it waits for has a row, and a runbook, of its own."""
    block = story.block(story.dead_entries())
    assert situation_of(without_release(kind), block) is situation


def test_node_that_is_half_changed_is_told_from_a_mark_that_cannot_be_used() -> None:
    """Both are REFUSED; what one does about them is not the same."""
    assert situation_of(without_release(NoRelease.REFUSED, phase="mutating"), None) is Situation.MUTATING
    assert situation_of(without_release(NoRelease.REFUSED, phase="claimed"), None) is Situation.UNUSABLE


@pytest.mark.parametrize(
    ("judgement", "situation"),
    [(PRESUMED, Situation.PRESUMED), (UNKNOWN, Situation.UNKNOWN), (story.PROVEN, Situation.PROVEN)],
)
def test_fence_that_can_go_is_as_its_holder_is(judgement: Judgement, situation: Situation) -> None:
    """The command is there; whether one may run it depends on the proof."""
    entries = story.dead_entries()
    assert situation_of(entries[0], story.block(entries, judgement)) is situation


def test_kept_fence_is_kept_whoever_held_it() -> None:
    """Its holder is dead, and still nobody may release it without thinking."""
    report = story.kept()
    kept = [match.entry.object.display for match in matching(book("kept-suspension"), report)]
    assert kept
    assert kept == [entry.object.display for entry in report.held if entry.kept]


def test_holds_claims_and_records_are_told_apart() -> None:
    """A claim is retired by a success, a hold is lifted by a person, a record holds nothing."""
    entry = replace(story.dead_entries()[0], kind=FenceKind.HOLD)
    assert situation_of(replace(entry, now="hold freeze"), None) is Situation.HOLD
    assert situation_of(replace(entry, now="claim 42"), None) is Situation.CLAIM
    assert situation_of(replace(entry, kind=FenceKind.RECORD), None) is None


def test_dead_chain_matches_both_what_it_ended_with_and_what_it_causes() -> None:
    """Who comes from an 11 and who comes from a 16 look at the same five fences."""
    report = story.dead()
    found = {one.name: len(matching(one, report)) for one in RUNBOOKS}
    assert {name: number for name, number in found.items() if number} == {
        "still-fenced": 5,
        "dead-holder": 5,
        "not-ours": 2,
    }


def test_values_are_those_of_the_first_fence_that_matches() -> None:
    """Names of one object belong together; where one of several was chosen, all are named."""
    matches = matching(book("dead-holder"), story.dead())
    values = values_of(matches, lease=LEASE, generation=42)
    assert values.known == {
        "holder": story.DEAD,
        "fence": "node/worker-3",
        "fences": "node/worker-3",
        "resource": "node",
        "name": "worker-3",
        "node": "worker-3",
        "lease": "flux-system/fencectl-deploy",
        "lease-namespace": "flux-system",
        "lease-name": "fencectl-deploy",
        "generation": "42",
    }
    assert values.without == {"namespace"}
    assert values.several["node"] == ("worker-3", "worker-2")
    assert "holder" not in values.several
    assert values.several["fences"] == tuple(entry.object.display for entry in story.dead_entries())


def test_namespaced_object_comes_with_its_namespace() -> None:
    """And a node among those that match does not take it away."""
    matches = tuple(reversed(matching(book("dead-holder"), story.dead())))
    values = values_of(matches, lease=LEASE, generation=None)
    assert (values.known["name"], values.known["namespace"]) == ("fencectl-deploy", "flux-system")
    assert values.known["resource"] == "leases.coordination.k8s.io"
    assert values.without == frozenset()
    assert values.missing["generation"] == "no deploy is recorded"


def test_lease_of_the_holder_goes_before_the_configured_one() -> None:
    """A deploy under `--lease` is recovered under that lease."""
    entries = story.dead_entries()
    block: HolderBlock = replace(story.block(entries), lease=("team-a", "own"))
    report: FenceReport = story.report(block)
    values = values_of(matching(book("dead-holder"), report), lease=LEASE, generation=None)
    assert values.known["lease"] == "team-a/own"


def test_nothing_that_matches_leaves_placeholders_with_a_reason() -> None:
    """The lease is configured and known; a holder that is not there is not made up."""
    values = values_of((), lease=LEASE, generation=3)
    assert values.known == {
        "lease": "flux-system/fencectl-deploy",
        "lease-namespace": "flux-system",
        "lease-name": "fencectl-deploy",
        "generation": "3",
    }
    assert values.missing["holder"] == values.missing["node"] == "no fence matches this runbook now"


def test_hold_is_called_as_it_is_lifted() -> None:
    """`freeze`, and a claim by its number."""
    ref = ObjectRef("v1", "ConfigMap", "configmaps", "flux-system", "fencectl-deploy-record", "u")
    entry = replace(story.dead_entries()[0], kind=FenceKind.HOLD, object=ref)
    for title, name in (("hold freeze", "freeze"), ("claim 42", "claim-42")):
        match = Match(replace(entry, now=title), Situation.HOLD)
        assert values_of((match,), lease=LEASE, generation=None).known["hold"] == name
