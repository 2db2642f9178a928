"""A lease that is lost: a suspension is released only where the lease is read again and still ours."""

from __future__ import annotations

from typing import Any

import pytest

from fencectl.core.errors import ExitCode
from fencectl.run.keeper import Loss
from tests.run.test_transaction import lease, record, steal
from tests.support.deploying import FENCED, KS, RECORD, Scene, undisturbed_writes
from tests.support.objects import OTHER


def left_names(result: Any) -> list[str]:
    unwound = result.unwound
    fences = [one.fence for one in unwound.left] + unwound.waiting
    return sorted(fence.seen.ref.name for fence in fences)


@pytest.mark.parametrize("interrupted", [False, True])
def test_lease_that_somebody_took_while_we_slept_keeps_the_suspensions(*, interrupted: bool) -> None:
    """No renewal was refused, for none was sent; that is not the same as still ours. A signal changes nothing."""
    scene = Scene()

    def payload() -> int:
        steal(scene)
        scene.clock.advance(21)
        if interrupted:
            scene.interrupt_code = ExitCode.TERMINATED
            scene.interrupted.set()
        return 143

    scene.payload = payload
    result = scene.deploy()
    assert result
    assert result.code is ExitCode.STILL_FENCED
    assert ExitCode.LEASE_LOST in result.codes
    assert result.lost
    assert (result.lost.loss, result.lease_kept) == (Loss.STOLEN, False)
    assert left_names(result) == ["apps", "flux-system"]
    assert "outcome" not in record(scene)
    assert lease(scene)["holderIdentity"] == OTHER


def test_lease_that_is_taken_during_the_unwinding_keeps_what_is_not_released_yet() -> None:
    """The nodes are released, then the process sleeps; the suspensions are somebody else's to judge."""
    scene = Scene()

    def after(_: int) -> None:
        if any("released node/n2" in text for _, text in scene.told):
            return
        if any(step == 10 for step, _ in scene.told):
            steal(scene)
            scene.clock.advance(21)

    scene.door.after = after
    result = scene.deploy()
    assert result
    assert result.code is ExitCode.STILL_FENCED
    assert result.unwound
    assert {one.seen.ref.name for one in result.unwound.released} == {"n1", "n2"}
    assert left_names(result) == ["apps", "flux-system"]


def test_suspension_that_landed_after_the_lease_was_taken_is_taken_back() -> None:
    """The process slept between its check and the send; what was fenced before is somebody else's to judge."""
    scene = Scene()

    def before(_: int) -> None:
        placed = [text for _, text in scene.told if text.startswith("suspended")]
        if len(placed) == 1 and lease(scene)["holderIdentity"] != OTHER:
            steal(scene)
            scene.clock.advance(21)

    scene.door.before = before
    result = scene.deploy()
    assert result
    assert result.lost
    assert (result.lost.loss, result.code) == (Loss.STOLEN, ExitCode.STILL_FENCED)
    assert result.unwound
    assert [one.seen.ref.name for one in result.unwound.released] == ["apps"]
    assert left_names(result) == ["flux-system"]
    assert scene.state()[1] == scene.before[1]


def test_server_that_is_back_within_the_time_gets_everything_released() -> None:
    """Unreachable when the unwinding begins, and for ten seconds more; the lease is still ours then."""
    scene = Scene()

    def payload() -> int:
        scene.door.away = True
        scene.clock.advance(15)
        scene.renew()
        scene.clock.advance(6)
        return 143

    back_s = scene.clock.monotonic_s() + 31

    def wait(seconds: float) -> None:
        scene.sandbox.clock.advance(seconds)
        if scene.clock.monotonic_s() >= back_s:
            scene.door.away = False

    scene.payload = payload
    scene.clock.on_wait = wait
    result = scene.deploy()
    assert result
    assert result.code is ExitCode.LEASE_LOST
    assert result.lost
    assert result.lost.loss is Loss.UNREACHABLE
    assert scene.state() == scene.before
    assert lease(scene)["holderIdentity"] == ""


def test_server_that_stays_away_leaves_everything_named() -> None:
    """11, after the time that the unwinding may take."""
    scene = Scene()

    def payload() -> int:
        scene.door.away = True
        scene.clock.advance(21)
        return 143

    scene.payload = payload
    result = scene.deploy()
    assert result
    assert result.code is ExitCode.STILL_FENCED
    assert left_names(result) == ["apps", "flux-system", "n1", "n2"]
    assert result.lease_kept


@pytest.mark.parametrize("answered", [True, False])
def test_lease_that_is_somebody_elses_when_it_is_to_be_freed_was_lost(*, answered: bool) -> None:
    """13, although all is released. Where no answer came, our own freeing may have been first: that is no loss."""
    scene = Scene()

    def before(number: int) -> None:
        if number < len(undisturbed_writes()):
            return
        steal(scene)
        if not answered:
            scene.sandbox.faults.drop_before(times=1)

    scene.door.before = before
    result = scene.deploy()
    assert result
    assert result.code is (ExitCode.LEASE_LOST if answered else ExitCode.OK)
    assert scene.state() == scene.before
    assert lease(scene)["holderIdentity"] == OTHER


def test_fences_that_a_recovery_released_meanwhile_are_not_called_held() -> None:
    """It slept, was recovered, and the next deploy has fenced the same: nothing there is its own any more."""
    scene = Scene()

    def payload() -> int:
        steal(scene)
        for path in FENCED:
            raw = scene.raw(path)
            raw["metadata"]["annotations"]["fencectl.dev/holder"] = OTHER
            scene.sandbox.store.update(raw)
        scene.clock.advance(21)
        return 143

    scene.payload = payload
    result = scene.deploy()
    assert result
    assert result.code is ExitCode.LEASE_LOST
    assert (left_names(result), result.lease_kept) == ([], False)
    assert lease(scene)["holderIdentity"] == OTHER


@pytest.mark.parametrize(
    ("said", "step"), [("suspended kustomization/flux-system/flux-system", 4), ("draining", 6)]
)
def test_lease_that_is_lost_before_the_command_is_13_and_no_interrupt(said: str, step: int) -> None:
    """While Flux is suspended, while a node is drained: said as what it is, and all is released."""
    scene = Scene(rolled=True)

    def sleep(_: int) -> None:
        if any(said in text for _, text in scene.told):
            scene.clock.advance(21)

    scene.door.after = sleep
    result = scene.deploy()
    assert result
    assert (result.code, result.step) == (ExitCode.LEASE_LOST, step)
    assert result.lost
    assert result.lost.loss is Loss.NOT_RENEWED
    assert scene.state() == scene.before
    assert lease(scene)["holderIdentity"] == ""


def test_roll_that_stops_because_somebody_lifted_a_fence_was_not_interrupted() -> None:
    """10: nobody has sent a signal; the previous state runs."""
    scene = Scene(rolled=True)

    def lift(_: int) -> None:
        if scene.door.sent[-1][1].endswith("/eviction"):
            raw = scene.raw(f"{KS}/apps")
            raw["spec"].pop("suspend", None)
            scene.sandbox.store.update(raw)
            scene.clock.advance(11)

    scene.door.after = lift
    result = scene.deploy()
    assert result
    assert result.code is ExitCode.FAILED_PREVIOUS_RUNS
    assert "kustomization/flux-system/apps was changed by somebody else" in (result.cause or "")
    assert scene.state() == scene.before


def test_lease_that_is_lost_while_the_drain_is_waited_for_is_13_and_no_time_out() -> None:
    """Asked to stop, it says why."""
    scene = Scene()
    scene.sandbox.flux.automatic(on=False)
    result = scene.deploy()
    assert result
    assert ExitCode.TIMED_OUT_PREVIOUS_RUNS not in result.codes
    assert (result.code, result.lost is not None) == (ExitCode.LEASE_LOST, True)
    assert scene.state() == scene.before


def test_suspension_that_came_too_late_goes_back_also_where_the_lease_was_stolen() -> None:
    """Whoever took the lease has looked already: nobody else would know of it. What was there before stays."""
    scene = Scene()
    slept: list[str] = []

    def sleep(_: int) -> None:
        if not slept and any(text == "suspended kustomization/flux-system/flux-system" for _, text in scene.told):
            slept.append("apps")
            steal(scene)
            scene.clock.advance(21)

    scene.door.after = sleep
    result = scene.deploy()
    assert result
    assert slept
    assert result.code is ExitCode.STILL_FENCED
    assert left_names(result) == ["flux-system"]
    assert result.unwound
    assert [one.seen.ref.name for one in result.unwound.released] == ["apps"]


@pytest.mark.parametrize("what", ["lost", "interrupted"])
def test_command_does_not_begin_where_that_came_while_it_was_recorded(what: str) -> None:
    """The record of the phase takes its time; the command is asked for again after it."""
    scene, begun, lost_once = Scene(), list[str](), list[bool]()

    def payload() -> int:
        begun.append("begun")
        return 0

    scene.payload = payload

    def after(_: int) -> None:
        if "deploying" not in str(scene.sandbox.store.find("configmaps", RECORD.name, namespace="flux-system")):
            return
        if what == "lost" and not lost_once:
            lost_once.append(True)
            scene.clock.advance(21)
        elif what == "interrupted":
            scene.interrupt_code = ExitCode.TERMINATED
            scene.interrupted.set()

    scene.door.after = after
    result = scene.deploy()
    assert result
    assert begun == []
    assert result.code is (ExitCode.LEASE_LOST if what == "lost" else ExitCode.TERMINATED)
    assert not result.applied
    assert scene.state() == scene.before


def test_record_is_not_sent_again_once_the_lease_is_lost() -> None:
    """Each try asks first, also the second one of a write whose answer was lost."""
    scene = Scene()
    tries: list[float] = []
    begun_s = scene.clock.monotonic_s()
    fault = scene.sandbox.faults.drop_before(resource="configmaps", verb="create")
    scene.door.before = lambda _: tries.append(scene.clock.monotonic_s() - begun_s)
    scene.clock.on_wait = lambda _: scene.clock.advance(2)
    result = scene.deploy()
    fault.cancel()
    assert result
    assert ExitCode.LEASE_LOST in result.codes
    assert len(tries) > 3
    assert not [at_s for at_s in tries[1:-1] if at_s > 15]


def test_lease_that_is_seen_to_be_taken_after_the_command_keeps_the_suspensions_and_is_renewed_no_more() -> None:
    """The keeper would learn of it with its next renewal only; whoever has read it knows."""
    scene = Scene()

    def payload() -> int:
        steal(scene)
        return 0

    scene.payload = payload
    result = scene.deploy()
    assert result
    assert (result.code, result.lost is not None) == (ExitCode.STILL_FENCED, True)
    assert left_names(result) == ["apps", "flux-system"]
    assert "outcome" not in record(scene)
    assert not scene.renew()
    assert lease(scene)["holderIdentity"] == OTHER
