"""Aspects: the one line on stdout · what is on the cluster · the real kubectl · how it ends."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from fencectl.commands.demo_stage import TURNED_BY
from fencectl.core.errors import ExitCode
from fencectl.core.times import age_text
from tests.cli.test_demo import LEFT
from tests.support.program import environment, run_program
from tests.support.realcluster import find_kubectl
from tests.support.terminal import WAIT_S, spoken


@dataclass
class Served:
    """A served demo: the line for the shell, what it explained, and its kubeconfig."""

    process: subprocess.Popen[str]
    line: str
    explained: str
    kubeconfig: Path


@contextmanager
def served(tmp_path: Path) -> Iterator[Served]:
    """Serve a demo as a process of its own, in the way of a `$(… &)`: stdout is read to its end."""
    env = environment(tmp_path / "none", TMPDIR=str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "fencectl", "demo", "--serve"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        cwd=tmp_path,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        try:
            # NB: it ends while the program goes on, or this would never return.
            line = process.stdout.read()
            explained = ""
            while "then all of it is gone" not in explained:
                explained += process.stderr.readline()
            name, path = shlex.split(line)[1].split("=", 1)
            assert name == "KUBECONFIG"
            yield Served(process, line, explained, Path(path))
        finally:
            process.kill()


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as running:
        yield running


def kubectl(demo: Served, home: Path, *arguments: str) -> str:
    done = subprocess.run(
        [find_kubectl(), *arguments],
        env={"HOME": str(home), "PATH": os.environ["PATH"], "KUBECONFIG": str(demo.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=True,
    )
    return done.stdout


def test_serve_prints_one_line_for_the_shell_and_explains_on_stderr(demo: Served, tmp_path: Path) -> None:
    """`eval "$(fencectl demo --serve &)"` works: one line, and stdout is let go."""
    assert demo.line == f"export KUBECONFIG={shlex.quote(str(demo.kubeconfig))}\n"
    assert demo.process.poll() is None
    assert f"`kill {demo.process.pid}`" in demo.explained
    modes = {path.name: path.stat().st_mode & 0o777 for path in demo.kubeconfig.parent.iterdir()}
    assert modes == {"kubeconfig": 0o600, "fencectl.yaml": 0o600, "tmp": 0o700}


def test_what_serve_suggests_works_as_it_stands(demo: Served, tmp_path: Path) -> None:
    """Every suggested command, run by the real sh, with the real kubectl; then nothing is held any more."""
    suggested = [line.strip() for line in demo.explained.splitlines() if line.startswith("  ")]
    rehearsal = ["fencectl recover --context demo --dry-run"] if LEFT[1] == ExitCode.HELD_DEAD else []
    assert [line.split()[0] for line in suggested if line not in rehearsal] == [
        "fencectl",
        "kubectl",
        "kubectl",
        "fencectl",
    ]
    assert [line for line in suggested if " recover " in line] == rehearsal
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "fencectl"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m fencectl "$@"\n')
    program.chmod(0o755)
    path = os.pathsep.join([str(folder), str(Path(find_kubectl()).parent), os.environ["PATH"]])
    script = "\n".join(["set -e", demo.line, *suggested])
    done = subprocess.run(
        ["sh"],
        input=script,
        env=environment(tmp_path / "none", PATH=path, HOME=str(tmp_path)),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"4 fences held on demo by 1 holder: {LEFT[0]}" in done.stdout
    assert ("would release 4 fences of " in done.stdout) == bool(rehearsal)
    assert "released 4 of 4" in done.stderr
    after = run_program("fences", "--context", "demo", kubeconfig=demo.kubeconfig, cwd=tmp_path)
    assert (after.code, after.stdout.splitlines()[0]) == (0, "no fence is held on demo")


def test_served_cluster_shows_what_a_killed_deploy_left(demo: Served, tmp_path: Path) -> None:
    """Two minutes old by the cluster's clock, which is said, and the printed check finds no process."""
    report = run_program("fences", "-o", "json", kubeconfig=demo.kubeconfig, cwd=tmp_path).json
    assert [fence["object"]["name"] for fence in report["fences"]] == [
        "worker-2",
        "apps",
        "flux-system",
        "fencectl-deploy",
    ]
    least_s = TURNED_BY.total_seconds() - 1
    assert all(least_s <= fence["age_s"] < least_s + WAIT_S for fence in report["fences"])
    assert {fence["verdict"] for fence in report["fences"]} == {LEFT[0].split()[0]}
    assert [note.startswith("this machine's clock is ") for note in report["notes"]] == [True]
    assert f"turned the cluster's clock on by {age_text(TURNED_BY.total_seconds())}: " in demo.explained
    check = subprocess.run(shlex.split(report["fences"][0]["check"]), capture_output=True, text=True, check=False)
    assert len(check.stdout.splitlines()) == 1  # its heading


def test_real_kubectl_reads_and_writes_the_served_cluster(demo: Served, tmp_path: Path) -> None:
    """Nodes look as nodes do, and a cordon by hand is seen as not ours."""
    rows = [line.split()[:2] for line in kubectl(demo, tmp_path, "get", "nodes", "--no-headers").splitlines()]
    assert rows == [["worker-1", "Ready"], ["worker-2", "Ready,SchedulingDisabled"], ["worker-3", "Ready"]]
    kubectl(demo, tmp_path, "cordon", "worker-3")
    report = run_program("fences", "-o", "json", kubeconfig=demo.kubeconfig, cwd=tmp_path).json
    assert [fence["object"]["name"] for fence in report["fences"] if not fence["ours"]] == ["worker-3"]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_served_cluster_ends_with_a_signal_and_leaves_nothing(tmp_path: Path, number: int, status: int) -> None:
    """The status is the signal's, as everywhere; the folder is gone."""
    with served(tmp_path) as demo:
        demo.process.send_signal(number)
        assert demo.process.wait(WAIT_S) == status
        assert list((tmp_path / "tmp").iterdir()) == []


def test_serve_at_a_terminal_keeps_it_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    """There, the line and the explanation are read by the same person, in this order."""
    env = environment(tmp_path / "none", TERM="xterm")
    with spoken(["demo", "--serve"], env=env, cwd=tmp_path, terminal=True) as demo:
        said = demo.until("then all of it is gone")
        assert said.startswith("export KUBECONFIG=")
        demo.type("\x03")
        assert demo.to_the_end() == 130
