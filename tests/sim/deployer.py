"""
`deploy`, as `commands/deploy.py` runs it: look, wait or refuse, plan, then the real transaction.

Its commands are a model (`processes.py`). A rollback leaves suspensions on purpose; until it exists, `keeps` lets the
work end as it would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fencectl.cluster.kinds import CONFIGMAPS, ListedKind, record_of
from fencectl.core.deploy import DeployPlan, only_live, refuse_others, why_not
from fencectl.core.errors import ExitCode, FencectlError, NotReadableError
from fencectl.core.journal import Journal, Phase
from fencectl.core.placements import rewrite_journal
from fencectl.core.profiles import FENCECTL
from fencectl.core.refs import ObjectRef
from fencectl.core.report import FenceKind
from fencectl.run.record import RecordBook
from fencectl.run.stage import Stage
from fencectl.run.story import WRITE_S
from fencectl.run.targets import find_nodes, find_suspensions
from fencectl.run.transaction import Deploy
from tests.sim.agents import Agent
from tests.sim.deploy_spec import DeploySpec
from tests.sim.doors import Net, SimDoor
from tests.sim.foreign import FLUX
from tests.sim.kernel import SimClock, SimThreads
from tests.sim.look import Eyes, Oracle
from tests.sim.processes import Script, SimProcess, SimProcesses

KUSTOMIZATION = ListedKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations", namespaced=True)
LOOK_AGAIN_S = 5.0


class KeepingDeploy(Deploy):
    """A deploy whose suspensions are kept, as after a rollback."""

    def _run_payload(self) -> None:
        super()._run_payload()
        # NB: ancestors first: a kept child under an ancestor that is not would have to be met by it.
        for fence in [one for one in self._ledger.fences if one.kind is FenceKind.SUSPENSION]:
            journal = fence.journal.with_phase(Phase.KEPT, at=self._stage.clock.wall())
            self._fencer().change(fence, rewrite_journal(fence.seen, fence.journal, journal), journal)


@dataclass(slots=True)
class Deployer:
    """
    One run of the verb; `agent.result` says how it ended.

    `on_active`: told when it is past its second reading, and when that began. `on_command`: told of each command
    that begins. `on_end`: told of its exit code.
    """

    net: Net
    agent: Agent
    oracle: Oracle
    spec: DeploySpec
    on_active: Callable[[Agent, float], None]
    on_command: Callable[[SimProcess], None]
    on_end: Callable[[Agent, ExitCode], None]

    def run(self) -> None:
        agent = self.agent
        try:
            code, why = self._run()
        except FencectlError as failure:
            code, why = failure.exit_code, f"{failure.sentence}: {failure.reason}"
        agent.result = f"exit {int(code)}{f', {why}' if why else ''}"
        agent.process.say(f"ends: {agent.result}")
        agent.active = False
        self.on_end(agent, code)
        agent.ended = True
        agent.process.kill("exits")

    def _run(self) -> tuple[ExitCode, str | None]:
        process = self.agent.process
        door, clock = SimDoor(self.net, process, self.agent), SimClock(process)
        eyes = Eyes(door, self.agent, self.oracle)
        own = Journal(self.agent.identity, "", 0, 0, clock.wall(), Phase.HELD)
        refused = self._may_begin(eyes, clock)  # (1)
        if refused is not None:
            return refused, "refused"
        plan = self._plan(door, own)
        self.agent.forget_take()
        stage = Stage(
            door=door,
            keeper_door=SimDoor(self.net, process, self.agent),
            clock=clock,
            threads=SimThreads(process),
            book=self._book(door, clock),
            environ={},
            interrupted=process.stop,
            interrupt_code=lambda: ExitCode.TERMINATED if process.stop.is_set() else None,
            read_again=lambda own: self._read_again(eyes, own),
            tell=lambda step, text: process.say(f"({step}) {text}"),
            processes=SimProcesses(self.agent, self._scripts(), self.on_command),
        )
        result = (KeepingDeploy if self.spec.keeps else Deploy)(stage, plan, own).run()
        left = result.unwound.left if result.unwound is not None else []
        # NB: what is left because the lease was stolen is left on purpose.
        if any("somebody else's hands" not in one.why for one in left):
            return result.code, f"{result.cause}, still fenced"
        return result.code, result.cause

    # (1)

    def _may_begin(self, eyes: Eyes, clock: SimClock) -> ExitCode | None:
        """Look, and wait if that was asked for; the exit code where the deploy is refused."""
        end_s = clock.monotonic_s() + self.spec.waits_s
        while True:
            look = eyes.look()
            if not look.report.complete:
                missing = look.report.unreadable[0]
                raise NotReadableError(f"{missing.what} could not be read", reason=missing.why)
            code = why_not(look.report, look.runs.observation, FENCECTL)
            if code is None:
                return None
            if clock.monotonic_s() >= end_s or not only_live(look.report):
                return code
            if clock.wait(self.agent.process.stop, LOOK_AGAIN_S):
                return ExitCode.TERMINATED

    def _read_again(self, eyes: Eyes, own: str) -> None:
        began_s = self.net.kernel.now_s
        look = eyes.look()
        refuse_others(look.report, look.runs.observation, FENCECTL, own=own)
        self.agent.active = True
        self.on_active(self.agent, began_s)

    def _plan(self, door: SimDoor, own: Journal) -> DeployPlan:
        spec = self.spec
        names = [("kustomization", FLUX, name) for name in spec.suspends]
        return DeployPlan(
            lease=self.agent.lease,
            command=("upgrade",),
            suspend=find_suspensions(door, names, [KUSTOMIZATION], own).objects,
            nodes=find_nodes(door, spec.nodes, own, is_rolled=spec.rolls).objects,
            node_command=("roll",) if spec.rolls else (),
            max_unavailable=spec.at_once,
            lease_duration_s=spec.duration_s,
            drain_timeout_s=spec.drain_s,
        )

    def _book(self, door: SimDoor, clock: SimClock) -> RecordBook:
        namespace, name = record_of(self.agent.lease)
        ref = ObjectRef(CONFIGMAPS.api_version, CONFIGMAPS.kind, CONFIGMAPS.plural, namespace, name, "")
        return RecordBook(door, clock, ref, "deploy", "sim", request_s=WRITE_S)

    def _scripts(self) -> dict[str, Script]:
        spec = self.spec
        work = Script(spec.works_s, spec.code, spec.heeds)
        return {"upgrade": work, "roll": Script(spec.works_s, 0, spec.heeds)}
