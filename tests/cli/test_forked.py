"""Aspects of the runs that tests fork: same output, status and signals as a started one · nothing stays for the next."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support import prefork
from tests.support.program import environment, run_program

# With this variable a run is started, not forked: an interpreter reads it when it begins.
STARTED = {"PYTHONHASHSEED": "0"}

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="runs are forked on Linux only")


@pytest.mark.parametrize(
    "line",
    ["--version", "fences --no-such-flag", "release --context nowhere", "deploy --help", "hold lift freeze"],
)
def test_forked_run_prints_and_ends_as_a_started_one(line: str, tmp_path: Path) -> None:
    """Both streams and the status."""
    forked = run_program(*line.split(), kubeconfig=tmp_path / "none", cwd=tmp_path)
    started = run_program(*line.split(), kubeconfig=tmp_path / "none", cwd=tmp_path, env=STARTED)
    assert forked == started
    assert forked.text


def test_folder_and_environment_are_those_of_the_run_alone(tmp_path: Path) -> None:
    """What the first one met, the second one does not."""
    there, elsewhere = tmp_path / "there", tmp_path / "elsewhere"
    there.mkdir()
    elsewhere.mkdir()
    (there / "fencectl.yaml").write_text("apiVersion: no/such\n")
    broken = run_program("fences", kubeconfig=tmp_path / "none", cwd=there)
    assert "fencectl.yaml" in broken.stderr
    refused = run_program(
        "fences", kubeconfig=tmp_path / "none", cwd=elsewhere, env={"FENCECTL_FENCES_OUTPUT": "xml"}
    )
    assert "xml" in refused.stderr
    plain = run_program("fences", kubeconfig=tmp_path / "none", cwd=elsewhere)
    assert "fencectl.yaml" not in plain.text
    assert "xml" not in plain.text


def test_forked_run_that_is_killed_is_seen_as_killed(tmp_path: Path) -> None:
    """By its own pid, and the process that forks goes on."""
    fifo = tmp_path / "kubeconfig"
    os.mkfifo(fifo)  # whoever reads it waits until somebody writes
    environ = environment(fifo)
    with (tmp_path / "out").open("wb") as out:
        descriptors = out.fileno(), out.fileno(), out.fileno()
        run = prefork.start("fencectl", ["fences"], environ=environ, cwd=tmp_path, descriptors=descriptors)
        assert run.poll() is None
        assert run.pid != os.getpid()
        run.kill()
        assert run.wait(60) == -signal.SIGKILL
        assert run.poll() == -signal.SIGKILL
    assert run_program("--version", kubeconfig=fifo, cwd=tmp_path).code == 0
