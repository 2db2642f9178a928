"""What `recover` shows: the plan on stdout, the question and each step on stderr, the result last."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fencectl.commands.options import Color, Output
from fencectl.commands.output import style_of, write
from fencectl.core.outcome import Outcome, Told
from fencectl.core.recovery import RecoveryPlan
from fencectl.core.report import FenceReport
from fencectl.core.times import age_text, clock_text
from fencectl.core.verbs import VERBS
from fencectl.report import recovery as words


class Show:
    """Shows one run of the verb, in the shape that was asked for."""

    def __init__(self, output: Output, color: Color) -> None:
        self._output = output
        self._out = style_of(sys.stdout, color)
        self._err = style_of(sys.stderr, color)
        self._told: list[Told] = []

    def _say(self, *lines: str) -> None:
        write(stderr="".join(f"{self._err.spelled(line)}\n" for line in lines))

    def nothing(self, report: FenceReport) -> None:
        """Nothing is held by anybody: nothing to do."""
        if self._output is Output.JSON:
            write(stdout=words.as_json(report, (), ()))
        else:
            self._say(f"no holder holds a fence on {words.label(report)}: there is nothing to recover")

    def would(self, report: FenceReport, plans: Sequence[RecoveryPlan], window_s: float) -> None:
        """Show the plan of a dry run."""
        if self._output is Output.JSON:
            write(stdout=words.as_json(report, plans, ()))
            return
        lines = [line for plan in plans for line in words.plan_lines(report, plan)]
        write(stdout="".join(f"{self._out.spelled(line)}\n" for line in lines))
        self._say(f"nothing was changed; a real run first watches the heartbeat for {age_text(window_s)}")

    def watching(self, window_s: float) -> None:
        """Say why nothing seems to happen."""
        self._say(f"watching the lease for {age_text(window_s)}: a holder that still writes it is alive")

    def plan(self, report: FenceReport, plans: Sequence[RecoveryPlan]) -> None:
        """Show what is about to be released, and the evidence that it may be."""
        if self._output is Output.TEXT:
            from fencectl.report.text import overview

            lines = overview(report, style=self._out, verbs=VERBS)
            write(stdout="".join(f"{self._out.spelled(line)}\n" for line in lines))
        for plan in plans:
            kept = [entry.object.display for entry in plan.kept]
            if kept:
                self._say(f"left alone, KEPT on purpose: {', '.join(words.shown(name) for name in kept)}")

    def question(self, report: FenceReport, total: int) -> None:
        """Ask; only `yes` goes on."""
        for hold in report.holds:
            self._say(
                f"{self._err.look} a {words.shown(hold.now)} is in place ({words.shown('; '.join(hold.notes))})"
            )
        self._err_prompt(
            f"Release {words.these(total)} on {words.label(report)}, in this order? Only `yes` goes on: "
        )

    @staticmethod
    def _err_prompt(text: str) -> None:
        write(stderr=text)

    def told(self, told: Told) -> None:
        """Say one step as it happens."""
        self._told.append(told)
        mark = self._err.failed if told.result == "refused" else self._err.good
        at = clock_text(told.at, now=told.at)
        where = f"{told.order}/{told.total} " if told.order else ""
        self._say(f"{at}  {mark} {where}{words.step(told)}")

    def end(self, report: FenceReport, outcomes: Sequence[tuple[RecoveryPlan, Outcome]]) -> None:
        """Say what is so now: released n, still fenced m, why, and what next."""
        if self._output is Output.JSON:
            write(
                stdout=words.as_json(report, [plan for plan, _ in outcomes], [outcome for _, outcome in outcomes])
            )
        if self._output is Output.GITHUB:
            write(stdout=words.as_annotation(report, outcomes))
        for plan, outcome in outcomes:
            self._say(*words.ending(report, plan, outcome, style=self._err))
