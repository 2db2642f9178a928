"""Journals: written in the alphabet that survives, read strictly, unknown keys kept, newer versions refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fencectl.core.journal import BadJournal, Journal, LeaseRef, Phase, parse_journal
from tests.support.objects import HOLDER, NOW, journal

GOOD: dict[str, Any] = json.loads(journal(uid="u").to_text())


def read(**changes: Any) -> Journal | BadJournal:
    value = {key: found for key, found in (GOOD | changes).items() if found is not ...}
    return parse_journal(json.dumps(value))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"v": 2}, "newer fencectl (version 2"),
        ({"v": ...}, "no version"),
        ({"v": True}, "no version"),
        ({"v": "1"}, "no version"),
        ({"v": 0}, "no version"),
        ({"holder": ...}, "lacks `holder`"),
        ({"uid": 5}, "`uid` has the wrong type"),
        ({"seq": "5"}, "`seq` has the wrong type"),
        ({"rank": True}, "`rank` has the wrong type"),
        ({"prior": []}, "`prior` has the wrong type"),
        ({"at": "yesterday"}, "`at` is not a time"),
        ({"phase": "gone"}, "`phase` is not one"),
        ({"job": "5"}, "`job` has the wrong type"),
        ({"details": "x"}, "`details` has the wrong type"),
        ({"lease": []}, "`lease` has the wrong shape"),
        ({"lease": {"namespace": "n", "name": "x", "uid": "u", "duration": 30}}, "`lease` has the wrong shape"),
    ],
)
def test_unusable_journal_says_what_is_wrong(changes: dict[str, Any], why: str) -> None:
    """Each way to be unusable has its own sentence."""
    found = read(**changes)
    assert isinstance(found, BadJournal)
    assert why in found.why


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("{", "not valid JSON"),
        ("[]", "not a JSON object"),
        ("5", "not a JSON object"),
        ('"text"', "not a JSON object"),
        ("\ufeff{}", "not valid JSON"),
        ('{"v":1,"v":1}', "a key occurs twice"),
        ('{"v":NaN}', "NaN is not JSON"),
        ("[" * 100_000, "longer than 64 KiB"),
        ("[" * 60_000, "not valid JSON"),
        ("x" * 300_000, "longer than 64 KiB"),
    ],
)
def test_case_40_text_that_is_no_journal_says_why_and_quotes_nothing(text: str, why: str) -> None:
    """Broken, deep and huge text never raises."""
    found = parse_journal(text)
    assert isinstance(found, BadJournal)
    assert why in found.why


def test_journal_is_ascii_without_characters_that_encoders_change() -> None:
    """What Go would escape, and what is not ASCII, is written as an escape already."""
    text = journal(uid="u", reason="é <b> & \u2028 💥 'quoted' \x1b").to_text()
    assert text.isascii()
    assert not set("&<>\x1b\n") & set(text)
    parsed = parse_journal(text)
    assert isinstance(parsed, Journal)
    assert parsed.reason == "é <b> & \u2028 💥 'quoted' \x1b"


def test_read_journal_keeps_its_text_and_its_unknown_keys() -> None:
    """A guard tests the text as it stands; what a later version wrote into it is not lost."""
    text = json.dumps(GOOD | {"later": {"a": [1]}}, indent=1)
    parsed = parse_journal(text)
    assert isinstance(parsed, Journal)
    assert parsed.text == text
    rewritten = parse_journal(parsed.with_phase(Phase.KEPT, at=NOW, reason="kept").text)
    assert isinstance(rewritten, Journal)
    assert rewritten.extra == {"later": {"a": [1]}}
    assert (rewritten.phase, rewritten.reason, rewritten.at) == (Phase.KEPT, "kept", NOW)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    reason=st.none() | st.text(max_size=30),
    prior=st.dictionaries(st.text(max_size=8), json_values, max_size=4),
    within=st.none() | st.text(max_size=8),
    job=st.none() | st.integers(0, 10**19),
)
def test_written_journal_is_read_back(
    reason: str | None, prior: dict[str, Any], within: str | None, job: int | None
) -> None:
    """Any text and any prior value survive."""
    story = journal(
        uid="u", reason=reason, prior=prior, within=within, job=job, details={"host": "x"}, recovering=HOLDER
    )
    parsed = parse_journal(story.to_text())
    assert isinstance(parsed, Journal)
    assert (parsed.reason, parsed.prior, parsed.within, parsed.job) == (reason, prior, within, job)
    assert parsed.lease == LeaseRef("flux-system", "fencectl-deploy", "uid-fencectl-deploy", 30, 119)
    assert parsed.to_text() == story.to_text()


@given(st.text(max_size=60) | json_values.map(json.dumps))
def test_any_text_is_a_journal_or_says_why_not(text: str) -> None:
    """Hostile text never raises."""
    assert isinstance(parse_journal(text), Journal | BadJournal)
