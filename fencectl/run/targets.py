"""
What a deploy is to suspend: the objects that were named, and every Kustomization that applies one of them.

An object that a Kustomization applies is fenced only together with that Kustomization, up to the root: an ancestor
that reconciles meanwhile would drop it from its inventory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fencectl.cluster.kinds import ListedKind
from fencectl.core.deploy import Adopted, ordered
from fencectl.core.errors import ExitCode, FencectlError, UsageError
from fencectl.core.journal import Journal
from fencectl.core.managers import last_writer
from fencectl.core.marks import read_mark
from fencectl.core.nesting import Around
from fencectl.core.placements import CannotPlace, adopt_kept, applier_of, place_cordon, place_suspension
from fencectl.core.profiles import SUSPENDED_BY
from fencectl.core.refs import ObjectRef, Seen, annotations_of, dig
from fencectl.core.times import second_time
from fencectl.run.ports import Door
from fencectl.run.story import read

DEEPEST = 20
NOTHING = "nothing was changed"


class CannotBeginError(FencectlError):
    """An object that is to be fenced cannot be; nothing was changed."""

    exit_code = ExitCode.HELD_PERSON_NEEDED


@dataclass(frozen=True, slots=True)
class Suspensions:
    """
    Objects with their ranks, outermost first, and which of them were added as ancestors.

    `covered`: those that are needed and that a run around this one has suspended already. `chains`: by each
    object its ancestors, nearest first.
    """

    objects: tuple[tuple[ObjectRef, int], ...]
    added: tuple[ObjectRef, ...]
    covered: tuple[ObjectRef, ...] = ()
    chains: Mapping[ObjectRef, Sequence[ObjectRef]] = field(default_factory=dict)


def find_suspensions(
    door: Door,
    names: Sequence[tuple[str, str, str]],
    kinds: Sequence[ListedKind],
    probe: Journal,
    *,
    around: Around | None = None,
    adopt: Sequence[Adopted] = (),
) -> Suspensions:
    """
    Read every object (kind, namespace, name) and its ancestors, and check that each can be suspended.

    `adopt`: suspensions that were kept and are to be taken over; they are among the objects.

    Raises UsageError for a kind that the cluster does not have, CannotBeginError for an object that is missing,
    being deleted, marked or suspended already.
    """
    by_kind = {kind.kind.lower(): kind for kind in kinds}
    kept = {one.ref: one.holder for one in adopt}
    finder = _Finder(door, by_kind, probe, around.runs if around is not None else frozenset(), kept)
    named: set[ObjectRef] = set()
    for kind_name, namespace, name in [*names, *((ref.kind, ref.namespace or "", ref.name) for ref in kept)]:
        kind = by_kind.get(kind_name.lower())
        if kind is None:
            there_are = ", ".join(sorted(by_kind)) or "no Flux kind at all"
            raise UsageError(f"the cluster has no kind `{kind_name}`", hint=f"it has: {there_are}")
        seen = finder.suspendable(kind, namespace, name)
        named.add(seen.ref)
        finder.climb(seen)
    chains, covered = finder.chains, finder.covered
    objects = ordered([(ref, 1 + len(above)) for ref, above in chains.items() if ref not in covered])
    return Suspensions(objects, tuple(ref for ref, _ in objects if ref not in named), tuple(covered), chains)


@dataclass(slots=True)
class _Finder:
    """
    What was read.

    `kept`: by whom what is to be adopted was kept. `chains`: each object's ancestors, nearest first; `covered`:
    fenced by a run around.
    """

    door: Door
    kinds: Mapping[str, ListedKind]
    probe: Journal
    runs: frozenset[str]
    kept: Mapping[ObjectRef, str]
    chains: dict[ObjectRef, list[ObjectRef]] = field(default_factory=dict)
    covered: list[ObjectRef] = field(default_factory=list)

    def climb(self, seen: Seen) -> list[ObjectRef]:
        """Return the ancestors of an object, nearest first, and put them all into `chains`."""
        if seen.ref in self.chains:
            return self.chains[seen.ref]
        self.chains[seen.ref] = []
        applier = applier_of(seen.raw)
        own = (seen.ref.namespace, seen.ref.name) if seen.ref.kind == "Kustomization" else None
        # NB: a root may apply itself; two that apply each other are no tree, and end here as well.
        if applier is None or applier == own or len(self.chains) > DEEPEST:
            return []
        parent = self.suspendable(self.kinds["kustomization"], *applier)
        self.chains[seen.ref] = [parent.ref, *self.climb(parent)]
        return self.chains[seen.ref]

    def suspendable(self, kind: ListedKind, namespace: str, name: str) -> Seen:
        """Read an object that can be suspended, or that a run around this one has suspended already."""
        ref = ObjectRef(kind.api_version, kind.kind, kind.plural, namespace, name, "")
        seen = read(self.door, ref)
        if seen is None:
            raise CannotBeginError(f"there is no {ref.display}", hint=NOTHING)
        if _is_fenced_by(seen, self.runs) and dig(seen.raw, "spec", "suspend") is True:
            self.covered += [] if seen.ref in self.covered else [seen.ref]
            return seen
        mark = read_mark(seen) if seen.ref in self.kept else None
        if mark is not None and mark.journal is not None and mark.kept and mark.owner == self.kept[seen.ref]:
            result = adopt_kept(seen, mark.journal, self.probe)
        else:
            result = place_suspension(seen, self.probe)
        if isinstance(result, CannotPlace):
            raise CannotBeginError(
                f"{ref.display} cannot be suspended: {result.why}", reason=_suspended_by(seen), hint=NOTHING
            )
        return seen


def _is_fenced_by(seen: Seen, runs: frozenset[str]) -> bool:
    mark = read_mark(seen) if runs else None
    return mark is not None and mark.problem is None and mark.holder_text in runs


def _suspended_by(seen: Seen) -> str | None:
    """Who has suspended it, and since when, as far as the object tells; None where it is not suspended."""
    if dig(seen.raw, "spec", "suspend") is not True:
        return None
    manager, at = last_writer(seen.raw, "spec", "suspend")
    person = annotations_of(seen.raw).get(SUSPENDED_BY)
    who = person or (f"field manager `{manager}`" if manager else "nobody is named in the object")
    return f"suspended by {who}" + (f", at {second_time(at)} at the latest" if at else "")


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes to fence, and those `covered`: fenced by a run around this one already."""

    objects: tuple[ObjectRef, ...]
    covered: tuple[ObjectRef, ...] = ()


def find_nodes(
    door: Door, names: Sequence[str], probe: Journal, *, around: Around | None = None, is_rolled: bool = False
) -> Nodes:
    """
    Read every node and check that it can be fenced. Raises CannotBeginError.

    `is_rolled`: a node command is to run on each, so that a claim of the run around does not do.
    """
    found, covered = [], []
    runs = around.runs if around is not None and not is_rolled else frozenset()
    for name in dict.fromkeys(names):
        ref = ObjectRef("v1", "Node", "nodes", None, name, "")
        seen = read(door, ref)
        if seen is None:
            raise CannotBeginError(f"there is no {ref.display}", hint=NOTHING)
        if _is_fenced_by(seen, runs) and dig(seen.raw, "spec", "unschedulable") is True:
            covered.append(seen.ref)
            continue
        result = place_cordon(seen, probe)
        if isinstance(result, CannotPlace):
            raise CannotBeginError(f"{ref.display} cannot be fenced: {result.why}", hint=NOTHING)
        found.append(seen.ref)
    return Nodes(tuple(found), tuple(covered))
