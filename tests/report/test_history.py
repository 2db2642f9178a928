"""Past deploys as text and Markdown: widths, names, hostile text, what has not ended."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from markdown_it import MarkdownIt

from fencectl.core.history import Past, read_history
from fencectl.report.escape import is_visible
from fencectl.report.history import Source, as_data, as_markdown, as_markdown_story, as_story, as_table, size_text
from fencectl.report.style import PLAIN, Style, cells
from tests.report import hostile

RUN = "9be1c04477aa02d1-gh18093399201.1-j51234890117-20d7bb3f"
SOURCE = Source(
    "prod", "prod", "https://prod", "configmap/flux-system/x-record", datetime(2026, 11, 30, 3, 40, tzinfo=UTC)
)
HOSTILE = "x\x1b[2J\n::error::owned\r\u202e ```<b>|[l](http://x): ; # é"


def at(text: str) -> str:
    return f"2026-11-30T{text}Z"


def span(step: int, what: str, began: str, ended: str | None = None, how: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"step": step, "what": what, "from": at(began)}
    return found | ({"to": at(ended)} if ended else {}) | ({"how": how} if how else {})


def deploy(**more: Any) -> Past:
    value = {
        "v": 1,
        "holder": RUN,
        "token": 119,
        "phase": "ended",
        "startedAt": at("02:50:05"),
        "command": "make up",
    }
    (past,) = read_history({"record-43": json.dumps(value | more)}, lease_holder=RUN)
    return past


FAILED = deploy(
    outcome="failed",
    code=11,
    endedAt=at("03:01:29"),
    failure={"at": at("02:59:31"), "what": "command: the command ended with 3"},
    timeline=[
        span(2, "lease", "02:50:05"),
        span(4, "kustomization/flux-system/flux-system", "02:50:07", how="kept"),
        span(4, "kustomization/flux-system/apps", "02:50:08", "03:01:28", "released"),
        span(6, "node/worker-2", "02:50:30", how="held"),
        span(8, "command", "02:53:42", "02:59:31", "failed"),
        span(10, "release", "02:59:33", "03:01:28", "done"),
    ],
)
LONG = f"kustomization/{'n' * 60}/{'m' * 70}"


def test_story_draws_each_span_where_it_was() -> None:
    """What goes on after the deploy has an arrow and its reason; the lease ends with the deploy."""
    assert as_story(FAILED, SOURCE) == [
        "generation 43 on prod: failed, 1 kept (exit 11) · 9be1c044",
        "run 18093399201 attempt 1 job 51234890117, 02:50:05Z to 03:01:29Z (11m24s)",
        "command  make up",
        "                  02:50        02:52        02:55       02:58    03:01 UTC",
        "  2  lease        ├──────────────────────────────────────────────────┤",
        "  4  flux-system  ├──────────────────────────────────────────────────▶ kept",
        "  4  apps         ├──────────────────────────────────────────────────┤",
        "  6  worker-2       ├────────────────────────────────────────────────▶ held",
        "  8  command                      ├─────────────────────────✗ failed",
        " 10  release                                                ├────────┤",
        "first failure  02:59:31Z command: the command ended with 3",
    ]


def test_story_says_in_one_line_what_a_recovery_point_holds() -> None:
    """How many objects, how large, and whether it is kept: the newest three that records tell of are."""
    value = {"digest": "a" * 64, "parts": 1, "objects": 14, "bytes": 3174}
    past = deploy(outcome="deployed", code=0, recovery=value)
    assert as_story(past, SOURCE)[3] == "recovery point  14 objects, 3.1 KiB"
    assert "Recovery point: 14 objects, 3.1 KiB\n" in as_markdown_story(past, SOURCE)
    assert as_data(past)["recovery"] == value | {"kept": True}
    assert as_data(FAILED)["recovery"] is None
    assert not any("recovery point" in line for line in as_story(FAILED, SOURCE))
    records = {
        f"record-{number}": json.dumps({"v": 1, "outcome": "deployed", "recovery": value | {"objects": 1}})
        for number in range(1, 5)
    }
    kept = [(past.generation, past.restorable) for past in read_history(records | {"record-5": '{"v": 1}'})]
    assert kept == [(5, False), (4, True), (3, True), (2, True), (1, False)]
    assert as_story(read_history(records)[-1], SOURCE)[2] == "recovery point  1 object, 3.1 KiB, no longer kept"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1 << 20, "1.0 MiB"),
        (21_400_000, "20.4 MiB"),
    ],
)
def test_sizes_are_said_as_people_say_them(size: int, text: str) -> None:
    assert size_text(size) == text


def test_deploy_that_holds_its_lease_goes_on() -> None:
    """The record alone cannot tell a running deploy from a killed one, and names who can."""
    lines = as_story(deploy(phase="deploying", timeline=[span(2, "lease", "02:50:05")]), SOURCE)
    assert lines[0] == "generation 43 on prod: deploying · 9be1c044"
    assert "▶" in lines[4]
    assert "`fencectl fences` says which" in " ".join(lines[-2:])


def test_table_has_a_row_each_newest_first() -> None:
    """Unreadable ones included."""
    rows = as_table([FAILED, Past(42, problem="it is not a JSON object")], SOURCE, left_out=2)
    assert rows == [
        " GEN  OUTCOME         STARTED               TOOK    REVISION  RUN",
        "  43  failed, 1 kept  02:50:05Z      49m55s  11m24s  9be1c044  18093399201.1",
        "  42  unreadable      ?                  ?  -       -         ?",
        "      ! it is not a JSON object",
        "2 older not shown",
    ]
    assert as_table([], SOURCE) == ["no deploy of prod is recorded (configmap/flux-system/x-record)"]


@pytest.mark.parametrize(
    "style", [PLAIN, Style(unicode=False), Style(colour=True)], ids=["plain", "ascii", "colour"]
)
def test_hostile_text_has_no_effect(style: Style) -> None:
    """Names, commands, outcomes and holders come off the cluster."""
    odd = deploy(
        holder=HOSTILE, outcome=HOSTILE, command=HOSTILE, endedAt=at("03:00:00"),
        failure={"at": None, "what": HOSTILE},
        timeline=[span(4, HOSTILE, "02:50:07", how=HOSTILE), span(4, LONG, "02:50:07")],
    )  # fmt: skip
    lines = [*as_table([odd], SOURCE, style=style), *as_story(odd, SOURCE, style=style)]
    bare = re.sub(r"\x1b\[[0-9;]*m", "", "".join(lines))
    assert not re.search(r"[\x00-\x1f\x7f\u202e]", bare)


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in hostile.TEXTS.items()])
def test_hostile_text_has_no_effect_in_markdown(text: str) -> None:
    """case_40: neither on GitHub, nor in a log that it is printed to; the chart stays the only block but one."""
    odd = deploy(
        holder=text, outcome=text, command=text, endedAt=at("03:00:00"), failure={"at": None, "what": text},
        timeline=[span(4, text, "02:50:07", how=text)],
    )  # fmt: skip
    shown = as_markdown([odd], SOURCE) + "\n" + as_markdown_story(odd, SOURCE)
    for line in shown.split("\n"):
        assert is_visible(line), ascii(line)
        assert "##[" not in line
        assert not line.strip().startswith("::"), line
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(shown)
    inside = [child for token in tokens for child in token.children or ()]
    kinds = {token.type for token in [*tokens, *inside]}
    assert not kinds & {"html_block", "html_inline", "link_open", "image"}
    blocks = [token.info for token in tokens if token.type == "fence"]
    assert blocks == ([] if odd.problem is not None else ["", "mermaid"])
    assert sum(token.type == "tr_open" for token in tokens) == 2


def test_line_of_the_chart_is_one_task_whatever_its_name() -> None:
    """A colon, a comma or a newline in a name would be read as another field or another task."""
    odd = deploy(outcome="failed", endedAt=at("03:00:00"), timeline=[span(4, HOSTILE, "02:50:07", "02:51:00")])
    chart = as_markdown_story(odd, SOURCE).split("```mermaid\n")[1].split("```")[0].splitlines()
    assert chart[-2:] == [
        "  section 4",
        "  x 2J error owned   b l (http //x) :done, 2026-11-30 02:50:07, 2026-11-30 02:51:00",
    ]


def test_no_name_is_cut_and_no_bar_is_wider_than_the_screen() -> None:
    """A name without room has a line of its own."""
    long = deploy(
        outcome="deployed", endedAt=at("02:50:06"),
        timeline=[span(4, LONG, "02:50:05", "02:50:06"), span(4, LONG[:-1] + "x", "02:50:05")],
    )  # fmt: skip
    lines = as_story(long, SOURCE)
    assert any("m" * 70 in line for line in lines)
    assert all(cells(line) <= 80 for line in lines if "m" * 20 not in line)


def test_axis_of_a_short_deploy_names_no_second_twice() -> None:
    """It took one: five columns of the same time would tell nothing."""
    short = deploy(outcome="deployed", endedAt=at("02:50:06"), timeline=[span(2, "lease", "02:50:05")])
    (axis,) = (line for line in as_story(short, SOURCE) if line.endswith(" UTC"))
    assert axis.split() == ["02:50:05", "02:50:06", "UTC"]


def test_story_of_a_run_that_died_says_who_found_it_dead() -> None:
    """It has written no end itself, and none is made up."""
    found = {"outcome": "interrupted", "foundBy": RUN, "foundAt": at("03:10:00")}
    lines = as_story(deploy(phase="restoring", **found), SOURCE)
    assert lines[1] == "run 18093399201 attempt 1 job 51234890117, since 02:50:05Z"
    assert " ".join(" ".join(lines[-3:]).split()).endswith(
        "! nobody wrote how it ended; it was last seen in phase `restoring`, and was found dead by"
        " run 18093399201 attempt 1 job 51234890117 at 03:10:00Z"
    )
    assert as_data(deploy(**found))["foundDeadBy"] == RUN
    assert as_data(FAILED)["foundDeadBy"] is None


CANARY = deploy(
    outcome="failed",
    code=18,
    endedAt=at("02:55:00"),
    certification={"outcome": "uncertified", "rejected": True, "why": "the certify command ended with 3"},
    timeline=[
        span(2, "lease", "02:50:05"),
        span(7, "canary", "02:51:00", "02:54:00", "rejected"),
        span(10, "release", "02:54:01", "02:55:00", "done"),
    ],
)


def test_canary_is_told_in_words_in_the_timeline_and_as_data() -> None:
    """A rejection by its name; its bar ends with the mark of what failed."""
    lines = as_story(CANARY, SOURCE)
    assert "canary   rejected: the certify command ended with 3" in lines
    (bar,) = [line for line in lines if line.startswith("  7  canary")]
    assert bar.endswith("✗ rejected")
    text = as_markdown_story(CANARY, SOURCE)
    assert "Canary: rejected: the certify command ended with 3" in text
    assert "  canary (rejected) :crit, " in text
    assert as_data(CANARY)["certification"] == {
        "outcome": "uncertified",
        "rejected": True,
        "why": "the certify command ended with 3",
    }


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ({"outcome": "certified"}, "canary   certified"),
        (
            {"outcome": "unavailable", "allowed": True, "why": HOSTILE},
            "canary   unavailable, and that was allowed: ",
        ),
        ({"outcome": "not-requested"}, None),
        ({"outcome": "splendid"}, None),
        ("certified", None),
        (None, None),
    ],
    ids=["certified", "allowed", "not-requested", "unknown-word", "no-object", "none"],
)
def test_certification_of_a_record_is_told_only_where_it_is_understood(told: Any, line: str | None) -> None:
    """Hostile text in it is escaped; a word that nobody knows is no certification."""
    past = deploy(outcome="deployed", code=0, endedAt=at("02:55:00"), certification=told)
    found = [one for one in as_story(past, SOURCE) if one.startswith("canary")]
    assert [one.startswith(line or "") for one in found] == ([True] if line else [])
    assert all(is_visible(one) for one in as_story(past, SOURCE))


ROLLED_BACK = deploy(
    outcome="rolled-back",
    code=11,
    endedAt=at("03:01:29"),
    rollback={"undoes": 43, "back": 41, "verdict": "back", "changed": 14, "left": 0},
    timeline=[
        span(2, "lease", "02:50:05"),
        span(4, "kustomization/flux-system/flux-system", "02:50:07", how="kept"),
        span(4, "kustomization/flux-system/apps", "02:50:08", how="kept"),
        span(8, "apply", "02:53:42", "02:59:31", "failed"),
        span(9, "rollback", "02:59:33", "03:00:45", "done"),
        span(10, "release", "03:00:46", "03:01:28", "done"),
    ],
)


def test_deploy_that_was_rolled_back_says_so_with_what_is_kept_and_what_is_back() -> None:
    """In the table, on its own, in its timeline, in Markdown and as data."""
    assert "  43  rolled back, 2 kept" in as_table([ROLLED_BACK], SOURCE)[1]
    lines = as_story(ROLLED_BACK, SOURCE)
    assert lines[0] == "generation 43 on prod: rolled back, 2 kept (exit 11) · 9be1c044"
    assert "rollback generation 41 is back: 14 put back" in lines
    rows = [line.split()[:2] for line in lines if line[:3].strip().isdigit()]
    assert [row for row in rows if row[0] in ("4", "9")] == [
        ["4", "flux-system"],
        ["4", "apps"],
        ["9", "rollback"],
    ]
    assert [line.endswith("▶ kept") for line in lines if line.startswith("  4 ")] == [True, True]
    text = as_markdown_story(ROLLED_BACK, SOURCE)
    assert "Rollback: generation 41 is back: 14 put back" in text
    assert "  section 9" in text
    assert as_data(ROLLED_BACK)["rollback"]["back"] == 41


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("owed", "owed: it was asked for, and was not done"),
        ({"undoes": 43, "verdict": "owed"}, "owed: it was asked for, and was not done"),
        (
            {"undoes": 43, "verdict": "partial", "changed": 3, "left": 1, "why": "a field is immutable"},
            "the state before generation 43 is not back (partial): 3 put back, 1 left as they were: a field is immutable",
        ),
        ({"undoes": "43", "verdict": "superseded", "back": True}, "what ran before is not back (superseded)"),
        ({"verdict": "back"}, "what ran before is back"),
        ({"undoes": 43}, None),
        (7, None),
    ],
    ids=["owed", "owed-with-its-generation", "partial", "odd-numbers", "bare", "no-verdict", "no-object"],
)
def test_rollback_of_a_record_is_told_in_words(told: Any, words: str | None) -> None:
    """Never more than the record says: without `back` it is not back."""
    past = deploy(outcome="failed", code=18, endedAt=at("02:55:00"), rollback=told)
    assert (past.rollback.words if past.rollback else None) == words
    lines = "\n".join(as_story(past, SOURCE))
    assert ("\nrollback " in lines) == (words is not None)
