"""--explain: the result is computed from the object that was read, not from what the patch was meant to do."""

from __future__ import annotations

from msgspec.structs import replace

from fencectl.core.patches import annotation, drop, guard, put, seal
from fencectl.core.report import FenceEntry, Release
from fencectl.report.explain import explanation
from tests.report import story


def told(entry: FenceEntry) -> str:
    return " ".join(line.removeprefix("#").strip() for line in explanation(entry, read_at=story.NOW))


def test_result_follows_the_object_that_was_read() -> None:
    """The same patch on an object with another mark leaves that mark, and it is said."""
    entry = story.dead_entries()[1]
    assert "result spec.unschedulable absent; no mark left" in " ".join(told(entry).split())
    marked = {**entry.raw["metadata"], "annotations": {**entry.raw["metadata"]["annotations"], **OWNER}}
    other = replace(entry, raw={**entry.raw, "metadata": marked})
    assert "a mark is left" in told(other)


OWNER = {"platform.devantler.tech/ghcr-auth-drain-owner": "x"}


def test_patch_that_does_not_apply_to_what_was_read_says_so() -> None:
    """It removes what is not there: no result is made up."""
    entry = replace(story.dead_entries()[1], raw={"metadata": {}, "spec": {}})
    assert "cannot be computed" in told(entry)
    assert "cannot be computed" in told(replace(entry, raw={}))


def test_every_kind_of_value_has_words() -> None:
    """Absent, empty, a list, an object, a number and foreign text."""
    ref = story.node("n")
    patch = seal(
        ref,
        [
            guard("/spec/absent", None),
            guard("/spec/taints", [1]),
            guard("/spec/n", 3),
            put("/spec/empty", "", present=False),
            put("/spec/list", [1, 2], present=False),
            put("/spec/map", {"a": 1}, present=False),
            put(annotation("x/y~z"), "$(touch pwned)\n", present=False),
            drop("/spec/n"),
        ],
    )
    raw = {"metadata": {"annotations": {}}, "spec": {"n": 3, "taints": [1]}}
    text = told(replace(story.dead_entries()[0], release=Release(patch, "x"), raw=raw))
    text = " ".join(text.split())
    assert "spec.taints are as read" in text
    assert "spec.absent is absent, spec.n is 3" in text
    assert "set spec.empty to empty; set spec.list to a list of 2; set spec.map to an object of 1 keys" in text
    assert r"x/y\x7ez annotation to \x24\x28touch pwned\x29\n" in text
    assert "remove spec.n" in text


def test_fence_without_release_has_no_explanation() -> None:
    """There is nothing to explain."""
    assert explanation(story.foreign()[0], read_at=story.NOW) == []
