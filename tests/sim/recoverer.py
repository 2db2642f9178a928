"""`recover`: the verb itself, from its first look to its end, in a simulated process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from fencectl.commands.options import Color, Output
from fencectl.commands.options_acting import RecoverOptions
from fencectl.commands.recover import OrderlySignals, RecoverRun, Surroundings
from fencectl.commands.recover_show import Show
from fencectl.core.assemble import Runs
from fencectl.core.errors import FencectlError
from fencectl.core.identity import local_identity
from fencectl.core.journal import Journal, Phase
from fencectl.core.marks_reader import NOTHING_VOUCHED, Vouched
from fencectl.core.outcome import Outcome, Told
from fencectl.core.profiles import FENCECTL
from fencectl.core.recovery import RecoveryPlan, Wanted
from fencectl.core.report import FenceReport
from tests.sim.agents import Agent
from tests.sim.doors import Net, SimDoor
from tests.sim.kernel import SimClock, SimThreads
from tests.sim.look import Eyes, Oracle


def recoverer_identity(nonce: str) -> str:
    """The identity of somebody who recovers from a workstation."""
    return local_identity(revision="feedfacefeedface", host="desk", pid=4242, nonce=nonce)


@dataclass(slots=True)
class Recoverer:
    """One run of the verb. `outcomes`: what came of it; `refused`: why it changed nothing."""

    net: Net
    agent: Agent
    oracle: Oracle
    wanted: Wanted
    vouched: Vouched = NOTHING_VOUCHED
    refused: FencectlError | None = None
    outcomes: tuple[Outcome, ...] = ()
    nothing_held: bool = False

    @property
    def done(self) -> bool:
        """Whether all that it wanted to release is released."""
        if self.refused is not None:
            return False
        return self.nothing_held or (bool(self.outcomes) and all(one.stopped is None for one in self.outcomes))

    @property
    def said(self) -> str:
        """Why it is not done."""
        if self.refused is not None:
            return f"{self.refused.sentence}: {self.refused.reason}"
        return "; ".join(str(one.stopped) for one in self.outcomes if one.stopped is not None)

    def run(self) -> None:
        try:
            self._run()
        except FencectlError as refusal:
            self.refused = refusal
        self.agent.result = "nothing held" if self.nothing_held else self.said or "done"
        self.agent.process.say(f"ends: {self.agent.result}")
        self.agent.ended = True
        self.agent.process.kill("exits")

    def _run(self) -> None:
        process, agent = self.agent.process, self.agent
        door, clock = SimDoor(self.net, process, agent), SimClock(process)
        eyes = Eyes(door, agent, self.oracle)
        options = RecoverOptions(yes=True, every=self.wanted.every, accept_presumed=self.wanted.accept_presumed)
        show = _Told(self)
        world = Surroundings(
            profile=FENCECTL,
            look=lambda unchanged_for_s: eyes.look(self.vouched, unchanged_for_s),
            runs=lambda: self._runs(eyes),
            own_journal=lambda: Journal(agent.identity, "", 1, 0, clock.wall(), Phase.RECOVERING),
            door=door,
            keeper_door=SimDoor(self.net, process, agent),
            clock=clock,
            threads=SimThreads(process),
            signals=_SimSignals(process.stop),
            show=show,
        )
        RecoverRun(options, self.wanted, self.vouched, world).run()

    def _runs(self, eyes: Eyes) -> Runs:
        began_s = self.net.kernel.now_s
        runs = eyes.runs(self.vouched)
        if not runs.observation.unreadable:
            self.agent.sweep_began_s = began_s
        return runs


class _Told(Show):
    """Writes nothing; what came of the run goes into the story."""

    def __init__(self, recoverer: Recoverer) -> None:
        super().__init__(Output.TEXT, Color.NEVER)
        self._recoverer = recoverer

    def _say(self, *lines: str) -> None:
        """Nobody reads it."""

    def _report(self, lines: Sequence[str]) -> None:
        """Nobody reads it."""

    def nothing(self, report: FenceReport) -> None:
        self._recoverer.nothing_held = True

    def begins(self, plan: RecoveryPlan) -> None:
        self._recoverer.agent.sweep_began_s = None
        self._recoverer.agent.forget_take()

    def told(self, told: Told) -> None:
        self._recoverer.agent.process.say(f"says: {told.result} {told.fence} ({told.detail})")

    def end(
        self, report: FenceReport, outcomes: Sequence[tuple[RecoveryPlan, Outcome]], took_s: Sequence[float]
    ) -> None:
        self._recoverer.outcomes = tuple(outcome for _, outcome in outcomes)


class _SimSignals(OrderlySignals):
    """The signals of a simulated process, which sets its own `stop`."""

    @contextmanager
    def taken(self) -> Iterator[None]:
        yield
