"""What one deploy on one target is to fence and run, from flags, config, and what is in the cluster."""

from __future__ import annotations

from dataclasses import replace

from fencectl.cluster.clock import Clock
from fencectl.cluster.discovery import discover_flux
from fencectl.cluster.kinds import NODES, ListedKind
from fencectl.cluster.pages import METADATA_ONLY, ListQuery, read_list
from fencectl.cluster.read import Reads
from fencectl.cluster.structs import PageDecoder
from fencectl.cluster.transport import Transport
from fencectl.commands.common import NOTHING, TargetSettings, lease_name
from fencectl.commands.deploy_certify import certifies_nothing, certify_of, split_command
from fencectl.commands.deploy_files import Inputs, Planner
from fencectl.commands.deploy_show import Show
from fencectl.commands.options_acting import DeployOptions
from fencectl.commands.signals import Signals
from fencectl.core.config import AfterRollback
from fencectl.core.deploy import Adopted, DeployPlan, plan_flux
from fencectl.core.errors import ExitCode, UsageError
from fencectl.core.journal import Journal
from fencectl.core.nesting import Around
from fencectl.run.story import StoppedError
from fencectl.run.targets import find_nodes, find_suspensions

LEASE_DURATION_S = 30
SHORTEST_LEASE_S, LONGEST_LEASE_S = 15, 300
TIMEOUT_S = 3600.0
ROLLBACK_S = 600.0


def check_plan(options: DeployOptions, target: TargetSettings) -> None:
    """Refuse names and times that cannot be, before anything is read; raises UsageError."""
    for text in (*options.suspend, *([options.flux] if options.flux is not None else [])):
        _suspend_name(text)
    lease_of(options, target)
    if options.node_command:
        split_command("--node-command", options.node_command)
    if not SHORTEST_LEASE_S <= lease_duration_s(options, target) <= LONGEST_LEASE_S:
        raise UsageError(f"`--lease-duration` must be {SHORTEST_LEASE_S}s to {LONGEST_LEASE_S}s", hint=NOTHING)


def lease_of(options: DeployOptions, target: TargetSettings) -> tuple[str, str]:
    """The lease's namespace and name; raises UsageError."""
    return lease_name(options.lease) if options.lease else target.profile.lease


class Planning:
    """Makes the plan of one target; `deadline_s`: how long one read may take."""

    def __init__(
        self, options: DeployOptions, target: TargetSettings, door: Transport, clock: Clock, deadline_s: float
    ) -> None:
        self._options = options
        self._target = target
        self._door = door
        self._clock = clock
        self._deadline_s = deadline_s

    def plan(self, own: Journal, around: Around | None, adopt: tuple[Adopted, ...] = ()) -> DeployPlan:
        """
        Find what is to be fenced, and check that it can be; raises what finding it raises.

        `adopt`: what was kept, and is to be taken over.
        """
        options, settings = self._options, self._target.settings
        names = [_suspend_name(text) for text in options.suspend]
        names = names or [(one.kind, one.namespace, one.name) for one in settings.suspend or ()]
        flux_name = _suspend_name(options.flux) if options.flux is not None else None
        names += [flux_name] if flux_name is not None else []
        kinds = self._flux_kinds() if names or adopt else ()
        suspensions = find_suspensions(self._door, names, kinds, own, around=around, adopt=adopt)
        node_command = settings.nodes.command or ()
        if options.node_command:
            node_command = split_command("--node-command", options.node_command)
        is_rolled = bool(node_command)
        nodes = find_nodes(self._door, self._node_names(), own, around=around, is_rolled=is_rolled)
        flux = None
        if flux_name is not None:
            flux = plan_flux(flux_name, suspensions.objects, suspensions.chains, options.revision)
            flux = replace(flux, follow_timeout_s=settings.follow.timeout_s)
        return DeployPlan(
            lease=lease_of(options, self._target),
            flux=flux,
            command=options.command,
            suspend=suspensions.objects,
            added=suspensions.added,
            nodes=nodes.objects,
            covered=(*suspensions.covered, *nodes.covered),
            node_command=node_command,
            max_unavailable=options.max_unavailable or settings.nodes.max_unavailable or 1,
            lease_duration_s=int(lease_duration_s(options, self._target)),
            timeout_s=options.timeout_s or TIMEOUT_S,
            node_timeout_s=settings.nodes.timeout_s or 1800.0,
            drain_timeout_s=options.drain_timeout_s,
            over_claim=options.over_claim,
            certify=certify_of(options, settings),
            adopt=adopt,
            after_rollback=AfterRollback(options.on_rollback or settings.rollback.after or AfterRollback.KEEP),
            rollback_s=rollback_s(options, self._target),
        )

    def with_objects(
        self, plan: DeployPlan, rendered: Inputs, signals: Signals, show: Show
    ) -> DeployPlan | ExitCode:
        """Try every object, if any, and show what would change; the exit code where the deploy ends with that."""
        payload, canary = rendered.payload, rendered.canary
        if certifies_nothing(self._options, self._target.settings) and plan.certify is not None:
            show.warn("the certify command of the config is not run: there is no canary, and no node is rolled")
        if payload is None and canary is None:
            return plan
        planner = Planner(self._options, plan.lease, self._door, self._clock, signals.stop)
        try:
            found = planner.plan(payload, [*(ref for ref, _ in plan.suspend), *plan.nodes], canary=canary)
        except StoppedError:
            if signals.code is None:
                raise
            show.warn("interrupted: nothing was changed")
            return signals.code
        shown, is_report = self._options.diff, self._options.dry_run
        follow_timeout_s = self._target.settings.follow.timeout_s
        if found.canary is not None and plan.certify is not None:
            show.changes(found.canary.changes, None, diff=shown, ends=is_report, part="canary")
            applied = replace(found.canary, follow_timeout_s=follow_timeout_s)
            plan = replace(plan, certify=replace(plan.certify, canary=applied))
        if found.plan is not None:
            show.changes(found.plan.changes, found.withheld, diff=shown, ends=is_report)
            plan = replace(plan, apply=replace(found.plan, follow_timeout_s=follow_timeout_s))
        code = ExitCode.OK
        if any(change.stands_in_the_way for change in found.changes):
            code = ExitCode.FAILED_PREVIOUS_RUNS
        elif found.withheld is not None and (is_report or (payload is not None and not payload.manifests)):
            code = ExitCode.OUTCOME_UNKNOWN
        elif not found.changes:
            raise UsageError("nothing to deploy: no object was rendered, and none is in the set", hint=NOTHING)
        if code is ExitCode.OK:
            return plan
        show.not_begun(plan, code, found.withheld)
        return code

    def _flux_kinds(self) -> tuple[ListedKind, ...]:
        reads = Reads(self._door, clock=self._clock, deadline_s=self._deadline_s)
        return tuple(discover_flux(reads).kinds)

    def _node_names(self) -> tuple[str, ...]:
        selector = self._options.node_selector or (
            None if self._options.nodes else self._target.settings.nodes.selector
        )
        if selector is None:
            return self._options.nodes
        reads = Reads(self._door, clock=self._clock, deadline_s=self._deadline_s)
        query = ListQuery(
            NODES, PageDecoder((), everything=True), 500, (("labelSelector", selector),), accept=METADATA_ONLY
        )
        found = [item.name for item in read_list(reads, query).items]
        return tuple(dict.fromkeys([*self._options.nodes, *sorted(found)]))


def rollback_s(options: DeployOptions, target: TargetSettings) -> float | None:
    """How long the rollback of a failure may take; None where none is wanted."""
    settings = target.settings.rollback
    wanted = settings.on_failure if options.rollback is None else options.rollback == "on-failure"
    return options.rollback_timeout_s or settings.timeout_s or ROLLBACK_S if wanted else None


def lease_duration_s(options: DeployOptions, target: TargetSettings) -> float:
    """How long the lease lasts without a renewal."""
    return options.lease_duration_s or target.settings.lease.duration_s or LEASE_DURATION_S


def _suspend_name(text: str) -> tuple[str, str, str]:
    parts = text.split("/")
    if len(parts) != 3 or not all(parts):
        raise UsageError(
            f"`{text}` is not `kind/NAMESPACE/NAME`", hint=f"such as kustomization/flux-system/apps. {NOTHING}"
        )
    return parts[0], parts[1], parts[2]
