"""
`fences --watch`: the report as it changes, until ctrl-c.

On a terminal the overview is redrawn in place; elsewhere the overview is followed by one line per change, or with
`-o json` by one report per line. Each cluster is followed by a thread; only the main thread writes.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Protocol

from fencectl.cluster.clock import Clock, SystemClock
from fencectl.commands.common import Effective
from fencectl.commands.options import FencesOptions, Output
from fencectl.commands.output import style_of, tell_failure
from fencectl.commands.reading import Subject, subjects
from fencectl.commands.watch_follow import Broken, Follower, Looking, News
from fencectl.commands.watch_screen import Screen
from fencectl.commands.watch_view import SLOW_S, Known, frame, json_line, learn
from fencectl.core.errors import ExitCode, UsageError
from fencectl.core.verbs import VERBS
from fencectl.report.escape import log_safe, visible
from fencectl.report.shell import Shell
from fencectl.report.style import Style
from fencectl.report.text import overview

REDRAW = -1
"""In the place of a cluster's number: nothing is new but the size of the terminal."""

Queue = SimpleQueue[tuple[int, News | None]]


class View(Protocol):
    """One way to show what changes."""

    def show(self, clusters: list[Known], at: int, lines: list[str]) -> None:
        """Show that cluster number `at` has changed by `lines`; `REDRAW`: only that time has passed."""
        ...


def watch(effective: Effective, options: FencesOptions) -> ExitCode:
    """
    Watch every cluster that was asked for; ends only by a signal, or where none could be read to begin with.

    Raises NotReadableError where the only cluster cannot be read to begin with.
    """
    _refuse(options)
    followed = subjects(effective)
    style = style_of(sys.stdout, options.common.color)
    if options.output is Output.JSON:
        return _follow(followed, JsonLines(Shell(options.shell.value)))
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return _follow(followed, Lines(style))
    screen = Screen(sys.stdout)
    try:
        return _follow(followed, Frames(screen, style, SystemClock()))
    finally:
        screen.leave()


def _refuse(options: FencesOptions) -> None:
    if options.output not in {Output.TEXT, Output.JSON}:
        raise UsageError(
            f"`--watch` does not go with `-o {options.output.value}`",
            hint="`-o text` redraws or prints what changes, `-o json` prints a report per line",
        )
    if options.explain:
        raise UsageError("`--explain` explains commands, and `--watch` shows none", hint="leave one of them out")
    if options.exit_code:
        raise UsageError("`--watch` goes on until ctrl-c, so `--exit-code` has no end to tell of")


def _follow(followed: tuple[Subject, ...], view: View) -> ExitCode:
    clock = SystemClock()
    queue: Queue = SimpleQueue()
    clusters = [Known(_label(subject)) for subject in followed]
    followers = [Follower(subject, clock, partial(_put, queue, number)) for number, subject in enumerate(followed)]
    with _redrawing(queue):
        for follower in followers:
            follower.start()
        try:
            while True:
                number, news = _next(queue, clusters)
                if news is None:
                    view.show(clusters, REDRAW, [])
                    continue
                if isinstance(news, Broken):
                    raise news.error
                clusters[number], lines = learn(clusters[number], news)
                if _nothing_to_watch(clusters):
                    return _give_up(clusters)
                if not isinstance(news, Looking) or not clusters[number].seen:
                    view.show(clusters, number, lines)
        finally:
            for follower in followers:
                follower.stop()


def _put(queue: Queue, number: int, news: News) -> None:
    queue.put((number, news))


def _label(subject: Subject) -> str:
    return subject.settings.print_context or subject.connection.context_name


def _next(queue: Queue, clusters: list[Known]) -> tuple[int, News | None]:
    """Wait for news; while a look is under way, not longer than it may take."""
    looking = any(known.looking_since_s is not None for known in clusters)
    try:
        return queue.get(timeout=SLOW_S if looking else None)
    except Empty:
        return REDRAW, None


def _nothing_to_watch(clusters: list[Known]) -> bool:
    """Whether the very first look has failed everywhere: then the names are wrong rather than the times bad."""
    return all(known.report is None and known.failure is not None for known in clusters)


def _give_up(clusters: list[Known]) -> ExitCode:
    failures = [known.failure for known in clusters if known.failure is not None]
    if len(failures) == 1:
        raise failures[0]
    for failure in failures:
        tell_failure(failure)
    return ExitCode.INCOMPLETE


@contextmanager
def _redrawing(queue: Queue) -> Iterator[None]:
    """Draw anew when the window has another size, and after ctrl-z and `fg`."""

    def redraw(number: int, _frame: FrameType | None) -> None:
        # NB: a handler runs in the middle of whatever the main thread does; this queue's `put` may be re-entered.
        queue.put((REDRAW, None))

    before = {number: signal.signal(number, redraw) for number in (signal.SIGWINCH, signal.SIGCONT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Frames:
    """The overview of every cluster, redrawn in place."""

    def __init__(self, screen: Screen, style: Style, clock: Clock) -> None:
        self._screen = screen
        self._style = style
        self._clock = clock

    def show(self, clusters: list[Known], at: int, lines: list[str]) -> None:
        self._screen.draw(frame(clusters, now_s=self._clock.monotonic_s(), verbs=VERBS, style=self._style))


class Lines:
    """The overview of each cluster at first, then a line per change."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._begun: set[int] = set()

    def show(self, clusters: list[Known], at: int, lines: list[str]) -> None:
        if at == REDRAW:
            return
        report = clusters[at].report
        if at not in self._begun and report is not None and clusters[at].lost_at is None:
            self._begun.add(at)
            lines = [*map(log_safe, overview(report, style=self._style, verbs=VERBS)), ""]
        _write("".join(f"{self._style.spelled(line)}\n" for line in lines))


class JsonLines:
    """A report per line, whenever something has changed."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def show(self, clusters: list[Known], at: int, lines: list[str]) -> None:
        if at == REDRAW or not lines:
            return
        if clusters[at].report is None:
            # There is no report yet that could say so.
            sys.stderr.write("".join(f"{visible(line)}\n" for line in lines))
            return
        _write(json_line(clusters[at], shell=self._shell))


def _write(text: str) -> None:
    if text:
        sys.stdout.write(text)
        sys.stdout.flush()
