"""Aspects: what goes and in which order · what stays and why · withheld is told and shrinks nothing · lost answers."""

from __future__ import annotations

from typing import Any

import pytest

from fencectl.core.applyset import PART_OF, Contents, read_contents
from fencectl.core.errors import ExitCode
from fencectl.core.profiles import HOLDER
from fencectl.core.rollout import RolloutVerdict
from tests.support.applying import CM, SET, Applying, config_map

PARENT = f"/api/v1/namespaces/{SET[0]}/configmaps/{SET[1]}"
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "extra"}}


def deployed(*names: str) -> Applying:
    applying = Applying(keeps_set=True)
    result = applying.deploy(*(config_map(name) for name in names), prune=True)
    assert result.code is ExitCode.OK, result.cause
    return applying


def contents(applying: Applying) -> Contents:
    return read_contents(applying.get(PARENT), namespace=SET[0], name=SET[1])


def prune(applying: Applying, *objects: Any, **more: Any) -> Any:
    return applying.deploy(*objects, prune=True, before=contents(applying), **more)


def change(applying: Applying, name: str, how: Any) -> None:
    raw = applying.get(f"{CM}/{name}")
    how(raw["metadata"])
    applying.scene.sandbox.store.update(raw)


def test_namespaces_go_after_what_is_in_them_and_the_parent_shrinks_last() -> None:
    """The reverse of the order of applying."""
    applying = Applying(keeps_set=True)
    applying.deploy(NAMESPACE, config_map("x", "extra"), *(config_map(n) for n in "abc"), prune=True)
    applying.scene.door.sent.clear()
    result = prune(applying, *(config_map(n) for n in "abc"))
    assert result.code is ExitCode.OK, result.cause
    writes = [(method, path) for method, path, _ in applying.scene.door.sent if "extra" in path or path == PARENT]
    assert writes == [
        ("PATCH", PARENT),
        ("DELETE", "/api/v1/namespaces/extra/configmaps/x"),
        ("DELETE", "/api/v1/namespaces/extra"),
        ("PATCH", PARENT),
    ]
    assert contents(applying) == Contents(frozenset({("", "ConfigMap")}), frozenset({"flux-system", "shop"}))


def test_object_that_left_the_set_or_is_under_a_fence_stays_and_is_told() -> None:
    """15: it should have gone and did not; what the parent records does not shrink."""
    applying = deployed("a", "b", "c", "left", "fenced")
    change(applying, "fenced", lambda metadata: metadata.update(annotations={HOLDER: "somebody"}))

    def leave(number: int) -> None:
        if applying.scene.door.sent[-1][1] == f"{CM}/c":
            change(applying, "left", lambda metadata: metadata["labels"].pop(PART_OF, None))

    applying.scene.door.after = leave
    result = prune(applying, *(config_map(n) for n in "abc"))
    assert result.code is ExitCode.OUTCOME_UNKNOWN
    assert result.cause == "configmap/shop/fenced was not pruned: it is under a fence"
    assert applying.names() == ["a", "b", "c", "fenced", "left"]


def test_object_that_is_written_between_read_and_deletion_is_read_again() -> None:
    """The deletion is of what was read: refused, read again, and gone in the end; a new one of its name stays."""
    applying = deployed("a", "b", "old")
    fault = applying.scene.sandbox.faults.on(
        lambda: change(applying, "old", lambda metadata: metadata["labels"].update(touched="yes")),
        verb="delete",
        name="old",
    )
    result = prune(applying, config_map("a"), config_map("b"))
    assert (result.code, fault.hits) == (ExitCode.OK, 1)
    assert applying.names() == ["a", "b"]


@pytest.mark.parametrize("how", ["drop_before", "drop_after"])
def test_lost_answer_of_a_deletion_is_looked_after(how: str) -> None:
    """It is read again: gone, or deleted once more."""
    applying = deployed("a", "b", "old")
    fault = getattr(applying.scene.sandbox.faults, how)(verb="delete", name="old", times=1)
    result = prune(applying, config_map("a"), config_map("b"))
    assert (result.code, fault.hits, applying.names()) == (ExitCode.OK, 1, ["a", "b"])


def test_deletion_that_is_forbidden_is_told_and_nothing_shrinks() -> None:
    """15, with the server's words."""
    applying = deployed("a", "b", "old")
    applying.scene.sandbox.faults.refuse(verb="delete", name="old", status=403)
    result = prune(applying, config_map("a"), config_map("b"))
    assert result.code is ExitCode.OUTCOME_UNKNOWN
    assert "configmap/shop/old was not pruned: 403" in (result.cause or "")


def test_prune_is_withheld_where_what_was_applied_has_not_succeeded() -> None:
    """The old objects may be what still runs."""
    applying = deployed("a", "b", "old")
    applying.follower.verdict = RolloutVerdict.FAILED
    result = prune(applying, config_map("a"), config_map("b"))
    assert result.code is ExitCode.FAILED_NEW_STATE_LIVE
    assert result.handed.pruned.withheld == "what was applied has not succeeded"
    assert applying.names() == ["a", "b", "old"]


def test_case_61_list_that_fails_half_way_withholds_the_prune_and_shrinks_nothing() -> None:
    """A later deploy that sees everything still finds what is to go."""
    applying = Applying(keeps_set=True)
    applying.deploy(config_map("a"), config_map("b"), config_map("x", "web"), prune=True)
    fault = applying.scene.sandbox.faults.refuse(verb="list", resource="configmaps", namespace="web", status=500)
    result = prune(applying, config_map("a"), config_map("b"))
    assert (result.code, fault.hits > 0) == (ExitCode.OUTCOME_UNKNOWN, True)
    assert "ConfigMap in web could not be listed: 500" in (result.cause or "")
    assert "web" in contents(applying).namespaces
    fault.cancel()
    assert prune(applying, config_map("a"), config_map("b")).code is ExitCode.OK
    assert applying.names("/api/v1/namespaces/web/configmaps") == []
    assert "web" not in contents(applying).namespaces


def test_partial_prune_that_was_allowed_takes_what_is_seen_and_keeps_the_rest_in_sight() -> None:
    """What could not be listed stays recorded, so that the next one finds it."""
    applying = Applying(keeps_set=True)
    applying.deploy(config_map("a"), config_map("old"), config_map("x", "web"), prune=True)
    fault = applying.scene.sandbox.faults.refuse(verb="list", resource="configmaps", namespace="web", status=403)
    result = prune(applying, config_map("a"), partial=True)
    assert result.code is ExitCode.OK, result.cause
    assert applying.names() == ["a"]
    assert "web" in contents(applying).namespaces
    fault.cancel()
    assert applying.names("/api/v1/namespaces/web/configmaps") == ["x"]


def test_kind_that_the_cluster_has_no_longer_has_no_members() -> None:
    """Its definition went, and its objects with it: nothing to withhold."""
    applying = deployed("a")
    gone = Contents(frozenset({("acme.io", "Widget")}), frozenset({"shop"}))
    result = applying.deploy(config_map("a"), prune=True, before=contents(applying) | gone)
    assert result.code is ExitCode.OK, result.cause
    assert contents(applying).kinds == frozenset({("", "ConfigMap")})
