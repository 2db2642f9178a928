"""`fencectl rollback`: put back what ran before a deploy, under the same fences, and follow it."""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack
from dataclasses import dataclass

from fencectl.cluster.clock import SystemClock
from fencectl.commands.asking import answer_to
from fencectl.commands.common import NOTHING, TargetSettings, resolve
from fencectl.commands.deploy import background, warn_of_a_parent
from fencectl.commands.deploy_files import Inputs
from fencectl.commands.deploy_planning import ROLLBACK_S, check_plan
from fencectl.commands.deploy_several import Screen
from fencectl.commands.deploy_streams import to_stderr
from fencectl.commands.deploy_target import Own, Subjected
from fencectl.commands.options_acting import DeployOptions, RollbackOptions
from fencectl.commands.reading import subjects
from fencectl.commands.rollback_show import RollbackShow
from fencectl.commands.rollback_target import RollbackOnTarget, Wanted
from fencectl.commands.signals import Signals
from fencectl.core.errors import ExitCode, FencectlError, UsageError
from fencectl.core.profiles import ProfileName


class _Interrupted(BaseException):
    """A signal while somebody is asked. Not an `Exception`: nothing on the way may take it for a failure."""


@dataclass(slots=True)
class AskingSignals(Signals):
    """While somebody is `asked`, a signal ends the run at once: nothing was changed yet."""

    asked: bool = False

    def interrupt(self, first: bool) -> None:
        if first and self.asked:
            raise _Interrupted


def run(options: RollbackOptions) -> ExitCode:
    """Look, choose, show, ask; then run the transaction."""
    effective = resolve(options.common)
    target = effective.one_target("rollback")
    generation = _generation(options.generation)
    deploy = _as_deploy(options)
    _check(deploy, target)
    attended = sys.stdin.isatty() and sys.stderr.isatty() and not options.yes
    # NB: the kubeconfig is read before anybody is asked for anything: it says which cluster this is about.
    (subject,) = subjects(effective)
    label = target.print_context or subject.connection.context_name
    if not (attended or options.yes or options.dry_run):
        raise UsageError(
            f"rollback changes {label or 'the cluster'}, and nobody can be asked here",
            hint=f"pass --yes if this job may put back what ran before. {NOTHING}",
        )
    with ExitStack() as after:
        signals = AskingSignals(threading.Event())
        after.enter_context(signals.taken())
        screen = Screen()
        after.enter_context(background(signals, screen))
        one = Subjected(deploy, target, subject, label, None, Inputs(), Own())
        clock = SystemClock()
        door, keeper_door = (after.enter_context(subject.opened(clock)) for _ in range(2))
        show = RollbackShow(options.output, options.common.color, clock, label, subject.connection.context_flag)
        screen.show = show
        after.callback(screen.end)

        def ask(question: str) -> bool:
            if not attended:
                return True
            show.end()
            signals.asked = True
            try:
                return answer_to(lambda: to_stderr(question)).strip() == "yes"
            finally:
                signals.asked = False

        timeout_s = options.timeout_s or target.settings.rollback.timeout_s or ROLLBACK_S
        wanted = Wanted(generation, timeout_s, ask)
        warn_of_a_parent(show.warn)
        try:
            return RollbackOnTarget(one, door, keeper_door, signals, show, wanted=wanted).run(after)
        except _Interrupted:
            show.warn("interrupted: nothing was changed")
            return signals.code or ExitCode.INTERRUPTED
        except FencectlError as failure:
            show.refused(failure)
            raise


def _generation(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 10**18 and len(text) < 19):
        raise UsageError(
            f"`{text}` is no generation", hint=f"a number, as `fencectl history` lists them. {NOTHING}"
        )
    return int(text)


def _as_deploy(options: RollbackOptions) -> DeployOptions:
    """What a rollback has in common with a deploy."""
    return DeployOptions(
        common=options.common,
        output=options.output,
        lease=options.lease,
        on_rollback=options.on_rollback,
        # NB: a claim is what a failed restore leaves, and this is what takes it away.
        over_claim=True,
        drain_timeout_s=options.drain_timeout_s,
        dry_run=options.dry_run,
    )


def _check(options: DeployOptions, target: TargetSettings) -> None:
    if target.profile.name is not ProfileName.FENCECTL:
        raise UsageError(f"rollback is for the profile fencectl, not {target.profile.name}", hint=NOTHING)
    check_plan(options, target)
