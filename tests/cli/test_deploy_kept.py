"""What the result of a deploy says of suspensions that stay on purpose."""

from __future__ import annotations

import pytest

from fencectl.commands.deploy_kept import kept_commands, kept_data, kept_lines
from fencectl.core.journal import Phase
from fencectl.core.marks import read_mark
from fencectl.core.refs import Seen
from fencectl.core.report import FenceKind
from fencectl.report.commands import Where
from fencectl.report.style import Style
from fencectl.run.fencing import Fence
from fencectl.run.keeping import Kept
from tests.support.objects import NOW, marked_kustomization

WHY = "rolled back: main@sha1:9be1c044 must not come back"


def fence(seen: Seen) -> Fence:
    mark = read_mark(seen)
    assert mark is not None
    assert mark.journal is not None
    return Fence(FenceKind.SUSPENSION, seen, mark.journal)


def kept(name: str, rank: int = 1, applied_by: str | None = None, reason: str = WHY) -> Fence:
    return fence(
        marked_kustomization(name, phase=Phase.KEPT, rank=rank, seq=rank, applied_by=applied_by, reason=reason)
    )


PARENT, CHILD = kept("flux-system"), kept("apps", 2, "flux-system")


def said(found: Kept) -> str:
    return " ".join(" ".join(kept_lines(found, "prod", Style())).split())


def test_child_and_parent_are_named_with_reason_and_both_ways_on() -> None:
    """As an operator reads it at night; the commands follow, child first."""
    found = Kept(fences=[PARENT, CHILD])
    assert said(found) == (
        "now 2 fences are KEPT on purpose: kustomization/flux-system/apps and its parent flux-system, suspended "
        f"reason: {WHY}; Flux would apply it again "
        "hint: merge the fix or the revert first, then `fencectl deploy --adopt-kept`, or resume both, child first "
        "(the parent's line follows this one):"
    )
    commands = kept_commands(found, Where(context="prod"), now=NOW)
    assert [" apps " in line for line in commands] == [True, False]
    assert all(len(line) <= 80 for line in kept_lines(found, "prod", Style()))


@pytest.mark.parametrize(
    ("fences", "texts"),
    [
        ([PARENT], ["1 fence is KEPT on purpose: kustomization/flux-system/flux-system, suspended", "resume it:"]),
        ([PARENT, kept("other")],
         ["kustomization/flux-system/flux-system, kustomization/flux-system/other, suspended", "resume all 2, in this order:"]),
        ([PARENT, CHILD, kept("deep", 3, "apps")], ["3 fences are KEPT", "resume all 3, in this order:"]),
    ],
)  # fmt: skip
def test_any_number_of_them_is_said_as_it_is(fences: list[Fence], texts: list[str]) -> None:
    """No chain is called one that is none."""
    assert all(text in said(Kept(fences=fences)) for text in texts)


def test_what_was_not_adopted_is_kept_as_before_and_nothing_kept_says_nothing() -> None:
    """Its commands are in the report: this run holds none of it."""
    before = Kept(before=[CHILD.seen.ref])
    assert "as before this deploy, kustomization/flux-system/apps: KEPT on purpose" in said(before)
    assert "`fencectl fences --context prod` shows how to resume" in said(before)
    assert kept_data(before) == {"keptBefore": ["kustomization/flux-system/apps"]}
    assert (kept_lines(Kept(), "prod", Style()), kept_data(Kept())) == ([], {})
    assert kept_commands(Kept(), Where(), now=NOW) == []


def test_reason_from_the_cluster_cannot_command_the_log() -> None:
    """An adopted journal's reason is foreign text."""
    lines = kept_lines(Kept(fences=[kept("apps", reason="\x1b[2J\n::error::gone")]), "prod", Style())
    assert not any("\x1b" in line or line.startswith("::") for line in lines)
    data = kept_data(Kept(fences=[CHILD]))
    assert data == {"kept": [{"object": "kustomization/flux-system/apps", "reason": WHY}]}
