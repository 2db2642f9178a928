"""Holds as entries: written in ASCII, read leniently, lifted with their story, never put back by a late placing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fencectl.core.record_hold import (
    Hold,
    Lift,
    Lifted,
    is_lifted_since,
    last_lift,
    last_lifts,
    lift,
    place,
)
from fencectl.core.records import Entry, hold_notes, read_record
from tests.support.objects import NOW, before, record_map

LIFT = Lift("INC-2291 is over", "bob@desk", NOW, "9c41e07a")


def hold(**changes: Any) -> Hold:
    given: dict[str, Any] = {
        "type": "incident",
        "reason": "INC-2291",
        "by": "ann@laptop",
        "at": before(60),
        "id": "4f2a",
    }
    return Hold(**(given | changes))


def entry(text: str, key: str = "hold_incident") -> Entry:
    (found,) = read_record(record_map(**{key: text}), NOW)
    return found


def after(data: dict[str, str], entry: Entry) -> dict[str, str]:
    changed = {change.key: change.after for change in lift(data, entry, LIFT)}
    return {key: text for key, text in (data | changed).items() if text is not None}


@given(reason=st.text(min_size=1), by=st.text())
def test_any_reason_is_written_in_ascii_and_read_back_whole(reason: str, by: str) -> None:
    """What survives every encoder on its way to the server and back."""
    text = hold(reason=reason, by=by).to_text()
    assert text.isascii()
    assert not set(text) & set("&<>")
    found = entry(text)
    assert (found.why, found.by, found.problem, found.id) == (reason, by, None, "4f2a")


def test_hold_is_written_with_its_end_only_where_it_has_one() -> None:
    """The published keys, and no other."""
    assert json.loads(hold().to_text()) == {
        "v": 1, "type": "incident", "reason": "INC-2291", "by": "ann@laptop", "at": "2026-11-30T02:46:31Z", "id": "4f2a",
    }  # fmt: skip
    assert json.loads(hold(until=NOW).to_text())["until"] == "2026-11-30T02:47:31Z"


def test_placing_guards_that_none_is_there_and_the_last_lift_as_it_was_read() -> None:
    """The one that only grows: a late placing meets another last lift than it has read."""
    data = {"lifted-incident": "{}"}
    first, second = place(data, hold())
    assert (first.key, first.before, first.after) == ("hold-incident", None, hold().to_text())
    assert (second.key, second.before, second.after) == ("lifted-incident", "{}", "{}")
    assert not is_lifted_since(data, "hold-incident", ())
    assert not is_lifted_since(data, "hold-incident", (first, second))
    assert is_lifted_since({"lifted-incident": "[]"}, "hold-incident", (first, second))


def test_lift_keeps_who_and_why_and_the_hold_with_keys_that_nobody_here_knows() -> None:
    """The story stays; a second lift of the type takes the place of the first."""
    text = json.dumps({**json.loads(hold().to_text()), "ticket": {"url": "x"}})
    data = after({"hold-incident": text, "other": "o"}, entry(text))
    assert set(data) == {"lifted-incident", "other"}
    kept = json.loads(data["lifted-incident"])
    assert kept["hold"]["ticket"] == {"url": "x"}
    assert (kept["reason"], kept["by"], kept["id"]) == ("INC-2291 is over", "bob@desk", "9c41e07a")
    assert last_lift(data, "hold-incident") == Lifted("incident", "INC-2291 is over", "bob@desk", NOW, "9c41e07a")
    again = after({**data, "hold-incident": text}, entry(text))
    assert json.loads(again["lifted-incident"])["hold"]["ticket"] == {"url": "x"}


def test_claims_share_one_last_lift_so_that_the_record_does_not_grow() -> None:
    """They are numbered by generation."""
    data = after({"claim-42": "{}"}, entry("{}", "claim_42"))
    assert set(data) == {"lifted-claim"}
    assert json.loads(data["lifted-claim"])["type"] == "claim-42"


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00", '{"a":1,"a":2}'])
def test_unreadable_hold_can_be_lifted_by_its_text(text: str) -> None:
    """Else only a hand-written patch would help."""
    found = entry(text)
    assert found.problem
    data = after({"hold-incident": text}, found)
    assert set(data) == {"lifted-incident"}


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"'])
def test_unreadable_last_lift_tells_nothing_and_hurts_nothing(text: str) -> None:
    """It is a story, not a fence."""
    assert last_lift({"lifted-incident": text}, "hold-incident") is None
    assert last_lifts({"lifted-incident": text, "lifted-freeze": '{"by":5}'}) == (Lifted("freeze"),)


@pytest.mark.parametrize(
    ("text", "problem", "newer"),
    [
        ('{"v":2,"reason":"x"}', "newer fencectl (version 2, this one reads 1)", True),
        ('{"reason":"x"}', "has no version", False),
        ('{"v":"1"}', "has no version", False),
        ('{"v":true}', "has no version", False),
        ('{"v":0}', "has no version", False),
        ("[]", "not a JSON object", False),
        ("{", "cannot be read", False),
    ],
)
def test_entry_that_is_no_hold_of_ours_says_why(text: str, problem: str, newer: bool) -> None:
    """Each in its own words; it stays a fence."""
    found = entry(text)
    assert found.problem
    assert problem in found.problem
    assert found.newer is newer


def test_claim_says_why_under_its_own_key() -> None:
    """A claim has a class and a cause, and `hold lift` knows it by its number."""
    found = entry(
        '{"v":1,"generation":42,"class":"unconfirmed","why":"no answer","at":"2026-11-30T02:00:00Z"}', "claim_42"
    )
    assert (found.why, found.lifted_as, found.problem) == ("no answer", "claim-42", None)


def test_notes_say_when_it_should_end_and_that_it_stays() -> None:
    """The end only warns."""
    assert hold_notes(entry(hold(until=before(-3600)).to_text()), NOW) == (
        "reason: INC-2291", "by ann@laptop", "until 03:47:31Z (in 1h00m), but it stays until it is lifted",
    )  # fmt: skip
    assert hold_notes(entry(hold(until=before(30)).to_text()), NOW)[-1] == (
        "overdue for 30s; it stays until it is lifted"
    )
