"""Whole processes, measured from outside: processor time, wall time, peak memory, bytes and requests."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.bench.relay import Relay


@dataclass(frozen=True, slots=True)
class Run:
    """One process from start to end."""

    cpu_s: float
    wall_s: float
    peak_mib: float
    received_bytes: int
    requests: int
    status: int


@dataclass(slots=True)
class Subject:
    """One command, with what came of its runs."""

    title: str
    command: Sequence[str]
    every: int = 1
    runs: list[Run] = field(default_factory=list)

    def median(self, value: Callable[[Run], float]) -> float:
        return statistics.median(value(run) for run in self.runs)


class RequestCount:
    """Requests of one user, counted in the API server's audit log."""

    def __init__(self, audit_log: Path) -> None:
        self._path = audit_log
        self._offset = 0

    def take(self) -> int:
        """Count what came since the last call."""
        time.sleep(0.2)  # the server writes the line after the answer
        with self._path.open("rb") as log:
            log.seek(self._offset)
            text = log.read()
        self._offset += len(text)
        return text.count(b"\n")


class Launcher:
    """Runs commands with their output thrown away, from a process that is small itself."""

    def __init__(self, env: Mapping[str, str], *, relay: Relay, count: RequestCount) -> None:
        self._relay = relay
        self._count = count
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("launch.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(env),
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def run(self, command: Sequence[str]) -> Run:
        """Run one command to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._count.take()
        self._relay.reset()
        self._process.stdin.write(json.dumps(list(command)) + "\n")
        self._process.stdin.flush()
        found = json.loads(self._process.stdout.readline())
        return Run(**found, received_bytes=self._relay.received, requests=self._count.take())


def measure(subjects: Sequence[Subject], *, rounds: int, launcher: Launcher) -> None:
    """Run all of them in turn, so that what slows the machine slows them alike; the first round is not counted."""
    for number in range(rounds + 1):
        for subject in subjects:
            if number == 0 or (number - 1) % subject.every == 0:
                run = launcher.run(subject.command)
                if number:
                    subject.runs.append(run)


def table(subjects: Sequence[Subject], *, unit_s: float) -> str:
    """Write the medians; `unit_s` is the processor time that the ratios are of."""
    head = f"{'':44} {'CPU s':>7} {'ratio':>6} {'wall s':>7} {'MiB':>6} {'MB':>7} {'requests':>8} {'runs':>4} exit"
    lines = [head]
    for subject in subjects:
        cpu_s = subject.median(lambda run: run.cpu_s)
        codes = ",".join(str(code) for code in sorted({run.status for run in subject.runs}))
        lines.append(
            f"{subject.title:44} {cpu_s:7.3f} {cpu_s / unit_s:6.1f} {subject.median(lambda run: run.wall_s):7.2f}"
            f" {subject.median(lambda run: run.peak_mib):6.1f}"
            f" {subject.median(lambda run: run.received_bytes) / 1e6:7.2f}"
            f" {subject.median(lambda run: run.requests):8.0f} {len(subject.runs):4} {codes}"
        )
    return "\n".join(lines)


def as_json(subjects: Sequence[Subject]) -> list[dict[str, object]]:
    """Give the medians and every single run."""
    return [
        {
            "title": subject.title,
            "command": list(subject.command),
            "cpu_s": subject.median(lambda run: run.cpu_s),
            "wall_s": subject.median(lambda run: run.wall_s),
            "peak_mib": subject.median(lambda run: run.peak_mib),
            "received_bytes": subject.median(lambda run: run.received_bytes),
            "requests": subject.median(lambda run: run.requests),
            "runs": [
                {"cpu_s": run.cpu_s, "wall_s": run.wall_s, "peak_mib": run.peak_mib, "status": run.status}
                for run in subject.runs
            ],
        }
        for subject in subjects
    ]
