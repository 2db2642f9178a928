"""Aspects: help tells every flag and no other · names only what exists · 80 columns · groups by risk · both names."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from fencectl import __version__, cli, clihelp
from fencectl.clitext import VERB_HELP
from fencectl.core.verbs import VERBS as KNOWN_VERBS
from tests.cli.conftest import Program

PROJECT = (Path(__file__).parents[2] / "pyproject.toml").read_text()
ROOT: Any = typer.main.get_command(cli.app)
VERBS: tuple[str, ...] = tuple(ROOT.commands)
FLAG = re.compile(r"(?<![\w-])--?[a-z][a-z-]*", re.IGNORECASE)


def flags_of(verb: str) -> set[str]:
    """Every spelling of every flag that a verb takes."""
    return {flag for param in ROOT.commands[verb].params for flag in param.opts if flag.startswith("-")} | {
        "-h",
        "--help",
    }


def test_verbs_of_the_program_are_the_verbs_that_hints_may_name() -> None:
    """The reports ask this list before they name a verb."""
    assert set(VERBS) == KNOWN_VERBS == set(VERB_HELP)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_names_every_flag_and_no_other(verb: str, program: Program) -> None:
    """Written by hand, so compared: a new flag without a line here fails, and so does a line without a flag."""
    text = program(verb, "--help").out
    named = set(FLAG.findall(text))
    assert named - {"--patch-file"} <= flags_of(verb)  # `--patch-file` is kubectl's
    for param in ROOT.commands[verb].params:
        # NB: `--dry-run=server` is read as a hidden flag of its own, since an option takes a value always or never.
        if param.param_type_name != "option":
            assert param.metavar in text
        elif not param.hidden:
            assert named & set(param.opts), f"{verb} --help does not name {param.opts}"


@pytest.mark.parametrize("verb", VERBS)
def test_help_names_every_choice(verb: str, program: Program) -> None:
    """A choice that help does not tell is a choice that nobody makes."""
    text = re.sub(r"\|\n\s+", "|", program(verb, "--help").out)
    for param in ROOT.commands[verb].params:
        if choices := getattr(param.type, "choices", None):
            assert "|".join(map(str, choices)) in text


@pytest.mark.parametrize(
    "line", ["--help", "-h", "help", *(f"{verb} -h" for verb in VERBS), *(f"help {v}" for v in VERBS)]
)
def test_help_is_plain_text_of_80_columns_on_stdout_and_a_success(line: str, program: Program) -> None:
    """However it is asked for, also as other tools spell it."""
    ended = program(*line.split())
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith("Usage: fencectl ")
    assert ended.out.endswith("\n")
    assert not ended.out.endswith("\n\n")
    assert ended.out.isascii()
    assert max(map(len, ended.out.splitlines())) <= 80
    plugin = program(*line.split(), called="kubectl-fencectl").out
    assert max(map(len, plugin.splitlines())) <= 80


def test_root_help_groups_the_verbs_by_risk_and_tells_each_once(program: Program) -> None:
    """All that stands under Look is safe at 3 a.m."""
    text = program("--help").out
    look, act, learn = (text.index(heading) for heading in ("Look (never writes):", "Act:", "Learn:"))
    assert look < text.index("\n  fences ") < text.index("\n  release ") < act
    assert act < text.index("\n  recover ") < learn < text.index("\n  demo ")
    for verb in VERBS:
        assert len(re.findall(rf"^  {verb} ", text, re.MULTILINE)) == 1


def test_called_as_a_kubectl_plugin_it_says_so(program: Program) -> None:
    """Usage and hints are what one can type."""
    assert program("fences", "-h", called="kubectl-fencectl").out.startswith(
        "Usage: kubectl fencectl fences [OPTIONS]\n"
    )
    ended = program("fence", called="kubectl-fencectl")
    assert ended.err.splitlines()[1].startswith("hint: did you mean `kubectl fencectl fences`?")


def test_version_is_the_first_line_and_what_it_runs_on_stands_below(program: Program) -> None:
    """A script reads the first; whoever reports a fault copies all three."""
    ended = program("--version")
    first, system, parts = ended.out.splitlines()
    assert (ended.status, first) == (0, f"fencectl {__version__}")
    match = re.fullmatch(r"Python 3\.\d+\.\d+, \w+ \w+, (.*)", system)
    assert match is not None
    named = {part.rpartition(" ")[0] for part in f"{match[1]}, {parts}".split(", ")}
    assert named == {re.split("[>=<]", need)[0] for need in tomllib.loads(PROJECT)["project"]["dependencies"]}
    assert max(map(len, ended.out.splitlines())) <= 80


def test_answers_to_habits_name_only_what_exists() -> None:
    """A hint that names a flag or verb to come would send an operator into a wall."""
    for verb, answers in clihelp._habits().items():
        for option, (_, hint) in answers.items():
            assert option not in flags_of(verb), f"{verb} has {option}, the answer can never be seen"
            for called, line in re.findall(r"\{prog\} (\w+)([^`]*)", hint):
                assert set(FLAG.findall(line)) <= flags_of(called)
            rest = re.sub(r"\{prog\}[^`]*", "", hint)
            for flag in FLAG.findall(" ".join(re.findall(r"`([^`]*)`", rest))):
                assert flag in flags_of(verb)


def test_typed_verb_habits_lead_to_verbs_that_exist() -> None:
    """Words of other tools are answered with ours."""
    root_flags = {flag for param in ROOT.params for flag in param.opts}
    assert set(clihelp._VERB_HABITS.values()) <= set(VERBS) | root_flags
    assert not set(clihelp._VERB_HABITS) & set(VERBS)
