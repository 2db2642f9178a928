"""
`fencectl demo --serve`: the demo's cluster with what a killed deploy left on it, to be tried with one's own hands.

Stdout gets the line for the shell and nothing else; then it is let go, so that a `$(… &)` around it ends.
"""

from __future__ import annotations

import os
import shlex
import sys
import threading

from fencectl.commands.demo_holder import NODE
from fencectl.commands.demo_stage import CONTEXT, Deployer, Stage, staged
from fencectl.commands.demo_story import fenced_by, named_in
from fencectl.core.errors import ExitCode, FencectlError
from fencectl.core.report import FenceReport

# The killed deploy began this long ago, so that its heartbeat stands still from the start.
LEFT_AGO_S = 3600.0


def serve() -> ExitCode:
    """Serve until a signal ends it, which is also its status."""
    with staged() as stage:
        pid = _leave_fences(stage)
        sys.stdout.write(f"export KUBECONFIG={shlex.quote(str(stage.kubeconfig))}\n")
        sys.stdout.flush()
        if not sys.stdout.isatty():
            _let_go_of_stdout()
        sys.stderr.write(_explanation(stage, stage.look(), pid=pid))
        sys.stderr.flush()
        threading.Event().wait()
    return ExitCode.OK


def _leave_fences(stage: Stage) -> int:
    """Play a deploy and kill it; return its process id."""
    with Deployer(stage, behind_s=LEFT_AGO_S) as deployer:
        said = deployer.begin()
        deployer.kill()
    left = stage.fenced()
    if left != fenced_by(left.holder):
        raise FencectlError("the demo's own deploy did not place its fences", reason="; ".join(said))
    return deployer.pid


def _explanation(stage: Stage, report: FenceReport, *, pid: int) -> str:
    release = shlex.join(["fencectl", "release", "--context", CONTEXT, *named_in(report)])
    return f"""\
a cluster inside this program, at {stage.sandbox.url}:
an hour ago, process {pid} was killed in the middle of a deploy.
In another shell run the `export` line, and then, for example:

  fencectl fences --context {CONTEXT}
  kubectl get nodes
  kubectl describe node {NODE}
  {release} | sh

it stays up until ctrl-c or `kill {os.getpid()}`; then all of it is gone
"""


def _let_go_of_stdout() -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.close(quiet)
