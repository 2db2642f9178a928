"""
The composite action and its example workflows, run as a runner runs them: gate, deploy, recover; cancelled and killed.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import prefork
from tests.support.clusters import Cluster, ensure_namespace
from tests.support.deploys import HASTY, LEASE_PATH, Child, DeployScene
from tests.support.fencing import killed_chain
from tests.support.github import HOSTED, LoopbackGitHub
from tests.support.program import environment, run_program
from tests.support.runner import EXAMPLES, Job, load, value_of
from tests.support.shells import CLIENT

RUN, ATTEMPT, JOB = 18093344127, 2, 51234567890
# A healing job runs on another machine: nothing of the dead one can be looked at.
ELSEWHERE = "tests.support.elsewhere"


@dataclass
class Actions:
    """A repository's runs on GitHub, on runners of a cluster's deploys."""

    cluster: Cluster
    github: LoopbackGitHub
    folder: Path
    user: str = "admin"
    jobs: int = 0

    def job(self, *, number: int = JOB, signalled: bool = False, module: str = HASTY, **more: Any) -> Job:
        """A job that runs now. `signalled`: its fencectl is a process that signals reach; else one of `module`."""
        self.github.attempt(RUN, ATTEMPT, status="in_progress")
        self.github.job(RUN, ATTEMPT, number, status="in_progress", runner={**HOSTED, "runner_name": f"r{number}"})
        told = self.github.env()
        token = told.pop("GITHUB_TOKEN")
        path = self.cluster.kubectl_environment()["PATH"]
        kubeconfig = self.cluster.kubeconfig_file(self.user, context="prod")
        self.jobs += 1
        folder = self.folder / f"job-{self.jobs}"
        env = environment(
            kubeconfig,
            PATH=path,
            HOME=str(folder),
            RUNNER_TEMP=str(folder / "runner-temp"),
            GITHUB_ACTIONS="true",
            CI="true",
            GITHUB_RUN_ID=str(RUN),
            GITHUB_RUN_ATTEMPT=str(ATTEMPT),
            GITHUB_JOB="deploy",
            GITHUB_SHA="4f2a91c07be3d855" + "0" * 24,
            RUNNER_NAME=f"r{number}",
            RUNNER_ENVIRONMENT="github-hosted",
            **told,
        )
        if not signalled:
            env["FENCECTL_FORKS"] = str(prefork.server_for(module, env).descriptor)
        contexts = {"github": {"token": token}, "job": {"check_run_id": number}, "runner": {}, "env": {}}
        return Job(folder, env, contexts, **more)

    def program(self, *, signalled: bool = False) -> str:
        """A fencectl that is installed already."""
        path = self.folder / ("fencectl-process" if signalled else "fencectl")
        runs = f"-m {HASTY}" if signalled else f"-I -S {CLIENT}"
        path.write_text(f'#!/bin/sh\nexec {sys.executable} {runs} "$@"\n')
        path.chmod(0o700)
        return str(path)

    def run(self, mode: str, *, job: Job | None = None, **inputs: str) -> tuple[Job, dict[str, str]]:
        """Run the action in a job."""
        job = job or self.job()
        given = {"mode": mode, "program": self.program(), **inputs}
        return job, job.action({name.replace("_", "-"): value for name, value in given.items()})


@pytest.fixture
def actions(sandbox_cluster: Cluster, tmp_path: Path) -> Iterator[Actions]:
    with LoopbackGitHub() as github:
        yield Actions(sandbox_cluster, github, tmp_path)


def commands_of(job: Job) -> list[str]:
    return [line for line in job.log.splitlines() if line.startswith("::")]


def test_gate_passes_where_nothing_is_held_and_the_summary_says_how_much_was_read(actions: Actions) -> None:
    """Green, and not in silence."""
    ensure_namespace(actions.cluster, "flux-system")
    job, outputs = actions.run("gate", context="prod")
    assert (job.status, job.ended_by["fencectl"]) == ("success", 0), job.log
    assert "no fence is held" in job.summary
    assert outputs == {"outcome": "", "certification": ""}


def test_gate_stops_before_fences_of_a_dead_run_and_names_the_way_out(actions: Actions) -> None:
    """One annotation for its holder, the evidence and the commands in the summary."""
    killed_chain(actions.cluster, duration_s=1)
    job = actions.job(number=JOB + 1)
    actions.github.job(RUN, ATTEMPT, JOB)
    job, _ = actions.run("gate", job=job, context="prod")
    assert (job.status, job.ended_by["fencectl"]) == ("failure", 20), job.log
    [error] = [line for line in commands_of(job) if line.startswith("::error")]
    assert error.startswith("::error title=prod%3A 5 fences held%2C dead (proven)::")
    assert "`fencectl recover --context prod`" in job.summary
    assert "<summary>5 release commands" in job.summary


def test_gate_that_may_not_read_everything_is_not_a_pass(actions: Actions) -> None:
    """21; the summary says so too, and its own step does not fail once more."""
    ensure_namespace(actions.cluster, "flux-system")
    actions.user = "viewer"
    job, _ = actions.run("gate")
    assert (job.status, job.ended_by["fencectl"]) == ("failure", 21), job.log
    assert "INCOMPLETE" in job.summary


def test_deploy_of_a_script_runs_it_inside_the_fences(actions: Actions) -> None:
    """With the private kubeconfig, by bash as a step would; the outcome is an output, the summary tells both."""
    ensure_namespace(actions.cluster, "flux-system")
    script = (
        'false | true || echo "pipefail"\ntest -n "$FENCECTL_TOKEN"\nkubectl get lease -n flux-system -o name >out'
    )
    job, outputs = actions.run("deploy", context="prod", run=script)
    assert job.status == "success", job.log
    assert outputs == {"outcome": "ok", "certification": "not-requested"}
    assert "pipefail" in job.log
    assert (job.folder / "workspace/out").read_text() == "lease.coordination.k8s.io/fencectl-deploy\n"
    assert "Deployed generation 1 to prod" in job.summary
    assert "no fence is held" in job.summary
    record = json.loads(
        actions.cluster.get("/api/v1/namespaces/flux-system/configmaps/fencectl-deploy-record")["data"]["record-1"]
    )
    assert f"-gh{RUN}.{ATTEMPT}-j{JOB}-" in record["holder"]


def test_arguments_are_words_and_nothing_of_them_is_run(actions: Actions) -> None:
    """One on each line; quotes, blanks and substitutions in them are letters."""
    ensure_namespace(actions.cluster, "flux-system")
    (actions.folder / "x y").mkdir()
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made", "namespace": "default"}}
    (actions.folder / "x y" / "it's $(touch pwned).yaml").write_text(yaml.safe_dump(manifest))
    args = f"-f\n{actions.folder}/x y/it's $(touch pwned).yaml\n\n"
    job, outputs = actions.run("deploy", args=args, context="prod")
    assert (job.status, outputs["outcome"]) == ("success", "ok"), job.log
    assert actions.cluster.get("/api/v1/namespaces/default/configmaps/made")
    hostile, _ = actions.run("gate", context='p"$(touch pwned)`touch pwned`; touch pwned')
    assert hostile.ended_by["fencectl"] == 2, hostile.log
    assert list(actions.folder.rglob("pwned")) == []


def test_deploy_that_fails_fails_the_job_and_says_what_it_ended_as(actions: Actions) -> None:
    """So that a later job can branch on it."""
    ensure_namespace(actions.cluster, "flux-system")
    job, outputs = actions.run("deploy", run="exit 3")
    assert (job.status, job.ended_by["fencectl"]) == ("failure", 18), job.log
    assert outputs == {"outcome": "failed_new_state_live", "certification": "not-requested"}
    assert any(line.startswith("::error title=") for line in commands_of(job))


def test_case_47_cancel_reaches_the_deploy_and_leaves_nothing_fenced(actions: Actions) -> None:
    """INT to the step's entry process is enough: all is released long before TERM; the summary is still written."""
    scene = DeployScene.on(actions.cluster, actions.folder)
    child = Child(actions.folder)
    job = actions.job(signalled=True, cancel_when=child.began.exists)
    args = "\n".join(scene.fences)
    script = child.command[2]
    program = actions.program(signalled=True)
    job, outputs = actions.run("deploy", job=job, args=args, run=script, context="prod", program=program)
    assert (job.status, job.ended_by["fencectl"]) == ("cancelled", 18), job.log
    assert outputs == {"outcome": "failed_new_state_live", "certification": "not-requested"}
    assert "is not the entry process" not in job.log
    scene.assert_free()
    assert "no fence is held" in job.summary


def test_runner_that_is_lost_leaves_what_a_healing_job_of_the_same_run_recovers(actions: Actions) -> None:
    """The job's id was recorded and checked: its end is proof, although its run goes on."""
    scene = DeployScene.on(actions.cluster, actions.folder)
    child = Child(actions.folder)
    deploying = actions.job(signalled=True)
    env = {name: value for name, value in deploying.env.items() if name.startswith(("GITHUB_", "RUNNER_"))}
    env |= {"FENCECTL_JOB_ID": str(JOB), "GITHUB_TOKEN": deploying.contexts["github"]["token"]}
    running = scene.start(*scene.fences, command=child.command, module=HASTY, env=env)
    child.wait_begun(running)
    running.kill()
    scene.age_lease()
    unproven, _ = actions.run(
        "recover", job=actions.job(number=JOB + 1, module=ELSEWHERE), token="", context="prod"
    )
    assert unproven.ended_by["fencectl"] == 19, unproven.log
    heal = actions.job(number=JOB + 1, module=ELSEWHERE)
    actions.github.job(RUN, ATTEMPT, JOB)
    heal, _ = actions.run("recover", job=heal, context="prod")
    assert (heal.status, heal.ended_by["fencectl"]) == ("success", 0), heal.log
    assert scene.now() == scene.before
    assert "no fence is held" in heal.summary


@pytest.mark.parametrize(
    ("mode", "script", "says"),
    [("unlock", "", "mode is gate, deploy or recover"), ("gate", "x", "with the mode deploy only")],
)
def test_wrong_inputs_are_said_before_anything_is_installed_or_read(
    actions: Actions, mode: str, script: str, says: str
) -> None:
    """And the summary's step, which would need the program, does not run."""
    job, outputs = actions.run(mode, run=script)
    assert job.status == "failure"
    assert says in job.log
    assert "fencectl" not in job.ended_by
    assert (outputs, job.summary) == ({"outcome": "", "certification": ""}, "")


def test_without_a_program_the_one_of_its_own_commit_is_installed(actions: Actions) -> None:
    """Offline here: what it is built by and what it needs lie beside this test."""
    ensure_namespace(actions.cluster, "flux-system")
    job = actions.job(signalled=True)
    packages = str(Path(yaml.__file__).parents[1])
    job.env |= {
        "PYTHONPATH": packages,
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_IGNORE_INSTALLED": "1",
    }
    python = actions.folder / "python"
    python.mkdir()
    (python / "python3").symlink_to(sys.executable)
    job.env["PATH"] = f"{python}{os.pathsep}{job.env['PATH']}"
    job.action({"mode": "gate", "context": "prod"})
    assert job.status == "success", job.log
    assert job.env["FENCECTL_PROGRAM"] == str(job.temp / "fencectl/bin/fencectl")
    assert (job.temp / "fencectl/lib").is_dir()
    [shipped] = (job.temp / "fencectl/lib").rglob("fencectl/runbooks/still-fenced.md")
    assert shipped.is_file()


# The examples


def example(name: str) -> dict[str, Any]:
    return load(EXAMPLES / name)


def run_example(actions: Actions, workflow: str, name: str, *, number: int = JOB) -> Job:
    """Run a job of an example, with a kubeconfig as its secret, and a folder of manifests as its checkout."""
    job = actions.job(number=number)
    kubeconfig = actions.cluster.kubeconfig_file(context="prod").read_text()
    del job.env["KUBECONFIG"]
    manifests = job.folder / "workspace/deploy"
    manifests.mkdir(parents=True)
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made", "namespace": "default"}}
    (manifests / "all.yaml").write_text(yaml.safe_dump(made))
    contexts = {**job.contexts, "secrets": {"KUBECONFIG": kubeconfig}}
    steps = example(workflow)["jobs"][name]["steps"]
    for step in steps:
        if "fencectl" in step.get("uses", ""):
            step["with"]["program"] = actions.program()
    job.steps(steps, contexts)
    return job


def test_example_deploys_behind_its_gate_and_stops_at_it(actions: Actions) -> None:
    """The gate's step fails, and the deploy is not begun."""
    ensure_namespace(actions.cluster, "flux-system")
    job = run_example(actions, "deploy.yml", "deploy")
    assert job.status == "success", job.log
    assert actions.cluster.get("/api/v1/namespaces/default/configmaps/made")
    assert oct((job.temp / "kubeconfig").stat().st_mode & 0o777) == "0o600"
    hold = ["hold", "place", "freeze", "--reason", "year's end"]
    assert run_program(*hold, kubeconfig=actions.cluster.kubeconfig_file(), cwd=actions.folder).code == 0
    stopped = run_example(actions, "deploy.yml", "deploy", number=JOB + 2)
    assert (stopped.status, stopped.ended_by["fencectl"]) == ("failure", 20), stopped.log
    assert "hold freeze" in stopped.summary
    assert "deploy" not in stopped.log.partition("title=")[0]


@pytest.mark.parametrize(
    ("result", "heals"), [("success", False), ("skipped", False), ("failure", True), ("cancelled", True)]
)
def test_case_13_example_heals_after_a_deploy_that_was_cancelled_too(result: str, heals: bool) -> None:
    """Not only after one that failed."""
    condition = re.sub(r"^\$\{\{ (.*) \}\}$", r"\1", example("deploy.yml")["jobs"]["heal"]["if"])
    assert value_of(condition, {"needs": {"deploy": {"result": result}}}) is heals


def test_example_heals_what_a_dead_job_left(actions: Actions) -> None:
    """As it stands there."""
    killed_chain(actions.cluster, duration_s=1)
    actions.github.job(RUN, ATTEMPT, JOB)
    job = run_example(actions, "deploy.yml", "heal", number=JOB + 1)
    assert job.status == "success", job.log
    assert actions.cluster.get(LEASE_PATH)["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize(("age_s", "status"), [(3600, "success"), (3 * 3600, "failure")])
def test_example_alerts_on_a_fence_that_is_older_than_its_limit(
    actions: Actions, age_s: float, status: str
) -> None:
    """An hour is a long deploy, three are a forgotten one; both are in the summary."""
    killed_chain(actions.cluster, duration_s=1, age_s=age_s)
    job = run_example(actions, "watch.yml", "watch", number=JOB + 1)
    assert job.status == status, job.log
    assert job.ended_by["fencectl"] == (20 if status == "failure" else 0)
    assert "5 fences held" in job.summary
