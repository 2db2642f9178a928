"""
Aspects: without kubectl · a step that does not do what it says · a deploy that is refused, waits, or is let be ·
what its processes see.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fencectl.commands import demo_holder
from fencectl.commands.demo_deploy import LeaseHeldError, PlayedDeploy
from fencectl.commands.demo_holder import CHILD, NAMESPACE, NODE, PARENT, refusal_code
from fencectl.commands.demo_show import Narrator, StepFailedError
from fencectl.commands.demo_stage import Deployer, Fenced, Stage, staged
from fencectl.commands.demo_story import (
    FREE,
    deploy_is_killed,
    deploy_starts,
    fenced_by,
    fences_are_released,
    next_deploy_goes_through,
)
from fencectl.core.errors import ExitCode
from fencectl.core.profiles import FENCECTL, JOURNAL
from fencectl.report.style import PLAIN, Style
from tests.cli.test_demo import is_running, this_host

# Single steps, in this process


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A stage whose clock is two minutes late, as in the story."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with staged(behind=timedelta(minutes=2), environ=os.environ) as made:
        yield made


@pytest.fixture
def narrator() -> Narrator:
    return Narrator(PLAIN, stops=False)


def held(stage: Stage) -> str:
    """Let a deploy fence the stage and be killed; return its holder."""
    with Deployer(stage) as deployer:
        deployer.begin()
        deployer.kill()
    holder = stage.fenced().holder
    assert stage.fenced() == fenced_by(holder)
    return holder


def test_without_kubectl_the_same_bytes_are_sent_and_that_is_said(
    stage: Stage, narrator: Narrator, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is faked: what `release` prints is what is sent, and the reader knows who sent it."""
    held(stage)
    stage.clock.turn_on()
    report = stage.look()
    printed = [entry.release.patch.body for entry in report.releasable if entry.release is not None]
    stage.sandbox.requests.clear()
    fences_are_released(replace(stage, kubectl=None), narrator, report)
    sent = [entry.body.decode() for entry in stage.sandbox.requests.where(method="PATCH")]
    assert sent == printed
    assert len(sent) == 4
    said = capsys.readouterr().out
    assert "(no kubectl on this machine: fencectl itself sends the very same bytes)" in said
    assert "| sh" not in said
    assert stage.fenced() == FREE


def test_without_kubectl_a_refused_patch_stops_the_release(
    stage: Stage, narrator: Narrator, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in the script: nothing is sent past a refusal, and the step says that it did not do what it says."""
    held(stage)
    stage.clock.turn_on()
    report = stage.look()
    stage.sandbox.store.patch("nodes", NODE, {"spec": {"unschedulable": None}})
    stage.sandbox.requests.clear()
    with pytest.raises(StepFailedError):
        fences_are_released(replace(stage, kubectl=None), narrator, report)
    assert [entry.status for entry in stage.sandbox.requests.where(method="PATCH")] == [422]
    assert "✗ not so: the node is schedulable" in capsys.readouterr().out


def test_deploy_that_nobody_can_prove_dead_is_refused_with_19_and_released_by_name(
    stage: Stage, narrator: Narrator, capsys: pytest.CaptureFixture[str]
) -> None:
    """A holder that recorded no machine is unknown for ever: its commands are printed only where it is named."""
    holder = "0000000000000000-local-elsewhere-7-0a0b0c0d"
    run = PlayedDeploy(stage.transport, holder, FENCECTL.lease, demo_holder.server_time(stage.transport))
    run.take_lease()
    run.suspend(NAMESPACE, PARENT, rank=1)
    run.suspend(NAMESPACE, CHILD, rank=2)
    run.cordon(NODE)
    stage.clock.turn_on()
    with Deployer(stage) as second:
        refused = second.finish()
    assert (refused.status, refused.lines[1]) == (19, "  4 fences held on demo by 1 holder: unknown")
    fences_are_released(stage, narrator, stage.look())
    assert f"$ fencectl release --holder {holder} | sh\n" in capsys.readouterr().out
    assert stage.fenced() == FREE


def test_deploy_waits_for_flux_before_it_goes_on(stage: Stage) -> None:
    """A suspension does not stop a reconcile in flight: without Flux's own word it is not drained."""
    stage.sandbox.flux.automatic(on=False)
    with Deployer(stage) as deployer:
        said = deployer.begin()
    assert said[-1] == "error: kustomization/flux-system/flux-system still reconciles"


def test_only_the_lease_carries_the_details(stage: Stage) -> None:
    """They are long, and a report looks for them once."""
    held(stage)
    objects = [
        stage.sandbox.store.get("leases", "fencectl-deploy", namespace=NAMESPACE),
        stage.sandbox.store.get("ks", CHILD, namespace=NAMESPACE),
        stage.sandbox.store.get("nodes", NODE),
    ]
    journals = [json.loads(obj["metadata"]["annotations"][JOURNAL]) for obj in objects]
    assert ["details" in journal for journal in journals] == [True, False, False]
    assert journals[0]["details"]["revision"] == "0" * 40


def test_somebody_uncordons_meanwhile_and_the_second_step_fails(
    stage: Stage, narrator: Narrator, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each step looks at the cluster itself; it does not repeat what it expects."""
    with Deployer(stage) as deployer:
        holder = deploy_starts(stage, narrator, deployer)
        stage.sandbox.store.patch("nodes", NODE, {"spec": {"unschedulable": None}})
        with pytest.raises(StepFailedError):
            deploy_is_killed(stage, narrator, deployer, holder)
    said = capsys.readouterr().out
    assert "✗ not so: node/worker-2 is still cordoned" in said
    assert re.search(r"found     Fenced\(.*cordoned=\(\).*\)", said)


def test_deploy_that_cannot_fence_fails_the_first_step(
    stage: Stage, narrator: Narrator, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the process said is shown above the mark."""
    stage.sandbox.store.patch("ks", CHILD, {"spec": {"suspend": True}}, namespace=NAMESPACE)
    with Deployer(stage) as deployer, pytest.raises(StepFailedError):
        deploy_starts(stage, narrator, deployer)
    said = capsys.readouterr().out
    assert "error: it cannot be fenced: it is already suspended, and not by this run\n✗ not so:" in said


def test_next_deploy_is_refused_while_fences_are_held(stage: Stage, narrator: Narrator) -> None:
    """The last step is true only after the release."""
    held(stage)
    with pytest.raises(StepFailedError):
        next_deploy_goes_through(stage, narrator)


def test_deploy_beside_a_live_one_is_refused_with_12(stage: Stage) -> None:
    """The heartbeat is younger than its duration: waiting helps."""
    with Deployer(stage) as first:
        first.begin()
        before = stage.fenced()
        with Deployer(stage) as second:
            refused = second.finish()
        assert refused.status == ExitCode.HELD_LIVE, refused.lines
        assert (
            refused.lines[0]
            == f"not deployed: lease/flux-system/fencectl-deploy is held by {this_host()} pid {first.pid}"
        )
        assert refused.lines[-1] == "  nothing was changed"
        assert stage.fenced() == before
        assert first.finish().status == ExitCode.OK
    assert stage.fenced() == FREE


def test_refusal_without_a_holder_needs_a_person(stage: Stage) -> None:
    """A report without any holder must not sound like a proof of death."""
    assert refusal_code(stage.look()) is ExitCode.HELD_PERSON_NEEDED


def test_deploy_releases_in_the_reverse_order_and_the_lease_last(stage: Stage) -> None:
    """Node, child, parent, lease; each by one patch from a fresh read."""
    run = PlayedDeploy(
        stage.transport, "0000000000000000-local-x-7-aa", FENCECTL.lease, demo_holder.server_time(stage.transport)
    )
    run.take_lease()
    run.suspend(NAMESPACE, PARENT, rank=1)
    run.suspend(NAMESPACE, CHILD, rank=2)
    run.cordon(NODE)
    with pytest.raises(LeaseHeldError, match="is held by x pid 7"):
        replace_holder(run, "0000000000000000-local-y-8-bb").take_lease()
    assert [(ref.name, after) for ref, after in run.release_all()] == [
        (NODE, "schedulable"),
        (CHILD, "reconciles"),
        (PARENT, "reconciles"),
        ("fencectl-deploy", "free"),
    ]
    assert stage.fenced() == FREE


def replace_holder(run: PlayedDeploy, holder: str) -> PlayedDeploy:
    return PlayedDeploy(run.door, holder, run.lease, run.now)


# What its processes see


def test_deploy_refuses_any_cluster_but_the_demos(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Typed by hand, it must not suspend and cordon whatever the current context is."""
    monkeypatch.setenv("KUBECONFIG", str(stage.kubeconfig))
    monkeypatch.delenv(demo_holder.SERVER, raising=False)
    stage.sandbox.requests.clear()
    assert demo_holder.main([]) is ExitCode.USAGE
    assert capsys.readouterr().out == "error: demo is not the demo's own cluster; nothing was read or changed\n"
    assert len(stage.sandbox.requests) == 0


def test_deploy_without_a_kubeconfig_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence, as everywhere."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert demo_holder.main([]) is ExitCode.USAGE
    assert capsys.readouterr().out.startswith("error: ")


def test_children_get_nothing_of_the_users_settings(tmp_path: Path) -> None:
    """Settings, credentials and proxies stay outside; files are the user's alone, and gone afterwards."""
    theirs = {
        "FENCECTL_FENCES_CONTEXT": "prod",
        "KUBECONFIG": "/somewhere",
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "GITHUB_TOKEN": "ghp_secret",
        "GH_TOKEN": "ghp_secret",
        "https_proxy": "http://127.0.0.1:1",
        "LANG": "de_DE.UTF-8",
        "PATH": "/nowhere",
    }
    with staged(environ=theirs) as made:
        seen: Mapping[str, str] = made.environment
        folder = made.kubeconfig.parent
        assert folder.stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
        assert seen["LANG"] == "de_DE.UTF-8"
        assert (seen["KUBECONFIG"], seen["HOME"], seen["KUBERC"]) == (str(made.kubeconfig), str(folder), "off")
        gone = {"FENCECTL_FENCES_CONTEXT", "KUBERNETES_SERVICE_HOST", "GITHUB_TOKEN", "GH_TOKEN", "https_proxy"}
        assert not gone & set(seen)
    assert not folder.exists()


def test_kubectl_beside_this_python_is_found(tmp_path: Path) -> None:
    """A virtual environment that is not activated has it there; it is then on the children's PATH."""
    with staged(environ={"PATH": "/nowhere"}) as made:
        beside = Path(sys.executable).parent / "kubectl"
        assert made.kubectl == (str(beside) if beside.exists() else None)
        if made.kubectl:
            assert made.environment["PATH"] == f"/nowhere{os.pathsep}{beside.parent}"


def test_deploy_ends_with_the_block_that_holds_it(stage: Stage) -> None:
    """Whatever happens to the demo, no process of it stays; nothing is released by that."""
    deployer = Deployer(stage)
    with deployer:
        deployer.begin()
    assert not is_running(deployer.pid)
    assert stage.fenced() != Fenced()


def test_late_clock_runs_and_is_turned_on_once(stage: Stage) -> None:
    """It is two minutes late until it is turned on, and never goes back."""
    late = datetime.now(UTC) - stage.sandbox.clock.now()
    assert timedelta(minutes=1, seconds=59) < late < timedelta(minutes=2, seconds=30)
    assert stage.clock.turn_on() == 120.0
    assert abs(datetime.now(UTC) - stage.sandbox.clock.now()) < timedelta(seconds=30)
    assert stage.clock.turn_on() == 0.0


def test_hostile_output_is_made_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    """What a command said may hold anything: no escape, no workflow command."""
    Narrator(Style(colour=False, unicode=False), stops=False).output(["\x1b[2Jé", "::error::x"])
    assert capsys.readouterr().out == "\\x1b[2J\\xe9\n| ::error::x\n"
