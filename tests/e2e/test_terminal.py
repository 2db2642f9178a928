"""
`recover` at a terminal: the evidence, the question, the answer; and what a terminal that can do little is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from fencectl.sandbox import Sandbox
from tests.support.clusters import Cluster
from tests.support.fencing import essence, killed_chain, state
from tests.support.github import LoopbackGitHub
from tests.support.program import environment
from tests.support.terminal import Spoken, spoken

RUN, ATTEMPT, JOB = 18093344127, 2, 51234567890
IMPATIENT = "tests.support.impatient"
QUESTION = "Release these 5 fences on prod, in this order? Only `yes` goes on: "
AtTerminal = Callable[..., AbstractContextManager[Spoken]]


@pytest.fixture
def github() -> Iterator[LoopbackGitHub]:
    """GitHub, where the job of the killed run has ended."""
    with LoopbackGitHub() as server:
        server.attempt(RUN, ATTEMPT, status="in_progress")
        server.job(RUN, ATTEMPT, JOB)
        yield server


@pytest.fixture
def at_terminal(sandbox_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path) -> AtTerminal:
    """Start the program with a short window at a terminal of its own."""

    def start(*arguments: str, **env: str) -> AbstractContextManager[Spoken]:
        kubeconfig = sandbox_cluster.kubeconfig_file(context="prod")
        given = environment(kubeconfig, **github.env()) | {"TERM": "xterm"} | env
        return spoken(arguments, env=given, cwd=tmp_path, terminal=True, module=IMPATIENT)

    return start


def test_yes_releases_the_chain_a_row_each(sandbox_cluster: Cluster, at_terminal: AtTerminal) -> None:
    """The block, the watch, the question, a row per fence, and the end: what is so now."""
    before = killed_chain(sandbox_cluster, duration_s=1)
    with at_terminal("recover", "--no-color") as program:
        shown = program.until(QUESTION)
        program.type("yes\n")
        assert program.to_the_end() == 0
    block, _, watched = shown.replace("\r", "").partition("watching the lease for 1s")
    assert block.count("heartbeat  stands still: last ") == 1
    assert block.count("kustomization/flux-system/infrastructure  suspended  reconciles") == 1
    assert "heartbeat  watched for 1s: stands still" in watched
    assert "AFTER RELEASE" not in watched
    said = program.said.replace("\r", "").partition(QUESTION)[2].splitlines()
    assert said[1:-1] == [
        "  ✓      lease/flux-system/fencectl-deploy         taken over by this run",
        "  ✓ 1/5  node/worker-3                             mark gone, still cordoned",
        "  ✓ 2/5  node/worker-2                             schedulable",
        "  ✓ 3/5  kustomization/flux-system/infrastructure  reconciles",
        "  ✓ 4/5  kustomization/flux-system/flux-system     reconciles",
        "  ✓ 5/5  lease/flux-system/fencectl-deploy         free",
    ]
    assert said[-1].startswith("✓ released 5 of 5 on prod in ")
    assert said[-1].endswith("s; deploys can start again")
    assert state(sandbox_cluster, *before) == {path: essence(obj) for path, obj in before.items()}


@pytest.mark.parametrize(
    ("keys", "code", "words"),
    [
        ("\n", 2, "error: nothing was released: the answer was not `yes`"),
        ("y\n", 2, "error: nothing was released: the answer was not `yes`"),
        ("\x04", 2, "error: nothing was released: the answer was not `yes`"),
        ("\x03", 130, "error: interrupted: nothing was released"),
    ],
    ids=["enter", "y", "ctrl-d", "ctrl-c"],
)
def test_any_other_answer_changes_nothing(
    sandbox: Sandbox, sandbox_cluster: Cluster, at_terminal: AtTerminal, keys: str, code: int, words: str
) -> None:
    """ctrl-c at the question ends it at once, without another key."""
    killed_chain(sandbox_cluster, duration_s=1)
    written = sum(request.method == "PATCH" for request in sandbox.requests)
    with at_terminal("recover", "--no-color") as program:
        program.until(QUESTION)
        program.type(keys)
        assert program.to_the_end() == code
    assert program.said.replace("\r", "").splitlines()[-1] == words
    assert sum(request.method == "PATCH" for request in sandbox.requests) == written


def test_answer_from_before_the_question_is_none(sandbox_cluster: Cluster, at_terminal: AtTerminal) -> None:
    """A `yes` typed while the heartbeat is watched was typed before there was anything to agree to."""
    killed_chain(sandbox_cluster, duration_s=1)
    with at_terminal("recover", "--no-color") as program:
        program.until("watching the lease")
        program.type("yes\n")
        program.until(QUESTION)
        program.type("\n")
        assert program.to_the_end() == 2


def test_interrupt_during_the_watch_ends_it_at_once(sandbox_cluster: Cluster, at_terminal: AtTerminal) -> None:
    """Nobody waits for the end of a watch that leads nowhere."""
    killed_chain(sandbox_cluster, duration_s=1)
    with at_terminal("recover", "--watch-for", "1h") as program:
        program.until("watching the lease for 1h00m")
        program.type("\x03")
        assert program.to_the_end() == 130
    assert "interrupted: nothing was released" in program.said


def test_what_changes_during_the_watch_is_shown_again_before_the_question(
    sandbox_cluster: Cluster, at_terminal: AtTerminal
) -> None:
    """Whoever answers has seen what is about to be done, not what was so a minute ago."""
    before = killed_chain(sandbox_cluster, duration_s=3)
    node = list(before)[2]
    with at_terminal("recover", "--no-color") as program:
        program.until("watching the lease")
        sandbox_cluster.merge_patch(node, {"metadata": {"annotations": {
            "fencectl.dev/holder": None, "fencectl.dev/journal": None}}})  # fmt: skip
        shown = program.until("Only `yes` goes on: ")
        program.type("\n")
        program.to_the_end()
    again = shown.partition("it has changed meanwhile: this is what is so now")[2]
    assert "4 fences held on prod by 1 holder: dead (proven)" in again
    assert "Release these 4 fences on prod" in again


def test_evidence_is_shown_to_whoever_is_asked_whatever_the_result_is_written_as(
    sandbox_cluster: Cluster, at_terminal: AtTerminal
) -> None:
    """With -o json too: nobody agrees to a number."""
    killed_chain(sandbox_cluster, duration_s=1)
    with at_terminal("recover", "--no-color", "-o", "json") as program:
        shown = program.until(QUESTION)
        program.type("\n")
        program.to_the_end()
    assert "job        completed (cancelled)" in shown


def test_stop_half_way_says_so_in_its_row_and_why_once(
    sandbox: Sandbox, sandbox_cluster: Cluster, at_terminal: AtTerminal
) -> None:
    """Released n, still held m, which field, by whom."""
    child = list(killed_chain(sandbox_cluster, duration_s=1))[1]

    def resume() -> None:
        sandbox_cluster.merge_patch(child, {"spec": {"suspend": None}}, manager="flux")

    # NB: the first such patch is the rehearsal, the second one is meant.
    sandbox.faults.on(resume, verb="patch", name="infrastructure", after=1, times=1)
    with at_terminal("recover", "--no-color", "--yes") as program:
        assert program.to_the_end() == 11
    said = program.said.replace("\r", "")
    assert "\n  ✗ 3/5  kustomization/flux-system/infrastructure  REFUSED\n" in said
    assert "\n✗ stopped on prod: 2 released, 3 fences STILL HELD\n" in said
    assert said.count("spec.suspend was true when read") == 1
    assert "deploys can start again" not in said


@pytest.mark.parametrize(
    "env",
    [
        {"TERM": "dumb"},
        {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "LANG": "C", "NO_COLOR": "1"},
    ],
    ids=["dumb", "ascii"],
)
def test_poor_terminal_is_shown_ascii_without_colour(
    sandbox_cluster: Cluster, at_terminal: AtTerminal, env: dict[str, str]
) -> None:
    """Every mark has its word beside it."""
    killed_chain(sandbox_cluster, duration_s=1)
    with at_terminal("recover", "--yes", **env) as program:
        assert program.to_the_end() == 0
    assert program.said.isascii()
    assert "\x1b" not in program.said
    said = program.said.replace("\r", "").splitlines()
    assert "  ok 5/5  lease/flux-system/fencectl-deploy         free" in said
    assert said[-1].startswith("ok released 5 of 5 on prod")


def test_colour_marks_what_is_good_and_nothing_foreign(sandbox_cluster: Cluster, at_terminal: AtTerminal) -> None:
    """Green is the mark alone."""
    killed_chain(sandbox_cluster, duration_s=1)
    with at_terminal("recover", "--yes") as program:
        assert program.to_the_end() == 0
    assert "  \x1b[32m✓\x1b[0m 2/5  node/worker-2" in program.said
