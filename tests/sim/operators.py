"""A person who ran `fences`, and runs the printed commands some time later."""

from __future__ import annotations

from dataclasses import dataclass

from fencectl.cluster.write import send
from fencectl.core.answers import Applied, Refused, Why
from fencectl.core.errors import FencectlError
from fencectl.core.evidence import Verdict
from fencectl.core.patches import GuardedPatch
from tests.sim.agents import Agent
from tests.sim.doors import Net, SimDoor
from tests.sim.kernel import SimClock
from tests.sim.look import Eyes, Oracle


@dataclass(slots=True)
class Operator:
    """
    Looks until a dead holder's commands are printed, waits, and runs them.

    A careful one runs them in order and stops at the first refusal; a careless one does neither.
    """

    net: Net
    agent: Agent
    oracle: Oracle
    waits_s: float
    looks: int = 4

    def run(self) -> None:
        process = self.agent.process
        clock, dice = SimClock(process), self.net.kernel.random
        patches: list[GuardedPatch] = []
        for _ in range(self.looks):
            self.agent.printed_s = self.net.kernel.now_s
            patches = self._printed()
            if patches:
                break
            clock.wait(None, 20.0)
        if patches:
            process.say(f"has {len(patches)} printed commands")
            clock.wait(None, self.waits_s)
        if self.agent.careless:
            dice.shuffle(patches)
        door = SimDoor(self.net, process, self.agent)
        for patch in patches:
            answer = send(door, patch, deadline_s=35.0)
            if not isinstance(answer, Applied):
                why = f"refused: {answer.why.value}" if isinstance(answer, Refused) else "no answer"
                process.say(f"{patch.target.display}: {why}")
                if isinstance(answer, Refused) and answer.why is Why.GUARD:
                    self.net.on_refused(patch)
                if not self.agent.careless:
                    break
            clock.wait(None, dice.uniform(0.2, 5.0))
        self.agent.ended = True
        process.kill("leaves")

    def _printed(self) -> list[GuardedPatch]:
        """The commands under dead holders, in order, as `release` prints them."""
        eyes = Eyes(SimDoor(self.net, self.agent.process, self.agent), self.agent, self.oracle)
        try:
            report = eyes.look().report
        except FencectlError as failure:
            self.agent.process.say(f"{failure.sentence}")
            return []
        dead = report.blocks_with(Verdict.DEAD) if report.complete else ()
        entries = [entry for block in dead for entry in block.entries if not entry.kept]
        return [entry.release.patch for entry in entries if entry.release is not None]
