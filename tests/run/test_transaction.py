"""The transaction from its first write to its last: in order, refused, failed, interrupted, lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fencectl.cluster.write import send
from fencectl.core.answers import Applied
from fencectl.core.errors import ExitCode, FencectlError
from fencectl.core.lease import LeaseTerms, take_over_lease
from fencectl.core.refs import ObjectRef, Seen
from fencectl.run.leasing import LeaseBusyError
from tests.support.deploying import KS, LEASE, LEASE_PATH, Scene
from tests.support.inprocess import SandboxDoor
from tests.support.objects import OTHER, journal


def lease(scene: Scene) -> Any:
    return scene.raw(LEASE_PATH)["spec"]


def record(scene: Scene, generation: int = 1) -> Any:
    found = scene.raw("/api/v1/namespaces/flux-system/configmaps/fencectl-deploy-record")
    return json.loads(found["data"][f"record-{generation}"])


def steal(scene: Scene) -> None:
    raw = scene.raw(LEASE_PATH)
    ref = ObjectRef("coordination.k8s.io/v1", "Lease", "leases", *LEASE, raw["metadata"]["uid"])
    terms = LeaseTerms(OTHER, 30, scene.clock.wall(), journal(holder=OTHER, recovering=scene.holder))
    assert isinstance(
        send(SandboxDoor(scene.sandbox, scene.clock), take_over_lease(Seen(ref, raw), terms).patch), Applied
    )


def test_deploy_that_goes_well_leaves_everything_as_it_was() -> None:
    """Lease, record, parent, child, nodes, payload; then the exact reverse, and the lease free."""
    fenced: list[Any] = []
    scene = Scene()

    def payload() -> int:
        fenced.append(scene.state())
        return 0

    scene.payload = payload
    result = scene.deploy()
    assert result
    assert (result.code, result.generation, result.token) == (ExitCode.OK, 1, 1)
    assert all("fencectl.dev/holder" in annotations for _, annotations in fenced[0])
    assert scene.state() == scene.before
    assert (lease(scene)["holderIdentity"], lease(scene)["leaseTransitions"]) == ("", 1)
    assert (record(scene)["outcome"], record(scene)["token"]) == ("deployed", 1)
    steps = [step for step, _ in scene.told]
    assert steps == sorted(steps)
    suspended = [text for step, text in scene.told if step == 4 and text.startswith("suspended")]
    assert [text.rpartition("/")[2] for text in suspended] == ["flux-system", "apps"]


def test_second_deploy_counts_generation_and_token_on_also_over_a_deleted_lease() -> None:
    """The fencing token never starts again."""
    scene = Scene()
    scene.deploy()
    scene.sandbox.store.delete("leases", "fencectl-deploy", namespace="flux-system")
    result = scene.deploy()
    assert result
    assert (result.generation, result.token) == (2, 2)


def test_failed_command_releases_everything_and_says_that_the_new_state_may_live() -> None:
    """18, with the command's own exit code in the result."""
    scene = Scene(payload=lambda: 7)
    result = scene.deploy()
    assert result
    assert (result.code, result.payload and result.payload.code) == (ExitCode.FAILED_NEW_STATE_LIVE, 7)
    assert scene.state() == scene.before
    assert lease(scene)["holderIdentity"] == ""
    assert record(scene)["outcome"] == "failed"


def test_lease_that_somebody_holds_ends_it_before_anything_is_written() -> None:
    """Nothing of this run is anywhere."""
    scene = Scene()
    scene.deploy()
    other = Scene()
    other.deploy()
    taken = LeaseTerms(OTHER, 30, scene.clock.wall(), journal(holder=OTHER))
    raw = scene.raw(LEASE_PATH)
    raw["spec"] |= {"holderIdentity": taken.holder}
    scene.sandbox.store.update(raw)
    writes = scene.door.writes
    with pytest.raises(LeaseBusyError) as raised:
        scene.deploy()
    assert raised.value.exit_code is ExitCode.HELD_LIVE
    assert scene.door.writes == writes
    assert scene.state() == scene.before


def test_fence_that_is_found_under_the_lease_ends_it_with_the_lease_freed() -> None:
    """The second reading counts: whatever came between it and the first."""

    class HeldNowError(FencectlError):
        exit_code = ExitCode.HELD_PERSON_NEEDED

    def read_again(_: str) -> None:
        raise HeldNowError("fences are held")

    scene = Scene()
    result = scene.deploy(read_again=read_again)
    assert result
    assert result.code is ExitCode.HELD_PERSON_NEEDED
    assert scene.state() == scene.before
    assert lease(scene)["holderIdentity"] == ""


@pytest.mark.parametrize("step", [4, 6, 8])
def test_interrupt_in_each_step_releases_everything(step: int) -> None:
    """Before the command 130, while it runs 18; nothing is fenced in either case."""
    scene = Scene()

    def interrupt() -> None:
        scene.interrupt_code = ExitCode.INTERRUPTED
        scene.interrupted.set()

    def payload() -> int:
        interrupt()
        return 143

    scene.payload = payload
    if step < 8:
        scene.door.after = lambda number: interrupt() if any(s == step for s, _ in scene.told) else None
    result = scene.deploy()
    assert result
    assert result.code is (ExitCode.FAILED_NEW_STATE_LIVE if step == 8 else ExitCode.INTERRUPTED)
    assert scene.state() == scene.before
    assert lease(scene)["holderIdentity"] == ""
    assert record(scene)["outcome"] == "interrupted"


def test_case_03_stolen_lease_stops_the_command_keeps_suspensions_and_releases_own_nodes() -> None:
    """13 would be it, but suspensions stay: 11, and they are named; nothing is recorded after the loss."""
    scene = Scene()

    def payload() -> int:
        steal(scene)
        scene.clock.advance(11)
        assert not scene.renew()
        return 143

    scene.payload = payload
    result = scene.deploy()
    assert result
    assert result.code is ExitCode.STILL_FENCED
    assert ExitCode.LEASE_LOST in result.codes
    assert result.unwound
    assert {one.seen.ref.name for one in result.unwound.released} == {"n1", "n2"}
    left = [one.fence.seen.ref.name for one in result.unwound.left] + [
        f.seen.ref.name for f in result.unwound.waiting
    ]
    assert sorted(left) == ["apps", "flux-system"]
    assert "outcome" not in record(scene)
    assert lease(scene)["holderIdentity"] == OTHER


def test_case_03_server_that_refuses_renewals_for_too_long_ends_the_command_and_all_is_released() -> None:
    """Still ours: everything goes, 13."""
    scene = Scene()

    def payload() -> int:
        scene.clock.advance(21)
        return 143

    scene.payload = payload
    result = scene.deploy()
    assert result
    assert result.code is ExitCode.LEASE_LOST
    assert "NOT RENEWED" in (result.cause or "") + (result.reason or "")
    assert scene.state() == scene.before
    assert lease(scene)["holderIdentity"] == ""


def test_case_23_fence_that_somebody_lifts_while_the_command_runs_ends_the_deploy() -> None:
    """`flux resume` on a suspension of ours: said, and the release does not fail over it."""
    scene = Scene()

    def payload() -> int:
        raw = scene.raw(f"{KS}/apps")
        del raw["spec"]["suspend"]
        scene.sandbox.store.update(raw)
        scene.clock.advance(11)
        return 143

    scene.payload = payload
    result = scene.deploy()
    assert result
    assert result.code is ExitCode.FAILED_NEW_STATE_LIVE
    assert "kustomization/flux-system/apps was changed by somebody else" in (result.reason or "")
    assert scene.state() == scene.before
