"""The records of deploys: what they say, how many stay, and that none of them holds a secret."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fencectl.core.errors import ExitCode
from fencectl.core.record_write import KEPT_RECORDS
from fencectl.run.deploy_record import DeployRecord
from fencectl.run.timeline import Timeline
from tests.support.deploying import FENCED, LEASE_PATH, RECORD, Scene


def data(scene: Scene) -> dict[str, Any]:
    found: dict[str, Any] = scene.raw(RECORD.path)["data"]
    return found


def test_newest_fifty_stay_and_nothing_else_of_the_record_goes() -> None:
    """Holds and what others wrote stay; the generation goes on."""
    scene = Scene()
    entries = {f"record-{number}": json.dumps({"v": 1, "token": number}) for number in range(1, 61)}
    kept = {"hold-incident": "x", "record-x": "y", "record-0007x": "z"}
    scene.sandbox.store.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": RECORD.name, "namespace": RECORD.namespace},
            "data": entries | kept,
        }
    )
    result = scene.deploy()
    assert result
    assert (result.generation, result.token) == (61, 61)
    numbers = sorted(int(key.removeprefix("record-")) for key in data(scene) if key not in kept)
    assert numbers == list(range(12, 62))
    assert len(numbers) == KEPT_RECORDS
    assert {key: data(scene)[key] for key in kept} == kept


def test_command_in_the_record_is_one_line_without_secrets() -> None:
    """Others read it."""
    scene = Scene()
    plan = replace(scene.plan(), command=("upgrade", "--token", "abcdefghij", "two words"))
    scene.plan = lambda: plan  # type: ignore[method-assign]
    scene.deploy()
    assert json.loads(data(scene)["record-1"])["command"] == "upgrade --token *** 'two words'"


def test_record_is_written_by_its_own_book_only() -> None:
    """Two deploys of one target never share a generation."""
    scene = Scene()
    scene.deploy()
    scene.deploy()
    first, second = (json.loads(data(scene)[f"record-{number}"]) for number in (1, 2))
    assert (first["token"], second["token"]) == (1, 2)
    assert (
        DeployRecord(
            scene.stage().book,
            scene.clock,
            holder="x",
            begun_at=scene.clock.wall(),
            command="",
            timeline=Timeline(scene.clock),
        ).last_token()
        == 2
    )


def test_generation_that_another_run_has_taken_meanwhile_is_not_overwritten() -> None:
    """A write of a dead run lands between the read and the write: its record stays, ours is the next."""
    scene, other = Scene(), json.dumps({"v": 1, "generation": 1, "holder": "dead", "token": 0})

    def land() -> None:
        scene.sandbox.store.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": RECORD.name, "namespace": RECORD.namespace},
                "data": {"record-1": other},
            }
        )

    scene.sandbox.faults.on(land, verb="create", resource="configmaps", times=1)
    result = scene.deploy()
    assert result
    assert result.generation == 2
    assert data(scene)["record-1"] == other
    assert json.loads(data(scene)["record-2"])["outcome"] == "deployed"


@pytest.mark.parametrize("status", [403, 422, 503])
@pytest.mark.parametrize("last", [False, True], ids=["first-deploy", "later-deploy"])
def test_record_that_cannot_be_written_leaves_nothing_to_be_seen_and_a_retry_works(
    status: int,
    last: bool,
) -> None:
    """Durable before observable: no fence, no command, no entry; the same deploy again goes on as if it were new.

    Where the server only fails, it is tried again for as long as the lease is held; nobody renews it here.
    """
    ran: list[int] = []

    def command() -> int:
        ran.append(1)
        return 0

    scene = Scene(payload=command)
    if last:
        scene.deploy()
        ran.clear()
    found = scene.raw(RECORD.path).get("data")
    versions = [scene.raw(path)["metadata"]["resourceVersion"] for path in FENCED]
    fault = scene.sandbox.faults.refuse(verb="patch" if last else "create", resource="configmaps", status=status)
    result = scene.deploy()
    fault.cancel()
    assert result
    assert fault.hits > 0
    assert result.code is (ExitCode.INCOMPLETE if status == 403 else ExitCode.LEASE_LOST), result.cause
    assert [scene.raw(path)["metadata"]["resourceVersion"] for path in FENCED] == versions
    assert (ran, result.generation) == ([], None)
    assert scene.raw(RECORD.path).get("data") == found
    assert not scene.raw(LEASE_PATH)["spec"].get("holderIdentity")
    again = scene.deploy()
    assert again
    assert (again.code, again.generation, ran) == (ExitCode.OK, 2 if last else 1, [1])


def test_token_that_was_given_before_does_nothing_and_the_next_goes_on() -> None:
    """A lease is deleted after a deploy that ended while this one, which had read no record yet, was asleep."""
    scene = Scene()
    record = {"v": 1, "generation": 4, "holder": "ended", "token": 9, "outcome": "deployed"}

    def land() -> None:
        scene.sandbox.store.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": RECORD.name, "namespace": RECORD.namespace},
                "data": {"record-4": json.dumps(record)},
            }
        )

    scene.sandbox.faults.on(land, verb="create", resource="leases", times=1)
    result = scene.deploy()
    assert result
    assert (result.code, result.token, result.generation) == (ExitCode.FAILED_PREVIOUS_RUNS, 1, None)
    assert "the fencing token 1 was given before: a record tells of 9" in str(result.cause)
    assert list(data(scene)) == ["record-4"]
    assert scene.state() == scene.before
    again = scene.deploy()
    assert again
    assert (again.code, again.token, again.generation) == (ExitCode.OK, 10, 5)
