"""
Nodes of the profile `ghcr-bridge`: the ladder of refusals, and the release of what passes it.

A journal is never judged alone. One that nobody understands holds every journal back, a batch goes as a whole or
not at all, and a node whose scheduling state is not what its journal recorded is not put back to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencectl.core.bridge_journal import (
    UNPROVEN,
    BridgeJournal,
    BridgePhase,
    JournalReading,
    are_taints,
    read_journal,
    taint_drift,
)
from fencectl.core.bridge_marks import (
    NODE_RANK,
    Mark,
    group_of,
    is_flag,
    is_held,
    marked_since,
    metadata_fault,
    names_somebody,
    read_holder,
    read_mark,
    refused,
    sealed_or_refused,
)
from fencectl.core.bridge_way_out import BY_HAND, NextRun
from fencectl.core.found import Foreign, Found
from fencectl.core.identity import Holder
from fencectl.core.managers import last_writer
from fencectl.core.patches import ABSENT, Op, annotation, drop, guard, pointer
from fencectl.core.profiles import (
    BRIDGE_NODE_JOURNAL,
    BRIDGE_NODE_OWNER,
    BRIDGE_NODE_PHASE,
    HOLDER,
    JOURNAL,
)
from fencectl.core.refs import Raw, Seen, annotations_of, dig, is_deleting, text_or_none
from fencectl.core.report import FenceKind, Refusal, Release

CLAIMED = "claimed"
_UNSCHEDULABLE = pointer("spec", "unschedulable")
_TAINTS = pointer("spec", "taints")
_WHY_PHASE: Mapping[str, str] = {
    BridgePhase.ACTIVE: "journal phase `active`: its change was interrupted before the reboot",
    BridgePhase.RETAIN: "journal phase `retain`: it was rebooted, and nothing proves that it works",
    BridgePhase.RELEASE_READY: (
        "journal phase `release-ready`: this report cannot know whether its proof covers the current credential"
    ),
}


@dataclass(frozen=True, slots=True)
class _Node:
    """One node that carries a mark or a journal, or whose annotations cannot be read."""

    seen: Seen
    mark: Mark
    journal_value: Any
    reading: JournalReading | None
    unreadable: str | None

    @property
    def name(self) -> str:
        return self.seen.ref.display

    @property
    def phase_value(self) -> Any:
        return annotations_of(self.seen.raw).get(BRIDGE_NODE_PHASE)

    @property
    def journal(self) -> BridgeJournal | None:
        return self.reading.journal if self.reading is not None else None

    @property
    def fault(self) -> str | None:
        """What is wrong with its journal: the schema itself, then how it fits its node."""
        if self.reading is None:
            return None
        if self.reading.journal is None:
            return f"its journal is malformed: {self.reading.fault}"
        if self.reading.journal.uid != self.seen.ref.uid:
            return "its journal is malformed: its `uid` is that of another node"
        if self.mark.held and self.reading.journal.owner != self.mark.value:
            return "its journal is malformed: its `owner` is not the one that the mark names"
        if is_deleting(self.seen.raw):
            return "it carries a journal and is being deleted"
        return None if self.mark.held else "it carries a journal and no mark"

    @property
    def holder(self) -> Holder | None:
        """Whom the mark names; without a mark whom the journal does, so that the Lease of that run waits."""
        if self.mark.owner is not None:
            return read_holder(self.mark.owner)
        owner = self.reading.owner if self.reading is not None else None
        return read_holder(owner) if owner is not None and names_somebody(owner) else None


@dataclass(slots=True)
class _Batch:
    """The journals of one owner: their phases, and the nodes of which nothing proves that they work."""

    phases: set[str] = field(default_factory=set)
    unproven: list[str] = field(default_factory=list)

    @property
    def why(self) -> str | None:
        if self.unproven:
            return f"its batch holds {_some(self.unproven)} in phase `active` or `retain`"
        return "the journals of its batch are in different phases" if len(self.phases) > 1 else None


_NO_BATCH = _Batch()


@dataclass(frozen=True, slots=True)
class _Cluster:
    """What no single node knows."""

    faulty: Sequence[str]
    batches: Mapping[str, _Batch]
    next_run: NextRun


def read_nodes(nodes: Iterable[Seen], next_run: NextRun) -> Iterable[Found | Foreign]:
    """Read all nodes: each ends as a fence, as a foreign cordon, or as nothing to report."""
    fenced: list[_Node] = []
    for seen in nodes:
        node = _read_node(seen)
        if node is not None:
            fenced.append(node)
        elif dig(seen.raw, "spec", "unschedulable") is True:
            yield _foreign(seen)
    batches: dict[str, _Batch] = {}
    for node in fenced:
        if node.reading is not None and node.reading.claim is not None:
            batch = batches.setdefault(node.reading.claim.owner, _Batch())
            batch.phases.add(node.reading.claim.phase)
            if node.reading.claim.phase in UNPROVEN:
                batch.unproven.append(node.name)
    cluster = _Cluster([node.name for node in fenced if node.fault is not None], batches, next_run)
    for node in fenced:
        yield _found(node, cluster)


def _read_node(seen: Seen) -> _Node | None:
    mark, value = read_mark(seen.raw, BRIDGE_NODE_OWNER), annotations_of(seen.raw).get(BRIDGE_NODE_JOURNAL)
    unreadable = metadata_fault(seen.raw)
    # NB: every finished roll leaves a phase behind, so a phase alone is no fence.
    if not mark.held and not is_held(value) and unreadable is None:
        return None
    return _Node(seen, mark, value, read_journal(value) if is_held(value) else None, unreadable)


def _foreign(seen: Seen) -> Foreign:
    manager, changed_at = last_writer(seen.raw, "spec", "unschedulable")
    other = any(annotations_of(seen.raw).get(key) is not None for key in (HOLDER, JOURNAL))
    notes = ("it carries a mark of the profile `fencectl`",) if other else ()
    return Foreign(FenceKind.CORDON, seen, "cordoned", changed_at, manager, notes)


def _found(node: _Node, cluster: _Cluster) -> Found:
    raw, holder = node.seen.raw, node.holder
    refusal = _refusal(node, cluster, group_of(holder) if holder is not None else None)
    release = refusal if refusal is not None else _release(node)
    cordoned = dig(raw, "spec", "unschedulable")
    after = None
    if isinstance(release, Release):
        stays = node.journal is None or node.journal.was_cordoned
        after = "stays cordoned" if cordoned is True and stays else "schedulable"
    manager, _ = last_writer(raw, "spec", "unschedulable")
    return Found(
        FenceKind.CORDON,
        node.seen,
        node.mark.text,
        holder,
        group=group_of(holder) if holder is not None else None,
        rank=NODE_RANK,
        seq=0,
        now="malformed" if not is_flag(cordoned) else "cordoned" if cordoned else "schedulable",
        after=after,
        release=release if isinstance(release, Release) else None,
        refusal=release if isinstance(release, Refusal) else None,
        since=marked_since(raw, node.mark.key if node.mark.held else BRIDGE_NODE_JOURNAL),
        phase=text_or_none(node.phase_value) if node.reading is None else node.reading.phase,
        manager=manager,
        notes=("it is being deleted",) if is_deleting(raw) else (),
    )


def _refusal(node: _Node, cluster: _Cluster, group: str | None) -> Refusal | None:
    """
    The ladder. The first rung that holds is the reason that is told.

    A journal that has a fault of its own is told so on the third rung, where it holds back all the others too.
    """
    cleared = _cleared_by_next_run(node, cluster, group)
    if node.unreadable is not None:
        return refused(node.unreadable, *BY_HAND)
    if node.reading is None:
        # (1): an absent phase is not innocence, older versions of that tool wrote none.
        if node.phase_value != CLAIMED:
            return refused(f"no journal, and {_phase_clause(node)}: what was done to it is not recorded", *BY_HAND)
        # (4)
        batch = _batch_of(node, cluster)
        if batch.why is not None:
            return refused(batch.why, *cleared)
        # (7): blocks no sibling.
        if is_deleting(node.seen.raw):
            return refused("it is being deleted", "when the node is gone, so is its fence", *cleared)
    else:
        refusal = _journal_refusal(node, node.reading, cluster, cleared)
        if refusal is not None:
            return refusal
    return refused(node.mark.fault, *BY_HAND) if node.mark.fault is not None else None


def _journal_refusal(
    node: _Node, reading: JournalReading, cluster: _Cluster, cleared: tuple[str, ...]
) -> Refusal | None:
    # (2)
    why = _WHY_PHASE.get(reading.phase or "")
    if why is not None and (reading.phase in UNPROVEN or node.fault is not None):
        return refused(why, *([node.fault] if node.fault else []), *BY_HAND)
    if why is not None:
        return refused(why, *cleared)
    # (3), and with it (6) to (8): a fault of its own is told as what it is.
    journal = reading.journal
    if journal is None or node.fault is not None:
        return refused(str(node.fault), *BY_HAND)
    if cluster.faulty:
        one = len(cluster.faulty) == 1
        why = f"the journal{' of' if one else 's of'} {_some(cluster.faulty)} cannot be trusted, so none is"
        return refused(why, *cleared)
    # (4)
    batch = _batch_of(node, cluster)
    if batch.why is not None:
        return refused(batch.why, *cleared)
    # (5): blocks no sibling.
    return _drift(node, journal, cleared)


def _drift(node: _Node, journal: BridgeJournal, cleared: tuple[str, ...]) -> Refusal | None:
    if dig(node.seen.raw, "spec", "unschedulable") is not True:
        return refused("drift: it is not cordoned any more", *cleared)
    taints = dig(node.seen.raw, "spec", "taints")
    if taints is not None and not are_taints(taints):
        return refused("its taints cannot be read, so they cannot be compared with its journal", *BY_HAND)
    drift = taint_drift(journal, taints or ())
    return None if drift is None else refused("drift: its taints are not those of its journal", *drift, *cleared)


def _cleared_by_next_run(node: _Node, cluster: _Cluster, group: str | None) -> tuple[str, ...]:
    """The advice for what that tool's next run clears, after what has to be repaired by hand before."""
    first = []
    if node.reading is not None and cluster.faulty:
        first.append(f"repair {_some(cluster.faulty)} by hand first, then ask for this report again")
    batch = _batch_of(node, cluster)
    if batch.unproven:
        first.append(f"prove and repair {_some(batch.unproven)} by hand first")
    return (*first, *cluster.next_run.advice(group))


def _batch_of(node: _Node, cluster: _Cluster) -> _Batch:
    """The batch of the journals whose owner this node's mark names; a sound journal's owner is its mark."""
    owner = node.mark.text
    return _NO_BATCH if owner is None else cluster.batches.get(owner, _NO_BATCH)


def _phase_clause(node: _Node) -> str:
    if not is_held(node.phase_value):
        return "no drain phase"
    if node.phase_value == "mutating":
        return "its drain phase is `mutating`"
    return "its drain phase is not `claimed`"


def _release(node: _Node) -> Release | Refusal:
    raw, journal = node.seen.raw, node.journal
    spec = dig(raw, "spec")
    cordoned, taints = dig(spec, "unschedulable"), dig(spec, "taints")
    if not (spec is None or isinstance(spec, Mapping)) or not is_flag(cordoned):
        return refused("its `spec.unschedulable` is neither true nor false", *BY_HAND)
    if taints is not None and not are_taints(taints):
        return refused("its taints cannot be read", *BY_HAND)
    guards: list[Op] = [
        *node.mark.guards(),
        guard(annotation(BRIDGE_NODE_JOURNAL), node.journal_value),
        # NB: beside a journal the phase says nothing, but what is removed is tested.
        guard(annotation(BRIDGE_NODE_PHASE), node.phase_value),
    ]
    if spec is None:
        guards.append(guard(pointer("spec"), ABSENT))
    else:
        guards += [guard(_UNSCHEDULABLE, cordoned), guard(_TAINTS, taints)]
    guards.append(guard(pointer("metadata", "deletionTimestamp"), ABSENT))
    uncordon = journal is not None and not journal.was_cordoned
    operations: list[Op] = [
        *guards,
        *([drop(_UNSCHEDULABLE)] if uncordon else []),
        *_removal(raw, BRIDGE_NODE_JOURNAL),
        *_removal(raw, BRIDGE_NODE_PHASE),
        *node.mark.removal(),
    ]
    patch = sealed_or_refused(node.seen.ref, operations)
    return patch if isinstance(patch, Refusal) else Release(patch, _title(journal, cordoned=cordoned is True))


def _title(journal: BridgeJournal | None, *, cordoned: bool) -> str:
    if journal is not None:
        if journal.was_cordoned:
            return "drop the mark; it was cordoned before, so it stays so"
        return "uncordon (it was schedulable before), drop the mark"
    if cordoned:
        return "drop the mark; it stays cordoned (was it schedulable before? not recorded)"
    return "drop the mark; it is not cordoned"


def _removal(raw: Raw, key: str) -> list[Op]:
    return [drop(annotation(key))] if annotations_of(raw).get(key) is not None else []


def _some(names: Sequence[str]) -> str:
    """The first three names and how many more: every refused node says it, so it must not grow with them."""
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")
