"""Aspects: every flag reaches the command · flag over environment · kubectl's -v · colour · what is no environment."""

from __future__ import annotations

from typing import Any

import pytest

from fencectl.commands.options import Color, CommonOptions, FencesOptions, Output, ReleaseOptions, Shell
from fencectl.commands.options_acting import DemoOptions, RecoverOptions
from tests.cli.conftest import Program


def test_every_flag_of_fences_reaches_the_command(program: Program, asked: list[Any]) -> None:
    """One frozen object holds the whole line."""
    line = (
        "fences --exit-code --older-than 2h --explain --shell powershell --context prod --context dev --context prod -o yaml "
        "--config c.yaml --kubeconfig k --profile ghcr-bridge --request-timeout 1m --no-color -vv"
    )
    assert program(*line.split()).status == 0
    assert asked == [
        FencesOptions(
            common=CommonOptions(
                contexts=("prod", "dev"),
                kubeconfig="k",
                config="c.yaml",
                profile="ghcr-bridge",
                request_timeout_s=60,
                color=Color.NEVER,
                verbosity=2,
                origins={
                    name: f"--{name}"
                    for name in (
                        "exit-code", "older-than", "explain", "shell", "context", "output", "config", "kubeconfig", "profile",
                        "request-timeout", "no-color", "verbose",
                    )
                },
            ),
            output=Output.YAML,
            exit_code=True,
            older_than_s=7200,
            explain=True,
            shell=Shell.POWERSHELL,
        )
    ]  # fmt: skip


def test_every_flag_of_release_reaches_the_command(program: Program, asked: list[Any]) -> None:
    """Fences stay as they were typed, and in their order; `--` ends the options."""
    line = "release node/worker-2 --holder 123.1 --explain --shell powershell --output-dir d -- lease/a/-b"
    assert program(*line.split()).status == 0
    [options] = asked
    assert isinstance(options, ReleaseOptions)
    assert options.fences == ("node/worker-2", "lease/a/-b")
    assert (options.holder, options.explain, options.shell, options.output_dir, options.output) == (
        "123.1",
        True,
        Shell.POWERSHELL,
        "d",
        Output.TEXT,
    )


def test_every_flag_of_recover_reaches_the_command(program: Program, asked: list[Any]) -> None:
    """What a person vouches for is never taken from anywhere else."""
    line = (
        "recover --dry-run --holder 123.1 --accept-presumed --node-verified a --node-verified b "
        "--resume-kept kustomization/x/y --watch-for 2m -y -o json --context prod"
    )
    assert program(*line.split()).status == 0
    assert program("recover", "--all").status == 0
    first, second = asked
    assert isinstance(first, RecoverOptions)
    assert first.common.contexts == ("prod",)
    assert (first.output, first.holder, first.dry_run, first.yes, first.every) == (
        Output.JSON,
        "123.1",
        True,
        True,
        False,
    )
    assert (first.accept_presumed, first.verified_nodes, first.resume_kept, first.watch_for_s) == (
        True,
        ("a", "b"),
        ("kustomization/x/y",),
        120,
    )
    assert second.every
    assert not second.yes


def test_watch_and_no_commands_reach_the_command(program: Program, asked: list[Any]) -> None:
    """The two that exclude others are tried alone."""
    assert program("fences", "-w").status == program("fences", "--no-commands").status == 0
    assert [(options.watch, options.no_commands) for options in asked] == [(True, False), (False, True)]


def test_demo_takes_its_own_flags_only(program: Program, asked: list[Any]) -> None:
    """It knows one cluster: its own."""
    assert program("demo", "-y", "--serve", "--no-color", "-v").status == 0
    assert asked == [DemoOptions(serve=True, yes=True, color=Color.NEVER, verbosity=1)]


def test_nothing_given_is_nothing_decided(program: Program, asked: list[Any]) -> None:
    """Defaults belong to the config and to what comes after it."""
    program("fences")
    program("release")
    program("demo")
    assert asked == [FencesOptions(), ReleaseOptions(), DemoOptions()]


def test_environment_stands_in_for_flags_and_flags_win(
    program: Program, monkeypatch: pytest.MonkeyPatch, asked: list[Any]
) -> None:
    """FENCECTL_<VERB>_<FLAG>, and each value knows where it comes from."""
    monkeypatch.setenv("FENCECTL_FENCES_CONTEXT", "dev staging")
    monkeypatch.setenv("FENCECTL_FENCES_EXIT_CODE", "1")
    monkeypatch.setenv("FENCECTL_FENCES_REQUEST_TIMEOUT", "5s")
    monkeypatch.setenv("FENCECTL_RELEASE_CONTEXT", "other")
    program("fences", "--request-timeout", "9s")
    program("fences", "--context", "prod")
    first, second = asked
    assert first.exit_code
    assert first.common.contexts == ("dev", "staging")
    assert first.common.request_timeout_s == 9
    assert first.common.origins == {
        "context": "FENCECTL_FENCES_CONTEXT",
        "exit-code": "FENCECTL_FENCES_EXIT_CODE",
        "request-timeout": "--request-timeout",
    }
    assert second.common.contexts == ("prod",)
    assert second.common.origins["context"] == "--context"


def test_options_that_only_print_come_from_no_environment(
    program: Program, monkeypatch: pytest.MonkeyPatch, asked: list[Any]
) -> None:
    """A job that pins FENCECTL_VERSION must get its report, not a version number."""
    for name in ("VERSION", "HELP", "FENCES_HELP", "INSTALL_COMPLETION", "SHOW_COMPLETION"):
        monkeypatch.setenv(f"FENCECTL_{name}", "1")
    assert program("fences").out == ""
    assert asked == [FencesOptions()]


@pytest.mark.parametrize(
    ("line", "verbosity"),
    [
        ("-v", 1), ("-vv", 2), ("-v -v", 2), ("--verbose", 1), ("-v=6", 2), ("-v6", 2), ("-v 6", 2), ("--v=8", 2),
        ("-v=1", 1), ("-v=0", 0), ("-v 10 -w", 2), ("", 0),
    ],
)  # fmt: skip
def test_kubectls_levels_are_read_as_ours(line: str, verbosity: int, program: Program, asked: list[Any]) -> None:
    """Whoever debugs kubectl types `-v=6`."""
    assert program("fences", *line.split()).status == 0
    assert asked[0].common.verbosity == verbosity


@pytest.mark.parametrize(
    ("flag", "environment", "color"),
    [
        ("", {}, Color.AUTO),
        ("--no-color", {}, Color.NEVER),
        ("--no-color", {"FORCE_COLOR": "1"}, Color.NEVER),
        ("", {"NO_COLOR": "1"}, Color.NEVER),
        ("", {"NO_COLOR": ""}, Color.AUTO),
        ("", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, Color.NEVER),
        ("", {"FORCE_COLOR": "1"}, Color.ALWAYS),
        ("", {"FORCE_COLOR": "0"}, Color.AUTO),
        ("", {"TERM": "dumb"}, Color.NEVER),
        ("", {"TERM": "dumb", "FORCE_COLOR": "1"}, Color.ALWAYS),
        ("", {"FENCECTL_FENCES_NO_COLOR": "true"}, Color.NEVER),
    ],
)
def test_colour_is_decided_by_flag_then_environment(
    flag: str,
    environment: dict[str, str],
    color: Color,
    program: Program,
    monkeypatch: pytest.MonkeyPatch,
    asked: list[Any],
) -> None:
    """NO_COLOR wins over FORCE_COLOR, a flag over both; without either the terminal decides."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert program("fences", *flag.split()).status == 0
    assert asked[0].common.color is color
