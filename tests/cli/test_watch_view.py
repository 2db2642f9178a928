"""
Aspects: what is told of a first look, a change, a loss and a return · what a frame shows of a cluster that is lost,
slow, or not read yet · lines of JSON · a frame that does not fit.
"""

from __future__ import annotations

import json
import os
from datetime import datetime
from io import StringIO

import jsonschema
import pytest

from fencectl.commands.watch_follow import Looking, Sight
from fencectl.commands.watch_screen import HOME_AND_ERASE, Screen, fit
from fencectl.commands.watch_view import SLOW_S, Known, frame, json_line, learn
from fencectl.core.errors import NotReadableError
from fencectl.core.report import FenceReport
from fencectl.report.shell import Shell
from fencectl.report.style import PLAIN, Style
from tests.report import story

LATER = story.at("02:50:00")


def saw(report: FenceReport, at: datetime = story.NOW) -> Sight:
    return Sight(at, report=report)


def lost(at: datetime = LATER) -> Sight:
    failure = NotReadableError("prod did not answer: https://api.prod", reason="\x1b[2Jconnection refused")
    return Sight(at, failure=failure)


def known(*news: Sight | Looking) -> Known:
    found = Known("prod")
    for one in news:
        found, _ = learn(found, one)
    return found


def shown(*clusters: Known, now_s: float = 0.0, style: Style = PLAIN) -> list[str]:
    return frame(clusters, now_s=now_s, verbs=story.VERBS, style=style)


def test_first_look_is_no_change_and_the_next_difference_is() -> None:
    """The footer tells when something last changed, not when one began to watch."""
    first = known(saw(story.live()))
    assert shown(first)[-1] == "watching, no change yet, ctrl-c ends"
    assert first.changed_at is None
    same, lines = learn(first, saw(story.live(), LATER))
    assert (lines, same.changed_at) == ([], None)
    changed, lines = learn(same, saw(story.nothing(), LATER))
    assert lines
    assert changed.changed_at == LATER


def test_loss_is_told_once_and_so_is_the_return() -> None:
    """One line each, however often it is tried in between; what changed meanwhile follows."""
    before = known(saw(story.dead()))
    away, lines = learn(before, lost())
    assert lines == [
        "02:50:00Z  prod: not readable: prod did not answer: https://api.prod: \\x1b[2Jconnection refused"
    ]
    away, lines = learn(away, lost(story.at("02:51:00")))
    assert lines == []
    assert away.lost_at == LATER
    back, lines = learn(away, saw(story.dead(), story.at("02:52:00")))
    assert lines == ["02:52:00Z  prod: readable again"]
    assert back.lost_at is None
    _, lines = learn(away, saw(story.nothing(), story.at("02:52:00")))
    assert lines[0] == "02:52:00Z  prod: readable again"
    assert any("no fence is held on prod" in line for line in lines)


def test_frame_of_a_lost_cluster_never_shows_the_past_as_the_present() -> None:
    """No table, no verdict of now; what was read before is told as the past, with its time."""
    assert shown(known(saw(story.dead()), lost())) == [
        "✗ prod: not readable since 02:50:00Z",
        "  prod did not answer: https://api.prod",
        "  \\x1b[2Jconnection refused",
        "  before that, at 02:47:31Z: 5 fences held on prod by 1 holder: dead (proven)",
        "",
        "watching, nothing can be read now, ctrl-c ends",
    ]


def test_frame_of_a_cluster_that_was_never_read_says_no_more_than_that() -> None:
    """There is no past to tell."""
    lines = shown(known(lost()))
    assert lines[0] == "✗ prod: not readable since 02:50:00Z"
    assert not any("before that" in line for line in lines)


def test_frame_of_two_clusters_has_the_lost_one_first() -> None:
    """Worst first; the footer belongs to what can be read."""
    lines = shown(known(saw(story.nothing())), known(saw(story.dead()), lost()))
    assert lines[0] == "✗ prod: not readable since 02:50:00Z"
    assert any(line.startswith("no fence is held on prod") for line in lines)
    assert lines[-1].startswith("watching, last change 02:50:00Z")


def test_frame_says_that_the_first_look_is_under_way() -> None:
    """An empty frame would look like nothing held."""
    assert shown(known(Looking(0.0))) == [
        "… prod: reading",
        "",
        "watching, nothing can be read now, ctrl-c ends",
    ]


def test_frame_says_when_an_answer_is_overdue() -> None:
    """A server that hangs sends no failure: what stands below was so, and is not known to be so."""
    waiting = known(saw(story.nothing()), Looking(100.0))
    assert shown(waiting, now_s=100.0 + SLOW_S - 0.1)[0].startswith("no fence is held")
    assert shown(waiting, now_s=100.0 + SLOW_S + 2)[0] == (
        "! prod: no answer for 7s; what follows was so at 02:47:31Z"
    )
    done, _ = learn(waiting, saw(story.nothing(), LATER))
    assert shown(done, now_s=999.0)[0].startswith("no fence is held")


def test_frame_is_spelled_in_ascii_where_the_terminal_needs_it() -> None:
    """Marks have words of their own."""
    plain = Style(colour=False, unicode=False)
    lines = [*shown(known(saw(story.dead()), lost()), style=plain), *shown(known(Looking(0.0)), style=plain)]
    assert all(line.isascii() for line in lines)
    assert lines[0].startswith("x prod")


def test_json_line_is_one_report_per_line() -> None:
    """Compact, whole, and the same document as `-o json`."""
    line = json_line(known(saw(story.dead())), shell=Shell.POSIX)
    assert line.count("\n") == 1
    document = json.loads(line)
    assert (document["kind"], document["held"], document["complete"]) == ("FenceReport", 5, True)


def test_json_line_of_a_lost_cluster_is_an_incomplete_report_with_nothing_in_it() -> None:
    """Whoever reads only the last line must not take the past for the present, nor silence for no fence."""
    from importlib.resources import files

    schema = json.loads(files("fencectl.report").joinpath("schema/fence-report-v1.json").read_text())
    document = json.loads(json_line(known(saw(story.dead()), lost()), shell=Shell.POSIX))
    jsonschema.validate(document, schema)
    assert (document["complete"], document["held"], document["fences"]) == (False, 0, [])
    assert document["unreadable"][0]["what"] == "everything"
    assert "connection refused" in document["unreadable"][0]["why"]
    assert document["observedAt"] == "2026-11-30T02:50:00Z"


def test_json_line_of_a_cluster_that_was_never_read_is_none() -> None:
    """There is no report to make it from; stderr tells."""
    assert json_line(known(lost()), shell=Shell.POSIX) == ""


# The screen


def size(columns: int, rows: int) -> os.terminal_size:
    return os.terminal_size((columns, rows))


def test_frame_that_fits_is_drawn_whole() -> None:
    """To the last row: nothing scrolls, since no line feed ends it."""
    lines = ["a", "b", "footer"]
    assert fit(lines, size(80, 3)) == lines


def test_frame_that_does_not_fit_says_how_much_is_left_out_and_keeps_its_footer() -> None:
    """A fence that is below the edge must not be taken for none."""
    lines = [*(f"row {number}" for number in range(10)), "footer"]
    assert fit(lines, size(80, 5)) == [
        "row 0",
        "row 1",
        "row 2",
        ".. 7 more lines: a taller window shows all",
        "footer",
    ]


def test_long_and_coloured_lines_are_counted_as_the_rows_that_they_take() -> None:
    """Colour takes no room; what wraps takes two rows."""
    lines = ["\x1b[1m" + "x" * 20 + "\x1b[0m", "y" * 21, "footer"]
    assert fit(lines, size(20, 4)) == lines
    assert fit(lines, size(20, 3))[-2:] == [".. 1 more line: a taller window shows all", "footer"]


@pytest.mark.parametrize("rows", [1, 2])
def test_window_of_a_row_or_two_still_has_the_footer(rows: int) -> None:
    """However small it is, the last thing shown is how to end it."""
    assert fit(["a", "b", "c", "footer"], size(80, rows))[-1] == "footer"


def test_screen_uses_home_and_erase_and_nothing_that_would_have_to_be_undone() -> None:
    """What was on the screen goes into the scrollback first; afterwards one is below the frame."""
    stream = StringIO()
    screen = Screen(stream)
    screen.leave()
    assert stream.getvalue() == ""
    screen.draw(["one", "footer"])
    screen.draw(["two", "footer"])
    screen.leave()
    drawn = "\n" * 23 + f"{HOME_AND_ERASE}one\nfooter" + f"{HOME_AND_ERASE}two\nfooter" + "\x1b[0m\n"
    assert stream.getvalue() == drawn
