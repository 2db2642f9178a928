"""Aspects: every contract is kept · every contract fails when bent, directly and through others · packages say their rule."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT = Path(sys.executable).parent / "lint-imports"


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts of the tree in that folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    return subprocess.run(
        [str(LINT), "--no-cache"], cwd=folder, env={**environment, "PYTHONPATH": str(folder)},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the package and of its contracts, to be bent."""
    shutil.copytree(ROOT / "fencectl", tmp_path / "fencectl", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def add(tree: Path, module: str, line: str) -> None:
    path = tree / "fencectl" / module
    path.write_text(f"{path.read_text()}\n{line}\n")


def test_contracts_are_kept() -> None:
    """As CI checks them."""
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout
    assert " 0 broken." in done.stdout


READS_ONLY = "what only reports cannot reach what writes BROKEN"


@pytest.mark.parametrize(
    ("bent", "verdict"),
    [
        ([("commands/fences.py", "from fencectl.cluster import write")], READS_ONLY),
        ([("commands/release.py", "import fencectl.cluster.write")], READS_ONLY),
        ([("commands/runbook.py", "import fencectl.cluster.write")], READS_ONLY),
        ([("commands/common.py", "from fencectl.cluster import write")], READS_ONLY),  # fences imports it
        ([("report/escape.py", "def f():\n    from fencectl.cluster.write import send")], READS_ONLY),
        ([("cluster/read.py", "import fencectl.cluster.write")], READS_ONLY),  # two steps away
        ([("commands/fences.py", "import fencectl.sandbox")], READS_ONLY),
        ([("core/times.py", "import os")], "core is pure BROKEN"),
        ([("core/times.py", "import time")], "core is pure BROKEN"),
        ([("core/times.py", "import typer")], "core is pure BROKEN"),
        ([("core/times.py", "from fencectl.cluster import read")], "layers: "),
        ([("cluster/read.py", "import fencectl.report.escape")], "layers: "),
        ([("report/escape.py", "import fencectl.commands.common")], "layers: "),
        ([("commands/common.py", "import fencectl.clihelp")], "layers: "),
        (
            [("sandbox/api.py", "import fencectl.report.escape")],
            "the sandbox stands apart: it knows core only BROKEN",
        ),
        ([("report/escape.py", "import fencectl.sandbox")], "only the demo knows the sandbox BROKEN"),
    ],
    ids=lambda value: value[0][0] + ": " + value[0][1].splitlines()[-1].strip() if isinstance(value, list) else "",
)
def test_contract_breaks_when_it_is_bent(bent: list[tuple[str, str]], verdict: str, tree: Path) -> None:
    """A rule that cannot fail is a wish: one import more, and the build is red, for the right reason."""
    for module, line in bent:
        add(tree, module, line)
    done = lint(tree)
    assert done.returncode == 1, done.stdout
    [broken] = [line for line in done.stdout.splitlines() if line.startswith(verdict) and "BROKEN" in line]
    assert broken


def test_every_package_says_what_it_may_not_do() -> None:
    """The first thing that a newcomer reads in it."""
    for path in sorted((ROOT / "fencectl").rglob("__init__.py")):
        assert path.read_text().startswith('"""'), path
