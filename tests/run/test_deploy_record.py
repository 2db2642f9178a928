"""The records of deploys: what they say, how many stay, and that none of them holds a secret."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from fencectl.run.deploy_record import KEPT, DeployRecord
from fencectl.run.timeline import Timeline
from tests.support.deploying import RECORD, Scene


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
    assert len(numbers) == KEPT
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
