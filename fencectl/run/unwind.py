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
    held = [fence for fence in ledger.fences if not ledger.stays(fence)]
    # NB: one whose adoption was not answered is kept in either case, by us or by whom it was before.
    held += [one.fence for one in ledger.unresolved if not ledger.stays(one.fence)]
    beneath = _kept_beneath(ledger)
    ordered = sorted(held, key=lambda fence: (-fence.rank, -fence.journal.seq))
    for _, rank in groupby(ordered, key=lambda fence: fence.rank):
        fences = list(rank)
        if result.left:
            result.waiting += fences
            continue
        settling = _Rank(result, ledger, tell, list(fences))

        def release(fence: Fence, settling: _Rank = settling) -> None:
            kept = beneath.get(fence.seen.ref)
            if kept is not None:
                settling.settle(fence, f"{kept.display} is kept, and excluded from it")
                return
            may_come = next((one for one in ledger.unresolved if one.fence is fence), None)
            until_s = may_come.until_s if may_come is not None else 0.0
            why = _release(door, clock, fence, end_s=end_s, until_s=until_s, may_release=may_release)
            settling.settle(fence, why)

        running = [
            threads.start(lambda one=fence: release(one), name=f"release-{number}")  # type: ignore[misc]
            for number, fence in enumerate(fences[1:])
        ]
        release(fences[0])
        for thread in running:
            thread.join(max(0.0, end_s - clock.monotonic_s()) + WRITE_S)
        settling.give_up("its release is still under way")
    # NB: those of one rank came to their end in any order; named in that in which they are to be released.
    result.left.sort(key=lambda one: (-one.fence.rank, -one.fence.journal.seq))
    return result


def _kept_beneath(ledger: Ledger) -> dict[ObjectRef, ObjectRef]:
    """By each fence that is not kept and applies a kept one, itself or through others: that kept one."""
    appliers = [fence for fence in ledger.fences if fence.seen.ref.kind == "Kustomization"]
    by_name = {(fence.seen.ref.namespace, fence.seen.ref.name): fence for fence in appliers}
    beneath: dict[ObjectRef, ObjectRef] = {}
    for kept in filter(ledger.stays, ledger.fences):
        passed = {kept.seen.ref}
        above = by_name.get(applier_of(kept.seen.raw) or ("", ""))
        while above is not None and above.seen.ref not in passed:
            passed.add(above.seen.ref)
            if not ledger.stays(above):
                beneath[above.seen.ref] = kept.seen.ref
            above = by_name.get(applier_of(above.seen.raw) or ("", ""))
    return beneath


@dataclass(slots=True)
class _Rank:
    """The fences of one rank, and which of them are not settled yet."""

    result: Unwound
    ledger: Ledger
    tell: Callable[[str], None]
    under_way: list[Fence]
    lock: threading.Lock = field(default_factory=threading.Lock)

    def settle(self, fence: Fence, why: str | None) -> None:
        """Note that a fence is released, or why it is not; only the first word on it counts."""
        with self.lock:
            if not any(one is fence for one in self.under_way):
                return
            self.under_way = [one for one in self.under_way if one is not fence]
            name = fence.seen.ref.display
            if why is None:
                self.result.released.append(fence)
                self.ledger.forget(fence)
                self.tell(f"released {name}")
            else:
                self.result.left.append(Left(fence, why))
                self.tell(f"NOT released {name}: {why}")

    def give_up(self, why: str) -> None:
        """Count what is not settled in time as left: nobody knows of it, and unknown is no success."""
        for fence in list(self.under_way):
            self.settle(fence, why)


def _release(
    door: Door,
    clock: Clock,
    fence: Fence,
    *,
    end_s: float,
    until_s: float,
    may_release: Callable[[Fence], str | None],
) -> str | None:
    """
    Release one fence, by a patch from a fresh read, until the server says yes or no; None: it is released.

    `until_s`: until then its placement may still come (0: it was answered).
    """
    ref = fence.seen.ref
    last = "the API server gave no answer in time"
    while clock.monotonic_s() < end_s:
        try:
            seen = read(door, ref)
            found = None if seen is None else read_object(seen, now=clock.wall())
            if not isinstance(found, Found) or found.holder_text != fence.journal.holder:
                # Gone, another object of that name, or lifted by somebody else: that fence is released.
                if seen is None or clock.monotonic_s() >= until_s:
                    return None
                last = "nobody can say whether it was fenced: no answer came, and it may still be"
                clock.wait(None, PAUSE_S)
                continue
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
