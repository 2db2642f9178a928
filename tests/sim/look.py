"""
How the runs of the simulation look at the cluster: the real observation, report and plan, in one thread.

What is said of holders comes from an oracle, which knows the truth and may lie.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from unittest import mock

from fencectl.cluster import observe as observing
from fencectl.cluster.ports import Getter
from fencectl.cluster.structs import PageDecoder
from fencectl.commands.reading import Look
from fencectl.core.assemble import Runs, assemble, read_runs
from fencectl.core.errors import NotReadableError
from fencectl.core.facts import Fact, HolderEvidence, JobFact, State
from fencectl.core.marks_reader import NOTHING_VOUCHED, Vouched
from fencectl.core.profiles import FENCECTL
from tests.sim.agents import Agent
from tests.sim.kernel import Kernel, SimClock

LOOK_DEADLINE_S = 30.0


class InlineWorkers:
    """The reads of one look, one after the other in an order that the scheduler draws; no threads."""

    kernel: Kernel

    def __init__(self) -> None:
        self.stopped = False
        self._waiting: deque[tuple[str, Callable[[], object]]] = deque()

    @property
    def lock(self) -> InlineWorkers:
        return self

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None

    def add(self, name: str, job: Callable[[], object]) -> None:
        if not self.stopped:
            self._waiting.append((name, job))

    def stop(self) -> None:
        self.stopped = True

    def run(self, *, timeout_s: float) -> tuple[str, ...]:
        ends_s = self.kernel.now_s + timeout_s
        while self._waiting and not self.stopped and self.kernel.now_s < ends_s:
            self._waiting.rotate(-self.kernel.random.randrange(len(self._waiting)))
            self._waiting.popleft()[1]()
        undone = () if self.stopped else tuple(name for name, _ in self._waiting)
        self.stopped = True
        return undone


@contextmanager
def inline_reads(kernel: Kernel) -> Iterator[None]:
    """Let observations read in the thread that asks for them."""
    bound = type("BoundWorkers", (InlineWorkers,), {"kernel": kernel})
    # NB: making a decoder costs as much as the reads of one look, and one can be used again.
    with mock.patch.object(observing, "Workers", bound), mock.patch.object(observing, "PageDecoder", _decoder):
        yield


_decoder = lru_cache(maxsize=None)(PageDecoder)


@dataclass(slots=True)
class Oracle:
    """
    Answers for GitHub, machines and pods.

    `believed_dead`: from when on a holder is said to have ended although nobody asked its process. `silent`: how
    often nothing can be said. `never_fails`: for the clean-up at the end.
    """

    kernel: Kernel
    agents: dict[str, Agent] = field(default_factory=dict)
    believed_dead: dict[str, float] = field(default_factory=dict)
    silent: float = 0.0
    lied_about: set[str] = field(default_factory=set)

    def ask(self, asker: Agent, runs: Runs) -> Mapping[str, HolderEvidence]:
        return {one.holder.identity: self._about(asker, one.holder.identity, runs) for one in runs.subjects}

    def _about(self, asker: Agent, identity: str, runs: Runs) -> HolderEvidence:
        at, dice = runs.observation.observed_at, self.kernel.random.random()
        if dice < self.silent:
            return HolderEvidence(job=JobFact(State.UNKNOWN, "has the job ended?", "503", at))
        agent = self.agents.get(identity)
        truly = agent is None or agent.gone
        believed = self.believed_dead.get(identity, float("inf")) <= self.kernel.now_s
        if not (truly or believed):
            return HolderEvidence(job=JobFact(State.ALIVE, "has the job ended?", "in_progress", at, recorded=True))
        asker.told_dead[identity] = self.kernel.now_s
        if not truly:
            self.lied_about.add(identity)
            asker.process.say(f"is told that {identity} has ended, which is not so")
        if truly and dice > 0.5:
            return HolderEvidence(process=Fact(State.ENDED, "has the process ended?", "gone", at))
        return HolderEvidence(
            job=JobFact(
                State.ENDED, "has the job ended?", "completed", at, recorded=True, hosted=True, ended_for_s=60.0
            )
        )


@dataclass(frozen=True, slots=True)
class Eyes:
    """How one run looks."""

    getter: Getter
    agent: Agent
    oracle: Oracle

    def runs(self, vouched: Vouched = NOTHING_VOUCHED) -> Runs:
        """As `commands.reading.Subject.runs`."""
        observation = observing.observe(
            self.getter,
            profile=FENCECTL,
            clock=SimClock(self.agent.process),
            deadline_s=LOOK_DEADLINE_S,
            server="sim",
            context="sim",
            leases=[self.agent.lease],
        )
        return read_runs(observation, FENCECTL, vouched=vouched)

    def look(
        self,
        vouched: Vouched = NOTHING_VOUCHED,
        unchanged_for_s: Mapping[tuple[str, str], float] = MappingProxyType({}),
    ) -> Look:
        """As `commands.reading.Subject.look`."""
        runs = self.runs(vouched)
        evidence = self.oracle.ask(self.agent, runs) if runs.subjects else {}
        report = assemble(runs, evidence=evidence, unchanged_for_s=unchanged_for_s)
        words = ", ".join(f"{block.title}: {block.judgement.words}" for block in report.blocks)
        self.agent.process.say(
            f"looked: {len(report.held)} held{'' if report.complete else ', incomplete'} {words}"
        )
        return Look(runs, report)

    def must_be_whole(self, runs: Runs) -> Runs:
        """Raises NotReadableError where anything could not be read."""
        if runs.observation.unreadable:
            missing = runs.observation.unreadable[0]
            raise NotReadableError(f"{missing.what} could not be read again", reason=missing.why)
        return runs
