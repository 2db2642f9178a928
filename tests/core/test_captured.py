"""
Aspects: nothing of a fence in what is captured, for every prior state · what others wrote since stays · copied marks
only go · nothing of the server's own · what was read is left as it is.

Placements are applied by the sandbox's JSON patch, which is checked against the real API server's.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fencectl.core.captured import SERVER_OWNED, before_of, cleaned
from fencectl.core.journal import Journal
from fencectl.core.marks import read_mark
from fencectl.core.patches import GuardedPatch
from fencectl.core.placements import Placed, place_cordon, place_suspension, rewrite_token
from fencectl.core.profiles import HOLDER, JOURNAL, NESTED, RECONCILE, REQUESTED_AT, SUSPENDED_BY
from fencectl.core.refs import Seen
from fencectl.sandbox.jsonpatch import apply_patch, read_patch
from tests.support.objects import HOLDER as RUN, journal, kustomization, mark, node

CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
DEDICATED = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
FOREIGN = {"note.example.io/a~b": "x&y <z> é 💥", "plain": ""}


def patched(seen: Seen, patch: GuardedPatch) -> Seen:
    return Seen(seen.ref, apply_patch(copy.deepcopy(dict(seen.raw)), patch=read_patch(patch.body)))


def fenced(seen: Seen) -> Seen:
    place = place_cordon if seen.ref.kind == "Node" else place_suspension
    placed = place(seen, journal(holder=RUN, uid="", seq=3))
    assert isinstance(placed, Placed), placed
    return patched(seen, placed.patch)


noted = st.none() | st.dictionaries(
    st.sampled_from([*FOREIGN, REQUESTED_AT, SUSPENDED_BY, RECONCILE]),
    st.sampled_from(["disabled", "enabled", "", "é&<", RUN]),
    min_size=1,
)


@given(
    suspend=st.sampled_from([None, False]),
    found=noted,
    applied_by=st.sampled_from([None, "flux-system"]),
    overwritten=st.integers(0, 2),
)
def test_object_under_a_suspension_is_captured_as_it_was_before_it(
    suspend: bool | None, found: dict[str, str] | None, applied_by: str | None, overwritten: int
) -> None:
    """With the drain token written anew, too. NB: a `suspendedBy` with the run's own name was not there before."""
    if found is not None and found.get(SUSPENDED_BY) == RUN:
        found[SUSPENDED_BY] = "ann"
    before = kustomization(suspend=suspend, annotations=found, applied_by=applied_by)
    under = fenced(before)
    for rewrite in range(overwritten):
        under = patched(under, rewrite_token(under, journal_of(under), rewrite=rewrite + 1))
    assert under.raw != before.raw
    assert before_of(under) == before_of(before) == cleaned(before.raw)


def journal_of(seen: Seen) -> Journal:
    found = read_mark(seen)
    assert found is not None
    assert found.journal is not None
    return found.journal


@pytest.mark.parametrize("unschedulable", [None, True])
@pytest.mark.parametrize("taints", [None, [DEDICATED]])
def test_node_under_a_claim_is_captured_with_the_scheduling_that_it_had(
    unschedulable: bool | None, taints: list[dict[str, Any]] | None
) -> None:
    """The taint that follows a cordon goes with it, and stays where it was there before."""
    own = [*(taints or []), *([CORDONED] if unschedulable else [])]
    before = node(unschedulable=unschedulable, taints=own or None)
    under = fenced(before)
    spec: Any = under.raw["spec"]
    if not unschedulable:
        spec["taints"] = [*own, CORDONED]
    assert before_of(under) == cleaned(before.raw)


def test_what_others_wrote_since_the_fence_is_captured_as_it_is() -> None:
    """Another `requestedAt`, another name, a reconcile annotation of somebody's own; resumed by a person."""
    under = fenced(kustomization(applied_by="flux-system", annotations={"a": "b"}))
    meta, spec = under.raw["metadata"], under.raw["spec"]
    meta["annotations"] |= {REQUESTED_AT: "2026-11-30", SUSPENDED_BY: "ann", RECONCILE: "enabled"}
    spec["suspend"] = False
    found = before_of(under)
    assert found["metadata"]["annotations"] == {
        "a": "b",
        REQUESTED_AT: "2026-11-30",
        SUSPENDED_BY: "ann",
        RECONCILE: "enabled",
    }
    assert found["spec"]["suspend"] is False


def test_mark_that_was_copied_only_goes() -> None:
    """Its journal is another object's, so what it tells of the time before is not this one's."""
    copied = kustomization(
        suspend=True, annotations=mark(journal(uid="another", prior={"suspend": None})) | FOREIGN
    )
    found = before_of(copied)
    assert found["spec"]["suspend"] is True
    assert found["metadata"]["annotations"] == FOREIGN


def test_marks_never_come_back_whatever_carries_them() -> None:
    """Alone, unreadable, on a kind that is never fenced: a restored mark would be a fence of nobody."""
    for broken in ({HOLDER: RUN}, {JOURNAL: "{"}, {NESTED: "x"}, {HOLDER: "", JOURNAL: ""}):
        found = before_of(kustomization(annotations=broken))
        assert "annotations" not in found["metadata"], broken


def test_nothing_of_the_servers_own_is_captured_and_all_else_is() -> None:
    """Finalizers, owners and labels are somebody's will; a status is an observation."""
    kept = {
        "name": "a",
        "namespace": "b",
        "labels": {"l": "m"},
        "finalizers": ["f"],
        "ownerReferences": [{"uid": "o"}],
    }
    raw = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {**kept, "annotations": {}, **dict.fromkeys(SERVER_OWNED, "x")},
        "type": "Opaque",
        "data": {"k": "dg=="},
        "status": {"seen": True},
    }
    assert cleaned(raw) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": kept,
        "type": "Opaque",
        "data": {"k": "dg=="},
    }


def test_what_was_read_is_left_as_it_is() -> None:
    """Whoever reads it after the capture must find the mark still there."""
    under = fenced(kustomization(applied_by="flux-system"))
    text = json.dumps(under.raw)
    before_of(under)
    assert json.dumps(under.raw) == text
