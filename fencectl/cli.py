"""
The command line: what each verb takes, and the one boundary that turns errors into text and a status.

It imports typing, Typer and the errors only; each verb imports its own module when it runs, so that help,
completion and usage errors stay as cheap as Typer itself.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import Annotated

import typer

from fencectl import __version__, boundary, clilook  # noqa: F401 - it registers its verbs
from fencectl.cliparts import app, not_from_environment

# isort: split
from fencectl import cliact  # noqa: F401 - these come after those that look

__all__ = ["app", "main"]


# What a report of a fault should say it ran with.
_PARTS = ("typer", "msgspec", "rich", "pyyaml", "jsonpatch", "kubernetes")


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        system = os.uname()
        python = ".".join(map(str, sys.version_info[:3]))
        parts = []
        for name in _PARTS:
            try:
                parts.append(f"{name} {version(name)}")
            except PackageNotFoundError:
                parts.append(f"no {name}")
        typer.echo(f"fencectl {__version__}")
        typer.echo(", ".join([f"Python {python}", f"{system.sysname} {system.machine}", *parts[:2]]))
        typer.echo(", ".join(parts[2:]))
        raise typer.Exit


@app.callback()
def root(
    # NB: not from the environment, see `_parse_and_run`: a CI job may well call the version it pins
    # FENCECTL_VERSION.
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True)] = False,
) -> None:
    pass


def main() -> int:
    """Run the program; the status is what `fencectl.core.errors` says, or the signal's."""
    # NB: a report is one pass over decoded data and then the end; collecting in between finds nothing and costs a
    # tenth of its time. Verbs that live longer turn it on again.
    gc.disable()
    return boundary.run(_parse_and_run)


def complete_for_kubectl() -> int:
    """
    Complete `kubectl fencectl …`: kubectl runs `kubectl_complete-fencectl` with the words so far.

    The last one is unfinished. It reads a word on each line, and a line with a colon and a number: 4, that no file
    names are meant.
    """
    gc.disable()
    command = typer.main.get_command(app)
    from typer._completion_classes import BashComplete

    words = sys.argv[1:] or [""]
    try:
        completer = BashComplete(command, {}, "fencectl", "_FENCECTL_COMPLETE")
        found = completer.get_completions(words[:-1], words[-1])
        sys.stdout.write("".join(f"{one.value}\n" for one in found))
    except Exception:  # noqa: BLE001, S110  nothing on offer, and no error in the middle of a line
        pass
    sys.stdout.write(":4\n")
    return 0


def _parse_and_run(session: boundary.Session) -> int:
    command = typer.main.get_command(app)
    for param in command.params:
        not_from_environment(param)
    if "_FENCECTL_COMPLETE" in os.environ:
        command.main(sys.argv[1:], prog_name="fencectl")
    # NB: not `command.main`, which would turn a broken pipe into exit 1 and swallow an interrupt.
    try:
        with command.make_context("fencectl", sys.argv[1:], obj=session) as ctx:
            return int(command.invoke(ctx))
    except typer.Exit as leave:
        return int(leave.exit_code)
