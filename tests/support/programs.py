"""
The programs of the real cluster: where they are, and one of them running.

They come from `KUBEBUILDER_ASSETS` or from the cache that `tests/cluster/build` fills. Without them a test is
skipped with a reason that says how to turn it on; where `CI` is set it fails.
"""

from __future__ import annotations

import os
import runpy
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

BUILD = Path(__file__).resolve().parent.parent / "cluster" / "build"
# The API server's graceful end waits for what is still open; what it would save is thrown away here.
STOP_TIMEOUT_S = 5.0


class StartFailedError(RuntimeError):
    """A program of the cluster ended or never became ready; the end of its log is in the message."""


def build_cache() -> Path:
    """Name the folder that `tests/cluster/build` fills; it need not exist."""
    return Path(runpy.run_path(str(BUILD))["cache_folder"]())


def find_program(name: str) -> Path | None:
    """Look for a program where envtest puts it, then where the build script does."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    for folder in ([Path(assets)] if assets else []) + [build_cache()]:
        if (folder / name).exists():
            return folder / name
    return None


def require_program(name: str) -> Path:
    """Find a program, or skip the test; where CI is set, fail it."""
    if found := find_program(name):
        return found
    reason = f"no {name}: run tests/cluster/build (needs Go), or set KUBEBUILDER_ASSETS to a folder that holds it"
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def find_kubectl() -> str:
    """Find the kubectl of the running Python's environment, else the one on PATH."""
    beside = Path(sys.executable).parent / "kubectl"
    if beside.exists():
        return str(beside)
    return shutil.which("kubectl") or str(require_program("kubectl"))


def free_ports(count: int) -> list[int]:
    """Pick distinct free loopback ports. NB: another process may take one before it is used."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Program:
    """One running program of the cluster, its log in a file."""

    def __init__(
        self, name: str, arguments: Sequence[str], *, folder: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log_path = folder / f"{name}.log"
        command = list(arguments)
        # NB: if pytest is killed hard, no fixture stops the program; the kernel then does. It does so too when
        # the *thread* that started it ends, so only the main thread asks for it.
        if (setpriv := shutil.which("setpriv")) and threading.current_thread() is threading.main_thread():
            command = [setpriv, "--pdeathsig", "KILL", *command]
        with self.log_path.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, **(env or {})},
                start_new_session=True,  # ^C at the terminal is for pytest, which then stops things in order
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def log_tail(self, lines: int = 40) -> str:
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def stop(self) -> None:
        if self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
