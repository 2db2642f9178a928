"""
`fencectl demo --serve`: the demo's cluster with what a killed deploy left on it, to be tried with one's own hands.

Stdout gets the line for the shell and nothing else; then it is let go, so that a `$(… &)` around it ends.
"""

from __future__ import annotations

import os
import shlex
import sys
import threading

from fencectl.commands.demo_stage import CONTEXT, NODE, Stage, staged
from fencectl.commands.demo_story import fenced_by, named_in
from fencectl.core.errors import ExitCode, FencectlError
from fencectl.core.evidence import Verdict
from fencectl.core.report import FenceReport
from fencectl.core.times import age_text


def serve() -> ExitCode:
    """Serve until a signal ends it, which is also its status."""
    with staged() as stage:
        pid = _leave_fences(stage)
        turned_on = age_text(stage.clock.turn_on())
        sys.stdout.write(f"export KUBECONFIG={shlex.quote(str(stage.kubeconfig))}\n")
        sys.stdout.flush()
        if not sys.stdout.isatty():
            _let_go_of_stdout()
        sys.stderr.write(_explanation(stage, stage.look_at_the_dead(), pid=pid, turned_on=turned_on))
        sys.stderr.flush()
        threading.Event().wait()
    return ExitCode.OK


def _leave_fences(stage: Stage) -> int:
    """Start a deploy and kill it; return its process id."""
    with stage.deployer() as deployer:
        said = deployer.begin()
        deployer.kill()
        gone = deployer.is_silent()
    left = stage.fenced()
    if left != fenced_by(left.holder) or not gone:
        raise FencectlError("the demo's own deploy did not leave its fences", reason="; ".join(said))
    return deployer.pid


def _explanation(stage: Stage, report: FenceReport, *, pid: int, turned_on: str) -> str:
    proven = report.blocks[0].judgement.verdict is Verdict.DEAD
    suggested = [
        f"fencectl fences --context {CONTEXT}",
        "kubectl get nodes",
        f"kubectl describe node {NODE}",
        # NB: what nobody has proven dead, recover does not even rehearse.
        *([f"fencectl recover --context {CONTEXT} --dry-run"] if proven else []),
        f"{shlex.join(['fencectl', 'release', '--context', CONTEXT, *named_in(report)])} | sh",
    ]
    return f"""\
a cluster inside this program, at {stage.sandbox.url}:
process {pid} was killed in the middle of a deploy. Since then the demo has
turned the cluster's clock on by {turned_on}: the heartbeat stands still.
In another shell run the `export` line, and then, for example:

{"".join(f"  {line}{chr(10)}" for line in suggested)}
it stays up until ctrl-c or `kill {os.getpid()}`; then all of it is gone
"""


def _let_go_of_stdout() -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.close(quiet)
