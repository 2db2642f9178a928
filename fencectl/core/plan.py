"""
The one order of release, and who waits for whom.

Acquisition goes lease, Flux outermost ancestor first, nodes; release is the exact reverse, the lease last of all,
since it keeps every other deploy out. Ranks are released strictly descending and fences of one rank do not wait
for each other; a refusal stops the next rank. A kept suspension stops nothing but its ancestors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from fencectl.core.found import Found
from fencectl.core.report import FenceKind, NoRelease, Refusal

Key = tuple[str, str]
"""Namespace and name of a Kustomization."""
Excluded = Mapping[Key, Sequence[Found]]
Ranked = TypeVar("Ranked")


class Step(msgspec.Struct, frozen=True):
    """One fence at its place in the order; `refusal` None: its own release goes. `role`: parent or child."""

    found: Found
    order: int
    refusal: Refusal | None
    role: str | None


def position(found: Found) -> tuple[int, bool, bool, int, str]:
    """
    Where a fence stands: rank descending, refused ones last of their rank, then the latest fence first.

    Of leases that of a nested run goes first, whatever its journal claims.
    """
    outermost = found.journal is None or found.journal.within is None
    last = found.kind is FenceKind.LEASE and outermost
    return (-found.rank, last, found.refusal is not None, -found.seq, found.ref.display)


def excluded_children(all_found: Iterable[Found]) -> Excluded:
    """
    Fenced objects that their applier must not meet, by that applier.

    A Kustomization that reconciles while an object of its own carries `reconcile: disabled` drops it from its
    inventory; removed from Git in that time, the object is never pruned (kustomize-controller, `IsExcluded`).
    """
    children: dict[Key, list[Found]] = defaultdict(list)
    for found in all_found:
        if found.excluded and found.applier is not None and found.applier != own_key(found):
            children[found.applier].append(found)
    return children


def own_key(found: Found) -> Key | None:
    """A Kustomization as the labels of what it applies name it; None for everything else."""
    ref = found.ref
    return (ref.namespace, ref.name) if ref.kind == "Kustomization" and ref.namespace is not None else None


def keeping_order(fences: Iterable[Ranked], *, rank: Callable[[Ranked], int]) -> list[Ranked]:
    """
    The order in which suspensions are kept: outermost ancestor first.

    Were a child kept first, and then something failed, the unwinding would release the parent, which would meet a
    child that is excluded from it. The other way round only a parent is kept that need not be.
    """
    return sorted(fences, key=rank)


def plan(fences: Sequence[Found], *, overall: Refusal | None, excluded: Excluded, first: int) -> tuple[Step, ...]:
    """
    Put one holder's fences into release order, numbered from `first`.

    `overall`: why nothing of this holder may go now. A live or fresh one hides a fence's own refusal, which would
    only be noise; any other one does not.
    """
    ordered = sorted(fences, key=position)
    orders = {id(found): order for order, found in enumerate(ordered, first)}
    applied_by = {found.applier for found in ordered if found.applier != own_key(found)} - {None}
    fenced = {own_key(found) for found in ordered} - {None}
    going: set[int] = set()
    stopped_at: Step | None = None
    steps = []
    for found in ordered:
        refusal = _refusal(found, overall, stopped_at) or _waits_for_child(found, excluded, going, orders)
        own = own_key(found)
        role = "parent" if own in applied_by else "child" if found.applier in fenced - {own} else None
        step = Step(found, orders[id(found)], refusal, role)
        steps.append(step)
        if refusal is None:
            going.add(id(found))
        elif stopped_at is None and found.kept_because is None:
            stopped_at = step
    return tuple(steps)


def _refusal(found: Found, overall: Refusal | None, stopped_at: Step | None) -> Refusal | None:
    if overall is not None and overall.kind in (NoRelease.LIVE, NoRelease.FRESH):
        return overall
    if found.refusal is not None or overall is not None:
        return found.refusal or overall
    if stopped_at is not None and found.rank < stopped_at.found.rank and found.kept_because is None:
        why = f"waits for {stopped_at.found.ref.display}, which was fenced after it and is still held"
        return Refusal(NoRelease.WAITS, why, f"waits for {stopped_at.order}")
    return None


def _waits_for_child(found: Found, excluded: Excluded, going: set[int], orders: dict[int, int]) -> Refusal | None:
    own = own_key(found)
    for child in excluded.get(own, ()) if own is not None else ():
        # NB: a kept child goes only when a person says so; what is not kept must not wait for that and then go.
        if id(child) in going and (child.kept_because is None or found.kept_because is not None):
            continue
        order = orders.get(id(child))
        return Refusal(
            NoRelease.WAITS,
            f"waits for {child.ref.display}: while that carries `reconcile: disabled`, its parent would drop it "
            "from its inventory and never prune it again",
            f"waits for {order}" if order is not None else "waits for child",
            _about_kept(child),
        )
    return None


def _about_kept(child: Found) -> tuple[str, ...]:
    if child.kept_because is None:
        return ()
    name = child.ref.display
    return (f"{name} is KEPT on purpose; `--resume-kept {name}` lets `recover` resume it, and then its parent",)
