"""`fencectl deploy`: apply manifests or run a command inside fences, and leave nothing behind unexplained."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from fencectl.cluster.clock import SystemClock
from fencectl.commands.common import NOTHING, TargetSettings, resolve
from fencectl.commands.deploy_files import check_form, is_given, render
from fencectl.commands.deploy_planning import check_plan
from fencectl.commands.deploy_show import Show
from fencectl.commands.deploy_target import DeployOnTarget
from fencectl.commands.options_acting import DeployOptions
from fencectl.commands.reading import subjects
from fencectl.commands.signals import Signals, parent_shell
from fencectl.core.errors import ExitCode, FencectlError, UsageError
from fencectl.core.nesting import read_around
from fencectl.core.profiles import ProfileName

PARENT_POLL_S = 0.5


def run(options: DeployOptions) -> ExitCode:
    """Read and check everything, refuse or wait, then run the transaction."""
    effective = resolve(options.common)
    target = effective.one_target("deploy")
    _check(options, target)
    told = read_around(os.environ)
    (subject,) = subjects(effective)
    rendered = None
    if is_given(options):
        rendered = render(options, namespace=subject.connection.namespace, environ=os.environ)  # (0)
    clock = SystemClock()
    label = target.print_context or subject.connection.context_name
    with ExitStack() as after:
        signals = Signals(threading.Event())
        after.enter_context(signals.taken())
        door = after.enter_context(subject.opened(clock))
        keeper_door = after.enter_context(subject.opened(clock))
        show = Show(options.output, options.common.color, clock, label)
        after.callback(show.end)
        _warn_of_a_parent(show)
        after.enter_context(_background(signals, show))
        try:
            verb = DeployOnTarget(options, target, subject, door, keeper_door, signals, show, told, rendered)
            return verb.run(after)
        except FencectlError as failure:
            show.refused(failure)
            raise


def _check(options: DeployOptions, target: TargetSettings) -> None:
    """Refuse what cannot be, before anything is read."""
    if target.profile.name is not ProfileName.FENCECTL:
        raise UsageError(f"deploy is for the profile fencectl, not {target.profile.name}", hint=NOTHING)
    check_form(options)
    check_plan(options, target)


def _warn_of_a_parent(show: Show) -> None:
    """In CI a cancel reaches the entry process of a step only, and a shell does not pass it on."""
    if parent_shell(os.environ) is not None:
        show.warn(
            "fencectl is not the entry process of its step: a cancelled step is noticed only when its shell"
            " has ended; `exec fencectl …` as the last line is told at once"
        )


@contextmanager
def _background(signals: Signals, show: Show) -> Iterator[None]:
    """Beside the work: notice that the parent has died (in CI nobody forwards a signal), and remind."""
    done = threading.Event()
    parent = os.getppid()
    in_actions = os.environ.get("GITHUB_ACTIONS") == "true"

    def watch() -> None:
        while not done.wait(PARENT_POLL_S):
            show.remind()
            if in_actions and os.getppid() != parent:
                signals.raise_for(ExitCode.TERMINATED)

    thread = threading.Thread(target=watch, name="parent", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(1)
