"""`doctor`: what it finds on both clusters, and that the roles it prints are exactly enough."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters import Cluster, ensure_namespace, grant, make_kustomization, make_node, path_of
from tests.support.fencing import essence, killed_chain, state
from tests.support.github import TOKEN, LoopbackGitHub
from tests.support.program import Ran, run_program

RUN, ATTEMPT, JOB = 18093344127, 2, 51234567890
USER = "user-9"


@pytest.fixture
def github() -> Iterator[LoopbackGitHub]:
    with LoopbackGitHub() as server:
        server.attempt(RUN, ATTEMPT, status="in_progress")
        server.job(RUN, ATTEMPT, JOB)
        yield server


def run(cluster: Cluster, folder: Path, *arguments: str, user: str = USER, **more: Any) -> Ran:
    return run_program(*arguments, kubeconfig=cluster.kubeconfig_file(user, context="prod"), cwd=folder, **more)


def grant_printed(cluster: Cluster, folder: Path, role: str, *, without: tuple[str, str] = ("", "")) -> None:
    """Give the user the role as `doctor` prints it; `without`: but for this verb on this resource."""
    for document in json.loads(run(cluster, folder, "doctor", "--rbac", role, "-o", "json").stdout):
        for rule in document["rules"]:
            if without[1] in rule["resources"]:
                rule["verbs"] = [verb for verb in rule["verbs"] if verb != without[0]]
        rules = [rule for rule in document["rules"] if rule["verbs"]]
        grant(cluster, USER, *rules, namespace=document["metadata"].get("namespace"))


def states(ran: Ran) -> dict[str, str]:
    (found,) = json.loads(ran.stdout)["clusters"]
    return {check["name"]: check["state"] for check in found["checks"]}


def test_everything_that_is_there_is_said_in_a_line_each(clean_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path) -> None:  # fmt: skip
    """Whoever may do everything: no failure, and each effective value knows where it comes from."""
    (tmp_path / "fencectl.yaml").write_text("apiVersion: fencectl.dev/v1\nkind: Config\nlease:\n  name: gate\n")
    shown = run(clean_cluster, tmp_path, "doctor", user="admin", env=github.env())
    assert shown.code == 0, shown.text
    lines = shown.stdout.splitlines()
    assert lines[0] == "✓ config    fencectl.yaml, no target of it"
    assert [line.split()[:2] for line in lines if line[0] in "✓!✗"] == [
        ["✓", name] for name in ("config", "cluster", "clock", "flux", "fences", "recover", "deploy", "github")
    ]
    assert any(line.startswith("values    ") and "flux-system/gate (fencectl.yaml:4)" in line for line in lines)
    assert lines[-1] == "0 failed, 0 warnings"
    assert TOKEN not in shown.text


@pytest.mark.real
@pytest.mark.parametrize("role", ["report", "recover", "deploy"])
def test_printed_role_is_enough_for_its_command(
    real: Cluster, github: LoopbackGitHub, tmp_path: Path, role: str
) -> None:
    """Under exactly that role, bound to nobody else, on a real API server."""
    real.wipe()
    ensure_namespace(real, "flux-system")
    grant_printed(real, tmp_path, role)
    if role == "deploy":
        fenced = [make_kustomization(real, "apps"), make_node(real, "worker-2")]
        before = {path_of(one): essence(one) for one in fenced}
        flags = ("--suspend", "kustomization/flux-system/apps", "--node", "worker-2", "--drain-timeout", "0s")
        done = run(real, tmp_path, "deploy", *flags, "--", "true")
        assert done.code == 0, done.text
        assert state(real, *before) == before
        return
    killed_chain(real, duration_s=1)
    if role == "report":
        shown = run(real, tmp_path, "fences", "-o", "json")
        assert (shown.code, shown.json["complete"], shown.json["held"]) == (0, True, 5), shown.text
        return
    env = github.env()
    done = run(real, tmp_path, "recover", "--yes", env=env, module="tests.support.impatient")
    assert done.code == 0, done.text
    assert "released 5 of 5" in done.text


@pytest.mark.parametrize(
    ("without", "check", "named"),
    [
        (("list", "nodes"), "fences", "`list` nodes"),
        (("patch", "leases"), "recover", "`patch` leases.coordination.k8s.io (namespace flux-system)"),
        (("create", "pods/eviction"), "deploy", "`create` pods/eviction"),
    ],
    ids=["report", "recover", "deploy"],
)
def test_role_without_one_verb_fails_its_check_by_name(
    clean_cluster: Cluster, tmp_path: Path, without: tuple[str, str], check: str, named: str
) -> None:
    """And only that check: the others have what they need. The next step is printed with it."""
    ensure_namespace(clean_cluster, "flux-system")
    grant_printed(clean_cluster, tmp_path, "deploy", without=without)
    shown = run(clean_cluster, tmp_path, "doctor", "-o", "json")
    assert shown.code == 22, shown.text
    assert [name for name, found in states(shown).items() if found == "failure"] == [check]
    assert named in shown.text
    assert "doctor --rbac" in shown.text


def test_broken_config_and_dead_server_are_checks_that_failed(tmp_path: Path) -> None:
    """Neither keeps the other lines from being said."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "users: [{name: a, user: {}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
    )
    dead = run_program("doctor", "-o", "json", kubeconfig=kubeconfig, cwd=tmp_path)
    assert (dead.code, states(dead)) == (22, {"config": "ok", "cluster": "failure", "github": "warning"})
    (tmp_path / "fencectl.yaml").write_text("apiVersion: fencectl.dev/v1\nkind: Config\nleese: {}\n")
    broken = run_program("doctor", kubeconfig=kubeconfig, cwd=tmp_path)
    assert broken.code == 22
    assert "✗ config    fencectl.yaml:3" in broken.stdout
    assert broken.stdout.endswith("1 failed, 0 warnings\n")
