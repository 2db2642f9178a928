"""Aspects of `hold` on the command line: actions, types, reasons, habits of other tools, completion."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Program

TYPES = "freeze, incident, maintenance"
ACTIONS = "place, lift, list"


@pytest.mark.parametrize(
    ("line", "error", "hint"),
    [
        ("", "hold needs an action", f"there are: {ACTIONS}; `fencectl hold --help` shows each"),
        ("incident", "hold needs an action before `incident`", "place incident, or lift incident"),
        ("add freeze", "hold has no action `add`", f"did you mean `fencectl hold place`? There are: {ACTIONS}"),
        ("rm freeze", "hold has no action `rm`", f"did you mean `fencectl hold lift`? There are: {ACTIONS}"),
        ("lst", "hold has no action `lst`", f"did you mean `fencectl hold list`? There are: {ACTIONS}"),
        ("xyzzy", "hold has no action `xyzzy`", f"there are: {ACTIONS}"),
        ("place --reason x", "hold place needs the type of the hold", f"there are: {TYPES}"),
        ("lift --yes", "hold lift needs the type of the hold", f"there are: {TYPES}"),
        (
            "place freeze",
            "hold place needs a reason",
            "--reason 'INC-2291 checkout': whoever meets the hold reads it",
        ),
        (
            "lift freeze --yes",
            "hold lift needs a reason",
            "--reason 'INC-2291 is over': it is kept beside the hold that was lifted",
        ),
        ("place freze --reason x", "no hold is of type `freze`", f"did you mean `freeze`? There are: {TYPES}"),
        ("place x --reason x", "no hold is of type `x`", f"there are: {TYPES}"),
        ("lift ../x --reason x", "no hold is of type `../x`", f"there are: {TYPES}"),
        (
            "place claim --reason x",
            "a claim is left by a restore that failed, and not placed by hand",
            f"there are: {TYPES}",
        ),
        (
            "place freeze --reason INC 2291",
            "hold place takes one type, got `freeze` and `2291`",
            "a reason of several words goes in quotes: --reason '…'",
        ),
        (
            "lift freeze --until 3h",
            "hold lift takes no `--until`: a hold goes at once",
            "leave `--until` out. Nothing was read or changed",
        ),
        (
            "place freeze --reason x --yes",
            "hold place asks nothing, so there is nothing to confirm",
            "leave `--yes` out",
        ),
        ("list freeze", "hold list takes no type, got `freeze`", "it lists all of them"),
        ("list --reason x", "hold list takes no `--reason`", "leave it out. Nothing was read or changed"),
        ("list --yes", "hold list takes no `--yes`", "leave it out. Nothing was read or changed"),
        ("list --context a --context b", "hold takes one `--context`, got a, b", "run it once for each cluster"),
        (
            "list --profile ghcr-bridge",
            "hold is for the profile fencectl: ghcr-bridge has no record to hold anything in",
            "leave `--profile` out. Nothing was read or changed",
        ),
        ("list -o yaml", "`--output`: no choice `yaml`", "there are: text, json"),
        ("place freeze -m x", "hold has no option `-m`", "did you mean `--reason`?"),
        ("place freeze --for 3h", "hold has no option `--for`", "did you mean `--until`?"),
        (
            "place freeze --force",
            "there is no `--force`: a hold is never overwritten",
            "lift it, with the reason, then place it again",
        ),
        (
            "list -n flux-system",
            "a hold stands beside the lease, wherever that is",
            "`--context` picks the cluster",
        ),
        (
            "place freeze --reason x --until soon",
            "`--until`: `soon` is no time",
            "a duration such as 3h, a time of day such as 06:00Z, or 2026-11-30T06:00:00Z",
        ),
    ],
)
def test_wrong_line_is_answered_in_two_lines_and_exit_2(
    line: str, error: str, hint: str, program: Program
) -> None:
    """Before any kubeconfig is looked for: there is none here."""
    ended = program("hold", *line.split())
    assert ended.err == f"error: {error}\nhint: {hint}\n"
    assert (ended.status, ended.out) == (2, "")


def test_reason_that_is_too_long_or_blank_is_refused(program: Program) -> None:
    """A record is small, and every screen shows the whole reason."""
    long = program("hold", "place", "freeze", "--reason", "x" * 1001)
    assert long.err.startswith("error: the reason has 1001 characters, 1000 are allowed\n")
    assert program("hold", "place", "freeze", "--reason", " ").err.startswith("error: `--reason` is empty\n")


def test_reason_may_come_from_the_environment(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """As every flag; an end that is wrong there is found as well."""
    monkeypatch.setenv("FENCECTL_HOLD_REASON", "INC-2291")
    monkeypatch.setenv("FENCECTL_HOLD_UNTIL", "yesterday")
    assert program("hold", "place", "freeze").err.startswith("error: `--until`: `yesterday` is no time\n")


def complete(line: str) -> list[str]:
    """Ask as bash does."""
    done = subprocess.run(
        [sys.executable, "-m", "fencectl"],
        cwd=Path(__file__).parents[2],
        env={
            **os.environ,
            "_FENCECTL_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split(" ")) - 1),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_actions_and_types_are_completed() -> None:
    """The action first, then what can be placed or lifted by that name."""
    assert complete("fencectl hold ") == ["place", "lift", "list"]
    assert complete("fencectl hold pl") == ["place"]
    assert complete("fencectl hold lift i") == ["incident"]
