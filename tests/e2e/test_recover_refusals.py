"""
`recover` and its exit codes where the moment is the worst one: between the watch and the look that is acted on.

Aspects: a heartbeat just after the window · a lease freed by hand · a server that is away · an interrupt while patches
are tried · two holders, of which the second cannot be recovered · nothing left to do.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencectl.core.journal import Phase
from fencectl.sandbox import Gate, Sandbox
from tests.e2e.test_recover_at_odds import Started, renew
from tests.support.clusters import Cluster, make_kustomization, make_node, path_of
from tests.support.fencing import essence, killed_chain, playing, state
from tests.support.github import SELF_HOSTED, LoopbackGitHub
from tests.support.objects import HOLDER, OTHER

RUN, ATTEMPT, JOB = 18093344127, 2, 51234567890
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/flux-system/leases/fencectl-deploy"


@pytest.fixture
def github() -> Iterator[LoopbackGitHub]:
    """GitHub, where the jobs of both killed runs have ended."""
    with LoopbackGitHub() as server:
        server.attempt(RUN, ATTEMPT, status="in_progress")
        server.job(RUN, ATTEMPT, JOB)
        server.job(18093399201, 1, 51234890117)
        yield server


def test_heartbeat_between_the_watch_and_the_look_that_is_acted_on_stops_it(
    sandbox: Sandbox, sandbox_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path
) -> None:
    """That look would show the fresh heartbeat as one that stood still, and the take-over would guard it."""
    before = killed_chain(sandbox_cluster, duration_s=1)
    fenced = state(sandbox_cluster, *before)
    gate = Gate()
    held = sandbox.faults.delay(gate=gate, verb="list", resource="leases", after=1, times=1)
    started = Started(sandbox_cluster, github, tmp_path)
    assert held.arrived.wait(60)
    assert renew(sandbox_cluster)
    gate.open()
    done = started.end()
    assert done.code == 12, done.text
    assert "its renewTime moved during the watch" in done.stderr
    assert state(sandbox_cluster, *before) == fenced
    assert sandbox_cluster.get(LEASE_PATH)["spec"]["holderIdentity"] == HOLDER


def test_lease_that_is_freed_by_hand_during_the_watch_is_not_called_alive(
    sandbox: Sandbox, sandbox_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path
) -> None:
    """Somebody is at work there; looking again helps, ending a process does not."""
    before = killed_chain(sandbox_cluster, duration_s=1)
    fenced = state(sandbox_cluster, *before)
    started = Started(sandbox_cluster, github, tmp_path, "--watch-for", "30s")
    started.until("watching the lease")
    sandbox_cluster.merge_patch(LEASE_PATH, {"spec": {"holderIdentity": ""}})
    done = started.end()
    assert done.code == 12, done.text
    assert "its holderIdentity moved" in done.stderr
    assert "the holder is alive" not in done.stderr
    assert state(sandbox_cluster, *before) == fenced


def test_server_that_does_not_answer_during_the_watch_is_not_readable(
    sandbox: Sandbox, sandbox_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path
) -> None:
    """21: neither a refusal nor a fault of ours."""
    killed_chain(sandbox_cluster, duration_s=1)
    sandbox.faults.refuse(status=500, verb="get", resource="leases", name="fencectl-deploy", after=0)
    done = Started(sandbox_cluster, github, tmp_path).end()
    assert done.code == 21, done.text
    assert "unexpected" not in done.stderr


def test_server_that_dies_before_the_first_write_is_not_readable(
    sandbox: Sandbox, sandbox_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path
) -> None:
    """The rehearsal gets no answer: nothing was changed, and no person is needed for that."""
    before = killed_chain(sandbox_cluster, duration_s=1)
    fenced = state(sandbox_cluster, *before, LEASE_PATH)
    sandbox.faults.drop_before(verb="patch")
    done = Started(sandbox_cluster, github, tmp_path).end()
    assert done.code == 21, done.text
    assert "nothing was released" in done.stderr
    sandbox.faults.clear()
    assert state(sandbox_cluster, *before, LEASE_PATH) == fenced


def test_take_over_that_nobody_can_confirm_is_said_to_be_open(
    sandbox: Sandbox, sandbox_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path
) -> None:
    """11: a write went out, and nobody can say what came of it."""
    killed_chain(sandbox_cluster, duration_s=1)
    sandbox.faults.drop_before(verb="patch", resource="leases", after=1)
    done = Started(sandbox_cluster, github, tmp_path).end()
    assert done.code == 11, done.text
    assert "nobody can say whether the lease was taken over" in done.stderr
    assert "nothing was released" not in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signal_while_patches_are_tried_leaves_everything_as_it_is(
    sandbox: Sandbox,
    sandbox_cluster: Cluster,
    github: LoopbackGitHub,
    tmp_path: Path,
    number: signal.Signals,
    code: int,
) -> None:
    """Nothing is written yet, so there is nothing to hand back."""
    before = killed_chain(sandbox_cluster, duration_s=1)
    fenced = state(sandbox_cluster, *before, LEASE_PATH)
    gate = Gate()
    held = sandbox.faults.delay(gate=gate, verb="patch", times=1)
    started = Started(sandbox_cluster, github, tmp_path)
    assert held.arrived.wait(60)
    started.process.send_signal(number)
    gate.open()
    done = started.end()
    assert done.code == code, done.text
    assert state(sandbox_cluster, *before, LEASE_PATH) == fenced


def test_second_holder_that_cannot_be_recovered_leaves_it_half_way(
    sandbox: Sandbox, sandbox_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path
) -> None:
    """11: the first one's fences are gone, the second one's are held, and are named."""
    for name in ("n1", "n2"):
        make_node(sandbox_cluster, name, taints=[])
    with playing(sandbox_cluster, holder=OTHER, duration_s=1) as run:
        run.story["job_verified"] = True
        run.cordon("n1")
    with playing(sandbox_cluster, duration_s=1) as run:
        run.story["job_verified"] = True
        run.take_lease()
        run.cordon("n2")
    # The first plan tries n2 and writes it; then n1 is tried, and refused.
    sandbox.faults.refuse(status=403, verb="patch", name="n1")
    done = Started(sandbox_cluster, github, tmp_path, "--all", "--accept-presumed").end()
    assert done.code == 11, done.text
    assert "node/n1" in done.stderr


def test_holders_that_come_after_a_stop_are_named_as_still_held(
    sandbox: Sandbox, sandbox_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path
) -> None:
    """Their recovery never began; what they hold is not passed over in silence."""
    for name in ("n1", "n2"):
        make_node(sandbox_cluster, name, taints=[])
    with playing(sandbox_cluster, holder=OTHER, duration_s=1) as run:
        run.story["job_verified"] = True
        run.cordon("n1")
    with playing(sandbox_cluster, duration_s=1) as run:
        run.story["job_verified"] = True
        run.take_lease()
        run.cordon("n2")
    sandbox.faults.refuse(status=403, verb="patch", name="n2", after=1)
    done = Started(sandbox_cluster, github, tmp_path, "--all", "--accept-presumed", "-o", "json").end()
    assert done.code == 11, done.text
    first, second = done.json["recoveries"]
    assert first["left"] == ["node/n2", "lease/flux-system/fencectl-deploy"]
    assert (second["left"], second["steps"]) == (["node/n1"], [])
    assert "never begun" in second["stopped"]


def test_case_46_job_that_ended_on_a_self_hosted_runner_is_recovered_only_by_a_persons_choice(
    sandbox: Sandbox, sandbox_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path
) -> None:
    """The heartbeat stands still, and yet a starved runner may have left the process behind: presumed, not proven."""
    before = killed_chain(sandbox_cluster, duration_s=1)
    fenced = state(sandbox_cluster, *before, LEASE_PATH)
    github.job(RUN, ATTEMPT, JOB, runner=SELF_HOSTED)
    done = Started(sandbox_cluster, github, tmp_path).end()
    assert done.code == 19, done.text
    assert "--accept-presumed" in done.stderr
    assert state(sandbox_cluster, *before, LEASE_PATH) == fenced
    chosen = Started(sandbox_cluster, github, tmp_path, "--accept-presumed").end()
    assert chosen.code == 0, chosen.text
    assert state(sandbox_cluster, *before) == {path: essence(obj) for path, obj in before.items()}


@pytest.mark.parametrize("cordoned", [True, False])
def test_case_10_claim_whose_cordon_was_lifted_or_not_is_recovered_from_what_is_so_now(
    sandbox: Sandbox, sandbox_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path, cordoned: bool
) -> None:
    """The journal says what was meant; the node is released by its live value, and again without harm."""
    node = make_node(sandbox_cluster, "n1", taints=[])
    with playing(sandbox_cluster, duration_s=1) as run:
        run.story["job_verified"] = True
        run.take_lease()
        run.cordon("n1")
    if not cordoned:
        sandbox_cluster.merge_patch(path_of(node), {"spec": {"unschedulable": None}}, manager="kubectl")
    for _ in range(2):
        done = Started(sandbox_cluster, github, tmp_path).end()
        assert done.code == 0, done.text
        assert state(sandbox_cluster, path_of(node)) == {path_of(node): essence(node)}


def test_only_kept_fences_left_change_nothing(
    sandbox: Sandbox, sandbox_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path
) -> None:
    """The lease is free and stays untouched."""
    kept = make_kustomization(sandbox_cluster, "apps")
    with playing(sandbox_cluster, duration_s=1) as run:
        run.story["job_verified"] = True
        run.take_lease()
        run.enter_phase(run.suspend("flux-system", "apps", rank=1), Phase.KEPT, reason="rolled back")
    assert Started(sandbox_cluster, github, tmp_path).end().code == 0
    before = sandbox_cluster.get(LEASE_PATH)
    done = Started(sandbox_cluster, github, tmp_path, "--accept-presumed").end()
    assert done.code == 0, done.text
    assert "KEPT on purpose" in done.stderr
    assert sandbox_cluster.get(LEASE_PATH) == before
    assert sandbox_cluster.get(path_of(kept))["spec"]["suspend"] is True
