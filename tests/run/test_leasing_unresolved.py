"""The lease is asked for, and the answer does not come: taken, not taken, or nobody can say."""

from __future__ import annotations

import pytest

from fencectl.core.errors import ExitCode, NotReadableError
from fencectl.run.leasing import LeaseUnresolvedError
from tests.run.test_transaction import lease
from tests.support.deploying import Scene


def lose_the_creation(scene: Scene) -> None:
    """It is carried out, and its answer lost."""
    scene.sandbox.faults.drop_after(verb="create", resource="leases", times=1)


def test_lease_of_which_nobody_can_say_whether_it_was_taken_is_named_as_held() -> None:
    """The server goes away in the moment in which it takes the creation: 11."""
    scene = Scene()
    lose_the_creation(scene)

    def leave() -> None:
        scene.door.away = True

    scene.sandbox.faults.on(leave, verb="create", resource="leases")
    with pytest.raises(LeaseUnresolvedError) as raised:
        scene.deploy()
    assert raised.value.exit_code is ExitCode.STILL_FENCED
    assert "may be STILL HELD" in raised.value.sentence
    assert lease(scene)["holderIdentity"] == scene.holder


def test_lease_that_was_never_asked_for_is_not_held() -> None:
    """Nobody answers from the start: 21, nothing of this run is anywhere."""
    scene = Scene()
    plan = scene.plan()
    scene.plan = lambda: plan  # type: ignore[method-assign]
    scene.door.away = True
    with pytest.raises(NotReadableError):
        scene.deploy()
    assert scene.door.writes == 0


def test_lease_whose_answer_was_lost_runs_from_the_first_try() -> None:
    """It is adopted by a later read; the server counts from the write that it carried out."""
    scene = Scene()
    lose_the_creation(scene)
    scene.sandbox.faults.on(lambda: scene.clock.advance(7), verb="create", resource="leases")
    left_s: list[float] = []

    def before(number: int) -> None:
        if number == 2 and scene.current is not None:
            left_s.append(scene.current.keeper.held_for_s())

    scene.door.before = before
    result = scene.deploy()
    assert result
    assert result.code is ExitCode.OK
    assert left_s[0] <= 20 - 7
    assert scene.state() == scene.before
