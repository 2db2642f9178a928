"""
A deploy of the demo as a process of its own, so that it can be killed, and then really is.

`python -m fencectl.commands.demo_holder` fences the cluster of KUBECONFIG, is "at work" until its standard input
ends, and then releases everything, as a deploy that is left alone does. It says what it did, line by line.
It runs on the demo's own cluster and on no other.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fencectl.cluster.clock import SystemClock
from fencectl.cluster.kubeconfig import Connection, resolve
from fencectl.cluster.transport import Transport
from fencectl.commands.common import TargetSettings
from fencectl.commands.demo_deploy import LeaseHeldError, NotFencedError, PlayedDeploy
from fencectl.commands.reading import LOOK_DEADLINE_S, Subject
from fencectl.core.config import Settings
from fencectl.core.errors import ExitCode, FencectlError
from fencectl.core.evidence import Strength, Verdict
from fencectl.core.profiles import FENCECTL
from fencectl.core.report import FenceReport
from fencectl.core.times import clock_text
from fencectl.evidence.machine import Machine
from fencectl.evidence.self_identity import describe_self
from fencectl.report.words import held_sentence

NAMESPACE = "flux-system"
PARENT, CHILD, NODE = "flux-system", "apps", "worker-2"
AT_WORK = "everything is fenced; now it would change the cluster"
"""The line that says that all fences are placed."""
SERVER = "FENCECTL_DEMO_SERVER"
"""The variable by which the demo names its cluster."""


def main(arguments: Sequence[str] | None = None) -> ExitCode:
    """Play one deploy."""
    parser = argparse.ArgumentParser(prog="demo_holder", description="Play a deploy of the demo.")
    parser.add_argument("--behind", type=float, default=0.0, metavar="SECONDS", help="How long ago it happens")
    options = parser.parse_args(arguments)
    try:
        connection = resolve(None, None, os.environ, Path.home())
    except FencectlError as error:
        _say(f"error: {error.sentence}")
        return error.exit_code
    # NB: typed by hand it would otherwise suspend and cordon whatever the current context is.
    if connection.server != os.environ.get(SERVER):
        _say(f"error: {connection.context_name} is not the demo's own cluster; nothing was read or changed")
        return ExitCode.USAGE
    transport = connection.open()
    try:
        return _deploy(transport, connection, behind_s=options.behind)
    except FencectlError as error:
        _say(f"error: {error.sentence}")
        if error.reason:
            _say(f"reason: {error.reason}")
        return error.exit_code
    finally:
        transport.close()


def _deploy(transport: Transport, connection: Connection, *, behind_s: float) -> ExitCode:
    now = server_time(transport) - timedelta(seconds=behind_s)
    # NB: HOME is the demo's own folder; the checkout that the user stands in is none of its business.
    own = describe_self(os.environ, Machine(), command=sys.argv, at=now, folder=Path.home())
    story = {"reason": "the deploy of the demo", "details": own.details}
    run = PlayedDeploy(transport, own.identity, FENCECTL.lease, now, story=story)
    at = clock_text(now, now=now)
    try:
        token = run.take_lease()
    except LeaseHeldError as held:
        report = subject_of(connection).look(transport, SystemClock()).report
        _say(f"not deployed: {held.sentence}")
        _say(f"  {held_sentence(report)}")
        _say("  nothing was changed")
        return refusal_code(report)
    _say(f"{at}  lease/{'/'.join(run.lease)} taken, token {token}")
    for rank, name in enumerate((PARENT, CHILD), start=1):
        suspended = run.suspend(NAMESPACE, name, rank=rank)
        if not run.is_drained(suspended):
            raise NotFencedError(f"{suspended.ref.display} still reconciles")
        _say(f"{at}  {suspended.ref.display} suspended and drained")
    _say(f"{at}  {run.cordon(NODE).ref.display} cordoned")
    _say(f"{at}  {AT_WORK}")
    sys.stdin.read()
    for ref, after in run.release_all():
        _say(f"{at}  {ref.display} released: {after}")
    return ExitCode.OK


def subject_of(connection: Connection) -> Subject:
    """Read a cluster under the default names, whatever settings the user has."""
    target = TargetSettings(
        target=None,
        context=connection.context_flag,
        print_context=None,
        profile=FENCECTL,
        settings=Settings(),
        repository=None,
    )
    return Subject(target, connection, LOOK_DEADLINE_S, None)


def refusal_code(report: FenceReport) -> ExitCode:
    """Give the status of a deploy that is refused because of these fences."""
    if report.blocks_with(Verdict.LIVE):
        return ExitCode.HELD_LIVE
    proven = all(block.judgement.strength is Strength.PROVEN for block in report.blocks)
    return ExitCode.HELD_DEAD if report.blocks and proven else ExitCode.HELD_PERSON_NEEDED


def server_time(transport: Transport) -> datetime:
    """Ask the API server for its time: a demo's cluster may have a clock of its own."""
    return transport.get("/version").date_at or datetime.now(UTC)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
