"""What `deploy` shows: a line per change on stderr, progress drawn below or a reminder in silence, one result."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from fencectl.cluster.clock import Clock
from fencectl.commands import deploy_certified as certified
from fencectl.commands.deploy_changes import as_data, objects_data, summary, table
from fencectl.commands.deploy_github import tell_target
from fencectl.commands.deploy_kept import kept_commands, kept_data, kept_lines
from fencectl.commands.deploy_left import commands_left, left_lines, reasons
from fencectl.commands.deploy_live import STEPS, Live, drawing_on
from fencectl.commands.deploy_plan_text import plan_lines
from fencectl.commands.deploy_streams import open_closed_streams, to_stderr, write_what_can
from fencectl.commands.options import Color, Output
from fencectl.commands.output import style_of
from fencectl.commands.rollback_text import now_lines, restored_data, rollback_lines
from fencectl.core.apply_plan import Change, What
from fencectl.core.deploy import DeployPlan, without_claims
from fencectl.core.errors import ExitCode, FencectlError
from fencectl.core.identity import parse_holder
from fencectl.core.report import FenceReport
from fencectl.core.rollout import RolloutVerdict
from fencectl.core.runbooks import runbook_for
from fencectl.core.times import age_text, second_time
from fencectl.core.verbs import VERBS
from fencectl.report.commands import Where
from fencectl.report.escape import cut, visible
from fencectl.report.rollout import result_lines, sum_sentence
from fencectl.report.style import cells, wrap
from fencectl.report.text import overview
from fencectl.report.words import quoted
from fencectl.run.left import inside_is_unknown
from fencectl.run.pruning import WITHHELD_HINT
from fencectl.run.transaction import Result

REMIND_S = 30.0


def shown(text: str) -> str:
    """Foreign text, made harmless and cut."""
    return visible(cut(text))


@dataclass(slots=True)
class Among:
    """
    That a target is one of several, so that every line names it.

    `width`: of the longest of their names, in cells. `changes`: the tables that were shown of this one already.
    """

    width: int
    changes: dict[str | None, list[str]] = field(default_factory=dict)


class Show:
    """
    Shows one deploy on one target.

    `context`: of its kubeconfig, for whoever reads JSON. `among`: where it is one of several.
    """

    # What another verb says instead.
    noun = "deploy"
    not_done = "not deployed to"
    kind = "DeployResult"
    again = "deploy"
    steps = STEPS

    def __init__(
        self,
        output: Output,
        color: Color,
        clock: Clock,
        label: str,
        context: str | None = None,
        among: Among | None = None,
    ) -> None:
        open_closed_streams()
        self._json = output is Output.JSON
        self._out = style_of(sys.stdout, color)
        self._err = style_of(sys.stderr, color)
        self._clock = clock
        self._label = visible(label)
        self._context = context
        self._among = among
        self._named, self._on = "", ""
        if among is not None:
            self._named = self._label + " " * (among.width - cells(self._label) + 2)
            self._on = f" on {self._label}"
        self._last = ""
        self._said_s = clock.monotonic_s()
        # NB: re-entrant: a warning may be said while something else is.
        self._lock = threading.RLock()
        self._live: Live | None = None
        if not self._json:
            self._live = drawing_on(sys.stderr, to_stderr, self._err, self._label, self._said_s)

    def tell(self, step: int, text: str) -> None:
        """One change, as it happens."""
        at = self._clock.wall()
        with self._lock:
            self._last, self._said_s = text, self._clock.monotonic_s()
            if self._live is not None:
                self._live.begin(step, shown(text), self._said_s)
            if self._json:
                self._event({"type": "step", "step": step, "text": text, "at": second_time(at)})
            else:
                self._say(f"{at:%H:%M:%SZ} {self._named}{step:>2}  {shown(text)}")

    @contextmanager
    def handed_over(self) -> Iterator[None]:
        """While a command runs it has the terminal for itself: nothing is drawn."""
        with self._lock:
            if self._live is not None:
                self._live.hand_over()
        try:
            yield
        finally:
            with self._lock:
                if self._live is not None:
                    self._live.take_back(self._clock.monotonic_s())

    def end(self) -> None:
        """Nothing is drawn any more, and nothing that was is left."""
        with self._lock:
            if self._live is not None:
                self._live.end()

    def remind(self) -> None:
        """Show how long it waits; where nothing can be drawn, say it, if nothing was said for a while."""
        with self._lock:
            if self._live is not None:
                self._live.draw(self._clock.monotonic_s())
                return
            quiet_s = self._clock.monotonic_s() - self._said_s
            if quiet_s >= REMIND_S and not self._json:
                self._said_s = self._clock.monotonic_s()
                at = f"{self._clock.wall():%H:%M:%SZ} {self._named}"
                self._say(f"{at}    still waiting ({age_text(quiet_s)}): {shown(self._last)}")

    def warn(self, text: str) -> None:
        """Something to look at, not blocking."""
        self._say(f"{self._err.look} {f'{self._label}: ' if self._among else ''}{shown(text)}")

    def plan(self, plan: DeployPlan, *, around: str | None = None) -> None:
        """What a dry run would do, in order. `around`: the run of whose command it is a part."""
        lines = plan_lines(plan, self._label, around=around)
        if self._json:
            steps = [line.strip() for line in lines[1:]]
            self._event({"type": "plan", "lease": "/".join(plan.lease), "steps": steps})
            return
        write_what_can(stdout="".join(f"{self._out.spelled(line)}\n" for line in lines))
        self._say(f"nothing was changed{self._on}")

    def changes(
        self,
        changes: Sequence[Change],
        withheld: str | None,
        *,
        diff: bool,
        ends: bool,
        part: str | None = None,
    ) -> None:
        """
        What would change, before the first write; `ends`: it is the report, and nothing follows it.

        `part`: which objects these are, where it is not those of step 8.
        """
        told = [summary(changes), str(withheld), *table(changes, diff=diff, withheld=withheld)]
        if self._among is not None:
            # NB: looked at again when its turn comes; what is as it was has been shown.
            if told == self._among.changes.get(part):
                return
            self._among.changes[part] = told
        if self._json:
            self._event(as_data(changes, withheld, part))
            return
        of = self._label if part is None else f"{self._label}, {part}"
        lines = [f"{of}: {told[0]}", *told[2:]]
        if withheld is not None:
            lines.append(f"prune withheld: {shown(withheld)}")
        if ends:
            write_what_can(stdout="".join(f"{self._out.spelled(line)}\n" for line in lines))
        else:
            self._say(*lines)

    def not_begun(self, plan: DeployPlan, code: ExitCode, withheld: str | None) -> None:
        """Why a deploy of manifests does not begin."""
        objects = (plan.apply, plan.certify.canary if plan.certify is not None else None)
        conflict = any(change.what is What.CONFLICT for one in objects if one for change in one.changes)
        if code is ExitCode.OUTCOME_UNKNOWN:
            cause = f"the prune was withheld: {withheld}"
            hint = WITHHELD_HINT
        elif conflict:
            cause = "fields belong to others"
            hint = "leave them out of the manifests, or take them over with `--force-conflicts`"
        else:
            cause, hint = "the API server refuses objects", "the table above names each, with its manifest"
        if self._json:
            self._event(self._as_data(plan, Result(step=1, cause=cause, codes=[code])))
        lines = [f"{self._err.failed} not deployed to {self._label}: {shown(cause)} ({code.value})"]
        self._say(*lines, f"nothing was changed{self._on}", f"hint: {hint}")
        self._github(code, lines)

    def held(self, report: FenceReport, code: ExitCode, *, step: int = 1) -> None:
        """Why the deploy may not begin: the first lines of the report. `step` 2: seen under the lease only."""
        if self._json:
            self._event(
                {
                    "type": "result",
                    "apiVersion": "fencectl.dev/v1",
                    "kind": self.kind,
                    "exitCode": code.value,
                    "step": step,
                    "cause": _held_because(code),
                    "heldBy": [block.holder.identity for block in report.blocks],
                    "held": [entry.object.display for entry in report.held],
                }
            )
        lines = overview(report, style=self._err, verbs=VERBS)
        said = [
            f"{self._err.failed} {self.not_done} {self._label}: {_held_because(code)} ({code.value})",
            *lines,
            f"nothing was changed{self._on}"
            if step == 1
            else f"nothing was fenced{self._on}; the lease that was taken is free again",
        ]
        hint = self._way_out(report, code)
        self.end()
        self._say(*said, f"hint: {hint}")
        self._github(code, [*said, f"hint: {hint}"])

    def _way_out(self, report: FenceReport, code: ExitCode) -> str:
        context = f" --context {quoted(self._label)}"
        if not without_claims(report).held:
            over = "a person may deploy over the claim with `--over-claim`; what succeeds retires it"
            back = f"`fencectl rollback{context}` runs over it too, and " if "rollback" in VERBS else ""
            return f"{back}{over}"
        if all(entry.kept for entry in report.held):
            return f"for the fix or the revert, add `--adopt-kept`; `fencectl fences{context}` shows the other way"
        if code in (ExitCode.HELD_LIVE, ExitCode.ROLLBACK_IN_PROGRESS):
            return f"`--wait-for-fences` waits for it, `fencectl fences{context}` shows it all"
        if code is ExitCode.HELD_DEAD:
            return f"release them, then {self.again} again: fencectl recover{context}"
        return f"`fencectl fences{context}` shows what a person has to decide"

    def refused(self, failure: FencectlError) -> None:
        """For whoever reads no sentences: what the boundary is about to say. Nothing was begun."""
        self.end()
        code = failure.exit_code
        if self._json:
            self._event(
                {
                    "type": "result",
                    "apiVersion": "fencectl.dev/v1",
                    "kind": self.kind,
                    "exitCode": code.value,
                    "cause": failure.sentence,
                    "reason": failure.reason,
                }
            )
        parts = (("reason: ", failure.reason), ("hint: ", failure.hint))
        more = [f"{name}{shown(text)}" for name, text in parts if text]
        # NB: some sentences begin with that already.
        why = shown(failure.sentence).removeprefix(f"not deployed to {self._label}: ")
        to = f" to {self._label}" if self._among is not None else ""
        not_done = self.not_done.rpartition(" ")[0]
        lines = [f"{self._err.failed} {not_done}{to}: {why if to else shown(failure.sentence)}", *more]
        if self._among is not None:
            # NB: the boundary says it of the only target; here others follow, and their sum.
            self._say(*lines)
        self._github(code, lines)

    def waiting(self, report: FenceReport) -> None:
        """Who is waited for."""
        for block in report.blocks:
            self.tell(1, f"waits for {block.title}: {block.judgement.because}")

    def result(self, plan: DeployPlan, result: Result, begun_at: datetime, where: Where) -> None:
        """What is so now, why, and what next; the last words are what is still fenced, and the commands."""
        took = age_text((self._clock.wall() - begun_at).total_seconds())
        code, lease = result.code, "/".join(plan.lease)
        self.end()
        if result.held is not None and not left_lines(result, lease, self._label, self._err):
            self.held(result.held, code, step=2)
            return
        lines = self._good(plan, result, took) if code is ExitCode.OK else self._bad(result, took, lease)
        lines += kept_lines(result.kept, self._label, self._err)
        commands = commands_left(result, where, now=self._clock.wall())
        resuming = kept_commands(result.kept, where, now=self._clock.wall())
        left = left_lines(result, lease, self._label, self._err)
        if self._json:
            more = {"keptCommands": resuming} if resuming else {}
            self._event(self._as_data(plan, result) | {"commands": commands} | more)
        else:
            self._say(*lines)
            # NB: past every shortening and spelling: a command runs as it stands, or not at all.
            write_what_can(stderr="".join(f"{command}\n" for command in resuming))
            self._say(*left)
            self._say_commands(commands, inside_is_unknown=inside_is_unknown(result))
        self._github(code, [*lines, *left], certification=result.certification.outcome.value)

    def _say_commands(self, commands: Sequence[str], *, inside_is_unknown: bool) -> None:
        """The releases of what is left, each on a line of its own, as they run."""
        if commands:
            inside = ", and it shows nothing of a deploy inside of the command" if inside_is_unknown else ""
            self._say(
                f"      or, once this run has ended and the API server answers{inside}, in this order;"
                " each is refused where its object has changed:"
            )
            # NB: past every shortening and spelling: a command runs as it stands, or not at all.
            write_what_can(stderr="".join(f"{command}\n" for command in commands))

    def _good(self, plan: DeployPlan, result: Result, took: str) -> list[str]:
        if result.within is not None:
            around = visible(parse_holder(result.within).title)
            what = f"deployed to {self._label} in {took}, inside of {around}"
            what += certified.clause(plan, result)
            return [f"{self._err.good} {what}: its own fences are released", *certified.aloud(result, self._err)]
        what = f"deployed generation {result.generation} to {self._label} in {took}"
        if result.handed is not None:
            what += f", {result.handed.counts}"
        what += certified.clause(plan, result)
        said = [*certified.aloud(result, self._err), *self._followed(result)]
        story = f"  story: fencectl history show {result.generation} --context {quoted(self._label)}"
        return [f"{self._err.good} {what}: nothing is fenced", *said, story]

    def _bad(self, result: Result, took: str, lease: str) -> list[str]:
        left = left_lines(result, lease, self._label, self._err)
        where = f"step {result.step} ({self.steps.get(result.step, self.noun)})"
        what = f"{self.noun} failed on {self._label} in {where}, after {took}"
        if result.code in (ExitCode.INTERRUPTED, ExitCode.TERMINATED, ExitCode.HANGUP):
            what = f"interrupted in {where} on {self._label}, after {took}: nothing was applied"
        elif result.lost is not None:
            what = f"{result.lost.sentence} in {where} on {self._label}: {shown(result.lost.reason or '')}"
        elif result.payload is not None and result.payload.why_stopped == "interrupted":
            what = f"interrupted in {where} on {self._label}, after {took}"
        elif left and not result.cause:
            what = f"deployed to {self._label} in {took}, but not everything could be released"
        followed = result.followed
        if followed is not None and followed.outcome is not RolloutVerdict.SUCCEEDED and result.lost is None:
            what = f"{self.noun} failed on {self._label} in {where}, after {took}: {sum_sentence(followed)}"
            lines = [f"{self._err.failed} {what}", *self._followed(result), *certified.rejected(result)]
        else:
            lines = [f"{self._err.failed} {self._err.capitals(what)}", *self._followed(result)]
            lines += reasons(result)
        lines += rollback_lines(result, self._label, self._err)
        lines += now_lines(result, self._label, certified.what_ran)
        if not left and not result.kept.fences and not result.kept.before:
            whose = "nothing is fenced" if result.within is None else "nothing of this run is fenced any more"
            lines.append(f"now     {whose}")
        if result.hint and not result.kept.fences:
            lines += wrap(shown(result.hint), first="hint: ", rest="      ")
        elif not left and not result.kept.fences and (book := runbook_for(result.code)) is not None:
            lines.append(f"hint: fencectl runbook {book.name} --context {quoted(self._label)}")
        return lines

    def _followed(self, result: Result) -> list[str]:
        """What did not succeed of what was followed, worst first, and what to look at beside it."""
        followed = result.followed
        return result_lines(followed, now=self._clock.wall(), style=self._err) if followed is not None else []

    def _as_data(self, plan: DeployPlan, result: Result) -> dict[str, object]:
        unwound = result.unwound
        return {
            **objects_data(result.handed),
            **({} if result.canary is None else {"canary": objects_data(result.canary)}),
            **kept_data(result.kept),
            "type": "result",
            "apiVersion": "fencectl.dev/v1",
            "kind": self.kind,
            "exitCode": result.code.value,
            "generation": result.generation,
            "token": result.token,
            "step": result.step,
            "cause": result.cause,
            "reason": result.reason,
            "commandExitCode": result.payload.code if result.payload else None,
            "lease": "/".join(plan.lease),
            "left": [one.fence.seen.ref.display for one in unwound.left] if unwound else [],
            "waiting": [fence.seen.ref.display for fence in unwound.waiting] if unwound else [],
            "unresolved": result.unresolved,
            "certification": result.certification.as_data(),
            **restored_data(result),
        } | ({} if result.within is None else {"within": result.within})

    def _github(self, code: ExitCode, lines: Sequence[str], *, certification: str | None = None) -> None:
        is_only = self._among is None
        tell_target(
            self._label, code, lines, self.warn, is_only=is_only, certification=certification, noun=self.noun
        )

    def _event(self, event: dict[str, object]) -> None:
        write_what_can(stdout=json.dumps(event | {"context": self._context}, ensure_ascii=True) + "\n")

    def _say(self, *lines: str) -> None:
        text = "".join(f"{self._err.spelled(line)}\n" for line in lines)
        with self._lock:
            if self._live is not None:
                self._live.say(text, self._clock.monotonic_s())
            else:
                to_stderr(text)


def _held_because(code: ExitCode) -> str:
    return "a rollback is in progress" if code is ExitCode.ROLLBACK_IN_PROGRESS else "fences are held"
