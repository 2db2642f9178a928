"""The plan of a deploy in words, for a dry run."""

from __future__ import annotations

import os

from fencectl.commands.deploy_certified import planned
from fencectl.commands.deploy_changes import summary
from fencectl.core.deploy import DeployPlan
from fencectl.core.identity import parse_holder
from fencectl.evidence.redact import redact_command
from fencectl.report.escape import cut, visible


def plan_lines(plan: DeployPlan, label: str, *, around: str | None) -> list[str]:
    """
    What would be done, a line for each step, in order. `label`: of the target, escaped already.

    `around`: the run of whose command it is a part.
    """
    lease = f"lease/{'/'.join(plan.lease)}"
    lines = [
        f"would deploy to {label}",
        f"   2  take {lease}"
        if around is None
        else f"   2  under {lease} of {visible(parse_holder(around).title)}, which runs this",
    ]
    lines += [f"      {visible(ref.display)} is fenced by that run already" for ref in plan.covered]
    for ref, _ in plan.suspend:
        added = " (it applies one of the others)" if ref in plan.added else ""
        kept = any(one.ref == ref for one in plan.adopt)
        lines.append(f"   4  {'adopt' if kept else 'suspend'} {visible(ref.display)}{added}")
    lines += [f"   6  fence {visible(ref.display)}" for ref in plan.nodes]
    lines += planned(plan)
    if plan.apply is not None:
        lines.append(f"   8  apply and follow {summary(plan.apply.changes)}")
    elif plan.flux is not None:
        chain = " and ".join(visible(ref.display) for ref, _ in reversed(plan.flux.chain))
        lines.append(f"   8  resume {chain}, and follow {visible(cut(plan.flux.revision or 'the revision'))}")
    else:
        lines.append(f"   8  run {visible(cut(redact_command(plan.command, os.environ)))}")
    lines.append("  10  release all of it in reverse order")
    return lines
