"""
Child and parent suspension: released by their live values, field by field, and what is shown beside them.

Aspects: the operations · every live value of suspend and reconcile · misplaced marks · foreign · absent · odd types.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

import pytest

from fencectl.core.bridge import CHILD, PARENT
from fencectl.core.found import Reading
from fencectl.core.observation import ReadCounts, Unreadable
from fencectl.core.refs import ObjectRef, Seen
from tests.core.test_bridge_states import (
    CHILD_OWNER,
    MISSING,
    PARENT_OWNER,
    RECONCILE,
    RUN,
    RefusedError,
    applied,
    changed,
    child,
    fences,
    healthy,
    kustomization,
    only,
    only_foreign,
    parent,
    patch_of,
    read,
    why,
)

FLUX_READ = ReadCounts(flux_kinds=13)


def annotation(key: str) -> str:
    return "/metadata/annotations/" + key.replace("/", "~1")


def test_child_is_resumed_and_its_exclusion_taken_back() -> None:
    """The very operations: uid, mark, reconcile and suspend are tested, then three changes."""
    found = only(child())
    assert patch_of(found).operations == [
        {"op": "test", "path": "/metadata/uid", "value": "uid-infrastructure"},
        {"op": "test", "path": annotation(CHILD_OWNER), "value": RUN},
        {"op": "test", "path": annotation(RECONCILE), "value": "disabled"},
        {"op": "test", "path": "/spec/suspend", "value": True},
        {"op": "replace", "path": "/spec/suspend", "value": False},
        {"op": "remove", "path": annotation(RECONCILE)},
        {"op": "remove", "path": annotation(CHILD_OWNER)},
    ]
    assert found.release is not None
    assert (found.release.title, found.release.role) == ("resume, drop the mark", "child")
    assert (found.now, found.after, found.rank) == ("suspended", "reconciles", 3)
    assert (found.excluded, found.applier) == (True, PARENT)
    assert (found.manager, found.since) == ("kubectl-patch", datetime(2026, 11, 30, 1, 46, 33, tzinfo=UTC))
    assert found.notes == ()


def test_parent_is_resumed_without_a_word_on_reconcile() -> None:
    """The parent never carries the exclusion, so a guard on it would sink every release of it."""
    found = only(parent())
    assert patch_of(found).operations == [
        {"op": "test", "path": "/metadata/uid", "value": "uid-flux-system"},
        {"op": "test", "path": annotation(PARENT_OWNER), "value": RUN},
        {"op": "test", "path": "/spec/suspend", "value": True},
        {"op": "replace", "path": "/spec/suspend", "value": False},
        {"op": "remove", "path": annotation(PARENT_OWNER)},
    ]
    assert found.release is not None
    assert (found.release.title, found.release.role) == ("resume, drop the mark", "parent")
    assert (found.rank, found.excluded, found.applier) == (2, False, None)


@pytest.mark.parametrize(
    ("suspend", "reconcile"),
    list(itertools.product([True, False, None, MISSING], ["disabled", "enabled", "Disabled", "", MISSING])),
)
def test_child_release_follows_each_live_value(suspend: Any, reconcile: Any) -> None:
    """What still has that tool's value goes back; what somebody changed stays and is guarded as seen."""
    state = child(suspend=suspend, reconcile=reconcile)
    found = only(state)
    after = applied(patch_of(found), state.raw)
    expected = dict(state.raw["metadata"]["annotations"])
    del expected[CHILD_OWNER]
    if reconcile == "disabled":
        del expected[RECONCILE]
    assert after["metadata"]["annotations"] == expected
    spec = dict(state.raw["spec"])
    assert after["spec"] == (spec | {"suspend": False} if suspend is True else spec)
    assert found.now == ("suspended" if suspend is True else "reconciles")
    assert found.after == "reconciles"
    assert found.excluded is (reconcile == "disabled")
    assert bool(found.notes) is (reconcile != "disabled")


@pytest.mark.parametrize("suspend", [True, False, None, MISSING])
def test_parent_release_leaves_a_reconcile_annotation_alone(suspend: Any) -> None:
    """Whoever put one on the parent, it was not this fence."""
    state = parent(suspend=suspend, reconcile="disabled")
    found = only(state)
    after = applied(patch_of(found), state.raw)
    assert after["metadata"]["annotations"] == {"example.com/team": "a", RECONCILE: "disabled"}
    assert after["spec"].get("suspend") is not True


def test_case_22_mark_on_a_resumed_child_is_its_own_line() -> None:
    """Resumed by hand: still a fence, and its release says that it resumes nothing."""
    found = only(child(suspend=False))
    assert found.release is not None
    assert found.release.title == "drop the mark and `reconcile: disabled`; it was resumed by somebody else"
    found = only(child(suspend=MISSING, reconcile=MISSING))
    assert found.release is not None
    assert found.release.title == "drop the mark; it was resumed by somebody else"
    found = only(parent(suspend=MISSING))
    assert found.release is not None
    assert found.release.title == "drop the mark; it was resumed by somebody else"


def test_note_says_what_became_of_the_exclusion() -> None:
    """Gone, or changed and then in the way of that tool's next run."""
    assert only(child(reconcile=MISSING)).notes == (f"its annotation `{RECONCILE}: disabled` is gone",)
    assert "was changed and stays" in only(child(reconcile="enabled")).notes[0]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "uid"), "another"),
        (("metadata", "annotations", CHILD_OWNER), "another"),
        (("metadata", "annotations", CHILD_OWNER), MISSING),
        (("metadata", "annotations", RECONCILE), "enabled"),
        (("metadata", "annotations", RECONCILE), MISSING),
        (("spec", "suspend"), False),
        (("spec", "suspend"), MISSING),
    ],
)
def test_child_release_is_refused_after_a_guarded_value_changed(path: tuple[str, ...], value: Any) -> None:
    """A printed command never takes back what has become somebody else's."""
    state = child()
    patch = patch_of(only(state))
    with pytest.raises(RefusedError):
        applied(patch, changed(state, path, value))


@pytest.mark.parametrize("path", [("spec", "suspend"), ("metadata", "annotations", RECONCILE)])
def test_release_of_a_resumed_child_is_refused_once_it_is_fenced_again(path: tuple[str, ...]) -> None:
    """The value seen is guarded, also where it is not that tool's."""
    state = child(suspend=MISSING, reconcile=MISSING)
    with pytest.raises(RefusedError):
        applied(patch_of(only(state)), changed(state, path, True))


def test_release_still_applies_after_an_unrelated_change() -> None:
    """A label, the status, the generation and the resourceVersion are nobody's guard."""
    state = child()
    raw = changed(state, ("metadata", "resourceVersion"), "8")
    raw["metadata"]["labels"] = {"a": "b"}
    raw["metadata"]["generation"] = 9
    raw["status"] = {"observedGeneration": 9}
    assert applied(patch_of(only(state)), raw)["spec"]["suspend"] is False


def test_applier_comes_from_the_labels_where_there_are_any() -> None:
    """The labels name the Kustomization that applies it; without them the child's is the parent."""
    labels = {
        "kustomize.toolkit.fluxcd.io/name": "root",
        "kustomize.toolkit.fluxcd.io/namespace": "gitops",
    }
    assert only(child(labels=labels)).applier == ("gitops", "root")
    assert only(child(labels={"kustomize.toolkit.fluxcd.io/name": "root"})).applier == PARENT


def test_fenced_object_that_is_being_deleted_is_warned_about() -> None:
    """A Kustomization that goes while it is suspended leaves its workloads behind."""
    assert "it is being deleted" in only(parent(deletionTimestamp="2026-11-30T02:00:00Z")).notes[0]


@pytest.mark.parametrize(
    ("state", "mark", "rank"),
    [
        (kustomization("apps", child_mark=RUN), CHILD_OWNER, 3),
        (kustomization("apps", parent_mark=RUN), PARENT_OWNER, 2),
        (kustomization("infrastructure", parent_mark=RUN), PARENT_OWNER, 2),
        (kustomization("flux-system", child_mark=RUN), CHILD_OWNER, 3),
        (kustomization("infrastructure", child_mark=RUN, namespace="other"), CHILD_OWNER, 3),
    ],
)
def test_mark_on_another_object_is_reported_and_refused(state: Seen, mark: str, rank: int) -> None:
    """That tool marks two objects, each with its own mark: a copy is nobody's release, and is not hidden."""
    found = only(state)
    assert why(found).startswith("this tool marks only kustomization/flux-system/")
    assert why(found).endswith(f"with `{mark}`")
    assert (found.holder_text, found.rank) == (RUN, rank)
    assert found.group is not None


def test_mark_on_another_kind_is_reported_and_refused() -> None:
    """The kind counts too, and so does the API group."""
    state = child()
    release = ObjectRef("helm.toolkit.fluxcd.io/v2", "HelmRelease", "helmreleases", *CHILD, "uid-infrastructure")
    clustered = ObjectRef(
        "kustomize.toolkit.fluxcd.io/v1", "Kustomization", "kustomizations", None, "x", "uid-infrastructure"
    )
    for ref in (release, clustered):
        assert "this tool marks only" in why(only(Seen(ref, state.raw)))


def test_stray_mark_beside_the_right_one_is_said() -> None:
    """The release takes its own mark only, so the other one is named."""
    found = only(child(parent_mark=RUN))
    assert f"it also carries `{PARENT_OWNER}`, which this release leaves" in found.notes
    after = applied(patch_of(found), found.seen.raw)
    assert after["metadata"]["annotations"][PARENT_OWNER] == RUN
    found = only(parent(child_mark=" "))
    assert f"it also carries `{CHILD_OWNER}`, which this release leaves" in found.notes


@pytest.mark.parametrize("suspend", [1, 0, "true", [], {}])
def test_suspend_of_another_type_is_refused_with_a_mark_and_shown_without(suspend: Any) -> None:
    """Neither true nor false: nothing is built on it, and nothing is hidden."""
    assert why(only(child(suspend=suspend))) == "its `spec.suspend` is neither true nor false"
    assert only(child(suspend=suspend)).now == "malformed"
    foreign = only_foreign(kustomization("apps", suspend=suspend))
    assert (foreign.now, foreign.notes) == ("malformed", ("its `spec.suspend` is neither true nor false",))


@pytest.mark.parametrize("spec", [[], "x", 3])
def test_spec_that_is_no_map_is_refused(spec: Any) -> None:
    """What cannot be read cannot be guarded."""
    state = parent()
    assert "neither true nor false" in why(only(Seen(state.ref, {**state.raw, "spec": spec})))


def test_missing_spec_is_guarded_as_missing() -> None:
    """A test below a map that is not there fails by itself, so the map's own absence is what is tested."""
    state = parent()
    raw = {"metadata": state.raw["metadata"]}
    found = only(Seen(state.ref, raw))
    assert {"op": "test", "path": "/spec", "value": None} in patch_of(found).operations
    assert PARENT_OWNER not in applied(patch_of(found), raw)["metadata"]["annotations"]
    with pytest.raises(RefusedError):
        applied(patch_of(found), state.raw)


@pytest.mark.parametrize("metadata", [MISSING, [], "x", {"annotations": ["x"]}, {"annotations": "x"}])
def test_unreadable_annotations_are_refused_not_passed_over(metadata: Any) -> None:
    """An object whose marks cannot be read may be fenced."""
    state = child()
    raw = {"spec": state.raw["spec"]} | ({} if metadata is MISSING else {"metadata": metadata})
    found = only(Seen(state.ref, raw))
    assert "its annotations cannot be read" in why(found)
    assert found.group is None


def test_value_that_no_guard_can_be_written_for_is_refused() -> None:
    """A lone surrogate is no UTF-8: no byte of a patch could carry it."""
    assert "no guard can be written" in why(only(child(reconcile="\ud800")))
    assert "its uid could not be read" in why(only(child(uid="")))


@pytest.mark.parametrize("mark", [MISSING, "", None])
def test_suspension_without_a_mark_is_not_ours(mark: Any) -> None:
    """Child and parent included; there it is said that the next run of that tool refuses."""
    foreign = only_foreign(kustomization("apps", child_mark=mark, parent_mark=mark))
    assert (foreign.now, foreign.manager, foreign.notes) == ("suspended", "kubectl-patch", ())
    assert foreign.since == datetime(2026, 11, 30, 1, 46, 33, tzinfo=UTC)
    for name in ("infrastructure", "flux-system"):
        foreign = only_foreign(kustomization(name, child_mark=mark, parent_mark=mark))
        assert foreign.notes == ("that tool's next run refuses while it is suspended",)


@pytest.mark.parametrize("reconcile", ["disabled", "enabled", "", 5])
def test_child_with_any_reconcile_annotation_is_shown(reconcile: Any) -> None:
    """It carries no mark and is not suspended, and that tool's next run refuses all the same."""
    foreign = only_foreign(healthy("infrastructure", reconcile=reconcile))
    assert foreign.now == "reconciles"
    assert foreign.notes == (f"that tool's next run refuses while it carries `{RECONCILE}`",)
    assert foreign.manager == "kubectl-patch"
    assert read(healthy("flux-system", reconcile=reconcile)) == Reading((), ())
    assert len(only_foreign(kustomization("infrastructure", reconcile=reconcile)).notes) == 2


def test_mark_of_the_other_profile_is_named() -> None:
    """A suspension of fencectl's own is not ours here, and says where to look."""
    for key in ("fencectl.dev/holder", "fencectl.dev/journal"):
        foreign = only_foreign(kustomization("apps", annotations={key: "x"}))
        assert foreign.notes == ("it carries a mark of the profile `fencectl`",)


def test_absent_child_and_parent_are_shown() -> None:
    """That tool's next run refuses without them, so "nothing held" alone would say too much."""
    reading = read(counts=FLUX_READ)
    assert [(item.seen.ref.display, item.now) for item in reading.foreign] == [
        ("kustomization/flux-system/infrastructure", "absent"),
        ("kustomization/flux-system/flux-system", "absent"),
    ]
    assert reading.foreign[0].notes == ("that tool's next run refuses while it does not exist",)
    foreign = only_foreign(healthy("infrastructure"), counts=FLUX_READ)
    assert foreign.seen.ref.name == "flux-system"
    assert read(healthy("infrastructure"), healthy("flux-system"), counts=FLUX_READ) == Reading((), ())


def test_absence_is_not_concluded_from_a_gap_or_without_flux() -> None:
    """A missing CRD is "not installed", and what could not be read is not absent."""
    assert read(counts=ReadCounts()) == Reading((), ())
    gap = (Unreadable("kustomizations.kustomize.toolkit.fluxcd.io", "forbidden"),)
    assert read(counts=FLUX_READ, unreadable=gap) == Reading((), ())


def test_no_object_hides_another() -> None:
    """Two fences and a stranger stay three."""
    found = fences(child(), parent(" "))
    assert set(found) == {"infrastructure", "flux-system"}
    assert found["infrastructure"].release is not None
