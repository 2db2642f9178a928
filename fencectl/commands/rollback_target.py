"""One rollback on one target: look or refuse, choose what is undone, show it, ask, run the transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fencectl.cluster.discovery import discover_flux
from fencectl.cluster.kinds import ListedKind
from fencectl.cluster.read import Reads
from fencectl.commands.common import NOTHING
from fencectl.commands.deploy_planning import lease_duration_s
from fencectl.commands.deploy_target import DeployOnTarget, Ready
from fencectl.commands.rollback_show import RollbackShow
from fencectl.core.config import AfterRollback
from fencectl.core.deploy import DeployPlan, RestorePlan
from fencectl.core.errors import ExitCode, FencectlError, UsageError
from fencectl.core.journal import Journal
from fencectl.core.past import Past, changed_since, newest_with_point, ran_before, read_past
from fencectl.core.record_write import data_of
from fencectl.core.recovery_point import RecoveryPoint
from fencectl.core.refs import ObjectRef
from fencectl.core.restore import Restoration, restore_one
from fencectl.core.restored import Restored
from fencectl.run.loading import load_point
from fencectl.run.restoring import replace_uid
from fencectl.run.story import read
from fencectl.run.targets import find_suspensions


class NoPointError(UsageError):
    """There is nothing that could be put back."""


class SupersededError(FencectlError):
    """Another run has changed the target since; nothing was changed."""

    exit_code = ExitCode.FAILED_NEW_STATE_LIVE


class NoPreviousError(FencectlError):
    """Nothing ran before the deploy that is to be undone; nothing was changed."""

    exit_code = ExitCode.FAILED_NEW_STATE_LIVE


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be undone: `generation`, None for the newest that can be. `ask`: whether to go on."""

    generation: int | None
    timeout_s: float
    ask: Callable[[str], bool]


class RollbackOnTarget(DeployOnTarget):
    """One run of the verb, over connections that are open already."""

    doing = "rollback"

    def __init__(self, *args: Any, wanted: Wanted, **more: Any) -> None:
        super().__init__(*args, **more)
        self._wanted = wanted

    def _ready(self) -> Ready | ExitCode:
        own = self._own_journal()
        look = self._may_begin()
        if isinstance(look, ExitCode):
            return look
        past = read_past(data_of(self._book(self._lease).read().seen))
        chosen = self._choose(past)
        if chosen.point is None:
            raise NoPointError(f"generation {chosen.generation} has no recovery point", hint=_what_there_is(past))
        point = load_point(self._door, self._clock, self._lease, chosen.generation, chosen.point)
        if all(one.before is None for one in point.objects):
            raise NoPreviousError(
                f"no previous good state before generation {chosen.generation}",
                reason="nothing of it was there before, and nothing is ever deleted. Nothing was changed",
            )
        plan = self._plan_of(point, chosen, own)
        self._show_restore(point, chosen, ran_before(past, chosen.generation))
        if self._options.dry_run:
            return Ready(look, plan, own)
        if self._signals.code is not None:
            self._show.warn("interrupted: nothing was changed")
            return self._signals.code
        self._may_do(plan, look)
        back = Restored(chosen.generation)
        before = ran_before(past, chosen.generation)
        back.back = before.generation if before is not None else None
        if not self._wanted.ask(f"Put {back.what} back on {self._label}? Only `yes` goes on: "):
            raise UsageError("nothing was put back: the answer was not `yes`")
        return Ready(look, plan, own)

    def _choose(self, past: Mapping[int, Past]) -> Past:
        wanted = self._wanted.generation
        if wanted is None:
            found = newest_with_point(past)
            if found is None:
                raise NoPointError(f"nothing to roll back on {self._label}", hint=_what_there_is(past))
            wanted = found.generation
        chosen = past.get(wanted)
        if chosen is None:
            raise NoPointError(f"no generation {wanted} on {self._label}", hint=_what_there_is(past))
        later = changed_since(past, wanted)
        if later is not None:
            raise SupersededError(
                f"generation {wanted} is superseded by generation {later.generation}, {later.title}",
                reason="what ran before it would take the place of what was deployed since. Nothing was changed",
                hint=f"undo that one first: fencectl rollback {later.generation} --context {self._label}",
            )
        return chosen

    def _plan_of(self, point: RecoveryPoint, chosen: Past, own: Journal) -> DeployPlan:
        """The same Flux objects are suspended as the config says, and as that deploy had in reach."""
        names = [(one.kind, one.namespace, one.name) for one in self._target.settings.suspend or ()]
        for ref, _ in point.flux:
            if read(self._door, replace_uid(ref, "")) is not None:
                names.append((ref.kind.lower(), ref.namespace or "", ref.name))
        kinds: tuple[ListedKind, ...] = ()
        if names:
            reads = Reads(self._door, clock=self._clock, deadline_s=self._subject.deadline_s)
            kinds = tuple(discover_flux(reads).kinds)
        suspensions = find_suspensions(self._door, list(dict.fromkeys(names)), kinds, own, around=None)
        return DeployPlan(
            lease=self._lease,
            command=(),
            suspend=suspensions.objects,
            added=suspensions.added,
            lease_duration_s=int(lease_duration_s(self._options, self._target)),
            drain_timeout_s=self._options.drain_timeout_s,
            after_rollback=AfterRollback(
                self._options.on_rollback or self._target.settings.rollback.after or AfterRollback.KEEP
            ),
            restore=RestorePlan(point, chosen.ended_at, self._wanted.timeout_s),
        )

    def _show_restore(self, point: RecoveryPoint, chosen: Past, before: Past | None) -> None:
        restored = Restored(chosen.generation)
        if before is not None:
            restored.back, restored.back_revision = before.generation, before.revision
        found = [self._restoration(one.ref, point, number, chosen) for number, one in enumerate(point.objects)]
        if isinstance(self._show, RollbackShow):
            self._show.restore(chosen, restored, found, ends=self._options.dry_run)

    def _restoration(self, ref: ObjectRef, point: RecoveryPoint, number: int, chosen: Past) -> Restoration:
        seen = read(self._door, replace_uid(ref, ""))
        return restore_one(point.objects[number], seen, ended_at=chosen.ended_at)


def _what_there_is(past: Mapping[int, Past]) -> str:
    there = [str(number) for number, one in past.items() if one.point is not None]
    if not there:
        return f"no deploy has left a recovery point yet. {NOTHING.replace('read or ', '')}"
    return f"there are recovery points of generation {', '.join(there)}. {NOTHING.replace('read or ', '')}"
