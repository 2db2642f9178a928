"""
Claims: how a failed restore is classified, what it leaves on its target, and what alone takes that away again.

Aspects: the classes · the restore's own verdict · answers about another generation · what holds · what retires ·
each claim keeps its class and time · runs that died · who is restoring · several targets · hostile entries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fencectl.core.claims import (
    Moved,
    RestoreEnd,
    RunEnd,
    Unmoved,
    claim_changes,
    classify,
    close_dead,
    end_of,
    holding,
    restoring_holder,
)
from fencectl.core.record_hold import Lift, lift
from fencectl.core.record_write import Change
from fencectl.core.records import read_record
from fencectl.core.refs import ObjectRef
from fencectl.core.report import FenceKind
from fencectl.core.restored import Restored, RestoreVerdict
from tests.support.objects import HOLDER, NOW, OTHER, record_map

Data = dict[str, str]
FAILED = RestoreEnd(41, answered=41, moved=True, reason="503")
REFUSED = RestoreEnd(41, answered=41, moved=False, unmoved=Unmoved.NO_POINT)
SILENT = RestoreEnd(41, reason="no answer")
WELL = RestoreEnd(41, answered=41, succeeded=True, moved=True)


def applied(data: Mapping[str, str], changes: tuple[Change, ...]) -> Data:
    """What the server makes of them; each guard holds."""
    after = dict(data)
    for change in changes:
        assert data.get(change.key) == change.before
        if change.after is None:
            del after[change.key]
        else:
            after[change.key] = change.after
    return after


def ended(data: Mapping[str, str], generation: int, *, at: datetime = NOW, **more: Any) -> Data:
    return applied(data, claim_changes(data, RunEnd(generation, HOLDER, at, **more)))


def record(generation: int, phase: str, **more: Any) -> Data:
    value = {"v": 1, "generation": generation, "holder": OTHER, "token": 7, "phase": phase} | more
    return {f"record-{generation}": json.dumps(value)}


# How a failed restore is classified


@pytest.mark.parametrize("unmoved", list(Unmoved))
@pytest.mark.parametrize("answered", [None, 41])
def test_refusal_for_a_reason_of_the_closed_list_has_moved_nothing(unmoved: Unmoved, answered: int | None) -> None:
    """Each of them is known before the first write only."""
    assert classify(RestoreEnd(41, answered, unmoved=unmoved)) is Moved.PRE_MUTATION


@pytest.mark.parametrize("unmoved", [None, *Unmoved])
@pytest.mark.parametrize(("moved", "found"), [(True, Moved.POST_MUTATION), (False, Moved.PRE_MUTATION)])
def test_own_verdict_of_the_restore_comes_before_every_reason(
    unmoved: Unmoved | None, moved: bool, found: Moved
) -> None:
    """It knows what it has sent."""
    assert classify(RestoreEnd(41, 41, moved=moved, unmoved=unmoved)) is found


def test_failure_for_any_other_reason_may_have_moved_something() -> None:
    """What nobody has proven is not so."""
    assert classify(RestoreEnd(41, 41, reason="lease lost")) is Moved.POST_MUTATION


@pytest.mark.parametrize("moved", [True, False, None])
def test_restore_without_an_answer_is_unconfirmed_whatever_it_had_said(moved: bool | None) -> None:
    """A verdict without an answer is none."""
    assert classify(RestoreEnd(41, moved=moved)) is Moved.UNCONFIRMED
    assert classify(RestoreEnd(41, moved=True, unmoved=Unmoved.SUPERSEDED)) is Moved.UNCONFIRMED


@given(
    st.builds(
        RestoreEnd,
        wanted=st.just(41),
        answered=st.sampled_from([40, 42, 0]),
        succeeded=st.booleans(),
        moved=st.sampled_from([True, False, None]),
        unmoved=st.sampled_from([None, *Unmoved]),
    )
)
def test_answer_about_another_generation_is_unconfirmed_even_as_a_success(end: RestoreEnd) -> None:
    """Something was restored, and nobody has proven what."""
    assert classify(end) is Moved.UNCONFIRMED


def test_only_an_answer_about_the_generation_that_was_asked_for_is_a_success() -> None:
    """Success is what is proven, and nothing else."""
    assert classify(WELL) is None
    assert classify(RestoreEnd(41, succeeded=True, moved=True)) is Moved.UNCONFIRMED


REF = ObjectRef("apps/v1", "Deployment", "deployments", "shop", "checkout", "u")


@pytest.mark.parametrize(
    ("restored", "found"),
    [
        (Restored(41, verdict=RestoreVerdict.BACK, done=[REF]), None),
        (Restored(41, verdict=RestoreVerdict.BACK, same=[REF]), None),
        (Restored(40, verdict=RestoreVerdict.BACK, done=[REF]), Moved.UNCONFIRMED),
        (Restored(41, verdict=RestoreVerdict.NO_PREVIOUS), Moved.PRE_MUTATION),
        (Restored(41, verdict=RestoreVerdict.SUPERSEDED), Moved.PRE_MUTATION),
        (Restored(41, verdict=RestoreVerdict.REFUSED), Moved.PRE_MUTATION),
        (Restored(41, verdict=RestoreVerdict.REFUSED, made=[REF]), Moved.POST_MUTATION),
        (Restored(41, verdict=RestoreVerdict.SUPERSEDED, done=[REF]), Moved.POST_MUTATION),
        (Restored(41, verdict=RestoreVerdict.PARTIAL, done=[REF]), Moved.POST_MUTATION),
        (Restored(41, verdict=RestoreVerdict.PARTIAL, done=[REF], unresolved=[REF]), Moved.UNCONFIRMED),
        (Restored(41, verdict=RestoreVerdict.UNKNOWN, unresolved=[REF]), Moved.UNCONFIRMED),
        (Restored(41, verdict=RestoreVerdict.UNKNOWN), Moved.UNCONFIRMED),
        (Restored(41, verdict=RestoreVerdict.UNKNOWN, done=[REF]), Moved.UNCONFIRMED),
    ],
)
def test_what_a_restore_tells_of_itself_is_classified(restored: Restored, found: Moved | None) -> None:
    """Every verdict that it can give."""
    end = end_of(restored, 41)
    assert end is not None
    assert classify(end) is found


def test_restore_that_was_never_begun_has_not_failed() -> None:
    """It is owed, and leaves nothing."""
    assert end_of(Restored(41, verdict=RestoreVerdict.OWED), 41) is None


# What it leaves


def test_refused_restore_is_told_on_its_target_and_holds_nothing() -> None:
    """Pre-mutation: visible, with its reason, and no fence."""
    data = ended({}, 43, restore=REFUSED)
    assert list(data) == ["claim-43"]
    assert holding(data) == ()
    (entry,) = read_record(record_map(**data), NOW)
    assert (entry.kind, entry.why, entry.moved) == (FenceKind.RECORD, "no-recovery-point", "pre-mutation")


@pytest.mark.parametrize(("end", "moved"), [(FAILED, "post-mutation"), (SILENT, "unconfirmed")])
def test_failed_restore_leaves_a_claim_with_class_time_and_reason(end: RestoreEnd, moved: str) -> None:
    """The published keys; a hold on its target."""
    data = ended({}, 43, restore=end)
    assert json.loads(data["claim-43"]) == {
        "v": 1, "generation": 43, "class": moved, "at": "2026-11-30T02:47:31Z", "restore": 41,
        "reason": end.reason, "holder": HOLDER,
    }  # fmt: skip
    assert holding(data) == ("claim-43",)
    (entry,) = read_record(record_map(**data), NOW)
    assert (entry.kind, entry.since, entry.holder, entry.restore) == (FenceKind.HOLD, NOW, HOLDER, 41)


@pytest.mark.parametrize("end", [{"deployed": True}, {"restore": WELL}])
@pytest.mark.parametrize("left", [FAILED, SILENT, REFUSED])
def test_later_deploy_or_restore_that_ended_well_retires_a_claim(end: dict[str, Any], left: RestoreEnd) -> None:
    """Success evidence."""
    data = ended({"hold-freeze": "{}", "other": "o"}, 43, restore=left)
    assert ended(data, 44, **end) == {"hold-freeze": "{}", "other": "o"}


def test_failure_does_not_retire_a_claim_and_leaves_its_class_and_time_alone() -> None:
    """A deploy that fails, a restore that fails in another way, and one that is refused, each beside it."""
    data = ended({}, 43, restore=SILENT)
    first = data["claim-43"]
    for generation, restore in ((44, None), (45, FAILED), (46, REFUSED), (47, None)):
        data = ended(data, generation, at=NOW + timedelta(hours=1), restore=restore)
        assert data["claim-43"] == first
    assert set(data) == {"claim-43", "claim-45"}
    assert json.loads(data["claim-45"])["class"] == "post-mutation"


@pytest.mark.parametrize("restore", [None, FAILED, REFUSED])
def test_claim_that_moved_nothing_is_retired_by_a_later_failure_too(restore: RestoreEnd | None) -> None:
    """What failed last is what is told."""
    data = ended(ended({}, 43, restore=REFUSED), 44, restore=restore)
    assert set(data) == ({"claim-44"} if restore is not None else set())


def test_success_retires_no_claim_of_a_later_run_and_none_that_cannot_be_read() -> None:
    """Evidence goes forward in time only; and what nobody can read may say anything."""
    there = {
        "claim-50": json.dumps({"v": 1, "class": "unconfirmed"}),
        "claim-3": "{",
        "claim-4": '{"v":2}',
        "claim-x": "{}",
    }
    data = ended(there, 44, deployed=True)
    assert data == there
    assert set(holding(data)) == set(there)


def test_claim_of_a_class_that_nobody_knows_holds_until_success() -> None:
    """It moved something, for all that is known."""
    data = {"claim-3": json.dumps({"v": 1, "class": "sideways"}), "claim-4": '{"v":1}'}
    assert set(holding(data)) == {"claim-3", "claim-4"}
    assert ended(data, 44) == data
    assert ended(data, 44, deployed=True) == {}


def test_run_whose_rollback_succeeded_is_success_evidence_though_its_deploy_failed() -> None:
    """The target is what the restore made of it."""
    assert ended(ended({}, 43, restore=FAILED), 44, deployed=False, restore=WELL) == {}


@given(reason=st.text(max_size=3000))
def test_any_reason_is_written_in_ascii_and_within_bounds(reason: str) -> None:
    """It may quote a server."""
    data = ended({}, 43, restore=RestoreEnd(41, 41, moved=True, reason=reason))
    assert data["claim-43"].isascii()
    (entry,) = read_record(record_map(**data), NOW)
    assert (entry.problem, entry.why) == (None, reason[:1000] or "it gave no reason")


# Runs that died


def test_run_that_died_is_reclassified_as_interrupted_with_its_story_kept() -> None:
    """By the next run, under its lease; keys that this version does not know stay."""
    data = record(42, "deploying", startedAt="2026-11-30T01:32:05Z", unknown={"x": [1]})
    dead, changes = close_dead(data, holder=HOLDER, at=NOW)
    assert [(one.generation, one.phase, one.holder, one.claim) for one in dead] == [(42, "deploying", OTHER, None)]
    after = applied(data, changes)
    assert json.loads(after["record-42"]) == json.loads(data["record-42"]) | {
        "outcome": "interrupted", "foundBy": HOLDER, "foundAt": "2026-11-30T02:47:31Z",
    }  # fmt: skip
    assert close_dead(after, holder=HOLDER, at=NOW) == ((), ())


def test_restore_that_died_leaves_an_unconfirmed_claim_once() -> None:
    """It gave no answer, and may have stopped in the middle."""
    data = record(42, "restoring", rollback={"undoes": 41})
    (dead,), changes = close_dead(data, holder=HOLDER, at=NOW)
    assert dead.claim is not None
    after = applied(data, changes)
    claim = json.loads(after["claim-42"])
    assert (claim["class"], claim["restore"], claim["holder"]) == ("unconfirmed", 41, OTHER)
    assert holding(after) == ("claim-42",)
    assert restoring_holder(after) is None
    before = data | {"claim-42": "{}"}
    assert applied(before, close_dead(before, holder=HOLDER, at=NOW)[1])["claim-42"] == "{}"


def test_own_record_and_those_with_an_outcome_are_left_alone() -> None:
    """Nor is anything rewritten that is not a readable story of a run."""
    data = (
        record(40, "ended", outcome="deployed")
        | record(41, "placing", holder=HOLDER)
        | {
            "record-42": "{",
            "record-43": '{"v":2,"phase":"restoring"}',
            "record-44": '{"v":1}',
            "record-x": '{"v":1,"phase":"a"}',
        }
    )
    assert close_dead(data, holder=HOLDER, at=NOW) == ((), ())


@pytest.mark.parametrize(
    "rollback", [{"undoes": "41"}, {"undoes": True}, {"undoes": -1}, {"undoes": 1 << 60}, {}, "owed", 7]
)
def test_restored_generation_that_is_no_number_is_not_told(rollback: Any) -> None:
    """The claim stands all the same."""
    (dead,), _ = close_dead(record(42, "restoring", rollback=rollback), holder=HOLDER, at=NOW)
    assert dead.claim is not None
    assert dead.claim.restore is None


# Who is restoring


def test_newest_record_in_phase_restoring_names_who_is_restoring() -> None:
    """Only while it has no outcome, and only the newest: an older one is over, whatever it says."""
    assert restoring_holder(record(42, "restoring")) == OTHER
    assert restoring_holder(record(42, "restoring", outcome="failed")) is None
    assert restoring_holder(record(42, "deploying")) is None
    assert restoring_holder(record(42, "restoring") | record(43, "ended", outcome="deployed")) is None
    assert restoring_holder(record(42, "restoring") | {"record-43": "{"}) is None
    assert restoring_holder(record(9, "deploying") | record(10, "restoring")) == OTHER
    assert restoring_holder({}) is None


# In any order, on several targets


ENDS = st.builds(
    RestoreEnd,
    wanted=st.integers(1, 3),
    answered=st.sampled_from([None, 1, 2, 3]),
    succeeded=st.booleans(),
    moved=st.sampled_from([True, False, None]),
    unmoved=st.sampled_from([None, Unmoved.NO_POINT, Unmoved.SUPERSEDED]),
    reason=st.sampled_from([None, "503"]),
)
TARGETS = st.sampled_from(["prod-a", "prod-b", "prod-c"])


class Targets(RuleBasedStateMachine):
    """
    Deploys, restores, deaths and lifts on three targets, in any order.

    The model knows nothing of entries: a list of what happened to each target. What holds a target follows from its
    own list alone, so that nothing of a sibling can release or overwrite it.
    """

    @initialize()
    def begin(self) -> None:
        self.data: dict[str, Data] = {name: {"hold-freeze": "kept"} for name in ("prod-a", "prod-b", "prod-c")}
        self.happened: dict[str, list[tuple[str, int]]] = {name: [] for name in self.data}
        self.texts: dict[tuple[str, str], str] = {}
        self.generation = 0
        self.at = NOW

    def _next(self) -> int:
        self.generation += 1
        self.at += timedelta(minutes=1)
        return self.generation

    def _become(self, name: str, after: Data) -> None:
        others = {other: dict(data) for other, data in self.data.items() if other != name}
        self.data[name] = after
        for key, text in after.items():
            if key.startswith("claim-"):
                # NB: never rewritten: neither its class nor its time.
                assert self.texts.setdefault((name, key), text) == text
        assert others == {other: data for other, data in self.data.items() if other != name}

    @rule(name=TARGETS, deployed=st.booleans())
    def deploy(self, name: str, deployed: bool) -> None:
        number = self._next()
        self._become(name, ended(self.data[name], number, at=self.at, deployed=deployed))
        self.happened[name].append(("well" if deployed else "badly", number))

    @rule(name=TARGETS, end=ENDS)
    def restore(self, name: str, end: RestoreEnd) -> None:
        number = self._next()
        self._become(name, ended(self.data[name], number, at=self.at, restore=end))
        answers = end.answered == end.wanted
        if end.succeeded and answers:
            self.happened[name].append(("well", number))
            return
        said = end.moved if answers else None
        proven = (
            end.unmoved is not None and end.answered in (None, end.wanted) and not (end.moved or end.succeeded)
        )
        told_only = said is False or (said is None and proven)
        self.happened[name].append(("refused" if told_only else "claims", number))

    @rule(name=TARGETS, phase=st.sampled_from(["placing", "deploying", "restoring"]))
    def die(self, name: str, phase: str) -> None:
        number = self._next()
        data = self.data[name] | record(number, phase, rollback={"undoes": number - 1})
        assert (restoring_holder(data) == OTHER) is (phase == "restoring")
        dead, changes = close_dead(data, holder=HOLDER, at=self.at)
        assert [one.generation for one in dead] == [number]
        self._become(name, applied(data, changes))
        if phase == "restoring":
            self.happened[name].append(("claims", number))

    @rule(name=TARGETS, data=st.data())
    def lift(self, name: str, data: st.DataObject) -> None:
        entries = [one for one in read_record(record_map(**self.data[name]), NOW) if one.is_claim]
        if not entries:
            return
        entry = data.draw(st.sampled_from(entries))
        after = applied(self.data[name], lift(self.data[name], entry, Lift("over", "ann@desk", self.at, "1")))
        self._become(name, after)
        self.happened[name].append(("lifted", int(entry.key.removeprefix("claim-"))))

    @invariant()
    def each_target_is_held_by_what_happened_to_it(self) -> None:
        for target, data in self.data.items():
            held: set[int] = set()
            told: set[int] = set()
            for what, number in self.happened[target]:
                if what == "lifted":
                    held.discard(number)
                    told.discard(number)
                    continue
                if what != "claims" or f"record-{number}" not in data:
                    told.clear()
                if what == "well":
                    held.clear()
                elif what == "claims":
                    held.add(number)
                elif what == "refused":
                    told.add(number)
            assert set(holding(data)) == {f"claim-{number}" for number in held}
            entries = read_record(record_map(**data), NOW)
            shown = {one.key for one in entries if one.is_claim and one.kind is FenceKind.HOLD}
            assert shown == set(holding(data))
            there = {one.key for one in entries if one.is_claim}
            assert there == {f"claim-{number}" for number in held | told}
            assert data["hold-freeze"] == "kept"


TestTargets = Targets.TestCase
TestTargets.settings = settings(max_examples=40, stateful_step_count=20)
