"""Aspects: unknown verbs and options · habits of other tools · bad values · order on the line · empty values."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.conftest import Program

FILTER = "fences reads the whole cluster; a filter could hide a fence"


@pytest.mark.parametrize(
    ("line", "error", "hint"),
    [
        ("fence", "no command `fence`", "did you mean `fencectl fences`? There are: fences, release, history, doctor, runbook, deploy, recover, rollback, hold, demo"),
        ("status", "no command `status`", "did you mean `fencectl fences`? There are: fences, release, history, doctor, runbook, deploy, recover, rollback, hold, demo"),
        ("unlock", "no command `unlock`", "did you mean `fencectl release`? There are: fences, release, history, doctor, runbook, deploy, recover, rollback, hold, demo"),
        ("version", "no command `version`", "did you mean `fencectl --version`? There are: fences, release, history, doctor, runbook, deploy, recover, rollback, hold, demo"),
        ("xyzzy", "no command `xyzzy`", "there are: fences, release, history, doctor, runbook, deploy, recover, rollback, hold, demo"),
        ("help xyzzy", "no command `xyzzy`", "there are: fences, release, history, doctor, runbook, deploy, recover, rollback, hold, demo"),
        ("--context prod fences -w", "`--context` goes after the verb", "fencectl fences --context prod -w"),
        ("-v fences", "`-v` goes after the verb", "fencectl fences -v"),
        ("-V", "no option `-V`", "did you mean `--version`?"),
        ("-o json", "`-o` needs a command before it", "fencectl COMMAND -o; commands: fences, release, history, doctor, runbook, deploy, recover, rollback, hold, demo"),
        ("--version=1", "`--version` takes no value", "fencectl --help lists the commands"),
        ("fences prod", "fences takes no argument, got `prod`", "did you mean `--context prod`?"),
        (
            "fences node/worker-2",
            "fences takes no argument, got `node/worker-2`",
            "fences shows all, always; `fencectl release node/worker-2` prints the command of one fence",
        ),
        ("demo now", "demo takes no argument, got `now`", "fencectl demo --help shows what it takes"),
        ("fences --exitcode", "fences has no option `--exitcode`", "did you mean `--exit-code`?"),
        ("fences --exit", "fences has no option `--exit`", "did you mean `--exit-code`?"),
        ("fences --con x", "fences has no option `--con`", "did you mean `--config` or `--context`?"),
        ("fences --zzz", "fences has no option `--zzz`", "fencectl fences --help lists the options"),
        ("fences -z", "fences has no option `-z`", "fencectl fences --help lists the options"),
        ("fences -o wide", "`--output`: no choice `wide`", "there are: text, json, yaml, markdown, github, openmetrics"),
        (
            "release -o jsn",
            "`--output`: no choice `jsn`",
            "did you mean `json`? There are: text, json",
        ),
        ("release -o yaml", "`--output`: no choice `yaml`", "there are: text, json"),
        ("fences --profile ghcr", "`--profile`: no choice `ghcr`", "did you mean `ghcr-bridge`? There are: fencectl, ghcr-bridge"),
        ("fences --shell fish", "`--shell`: no choice `fish`", "there are: posix, powershell"),
        ("fences -o", "`-o` needs a value", "fencectl fences --help lists the options"),
        ("fences --watch=yes", "`--watch` takes no value", "fencectl fences --help lists the options"),
        ("fences --request-timeout soon", "`--request-timeout`: `soon` is no duration", "a duration, such as 30s, 1m or 1h30m"),
        ("fences --request-timeout 0", "`--request-timeout`: must be more than 0", "every answer has a limit, such as 30s, 1m or 1h30m"),
        ("fences --watch -o yaml", "`--watch` shows text or JSON lines, not yaml", "leave one of them out"),
        ("recover --all --holder x", "`--all` and `--holder` contradict each other", "choose one"),
        ("recover --context a --context b", "recover takes one `--context`, got a, b", "run it once for each cluster"),
        ("recover --watch-for 0s", "`--watch-for`: must be more than 0", "every answer has a limit, such as 30s, 1m or 1h30m"),
        ("recover node/worker-2", "recover takes no argument, got `node/worker-2`", "fencectl recover --help shows what it takes"),
        ("recover -n x", "recover takes a holder's whole chain; a filter would leave a part of it fenced", "`--holder ID` picks whose"),
        (
            "recover --force",
            "there is no `--force`: recover releases what is proven dead",
            "`--accept-presumed` and `--node-verified NODE` are what a person can vouch for",
        ),
        (
            "fences --explain --no-commands",
            "`--explain` explains the commands that `--no-commands` leaves out",
            "choose one",
        ),
        ("release --output-dir d -o json", "`--output-dir` writes patch files, not json", "leave one of them out"),
        ("release --context a --context b", "release takes one `--context`, got a, b", "run it once for each cluster"),
        *[
            (f"fences {habit}", FILTER, f"leave `{habit.split()[0]}` out; `fencectl release FENCE` prints the commands of one fence")
            for habit in ("-n flux-system", "--namespace flux-system", "-A", "--all-namespaces", "-l a=b", "--selector a=b")
        ],
        ("fences -nflux-system", FILTER, "leave `-n` out; `fencectl release FENCE` prints the commands of one fence"),
        ("fences --namespace=x", FILTER, "leave `--namespace` out; `fencectl release FENCE` prints the commands of one fence"),
        ("fences --holder x", FILTER, "`fencectl release --holder ID` prints the commands of one holder"),
        (
            "release -n x",
            "release reads the whole cluster; a filter could hide a fence that goes before",
            "name the fence instead: fencectl release kustomization/NAMESPACE/NAME",
        ),
        (
            "fences --force",
            "there is no `--force`: fences only reads",
            "`fencectl release --holder ID` prints commands for a holder that a person has proven dead",
        ),
        (
            "release --force",
            "there is no `--force`: each printed command tests what it releases",
            "`--holder ID` prints commands for a holder that a person has proven dead",
        ),
        (
            "fences --wait",
            "fences reports what is held now and waits for nothing",
            "`--watch` refreshes in place until ctrl-c",
        ),
        (
            "release --wait",
            "release prints commands and waits for nothing",
            "`fencectl fences --watch` shows when a fence is gone",
        ),
        ("release -w", "release prints commands once", "`fencectl fences --watch` refreshes in place"),
        ("fences --yes", "fences never writes, so there is nothing to confirm or to try", "leave it out"),
        ("release --dry-run=server", "release never writes, so there is nothing to confirm or to try", "leave it out"),
        ("fences --json", "fences has no option `--json`", "did you mean `-o json`?"),
        ("fences --timeout 3s", "fences has no option `--timeout`", "did you mean `--request-timeout`?"),
        (
            "fences --token abc",
            "fences has no option `--token`",
            "set it in the kubeconfig, which is read as kubectl reads it",
        ),
        ("demo --context x", "demo knows its own cluster only, so it takes no `--context`", "leave it out"),
        ("demo --kubeconfig x", "demo knows its own cluster only, so it takes no `--kubeconfig`", "leave it out"),
    ],
)  # fmt: skip
def test_wrong_line_is_answered_in_two_lines_and_exit_2(
    line: str, error: str, hint: str, program: Program, asked: list[Any]
) -> None:
    """What is so, what was probably meant; nothing on stdout, no traceback, and no command has begun."""
    ended = program(*line.split())
    assert ended.err == f"error: {error}\nhint: {hint}\n"
    assert (ended.status, ended.out) == (2, "")
    assert asked == []


@pytest.mark.parametrize("option", ["--context", "--kubeconfig", "--config", "--holder", "--output-dir"])
@pytest.mark.parametrize("empty", ["", " "])
def test_empty_value_is_refused_because_a_variable_was_probably_unset(
    option: str, empty: str, program: Program, asked: list[Any]
) -> None:
    """`--context "$PROD"` without PROD would else read whatever cluster is current."""
    ended = program("release", option, empty)
    assert (
        ended.err
        == f"error: `{option}` is empty\nhint: leave it out or give a value. Nothing was read or changed\n"
    )
    assert (ended.status, asked) == (2, [])


def test_no_verb_shows_the_help_on_stderr_and_is_no_success(program: Program) -> None:
    """`fencectl $VERB` with nothing in it must not pass for "no fence is held"."""
    ended = program()
    assert ended.status == 2
    assert ended.out == ""
    assert ended.err.startswith("Usage: fencectl COMMAND [OPTIONS]\n")


def test_bad_value_from_the_environment_is_blamed_on_the_variable(
    program: Program, monkeypatch: pytest.MonkeyPatch, asked: list[Any]
) -> None:
    """Nobody finds a wrong variable under the name of a flag that was not typed."""
    monkeypatch.setenv("FENCECTL_FENCES_OUTPUT", "jsn")
    assert program("fences").err.startswith("error: `FENCECTL_FENCES_OUTPUT`: no choice `jsn`\n")
    monkeypatch.setenv("FENCECTL_FENCES_OUTPUT", "json")
    monkeypatch.setenv("FENCECTL_FENCES_EXPLAIN", "perhaps")
    assert program("fences").err.startswith("error: `FENCECTL_FENCES_EXPLAIN`: neither true nor false\n")
    monkeypatch.delenv("FENCECTL_FENCES_EXPLAIN")
    monkeypatch.setenv("FENCECTL_FENCES_REQUEST_TIMEOUT", "soon")
    assert program("fences").err.startswith("error: `FENCECTL_FENCES_REQUEST_TIMEOUT`: `soon` is no duration\n")
    assert asked == []


def test_hostile_words_on_the_line_have_no_effect_on_the_terminal(program: Program) -> None:
    """What was pasted is shown, not obeyed."""
    ended = program("fences", "\x1b[2J\n::error::x\u202e")
    assert "\x1b" not in ended.err
    assert ended.err.splitlines()[0] == "error: fences takes no argument, got `\\x1b[2J\\n::error::x\\u202e`"


def test_causes_of_a_usage_error_are_shown_with_v_only(program: Program) -> None:
    """`-v` is understood although the line as a whole is not."""
    assert "cause: " not in program("fences", "-o", "x").err
    assert "cause: BadParameter: 'x' is not one of" in program("fences", "-v", "-o", "x").err
