"""Aspects: no machine in the tree, no registry, no unfinished work, no secret."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# NB: put together here, so that this file does not find itself.
REGISTRIES = ("py" + "pi.org", "files.python" + "hosted.org", "registry.npm" + "js.org", "proxy.golang" + ".org")
SUM_FILES = ("go.sum", "go.mod")


def committed() -> list[Path]:
    """What git would clone: no build products, nothing of the machine."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"needs git: {done.stderr}"
    return [path for name in done.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def lines_with(pattern: str) -> list[str]:
    compiled = re.compile(pattern)
    found = []
    for path in committed():
        if path.name in SUM_FILES:
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1):
            if compiled.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}")
    return found


def test_no_registry_is_named() -> None:
    """Where packages come from is the affair of whoever installs them."""
    assert lines_with("|".join(map(re.escape, REGISTRIES))) == []


@pytest.mark.parametrize(
    "path",
    [r"/home/(?!runner)[a-z]+/", r"/Users/[A-Za-z]+/", r"(?<![\w.~/])/ro" + r"ot/", r"(?<![\w.])/wo" + r"rk/"],
)
def test_no_path_of_a_machine_is_named(path: str) -> None:
    """What works in one folder only does not work."""
    assert lines_with(path) == []


def test_nothing_is_left_undone() -> None:
    """Open ends go into issues, not into code."""
    assert lines_with(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b") == []


def test_no_file_is_in_conflict() -> None:
    """A merge that was committed half way."""
    assert lines_with(r"^(<{7} |>{7} )") == []


def test_top_level_stays_as_small_as_it_is() -> None:
    """A newcomer sees the whole house at once."""
    allowed = {
        "pyproject.toml",
        "fencectl",
        "tests",
        "runbooks",
        "README.md",
        "LICENSE",
        ".github",
        ".ci",
        ".gitignore",
    }
    assert {path.relative_to(ROOT).parts[0] for path in committed()} <= allowed
