"""
Aspects: without kubectl · a step that does not do what it says · a deploy that is refused, too slow, or killed ·
what its processes see.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fencectl.commands.demo_show import Narrator, StepFailedError
from fencectl.commands.demo_stage import CHILD, NAMESPACE, NODE, PARENT, TURNED_BY, Fenced, Stage, staged
from fencectl.commands.demo_story import (
    FREE,
    deploy_is_killed,
    deploy_starts,
    fenced_by,
    fences_are_released,
    fences_are_shown,
    next_deploy_goes_through,
    refusal_code,
)
from fencectl.core.errors import ExitCode
from fencectl.core.profiles import FENCECTL, JOURNAL
from fencectl.evidence.machine import Machine
from fencectl.report.style import PLAIN, Style
from tests.cli.test_demo import is_running
from tests.support.played_deploy import PlayedDeploy
from tests.support.terminal import WAIT_S

# Single steps, in this process


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A stage as in the story."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with staged(environ=os.environ) as made:
        yield made


@pytest.fixture
def narrator() -> Narrator:
    return Narrator(PLAIN, stops=False)


def held(stage: Stage) -> str:
    """Let a deploy fence the stage and be killed; return its holder."""
    with stage.deployer() as deployer:
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
    report = stage.look_at_the_dead()
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
    report = stage.look_at_the_dead()
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
    run = PlayedDeploy(stage.transport, holder, FENCECTL.lease, stage.sandbox.clock.now())
    run.take_lease()
    run.suspend(NAMESPACE, PARENT, rank=1)
    run.suspend(NAMESPACE, CHILD, rank=2)
    run.cordon(NODE)
    stage.clock.turn_on()
    refused = stage.deploy("true")
    assert refused.status == ExitCode.HELD_PERSON_NEEDED == refusal_code(stage.look()), refused.lines
    fences_are_shown(stage, narrator, pid=2**22 + 1)
    said = capsys.readouterr().out
    assert "4 fences held on demo by 1 holder: unknown. " in said
    assert said.count("\n") <= 1 + 23
    fences_are_released(stage, narrator, stage.look())
    assert f"$ fencectl release --holder {holder} | sh\n" in capsys.readouterr().out
    assert stage.fenced() == FREE


def test_deploy_that_does_not_come_to_work_fails_the_first_step(
    stage: Stage, narrator: Narrator, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without Flux's own word nothing is drained; the demo does not wait for it without a bound."""
    stage.sandbox.flux.automatic(on=False)
    with stage.deployer() as deployer:
        assert deployer.begin(within_s=0) == ()
        assert deployer.kill() == -signal.SIGKILL
    with stage.deployer() as deployer:
        deployer.kill()
        with pytest.raises(StepFailedError):
            deploy_starts(stage, narrator, deployer)
    assert "✗ not so: it placed all its fences, and its command runs\n" in capsys.readouterr().out


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
    with stage.deployer() as deployer:
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
    with stage.deployer() as deployer, pytest.raises(StepFailedError):
        deploy_starts(stage, narrator, deployer)
    said = capsys.readouterr().out
    assert re.search(r"suspended.*\n(?s:.*)✗ not so: it placed all its fences", said), said


def test_next_deploy_is_refused_while_fences_are_held(stage: Stage, narrator: Narrator) -> None:
    """The last step is true only after the release."""
    held(stage)
    with pytest.raises(StepFailedError):
        next_deploy_goes_through(stage, narrator)


def test_deploy_beside_a_live_one_is_refused_with_12(stage: Stage) -> None:
    """The heartbeat is younger than its duration: waiting helps."""
    with stage.deployer() as first:
        first.begin()
        before = stage.fenced()
        refused = stage.deploy("true")
        assert refused.status == ExitCode.HELD_LIVE == refusal_code(stage.look()), refused.lines
        assert refused.lines[0] == "✗ not deployed to demo: fences are held (12)"
        assert "nothing was changed" in refused.lines
        assert stage.fenced() == before


def test_killed_deploy_takes_its_command_along(stage: Stage) -> None:
    """A signal that nobody can catch ends both; as long as the command runs, the output has no end."""
    with stage.deployer() as deployer:
        deployer.begin()
        end_s = time.monotonic() + WAIT_S
        # NB: the deploy says that its command runs right before it starts it.
        while not (started := deployer.commands()):
            assert time.monotonic() < end_s
        assert len(started) == 1
        assert not deployer.is_silent(within_s=0)
        assert deployer.kill() == -signal.SIGKILL
        assert deployer.is_silent()
        # NB: its streams are closed just before it ends, and who inherits it may be slow to take notice of that.
        while (command := Machine().process(started[0])) is not None and command.alive:
            assert time.monotonic() < end_s


def test_refusal_without_a_holder_needs_a_person(stage: Stage) -> None:
    """A report without any holder must not sound like a proof of death."""
    assert refusal_code(stage.look()) is ExitCode.HELD_PERSON_NEEDED


# What its processes see


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
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir() if path.is_file()} == {0o600}
        assert Path(seen["TMPDIR"]).parent == folder
        assert Path(seen["TMPDIR"]).stat().st_mode & 0o777 == 0o700
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
    deployer = stage.deployer()
    with deployer:
        deployer.begin()
    assert not is_running(deployer.pid)
    assert stage.fenced() != Fenced()


def test_clock_of_the_stage_is_ours_until_it_is_turned_on(stage: Stage) -> None:
    """A deploy writes times by our clock; the cluster's goes ahead of it, and never back."""
    assert abs(datetime.now(UTC) - stage.sandbox.clock.now()) < timedelta(seconds=30)
    before = stage.sandbox.clock.now()
    assert stage.clock.turn_on() == TURNED_BY.total_seconds() == 120.0
    turned_by = stage.sandbox.clock.now() - before
    assert TURNED_BY <= turned_by < TURNED_BY + timedelta(seconds=30)


def test_hostile_output_is_made_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    """What a command said may hold anything: no escape, no workflow command."""
    Narrator(Style(colour=False, unicode=False), stops=False).output(["\x1b[2Jé", "::error::x"])
    assert capsys.readouterr().out == "\\x1b[2J\\xe9\n| ::error::x\n"
