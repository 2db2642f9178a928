"""`fencectl recover`: release what a provably dead holder left, the whole chain, in order."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from fencectl.cluster.clock import Clock, SystemClock
from fencectl.commands.asking import answer_to
from fencectl.commands.common import resolve
from fencectl.commands.options_acting import RecoverOptions
from fencectl.commands.reading import Look, subjects
from fencectl.commands.recover_show import Show
from fencectl.commands.signals import Signals
from fencectl.core.assemble import Runs
from fencectl.core.errors import (
    ExitCode,
    FencectlError,
    NotReadableError,
    PersonNeededError,
    UsageError,
    worst,
)
from fencectl.core.found import Found
from fencectl.core.heartbeat import WINDOW_S
from fencectl.core.journal import Journal, Phase
from fencectl.core.marks_reader import Vouched
from fencectl.core.outcome import Outcome
from fencectl.core.profiles import Profile, ProfileName
from fencectl.core.recovery import RecoveryPlan, Wanted, leases_to_watch, plan_recovery
from fencectl.core.report import FenceReport
from fencectl.core.selection import HeldLiveError
from fencectl.report.hints import vouch_hint
from fencectl.run.foreign_recovery import ForeignRecovery
from fencectl.run.ports import Door, SystemThreads, Threads
from fencectl.run.recovery import Recovery, recovery_journal
from fencectl.run.reporting import Reporter, Silent, Tells
from fencectl.run.story import World
from fencectl.run.window import Watched, moved_since, watch_leases


class InterruptedBeforeWriteError(FencectlError):
    """A signal came before anything was changed."""

    def __init__(self, code: ExitCode) -> None:
        super().__init__("interrupted: nothing was released")
        self.exit_code = code


class _Interrupted(BaseException):
    """A signal while nothing is written yet. Not an `Exception`: nothing on the way may take it for a failure."""


@dataclass(slots=True)
class OrderlySignals(Signals):
    """As long as nothing is written, a signal ends the run at once; `orderly`: afterwards it is obeyed in time."""

    orderly: bool = False

    def interrupt(self, first: bool) -> None:
        if first and not self.orderly:
            raise _Interrupted


@dataclass(frozen=True, slots=True)
class Surroundings:
    """
    What a run of the verb acts through; a simulation has its own of each.

    `look`: look at everything and ask about the holders, given for how long leases were watched. `runs`: look at
    everything only. `own_journal`: who recovers, with everything that proves its end, should it die half-way.
    `telling`: who tells Events as that one.
    """

    profile: Profile
    look: Callable[[Mapping[tuple[str, str], float]], Look]
    runs: Callable[[], Runs]
    own_journal: Callable[[], Journal]
    door: Door
    keeper_door: Door
    clock: Clock
    threads: Threads
    signals: OrderlySignals
    show: Show
    telling: Callable[[Journal], Tells] = lambda _: Silent()


def run(options: RecoverOptions) -> ExitCode:
    """Look, watch, decide on the same look that is shown, ask, release."""
    effective = resolve(options.common)
    target = effective.one_target("recover")
    attended = sys.stdin.isatty() and sys.stderr.isatty() and not options.yes
    # NB: the kubeconfig is read before anybody is asked for anything: it says which cluster this is about.
    (subject,) = subjects(effective)
    if not (attended or options.yes or options.dry_run):
        name = target.print_context or target.context or subject.connection.context_name
        raise UsageError(
            f"recover changes {name or 'the cluster'}, and nobody can be asked here",
            hint="pass --yes if this job may release what a provably dead holder left",
        )
    vouched = _vouched(options, target.profile.name)
    wanted = Wanted(options.holder, options.every, options.accept_presumed, attended)
    clock = SystemClock()
    with subject.opened(clock) as door, subject.opened(clock) as keeper_door, ExitStack() as after:

        def telling(own: Journal) -> Tells:
            reporter = Reporter.of(own, door, clock, SystemThreads())
            after.callback(reporter.end)
            return reporter

        world = Surroundings(
            profile=target.profile,
            look=lambda unchanged_for_s: subject.look(
                door, clock, vouched=vouched, unchanged_for_s=unchanged_for_s
            ),
            runs=lambda: subject.runs(door, clock, vouched=vouched),
            own_journal=lambda: _own_journal(clock),
            door=door,
            keeper_door=keeper_door,
            clock=clock,
            threads=SystemThreads(),
            signals=OrderlySignals(threading.Event()),
            show=Show(options.output, options.common.color, attended=attended),
            telling=telling,
        )
        return RecoverRun(options, wanted, vouched, world).run()


def _vouched(options: RecoverOptions, profile: ProfileName) -> Vouched:
    if profile is not ProfileName.FENCECTL and (options.verified_nodes or options.resume_kept):
        raise UsageError(
            "`--node-verified` and `--resume-kept` are for fences of the profile fencectl",
            hint="another tool's nodes are vouched for in that tool. Nothing was read or changed",
        )
    nodes = frozenset(f"node/{name.removeprefix('node/')}" for name in options.verified_nodes)
    return Vouched(nodes, frozenset(name.lower() for name in options.resume_kept))


def _never_begun(plan: RecoveryPlan) -> Outcome:
    """What is so of a holder whose turn never came."""
    left = [entry.object.display for entry in (*plan.going, plan.lease.entry) if entry is not None]
    return Outcome(left=left, stopped="it was never begun, since the one before it was stopped")


def _must_be_owned(report: FenceReport) -> None:
    """Refuse to say that there is nothing to do while a mark names no holder: people have to look."""
    if report.unowned:
        first = report.unowned[0]
        raise PersonNeededError(
            f"nothing was released on {report.label}: {first.object.display} carries a mark that names no holder",
            reason=first.refusal.why if first.refusal else None,
        )


def _own_journal(clock: Clock) -> Journal:
    """Who recovers, with everything that proves our end, should we die half-way."""
    from fencectl.evidence.checked_self import describe_checked_self
    from fencectl.evidence.machine import Machine

    now = clock.wall()
    own = describe_checked_self(os.environ, Machine(), command=sys.argv, at=now)
    return Journal(
        holder=own.identity,
        uid="",
        seq=1,
        rank=0,
        at=now,
        phase=Phase.RECOVERING,
        repository=own.repository,
        server=own.server,
        job=own.job,
        job_verified=own.job_verified,
        runner=own.runner,
        details=own.details,
    )


class RecoverRun:
    """One run of the verb against one cluster."""

    def __init__(self, options: RecoverOptions, wanted: Wanted, vouched: Vouched, world: Surroundings) -> None:
        self._options = options
        self._wanted = wanted
        self._vouched = vouched
        self._world = world
        self._signals = world.signals
        self._show = world.show

    def run(self) -> ExitCode:
        try:
            return self._run()
        except _Interrupted:
            raise InterruptedBeforeWriteError(self._signals.code or ExitCode.INTERRUPTED) from None

    def _run(self) -> ExitCode:
        with self._signals.taken():
            first = self._world.look({})
            self._must_find(first.report)
            blocks, leases = leases_to_watch(first.report, self._world.profile, self._wanted)
            if not blocks:
                _must_be_owned(first.report)
                self._show.nothing(first.report)
                return ExitCode.OK
            # NB: a run that turns up later was not watched.
            self._wanted = replace(self._wanted, keys=frozenset(block.key for block in blocks))
            if self._options.dry_run:
                return self._would(first, leases)
            if not any(block.judgement.only_heartbeat for block in blocks):
                # NB: what the watch cannot change is said at once.
                self._plans(first)
            look, plans = self._watch(first, leases)
            if not plans:
                # Somebody else has released it meanwhile.
                self._show.nothing(look.report)
                return ExitCode.OK
            if not self._options.yes:
                self._ask(look.report, plans)
            return self._recover(look, plans)

    def _plans(self, look: Look) -> tuple[RecoveryPlan, ...]:
        try:
            return plan_recovery(look.report, look.runs.observation, self._world.profile, self._wanted)
        except PersonNeededError as refused:
            vouch = vouch_hint(look.report, refused.sentence, verified=self._options.verified_nodes)
            if vouch is None:
                raise
            raise PersonNeededError(refused.sentence, reason=refused.reason, hint=vouch) from refused

    def _would(self, first: Look, leases: tuple[tuple[str, str], ...]) -> ExitCode:
        """Show the plan; with `=server`, also what the API server says to each of its patches."""
        plans = self._plans(first)
        tried: list[Outcome] = []
        if self._options.rehearse:
            own = self._world.own_journal()
            tried = [self._recovery(plan, own).rehearse() for plan in plans]
        self._show.would(first.report, plans, self._window_s(first, leases), tried)
        return worst([self._code(outcome) for outcome in tried])

    def _must_find(self, report: FenceReport) -> None:
        """Refuse what a person vouched for and that is not there: a misspelt node must not pass in silence."""
        there = [entry.object.display for entry in report.held]
        for name in (*self._vouched.nodes, *self._vouched.resumed):
            if name not in there and report.complete:
                held = ", ".join(sorted(set(there)))
                raise UsageError(f"no fence `{name}` on {report.label}", hint=f"held: {held}")
            if there.count(name) > 1:
                raise UsageError(
                    f"{there.count(name)} fences are called `{name}` on {report.label}",
                    hint="a name cannot tell them apart: release the one that is meant by hand",
                )

    def _watch(self, first: Look, leases: tuple[tuple[str, str], ...]) -> tuple[Look, tuple[RecoveryPlan, ...]]:
        """Watch the leases for the whole window, then look again: that look is shown, and acted on."""
        seen = {(s.ref.namespace or "", s.ref.name): s for s in first.runs.observation.leases}
        before = {key: seen.get(key) for key in leases}
        window = self._window_s(first, leases)
        self._show.plan(first.report)
        self._show.watching(window)
        watched = watch_leases(
            self._world.door,
            self._world.clock,
            leases,
            before=before,
            window_s=window,
            stop=self._signals.stop,
        )
        if watched.interrupted:
            raise InterruptedBeforeWriteError(self._signals.code or ExitCode.INTERRUPTED)
        self._must_stand_still(first, watched)
        look = self._world.look({key: watched.for_s for key in leases if seen.get(key) is not None})
        # NB: that look takes the watched leases for still, and the take-over guards the heartbeat that it shows.
        self._must_stand_still(look, moved_since(watched, before, look.runs.observation.leases))
        plans = self._plans(look)
        self._show.watched(look.report, plans, window)
        return look, plans

    @staticmethod
    def _must_stand_still(look: Look, watched: Watched) -> None:
        if watched.moved is not None and not watched.renewed:
            raise HeldLiveError(
                f"nothing was released on {look.report.label}: somebody wrote the lease while it was watched",
                reason=watched.moved,
                hint="run it again; should that happen again, find out first who writes it",
            )
        if watched.moved is not None:
            raise HeldLiveError(
                f"nothing was released on {look.report.label}: the holder is alive",
                reason=watched.moved,
                hint="a process of that run still writes its lease (a paused machine that woke up?); end it first",
            )

    def _window_s(self, first: Look, leases: tuple[tuple[str, str], ...]) -> float:
        durations = [
            block.lease_duration_s or 0.0
            for block in first.report.blocks
            if block.lease in leases or not block.lease
        ]
        lease_durations = [
            found.heartbeat.duration_s
            for found in first.runs.reading.found
            if found.heartbeat is not None and found.heartbeat.duration_s is not None
        ]
        longest = max([0.0, *durations, *(float(d) for d in lease_durations)])
        # NB: capped as the heartbeat is, or an absurd duration would make every recovery wait for ever.
        return max(WINDOW_S, self._options.watch_for_s or 0.0, min(longest, 300.0))

    def _ask(self, report: FenceReport, plans: tuple[RecoveryPlan, ...]) -> None:
        total = sum(plan.total for plan in plans)
        if answer_to(lambda: self._show.question(report, total)).strip() != "yes":
            raise UsageError("nothing was released: the answer was not `yes`")

    def _recover(self, look: Look, plans: tuple[RecoveryPlan, ...]) -> ExitCode:
        own = self._world.own_journal()
        outcomes, took_s = [], []
        self._signals.orderly = True
        for plan in plans:
            self._show.begins(plan)
            began_s = self._world.clock.monotonic_s()
            outcome = self._recovery(plan, own).run()
            outcomes.append((plan, outcome))
            took_s.append(self._world.clock.monotonic_s() - began_s)
            if outcome.stopped is not None:
                break
        for plan in plans[len(outcomes) :]:
            outcomes.append((plan, _never_begun(plan)))
            took_s.append(0.0)
        self._show.end(look.report, outcomes, took_s)
        codes = [self._code(outcome) for _, outcome in outcomes]
        # NB: half-way, also where the stop came between two holders.
        if any(outcome.wrote for _, outcome in outcomes) and any(codes):
            codes.append(ExitCode.STILL_FENCED)
        return worst(codes)

    def _recovery(self, plan: RecoveryPlan, own: Journal) -> Recovery | ForeignRecovery:
        around = self._world
        world = World(
            around.door,
            around.keeper_door,
            around.clock,
            around.threads,
            self._signals.stop,
            self._show.told,
            self._left_of,
            around.telling(own),
        )
        if around.profile.name is not ProfileName.FENCECTL:
            return ForeignRecovery(world, plan)
        return Recovery(world, plan, journal=recovery_journal(own, plan), vouched=self._vouched)

    def _left_of(self, key: str) -> list[Found]:
        runs = self._world.runs()
        if runs.observation.unreadable:
            missing = runs.observation.unreadable[0]
            raise NotReadableError(f"{missing.what} could not be read again", reason=missing.why)
        return [found for group in runs.groups if group.key == key for found in group.found]

    def _code(self, outcome: Outcome) -> ExitCode:
        if outcome.stopped is None:
            return ExitCode.OK
        if outcome.wrote or outcome.unresolved:
            return ExitCode.STILL_FENCED
        if outcome.forbidden or outcome.unread:
            return ExitCode.INCOMPLETE
        if self._signals.code is not None:
            return self._signals.code
        return ExitCode.HELD_LIVE if outcome.alive else ExitCode.HELD_PERSON_NEEDED
