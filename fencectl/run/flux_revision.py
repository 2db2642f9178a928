"""
Step 8 by Flux: resume an object and its ancestors, and follow the revision that it takes.

What does not come to success is suspended again, with its drain proof, before anything else happens: Flux must not
go on with a revision that is known to be bad while somebody decides. An interrupt or a lost lease leaves no time
for that; then step 10 has the word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fencectl.core.deploy import FluxPlan
from fencectl.core.errors import ExitCode, FencectlError
from fencectl.core.refs import ObjectRef, dig
from fencectl.core.rollout import Target
from fencectl.run.fencing import Fence, Ledger
from fencectl.run.handing_over import Handed
from fencectl.run.stage import Result, Stage
from fencectl.run.story import read
from fencectl.run.unwind import unwind

RESUME_S = 60.0


class NotResumedError(FencectlError):
    """An object could not be resumed, so that Flux takes nothing."""

    exit_code = ExitCode.FAILED_PREVIOUS_RUNS


@dataclass(frozen=True, slots=True)
class Hands:
    """What a transaction lends: its ledger, how it suspends, whether a fence may go, when the work must end."""

    ledger: Ledger
    suspend: Callable[[Sequence[tuple[ObjectRef, int]], int], None]
    may_release: Callable[[Fence], str | None]
    stop_if_asked: Callable[[], None]
    must_stop: Callable[[], str | None]


def take_revision(stage: Stage, result: Result, plan: FluxPlan, hands: Hands, timeout_s: float) -> None:
    """
    Do step 8; the result tells what came of it, also when it ends early.

    Raises NotResumedError, and what suspending raises where the chain could not be fenced again.
    """

    def tell(text: str) -> None:
        stage.tell(8, text)

    wanted = plan.revision or "whatever its source has"
    handed = result.handed = Handed(1, text=f"{plan.ref.display} resumed for {wanted}")
    # NB: from here on Flux may apply anything: whatever ends it now is 18, not 10.
    result.applied = True
    _resume(stage, plan, hands, tell)
    seen = read(stage.door, plan.ref)
    if seen is None:
        raise NotResumedError(f"{plan.ref.display} is gone")
    generation = dig(seen.raw, "metadata", "generation")
    generation = generation if isinstance(generation, int) else None
    target = Target(seen.ref, generation, plan.revision, made=seen.raw)
    tell(f"follows {plan.ref.display} to {wanted}")
    if stage.follower is None:
        handed.note(ExitCode.OUTCOME_UNKNOWN, "what Flux does was not followed")
    else:
        limit_s = timeout_s if plan.follow_timeout_s is None else min(timeout_s, plan.follow_timeout_s)
        handed.judge(stage.follower(hands.must_stop, tell).follow([target], limit_s))
    hands.stop_if_asked()
    result.codes += handed.codes
    result.cause, result.reason, result.hint = handed.cause, handed.reason, handed.hint
    if handed.codes:
        tell("suspends them again: Flux must not go on with what has not succeeded")
        hands.suspend(plan.chain, 8)


def _resume(stage: Stage, plan: FluxPlan, hands: Hands, tell: Callable[[str], None]) -> None:
    """Release the suspensions of the chain, innermost first, out of the run's own ledger."""
    chain = {ref for ref, _ in plan.chain}
    # NB: for this revision a suspension was adopted that was kept because of another.
    mine = Ledger(fences=[fence for fence in hands.ledger.fences if fence.seen.ref in chain], going=chain)
    unwound = unwind(
        stage.door,
        stage.clock,
        stage.threads,
        mine,
        budget_s=RESUME_S,
        tell=lambda text: tell(text.replace("released", "resumed", 1)),
        may_release=hands.may_release,
    )
    for fence in unwound.released:
        hands.ledger.forget(fence)
    if not unwound.clean:
        (left, *_) = unwound.left
        raise NotResumedError(f"{left.fence.seen.ref.display} could not be resumed: {left.why}")
