"""`fencectl deploy`: apply manifests or run a command inside fences, and leave nothing behind unexplained."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from fencectl.commands.common import NOTHING, TargetSettings, resolve
from fencectl.commands.deploy_certify import certify_of, check_certify
from fencectl.commands.deploy_files import Inputs, check_form, render_all
from fencectl.commands.deploy_planning import check_plan
from fencectl.commands.deploy_several import DeployOnSeveral, Screen, opened
from fencectl.commands.deploy_target import Own, Subjected
from fencectl.commands.options_acting import DeployOptions
from fencectl.commands.reading import Subject, subjects
from fencectl.commands.signals import Signals, parent_shell
from fencectl.core.errors import ExitCode, FencectlError, UsageError
from fencectl.core.nesting import read_around
from fencectl.core.profiles import ProfileName
from fencectl.core.several import refuse_same_names

PARENT_POLL_S = 0.5


def run(options: DeployOptions) -> ExitCode:
    """Read and check everything, refuse or wait, then run the transaction, on one target after the other."""
    effective = resolve(options.common)
    for target in effective.targets:
        _check(options, target)
    told = read_around(os.environ)
    found = subjects(effective)
    labels = [one.settings.print_context or one.connection.context_name for one in found]
    refuse_same_names(labels)
    rendered = _render(options, found)  # (0)
    own = Own()
    targets = [
        Subjected(options, one.settings, one, label, told, render_of, own)
        for one, label, render_of in zip(found, labels, rendered, strict=True)
    ]
    with ExitStack() as after:
        signals = Signals(threading.Event())
        after.enter_context(signals.taken())
        screen = Screen()
        after.enter_context(background(signals, screen))
        if len(targets) > 1:
            several = DeployOnSeveral(options, targets, signals, screen)
            warn_of_a_parent(several.warn)
            return several.run()
        (only,) = targets
        with opened(only, signals, screen) as (deploy, show, ends):
            warn_of_a_parent(show.warn)
            try:
                return deploy.run(ends)
            except FencectlError as failure:
                show.refused(failure)
                raise


def _render(options: DeployOptions, found: Sequence[Subject]) -> Sequence[Inputs]:
    """Everything that is to be applied, for each target (step 0)."""
    certify = [certify_of(options, one.settings.settings) for one in found]
    canaries = ["" if one is None else one.source for one in certify]
    namespaces = [one.connection.namespace for one in found]
    return render_all(options, canaries, namespaces=namespaces, environ=os.environ)


def _check(options: DeployOptions, target: TargetSettings) -> None:
    """Refuse what cannot be, before anything is read."""
    if target.profile.name is not ProfileName.FENCECTL:
        raise UsageError(f"deploy is for the profile fencectl, not {target.profile.name}", hint=NOTHING)
    check_form(options)
    check_plan(options, target)
    check_certify(options, target.settings, os.environ)


def warn_of_a_parent(warn: Callable[[str], None]) -> None:
    """In CI a cancel reaches the entry process of a step only, and a shell does not pass it on."""
    if parent_shell(os.environ) is not None:
        warn(
            "fencectl is not the entry process of its step: a cancelled step is noticed only when its shell"
            " has ended; `exec fencectl …` as the last line is told at once"
        )


@contextmanager
def background(signals: Signals, screen: Screen) -> Iterator[None]:
    """Beside the work: notice that the parent has died (in CI nobody forwards a signal), and remind."""
    done = threading.Event()
    parent = os.getppid()
    in_actions = os.environ.get("GITHUB_ACTIONS") == "true"

    def watch() -> None:
        while not done.wait(PARENT_POLL_S):
            screen.remind()
            if in_actions and os.getppid() != parent:
                signals.raise_for(ExitCode.TERMINATED)

    thread = threading.Thread(target=watch, name="parent", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(1)
