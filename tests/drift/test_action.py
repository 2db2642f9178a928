"""Aspects: the action and its examples fit GitHub's schemas · inputs, permissions, scripts · what the README says of them."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fencectl.core.errors import ExitCode
from fencectl.core.verbs import VERBS
from tests.support.runner import ACTION, EXAMPLES, ROOT, load

WORKFLOWS = [*sorted(EXAMPLES.glob("*.yml")), *sorted((ROOT / ".github/workflows").glob("*.yml"))]
COPIED = [path for path in WORKFLOWS if path.parent == EXAMPLES]
OWN = "acme/fencectl/.github/actions/fencectl@"


def schema(name: str) -> Any:
    """GitHub's schema, as it comes with the package that vendors it."""
    return json.loads((files("check_jsonschema") / "builtin_schemas/vendor" / f"{name}.json").read_text())


def steps_of(path: Path) -> list[dict[str, Any]]:
    return [step for job in load(path)["jobs"].values() for step in job.get("steps", [])]


def test_action_fits_the_schema_of_actions() -> None:
    """And one that does not is refused by it."""
    action = load(ACTION / "action.yml")
    jsonschema.validate(action, schema("github-actions"))
    del action["runs"]["steps"][0]["shell"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(action, schema("github-actions"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflow_fits_the_schema_of_workflows(path: Path) -> None:
    """The examples, and those that run here; a key too much is refused."""
    workflow = load(path)
    jsonschema.validate(workflow, schema("github-workflows"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(workflow | {"permisions": {}}, schema("github-workflows"))


def test_scripts_of_the_action_take_no_expression_and_deploy_and_recover_are_the_entry_process() -> None:
    """An input in a script is code of whoever wrote it; a cancel is told to the entry process only."""
    steps = load(ACTION / "action.yml")["runs"]["steps"]
    for step in steps:
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"
    [step] = [step for step in steps if step.get("id") == "fencectl"]
    started = re.findall(r"^.*\$FENCECTL_PROGRAM.*$", step["run"], re.MULTILINE)
    assert len(started) == 3
    assert all(re.search(r'\bexec "\$FENCECTL_PROGRAM" (fences|recover|deploy) ', line) for line in started)
    assert step["env"]["FENCECTL_JOB_ID"] == "${{ job.check_run_id }}"
    assert step["env"]["GITHUB_TOKEN"] == "${{ inputs.token }}"


def test_every_input_is_used_and_explained() -> None:
    """What is not used would be set for nothing."""
    action = load(ACTION / "action.yml")
    text = json.dumps(action["runs"])
    for name, told in action["inputs"].items():
        assert f"inputs.{name} " in text, name
        assert told["description"]
        assert told.get("required") or "default" in told


@pytest.mark.parametrize("path", COPIED, ids=lambda path: path.name)
def test_example_gives_least_rights_and_only_inputs_that_exist(path: Path) -> None:
    """Copied as it stands, it neither writes nor leaves a credential behind."""
    workflow, inputs = load(path), load(ACTION / "action.yml")["inputs"]
    assert workflow["permissions"] == {}
    assert "concurrency" in workflow
    used = 0
    for job in workflow["jobs"].values():
        assert job["permissions"] == {"contents": "read", "actions": "read"}
        assert job["timeout-minutes"]
    for step in steps_of(path):
        assert "${{" not in step.get("run", "")
        uses = step.get("uses", "")
        if uses.startswith(OWN):
            used += 1
            assert set(step["with"]) <= set(inputs)
            assert step["with"]["mode"] in ("gate", "deploy", "recover")
        elif uses:
            assert re.fullmatch(r"actions/checkout@[0-9a-f]{40}", uses)
            assert step["with"]["persist-credentials"] is False
    assert used


def test_examples_pin_what_the_workflows_here_pin() -> None:
    """One commit of one action, wherever it stands."""
    pins = {
        step["uses"]
        for path in WORKFLOWS
        for step in steps_of(path)
        if step.get("uses", "").startswith("actions/checkout")
    }
    assert len(pins) == 1


def test_readme_of_the_action_names_what_is_there() -> None:
    """Modes, outcome, examples; each exit code that it names is one."""
    text = (ACTION / "README.md").read_text()
    for path in EXAMPLES.iterdir():
        assert f"(../../examples/{path.name})" in text
    for verb in re.findall(r"`fencectl ([a-z]+)", text):
        assert verb in VERBS
    codes = {int(number) for number in re.findall(r"\b(1[0-9]|2[0-2])\b", text.split("```")[0])}
    assert codes <= {int(code) for code in ExitCode}
