"""
`rollback` and `deploy --rollback on-failure` as processes, on both clusters.

Aspects: back after a failed command · back by the verb, asked for or not · nothing before · superseded · what others
have changed since · owed after an interrupt · later applies · nobody can be asked.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters import Cluster, expect
from tests.support.deploys import Child, DeployScene
from tests.support.manifests import CM, config_map, deploy, names, no_lease, write
from tests.support.program import Ran, environment
from tests.support.terminal import spoken

BREAKS = 'kubectl -n default patch configmap a --type=merge -p \'{"data":{"a":"broken","new":"1"}}\''


@pytest.fixture
def scene(clean_cluster: Cluster, tmp_path: Path) -> Iterator[DeployScene]:
    made = DeployScene.on(clean_cluster, tmp_path)
    yield made
    made.end()


def data(scene: DeployScene, name: str = "a") -> dict[str, str]:
    found: dict[str, str] = scene.cluster.get(f"{CM}/{name}")["data"]
    return found


def said(done: Ran) -> str:
    """What it said, as if it had no lines."""
    return " ".join(done.stderr.split())


def test_failed_command_is_rolled_back_and_says_what_runs(scene: DeployScene) -> None:
    """10: what it broke is as before, the command is the cause, the record tells both, nothing is fenced."""
    assert deploy(scene, "--prune", "-f", write(scene, config_map("a", a="1"))).code == 0
    command = ("sh", "-c", f"{BREAKS}; exit 3")
    # NB: these suspensions have no inventory, so that nobody could say that Flux would not break it again.
    more = ("--rollback", "on-failure", "--on-rollback", "resume")
    done = scene.deploy(*scene.fences, *more, command=command)
    assert done.code == 10, done.text
    assert data(scene) == {"a": "1"}
    assert "the command ended with 3" in done.stderr
    assert "rollback  ✓ generation 1 is back after " in done.stderr
    assert "(own budget 10m)" in done.stderr
    assert "now     prod runs generation 1" in done.stderr
    assert "may be live" not in done.stderr
    record = scene.record(2)
    assert (record["outcome"], record["code"]) == ("rolled-back", 10)
    assert record["rollback"]["verdict"] == "back"
    assert record["failure"]["what"].startswith("command: the command ended with 3")
    scene.assert_free(token=2)


def test_rollback_puts_back_what_ran_before_and_later_applies_go_on(scene: DeployScene) -> None:
    """The dry run changes nothing; `--yes` puts it back; the next deploy meets no conflict with ourselves."""
    path = write(scene, config_map("a", a="1"))
    assert deploy(scene, "-f", path).code == 0
    assert deploy(scene, "-f", write(scene, config_map("a", a="2", b="2"), config_map("new"))).code == 0
    nobody = scene.run("rollback")
    assert (nobody.code, "nobody can be asked here" in nobody.stderr) == (2, True), nobody.text
    foreign = scene.run("rollback", "--yes", "--profile", "ghcr-bridge")
    assert foreign.code == 2
    looked = scene.run("rollback", "--dry-run")
    assert looked.code == 0, looked.text
    assert "puts back generation 1" in looked.stdout
    assert 'data.a: "2" → "1"' in looked.stdout
    assert 'data.b: "2" (removed)' in looked.stdout
    assert "configmap/default/new  was not there before: stays, nothing is deleted" in looked.stdout
    assert data(scene) == {"a": "2", "b": "2"}
    done = scene.run("rollback", "--yes", "-o", "json")
    assert done.code == 0, done.text
    assert data(scene) == {"a": "1"}
    assert names(scene) == ["a", "new"]
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["kind"], result["exitCode"], result["rollback"]["back"]) == ("RollbackResult", 0, 1)
    assert result["rollback"]["changed"] == ["configmap/default/a"]
    assert scene.record(3)["outcome"] == "restored"
    again = deploy(scene, "-f", write(scene, config_map("a", c="3")))
    assert again.code == 0, again.text
    assert data(scene) == {"c": "3"}
    scene.assert_free(token=4)
    # What was deployed since must not be overwritten by something older.
    older = scene.run("rollback", "2", "--yes")
    assert older.code == 18, older.text
    assert "generation 2 is superseded by generation 4" in older.stderr
    assert data(scene) == {"c": "3"}


def test_case_59_first_deploy_has_nothing_to_roll_back_to(scene: DeployScene) -> None:
    """Neither after its own failure nor by the verb: said, 18, nothing is deleted."""
    done = deploy(scene, "-f", write(scene, config_map("a", a="1")))
    assert done.code == 0, done.text
    refused = scene.run("rollback", "--yes")
    assert refused.code == 18, refused.text
    assert "no previous good state before generation 1" in refused.stderr
    assert names(scene) == ["a"]
    none = scene.run("rollback", "7", "--yes")
    assert none.code == 2, none.text
    assert "there are recovery points of generation 1" in none.stderr


def test_what_others_have_changed_since_is_left_and_named(scene: DeployScene) -> None:
    """18, with the field; the other object is back."""
    assert deploy(scene, "-f", write(scene, config_map("a", a="1"), config_map("b", a="1"))).code == 0
    assert deploy(scene, "-f", write(scene, config_map("a", a="2"), config_map("b", a="2"))).code == 0
    expect(scene.cluster.merge_patch(f"{CM}/b", {"data": {"a": "3"}}, manager="kubectl-edit"), 200)
    done = scene.run("rollback", "--yes")
    assert done.code == 18, done.text
    assert (data(scene), data(scene, "b")) == ({"a": "1"}, {"a": "3"})
    assert "configmap/default/b left as it is: data.a was changed since by `kubectl-edit`" in said(done)
    scene.assert_free(token=3)


def test_immutable_field_is_named_and_nothing_is_deleted(scene: DeployScene) -> None:
    """The server refuses; the rest goes back."""
    if scene.cluster.name == "sandbox":
        causes = [{"reason": "FieldValueForbidden", "message": "field is immutable", "field": "data"}]
        body = {"kind": "Status", "code": 422, "message": "x", "details": {"name": "b", "causes": causes}}
        scene.cluster.sandbox.faults.refuse(
            status=422, body=body, verb="patch", resource="configmaps", name="b", after=4
        )
    first = [config_map("a", a="1"), config_map("b", a="1")]
    assert deploy(scene, "-f", write(scene, *first)).code == 0
    second = [config_map("a", a="2"), {**config_map("b", a="2"), "immutable": True}]
    assert deploy(scene, "-f", write(scene, *second)).code == 0
    done = scene.run("rollback", "--yes")
    assert done.code == 18, done.text
    assert (data(scene), data(scene, "b")) == ({"a": "1"}, {"a": "2"})
    assert "configmap/default/b left as it is: the API server does not change it back (422: " in said(done)
    assert "data: x" in said(done) or "data: Forbidden: field is immutable" in said(done)


def test_interrupt_never_starts_a_rollback_and_says_that_it_is_owed(scene: DeployScene) -> None:
    """The command that puts it back is printed, and works."""
    assert deploy(scene, "--prune", "-f", write(scene, config_map("a", a="1"))).code == 0
    child = Child(scene.folder, script=BREAKS)
    running = scene.start("--rollback", "on-failure", command=child.command)
    child.wait_begun(running)
    running.signal(signal.SIGTERM)
    done = running.ended()
    assert done.code == 18, done.text
    assert data(scene)["a"] == "broken"
    assert "owed" in done.stderr
    assert "fencectl rollback 2 --context prod" in done.stderr
    assert scene.record(2)["rollback"] == "owed"
    later = scene.run("rollback", "2", "--context", "prod", "--yes")
    assert later.code == 0, later.text
    assert data(scene) == {"a": "1"}


def test_rollback_of_a_target_without_a_deploy_changes_nothing(scene: DeployScene) -> None:
    """2, before any lease is taken."""
    done = scene.run("rollback", "--yes")
    assert done.code == 2, done.text
    assert "nothing to roll back on prod" in done.stderr
    assert no_lease(scene)


@pytest.mark.parametrize(
    ("keys", "code", "words"),
    [
        ("y\n", 2, "error: nothing was put back: the answer was not `yes`"),
        ("\x03", 130, "! interrupted: nothing was changed"),
        ("yes\n", 0, "; nothing is fenced"),
    ],
    ids=["y", "ctrl-c", "yes"],
)
def test_at_a_terminal_only_yes_puts_it_back(
    sandbox_cluster: Cluster, tmp_path: Path, keys: str, code: int, words: str
) -> None:
    """What would change stands above the question; without a yes no lease is taken."""
    scene = DeployScene.on(sandbox_cluster, tmp_path)
    for value in "12":
        assert deploy(scene, "-f", write(scene, config_map("a", a=value))).code == 0
    env = environment(scene.kubeconfig) | {"TERM": "xterm"}
    with spoken(("rollback", "--no-color"), env=env, cwd=tmp_path, terminal=True) as program:
        program.until("Put generation 1 back on prod? Only `yes` goes on: ")
        assert 'data.a: "2" → "1"' in program.said
        program.type(keys)
        assert program.to_the_end() == code
    assert program.said.replace("\r", "").splitlines()[-1].endswith(words)
    assert data(scene) == {"a": "1" if code == 0 else "2"}
    assert scene.lease()["leaseTransitions"] == (3 if code == 0 else 2)
