"""One deploy on one target: look, wait or refuse, plan, run the transaction, show what came of it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fencectl.cluster.access import ask_access
from fencectl.cluster.clock import SystemClock
from fencectl.cluster.kinds import CONFIGMAPS, record_of
from fencectl.cluster.private_kubeconfig import kubeconfig_of, written
from fencectl.cluster.transport import Transport
from fencectl.commands.common import TargetSettings
from fencectl.commands.deploy_files import Inputs
from fencectl.commands.deploy_planning import TIMEOUT_S, Planning, lease_of
from fencectl.commands.deploy_show import Show
from fencectl.commands.options import Output
from fencectl.commands.options_acting import DeployOptions
from fencectl.commands.reading import Look, Subject
from fencectl.commands.signals import Signals
from fencectl.core.deploy import Adopted, DeployPlan, adoptable, only_live, refuse_others, why_not, without_claims
from fencectl.core.deploy_rights import needed_by, refuse_without
from fencectl.core.errors import ExitCode, FencectlError, NotReadableError
from fencectl.core.journal import Journal, Phase
from fencectl.core.nesting import SERVER_VARIABLE, Around, extra_of
from fencectl.core.refs import ObjectRef, dig
from fencectl.report.commands import where_of
from fencectl.run.follow import Follower
from fencectl.run.leasing import LeaseAt, LeaseBusyError
from fencectl.run.nesting import believe
from fencectl.run.payload import SystemProcesses
from fencectl.run.ports import SystemThreads
from fencectl.run.record import RecordBook
from fencectl.run.reporting import Reporter
from fencectl.run.story import WRITE_S, read
from fencectl.run.transaction import Deploy, Stage

if TYPE_CHECKING:
    from fencectl.evidence.self_identity import SelfIdentity

LOOK_AGAIN_S = 5.0


class Own:
    """Who this process is: found out once, however many targets it goes to."""

    def __init__(self) -> None:
        self._found: SelfIdentity | None = None

    def of(self, *, at: datetime, digest: str | None, warn: Callable[[str], None]) -> SelfIdentity:
        """`digest`: of what is to be applied. What is to be said of it is told the first time."""
        if self._found is None:
            from fencectl.evidence.checked_self import describe_checked_self
            from fencectl.evidence.machine import Machine

            self._found = describe_checked_self(os.environ, Machine(), command=sys.argv, at=at, digest=digest)
            for warning in self._found.warnings:
                warn(warning)
        return self._found


@dataclass(frozen=True, slots=True)
class Subjected:
    """
    One target, checked and rendered for (step 0), before anything of it is read.

    `told`: the runs around this process, as its environment names them.
    """

    options: DeployOptions
    target: TargetSettings
    subject: Subject
    label: str
    told: Around | None
    rendered: Inputs
    own: Own

    @property
    def lease(self) -> tuple[str, str]:
        """The namespace and the name of its lease."""
        return lease_of(self.options, self.target)


@dataclass(frozen=True, slots=True)
class Ready:
    """What was read of a target, and what is to be done there."""

    look: Look
    plan: DeployPlan
    own: Journal


class DeployOnTarget:
    """
    One run of the verb against one target, over connections that are open already.

    `wait_until_s`: on the monotonic clock, up to when it may wait for a live holder. `begun`: its transaction was.
    `cluster_uid`: of the cluster that was looked at, where it could be read. `doing`: the verb, for messages.
    """

    doing = "deploy"

    def __init__(
        self,
        one: Subjected,
        door: Transport,
        keeper_door: Transport,
        signals: Signals,
        show: Show,
        *,
        wait_until_s: float | None = None,
    ) -> None:
        self._rendered = one.rendered
        self._options = one.options
        self._target = one.target
        self._subject = one.subject
        self._told = one.told
        self._lease = one.lease
        self._label = one.label
        self._whose = one.own
        self._door = door
        self._keeper_door = keeper_door
        self._signals = signals
        self._show = show
        self._around: Around | None = None
        self._adopt: tuple[Adopted, ...] = ()
        self._clock = SystemClock()
        self._wait_until_s = self.waiting_ends_s(one.options) if wait_until_s is None else wait_until_s
        self.begun = False
        self.cluster_uid: str | None = None

    @staticmethod
    def waiting_ends_s(options: DeployOptions) -> float:
        """Until when one may wait that begins to wait now."""
        return SystemClock().monotonic_s() + (options.wait_timeout_s or TIMEOUT_S)

    def look_first(self) -> ExitCode:
        """Only look, wait or refuse, and plan: nothing is changed, and OK is that it may begin."""
        self._around = self._run_around()
        ready = self._ready()
        return ready if isinstance(ready, ExitCode) else ExitCode.OK

    def run(self, after: ExitStack) -> ExitCode:
        """Do all of it; `after`: takes the private kubeconfig away once everything has ended."""
        self._around = self._run_around()
        path: Path | None = None
        while True:
            ready = self._ready()
            if isinstance(ready, ExitCode):
                return ready
            if self._options.dry_run:
                return ExitCode.OK
            # NB: of the connection that takes the lease: read again, a kubeconfig may lead elsewhere.
            path = path or after.enter_context(written(kubeconfig_of(self._subject.connection)))
            begun_at, self.begun = self._clock.wall(), True
            try:
                stage = self._stage(ready, path, after)
                result = Deploy(stage, ready.plan, ready.own, self._around).run()
            except LeaseBusyError as busy:
                self.begun = False
                if not self._may_wait():
                    return self._lost_the_race(busy)
                continue
            except FencectlError:
                self.begun = False  # as it says: nothing was changed at all
                raise
            if result.held is not None and only_live(result.held) and self._may_wait():
                self.begun = False
                continue
            self.begun = result.held is None or result.code is ExitCode.STILL_FENCED
            self._show.result(ready.plan, result, begun_at, where_of(ready.look.report))
            return result.code

    def _ready(self) -> Ready | ExitCode:
        """Look, wait or refuse, and plan (1); the exit code where the deploy ends with that."""
        planning = Planning(self._options, self._target, self._door, self._clock, self._subject.deadline_s)
        own = self._own_journal()
        look = self._may_begin()
        if isinstance(look, ExitCode):
            return look
        self._adopt = self._adopted(look)
        plan = planning.plan(own, self._around, self._adopt)
        with_objects = planning.with_objects(plan, self._rendered, self._signals, self._show)
        if isinstance(with_objects, ExitCode):
            return with_objects
        plan = with_objects
        if self._options.dry_run:
            self._show.plan(plan, around=None if self._around is None else self._around.holder)
        elif self._signals.code is not None:
            self._show.warn("interrupted: nothing was changed")
            return self._signals.code
        else:
            self._may_do(plan, look)
        return Ready(look, plan, own)

    def _may_do(self, plan: DeployPlan, look: Look) -> None:
        """Ask whether everything that will be written may be, before the first write; raises NotReadableError."""
        needed = needed_by(plan, inside=self._around is not None)
        may = ask_access(self._door, needed, deadline_s=self._subject.deadline_s)
        where = f" --context {shlex.quote(look.report.label)}" if self._subject.connection.context_name else ""
        hint = f"`fencectl doctor{where} --rbac deploy` prints the role to ask for"
        refuse_without(may, not_done=f"{self._show.not_done} {look.report.label}", hint=hint)

    def _may_wait(self) -> bool:
        is_in_time = self._clock.monotonic_s() < self._wait_until_s
        return self._options.wait_for_fences and is_in_time and self._signals.code is None

    def _lost_the_race(self, busy: LeaseBusyError) -> ExitCode:
        """Somebody else has taken the lease since it was seen free: show what they hold by now."""
        look = self._look()
        code = why_not(look.report, look.runs.observation, self._target.profile)
        if code is None:
            raise busy
        self._show.held(look.report, code)
        return code

    def _run_around(self) -> Around | None:
        """
        The run of whose command this deploy is a part, on this very target and under this very lease.

        Raises NotBelievedError where that run does not hold its lease any more.
        """
        told = self._told
        if told is None or told.lease != self._lease:
            return None
        if told.server not in (None, self._subject.connection.server):
            # NB: another target, unless the same one is reached in another way: nobody else bears that identity.
            seen = read(self._door, LeaseAt(*told.lease).ref)
            if seen is None or dig(seen.raw, "spec", "holderIdentity") != told.holder:
                return None
        believe(self._door, self._clock, told)
        return told

    def _stage(self, ready: Ready, path: Path, after: ExitStack) -> Stage:
        reporter = Reporter.of(ready.own, self._door, self._clock, SystemThreads())
        after.callback(reporter.end)
        environ = dict(os.environ) | {"KUBECONFIG": str(path), SERVER_VARIABLE: self._subject.connection.server}
        return Stage(
            door=self._door,
            keeper_door=self._keeper_door,
            clock=self._clock,
            threads=SystemThreads(),
            book=self._book(ready.plan.lease),
            environ=environ,
            interrupted=self._signals.stop,
            interrupt_code=lambda: self._signals.code,
            read_again=self._read_again,
            tell=self._show.tell,
            handed_over=self._show.handed_over,
            # NB: with JSON lines stdout is ours alone, or what the command prints would break them.
            processes=SystemProcesses(sys.stderr if self._options.output is Output.JSON else None),
            events=reporter,
            follower=lambda must_stop, tell: Follower(self._door, self._clock, tell, must_stop),
        )

    # (1)

    def _look(self) -> Look:
        look = self._subject.look(self._door, self._clock)
        if self._options.over_claim:
            look = replace(look, report=without_claims(look.report))
        self.cluster_uid = look.report.cluster_uid
        return look

    def _may_begin(self) -> Look | ExitCode:
        """Look, and wait if that was asked for; the exit code where the deploy is refused."""
        within = self._around.holder if self._around is not None else None
        told: set[str] = set()
        while True:
            look = self._look()
            if not look.report.complete:
                missing = look.report.unreadable[0]
                raise NotReadableError(
                    f"{self._show.not_done} {look.report.label}: {missing.what} could not be read",
                    reason=f"{missing.why}. A fence may be hidden; nothing was changed",
                )
            observation, profile = look.runs.observation, self._target.profile
            code = why_not(look.report, observation, profile, within=within, adopted=self._adopted(look))
            if code is None:
                return look
            # NB: whoever waits in a deploy's own command for the end of that deploy waits for ever.
            for_itself = self._told is not None and any(b.key == self._told.holder for b in look.report.blocks)
            if for_itself or not only_live(look.report) or not self._may_wait():
                self._show.held(look.report, code)
                return code
            holders = {block.holder.identity for block in look.report.blocks}
            if holders != told:
                told = holders
                self._show.waiting(look.report)
            if self._clock.wait(self._signals.stop, LOOK_AGAIN_S):
                return self._signals.code or ExitCode.INTERRUPTED

    def _read_again(self, own: str) -> None:
        """Under the lease: anything that is held and not ours ends the deploy before it has fenced anything."""
        look = self._look()
        observation, profile = look.runs.observation, self._target.profile
        refuse_others(look.report, observation, profile, own=own, adopted=self._adopt)

    def _adopted(self, look: Look) -> tuple[Adopted, ...]:
        """What was kept, and is to be taken over, if that was asked for."""
        return adoptable(look.report) if self._options.adopt_kept else ()

    # What all of it shares

    def _book(self, lease: tuple[str, str]) -> RecordBook:
        namespace, name = record_of(lease)
        ref = ObjectRef(CONFIGMAPS.api_version, CONFIGMAPS.kind, CONFIGMAPS.plural, namespace, name, "")
        # NB: no longer than the keeper is asked to vouch for, or a write could still go out under a lost lease.
        label = self._subject.connection.context_name
        return RecordBook(self._door, self._clock, ref, self.doing, label, request_s=WRITE_S)

    def _own_journal(self) -> Journal:
        now, around = self._clock.wall(), self._around
        own = self._whose.of(at=now, digest=self._rendered.digest, warn=self._show.warn)
        return Journal(
            holder=own.identity,
            uid="",
            seq=0,
            rank=0,
            at=now,
            phase=Phase.HELD,
            repository=own.repository or self._target.repository,
            server=own.server,
            job=own.job,
            job_verified=own.job_verified,
            runner=own.runner,
            details=own.details,
            within=around.holder if around is not None else None,
            extra=extra_of(around) if around is not None else {},
        )
