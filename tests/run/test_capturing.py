"""
Step 5 on a sandbox without sockets: what each form of deploy captures, how it is stored, and what happens when not.

Two reports of other tools' users are behind it. One: on a failure the previous good state stays, whole. A part of it
is never taken for all of it; what is registered is durable before anything can see it; a registration that fails
leaves nothing in the way of the next try. The other: what was not captured, or nobody can say, is no success.

Aspects: every route · absent objects · no fence in it · many and large objects · what cannot be read or stored ends it
before anything changes, and a retry works · lost answers · Secrets of others · the newest three · nothing in any text.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fencectl.cluster.answer import Answer
from fencectl.cluster.ports import Query
from fencectl.cluster.write import send
from fencectl.core import recovery_point
from fencectl.core.answers import Applied
from fencectl.core.applyset import PART_OF, default_set, set_id
from fencectl.core.deploy import DeployPlan, plan_flux
from fencectl.core.errors import ExitCode
from fencectl.core.profiles import HOLDER, JOURNAL
from fencectl.core.recovery_point import RECOVERY, RecoveryPoint, part_in, part_ref, read_summary, unpack
from fencectl.core.refs import ObjectRef
from fencectl.run import capturing, gathering
from fencectl.run.stage import Result
from fencectl.sandbox import Request
from tests.run.test_crash_matrix import STRIKES, give_back, report, strike
from tests.support.applying import CM, SET, Applying, config_map
from tests.support.deploying import KS, LEASE, LEASE_PATH, Scene
from tests.support.inprocess import SandboxDoor
from tests.support.objects import HOLDER as RUN

SECRETS = "/api/v1/namespaces/flux-system/secrets"
CANARY = "Y2FuYXJ5LW9mLWEtc2VjcmV0"


def record(scene: Scene, generation: int) -> Any:
    data = scene.raw("/api/v1/namespaces/flux-system/configmaps/fencectl-deploy-record")["data"]
    return json.loads(data[f"record-{generation}"])


def point_of(scene: Scene, generation: int = 1) -> RecoveryPoint:
    """The recovery point of a generation, as its record tells of it and its Secrets hold it."""
    summary = read_summary(record(scene, generation)["recovery"])
    assert summary is not None
    found = [scene.raw(part_ref(LEASE, generation, part).path) for part in range(summary.parts)]
    return unpack([part_in(one) for one in found], summary.digest)


def stored(scene: Scene) -> list[str]:
    return sorted(
        item["metadata"]["name"].removeprefix("fencectl-deploy-recovery-")
        for item in scene.raw(SECRETS)["items"]
        if item["metadata"]["name"].startswith("fencectl-deploy-recovery-")
    )


def names(point: RecoveryPoint) -> list[str]:
    return [one.ref.display + ("" if one.before is not None else " (absent)") for one in point.objects]


def ended(result: Result | None) -> Result:
    assert result is not None
    return result


def applies(scene: Scene, name: str, *ids: str) -> None:
    """Let a Kustomization say what it has applied."""
    raw = scene.raw(f"{KS}/{name}")
    raw["status"] = {
        "inventory": {"entries": [{"id": one, "v": "v1"} for one in ids]},
        "lastAppliedRevision": f"main@sha1:{name}",
    }
    scene.sandbox.store.update(raw, subresource="status")


def make(scene: Scene, *objects: dict[str, Any]) -> None:
    for namespace in {one["metadata"]["namespace"] for one in objects}:
        if scene.sandbox.store.find("namespaces", namespace) is None:
            scene.sandbox.store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for one in objects:
        scene.sandbox.store.create(one)


def secret(name: str, value: str = CANARY, namespace: str = "shop") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"password": value}}


# What each form captures


def test_command_captures_what_the_flux_objects_that_it_suspends_have_applied() -> None:
    """Parent and child, each once; what is not there any more as absent; a kind that is gone not at all."""
    scene = Scene()
    make(scene, config_map("a"), secret("s"))
    applies(
        scene, "flux-system", "flux-system_apps_kustomize.toolkit.fluxcd.io_Kustomization", "shop_a__ConfigMap"
    )
    applies(scene, "apps", "shop_s__Secret", "shop_gone__Secret", "shop_a__ConfigMap", "shop_x_gone.io_Thing")
    result = ended(scene.deploy())
    assert result.code is ExitCode.OK, (result.cause, result.reason)
    point = point_of(scene)
    assert sorted(names(point)) == [
        "configmap/shop/a",
        "kustomization/flux-system/apps",
        "secret/shop/gone (absent)",
        "secret/shop/s",
    ]
    assert (point.form, point.revision, point.holder, point.generation) == ("command", "upgrade", RUN, 1)
    assert [(ref.name, revision) for ref, revision in point.flux] == [
        ("flux-system", "main@sha1:flux-system"),
        ("apps", "main@sha1:apps"),
    ]
    assert (5, "recovery point 1: 4 objects") in scene.told
    assert result.recovery is not None
    assert record(scene, 1)["recovery"] == result.recovery.entry | {"objects": 4}


def test_what_is_captured_has_no_fence_on_it_while_the_object_has() -> None:
    """
    A restored mark would be a fence of nobody, a restored suspension one that nothing ends.

    The child is suspended, excluded and marked when it is read: that is what is taken out, by its journal.
    """
    scene = Scene()
    before = scene.raw(f"{KS}/apps")
    applies(scene, "flux-system", "flux-system_apps_kustomize.toolkit.fluxcd.io_Kustomization")
    fenced: list[Any] = []
    scene.door.before = lambda _: fenced.append(scene.raw(f"{KS}/apps"))
    ended(scene.deploy())
    assert any(
        HOLDER in (raw["metadata"].get("annotations") or {}) and raw["spec"].get("suspend") for raw in fenced
    )
    (captured,) = point_of(scene).objects
    assert captured.before is not None
    assert "annotations" not in captured.before["metadata"]
    assert captured.before["spec"] == before["spec"]
    assert captured.before["metadata"]["labels"] == before["metadata"]["labels"]
    assert JOURNAL not in json.dumps(captured.before)


def test_flux_captures_what_the_objects_that_it_resumes_have_applied() -> None:
    """The named one and its ancestors; of those only it is known which revision was applied last."""
    scene = Scene()
    make(scene, config_map("a"), config_map("b"))
    applies(scene, "flux-system", "shop_a__ConfigMap")
    applies(scene, "apps", "shop_b__ConfigMap")
    plan = scene.plan()
    refs = {ref.name: ref for ref, _ in plan.suspend}
    chains = {refs["apps"]: [refs["flux-system"]], refs["flux-system"]: []}
    flux = plan_flux(("kustomization", "flux-system", "apps"), plan.suspend, chains, "main@sha1:new")
    found = capture(scene, replace(plan, command=(), flux=flux))
    assert sorted(one.ref.display for one in found.objects.values()) == ["configmap/shop/a", "configmap/shop/b"]
    assert [revision for _, revision in found.flux] == ["main@sha1:flux-system", "main@sha1:apps"]


def capture(scene: Scene, plan: DeployPlan) -> capturing.Found:
    told: list[str] = []
    quiet = SandboxDoor(scene.sandbox, scene.clock)
    return capturing.Capturer(quiet, scene.clock, stop_if_asked=lambda: None, tell=told.append).capture(plan)


def test_apply_captures_each_object_and_what_the_servers_dry_run_makes_of_it() -> None:
    """Also the ones that are not there yet, so that a restore knows them for new."""
    applying = Applying()
    applying.deploy(config_map("a"))
    applying.deploy(config_map("a", a="2"), secret("s"))
    point = point_of(applying.scene, 2)
    assert names(point) == ["configmap/shop/a", "secret/shop/s (absent)"]
    by_name = {one.ref.name: one for one in point.objects}
    old, new = by_name["a"], by_name["s"]
    assert old.before is not None
    assert old.planned is not None
    assert new.planned is not None
    assert (old.before["data"], old.planned["data"]) == ({"a": "1"}, {"a": "2"})
    assert (new.ref.uid, new.before, new.planned["data"]) == ("", None, {"password": CANARY})
    assert old.ref.uid == applying.get(f"{CM}/a")["metadata"]["uid"]


def test_apply_tries_again_what_was_changed_since_it_was_tried() -> None:
    """`planned` tells a restore what is ours: one that is stale would call it somebody else's."""
    applying = Applying()
    applying.deploy(config_map("a"))
    plan = applying.plan(config_map("a", a="2"))
    raw = applying.get(f"{CM}/a")
    raw["data"]["b"] = "of another"
    applying.scene.sandbox.store.update(raw)
    ended(applying.run(plan))
    (captured,) = point_of(applying.scene, 2).objects
    assert captured.before is not None
    assert captured.planned is not None
    assert captured.before["data"] == {"a": "1", "b": "of another"}
    assert captured.planned["data"] == {"a": "2", "b": "of another"}


def test_prune_takes_away_only_what_was_captured() -> None:
    """Members and the set's parent are in the point; one that joins after step 5 stays, and is no success."""
    applying = Applying(keeps_set=True)
    applying.deploy(config_map("a"), config_map("b"), config_map("old"), prune=True)
    label = {PART_OF: set_id(*SET)}
    late = config_map("late")
    late["metadata"]["labels"] = label

    def joins() -> None:
        applying.scene.sandbox.store.create(late)

    applying.follower.on_follow = joins
    result = applying.deploy(config_map("a"), config_map("b"), prune=True, before=applying_contents(applying))
    assert result.code is ExitCode.OUTCOME_UNKNOWN
    assert "configmap/shop/late was not pruned: it became a member" in (result.cause or "")
    assert applying.names() == ["a", "b", "late"]
    assert sorted(names(point_of(applying.scene, 2))) == [
        "configmap/flux-system/shop-set",
        "configmap/shop/a",
        "configmap/shop/b",
        "configmap/shop/old",
    ]


def applying_contents(applying: Applying) -> Any:
    from fencectl.core.applyset import read_contents

    parent = applying.get(f"/api/v1/namespaces/{SET[0]}/configmaps/{SET[1]}")
    return read_contents(parent, namespace=SET[0], name=SET[1])


def test_command_captures_what_deploys_of_this_lease_have_applied() -> None:
    """A command may deploy the same objects in another way; the set beside the lease tells which they are."""
    applying = Applying(keeps_set=True)
    applying.deploy(config_map("a"), prune=True)
    scene = applying.scene
    own = (LEASE[0], default_set(LEASE[1]))
    for path, name in ((f"/api/v1/namespaces/{SET[0]}/configmaps/{SET[1]}", own[1]), (f"{CM}/a", None)):
        raw = scene.raw(path)
        if name is None:
            raw["metadata"]["labels"] = {PART_OF: set_id(*own)}
            scene.sandbox.store.update(raw)
        else:
            labels = {"applyset.kubernetes.io/id": set_id(*own)}
            metadata = {"name": name, "namespace": own[0], "labels": labels}
            metadata["annotations"] = raw["metadata"]["annotations"]
            scene.sandbox.store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    scene.bare = True
    ended(scene.deploy())
    assert names(point_of(scene, 2)) == ["configmap/flux-system/fencectl-deploy-applyset", "configmap/shop/a"]


def test_helm_release_that_names_nothing_is_said_and_does_not_stop_a_deploy() -> None:
    """Older helm-controllers keep no inventory; what is not captured is not called captured."""
    scene = Scene()
    found: list[str] = []
    ref = ObjectRef("helm.toolkit.fluxcd.io/v2", "HelmRelease", "helmreleases", "shop", "web", "")
    metadata = {"name": "web", "namespace": "shop"}
    make(
        scene, {"apiVersion": ref.api_version, "kind": ref.kind, "metadata": metadata, "spec": {"interval": "5m"}}
    )
    quiet = SandboxDoor(scene.sandbox, scene.clock)
    capturer = capturing.Capturer(quiet, scene.clock, stop_if_asked=lambda: None, tell=found.append)
    capturer.capture(DeployPlan(lease=LEASE, command=("x",), suspend=((ref, 1),)))
    assert found == ["helmrelease/shop/web does not say what it has applied: that is not captured"]


# Many and large


def test_many_objects_are_read_by_list_page_by_page_and_stored_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never a request for each; each part is a Secret of its own, all of them there before anything changes."""
    monkeypatch.setattr(recovery_point, "PART_BYTES", 500)
    monkeypatch.setattr(gathering, "PAGE", 7)
    scene = Scene()
    wanted = [f"cm-{number}" for number in range(30)]
    make(scene, *(config_map(name) for name in (*wanted, "beside")))
    applies(scene, "apps", *(f"shop_{name}__ConfigMap" for name in wanted))
    asked: list[str] = []
    get = SandboxDoor.get

    def counted(door: SandboxDoor, path: str, **more: Any) -> Answer:
        asked.append(path)
        return get(door, path, **more)

    monkeypatch.setattr(SandboxDoor, "get", counted)
    parts_at_first_change: list[int] = []

    def payload() -> int:
        parts_at_first_change.append(len(stored(scene)))
        return 0

    scene.payload = payload
    ended(scene.deploy())
    assert sorted(one.ref.name for one in point_of(scene).objects) == sorted(wanted)
    assert asked.count(CM) == 5
    assert not [path for path in asked if path.startswith(f"{CM}/")]
    summary = read_summary(record(scene, 1)["recovery"])
    assert summary is not None
    assert parts_at_first_change == [summary.parts]
    assert summary.parts > 2


def test_who_may_not_list_a_kind_reads_each_object_by_name() -> None:
    """Least privilege: `get` is enough for what is captured."""
    scene = Scene()
    wanted = [f"cm-{number}" for number in range(6)]
    make(scene, *(config_map(name) for name in wanted))
    applies(scene, "apps", *(f"shop_{name}__ConfigMap" for name in wanted))
    refuse(scene, "GET", CM, 403)
    ended(scene.deploy())
    assert sorted(one.ref.name for one in point_of(scene).objects) == wanted


def test_more_than_a_point_can_hold_ends_the_deploy_before_anything_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half of a good state is none."""
    monkeypatch.setattr(capturing, "LARGEST_BYTES", 50)
    assert_ends_unchanged(prepared(), "no recovery point can hold", ExitCode.FAILED_PREVIOUS_RUNS)


# What goes wrong


def prepared() -> Scene:
    scene = Scene()
    make(scene, secret("s"))
    applies(scene, "apps", "shop_s__Secret")
    return scene


def refuse(scene: Scene, method: str, path: str, status: int, *, times: int = 10**6, message: str = "no") -> None:
    """Answer requests of one sort with a status, so often; the doors of the run only."""
    left = [times]
    door = scene.door
    exchange = door._exchange

    def refused(verb: str, where: str, query: Query | None, *more: Any, **keys: Any) -> Answer:
        if verb == method and where == path and left[0] > 0:
            left[0] -= 1
            body = json.dumps({"kind": "Status", "code": status, "message": message}).encode()
            return Answer(status, {"content-type": "application/json"}, body, None, 0.0, 0.0)
        return exchange(verb, where, query, *more, **keys)

    door.__class__ = type("Refusing", (type(door),), {"_exchange": staticmethod(refused), "__slots__": ()})


def assert_ends_unchanged(scene: Scene, said: str, code: ExitCode) -> Result:
    """The deploy ends before its command, everything fenced is given back, the lease is free."""
    ran: list[int] = []

    def payload() -> int:
        ran.append(1)
        return 0

    scene.payload = payload
    result = ended(scene.deploy())
    assert result.code is code, (result.code, result.cause, result.reason)
    text = f"{result.cause} {result.reason}"
    assert said in text
    assert "Nothing was changed" in text
    assert ran == []
    assert scene.state() == scene.before
    assert scene.raw(LEASE_PATH)["spec"]["holderIdentity"] == ""
    assert "recovery" not in record(scene, 1)
    assert CANARY not in f"{text} {result.hint} {scene.told} {record(scene, 1)}"
    return result


@pytest.mark.parametrize("status", [401, 403])
def test_object_that_may_not_be_read_ends_the_deploy_and_names_verb_and_resource(status: int) -> None:
    """A point without it would be a part taken for the whole."""
    scene = prepared()
    refuse(scene, "GET", "/api/v1/namespaces/shop/secrets/s", status, message='User "ci" cannot get')
    said = "may not `get` secrets (namespace shop)" if status == 403 else "401"
    assert_ends_unchanged(scene, said, ExitCode.INCOMPLETE)


def test_server_that_is_busy_for_a_moment_is_asked_again() -> None:
    """Reads change nothing, so that a passing refusal is no reason to end."""
    scene = prepared()
    refuse(scene, "GET", "/api/v1/namespaces/shop/secrets/s", 503, times=2)
    assert ended(scene.deploy()).code is ExitCode.OK


def test_server_that_stays_busy_ends_the_deploy() -> None:
    scene = prepared()
    refuse(scene, "GET", "/api/v1/namespaces/shop/secrets/s", 503)
    assert_ends_unchanged(scene, "503", ExitCode.INCOMPLETE)


def test_inventory_that_cannot_be_read_ends_the_deploy() -> None:
    """What it applies is not known, and not known is not nothing."""
    scene = Scene()
    applies(scene, "apps", "unreadable")
    assert_ends_unchanged(scene, "the inventory of kustomization/flux-system/apps", ExitCode.INCOMPLETE)


@pytest.mark.parametrize(
    ("status", "message", "said", "code"),
    [
        (403, 'secrets is forbidden: User "ci" cannot create resource', "`create` secrets (namespace flux-system)",
         ExitCode.INCOMPLETE),
        (403, "exceeded quota: few", "exceeded quota", ExitCode.FAILED_PREVIOUS_RUNS),
        (422, "is invalid", "422", ExitCode.FAILED_PREVIOUS_RUNS),
    ],
)  # fmt: skip
def test_point_that_cannot_be_stored_ends_the_deploy_and_a_retry_works(
    status: int, message: str, said: str, code: ExitCode
) -> None:
    """Durable before anything can see it; and what failed leaves nothing in the way of the next try."""
    scene = prepared()
    refuse(scene, "POST", SECRETS, status, times=1, message=message)
    assert_ends_unchanged(scene, said, code)
    assert stored(scene) == []
    scene.payload = lambda: 0
    assert ended(scene.deploy()).code is ExitCode.OK
    assert stored(scene) == ["2-0"]


def test_part_that_fails_after_another_was_stored_leaves_no_half_of_a_point_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The record tells of none, and the next deploy takes the part away that nobody can use."""
    monkeypatch.setattr(recovery_point, "PART_BYTES", 300)
    scene = prepared()
    creates = [0]

    def before(_: int) -> None:
        if scene.door.sent[-1:] and scene.door.sent[-1][1] == SECRETS:
            creates[0] += 1
            if creates[0] == 1:
                scene.sandbox.faults.refuse(status=422, verb=None, times=1)

    scene.door.before = before
    assert_ends_unchanged(scene, "could not be stored", ExitCode.FAILED_PREVIOUS_RUNS)
    assert stored(scene) == ["1-0"]
    scene.door.before = lambda _: None
    scene.payload = lambda: 0
    assert ended(scene.deploy()).code is ExitCode.OK
    assert {name.partition("-")[0] for name in stored(scene)} == {"2"}


@pytest.mark.parametrize("drop", ["before", "after"])
def test_answer_that_is_lost_is_no_failure(drop: str) -> None:
    """Sent again; the Secret that is there then, exactly as it was sent, is ours."""
    scene = prepared()

    def before(_: int) -> None:
        if not stored(scene) and (5, "recovery point 1: 1 object") not in scene.told and is_next_a_part(scene):
            scene.door.before = lambda _: None
            getattr(scene.sandbox.faults, f"drop_{drop}")(times=1)

    scene.door.before = before
    assert ended(scene.deploy()).code is ExitCode.OK
    assert [path for _, path, _ in scene.door.sent].count(SECRETS) == 2
    assert len(point_of(scene).objects) == 1


def is_next_a_part(scene: Scene) -> bool:
    """Both suspensions are placed and drained, so that the next write is the point's."""
    return any(text.startswith("drained") for _, text in scene.told)


def test_secret_of_somebody_else_with_such_a_name_is_left_as_it_is_and_said() -> None:
    """Type, label and name together make it ours; two of them do not."""
    scene = prepared()
    foreign = secret("fencectl-deploy-recovery-1-0", namespace="flux-system")
    foreign["metadata"]["labels"] = {RECOVERY: "fencectl-deploy"}
    scene.sandbox.store.create(foreign)
    before = scene.raw(f"{SECRETS}/fencectl-deploy-recovery-1-0")
    result = assert_ends_unchanged(scene, "is not fencectl's", ExitCode.FAILED_PREVIOUS_RUNS)
    assert result.hint == "rename it, or take it away"
    assert scene.raw(f"{SECRETS}/fencectl-deploy-recovery-1-0") == before


def test_own_secret_that_is_left_under_the_number_of_a_lost_record_makes_room() -> None:
    """The record was deleted, and its numbers start anew: a deploy is not refused over that for ever."""
    scene = prepared()
    scene.deploy()
    first = scene.raw(f"{SECRETS}/fencectl-deploy-recovery-1-0")["metadata"]["uid"]
    scene.sandbox.store.delete("configmaps", "fencectl-deploy-record", namespace="flux-system")
    scene.sandbox.store.delete("leases", "fencectl-deploy", namespace="flux-system")
    assert ended(scene.deploy()).code is ExitCode.OK
    assert scene.raw(f"{SECRETS}/fencectl-deploy-recovery-1-0")["metadata"]["uid"] != first
    assert point_of(scene, 1).generation == 1


# The newest three


def test_the_newest_three_are_kept_and_nothing_of_others_is_deleted() -> None:
    """A foreign Secret with such a name, and one with our type and label and another name, stay."""
    scene = prepared()
    odd = {"type": RECOVERY, **secret("fencectl-deploy-recovery-x", namespace="flux-system")}
    odd["metadata"]["labels"] = {RECOVERY: "fencectl-deploy"}
    foreign = secret("fencectl-deploy-recovery-0-0", namespace="flux-system")
    for one in (odd, foreign):
        scene.sandbox.store.create(one)
    for _ in range(5):
        assert ended(scene.deploy()).code is ExitCode.OK
    assert stored(scene) == ["0-0", "3-0", "4-0", "5-0", "x"]


@pytest.mark.parametrize("status", [403, 500])
def test_old_points_that_cannot_be_taken_away_are_said_and_stop_nothing(status: int) -> None:
    scene = prepared()
    for _ in range(3):
        scene.deploy()
    refuse(scene, "DELETE", f"{SECRETS}/fencectl-deploy-recovery-1-0", status, message="no")
    assert ended(scene.deploy()).code is ExitCode.OK
    assert any(
        step == 5 and "stay: secret/flux-system/fencectl-deploy-recovery-1-0" in text for step, text in scene.told
    )
    assert stored(scene) == ["1-0", "2-0", "3-0", "4-0"]


@pytest.mark.parametrize("how", STRIKES)
def test_struck_deletion_of_an_old_point_costs_none_that_is_whole_and_leaves_no_fence(how: str) -> None:
    """The write that the crash matrix does not have, in every way of it: the newest stay, and can be read."""
    scene = prepared()
    for _ in range(3):
        scene.deploy()
    scene.before, scene.door.writes = scene.state(), 0
    deletion = 6  # lease, record, two suspensions, the new point
    strike(scene, how, deletion)
    scene.deploy()
    assert "DELETE" in [method for method, _, _ in scene.door.sent] or how == "killed before"
    scene.sandbox.faults.clear()
    scene.door.away = False
    give_back(scene)
    for entry in report(scene).held:
        assert entry.release is not None, (how, entry.refusal)
        assert isinstance(send(SandboxDoor(scene.sandbox, scene.clock), entry.release.patch), Applied)
    assert scene.state() == scene.before
    assert {"2-0", "3-0", "4-0"} <= set(stored(scene))
    assert [point_of(scene, number).generation for number in (2, 3)] == [2, 3]


def test_run_inside_of_another_captures_nothing_and_that_ones_point_stands() -> None:
    """It has no generation of its own; what ran before is what the run around it has captured."""
    from fencectl.core.nesting import Around
    from fencectl.run.transaction import Deploy

    outer, inner = Scene(), Scene(holder=RUN.replace("9c41e07a", "00000001"))
    inner.sandbox = outer.sandbox
    inner.door = type(inner.door)(outer.sandbox, inner.clock)
    inner.bare = True

    def payload() -> int:
        around = Around(outer.holder, 1, LEASE)
        result = Deploy(inner.stage(), inner.plan(), inner.own(), around).run()
        assert result.code is ExitCode.OK, result.cause
        return 0

    outer.payload = payload
    assert ended(outer.deploy()).code is ExitCode.OK
    assert not [text for step, text in inner.told if step == 5]
    assert stored(outer) == ["1-0"]


def test_contents_of_secrets_are_in_the_point_and_nowhere_else() -> None:
    """Not in the record, in what is told, in the result, nor in what any of it looks like in a traceback."""
    scene = prepared()
    result = ended(scene.deploy())
    (captured,) = point_of(scene).objects
    assert captured.before is not None
    assert captured.before["data"] == {"password": CANARY}
    everything = f"{scene.told} {result!r} {record(scene, 1)} {captured!r} {point_of(scene)!r}"
    assert CANARY not in everything
    assert CANARY not in json.dumps(scene.raw(f"{SECRETS}/fencectl-deploy-recovery-1-0"))


def test_interrupt_while_it_is_captured_ends_it_before_the_next_request() -> None:
    """Nothing is stored, everything is given back, and the code is the signal's."""
    scene = prepared()
    handle = scene.sandbox.handle

    def watched(request: Request) -> Any:
        if request.path == "/api/v1/namespaces/shop/secrets/s":
            scene.interrupt_code = ExitCode.TERMINATED
            scene.interrupted.set()
        return handle(request)

    scene.sandbox.handle = watched  # type: ignore[method-assign]
    result = ended(scene.deploy())
    assert result.code is ExitCode.TERMINATED
    assert stored(scene) == []
    assert scene.state() == scene.before
