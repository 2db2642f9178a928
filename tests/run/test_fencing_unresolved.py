"""Placements and releases of which nobody knows what came of them: named, waited for, never taken for nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from fencectl.core.errors import FencectlError
from fencectl.core.journal import Phase
from fencectl.core.placements import rewrite_journal
from fencectl.run.fencing import LANDS_WITHIN_S, NotFencedError
from fencectl.run.keeper import LeaseLostError
from fencectl.run.ports import SystemThreads
from fencectl.run.unwind import Unwound, unwind
from fencectl.sandbox import Request
from tests.run.test_fencing import KS, Scene, scene

__all__ = ["scene"]


def names(fences: list[Any]) -> list[str]:
    return [fence.seen.ref.name for fence in fences]


def left(result: Unwound) -> list[str]:
    return names([one.fence for one in result.left])


def unresolved(scene: Scene) -> list[str]:
    return names([one.fence for one in scene.ledger.unresolved])


def lose_the_child(scene: Scene) -> list[Callable[[], int]]:
    """Suspend the parent, then the child with no answer at all until the lease is lost; gives what is under way."""
    scene.sandbox.faults.drop_before(verb="patch", resource="kustomizations", name="apps")
    with pytest.raises(LeaseLostError):
        scene.suspend("flux-system", "apps", drain_timeout_s=0)
    scene.sandbox.faults.clear()
    path, body = next((path, body) for _, path, body in scene.door.sent if path == f"{KS}/apps")
    headers = {"content-type": "application/json-patch+json"}
    request = Request("PATCH", path, {"fieldManager": "fencectl"}, headers, body, "admin")
    return [lambda: scene.sandbox.handle(request).status]


@pytest.mark.parametrize("read_fails", [False, True])
def test_lost_answer_before_a_refusal_is_unresolved_whatever_the_refusal_says(
    scene: Scene, *, read_fails: bool
) -> None:
    """Applied, no answer, and then the server forbids it, or refuses and cannot be read: the fence may be there."""
    scene.sandbox.faults.drop_after(verb="patch", resource="nodes", times=1)
    if read_fails:
        scene.sandbox.faults.refuse(verb="get", resource="nodes", status=500, after=1)
    else:
        scene.sandbox.faults.refuse(verb="patch", resource="nodes", status=403, after=1)
    with pytest.raises(FencectlError):
        scene.cordon("n1")
    scene.sandbox.faults.clear()
    assert (scene.ledger.fences, unresolved(scene)) == ([], ["n1"])
    assert scene.unwind().clean
    assert "unschedulable" not in scene.raw("/api/v1/nodes/n1")["spec"]


def test_placement_refused_at_once_leaves_nothing_unresolved(scene: Scene) -> None:
    """No answer was lost: it is certain that nothing was placed."""
    scene.sandbox.faults.refuse(verb="patch", resource="nodes", status=403)
    with pytest.raises(NotFencedError):
        scene.cordon("n1")
    assert unresolved(scene) == []


def test_child_that_may_still_be_fenced_keeps_its_parent(scene: Scene) -> None:
    """An ancestor that reconciles while its child is excluded drops the child from its inventory."""
    lose_the_child(scene)
    result = scene.unwind(budget_s=7.0)
    assert (left(result), names(result.waiting)) == (["apps"], ["flux-system"])
    assert scene.raw(f"{KS}/flux-system")["spec"]["suspend"] is True


def test_child_whose_placement_comes_while_unwinding_is_released_and_then_its_parent(scene: Scene) -> None:
    """It came after all: it is an own fence like any other."""
    (land,) = lose_the_child(scene)
    keep, waits = scene.clock.on_wait, iter(range(1000))

    def wait(seconds: float) -> None:
        assert keep is not None
        keep(seconds)
        if next(waits) == 5:
            assert land() == 200

    scene.clock.on_wait = wait
    result = scene.unwind(budget_s=30.0)
    assert (result.clean, names(result.released)) == (True, ["apps", "flux-system"])
    assert (scene.ledger.fences, scene.ledger.unresolved) == ([], [])
    assert "suspend" not in scene.raw(f"{KS}/apps")["spec"]


def test_placement_that_cannot_come_any_more_is_no_fence(scene: Scene) -> None:
    """No API server goes on with a write for so long; all else is released after that."""
    begun_s = scene.clock.boot_s
    lose_the_child(scene)
    assert scene.unwind(budget_s=60.0).clean
    assert scene.clock.boot_s - begun_s >= LANDS_WITHIN_S
    assert unresolved(scene) == []


def test_release_that_does_not_come_back_is_not_counted_as_released(scene: Scene) -> None:
    """Two of one rank, one of which hangs: it is left, what waits for it is named, the late word changes nothing."""
    scene.suspend("flux-system", drain_timeout_s=0)
    scene.cordon("n1")
    scene.cordon("n2")
    go_on, threads = threading.Event(), list[Any]()

    def may_release(fence: Any) -> str | None:
        if fence.seen.ref.name == "n1":
            go_on.wait(60)
        return None

    class Impatient:
        """The threads of this process, for which nobody waits."""

        def start(self, work: Callable[[], None], *, name: str) -> Any:
            threads.append(SystemThreads().start(work, name=name))
            return Gone()

    class Gone:
        def join(self, timeout: float | None = None) -> None:
            return None

        def is_alive(self) -> bool:
            return True

    result = unwind(
        scene.door, scene.clock, Impatient(), scene.ledger, budget_s=30.0, tell=scene.told.append,
        may_release=may_release,
    )  # fmt: skip
    assert not result.clean
    assert (left(result), names(result.waiting)) == (["n1"], ["flux-system"])
    go_on.set()
    threads[0].join(60)
    assert (left(result), names(result.released)) == (["n1"], ["n2"])


@pytest.mark.parametrize("how", ["applied and lost", "lost, then comes late"])
def test_phase_whose_answer_was_lost_is_adopted(scene: Scene, how: str) -> None:
    """The same is sent again; a refusal that is due to our own earlier try is no change by somebody else."""
    fence = scene.cordon("n1")
    story = fence.journal.with_phase(Phase.MUTATING, at=scene.clock.wall())
    patch = rewrite_journal(fence.seen, fence.journal, story)
    if how == "applied and lost":
        scene.sandbox.faults.drop_after(verb="patch", resource="nodes", times=1)
    else:
        path = "/api/v1/nodes/n1"
        headers = {"content-type": "application/json-patch+json"}
        late = Request("PATCH", path, {"fieldManager": "fencectl"}, headers, patch.body.encode(), "admin")
        keep = scene.clock.on_wait

        def land(seconds: float) -> None:
            assert keep is not None
            keep(seconds)
            scene.sandbox.handle(late)

        scene.sandbox.faults.drop_before(verb="patch", resource="nodes", times=1)
        scene.clock.on_wait = land
    changed = scene.fencer.change(fence, patch, story)
    assert changed.journal.phase is Phase.MUTATING
    assert scene.ledger.fences == [changed]
