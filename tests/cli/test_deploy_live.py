"""
The progress of a deploy as a terminal shows it: below what is said, never in what a command writes, gone at the end.

Aspects: drawn in place · lines above it · narrow, and narrower all of a sudden · handed over to commands and taken
back below a line without an end · where nothing is drawn.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator

import pytest

from fencectl.commands import deploy_live
from fencectl.commands.deploy_live import Live, can_draw
from fencectl.report.style import Style
from tests.support.screen import Screen


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Drawn:
    """A block on a terminal of so many columns."""

    def __init__(self, columns: int, style: Style | None = None) -> None:
        self.screen = Screen(columns)
        self.written = ""
        self.live = Live(Terminal(), self._write, style or Style(), "prod", 0.0)

    def _write(self, text: str) -> None:
        self.written += text
        self.screen.feed(text)

    @property
    def rows(self) -> list[str]:
        return self.screen.rows


@pytest.fixture(params=[80, 40])
def columns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    set_columns(monkeypatch, request.param)
    return request.param  # type: ignore[no-any-return]


def set_columns(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr(deploy_live, "size_of", lambda _: os.terminal_size((columns, 24)))


def test_progress_is_drawn_in_place_below_what_is_said(columns: int) -> None:
    """Two rows whatever the width: the step with the time since the beginning, what it waits for with its own."""
    drawn = Drawn(columns)
    drawn.live.begin(4, "suspended kustomization/flux-system/infrastructure, and waits", 3.0)
    drawn.live.say("02:50:05Z  4  suspended\n", 3.0)
    for now_s in (3.5, 4.0, 65.0):
        drawn.live.draw(now_s)
    said, title, doing = drawn.rows
    assert said == "02:50:05Z  4  suspended"
    assert title.startswith("prod  step 4 of 10: suspend Flux")
    assert title.endswith("1m05s")
    assert doing.startswith("  … suspended kustomi")
    assert doing.endswith("1m02s")
    assert {len(title), len(doing)} == {columns - 1}
    assert drawn.screen.cursor == (3, 0)
    drawn.live.end()
    drawn.live.draw(70.0)
    assert drawn.rows == ["02:50:05Z  4  suspended"]
    assert drawn.screen.cursor == (1, 0)


@pytest.mark.parametrize("columns", [1, 5, 12, 20])
def test_no_row_is_as_wide_as_the_narrowest_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wrap, and the next drawing would leave a part of it behind."""
    set_columns(monkeypatch, columns)
    drawn = Drawn(200)
    drawn.live.begin(6, "worker-3: blocked by pdb shop/checkout", 0.0)
    drawn.live.draw(1.0)
    assert all(len(row) <= max(1, columns - 1) for row in drawn.rows)


def test_terminal_that_became_narrower_is_left_without_remains(monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows the same rows wrapped, so that more of them have to go."""
    set_columns(monkeypatch, 80)
    drawn = Drawn(80)
    drawn.live.begin(6, "worker-3: draining", 0.0)
    drawn.live.draw(1.0)
    shown = drawn.rows
    set_columns(monkeypatch, 40)
    drawn.screen = Screen(40).feed("".join(f"{row}\n" for row in shown))
    assert len(drawn.rows) == 4
    drawn.live.draw(2.0)
    assert len(drawn.rows) == 2


def test_command_has_the_terminal_for_itself(columns: int) -> None:
    """Nothing is drawn beside it; what it leaves without a line feed is not written over."""
    drawn = Drawn(columns)
    drawn.live.begin(8, "the command runs", 0.0)
    drawn.live.draw(0.0)
    drawn.live.hand_over()
    assert drawn.rows == []
    drawn.screen.feed("\x1b[33mone\n50%\r100%")
    drawn.live.draw(1.0)
    assert drawn.rows == ["one", "100%"]
    drawn.live.say("02:50:05Z     INT\n", 2.0)
    drawn.screen.feed("three\n")
    drawn.live.take_back(3.0)
    assert drawn.rows[:4] == ["one", "100%", "02:50:05Z     INT", "three"]
    assert len(drawn.rows) == 6
    drawn.live.end()
    assert drawn.rows == ["one", "100%", "02:50:05Z     INT", "three"]


def test_several_commands_at_once_share_the_terminal(columns: int) -> None:
    """Drawn again when the last of them has ended."""
    drawn = Drawn(columns)
    drawn.live.begin(6, "worker-2: its node command runs", 0.0)
    drawn.live.hand_over()
    drawn.live.hand_over()
    drawn.live.take_back(1.0)
    assert drawn.rows == []
    drawn.live.take_back(2.0)
    assert len(drawn.rows) == 2


def test_without_colour_nothing_is_coloured(columns: int) -> None:
    """Only the cursor is moved; with colour the block takes the same room."""
    plain, coloured = Drawn(columns), Drawn(columns, Style(colour=True))
    for drawn in (plain, coloured):
        drawn.live.begin(2, "lease taken", 0.0)
        drawn.live.draw(1.0)
        drawn.live.draw(2.0)
    assert plain.rows == coloured.rows
    assert "\x1b[1m" not in plain.written
    assert "\x1b[1m" in coloured.written


@pytest.mark.parametrize(
    ("environ", "drawn"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True),
        ({"TERM": "xterm", "CI": "false"}, True),
        ({"TERM": "dumb"}, False),
        ({}, False),
        ({"TERM": "xterm", "CI": "true"}, False),
        ({"TERM": "xterm", "GITHUB_ACTIONS": "true"}, False),
    ],
)
def test_it_is_drawn_only_where_it_can_be(environ: dict[str, str], drawn: bool) -> None:
    """Neither on a dumb terminal nor in CI, and never in a pipe."""
    assert can_draw(Terminal(), environ) is drawn
    assert not can_draw(io.StringIO(), environ)
