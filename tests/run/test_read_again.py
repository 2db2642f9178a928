"""What is read again under the lease that was just taken."""

from __future__ import annotations

import pytest

from fencectl.cluster.observe import observe
from fencectl.core.assemble import assemble, read_runs
from fencectl.core.deploy import HeldError, LeaseGoneError, refuse_others
from fencectl.core.errors import ExitCode
from fencectl.core.observation import Observation
from fencectl.core.profiles import FENCECTL
from tests.support.deploying import LEASE_PATH, Scene
from tests.support.inprocess import SandboxDoor
from tests.support.objects import HOLDER, OTHER


def look(scene: Scene) -> Observation:
    door = SandboxDoor(scene.sandbox, scene.clock)
    return observe(door, profile=FENCECTL, clock=scene.clock, deadline_s=60, server="http://sandbox", context="x")


@pytest.mark.parametrize(("own", "deleted"), [(HOLDER, False), (HOLDER, True), (OTHER, False)])
def test_only_the_own_lease_may_be_there_and_it_must_be(own: str, *, deleted: bool) -> None:
    """Its own: it goes on. Gone: 13, nothing was recorded. Somebody else's: held."""
    scene = Scene(bare=True)
    if deleted:
        scene.door.after = lambda number: (
            scene.sandbox.store.delete("leases", "fencectl-deploy", namespace="flux-system")
            if number == 1
            else None
        )
    results: list[object] = []

    def read_again(_: str) -> None:
        found = look(scene)
        report = assemble(read_runs(found, FENCECTL), evidence={})
        try:
            refuse_others(report, found, FENCECTL, own=own)
        except (LeaseGoneError, HeldError) as refused:
            results.append(type(refused))
            raise

    result = scene.deploy(read_again=read_again)
    assert result
    assert results == ([LeaseGoneError] if deleted else [HeldError] if own == OTHER else [])
    assert (result.code is ExitCode.OK) == (not results)
    if deleted:
        assert result.code is ExitCode.LEASE_LOST
        assert result.generation is None
        assert scene.sandbox.store.find("leases", LEASE_PATH.rpartition("/")[2], namespace="flux-system") is None
