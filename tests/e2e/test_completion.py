"""
What completion offers from a kubeconfig and from a cluster, and `kubectl fencectl` by the real kubectl.

Time is not measured here: the program under test has a minute, but where it is about a server that never answers.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fencectl.core.journal import Phase
from fencectl.sandbox import Gate, Sandbox
from tests.support.clusters import Cluster, make_kustomization, make_lease, make_node
from tests.support.fencing import killed_chain, playing
from tests.support.program import environment

UNHURRIED = "tests.support.unhurried"


def complete(line: str, kubeconfig: Path, folder: Path, *, module: str = UNHURRIED) -> list[str]:
    """Ask as bash does when a key is pressed behind this line."""
    asked = {
        "_FENCECTL_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", module],
        env=environment(kubeconfig, **asked), cwd=folder, capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


def test_what_is_held_is_completed_where_it_is_asked_for(clean_cluster: Cluster, tmp_path: Path) -> None:
    """Fences by the names that `release` takes, holders as `--holder` takes them."""
    killed_chain(clean_cluster, duration_s=1)
    kubeconfig = clean_cluster.kubeconfig_file(context="prod")
    every = ["kustomization/flux-system/flux-system", "kustomization/flux-system/infrastructure",
             "lease/flux-system/fencectl-deploy", "node/worker-2", "node/worker-3"]  # fmt: skip
    assert complete("fencectl release ", kubeconfig, tmp_path) == every
    assert complete("fencectl release --context prod node/", kubeconfig, tmp_path) == every[3:]
    assert complete("fencectl recover --holder ", kubeconfig, tmp_path) == ["18093344127.2"]
    assert complete("fencectl release --holder 9", kubeconfig, tmp_path) == []
    assert complete("fencectl recover --resume-kept ", kubeconfig, tmp_path) == []


def test_what_a_person_vouches_for_is_only_what_needs_it(
    sandbox: Sandbox, sandbox_cluster: Cluster, tmp_path: Path
) -> None:
    """A node in `mutating`, a suspension that was kept; and it only reads."""
    make_node(sandbox_cluster, "half", taints=[])
    make_node(sandbox_cluster, "whole", taints=[])
    make_kustomization(sandbox_cluster, "apps")
    with playing(sandbox_cluster, duration_s=1) as run:
        run.take_lease()
        run.enter_phase(run.suspend("flux-system", "apps", rank=1), Phase.KEPT, reason="rolled back")
        run.cordon("whole")
        run.enter_phase(run.cordon("half"), Phase.MUTATING)
    sandbox.requests.clear()
    kubeconfig = sandbox_cluster.kubeconfig_file(context="prod")
    assert complete("fencectl recover --node-verified ", kubeconfig, tmp_path) == ["half"]
    assert complete("fencectl recover --resume-kept k", kubeconfig, tmp_path) == ["kustomization/flux-system/apps"]
    assert {entry.method for entry in sandbox.requests.all()} == {"GET"}


def test_contexts_of_the_kubeconfig_and_targets_of_the_config_are_completed(tmp_path: Path) -> None:
    """No cluster is asked. What a shell would act on is never put into a line."""
    names = ["dev", "prod-admin", "p$(touch pwned)", "p;q", "-p", "arn:aws:eks:eu-west-1:1:cluster/prod"]
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    contexts = [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in names]
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump({"clusters": [cluster], "contexts": contexts, "users": []}))
    config = {"apiVersion": "fencectl.dev/v1", "kind": "Config", "targets": {"prod": {"context": "prod-admin"}}}
    (tmp_path / "fencectl.yaml").write_text(yaml.safe_dump(config))
    every = complete("fencectl fences --context ", kubeconfig, tmp_path)
    assert every == ["arn:aws:eks:eu-west-1:1:cluster/prod", "dev", "prod", "prod-admin"]
    assert complete("fencectl deploy --context p", kubeconfig, tmp_path) == ["prod", "prod-admin"]


def test_hostile_holder_is_never_offered(sandbox_cluster: Cluster, tmp_path: Path) -> None:
    """It would stand in the line, and run with the next Enter."""
    spec = {"holderIdentity": "x$(touch pwned)", "leaseDurationSeconds": 1}
    make_lease(sandbox_cluster, "fencectl-deploy", namespace="flux-system", spec=spec)
    kubeconfig = sandbox_cluster.kubeconfig_file(context="prod")
    assert complete("fencectl release --holder ", kubeconfig, tmp_path) == []
    assert complete("fencectl release ", kubeconfig, tmp_path) == ["lease/flux-system/fencectl-deploy"]


@pytest.mark.parametrize("why", ["silent", "away", "none"])
def test_cluster_that_does_not_answer_offers_nothing_and_says_nothing(
    sandbox: Sandbox, sandbox_cluster: Cluster, tmp_path: Path, why: str
) -> None:
    """The key press ends all the same, by its budget: this server would never have answered."""
    kubeconfig = sandbox_cluster.kubeconfig_file(context="prod")
    gate = Gate()
    if why == "silent":
        sandbox.faults.delay(gate=gate)
    elif why == "away":
        sandbox.stop()
    else:
        kubeconfig = tmp_path / "none"
    assert complete("fencectl release ", kubeconfig, tmp_path, module="fencectl") == []
    assert complete("fencectl recover --holder ", kubeconfig, tmp_path, module="fencectl") == []
    gate.open()


@pytest.fixture
def plugin(clean_cluster: Cluster, tmp_path: Path) -> dict[str, str]:
    """An environment in which the real kubectl finds the plugin, and what completes it."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    installed = Path(sys.executable).parent / "kubectl-fencectl"
    (bin_ / "kubectl-fencectl").symlink_to(installed)
    completer = bin_ / "kubectl_complete-fencectl"
    completer.write_text(f'#!/bin/sh\nexec {sys.executable} -m {UNHURRIED} --for-kubectl "$@"\n')
    completer.chmod(0o700)
    env = environment(clean_cluster.kubeconfig_file(context="prod"))
    kubectl = clean_cluster.kubectl_environment()["PATH"]
    return env | {"PATH": f"{bin_}{os.pathsep}{kubectl}", "HOME": str(tmp_path)}


def test_real_kubectl_runs_it_as_a_plugin_with_its_exit_code(
    plugin: dict[str, str], clean_cluster: Cluster, tmp_path: Path
) -> None:
    """The status is what a gate goes by; help names it as it was called."""
    killed_chain(clean_cluster, duration_s=1)

    def kubectl(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["kubectl", "fencectl", *words],
            env=plugin, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    gate = kubectl("fences", "--exit-code", "--context", "prod")
    assert gate.returncode == 20, gate.stderr
    assert "5 fences held on prod by 1 holder" in gate.stdout
    assert kubectl("fences", "-h").stdout.startswith("Usage: kubectl fencectl fences [OPTIONS]\n")
    wrong = kubectl("fence")
    assert (wrong.returncode, "did you mean `kubectl fencectl fences`?" in wrong.stderr) == (2, True)


def test_real_kubectl_completes_the_plugin(plugin: dict[str, str], clean_cluster: Cluster, tmp_path: Path) -> None:
    """Verbs, runbooks, and what is held; kubectl looks for no file names."""
    killed_chain(clean_cluster, duration_s=1)

    def offered(*words: str) -> list[str]:
        done = subprocess.run(
            ["kubectl", "__complete", "fencectl", *words],
            env=plugin, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        return done.stdout.splitlines()

    assert offered("re") == ["release", "recover", ":4"]
    assert offered("runbook", "still") == ["still-fenced", ":4"]
    assert offered("release", "node/") == ["node/worker-2", "node/worker-3", ":4"]
    assert offered("fences", "--context", "") == ["prod", ":4"]
