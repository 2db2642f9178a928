"""
What a deploy is to suspend: the objects that were named, and every Kustomization that applies one of them.

An object that a Kustomization applies is fenced only together with that Kustomization, up to the root: an ancestor
that reconciles meanwhile would drop it from its inventory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fencectl.cluster.kinds import ListedKind
from fencectl.core.deploy import ordered
from fencectl.core.errors import ExitCode, FencectlError, UsageError
from fencectl.core.journal import Journal
from fencectl.core.managers import last_writer
from fencectl.core.placements import CannotPlace, applier_of, place_cordon, place_suspension
from fencectl.core.profiles import SUSPENDED_BY
from fencectl.core.refs import ObjectRef, Seen, annotations_of, dig
from fencectl.core.times import second_time
from fencectl.run.ports import Door
from fencectl.run.story import read

DEEPEST = 20


class CannotBeginError(FencectlError):
    """An object that is to be fenced cannot be; nothing was changed."""

    exit_code = ExitCode.HELD_PERSON_NEEDED


@dataclass(frozen=True, slots=True)
class Suspensions:
    """Objects with their ranks, outermost first, and which of them were added as ancestors."""

    objects: tuple[tuple[ObjectRef, int], ...]
    added: tuple[ObjectRef, ...]


def find_suspensions(
    door: Door, names: Sequence[tuple[str, str, str]], kinds: Sequence[ListedKind], probe: Journal
) -> Suspensions:
    """
    Read every object (kind, namespace, name) and its ancestors, and check that each can be suspended.

    Raises UsageError for a kind that the cluster does not have, CannotBeginError for an object that is missing,
    being deleted, marked or suspended already.
    """
    by_kind = {kind.kind.lower(): kind for kind in kinds}
    chains: dict[ObjectRef, list[ObjectRef]] = {}
    named: set[ObjectRef] = set()
    for kind_name, namespace, name in names:
        kind = by_kind.get(kind_name.lower())
        if kind is None:
            there_are = ", ".join(sorted(by_kind)) or "no Flux kind at all"
            raise UsageError(f"the cluster has no kind `{kind_name}`", hint=f"it has: {there_are}")
        seen = _suspendable(door, kind, namespace, name, probe)
        named.add(seen.ref)
        _climb(door, seen, by_kind, probe, chains)
    objects = [(ref, 1 + len(ancestors)) for ref, ancestors in chains.items()]
    return Suspensions(ordered(objects), tuple(ref for ref, _ in ordered(objects) if ref not in named))


def _climb(
    door: Door, seen: Seen, kinds: dict[str, ListedKind], probe: Journal, chains: dict[ObjectRef, list[ObjectRef]]
) -> list[ObjectRef]:
    """Return the ancestors of an object, nearest first, and put them all into `chains`."""
    if seen.ref in chains:
        return chains[seen.ref]
    chains[seen.ref] = []
    applier = applier_of(seen.raw)
    own = (seen.ref.namespace, seen.ref.name) if seen.ref.kind == "Kustomization" else None
    # NB: a root may apply itself; two that apply each other are no tree, and end here as well.
    if applier is None or applier == own or len(chains) > DEEPEST:
        return []
    parent = _suspendable(door, kinds["kustomization"], *applier, probe)
    above = _climb(door, parent, kinds, probe, chains)
    chains[seen.ref] = [parent.ref, *above]
    return chains[seen.ref]


def _suspendable(door: Door, kind: ListedKind, namespace: str, name: str, probe: Journal) -> Seen:
    ref = ObjectRef(kind.api_version, kind.kind, kind.plural, namespace, name, "")
    seen = read(door, ref)
    if seen is None:
        raise CannotBeginError(f"there is no {ref.display}", hint="nothing was changed")
    result = place_suspension(seen, probe)
    if isinstance(result, CannotPlace):
        raise CannotBeginError(
            f"{ref.display} cannot be suspended: {result.why}",
            reason=_suspended_by(seen),
            hint="nothing was changed",
        )
    return seen


def _suspended_by(seen: Seen) -> str | None:
    """Who has suspended it, and since when, as far as the object tells; None where it is not suspended."""
    if dig(seen.raw, "spec", "suspend") is not True:
        return None
    manager, at = last_writer(seen.raw, "spec", "suspend")
    person = annotations_of(seen.raw).get(SUSPENDED_BY)
    who = person or (f"field manager `{manager}`" if manager else "nobody is named in the object")
    return f"suspended by {who}" + (f", at {second_time(at)} at the latest" if at else "")


def find_nodes(door: Door, names: Sequence[str], probe: Journal) -> tuple[ObjectRef, ...]:
    """Read every node and check that it can be fenced. Raises CannotBeginError."""
    found = []
    for name in dict.fromkeys(names):
        ref = ObjectRef("v1", "Node", "nodes", None, name, "")
        seen = read(door, ref)
        if seen is None:
            raise CannotBeginError(f"there is no {ref.display}", hint="nothing was changed")
        result = place_cordon(seen, probe)
        if isinstance(result, CannotPlace):
            raise CannotBeginError(f"{ref.display} cannot be fenced: {result.why}", hint="nothing was changed")
        found.append(seen.ref)
    return tuple(found)
