"""Aspects: help blocks · exit table and order · config sample · set-up lines · links · words of the profiles."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fencectl.core.config import parse_config
from fencectl.core.errors import WORST_FIRST, ExitCode
from fencectl.core.profiles import ProfileName
from fencectl.core.verbs import VERBS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    """Every fenced block of that language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def rows(heading: str) -> list[list[str]]:
    """The rows of the table below a heading."""
    section = README.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


@pytest.mark.parametrize("verb", ["", *sorted(VERBS)])
def test_help_in_the_readme_is_what_the_program_prints(verb: str) -> None:
    """The README quotes it whole."""
    done = subprocess.run(
        [sys.executable, "-m", "fencectl", *verb.split(), "--help"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout in blocks("text")


def test_exit_table_is_the_programs_own() -> None:
    """Every code with its meaning, word for word, and none that does not exist."""
    assert rows("Exit codes") == [[str(int(code)), code.meaning] for code in ExitCode]


def test_order_of_the_worst_is_the_programs_own() -> None:
    """What a gate over several clusters ends with."""
    section = README.split("the worst decides, in this order:")[1].split(".")[0]
    assert [int(number) for number in section.split(",")] == [int(code) for code in WORST_FIRST]


def test_config_sample_loads_and_says_what_it_shows() -> None:
    """Whoever copies it has a config that works."""
    [sample] = blocks("yaml")
    config = parse_config(sample, path="fencectl.yaml")
    assert [target.name for target in config.targets] == ["prod"]
    assert config.settings.lease.name == "fencectl-deploy"
    assert config.settings.nodes.timeout_s == 1800


def test_config_sample_shows_every_key_there_is() -> None:
    """A key that the sample does not show would have to be guessed."""
    from fencectl.core.config_parse import _SECTIONS, _SETTINGS

    [sample] = blocks("yaml")
    config = parse_config(sample, path="fencectl.yaml")
    shown = set(config.lines)
    assert {
        ("apiVersion",),
        ("kind",),
        ("targets", "prod", "context"),
        ("targets", "prod", "print_context"),
    } <= shown
    assert {(key,) for key in _SETTINGS} <= shown
    assert {(section, key) for section, keys in _SECTIONS.items() for key in keys} <= shown


def test_profiles_are_all_told() -> None:
    """Each by the name that `--profile` takes."""
    assert [row[0].strip("`") for row in rows("Profiles")] == [str(name) for name in ProfileName]


def test_set_up_lines_are_the_ones_that_ci_runs() -> None:
    """The first with the demo, without development dependencies; the second with the tests. CI takes them from here."""
    first, second = (block.strip() for block in blocks("sh"))
    assert re.fullmatch(r"python3 -m venv .* demo --yes", first)
    assert "[dev]" not in first
    assert re.fullmatch(r"python3 -m venv .*\[dev\].*-m pytest", second)
    assert "grep -m 1 -E '^python3 -m venv .*-m pytest$' README.md" in (ROOT / ".ci/run").read_text()
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    assert "grep -m 1 -E '^python3 -m venv .* demo --yes$' README.md" in workflow


@pytest.mark.parametrize(
    "document", ["README.md", ".github/CONTRIBUTING.md", ".github/SECURITY.md", ".github/CHANGES.md", "tests/cluster/README.md"]
)  # fmt: skip
def test_links_lead_to_files_that_are_there(document: str) -> None:
    """Relative links only; what is renamed must be renamed here."""
    path = ROOT / document
    for link in re.findall(r"\]\(([^)#\s]+)\)", path.read_text()):
        assert (path.parent / link).exists(), f"{document} links to {link}"
