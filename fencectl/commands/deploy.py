"""`fencectl deploy`: apply manifests or run a command inside fences, and leave nothing behind unexplained."""

from __future__ import annotations

import os
import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from fencectl.cluster.clock import SystemClock
from fencectl.cluster.discovery import discover_flux
from fencectl.cluster.kinds import CONFIGMAPS, NODES, ListedKind, record_of
from fencectl.cluster.pages import METADATA_ONLY, ListQuery, read_list
from fencectl.cluster.private_kubeconfig import kubeconfig_of, written
from fencectl.cluster.read import Reads
from fencectl.cluster.structs import PageDecoder
from fencectl.cluster.transport import Transport
from fencectl.commands.common import NOTHING, TargetSettings, resolve
from fencectl.commands.deploy_files import Planner, Rendered, check_form, is_given, render
from fencectl.commands.deploy_show import Show
from fencectl.commands.options import Output
from fencectl.commands.options_acting import DeployOptions
from fencectl.commands.reading import Look, Subject, subjects
from fencectl.commands.signals import Signals, parent_shell
from fencectl.core.deploy import DeployPlan, only_live, plan_flux, refuse_others, why_not
from fencectl.core.errors import ExitCode, FencectlError, NotReadableError, UsageError
from fencectl.core.journal import Journal, Phase
from fencectl.core.nesting import SERVER_VARIABLE, Around, extra_of, read_around
from fencectl.core.profiles import ProfileName
from fencectl.core.refs import ObjectRef, dig
from fencectl.report.commands import where_of
from fencectl.run.follow import Follower
from fencectl.run.leasing import LeaseAt, LeaseBusyError
from fencectl.run.nesting import believe
from fencectl.run.payload import SystemProcesses
from fencectl.run.ports import SystemThreads
from fencectl.run.record import RecordBook
from fencectl.run.story import WRITE_S, StoppedError, read
from fencectl.run.targets import find_nodes, find_suspensions
from fencectl.run.transaction import Deploy, Stage

LEASE_DURATION_S = 30
SHORTEST_LEASE_S, LONGEST_LEASE_S = 15, 300
TIMEOUT_S = 3600.0
LOOK_AGAIN_S = 5.0
PARENT_POLL_S = 0.5


def run(options: DeployOptions) -> ExitCode:
    """Read and check everything, refuse or wait, then run the transaction."""
    effective = resolve(options.common)
    target = effective.one_target("deploy")
    _check(options, target)
    told = read_around(os.environ)
    (subject,) = subjects(effective)
    rendered = None
    if is_given(options):
        rendered = render(options, namespace=subject.connection.namespace, environ=os.environ)  # (0)
    clock = SystemClock()
    label = target.print_context or subject.connection.context_name
    with ExitStack() as after:
        signals = Signals(threading.Event())
        after.enter_context(signals.taken())
        door = after.enter_context(subject.opened(clock))
        keeper_door = after.enter_context(subject.opened(clock))
        show = Show(options.output, options.common.color, clock, label)
        after.callback(show.end)
        _warn_of_a_parent(show)
        after.enter_context(_background(signals, show))
        try:
            return _Verb(options, target, subject, door, keeper_door, signals, show, told, rendered).run(after)
        except FencectlError as failure:
            show.refused(failure)
            raise


def _check(options: DeployOptions, target: TargetSettings) -> None:
    """Refuse what cannot be, before anything is read."""
    if target.profile.name is not ProfileName.FENCECTL:
        raise UsageError(f"deploy is for the profile fencectl, not {target.profile.name}", hint=NOTHING)
    check_form(options)
    for text in (*options.suspend, *([options.flux] if options.flux is not None else [])):
        _suspend_name(text)
    if options.lease:
        _lease_name(options.lease)
    if not SHORTEST_LEASE_S <= _lease_duration_s(options, target) <= LONGEST_LEASE_S:
        raise UsageError(f"`--lease-duration` must be {SHORTEST_LEASE_S}s to {LONGEST_LEASE_S}s", hint=NOTHING)


def _warn_of_a_parent(show: Show) -> None:
    """In CI a cancel reaches the entry process of a step only, and a shell does not pass it on."""
    if parent_shell(os.environ) is not None:
        show.warn(
            "fencectl is not the entry process of its step: a cancelled step is noticed only when its shell"
            " has ended; `exec fencectl …` as the last line is told at once"
        )


@contextmanager
def _background(signals: Signals, show: Show) -> Iterator[None]:
    """Beside the work: notice that the parent has died (in CI nobody forwards a signal), and remind."""
    done = threading.Event()
    parent = os.getppid()
    in_actions = os.environ.get("GITHUB_ACTIONS") == "true"

    def watch() -> None:
        while not done.wait(PARENT_POLL_S):
            show.remind()
            if in_actions and os.getppid() != parent:
                signals.raise_for(ExitCode.TERMINATED)

    thread = threading.Thread(target=watch, name="parent", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(1)


class _Verb:
    """One run of the verb against one target."""

    def __init__(
        self,
        options: DeployOptions,
        target: TargetSettings,
        subject: Subject,
        door: Transport,
        keeper_door: Transport,
        signals: Signals,
        show: Show,
        told: Around | None,
        rendered: Rendered | None,
    ) -> None:
        self._rendered = rendered
        self._options = options
        self._target = target
        self._subject = subject
        self._door = door
        self._keeper_door = keeper_door
        self._signals = signals
        self._show = show
        self._told = told
        self._around: Around | None = None
        self._clock = SystemClock()
        self._wait_until_s = self._clock.monotonic_s() + (options.wait_timeout_s or TIMEOUT_S)

    def run(self, after: ExitStack) -> ExitCode:
        self._around = self._run_around()
        own = self._own_journal()
        path: Path | None = None
        while True:
            look = self._may_begin()  # (1)
            if isinstance(look, ExitCode):
                return look
            plan = self._plan(own)
            if self._rendered is not None:
                with_objects = self._with_objects(plan, self._rendered)
                if isinstance(with_objects, ExitCode):
                    return with_objects
                plan = with_objects
            if self._options.dry_run:
                self._show.plan(plan, around=None if self._around is None else self._around.holder)
                return ExitCode.OK
            if self._signals.code is not None:
                self._show.warn("interrupted: nothing was changed")
                return self._signals.code
            # NB: of the connection that takes the lease: read again, a kubeconfig may lead elsewhere.
            path = path or after.enter_context(written(kubeconfig_of(self._subject.connection)))
            begun_at = self._clock.wall()
            try:
                result = Deploy(self._stage(plan, path), plan, own, self._around).run()
            except LeaseBusyError as busy:
                if not self._may_wait():
                    return self._lost_the_race(busy)
                continue
            if result.held is not None and only_live(result.held) and self._may_wait():
                continue
            self._show.result(plan, result, begun_at, where_of(look.report))
            return result.code

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

    @property
    def _lease(self) -> tuple[str, str]:
        return _lease_name(self._options.lease) if self._options.lease else self._target.profile.lease

    def _stage(self, plan: DeployPlan, path: Path) -> Stage:
        environ = dict(os.environ) | {"KUBECONFIG": str(path), SERVER_VARIABLE: self._subject.connection.server}
        return Stage(
            door=self._door,
            keeper_door=self._keeper_door,
            clock=self._clock,
            threads=SystemThreads(),
            book=self._book(plan.lease),
            environ=environ,
            interrupted=self._signals.stop,
            interrupt_code=lambda: self._signals.code,
            read_again=self._read_again,
            tell=self._show.tell,
            handed_over=self._show.handed_over,
            # NB: with JSON lines stdout is ours alone, or what the command prints would break them.
            processes=SystemProcesses(sys.stderr if self._options.output is Output.JSON else None),
            follower=lambda must_stop, tell: Follower(self._door, self._clock, tell, must_stop),
        )

    # (1)

    def _look(self) -> Look:
        return self._subject.look(self._door, self._clock)

    def _may_begin(self) -> Look | ExitCode:
        """Look, and wait if that was asked for; the exit code where the deploy is refused."""
        within = self._around.holder if self._around is not None else None
        told: set[str] = set()
        while True:
            look = self._look()
            if not look.report.complete:
                missing = look.report.unreadable[0]
                raise NotReadableError(
                    f"not deployed to {look.report.label}: {missing.what} could not be read",
                    reason=f"{missing.why}. A fence may be hidden; nothing was changed",
                )
            code = why_not(look.report, look.runs.observation, self._target.profile, within=within)
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
        refuse_others(look.report, look.runs.observation, self._target.profile, own=own)

    # Plan

    def _plan(self, own: Journal) -> DeployPlan:
        options, settings = self._options, self._target.settings
        names = [_suspend_name(text) for text in options.suspend]
        names = names or [(one.kind, one.namespace, one.name) for one in settings.suspend or ()]
        flux_name = _suspend_name(options.flux) if options.flux is not None else None
        names += [flux_name] if flux_name is not None else []
        kinds = self._flux_kinds() if names else ()
        suspensions = find_suspensions(self._door, names, kinds, own, around=self._around)
        node_command = shlex.split(options.node_command) if options.node_command else settings.nodes.command or ()
        is_rolled = bool(node_command)
        nodes = find_nodes(self._door, self._node_names(), own, around=self._around, is_rolled=is_rolled)
        flux = None
        if flux_name is not None:
            flux = plan_flux(flux_name, suspensions.objects, suspensions.chains, options.revision)
            flux = replace(flux, follow_timeout_s=settings.follow.timeout_s)
        return DeployPlan(
            lease=self._lease,
            flux=flux,
            command=options.command,
            suspend=suspensions.objects,
            added=suspensions.added,
            nodes=nodes.objects,
            covered=(*suspensions.covered, *nodes.covered),
            node_command=tuple(node_command),
            max_unavailable=options.max_unavailable or settings.nodes.max_unavailable or 1,
            lease_duration_s=int(_lease_duration_s(options, self._target)),
            timeout_s=options.timeout_s or TIMEOUT_S,
            node_timeout_s=settings.nodes.timeout_s or 1800.0,
            drain_timeout_s=options.drain_timeout_s,
        )

    def _with_objects(self, plan: DeployPlan, rendered: Rendered) -> DeployPlan | ExitCode:
        """Try every object and show what would change; the exit code where the deploy ends with that."""
        planner = Planner(self._options, plan.lease, self._door, self._clock, self._signals.stop)
        try:
            found = planner.plan(rendered, [*(ref for ref, _ in plan.suspend), *plan.nodes])
        except StoppedError:
            if self._signals.code is None:
                raise
            self._show.warn("interrupted: nothing was changed")
            return self._signals.code
        self._show.changes(found.plan.changes, found.withheld, diff=self._options.diff, ends=self._options.dry_run)
        follow_timeout_s = self._target.settings.follow.timeout_s
        plan = replace(plan, apply=replace(found.plan, follow_timeout_s=follow_timeout_s))
        code = ExitCode.OK
        if any(change.stands_in_the_way for change in found.plan.changes):
            code = ExitCode.FAILED_PREVIOUS_RUNS
        elif found.withheld is not None and (self._options.dry_run or not rendered.manifests):
            code = ExitCode.OUTCOME_UNKNOWN
        elif not found.plan.changes:
            raise UsageError("nothing to deploy: no object was rendered, and none is in the set", hint=NOTHING)
        if code is ExitCode.OK:
            return plan
        self._show.not_begun(plan, code, found.withheld)
        return code

    def _flux_kinds(self) -> tuple[ListedKind, ...]:
        reads = Reads(self._door, clock=self._clock, deadline_s=self._subject.deadline_s)
        return tuple(discover_flux(reads).kinds)

    def _node_names(self) -> tuple[str, ...]:
        selector = self._options.node_selector or (
            None if self._options.nodes else self._target.settings.nodes.selector
        )
        if selector is None:
            return self._options.nodes
        reads = Reads(self._door, clock=self._clock, deadline_s=self._subject.deadline_s)
        query = ListQuery(
            NODES, PageDecoder((), everything=True), 500, (("labelSelector", selector),), accept=METADATA_ONLY
        )
        found = [item.name for item in read_list(reads, query).items]
        return tuple(dict.fromkeys([*self._options.nodes, *sorted(found)]))

    def _book(self, lease: tuple[str, str]) -> RecordBook:
        namespace, name = record_of(lease)
        ref = ObjectRef(CONFIGMAPS.api_version, CONFIGMAPS.kind, CONFIGMAPS.plural, namespace, name, "")
        # NB: no longer than the keeper is asked to vouch for, or a write could still go out under a lost lease.
        label = self._subject.connection.context_name
        return RecordBook(self._door, self._clock, ref, "deploy", label, request_s=WRITE_S)

    def _own_journal(self) -> Journal:
        from fencectl.evidence.checked_self import describe_checked_self
        from fencectl.evidence.machine import Machine

        now, around = self._clock.wall(), self._around
        digest = self._rendered.digest if self._rendered is not None else None
        own = describe_checked_self(os.environ, Machine(), command=sys.argv, at=now, digest=digest)
        for warning in own.warnings:
            self._show.warn(warning)
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


def _lease_duration_s(options: DeployOptions, target: TargetSettings) -> float:
    return options.lease_duration_s or target.settings.lease.duration_s or LEASE_DURATION_S


def _suspend_name(text: str) -> tuple[str, str, str]:
    parts = text.split("/")
    if len(parts) != 3 or not all(parts):
        raise UsageError(
            f"`{text}` is not `kind/NAMESPACE/NAME`", hint=f"such as kustomization/flux-system/apps. {NOTHING}"
        )
    return parts[0], parts[1], parts[2]


def _lease_name(text: str) -> tuple[str, str]:
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise UsageError(f"`{text}` is not `NAMESPACE/NAME`", hint=NOTHING)
    return namespace, name
