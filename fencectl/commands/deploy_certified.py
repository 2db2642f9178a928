"""What `deploy` says of a canary and of certified nodes: in its plan, in its result, in one clause of the sum."""

from __future__ import annotations

import os
from collections.abc import Sequence

from fencectl.commands.deploy_changes import summary
from fencectl.core.certification import Outcome
from fencectl.core.deploy import CertifyPlan, DeployPlan
from fencectl.evidence.redact import redact_command
from fencectl.report.escape import cut, visible
from fencectl.report.style import Style, wrap
from fencectl.report.words import count
from fencectl.run.stage import Result


def planned(plan: DeployPlan) -> list[str]:
    """The lines of a dry run, between the nodes and step 8."""
    certify, lines = plan.certify, list[str]()
    if certify is None:
        return lines
    by = _shown(redact_command(certify.command, os.environ))
    if certify.command and plan.node_command and plan.nodes:
        lines.append(f"   6  certify each of them by {by}, the first before the others begin")
    if certify.canary is not None:
        then = f", then certify it by {by}" if certify.command else ", certified by nothing"
        changes = summary(certify.canary.changes)
        lines.append(f"   7  apply and follow the canary {_shown(certify.source)}: {changes}{then}")
    return lines


def clause(plan: DeployPlan, result: Result) -> str:
    """`, 2 nodes, canary certified` behind what was deployed; empty where nothing of it was asked for."""
    parts = [count(len(plan.nodes), "node")] if plan.node_command and plan.nodes else []
    if result.certification.outcome is not Outcome.NOT_REQUESTED:
        what = "canary" if _has_canary(plan.certify) else "nodes"
        parts.append(f"{what} {result.certification.word}")
    return "".join(f", {part}" for part in parts)


def aloud(result: Result, style: Style) -> list[str]:
    """What was not certified and went on nevertheless."""
    found = result.certification
    if not found.allowed:
        return []
    return wrap(
        f"not certified ({found.word}), and `--allow-uncertified` went on over it: {_shown(found.why)}",
        first=f"{style.look} ",
        rest="  ",
    )


def what_ran(result: Result) -> str:
    """What of the new state may be live, in one clause."""
    if result.step == 7 and result.canary is not None:
        return f"only the canary was applied ({result.canary.counts}): it may be live"
    ran = result.handed.counts if result.handed is not None else "the command has run"
    return f"{ran}: the new state may be live"


def rejected(result: Result) -> Sequence[str]:
    """Why the deploy ended, where the objects of the canary have said the rest already."""
    if result.step != 7 or not result.cause:
        return ()
    return wrap(_shown(result.cause), first="reason: ", rest="        ")


def _has_canary(certify: CertifyPlan | None) -> bool:
    return certify is not None and certify.canary is not None


def _shown(text: str) -> str:
    return visible(cut(text))
