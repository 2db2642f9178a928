"""
The last check of a rolled node before it is `verified`: the certify command says whether it is good.

A node that is not certified stays `mutating`, as one whose command failed: a person is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from fencectl.cluster.clock import Clock
from fencectl.core.certification import Certification, Outcome, by_command
from fencectl.core.deploy import CertifyPlan
from fencectl.core.journal import Phase
from fencectl.core.refs import ObjectRef
from fencectl.run.nodes_command import NodeCommand
from fencectl.run.nodes_errors import NodeError
from fencectl.run.nodes_reads import Steps
from fencectl.run.ports import Processes


@dataclass(slots=True)
class NodeCertifier:
    """
    Certifies nodes; `noted` is told each decision.

    `vouched`: whether any node went on, so that others may follow several at once: until then one goes alone.
    """

    plan: CertifyPlan
    noted: Callable[[Certification], None]
    vouched: bool = field(default=False, init=False)

    def start(
        self, node: ObjectRef, environ: Mapping[str, str], clock: Clock, processes: Processes
    ) -> NodeCommand:
        """Start the certify command for one node."""
        return NodeCommand(self.plan.command, node=node, environ=environ, clock=clock, processes=processes)

    def steps(
        self,
        command: NodeCommand,
        node: ObjectRef,
        *,
        clock: Clock,
        must_stop: Callable[[], str | None],
        tell: Callable[[str], None],
    ) -> Steps[None]:
        """See it to its end. Raises NodeError where the node may not go on."""
        timeout_s = self.plan.timeout_s
        ended = yield from command.steps(end_s=clock.monotonic_s() + timeout_s, must_stop=must_stop)
        decision = by_command(ended.code, timeout_s=timeout_s if ended.timed_out else None)
        goes_on = decision.goes_on(allow_uncertified=self.plan.allow_uncertified)
        about = f"{node.display}: {decision.why}"
        allowed = goes_on and decision.outcome is not Outcome.CERTIFIED
        self.noted(replace(decision, why=about, allowed=allowed))
        if decision.outcome is Outcome.CERTIFIED:
            tell(Outcome.CERTIFIED.value)
        elif goes_on:
            tell(f"{decision.word}, and that is allowed: {decision.why}")
        else:
            tell(f"{decision.word}: {decision.why}")
            raise NodeError(
                f"{node.display} was rejected" if decision.rejected else f"{node.display} was not certified",
                node=node,
                phase=Phase.MUTATING,
                command_code=None if ended.timed_out else ended.code,
                reason=decision.why,
            )
        self.vouched = True
