"""Run the program as its users do: as a process of its own, against a cluster under test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.clusters import Cluster

TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run of the program printed, and its status."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @property
    def text(self) -> str:
        """Everything that it said."""
        return self.stdout + self.stderr

    @property
    def commands(self) -> list[str]:
        """The kubectl lines of the second zone."""
        return [line for line in self.stdout.splitlines() if line.startswith("kubectl ") and " patch " in line]


def environment(kubeconfig: Path | str, **more: str) -> dict[str, str]:
    """Give a small environment: nothing of the caller's settings reaches the program."""
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")
    inherited = {name: os.environ[name] for name in kept if name in os.environ}
    root = str(Path(__file__).parents[2])
    return inherited | {"KUBECONFIG": str(kubeconfig), "PYTHONPATH": root, "PYTHONUTF8": "1"} | more


def run_program(
    *arguments: str,
    kubeconfig: Path | str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    module: str = "fencectl",
) -> Ran:
    """Run `fencectl` with these arguments in a folder without a config."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=cwd,
        env=environment(kubeconfig, **(env or {})),
        timeout=TIMEOUT_S,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def run_shell(cluster: Cluster, script: str) -> Ran:
    """Run a script by the real `sh`, with the real kubectl on the path."""
    done = subprocess.run(
        ["sh"],
        input=script,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=cluster.kubectl_environment(context="prod"),
        timeout=TIMEOUT_S,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)
