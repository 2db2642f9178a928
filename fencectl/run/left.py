"""What a deploy leaves fenced, as the patches that release it: from what it knows, asking nobody again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from fencectl.core.found import Found
from fencectl.core.marks_reader import read_object
from fencectl.core.patches import GuardedPatch
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
    fences = [*(one.fence for one in unwound.left), *unwound.waiting]
    for fence in sorted(fences, key=lambda fence: (-fence.rank, -fence.journal.seq)):
        read = read_object(fence.seen, now=now)
        if not isinstance(read, Found) or read.release is None:
            return found
        found.append(read.release.patch)
    if result.lease_patch is not None:
        found.append(result.lease_patch)
    return found
