"""Aspects: the CI script's shell · what a run that skipped something ends with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_script_stops_at_the_first_failure_and_is_executable() -> None:
    """`set -euo pipefail`, and bash finds nothing wrong with it."""
    script = ROOT / ".ci/run"
    assert os.access(script, os.X_OK)
    assert "\nset -euo pipefail\n" in script.read_text()
    subprocess.run(["bash", "-n", str(script)], check=True, timeout=30)


def test_script_runs_the_whole_suite_with_coverage_and_without_skips() -> None:
    """The floor itself stands in pyproject.toml."""
    text = (ROOT / ".ci/run").read_text()
    assert "export PYTEST_ADDOPTS='-n 4 --dist worksteal --cov --cov-report=term -p tests.support.noskip'" in text
    assert "export CI=true" in text
    assert "fail_under = " in (ROOT / "pyproject.toml").read_text()


SUITE = """
import pytest

def test_runs():
    pass

@pytest.mark.parametrize("kind", ["mark", "call", "xfail"])
def test_does_not(kind):
    if kind == "call":
        pytest.skip("no Go here")
    if kind == "xfail":
        pytest.xfail("known")

@pytest.mark.skip(reason="some day")
def test_marked():
    raise AssertionError
"""


def run_suite(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_some.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    # Only what is under test: the other plugins cost more than all the rest.
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.support.noskip", "-p", "no:cacheprovider", str(folder), *options],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("workers", [("-p", "no:xdist"), ("-p", "xdist", "-n", "1")], ids=["alone", "xdist"])
def test_run_that_skipped_something_fails_and_says_what(workers: tuple[str, ...], tmp_path: Path) -> None:
    """Alone and with workers, whichever way it was skipped."""
    done = run_suite(tmp_path, SUITE, *workers)
    assert done.returncode == 1, done.stdout
    for line in ("test_does_not[call]: Skipped: no Go here", "test_does_not[xfail]: ", "test_marked: "):
        assert line in done.stdout


def test_run_that_deselected_or_never_collected_something_fails(tmp_path: Path) -> None:
    """`-k`, a module that skips itself: nothing of it ran."""
    assert run_suite(tmp_path, "def test_a(): pass\ndef test_b(): pass\n", "-k", "test_a").returncode == 1
    whole = run_suite(tmp_path, "import pytest\npytest.skip('not here', allow_module_level=True)\n")
    assert whole.returncode == 1
    assert "not here" in whole.stdout


def test_run_in_which_everything_ran_passes(tmp_path: Path) -> None:
    """And says nothing of it."""
    done = run_suite(tmp_path, "def test_runs(): pass\n")
    assert done.returncode == 0, done.stdout
    assert "did not run" not in done.stdout
