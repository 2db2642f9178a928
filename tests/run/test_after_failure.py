"""What a deploy that failed leaves alone although it was asked to go back: step 9, by the real transaction."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from fencectl.core.errors import ExitCode
from fencectl.core.rollout import RolloutVerdict
from fencectl.run.stage import Result
from tests.support.applying import CM, Applying, config_map
from tests.support.deploying import LEASE_PATH
from tests.support.objects import OTHER
from tests.support.restoring import RECORD_PATH


def first() -> Applying:
    """Generation 1 runs, with `a: 1`."""
    applying = Applying()
    assert applying.deploy(config_map("a", a="1")).code is ExitCode.OK
    applying.scene.door.sent.clear()
    return applying


def second(applying: Applying) -> Result:
    """Generation 2 with `a: 2`, which goes back where it fails."""
    applying.follower.verdict = RolloutVerdict.FAILED
    result = applying.run(replace(applying.plan(config_map("a", a="2")), rollback_s=60.0))
    assert result is not None
    return result


def value(applying: Applying) -> Any:
    return applying.get(f"{CM}/a")["data"]


def records(applying: Applying) -> dict[str, Any]:
    data = applying.get(RECORD_PATH)["data"]
    return {key: json.loads(text) for key, text in data.items() if key.startswith("record-")}


def test_case_64_deploy_that_lost_its_lease_leaves_what_was_deployed_since_alone() -> None:
    """It slept while its rollout failed; another run came, succeeded, and freed the lease: nothing is put back."""
    applying = first()
    scene = applying.scene
    theirs = {"v": 1, "generation": 3, "holder": OTHER, "token": 9, "outcome": "deployed"}

    def somebody_deploys() -> None:
        scene.clock.advance(60)
        lease = applying.get(LEASE_PATH)
        lease["spec"] |= {"holderIdentity": "", "leaseTransitions": 9}
        record = applying.get(RECORD_PATH)
        record["data"]["record-3"] = json.dumps(theirs)
        changed = applying.get(f"{CM}/a")
        changed["data"] = {"a": "theirs"}
        for raw in (lease, record, changed):
            scene.sandbox.store.update(raw)
        scene.door.sent.clear()

    applying.follower.on_follow = somebody_deploys
    result = second(applying)
    assert result.code is ExitCode.LEASE_LOST
    assert value(applying) == {"a": "theirs"}
    # Its lease is freed only where it is still its own, by a guard that fails here.
    assert {path for _, path, _ in scene.door.sent} == {LEASE_PATH}
    assert applying.get(LEASE_PATH)["spec"]["leaseTransitions"] == 9
    assert records(applying)["record-3"] == theirs
    assert "outcome" not in records(applying)["record-2"]
    assert 9 not in {step for step, _ in scene.told}


def test_case_59_first_deploy_that_fails_has_no_previous_good_state_and_deletes_nothing() -> None:
    """18 in these words, with the first cause beside it; its objects stay, its lease is free."""
    applying = Applying(fences=True)
    result = second(applying)
    assert result.code is ExitCode.FAILED_NEW_STATE_LIVE
    assert result.cause == "of 1 objects 1 failed"
    assert any("no previous good state" in text for _, text in applying.scene.told)
    assert (value(applying), applying.names()) == ({"a": "2"}, ["a"])
    assert applying.get(LEASE_PATH)["spec"]["holderIdentity"] == ""
    assert applying.scene.state() == applying.scene.before
