"""
Step 8 of a deploy of manifests: apply them, follow them, prune what is no longer rendered, say what came of it.

Success is said only if every object was applied and followed to success, and nothing was withheld. A prune comes
last: whatever is doubtful before it withholds it. What this run itself suspends cannot move before step 10, so it
is applied, named, and not followed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fencectl.core.apply_plan import ApplyPlan
from fencectl.core.errors import ExitCode, FencectlError
from fencectl.core.refs import dig
from fencectl.core.rollout import Followed, Follows, Result as FollowResult, RolloutVerdict, Target
from fencectl.run.applying import Applier, Hands, Made, Tally
from fencectl.run.keeper import Keeper
from fencectl.run.pruning import WITHHELD_HINT, Key, Pruned, Pruner, key_of

if TYPE_CHECKING:
    from fencectl.run.stage import Result, Stage


@dataclass(slots=True)
class Handed:
    """
    What came of step 8.

    `codes`: reasons for an exit code, empty for a success. `cause`, `reason`: the first thing that went wrong.
    `text`: what was done, where it is no matter of counting.
    """

    planned: int
    tally: Tally = field(default_factory=Tally)
    followed: Followed | None = None
    pruned: Pruned | None = None
    codes: list[ExitCode] = field(default_factory=list)
    cause: str | None = None
    reason: str | None = None
    hint: str | None = None
    text: str | None = None

    def note(self, code: ExitCode, cause: str, *, reason: str | None = None, hint: str | None = None) -> None:
        """One more reason; the first one's words stay."""
        self.codes.append(code)
        if self.cause is None:
            self.cause, self.reason, self.hint = cause, reason, hint

    def judge(self, followed: Followed) -> None:
        """Take in what came of a follow; whatever has not succeeded is a reason."""
        self.followed = followed
        bad = [one for one in followed.results if one.verdict is not RolloutVerdict.SUCCEEDED]
        if not bad and followed.outcome is RolloutVerdict.SUCCEEDED:
            return
        code = {
            RolloutVerdict.UNKNOWN: ExitCode.OUTCOME_UNKNOWN,
            RolloutVerdict.SUCCEEDED: ExitCode.OUTCOME_UNKNOWN,
        }.get(followed.outcome, ExitCode.FAILED_NEW_STATE_LIVE)
        first = _first(bad[0]) if bad else None
        self.note(code, _sum(followed), reason=first or followed.stopped)

    @property
    def counts(self) -> str:
        """How far it came, in one clause."""
        if self.text is not None:
            return self.text
        done, changed = len(self.tally.made), self.tally.changed
        gone = f", {len(self.pruned.gone)} pruned" if self.pruned is not None and self.pruned.gone else ""
        return f"{done} of {self.planned} objects applied, {changed} changed{gone}"


class HandingOver:
    """
    Does step 8.

    `follower`: None where there is nothing that could follow (a simulation): then nothing is called a success.
    `restorable`: what a prune may take away, since it was captured; None: anything.
    """

    def __init__(
        self,
        hands: Hands,
        *,
        follower: Follows | None,
        restorable: frozenset[Key] | None = None,
    ) -> None:
        self._hands = hands
        self._follower = follower
        self._restorable = restorable

    def run(self, plan: ApplyPlan, handed: Handed, *, timeout_s: float) -> None:
        """
        Do all of it; `handed` tells how far it came, also when it ends early.

        Raises what the applier raises.
        """
        end_s = self._hands.clock.monotonic_s() + timeout_s
        applier = Applier(self._hands, force=plan.force)
        applier.apply_all(plan, handed.tally, timeout_s=timeout_s)
        made = len(handed.tally.made)
        self._hands.tell(f"applied {made} {'object' if made == 1 else 'objects'}, {handed.tally.changed} changed")
        self._follow(plan, handed, end_s=end_s)
        self._prune(plan, applier, handed, end_s=end_s)

    def _follow(self, plan: ApplyPlan, handed: Handed, *, end_s: float) -> None:
        if not handed.tally.made:
            return
        if self._follower is None:
            handed.note(ExitCode.OUTCOME_UNKNOWN, "what was applied was not followed")
            return
        for one in handed.tally.made:
            if one.held:
                self._hands.tell(
                    f"{one.ref.display} is not followed: this run suspends it, it moves once it is released"
                )
        targets = [_target(one) for one in handed.tally.made if not one.held]
        if not targets:
            return
        left_s = max(1.0, end_s - self._hands.clock.monotonic_s())
        if plan.follow_timeout_s is not None:
            left_s = min(left_s, plan.follow_timeout_s)
        handed.judge(self._follower.follow(targets, left_s))
        self._hands.stop_if_asked()

    def _prune(self, plan: ApplyPlan, applier: Applier, handed: Handed, *, end_s: float) -> None:
        applyset = plan.applyset
        if applyset is None or not plan.prune:
            return
        if handed.codes:
            handed.pruned = Pruned(withheld="what was applied has not succeeded")
        else:
            pruner = Pruner(self._hands)
            rendered = {key_of(ref) for ref in plan.rendered}
            handed.pruned = pruner.prune(applyset, rendered, partial=plan.partial, restorable=self._restorable)
        pruned = handed.pruned
        if pruned.withheld is not None:
            self._hands.tell(f"prune withheld: {pruned.withheld}")
            handed.note(
                ExitCode.OUTCOME_UNKNOWN,
                f"the prune was withheld: {pruned.withheld}",
                hint=WITHHELD_HINT,
            )
        elif pruned.left:
            ref, why = pruned.left[0]
            more = f" (and {len(pruned.left) - 1} more)" if len(pruned.left) > 1 else ""
            handed.note(ExitCode.OUTCOME_UNKNOWN, f"{ref.display} was not pruned: {why}{more}")
        elif pruned.seen_whole:
            self._shrink(plan, applier, end_s=end_s)

    def _shrink(self, plan: ApplyPlan, applier: Applier, *, end_s: float) -> None:
        """Record where members are now; only after everything else is gone."""
        applyset = plan.applyset
        if applyset is None:
            return
        parent = applyset.parent(applyset.rendered)
        if parent != applyset.parent(applyset.everything):
            applier.apply_one(parent, end_s=end_s, counts=False)


def _target(made: Made) -> Target:
    generation = dig(made.raw, "metadata", "generation")
    return Target(
        made.ref, generation if isinstance(generation, int) else None, made=made.raw, has_status=made.has_status
    )


def _first(bad: FollowResult) -> str:
    """What went wrong with one object, with the container and its exit code where one is to blame."""
    ended = next((pod.trouble for pod in bad.pods if pod.trouble.exit_code is not None), None)
    where = "" if ended is None else f", container `{ended.container or '?'}`, exit {ended.exit_code}"
    return f"{bad.target.ref.display} {bad.verdict.value}: {bad.reason}{where}"


def _sum(followed: Followed) -> str:
    """How many came to what, worst first: 1 failed, 1 waiting, 12 succeeded."""
    counts: dict[RolloutVerdict, int] = {}
    for one in followed.results:
        counts[one.verdict] = counts.get(one.verdict, 0) + 1
    texts = [f"{number} {verdict.value}" for verdict, number in counts.items()]
    return f"of {len(followed.results)} objects {', '.join(texts)}"


def hand_over(
    stage: Stage,
    result: Result,
    keeper: Keeper,
    plan: ApplyPlan,
    stop_if_asked: Callable[[], None],
    must_stop: Callable[[], str | None],
    timeout_s: float,
) -> None:
    """Do step 8 for a transaction, and keep in its result what came of it, also when it ends early."""
    handed = result.handed = Handed(len(plan.objects))
    apply_and_follow(stage, result, keeper, plan, handed, stop_if_asked, must_stop, timeout_s)
    result.codes += handed.codes
    result.cause, result.reason, result.hint = handed.cause, handed.reason, handed.hint


def apply_and_follow(
    stage: Stage,
    result: Result,
    keeper: Keeper,
    plan: ApplyPlan,
    handed: Handed,
    stop_if_asked: Callable[[], None],
    must_stop: Callable[[], str | None],
    timeout_s: float,
    *,
    step: int = 8,
) -> None:
    """Bring objects to the cluster for a step of a transaction; `handed` tells how far that came."""

    def begun() -> None:
        result.applied = True

    def tell(text: str) -> None:
        stage.tell(step, text)

    hands = Hands(stage.door, stage.clock, keeper, stop_if_asked, tell, begun)
    follower = stage.follower(must_stop, tell) if stage.follower is not None else None
    # NB: inside of another run nothing is captured; what ran before is in that run's own recovery point.
    restorable = result.restorable if result.recovery is not None else None
    HandingOver(hands, follower=follower, restorable=restorable).run(plan, handed, timeout_s=timeout_s)


def code_of(failure: FencectlError, *, applied: bool) -> ExitCode:
    """
    The exit code of what ended step 8 early.

    Before anything was changed it is the failure's own; afterwards the new state may be live, unless nobody knows.
    """
    own = failure.exit_code
    if not applied:
        return ExitCode.FAILED_PREVIOUS_RUNS if own is ExitCode.UNEXPECTED else own
    if own in (ExitCode.OUTCOME_UNKNOWN, ExitCode.LEASE_LOST, ExitCode.STILL_FENCED):
        return own
    return ExitCode.FAILED_NEW_STATE_LIVE
