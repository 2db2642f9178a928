"""
Step 7: apply only the canary, follow it, let the certify command judge it, and decide whether the rest may follow.

The canary goes the way of step 8, object by object. What is rejected ends the deploy; what is merely not certified
ends it too, unless that was allowed, and is said aloud either way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from fencectl.core.certification import Certification, Judged, Outcome, by_command, certify, worse
from fencectl.core.deploy import CertifyPlan, DeployPlan
from fencectl.core.errors import ExitCode, FencectlError
from fencectl.core.rollout import RolloutVerdict
from fencectl.run.flux_revision import Hands
from fencectl.run.handing_over import Handed, apply_and_follow
from fencectl.run.keeper import Keeper
from fencectl.run.nodes_certify import NodeCertifier
from fencectl.run.overseer import Overseer
from fencectl.run.payload import Payload
from fencectl.run.stage import Result, Stage
from fencectl.run.story import StoppedError

ALLOW_HINT = "look at what the canary did; `--allow-uncertified` goes on over what nobody could certify"
_NOT_REACHED = Certification(Outcome.UNAVAILABLE, "the deploy ended before anything was certified")


class NotCertifiedError(FencectlError):
    """The canary may not be followed by the rest. Whether it is live is for the deploy to know."""

    def __init__(self, decision: Certification, code: ExitCode) -> None:
        if decision.rejected:
            super().__init__("the canary was rejected", reason=decision.why)
        else:
            super().__init__(
                f"the canary was not certified ({decision.word})", reason=decision.why, hint=ALLOW_HINT
            )
        self.exit_code = code


def certifier_of(plan: DeployPlan, result: Result) -> NodeCertifier | None:
    """What certifies rolled nodes; None: nothing does. The result keeps the least good that it finds."""

    def note(decision: Certification) -> None:
        result.certification = worse(result.certification, decision)

    certify_plan = plan.certify
    is_asked = certify_plan is not None and certify_plan.command and plan.node_command
    return NodeCertifier(certify_plan, note) if certify_plan is not None and is_asked else None


def certified_so_far(plan: DeployPlan, result: Result, *, ended: bool) -> Certification:
    """What is known by now; where the deploy has `ended` and nothing was looked at, that says so."""
    asked = plan.certify is not None and (plan.certify.canary is not None or (plan.nodes and plan.node_command))
    if ended and asked and result.certification.outcome is Outcome.NOT_REQUESTED:
        result.certification = _NOT_REACHED
    return result.certification


def certify_canary(
    stage: Stage,
    result: Result,
    plan: DeployPlan,
    keeper: Keeper,
    lent: Hands,
    environ: Mapping[str, str],
    processes: Callable[[], Overseer],
) -> None:
    """
    Do step 7; the result tells what came of it, also when it ends early.

    Raises NotCertifiedError where the deploy may not go on, StoppedError, and what applying raises.
    """
    asked, before = plan.certify, result.certification
    if asked is None or asked.canary is None:
        return
    handed = result.canary = Handed(len(asked.canary.objects))
    try:
        apply_and_follow(
            stage,
            result,
            keeper,
            asked.canary,
            handed,
            lent.stop_if_asked,
            lent.must_stop,
            plan.timeout_s,
            step=7,
        )
        if handed.followed is not None and handed.followed.stopped is not None:
            raise StoppedError(handed.followed.stopped)
        rollout, why = _rollout(handed)
        # NB: a node that is down says nothing of what was deployed.
        known = rollout if not (handed.followed and handed.followed.blames_nodes) else RolloutVerdict.UNKNOWN
        if rollout is RolloutVerdict.SUCCEEDED and asked.command:
            decision = _ask(stage, asked, lent, environ, processes())
        else:
            decision = certify(known, Judged.NOT_GIVEN, why=why)
    except FencectlError as failure:
        undecided = Certification(Outcome.UNAVAILABLE, failure.sentence)
        result.certification = worse(before, undecided)
        raise
    goes_on = decision.goes_on(allow_uncertified=asked.allow_uncertified)
    decision = replace(decision, allowed=goes_on and decision.outcome is not Outcome.CERTIFIED)
    result.certification = worse(before, decision)
    said = f"canary {decision.word}{', and that is allowed' if decision.allowed else ''}"
    stage.tell(7, f"{said}: {decision.why}" if decision.outcome is not Outcome.CERTIFIED else said)
    if not goes_on:
        raise NotCertifiedError(decision, _code(rollout))


def _rollout(handed: Handed) -> tuple[RolloutVerdict, str]:
    """What became of the canary's objects, all of them, and why."""
    held = [one.ref.display for one in handed.tally.made if one.held]
    if held:
        return RolloutVerdict.UNKNOWN, f"{held[0]} cannot be followed: this run suspends it"
    if handed.followed is None:
        return RolloutVerdict.UNKNOWN, handed.cause or "it was not followed"
    why = handed.reason or handed.cause or ""
    outcome = handed.followed.outcome
    if outcome is RolloutVerdict.SUCCEEDED and handed.codes:
        outcome = RolloutVerdict.UNKNOWN
    return outcome, why


def _ask(
    stage: Stage, asked: CertifyPlan, lent: Hands, environ: Mapping[str, str], processes: Overseer
) -> Certification:
    """Run the certify command over a canary that is up and running."""
    lent.stop_if_asked()
    stage.tell(7, "the certify command runs")
    with stage.handed_over():
        command = Payload(asked.command, environ=environ, clock=stage.clock, processes=processes)
        ended = command.wait(timeout_s=asked.timeout_s, must_stop=lent.must_stop)
    if ended.why_stopped is not None and not ended.timed_out:
        lent.stop_if_asked()
        raise StoppedError(ended.why_stopped)
    return by_command(ended.code, timeout_s=asked.timeout_s if ended.timed_out else None)


def _code(rollout: RolloutVerdict) -> ExitCode:
    """The exit code where nothing of the canary is live; where it is, the transaction knows better."""
    if rollout is RolloutVerdict.UNKNOWN:
        return ExitCode.OUTCOME_UNKNOWN
    if rollout is RolloutVerdict.TIMED_OUT:
        return ExitCode.TIMED_OUT_PREVIOUS_RUNS
    return ExitCode.FAILED_PREVIOUS_RUNS
