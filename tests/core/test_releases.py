"""
Releases restore what the fence changed, and nothing else.

jsonpatch is the independent reader of the patches: placement, then release, must give back the object as it was, for
every kind of fence and every prior state; a release of something that others changed must leave their change alone.
"""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, strategies as st

from fencectl.core.identity import parse_holder
from fencectl.core.journal import Journal, Phase
from fencectl.core.lease import LeaseTerms, acquire_lease, new_lease, renew_lease
from fencectl.core.marks import read_mark
from fencectl.core.patches import GuardedPatch
from fencectl.core.placements import (
    CannotPlace,
    Placed,
    place_cordon,
    place_suspension,
    rewrite_journal,
)
from fencectl.core.refs import ObjectRef, Seen
from fencectl.core.releases import (
    CannotLift,
    Lifted,
    drain_token,
    is_own_token,
    lift_cordon,
    lift_lease,
    lift_suspension,
)
from tests.support.objects import (
    HOLDER,
    NOW,
    OTHER,
    journal,
    kustomization,
    lease,
    marked_kustomization,
    marked_node,
    node,
)

RECONCILE = "kustomize.toolkit.fluxcd.io/reconcile"
REQUESTED = "reconcile.fluxcd.io/requestedAt"
SUSPENDED_BY = "fluxcd.controlplane.io/suspendedBy"


def apply(patch: GuardedPatch, seen: Seen) -> Seen:
    """Apply by an independent implementation of RFC 6902; absent and null are one to its `test`, as on the server."""
    raw = copy.deepcopy(dict(seen.raw))
    operations: list[Any] = []
    for operation in patch.operations:
        if operation["op"] == "test" and operation["value"] is None:
            assert _look(raw, operation["path"]) is None, operation
        else:
            operations.append(operation)
    changed = jsonpatch.apply_patch(raw, operations)
    return Seen(seen.ref, tidy(changed))


def tidy(raw: dict[str, Any]) -> dict[str, Any]:
    """Drop what Go's encoder omits when it is empty."""
    meta = {key: value for key, value in raw["metadata"].items() if value not in ({}, None)}
    return {**raw, "metadata": meta}


def _look(raw: Any, path: str) -> Any:
    for key in path.split("/")[1:]:
        raw = raw.get(key.replace("~1", "/").replace("~0", "~")) if isinstance(raw, dict) else None
    return raw


def placed(result: Placed | CannotPlace) -> Placed:
    assert isinstance(result, Placed), result
    return result


def lifted(result: Lifted | CannotLift) -> Lifted:
    assert isinstance(result, Lifted), result
    return result


def journal_on(seen: Seen) -> Journal:
    found = read_mark(seen)
    assert found is not None
    assert found.problem is None
    assert found.journal is not None
    return found.journal


FOREIGN = {"note.example.io/a~b": "x&y <z> é 💥", "plain": ""}


@pytest.mark.parametrize("suspend", [None, False])
@pytest.mark.parametrize(
    "annotations", [None, FOREIGN, FOREIGN | {REQUESTED: "2026-11-29T00:00:00Z", SUSPENDED_BY: "ann"}]
)
@pytest.mark.parametrize("reconcile", [None, "enabled", "Disabled", "disabled"])
@pytest.mark.parametrize("applied_by", [None, "flux-system"])
def test_suspension_placed_and_released_gives_the_object_back(
    suspend: bool | None, annotations: dict[str, str] | None, reconcile: str | None, applied_by: str | None
) -> None:
    """Whatever the prior state was, the release restores it; only an overwritten token stays, being no longer ours."""
    given_annotations = dict(annotations or {}) | ({RECONCILE: reconcile} if reconcile else {})
    seen = kustomization(suspend=suspend, applied_by=applied_by, annotations=given_annotations or None)
    fenced = apply(placed(place_suspension(seen, journal(seq=3))).patch, seen)
    assert fenced.raw["spec"]["suspend"] is True
    assert fenced.raw["metadata"]["annotations"]["fencectl.dev/holder"] == HOLDER
    assert fenced.raw["metadata"]["annotations"].get(RECONCILE) == ("disabled" if applied_by else reconcile)
    back = apply(lifted(lift_suspension(fenced, journal_on(fenced))).patch, fenced)
    expected = copy.deepcopy(dict(seen.raw))
    if annotations and REQUESTED in annotations:
        expected["metadata"]["annotations"][REQUESTED] = "9c41e07a.3"
    assert back.raw == tidy(expected)


@pytest.mark.parametrize("unschedulable", [None, False, True])
@pytest.mark.parametrize("annotations", [None, FOREIGN])
@pytest.mark.parametrize("taints", [None, [{"key": "dedicated", "value": "a<b", "effect": "NoSchedule"}]])
def test_cordon_placed_and_released_gives_the_node_back(
    unschedulable: bool | None, annotations: dict[str, str] | None, taints: list[dict[str, str]] | None
) -> None:
    """A node cordoned before stays cordoned; one that was not is schedulable again."""
    seen = node(unschedulable=unschedulable, annotations=annotations, taints=taints)
    fenced = apply(placed(place_cordon(seen, journal(seq=4, rank=1000))).patch, seen)
    assert fenced.raw["spec"]["unschedulable"] is True
    assert journal_on(fenced).phase is Phase.CLAIMED
    back = apply(lifted(lift_cordon(fenced, journal_on(fenced))).patch, fenced)
    expected = copy.deepcopy(dict(seen.raw))
    if unschedulable is False:
        del expected["spec"]["unschedulable"]  # absent and false are one to the server
    assert back.raw == tidy(expected)


LEASE_SPECS: list[dict[str, Any] | None] = [
    None,
    {},
    {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "leaseTransitions": 118,
        "renewTime": "2026-11-30T00:00:00.000000Z",
    },
    {"leaseTransitions": 0},
]


@pytest.mark.parametrize("spec", LEASE_SPECS)
@pytest.mark.parametrize(
    "meta", [{}, {"annotations": FOREIGN, "labels": {"a": "b"}}, {"labels": {"fencectl.dev/fence": "x"}}]
)
def test_case_28_free_lease_is_acquired_and_released_whatever_its_fields(
    spec: dict[str, Any] | None, meta: dict[str, Any]
) -> None:
    """Absent, empty and missing fields are all free; the release writes no zero duration and leaves no journal."""
    seen = lease(spec=spec or {}, **meta)
    if spec is None:
        seen = Seen(seen.ref, {key: value for key, value in seen.raw.items() if key != "spec"})
    terms = LeaseTerms(HOLDER, 30, NOW, journal())
    taken = apply(placed(acquire_lease(seen, terms)).patch, seen)
    before = (spec or {}).get("leaseTransitions") or 0
    assert taken.raw["spec"]["leaseTransitions"] == before + 1
    assert taken.raw["spec"]["renewTime"] == "2026-11-30T02:47:31.000000Z"
    assert "fencectl.dev/fence" in taken.raw["metadata"]["labels"]
    freed = apply(lift_lease(taken).patch, taken)
    assert freed.raw["spec"]["holderIdentity"] == ""
    assert freed.raw["spec"]["leaseDurationSeconds"] == 1
    assert freed.raw["metadata"].get("annotations") == seen.raw["metadata"].get("annotations")


@pytest.mark.parametrize("holder", ["someone", "   "])
def test_case_28_held_lease_is_not_acquired(holder: str) -> None:
    """A blank holder is malformed, and held."""
    assert isinstance(acquire_lease(lease(holder=holder), LeaseTerms(HOLDER, 30, NOW, journal())), CannotPlace)


def test_case_28_lease_with_holder_and_no_times_is_freed_without_a_zero() -> None:
    """A missing duration or renewTime is guarded as absent and written as 1."""
    seen = lease(spec={"holderIdentity": "x"})
    freed = apply(lift_lease(seen).patch, seen)
    assert freed.raw["spec"] == {"holderIdentity": "", "leaseDurationSeconds": 1}


def test_new_lease_names_its_holder_and_its_journal() -> None:
    """A lease that is created carries what an acquired one carries."""
    body = new_lease("flux-system", "fencectl-deploy", LeaseTerms(HOLDER, 30, NOW, journal()), transitions=7)
    assert body["spec"]["holderIdentity"] == HOLDER
    assert body["spec"]["leaseTransitions"] == 7
    assert body["metadata"]["labels"] == {"fencectl.dev/fence": "lease"}
    assert '"phase":"held"' in body["metadata"]["annotations"]["fencectl.dev/journal"]


def test_renewal_guards_holder_and_token() -> None:
    """A lost lease is never revived by a late renewal."""
    seen = lease()
    patch = renew_lease(seen, holder=HOLDER, transitions=119, at=NOW)
    assert apply(patch, seen).raw["spec"]["renewTime"] == "2026-11-30T02:47:31.000000Z"
    for field, value in (("holderIdentity", OTHER), ("leaseTransitions", 120)):
        changed = lease(spec=dict(seen.raw["spec"]) | {field: value})
        with pytest.raises(jsonpatch.JsonPatchTestFailed):
            apply(patch, changed)


def test_renewal_guards_the_heartbeat_as_seen_so_that_a_late_copy_never_sets_it_back() -> None:
    """Two copies of one renewal, or an older one behind a newer: only the first that lands is carried out."""
    seen = lease()
    early = renew_lease(seen, holder=HOLDER, transitions=119, at=NOW)
    later = renew_lease(seen, holder=HOLDER, transitions=119, at=NOW + timedelta(seconds=11))
    renewed = apply(later, seen)
    for late in (early, later):
        with pytest.raises(jsonpatch.JsonPatchTestFailed):
            apply(late, renewed)
    spec = {key: value for key, value in seen.raw["spec"].items() if key != "renewTime"}
    first = apply(renew_lease(lease(spec=spec), holder=HOLDER, transitions=119, at=NOW), lease(spec=spec))
    assert first.raw["spec"]["renewTime"] == "2026-11-30T02:47:31.000000Z"


def test_journal_rewritten_guards_the_journal_as_read() -> None:
    """A phase changes only from the very journal that was read, so a printed command no longer passes afterwards."""
    seen = marked_kustomization()
    old = journal_on(seen)
    kept = apply(rewrite_journal(seen, old, old.with_phase(Phase.KEPT, at=NOW, reason="rolled back")), seen)
    assert journal_on(kept).phase is Phase.KEPT
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        apply(lifted(lift_suspension(seen, old)).patch, kept)


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (kustomization(suspend=True), "already suspended"),
        (marked_kustomization(live=None), "a mark already"),
        (kustomization(annotations={"fencectl.dev/journal": ""}), "a mark already"),
        (kustomization(deleting=True), "being deleted"),
        (kustomization(generation=None), "no generation"),
    ],
)
def test_object_that_cannot_be_fenced_is_refused_with_the_reason(seen: Seen, why: str) -> None:
    """Nobody else's suspension is taken over, and nothing is fenced twice."""
    result = place_suspension(seen, journal())
    assert isinstance(result, CannotPlace)
    assert why in result.why


@pytest.mark.parametrize(
    ("seen", "why"), [(marked_node(), "a mark already"), (node(deleting=True), "being deleted")]
)
def test_node_that_cannot_be_fenced_is_refused_with_the_reason(seen: Seen, why: str) -> None:
    """A node with a mark or one that goes away is not claimed."""
    result = place_cordon(seen, journal())
    assert isinstance(result, CannotPlace)
    assert why in result.why


@pytest.mark.parametrize("live", [None, False])
@pytest.mark.parametrize("reconcile", ["disabled", None, "enabled"])
def test_case_22_resumed_by_hand_then_released_drops_the_mark_only(
    live: bool | None, reconcile: str | None
) -> None:
    """What somebody else changed stays as it is, guarded as seen; what is still ours goes back."""
    seen = marked_kustomization(live=live, applied_by="flux-system", reconcile=reconcile)
    result = lifted(lift_suspension(seen, journal_on(seen)))
    back = apply(result.patch, seen)
    assert (result.now, result.after) == ("reconciles", "mark gone")
    assert back.raw["spec"].get("suspend") is live
    left = back.raw["metadata"].get("annotations", {})
    assert left == ({RECONCILE: "enabled"} if reconcile == "enabled" else {})


def test_case_37_uncordoned_by_hand_then_released_drops_the_mark_only() -> None:
    """`remove` of an absent field would sink the whole patch, so it is not in it."""
    seen = marked_node(live=None)
    result = lifted(lift_cordon(seen, journal_on(seen)))
    assert "/spec/unschedulable" not in [op["path"] for op in result.patch.operations if op["op"] == "remove"]
    back = apply(result.patch, seen)
    assert "annotations" not in back.raw["metadata"]
    assert back.raw["spec"] == {}


def test_suspended_before_stays_suspended() -> None:
    """A suspension taken over (prior true) loses its mark, not its effect."""
    seen = marked_kustomization(was=True)
    result = lifted(lift_suspension(seen, journal_on(seen)))
    assert apply(result.patch, seen).raw["spec"]["suspend"] is True
    assert result.after == "stays suspended"


BAD_PRIORS: list[dict[str, Any]] = [{}, {"suspend": 1}, {"suspend": "no"}, {"suspend": None, "reconcile": 5}]


@pytest.mark.parametrize("prior", BAD_PRIORS)
def test_suspension_whose_journal_does_not_tell_the_prior_state_is_refused(prior: dict[str, Any]) -> None:
    """Nothing is restored by guessing; the number 1 is not true."""
    story = journal(uid="uid-infrastructure", prior=prior)
    assert isinstance(lift_suspension(kustomization(suspend=True), story), CannotLift)


@pytest.mark.parametrize("prior", [{}, {"unschedulable": 0}, {"unschedulable": None}])
def test_cordon_whose_journal_does_not_tell_the_prior_state_is_refused(prior: dict[str, Any]) -> None:
    """A cordon is never lifted on a guess."""
    assert isinstance(lift_cordon(node(unschedulable=True), journal(prior=prior)), CannotLift)


GUARDED: list[tuple[Any, str, Any]] = [
    (marked_kustomization(applied_by="flux-system"), "metadata/uid", "other"),
    (marked_kustomization(applied_by="flux-system"), "metadata/annotations/fencectl.dev~1holder", OTHER),
    (marked_kustomization(applied_by="flux-system"), "metadata/annotations/fencectl.dev~1journal", "{}"),
    (
        marked_kustomization(applied_by="flux-system"),
        "metadata/annotations/kustomize.toolkit.fluxcd.io~1reconcile",
        "x",
    ),
    (marked_kustomization(applied_by="flux-system"), "spec/suspend", False),
    (marked_node(), "metadata/uid", "other"),
    (marked_node(), "metadata/annotations/fencectl.dev~1journal", "{}"),
    (marked_node(), "spec/unschedulable", None),
    (lease(), "spec/holderIdentity", OTHER),
    (lease(), "spec/renewTime", "2026-11-30T02:47:30.000000Z"),
    (lease(), "metadata/uid", "other"),
]


def _lift(seen: Seen) -> Lifted:
    if seen.ref.kind == "Lease":
        return lift_lease(seen)
    lift = lift_cordon if seen.ref.kind == "Node" else lift_suspension
    return lifted(lift(seen, journal_on(seen)))


@pytest.mark.parametrize(("seen", "path", "value"), GUARDED, ids=lambda v: str(v) if isinstance(v, str) else "")
def test_release_is_refused_once_a_guarded_value_has_changed(seen: Seen, path: str, value: Any) -> None:
    """Each guard is there: changing its value alone makes the patch fail."""
    changed = jsonpatch.apply_patch(dict(seen.raw), [{"op": "replace", "path": "/" + path, "value": value}])
    with pytest.raises((jsonpatch.JsonPatchTestFailed, AssertionError)):
        apply(_lift(seen).patch, Seen(seen.ref, changed))


@pytest.mark.parametrize("seen", [marked_kustomization(), marked_node(), lease()], ids=["flux", "node", "lease"])
def test_case_20_release_survives_unrelated_writes(seen: Seen) -> None:
    """Kubelets, controllers and labels move the resourceVersion all the time; no release guards it."""
    raw = copy.deepcopy(dict(seen.raw))
    raw["metadata"] |= {"resourceVersion": "999", "labels": {"new": "label"}}
    raw["status"] = {"conditions": []}
    apply(_lift(seen).patch, Seen(seen.ref, raw))
    assert "resourceVersion" not in _lift(seen).patch.body


PLACEMENTS = [
    (kustomization(), place_suspension, "metadata/generation", 4),
    (kustomization(annotations={"a": "b"}, applied_by="x"), place_suspension, f"metadata/annotations/{RECONCILE.replace('/', '~1')}", "d"),
    (kustomization(annotations={"a": "b"}), place_suspension, "metadata/annotations/fencectl.dev~1holder", OTHER),
    (kustomization(), place_suspension, "metadata/annotations", {"new": "map"}),
    (kustomization(), place_suspension, "metadata/deletionTimestamp", "2026-11-30T02:47:31Z"),
    (node(annotations={"a": "b"}), place_cordon, "metadata/resourceVersion", "8"),
    (node(annotations={"a": "b"}), place_cordon, "metadata/annotations/fencectl.dev~1journal", "{}"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "place", "path", "value"), PLACEMENTS)
def test_case_34_placement_is_refused_once_what_it_read_has_changed(
    seen: Seen, place: Any, path: str, value: Any
) -> None:
    """A late placement, or one that would wipe annotations added meanwhile, is refused."""
    changed = jsonpatch.apply_patch(dict(seen.raw), [{"op": "add", "path": "/" + path, "value": value}])
    with pytest.raises((jsonpatch.JsonPatchTestFailed, AssertionError)):
        apply(placed(place(seen, journal())).patch, Seen(seen.ref, changed))


@pytest.mark.parametrize(
    ("requested", "suspended_by", "gone"),
    [
        ("9c41e07a.3", HOLDER, {REQUESTED, SUSPENDED_BY}),
        ("9c41e07a.3.2", "ann", {REQUESTED}),
        ("9c41e07a.33", HOLDER, {SUSPENDED_BY}),
        ("2026-11-30T00:00:00Z", None, set()),
    ],
)
def test_token_and_name_are_taken_away_only_while_they_are_ours(
    requested: str, suspended_by: str | None, gone: set[str]
) -> None:
    """Somebody else's request or name is left, and not guarded: it may move at any time."""
    values = {REQUESTED: requested} | ({SUSPENDED_BY: suspended_by} if suspended_by else {})
    seen = marked_kustomization(annotations=values)
    patch = lifted(lift_suspension(seen, journal_on(seen))).patch
    assert set(apply(patch, seen).raw["metadata"].get("annotations", {})) == set(values) - gone
    guarded = {op["path"] for op in patch.operations if op["op"] == "test"}
    assert ("/metadata/annotations/reconcile.fluxcd.io~1requestedAt" in guarded) == (REQUESTED in gone)


def test_drain_token_is_nonce_and_sequence() -> None:
    """Never a clock: two clocks may tell the same time."""
    assert drain_token(HOLDER, 3) == "9c41e07a.3"
    assert drain_token(HOLDER, 3, rewrite=2) == "9c41e07a.3.2"
    assert is_own_token("9c41e07a.3.2", HOLDER, 3)
    assert not is_own_token("9c41e07a.31", HOLDER, 3)
    assert not is_own_token(None, HOLDER, 3)
    assert parse_holder(HOLDER).nonce == "9c41e07a"


text = st.text(max_size=12)
annotation_maps = st.none() | st.dictionaries(
    st.text(min_size=1, max_size=9) | st.just("a/b~c~1"), text, min_size=1, max_size=4
)


@given(annotations=annotation_maps, suspend=st.sampled_from([None, False]), applied=st.booleans())
def test_any_annotations_survive_a_suspension_and_its_release(
    annotations: dict[str, str] | None, suspend: bool | None, applied: bool
) -> None:
    """Keys with `/` and `~` and any text in them come back as they were."""
    seen = kustomization(suspend=suspend, annotations=annotations, applied_by="flux-system" if applied else None)
    fenced = apply(placed(place_suspension(seen, journal())).patch, seen)
    assert apply(lifted(lift_suspension(fenced, journal_on(fenced))).patch, fenced).raw == tidy(dict(seen.raw))


def test_case_38_patch_of_an_object_without_uid_is_never_made() -> None:
    """A patch that any object of the name would accept is no guarded patch."""
    ref = ObjectRef("v1", "Node", "nodes", None, "n", "")
    with pytest.raises(ValueError, match="uid"):
        place_cordon(Seen(ref, node().raw), journal())
