"""Aspects: workflows parse · actions pinned · least permissions · no credentials left · the gate knows every job."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def load(path: Path) -> dict[Any, Any]:
    loaded = yaml.safe_load(path.read_text())
    assert isinstance(loaded, dict)
    return loaded


def steps_of(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job.get("steps", [])]


def test_there_are_workflows() -> None:
    """Or else everything below would hold of nothing."""
    assert {path.name for path in WORKFLOWS} >= {"ci.yml", "bench.yml"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_is_pinned_to_a_commit_with_its_version_beside_it(path: Path) -> None:
    """A tag can be moved to other code; the comment is what Dependabot and readers go by."""
    lines = [line for line in path.read_text().splitlines() if re.search(r"\buses:", line)]
    assert lines
    for line in lines:
        assert re.fullmatch(r"\s*(?:- )?uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line
    assert len(lines) == sum("uses" in step for step in steps_of(load(path)))


def test_one_action_has_one_commit_everywhere() -> None:
    """Two pins of one action are an update that was half made."""
    pins: dict[str, set[str]] = {}
    for path in WORKFLOWS:
        for step in steps_of(load(path)):
            if "uses" in step:
                action, _, commit = step["uses"].partition("@")
                pins.setdefault(action, set()).add(commit)
    assert all(len(commits) == 1 for commits in pins.values()), pins


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_permissions_are_none_and_each_job_reads_at_most(path: Path) -> None:
    """Nothing here publishes, so nothing here may write."""
    workflow = load(path)
    assert workflow["permissions"] == {}
    for name, job in workflow["jobs"].items():
        assert job["permissions"] in ({}, {"contents": "read"}), name
        assert job["timeout-minutes"] <= 60, name
        assert "secrets." not in str(job), name


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_checkouts_leave_no_credentials_behind(path: Path) -> None:
    """Code under test cannot find a token in `.git/config`."""
    for step in steps_of(load(path)):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_scripts_take_no_expression_of_an_event(path: Path) -> None:
    """A branch's name in `${{ … }}` inside a script is code of whoever named it."""
    for step in steps_of(load(path)):
        assert "${{" not in step.get("run", "")
    triggers = load(path)[True]  # NB: YAML 1.1 reads the key `on` as true
    assert "pull_request_target" not in triggers


def test_gate_needs_every_other_job_and_accepts_success_only() -> None:
    """One check to require; a new job joins it, or this fails."""
    jobs = load(ROOT / ".github/workflows/ci.yml")["jobs"]
    gate = jobs["all-green"]
    assert sorted(gate["needs"]) == sorted(set(jobs) - {"all-green"})
    assert gate["if"] == "always()"
    [step] = gate["steps"]
    assert step["env"]["RESULTS"] == "${{ join(needs.*.result, ' ') }}"
    assert 'test "$result" = success' in step["run"]


def test_matrix_is_every_python_that_the_package_names() -> None:
    """What the classifiers promise is what CI runs."""
    matrix = load(ROOT / ".github/workflows/ci.yml")["jobs"]["suite"]["strategy"]["matrix"]["python"]
    promised = re.findall(r"Programming Language :: Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    assert matrix == promised
    assert f'requires-python = ">={matrix[0]}"' in (ROOT / "pyproject.toml").read_text()


def test_dependabot_waits_before_it_proposes_a_release() -> None:
    """Most releases that are withdrawn or poisoned are known as such after a week."""
    updates = yaml.safe_load((ROOT / ".github/dependabot.yml").read_text())["updates"]
    assert {update["package-ecosystem"] for update in updates} == {"github-actions", "pip", "gomod"}
    assert all(update["cooldown"]["default-days"] >= 7 for update in updates)
    modules = {f"/{path.parent.relative_to(ROOT)}" for path in (ROOT / "tests/cluster").rglob("go.mod")}
    [gomod] = [update for update in updates if update["package-ecosystem"] == "gomod"]
    assert set(gomod["directories"]) == modules


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name)
def test_every_yaml_file_of_github_parses(path: Path) -> None:
    """Templates too."""
    assert load(path)
