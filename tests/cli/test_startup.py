"""Aspects: help, version, completion and usage errors stay light, as `sys.modules` shows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("kubernetes", "rich", "pydantic", "msgspec", "yaml", "http.client")
COMPLETE = {"_FENCECTL_COMPLETE": "complete_bash", "COMP_WORDS": "fencectl fences --", "COMP_CWORD": "2"}
REPORT = """
import os, sys
from fencectl.cli import main
try:
    status = main()
except SystemExit as leave:  # Typer's completion
    status = leave.code or 0
loaded = [name for name in os.environ["HEAVY"].split() if name in sys.modules]
sys.stderr.write(f"\\nstatus={status} loaded={loaded}")
"""


@pytest.mark.parametrize(
    ("line", "environment", "status"),
    [
        ("--help", {}, 0),
        ("--version", {}, 0),
        ("", {}, 2),
        ("fences --help", {}, 0),
        ("release --help", {}, 0),
        ("demo --help", {}, 0),
        ("", COMPLETE, 0),
        ("", {**COMPLETE, "COMP_WORDS": "fencectl runbook ", "COMP_CWORD": "2"}, 0),
        ("runbook --help", {}, 0),
        ("runbook still-fenced --context a --context b", {}, 2),
        ("", {"_FENCECTL_COMPLETE": "source_bash"}, 0),
        ("fence", {}, 2),
        ("fences -n flux-system", {}, 2),
        ("fences -o wide", {}, 2),
        ("fences -v -o wide", {}, 2),
        ("release --context a --context b", {}, 2),
        ("fences --request-timeout soon", {}, 2),
        ("demo --context x", {}, 2),
    ],
)
def test_what_reads_no_cluster_loads_nothing_that_would(
    line: str, environment: dict[str, str], status: int
) -> None:
    """These run at every key press of a completion; one stray import would double their time."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT, *line.split()],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **environment, "HEAVY": " ".join(HEAVY)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr.rpartition("\n")[2] == f"status={status} loaded=[]"
    assert "Traceback" not in done.stderr
