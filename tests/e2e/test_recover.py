"""
`recover`: a holder that is proven dead is excluded, its whole chain released in order, and nothing else is touched.

Both clusters, the program as a process, GitHub as a real HTTP server on loopback. Only the window is shorter.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencectl.core.journal import Phase
from fencectl.sandbox import Sandbox
from tests.support.clusters import (
    Cluster,
    make_configmap,
    make_kustomization,
    make_node,
    path_of,
)
from tests.support.fencing import bridge_chain, essence, killed_chain, playing, state
from tests.support.github import Fault, LoopbackGitHub, rate_limited
from tests.support.objects import HOLDER, OTHER
from tests.support.program import Ran, environment, run_program

RUN, ATTEMPT, JOB = 18093344127, 2, 51234567890
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/flux-system/leases/fencectl-deploy"
IMPATIENT = "tests.support.impatient"
Recover = Callable[..., Ran]


@pytest.fixture
def github() -> Iterator[LoopbackGitHub]:
    """GitHub, where the job of the killed run has ended while its run goes on."""
    with LoopbackGitHub() as server:
        server.attempt(RUN, ATTEMPT, status="in_progress")
        server.job(RUN, ATTEMPT, JOB)
        yield server


@pytest.fixture
def fencectl(clean_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path) -> Recover:
    """Run the program with a short window, against the clean cluster and the loopback GitHub."""

    def run(*arguments: str, env: dict[str, str] | None = None, user: str = "admin") -> Ran:
        return run_program(
            *arguments,
            kubeconfig=clean_cluster.kubeconfig_file(user, context="prod"),
            cwd=tmp_path,
            env=github.env() | (env or {}),
            module=IMPATIENT,
        )

    return run


def whole(cluster: Cluster, before: dict[str, Any]) -> dict[str, Any]:
    return state(cluster, *before, LEASE_PATH)


def test_killed_chain_is_proven_dead_and_released_in_order(
    clean_cluster: Cluster, fencectl: Recover, github: LoopbackGitHub
) -> None:
    """The job is completed while the run is in progress: dead (proven), and one look-up for five fences."""
    before = killed_chain(clean_cluster, duration_s=1)
    shown = fencectl("fences", "--no-commands")
    assert "dead (proven)" in shown.stdout
    assert "completed (cancelled)" in shown.stdout
    assert github.paths() == [f"/repos/acme/platform/actions/jobs/{JOB}"]
    done = fencectl("recover", "--yes", "-o", "json")
    assert done.code == 0, done.text
    (result,) = done.json["recoveries"]
    assert [(s["fence"], s["result"]) for s in result["steps"]] == [
        ("lease/flux-system/fencectl-deploy", "taken"),
        ("node/worker-3", "released"),
        ("node/worker-2", "released"),
        ("kustomization/flux-system/infrastructure", "released"),
        ("kustomization/flux-system/flux-system", "released"),
        ("lease/flux-system/fencectl-deploy", "freed"),
    ]
    assert state(clean_cluster, *before) == {path: essence(obj) for path, obj in before.items()}
    lease = clean_cluster.get(LEASE_PATH)
    assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseTransitions"]) == ("", 2)
    assert "annotations" not in lease["metadata"]
    again = fencectl("recover", "--yes")
    assert again.code == 0
    assert "there is nothing to recover" in again.stderr


def test_dry_run_prints_the_plan_and_changes_nothing(clean_cluster: Cluster, fencectl: Recover) -> None:
    """No question, no window, no write."""
    before = killed_chain(clean_cluster, duration_s=1)
    fenced = whole(clean_cluster, before)
    done = fencectl("recover", "--dry-run")
    assert done.code == 0, done.text
    assert "would release 5 fences" in done.stdout
    assert "nothing was changed" in done.stderr
    assert whole(clean_cluster, before) == fenced


def test_job_in_progress_is_refused_and_nothing_changes(
    clean_cluster: Cluster, fencectl: Recover, github: LoopbackGitHub
) -> None:
    """A live holder is 12: waiting helps."""
    before = killed_chain(clean_cluster, duration_s=1)
    fenced = whole(clean_cluster, before)
    github.job(RUN, ATTEMPT, JOB, status="in_progress")
    done = fencectl("recover", "--yes")
    assert done.code == 12, done.text
    assert "its job has not ended" in done.stderr
    assert whole(clean_cluster, before) == fenced


ANSWERS: list[tuple[str, Fault | None, str]] = [
    ("404", Fault(404, body={"message": "Not Found"}), "404"),
    ("401", Fault(401, body={"message": "Bad credentials"}), "401"),
    ("403", Fault(403, body={"message": "Resource not accessible by integration"}), "403"),
    ("rate limit", rate_limited(429, retry_after="60"), "rate limit"),
    ("410", Fault(410, body={"message": "Gone"}), "410"),
    ("500", Fault(500, body="oops"), "500"),
    ("malformed", Fault(200, body="{not json"), ""),
    ("unknown word", None, "brand_new_state"),
]


def test_every_other_answer_of_github_is_refused_as_unknown_and_says_what_was_answered(
    clean_cluster: Cluster, fencectl: Recover, github: LoopbackGitHub
) -> None:
    """19, nothing changed: none of them is a proof."""
    before = killed_chain(clean_cluster, duration_s=1)
    fenced = whole(clean_cluster, before)
    for name, fault, said in ANSWERS:
        github.heal()
        if fault is not None:
            github.fault("/repos/", fault)
        else:
            github.job(RUN, ATTEMPT, JOB, status=said, conclusion=None)
        done = fencectl("recover", "--yes")
        assert done.code == 19, (name, done.text)
        assert said in done.stderr, name
        assert "nothing was released" in done.stderr, name
    no_token = fencectl("recover", "--yes", env={"GITHUB_TOKEN": ""})
    assert no_token.code == 19
    assert "no token" in no_token.stderr
    assert whole(clean_cluster, before) == fenced


def test_case_06_nobody_to_ask_is_an_error_that_names_the_flag_before_anything_is_read(
    clean_cluster: Cluster, fencectl: Recover
) -> None:
    """Neither terminal nor --yes."""
    killed_chain(clean_cluster, duration_s=1)
    done = fencectl("recover")
    assert done.code == 2
    assert "nobody can be asked here" in done.stderr
    assert done.stdout == ""


def test_mutating_node_stops_all_of_it_until_a_person_vouches_for_the_node(
    clean_cluster: Cluster, fencectl: Recover
) -> None:
    """Refused with the reason, nothing changed; with --node-verified it goes with the rest."""
    node = make_node(clean_cluster, "worker-2", taints=[])
    with playing(clean_cluster, duration_s=1) as run:
        run.story["job_verified"] = True
        run.take_lease()
        run.enter_phase(run.cordon("worker-2"), Phase.MUTATING)
    fenced = state(clean_cluster, path_of(node), LEASE_PATH)
    done = fencectl("recover", "--yes")
    assert done.code == 19, done.text
    assert "may be half done" in done.stderr
    assert state(clean_cluster, path_of(node), LEASE_PATH) == fenced
    unknown = fencectl("recover", "--yes", "--node-verified", "worker-9")
    assert (unknown.code, state(clean_cluster, path_of(node), LEASE_PATH)) == (2, fenced)
    vouched = fencectl("recover", "--yes", "--node-verified", "worker-2")
    assert vouched.code == 0, vouched.text
    assert state(clean_cluster, path_of(node)) == {path_of(node): essence(node)}


def test_one_malformed_journal_stops_all_of_it(clean_cluster: Cluster, fencectl: Recover) -> None:
    """Whose it is nobody can say, so it may be this run's."""
    before = killed_chain(clean_cluster, duration_s=1)
    make_node(clean_cluster, "odd", unschedulable=True, annotations={"fencectl.dev/journal": "{broken"})
    fenced = whole(clean_cluster, before)
    done = fencectl("recover", "--yes")
    assert done.code == 19
    assert "node/odd" in done.stderr
    assert whole(clean_cluster, before) == fenced


def test_foreign_fences_are_left_alone(clean_cluster: Cluster, fencectl: Recover) -> None:
    """Somebody else's cordon and suspension stay; our own go."""
    before = killed_chain(clean_cluster, duration_s=1)
    cordoned = make_node(clean_cluster, "worker-7", unschedulable=True)
    paused = make_kustomization(clean_cluster, "paused", suspend=True)
    foreign = state(clean_cluster, path_of(cordoned), path_of(paused))
    done = fencectl("recover", "--yes")
    assert done.code == 0, done.text
    assert state(clean_cluster, path_of(cordoned), path_of(paused)) == foreign
    assert state(clean_cluster, *before) == {path: essence(obj) for path, obj in before.items()}


def test_hold_stops_an_unattended_recovery(clean_cluster: Cluster, fencectl: Recover) -> None:
    """A person has said that nothing is to move."""
    before = killed_chain(clean_cluster, duration_s=1)
    hold = {"v": 1, "type": "incident", "reason": "INC-2291", "by": "ann", "at": "2026-11-30T02:00:00Z"}
    make_configmap(
        clean_cluster, "fencectl-deploy-record", namespace="flux-system", data={"hold-incident": json.dumps(hold)}
    )
    fenced = whole(clean_cluster, before)
    done = fencectl("recover", "--yes")
    assert done.code == 19
    assert "INC-2291" in done.stderr
    assert whole(clean_cluster, before) == fenced


def test_kept_suspension_is_left_alone_unless_it_is_named(clean_cluster: Cluster, fencectl: Recover) -> None:
    """The rest of the chain goes, the lease included."""
    kept = make_kustomization(clean_cluster, "apps")
    with playing(clean_cluster, duration_s=1) as run:
        run.story["job_verified"] = True
        run.take_lease()
        run.enter_phase(run.suspend("flux-system", "apps", rank=1), Phase.KEPT, reason="rolled back")
    done = fencectl("recover", "--yes")
    assert done.code == 0, done.text
    assert "KEPT on purpose" in done.stderr
    assert clean_cluster.get(path_of(kept))["spec"]["suspend"] is True
    assert clean_cluster.get(LEASE_PATH)["spec"]["holderIdentity"] == ""
    name = "kustomization/flux-system/apps"
    # NB: the lease is free, so there is no heartbeat that could stand still: only a person can call it dead.
    assert fencectl("recover", "--yes", "--resume-kept", name).code == 19
    resumed = fencectl("recover", "--yes", "--resume-kept", name, "--accept-presumed")
    assert resumed.code == 0, resumed.text
    assert essence(clean_cluster.get(path_of(kept))) == essence(kept)


def test_two_dead_holders_are_recovered_one_by_one_or_all(
    clean_cluster: Cluster, fencectl: Recover, github: LoopbackGitHub
) -> None:
    """None picked is an error with the list; the one that holds the lease goes first."""
    nodes = [make_node(clean_cluster, name, taints=[]) for name in ("n1", "n2")]
    with playing(clean_cluster, holder=OTHER, duration_s=1) as run:
        run.story["job_verified"] = True
        run.cordon("n1")
    with playing(clean_cluster, duration_s=1) as run:
        run.story["job_verified"] = True
        run.take_lease()
        run.cordon("n2")
    github.job(18093399201, 1, 51234890117)
    both = fencectl("recover", "--yes", "--accept-presumed")
    assert both.code == 2, both.text
    assert HOLDER in both.stderr
    assert OTHER in both.stderr
    behind = fencectl("recover", "--yes", "--accept-presumed", "--holder", OTHER)
    assert behind.code == 19
    assert "--all" in behind.stderr
    done = fencectl("recover", "--yes", "--accept-presumed", "--all")
    assert done.code == 0, done.text
    assert state(clean_cluster, *map(path_of, nodes)) == {path_of(node): essence(node) for node in nodes}


def test_bridge_chain_is_recovered_without_a_take_over(
    clean_cluster: Cluster, fencectl: Recover, github: LoopbackGitHub
) -> None:
    """That tool knows no take-over: its lease stays its own until it is freed, last."""
    chain = bridge_chain(clean_cluster, duration_s=1)
    github.attempt(RUN, ATTEMPT)
    done = fencectl("recover", "--yes", "--profile", "ghcr-bridge", "-o", "json")
    assert done.code == 0, done.text
    (result,) = done.json["recoveries"]
    assert [s["result"] for s in result["steps"]] == ["released"] * 4
    assert clean_cluster.get(list(chain)[3])["spec"]["leaseTransitions"] == 4
    assert fencectl("fences", "--profile", "ghcr-bridge", "--exit-code").code == 0


# Before the first write the recovery tries each of its five patches without storing it.
REHEARSED = 5


@pytest.mark.parametrize("written", range(7))
def test_recovery_killed_after_each_of_its_writes_is_finished_by_a_second_one(
    sandbox: Sandbox, sandbox_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path, written: int
) -> None:
    """SIGKILL in between: the end state is that of an uninterrupted one."""
    before = killed_chain(sandbox_cluster, duration_s=1)
    kubeconfig = sandbox_cluster.kubeconfig_file(context="prod")
    held = sandbox.faults.hang(verb="patch", after=REHEARSED + written, times=1)
    killed = subprocess.Popen(
        [sys.executable, "-m", IMPATIENT, "recover", "--yes"],
        env=environment(kubeconfig, **github.env()),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    if written < 6:
        assert held.arrived.wait(60)
        killed.kill()
    killed.wait(60)
    held.release()
    patches = [asked for asked in sandbox.requests if asked.method == "PATCH" and "dryRun" not in asked.query]
    assert len(patches) >= written
    # NB: the one that was killed is a process of this machine, so its own death is proven here.
    done = run_program("recover", "--yes", kubeconfig=kubeconfig, cwd=tmp_path, env=github.env(), module=IMPATIENT)
    assert done.code == 0, done.text
    assert state(sandbox_cluster, *before) == {path: essence(obj) for path, obj in before.items()}
    assert sandbox_cluster.get(LEASE_PATH)["spec"]["holderIdentity"] == ""


def test_no_secret_is_ever_printed(clean_cluster: Cluster, fencectl: Recover, github: LoopbackGitHub) -> None:
    """Planted in the environment and the kubeconfig, with -vv, on the good way and on bad ones."""
    killed_chain(clean_cluster, duration_s=1)
    planted = "ghp_plantedsecret0123456789abcdef"
    github.token = planted
    in_kubeconfig = re.findall(
        r"^\s*(?:token|client-key-data|password): *(\S+)",
        clean_cluster.kubeconfig_file(context="prod").read_text(),
        re.MULTILINE,
    )
    assert in_kubeconfig or clean_cluster.name == "sandbox"
    for arguments in (
        ("fences", "-vv"),
        ("recover", "--dry-run", "-vv"),
        ("recover", "--yes", "-vv"),
        ("release", "-vv"),
    ):
        for fault in (None, Fault(401, body={"message": f"bad {planted}"}), Fault(200, body="{")):
            github.heal()
            if fault is not None:
                github.fault("/repos/", fault)
            shown = fencectl(*arguments, env={"GITHUB_TOKEN": planted, "KUBECONFIG_PLANTED": "x"})
            assert planted not in shown.text
            assert "Bearer" not in shown.text
            assert not [secret for secret in in_kubeconfig if secret.strip("\"'") in shown.text]
