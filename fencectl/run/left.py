"""What a deploy leaves fenced, as the patches that release it: from what it knows, asking nobody again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from fencectl.core.found import Found
from fencectl.core.marks_reader import read_object
from fencectl.core.patches import GuardedPatch
from fencectl.run.fencing import Fence
from fencectl.run.keeper import Loss
from fencectl.run.nesting import WHAT_IS_INSIDE
from fencectl.run.stage import Result


def inside_is_unknown(result: Result) -> bool:
    """Whether a deploy inside of the command may hold something, which would have to be released first."""
    return WHAT_IS_INSIDE in result.unresolved


def patches_left(result: Result, *, now: datetime) -> Sequence[GuardedPatch]:
    """
    Give the releases of what a deploy has left, in their order, up to the first fence that has none.

    None of them at all where nobody can say whether this run has fenced something more, and where somebody else
    has the lease: he may rely on what is fenced. Whether a deploy inside of the command has fenced is not part of
    it: whoever runs these must know that it has not, see `inside_is_unknown`. Each guards what the server last
    answered, so that it is refused where the object has changed since.
    """
    unwound = result.unwound
    stolen = result.lost is not None and result.lost.loss is Loss.STOLEN
    if unwound is None or stolen or set(result.unresolved) - {WHAT_IS_INSIDE}:
        return ()
    found: list[GuardedPatch] = []
    for fence in in_release_order([*(one.fence for one in unwound.left), *unwound.waiting]):
        patch = release_of(fence, now=now)
        # NB: what was to be kept, and could not be marked so, no line may resume by the way.
        if patch is None or fence.seen.ref in result.kept.stuck:
            return found
        found.append(patch)
    if result.lease_patch is not None:
        found.append(result.lease_patch)
    return found


def in_release_order(fences: Iterable[Fence]) -> list[Fence]:
    """Ranks descending, of one rank the latest first."""
    return sorted(fences, key=lambda fence: (-fence.rank, -fence.journal.seq))


def release_of(fence: Fence, *, now: datetime) -> GuardedPatch | None:
    """The release of a fence as the server last answered it; None where none can be built."""
    read = read_object(fence.seen, now=now)
    return read.release.patch if isinstance(read, Found) and read.release is not None else None
