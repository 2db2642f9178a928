"""
Hostile values in every field of every object: nothing raises, and no object hides itself or a later one.

jsonpatch is the independent reader: every release that is built applies to the very object that it was built from,
and takes the mark away.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings, strategies as st

from fencectl.core.assemble import assemble, read_runs
from fencectl.core.found import Found
from fencectl.core.profiles import GHCR_BRIDGE
from fencectl.core.refs import Seen
from fencectl.core.report import FenceKind
from tests.core.test_bridge_states import (
    CHILD_OWNER,
    MISSING,
    NODE_JOURNAL,
    NODE_OWNER,
    NODE_PHASE,
    NODE_RUN,
    OTHER_RUN,
    PARENT_OWNER,
    RECONCILE,
    RUN,
    UNSCHEDULABLE_TAINT,
    applied,
    child,
    journal_text,
    journalled,
    lease,
    node,
    observe,
    parent,
    read,
)

TEXTS = st.text(max_size=8) | st.sampled_from(
    [
        "", " ", "\x00", "\x1b[31m", "\u202e", "\ufeff", "\ud800", "::error::x", "[red]x[/red]", "a|b", "`x`",
        "disabled", "claimed", "mutating", RUN, NODE_RUN, OTHER_RUN, "2026-11-30T01:47:02.118204Z",
        journal_text(), journal_text(jphase="active"), journal_text(wasCordoned=True), "{", "[]", "0",
    ]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.just(MISSING),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


def _clean(value: Any) -> Any:
    """MISSING below the top is null."""
    if isinstance(value, dict):
        return {key: _clean(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_clean(part) for part in value]
    return None if value is MISSING else value


def put(state: Seen, changes: Mapping[tuple[str, ...], Any]) -> Seen:
    """The object with fields replaced, the outer ones last; the name it was read under stays."""
    raw: Any = copy.deepcopy(dict(state.raw))
    for path in sorted(changes, key=len, reverse=True):
        at = raw
        for step in path[:-1]:
            at = at[step]
        if changes[path] is MISSING:
            at.pop(path[-1], None)
        else:
            at[path[-1]] = _clean(changes[path])
    return Seen(state.ref, raw)


def fields(*paths: str) -> st.SearchStrategy[dict[tuple[str, ...], Any]]:
    return st.dictionaries(st.sampled_from([tuple(path.split("|")) for path in paths]), VALUES, max_size=4)


META = ("metadata", "metadata|annotations", "metadata|managedFields", "metadata|labels",
        "metadata|deletionTimestamp", "metadata|uid", "spec")  # fmt: skip
NODE_FIELDS = fields(
    *META, "spec|unschedulable", "spec|taints",
    *(f"metadata|annotations|{key}" for key in (NODE_OWNER, NODE_PHASE, NODE_JOURNAL)),
)  # fmt: skip
FLUX_FIELDS = fields(
    *META, "spec|suspend", *(f"metadata|annotations|{key}" for key in (CHILD_OWNER, PARENT_OWNER, RECONCILE))
)
LEASE_FIELDS = fields(
    *META, *(f"spec|{key}" for key in ("holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime"))
)


def carries(state: Seen, *keys: str) -> bool:
    """Whether a fence must be reported, by the plainest reading there is."""
    metadata = state.raw.get("metadata")
    if not isinstance(metadata, dict):
        return True
    annotations = metadata.get("annotations")
    if annotations is None:
        return False
    if not isinstance(annotations, dict):
        return True
    return any(annotations.get(key) not in (None, "") for key in keys)


def check(found: Found) -> None:
    """One of release and refusal; a release applies to what was read and takes its mark away."""
    assert (found.release is None) is (found.refusal is not None)
    assert (found.after is None) is (found.release is None)
    if found.group is None:
        assert found.refusal is not None
    if found.release is None:
        return
    operations = found.release.patch.operations
    assert operations[0] == {"op": "test", "path": "/metadata/uid", "value": found.ref.uid}
    assert "resourceVersion" not in {op["path"].rpartition("/")[2] for op in operations}
    guarded = {op["path"] for op in operations if op["op"] == "test"}
    # A field is only ever changed under a guard of its own; the duration is the Lease's, guarded by its times.
    changed = {op["path"] for op in operations if op["op"] != "test"}
    assert changed - guarded <= {"/spec/leaseDurationSeconds"}
    metadata = found.seen.raw.get("metadata")
    raw = {
        **found.seen.raw,
        "metadata": {**(metadata if isinstance(metadata, dict) else {}), "uid": found.ref.uid},
    }
    after = applied(found.release.patch, raw)
    if found.kind is FenceKind.LEASE:
        assert after["spec"]["holderIdentity"] == ""
    else:
        left = after["metadata"]["annotations"]
        assert not any(left.get(key) for key in (NODE_OWNER, NODE_JOURNAL, NODE_PHASE))


@settings(max_examples=150, deadline=None)
@given(st.lists(NODE_FIELDS, min_size=1, max_size=3), st.booleans())
def test_hostile_node_neither_raises_nor_hides_a_node(
    changes: list[dict[tuple[str, ...], Any]], with_journal: bool
) -> None:
    """Every node that may carry a mark or a journal is a fence, before and after the hostile ones."""
    hostile = [
        put(journalled(f"h{n}") if with_journal else node(f"h{n}"), change) for n, change in enumerate(changes)
    ]
    states = [node("first", mark=OTHER_RUN), *hostile, node("last", mark=OTHER_RUN)]
    reading = read(*states)
    expected = [state.ref for state in states if carries(state, NODE_OWNER, NODE_JOURNAL)]
    assert sorted(found.ref for found in reading.found) == sorted(expected)
    shown = {item.seen.ref for item in reading.foreign}
    assert shown.isdisjoint(expected)
    cordoned = {
        s.ref for s in states if isinstance(s.raw.get("spec"), dict) and s.raw["spec"].get("unschedulable") is True
    }
    assert cordoned <= shown | set(expected)
    for found in reading.found:
        check(found)


@settings(max_examples=150, deadline=None)
@given(FLUX_FIELDS, FLUX_FIELDS)
def test_hostile_kustomization_neither_raises_nor_hides_one(
    one: dict[tuple[str, ...], Any], other: dict[tuple[str, ...], Any]
) -> None:
    """Child and parent, each with anything in any field, and an ordinary node after them."""
    states = [put(child(), one), put(parent(), other)]
    reading = read(*states, node())
    expected = [state.ref for state in states if carries(state, CHILD_OWNER, PARENT_OWNER)]
    assert sorted(found.ref for found in reading.found) == sorted([*expected, node().ref])
    for found in reading.found:
        check(found)


@settings(max_examples=150, deadline=None)
@given(LEASE_FIELDS)
def test_hostile_lease_neither_raises_nor_hides_anything(change: dict[tuple[str, ...], Any]) -> None:
    """Held, free or malformed; a Lease whose holder is not empty is always a fence."""
    state = put(lease(), change)
    reading = read(state, child(), node())
    spec = state.raw.get("spec")
    held = isinstance(spec, dict) and spec.get("holderIdentity") not in (None, "")
    assert (state.ref in [found.ref for found in reading.found]) is held
    assert len(reading.found) == 2 + held
    for found in reading.found:
        check(found)


@settings(max_examples=60, deadline=None)
@given(NODE_FIELDS, FLUX_FIELDS, LEASE_FIELDS)
def test_hostile_state_becomes_a_report_with_every_fence(
    of_node: dict[tuple[str, ...], Any], of_child: dict[tuple[str, ...], Any], of_lease: dict[tuple[str, ...], Any]
) -> None:
    """The report counts what the reading found, each at its own place in the order."""
    states = [put(lease(), of_lease), put(child(), of_child), put(node(), of_node)]
    report = assemble(read_runs(observe(*states), GHCR_BRIDGE))
    assert len(report.held) == len(read(*states).found)
    assert [entry.order for entry in report.held] == list(range(1, len(report.held) + 1))


def test_value_nested_deeper_than_any_reader_goes_is_refused_not_raised() -> None:
    """A guard on such a value cannot be written, and that is all that follows."""
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    state = child(reconcile=deep)
    found = read(state, node(taints=[UNSCHEDULABLE_TAINT])).found
    assert [item.ref.name for item in found] == ["infrastructure", "worker-1"]
    assert found[0].refusal is not None
