"""
Aspects: lines in a pipe · lines of JSON · a terminal that is redrawn, resized and left · several clusters · what
cannot be watched.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from fencectl.commands import fences, watch
from fencectl.commands.options import CommonOptions, FencesOptions, Output
from fencectl.commands.watch_screen import HOME_AND_ERASE
from fencectl.core.errors import ExitCode, NotReadableError, UsageError
from fencectl.sandbox import Gate, Sandbox
from tests.support.clusters import Cluster, make_node
from tests.support.fencing import playing
from tests.support.program import environment
from tests.support.terminal import Spoken, spoken

SGR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def held(sandbox_cluster: Cluster) -> Cluster:
    """A cluster with a lease and a cordoned node of a dead run."""
    make_node(sandbox_cluster, "worker-2", taints=[])
    make_node(sandbox_cluster, "worker-3", taints=[])
    with playing(sandbox_cluster) as run:
        run.take_lease()
        run.cordon("worker-2")
    return sandbox_cluster


def watching(cluster: Cluster, tmp_path: Path, *arguments: str, **more: str) -> tuple[list[str], dict[str, str]]:
    return ["fences", "--watch", *arguments], environment(cluster.kubeconfig_file(), TERM="xterm", **more)


def uncordon(cluster: Cluster) -> None:
    sandbox = cluster.backend
    assert isinstance(sandbox, Sandbox)
    sandbox.store.patch("nodes", "worker-2", {"spec": {"unschedulable": None}})


@pytest.fixture
def in_pipe(held: Cluster, tmp_path: Path) -> Iterator[Spoken]:
    arguments, env = watching(held, tmp_path)
    with spoken(arguments, env=env, cwd=tmp_path) as program:
        yield program


def test_pipe_gets_the_overview_and_then_a_line_per_change(held: Cluster, in_pipe: Spoken) -> None:
    """No escape, no command, each line with its time; TERM ends it with its status."""
    overview = in_pipe.until("lease/flux-system/fencectl-deploy")
    assert overview.startswith("2 fences held on sandbox by 1 holder: unknown.")
    uncordon(held)
    said = in_pipe.until("(was: cordoned")
    assert re.search(r"\n\d\d:\d\d:\d\dZ  sandbox: node/worker-2 schedulable by run 18093344127 ", said)
    in_pipe.process.send_signal(signal.SIGTERM)
    assert in_pipe.to_the_end() == 143
    assert "\x1b" not in in_pipe.said
    assert "kubectl" not in in_pipe.said


def test_pipe_is_told_that_the_server_is_gone_and_back(held: Cluster, in_pipe: Spoken) -> None:
    """Silence would look like no change. It goes on trying; ctrl-c's signal ends it with 130."""
    in_pipe.until("lease/flux-system/fencectl-deploy")
    sandbox = held.backend
    assert isinstance(sandbox, Sandbox)
    port = sandbox.port
    sandbox.stop()
    in_pipe.until("sandbox: not readable: ")
    uncordon(held)
    sandbox.start(port=port)
    said = in_pipe.until("node/worker-2 schedulable")
    assert "Z  sandbox: readable again\n" in said
    in_pipe.process.send_signal(signal.SIGINT)
    assert in_pipe.to_the_end() == 130
    assert "Traceback" not in in_pipe.said


def test_json_gets_one_report_per_line_and_change(held: Cluster, tmp_path: Path) -> None:
    """Each line is a whole document."""
    arguments, env = watching(held, tmp_path, "-o", "json")
    with spoken(arguments, env=env, cwd=tmp_path) as program:
        program.until("\n")
        uncordon(held)
        lines = program.until("\n", times=2).splitlines()
    first, second = (json.loads(line) for line in lines)
    assert [fence["now"] for fence in first["fences"]] == ["cordoned", "taken"]
    assert [fence["now"] for fence in second["fences"]] == ["schedulable", "taken"]


def frame(program: Spoken, *, has: str) -> list[str]:
    """Wait until the terminal shows a whole frame with this in it; return its lines."""
    while True:
        shown = SGR.sub("", program.said.rpartition(HOME_AND_ERASE)[2]).replace("\r\n", "\n")
        if has in shown and shown.endswith("ctrl-c ends"):
            return shown.split("\n")
        assert program.read(), f"it ended without {has!r}:\n{program.said}"


def test_terminal_is_redrawn_in_place_and_left_as_it_was(held: Cluster, tmp_path: Path) -> None:
    """Home and erase; no other screen, no hidden cursor, no changed settings; ctrl-c ends with 130."""
    arguments, env = watching(held, tmp_path)
    with spoken(arguments, env=env, cwd=tmp_path, terminal=True) as program:
        before = program.settings()
        first = frame(program, has="fencectl-deploy")
        assert first[0] == "2 fences held on sandbox by 1 holder: unknown. Prove it dead before you release."
        assert first[-1] == "watching, no change yet, ctrl-c ends"
        uncordon(held)
        second = frame(program, has="mark gone")
        assert [line.split()[1:3] for line in second if line.startswith("  1  ")] == [
            ["node/worker-2", "schedulable"]
        ]
        assert re.fullmatch(r"watching, last change \d\d:\d\d:\d\dZ, ctrl-c ends", second[-1])
        assert program.settings() == before
        program.type("\x03")
        assert program.to_the_end() == 130
    codes = set(re.findall(r"\x1b\[[0-9;?]*[A-Za-z]", program.said))
    assert {code for code in codes if not code.endswith("m")} == {"\x1b[H", "\x1b[J"}
    assert program.said.endswith("\x1b[0m\r\n")
    assert "kubectl" not in program.said


def test_terminal_of_another_size_is_drawn_anew(held: Cluster, tmp_path: Path) -> None:
    """Too small for all of it: what is left out is counted, and the footer stays."""
    arguments, env = watching(held, tmp_path)
    with spoken(arguments, env=env, cwd=tmp_path, terminal=True) as program:
        frame(program, has="fencectl-deploy")
        program.resize(rows=6, columns=80)
        shown = frame(program, has="more lines: a taller window shows all")
        assert len(shown) == 6
        assert shown[0].startswith("2 fences held")


@pytest.mark.parametrize("number", [signal.SIGWINCH, signal.SIGCONT])
def test_resize_and_return_ask_for_a_frame_and_are_let_go_of(number: int) -> None:
    """The next look would draw it too, but only in a while; afterwards the signals are as before."""
    queue: watch.Queue = SimpleQueue()
    before = signal.getsignal(number)
    with watch._redrawing(queue):
        os.kill(os.getpid(), number)
        assert queue.get(timeout=10.0) == (watch.REDRAW, None)
    assert signal.getsignal(number) == before


def test_terminal_is_drawn_anew_after_ctrl_z_and_fg(held: Cluster, tmp_path: Path) -> None:
    """The shell has written over it meanwhile."""
    arguments, env = watching(held, tmp_path)
    with spoken(arguments, env=env, cwd=tmp_path, terminal=True) as program:
        frame(program, has="fencectl-deploy")
        frames = program.said.count(HOME_AND_ERASE)
        os.kill(program.process.pid, signal.SIGSTOP)
        os.kill(program.process.pid, signal.SIGCONT)
        program.until(HOME_AND_ERASE, times=frames + 1)


def test_terminal_says_that_it_reads_until_there_is_something_to_show(held: Cluster, tmp_path: Path) -> None:
    """An empty screen would look like nothing held."""
    sandbox = held.backend
    assert isinstance(sandbox, Sandbox)
    gate = Gate()
    sandbox.faults.delay(gate=gate)
    arguments, env = watching(held, tmp_path)
    with spoken(arguments, env=env, cwd=tmp_path, terminal=True) as program:
        assert frame(program, has="reading")[0] == "… sandbox: reading"
        gate.open()
        frame(program, has="2 fences held on sandbox")


def test_dumb_terminal_gets_lines(held: Cluster, tmp_path: Path) -> None:
    """What cannot move its cursor is not told to."""
    arguments, env = watching(held, tmp_path)
    with spoken(arguments, env=env | {"TERM": "dumb"}, cwd=tmp_path, terminal=True) as program:
        program.until("lease/flux-system/fencectl-deploy")
        uncordon(held)
        program.until("(was: cordoned")
    assert "\x1b" not in program.said


def test_one_cluster_of_two_that_cannot_be_read_is_shown_beside_the_other(held: Cluster, tmp_path: Path) -> None:
    """Each is followed by itself: the one that answers is not held up."""
    gone = tmp_path / "gone"
    text = held.kubeconfig_file().read_text()
    gone.write_text(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:1", text).replace("sandbox", "staging"))
    both = f"{held.kubeconfig_file()}{os.pathsep}{gone}"
    arguments = ["fences", "--watch", "--context", "sandbox", "--context", "staging"]
    with spoken(arguments, env=environment(both, TERM="xterm"), cwd=tmp_path, terminal=True) as program:
        shown = frame(program, has="staging: not readable since")
        assert shown[0].startswith("✗ staging: not readable since ")
        assert any(line.startswith("2 fences held on sandbox") for line in shown)
        program.type("\x03")
        assert program.to_the_end() == 130


def test_clusters_that_cannot_be_read_at_all_end_it_with_21(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the very first look a wrong name is likelier than a bad moment: as without `--watch`."""
    with Sandbox() as sandbox:
        text = sandbox.kubeconfig(context="one")
        other = sandbox.kubeconfig(context="two")
    (tmp_path / "one").write_text(text)
    (tmp_path / "two").write_text(other)

    def run(kubeconfig: str, *contexts: str) -> ExitCode:
        common = CommonOptions(kubeconfig=kubeconfig, contexts=contexts, config=_empty_config(tmp_path))
        return fences.run(FencesOptions(common=common, watch=True))

    with pytest.raises(NotReadableError, match="one did not answer"):
        run(str(tmp_path / "one"), "one")
    merged = tmp_path / "both"
    merged.write_text(_merged(text, other))
    assert run(str(merged), "one", "two") is ExitCode.INCOMPLETE
    assert capsys.readouterr().err.count('This is not "no fence"') == 2


def _empty_config(folder: Path) -> str:
    path = folder / "fencectl.yaml"
    path.write_text("apiVersion: fencectl.dev/v1\nkind: Config\n")
    return str(path)


def _merged(one: str, two: str) -> str:
    import yaml

    first, second = yaml.safe_load(one), yaml.safe_load(two)
    for key in ("clusters", "contexts"):
        first[key] += second[key]
    return yaml.safe_dump(first)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"output": Output.YAML}, "`--watch` does not go with `-o yaml`"),
        ({"output": Output.MARKDOWN}, "`--watch` does not go with `-o markdown`"),
        ({"output": Output.GITHUB}, "`--watch` does not go with `-o github`"),
        ({"output": Output.OPENMETRICS}, "`--watch` does not go with `-o openmetrics`"),
        ({"explain": True}, "`--explain` explains commands, and `--watch` shows none"),
        ({"exit_code": True}, "`--watch` goes on until ctrl-c, so `--exit-code` has no end to tell of"),
    ],
)
def test_what_does_not_go_with_watch_is_refused_before_anything_is_read(
    sandbox: Sandbox, tmp_path: Path, options: dict[str, object], sentence: str
) -> None:
    """Said at once, and naming what works."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(sandbox.kubeconfig())
    common = CommonOptions(kubeconfig=str(kubeconfig), config=_empty_config(tmp_path))
    with pytest.raises(UsageError) as refused:
        fences.run(FencesOptions(common=common, watch=True, **options))  # type: ignore[arg-type]
    assert refused.value.sentence == sentence
    assert len(sandbox.requests) == 0
