"""Records of past deploys, as they are read: whole, partial, hostile, or written by a later version."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from fencectl.core.history import read_history

RUN = "9be1c04477aa02d1-gh18093399201.1-j51234890117-20d7bb3f"


def record(generation: int, **more: Any) -> dict[str, str]:
    value = {"v": 1, "holder": RUN, "token": 3, "phase": "deploying", "startedAt": "2026-11-30T02:50:05Z"}
    return {f"record-{generation}": json.dumps(value | more)}


def test_newest_comes_first_and_other_entries_are_none() -> None:
    """Holds and claims are no deploys; ten comes after nine, not after one."""
    data = record(9) | record(10) | {"hold-incident": "{}", "claim-3": "{}", "record-x": "{}"}
    assert [past.generation for past in read_history(data)] == [10, 9]


def test_ended_deploy_tells_outcome_time_and_what_stays() -> None:
    """The outcome says how many fences were kept."""
    timeline = [
        {"step": 4, "what": "kustomization/a/b", "from": "2026-11-30T02:50:06Z", "how": "kept"},
        {
            "step": 6,
            "what": "node/n1",
            "from": "2026-11-30T02:50:07Z",
            "to": "2026-11-30T02:51:00Z",
            "how": "released",
        },
    ]
    (past,) = read_history(record(1, outcome="failed", code=11, endedAt="2026-11-30T03:01:29Z", timeline=timeline))
    assert (past.result, past.took_s, past.revision, past.code) == ("failed, 1 kept", 684.0, "9be1c044", 11)
    assert past.spans[1].ended_at == datetime(2026, 11, 30, 2, 51, tzinfo=UTC)


def test_deploy_without_outcome_runs_only_where_the_lease_is_still_its_own() -> None:
    """A killed deploy writes no outcome either; the lease tells the two apart as far as a record can."""
    assert [past.result for past in read_history(record(1), lease_holder=RUN)] == ["deploying"]
    assert [past.result for past in read_history(record(1), lease_holder="another")] == ["interrupted"]
    assert [past.result for past in read_history(record(1), lease_holder=None)] == ["interrupted"]


def test_run_that_a_later_one_found_dead_says_by_whom_and_when() -> None:
    """The outcome was written for it; what cannot be read of that is left out."""
    (past,) = read_history(
        record(1, outcome="interrupted", foundBy=RUN, foundAt="2026-11-30T03:01:29Z"), lease_holder=RUN
    )
    assert (past.result, past.held, past.took_s) == ("interrupted", False, None)
    assert past.found_by is not None
    assert past.found_by.identity == RUN
    assert past.found_at == datetime(2026, 11, 30, 3, 1, 29, tzinfo=UTC)
    (odd,) = read_history(record(1, outcome="interrupted", foundBy=7, foundAt="x"), lease_holder=RUN)
    assert (odd.found_by, odd.found_at) == (None, None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "it cannot be read"),
        ("[]", "it is not a JSON object"),
        ("{}", "it has no version"),
        ('{"v":true}', "it has no version"),
        ('{"v":0}', "it has no version"),
        ('{"v":2}', "it was written by a newer fencectl (version 2"),
        ('{"v":1,"v":1}', "it cannot be read"),
        (7, "it is not a JSON object"),
    ],
)
def test_entry_that_cannot_be_read_is_listed_with_the_reason(text: Any, problem: str) -> None:
    """A deploy that is left out of the list did not happen, to whoever reads it."""
    (past,) = read_history({"record-4": text})
    assert (past.generation, past.result) == (4, "unreadable")
    assert past.problem is not None
    assert past.problem.startswith(problem)


def test_what_is_no_span_is_counted_and_what_is_no_number_is_nothing() -> None:
    """Wrong types in a record never end in a traceback, nor in a made-up time."""
    timeline = [
        1,
        {},
        {"step": "4", "what": "x", "from": "2026-11-30T02:50:06Z"},
        {"step": 4, "what": "x", "from": 1},
    ]
    odd = {
        "timeline": timeline,
        "more": 5,
        "token": 1.5,
        "code": True,
        "failure": [],
        "command": 1,
        "endedAt": "soon",
    }
    (past,) = read_history(record(1, outcome="deployed", **odd))
    assert (past.spans, past.more) == ((), 9)
    assert (past.token, past.code, past.failure, past.command, past.ended_at) == (None, None, None, None, None)
    assert read_history(record(1, timeline="x", holder=None))[0].holder is None
