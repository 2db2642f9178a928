"""
A sample of the crash matrix with real processes on a real API server: struck as soon as a step was said.

Which write is then under way is not settled, and need not be: after each cell the state is that before the deploy, or
everything that is left is listed, proven dead, and taken away by `recover`.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.clusters import Cluster
from tests.support.deploys import LEASE_PATH, DeployScene, alive

CELLS = [
    (signal.SIGKILL, "taken, token 1"),
    (signal.SIGKILL, "suspended kustomization/flux-system/flux-system"),
    (signal.SIGTERM, "suspended kustomization/flux-system/flux-system"),
    (signal.SIGKILL, "worker-2: claimed"),
    (signal.SIGTERM, "worker-2: claimed"),
    (signal.SIGKILL, "released node/worker-2"),
    (signal.SIGTERM, "released kustomization/flux-system/infrastructure"),
]


@pytest.mark.real
@pytest.mark.parametrize(("number", "said"), CELLS, ids=lambda part: str(part).split("/")[-1].replace(" ", "-"))
def test_struck_deploy_leaves_the_state_before_or_what_recover_takes_away(
    real: Cluster, tmp_path: Path, number: signal.Signals, said: str
) -> None:
    """One cell."""
    real.wipe(everything=True)
    scene = DeployScene.on(real, tmp_path)
    running = scene.start(*scene.fences)
    try:
        running.wait_for(said)
        running.signal(number)
        done = running.ended()
    finally:
        scene.end()
    assert not alive(running.pid)
    if number is signal.SIGTERM:
        # NB: it may have been through already when the signal came.
        assert done.code in (0, 18, 143), done.text
        scene.assert_free()
        return
    scene.age_lease()
    shown = scene.run("fences")
    if "no fence is held" not in shown.stdout:
        assert "dead (proven)" in shown.stdout, shown.text
        recovered = scene.run("recover", "--yes")
        assert recovered.code == 0, recovered.text
    assert scene.now() == scene.before
    assert real.get(LEASE_PATH)["spec"]["holderIdentity"] == ""
