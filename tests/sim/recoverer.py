"""`recover`, as `commands/recover.py` runs it: look, watch, look again, decide, release."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

from fencectl.commands.reading import Look
from fencectl.commands.recover import _Run as RecoverCommand
from fencectl.core.errors import FencectlError
from fencectl.core.found import Found
from fencectl.core.identity import local_identity
from fencectl.core.journal import Journal, Phase
from fencectl.core.marks_reader import NOTHING_VOUCHED, Vouched
from fencectl.core.outcome import Outcome
from fencectl.core.profiles import FENCECTL
from fencectl.core.recovery import RecoveryPlan, Wanted, leases_to_watch, plan_recovery
from fencectl.core.selection import HeldLiveError
from fencectl.run.recovery import Recovery, recovery_journal
from fencectl.run.story import StoppedError, World
from fencectl.run.window import Watched, moved_since, watch_leases
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
        process = self.agent.process
        door, clock = SimDoor(self.net, process, self.agent), SimClock(process)
        eyes = Eyes(door, self.agent, self.oracle)
        first = eyes.look(self.vouched)
        blocks, leases = leases_to_watch(first.report, FENCECTL, self.wanted)
        if not blocks:
            self.nothing_held = True
            return
        wanted = replace(self.wanted, keys=frozenset(block.key for block in blocks))
        if not any(block.judgement.only_heartbeat for block in blocks):
            plan_recovery(first.report, first.runs.observation, FENCECTL, wanted)
        seen = {(s.ref.namespace or "", s.ref.name): s for s in first.runs.observation.leases}
        before = {key: seen.get(key) for key in leases}
        window_s = _window_s(first, leases)
        watched = watch_leases(door, clock, leases, before=before, window_s=window_s, stop=process.stop)
        if watched.interrupted:
            raise StoppedError("interrupted: nothing was released")
        _must_stand_still(watched)
        look = eyes.look(self.vouched, {key: watched.for_s for key in leases if seen.get(key) is not None})
        _must_stand_still(moved_since(watched, before, look.runs.observation.leases))
        plans = plan_recovery(look.report, look.runs.observation, FENCECTL, wanted)
        if not plans:
            self.nothing_held = True
            return
        own = Journal(self.agent.identity, "", 1, 0, clock.wall(), Phase.RECOVERING)
        for plan in plans:
            outcome = self._recover(plan, own, door, eyes)
            self.outcomes = (*self.outcomes, outcome)
            if outcome.stopped is not None:
                break

    def _recover(self, plan: RecoveryPlan, own: Journal, door: SimDoor, eyes: Eyes) -> Outcome:
        process, agent = self.agent.process, self.agent

        def left_of(key: str) -> list[Found]:
            began_s = self.net.kernel.now_s
            runs = eyes.must_be_whole(eyes.runs(self.vouched))
            agent.sweep_began_s = began_s
            return [found for found in runs.reading.found if found.group == key]

        world = World(
            door,
            SimDoor(self.net, process, agent),
            SimClock(process),
            SimThreads(process),
            process.stop,
            lambda told: process.say(f"says: {told.result} {told.fence} ({told.detail})"),
            left_of,
        )
        agent.sweep_began_s = None
        agent.forget_take()
        recovery = Recovery(world, plan, journal=recovery_journal(own, plan), vouched=self.vouched)
        return recovery.run()


def _must_stand_still(watched: Watched) -> None:
    if watched.moved is not None:
        raise HeldLiveError("nothing was released: the lease was written", reason=watched.moved)


def _window_s(first: Look, leases: tuple[tuple[str, str], ...]) -> float:
    """The window of the real command, which is a method of its run."""
    command = SimpleNamespace(_options=SimpleNamespace(watch_for_s=None))
    return float(cast("Any", RecoverCommand)._window_s(command, first, leases))
