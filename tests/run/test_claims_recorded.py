"""
Claims and dead runs in the record: written with the outcome, in one write, under the lease and never after its loss.

Aspects: success retires · failure does not · nothing that ran is no evidence · a dead run · a dead restore ·
one write · lost answers · a claim that turned up late · the lease is lost · a run inside of another.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fencectl.core.errors import ExitCode
from fencectl.core.restored import Restored, RestoreVerdict
from fencectl.sandbox import Request
from tests.support.deploying import LEASE_PATH, RECORD, Scene
from tests.support.objects import OTHER

CLAIM = json.dumps({"v": 1, "generation": 3, "class": "post-mutation", "reason": "503"})
REFUSED = json.dumps({"v": 1, "generation": 2, "class": "pre-mutation", "reason": "no-recovery-point"})


def dead(phase: str, **more: Any) -> str:
    value = {"v": 1, "generation": 4, "holder": OTHER, "token": 0, "phase": phase, "unknown": [1]}
    return json.dumps(value | more)


def scene(*, over_claim: bool = True, **data: str) -> Scene:
    """A bare deploy on a target with these entries."""
    made = Scene(bare=True)
    plan = replace(made.plan(), over_claim=over_claim)
    made.plan = lambda: plan  # type: ignore[method-assign]
    entries = {key.replace("_", "-"): text for key, text in data.items()}
    metadata = {"name": RECORD.name, "namespace": RECORD.namespace}
    made.sandbox.store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": entries})
    return made


def data(scene: Scene) -> dict[str, Any]:
    found: dict[str, Any] = scene.raw(RECORD.path)["data"]
    return found


def holder(scene: Scene) -> Any:
    return scene.raw(LEASE_PATH)["spec"]["holderIdentity"]


def test_deploy_over_a_claim_that_succeeds_retires_it() -> None:
    """Both kinds of claim go; a hold stays."""
    made = scene(claim_3=CLAIM, claim_2=REFUSED, hold_freeze="x")
    result = made.deploy()
    assert result
    assert result.code is ExitCode.OK
    assert set(data(made)) == {"hold-freeze", "record-4"}


def test_deploy_over_a_claim_that_fails_leaves_it_as_it_is() -> None:
    """Only what moved nothing goes with a failure."""
    made = scene(claim_3=CLAIM, claim_2=REFUSED)
    made.payload = lambda: 1
    result = made.deploy()
    assert result
    assert result.code is ExitCode.FAILED_NEW_STATE_LIVE
    assert data(made)["claim-3"] == CLAIM
    assert set(data(made)) == {"claim-3", "record-4"}


def test_deploy_that_runs_nothing_is_no_evidence() -> None:
    """It may fence and release as well as it likes: nobody has seen the target whole."""
    made = scene(claim_3=CLAIM)
    plan = replace(made.plan(), command=())
    made.plan = lambda: plan  # type: ignore[method-assign]
    result = made.deploy()
    assert result
    assert result.code is ExitCode.OK
    assert data(made)["claim-3"] == CLAIM


def test_retirement_is_in_the_same_write_as_the_outcome() -> None:
    """Nobody ever sees the one without the other."""
    made = scene(claim_3=CLAIM)
    seen: list[tuple[bool, bool]] = []

    def look(_: int) -> None:
        found = data(made)
        seen.append((json.loads(found.get("record-4", "{}")).get("outcome") == "deployed", "claim-3" in found))

    made.door.before = made.door.after = look
    assert made.deploy()
    assert set(seen) == {(False, True), (True, False)}


@pytest.mark.parametrize("text", [CLAIM, "{", json.dumps({"v": 2})])
def test_claim_that_turns_up_under_the_lease_ends_a_deploy_before_it_is_recorded(text: str) -> None:
    """It was not there at the first look; what it says is left as it is, and the lease is free again."""
    made = scene(over_claim=False, claim_3=text)
    result = made.deploy()
    assert result
    assert (result.code, result.generation) == (ExitCode.HELD_PERSON_NEEDED, None)
    assert not result.applied
    assert "`claim-3`" in str(result.cause)
    assert data(made) == {"claim-3": text}
    assert not holder(made)


def test_claim_that_moved_nothing_stops_no_deploy() -> None:
    """A refused restore leaves its target deployable."""
    made = scene(over_claim=False, claim_2=REFUSED)
    result = made.deploy()
    assert result
    assert result.code is ExitCode.OK
    assert set(data(made)) == {"record-3"}


@pytest.mark.parametrize("phase", ["placing", "deploying"])
def test_run_that_died_is_recorded_as_interrupted_by_the_next_deploy(phase: str) -> None:
    """In the write that records the next one; nothing is refused."""
    made = scene(over_claim=False, record_4=dead(phase))
    result = made.deploy()
    assert result
    assert (result.code, result.generation) == (ExitCode.OK, 5)
    found = json.loads(data(made)["record-4"])
    assert (found["outcome"], found["foundBy"], found["unknown"]) == ("interrupted", made.holder, [1])
    assert set(data(made)) == {"record-4", "record-5"}


def test_restore_that_died_holds_its_target_and_is_not_refused_for_ever() -> None:
    """The next deploy finds it, records both in one write, and ends; a person deploys over it, and it is gone."""
    made = scene(over_claim=False, record_4=dead("restoring", rollback={"undoes": 3}))
    first = made.deploy()
    assert first
    assert (first.code, first.generation) == (ExitCode.HELD_PERSON_NEEDED, None)
    assert "generation 4 died while it restored" in str(first.reason)
    claim = json.loads(data(made)["claim-4"])
    assert (claim["class"], claim["restore"], claim["holder"]) == ("unconfirmed", 3, OTHER)
    assert json.loads(data(made)["record-4"])["outcome"] == "interrupted"
    assert not holder(made)
    plan = replace(made.plan(), over_claim=True)
    made.plan = lambda: plan  # type: ignore[method-assign]
    second = made.deploy()
    assert second
    assert (second.code, second.generation) == (ExitCode.OK, 5)
    assert set(data(made)) == {"record-4", "record-5"}


@pytest.mark.parametrize("applied", [True, False])
def test_lost_answer_of_the_first_write_still_decides_what_a_dead_run_left(*, applied: bool) -> None:
    """Carried out or not: it is decided once, and not forgotten with the answer."""
    made = scene(record_4=dead("restoring"))
    faults = made.sandbox.faults
    fault = (faults.drop_after if applied else faults.drop_before)(verb="patch", resource="configmaps", times=1)
    made.payload = lambda: 1
    result = made.deploy()
    assert result
    assert fault.hits == 1
    assert json.loads(data(made)["record-4"])["outcome"] == "interrupted"
    assert json.loads(data(made)["claim-4"])["class"] == "unconfirmed"
    assert json.loads(data(made)["record-5"])["outcome"] == "failed"


def test_no_claim_is_retired_or_left_once_the_lease_is_lost() -> None:
    """What the run would write is no longer its to say."""
    made = scene(claim_3=CLAIM)

    def stolen() -> int:
        lease = made.raw(LEASE_PATH)
        lease["spec"] |= {"holderIdentity": "ops", "leaseTransitions": 99}
        made.sandbox.handle(Request("PUT", LEASE_PATH, {}, {}, json.dumps(lease).encode(), "admin"))
        assert not made.renew()
        return 0

    made.payload = stolen
    result = made.deploy()
    assert result
    assert result.lost is not None
    assert data(made)["claim-3"] == CLAIM
    assert "outcome" not in json.loads(data(made)["record-4"])


@pytest.mark.parametrize(
    ("restored", "left"),
    [
        (Restored(1, verdict=RestoreVerdict.REFUSED, why="no right"), "pre-mutation"),
        (Restored(1, verdict=RestoreVerdict.UNKNOWN, why="no answer"), "unconfirmed"),
        (Restored(9, verdict=RestoreVerdict.BACK), "unconfirmed"),
        (Restored(1, verdict=RestoreVerdict.BACK), None),
        (Restored(1, verdict=RestoreVerdict.OWED), None),
    ],
)
def test_failed_restore_of_a_run_is_recorded_with_its_outcome(restored: Restored, left: str | None) -> None:
    """With its class, under the generation of the run that tried."""
    made = scene()

    def fails() -> int:
        assert made.current is not None
        made.current._result.rolled_back = restored
        return 1

    made.payload = fails
    assert made.deploy()
    found = {key: text for key, text in data(made).items() if key.startswith("claim-")}
    assert [json.loads(text)["class"] for text in found.values()] == ([left] if left else [])
    assert set(found) <= {"claim-1"}


def test_own_rollback_that_succeeded_retires_earlier_claims() -> None:
    """The deploy has failed, and what ran before runs again."""
    made = scene(claim_3=CLAIM)

    def fails() -> int:
        assert made.current is not None
        made.current._result.rolled_back = Restored(4, verdict=RestoreVerdict.BACK)
        return 1

    made.payload = fails
    assert made.deploy()
    assert "claim-3" not in data(made)


def test_generation_goes_on_after_claims_that_are_left_alone() -> None:
    """Also after one that nobody can read: its place is never taken by another's claim."""
    made = scene(claim_7="{", claim_3=CLAIM)
    result = made.deploy()
    assert result
    assert result.generation == 8
    assert data(made)["claim-7"] == "{"
