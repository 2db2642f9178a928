"""What stays suspended after a rollback, and how a later deploy takes it over: pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jsonpatch
import pytest

from fencectl.core.journal import Phase
from fencectl.core.keeping import is_resumed, why_kept, with_ancestors, would_bring_back
from fencectl.core.placements import CannotPlace, adopt_kept
from fencectl.core.refs import Seen
from fencectl.core.releases import lift_suspension
from tests.core.test_releases import REQUESTED, SUSPENDED_BY, apply, journal_on, lifted, placed
from tests.support.objects import HOLDER, OTHER, journal, kustomization, marked_kustomization

WEB = ("apps", "Deployment", "shop", "web")


def inventory(*ids: str) -> dict[str, Any]:
    return {"inventory": {"entries": [{"id": one, "v": "v1"} for one in ids]}}


@pytest.mark.parametrize(
    ("status", "restored", "expected"),
    [
        (inventory("shop_web_apps_Deployment", "shop_a__Service"), {WEB}, True),
        (inventory("shop_a__Service"), {WEB}, False),
        (inventory(), {WEB}, False),
        (inventory("shop_web_apps_Deployment"), set(), False),
        # Whatever nobody can say is taken for one of them.
        (inventory("shop_a__Service"), None, True),
        (None, {WEB}, True),
        (inventory("shop_a"), {WEB}, True),
    ],
)
def test_suspension_stays_where_its_object_applies_what_was_restored_or_may(
    status: Any, restored: Any, expected: bool
) -> None:
    """In doubt it stays: a suspension too many is seen, a bad revision that comes back by itself is not."""
    assert would_bring_back(kustomization(status=status), restored) is expected


def test_ancestors_stay_with_what_they_apply() -> None:
    """Up to the root, and nobody else; two that apply each other are no endless way."""
    root, apps = kustomization("flux-system"), kustomization("apps", applied_by="flux-system")
    deep, other = kustomization("deep", applied_by="apps"), kustomization("other", applied_by="flux-system")
    everything = [root, apps, deep, other]
    assert with_ancestors([deep.ref], everything) == {root.ref, apps.ref, deep.ref}
    assert with_ancestors([], everything) == frozenset()
    one, two = kustomization("one", applied_by="two"), kustomization("two", applied_by="one")
    assert with_ancestors([one.ref], [one, two]) == {one.ref, two.ref}


def test_reason_names_the_revision_that_must_not_come_back() -> None:
    """Or the generation, where no revision is known."""
    assert why_kept("main@sha1:9be1c044", 43) == "rolled back: main@sha1:9be1c044 must not come back"
    assert why_kept(None, 43) == "rolled back: generation 43 must not come back"
    assert why_kept(None, None) == "rolled back: the failed deploy must not come back"


def test_resumed_is_whatever_is_not_suspended() -> None:
    """Absent and false alike."""
    assert [is_resumed(kustomization(suspend=value)) for value in (True, False, None)] == [False, True, True]


def kept(**more: Any) -> Seen:
    more.setdefault("annotations", {SUSPENDED_BY: HOLDER, REQUESTED: "9c41e07a.3"})
    return marked_kustomization(phase=Phase.KEPT, applied_by="flux-system", reason="rolled back", **more)


def test_adopted_suspension_is_kept_by_the_new_holder_and_its_release_gives_the_object_back() -> None:
    """Whatever becomes of the adopter, nobody resumes it by rule; what was there before the first fence is kept."""
    seen = kept(generation=4)
    own = replace(journal(holder=OTHER, seq=7, rank=2), reason="deploy 44")
    adopted = placed(adopt_kept(seen, journal_on(seen), own))
    now = apply(adopted.patch, seen)
    found = journal_on(now)
    assert (found.holder, found.phase, found.reason, found.seq) == (OTHER, Phase.KEPT, "rolled back", 7)
    assert found.prior == journal_on(seen).prior
    assert found == replace(adopted.journal, source=found.source)
    annotations = now.raw["metadata"]["annotations"]
    assert annotations[SUSPENDED_BY] == OTHER
    assert annotations[REQUESTED] != "9c41e07a.3"
    given_back = apply(lifted(lift_suspension(now, found)).patch, now)
    before = kustomization(applied_by="flux-system", generation=4)
    assert (given_back.raw["spec"], given_back.raw["metadata"]) == (before.raw["spec"], before.raw["metadata"])


def test_name_of_somebody_else_on_a_kept_suspension_stays() -> None:
    """`suspendedBy` is taken over only where it named the holder before."""
    seen = kept(annotations={SUSPENDED_BY: "ann@example.com"})
    now = apply(placed(adopt_kept(seen, journal_on(seen), journal(holder=OTHER))).patch, seen)
    assert now.raw["metadata"]["annotations"][SUSPENDED_BY] == "ann@example.com"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/metadata/annotations/fencectl.dev~1holder", OTHER),
        ("/metadata/annotations/fencectl.dev~1journal", "{}"),
        ("/metadata/uid", "another"),
        ("/metadata/deletionTimestamp", "2026-11-30T00:00:00Z"),
        ("/spec/suspend", False),
    ],
)
def test_adoption_is_refused_once_what_it_read_has_changed(path: str, value: Any) -> None:
    """Resumed, released, adopted by another or deleted in between."""
    seen = kept()
    patch = placed(adopt_kept(seen, journal_on(seen), journal(holder=OTHER))).patch
    changed = jsonpatch.apply_patch(dict(seen.raw), [{"op": "add", "path": path, "value": value}])
    with pytest.raises((jsonpatch.JsonPatchTestFailed, AssertionError)):
        apply(patch, Seen(seen.ref, changed))


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (kept(live=None), "was resumed meanwhile"),
        (kept(deleting=True), "being deleted"),
    ],
)
def test_what_is_not_suspended_any_more_or_goes_away_is_not_adopted(seen: Seen, why: str) -> None:
    """There is nothing to take over, and nothing is written."""
    found = adopt_kept(seen, journal_on(seen), journal(holder=OTHER))
    assert isinstance(found, CannotPlace)
    assert why in found.why
