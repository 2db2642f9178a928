"""`deploy` at a terminal of its own: what stays on the screen, what its command wrote, how it looks after ctrl-c."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.support.clusters import Cluster
from tests.support.deploys import HASTY, DeployScene, wait_until
from tests.support.screen import Screen
from tests.support.terminal import Spoken, spoken

AtTerminal = Callable[..., AbstractContextManager[Spoken]]
DRAWN = re.compile(r"prod  step \d+ of 10")


@pytest.fixture
def scene(sandbox_cluster: Cluster, tmp_path: Path) -> Iterator[DeployScene]:
    made = DeployScene.on(sandbox_cluster, tmp_path)
    yield made
    made.end()


@pytest.fixture
def at_terminal(scene: DeployScene) -> AtTerminal:
    def start(*arguments: str, **env: str) -> AbstractContextManager[Spoken]:
        given = scene.environment() | {"TERM": "xterm"} | env
        given.pop("CI", None)
        return spoken(("deploy", *arguments), env=given, cwd=scene.folder, terminal=True, module=HASTY)

    return start


def test_command_writes_as_if_it_were_alone_and_progress_leaves_nothing_behind(
    scene: DeployScene, at_terminal: AtTerminal
) -> None:
    """Its lines are whole, its last one without an end too; ours stand around them, and no block is left."""
    script = "echo first; printf '\\033[31mred\\033[0m 50%%\\rred 100%%'"
    with at_terminal(*scene.fences, "--", "sh", "-c", script) as program:
        assert program.to_the_end() == 0
    assert DRAWN.search(program.said)
    assert "\x1b[31mred\x1b[0m 50%\rred 100%" in program.said
    screen = Screen().feed(program.said)
    rows = screen.rows
    assert not [row for row in rows if DRAWN.search(row) or row.startswith("  …")]
    at = rows.index("first")
    assert rows[at - 1].endswith("8  the command runs")
    assert rows[at + 1] == "red 100%"
    assert rows[at + 2].endswith("8  the command has ended with 0")
    assert rows[-2].startswith("✓ deployed generation 1 to prod in ")
    assert screen.cursor == (len(rows), 0)
    scene.assert_free()


def test_ctrl_c_while_it_waits_ends_on_a_clean_screen(scene: DeployScene, at_terminal: AtTerminal) -> None:
    """It shows what it waits for and for how long, in the terminal's width; then only what was said is there."""
    scene.cluster.sandbox.flux.automatic(False)
    with at_terminal(*scene.fences, "--", "true") as program:
        program.until("step 4 of 10: suspend Flux")
        before = program.settings()
        program.resize(rows=24, columns=40)
        narrow = re.compile(r"prod  step 4 of 10: suspend Flux {1,9}\d+s\r?\n")
        wait_until(lambda: program.read() and narrow.search(program.said.replace("\x1b[0m", "")), "it is narrower")
        assert program.settings() == before
        program.type("\x03")
        assert program.to_the_end() == 130
    screen = Screen(200).feed(program.said)
    assert not [row for row in screen.rows if "step 4 of 10" in row and not row.startswith("✗")]
    said = "\n".join(screen.rows)
    assert re.search(r"✗ interrupted in step 4 \(suspend Flux\) on prod, after \d+s: nothing was applied", said)
    assert screen.rows[-1] == "now     nothing is fenced"
    assert screen.cursor == (len(screen.rows), 0)
    assert "\x1b[?" not in program.said
    scene.assert_free()


@pytest.mark.parametrize("env", [{"CI": "true"}, {"TERM": "dumb"}], ids=["ci", "dumb"])
def test_nothing_is_drawn_where_it_would_only_be_noise(
    scene: DeployScene, at_terminal: AtTerminal, env: dict[str, str]
) -> None:
    """A line per change, and no cursor is moved."""
    kubeconfig = scene.environment() | {"TERM": "xterm"} | env
    arguments = ("deploy", "--no-color", "--", "true")
    with spoken(arguments, env=kubeconfig, cwd=scene.folder, terminal=True, module=HASTY) as program:
        assert program.to_the_end() == 0
    assert "deployed generation 1 to prod" in program.said
    assert "\x1b" not in program.said
    assert "step " not in program.said


def test_no_color_draws_without_colour(scene: DeployScene, at_terminal: AtTerminal) -> None:
    """The cursor is moved, nothing is painted."""
    with at_terminal(*scene.fences, "--", "true", NO_COLOR="1") as program:
        assert program.to_the_end() == 0
    assert DRAWN.search(program.said)
    assert set(re.findall(r"\x1b\[([0-9;]*m)", program.said)) <= {"0m"}
