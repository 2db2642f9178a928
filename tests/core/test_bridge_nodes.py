"""
Nodes: the ladder of refusals in its order, the batch rules across nodes, and the release of what passes.

Aspects: rungs 1 to 8 and their order · malformed journals hold journals back, not claimed nodes · batches by owner ·
drift · the operations · every guard · unreadable values · foreign cordons · the way out.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from fencectl.core.found import Reading
from fencectl.core.refs import Seen
from tests.core.test_bridge_states import (
    BATCH,
    MISSING,
    NODE_JOURNAL,
    NODE_OWNER,
    NODE_PHASE,
    NODE_RUN,
    OTHER_RUN,
    UNSCHEDULABLE_TAINT,
    RefusedError,
    advice,
    applied,
    changed,
    fences,
    journal_text,
    journalled,
    node,
    only,
    only_foreign,
    patch_of,
    read,
    why,
)

DELETING = "2026-11-30T02:00:00Z"
BROKEN = "not json"


def annotation(key: str) -> str:
    return "/metadata/annotations/" + key.replace("/", "~1")


def test_claimed_node_is_released_without_uncordoning() -> None:
    """The very operations; whether it was schedulable before was never recorded, and that is said."""
    found = only(node())
    assert patch_of(found).operations == [
        {"op": "test", "path": "/metadata/uid", "value": "uid-worker-1"},
        {"op": "test", "path": annotation(NODE_OWNER), "value": NODE_RUN},
        {"op": "test", "path": annotation(NODE_JOURNAL), "value": None},
        {"op": "test", "path": annotation(NODE_PHASE), "value": "claimed"},
        {"op": "test", "path": "/spec/unschedulable", "value": True},
        {"op": "test", "path": "/spec/taints", "value": None},
        {"op": "test", "path": "/metadata/deletionTimestamp", "value": None},
        {"op": "remove", "path": annotation(NODE_PHASE)},
        {"op": "remove", "path": annotation(NODE_OWNER)},
    ]
    assert found.release is not None
    title = "drop the mark; it stays cordoned (was it schedulable before? not recorded)"
    assert (found.release.title, found.release.role) == (title, None)
    assert (found.now, found.after, found.rank, found.phase) == ("cordoned", "stays cordoned", 1, "claimed")
    assert (found.manager, found.since) == ("kubectl-cordon", datetime(2026, 11, 30, 1, 46, 33, tzinfo=UTC))


def test_case_14_claimed_node_that_is_not_cordoned_is_still_a_fence() -> None:
    """Only its mark goes, and the absence of the cordon is guarded."""
    found = only(node(unschedulable=MISSING))
    assert {"op": "test", "path": "/spec/unschedulable", "value": None} in patch_of(found).operations
    assert found.release is not None
    assert (found.release.title, found.now, found.after) == (
        "drop the mark; it is not cordoned",
        "schedulable",
        "schedulable",
    )


def test_journalled_node_that_was_schedulable_is_uncordoned() -> None:
    """The journal's number 0 is the one state that may be uncordoned."""
    taints = [{"key": "a", "effect": "NoSchedule"}, UNSCHEDULABLE_TAINT]
    state = journalled(taints=taints, initialTaints=taints[:1])
    found = only(state)
    text = state.raw["metadata"]["annotations"][NODE_JOURNAL]
    assert patch_of(found).operations == [
        {"op": "test", "path": "/metadata/uid", "value": "uid-worker-1"},
        {"op": "test", "path": annotation(NODE_OWNER), "value": NODE_RUN},
        {"op": "test", "path": annotation(NODE_JOURNAL), "value": text},
        {"op": "test", "path": annotation(NODE_PHASE), "value": "mutating"},
        {"op": "test", "path": "/spec/unschedulable", "value": True},
        {"op": "test", "path": "/spec/taints", "value": taints},
        {"op": "test", "path": "/metadata/deletionTimestamp", "value": None},
        {"op": "remove", "path": "/spec/unschedulable"},
        {"op": "remove", "path": annotation(NODE_JOURNAL)},
        {"op": "remove", "path": annotation(NODE_PHASE)},
        {"op": "remove", "path": annotation(NODE_OWNER)},
    ]
    assert found.release is not None
    assert found.release.title == "uncordon (it was schedulable before), drop the mark"
    assert (found.after, found.phase) == ("schedulable", "rollback-safe")


def test_journalled_node_that_was_cordoned_stays_cordoned() -> None:
    """Somebody's maintenance is not this fence's to end."""
    found = only(journalled(wasCordoned=1))
    assert found.release is not None
    assert found.release.title == "drop the mark; it was cordoned before, so it stays so"
    assert found.after == "stays cordoned"
    after = applied(patch_of(found), found.seen.raw)
    assert after["spec"]["unschedulable"] is True
    assert after["metadata"]["annotations"] == {"example.com/team": "a"}


@pytest.mark.parametrize("phase", ["claimed", "mutating", "", "weird", MISSING])
def test_phase_beside_a_journal_is_not_looked_at_but_tested_and_removed(phase: Any) -> None:
    """The journal tells the phase; the annotation goes with the mark, so the patch tests what it removes."""
    found = only(journalled(phase=phase))
    expected = None if phase is MISSING else phase
    assert {"op": "test", "path": annotation(NODE_PHASE), "value": expected} in patch_of(found).operations
    after = applied(patch_of(found), found.seen.raw)
    assert after["metadata"]["annotations"] == {"example.com/team": "a"}


@pytest.mark.parametrize("journal", ["", None])
def test_empty_journal_counts_as_absent_and_goes_with_the_mark(journal: Any) -> None:
    """An empty text is guarded as it stands and taken away; null is absence itself."""
    found = only(node(journal=journal))
    assert {"op": "test", "path": annotation(NODE_JOURNAL), "value": journal} in patch_of(found).operations
    after = applied(patch_of(found), found.seen.raw)
    assert after["metadata"]["annotations"].get(NODE_JOURNAL) is None
    assert NODE_OWNER not in after["metadata"]["annotations"]


@pytest.mark.parametrize("phase", ["mutating", "claimed", "weird", MISSING])
@pytest.mark.parametrize("mark", [MISSING, "", None])
def test_phase_without_mark_and_journal_is_no_fence(phase: Any, mark: Any) -> None:
    """Every finished roll leaves `mutating` behind."""
    assert read(node(mark=mark, phase=phase, unschedulable=MISSING)) == Reading((), ())
    foreign = only_foreign(node(mark=mark, phase=phase, journal=""))
    assert (foreign.now, foreign.manager, foreign.notes) == ("cordoned", "kubectl-cordon", ())


def test_cordon_with_a_mark_of_the_other_profile_is_named() -> None:
    """A node of fencectl's own is not ours here, and says where to look."""
    foreign = only_foreign(node(mark=MISSING, annotations={"fencectl.dev/holder": "x"}))
    assert foreign.notes == ("it carries a mark of the profile `fencectl`",)


# The ladder, rung by rung.


@pytest.mark.parametrize(
    ("phase", "said"),
    [
        ("mutating", "its drain phase is `mutating`"),
        (MISSING, "no drain phase"),
        ("", "no drain phase"),
        (None, "no drain phase"),
        ("Claimed", "its drain phase is not `claimed`"),
        ("claimed ", "its drain phase is not `claimed`"),
        (5, "its drain phase is not `claimed`"),
        (["claimed"], "its drain phase is not `claimed`"),
    ],
)
def test_rung_1_no_journal_and_not_claimed_is_refused(phase: Any, said: str) -> None:
    """An absent phase is not innocence: older versions wrote none."""
    found = only(node(phase=phase))
    assert why(found) == f"no journal, and {said}: what was done to it is not recorded"
    assert "by hand" in advice(found)[0]
    assert found.phase == (phase if isinstance(phase, str) else None)


@pytest.mark.parametrize(
    ("phase", "said"),
    [("active", "interrupted before the reboot"), ("retain", "nothing proves"), ("release-ready", "current")],
)
def test_rung_2_unfinished_journal_phases_are_refused(phase: str, said: str) -> None:
    """Interrupted, unproven, or proven for a credential that this report cannot see."""
    found = only(journalled(jphase=phase))
    assert why(found).startswith(f"journal phase `{phase}`: ")
    assert said in why(found)
    assert found.phase == phase


def test_rung_2_comes_before_the_schema() -> None:
    """A journal that is malformed elsewhere still says that the node may be half done; both are told."""
    for phase in ("active", "release-ready"):
        found = only(journalled(jphase=phase, v=2))
        assert why(found).startswith(f"journal phase `{phase}`")
        assert advice(found)[0] == "its journal is malformed: its `v` is not the number 1"
        assert "by hand" in advice(found)[1]


FAULTY = [
    (node("bad", journal=BROKEN), "its journal is malformed: it cannot be read: not valid JSON"),
    (node("bad", journal=" "), "its journal is malformed: it cannot be read: not valid JSON"),
    (node("bad", journal="5"), "its journal is malformed: it is not a JSON object"),
    (node("bad", journal=7), "its journal is malformed: it is not text"),
    (journalled("bad", wasCordoned="0"), "its journal is malformed: its `wasCordoned` is neither"),
    (journalled("bad", jphase="done"), "its journal is malformed: its `phase` is not one"),
    (journalled("bad", juid="uid-x"), "its journal is malformed: its `uid` is that of another node"),
    (journalled("bad", mark="x"), "its journal is malformed: its `owner` is not the one that the mark names"),
    (journalled("bad", mark=" "), "its journal is malformed: its `owner` is not the one that the mark names"),
    (journalled("bad", mark=5), "its journal is malformed: its `owner` is not the one that the mark names"),
    (journalled("bad", deleting=DELETING), "it carries a journal and is being deleted"),
    (journalled("bad", mark=MISSING), "it carries a journal and no mark"),
    (journalled("bad", mark=""), "it carries a journal and no mark"),
]


@pytest.mark.parametrize(("bad", "said"), FAULTY)
def test_rung_3_one_faulty_journal_refuses_every_journal_and_no_claimed_node(bad: Seen, said: str) -> None:
    """Rungs 6 to 8 in the same breath: the node itself is told what is wrong with it."""
    found = fences(journalled("good", owner=OTHER_RUN), bad, node("claimed", mark=BATCH))
    assert why(found["bad"]).startswith(said)
    assert why(found["good"]) == "the journal of node/bad cannot be trusted, so none is"
    assert advice(found["good"])[0] == "repair node/bad by hand first, then ask for this report again"
    assert found["claimed"].release is not None


def test_rung_3_comes_before_batch_and_drift() -> None:
    """A node that drifted and whose batch is mixed is told of the malformed journal first."""
    found = fences(
        node("bad", journal=BROKEN, mark=OTHER_RUN),
        journalled("a", owner=BATCH, unschedulable=MISSING),
        journalled("b", owner=BATCH, jphase="release-ready"),
    )
    assert "cannot be trusted" in why(found["a"])
    assert why(found["b"]).startswith("journal phase `release-ready`")


def test_rung_3_names_three_faulty_nodes_and_counts_the_rest() -> None:
    """Every refused node says it, so it must not grow with them."""
    bad = [node(f"bad-{n}", mark=f"x{n}", journal=BROKEN) for n in range(5)]
    found = fences(*bad, journalled("good"))
    assert why(found["good"]) == (
        "the journals of node/bad-0, node/bad-1, node/bad-2 and 2 more cannot be trusted, so none is"
    )


@pytest.mark.parametrize("unproven", ["active", "retain"])
def test_rung_4_batch_with_an_unproven_node_is_refused_whole(unproven: str) -> None:
    """All of that owner, nodes without a journal but with that mark too; nobody else."""
    found = fences(
        journalled("safe", owner=BATCH),
        journalled("open", owner=BATCH, jphase=unproven),
        node("claimed", mark=BATCH),
        journalled("other", owner=OTHER_RUN),
        node("alone", mark=NODE_RUN),
    )
    said = "its batch holds node/open in phase `active` or `retain`"
    assert why(found["safe"]) == said
    assert why(found["claimed"]) == said
    assert why(found["open"]).startswith(f"journal phase `{unproven}`")
    assert advice(found["safe"])[0] == "prove and repair node/open by hand first"
    assert found["other"].release is not None
    assert found["alone"].release is not None


def test_rung_4_batch_in_different_phases_is_refused() -> None:
    """`rollback-safe` beside `release-ready`: one half was cleaned up, the other proven."""
    found = fences(
        journalled("safe", owner=BATCH),
        journalled("ready", owner=BATCH, jphase="release-ready"),
        node("claimed", mark=BATCH),
    )
    assert why(found["safe"]) == "the journals of its batch are in different phases"
    assert why(found["claimed"]) == "the journals of its batch are in different phases"


def test_rung_4_whole_batch_is_released() -> None:
    """All of one owner in `rollback-safe`, a claimed node of that owner among them."""
    found = fences(journalled("a", owner=BATCH), journalled("b", owner=BATCH), node("c", mark=BATCH))
    assert all(item.release is not None for item in found.values())


def test_rung_4_claimed_node_of_a_ready_batch_is_released() -> None:
    """One phase, and neither `active` nor `retain`: only the journals themselves are refused."""
    found = fences(journalled("ready", owner=BATCH, jphase="release-ready"), node("claimed", mark=BATCH))
    assert found["claimed"].release is not None
    assert found["ready"].release is None


def test_rung_4_goes_by_the_owner_of_the_journal_and_counts_malformed_ones() -> None:
    """The malformed journal's mark is another's; its owner and phase are what hold the claimed node back."""
    found = fences(
        node("bad", mark=OTHER_RUN, journal=journal_text(owner=BATCH, jphase="retain", v=9)),
        node("claimed", mark=BATCH),
        node("marked-alike", mark=OTHER_RUN),
    )
    assert why(found["claimed"]) == "its batch holds node/bad in phase `active` or `retain`"
    assert found["marked-alike"].release is not None
    found = fences(
        node("bad", journal=journal_text(owner=BATCH, jphase="weird", juid="uid-bad")),
        node("worse", journal=journal_text(owner=BATCH, jphase="odd", juid="uid-worse")),
        node("claimed", mark=BATCH),
    )
    assert why(found["claimed"]) == "the journals of its batch are in different phases"


@pytest.mark.parametrize("changes", [{"owner": 5}, {"jphase": 5}])
def test_rung_4_journal_without_owner_or_phase_is_in_no_batch(changes: dict[str, Any]) -> None:
    """Without both as text it claims nothing, so a claimed node of its mark stays releasable."""
    found = fences(node("bad", mark=BATCH, journal=journal_text(**changes)), node("claimed", mark=BATCH))
    assert found["claimed"].release is not None


def test_rung_1_comes_before_the_batch() -> None:
    """A node without a journal that may be half done is told so, whatever its batch."""
    found = fences(journalled("open", owner=BATCH, jphase="retain"), node("x", mark=BATCH, phase=MISSING))
    assert why(found["x"]).startswith("no journal, and no drain phase")


@pytest.mark.parametrize("cordoned", [0, 1])
def test_rung_5_drift_is_refused_and_blocks_no_sibling(cordoned: int) -> None:
    """Not cordoned any more, or other taints, whatever the journal says was before."""
    not_ready = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    found = fences(
        journalled("resumed", owner=BATCH, wasCordoned=cordoned, unschedulable=MISSING),
        journalled("lifted", owner=BATCH, wasCordoned=cordoned, unschedulable=False),
        journalled("tainted", owner=BATCH, wasCordoned=cordoned, taints=not_ready),
        journalled("odd", owner=BATCH, wasCordoned=cordoned, taints="x"),
        journalled("odder", owner=BATCH, wasCordoned=cordoned, unschedulable=1),
        journalled("same", owner=BATCH, wasCordoned=cordoned, taints=[UNSCHEDULABLE_TAINT]),
    )
    assert why(found["resumed"]) == "drift: it is not cordoned any more"
    assert why(found["lifted"]) == "drift: it is not cordoned any more"
    assert why(found["odder"]) == "drift: it is not cordoned any more"
    assert why(found["tainted"]) == "drift: its taints are not those of its journal"
    assert advice(found["tainted"])[0] == "not recorded: node.kubernetes.io/not-ready:NoSchedule"
    assert "cannot be compared" in why(found["odd"])
    assert found["same"].release is not None


def test_rung_4_comes_before_drift() -> None:
    """A batch that is not whole is the reason, though the node drifted too."""
    found = fences(
        journalled("a", owner=BATCH, unschedulable=MISSING), journalled("b", owner=BATCH, jphase="retain")
    )
    assert why(found["a"]).startswith("its batch holds")


def test_rung_7_deleted_node_without_a_journal_blocks_no_sibling() -> None:
    """It is refused itself; claimed nodes and journals beside it go."""
    found = fences(node("going", deleting=DELETING), node("claimed"), journalled("good"))
    assert why(found["going"]) == "it is being deleted"
    assert advice(found["going"])[0] == "when the node is gone, so is its fence"
    assert found["going"].notes == ("it is being deleted",)
    assert found["claimed"].release is not None
    assert found["good"].release is not None


def test_rung_7_comes_after_phase_and_batch() -> None:
    """A node that is going and may be half done is told the latter."""
    assert why(only(node(phase="mutating", deleting=DELETING))).startswith("no journal")
    found = fences(journalled("a", owner=BATCH, jphase="active"), node("b", mark=BATCH, deleting=DELETING))
    assert why(found["b"]).startswith("its batch holds")


def test_rung_8_ownerless_journal_is_joined_to_the_run_that_it_names() -> None:
    """Without a mark nobody owns the node, yet the Lease of the run in its journal must wait for it."""
    found = only(journalled(mark=MISSING))
    assert (found.holder_text, found.group) == (None, "run 18093344127.2")
    assert why(found) == "it carries a journal and no mark"
    assert only(node(mark=MISSING, journal=BROKEN)).group is None
    assert only(node(mark=MISSING, journal=journal_text(owner=" "))).group is None


def test_blank_owner_that_mark_and_journal_share_is_refused() -> None:
    """It passes every rung and names nobody all the same."""
    assert why(only(journalled(owner=" "))) == "its mark is blank, so it names nobody"


def test_blank_mark_is_in_no_batch_of_an_empty_owner() -> None:
    """A journal whose owner is the empty text claims nothing of nodes whose marks name nobody."""
    found = fences(node("bad", mark="x", journal=journal_text(owner="", jphase="active")), node("blank", mark=5))
    assert "is not text" in why(found["blank"])


# What a release guards, and what it does not.

GUARDED: list[tuple[tuple[str, ...], Any]] = [
    (("metadata", "uid"), "another"),
    (("metadata", "annotations", NODE_OWNER), "another"),
    (("metadata", "annotations", NODE_OWNER), MISSING),
    (("metadata", "annotations", NODE_PHASE), "other"),
    (("metadata", "annotations", NODE_PHASE), MISSING),
    (("metadata", "annotations", NODE_JOURNAL), "{}"),
    (("metadata", "deletionTimestamp"), DELETING),
    (("spec", "unschedulable"), False),
    (("spec", "unschedulable"), MISSING),
    (("spec", "taints"), [{"key": "a", "effect": "NoSchedule"}]),
]


@pytest.mark.parametrize("state", [node(), journalled(), journalled(wasCordoned=1)])
@pytest.mark.parametrize(("path", "value"), GUARDED)
def test_release_is_refused_after_a_guarded_value_changed(state: Seen, path: tuple[str, ...], value: Any) -> None:
    """Each value that the decision rests on is tested by the patch itself."""
    patch = patch_of(only(state))
    with pytest.raises(RefusedError):
        applied(patch, changed(state, path, value))


def test_release_of_an_uncordoned_node_is_refused_once_it_is_cordoned() -> None:
    """The absence is guarded as well: a cordon placed since is somebody's."""
    state = node(unschedulable=MISSING)
    with pytest.raises(RefusedError):
        applied(patch_of(only(state)), changed(state, ("spec", "unschedulable"), value=True))


@pytest.mark.parametrize("state", [node(), journalled()])
def test_case_20_release_still_applies_after_an_unrelated_change(state: Seen) -> None:
    """A kubelet's status write moves the resourceVersion every few seconds: it is never guarded."""
    raw = changed(state, ("metadata", "resourceVersion"), "8")
    raw["metadata"]["labels"]["a"] = "b"
    raw["metadata"]["annotations"]["example.com/other"] = "c"
    raw["status"] = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
    patch = patch_of(only(state))
    assert "resourceVersion" not in patch.body
    after = applied(patch, raw)
    assert NODE_OWNER not in after["metadata"]["annotations"]
    assert after["metadata"]["annotations"]["example.com/other"] == "c"


def test_case_15_each_patch_has_the_values_of_its_own_node() -> None:
    """Empty fields between full ones shift nothing from one node to the next."""
    states = [
        node("a", uid="uid-1"),
        node("b", uid="uid-2", journal=""),
        journalled("c"),
        node("d", uid="uid-4", unschedulable=MISSING),
        node("e", uid="uid-5", taints=[]),
    ]
    found = fences(*states)
    for state in states:
        patch = patch_of(found[state.ref.name])
        assert patch.target == state.ref
        assert patch.operations[0] == {"op": "test", "path": "/metadata/uid", "value": state.ref.uid}
        applied(patch, state.raw)


@pytest.mark.parametrize("unschedulable", [1, "true", [], {}])
def test_unschedulable_of_another_type_is_refused(unschedulable: Any) -> None:
    """Neither true nor false: nothing is built on it."""
    found = only(node(unschedulable=unschedulable))
    assert why(found) == "its `spec.unschedulable` is neither true nor false"
    assert found.now == "malformed"


@pytest.mark.parametrize("taints", ["x", {}, ["a"], [{"key": 5}], 3])
def test_taints_that_cannot_be_read_are_refused(taints: Any) -> None:
    """A guard on what nobody understands would be a guess."""
    assert why(only(node(taints=taints))) == "its taints cannot be read"


@pytest.mark.parametrize("spec", [[], "x", 3])
def test_spec_that_is_no_map_is_refused(spec: Any) -> None:
    """What cannot be read cannot be guarded."""
    state = node()
    assert "neither true nor false" in why(only(Seen(state.ref, {**state.raw, "spec": spec})))


def test_missing_spec_is_guarded_as_missing() -> None:
    """The map's own absence is tested, since a test below it fails by itself."""
    state = node()
    raw = {"metadata": state.raw["metadata"]}
    found = only(Seen(state.ref, raw))
    assert {"op": "test", "path": "/spec", "value": None} in patch_of(found).operations
    applied(patch_of(found), raw)


@pytest.mark.parametrize("metadata", [MISSING, [], "x", {"annotations": ["x"]}, {"annotations": 5}])
def test_unreadable_annotations_are_refused_not_passed_over(metadata: Any) -> None:
    """A node whose marks cannot be read may be fenced."""
    state = node()
    raw = {"spec": state.raw["spec"]} | ({} if metadata is MISSING else {"metadata": metadata})
    found = fences(Seen(state.ref, raw), node("next"))
    assert "its annotations cannot be read" in why(found["worker-1"])
    assert found["next"].release is not None


def test_node_without_uid_or_with_an_unwritable_value_is_refused() -> None:
    """No guard on the uid, or bytes that no patch can carry: no patch."""
    state = node()
    ref = state.ref
    without = Seen(type(ref)(ref.api_version, ref.kind, ref.plural, None, ref.name, ""), state.raw)
    assert "its uid could not be read" in why(only(without))
    assert "no guard can be written" in why(only(node(taints=[{"key": "\ud800"}])))
