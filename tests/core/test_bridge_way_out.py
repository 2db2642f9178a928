"""
The way out of a refused node: by hand, or by that tool's next run once its Lease is freed knowingly.

Aspects: which of the two applies · the command only where it frees the right Lease · when only refused nodes are left.
"""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from fencectl.core.bridge import lease_way_out
from fencectl.core.refs import Seen
from tests.core.test_bridge_states import (
    BATCH,
    MISSING,
    OTHER_RUN,
    RUN,
    advice,
    child,
    fences,
    journalled,
    kustomization,
    lease,
    node,
    parent,
    read,
)

COMMAND = (
    f"fencectl release lease/flux-system/ghcr-auth-refresh --holder {RUN} --profile ghcr-bridge --context prod"
)
HAND = "prove and repair this node by hand: that tool's next run does not clear it"
KNOWINGLY = "when the rest is released, free the Lease knowingly and let that tool's next run clear it"
LATER = "that tool's next run clears it; that can start once nobody holds lease/flux-system/ghcr-auth-refresh"
NOT_READY = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    "refused",
    [
        journalled("x", jphase="active"),
        journalled("x", jphase="retain"),
        node("x", phase="mutating"),
        node("x", phase=MISSING),
        node("x", journal="not json"),
        node("x", mark=" "),
        node("x", taints="x"),
        journalled("x", taints="x"),
        journalled("x", jphase="release-ready", v=2),
    ],
)
def test_what_no_run_clears_is_proven_and_repaired_by_hand(refused: Seen) -> None:
    """`active` and `retain` have no automatic way, nor has what that tool cannot read."""
    said = advice(fences(lease(), refused)["x"])
    assert HAND in said
    assert KNOWINGLY not in said
    assert not any("fencectl release" in line for line in said)


@pytest.mark.parametrize(
    "refused",
    [
        journalled("x", jphase="release-ready"),
        journalled("x", unschedulable=MISSING),
        journalled("x", taints=NOT_READY),
        node("x", deleting="2026-11-30T02:00:00Z"),
    ],
)
def test_what_the_next_run_clears_names_the_command_that_frees_the_lease(refused: Seen) -> None:
    """`rollback-safe` and `release-ready` journals and claimed nodes; never both ways at once."""
    said = advice(fences(lease(), refused)["x"])
    assert said[-2:] == (KNOWINGLY, COMMAND)
    assert HAND not in said


def test_sibling_of_a_faulty_journal_is_cleared_after_that_was_repaired() -> None:
    """The next run, too, has to understand every journal."""
    said = advice(fences(lease(), node("bad", journal="x"), journalled("x"))["x"])
    assert said == ("repair node/bad by hand first, then ask for this report again", KNOWINGLY, COMMAND)


@pytest.mark.parametrize(
    "others",
    [[], [lease("", duration=1)], [lease(OTHER_RUN)], [lease(" ")], [lease(MISSING)], [lease(RUN, name="other")]],
)
def test_lease_that_is_free_or_held_by_another_gives_no_command(others: list[Seen]) -> None:
    """A command that frees somebody else's Lease must never stand under this node."""
    assert advice(fences(*others, journalled("x", jphase="release-ready"))["x"]) == (LATER,)


def test_node_of_nobody_gets_no_command() -> None:
    """A node whose run is unknown never names a Lease, be that one's holder unknown as well."""
    found = fences(lease(" "), journalled("x", owner=" ", jphase="release-ready"))
    assert advice(found["x"]) == (LATER,)


@pytest.mark.parametrize(
    ("more", "holder"),
    [({"context": "two words"}, RUN), ({"kubeconfig": "/tmp/k\x1b"}, RUN), ({}, "two words"), ({}, "a\x1b[31m")],
)
def test_command_that_would_not_run_as_it_stands_is_left_out(more: dict[str, Any], holder: str) -> None:
    """No placeholder and no text that display would have to change."""
    found = fences(lease(holder), journalled("x", owner=holder, jphase="release-ready"), **more)
    assert advice(found["x"]) == (KNOWINGLY,)


def test_command_is_quoted_and_names_the_cluster_that_was_read() -> None:
    """An apostrophe in a holder and a kubeconfig are arguments, not syntax."""
    found = fences(
        lease("o'brien"),
        journalled("x", owner="o'brien", jphase="release-ready"),
        context=None,
        kubeconfig="/etc/k8s/$HOME",
    )
    assert shlex.split(advice(found["x"])[-1]) == [
        "fencectl", "release", "lease/flux-system/ghcr-auth-refresh", "--holder", "o'brien",
        "--profile", "ghcr-bridge", "--kubeconfig", "/etc/k8s/$HOME",
    ]  # fmt: skip


def test_refused_lease_gives_no_command() -> None:
    """There is no release of it that the verb could print."""
    assert advice(fences(lease(uid=""), journalled("x", jphase="release-ready"))["x"]) == (KNOWINGLY,)


REFUSED_NODE = node("refused", phase="mutating")


def test_lease_may_go_when_only_refused_nodes_of_its_run_are_left() -> None:
    """Nodes of another run do not count, nor do fences that name nobody."""
    way_out = lease_way_out(
        read(lease(), REFUSED_NODE, node("other", mark=OTHER_RUN), child(OTHER_RUN), parent(" "))
    )
    assert way_out is not None
    assert way_out.is_open
    assert way_out.lease.holder_text == RUN
    assert [found.ref.name for found in way_out.refused] == ["refused"]
    assert way_out.first == ()


@pytest.mark.parametrize(
    "first",
    [
        child(),
        parent(),
        node("claimed", mark=BATCH),
        kustomization("apps", child_mark=RUN),
        child(suspend="x"),
    ],
)
def test_lease_stays_while_anything_else_of_its_run_is_held(first: Seen) -> None:
    """What can be released is released first; a refused suspension is no node that a next run clears."""
    way_out = lease_way_out(read(lease(), REFUSED_NODE, first))
    assert way_out is not None
    assert not way_out.is_open
    assert [found.ref for found in way_out.first] == [first.ref]


def test_lease_of_a_run_without_refused_nodes_needs_no_way_out() -> None:
    """Nothing waits, so its ordinary release is printed."""
    way_out = lease_way_out(read(lease()))
    assert way_out is not None
    assert (way_out.is_open, way_out.refused, way_out.first) == (False, (), ())


def test_refused_lease_has_no_way_out() -> None:
    """Without uid there is no patch to print."""
    way_out = lease_way_out(read(lease(uid=""), REFUSED_NODE))
    assert way_out is not None
    assert not way_out.is_open


@pytest.mark.parametrize("state", [[], [lease("", duration=1)], [lease(" ")]])
def test_lease_that_nobody_holds_has_no_way_out(state: list[Seen]) -> None:
    """Free, absent, or held by a blank text: there is no holder to name."""
    assert lease_way_out(read(*state, REFUSED_NODE)) is None
