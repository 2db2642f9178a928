"""
Aspects: the whole story in a pipe · what it must not touch · a step that does not do what it says · Enter, ctrl-c and
TERM at a terminal.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fencectl.core.errors import ExitCode
from fencectl.evidence.machine import Machine
from tests.support.program import environment
from tests.support.realcluster import find_kubectl
from tests.support.terminal import WAIT_S, Spoken, spoken

PLANTED = "no: [valid, yaml"
DEPLOY = "fencectl deploy --suspend kustomization/flux-system/apps --node worker-2 --"


def judged() -> tuple[str, int, bool]:
    """Verdict, status of a refusal, and whether a release takes a name: a machine without an id proves nothing."""
    here = Machine()
    if None in (here.machine_id(), here.boot_id(), here.pid_namespace()):
        return "unknown", 19, True
    return "dead (proven)", 16, False


LEFT = judged()


def pid_of_the_deploy(said: str) -> int:
    found = re.search(r"process (\d+) holds the lease", said)
    assert found, said
    return int(found[1])


def surroundings(desk: Path) -> dict[str, str]:
    """Give an environment in which everything of the user's is a trap: it cannot be read without an error."""
    home, temporary = desk / "home", desk / "tmp"
    for folder in (home / ".kube", temporary, desk / "work"):
        folder.mkdir(parents=True)
    for trap in (home / ".kube" / "config", home / ".kube" / "kuberc", desk / "work" / "fencectl.yaml"):
        trap.write_text(PLANTED)
    trap = desk / "kubeconfig"
    trap.write_text(PLANTED)
    kubectl = str(Path(find_kubectl()).parent)
    (desk / "work" / ".git").write_text(PLANTED)
    settings = {
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "PATH": f"{kubectl}{os.pathsep}{os.environ['PATH']}",
        "TERM": "xterm",
        "FENCECTL_DEPLOY_CONTEXT": "prod",
        "FENCECTL_FENCES_CONTEXT": "prod",
        "FENCECTL_RELEASE_HOLDER": "somebody",
        "GITHUB_REPOSITORY": "acme/platform",
        "http_proxy": "http://127.0.0.1:1",
    }
    return environment(trap, **settings)


@contextmanager
def played(desk: Path, *arguments: str, terminal: bool = False) -> Iterator[Spoken]:
    """Start a demo in a folder where everything of the user's is a trap."""
    with spoken(["demo", *arguments], env=surroundings(desk), cwd=desk / "work", terminal=terminal) as demo:
        yield demo


def left_in(desk: Path) -> list[Path]:
    return list((desk / "tmp").iterdir())


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# The whole story


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Spoken, Path]:
    """Play the whole story once, in a pipe."""
    desk = tmp_path_factory.mktemp("story")
    with played(desk) as demo:
        return demo.to_the_end(), demo, desk


def steps_of(said: str) -> list[str]:
    return re.split(r"\n\n(?=\d/5  )", said.partition("\n\nwith your own hands")[0])[1:]


def test_story_in_a_pipe_plays_to_the_end_and_exits_0(story: tuple[int, Spoken, Path]) -> None:
    """Nobody presses Enter in a pipe; every step did what it says."""
    code, demo, _ = story
    assert (code, "✗ not so" in demo.said) == (0, False), demo.said
    assert [step[:5] for step in steps_of(demo.said)] == ["1/5  ", "2/5  ", "3/5  ", "4/5  ", "5/5  "]


def test_story_shows_what_each_command_really_said(story: tuple[int, Spoken, Path]) -> None:
    """The real verb at work, killed, refused, reported, released by kubectl, and let through with the next token."""
    _, demo, _ = story
    first, second, third, fourth, fifth = steps_of(demo.said)
    pid = pid_of_the_deploy(demo.said)
    assert f"$ kill -9 {pid}\n✓ process {pid} was ended by signal 9" in second
    verdict, status, _ = LEFT
    assert f"✗ not deployed to demo: fences are held ({status})\n" in second
    assert f"4 fences held on demo by 1 holder: {verdict}" in second
    assert "\n…\nnothing was changed\nhint: " in second
    assert f"✓ every deploy is refused ({status})" in second
    assert f"$ {DEPLOY} sleep 600 &\n" in first
    assert [line.partition("Z ")[2] for line in first.splitlines() if re.match(r"[\d:]{8}Z ", line)] == [
        " 2  lease/flux-system/fencectl-deploy taken, token 1",
        " 4  suspended kustomization/flux-system/flux-system",
        " 4  suspended kustomization/flux-system/apps",
        " 4  drained in 0s",
        " 5  recovery point 1: 0 objects",
        " 6  node/worker-2: claimed, cordoned",
        " 8  the command runs",
    ]
    assert f"4 fences held on demo by 1 holder: {verdict}" in third
    assert f"$ ps -o pid,lstart,args -p {pid}" in third
    assert f"✓ process {pid} is gone" in third
    assert ("$ fencectl release --holder " in fourth, "$ fencectl release | sh" in fourth) == (
        LEFT[2],
        not LEFT[2],
    )
    assert [line for line in fourth.splitlines() if line.endswith(" patched")] == [
        "node/worker-2 patched",
        "kustomization.kustomize.toolkit.fluxcd.io/apps patched",
        "kustomization.kustomize.toolkit.fluxcd.io/flux-system patched",
        "lease.coordination.k8s.io/fencectl-deploy patched",
    ]
    assert f"$ {DEPLOY} true\n" in fifth
    assert " 2  lease/flux-system/fencectl-deploy taken, token 2" in fifth
    assert re.search(r"^✓ deployed generation 2 to demo in \d+s: nothing is fenced$", fifth, re.MULTILINE), fifth
    assert "no fence is held on demo\n" in fifth


def test_story_fits_a_screen_and_has_no_terminal_codes(story: tuple[int, Spoken, Path]) -> None:
    """A step has at most 23 lines, so that with the question it fits 24; only commands may be wider than 80."""
    _, demo, _ = story
    assert "\x1b" not in demo.said
    assert max(step.count("\n") + 1 for step in steps_of(demo.said)) <= 23
    wide = [line for line in demo.said.splitlines() if len(line) > 80 and not line.startswith("$ ")]
    assert wide == []


def test_story_says_when_it_turns_the_clock(story: tuple[int, Spoken, Path]) -> None:
    """The heartbeat stands still because the demo's clock was turned on, which is said, and not hidden."""
    _, demo, _ = story
    assert "(the demo turns its cluster's clock on by 2m00s: the heartbeat stands still)" in demo.said
    assert "! this machine's clock is " in demo.said


def test_story_leaves_nothing_behind(story: tuple[int, Spoken, Path]) -> None:
    """No file, no process; and what was the user's is as before."""
    _, demo, desk = story
    assert left_in(desk) == []
    assert not is_running(pid_of_the_deploy(demo.said))
    assert sorted(path.name for path in (desk / "home").rglob("*")) == [".kube", "config", "kuberc"]
    assert (desk / "home" / ".kube" / "config").read_text() == PLANTED


def test_story_without_utf8_is_spelled_in_ascii_and_fails_where_kubectl_does_nothing(tmp_path: Path) -> None:
    """A step that does not do what it says is shown as expected and found, and the status is 1."""
    idle = tmp_path / "bin" / "kubectl"
    idle.parent.mkdir()
    idle.write_text("#!/bin/sh\nexit 0\n")
    idle.chmod(0o755)
    path = f"{idle.parent}{os.pathsep}{os.environ['PATH']}"
    desk = tmp_path / "desk"
    env = surroundings(desk) | {"PATH": path, "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-m", "fencectl", "demo", "--yes"],
        env=env,
        cwd=desk / "work",
        capture_output=True,
        timeout=WAIT_S,
        check=False,
    )
    said = done.stdout.decode("ascii")
    assert done.returncode == 1, said
    assert said.count("\nok ") >= 3
    assert "\nx not so: the node is schedulable, Flux reconciles, the lease is free, no mark\n   is left\n" in said
    assert re.search(r"\n   expected  .*Fenced.*\n   found     .*node/worker-2.*\n$", said)
    assert "5/5" not in said
    assert left_in(desk) == []


# At a terminal


def test_enter_goes_on_and_ctrl_c_ends_it_with_130_and_nothing_left(tmp_path: Path) -> None:
    """It stops after each step; ctrl-c in between takes the deploy, the cluster and the files away."""
    with played(tmp_path, terminal=True) as demo:
        demo.until("Enter goes on, ctrl-c ends")
        assert "2/5" not in demo.said
        pid = pid_of_the_deploy(demo.said)
        assert is_running(pid)
        demo.type("\n")
        demo.until("Enter goes on, ctrl-c ends", times=2)
        assert "2/5" in demo.said
        assert "3/5" not in demo.said
        demo.type("\x03")
        assert demo.to_the_end() == 130
        assert left_in(tmp_path) == []
        assert not is_running(pid)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signal_while_the_deploy_runs_ends_it_too(tmp_path: Path, number: int, status: int) -> None:
    """The deploy that it started does not outlive it, and no file does."""
    with played(tmp_path, terminal=True) as demo:
        demo.until("Enter goes on")
        pid = pid_of_the_deploy(demo.said)
        demo.process.send_signal(number)
        assert demo.to_the_end() == status
        assert not is_running(pid)
        assert left_in(tmp_path) == []


def test_end_of_input_at_the_question_is_not_an_answer(tmp_path: Path) -> None:
    """Ctrl-d leaves; the story was not played, so the status is not 0."""
    with played(tmp_path, terminal=True) as demo:
        demo.until("Enter goes on")
        demo.type("\x04")
        assert demo.to_the_end() == ExitCode.USAGE
        assert left_in(tmp_path) == []
