"""
The crash matrix of steps 7 and 8 by apply: every write of the canary and of the rest, struck in every way.

After each cell the fences are gone or listed with commands that work, nothing is a success that is not, no member of
the set is out of sight, nothing of the rest is there without a certified canary, and the same deploy once more brings everything to what was asked for.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from fencectl.cluster.write import send
from fencectl.core.answers import Applied
from fencectl.core.applyset import PART_OF, Contents, read_contents, set_id
from fencectl.core.deploy import CertifyPlan, DeployPlan
from fencectl.core.errors import ExitCode, FencectlError
from tests.run.test_crash_matrix import STRIKES, give_back, report, strike
from tests.support.applying import CM, SET, Applying, config_map
from tests.support.inprocess import SandboxDoor

PARENT = f"/api/v1/namespaces/{SET[0]}/configmaps/{SET[1]}"
OLD = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "old", "namespace": "shop"}}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "web"}, "data": {}}


def prepared() -> tuple[Applying, DeployPlan]:
    """A set of two that is deployed, and a deploy that adds one of another kind and drops one; all inside fences."""
    applying = Applying(keeps_set=True)
    applying.deploy(config_map("a"), OLD, prune=True)
    applying.scene.door.sent.clear()
    applying.scene.door.writes = 0
    applying.fences = True
    return applying, plan(applying)


def plan(applying: Applying) -> DeployPlan:
    before = read_contents(applying.get(PARENT), namespace=SET[0], name=SET[1])
    whole = applying.plan(config_map("a", a="2"), SECRET, prune=True, before=before)
    first = applying.plan(config_map("a", a="canary"), before=before)
    assert first.apply is not None
    assert whole.apply is not None
    canary = replace(first.apply, applyset=whole.apply.applyset)
    return replace(whole, certify=CertifyPlan(("smoke",), canary), timeout_s=60.0)


def undisturbed() -> tuple[str, ...]:
    """The path of each write, in order."""
    applying, wanted = prepared()
    found: list[str] = []
    applying.scene.door.after = lambda _: found.append(applying.scene.door.sent[-1][1])
    result = applying.run(wanted)
    assert result is not None
    assert result.code is ExitCode.OK, result.cause
    return tuple(found)


def is_of_the_payload(path: str) -> bool:
    return "/namespaces/shop/" in path or "/namespaces/web/" in path or path == PARENT


NUMBERS = [number for number, path in enumerate(undisturbed(), 1) if is_of_the_payload(path)]
CELLS = [(how, number) for how in STRIKES for number in NUMBERS]


def members_in_sight(applying: Applying) -> bool:
    """Whether the parent names the kind and the namespace of every member that there is."""
    contents = read_contents(applying.get(PARENT), namespace=SET[0], name=SET[1])
    for group_kind, plural in (
        (("", "ConfigMap"), "configmaps"),
        (("", "Secret"), "secrets"),
        (("", "ServiceAccount"), "serviceaccounts"),
    ):
        for item in applying.get(f"/api/v1/{plural}")["items"]:
            metadata = item["metadata"]
            if (metadata.get("labels") or {}).get(PART_OF) != set_id(*SET):
                continue
            if group_kind not in contents.kinds or metadata["namespace"] not in contents.namespaces:
                return False
    return True


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("how", "number"), CELLS, ids=[f"{how.replace(' ', '-')}-{number}" for how, number in CELLS]
)
def test_struck_apply_is_no_success_and_the_same_deploy_again_converges(how: str, number: int) -> None:
    """One cell: this write of step 7 or 8, struck in this way."""
    applying, wanted = prepared()
    scene = applying.scene
    before = scene.state()
    strike(scene, how, number)
    code, seen = None, list[str]()

    def look() -> int:
        seen.append(applying.get(f"{CM}/a")["data"]["a"])
        return 0

    scene.payload = look
    try:
        result = applying.run(wanted)
        code = result.code if result is not None else None
    except FencectlError as refused:
        code = refused.exit_code
    scene.sandbox.faults.clear()
    scene.door.away = scene.door.killed = False
    scene.door.before = scene.door.after = lambda _: None
    scene.interrupted.clear()
    scene.interrupt_code = None
    assert members_in_sight(applying)
    assert seen or applying.names("/api/v1/namespaces/web/secrets") == []
    assert set(seen) <= {"canary"}
    if code is ExitCode.OK:
        assert applying.get(f"{CM}/a")["data"] == {"a": "2"}
        assert applying.names("/api/v1/namespaces/shop/serviceaccounts") == []
    give_back(scene)
    left = report(scene)
    if left.held and code is not None:
        assert code is ExitCode.STILL_FENCED
    for entry in left.held:
        assert entry.release is not None, (entry.object.display, entry.refusal)
        answer = send(SandboxDoor(scene.sandbox, scene.clock), entry.release.patch)
        assert isinstance(answer, Applied), (entry.object.display, answer)
    assert scene.state() == before
    assert not report(scene).held
    again = applying.run(plan(applying))
    assert again is not None
    assert again.code is ExitCode.OK, (again.cause, again.reason)
    assert (applying.names(), applying.names("/api/v1/namespaces/web/secrets")) == (["a"], ["s"])
    assert applying.names("/api/v1/namespaces/shop/serviceaccounts") == []
    assert read_contents(applying.get(PARENT), namespace=SET[0], name=SET[1]) == Contents(
        frozenset({("", "ConfigMap"), ("", "Secret")}), frozenset({"flux-system", "shop", "web"})
    )


def test_matrix_covers_the_parent_the_canary_each_object_the_deletion_and_the_parent_again() -> None:
    """Before the first member of either part, and after the last one is gone."""
    assert [path for path in undisturbed() if is_of_the_payload(path)] == [
        PARENT,
        f"{CM}/a",
        PARENT,
        f"{CM}/a",
        "/api/v1/namespaces/web/secrets/s",
        "/api/v1/namespaces/shop/serviceaccounts/old",
        PARENT,
    ]
