"""
What a real restore leaves on its target, by the real transaction: sentence by sentence of records and claims.

Aspects: success · refused · half done · no answer · a thrown error · the lease lost · killed in the middle; and after
each, what a deploy may do, what a rollback may do, and what is left when one of them has ended well.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fencectl.core.errors import ExitCode
from tests.support.applying import CM, config_map
from tests.support.deploying import LEASE_PATH, StruckDoor
from tests.support.restoring import RECORD_PATH, Restoring, changed_by_a_deploy, deployment


def claims(restoring: Restoring) -> dict[str, Any]:
    data = restoring.applying.get(RECORD_PATH)["data"]
    return {key: json.loads(text)["class"] for key, text in data.items() if key.startswith("claim-")}


def deploys(restoring: Restoring) -> ExitCode:
    """The code of a deploy that nobody has told to pass any claim."""
    scene = restoring.applying.scene
    scene.holder = f"{scene.holder[:-1]}{'0' if scene.holder[-1] != '0' else '1'}"
    return restoring.applying.deploy(deployment("web:3"), config_map("a", a="3"), force=True).code


def restored(restoring: Restoring) -> ExitCode:
    """The code of one more rollback, which nothing disturbs."""
    scene = restoring.applying.scene
    scene.holder = f"{scene.holder[:-1]}{'2' if scene.holder[-1] != '2' else '3'}"
    return restoring.restore().code


def half_done(restoring: Restoring) -> None:
    """Others have changed one object since: it stays, the other goes back."""
    restoring.change(f"{CM}/a", lambda raw: raw["data"].update(a="9"))


def test_restore_that_succeeds_leaves_no_claim() -> None:
    """Nor anything in the way of the next deploy."""
    restoring = changed_by_a_deploy()
    assert restored(restoring) is ExitCode.OK
    assert claims(restoring) == {}
    assert deploys(restoring) is ExitCode.OK


def test_refused_restore_is_told_and_leaves_its_target_deployable() -> None:
    """Nothing could be brought back, so nothing was moved; the next end takes the word of it away."""
    restoring = changed_by_a_deploy()
    half_done(restoring)
    restoring.captured = [one for one in restoring.captured if one.ref.kind == "ConfigMap"]
    assert restored(restoring) is not ExitCode.OK
    assert claims(restoring) == {"claim-3": "pre-mutation"}
    assert deploys(restoring) is ExitCode.OK
    assert claims(restoring) == {}


def test_restore_that_stopped_half_way_holds_its_target_until_a_rollback_succeeds() -> None:
    """A deploy that fails to begin takes nothing away; the rollback is not refused by its own target's claim."""
    restoring = changed_by_a_deploy()
    half_done(restoring)
    assert restored(restoring) is ExitCode.FAILED_NEW_STATE_LIVE
    assert claims(restoring) == {"claim-3": "post-mutation"}
    assert deploys(restoring) is ExitCode.HELD_PERSON_NEEDED
    assert claims(restoring) == {"claim-3": "post-mutation"}
    restoring.change(f"{CM}/a", lambda raw: raw["data"].update(a="2"))
    assert restored(restoring) is ExitCode.OK
    assert claims(restoring) == {}
    assert deploys(restoring) is ExitCode.OK


def test_restore_without_an_answer_is_unconfirmed_and_stands_beside_a_later_failure() -> None:
    """Each keeps its own class; success retires both."""
    restoring = changed_by_a_deploy()
    scene = restoring.applying.scene
    lost = scene.sandbox.faults.drop_before(verb="patch", resource="deployments")
    assert restoring.restore(timeout_s=8.0).code is ExitCode.OUTCOME_UNKNOWN
    lost.cancel()
    assert claims(restoring) == {"claim-3": "unconfirmed"}
    first = restoring.applying.get(RECORD_PATH)["data"]["claim-3"]
    half_done(restoring)
    assert restored(restoring) is not ExitCode.OK
    assert set(claims(restoring)) == {"claim-3", "claim-4"}
    assert restoring.applying.get(RECORD_PATH)["data"]["claim-3"] == first
    restoring.change(f"{CM}/a", lambda raw: raw["data"].update(a="2"))
    assert restored(restoring) is ExitCode.OK
    assert claims(restoring) == {}


def test_thrown_error_in_the_middle_of_a_restore_is_recorded_and_holds() -> None:
    """Every way out after a restore opened records a terminal; what was under way, nobody can say."""
    restoring = changed_by_a_deploy()
    scene = restoring.applying.scene

    def throw(number: int) -> None:
        if scene.door.sent[-1][1] == f"{CM}/a":
            raise RuntimeError("a fault of our own")

    scene.door.after = throw
    with pytest.raises(RuntimeError):
        restoring.restore()
    scene.door.after = lambda _: None
    assert claims(restoring) == {"claim-3": "unconfirmed"}
    record = restoring.record(3)
    assert (record["phase"], record["outcome"]) == ("ended", "failed")
    assert restoring.applying.get(LEASE_PATH)["spec"]["holderIdentity"] == ""
    assert restored(restoring) is ExitCode.OK
    assert claims(restoring) == {}


def free(restoring: Restoring) -> None:
    """What `recover` does with the lease of a run that is proven dead; this process has a new door."""
    scene = restoring.applying.scene
    scene.door = StruckDoor(scene.sandbox, scene.clock)
    lease = scene.raw(LEASE_PATH)
    lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
    scene.sandbox.store.update(lease)


def killed(restoring: Restoring) -> None:
    """SIGKILL right after the first object was put back."""
    scene = restoring.applying.scene

    def kill(number: int) -> None:
        if scene.door.sent[-1][1] == f"{CM}/a":
            scene.door.killed = True

    scene.door.after = kill
    assert restoring.applying.run(restoring.plan()) is None
    record = restoring.record(3)
    assert (record["phase"], record.get("outcome")) == ("restoring", None)
    free(restoring)


def test_restore_that_was_killed_is_interrupted_for_the_next_deploy_and_holds_it_back() -> None:
    """It is seen, reclassified and never refused for ever: a rollback goes over it, and is success evidence."""
    restoring = changed_by_a_deploy()
    killed(restoring)
    assert deploys(restoring) is ExitCode.HELD_PERSON_NEEDED
    assert restoring.record(3)["outcome"] == "interrupted"
    assert claims(restoring) == {"claim-3": "unconfirmed"}
    assert deploys(restoring) is ExitCode.HELD_PERSON_NEEDED
    assert restored(restoring) is ExitCode.OK
    assert claims(restoring) == {}
    assert deploys(restoring) is ExitCode.OK


def test_restore_that_was_killed_is_no_obstacle_to_the_next_rollback() -> None:
    """Which finds it, claims it in its first write, and retires that with its success."""
    restoring = changed_by_a_deploy()
    killed(restoring)
    assert restored(restoring) is ExitCode.OK
    assert (restoring.record(3)["outcome"], restoring.record(4)["outcome"]) == ("interrupted", "restored")
    assert claims(restoring) == {}


def test_restore_whose_lease_was_lost_writes_no_claim_and_the_next_run_finds_it() -> None:
    """After the loss it may not record; what it leaves is told by whoever has the lease next."""
    restoring = changed_by_a_deploy()
    scene = restoring.applying.scene
    scene.door.after = lambda _: scene.clock.advance(40) if scene.door.sent[-1][1] == f"{CM}/a" else None
    assert ExitCode.LEASE_LOST in restoring.restore().codes
    assert claims(restoring) == {}
    assert restoring.record(3).get("outcome") is None
    free(restoring)
    assert deploys(restoring) is ExitCode.HELD_PERSON_NEEDED
    assert claims(restoring) == {"claim-3": "unconfirmed"}


def test_target_of_a_sibling_is_deployable_whatever_holds_this_one() -> None:
    """Each has its own record; what came of one is nowhere in the other."""
    held, sibling = changed_by_a_deploy(), changed_by_a_deploy()
    half_done(held)
    assert restored(held) is ExitCode.FAILED_NEW_STATE_LIVE
    before = held.applying.get(RECORD_PATH)["data"]
    assert deploys(sibling) is ExitCode.OK
    assert restored(sibling) is not None
    assert held.applying.get(RECORD_PATH)["data"] == before
    assert deploys(held) is ExitCode.HELD_PERSON_NEEDED


def test_deploy_over_a_claim_runs_where_a_person_says_so_and_its_success_retires_it() -> None:
    """`--over-claim`."""
    restoring = changed_by_a_deploy()
    half_done(restoring)
    restored(restoring)
    plan = restoring.applying.plan(deployment("web:3"), config_map("a", a="3"), force=True)
    result = restoring.applying.run(replace(plan, over_claim=True))
    assert result is not None
    assert result.code is ExitCode.OK
    assert claims(restoring) == {}
