"""
The program in this process: `program("fences", "-n", "x")` gives status, stdout and stderr.

Commands are stood in for by `stand_in`: what is under test here is the command line and the boundary around it.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

import pytest

import fencectl.commands
from fencectl import cli
from fencectl.core.errors import ExitCode


@dataclass(frozen=True)
class Ended:
    """How a run of the program ended."""

    status: int
    out: str
    err: str


class Program(Protocol):
    """Runs the program with these arguments."""

    def __call__(self, *args: str, called: str = "fencectl") -> Ended: ...


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take the caller's own settings away, and put signal handlers back."""
    for name in ("NO_COLOR", "FORCE_COLOR", "GITHUB_REPOSITORY", "GITHUB_TOKEN", "GH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def program(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Program:
    """Give the program, as its entry point runs it."""

    def run(*args: str, called: str = "fencectl") -> Ended:
        monkeypatch.setattr(sys, "argv", [f"/usr/local/bin/{called}", *args])
        status = cli.main()
        out, err = capsys.readouterr()
        return Ended(status, out, err)

    return run


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[Any], ExitCode]], None]:
    """Put a function in the place of a command."""

    def put(verb: str, run: Callable[[Any], ExitCode]) -> None:
        module = ModuleType(f"fencectl.commands.{verb}")
        module.__dict__["run"] = run
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(fencectl.commands, verb, module, raising=False)

    return put


@pytest.fixture
def asked(stand_in: Callable[[str, Callable[[Any], ExitCode]], None]) -> list[Any]:
    """Stand in for every command, and keep the options that it is given."""
    seen: list[Any] = []

    def keep(options: Any) -> ExitCode:
        seen.append(options)
        return ExitCode.OK

    for verb in ("fences", "release", "runbook", "deploy", "recover", "hold", "demo"):
        stand_in(verb, keep)
    return seen
