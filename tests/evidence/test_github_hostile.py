"""
Whatever GitHub, or something that pretends to be it, may send: nothing raises, and only `completed` is an end.

Aspects: jobs of any shape · headers of any text · URLs of any text.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings as bounded, strategies as st

from fencectl.core.facts import State
from fencectl.evidence.github_api import _date, _epoch, _seconds
from fencectl.evidence.github_failures import UnansweredError
from fencectl.evidence.github_settings import GitHubSettings, origin_of
from fencectl.evidence.github_shapes import read_attempt, read_job
from fencectl.evidence.github_wire import Reply
from tests.evidence.github_desk import ATTEMPT, JOB, JOB_PATH, RUN, ask
from tests.support.github import TOKEN, Fault, LoopbackGitHub
from tests.support.objects import NOW

TEXTS = st.text(max_size=30) | st.sampled_from(["completed", "Completed", "in_progress", "GitHub Actions", "self-hosted", "skipped", "2026-11-30T01:47:09Z", "0001-01-01T00:00:00Z"])  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
FIELDS = ("run_id", "run_attempt", "status", "conclusion", "created_at", "started_at", "completed_at", "runner_id", "runner_name", "runner_group_name", "labels", "steps", "run_started_at")  # fmt: skip
JOBS = st.fixed_dictionaries({"id": st.integers() | VALUES}, optional=dict.fromkeys(FIELDS, VALUES))


@bounded(deadline=None)
@given(raw=JOBS)
def test_job_of_any_shape_is_read_and_ends_by_one_word_only(raw: dict[str, Any]) -> None:
    """Every field may be of every type."""
    try:
        job = read_job(raw)
    except UnansweredError:
        assert type(raw["id"]) is not int
        return
    assert (job.status.state is State.ENDED) == (raw.get("status") == "completed")
    assert len(job.status.words(now=NOW)) < 120
    if job.is_hosted(None):
        assert raw["runner_group_name"] == "GitHub Actions"
    if job.never_ran:
        assert raw["status"] == "completed"
        assert not raw.get("steps")
        assert not raw.get("runner_name")


@bounded(deadline=None)
@given(raw=JOBS)
def test_attempt_of_any_shape_is_read_and_ends_by_one_word_only(raw: dict[str, Any]) -> None:
    """The same for an attempt."""
    attempt = read_attempt(raw)
    assert (attempt.status.state is State.ENDED) == (raw.get("status") == "completed")
    assert len(attempt.status.words(now=NOW)) < 120


@bounded(deadline=None)
@given(raw=VALUES)
def test_answer_of_any_shape_is_a_job_or_none(raw: Any) -> None:
    """Never another error than the one that is expected."""
    if isinstance(raw, dict) and type(raw.get("id")) is int:
        return
    with pytest.raises(UnansweredError):
        read_job(raw)


HEADERS = st.text(max_size=40) | st.from_regex(r"[A-Z][a-z]{2}, \d{1,2} [A-Z][a-z]{2} \d{1,5} \d\d:\d\d:\d\d [-+A-Z0-9]{0,5}", fullmatch=True)  # fmt: skip


@bounded(deadline=None)
@given(text=HEADERS)
def test_header_of_any_text_is_a_time_or_none(text: str) -> None:
    """A clock that tells nonsense tells nothing."""
    at = _date(Reply(200, {"date": text}, b""))
    assert at is None or at.tzinfo is not None
    seconds = _seconds(text, NOW)
    assert seconds is None or seconds >= 0
    reset = _epoch(text)
    assert reset is None or reset.tzinfo is not None


@bounded(deadline=None)
@given(text=st.integers(min_value=0).map(str))
def test_number_of_any_size_is_a_time_or_none(text: str) -> None:
    """The year 5138, and beyond it nothing."""
    reset = _epoch(text)
    assert reset is None or reset.year < 5139
    seconds = _seconds(text, NOW)
    assert seconds is None or seconds < 10**7


URLS = st.text(max_size=60) | st.from_regex(r"https?://[a-z0-9@:\[\].\\/?#%-]{0,40}", fullmatch=True)


@bounded(deadline=None)
@given(url=URLS)
def test_url_of_any_text_names_a_safe_server_or_none(url: str) -> None:
    """What is read from a URL is the whole of it: nothing hides in a part that was not looked at."""
    origin = origin_of(url)
    if origin is not None:
        assert origin.scheme == "https" or origin.is_loopback
        assert origin_of(origin.url) == origin
        assert not set(origin.authority + origin.path) & set("@?#\\ %")
    GitHubSettings.from_environment({"GITHUB_API_URL": url, "GITHUB_SERVER_URL": url, "GITHUB_TOKEN": TOKEN})


@bounded(deadline=None, max_examples=40)
@given(raw=JOBS)
def test_holder_is_never_dead_by_an_answer_that_does_not_say_so(raw: dict[str, Any]) -> None:
    """Over the wire, with the right ids and everything else at random."""
    raw |= {"id": JOB, "run_id": RUN, "run_attempt": ATTEMPT}
    with LoopbackGitHub(date_at=NOW) as github:
        github.fault(JOB_PATH, Fault(body=json.dumps(raw)))
        fact = ask(github)
    assert (fact.state is State.ENDED) == (raw.get("status") == "completed")
    assert len(fact.answer) < 300
