"""What this machine says of itself and of its processes: on made-up trees, and once for real."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fencectl.evidence.machine import Machine, Process, kernel_knows, run_program
from tests.evidence.machines import BOOT_ID, BOOTED_S, MACHINE_ID, OTHER_ID, TICKS, Tree

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_ids_are_read_without_their_line_ends(tree: Tree) -> None:
    """What is written into a journal is compared as text."""
    machine = tree.machine()
    assert machine.machine_id() == MACHINE_ID
    assert machine.boot_id() == BOOT_ID
    assert machine.pid_namespace() == "pid:[4026531836]"


@pytest.mark.parametrize("first", [None, "", "uninitialized\n", f"{'0' * 32}\n", f"{MACHINE_ID.upper()}\n"])
def test_second_place_of_the_machine_id_counts_where_the_first_has_none(tree: Tree, first: str | None) -> None:
    """D-Bus keeps one too; what stands for "none" is passed over."""
    if first is None:
        (tree.root / "etc/machine-id").unlink()
    else:
        tree.write("etc/machine-id", first)
    assert tree.machine().machine_id() is None
    tree.write("var/lib/dbus/machine-id", OTHER_ID)
    assert tree.machine().machine_id() == OTHER_ID


@pytest.mark.parametrize("text", ["", "x", "\udcff", "0" * 36])
def test_boot_id_that_is_none_is_none(tree: Tree, text: str) -> None:
    """Only a UUID is one."""
    tree.write("proc/sys/kernel/random/boot_id", text.encode("utf-8", "surrogateescape"))
    assert tree.machine().boot_id() is None


def test_name_with_parentheses_spaces_and_line_ends_shifts_nothing(tree: Tree) -> None:
    """The program's name is anybody's text, in the middle of the line."""
    tree.add(77, group=70, started=123, name="x) Z 1 1 (y\n) S 9 9 9")
    assert tree.machine().process(77) == Process(77, 70, alive=True, started=123)


@pytest.mark.parametrize(
    "text", ["", "77", "77 (x) S 1", "77 (x) S 1 a b c d e f g h i j k l m n o p q r s", b"\xff)"]
)
def test_unreadable_stat_is_no_process(tree: Tree, text: str | bytes) -> None:
    """What is not understood is not guessed at."""
    tree.write("proc/77/stat", text)
    assert tree.machine().process(77) is None


def test_members_of_a_group_are_all_that_bear_its_number(tree: Tree) -> None:
    """Zombies included, each told as such."""
    tree.add(77, group=70, started=1)
    tree.add(78, group=70, started=2, state="Z")
    tree.add(79, group=71, started=3)
    assert {(one.pid, one.alive) for one in tree.machine().members(70)} == {(77, True), (78, False)}


def test_start_is_told_on_the_wall_clock(tree: Tree) -> None:
    """Ticks count from the machine's start."""
    machine = tree.machine()
    started = machine.started_at(Process(77, 77, alive=True, started=90 * TICKS))
    assert started == datetime.fromtimestamp(BOOTED_S, UTC) + timedelta(seconds=90)
    assert machine.started_at(Process(77, 77, alive=True, started=None)) is None
    assert machine.started_at(Process(77, 77, alive=True, started="soon")) is None
    assert machine.started_at(Process(77, 77, alive=True, started=10**30)) is None


def test_machine_without_anything_says_nothing(tmp_path: Path) -> None:
    """Every answer is then None, and no process is seen."""
    machine = Machine(root=tmp_path, system="linux", pid=1, host="h")
    assert (machine.machine_id(), machine.boot_id(), machine.pid_namespace()) == (None, None, None)
    assert machine.process(1) is None
    assert machine.members(1) == ()
    assert not machine.carries(1, "A=b")
    assert machine.describe_group(5) == {"id": 5, "started": None}


@linux
def test_this_machine_tells_about_this_process() -> None:
    """Against what Python knows by itself."""
    machine = Machine()
    own = machine.process(os.getpid())
    assert own is not None
    assert (own.pid, own.group, own.alive) == (os.getpid(), os.getpgrp(), True)
    assert own in machine.members(os.getpgrp())
    started_at = machine.started_at(own)
    assert started_at is not None
    assert datetime.now(UTC) - timedelta(days=1) < started_at < datetime.now(UTC) + timedelta(seconds=2)
    assert machine.pid_namespace() == str(Path("/proc/self/ns/pid").readlink())
    assert machine.describe_group(os.getpid()) == {"id": os.getpid(), "started": own.started}


@linux
def test_environment_of_a_process_is_compared_as_a_whole() -> None:
    """Neither a part of a value nor a value that looks like a pair counts."""
    command = [sys.executable, "-c", "print('up', flush=True); input()"]
    environ = {"FENCECTL_HOLDER": "abc", "X": "FENCECTL_HOLDER=xyz"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environ, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as child:
        assert child.stdout is not None
        child.stdout.readline()
        machine = Machine()
        assert machine.carries(child.pid, "FENCECTL_HOLDER=abc")
        for other in ("FENCECTL_HOLDER=ab", "FENCECTL_HOLDER=xyz", "HOLDER=abc", "FENCECTL_HOLDER="):
            assert not machine.carries(child.pid, other)
        child.kill()


def test_kernel_knows_processes_and_groups() -> None:
    """This one, its group, and not one that was reaped."""
    assert kernel_knows(os.getpid())
    assert kernel_knows(-os.getpgrp())
    with subprocess.Popen(["true"], process_group=0) as child:
        pass
    assert not kernel_knows(child.pid)
    assert not kernel_knows(-child.pid)


def test_program_that_fails_says_nothing() -> None:
    """Absent, failing or well."""
    assert run_program(["/nonexistent/program"]) is None
    assert run_program(["false"]) is None
    assert run_program(["echo", "a"]) == "a\n"
