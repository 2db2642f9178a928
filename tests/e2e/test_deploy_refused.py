"""
A deploy that may not begin: it says who holds what, makes no request but reads, and leaves no file.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters import Cluster, ensure_namespace, make_kustomization
from tests.support.deploys import HASTY, LEASE_PATH, Child, DeployScene, wait_until
from tests.support.fencing import killed_chain
from tests.support.github import SELF_HOSTED, LoopbackGitHub

RUN, ATTEMPT, JOB = 18093344127, 2, 51234567890
READS = {"GET"}
KS_PATH = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/infrastructure"
# Reviews ask the server what one may do; they are sent as a POST and change nothing.
NO_WRITE = ("selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews")


@pytest.fixture
def github() -> Iterator[LoopbackGitHub]:
    with LoopbackGitHub() as server:
        server.attempt(RUN, ATTEMPT, status="in_progress")
        server.job(RUN, ATTEMPT, JOB)
        yield server


@pytest.fixture
def scene(sandbox_cluster: Cluster, tmp_path: Path, github: LoopbackGitHub) -> Iterator[DeployScene]:
    ensure_namespace(sandbox_cluster, "flux-system")
    sandbox_cluster.sandbox.requests.clear()
    made = DeployScene(sandbox_cluster, tmp_path, {}, [], github.env())
    yield made
    made.end()


def assert_untouched(scene: DeployScene) -> None:
    """Only reads went to the server, and no file is left anywhere."""
    asked = scene.cluster.sandbox.requests.all()
    assert [entry for entry in asked if entry.method not in READS and entry.resource not in NO_WRITE] == []
    assert list((scene.folder / "tmp").iterdir()) == []
    assert {path.name for path in scene.folder.iterdir()} <= {"tmp", "in-0", "out-0", "err-0"}


@pytest.mark.parametrize(
    ("state", "code", "hint"),
    [
        pytest.param("live", 12, "`--wait-for-fences` waits for it", id="12-live"),
        pytest.param("dead", 16, "release them, then deploy again: fencectl recover --context prod", id="16-dead"),
        pytest.param("unknown", 19, "shows what a person has to decide", id="19-unknown"),
    ],
)
def test_case_06_held_fences_refuse_with_who_what_and_the_way_out(
    scene: DeployScene, github: LoopbackGitHub, state: str, code: int, hint: str
) -> None:
    """A live holder, a provably dead one and one of whom nobody knows differ in their exit code."""
    killed_chain(scene.cluster, duration_s=1)
    if state == "live":
        github.job(RUN, ATTEMPT, JOB, status="in_progress")
    if state == "unknown":
        scene.env["GITHUB_TOKEN"] = ""
        scene.env["GITHUB_API_URL"] = "http://127.0.0.1:9"
    scene.cluster.sandbox.requests.clear()
    done = scene.deploy("--node", "worker-2")
    assert done.code == code, done.text
    assert f"not deployed to prod: fences are held ({code})" in done.stderr
    assert "run 18093344127 attempt 2" in done.stderr
    assert "nothing was changed" in done.stderr
    assert hint in " ".join(done.stderr.split())
    assert_untouched(scene)


def test_case_02_one_marked_node_refuses_although_the_lease_is_free(scene: DeployScene) -> None:
    """The refusal names the node and who it was."""
    killed_chain(scene.cluster, duration_s=1)
    sandbox = scene.cluster.sandbox
    scene.cluster.merge_patch(LEASE_PATH, {"spec": {"holderIdentity": ""}, "metadata": {"annotations": None}})
    for name in ("flux-system", "infrastructure"):
        sandbox.store.delete("kustomizations.kustomize.toolkit.fluxcd.io", name, namespace="flux-system")
    sandbox.store.delete("nodes", "worker-3")
    sandbox.requests.clear()
    done = scene.deploy("--node", "worker-2")
    assert done.code == 19, done.text
    assert re.search(r"node/worker-2 +cordoned +schedulable", done.stderr)
    assert "run 18093344127 attempt 2" in done.stderr
    assert "`fencectl fences --context prod`" in done.stderr
    assert_untouched(scene)
    again = scene.deploy("-o", "json")
    result = json.loads(again.stdout)
    assert (again.code, result["exitCode"], result["held"]) == (19, 19, ["node/worker-2"])


@pytest.mark.parametrize(
    ("age_s", "code", "said"),
    [(3600, 19, "dead (presumed)"), (1, 12, "its job has ended, and yet its heartbeat is fresh")],
    ids=["heartbeat-stands", "heartbeat-is-fresh"],
)
def test_case_46_job_that_ended_on_a_self_hosted_runner_is_no_proof(
    scene: DeployScene, github: LoopbackGitHub, age_s: float, code: int, said: str
) -> None:
    """GitHub says completed, and its process may live on: never 16, which would send a machine to recover it."""
    killed_chain(scene.cluster, age_s=age_s, duration_s=60)
    github.job(RUN, ATTEMPT, JOB, runner=SELF_HOSTED)
    scene.cluster.sandbox.requests.clear()
    done = scene.deploy("--node", "worker-2")
    assert done.code == code, done.text
    assert said in " ".join(done.stderr.split()), done.text
    assert_untouched(scene)


def test_report_that_is_not_whole_refuses(scene: DeployScene) -> None:
    """A fence may be hidden: 21."""
    scene.cluster.sandbox.faults.refuse(status=403, verb="list", resource="nodes")
    done = scene.deploy()
    assert done.code == 21, done.text
    assert "not deployed to prod" in done.stderr
    assert "nothing was changed" in done.stderr
    assert_untouched(scene)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--suspend", "kustomization/flux-system/nobody"), "there is no kustomization/flux-system/nobody"),
        (("--node", "nobody"), "there is no node/nobody"),
    ],
)
def test_object_that_is_not_there_refuses(scene: DeployScene, arguments: tuple[str, ...], said: str) -> None:
    """Before anything was fenced."""
    done = scene.deploy(*arguments)
    assert done.code == 19, done.text
    assert said in done.stderr
    assert_untouched(scene)


def test_suspension_of_somebody_else_refuses_and_says_of_whom(scene: DeployScene) -> None:
    """Taking it would resume it afterwards, which nobody asked for."""
    make_kustomization(scene.cluster, "infrastructure", suspend=True, manager="flux")
    scene.cluster.sandbox.requests.clear()
    done = scene.deploy("--suspend", "kustomization/flux-system/infrastructure")
    assert done.code == 19, done.text
    assert "kustomization/flux-system/infrastructure cannot be suspended" in done.stderr
    assert "reason: suspended by field manager `flux`, at 20" in done.stderr
    assert_untouched(scene)


@pytest.mark.parametrize(
    "arguments", [(), ("--lease-duration", "5s", "--", "true"), ("--lease", "x", "--", "true")]
)
def test_wrong_options_are_2_and_ask_nobody(scene: DeployScene, arguments: tuple[str, ...]) -> None:
    """Nothing was read or changed."""
    done = scene.run("deploy", *arguments, module="fencectl")
    assert done.code == 2, done.text
    assert scene.cluster.sandbox.requests.all() == []


def test_half_of_what_a_deploy_hands_to_its_command_is_refused(scene: DeployScene) -> None:
    """Nobody can say under whose lease it would run."""
    done = scene.run("deploy", "--", "true", module="fencectl", env={"FENCECTL_HOLDER": "x"})
    assert done.code == 2, done.text
    assert scene.cluster.sandbox.requests.all() == []


def test_deploy_that_waits_goes_on_when_the_holder_has_ended(sandbox_cluster: Cluster, tmp_path: Path) -> None:
    """It says whom it waits for; the other one is a real deploy, alive on this machine."""
    scene = DeployScene.on(sandbox_cluster, tmp_path)
    child = Child(tmp_path)
    first = scene.start(*scene.fences, command=child.command)
    child.wait_begun(first)
    refused = scene.deploy(*scene.fences)
    assert refused.code == 12, refused.text
    second = scene.start("--wait-for-fences", *scene.fences, module=HASTY)
    second.wait_for("waits for")
    assert second.process.poll() is None
    child.let_end()
    assert first.ended().code == 0
    assert second.ended().code == 0, second.said
    scene.assert_free(token=2)


def test_wait_that_takes_too_long_ends_with_12(sandbox_cluster: Cluster, tmp_path: Path) -> None:
    """The holder still lives."""
    scene = DeployScene.on(sandbox_cluster, tmp_path)
    child = Child(tmp_path)
    first = scene.start(command=child.command)
    child.wait_begun(first)
    done = scene.deploy("--wait-for-fences", "--wait-timeout", "1s", module=HASTY)
    assert done.code == 12, done.text
    child.let_end()
    assert first.ended().code == 0


def test_nobody_waits_behind_a_hold(scene: DeployScene) -> None:
    """A person has to lift it; waiting for that would be waiting for ever."""
    assert scene.run("hold", "place", "incident", "--reason", "INC-1").code == 0
    scene.cluster.sandbox.requests.clear()
    done = scene.deploy("--wait-for-fences")
    assert done.code == 19, done.text
    assert "INC-1" in done.stderr
    assert_untouched(scene)


def test_interrupt_while_it_waits_ends_it_at_once(sandbox_cluster: Cluster, tmp_path: Path) -> None:
    """Nothing was changed, so there is nothing to unwind."""
    scene = DeployScene.on(sandbox_cluster, tmp_path)
    child = Child(tmp_path)
    first = scene.start(command=child.command)
    child.wait_begun(first)
    second = scene.start("--wait-for-fences", module=HASTY)
    second.wait_for("waits for")
    second.signal(signal.SIGTERM)
    assert second.ended().code == 143
    assert scene.lease()["leaseTransitions"] == 1
    child.let_end()
    assert first.ended().code == 0


def test_lease_in_another_namespace_is_taken_there(sandbox_cluster: Cluster, tmp_path: Path) -> None:
    """`--lease` names another one, and its record is beside it."""
    scene = DeployScene.on(sandbox_cluster, tmp_path)
    ensure_namespace(scene.cluster, "deploys")
    child = Child(tmp_path)
    running = scene.start("--lease", "deploys/prod", *scene.fences, command=child.command)
    child.wait_begun(running)
    path = LEASE_PATH.replace("flux-system/leases/fencectl-deploy", "deploys/leases/prod")
    holder = wait_until(lambda: scene.cluster.get(path)["spec"]["holderIdentity"], "it is held")
    assert holder in json.dumps(scene.cluster.get("/api/v1/namespaces/deploys/configmaps/prod-record"))
    other = scene.deploy("--lease", "deploys/prod")
    assert other.code == 12, other.text
    child.let_end()
    assert running.ended().code == 0, running.said
    assert scene.now() == scene.before
    assert scene.cluster.get(path)["spec"]["holderIdentity"] == ""


def test_fence_that_came_between_is_shown_as_at_the_start_and_the_lease_is_free_again(
    sandbox_cluster: Cluster, tmp_path: Path
) -> None:
    """Seen only under the lease: the first lines of the report, what was undone, and the way out."""
    scene = DeployScene.on(sandbox_cluster, tmp_path)
    mark = {"metadata": {"annotations": {"fencectl.dev/holder": "somebody-else"}}}
    came = scene.cluster.sandbox.faults.on(
        lambda: scene.cluster.merge_patch("/api/v1/nodes/worker-3", mark), verb="create", resource="leases"
    )
    env = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    done = scene.deploy("-o", "json", "--suspend", "kustomization/flux-system/infrastructure", env=env)
    assert came.hits == 1
    assert done.code == 19, done.text
    assert "✗ not deployed to prod: fences are held (19)" in done.stderr
    assert "node/worker-3" in done.stderr
    assert "its journal is missing" in " ".join(done.stderr.split())
    assert "nothing was fenced; the lease that was taken is free again" in done.stderr
    assert "`fencectl fences --context prod` shows what a person has to decide" in done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["exitCode"], result["step"], result["held"]) == (19, 2, ["node/worker-3"])
    summary = (tmp_path / "summary").read_text()
    assert summary.startswith("#### Not deployed to prod: fences are held (19)\n")
    assert "node/worker-3" in summary
    assert scene.lease()["holderIdentity"] == ""
    annotations = scene.cluster.get(KS_PATH)["metadata"].get("annotations") or {}
    assert "fencectl.dev/holder" not in annotations


def test_refusal_for_another_reason_is_told_to_github_and_in_json(scene: DeployScene, tmp_path: Path) -> None:
    """Whoever reads no sentences learns it too."""
    output = tmp_path / "tmp" / "output"
    scene.environment()
    env = {"GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": str(output)}
    done = scene.deploy("-o", "json", "--node", "nobody", env=env)
    assert done.code == 19, done.text
    result = json.loads(done.stdout)
    assert (result["exitCode"], result["cause"]) == (19, "there is no node/nobody")
    assert output.read_text() == "outcome=held_person_needed\n"
    assert "::error title=prod%3A deploy ended with 19::✗ not deployed: there is no node/nobody" in done.stderr
