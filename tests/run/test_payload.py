"""The payload, with real processes: its exit code, its group, and its end when it must not go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fencectl.cluster.clock import SystemClock
from fencectl.run.payload import Payload, SystemProcesses

PYTHON = sys.executable


def payload(*command: str, **environ: str) -> Payload:
    return Payload(command, environ=dict(os.environ) | environ, clock=SystemClock(), processes=SystemProcesses())


def never() -> None:
    return None


def gone(pid: int) -> bool:
    """Wait until a process has ended, for a minute at most: the machine may be busy."""
    for _ in range(6000):
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except FileNotFoundError:
            return True
        if stat.rpartition(")")[2].split()[0] in "ZX":
            return True
        time.sleep(0.01)
    return False


def pid_in(path: Path) -> int:
    """Wait until a child has written its pid, for a minute at most."""
    for _ in range(6000):
        text = path.read_text() if path.exists() else ""
        if text.endswith("\n"):
            return int(text)
        time.sleep(0.01)
    raise AssertionError(f"nobody wrote {path}")


@pytest.mark.parametrize(
    ("script", "code"), [("pass", 0), ("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137)]
)
def test_exit_code_is_kept(script: str, code: int) -> None:
    """A signal is 128 and its number, as shells say it."""
    ended = payload(PYTHON, "-c", script).wait(timeout_s=60, must_stop=never)
    assert (ended.code, ended.ok, ended.why_stopped) == (code, code == 0, None)


@pytest.mark.parametrize(("command", "code"), [("no-such-command-at-all", 127), ("/etc/hostname", 126)])
def test_command_that_cannot_start_ends_as_a_shell_says(
    command: str, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """Not found is 127, not executable is 126; the reason is said."""
    assert payload(command).wait(timeout_s=60, must_stop=never).code == code
    assert command in capfd.readouterr().err


def test_output_passes_through_unharmed(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Bytes that are no text, and a lot of them."""
    script = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 4096)"
    assert payload(PYTHON, "-c", script).wait(timeout_s=60, must_stop=never).ok
    assert capfdbinary.readouterr().out == bytes(range(256)) * 4096


def test_nothing_of_the_command_is_read_by_a_shell(capfd: pytest.CaptureFixture[str]) -> None:
    """No shell is involved."""
    assert (
        payload(PYTHON, "-c", "import sys; print(sys.argv[1:])", "$HOME; `id`", "a b")
        .wait(timeout_s=60, must_stop=never)
        .ok
    )
    assert "['$HOME; `id`', 'a b']" in capfd.readouterr().out


IGNORES_TERM = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child == 0:
    open(sys.argv[1], "w").write(f"{os.getpid()}\\n")
    time.sleep(600)
time.sleep(600)
"""


def test_group_that_ignores_term_is_killed_whole(tmp_path: Path) -> None:
    """The leader and what it has forked."""
    note = tmp_path / "pid"
    running = payload(PYTHON, "-c", IGNORES_TERM, str(note))
    child = pid_in(note)
    ended = running.wait(timeout_s=60, must_stop=lambda: "the lease is lost")
    assert (ended.ok, ended.why_stopped) == (False, "the lease is lost")
    assert ended.code == 128 + signal.SIGKILL
    assert gone(child)


@pytest.mark.parametrize("how", ["folder", "PYTHONPATH"])
def test_modules_of_the_command_are_not_ours(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `signal.py` or a `fencectl` folder where a deploy runs must not become a part of it."""
    (tmp_path / "fencectl").mkdir()
    for name in ("signal.py", "ctypes.py", "fencectl/__init__.py"):
        (tmp_path / name).write_text("raise SystemExit(99)\n")
    environ = {"PYTHONPATH": str(tmp_path)} if how == "PYTHONPATH" else {}
    if how == "folder":
        monkeypatch.chdir(tmp_path)
    ended = payload("sh", "-c", f'test "$PYTHONPATH" = "{environ.get("PYTHONPATH", "")}"', **environ)
    assert ended.wait(timeout_s=60, must_stop=never).code == 0


def test_success_in_the_moment_of_a_stop_is_no_success() -> None:
    """Exit 0 after the lease was lost does not make a deploy a success."""
    running = payload(PYTHON, "-c", "pass")
    running._process.wait()
    assert not running.wait(timeout_s=60, must_stop=lambda: "the lease is lost").ok


def test_time_that_is_over_ends_it() -> None:
    """And says so."""
    ended = payload(PYTHON, "-c", "import time; time.sleep(600)").wait(timeout_s=0.3, must_stop=never)
    assert ended.why_stopped == "its time is over"


def test_what_a_command_leaves_behind_does_not_outlive_it(tmp_path: Path) -> None:
    """A daemon of its group is ended with it."""
    note = tmp_path / "pid"
    script = f"import os, time\nif os.fork() == 0:\n open({str(note)!r}, 'w').write(f'{{os.getpid()}}\\n'); time.sleep(600)\nelse:\n time.sleep(1)"
    running = payload(PYTHON, "-c", script)
    child = pid_in(note)
    assert running.wait(timeout_s=60, must_stop=never).ok
    assert gone(child)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux binds a life to its parent's")
def test_payload_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """SIGKILL runs no clean-up of ours; the kernel does it."""
    note = tmp_path / "pid"
    parent = subprocess.Popen(
        [PYTHON, "-c", PARENT, str(note)], env=dict(os.environ) | {"PYTHONPATH": str(Path(__file__).parents[2])}
    )
    child = pid_in(note)
    parent.kill()
    parent.wait(60)
    assert gone(child)


PARENT = """
import os, sys
from fencectl.cluster.clock import SystemClock
from fencectl.run.payload import Payload, SystemProcesses
script = f"import os, time; open({sys.argv[1]!r}, 'w').write(f'{{os.getpid()}}\\\\n'); time.sleep(600)"
Payload([sys.executable, "-c", script], environ=dict(os.environ), clock=SystemClock(), processes=SystemProcesses()).wait(timeout_s=600, must_stop=lambda: None)
"""
