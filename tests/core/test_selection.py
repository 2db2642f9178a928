"""What `release` prints: one holder's fences, in turn; nothing live, nothing unread, nothing unproven unless named."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from fencectl.core.assemble import assemble, read_runs
from fencectl.core.errors import ExitCode, FencectlError
from fencectl.core.evidence import Strength, Verdict
from fencectl.core.journal import Phase
from fencectl.core.observation import Unreadable
from fencectl.core.profiles import FENCECTL
from fencectl.core.refs import Seen
from fencectl.core.report import FenceReport
from fencectl.core.selection import Selection, select
from tests.support.objects import (
    HOLDER,
    OTHER,
    before,
    kustomization,
    lease,
    marked_kustomization,
    marked_node,
    node,
    observation,
)


def report(*seen: Seen, dead: bool = False, **more: Any) -> FenceReport:
    found = assemble(read_runs(observation(*seen, **more), FENCECTL))
    if not dead:
        return found
    blocks = tuple(
        replace(block, judgement=replace(block.judgement, verdict=Verdict.DEAD, strength=Strength.PROVEN))
        for block in found.blocks
    )
    return replace(found, blocks=blocks)


def chosen(found: FenceReport, *fences: str, holder: str | None = HOLDER) -> Selection:
    selection = select(found, holder=holder, fences=fences)
    assert selection is not None
    return selection


def names(selection: Selection) -> list[str]:
    return [entry.object.name for entry in selection.entries]


CHAIN = (lease(), marked_kustomization("apps"), marked_node("n1", seq=8), marked_node("n2", seq=9))


def test_dead_holder_is_chosen_without_being_named() -> None:
    """All of it, in release order."""
    assert names(chosen(report(*CHAIN, dead=True), holder=None)) == ["n2", "n1", "apps", "fencectl-deploy"]


def test_unknown_holder_is_chosen_only_by_name() -> None:
    """A person vouches for it; the refusal says how to check and what to type."""
    with pytest.raises(FencectlError) as raised:
        select(report(*CHAIN), holder=None, fences=())
    assert raised.value.exit_code is ExitCode.HELD_PERSON_NEEDED
    assert "gh run view 18093344127" in (raised.value.hint or "")
    assert f"--holder {HOLDER}" in (raised.value.hint or "")
    assert len(chosen(report(*CHAIN)).entries) == 4
    assert len(chosen(report(*CHAIN), holder="18093344127.2").entries) == 4


def test_unknown_opaque_holder_says_how_to_name_it() -> None:
    """There is nothing to look up."""
    with pytest.raises(FencectlError, match="nobody has proven") as raised:
        select(report(lease(holder="deadbeef-3904-2045")), holder=None, fences=())
    assert raised.value.hint == "find out what it is, then name it: --holder deadbeef-3904-2045"


def test_live_holder_is_never_chosen_even_by_name() -> None:
    """Waiting helps."""
    with pytest.raises(FencectlError, match="is live") as raised:
        select(report(lease(renewed_at=before(1)), marked_node()), holder=HOLDER, fences=())
    assert raised.value.exit_code is ExitCode.HELD_LIVE


def test_incomplete_report_prints_nothing() -> None:
    """An earlier fence may be hidden in what was not read."""
    with pytest.raises(FencectlError, match="incomplete") as raised:
        select(report(*CHAIN, unreadable=(Unreadable("nodes", "forbidden"),)), holder=HOLDER, fences=())
    assert raised.value.exit_code is ExitCode.INCOMPLETE


def test_several_holders_and_none_named_is_an_error_with_the_list() -> None:
    """Nobody guesses whose fences are meant."""
    two = report(*CHAIN, marked_node("n3", holder=OTHER), dead=True)
    with pytest.raises(FencectlError, match="2 holders") as raised:
        select(two, holder=None, fences=())
    assert raised.value.exit_code is ExitCode.USAGE
    assert HOLDER in (raised.value.hint or "")
    assert OTHER in (raised.value.hint or "")
    assert names(chosen(two, holder=OTHER)) == ["n3"]


def test_holder_that_holds_nothing_is_an_error_with_the_list() -> None:
    """A misspelt identity must not look like "nothing held"."""
    with pytest.raises(FencectlError, match="no holder `x`") as raised:
        select(report(*CHAIN), holder="x", fences=())
    assert HOLDER in (raised.value.hint or "")


def test_nothing_held_is_no_error() -> None:
    """There is nothing to release."""
    assert select(report(), holder=None, fences=()) is None


def test_refused_fence_stops_what_comes_after_it() -> None:
    """What can go before it is printed, it and the rest are named."""
    selection = chosen(report(*CHAIN[:3], marked_node("n2", seq=9, phase=Phase.MUTATING)))
    assert names(selection) == ["n1"]
    assert selection.refused
    assert selection.refused.object.name == "n2"
    assert [entry.object.name for entry in selection.rest] == ["apps", "fencectl-deploy"]
    assert [entry.object.name for entry in selection.all] == ["n1", "n2", "apps", "fencectl-deploy"]


def test_named_fences_are_printed_in_release_order() -> None:
    """However they were typed; of one rank any may go alone."""
    assert names(chosen(report(*CHAIN), "node/n1")) == ["n1"]
    typed = ("kustomization/flux-system/apps", "node/n1", "NODE/N2")
    assert names(chosen(report(*CHAIN), *typed)) == ["n2", "n1", "apps"]


def test_named_fence_is_refused_while_an_earlier_one_is_held() -> None:
    """The lease freed early would let a deploy start against a half-recovered cluster."""
    with pytest.raises(FencectlError, match="waits for node/n2") as raised:
        select(report(*CHAIN), holder=HOLDER, fences=("lease/flux-system/fencectl-deploy",))
    assert raised.value.exit_code is ExitCode.HELD_PERSON_NEEDED


def test_kept_fence_is_left_out_unless_it_is_named() -> None:
    """Keeping it was the point; naming it is meant."""
    kept = report(lease(), marked_kustomization("apps", phase=Phase.KEPT))
    assert names(chosen(kept)) == ["fencectl-deploy"]
    assert [entry.object.name for entry in chosen(kept).kept] == ["apps"]
    assert names(chosen(kept, "kustomization/flux-system/apps")) == ["apps"]


@pytest.mark.parametrize(
    ("typed", "code", "why"),
    [
        ("node/nope", 2, "no fence `node/nope`"),
        ("node/foreign", 19, "is not ours"),
        ("node/unowned", 19, "is refused"),
    ],
)
def test_named_fence_that_cannot_be_chosen_says_why(typed: str, code: int, why: str) -> None:
    """A misspelt one, somebody else's, and one that names no holder."""
    unowned = node("unowned", annotations={"fencectl.dev/holder": ""})
    found = report(*CHAIN, node("foreign", unschedulable=True), unowned)
    with pytest.raises(FencectlError, match=why) as raised:
        select(found, holder=None, fences=(typed,))
    assert raised.value.exit_code == code


def test_fences_of_two_holders_are_not_one_release() -> None:
    """Each holder has its own verdict."""
    found = report(*CHAIN, marked_node("n3", holder=OTHER))
    with pytest.raises(FencectlError, match="do not belong to one holder"):
        select(found, holder=None, fences=("node/n1", "node/n3"))


def test_only_unowned_fences_need_a_person() -> None:
    """A mark that names nobody can be released for nobody."""
    found = report(kustomization(annotations={"fencectl.dev/holder": " "}))
    with pytest.raises(FencectlError, match="names no holder") as raised:
        select(found, holder=None, fences=())
    assert raised.value.exit_code is ExitCode.HELD_PERSON_NEEDED


def test_parent_of_a_kept_child_is_not_printed_alone() -> None:
    """While the child carries `reconcile: disabled`, its parent would drop it from its inventory."""
    child = marked_kustomization(phase=Phase.KEPT, applied_by="flux-system", rank=2)
    found = report(lease(), child, marked_kustomization("flux-system", phase=Phase.KEPT, rank=1))
    parent = "kustomization/flux-system/flux-system"
    with pytest.raises(FencectlError, match="waits for kustomization/flux-system/infrastructure") as raised:
        select(found, holder=HOLDER, fences=(parent,))
    assert raised.value.exit_code is ExitCode.HELD_PERSON_NEEDED
    both = chosen(found, parent, "kustomization/flux-system/infrastructure")
    assert names(both) == ["infrastructure", "flux-system"]


def test_name_that_two_fences_share_chooses_neither() -> None:
    """Two kinds of one name in different API groups: the command of the wrong one would be printed."""
    one, twin = marked_kustomization(), marked_kustomization(uid="uid-other")
    other = Seen(replace(twin.ref, api_version="other.toolkit.fluxcd.io/v1"), twin.raw)
    with pytest.raises(FencectlError, match="2 fences are called") as raised:
        select(report(one, other), holder=HOLDER, fences=(one.ref.display,))
    assert raised.value.exit_code is ExitCode.USAGE
