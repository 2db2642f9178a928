"""What `deploy` shows: a line per change on stderr, a reminder in silence, one result block at the end."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from fencectl.cluster.clock import Clock
from fencectl.commands.deploy_changes import as_data, summary, table
from fencectl.commands.options import Color, Output
from fencectl.commands.output import style_of, write
from fencectl.core.apply_plan import Change, What
from fencectl.core.deploy import DeployPlan
from fencectl.core.errors import ExitCode
from fencectl.core.identity import parse_holder
from fencectl.core.report import FenceReport
from fencectl.core.rollout import RolloutVerdict
from fencectl.core.times import age_text, second_time
from fencectl.core.verbs import VERBS
from fencectl.evidence.redact import redact_command
from fencectl.report.commands import NotPrintableError, Where, as_kubectl
from fencectl.report.escape import cut, visible, workflow_data, workflow_property
from fencectl.report.rollout import followed_object, result_lines, sum_sentence
from fencectl.report.text import overview
from fencectl.report.words import count
from fencectl.run.left import patches_left
from fencectl.run.transaction import Result

REMIND_S = 30.0


def shown(text: str) -> str:
    """Foreign text, made harmless and cut."""
    return visible(cut(text))


class Show:
    """Shows one deploy."""

    def __init__(self, output: Output, color: Color, clock: Clock, label: str) -> None:
        _open_closed_streams()
        self._json = output is Output.JSON
        self._out = style_of(sys.stdout, color)
        self._err = style_of(sys.stderr, color)
        self._clock = clock
        self._label = visible(label)
        self._last = ""
        self._said_s = clock.monotonic_s()
        self._lock = threading.Lock()

    def tell(self, step: int, text: str) -> None:
        """One change, as it happens."""
        at = self._clock.wall()
        with self._lock:
            self._last, self._said_s = text, self._clock.monotonic_s()
            if self._json:
                self._event({"type": "step", "step": step, "text": text, "at": second_time(at)})
            else:
                self._say(f"{at:%H:%M:%SZ} {step:>2}  {shown(text)}")

    def remind(self) -> None:
        """Say what is waited for, if nothing was said for a while."""
        with self._lock:
            quiet_s = self._clock.monotonic_s() - self._said_s
            if quiet_s >= REMIND_S and not self._json:
                self._said_s = self._clock.monotonic_s()
                self._say(
                    f"{self._clock.wall():%H:%M:%SZ}     still waiting ({age_text(quiet_s)}): {shown(self._last)}"
                )

    def warn(self, text: str) -> None:
        """Something to look at, not blocking."""
        self._say(f"{self._err.look} {shown(text)}")

    def plan(self, plan: DeployPlan, *, around: str | None = None) -> None:
        """What a dry run would do, in order. `around`: the run of whose command it is a part."""
        lease = f"lease/{'/'.join(plan.lease)}"
        lines = [
            f"would deploy to {self._label}",
            f"   2  take {lease}"
            if around is None
            else f"   2  under {lease} of {visible(parse_holder(around).title)}, which runs this",
        ]
        lines += [f"      {visible(ref.display)} is fenced by that run already" for ref in plan.covered]
        for ref, _ in plan.suspend:
            added = " (it applies one of the others)" if ref in plan.added else ""
            lines.append(f"   4  suspend {visible(ref.display)}{added}")
        lines += [f"   6  fence {visible(ref.display)}" for ref in plan.nodes]
        if plan.apply is not None:
            lines.append(f"   8  apply and follow {summary(plan.apply.changes)}")
        else:
            lines.append(f"   8  run {shown(redact_command(plan.command, os.environ))}")
        lines.append("  10  release all of it in reverse order")
        if self._json:
            self._event(
                {"type": "plan", "lease": "/".join(plan.lease), "steps": [line.strip() for line in lines[1:]]}
            )
            return
        _write(stdout="".join(f"{self._out.spelled(line)}\n" for line in lines))
        self._say("nothing was changed")

    def changes(self, changes: Sequence[Change], withheld: str | None, *, diff: bool, ends: bool) -> None:
        """What would change, before the first write. `ends`: it is the report, and nothing follows it."""
        if self._json:
            self._event(as_data(changes, withheld))
            return
        lines = [f"{self._label}: {summary(changes)}", *table(changes, diff=diff, withheld=withheld)]
        if withheld is not None:
            lines.append(f"prune withheld: {shown(withheld)}")
        if ends:
            _write(stdout="".join(f"{self._out.spelled(line)}\n" for line in lines))
        else:
            self._say(*lines)

    def not_begun(self, plan: DeployPlan, code: ExitCode, withheld: str | None) -> None:
        """Why a deploy of manifests does not begin."""
        conflict = plan.apply is not None and any(one.what is What.CONFLICT for one in plan.apply.changes)
        if code is ExitCode.OUTCOME_UNKNOWN:
            cause = f"the prune was withheld: {withheld}"
            hint = "look at what is rendered; `--allow-partial-prune` takes away what is seen nevertheless"
        elif conflict:
            cause = "fields belong to others"
            hint = "leave them out of the manifests, or take them over with `--force-conflicts`"
        else:
            cause, hint = "the API server refuses objects", "the table above names each, with its manifest"
        if self._json:
            self._event(self._as_data(plan, Result(step=1, cause=cause, codes=[code])))
        lines = [f"{self._err.failed} not deployed to {self._label}: {shown(cause)} ({code.value})"]
        self._say(*lines, "nothing was changed", f"hint: {hint}")
        self._github(code, [shown(line) for line in lines])

    def held(self, report: FenceReport, code: ExitCode) -> None:
        """Why the deploy may not begin: the first lines of the report."""
        if self._json:
            self._event(
                {
                    "type": "result",
                    "apiVersion": "fencectl.dev/v1",
                    "kind": "DeployResult",
                    "exitCode": code.value,
                    "step": 1,
                    "cause": "fences are held",
                    "heldBy": [block.holder.identity for block in report.blocks],
                    "held": [entry.object.display for entry in report.held],
                }
            )
        lines = overview(report, style=self._err, verbs=VERBS)
        self._say(f"{self._err.failed} not deployed to {self._label}: fences are held ({code.value})")
        self._say(*lines)
        self._say("nothing was changed", f"hint: {self._way_out(code)}")

    def _way_out(self, code: ExitCode) -> str:
        context = f" --context {self._label}"
        if code is ExitCode.HELD_LIVE:
            return f"`--wait-for-fences` waits for it, `fencectl fences{context}` shows it all"
        if code is ExitCode.HELD_DEAD:
            return f"release them, then deploy again: fencectl recover{context}"
        return f"`fencectl fences{context}` shows what a person has to decide"

    def waiting(self, report: FenceReport) -> None:
        """Who is waited for."""
        for block in report.blocks:
            self.tell(1, f"waits for {block.title}: {block.judgement.because}")

    def result(self, plan: DeployPlan, result: Result, begun_at: datetime, where: Where) -> None:
        """What is so now, why, and what next; the last words are what is still fenced, and the commands."""
        took = age_text((self._clock.wall() - begun_at).total_seconds())
        code = result.code
        lines = self._good(result, took) if code is ExitCode.OK else self._bad(result, took)
        commands = _commands(result, where, now=self._clock.wall())
        if self._json:
            self._event(self._as_data(plan, result) | {"commands": commands})
        else:
            self._say(*lines)
            self._say_commands(commands)
        self._github(code, [shown(line) for line in lines])

    def _say_commands(self, commands: Sequence[str]) -> None:
        """The releases of what is left, each on a line of its own, as they run."""
        if commands:
            self._say(
                "      or, once this run has ended and the API server answers, in this order;"
                " each is refused where its object has changed:"
            )
            # NB: past every shortening and spelling: a command runs as it stands, or not at all.
            _write(stderr="".join(f"{command}\n" for command in commands))

    def _good(self, result: Result, took: str) -> list[str]:
        if result.within is not None:
            around = visible(parse_holder(result.within).title)
            what = f"deployed to {self._label} in {took}, inside of {around}"
            return [f"{self._err.good} {what}: its own fences are released"]
        what = f"deployed generation {result.generation} to {self._label} in {took}"
        if result.handed is not None:
            what += f", {result.handed.counts}"
        return [f"{self._err.good} {what}: nothing is fenced", *self._followed(result)]

    def _bad(self, result: Result, took: str) -> list[str]:
        left = self._left(result)
        what = f"deploy failed on {self._label} in step {result.step}, after {took}"
        if result.code in (ExitCode.INTERRUPTED, ExitCode.TERMINATED, ExitCode.HANGUP):
            what = f"interrupted in step {result.step} on {self._label}: nothing was applied"
        elif result.lost is not None:
            what = (
                f"{result.lost.sentence} in step {result.step} on {self._label}: {shown(result.lost.reason or '')}"
            )
        followed = result.handed.followed if result.handed is not None else None
        if followed is not None and followed.outcome is not RolloutVerdict.SUCCEEDED and result.lost is None:
            what = f"deploy failed on {self._label} in step {result.step}, after {took}: {sum_sentence(followed)}"
            lines = [f"{self._err.failed} {what}", *self._followed(result)]
        else:
            lines = [f"{self._err.failed} {what}", *self._followed(result)]
            lines += [f"reason: {shown(text)}" for text in (result.cause, result.reason) if text]
        if result.applied:
            ran = result.handed.counts if result.handed is not None else "the command has run"
            lines.append(f"now     {ran}: the new state may be live")
        if not left:
            whose = "nothing is fenced" if result.within is None else "nothing of this run is fenced any more"
            lines.append(f"now     {whose}")
        if result.hint:
            lines.append(f"hint: {shown(result.hint)}")
        return [*lines, *left]

    def _followed(self, result: Result) -> list[str]:
        """What did not succeed of what was followed, worst first, and what to look at beside it."""
        followed = result.handed.followed if result.handed is not None else None
        return result_lines(followed, now=self._clock.wall(), style=self._err) if followed is not None else []

    def _left(self, result: Result) -> list[str]:
        unwound = result.unwound
        if unwound is None:
            return []
        names = [(one.fence.seen.ref.display, one.why) for one in unwound.left]
        names += [(fence.seen.ref.display, "waits for those above") for fence in unwound.waiting]
        told = {name for name, _ in names}
        unresolved = [name for name in result.unresolved if name not in told]
        names += [(name, "nobody can say whether it was fenced") for name in unresolved]
        if result.lease_kept:
            names.append(("the lease", "held as long as anything else is"))
        if not names:
            return []
        width = max(len(visible(name)) for name, _ in names)
        return [
            f"{self._err.failed} {count(len(names), 'fence')} {self._err.capitals('STILL HELD')} on {self._label}",
            *(f"  {visible(name):<{width}}  {shown(why)}" for name, why in names),
            f"hint: fencectl fences --context {self._label}",
        ]

    def _as_data(self, plan: DeployPlan, result: Result) -> dict[str, object]:
        unwound = result.unwound
        return {
            **self._objects(result),
            "type": "result",
            "apiVersion": "fencectl.dev/v1",
            "kind": "DeployResult",
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
        } | ({} if result.within is None else {"within": result.within})

    @staticmethod
    def _objects(result: Result) -> dict[str, object]:
        """What a deploy of manifests says more."""
        handed = result.handed
        if handed is None:
            return {}
        pruned = handed.pruned
        return {
            "objects": {
                "planned": handed.planned,
                "applied": len(handed.tally.made),
                "changed": handed.tally.changed,
                "pruned": [ref.display for ref in pruned.gone] if pruned else [],
                "pruneWithheld": pruned.withheld if pruned else None,
            },
            "followed": followed_object(handed.followed) if handed.followed is not None else None,
        }

    def _github(self, code: ExitCode, lines: Sequence[str]) -> None:
        """In GitHub Actions: an output, a summary, and an annotation where it failed."""
        if os.environ.get("GITHUB_ACTIONS") != "true":
            return
        self._append("GITHUB_OUTPUT", f"outcome={code.name.lower()}\n")
        self._append("GITHUB_STEP_SUMMARY", "".join(f"    {line}\n" for line in lines) + "\n")
        if code is not ExitCode.OK:
            title = workflow_property(f"{self._label}: deploy ended with {code.value}")
            _write(stderr=f"::error title={title}::{workflow_data(chr(10).join(lines))}\n")

    def _append(self, variable: str, text: str) -> None:
        path = os.environ.get(variable)
        if not path:
            return
        try:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(text)
        except (OSError, ValueError) as failure:
            # NB: the deploy has ended as it has; that a file of the runner takes nothing changes no result.
            self.warn(f"{variable} could not be written ({failure})")

    @staticmethod
    def _event(event: dict[str, object]) -> None:
        _write(stdout=json.dumps(event, ensure_ascii=True) + "\n")

    def _say(self, *lines: str) -> None:
        _write(stderr="".join(f"{self._err.spelled(line)}\n" for line in lines))


def _commands(result: Result, where: Where, *, now: datetime) -> list[str]:
    """The releases of what is left, up to the first that no line would run as."""
    commands: list[str] = []
    for patch in patches_left(result, now=now):
        try:
            commands.append(as_kubectl(patch, where))
        except NotPrintableError:
            break
    return commands


def _write(*, stdout: str = "", stderr: str = "") -> None:
    """
    Write what can be written.

    NB: a reader that has left must neither end a deploy nor its unwinding: the exit code still tells.
    """
    try:
        write(stdout=stdout)
    except OSError:
        _give_up_on(1)
    try:
        write(stderr=stderr)
    except OSError:
        _give_up_on(2)


def _open_closed_streams() -> None:
    """
    Give a stream that the caller has closed (`>&-`) a place to write to, ours and the command's.

    NB: a descriptor that is closed when the command starts would become that of the first file which it opens.
    """
    for number in range(3):
        os.set_inheritable(number, True)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _give_up_on(number: int) -> None:
    """Lead a stream that nobody reads to nowhere, or its buffer fails again when the interpreter ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, number)
    os.close(null)
