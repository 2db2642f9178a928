"""
Whom a mark names, and which fences are of one run.

Aspects: every spelling · the leftmost run reference · what only looks like one · joining · blank and odd marks.
"""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from fencectl.core.bridge_marks import Mark, group_of, names_somebody, read_holder
from fencectl.core.identity import HolderKind
from tests.core.test_bridge_states import BATCH, NODE_RUN, OTHER_RUN, RUN, child, fences, lease, node, only, why

LOCAL = "4f2a91c07be3d855-local-4711-31337"
LOCAL_BATCH = "bootstrap-4f2a91c07be3-local-4711-5"
OLD = "4f2a91c07be3d855-4711-31337"


@pytest.mark.parametrize(
    ("identity", "run", "attempt"),
    [
        (RUN, 18093344127, 2),
        (BATCH, 18093344127, 2),
        ("x-gh1.2-gh3.4-5-6", 1, 2),
        ("some_thing-gh12.3-", 12, 3),
        ("a-local-host-gh1.2-5-abc", 1, 2),
        ("4f2a-gh1.2-j5-abc", 1, 2),
    ],
)
def test_leftmost_run_reference_names_the_run(identity: str, run: int, attempt: int) -> None:
    """Whatever stands around it, `-gh<run>.<attempt>-` is what that tool looks a run up by; no job is read."""
    holder = read_holder(identity)
    assert (holder.kind, holder.run, holder.attempt, holder.job) == (HolderKind.GITHUB, run, attempt, None)
    assert holder.identity == identity


@pytest.mark.parametrize(
    "identity",
    [
        OLD,
        "gh1.2-3-4",
        "a-gh1.2",
        "a-gh1-2-3",
        "a-GH1.2-3",
        "a-gh٣.2-3",
        "a b-gh1.2-3-4",
        "a\x1b[31m-gh1.2-3-4",
        f"a-gh{'9' * 21}.1-2-3",
        f"a-gh{'9' * 5000}.1-2-3",
        "a-gh1.1234567-2-3-gh1.2-",
        f"{'a' * 200}-gh1.2-3-4",
        "4f2a-pod-prod.worker-abc",
        "4f2a-local-host-77-abc",
        "o'brien",
        "",
    ],
)
def test_what_names_no_run_of_that_tool_is_opaque(identity: str) -> None:
    """No proof about a run, a process or a pod may be hung on a text that the tool cannot have written."""
    holder = read_holder(identity)
    assert holder.kind is HolderKind.OPAQUE
    assert (holder.run, holder.host, holder.pod_name) == (None, None, None)


def test_local_holder_has_revision_and_process() -> None:
    """A workstation's run is known by revision and process id; its host was never written down."""
    holder = read_holder(LOCAL)
    assert (holder.kind, holder.revision, holder.pid, holder.host) == (
        HolderKind.LOCAL,
        "4f2a91c07be3d855",
        4711,
        None,
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (RUN, NODE_RUN),
        (RUN, BATCH),
        (LOCAL, "4f2a91c07be3d855-local-4711-9"),
        (LOCAL, LOCAL_BATCH),
        (OLD, "4f2a91c07be3d855-4711-9"),
        ("o'brien", "o'brien"),
    ],
)
def test_fences_of_one_run_are_joined(one: str, other: str) -> None:
    """Run and attempt, or revision and process id; else only the very same text."""
    assert group_of(read_holder(one)) == group_of(read_holder(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (RUN, OTHER_RUN),
        (RUN, RUN.replace(".2-", ".1-")),
        (LOCAL, "4f2a91c07be3d855-local-4712-31337"),
        (LOCAL, "9be1c04477aa02d1-local-4711-31337"),
        (LOCAL, OLD),
        ("o'brien", "o'brien "),
    ],
)
def test_fences_of_two_runs_are_not_joined(one: str, other: str) -> None:
    """Another attempt is another run: one may be dead while the other lives."""
    assert group_of(read_holder(one)) != group_of(read_holder(other))


@given(st.text(max_size=300))
def test_any_text_has_a_holder_and_a_group(identity: str) -> None:
    """An identity is somebody's text: reading it never fails and never loses it."""
    holder = read_holder(identity)
    assert holder.identity == identity
    assert group_of(holder)


@pytest.mark.parametrize("value", [None, ""])
def test_empty_mark_is_no_mark(value: str | None) -> None:
    """That tool writes the empty text where it means absence."""
    mark = Mark("k", value)
    assert (mark.held, mark.fault, mark.owner, mark.text) == (False, None, None, None)


@pytest.mark.parametrize("value", [" ", "\n\t", "\u200b", "\x00", "\x1b", "\u202e", "\u00a0"])
def test_case_28_blank_mark_is_held_and_names_nobody(value: str) -> None:
    """White space and control characters are not empty: such a fence is reported, never hidden."""
    mark = Mark("k", value)
    assert (mark.held, mark.owner, mark.text) == (True, None, value)
    assert mark.fault == "its mark is blank, so it names nobody"
    for found in (only(lease(value)), only(child(value)), only(node(mark=value))):
        assert "is blank, so it names nobody" in why(found)
        assert (found.holder, found.group, found.holder_text) == (None, None, value)


@pytest.mark.parametrize("value", [0, False, 1.5, [], {}, ["x"]])
def test_mark_of_another_type_is_held_and_names_nobody(value: object) -> None:
    """A value that is no text is not taken for absence either."""
    for found in (only(lease(value)), only(child(value)), only(node(mark=value))):
        assert "is not text, so it names nobody" in why(found)
        assert (found.holder, found.group, found.holder_text) == (None, None, None)


@pytest.mark.parametrize("text", ["o'brien", "$(touch pwned)", "two\nlines", "\x1b[31mred", "::error::x", "é"])
def test_case_40_odd_text_is_a_holder_and_guarded_as_it_stands(text: str) -> None:
    """Hostile text is held by an opaque holder, joined by the text, and the patch tests that very text."""
    found = fences(lease(text), child(text), node(mark=text))
    assert {item.group for item in found.values()} == {f"holder {text}"}
    for item in found.values():
        assert item.holder_text == text
        assert item.release is not None
        assert text in [op.get("value") for op in item.release.patch.operations]


def test_visible_characters_decide_whether_a_text_names_somebody() -> None:
    """One printable character is enough, and none is not."""
    assert names_somebody(" a ")
    assert not names_somebody(" \x00\u200b ")
