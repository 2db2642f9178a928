"""
`recover` when something is at odds: a heartbeat that moves, two at once, a signal, a missing right, a late write.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencectl.cluster.write import send
from fencectl.core.answers import Applied
from fencectl.core.lease import renew_lease
from fencectl.core.refs import ObjectRef, Seen
from fencectl.sandbox import Gate, Sandbox
from tests.support.clusters import Cluster, grant, make_node, path_of
from tests.support.fencing import LEASE, essence, killed_chain, playing, state
from tests.support.github import LoopbackGitHub
from tests.support.objects import HOLDER
from tests.support.program import Ran, environment, run_program

RUN, ATTEMPT, JOB = 18093344127, 2, 51234567890
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/flux-system/leases/fencectl-deploy"
IMPATIENT = "tests.support.impatient"
Raw = dict[str, Any]


@pytest.fixture
def github() -> Iterator[LoopbackGitHub]:
    """GitHub, where the job of the killed run has ended."""
    with LoopbackGitHub() as server:
        server.attempt(RUN, ATTEMPT, status="in_progress")
        server.job(RUN, ATTEMPT, JOB)
        yield server


class Started:
    """A `recover` that runs beside the test."""

    def __init__(
        self, cluster: Cluster, github: LoopbackGitHub, folder: Path, *arguments: str, user: str = "admin"
    ):
        kubeconfig = cluster.kubeconfig_file(user, context="prod")
        self.process = subprocess.Popen(
            [sys.executable, "-m", IMPATIENT, "recover", "--yes", *arguments],
            env=environment(kubeconfig, **github.env()),
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self.said = ""

    def until(self, words: str) -> None:
        """Read what it says until these words come."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line
            if words in line:
                return
        raise AssertionError(f"`{words}` was never said: {self.said}")

    def end(self) -> Ran:
        stdout, stderr = self.process.communicate(timeout=60)
        return Ran(self.process.returncode, stdout, self.said + stderr)


def renew(cluster: Cluster, *, holder: str = HOLDER, transitions: int = 1) -> bool:
    """Renew as the holder would; whether the server took it."""
    with playing(cluster) as run:
        raw = cluster.get(LEASE_PATH)
        ref = ObjectRef("coordination.k8s.io/v1", "Lease", "leases", *LEASE, raw["metadata"]["uid"])
        patch = renew_lease(Seen(ref, raw), holder=holder, transitions=transitions, at=run.now)
        return isinstance(send(run.door, patch), Applied)


def test_case_05_heartbeat_that_moves_once_during_the_window_stops_it(
    clean_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path
) -> None:
    """GitHub says completed, and yet a process of that run renews its lease: 12, nothing changed."""
    before = killed_chain(clean_cluster, duration_s=1)
    fenced = state(clean_cluster, *before)
    started = Started(clean_cluster, github, tmp_path, "--watch-for", "30s")
    started.until("watching the lease")
    assert renew(clean_cluster)
    done = started.end()
    assert done.code == 12, done.text
    assert "its renewTime moved during the watch" in done.stderr
    assert state(clean_cluster, *before) == fenced
    assert clean_cluster.get(LEASE_PATH)["spec"]["holderIdentity"] == HOLDER


def test_holder_that_wakes_up_after_the_take_over_can_renew_nothing(
    clean_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path
) -> None:
    """Its token is gone: neither during the recovery nor after it does a renewal pass."""
    killed_chain(clean_cluster, duration_s=1)
    started = Started(clean_cluster, github, tmp_path)
    started.until("taken over")
    assert not renew(clean_cluster)
    done = started.end()
    assert done.code == 0, done.text
    assert not renew(clean_cluster)
    assert not renew(clean_cluster, transitions=2)


def test_two_recoveries_at_once_do_no_harm(clean_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path) -> None:
    """One takes the lease over and finishes; the other says so, or finds nothing left to do."""
    before = killed_chain(clean_cluster, duration_s=1)
    both = [Started(clean_cluster, github, tmp_path) for _ in range(2)]
    codes = sorted(started.end().code for started in both)
    assert codes in ([0, 0], [0, 12], [0, 19])
    assert state(clean_cluster, *before) == {path: essence(obj) for path, obj in before.items()}
    assert clean_cluster.get(LEASE_PATH)["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_it_between_two_writes_and_hands_the_lease_back(
    sandbox: Sandbox, sandbox_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path, number: signal.Signals
) -> None:
    """What is left stays fenced in the old holder's name, token + 2; the next recovery does the rest."""
    before = killed_chain(sandbox_cluster, duration_s=1)
    gate = Gate()
    held = sandbox.faults.delay(gate=gate, verb="patch", resource="nodes", after=2, times=1)
    started = Started(sandbox_cluster, github, tmp_path)
    assert held.arrived.wait(60)
    started.process.send_signal(number)
    started.process.send_signal(number)
    gate.open()
    done = started.end()
    assert done.code == 11, done.text
    assert "interrupted" in done.stderr
    assert "STILL HELD" in done.stderr
    lease = sandbox_cluster.get(LEASE_PATH)["spec"]
    assert (lease["holderIdentity"], lease["leaseTransitions"]) == (HOLDER, 3)
    kubeconfig = sandbox_cluster.kubeconfig_file(context="prod")
    again = run_program(
        "recover", "--yes", kubeconfig=kubeconfig, cwd=tmp_path, env=github.env(), module=IMPATIENT
    )
    assert again.code == 0, again.text
    assert state(sandbox_cluster, *before) == {path: essence(obj) for path, obj in before.items()}


def test_refusal_half_way_says_which_field_changed_and_by_whom(
    sandbox: Sandbox, sandbox_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path
) -> None:
    """Released n, still fenced m; run again, it takes the fence as it is now."""
    before = killed_chain(sandbox_cluster, duration_s=1)
    child = list(before)[1]

    def resume() -> None:
        sandbox_cluster.merge_patch(child, {"spec": {"suspend": None}}, manager="flux")

    # NB: between the fresh read and the write: the first such patch is the rehearsal, the second one is meant.
    sandbox.faults.on(resume, verb="patch", name="infrastructure", after=1, times=1)
    started = Started(sandbox_cluster, github, tmp_path)
    done = started.end()
    assert done.code == 11, done.text
    assert "REFUSED kustomization/flux-system/infrastructure" in done.stderr
    assert "spec.suspend was true when read, now it is absent" in done.stderr
    assert "2 released, 3 fences STILL HELD" in done.stderr
    kubeconfig = sandbox_cluster.kubeconfig_file(context="prod")
    again = run_program(
        "recover", "--yes", kubeconfig=kubeconfig, cwd=tmp_path, env=github.env(), module=IMPATIENT
    )
    assert again.code == 0, again.text
    assert state(sandbox_cluster, *before) == {path: essence(obj) for path, obj in before.items()}


def test_answer_that_is_lost_is_read_back_and_goes_on(
    sandbox: Sandbox, sandbox_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path
) -> None:
    """Of the take-over, of a release, of the freeing: applied, and never answered."""
    before = killed_chain(sandbox_cluster, duration_s=1)
    for resource, name, rehearsed in (
        ("leases", "fencectl-deploy", 1),
        ("nodes", "worker-3", 1),
        ("kustomizations", "flux-system", 1),
    ):
        sandbox.faults.drop_after(verb="patch", resource=resource, name=name, after=rehearsed, times=1)
    done = Started(sandbox_cluster, github, tmp_path).end()
    assert done.code == 0, done.text
    assert state(sandbox_cluster, *before) == {path: essence(obj) for path, obj in before.items()}
    assert sandbox_cluster.get(LEASE_PATH)["spec"]["holderIdentity"] == ""


def test_fence_that_appears_late_is_swept_before_the_lease_is_freed(
    sandbox: Sandbox, sandbox_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path
) -> None:
    """A write of the dead holder that the server carries out only now."""
    node = make_node(sandbox_cluster, "late", taints=[])
    killed_chain(sandbox_cluster, duration_s=1)

    def place() -> None:
        with playing(sandbox_cluster, duration_s=1) as run:
            run.story["job_verified"] = True
            run.cordon("late")

    sandbox.faults.on(place, verb="patch", name="flux-system", after=1, times=1)
    done = Started(sandbox_cluster, github, tmp_path).end()
    assert done.code == 0, done.text
    assert re.search(r"released node/late", done.stderr)
    assert state(sandbox_cluster, path_of(node)) == {path_of(node): essence(node)}


@pytest.mark.real
@pytest.mark.parametrize("missing", ["nodes", "kustomizations", "leases"])
def test_missing_right_is_named_before_the_first_write(
    real: Cluster, github: LoopbackGitHub, tmp_path: Path, missing: str
) -> None:
    """Every patch is tried first, so a missing verb never stops it half-way."""
    real.wipe()
    before = killed_chain(real, duration_s=1)
    fenced = state(real, *before, LEASE_PATH)
    reads: list[Raw] = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]
    groups = {"nodes": "", "kustomizations": "kustomize.toolkit.fluxcd.io", "leases": "coordination.k8s.io"}
    writes: list[Raw] = [
        {"apiGroups": [group], "resources": [resource], "verbs": ["patch"]}
        for resource, group in groups.items()
        if resource != missing
    ]
    grant(real, "user-4", *reads, *writes)
    done = Started(real, github, tmp_path, user="user-4").end()
    assert done.code == 21, done.text
    assert missing in done.stderr
    assert "nothing was released" in done.stderr
    assert state(real, *before, LEASE_PATH) == fenced


@pytest.mark.real
def test_one_kind_that_may_not_be_listed_stops_it_before_the_first_write(
    real: Cluster, github: LoopbackGitHub, tmp_path: Path
) -> None:
    """A fence may be hidden there, of this holder too: 21, with verb and resource, nothing changed."""
    real.wipe(everything=True)
    before = killed_chain(real, duration_s=1)
    fenced = state(real, *before, LEASE_PATH)
    everything: list[Raw] = [
        {"apiGroups": [group], "resources": ["*"], "verbs": ["*"]}
        for group in ("coordination.k8s.io", "kustomize.toolkit.fluxcd.io", "source.toolkit.fluxcd.io")
    ]
    core: Raw = {"apiGroups": [""], "resources": ["configmaps", "namespaces"], "verbs": ["*"]}
    nodes: Raw = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]}
    grant(real, "user-6", *everything, core, nodes)
    done = Started(real, github, tmp_path, user="user-6").end()
    assert done.code == 21, done.text
    assert "list" in done.stderr
    assert "nodes" in done.stderr
    assert state(real, *before, LEASE_PATH) == fenced


def test_twenty_fences_of_one_run_cause_one_look_up(
    clean_cluster: Cluster, github: LoopbackGitHub, tmp_path: Path
) -> None:
    """Counted on the wire."""
    for number in range(20):
        make_node(clean_cluster, f"n{number:02}")
    with playing(clean_cluster) as run:
        run.story["job_verified"] = True
        run.take_lease()
        for number in range(20):
            run.cordon(f"n{number:02}")
    kubeconfig = clean_cluster.kubeconfig_file(context="prod")
    shown = run_program("fences", "-o", "json", kubeconfig=kubeconfig, cwd=tmp_path, env=github.env())
    assert shown.json["held"] == 21
    assert {fence["strength"] for fence in shown.json["fences"]} == {"proven"}
    assert github.paths() == [f"/repos/acme/platform/actions/jobs/{JOB}"]
