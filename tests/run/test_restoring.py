"""
A restore under the lease, by the real transaction.

Aspects: back, followed and recorded · lost answers · what cannot go back · superseded · the lease lost · interrupts ·
its own time · nothing before · ownership for later applies.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from fencectl.core.errors import ExitCode
from fencectl.core.restored import RestoreVerdict
from fencectl.core.rollout import RolloutVerdict
from tests.support.applying import CM, config_map
from tests.support.deploying import KS, LEASE_PATH
from tests.support.restoring import DEPLOYMENTS, RECORD_PATH, Restoring, changed_by_a_deploy, deployment

WEB = f"{DEPLOYMENTS}/web"


def image(restoring: Restoring) -> Any:
    return restoring.applying.get(WEB)["spec"]["template"]["spec"]["containers"][0]["image"]


def data(restoring: Restoring) -> Any:
    return restoring.applying.get(f"{CM}/a")["data"]


def writes(restoring: Restoring) -> list[str]:
    """The paths of what was written, without lease and record."""
    sent = restoring.applying.scene.door.sent
    return [path for _, path, _ in sent if not path.endswith(("fencectl-deploy", "record"))]


def test_what_a_deploy_has_changed_is_back_followed_and_recorded_before_and_after() -> None:
    """Generation 1 is back; the record says `restoring` before the first write, `restored` at the end."""
    restoring = changed_by_a_deploy()
    phases: list[Any] = []
    restoring.applying.follower.on_follow = lambda: phases.append(restoring.record(3))
    result = restoring.restore()
    assert (result.code, result.generation) == (ExitCode.OK, 3), result.reason
    assert (image(restoring), data(restoring)) == ("web:1", {"a": "1"})
    assert [one.ref.name for one in restoring.applying.follower.targets] == ["a", "web"]
    (phase,) = phases
    assert (phase["phase"], phase["rollback"]["undoes"]) == ("restoring", 2)
    record = restoring.record(3)
    assert (record["outcome"], record["code"]) == ("restored", 0)
    assert record["rollback"] == {"undoes": 2, "verdict": "back", "back": 1, "changed": 2, "left": 0}
    back = result.rolled_back
    assert back is not None
    assert (back.what, back.revision) == ("generation 1", None)
    assert restoring.applying.get(LEASE_PATH)["spec"]["holderIdentity"] == ""


def test_later_apply_finds_its_own_fields_and_takes_away_what_it_no_longer_names() -> None:
    """What the restore has written belongs to our applies again: no conflict with ourselves, nothing left over."""
    restoring = changed_by_a_deploy()
    restoring.restore()
    managers = restoring.applying.get(f"{CM}/a")["metadata"]["managedFields"]
    assert [(one["manager"], one["operation"]) for one in managers] == [("fencectl", "Apply")]
    result = restoring.applying.deploy(deployment("web:3"), config_map("a", c="3"))
    assert result.code is ExitCode.OK, (result.cause, result.reason)
    assert (image(restoring), data(restoring)) == ("web:3", {"c": "3"})


@pytest.mark.parametrize("how", ["before", "after"])
def test_write_whose_answer_is_lost_is_settled_by_reading_back(how: str) -> None:
    """Carried out or not: each object is changed once, and counted once."""
    restoring = changed_by_a_deploy()
    faults = restoring.applying.scene.sandbox.faults
    lose = faults.drop_before if how == "before" else faults.drop_after
    lose(verb="patch", resource="configmaps", name="a", times=1)
    result = restoring.restore()
    assert result.code is ExitCode.OK, result.reason
    assert data(restoring) == {"a": "1"}
    assert result.rolled_back is not None
    assert len(result.rolled_back.done) == 2


def test_object_that_others_have_changed_since_is_left_and_the_rest_goes_back() -> None:
    """18: not all of it is back; object and field are named, nothing of it is written."""
    restoring = changed_by_a_deploy()
    restoring.change(f"{CM}/a", lambda raw: raw["data"].update(a="3"))
    result = restoring.restore()
    assert result.code is ExitCode.FAILED_NEW_STATE_LIVE
    assert (image(restoring), data(restoring)) == ("web:1", {"a": "3", "b": "new"})
    assert result.rolled_back is not None
    assert result.rolled_back.verdict is RestoreVerdict.PARTIAL
    assert "configmap/shop/a is left as it is: data.a was changed since" in (result.reason or "")


def test_immutable_field_is_named_and_the_rest_goes_back() -> None:
    """The server's 422, with its field; nothing is deleted to get around it."""
    restoring = changed_by_a_deploy()
    causes = [
        {
            "reason": "Forbidden",
            "message": "Forbidden: field is immutable when `immutable` is set",
            "field": "data",
        }
    ]
    body = {"kind": "Status", "message": "x", "details": {"name": "a", "causes": causes}}
    restoring.applying.scene.sandbox.faults.refuse(
        status=422, body=body, verb="patch", resource="configmaps", name="a"
    )
    result = restoring.restore()
    assert result.code is ExitCode.FAILED_NEW_STATE_LIVE
    assert image(restoring) == "web:1"
    assert data(restoring) == {"a": "2", "b": "new"}
    assert result.rolled_back is not None
    ((ref, why),) = [(one.ref.name, one.why) for one in result.rolled_back.left]
    assert ref == "a"
    assert "422" in why
    assert "data" in why


def test_deleted_object_is_made_again_and_a_new_one_stays() -> None:
    """Nothing is deleted."""
    restoring = Restoring()
    restoring.applying.deploy(config_map("a", a="1"))
    for name in ("a", "new"):
        restoring.capture("v1", "ConfigMap", "configmaps", name)
    restoring.applying.deploy(config_map("a", a="2"), config_map("new", a="1"))
    restoring.remember_planned()
    restoring.applying.scene.sandbox.store.delete("configmaps", "a", namespace="shop")
    result = restoring.restore()
    assert result.code is ExitCode.OK, result.reason
    assert data(restoring) == {"a": "1"}
    assert restoring.applying.names() == ["a", "new"]
    assert result.rolled_back is not None
    assert [[ref.name for ref in found] for found in (result.rolled_back.made, result.rolled_back.new)] == [
        ["a"],
        ["new"],
    ]
    assert not any(method == "DELETE" for method, _, _ in restoring.applying.scene.door.sent)


def test_case_59_first_deploy_has_no_previous_good_state_and_nothing_is_deleted() -> None:
    """18, said in these words; nothing is written."""
    restoring = Restoring()
    restoring.capture("v1", "ConfigMap", "configmaps", "a")
    restoring.applying.deploy(config_map("a", a="1"))
    restoring.remember_planned()
    restoring.applying.scene.door.sent.clear()
    result = restoring.restore(1)
    assert result.code is ExitCode.FAILED_NEW_STATE_LIVE
    assert "no previous good state" in (result.reason or "")
    assert result.rolled_back is not None
    assert (result.rolled_back.verdict, result.rolled_back.moved) == (RestoreVerdict.NO_PREVIOUS, False)
    assert writes(restoring) == []
    assert restoring.applying.names() == ["a"]


def test_case_62_paused_deployment_is_a_blocker_that_is_told_at_once() -> None:
    """Its recorded state is written, it is not followed for ever: 18."""
    restoring = Restoring()
    restoring.applying.deploy(deployment("web:1", paused=True, revisionHistoryLimit=0))
    restoring.capture("apps/v1", "Deployment", "deployments", "web")
    restoring.applying.deploy(deployment("web:2", paused=True, revisionHistoryLimit=0))
    restoring.remember_planned()
    restoring.applying.follower.targets = []
    result = restoring.restore()
    assert result.code is ExitCode.FAILED_NEW_STATE_LIVE
    assert image(restoring) == "web:1"
    assert "deployment/shop/web is paused" in (result.reason or "")
    assert restoring.applying.follower.targets == []
    texts = [text for _, text in restoring.applying.scene.told]
    assert any("is paused: it goes back, but does not roll out" in text for text in texts)


def test_case_64_target_that_another_run_has_deployed_to_since_is_left_alone() -> None:
    """A newer record: nothing is written, `superseded by` it, and the record says so."""
    restoring = changed_by_a_deploy()
    scene = restoring.applying.scene

    def deployed_by_another(number: int) -> None:
        found = restoring.applying.get(RECORD_PATH)
        if json.loads(found["data"].get("record-3", "{}")).get("phase") == "restoring":
            scene.door.after = lambda _: None
            other = {"v": 1, "generation": 4, "holder": "4f2a91c07be3d855-gh18.1-9c41e07a", "token": 9}
            found["data"]["record-4"] = json.dumps(other)
            scene.sandbox.store.update(found)

    scene.door.after = deployed_by_another
    result = restoring.restore()
    assert result.code is ExitCode.FAILED_NEW_STATE_LIVE
    assert writes(restoring) == []
    assert (image(restoring), data(restoring)) == ("web:2", {"a": "2", "b": "new"})
    assert "superseded by generation 4, run 18 attempt 1" in (result.reason or "")
    assert restoring.record(3)["outcome"] == "superseded"


def test_case_64_restore_whose_lease_is_lost_writes_nothing_more() -> None:
    """A pause of this process in the middle: what was done is told, the rest is named, 13."""
    restoring = changed_by_a_deploy()
    scene = restoring.applying.scene
    paths: list[str] = []

    def pause(number: int) -> None:
        path = scene.door.sent[-1][1]
        if path == f"{CM}/a":
            scene.clock.advance(40)
        paths.append(path)

    scene.door.after = pause
    result = restoring.restore()
    assert ExitCode.LEASE_LOST in result.codes
    assert image(restoring) == "web:2"
    assert WEB not in writes(restoring)
    assert result.rolled_back is not None
    assert result.rolled_back.verdict is RestoreVerdict.PARTIAL
    assert "web" in {one.ref.name for one in result.rolled_back.left}


def test_interrupt_ends_it_after_the_write_that_is_under_way() -> None:
    """18: something is back, something is not; named, and owed."""
    restoring = changed_by_a_deploy()
    scene = restoring.applying.scene

    def interrupt(number: int) -> None:
        if scene.door.sent[-1][1] == f"{CM}/a":
            scene.interrupt_code = ExitCode.INTERRUPTED
            scene.interrupted.set()

    scene.door.after = interrupt
    result = restoring.restore()
    assert result.code is ExitCode.FAILED_NEW_STATE_LIVE
    assert (image(restoring), data(restoring)) == ("web:2", {"a": "1"})
    assert result.rolled_back is not None
    assert [one.ref.name for one in result.rolled_back.left] == ["web"]


def test_budget_that_is_over_ends_it_and_names_what_is_not_back() -> None:
    """Nobody answers for an object: unknown, 15, never a success."""
    restoring = changed_by_a_deploy()
    scene = restoring.applying.scene
    scene.sandbox.faults.drop_before(verb="patch", resource="deployments")
    on_wait = scene.clock.on_wait
    assert on_wait is not None

    def wait(seconds: float) -> None:
        on_wait(seconds)
        scene.renew()

    scene.clock.on_wait = wait
    result = restoring.restore(timeout_s=30.0)
    assert result.code is ExitCode.OUTCOME_UNKNOWN, (result.codes, result.reason)
    assert result.rolled_back is not None
    assert [ref.name for ref in result.rolled_back.unresolved] == ["web"]


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (RolloutVerdict.FAILED, ExitCode.FAILED_NEW_STATE_LIVE),
        (RolloutVerdict.TIMED_OUT, ExitCode.FAILED_NEW_STATE_LIVE),
        (RolloutVerdict.UNKNOWN, ExitCode.OUTCOME_UNKNOWN),
    ],
)
def test_previous_state_that_does_not_come_up_is_no_success(verdict: RolloutVerdict, code: ExitCode) -> None:
    """It is followed like a deploy."""
    restoring = changed_by_a_deploy()
    restoring.applying.follower.verdict = verdict
    result = restoring.restore()
    assert result.code is code
    assert restoring.record(3)["outcome"] == "failed"


def test_fences_around_a_restore_stay_until_it_is_done_and_are_released_after_it() -> None:
    """Flux is suspended while objects go back."""
    restoring = changed_by_a_deploy()
    restoring.applying.fences = True
    seen: list[Any] = []
    restoring.applying.follower.on_follow = lambda: seen.append(restoring.applying.get(f"{KS}/apps")["spec"])
    before = restoring.applying.scene.state()
    result = restoring.restore()
    assert result.code is ExitCode.OK, result.reason
    assert seen[0]["suspend"] is True
    assert restoring.applying.scene.state() == before
