"""
Commands as a model: how long one runs, how it ends, and whether it heeds TERM; they die with their deploy.

What is known of each is what can be seen from outside: when it began, and when it was dead.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.sim.agents import Agent, Held
from tests.sim.kernel import FOREVER, KilledError

TERM_S = 0.4
"""So long a command takes to end after TERM, if it heeds it."""


@dataclass(frozen=True, slots=True)
class Script:
    """What a command does. `runs_s`: how long it runs; `code`: what it ends with; `heeds`: whether TERM ends it."""

    runs_s: float
    code: int = 0
    heeds: bool = True


@dataclass(slots=True)
class SimProcess:
    """A process group; `ends_s`: when it is dead, as far as is settled."""

    agent: Agent
    command: str
    script: Script
    began_s: float
    held: Held | None
    ends_s: float = field(init=False)
    code: int = field(init=False)
    group: int = 4711

    def __post_init__(self) -> None:
        self.ends_s = self.began_s + self.script.runs_s
        self.code = self.script.code

    @property
    def dead_s(self) -> float:
        """When it is dead: by itself, by a signal, or with the process that started it."""
        killed_s = self.agent.process.killed_s
        return self.ends_s if killed_s is None else min(self.ends_s, killed_s)

    def poll(self) -> int | None:
        ended = self.agent.process.dead or self.agent.process.kernel.now_s >= self.ends_s
        return self.code if ended else None

    def wait(self) -> int:
        kernel = self.agent.process.kernel
        if self.poll() is not None:
            return self.code
        if self.ends_s == FOREVER:
            raise KilledError
        kernel.wait(self.ends_s - kernel.now_s)
        return self.code

    def signal(self, number: signal.Signals) -> None:
        now_s = self.agent.process.kernel.now_s
        if self.poll() is not None:
            return
        by_s = 0.0 if number is signal.SIGKILL else TERM_S if self.script.heeds else FOREVER
        if now_s + by_s < self.ends_s:
            self.ends_s, self.code = now_s + by_s, 128 + number
            self.agent.process.say(f"{self.command}: {number.name}")

    def group_lives(self) -> bool:
        return self.poll() is None


@dataclass(slots=True)
class SimProcesses:
    """
    Starts them.

    `scripts`: by command. `on_start`: told of each, at the moment at which it begins.
    """

    agent: Agent
    scripts: Mapping[str, Script]
    on_start: Callable[[SimProcess], None]

    def start(self, command: Sequence[str], environ: Mapping[str, str]) -> SimProcess:
        process = self.agent.process
        if process.dead:
            raise KilledError
        name = f"{command[0]} {environ.get('FENCECTL_NODE', '')}".strip()
        started = SimProcess(self.agent, name, self.scripts[command[0]], process.kernel.now_s, self.agent.held)
        process.say(f"{name}: begins")
        self.on_start(started)
        return started
