"""
The crash matrix of a restore: every write of it, struck in every way.

After each cell the fences are gone or listed with commands that work, nothing is a success that is not, nothing was
deleted, and the same rollback once more brings everything back: it is never refused for ever.
"""

from __future__ import annotations

import pytest

from fencectl.cluster.write import send
from fencectl.core.answers import Applied
from fencectl.core.deploy import DeployPlan
from fencectl.core.errors import ExitCode, FencectlError
from tests.run.test_crash_matrix import STRIKES, give_back, report, strike
from tests.support.applying import CM
from tests.support.inprocess import SandboxDoor
from tests.support.restoring import DEPLOYMENTS, Restoring, changed_by_a_deploy


def prepared() -> tuple[Restoring, DeployPlan]:
    """Two objects that a deploy has changed, to be put back inside fences."""
    restoring = changed_by_a_deploy()
    restoring.applying.fences = True
    return restoring, restoring.plan()


def undisturbed() -> tuple[str, ...]:
    """The path of each write, in order."""
    restoring, plan = prepared()
    scene = restoring.applying.scene
    found: list[str] = []
    scene.door.after = lambda _: found.append(scene.door.sent[-1][1])
    result = restoring.applying.run(plan)
    assert result is not None
    assert result.code is ExitCode.OK, result.cause
    return tuple(found)


def is_of_the_restore(path: str) -> bool:
    return "/namespaces/shop/" in path


WRITES = undisturbed()
# The record that says `restoring` comes right before the first of them.
FIRST = next(number for number, path in enumerate(WRITES, 1) if is_of_the_restore(path)) - 1
CELLS = [
    (how, number)
    for how in STRIKES
    for number, path in enumerate(WRITES, 1)
    if is_of_the_restore(path) or number == FIRST
]


def is_back(restoring: Restoring) -> bool:
    image = restoring.applying.get(f"{DEPLOYMENTS}/web")["spec"]["template"]["spec"]["containers"][0]["image"]
    return (image, restoring.applying.get(f"{CM}/a")["data"]) == ("web:1", {"a": "1"})


@pytest.mark.parametrize(
    ("how", "number"), CELLS, ids=[f"{how.replace(' ', '-')}-{number}" for how, number in CELLS]
)
def test_struck_restore_is_no_success_and_the_same_again_brings_it_back(how: str, number: int) -> None:
    """One cell: this write of the restore, struck in this way."""
    restoring, plan = prepared()
    scene = restoring.applying.scene
    before = scene.state()
    strike(scene, how, number)
    result, code = None, None
    try:
        result = restoring.applying.run(plan)
        code = result.code if result is not None else None
    except FencectlError as refused:
        code = refused.exit_code
    scene.sandbox.faults.clear()
    scene.door.away = scene.door.killed = False
    scene.door.before = scene.door.after = lambda _: None
    scene.interrupted.clear()
    scene.interrupt_code = None
    if result is not None and result.rolled_back is not None and result.rolled_back.is_back:
        assert is_back(restoring)
    assert not any(method == "DELETE" for method, _, _ in scene.door.sent)
    give_back(scene)
    left = report(scene)
    fences = [entry for entry in left.held if not entry.is_claim]
    if fences and code is not None:
        assert code in (ExitCode.STILL_FENCED, ExitCode.LEASE_LOST)
    for entry in fences:
        assert entry.release is not None, (entry.object.display, entry.refusal)
        answer = send(SandboxDoor(scene.sandbox, scene.clock), entry.release.patch)
        assert isinstance(answer, Applied), (entry.object.display, answer)
    assert scene.state() == before
    restoring.applying.fences = False
    again = restoring.applying.run(restoring.plan())
    assert again is not None
    assert again.code is ExitCode.OK, (again.cause, again.reason)
    assert is_back(restoring)
    assert not report(scene).held


def test_matrix_covers_the_record_each_object_and_the_ownership_that_goes_back() -> None:
    """Recorded before anything is changed."""
    assert WRITES[FIRST - 1].endswith("fencectl-deploy-record")
    assert [path.rpartition("/")[2] for path in WRITES if is_of_the_restore(path)] == ["a", "a", "web", "web"]
