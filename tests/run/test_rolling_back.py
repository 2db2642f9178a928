"""
Whether a failed deploy is rolled back, and what it ends with then.

Aspects: due or not and why · exit codes after · the first cause stays · owed after an interrupt · own time · by the
real transaction.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from fencectl.core.deploy import DeployPlan, FluxPlan
from fencectl.core.errors import ExitCode as E
from fencectl.core.refs import ObjectRef
from fencectl.core.restored import Restored, RestoreVerdict as V
from fencectl.core.rollout import Cause, Followed, Result as One, RolloutVerdict, Target, worst_verdict
from fencectl.run.fencing import Ledger
from fencectl.run.handing_over import Handed
from fencectl.run.keeper import LeaseLostError, Loss
from fencectl.run.rolling_back import codes_after, is_timed_out, why_not_due
from fencectl.run.stage import Result
from tests.support.applying import CM, Applying, config_map
from tests.support.deploying import LEASE

PLAN = DeployPlan(lease=LEASE, command=("true",), rollback_s=600.0)
REF = ObjectRef("kustomize.toolkit.fluxcd.io/v1", "Kustomization", "kustomizations", "flux-system", "apps", "u")


def failed(*codes: E, followed: Followed | None = None) -> Result:
    handed = Handed(1, followed=followed) if followed is not None else None
    return Result(codes=list(codes), applied=True, handed=handed)


def followed(*found: tuple[RolloutVerdict, Cause]) -> Followed:
    results = tuple(One(Target(REF, 1), verdict, cause, "as told", 1.0) for verdict, cause in found)
    return Followed(results, worst_verdict(results))


CRASH = (RolloutVerdict.FAILED, Cause.CRASH)
NODE = (RolloutVerdict.TIMED_OUT, Cause.NODE)


def test_failed_deploy_is_rolled_back_but_not_what_is_only_unknown_or_the_nodes_fault() -> None:
    """case_54: a node that is down is no fault of what was deployed; what is not known to have failed stays."""
    new = E.FAILED_NEW_STATE_LIVE
    assert why_not_due(PLAN, failed(new), Ledger()) is None
    assert why_not_due(PLAN, failed(new, followed=followed(CRASH, NODE)), Ledger()) is None
    nodes = why_not_due(PLAN, failed(new, followed=followed(NODE)), Ledger())
    assert nodes == "nodes are down: that is no fault of what was deployed"
    assert why_not_due(PLAN, failed(E.OUTCOME_UNKNOWN), Ledger()) == "it is not known to have failed"
    assert why_not_due(PLAN, Result(codes=[E.FAILED_PREVIOUS_RUNS]), Ledger()) == "nothing was changed"
    lost = replace(failed(new), lost=LeaseLostError(Loss.STOLEN, reason="x"))
    assert why_not_due(PLAN, lost, Ledger()) == "the lease is lost"


def test_nothing_is_put_back_while_flux_is_not_suspended_again() -> None:
    """It would undo it."""
    plan = replace(PLAN, flux=FluxPlan(REF, ((REF, 1),)))
    why = why_not_due(plan, failed(E.FAILED_NEW_STATE_LIVE), Ledger())
    assert why == "kustomization/flux-system/apps is not suspended, and would undo it"


@pytest.mark.parametrize(
    ("verdict", "timed_out", "expected"),
    [
        (V.BACK, False, E.FAILED_PREVIOUS_RUNS),
        (V.BACK, True, E.TIMED_OUT_PREVIOUS_RUNS),
        (V.PARTIAL, False, E.FAILED_NEW_STATE_LIVE),
        (V.REFUSED, True, E.FAILED_NEW_STATE_LIVE),
        (V.NO_PREVIOUS, False, E.FAILED_NEW_STATE_LIVE),
        (V.SUPERSEDED, False, E.FAILED_NEW_STATE_LIVE),
        (V.UNKNOWN, False, E.OUTCOME_UNKNOWN),
    ],
)
def test_exit_code_follows_what_runs_now(verdict: V, timed_out: bool, expected: E) -> None:
    """10 and 14 only where what ran before runs again; what else was wrong stays beside it."""
    restored = Restored(2, verdict=verdict)
    assert codes_after([E.FAILED_NEW_STATE_LIVE], restored, timed_out=timed_out) == [expected]
    assert E.STILL_FENCED in codes_after([E.STILL_FENCED], restored, timed_out=timed_out)


def test_time_out_is_what_was_followed_or_what_ended_the_step() -> None:
    """An object that failed beside one that only waited is no time-out."""
    assert is_timed_out(failed(followed=followed((RolloutVerdict.TIMED_OUT, Cause.ROLLING))))
    assert not is_timed_out(failed(followed=followed(CRASH, (RolloutVerdict.TIMED_OUT, Cause.ROLLING))))
    assert is_timed_out(Result(timed_out=True))


def test_failed_rollout_is_rolled_back_by_the_transaction_and_its_cause_stays() -> None:
    """The bad state fails, the one before it comes up: 10, with the first cause, recorded as rolled back."""
    applying = Applying()
    assert applying.deploy(config_map("a", a="1")).code is E.OK
    applying.follower.verdict = RolloutVerdict.FAILED
    verdicts = iter((RolloutVerdict.FAILED, RolloutVerdict.SUCCEEDED))

    def next_verdict() -> None:
        applying.follower.verdict = next(verdicts)

    applying.follower.on_follow = next_verdict
    result = applying.run(replace(applying.plan(config_map("a", a="2"), config_map("new")), rollback_s=60.0))
    assert result is not None
    assert (result.code, result.step) == (E.FAILED_PREVIOUS_RUNS, 8)
    assert "failed" in (result.cause or "")
    assert applying.get(f"{CM}/a")["data"] == {"a": "1"}
    assert applying.names() == ["a", "new"]
    assert result.rolled_back is not None
    assert [ref.name for ref in result.rolled_back.new] == ["new"]
    assert result.outcome(interrupted=False) == "rolled-back"


def test_interrupt_while_it_is_followed_leaves_the_rollback_owed() -> None:
    """Nothing is put back after the signal."""
    applying = Applying()
    applying.deploy(config_map("a", a="1"))

    def interrupt() -> None:
        applying.scene.interrupt_code = E.TERMINATED
        applying.scene.interrupted.set()

    applying.follower.on_follow = interrupt
    result = applying.run(replace(applying.plan(config_map("a", a="2")), rollback_s=60.0))
    assert result is not None
    assert (result.code, result.rollback_owed, result.rolled_back) == (E.FAILED_NEW_STATE_LIVE, True, None)
    assert applying.get(f"{CM}/a")["data"] == {"a": "2"}
