"""Step 8, in whichever of its forms: a command, manifests, or a revision that Flux takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fencectl.core.deploy import DeployPlan
from fencectl.run.commanding import run_command
from fencectl.run.flux_revision import Hands, take_revision
from fencectl.run.handing_over import hand_over
from fencectl.run.keeper import Keeper
from fencectl.run.overseer import Overseer
from fencectl.run.stage import Result, Stage


def pay(
    stage: Stage,
    result: Result,
    plan: DeployPlan,
    keeper: Keeper,
    lent: Hands,
    environ: Mapping[str, str],
    processes: Callable[[], Overseer],
) -> None:
    """Do what the deploy is for; the result tells what came of it, also when it ends early."""
    if plan.apply is not None:
        hand_over(stage, result, keeper, plan.apply, lent.stop_if_asked, lent.must_stop, plan.timeout_s)
    elif plan.flux is not None:
        take_revision(stage, result, plan.flux, lent, plan.timeout_s)
    else:
        run_command(stage, result, plan, environ, processes(), lent.must_stop)
    result.acknowledged = not result.codes
