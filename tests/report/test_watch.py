"""--watch: what has changed between two reports, and what may not be said of an incomplete one."""

from __future__ import annotations

from msgspec.structs import replace

from fencectl.report.style import Style
from fencectl.report.watch import Watched, frame, step
from tests.report import story


def test_first_report_lists_everything_and_the_next_only_changes() -> None:
    """A pipe gets one line per change."""
    state, lines = step(Watched(), story.unknown())
    assert lines[0] == "02:47:31Z  5 fences held on prod by 1 holder: unknown"
    assert len(lines) == 1 + 7 + 1
    state, lines = step(state, story.dead())
    assert lines == ["02:47:31Z  prod: run 18093344127 attempt 2 job 51234567890 dead (proven) (was: unknown)"]
    assert state.changed_at == story.NOW
    later = replace(story.dead(), observed_at=story.at("02:48:00"))
    state, lines = step(state, later)
    assert (lines, state.changed_at) == ([], story.NOW)


def test_fence_that_an_incomplete_report_does_not_show_is_not_called_released() -> None:
    """It could not be read; when everything is read again and it is gone, it is said."""
    state, _ = step(Watched(), story.dead())
    state, lines = step(state, story.incomplete())
    why = "forbidden: user ci-reader may not `list` nodes (cluster scope)"
    assert lines == [f"02:47:31Z  prod: INCOMPLETE: nodes could not be read: {why}"]
    state, lines = step(state, story.incomplete())
    assert lines == []
    state, lines = step(state, story.report(not_ours=()))
    assert lines[0] == "02:47:31Z  prod: the report is complete again"
    assert "02:47:31Z  prod: node/worker-3 is no longer fenced" in lines
    assert lines[-1] == "02:47:31Z  no fence is held on prod"


def test_fence_that_changes_says_what_it_was() -> None:
    """Such as a node whose command has begun."""
    state, _ = step(Watched(), story.dead())
    first, *rest = story.dead_entries()
    _, lines = step(state, story.report(story.block([replace(first, phase="mutating"), *rest])))
    run = "run 18093344127 attempt 2 job 51234567890"
    was = f"(was: cordoned by {run}, phase `claimed`)"
    assert lines == [f"02:47:31Z  prod: node/worker-3 cordoned by {run}, phase `mutating` {was}"]


def test_node_recreated_under_its_name_is_another_fence() -> None:
    """The uid is part of what makes it the same."""
    state, _ = step(Watched(), story.dead())
    first, *rest = story.dead_entries()
    again = replace(first, object=replace(first.object, uid="another"))
    _, lines = step(state, story.report(story.block([again, *rest])))
    assert len(lines) == 2
    assert lines[1].endswith("node/worker-3 is no longer fenced")


def test_frame_has_no_commands_and_a_footer() -> None:
    """The caller clears the screen; the footer says how to end it."""
    text = frame([story.dead()], changed_at=story.at("02:47:12"), verbs=story.VERBS, style=Style(colour=True))
    assert "kubectl" not in text.replace("by kubectl", "")
    assert text.endswith("\x1b[2mwatching, last change 02:47:12Z, ctrl-c ends\x1b[0m\n")
    assert "no change yet" in frame([story.dead()], changed_at=None, verbs=story.VERBS)
