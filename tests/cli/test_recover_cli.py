"""The command line of `recover`: kubectl's dry runs, nobody to ask, and what the API server says to a plan."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencectl.sandbox import Sandbox
from tests.cli.conftest import Program
from tests.support.clusters import Cluster, make_node
from tests.support.fencing import bridge_chain, killed_chain, playing, state
from tests.support.github import LoopbackGitHub
from tests.support.program import Ran, run_program

RUN, ATTEMPT, JOB = 18093344127, 2, 51234567890
NOBODY_LISTENS = """\
apiVersion: v1
kind: Config
current-context: staging
contexts: [{name: staging, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""


@pytest.fixture
def github() -> Iterator[LoopbackGitHub]:
    """GitHub, where the job of the killed run has ended."""
    with LoopbackGitHub() as server:
        server.attempt(RUN, ATTEMPT)
        server.job(RUN, ATTEMPT, JOB)
        yield server


def recover(cluster: Cluster, github: LoopbackGitHub, folder: Path, *arguments: str) -> Ran:
    """Run the program as a process, with a short window."""
    return run_program(
        "recover",
        *arguments,
        kubeconfig=cluster.kubeconfig_file(context="prod"),
        cwd=folder,
        env=github.env(),
        module="tests.support.impatient",
    )


@pytest.mark.parametrize(
    ("typed", "dry_run", "rehearse"),
    [
        ([], False, False),
        (["--dry-run"], True, False),
        (["--dry-run=client"], True, False),
        (["--dry-run=server"], True, True),
    ],
)
def test_dry_runs_of_kubectl_are_understood(
    program: Program, asked: list[Any], typed: list[str], dry_run: bool, rehearse: bool
) -> None:
    """`client` is the plan; `server` has the API server test it."""
    assert program("recover", "--yes", *typed).status == 0
    assert [(options.dry_run, options.rehearse) for options in asked] == [(dry_run, rehearse)]


@pytest.mark.parametrize("typed", ["--dry-run=none", "--dry-run=all"])
def test_other_dry_run_is_no_real_run(program: Program, asked: list[Any], typed: str) -> None:
    """Whoever writes the word dry-run never gets a write."""
    ended = program("recover", "--yes", typed)
    assert ended.status == 2
    assert asked == []


def test_hidden_spelling_is_no_hint(program: Program, asked: list[Any]) -> None:
    """A near miss is answered with the flag that the help has."""
    ended = program("recover", "--dry")
    assert ended.status == 2
    assert "did you mean `--dry-run`?" in ended.err


def test_nobody_to_ask_names_the_current_context_and_reads_no_cluster(
    program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error says which cluster would have been changed, from the kubeconfig alone."""
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(NOBODY_LISTENS)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    monkeypatch.chdir(tmp_path)
    with kubeconfig.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        ended = program("recover")
    assert ended.status == 2
    assert ended.err.splitlines() == [
        "error: recover changes staging, and nobody can be asked here",
        "hint: pass --yes if this job may release what a provably dead holder left",
    ]


def test_plan_is_tried_on_the_server_and_nothing_is_stored(
    sandbox: Sandbox, sandbox_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path
) -> None:
    """Each patch goes out with dryRun=All, the take-over of the lease among them."""
    before = killed_chain(sandbox_cluster, duration_s=1)
    fenced = state(sandbox_cluster, *before)
    sent = len(sandbox.requests)
    done = recover(sandbox_cluster, github, tmp_path, "--dry-run=server")
    assert done.code == 0, done.text
    assert "the API server would take each of its patches now" in done.stderr
    assert "nothing was changed" in done.stderr
    patches = [request for request in list(sandbox.requests)[sent:] if request.method == "PATCH"]
    assert len(patches) == 5
    assert all("dryRun" in request.query for request in patches)
    assert state(sandbox_cluster, *before) == fenced


@pytest.mark.parametrize(("status", "code"), [(403, 21), (422, 19)])
def test_plan_that_the_server_refuses_is_refused_beforehand(
    sandbox: Sandbox, sandbox_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path, status: int, code: int
) -> None:
    """A missing right, or a guard that does not hold, is known before anybody is woken up for it."""
    killed_chain(sandbox_cluster, duration_s=1)
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": "Forbidden" if status == 403 else "Invalid",
        "message": "no",
        "code": status,
    }
    sandbox.faults.refuse(verb="patch", resource="nodes", status=status, body=body, times=None)
    done = recover(sandbox_cluster, github, tmp_path, "--dry-run=server", "-o", "json")
    assert done.code == code, done.text
    (plan,) = done.json["recoveries"]
    assert plan["rehearsal"]["accepted"] is False
    assert "node/worker-3" in plan["rehearsal"]["refused"]
    assert plan["released"] == 0


def test_plan_for_another_tools_fences_is_tried_too(
    sandbox_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path
) -> None:
    """The same flag under the other profile."""
    chain = bridge_chain(sandbox_cluster, duration_s=1)
    fenced = state(sandbox_cluster, *chain)
    done = recover(sandbox_cluster, github, tmp_path, "--dry-run=server", "--profile", "ghcr-bridge")
    assert done.code == 0, done.text
    assert "the API server would take each of its patches now" in done.stderr
    assert state(sandbox_cluster, *chain) == fenced


def test_mark_without_a_holder_is_not_nothing_to_do(
    sandbox_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path
) -> None:
    """Something is held, only nobody can say by whom: a person is needed."""
    make_node(sandbox_cluster, "odd", unschedulable=True, annotations={"fencectl.dev/journal": "{broken"})
    done = recover(sandbox_cluster, github, tmp_path, "--yes")
    assert done.code == 19, done.text
    assert "node/odd carries a mark" in done.stderr


def test_half_changed_node_is_said_at_once_with_the_way_on(
    sandbox: Sandbox, sandbox_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path
) -> None:
    """Nobody watches a heartbeat for 40 seconds to be told what was known before; the hint runs as it stands."""
    from fencectl.core.journal import Phase

    make_node(sandbox_cluster, "worker-2", taints=[])
    with playing(sandbox_cluster, duration_s=1) as run:
        run.story["job_verified"] = True
        run.take_lease()
        run.enter_phase(run.cordon("worker-2"), Phase.MUTATING)
    done = recover(sandbox_cluster, github, tmp_path, "--yes")
    assert done.code == 19, done.text
    assert "watching the lease" not in done.stderr
    assert done.stderr.rstrip().endswith(
        "then vouch for it: fencectl recover --context prod --node-verified worker-2"
    )
    assert done.stdout == ""


def test_log_has_a_line_with_its_time_for_each_step(
    sandbox_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path
) -> None:
    """In a pipe: when, which of how many, which fence, and how it is now."""
    import re

    killed_chain(sandbox_cluster, duration_s=1)
    done = recover(sandbox_cluster, github, tmp_path, "--yes")
    assert done.code == 0, done.text
    steps = [line[11:] for line in done.stderr.splitlines() if re.match(r"\d\d:\d\d:\d\dZ  ", line)]
    assert steps == [
        "lease/flux-system/fencectl-deploy taken over from run 18093344127 attempt 2 job 51234567890",
        "1/5 released node/worker-3 (mark gone, still cordoned)",
        "2/5 released node/worker-2 (schedulable)",
        "3/5 released kustomization/flux-system/infrastructure (reconciles)",
        "4/5 released kustomization/flux-system/flux-system (reconciles)",
        "5/5 released lease/flux-system/fencectl-deploy (free)",
    ]
    assert re.fullmatch(
        r"✓ released 5 of 5 on prod in \d+\.\ds; deploys can start again", done.stderr.splitlines()[-1]
    )
