"""
`deploy -- COMMAND…` as a process, on both clusters: what it fences, what its command sees, what it gives back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencectl.sandbox import Sandbox
from tests.support.clusters import Cluster, expect
from tests.support.deploys import LEASE_PATH, Child, DeployScene

SEEN = (
    "kubectl config current-context > context; env | grep ^FENCECTL_ > env; stat -c %a $KUBECONFIG > mode;"
    " kubectl get kustomizations -n flux-system -o json > flux; kubectl get nodes -o json > nodes;"
    " kubectl get lease -n flux-system -o json > lease;"
    " kubectl config view -o jsonpath='{.clusters[0].cluster.server}' > server"
)


@pytest.fixture
def scene(clean_cluster: Cluster, tmp_path: Path) -> Iterator[DeployScene]:
    made = DeployScene.on(clean_cluster, tmp_path)
    yield made
    made.end()


def test_command_runs_inside_all_fences_and_everything_is_given_back(scene: DeployScene) -> None:
    """Both suspensions, both nodes and the lease are there while it runs; afterwards nothing is."""
    done = scene.deploy(*scene.fences, command=("sh", "-c", SEEN))
    assert done.code == 0, done.text
    assert "✓ deployed generation 1 to prod" in done.stderr
    items = json.loads((scene.folder / "flux").read_text())["items"]
    assert {item["metadata"]["name"]: item["spec"]["suspend"] for item in items} == {
        "flux-system": True,
        "infrastructure": True,
    }
    nodes = json.loads((scene.folder / "nodes").read_text())["items"]
    (lease,) = json.loads((scene.folder / "lease").read_text())["items"]
    holder = lease["spec"]["holderIdentity"]
    for fenced in (*items, *nodes):
        assert fenced["metadata"]["annotations"]["fencectl.dev/holder"] == holder
    assert all(node["spec"]["unschedulable"] for node in nodes)
    assert set((scene.folder / "env").read_text().split()) == {
        f"FENCECTL_HOLDER={holder}",
        "FENCECTL_TOKEN=1",
        "FENCECTL_LEASE=flux-system/fencectl-deploy",
        f"FENCECTL_SERVER={(scene.folder / 'server').read_text()}",
    }
    assert (scene.folder / "mode").read_text() == "600\n"
    scene.assert_free()
    assert list((scene.folder / "tmp").iterdir()) == []
    record = scene.record()
    assert (record["outcome"], record["token"], record["holder"]) == ("deployed", 1, holder)


def test_failed_command_is_18_and_its_own_code_is_kept(scene: DeployScene) -> None:
    """Nobody knows how far it came: the new state may be live, but nothing is fenced."""
    done = scene.deploy("-o", "json", *scene.fences, command=("sh", "-c", "exit 3"))
    assert done.code == 18, done.text
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert (events[-1]["type"], events[-1]["exitCode"], events[-1]["commandExitCode"]) == ("result", 18, 3)
    scene.assert_free()
    assert scene.record()["outcome"] == "failed"


def test_command_that_is_not_there_is_said(scene: DeployScene) -> None:
    """As a shell would: 127."""
    done = scene.deploy(command=("no-such-command-at-all",))
    assert done.code == 18
    assert "no-such-command-at-all: command not found" in done.stderr
    assert "the command ended with 127" in done.stderr
    scene.assert_free()


def test_dry_run_changes_nothing(scene: DeployScene) -> None:
    """It names what it would do in order, the ancestor that it would add included."""
    done = scene.deploy("--dry-run", *scene.fences)
    assert done.code == 0, done.text
    order = [line.split()[-1] for line in done.stdout.splitlines() if "suspend" in line or "fence" in line]
    assert "kustomization/flux-system/flux-system (it applies one of the others)" in done.stdout
    assert order[-2:] == ["node/worker-2", "node/worker-3"]
    assert "nothing was changed" in done.stderr
    assert scene.now() == scene.before
    assert scene.cluster.request("GET", LEASE_PATH).status == 404


def test_nodes_are_found_by_their_labels(sandbox_cluster: Cluster, tmp_path: Path) -> None:
    """All of the selector, and those that are named beside it."""
    scene = DeployScene.on(sandbox_cluster, tmp_path)
    for name in ("worker-2", "worker-3"):
        expect(sandbox_cluster.merge_patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"pool": name}}}), 200)
    done = scene.deploy("--dry-run", "--node-selector", "pool=worker-3", "--node", "worker-2")
    assert [line.strip() for line in done.stdout.splitlines() if " fence " in line] == [
        "6  fence node/worker-2",
        "6  fence node/worker-3",
    ]


def test_command_reaches_the_target_whatever_the_current_context_is(
    sandbox_cluster: Cluster, tmp_path: Path
) -> None:
    """Two clusters in one kubeconfig: fencing one and changing the other is not possible."""
    scene = DeployScene.on(sandbox_cluster, tmp_path)
    with Sandbox() as other:
        other.store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "elsewhere"}, "spec": {}})
        (tmp_path / "other").write_text(other.kubeconfig(context="other"))
        both = f"{tmp_path / 'other'}:{scene.kubeconfig}"
        requests = len(other.requests)
        done = scene.deploy(
            "--context", "prod", command=("sh", "-c", "kubectl get nodes -o name"), env={"KUBECONFIG": both}
        )
        assert done.code == 0, done.text
        assert "node/worker-2" in done.stdout
        assert "elsewhere" not in done.stdout
        assert len(other.requests) == requests
    scene.assert_free()


def test_child_that_floods_its_output_harms_nothing(sandbox_cluster: Cluster, tmp_path: Path) -> None:
    """Twenty megabytes pass through as they are."""
    scene = DeployScene.on(sandbox_cluster, tmp_path)
    done = scene.deploy(*scene.fences, command=("sh", "-c", "head -c 20000000 /dev/zero"))
    assert done.code == 0, done.stderr
    assert scene.started[0].out.stat().st_size == 20_000_000
    scene.assert_free()


def test_json_lines_parse_although_the_command_prints_too(sandbox_cluster: Cluster, tmp_path: Path) -> None:
    """With `-o json` stdout is ours alone; what the command prints goes to stderr."""
    scene = DeployScene.on(sandbox_cluster, tmp_path)
    done = scene.deploy("-o", "json", *scene.fences, command=("sh", "-c", "echo of the command; echo '{'"))
    assert done.code == 0, done.text
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert {event["type"] for event in events} == {"step", "result"}
    assert events[-1] == {
        "type": "result",
        "apiVersion": "fencectl.dev/v1",
        "kind": "DeployResult",
        "exitCode": 0,
        "generation": 1,
        "token": 1,
        "step": 8,
        "cause": None,
        "reason": None,
        "commandExitCode": 0,
        "certification": {"outcome": "not-requested"},
        "lease": "flux-system/fencectl-deploy",
        "left": [],
        "waiting": [],
        "unresolved": [],
        "commands": [],
        "context": "prod",
    }
    assert "of the command" in done.stderr


SECRET = "hunter2-hunter2-hunter2"


def test_secrets_of_the_environment_are_never_echoed(sandbox_cluster: Cluster, tmp_path: Path) -> None:
    """Neither on screen, nor in a dry run, nor on the cluster: the record and the lease hold the command."""
    scene = DeployScene.on(sandbox_cluster, tmp_path)
    child = Child(tmp_path)
    command = (*child.command, "--password", SECRET)
    env = {"DB_PASSWORD": SECRET, "GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    shown = scene.deploy("--dry-run", command=command, env=env)
    running = scene.start(*scene.fences, command=command, env=env)
    child.wait_begun(running)
    fenced = json.dumps([scene.cluster.get(path) for path in (*scene.before, "/api/v1/configmaps")])
    lease = json.dumps(scene.cluster.get("/apis/coordination.k8s.io/v1/leases"))
    child.let_end()
    done = running.ended()
    assert done.code == 0, done.text
    everywhere = shown.text + done.text + fenced + lease + (tmp_path / "summary").read_text()
    assert SECRET not in everywhere
    assert SECRET not in json.dumps(scene.cluster.get("/api/v1/configmaps"))


def test_actions_gets_an_output_a_summary_and_an_annotation(sandbox_cluster: Cluster, tmp_path: Path) -> None:
    """A failure is annotated; its text cannot begin a command of its own."""
    scene = DeployScene.on(sandbox_cluster, tmp_path)
    output, summary = tmp_path / "output", tmp_path / "summary"
    env = {"GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary)}
    done = scene.deploy(*scene.fences, command=("sh", "-c", "exit 3"), env=env)
    assert done.code == 18, done.text
    (annotation,) = [line for line in done.stderr.splitlines() if line.startswith("::error")]
    assert annotation.startswith("::error title=prod%3A deploy ended with 18::")
    assert "%0A" in annotation
    assert output.read_text() == "outcome=failed_new_state_live\ncertification=not-requested\n"
    assert "the command ended with 3" in summary.read_text()
    good = scene.deploy(*scene.fences, env=env)
    assert good.code == 0, good.text
    assert "::error" not in good.stderr
    assert output.read_text().splitlines()[-2] == "outcome=ok"


def test_files_of_actions_that_cannot_be_written_change_no_result(
    sandbox_cluster: Cluster, tmp_path: Path
) -> None:
    """The deploy went well; that nobody could be told in that way is only said."""
    scene = DeployScene.on(sandbox_cluster, tmp_path)
    env = {"GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": "/nowhere/output", "GITHUB_STEP_SUMMARY": "/nowhere/s"}
    done = scene.deploy(*scene.fences, env=env)
    assert done.code == 0, done.text
    assert "/nowhere/output" in done.stderr
    scene.assert_free()
