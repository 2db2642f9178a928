"""What `recover` shows: the plan on stdout, the question and each step on stderr, the result last."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from fencectl.commands.options import Color, Output
from fencectl.commands.output import style_of, write
from fencectl.core.outcome import Outcome, Told
from fencectl.core.profiles import ProfileName
from fencectl.core.recovery import RecoveryPlan
from fencectl.core.report import FenceReport
from fencectl.core.times import age_text
from fencectl.core.verbs import VERBS
from fencectl.report import recovery as words
from fencectl.report.style import wrap


class Show:
    """
    Shows one run of the verb, in the shape that was asked for.

    `attended`: somebody is going to be asked, and must see what about, whatever the shape of the result.
    """

    def __init__(self, output: Output, color: Color, *, attended: bool = False) -> None:
        self._output = output
        self._attended = attended
        self._out = style_of(sys.stdout, color)
        self._err = style_of(sys.stderr, color)
        self._width = 0
        self._lease_counts = True
        self._told_last: tuple[object, ...] = ()

    def _say(self, *lines: str) -> None:
        write(stderr="".join(f"{self._err.spelled(line)}\n" for line in lines))

    def _report(self, lines: Sequence[str]) -> None:
        """Write what is about to be acted on: to stdout as the report it is, else to whoever is asked."""
        if self._output is Output.TEXT:
            write(stdout="".join(f"{self._out.spelled(line)}\n" for line in lines))
        elif self._attended:
            self._say(*lines)

    def nothing(self, report: FenceReport) -> None:
        """Nothing is held by anybody: nothing to do."""
        if self._output is Output.JSON:
            write(stdout=words.as_json(report, (), ()))
            return
        self._say(f"no holder holds a fence on {words.label(report)}: there is nothing to recover")
        self._say(*words.beside_lines(report, ()))

    def would(
        self, report: FenceReport, plans: Sequence[RecoveryPlan], window_s: float, tried: Sequence[Outcome]
    ) -> None:
        """Show the plan of a dry run; `tried`: what the API server said to it, where it was asked."""
        if self._output is Output.JSON:
            write(stdout=words.as_json(report, plans, (), tried=tried))
            return
        lines = [line for plan in plans for line in words.plan_lines(report, plan)]
        write(stdout="".join(f"{self._out.spelled(line)}\n" for line in lines))
        for outcome in tried:
            self._say(*words.tried_lines(outcome, style=self._err))
        self._say(f"nothing was changed; a real run first watches the heartbeat for {age_text(window_s)}")

    def plan(self, report: FenceReport, plans: Sequence[RecoveryPlan] = ()) -> None:
        """Show what is about to be released, and the evidence that it may be."""
        from fencectl.report.text import overview

        if self._told_last:
            self._report(["", "it has changed meanwhile: this is what is so now", ""])
        self._told_last = words.to_act_on(report)
        style = self._out if self._output is Output.TEXT else self._err
        self._report(overview(report, style=style, verbs=VERBS))

    def watching(self, window_s: float) -> None:
        """Say why nothing seems to happen."""
        self._say(f"watching the lease for {age_text(window_s)}: a holder that still writes it is alive")

    def watched(self, report: FenceReport, plans: Sequence[RecoveryPlan], window_s: float) -> None:
        """Say what came of the watch; whatever else has changed is shown again, for it is acted on."""
        if words.to_act_on(report) == self._told_last:
            self._report(words.heartbeat_lines(report, plans, window_s))
        else:
            self.plan(report)
        for plan in plans:
            kept = [words.shown(entry.object.display) for entry in plan.kept]
            if kept:
                self._say(*wrap(f"left alone, KEPT on purpose: {', '.join(kept)}"))

    def question(self, report: FenceReport, total: int) -> None:
        """Ask; only `yes` goes on."""
        for hold in report.holds:
            notes = words.shown("; ".join(hold.notes))
            self._say(
                *wrap(f"a {words.shown(hold.now)} is in place ({notes})", first=f"{self._err.look} ", rest="  ")
            )
        write(
            stderr=self._err.spelled(
                f"Release {words.these(total)} on {words.label(report)}, in this order? Only `yes` goes on: "
            )
        )

    def begins(self, plan: RecoveryPlan) -> None:
        """Note how wide the rows of this recovery are, and whether its lease is one of them."""
        self._width = words.widest(plan)
        self._lease_counts = plan.lease.entry is not None

    def told(self, told: Told) -> None:
        """Say one step as it happens: a row at a terminal, a line with its time in a log."""
        if told.result == "freed" and not self._lease_counts:
            told = replace(told, order=0)
        if sys.stderr.isatty():
            self._say(words.step_row(told, width=self._width, style=self._err))
        else:
            self._say(words.step_line(told))

    def end(
        self, report: FenceReport, outcomes: Sequence[tuple[RecoveryPlan, Outcome]], took_s: Sequence[float]
    ) -> None:
        """Say what is so now: released n, still fenced m, why, and what next."""
        plans = [plan for plan, _ in outcomes]
        if self._output is Output.JSON:
            write(stdout=words.as_json(report, plans, [outcome for _, outcome in outcomes]))
        if self._output is Output.GITHUB:
            write(stdout=words.as_annotation(report, outcomes))
        whole = all(outcome.stopped is None for _, outcome in outcomes)
        # NB: another tool may have rules of its own on when it deploys again.
        free = whole and not words.left_beside(report, plans) and report.profile == ProfileName.FENCECTL
        for number, (plan, outcome) in enumerate(outcomes, 1):
            last = number == len(outcomes)
            self._say(
                *words.ending(
                    report, plan, outcome, style=self._err, took_s=took_s[number - 1], free=free and last
                )
            )
        if whole:
            self._say(*words.beside_lines(report, plans))
