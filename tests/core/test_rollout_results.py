"""Aspects: worst first · the verdict of all · whether nodes alone are to blame."""

from __future__ import annotations

import pytest

from fencectl.core.refs import ObjectRef
from fencectl.core.rollout import Cause, Followed, Result, RolloutVerdict as V, Target, worst_first, worst_verdict


def result(verdict: V, name: str = "web", cause: Cause = Cause.ROLLING, *, kind: str = "Deployment") -> Result:
    ref = ObjectRef("apps/v1", kind, f"{kind.lower()}s", "shop", name, "u")
    return Result(Target(ref, 1), verdict, cause, "so", 1.0)


def test_results_stand_worst_first_then_by_name() -> None:
    """Failed, unknown, timed out, waiting, succeeded; within one verdict by kind, namespace, name."""
    mixed = [result(V.SUCCEEDED, "a"), result(V.WAITING), result(V.FAILED, "z"), result(V.TIMED_OUT)]
    mixed += [result(V.UNKNOWN), result(V.FAILED, "b"), result(V.FAILED, "c", kind="DaemonSet")]
    found = [(one.verdict, one.target.ref.display) for one in worst_first(mixed)]
    assert found[:3] == [
        (V.FAILED, "daemonset/shop/c"), (V.FAILED, "deployment/shop/b"), (V.FAILED, "deployment/shop/z"),
    ]  # fmt: skip
    assert [verdict for verdict, _ in found[3:]] == [V.UNKNOWN, V.TIMED_OUT, V.WAITING, V.SUCCEEDED]


@pytest.mark.parametrize("verdict", [V.FAILED, V.UNKNOWN, V.TIMED_OUT, V.WAITING])
def test_one_object_that_has_not_succeeded_decides(verdict: V) -> None:
    """A hundred good ones do not outweigh it."""
    assert worst_verdict([*(result(V.SUCCEEDED) for _ in range(100)), result(verdict)]) is verdict


def test_nothing_followed_is_a_success() -> None:
    """Nothing was to be done, and it is done."""
    assert worst_verdict([]) is V.SUCCEEDED


@pytest.mark.parametrize(
    ("causes", "blames"),
    [([Cause.NODE], True), ([Cause.NODE, Cause.NODE], True), ([Cause.NODE, Cause.CRASH], False), ([], False)],
)
def test_nodes_are_to_blame_only_where_nothing_else_is_wrong(causes: list[Cause], blames: bool) -> None:
    """case_54: a node that is down is no reason to go back; a crash beside it is one."""
    results = (result(V.SUCCEEDED, cause=Cause.DONE), *(result(V.TIMED_OUT, cause=cause) for cause in causes))
    assert Followed(results, worst_verdict(results)).blames_nodes is blames
