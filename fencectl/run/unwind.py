"""
Unwind: release what this run has fenced, in the reverse order, keep going where it may, and say what is left.

Ranks go strictly descending, the fences of one rank side by side; a refusal stops the next rank, so the lease is
freed only when nothing is held but what was kept on purpose. What applies a kept object stays with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby

from fencectl.cluster.clock import Clock
from fencectl.cluster.write import send
from fencectl.core.answers import Applied, Refused, Unknown, Why
from fencectl.core.errors import NotReadableError
from fencectl.core.found import Found
from fencectl.core.journal import Phase
from fencectl.core.marks_reader import read_object
from fencectl.core.placements import applier_of
from fencectl.core.refs import ObjectRef
from fencectl.run.fencing import Fence, Ledger
from fencectl.run.ports import Door, Threads
from fencectl.run.story import PAUSE_S, WRITE_S, StoppedError, broken, read


@dataclass(slots=True)
class Left:
    """A fence that could not be released, and why."""

    fence: Fence
    why: str


@dataclass(slots=True)
class Unwound:
    """What came of it. `left`: still held, in release order; `waiting`: held because of those."""

    released: list[Fence] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    waiting: list[Fence] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether nothing is held any more, except what was kept on purpose."""
        return not self.left and not self.waiting


def unwind(
    door: Door,
    clock: Clock,
    threads: Threads,
    ledger: Ledger,
    *,
    budget_s: float,
    tell: Callable[[str], None],
    may_release: Callable[[Fence], str | None],
) -> Unwound:
    """
    Release everything in the ledger.

    `budget_s`: how long the whole may take. `may_release`: why a fence must stay, or None; asked before each try,
    and may raise NotReadableError or StoppedError where nobody can say.
    """
    end_s = clock.monotonic_s() + budget_s
    result = Unwound()
    lock = threading.Lock()
    held = [fence for fence in ledger.fences if fence.journal.phase is not Phase.KEPT]
    beneath = _kept_beneath(ledger)
    ordered = sorted(held, key=lambda fence: (-fence.rank, -fence.journal.seq))
    for _, rank in groupby(ordered, key=lambda fence: fence.rank):
        fences = list(rank)
        if result.left:
            result.waiting += fences
            continue

        def release(fence: Fence) -> None:
            kept = beneath.get(fence.seen.ref)
            why = (
                f"{kept.display} is kept, and excluded from it"
                if kept is not None
                else _release(door, clock, fence, end_s=end_s, may_release=may_release)
            )
            with lock:
                if why is None:
                    result.released.append(fence)
                    ledger.forget(fence)
                    tell(f"released {fence.seen.ref.display}")
                else:
                    result.left.append(Left(fence, why))
                    tell(f"NOT released {fence.seen.ref.display}: {why}")

        running = [
            threads.start(lambda one=fence: release(one), name=f"release-{number}")  # type: ignore[misc]
            for number, fence in enumerate(fences[1:])
        ]
        release(fences[0])
        for thread in running:
            thread.join(max(0.0, end_s - clock.monotonic_s()) + WRITE_S)
    # NB: those of one rank came to their end in any order; named in that in which they are to be released.
    result.left.sort(key=lambda one: (-one.fence.rank, -one.fence.journal.seq))
    return result


def _kept_beneath(ledger: Ledger) -> dict[ObjectRef, ObjectRef]:
    """By each fence that is not kept and applies a kept one, itself or through others: that kept one."""
    appliers = [fence for fence in ledger.fences if fence.seen.ref.kind == "Kustomization"]
    by_name = {(fence.seen.ref.namespace, fence.seen.ref.name): fence for fence in appliers}
    beneath: dict[ObjectRef, ObjectRef] = {}
    for kept in (fence for fence in ledger.fences if fence.journal.phase is Phase.KEPT):
        passed = {kept.seen.ref}
        above = by_name.get(applier_of(kept.seen.raw) or ("", ""))
        while above is not None and above.seen.ref not in passed:
            passed.add(above.seen.ref)
            if above.journal.phase is not Phase.KEPT:
                beneath[above.seen.ref] = kept.seen.ref
            above = by_name.get(applier_of(above.seen.raw) or ("", ""))
    return beneath


def _release(
    door: Door, clock: Clock, fence: Fence, *, end_s: float, may_release: Callable[[Fence], str | None]
) -> str | None:
    """Release one fence, by a patch from a fresh read, until the server says yes or no; None: it is released."""
    ref = fence.seen.ref
    last = "the API server gave no answer in time"
    while clock.monotonic_s() < end_s:
        try:
            seen = read(door, ref)
            found = None if seen is None else read_object(seen, now=clock.wall())
            if not isinstance(found, Found) or found.holder_text != fence.journal.holder:
                # Gone, another object of that name, or lifted by somebody else: that fence is released.
                return None
            why = may_release(fence)
            if why is not None:
                return why
            if found.release is None:
                return found.refusal.why if found.refusal else "it cannot be released"
            match send(door, found.release.patch, deadline_s=WRITE_S):
                case Applied():
                    return None
                case Refused(Why.GONE | Why.GUARD):
                    last = broken(door, found.release.patch)
                case Refused(Why.BUSY, _, detail) | Unknown(detail):
                    last = detail
                case Refused(_, status, detail):
                    return f"the API server refuses ({status}: {detail})"
        except (NotReadableError, StoppedError) as failure:
            last = failure.cause_in_short
        clock.wait(None, PAUSE_S)
    return last
