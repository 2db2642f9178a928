"""`deploy --canary --certify` as a process: what comes first, what stops it, what is said, shown and recorded."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters import NODES, Cluster, make_configmap
from tests.support.deploys import Child, DeployScene
from tests.support.manifests import CM, config_map, deploy, names, no_lease, write


@pytest.fixture
def scene(clean_cluster: Cluster, tmp_path: Path) -> Iterator[DeployScene]:
    made = DeployScene.on(clean_cluster, tmp_path)
    yield made
    made.end()


@pytest.fixture
def boxed(sandbox_cluster: Cluster, tmp_path: Path) -> Iterator[DeployScene]:
    """Give a scene on the sandbox, for what both clusters need not show."""
    made = DeployScene.on(sandbox_cluster, tmp_path)
    yield made
    made.end()


def canary(scene: DeployScene) -> str:
    """A folder that kustomize builds: one object, named by it."""
    folder = scene.folder / "canary"
    folder.mkdir()
    write(scene, config_map("made"), name="canary/cm.yaml")
    (folder / "kustomization.yaml").write_text("resources: [cm.yaml]\nnamePrefix: canary-\n")
    return str(folder)


LOOK = "sh -c 'kubectl get configmap -o name -n default'"


def test_canary_is_certified_by_a_command_that_sees_it_alone_and_then_the_rest_follows(scene: DeployScene) -> None:
    """Rendered and tried with everything else; certified in the sum, the record, `history show` and both shapes."""
    app = write(scene, config_map("app"))
    flags = ("--canary", canary(scene), "--certify", LOOK, "-f", app)
    plan = deploy(scene, "--dry-run", *flags)
    assert plan.code == 0, plan.text
    assert "prod, canary: 1 object: 1 new" in plan.stdout
    assert (
        f"   7  apply and follow the canary {scene.folder}/canary: 1 object: 1 new, then certify it by"
        in plan.stdout
    )
    assert (names(scene), no_lease(scene)) == ([], True)
    done = deploy(scene, *scene.fences, *flags)
    assert done.code == 0, done.text
    looked = [line for line in done.stdout.splitlines() if "kube-root-ca" not in line]
    assert looked == ["configmap/canary-made"]
    assert names(scene) == ["app", "canary-made"]
    said = done.stderr
    assert said.index("configmap/default/canary-made created") < said.index("7  canary certified")
    assert said.index("7  canary certified") < said.index("configmap/default/app created")
    assert "1 of 1 objects applied, 1 changed, canary certified: nothing is fenced" in said
    record = scene.record()
    assert (record["outcome"], record["certification"]["outcome"]) == ("deployed", "certified")
    told = scene.run("history", "show", "1")
    assert told.code == 0, told.text
    assert "canary   certified: the certify command ended with 0" in told.stdout
    assert "  7  canary " in told.stdout
    story = json.loads(scene.run("history", "show", "1", "-o", "json").stdout)["deploy"]
    assert story["certification"]["outcome"] == "certified"
    assert "Canary: certified" in scene.run("history", "show", "1", "-o", "markdown").stdout
    scene.assert_free()


def test_rejected_canary_ends_a_deploy_of_a_command_before_it_runs(scene: DeployScene) -> None:
    """18: it is live, and nothing else is; also where what is not certified would be allowed."""
    flags = ("--canary", canary(scene), "--certify", "sh -c 'exit 3'", "--allow-uncertified", "-o", "json")
    env = {"GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": str(scene.folder / "output")}
    ran = scene.folder / "ran"
    done = scene.deploy(*scene.fences, *flags, command=("touch", str(ran)), env=env)
    assert (done.code, ran.exists()) == (18, False), done.text
    last = done.stderr[done.stderr.index("::error") :]
    assert "the canary was rejected" in last
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["certification"] == {
        "outcome": "uncertified",
        "rejected": True,
        "why": "the certify command ended with 3",
    }
    assert (result["step"], result["canary"]["objects"]["applied"]) == (7, 1)
    assert (scene.folder / "output").read_text().splitlines() == [
        "outcome=failed_new_state_live",
        "certification=uncertified",
    ]
    assert names(scene) == ["canary-made"]
    assert (scene.record()["outcome"], scene.record()["step"]) == ("failed", 7)
    told = scene.run("history", "show", "1")
    assert "canary   rejected: the certify command ended with 3" in told.stdout
    scene.assert_free()


def test_what_nobody_could_certify_is_said_aloud_and_goes_on_only_where_allowed(boxed: DeployScene) -> None:
    """By config, with its own time-out: it stops with the hint; allowed, a line of the result keeps it in sight."""
    folder = canary(boxed)
    (boxed.folder / "smoke.sh").write_text("#!/bin/sh\nexec sleep 60\n")
    (boxed.folder / "smoke.sh").chmod(0o755)
    certify = f"certify: {{canary: {folder}, command: [./smoke.sh], timeout: 1s}}"
    (boxed.folder / "fencectl.yaml").write_text(f"apiVersion: fencectl.dev/v1\nkind: Config\n{certify}\n")
    app = write(boxed, config_map("app"))
    stopped = deploy(boxed, "-f", app)
    assert stopped.code == 18, stopped.text
    last = stopped.stderr[stopped.stderr.index("✗ deploy failed on prod in step 7 (canary)") :]
    assert "reason: the canary was not certified (unavailable)" in last
    assert "reason: the certify command was ended after 1s" in last
    assert "now     only the canary was applied (1 of 1 objects applied, 1 changed): it may be live" in last
    assert "`--allow-uncertified` goes on" in " ".join(last.split())
    assert names(boxed) == ["canary-made"]
    allowed = deploy(boxed, "-f", app, "--allow-uncertified")
    assert allowed.code == 0, allowed.text
    last = " ".join(allowed.stderr[allowed.stderr.index("✓ deployed generation 2") :].split())
    assert "canary unavailable: nothing is fenced" in last
    assert (
        "! not certified (unavailable), and `--allow-uncertified` went on over it: the certify command was" in last
    )
    assert names(boxed) == ["app", "canary-made"]


def test_canary_that_does_not_come_up_is_rejected_with_the_block_that_names_it(boxed: DeployScene) -> None:
    """Nobody rolls it out here: what step 8 would say of it, and that nothing else was begun."""
    (boxed.folder / "fencectl.yaml").write_text(
        "apiVersion: fencectl.dev/v1\nkind: Config\nfollow: {timeout: 2s}\n"
    )
    labels = {"app": "web"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "a"}]}}
    web: dict[str, Any] = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    web["spec"] = {"selector": {"matchLabels": labels}, "template": pod}
    first = write(boxed, web, name="canary.yaml")
    ran = boxed.folder / "ran"
    done = deploy(boxed, "--canary", first, "--certify", f"touch {ran}", "-f", write(boxed, config_map("app")))
    assert (done.code, ran.exists(), names(boxed)) == (18, False, []), done.text
    last = done.stderr[done.stderr.index("✗ deploy failed on prod in step 7 (canary)") :]
    assert "1 of 1 object timed out" in last
    assert "deployment/default/web  timed out: " in last
    assert "reason: the canary was rejected" in last
    boxed.assert_free()


def test_canary_that_brings_a_namespace_and_is_broken_changes_nothing(boxed: DeployScene) -> None:
    """An object of the rest may go where the canary's namespace comes; a conflict in the canary is 10, all of it."""
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fresh"}}
    app = write(boxed, {**config_map("app"), "metadata": {"name": "app", "namespace": "fresh"}})
    flags = ("--allow-uncertified", "-f", app)
    broken = deploy(boxed, "--canary", write(boxed, space, {"kind": "X"}, name="bad.yaml"), *flags)
    assert broken.code == 2, broken.text
    assert "bad.yaml:6: no `apiVersion`" in broken.stderr
    assert no_lease(boxed)
    done = deploy(boxed, "--canary", write(boxed, space, name="space.yaml"), *flags)
    assert done.code == 0, done.text
    assert "its namespace fresh comes with this deploy" in done.stderr
    assert boxed.cluster.get("/api/v1/namespaces/fresh/configmaps/app")["data"] == {"a": "1"}
    taken = {**config_map("theirs"), "data": {"a": "2"}}
    make_configmap(boxed.cluster, "theirs", data={"a": "1"}, manager="helm")
    conflict = deploy(boxed, "--canary", write(boxed, taken, name="taken.yaml"), *flags)
    assert conflict.code == 10, conflict.text
    assert "✗ not deployed to prod: fields belong to others (10)" in conflict.stderr


def test_prune_keeps_the_canary_of_its_own_deploy_and_takes_that_of_an_earlier_one(boxed: DeployScene) -> None:
    """It is rendered like the rest, so it belongs to the set."""
    app = write(boxed, config_map("app"), config_map("app-2"))
    first = deploy(boxed, "--prune", "--canary", canary(boxed), "--certify", "true", "-f", app)
    assert first.code == 0, first.text
    again = deploy(boxed, "--prune", "--canary", f"{boxed.folder}/canary", "--certify", "true", "-f", app)
    assert (again.code, names(boxed)) == (0, ["app", "app-2", "canary-made"]), again.text
    without = deploy(boxed, "--prune", "-f", app)
    assert without.code == 0, without.text
    assert "configmap/default/canary-made  no longer rendered: pruned" in without.stderr
    assert names(boxed) == ["app", "app-2"]


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--canary", "app.yaml"), "nothing would certify the canary app.yaml"),
        (("--certify", "true"), "`--certify` has nothing to certify: there is no canary, and no node is rolled"),
        (("--allow-uncertified",), "`--allow-uncertified` goes with `--canary` or `--certify`"),
        (("--canary", "app.yaml", "--certify", "./nowhere.sh"), "the certify command `./nowhere.sh` is not found"),
        (("--canary", "app.yaml", "--certify", "sh -c 'x"), "`--certify` cannot be split as a shell would"),
        (("--canary", "-", "--certify", "true"), "`--canary` takes a file or a folder, not stdin"),
        (("--canary", "gone/", "--certify", "true"), "gone/: No such file or directory"),
        (
            ("--canary", "https://x/y", "--certify", "true"),
            "`--canary https://x/y` is a URL, and only files are read",
        ),
        (("--node", "n", "--node-command", "sh -c 'x"), "`--node-command` cannot be split as a shell would"),
    ],
    ids=["no-command", "no-canary", "nothing-to-allow", "not-found", "unsplit", "stdin", "gone", "url", "node"],
)
def test_what_could_certify_nothing_is_refused_before_anything_is_read(
    boxed: DeployScene, flags: tuple[str, ...], why: str
) -> None:
    """2, with what to do; the cluster was not asked."""
    write(boxed, config_map("app"))
    done = deploy(boxed, *flags, "-f", "app.yaml")
    assert (done.code, why in " ".join(done.stderr.split())) == (2, True), done.text
    assert no_lease(boxed)


def test_certify_command_of_the_config_that_would_not_run_is_said(boxed: DeployScene) -> None:
    """A config may name it for other deploys; here it certifies nothing, and nobody may believe that it did."""
    config = "apiVersion: fencectl.dev/v1\nkind: Config\ncertify: {command: ['true']}\n"
    (boxed.folder / "fencectl.yaml").write_text(config)
    done = deploy(boxed, "-f", write(boxed, config_map("app")))
    assert done.code == 0, done.text
    assert (
        "! the certify command of the config is not run: there is no canary, and no node is rolled" in done.stderr
    )
    assert boxed.record()["certification"] == {"outcome": "not-requested"}


def test_interrupt_while_the_certify_command_runs_ends_it_and_releases_everything(scene: DeployScene) -> None:
    """As the payload: its group is ended; the canary is live, so 18, and the rest was not begun."""
    child = Child(scene.folder)
    script = scene.folder / "smoke.sh"
    script.write_text(f"#!/bin/sh\nexec {child.command[0]} -c '{child.command[2]}'\n")
    script.chmod(0o755)
    app = write(scene, config_map("app"))
    running = scene.start(
        *scene.fences, "--canary", canary(scene), "--certify", str(script), "-f", app, payload=False
    )
    child.wait_begun(running)
    running.signal(signal.SIGTERM)
    done = running.ended()
    assert done.code == 18, done.text
    assert names(scene) == ["canary-made"]
    assert scene.record()["outcome"] == "interrupted"
    assert scene.record()["certification"]["outcome"] == "unavailable"
    scene.assert_free()


def test_rolled_nodes_are_certified_in_a_deploy_without_a_canary(boxed: DeployScene) -> None:
    """Said in the plan and in the sum; one that is rejected is left for a person, and nothing is applied."""
    for name in ("worker-2", "worker-3"):
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        assert boxed.cluster.merge_patch(f"{NODES}/{name}/status", ready).status == 200
    app = write(boxed, config_map("app"))
    roll = ("--node", "worker-2", "--node", "worker-3", "--node-command", "true", "-f", app)
    looks = "sh -c 'echo certifies $FENCECTL_NODE'"
    plan = deploy(boxed, *roll, "--certify", looks, "--dry-run")
    assert "   6  certify each of them by sh -c 'echo certifies $FENCECTL_NODE', the first before" in plan.stdout
    done = deploy(boxed, *roll, "--certify", looks)
    assert done.code == 0, done.text
    assert done.stdout.split() == ["certifies", "worker-2", "certifies", "worker-3"]
    assert "1 of 1 objects applied, 1 changed, 2 nodes, nodes certified: nothing is fenced" in done.stderr
    assert boxed.record()["certification"]["outcome"] == "certified"
    rejected = deploy(boxed, *roll, "--certify", "sh -c 'exit 3'", "--allow-uncertified")
    assert rejected.code == 11, rejected.text
    said = " ".join(rejected.stderr.split())
    assert "reason: node/worker-2 was rejected reason: the certify command ended with 3" in said
    assert "recover --node-verified worker-2" in said
    assert boxed.record(2)["certification"] == {
        "outcome": "uncertified",
        "rejected": True,
        "why": "node/worker-2: the certify command ended with 3",
    }
    assert boxed.cluster.get("/api/v1/nodes/worker-3")["metadata"].get("annotations", {}) == {}


def test_rejected_canary_is_rolled_back_where_that_is_asked_for(boxed: DeployScene) -> None:
    """10: what ran before runs again, the rest was never touched; the story tells of both."""
    folder, app = canary(boxed), write(boxed, config_map("app"))
    assert deploy(boxed, "--canary", folder, "--certify", "true", "-f", app).code == 0
    write(boxed, config_map("made", a="2"), name="canary/cm.yaml")
    write(boxed, config_map("app", a="2"))
    bad = ("--certify", "sh -c 'exit 3'", "--rollback", "on-failure")
    done = deploy(boxed, "--canary", folder, *bad, "-f", app)
    assert done.code == 10, done.text
    last = done.stderr[done.stderr.index("✗ deploy failed on prod in step 7 (canary)") :]
    assert "reason: the certify command ended with 3" in last
    assert "rollback  ✓ generation 1 is back" in last
    assert "now     nothing is fenced" in last
    assert "may be live" not in last
    data = [boxed.cluster.get(f"{CM}/{name}")["data"]["a"] for name in ("canary-made", "app")]
    assert data == ["1", "1"]
    told = boxed.run("history", "show", "2").stdout
    assert "canary   rejected: the certify command ended with 3" in told
    assert "rollback generation 1 is back: 1 put back" in told
    assert " 2  rolled back " in boxed.run("history").stdout
