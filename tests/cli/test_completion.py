"""Aspects: bash, zsh and fish · verbs, flags, choices · the scripts that are installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fencectl.core.runbooks import RUNBOOKS


def complete(**environment: str) -> str:
    """Ask the program as a shell's completion does."""
    done = subprocess.run(
        [sys.executable, "-m", "fencectl"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def in_bash(line: str) -> list[str]:
    words = line.split(" ")
    return complete(
        _FENCECTL_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1)
    ).splitlines()


def test_bash_completes_verbs_flags_and_choices() -> None:
    """What one types most."""
    assert in_bash("fencectl ") == [
        "fences",
        "release",
        "history",
        "doctor",
        "runbook",
        "deploy",
        "recover",
        "rollback",
        "hold",
        "demo",
    ]
    assert in_bash("fencectl fe") == ["fences"]
    assert "--exit-code" in in_bash("fencectl fences --ex")
    assert in_bash("fencectl release -o ") == ["text", "json"]
    assert in_bash("fencectl fences --profile g") == ["ghcr-bridge"]


def test_runbooks_are_completed_by_name() -> None:
    """From the texts that are there."""
    assert in_bash("fencectl runbook un") == ["unexpected", "unknown-holder", "unusable-mark"]
    assert set(in_bash("fencectl runbook ")) == {book.name for book in RUNBOOKS}


def test_options_of_other_tools_are_not_offered() -> None:
    """They are answered when typed, not suggested."""
    offered = in_bash("fencectl fences --")
    assert not {"--namespace", "--force", "--wait"} & set(offered)


def test_zsh_and_fish_get_words_with_their_help() -> None:
    """The two that can show it."""
    zsh = complete(_FENCECTL_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="fencectl fe")
    assert '"fences":"Report every fence held' in zsh
    fish = complete(
        _FENCECTL_COMPLETE="complete_fish",
        _TYPER_COMPLETE_FISH_ACTION="get-args",
        _TYPER_COMPLETE_ARGS="fencectl de",
    )
    assert "demo\tThe whole story" in fish


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_for_each_shell_calls_the_program_back(shell: str) -> None:
    """What `--install-completion` writes down."""
    script = complete(_FENCECTL_COMPLETE=f"source_{shell}")
    assert f"_FENCECTL_COMPLETE=complete_{shell}" in script
    assert "fencectl" in script
