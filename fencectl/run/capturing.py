"""
Step 5: capture what ran before, on every route that can change a target, before anything is changed.

It comes after the drain proof, so that what is read stands still. What cannot be read ends the deploy: nothing was
changed, all fences go, and the same deploy can be tried again. Contents of objects never get into a message.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

import msgspec

from fencectl.cluster.api_resources import ApiResources
from fencectl.cluster.clock import Clock
from fencectl.cluster.kinds import CONFIGMAPS
from fencectl.cluster.read import ReadFailedError
from fencectl.cluster.write import apply
from fencectl.core.answers import Applied
from fencectl.core.apply_plan import ApplyPlan, Planned, SetPlan
from fencectl.core.applyset import ApplySetError, Contents, default_set, read_contents
from fencectl.core.captured import before_of
from fencectl.core.deploy import DeployPlan
from fencectl.core.errors import ExitCode, FencectlError
from fencectl.core.inventory import Key as InventoryKey, inventory_of
from fencectl.core.recovery_point import LARGEST_BYTES, Captured, Form, RecoveryPoint, too_large
from fencectl.core.refs import ObjectRef, Raw, Seen, dig, text_or_none
from fencectl.run.gathering import Gathering
from fencectl.run.ports import Door
from fencectl.run.pruning import Key, Members, key_of, list_members

NOTHING = "Nothing was changed"
# One dry run; a webhook that is asked may take 10 s.
TRY_S = 15.0
# All looks at which kinds there are, together.
KINDS_S = 120.0


class NotCapturedError(FencectlError):
    """The state before a deploy could not be captured; nothing was changed."""

    exit_code = ExitCode.INCOMPLETE


@dataclass(slots=True)
class Found:
    """
    What was captured, each object once.

    `pruned`: the members of the ApplySet that a prune may take away, since a restore can bring them back.
    """

    objects: dict[Key, Captured] = field(default_factory=dict)
    flux: list[tuple[ObjectRef, str | None]] = field(default_factory=list)
    pruned: frozenset[Key] = frozenset()

    def point(self, plan: DeployPlan, generation: int, holder: str, clock: Clock, revision: str) -> RecoveryPoint:
        """The recovery point of it; `revision`: what the deploy brings, in words."""
        form: Form = "apply" if plan.apply is not None else "flux" if plan.flux is not None else "command"
        objects = tuple(self.objects.values())
        return RecoveryPoint(generation, holder, clock.wall(), form, revision, objects, tuple(self.flux))


class Capturer:
    """Reads what a deploy may change."""

    def __init__(
        self,
        door: Door,
        clock: Clock,
        *,
        stop_if_asked: Callable[[], None],
        tell: Callable[[str], None],
    ) -> None:
        self._door = door
        self._clock = clock
        self._stop_if_asked = stop_if_asked
        self._tell = tell
        self._gathering = Gathering(door, clock, stop_if_asked)
        self._resources = ApiResources(self._gathering.reads(KINDS_S))
        self._size = 0

    def capture(self, plan: DeployPlan) -> Found:
        """
        Read everything that the deploy may change, as it would be without any fence.

        Raises NotCapturedError, PointTooLargeError, and what stops the work.
        """
        try:
            return self._capture(plan)
        except ReadFailedError as failed:
            raise NotCapturedError(
                "the state before this deploy could not be captured", reason=f"{failed.why}. {NOTHING}"
            ) from failed

    def _capture(self, plan: DeployPlan) -> Found:
        found = Found()
        canary = plan.certify.canary if plan.certify is not None else None
        # NB: what is in both parts is left by the one or by the other: nobody can say beforehand.
        twice = _keys_of(canary) & _keys_of(plan.apply)
        if canary is not None:
            self._objects_of(canary, found, twice)
        if plan.apply is not None:
            self._objects_of(plan.apply, found, twice)
            return found
        chain = plan.flux.chain if plan.flux is not None else plan.suspend
        wanted = self._applied_by([ref for ref, _ in chain], found)
        if plan.flux is None:
            wanted += self._members_beside(plan.lease, found)
        self._take(wanted, found)
        return found

    # Manifests

    def _objects_of(self, plan: ApplyPlan, found: Found, unsaid: Collection[Key]) -> None:
        """`unsaid`: of these it is not kept what the deploy makes of them."""
        planned = {key_of(one.ref): one for one in plan.objects if key_of(one.ref) not in unsaid}
        rendered = {key_of(ref) for ref in plan.rendered}
        self._take([one.ref for one in plan.objects], found, planned, force=plan.force)
        applyset = plan.applyset
        if applyset is None:
            return
        self._take([applyset.parent(applyset.everything).target], found)
        if plan.prune:
            members = self._members(applyset)
            # NB: one that cannot be listed is not pruned either: the prune is withheld, or told what was captured.
            stale = [ref for ref in members.found if key_of(ref) not in rendered]
            self._take(stale, found)
            found.pruned = frozenset(key_of(ref) for ref in stale)

    # What Flux has applied

    def _applied_by(self, chain: Collection[ObjectRef], found: Found) -> list[ObjectRef]:
        keys: dict[InventoryKey, None] = {}
        for ref in chain:
            seen = self._gathering.one(ref)
            if seen is None:
                raise NotCapturedError(f"{ref.display} is gone", reason=NOTHING)
            found.flux.append((seen.ref, text_or_none(dig(seen.raw, "status", "lastAppliedRevision"))))
            keys |= dict.fromkeys(sorted(self._inventory(seen)))
        refs = []
        for group, kind, namespace, name in keys:
            served = self._gathering.patiently(partial(self._resources.find_any, group, kind))
            if served is None:
                continue  # NB: its definition is gone, and every object of it with it.
            where = namespace if served.namespaced else None
            refs.append(ObjectRef(served.api_version, served.kind, served.plural, where or None, name, ""))
        return refs

    def _inventory(self, seen: Seen) -> Collection[InventoryKey]:
        keys = inventory_of(seen.raw)
        if keys is not None:
            return keys
        if dig(seen.raw, "status", "inventory") is not None:
            raise NotCapturedError(
                f"the inventory of {seen.ref.display} cannot be read, so that what it applies is not known",
                reason=NOTHING,
            )
        if seen.ref.kind.startswith("Helm"):
            # NB: a Kustomization without one has applied nothing; older helm-controllers keep none at all.
            self._tell(f"{seen.ref.display} does not say what it has applied: that is not captured")
        return ()

    # Members

    def _members_beside(self, lease: tuple[str, str], found: Found) -> list[ObjectRef]:
        """What the deploys of this lease have applied: a command may deploy the same in another way."""
        namespace, name = lease[0], default_set(lease[1])
        kind = CONFIGMAPS
        parent = ObjectRef(kind.api_version, kind.kind, kind.plural, namespace, name, "")
        seen = self._gathering.one(parent)
        if seen is None:
            return []
        try:
            contents = read_contents(seen.raw, namespace=namespace, name=name)
        except ApplySetError:
            return []  # NB: another's object of that name; no deploy of this lease can have members of it.
        members = self._members(SetPlan(namespace, name, contents, Contents()))
        if members.unreadable:
            what, why = members.unreadable[0]
            raise ReadFailedError(f"{what} could not be listed: {why}")
        return [parent, *members.found]

    def _members(self, applyset: SetPlan) -> Members:
        return list_members(self._gathering.halting, self._clock, applyset)

    # Objects

    def _take(
        self,
        refs: Collection[ObjectRef],
        found: Found,
        planned: Mapping[Key, Planned] | None = None,
        *,
        force: bool = False,
    ) -> None:
        """Read objects and keep them as they were before any fence, absent ones too."""
        live: dict[Key, Seen] = {}
        kept: dict[Key, Captured] = {}

        def take(seen: Seen) -> None:
            before = before_of(seen)
            self._count(before)
            key = key_of(seen.ref)
            # NB: only what is kept stays in memory; managers of fields take more room than the rest of an object.
            live[key] = Seen(
                seen.ref, {"metadata": {"resourceVersion": dig(seen.raw, "metadata", "resourceVersion")}}
            )
            kept[key] = Captured(seen.ref, before)

        self._gathering.gather([ref for ref in refs if key_of(ref) not in found.objects], take)
        for ref in refs:
            key = key_of(ref)
            if key in found.objects:
                continue
            one = kept.get(key) or Captured(_without_uid(ref), None)
            plan = planned.get(key) if planned is not None else None
            if plan is not None:
                after = self._tried(plan, live.get(key), force=force)
                if after is not None:
                    after = before_of(Seen(one.ref, after))
                    self._count(after)
                    one = Captured(one.ref, one.before, after)
            found.objects[key] = one

    def _tried(self, planned: Planned, live: Seen | None, *, force: bool) -> Raw | None:
        """What the server's dry run makes of it, tried anew where the object has changed since; None: unknown."""
        version = dig(live.raw, "metadata", "resourceVersion") if live is not None else None
        if version == planned.version or planned.tried is None:
            return planned.tried
        self._stop_if_asked()
        answer = apply(self._door, planned.configuration, force=force, dry_run=True, deadline_s=TRY_S)
        return answer.raw if isinstance(answer, Applied) else None

    def _count(self, raw: Raw) -> None:
        self._size += len(msgspec.json.encode(raw))
        if self._size > LARGEST_BYTES:
            raise too_large(f"more than {LARGEST_BYTES} bytes")


def _keys_of(plan: ApplyPlan | None) -> frozenset[Key]:
    return frozenset(key_of(one.ref) for one in plan.objects) if plan is not None else frozenset()


def _without_uid(ref: ObjectRef) -> ObjectRef:
    return ObjectRef(ref.api_version, ref.kind, ref.plural, ref.namespace, ref.name, "")
