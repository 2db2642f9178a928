"""What a deploy leaves fenced, as the patches that release it: from what it knows, asking nobody again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from fencectl.core.found import Found
from fencectl.core.marks_reader import read_object
from fencectl.core.patches import GuardedPatch
from fencectl.run.keeper import Loss
from fencectl.run.stage import Result


def patches_left(result: Result, *, now: datetime) -> Sequence[GuardedPatch]:
    """
    Give the releases of what a deploy has left, in their order, up to the first fence that has none.

    None of them at all where that order is not known (nobody can say whether something more was fenced), and where
    somebody else has the lease: he may rely on what is fenced. Each guards what the server last answered, so that
    it is refused where the object has changed since.
    """
    unwound = result.unwound
    stolen = result.lost is not None and result.lost.loss is Loss.STOLEN
    if unwound is None or stolen or result.unresolved:
        return ()
    found: list[GuardedPatch] = []
    for fence in (*(one.fence for one in unwound.left), *unwound.waiting):
        read = read_object(fence.seen, now=now)
        if not isinstance(read, Found) or read.release is None:
            return found
        found.append(read.release.patch)
    if result.lease_patch is not None:
        found.append(result.lease_patch)
    return found
