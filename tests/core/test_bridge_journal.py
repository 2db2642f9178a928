"""
The journal's exact schema, and the comparison of taints.

Aspects: what is sound · each way to be malformed · numbers as spelled · what is still read of a malformed one ·
taints that come and go · what counts as drift and what does not.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fencectl.core.bridge_journal import BridgeJournal, Claim, normalised, read_journal, taint_drift
from tests.core.test_bridge_states import MISSING, NODE_RUN, REVISION, UNSCHEDULABLE_TAINT, journal_text


@pytest.mark.parametrize("phase", ["active", "retain", "release-ready", "rollback-safe"])
@pytest.mark.parametrize("cordoned", [0, 1])
def test_journal_with_the_full_schema_is_read(phase: str, cordoned: int) -> None:
    """The seven keys, each of its type."""
    taints = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoExecute", "timeAdded": None}]
    reading = read_journal(journal_text(jphase=phase, wasCordoned=cordoned, initialTaints=taints))
    assert reading.fault is None
    journal = reading.journal
    assert journal is not None
    assert (journal.owner, journal.uid, journal.phase) == (NODE_RUN, "uid-worker-1", phase)
    assert journal.was_cordoned is (cordoned == 1)
    assert list(journal.initial_taints) == taints
    assert (reading.phase, reading.owner, reading.claim) == (phase, NODE_RUN, Claim(NODE_RUN, phase))


MALFORMED = [
    ({"v": 2}, "`v`"),
    ({"v": "1"}, "`v`"),
    ({"v": True}, "`v`"),
    ({"v": 1.0}, "`v`"),
    ({"v": None}, "`v`"),
    ({"v": MISSING}, "keys"),
    ({"owner": MISSING}, "keys"),
    ({"juid": MISSING}, "keys"),
    ({"jphase": MISSING}, "keys"),
    ({"desiredRevision": MISSING}, "keys"),
    ({"wasCordoned": MISSING}, "keys"),
    ({"initialTaints": MISSING}, "keys"),
    ({"extra": 1}, "keys"),
    ({"owner": ""}, "`owner`"),
    ({"owner": 5}, "`owner`"),
    ({"owner": None}, "`owner`"),
    ({"juid": ""}, "`uid`"),
    ({"juid": ["x"]}, "`uid`"),
    ({"jphase": "Active"}, "`phase`"),
    ({"jphase": "mutating"}, "`phase`"),
    ({"jphase": None}, "`phase`"),
    ({"jphase": ["active"]}, "`phase`"),
    ({"desiredRevision": REVISION[:-1]}, "`desiredRevision`"),
    ({"desiredRevision": REVISION + "\n"}, "`desiredRevision`"),
    ({"desiredRevision": REVISION.upper()}, "`desiredRevision`"),
    ({"desiredRevision": "g" * 64}, "`desiredRevision`"),
    ({"desiredRevision": 64}, "`desiredRevision`"),
    ({"wasCordoned": True}, "`wasCordoned`"),
    ({"wasCordoned": False}, "`wasCordoned`"),
    ({"wasCordoned": "0"}, "`wasCordoned`"),
    ({"wasCordoned": 2}, "`wasCordoned`"),
    ({"wasCordoned": 0.0}, "`wasCordoned`"),
    ({"wasCordoned": -0.0}, "`wasCordoned`"),
    ({"wasCordoned": None}, "`wasCordoned`"),
    ({"wasCordoned": [0]}, "`wasCordoned`"),
    ({"initialTaints": None}, "`initialTaints`"),
    ({"initialTaints": {}}, "`initialTaints`"),
    ({"initialTaints": "[]"}, "`initialTaints`"),
    ({"initialTaints": ["a"]}, "`initialTaints`"),
    ({"initialTaints": [{"key": 5}]}, "`initialTaints`"),
]


@pytest.mark.parametrize(("changes", "said"), MALFORMED)
def test_journal_with_one_fault_is_malformed(changes: dict[str, Any], said: str) -> None:
    """One key too many, too few, or of another type: the whole journal is not to be trusted."""
    reading = read_journal(journal_text(**changes))
    assert reading.journal is None
    assert reading.fault is not None
    assert said in reading.fault


@pytest.mark.parametrize(
    ("spelling", "sound"),
    [("0", True), ("1", True), ("-0", False), ("0.0", False), ("1.0", False), ("0e0", False), ("1e0", False)],
)
def test_number_counts_as_it_is_spelled(spelling: str, *, sound: bool) -> None:
    """To a decoder `-0` and `0.0` equal 0; to that tool they are not the number it wrote."""
    text = journal_text(wasCordoned="@").replace('"@"', spelling)
    assert (read_journal(text).journal is not None) is sound
    text = journal_text(v="@").replace('"@"', spelling)
    assert (read_journal(text).journal is not None) is (spelling == "1")


@pytest.mark.parametrize(
    "text",
    [
        "1",
        "0",
        "null",
        "true",
        '"text"',
        "[]",
        "[[1, 2]]",
        '[["owner", "x"], ["phase", "active"]]',
        "{",
        "not json",
        " ",
        "\n",
        "{}",
        "NaN",
        '{"v": NaN}',
        "9" * 5000,
        "[" * 100_000,
        '{"a":' * 100_000,
        "\ufeff" + journal_text(),
        journal_text().replace('"v": 1', '"v": 1, "v": 1'),
        journal_text() + journal_text(),
        journal_text() + "x",
    ],
)
def test_text_that_is_no_object_is_malformed_and_ends_nothing(text: str) -> None:
    """Number, text, list, broken JSON, a byte-order mark, a duplicate key: reported, never raised."""
    reading = read_journal(text)
    assert reading.journal is None
    assert reading.fault is not None


@pytest.mark.parametrize("value", [5, True, [], {}, {"v": 1}, 0.5])
def test_value_that_is_no_text_is_malformed(value: Any) -> None:
    """An annotation is text; anything else was not read from one."""
    assert read_journal(value).fault == "it is not text"


def test_claim_of_a_malformed_journal_is_still_read() -> None:
    """What a malformed journal says of owner and phase may hold others back, never let them go."""
    assert read_journal(journal_text(v=7, jphase="weird")).claim == Claim(NODE_RUN, "weird")
    assert read_journal("\ufeff" + journal_text()).claim == Claim(NODE_RUN, "rollback-safe")
    doubled = journal_text().replace('"v": 1', '"phase": "x", "v": 1')
    assert read_journal(doubled).claim == Claim(NODE_RUN, "rollback-safe")


@pytest.mark.parametrize("changes", [{"owner": 5}, {"owner": MISSING}, {"jphase": None}, {"jphase": MISSING}])
def test_claim_needs_both_owner_and_phase_as_text(changes: dict[str, Any]) -> None:
    """Without one of them no batch is meant."""
    assert read_journal(journal_text(**changes)).claim is None


@given(st.text() | st.from_regex(r"\s*[\[{\"0-9\-tfn].*", fullmatch=True))
def test_any_text_is_read_without_raising(text: str) -> None:
    """Either a journal or a fault, never both and never neither."""
    reading = read_journal(text)
    assert (reading.journal is None) is (reading.fault is not None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(
        st.sampled_from(["v", "owner", "uid", "phase", "desiredRevision", "wasCordoned", "initialTaints", "x"]),
        JSON,
        max_size=3,
    )
)
def test_any_value_in_any_field_is_read_without_raising(changes: dict[str, Any]) -> None:
    """Hostile values in the place of sound ones."""
    values = json.loads(journal_text()) | changes
    reading = read_journal(json.dumps(values))
    assert (reading.journal is None) is (reading.fault is not None)


def taint(key: str, effect: str = "NoSchedule", **more: Any) -> dict[str, Any]:
    return {"key": key, "effect": effect, **more}


def journal_with(taints: list[dict[str, Any]]) -> BridgeJournal:
    journal = read_journal(journal_text(initialTaints=taints)).journal
    assert journal is not None
    return journal


CORDON_TAINT = "node.kubernetes.io/unschedulable"
AUTOSCALER_TAINT = "DeletionCandidateOfClusterAutoscaler"


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ([], [UNSCHEDULABLE_TAINT]),
        ([UNSCHEDULABLE_TAINT], []),
        ([], [taint(CORDON_TAINT)]),
        ([], [taint(CORDON_TAINT, value="")]),
        ([], [taint(CORDON_TAINT, timeAdded=None)]),
        ([taint(CORDON_TAINT), taint(CORDON_TAINT)], [taint(CORDON_TAINT, timeAdded="x")]),
        ([], [taint(AUTOSCALER_TAINT, "PreferNoSchedule", value="1764468000")]),
        ([taint(AUTOSCALER_TAINT, "PreferNoSchedule")], []),
        ([taint("a"), taint("b")], [taint("b"), taint("a")]),
        ([taint("a", "NoExecute"), taint("a")], [taint("a"), taint("a", "NoExecute")]),
        ([taint("a", value="2"), taint("a", value="1")], [taint("a", value="1"), taint("a", value="2")]),
        ([taint("a", timeAdded="2"), taint("a", timeAdded="1")], [taint("a", timeAdded="1"), taint("a", timeAdded="2")]),
        ([taint("a"), taint("a")], [taint("a"), taint("a")]),
        ([{"effect": "NoSchedule", "key": "a"}], [{"key": "a", "effect": "NoSchedule"}]),
    ],
)  # fmt: skip
def test_taints_that_come_and_go_or_change_places_are_no_drift(
    before: list[dict[str, Any]], now: list[dict[str, Any]]
) -> None:
    """Both sides are normalised: the cordon's own taint, the autoscaler's, and the order say nothing."""
    assert taint_drift(journal_with(before), now) is None


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ([], [taint(CORDON_TAINT, value="x")], ("not recorded: node.kubernetes.io/unschedulable:NoSchedule",)),
        ([], [taint(CORDON_TAINT, value=None)], ("not recorded: node.kubernetes.io/unschedulable:NoSchedule",)),
        ([], [taint(CORDON_TAINT, "NoExecute")], ("not recorded: node.kubernetes.io/unschedulable:NoExecute",)),
        ([], [taint(AUTOSCALER_TAINT)], ("not recorded: DeletionCandidateOfClusterAutoscaler:NoSchedule",)),
        ([], [taint("node.kubernetes.io/not-ready")], ("not recorded: node.kubernetes.io/not-ready:NoSchedule",)),
        (
            [],
            [taint("node.kubernetes.io/unreachable", "NoExecute")],
            ("not recorded: node.kubernetes.io/unreachable:NoExecute",),
        ),
        (
            [],
            [taint("node.kubernetes.io/network-unavailable")],
            ("not recorded: node.kubernetes.io/network-unavailable:NoSchedule",),
        ),
        ([taint("a")], [], ("recorded and gone: a:NoSchedule",)),
        ([taint("a")], [taint("a", value="")], ("not recorded: a:NoSchedule", "recorded and gone: a:NoSchedule")),
        ([taint("a")], [taint("a", timeAdded=None)], ("not recorded: a:NoSchedule", "recorded and gone: a:NoSchedule")),
        ([taint("a"), taint("a")], [taint("a")], ("recorded and gone: a:NoSchedule",)),
        ([taint("a")], [taint("a", more="x")], ("not recorded: a:NoSchedule", "recorded and gone: a:NoSchedule")),
        ([], [taint(k) for k in "abcd"], ("not recorded: a:NoSchedule, b:NoSchedule, c:NoSchedule",)),
        ([], [{}], ("not recorded: None:None",)),
    ],
)  # fmt: skip
def test_any_other_difference_is_drift_and_is_named(
    before: list[dict[str, Any]], now: list[dict[str, Any]], said: tuple[str, ...]
) -> None:
    """Absent is not empty, null is not absent, duplicates count; at most three are named."""
    assert taint_drift(journal_with(before), now) == said


def test_same_taints_in_an_order_that_no_sort_tells_apart_are_drift() -> None:
    """An absent time and a null one sort alike, so the order in which they stand is compared."""
    one = [taint("a"), taint("a", timeAdded=None)]
    assert taint_drift(journal_with(one), one) is None
    assert taint_drift(journal_with(one), one[::-1]) == ()


TAINTS = st.lists(
    st.fixed_dictionaries(
        {"key": st.sampled_from(["a", "b", CORDON_TAINT, AUTOSCALER_TAINT])},
        optional={
            "effect": st.sampled_from(["NoSchedule", "PreferNoSchedule"]),
            "value": st.sampled_from(["", "x"]),
            "timeAdded": st.sampled_from(["1", "2"]),
        },
    ),
    max_size=6,
)


@given(TAINTS, st.randoms(use_true_random=False))
def test_order_never_makes_a_drift(taints: list[dict[str, Any]], shuffle: random.Random) -> None:
    """Where no value is null, any order of the same taints is the same."""
    shuffled = list(taints)
    shuffle.shuffle(shuffled)
    assert normalised(taints) == normalised(shuffled)
    assert taint_drift(journal_with(taints), shuffled) is None
