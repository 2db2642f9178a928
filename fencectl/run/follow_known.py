"""What is known of the cluster while it is followed: objects by name, and by the controller that owns them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fencectl.cluster.kinds import ListedKind
from fencectl.core.refs import ObjectRef, Raw, dig
from fencectl.core.rollout import Target
from fencectl.core.rollout_judge import needs_pods, needs_replica_sets
from fencectl.core.rollout_other import has_status
from fencectl.core.rollout_pods import owner_uid
from fencectl.run.follow_feed import Scope

PODS = ListedKind("", "v1", "Pod", "pods", namespaced=True)
REPLICA_SETS = ListedKind("apps", "v1", "ReplicaSet", "replicasets", namespaced=True)


def kind_of(ref: ObjectRef) -> ListedKind:
    """The list that an object is in."""
    version = ref.api_version.rpartition("/")[2]
    return ListedKind(ref.group, version, ref.kind, ref.plural, namespaced=ref.namespace is not None)


@dataclass(frozen=True, slots=True)
class Plan:
    """Which lists are followed: `of_target` for the targets, `pods` and `sets` by namespace beside them."""

    of_target: dict[ObjectRef, Scope]
    pods: dict[str, Scope]
    sets: dict[str, Scope]

    @property
    def scopes(self) -> list[Scope]:
        """Every list once."""
        return list(dict.fromkeys([*self.of_target.values(), *self.pods.values(), *self.sets.values()]))


def plan_scopes(targets: Sequence[Target]) -> Plan:
    """
    Choose the lists: one for each kind and namespace.

    Where only one object of them is wanted, that one alone is asked for, so that a Secret's neighbours are not
    read, and a right to that one is enough.
    """
    wanted: dict[tuple[ListedKind, str | None], list[Target]] = {}
    for target in targets:
        wanted.setdefault((kind_of(target.ref), target.ref.namespace), []).append(target)
    with_pods = {one.ref.namespace for one in targets if needs_pods(one) and one.ref.kind != "Pod"} - {None}
    with_sets = {one.ref.namespace for one in targets if needs_replica_sets(one)} - {None}
    pods = {namespace: Scope(PODS, namespace) for namespace in with_pods if namespace}
    sets = {
        namespace: Scope(REPLICA_SETS, namespace, metadata_only=(REPLICA_SETS, namespace) not in wanted)
        for namespace in with_sets
        if namespace
    }
    of_target: dict[ObjectRef, Scope] = {}
    for (kind, namespace), some in wanted.items():
        names = {one.ref.name for one in some}
        is_shared = (kind == PODS and namespace in pods) or (kind == REPLICA_SETS and namespace in sets)
        name = next(iter(names)) if len(names) == 1 and not is_shared else None
        bare = not any(has_status(one) for one in some)
        for one in some:
            of_target[one.ref] = Scope(kind, namespace, name, metadata_only=bare)
    return Plan(of_target, pods, sets)


@dataclass
class Objects:
    """The objects of one list. `is_read`: whether it was read at all. `owner_of`: by an object's own uid."""

    by_name: dict[str, Raw] = field(default_factory=dict)
    by_owner: dict[str, dict[str, Raw]] = field(default_factory=dict)
    owner_of: dict[str, str] = field(default_factory=dict)
    is_read: bool = False

    def replace(self, objects: dict[str, Raw]) -> None:
        """Take in a whole list."""
        self.by_name = dict(objects)
        self.by_owner, self.owner_of = {}, {}
        self.is_read = True
        for name, raw in objects.items():
            self._own(name, raw)

    def put(self, name: str, raw: Raw | None) -> Raw | None:
        """Take in one object, or that it is gone; gives what stood there before."""
        before = self.by_name.pop(name, None)
        if before is not None:
            owner = owner_uid(before)
            if owner is not None:
                self.by_owner.get(owner, {}).pop(name, None)
        if raw is not None:
            self.by_name[name] = raw
            self._own(name, raw)
        return before

    def owned_by(self, uids: Iterable[str]) -> list[Raw]:
        """The objects of these owners."""
        return [raw for uid in uids for raw in self.by_owner.get(uid, {}).values()]

    def _own(self, name: str, raw: Raw) -> None:
        owner = owner_uid(raw)
        if owner is not None:
            self.by_owner.setdefault(owner, {})[name] = raw
            self.owner_of[str(dig(raw, "metadata", "uid"))] = owner
