"""
Which suspensions stay after a rollback: those that would bring back what was rolled back, with their ancestors.

Pure. Where nothing tells what an object applies, it is taken for one of them: a suspension too many is seen and
resumed by a person, a bad revision that comes back by itself is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fencectl.core.inventory import Key, inventory_key, inventory_of
from fencectl.core.placements import applier_of
from fencectl.core.refs import ObjectRef, Seen, dig
from fencectl.core.restored import Restored, RestoreVerdict

Keys = Collection[Key] | None
"""Objects as inventories name them; None: nobody can say which."""


def keys_of(restore: Restored) -> Keys:
    """
    What a restore was about, as inventories name it; None where nobody can say what became of it.

    NB: also what the deploy had not come to: Flux would take it to the bad revision just the same.
    """
    if restore.verdict is RestoreVerdict.UNKNOWN:
        return None
    refs = (*restore.touched, *restore.same, *restore.new, *(one.ref for one in restore.left))
    return frozenset(inventory_key(ref) for ref in refs)


def would_bring_back(seen: Seen, restored: Keys) -> bool:
    """Whether this Flux object, resumed, may apply what was rolled back."""
    applies = inventory_of(seen.raw)
    return applies is None or restored is None or not applies.isdisjoint(restored)


def is_resumed(seen: Seen) -> bool:
    """Whether somebody has ended the suspension: then there is nothing to keep any more."""
    return dig(seen.raw, "spec", "suspend") is not True


def with_ancestors(chosen: Iterable[ObjectRef], among: Collection[Seen]) -> frozenset[ObjectRef]:
    """The chosen ones, and every one that applies any of them, itself or through others."""
    by_ref = {seen.ref: seen for seen in among}
    by_name = {(seen.ref.namespace, seen.ref.name): seen for seen in among if seen.ref.kind == "Kustomization"}
    found: set[ObjectRef] = set()
    climbing = list(chosen)
    while climbing:
        ref = climbing.pop()
        if ref in found:
            continue
        found.add(ref)
        above = by_name.get(applier_of(by_ref[ref].raw) or ("", "")) if ref in by_ref else None
        climbing += [above.ref] if above is not None else []
    return frozenset(found)


def why_kept(revision: str | None, generation: int | None) -> str:
    """What a journal says of it: which revision must not come back."""
    what = revision or (f"generation {generation}" if generation is not None else "the failed deploy")
    return f"rolled back: {what} must not come back"
