"""
`deploy` on several targets, one after the other in the order named.

All of them are looked at before anything is changed on the first: a refusal on one refuses them all. Then each has
a transaction of its own, looked at once more when its turn comes; where one does not succeed, no other is started.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from fencectl.cluster.clock import SystemClock
from fencectl.commands.deploy_github import tell_all
from fencectl.commands.deploy_show import Among, Show
from fencectl.commands.deploy_streams import to_stderr, write_what_can
from fencectl.commands.deploy_target import DeployOnTarget, Subjected
from fencectl.commands.options import Output
from fencectl.commands.options_acting import DeployOptions
from fencectl.commands.output import style_of
from fencectl.commands.signals import Signals
from fencectl.core.errors import ExitCode, FencectlError
from fencectl.core.several import Part, Place, code_of, goes_on, refuse_same_places, sentence_of
from fencectl.report.escape import visible
from fencectl.report.style import cells, wrap


class Screen:
    """What is shown at present: it reminds of what is waited for."""

    def __init__(self) -> None:
        self.show: Show | None = None

    def remind(self) -> None:
        """For another thread."""
        show = self.show
        if show is not None:
            show.remind()

    def end(self) -> None:
        """Nothing is shown any more."""
        show, self.show = self.show, None
        if show is not None:
            show.end()


@contextmanager
def opened(
    one: Subjected,
    signals: Signals,
    screen: Screen,
    *,
    among: Among | None = None,
    wait_until_s: float | None = None,
) -> Iterator[tuple[DeployOnTarget, Show, ExitStack]]:
    """Open the connections of one target, and close them behind; the stack is for what has to end before that."""
    clock = SystemClock()
    with ExitStack() as after:
        door = after.enter_context(one.subject.opened(clock))
        keeper_door = after.enter_context(one.subject.opened(clock))
        common, connection = one.options.common, one.subject.connection
        show = Show(one.options.output, common.color, clock, one.label, connection.context_flag, among)
        screen.show = show
        after.callback(screen.end)
        yield DeployOnTarget(one, door, keeper_door, signals, show, wait_until_s=wait_until_s), show, after


class DeployOnSeveral:
    """One run of the verb against several targets."""

    def __init__(
        self, options: DeployOptions, targets: Sequence[Subjected], signals: Signals, screen: Screen
    ) -> None:
        self._options = options
        self._targets = targets
        self._signals = signals
        self._screen = screen
        self._parts = [Part(one.label) for one in targets]
        width = max(cells(visible(one.label)) for one in targets)
        self._among = [Among(width) for _ in targets]
        self._style = style_of(sys.stderr, options.common.color)

    def warn(self, text: str) -> None:
        """Something to look at that is about none of them in particular."""
        self._say(f"{self._style.look} {visible(text)}")

    def run(self) -> ExitCode:
        """Look at all, then deploy to one after the other; the code is the worst of all."""
        self._tell_order()
        code, cause = ExitCode.UNEXPECTED, None
        try:
            if self._look_at_all() and not self._options.dry_run:
                self._deploy_to_each()
            code = code_of(self._parts, self._signals.code)
        except FencectlError as failure:
            code, cause = failure.exit_code, failure.sentence
            raise
        finally:
            # NB: whatever happens to one, what came of those before it is said.
            self._tell_sum(code, cause)
        return code

    def _look_at_all(self) -> bool:
        """
        Steps 0 and 1 of every target, and whether all of them may begin.

        Raises UsageError and NotReadableError where two of them are, or may be, one.
        """
        until_s = DeployOnTarget.waiting_ends_s(self._options)
        places: list[Place] = []
        fit = True
        for number, one in enumerate(self._targets):
            if self._signals.code is not None:
                return False
            among = self._among[number]
            with opened(one, self._signals, self._screen, among=among, wait_until_s=until_s) as (deploy, show, _):
                code = _guarded(deploy.look_first, show)
            if code is not ExitCode.OK:
                fit = False
                self._note(number, code, begun=False)
            if code is ExitCode.OK or deploy.cluster_uid is not None:
                places.append(Place(one.label, deploy.cluster_uid, one.lease))
                refuse_same_places(places)
        return fit

    def _deploy_to_each(self) -> None:
        for number, one in enumerate(self._targets):
            if not goes_on(self._parts[:number], self._signals.code):
                return
            among = self._among[number]
            with opened(one, self._signals, self._screen, among=among) as (deploy, show, after):
                code = ExitCode.UNEXPECTED
                try:
                    code = _guarded(partial(deploy.run, after), show)
                finally:
                    self._note(number, code, begun=deploy.begun)

    def _note(self, number: int, code: ExitCode, *, begun: bool) -> None:
        """What came of one; told to stop before it had begun, it was not started."""
        if begun or code is not self._signals.code:
            self._parts[number] = Part(self._parts[number].label, code, begun=begun)

    def _tell_order(self) -> None:
        names = [part.label for part in self._parts]
        if self._options.output is Output.JSON:
            contexts = [one.subject.connection.context_flag for one in self._targets]
            _event({"type": "targets", "contexts": contexts, "order": "one after the other"})
            return
        order = f"{len(names)} targets, one after the other: {visible(', '.join(names))}"
        self._say(*wrap(f"{order}; where one does not succeed, no other is started", rest="  "))

    def _tell_sum(self, code: ExitCode, cause: str | None) -> None:
        if self._options.output is Output.JSON:
            items = [
                {
                    "context": one.subject.connection.context_flag,
                    "exitCode": None if part.code is None else part.code.value,
                    "begun": part.begun,
                }
                for one, part in zip(self._targets, self._parts, strict=True)
            ]
            _event(
                {
                    "type": "summary",
                    "apiVersion": "fencectl.dev/v1",
                    "kind": "DeployResultList",
                    "exitCode": code.value,
                    "cause": cause,
                    "items": items,
                }
            )
        if code is ExitCode.OK and self._options.dry_run:
            return
        mark = self._style.good if code is ExitCode.OK else self._style.failed
        sentence = f"{mark} {self._style.capitals(visible(sentence_of(self._parts, self._signals.code)))}"
        if self._options.output is not Output.JSON:
            self._say(*wrap(sentence, rest="  "))
        tell_all(code, sentence, {part.label: part.code for part in self._parts}, self.warn)

    def _say(self, *lines: str) -> None:
        to_stderr("".join(f"{self._style.spelled(line)}\n" for line in lines))


def _guarded(call: Callable[[], ExitCode], show: Show) -> ExitCode:
    """The code that it ends with; what it could not do is said, and is about this target alone."""
    try:
        return call()
    except FencectlError as failure:
        show.refused(failure)
        return failure.exit_code


def _event(event: dict[str, object]) -> None:
    write_what_can(stdout=json.dumps(event, ensure_ascii=True) + "\n")
