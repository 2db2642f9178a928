"""
The program as a process of its own, without the price of its start.

Most of what a short run of the program costs is Python that starts, imports, and sets up coverage. Here one process
(per module that is run) has done that and forks for each run: what runs is a process like any other, with its own
pid, descriptors, environment, folder and end. What a start itself is about (what is imported, the interpreter's own
settings) is for a real one: `subprocess`.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TextIO, cast

ROOT = Path(__file__).parents[2]
# What the verbs import when they run; `deploy` and `recover` before all, for they take times over as they are then.
PRELOADED = (
    "fencectl.commands.deploy",
    "fencectl.commands.recover",
    "fencectl.commands.fences",
    "fencectl.commands.hold",
    "fencectl.commands.release",
    "fencectl.commands.runbook",
    "fencectl.report.text",
    "fencectl.evidence.gather",
    "fencectl.evidence.github",
    "fencectl.evidence.machine",
    "fencectl.evidence.pod",
    "fencectl.evidence.self_identity",
    "http.client",
    "ssl",
    "tempfile",
    "yaml",
)
# Read once, when an interpreter starts.
_INTERPRETER = "PYTHON"
_INHERITED = ("PYTHONPATH", "PYTHONUTF8")
_LARGEST = 1 << 17
# Whoever waits lets others look so often.
_SLICE_S = 0.05


class ServerGoneError(RuntimeError):
    """The process that forks has ended: its own fault, not that of the program."""


class Process(Protocol):
    """A process that was started, by this module or by `subprocess`."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int, /) -> None: ...

    def kill(self) -> None: ...


class Forked:
    """A run of the program, as `subprocess.Popen` would give it."""

    def __init__(self, reply: socket.socket) -> None:
        self._reply = reply
        self._lines = reply.makefile("r")
        self.returncode: int | None = None
        self._ending = threading.Lock()  # one thread may kill what another one waits for
        self._pid = int(self._line())

    @property
    def pid(self) -> int:
        return self._pid

    def poll(self) -> int | None:
        return self._look(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        end_s = None if timeout is None else time.monotonic() + timeout
        while (code := self._look(_SLICE_S)) is None:
            if end_s is not None and time.monotonic() >= end_s:
                raise subprocess.TimeoutExpired(["fencectl"], timeout or 0.0)
        return code

    def _look(self, for_s: float) -> int | None:
        with self._ending:
            if self.returncode is None and select.select([self._reply], [], [], for_s)[0]:
                self._end()
            return self.returncode

    def send_signal(self, sig: int, /) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _end(self) -> None:
        self.returncode = int(self._line())
        self._lines.close()
        self._reply.close()

    def _line(self) -> str:
        if line := self._lines.readline():
            return line
        raise ServerGoneError("the process that forks has ended")


class _Server:
    """The client's end of the process that forks for one module."""

    def __init__(self, module: str, environ: Mapping[str, str]) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, module, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=None,
                cwd=ROOT,
                env=dict(environ),
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # ^C at the terminal is for pytest, which then ends things in order
            )

    @property
    def descriptor(self) -> int:
        """The descriptor through which a process that inherits it may ask too (`tests.support.forkclient`)."""
        return self._control.fileno()

    def start(self, asked: Mapping[str, Any], descriptors: Sequence[int]) -> Forked:
        ours, theirs = socket.socketpair()
        with theirs:
            message = json.dumps(asked).encode()
            try:
                socket.send_fds(self._control, [message], [*descriptors, theirs.fileno()])
            except OSError as error:
                ours.close()
                raise ServerGoneError("the process that forks has ended") from error
        return Forked(ours)

    def close(self) -> None:
        """End it, so that what it has measured is written."""
        self._control.close()
        self._process.wait(60)


# By module, and by what is to be measured of it.
_servers: dict[tuple[str, tuple[tuple[str, str], ...]], _Server] = {}
_lock = threading.Lock()


def can_fork(environ: Mapping[str, str]) -> bool:
    """Whether a run in this environment may be forked: nothing in it that only an interpreter's start reads."""
    return hasattr(os, "pidfd_open") and not any(
        name.startswith(_INTERPRETER) and name not in _INHERITED for name in environ
    )


def start(
    module: str,
    arguments: Sequence[str],
    *,
    environ: Mapping[str, str],
    cwd: Path,
    descriptors: tuple[int, int, int],
    new_session: bool = False,
) -> Forked:
    """Run `python -m MODULE ARGUMENTS` with these three standard descriptors; `main` of the module is the program."""
    server = server_for(module, environ)
    asked = {"arguments": list(arguments), "environ": dict(environ), "cwd": str(cwd), "session": new_session}
    return server.start(asked, descriptors)


def server_for(module: str, environ: Mapping[str, str]) -> _Server:
    """Give the process that forks for this module, measured or not, started once each."""
    measured = {name: value for name, value in environ.items() if name.startswith("COVERAGE_")}
    key = module, tuple(sorted(measured.items()))
    with _lock:
        if key not in _servers:
            kept = {
                name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "LC_ALL")
            }
            own = {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}
            _servers[key] = _Server(module, kept | measured | own)
        return _servers[key]


def close() -> None:
    """End all processes that fork."""
    with _lock:
        for server in _servers.values():
            server.close()
        _servers.clear()


# The process that forks


def _serve(control: socket.socket) -> list[str] | None:
    """Fork for each request. In the child: give the arguments. None: nobody asks any more."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    running: dict[int, tuple[int, int]] = {}  # pidfd -> pid, where its end is told
    while True:
        for ready, _ in poll.poll():
            if ready in running:
                pid, reply = running.pop(ready)
                poll.unregister(ready)
                _tell(reply, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                os.close(reply)
                os.close(ready)
                continue
            message, descriptors, _, _ = socket.recv_fds(control, _LARGEST, 4)
            if not message:
                return None
            pid = os.fork()
            if pid == 0:
                control.detach()
                return _become(json.loads(message), descriptors[:3])
            for descriptor in descriptors[:3]:
                os.close(descriptor)
            pidfd = os.pidfd_open(pid)
            running[pidfd] = pid, descriptors[3]
            poll.register(pidfd, select.POLLIN)
            _tell(descriptors[3], pid)


def _tell(reply: int, number: int) -> None:
    with suppress(BrokenPipeError):  # whoever asked has given up
        os.write(reply, f"{number}\n".encode())


def _become(asked: Mapping[str, Any], descriptors: Sequence[int]) -> list[str]:
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    # NB: the streams were made for a file; a pipe cannot be sought in, and a terminal wants each line at once.
    sys.stdin = _stream(0, "r")
    sys.stdout = _stream(1, "w")
    sys.stderr = _stream(2, "w", errors="backslashreplace")
    if asked["session"]:
        os.setsid()
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environ"])
    arguments: list[str] = asked["arguments"]
    return arguments


def _stream(descriptor: int, mode: str, errors: str = "surrogateescape") -> TextIO:
    line = 1 if descriptor == 2 or (mode == "w" and os.isatty(descriptor)) else -1
    stream = open(descriptor, mode, buffering=line, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
    return cast(TextIO, stream)


def _flush_coverage() -> None:
    """Write what the imports have reached, so that no child writes it again."""
    if "coverage" in sys.modules:
        from coverage import Coverage

        if current := Coverage.current():
            current.save()


def main() -> int:
    name, control = sys.argv[1], socket.socket(fileno=int(sys.argv[2]))
    control.set_inheritable(False)
    module = importlib.import_module("fencectl.__main__" if name == "fencectl" else name)
    program = module.main  # a module without one fails here, at the first request, and not in each child
    for preloaded in PRELOADED:
        importlib.import_module(preloaded)
    _flush_coverage()
    gc.collect()
    gc.freeze()
    arguments = _serve(control)
    if arguments is None:
        return 0
    sys.argv = [str(module.__file__), *arguments]
    return int(program())


if __name__ == "__main__":
    sys.exit(main())
