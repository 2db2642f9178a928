"""
A runner of GitHub Actions, as far as a job's steps are shell scripts and this project's own action.

What it does is what facts say of the real one: a script is a file that bash is given; each step has files of its own for
outputs, summary, environment and path; a cancel is INT to the step's entry process alone, TERM 7.5 s later, KILL 2.5 s
after that, and then only steps that run always. An expression that it does not know is an error, not an empty string.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
ACTION = ROOT / ".github/actions/fencectl"
EXAMPLES = ROOT / ".github/examples"
INT_S, TERM_S = 7.5, 2.5
STEP_S = 100.0
# As the runner starts them (actions/runner, ScriptHandlerHelpers.cs).
SHELLS = {None: ("bash", "-e"), "bash": ("bash", "--noprofile", "--norc", "-eo", "pipefail")}
_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_PATH = re.compile(r"[a-z_-]+(?:\.[a-z_A-Z0-9-]+)+")


def load(path: Path) -> dict[str, Any]:
    """Read a workflow or an action; `on` is a key and no truth."""
    loaded = yaml.safe_load(path.read_text())
    return {("on" if key is True else key): value for key, value in loaded.items()}


class UnknownExpressionError(AssertionError):
    """This runner does not know such an expression."""


def value_of(expression: str, contexts: Mapping[str, Any]) -> Any:
    """Evaluate a conjunction of comparisons, `always()`, names and strings."""
    terms = [term.strip() for term in expression.split("&&")]
    values = [_term(term, contexts) for term in terms]
    return values[0] if len(values) == 1 else all(values)


def _term(term: str, contexts: Mapping[str, Any]) -> Any:
    for operator in ("==", "!="):
        left, found, right = term.partition(operator)
        if found:
            same = _term(left.strip(), contexts) == _term(right.strip(), contexts)
            return same if operator == "==" else not same
    if term == "always()":
        return True
    if re.fullmatch(r"'[^']*'", term):
        return term[1:-1]
    if not _PATH.fullmatch(term):
        raise UnknownExpressionError(term)
    value: Any = contexts
    first, *rest = term.split(".")
    if first not in contexts:
        raise UnknownExpressionError(term)
    value = contexts[first]
    for name in rest:
        value = value.get(name, "") if isinstance(value, Mapping) else ""
    return value


def text_of(text: Any, contexts: Mapping[str, Any]) -> str:
    """Put the values of all expressions into a text."""
    if isinstance(text, bool):
        return str(text).lower()
    return _EXPRESSION.sub(lambda match: str(value_of(match[1].strip(), contexts)), str(text))


def key_values(text: str) -> dict[str, str]:
    """Read a file of outputs as the runner does; what it would fail the step for is an error."""
    found: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        equals, heredoc = line.find("="), line.find("<<")
        if equals >= 0 and (heredoc < 0 or equals < heredoc):
            found[line[:equals]] = line[equals + 1 :]
        elif heredoc >= 0:
            name, end = line[:heredoc], line[heredoc + 2 :]
            assert name, line
            assert end, line
            found[name] = "\n".join(_until(end, lines))
        else:
            assert not line.strip(), f"the runner cannot read {line!r}"
    return found


def _until(end: str, lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if line == end:
            return
        yield line
    raise AssertionError(f"never ended: {end}")


@dataclass
class Job:
    """
    One job on one runner. `env`: what the runner and the job have set; `contexts`: beyond those of the steps.

    `cancel_when`: asked while a step runs. `log`: what all steps have said; `summary`: what they left for the page.
    """

    folder: Path
    env: dict[str, str]
    contexts: dict[str, Any]
    cancel_when: Callable[[], bool] = lambda: False
    ended_by: dict[str, int] = field(default_factory=dict)
    log: str = ""
    summary: str = ""
    status: str = "success"
    took_s: float = 0.0
    _number: int = 0

    @property
    def temp(self) -> Path:
        made = self.folder / "runner-temp"
        made.mkdir(parents=True, exist_ok=True)
        return made

    def steps(self, steps: list[dict[str, Any]], contexts: Mapping[str, Any]) -> dict[str, Any]:
        """Run steps in order; give the `steps` context."""
        told: dict[str, Any] = {}
        for step in steps:
            inside = {**contexts, "steps": told}
            outcome, outputs = self._step(step, inside)
            if "id" in step:
                told[step["id"]] = {"outcome": outcome, "outputs": outputs}
        return told

    def _step(self, step: Mapping[str, Any], contexts: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
        condition = str(step.get("if", "success()"))
        condition = _EXPRESSION.sub(lambda match: match[1].strip(), condition)
        runs = self.status == "success" if condition == "success()" else value_of(condition, contexts)
        if not runs:
            return "skipped", {}
        if "uses" in step:
            return self._uses(step, contexts)
        environ = {name: text_of(value, contexts) for name, value in step.get("env", {}).items()}
        return self._script(step, environ, contexts)

    def _uses(self, step: Mapping[str, Any], contexts: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
        if step["uses"].startswith("actions/checkout@"):
            return "success", {}
        assert ".github/actions/fencectl" in step["uses"], step["uses"]
        given = {name: text_of(value, contexts) for name, value in step.get("with", {}).items()}
        before = self.status
        outputs = self.action(given)
        failed = self.status != "success" and before == "success"
        return ("failure" if failed else "success"), outputs

    def action(self, given: Mapping[str, str]) -> dict[str, str]:
        """Run this project's own action with these inputs; give its outputs."""
        action = load(ACTION / "action.yml")
        assert set(given) <= set(action["inputs"]), given
        inputs = {}
        for name, told in action["inputs"].items():
            assert name in given or "default" in told, f"{name} is required"
            inputs[name] = given[name] if name in given else text_of(told["default"], self.contexts)
        github = {**self.contexts["github"], "action_path": str(ACTION)}
        contexts = {**self.contexts, "github": github, "inputs": inputs}
        contexts["steps"] = self.steps(action["runs"]["steps"], contexts)
        return {name: text_of(told["value"], contexts) for name, told in action["outputs"].items()}

    def _script(
        self, step: Mapping[str, Any], environ: Mapping[str, str], contexts: Mapping[str, Any]
    ) -> tuple[str, dict[str, str]]:
        self._number += 1
        script = self.temp / f"script-{self._number}.sh"
        script.write_text(text_of(step["run"], contexts))
        files = {}
        for name in ("OUTPUT", "STEP_SUMMARY", "ENV", "PATH"):
            files[name] = self.temp / f"{name.lower()}-{self._number}"
            files[name].touch()
        env = self.env | {f"GITHUB_{name}": str(path) for name, path in files.items()} | dict(environ)
        where = self.folder / "workspace" / text_of(step.get("working-directory", "."), contexts)
        where.mkdir(parents=True, exist_ok=True)
        log = self.temp / f"log-{self._number}"
        begun_s = time.monotonic()
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*SHELLS[step.get("shell")], str(script)],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=env, cwd=where,
                pass_fds=[int(env["FENCECTL_FORKS"])] if "FENCECTL_FORKS" in env else [],
            )  # fmt: skip
            cancelled = self._wait(process)
        self.took_s = time.monotonic() - begun_s
        self.log += log.read_text(errors="replace")
        self.summary += files["STEP_SUMMARY"].read_text()
        assert len(self.summary.encode()) < 1 << 20
        self.env |= key_values(files["ENV"].read_text())
        if "id" in step:
            self.ended_by[step["id"]] = process.returncode
        if cancelled:
            self.status = "cancelled"
        elif process.returncode != 0 and self.status == "success":
            self.status = "failure"
        outcome = "cancelled" if cancelled else "success" if process.returncode == 0 else "failure"
        return outcome, key_values(files["OUTPUT"].read_text())

    def _wait(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait for its end; True where it was told to end."""
        end_s = time.monotonic() + STEP_S
        while process.poll() is None:
            if self.status != "cancelled" and self.cancel_when():
                self._cancel(process)
                return True
            assert time.monotonic() < end_s, "the step never ended"
            time.sleep(0.02)
        return False

    @staticmethod
    def _cancel(process: subprocess.Popen[bytes]) -> None:
        for number, wait_s in ((signal.SIGINT, INT_S), (signal.SIGTERM, TERM_S)):
            # NB: one process, not its group (actions/runner, ProcessInvoker.cs).
            os.kill(process.pid, number)
            try:
                process.wait(wait_s)
            except subprocess.TimeoutExpired:
                continue
            return
        process.kill()
        process.wait()
