"""Faults that seeds have found, each told once more without chance."""

from __future__ import annotations

from fencectl.core.profiles import RECONCILE
from fencectl.core.refs import annotations_of
from tests.run.recovering import KUSTOMIZATIONS, Scene


def test_child_fenced_just_before_the_take_over_goes_before_its_parent() -> None:
    """A last write of the dead run lands between the plan and the take-over; the parent must not meet the child."""
    scene = Scene()
    scene.killed_chain()
    scene.kustomization("web", applied_by="infrastructure")
    met: list[bool] = []

    def place() -> None:
        scene.run_of().suspend("flux-system", "web", rank=3)

    def meet() -> None:
        met.append(RECONCILE in annotations_of(scene.get(f"{KUSTOMIZATIONS}/web") or {}))

    scene.sandbox.faults.on(place, verb="patch", name="fencectl-deploy", after=1, times=1)
    scene.sandbox.faults.on(meet, verb="patch", name="infrastructure", after=1, times=1)
    outcome = scene.recover()
    assert (outcome.stopped, outcome.lease, met) == (None, "freed", [False])
    order = [fence for result, fence in scene.story if result == "released"]
    assert order == ["n2", "n1", "web", "infrastructure", "flux-system"]
    assert scene.marks() == []
