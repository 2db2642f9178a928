"""
A deploy on two targets as one process: in the order named, each for itself, and one result of both.

Aspects: all is given back on both · a refusal on one refuses both · the first that does not succeed is the last ·
refused when its turn comes · signals and a kill in the middle · one cluster named twice, or not to be told apart ·
targets from the config, and inside of a command · mistakes before anything is read.
"""

from __future__ import annotations

import json
import re
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencectl.sandbox import Sandbox
from tests.support.clusters import Cluster
from tests.support.deploys import HASTY, LEASE_PATH, Child, DeployScene
from tests.support.pairs import BOTH, FENCES, Pair, assert_never_begun, merged
from tests.support.program import Ran
from tests.support.screen import Screen as Shown
from tests.support.terminal import spoken

SEEN = 'kubectl config current-context; kubectl get lease -n flux-system -o jsonpath="{..holderIdentity}"; echo'
HOLD = ("hold", "place", "incident", "--reason", "INC-1")


@pytest.fixture
def second(tmp_path: Path) -> Iterator[Cluster]:
    """A sandbox beside the one that every test has."""
    with Sandbox() as running:
        folder = tmp_path / "second"
        folder.mkdir()
        handle = Cluster("sandbox", running, folder)
        yield handle
        handle.close()


@pytest.fixture
def pair(sandbox_cluster: Cluster, second: Cluster, tmp_path: Path) -> Iterator[Pair]:
    """Two sandboxes."""
    made = Pair.of(sandbox_cluster, second, tmp_path)
    yield made
    made.end()


@pytest.fixture(params=["sandbox", pytest.param("real", marks=pytest.mark.real)])
def mixed(request: pytest.FixtureRequest, sandbox_cluster: Cluster, tmp_path: Path) -> Iterator[Pair]:
    """A sandbox, and behind it another one or a real API server."""
    other: Cluster = request.getfixturevalue("second" if request.param == "sandbox" else "real")
    if other.name == "real":
        other.wipe(everything=True)
    made = Pair.of(sandbox_cluster, other, tmp_path)
    yield made
    made.end()


def events(ran: Ran) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.stdout.splitlines()]


def sums(ran: Ran) -> str:
    """The last line that it said, however it was broken."""
    lines = ran.stderr.splitlines()
    last = max(number for number, line in enumerate(lines) if line.startswith(("✓", "✗")))
    return " ".join(" ".join(lines[last:]).split())


def assert_only_read(scene: DeployScene) -> None:
    asked = scene.cluster.sandbox.requests.all()
    # NB: a review is a POST that stores nothing.
    changing = [entry for entry in asked if not entry.path.endswith("selfsubjectaccessreviews")]
    assert {entry.method for entry in changing} <= {"GET"}


def test_each_target_is_fenced_changed_recorded_and_given_back_for_itself(mixed: Pair) -> None:
    """The command runs once on each, in that order, and sees the one that is fenced; every line names its target."""
    done = mixed.deploy(*FENCES, command=("sh", "-c", SEEN))
    assert done.code == 0, done.text
    context_a, holder, context_b, same = done.stdout.split()
    assert (context_a, context_b, same) == ("a", "b", holder)
    assert done.stderr.startswith("2 targets, one after the other: a, b;")
    named = [line.split()[1] for line in done.stderr.splitlines() if line[:1].isdecimal()][1:]
    assert set(named) == {"a", "b"}
    assert named == sorted(named)
    assert sums(done) == "✓ deployed to 2 targets: a, b"
    for scene in (mixed.a, mixed.b):
        scene.assert_free()
        assert (scene.record()["outcome"], scene.record()["holder"]) == ("deployed", holder)


def test_canary_that_is_rejected_on_the_first_leaves_the_second_alone(pair: Pair, tmp_path: Path) -> None:
    """Each has a canary of its own; both tables come first, each once, and nothing of the second is begun."""
    for name, text in (("canary.json", "first"), ("app.json", "rest")):
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": text, "namespace": "default"}}
        (tmp_path / name).write_text(json.dumps(made))
    judge = ("--certify", "sh -c 'kubectl config current-context; exit 3'")
    canary = ("--canary", str(tmp_path / "canary.json"))
    done = pair.deploy(*canary, *judge, "-f", str(tmp_path / "app.json"), payload=False)
    assert (done.code, done.stdout.split()) == (18, ["a"]), done.text
    for name in ("a", "b"):
        assert done.stderr.count(f"{name}, canary: 1 object: 1 new") == 1
        assert done.stderr.count(f"{name}: 1 object: 1 new") == 1
    assert "not started: b" in sums(done)
    assert pair.a.record()["certification"]["outcome"] == "uncertified"
    assert_never_begun(pair.b)


def test_hold_on_the_second_refuses_before_anything_is_changed_on_the_first(mixed: Pair) -> None:
    """Nothing but reads on either; the hold is still there, and the refusal says whose it is."""
    assert mixed.run(*HOLD, "--context", "b").code == 0
    mixed.a.cluster.sandbox.requests.clear()
    done = mixed.deploy(*FENCES)
    assert done.code == 19, done.text
    assert "✗ not deployed to b: fences are held (19)" in done.stderr
    assert "nothing was changed on b" in done.stderr
    assert sums(done) == "✗ deployed to none of 2 targets; b refused (19); not started: a; nothing was changed"
    assert_only_read(mixed.a)
    for scene in (mixed.a, mixed.b):
        assert_never_begun(scene)
    told = events(mixed.deploy("-o", "json", *FENCES))
    assert [one["context"] for one in told if one["type"] == "result"] == ["b"]
    assert told[-1]["items"] == [
        {"context": "a", "exitCode": None, "begun": False},
        {"context": "b", "exitCode": 19, "begun": False},
    ]
    assert (told[-1]["kind"], told[-1]["exitCode"]) == ("DeployResultList", 19)


def test_first_that_fails_keeps_the_second_from_being_started(pair: Pair) -> None:
    """Its own result stays, the other cluster has seen reads alone, and the step's files tell of both."""
    output, summary = pair.folder / "output", pair.folder / "summary"
    pair.b.cluster.sandbox.requests.clear()
    env = {"GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary)}
    done = pair.deploy(*FENCES, command=("sh", "-c", "exit 3"), env=env)
    assert done.code == 18, done.text
    assert sums(done).startswith("✗ deployed to none of 2 targets; a ended with 18; not started: b")
    assert_only_read(pair.b)
    assert_never_begun(pair.b)
    pair.a.assert_free()
    assert pair.a.record()["outcome"] == "failed"
    assert output.read_text().splitlines() == [
        "outcome=failed_new_state_live",
        'outcomes={"a": "failed_new_state_live", "b": "not_started"}',
    ]
    assert "the command ended with 3" in summary.read_text()
    assert "not started: b" in summary.read_text()
    assert done.stderr.count("::error title=a%3A deploy ended with 18::") == 1


def test_second_that_is_held_when_its_turn_comes_is_refused_and_the_first_stays_deployed(pair: Pair) -> None:
    """Somebody places a hold there while the first is deployed to: it is looked at again, and nothing lifts it."""
    hold = shlex.join([sys.executable, "-m", "fencectl", *HOLD, "--context", "b"])
    merged = shlex.quote(pair.a.env["KUBECONFIG"])
    done = pair.deploy("-o", "json", *FENCES, command=("sh", "-c", f"KUBECONFIG={merged} {hold} >&2"))
    assert done.code == 19, done.text
    told = events(done)
    results = [(one["context"], one["exitCode"]) for one in told if one["type"] == "result"]
    assert results == [("a", 0), ("b", 19)]
    assert [one["begun"] for one in told[-1]["items"]] == [True, False]
    pair.a.assert_free()
    assert pair.a.record()["outcome"] == "deployed"
    assert_never_begun(pair.b)
    assert pair.run("fences", "--exit-code", "--context", "a").code == 0
    assert "hold incident" in pair.run("fences", "--context", "b").stdout


def test_case_13_signal_unwinds_the_target_that_runs_and_starts_no_other(pair: Pair) -> None:
    """The command of the first has begun, so it may have acted; the second was not started, and that is said."""
    child = Child(pair.folder)
    running = pair.start(*FENCES, command=child.command)
    child.wait_begun(running)
    running.signal(signal.SIGTERM)
    done = running.ended()
    assert done.code == 18, done.text
    assert sums(done) == ("✗ deployed to none of 2 targets; a ended with 18; not started: b (interrupted)")
    pair.a.assert_free()
    assert pair.a.record()["outcome"] == "interrupted"
    assert_never_begun(pair.b)


def test_waiting_for_the_second_keeps_the_first_untouched_and_goes_on_when_it_is_free(pair: Pair) -> None:
    """`--wait-for-fences` waits before anything is changed anywhere; a signal there leaves it so."""
    child = Child(pair.folder)
    other = pair.b.start("--context", "b", command=child.command, env=pair.a.env)
    child.wait_begun(other)
    interrupted = pair.start("--wait-for-fences", module=HASTY)
    interrupted.wait_for("waits for")
    interrupted.signal(signal.SIGTERM)
    ended = interrupted.ended()
    assert ended.code == 143, ended.text
    assert sums(ended) == ("✗ deployed to none of 2 targets; not started: a, b (interrupted); nothing was changed")
    waiting = pair.start("--wait-for-fences", module=HASTY)
    waiting.wait_for("waits for")
    assert_never_begun(pair.a)
    child.let_end()
    assert other.ended().code == 0
    done = waiting.ended()
    assert done.code == 0, done.text
    pair.a.assert_free()
    pair.b.assert_free(token=2)


def test_case_06_killed_in_the_second_leaves_that_one_fenced_and_no_other(mixed: Pair) -> None:
    """A report on both lists what is left there, and the next deploy on both refuses without touching the first."""
    child = Child(mixed.folder, script="test $(kubectl config current-context) = b || exit 0")
    running = mixed.start(*FENCES, command=child.command)
    child.wait_begun(running)
    running.kill()
    shown = mixed.run("fences", "--context", "a", "--context", "b", "-o", "json", module="fencectl").json
    held = {one["context"]: [fence["object"]["name"] for fence in one["fences"]] for one in shown["items"]}
    assert [name for name in held["a"] if name != "worker-3"] == []  # that is somebody else's cordon
    assert held["b"] == ["worker-3", "worker-2", "infrastructure", "flux-system", "fencectl-deploy"]
    mixed.a.assert_free()
    mixed.a.cluster.sandbox.requests.clear()
    refused = mixed.deploy(*FENCES)
    assert refused.code in (12, 16), refused.text
    assert f"b refused ({refused.code}); not started: a" in sums(refused)
    assert_only_read(mixed.a)
    mixed.b.age_lease()
    recovered = mixed.run("recover", "--yes", "--context", "b")
    assert recovered.code == 0, recovered.text
    assert mixed.b.now() == mixed.b.before


def test_two_contexts_of_one_cluster_are_refused_with_nothing_changed(pair: Pair) -> None:
    """Its lease would be taken twice, and what was deployed first would be deployed again."""
    again = pair.folder / "again.kubeconfig"
    again.write_text(merged(a=pair.a.cluster, b=pair.b.cluster, c=pair.a.cluster))
    env = {"KUBECONFIG": str(again)}
    pair.a.cluster.sandbox.requests.clear()
    done = pair.deploy(*FENCES, contexts=("--context", "a", "--context", "b", "--context", "c"), env=env)
    assert done.code == 2, done.text
    assert "a and c lead to one lease/flux-system/fencectl-deploy on one cluster" in done.stderr
    assert_only_read(pair.a)
    for scene in (pair.a, pair.b):
        assert_never_begun(scene)


def test_clusters_that_cannot_be_told_apart_are_21_with_nothing_changed(pair: Pair) -> None:
    """Whoever may not read kube-system is told so: unknown is not different."""
    pair.b.cluster.sandbox.faults.refuse(status=403, verb="get", resource="namespaces")
    done = pair.deploy("-o", "json", *FENCES)
    assert done.code == 21, done.text
    assert "nobody can tell whether a and b are two clusters" in done.stderr
    assert events(done)[-1]["exitCode"] == 21
    for scene in (pair.a, pair.b):
        assert_never_begun(scene)


def test_cluster_that_does_not_answer_refuses_the_one_that_does(pair: Pair) -> None:
    """21 and not 0, and the first is not begun."""
    pair.b.cluster.sandbox.faults.refuse(status=403, verb="list", resource="nodes")
    done = pair.deploy(*FENCES)
    assert done.code == 21, done.text
    assert "✗ not deployed to b: nodes could not be read" in done.stderr
    assert "b refused (21); not started: a; nothing was changed" in sums(done)
    for scene in (pair.a, pair.b):
        assert_never_begun(scene)


CONFIG = """\
apiVersion: fencectl.dev/v1
kind: Config
targets:
  one: {context: a, lease: {name: first}}
  two: {context: b, suspend: [kustomization/flux-system/infrastructure]}
"""


def test_contexts_of_the_environment_are_not_handed_to_the_command(pair: Pair) -> None:
    """They name both targets; the command of one is about that one."""
    env = {"FENCECTL_DEPLOY_CONTEXT": "a b"}
    look = shlex.join([sys.executable, "-m", "fencectl", "deploy", "--dry-run", "--", "true"])
    done = pair.deploy(contexts=(), command=("sh", "-c", look), env=env)
    assert done.code == 0, done.text
    assert [line.split()[-1] for line in done.stdout.splitlines() if "would deploy to" in line] == ["a", "b"]


def test_progress_at_a_terminal_names_the_target_and_leaves_nothing_behind(pair: Pair) -> None:
    """One block at a time, gone before the next target's lines."""
    environ = pair.a.environment() | {"TERM": "xterm"}
    line = ("deploy", *BOTH, *FENCES, "--", "sh", "-c", "kubectl config current-context")
    with spoken(line, env=environ, cwd=pair.folder, terminal=True) as program:
        assert program.to_the_end() == 0
    assert re.search(r"a  step \d+ of 10", program.said)
    assert re.search(r"b  step \d+ of 10", program.said)
    rows = Shown(100).feed(program.said).rows
    assert not [row for row in rows if " of 10" in row or row.startswith("  …")]
    assert [rows.index(name) for name in ("a", "b")] == sorted(rows.index(name) for name in ("a", "b"))
    assert rows[-1] == "✓ deployed to 2 targets: a, b"


def test_targets_of_the_config_are_all_meant_and_a_deploy_inside_is_on_its_own(pair: Pair) -> None:
    """Each by its own settings. In the command the same config means the target that is fenced, and no other."""
    (pair.folder / "fencectl.yaml").write_text(CONFIG)
    look = shlex.join([sys.executable, "-m", "fencectl", "deploy", "--dry-run", "--", "true"])
    done = pair.deploy(contexts=(), command=("sh", "-c", look))
    assert done.code == 0, done.text
    plans = done.stdout.split("would deploy to ")[1:]
    assert [plan.split()[0] for plan in plans] == ["a", "b"]
    assert "under lease/flux-system/first of" in plans[0]
    assert "kustomization/flux-system/infrastructure is fenced by that run already" in plans[1]
    assert pair.a.cluster.request("GET", LEASE_PATH).status == 404
    pair.b.assert_free()


def test_manifests_go_to_every_target_once_read(pair: Pair) -> None:
    """stdin too, which can be read only once."""
    manifest = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: '1'}\n"
    done = pair.deploy("-f", "-", payload=False, stdin=manifest)
    assert done.code == 0, done.text
    for scene in (pair.a, pair.b):
        assert scene.cluster.get("/api/v1/namespaces/default/configmaps/settings")["data"] == {"a": "1"}
    assert done.stderr.count("configmap/default/settings  new") == 2


def test_mistake_in_the_last_manifest_is_told_before_either_is_read(pair: Pair) -> None:
    """2, with file and line: no request at all."""
    (pair.folder / "app").mkdir()
    (pair.folder / "app" / "1.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n")
    (pair.folder / "app" / "2.yaml").write_text("apiVersion: v1\nkind: [\n")
    for scene in (pair.a, pair.b):
        scene.cluster.sandbox.requests.clear()
    done = pair.deploy("-f", "app", payload=False)
    assert done.code == 2, done.text
    assert "2.yaml" in done.stderr
    for scene in (pair.a, pair.b):
        assert scene.cluster.sandbox.requests.all() == []


def test_context_that_is_not_there_is_told_before_the_other_is_read(pair: Pair) -> None:
    """2, and no request at all."""
    pair.a.cluster.sandbox.requests.clear()
    done = pair.deploy(contexts=("--context", "a", "--context", "typo"))
    assert done.code == 2, done.text
    assert "no context `typo`" in done.stderr
    assert pair.a.cluster.sandbox.requests.all() == []
