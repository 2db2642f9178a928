"""Step 8 of a deploy of a command: run it to its end, and say what that means for the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fencectl.core.deploy import DeployPlan
from fencectl.core.errors import ExitCode
from fencectl.run.overseer import Overseer
from fencectl.run.payload import Payload
from fencectl.run.stage import Result, Stage


def run_command(
    stage: Stage,
    result: Result,
    plan: DeployPlan,
    environ: Mapping[str, str],
    processes: Overseer,
    must_stop: Callable[[], str | None],
) -> None:
    """Run the plan's command, and keep in the result how it ended."""
    stage.tell(8, "the command runs")
    # NB: from here on nobody can say that the target is as it was: whatever ends it now is 18, not 10.
    result.applied = True
    with stage.handed_over():
        payload = Payload(plan.command, environ=environ, clock=stage.clock, processes=processes)
        ended = result.payload = payload.wait(timeout_s=plan.timeout_s, must_stop=must_stop)
    if ended.ok:
        stage.tell(8, "the command has ended with 0")
        return
    result.codes.append(ExitCode.FAILED_NEW_STATE_LIVE)
    how = "ended" if ended.why_stopped is None else "was ended by this run,"
    result.cause = f"the command {how} with {ended.code}"
    result.reason = ended.why_stopped
