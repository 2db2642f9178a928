"""
The report of the default profile: which fences there are, in which order they go, and which must not.

Aspects: the order and its reverse · a refused fence keeps back later ranks · ancestors wait for children · kept ·
live, fresh and unknown holders · incomplete · malformed and empty marks · foreign · nested runs · holds, records.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from fencectl.core.assemble import assemble, read_runs
from fencectl.core.evidence import Verdict
from fencectl.core.facts import Fact, HolderEvidence, JobFact, State
from fencectl.core.journal import Phase
from fencectl.core.observation import Unreadable
from fencectl.core.profiles import FENCECTL
from fencectl.core.refs import Seen
from fencectl.core.report import FenceEntry, FenceKind, FenceReport, NoRelease
from fencectl.core.times import second_time
from tests.support.objects import (
    HOLDER,
    NOW,
    OTHER,
    before,
    journal,
    kustomization,
    lease,
    mark,
    marked_kustomization,
    marked_node,
    node,
    observation,
    record_map,
)


def report(*seen: Seen, **more: Any) -> FenceReport:
    return assemble(read_runs(observation(*seen, **more), FENCECTL))


def only(found: FenceReport) -> FenceEntry:
    assert len(found.held) == 1
    return found.held[0]


def refusal(entry: FenceEntry) -> tuple[str, str]:
    assert entry.refusal is not None
    return entry.refusal.kind.value, entry.refusal.why


def chain(**changes: Any) -> list[Seen]:
    """Two nodes (one cordoned before), a child, its parent, and the lease: what one killed run leaves."""
    return [
        lease(),
        marked_kustomization("flux-system", seq=2, rank=1, **changes.get("parent", {})),
        marked_kustomization(
            "infrastructure", seq=3, rank=2, applied_by="flux-system", **changes.get("child", {})
        ),
        marked_node("worker-2", seq=4, **changes.get("worker-2", {})),
        marked_node("worker-3", seq=5, was=True, **changes.get("worker-3", {})),
    ]


def test_dead_run_is_listed_in_release_order_lease_last() -> None:
    """Nodes, child, parent, lease: the exact reverse of how they were taken."""
    found = report(*chain())
    assert [(e.order, e.object.display, e.now, e.after) for e in found.held] == [
        (1, "node/worker-3", "cordoned", "stays cordoned"),
        (2, "node/worker-2", "cordoned", "schedulable"),
        (3, "kustomization/flux-system/infrastructure", "suspended", "reconciles"),
        (4, "kustomization/flux-system/flux-system", "suspended", "reconciles"),
        (5, "lease/flux-system/fencectl-deploy", "taken", "free"),
    ]
    assert [e.release.role for e in found.held if e.release] == [None, None, "child", "parent", None]
    (block,) = found.blocks
    assert block.judgement.verdict is Verdict.UNKNOWN
    assert block.repository == "acme/platform"
    assert all(e.release and not e.refusal for e in found.held)


def test_order_does_not_depend_on_the_order_of_reading() -> None:
    """The order is a rule, not an accident."""
    assert report(*chain()).held == report(*reversed(chain())).held


def test_refused_node_keeps_back_what_comes_after_it() -> None:
    """A `mutating` node goes last of its rank; its sibling does not wait, everything of a lower rank does."""
    found = report(*chain(**{"worker-3": {"phase": Phase.MUTATING}}))
    assert [(e.object.name, e.release is not None, e.refusal and e.refusal.short) for e in found.held] == [
        ("worker-2", True, None),
        ("worker-3", False, "REFUSED"),
        ("infrastructure", False, "waits for 2"),
        ("flux-system", False, "waits for 2"),
        ("fencectl-deploy", False, "waits for 2"),
    ]
    assert "its node command may be half done" in refusal(found.held[1])[1]
    assert "waits for node/worker-3" in refusal(found.held[4])[1]


@pytest.mark.parametrize("phase", [Phase.CLAIMED, Phase.VERIFIED])
def test_node_in_a_releasable_phase_has_a_release(phase: Phase) -> None:
    """Nothing on the node changed yet, or its checks passed."""
    assert only(report(marked_node(phase=phase))).release


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (marked_node(phase=Phase.SUSPENDED), "which no node can have"),
        (marked_kustomization(phase=Phase.MUTATING), "which no suspension can have"),
        (marked_node(prior={}), "does not say whether the node was schedulable"),
        (
            node(annotations=mark(journal(uid="another", rank=1000, phase=Phase.CLAIMED))),
            "written for another object",
        ),
        (
            node(annotations=mark(journal(uid="uid-worker-2")) | {"fencectl.dev/holder": OTHER}),
            "different holders",
        ),
        (node(annotations={"fencectl.dev/holder": HOLDER}), "its journal is missing"),
        (node(annotations={"fencectl.dev/holder": HOLDER, "fencectl.dev/journal": ""}), "the journal is empty"),
        (node(annotations={"fencectl.dev/holder": HOLDER, "fencectl.dev/journal": "{nope"}), "not valid JSON"),
        (node(annotations={"fencectl.dev/journal": journal(uid="uid-worker-2").text}), "no holder"),
        (node(annotations={"fencectl.dev/holder": "", "fencectl.dev/journal": "x"}), "mark is empty"),
        (node(annotations={"fencectl.dev/holder": ""}), "mark is empty"),
        (node(annotations={"fencectl.dev/holder": " \t"}), "mark is blank"),
        (kustomization(annotations={"fencectl.dev/holder": HOLDER}), "its journal is missing"),
        (
            node(annotations=mark(journal(uid="uid-worker-2", extra={})) | {"fencectl.dev/journal": '{"v":2}'}),
            "newer fencectl",
        ),
    ],
)
def test_case_14_unusable_mark_is_a_fence_that_is_refused_with_its_reason(seen: Seen, why: str) -> None:
    """Owner only, journal only, empty, copied, broken: each is reported, none has a command."""
    entry = only(report(seen))
    kind, sentence = refusal(entry)
    assert kind == "refused"
    assert why in sentence


def test_case_14_marked_node_that_is_not_cordoned_is_still_a_fence() -> None:
    """Uncordoned by hand: the mark alone refuses the next deploy."""
    entry = only(report(marked_node(live=None)))
    assert (entry.now, entry.after) == ("schedulable", "mark gone")
    assert entry.release


def test_case_14_plain_cordon_is_not_ours() -> None:
    """Somebody else's cordon is shown with who and when, never with a command."""
    managed = [
        {
            "manager": "kubelet",
            "operation": "Update",
            "time": "2026-11-30T01:00:00Z",
            "fieldsV1": {"f:status": {}},
        },
        {
            "manager": "kubectl-cordon",
            "operation": "Update",
            "time": "2026-11-26T22:47:31Z",
            "fieldsV1": {"f:spec": {"f:unschedulable": {}}},
        },
    ]
    found = report(node("worker-7", unschedulable=True, managed=managed), node("worker-8"))
    assert found.held == ()
    (foreign,) = found.not_ours
    assert (foreign.manager, foreign.age_s, foreign.release) == ("kubectl-cordon", 3 * 86_400 + 4 * 3600, None)


def test_case_22_only_owned_suspensions_are_fences() -> None:
    """Forty foreign ones are counted, one of ours is released, one that was resumed loses its mark only."""
    foreign = [kustomization(f"k-{number:02}", suspend=True) for number in range(40)]
    ours, resumed = marked_kustomization("ours"), marked_kustomization("resumed", live=False, seq=2)
    found = report(*foreign, ours, resumed)
    assert len(found.not_ours) == 40
    assert [(e.object.name, e.now, e.after) for e in found.held] == [
        ("ours", "suspended", "reconciles"),
        ("resumed", "reconciles", "mark gone"),
    ]


def test_case_26_foreign_suspension_names_who_suspended_it() -> None:
    """The annotation of Flux's own interface says more than the field manager."""
    seen = kustomization(suspend=True, annotations={"fluxcd.controlplane.io/suspendedBy": "ann@example.com"})
    assert report(seen).not_ours[0].manager == "ann@example.com"


def test_case_10_journal_and_live_state_stand_side_by_side() -> None:
    """Placed and half done look alike in the journal; the release tests the value that was seen."""
    cordoned, not_yet = marked_node("a", live=True), marked_node("b", live=None)
    found = report(cordoned, not_yet)
    assert [(e.object.name, e.phase, e.now) for e in found.held] == [
        ("a", "claimed", "cordoned"),
        ("b", "claimed", "schedulable"),
    ]
    guards = [
        [
            op["value"]
            for op in e.release.patch.operations
            if op["path"] == "/spec/unschedulable" and op["op"] == "test"
        ]
        for e in found.held
        if e.release
    ]
    assert guards == [[True], [None]]


def test_case_15_guards_hold_the_values_of_their_own_object() -> None:
    """No value shifts from one row to another."""
    seen = [marked_node(f"n{number}", seq=number) for number in range(5)] + [lease()]
    by_name = {item.ref.name: item for item in seen}
    for entry in report(*seen).held:
        assert entry.release
        operations = entry.release.patch.operations
        assert operations[0] == {"op": "test", "path": "/metadata/uid", "value": f"uid-{entry.object.name}"}
        for operation in operations:
            if "journal" in operation["path"] and operation["op"] == "test":
                annotations = by_name[entry.object.name].raw["metadata"]["annotations"]
                assert operation["value"] == annotations["fencectl.dev/journal"]


def test_case_18_deleted_node_blocks_nothing_and_one_being_deleted_is_said() -> None:
    """A node that is gone holds nothing; one that is going is released by uid like any other."""
    found = report(lease(), marked_node("n3", deleting=True))
    assert [(e.object.name, e.release is not None) for e in found.held] == [
        ("n3", True),
        ("fencectl-deploy", True),
    ]
    assert found.held[0].notes == ("the node is being deleted",)


def test_suspension_being_deleted_warns_that_its_workloads_stay() -> None:
    """Flux drops the finalizer of a suspended object without pruning."""
    assert "what it applied stays behind" in only(report(marked_kustomization(deleting=True))).notes[0]


def test_changed_taints_are_said_and_neither_guarded_nor_restored() -> None:
    """The controller's own cordon taint does not count as a change."""
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    assert only(report(marked_node(taints=[cordon]))).notes == ()
    changed = only(report(marked_node(taints=[cordon, {"key": "x", "effect": "NoExecute"}])))
    assert changed.notes == ("its taints have changed since it was fenced",)
    assert changed.release
    assert "taints" not in changed.release.patch.body.replace('\\"taints', "")


def test_live_holder_has_no_commands_at_all() -> None:
    """Also where one of its nodes is `mutating`, which is what live runs do."""
    found = report(lease(renewed_at=before(2)), marked_node(phase=Phase.MUTATING), marked_kustomization())
    (block,) = found.blocks
    assert block.judgement.verdict is Verdict.LIVE
    assert {refusal(entry)[0] for entry in block.entries} == {"live"}


def test_holders_come_worst_proof_last_and_orders_are_unique() -> None:
    """Unknown before live; numbers go on over all holders."""
    found = report(
        lease(holder=OTHER, renewed_at=before(2)), marked_kustomization("apps", holder=OTHER), *chain()[1:]
    )
    assert [block.holder.run for block in found.blocks] == [18093344127, 18093399201]
    assert [e.order for e in found.held] == [1, 2, 3, 4, 5, 6]
    (unknown, _live) = found.blocks
    assert (
        unknown.judgement.evidence[-1].answer
        == "none: lease/flux-system/fencectl-deploy is held by run 18093399201 attempt 1 job 51234890117"
    )


@pytest.mark.parametrize(
    ("leases", "answer"),
    [
        ([lease(holder="")], "none: lease/flux-system/fencectl-deploy is free"),
        ([lease(holder=None)], "none: lease/flux-system/fencectl-deploy is free"),
        ([], "none: lease/flux-system/fencectl-deploy was not found"),
    ],
)
def test_case_02_fence_without_a_heartbeat_says_where_the_lease_is(leases: list[Seen], answer: str) -> None:
    """A node stays fenced although the lease itself is free."""
    found = report(*leases, marked_node())
    assert found.blocks[0].judgement.evidence[-1].answer == answer
    assert found.held[0].release


def test_incomplete_report_has_no_commands_and_names_what_is_missing() -> None:
    """A held fence may be hidden in what was not read."""
    found = report(
        lease(),
        marked_kustomization(),
        unreadable=(Unreadable("nodes", "forbidden: user x may not `list` nodes"),),
    )
    assert not found.complete
    assert {e.refusal.short for e in found.held if e.refusal} == {"none: nodes"}
    assert not found.releasable


def test_long_name_of_what_is_missing_still_fits_the_column() -> None:
    """The sentence below the row says it whole."""
    what = "kustomizations.kustomize.toolkit.fluxcd.io"
    entry = only(report(lease(), unreadable=(Unreadable(what, "503 after 3 tries"),)))
    assert entry.refusal
    assert entry.refusal.short == "none: unread"
    assert what in entry.refusal.why


def test_parent_waits_for_a_child_of_another_run_that_is_excluded() -> None:
    """An ancestor that reconciles meanwhile would drop the child from its inventory."""
    child = marked_kustomization("apps", holder=OTHER, applied_by="flux-system")
    parent = marked_kustomization("flux-system", rank=1)
    found = report(lease(holder=OTHER, renewed_at=before(1)), child, parent)
    entry = next(e for e in found.held if e.object.name == "flux-system")
    assert refusal(entry)[0] == "waits"
    assert "never prune it again" in refusal(entry)[1]


def test_parent_of_a_kept_child_waits_unless_it_is_kept_too() -> None:
    """Keeping a child keeps its ancestors; the lease does not wait for either."""
    child = marked_kustomization(
        "apps",
        applied_by="flux-system",
        phase=Phase.KEPT,
        rank=2,
        status={"lastAttemptedRevision": "main@sha1:9be1c044"},
    )
    parent = marked_kustomization("flux-system", rank=1)
    found = report(lease(), child, parent)
    assert [(e.object.name, e.kept, e.release is not None) for e in found.held] == [
        ("apps", True, True),
        ("flux-system", False, False),
        ("fencectl-deploy", False, False),
    ]
    assert found.held[0].kept_because == "Flux would apply main@sha1:9be1c044 again"
    both = report(lease(), child, marked_kustomization("flux-system", rank=1, phase=Phase.KEPT))
    assert all(e.release for e in both.held)


def test_kept_fence_without_a_revision_gives_its_own_reason() -> None:
    """What the run wrote when it kept it."""
    entry = only(report(marked_kustomization(phase=Phase.KEPT, reason="rolled back")))
    assert entry.kept_because == "rolled back"


def test_self_applied_root_does_not_wait_for_itself() -> None:
    """A root Kustomization carries its own labels."""
    entry = only(report(marked_kustomization("flux-system", applied_by="flux-system")))
    assert entry.release
    assert entry.release.role is None


def test_nested_run_is_released_with_the_outer_one_and_before_it() -> None:
    """Its fences carry `within`, and ranks above all of the outer run's."""
    nested = marked_kustomization("nested", holder=OTHER, rank=2001, within=HOLDER)
    found = report(nested, *chain())
    (block,) = found.blocks
    assert block.holder.identity == HOLDER
    assert block.entries[0].object.name == "nested"


@pytest.mark.parametrize("holder", ["", None])
def test_case_28_released_lease_is_no_fence(holder: str | None) -> None:
    """Absent, null and empty are all free."""
    assert report(lease(holder=holder)).held == ()


@pytest.mark.parametrize("spec", [{}, {"holderIdentity": ""}])
def test_case_28_lease_without_fields_is_no_fence(spec: dict[str, Any]) -> None:
    """No traceback, no fence."""
    assert report(lease(spec=spec)).held == ()


def test_case_28_blank_holder_is_malformed_and_held() -> None:
    """Three spaces are not an empty text."""
    entry = only(report(lease(holder="   ")))
    assert entry.notes == ("its holder is blank: no run can be named",)
    assert entry.judgement
    assert entry.judgement.verdict is Verdict.UNKNOWN


def test_case_01_old_identity_is_unknown_with_a_command_and_its_age_as_evidence() -> None:
    """Revision, pid and a random number: nothing can be looked up."""
    found = report(lease(holder="deadbeef-3904-2045", renewed_at=before(48 * 60)))
    (block,) = found.blocks
    assert block.judgement.words == "unknown"
    assert block.judgement.because == "its identity names no run, and a still heartbeat is no proof"
    assert "48m00s ago" in block.judgement.evidence[-1].answer
    assert block.entries[0].release
    assert block.judgement.check is None


def test_lease_taken_over_by_another_tool_keeps_a_strange_journal_out_of_the_story() -> None:
    """The journal speaks of its own holder only."""
    story = journal(uid="uid-fencectl-deploy", phase=Phase.HELD)
    entry = only(report(lease(holder="ops-breakglass", annotations={"fencectl.dev/journal": story.text})))
    assert entry.notes == ("its journal is not that of its holder",)
    assert entry.release
    assert '"op":"remove","path":"/metadata/annotations/fencectl.dev~1journal"' in entry.release.patch.body
    broken = only(report(lease(annotations={"fencectl.dev/journal": "{"})))
    assert broken.notes == ("the journal cannot be read: not valid JSON",)


def test_lease_of_the_other_profile_is_shown_as_not_ours() -> None:
    """It fences nothing of ours, and explains why another tool refuses."""
    found = report(lease("ghcr-auth-refresh", holder="deadbeefdeadbeef-gh77.1-1-2"))
    assert found.held == ()
    assert found.not_ours[0].kind is FenceKind.LEASE
    assert found.not_ours[0].notes == ("it belongs to the profile ghcr-bridge",)


def hold(**changes: Any) -> str:
    return json.dumps(
        {"v": 1, "type": "incident", "reason": "INC-2291", "by": "ann", "at": second_time(before(60))} | changes
    )


def test_holds_are_fences_that_no_patch_lifts() -> None:
    """They count, and say why and by whom."""
    found = report(records=(record_map(hold_incident=hold(), claim_42=hold(until=second_time(before(30)))),))
    assert [(e.kind, e.now, e.order) for e in found.held] == [
        (FenceKind.HOLD, "claim 42", 1),
        (FenceKind.HOLD, "hold incident", 2),
    ]
    assert found.holds[1].notes == ("reason: INC-2291", "by ann")
    assert "overdue for 30s; it stays until it is lifted" in found.holds[0].notes
    assert {refusal(e)[0] for e in found.held} == {"not-a-patch"}
    assert found.counts.holds == 2


@pytest.mark.parametrize("text", ["", "{", "[]", '{"v":2}', '{"v":1,"v":1}'])
def test_unreadable_hold_is_still_a_fence(text: str) -> None:
    """What it says may matter; "not readable" must not look like "nothing there"."""
    entry = only(report(records=(record_map(hold_incident=text, unrelated="x"),)))
    assert entry.now == "hold incident"
    assert entry.notes


def record(**changes: Any) -> str:
    return json.dumps(
        {"v": 1, "generation": 42, "holder": HOLDER, "phase": "deploying", "startedAt": second_time(before(60))}
        | changes
    )


def test_record_without_an_outcome_is_a_finding_only_when_its_run_holds_no_lease() -> None:
    """It is listed, not counted, and blocks nothing."""
    found = report(records=(record_map(record_42=record(), record_41=record(outcome="deployed")),))
    assert found.held == ()
    (finding,) = found.findings
    assert (finding.now, finding.order) == ("record 42", 0)
    assert finding.refusal
    assert finding.refusal.kind is NoRelease.NOT_A_PATCH
    running = report(lease(renewed_at=before(1)), records=(record_map(record_42=record()),))
    assert running.findings == ()


def claim(moved: str, **changes: Any) -> str:
    value = {"v": 1, "generation": 43, "class": moved, "restore": 41, "reason": "503", "holder": HOLDER}
    return json.dumps(value | {"at": second_time(before(60))} | changes)


@pytest.mark.parametrize(
    ("moved", "words"),
    [
        ("post-mutation", "failed after it may have changed something (post-mutation)"),
        ("unconfirmed", "gave no answer that could be trusted, so nobody knows what it has changed (unconfirmed)"),
        ("sideways", "failed, and whether it changed anything is not said (sideways)"),
    ],
)
def test_claim_is_a_hold_that_says_what_its_restore_has_changed(moved: str, words: str) -> None:
    """With its own time and holder; success retires it, and no patch."""
    found = report(records=(record_map(claim_43=claim(moved)),))
    (hold,) = found.holds
    assert (hold.now, hold.age_s, hold.holder_text, hold.ours) == ("claim 43", 60, HOLDER, True)
    assert hold.notes == (f"the restore of what ran before generation 41 {words}", "reason: 503")
    assert hold.refusal
    assert (hold.refusal.kind, hold.refusal.short) == (NoRelease.NOT_A_PATCH, "none: claim")
    assert "a deploy or a restore that succeeds retires claim 43" in hold.refusal.why
    assert found.findings == ()


def test_claim_that_moved_nothing_is_a_finding_and_holds_nothing() -> None:
    """What was refused is told with its reason; every other deploy may begin."""
    found = report(records=(record_map(claim_43=claim("pre-mutation", reason="no-recovery-point")),))
    assert found.held == ()
    (finding,) = found.findings
    assert (finding.now, finding.kind, finding.order) == ("claim 43", FenceKind.RECORD, 0)
    assert finding.notes == (
        "the restore of what ran before generation 41 was refused before anything was changed (pre-mutation)",
        "reason: no-recovery-point",
    )


def test_record_that_died_while_it_restored_says_so() -> None:
    """What nobody has judged yet is told with what will come of it."""
    found = report(records=(record_map(record_42=record(phase="restoring")),))
    (finding,) = found.findings
    assert finding.notes[0].startswith("phase `restoring`, no outcome was written; the next deploy or rollback")
    assert finding.notes[0].endswith("that its restore may have stopped half-way")


def test_skew_of_this_machine_is_said_above_two_seconds() -> None:
    """Ages are by the server's clock; a skew that could mislead is named."""
    assert report(skew_s=2.0).notes == ()
    assert report(skew_s=None).notes == ()
    assert "ahead of" in report(skew_s=601).notes[0]
    assert "behind" in report(skew_s=-5).notes[0]


def test_repository_of_the_config_is_used_where_no_journal_tells() -> None:
    """The check command names it, and the recorded attempt."""
    found = assemble(read_runs(observation(lease()), FENCECTL, repository="acme/other"))
    assert (
        found.blocks[0].judgement.check
        == "gh run view 18093344127 --repo acme/other --attempt 2 --json status,conclusion"
    )


def test_nothing_held_still_says_how_much_was_read() -> None:
    """Silence is not evidence."""
    found = report()
    assert found.complete
    assert (found.counts.nodes, found.counts.flux_kinds) == (12, 13)
    assert found.observed_at == NOW


RECOVERER = "0000000000000000-local-ops-laptop-815-0badcafe"
ENDED = HolderEvidence(
    job=JobFact(State.ENDED, "has the job ended?", "completed", NOW, recorded=True, hosted=True)
)
GONE = HolderEvidence(process=Fact(State.ENDED, "has the process ended?", "gone", NOW))


def taken_over(*, renewed_at: datetime) -> list[Seen]:
    """Give what a recovery leaves that died half-way: one node still fenced, the lease in the recoverer's name."""
    story = journal(holder=RECOVERER, uid="uid-fencectl-deploy", phase=Phase.RECOVERING, recovering=HOLDER)
    annotations = {"fencectl.dev/journal": story.text}
    return [lease(holder=RECOVERER, renewed_at=renewed_at, annotations=annotations), marked_node()]


def test_lease_that_was_taken_over_is_the_last_fence_of_the_recovered_run() -> None:
    """Both are subjects to ask about; the run is dead (proven) only if its recoverer is too."""
    runs = read_runs(observation(*taken_over(renewed_at=before(3600))), FENCECTL)
    assert [subject.holder.identity for subject in runs.subjects] == [HOLDER, RECOVERER]
    found = assemble(runs, evidence={HOLDER: ENDED, RECOVERER: GONE})
    (block,) = found.blocks
    assert block.holder.identity == HOLDER
    assert block.judgement.words == "dead (proven)"
    assert [(e.object.kind, e.holder_text) for e in block.entries] == [("Node", HOLDER), ("Lease", RECOVERER)]
    assert all(e.release for e in block.entries)


def test_run_whose_recoverer_lives_is_left_to_it() -> None:
    """A recovery that goes on is not interfered with."""
    found = assemble(read_runs(observation(*taken_over(renewed_at=before(3))), FENCECTL), evidence={HOLDER: ENDED})
    (block,) = found.blocks
    assert block.judgement.verdict is Verdict.LIVE
    assert block.judgement.because.startswith("ops-laptop pid 815 is recovering it")
    assert not any(e.release for e in block.entries)


def test_run_whose_recoverer_is_unknown_is_only_presumed_dead() -> None:
    """Its heartbeat is missing, and nobody can say that the recovery has ended."""
    found = assemble(
        read_runs(observation(*taken_over(renewed_at=before(3600))), FENCECTL), evidence={HOLDER: ENDED}
    )
    assert found.blocks[0].judgement.words == "dead (presumed)"


def test_fresh_recoverer_that_is_called_dead_holds_everything_back() -> None:
    """Its heartbeat may be its last; ask again when it has run out."""
    runs = read_runs(observation(*taken_over(renewed_at=before(3))), FENCECTL)
    found = assemble(runs, evidence={HOLDER: ENDED, RECOVERER: GONE})
    assert found.blocks[0].judgement.words == "unknown"
    assert {refusal(e)[0] for e in found.held} == {"fresh"}


def test_lease_that_is_all_that_a_recovery_left_is_judged_by_the_recoverer() -> None:
    """Nothing of the recovered run is fenced any more, so nobody has to prove it dead again."""
    (left, _node) = taken_over(renewed_at=before(3600))
    found = assemble(read_runs(observation(left), FENCECTL), evidence={RECOVERER: GONE})
    assert found.blocks[0].judgement.words == "dead (proven)"
    assert only(found).release


def test_journal_of_the_recovered_run_goes_along_with_the_lease() -> None:
    """A local holder's process is told by its lease's journal alone; the take-over must not lose it."""
    own = journal(holder="abc-local-h-4711-00ff00ff", uid="uid-fencectl-deploy", details={"pid": 4711})
    story = journal(
        holder=RECOVERER,
        uid="uid-fencectl-deploy",
        phase=Phase.RECOVERING,
        recovering=own.holder,
        before=own.to_object(),
    )
    taken = lease(holder=RECOVERER, annotations={"fencectl.dev/journal": story.text})
    runs = read_runs(observation(taken, marked_node(holder=own.holder)), FENCECTL)
    (subject,) = [one for one in runs.subjects if one.holder.identity == own.holder]
    assert subject.journal
    assert subject.journal.details == {"pid": 4711}


def test_twenty_fences_of_one_run_are_one_subject() -> None:
    """One look-up, however many fences."""
    nodes = [marked_node(f"n{number:02}", seq=number) for number in range(20)]
    assert len(read_runs(observation(lease(), *nodes), FENCECTL).subjects) == 1


def test_watched_lease_decides_where_its_times_tell_nothing() -> None:
    """A time in the far future must not hold the lease until that day comes."""
    far = lease(renewed_at=before(-(10**8)))
    runs = read_runs(observation(far), FENCECTL)
    assert assemble(runs, evidence={HOLDER: ENDED}).blocks[0].judgement.words == "unknown"
    watched = assemble(runs, evidence={HOLDER: ENDED}, unchanged_for_s={("flux-system", "fencectl-deploy"): 40.0})
    assert watched.blocks[0].judgement.words == "dead (proven)"
