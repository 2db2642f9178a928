"""Run the program as its users do: as a process of its own, against a cluster under test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.support import prefork
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
    environ = environment(kubeconfig, **(env or {}))
    if prefork.can_fork(environ):
        return _run_forked(module, arguments, environ=environ, cwd=cwd, stdin=stdin)
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=cwd,
        env=environ,
        timeout=TIMEOUT_S,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def _run_forked(
    module: str, arguments: Sequence[str], *, environ: Mapping[str, str], cwd: Path, stdin: str
) -> Ran:
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin.encode())
        given.seek(0)
        descriptors = given.fileno(), out.fileno(), err.fileno()
        run = prefork.start(module, arguments, environ=environ, cwd=cwd, descriptors=descriptors)
        try:
            code = run.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            run.kill()
            run.wait(TIMEOUT_S)
            raise
        return Ran(code, _text_of(out), _text_of(err))


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


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
