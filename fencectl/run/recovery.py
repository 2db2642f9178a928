"""
Carry a recovery out: exclude the dead holder, release its fences in order, free the lease last.

The steps, numbered as in messages and tests:

0. Every patch is tried on the server without being stored: rights and guards are known before the first write.
1. The lease is taken over from the dead holder, which thereby is excluded and not only believed dead.
2. The fences are released in order, each by a patch built from a fresh read; the first refusal stops.
3. Once more everything is listed: what is left of the dead holder is released too, or stops the recovery.
4. The lease is freed, last of all. An orderly stop before that hands it back as it was.

If the process dies in between, it is a dead holder whose recovery the next one goes on with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from fencectl.cluster.write import create, send
from fencectl.core.answers import Answer, Applied, Refused, Unknown, Why
from fencectl.core.errors import NotReadableError
from fencectl.core.found import Found
from fencectl.core.journal import Journal, Phase, parse_journal
from fencectl.core.lease import (
    LeaseTerms,
    acquire_lease,
    free_own_lease,
    hand_back_lease,
    new_lease,
    take_over_lease,
)
from fencectl.core.marks_reader import Vouched, read_object
from fencectl.core.outcome import Outcome, Told
from fencectl.core.patches import GuardedPatch
from fencectl.core.placements import CannotPlace
from fencectl.core.profiles import JOURNAL
from fencectl.core.recovery import RecoveryPlan
from fencectl.core.refs import ObjectRef, Seen, annotations_of, dig
from fencectl.core.report import FenceEntry
from fencectl.run.keeper import Keeper, LeaseLostError
from fencectl.run.story import PAUSE_S, TRIES, WRITE_S, StoppedError, World, broken, read

LEASE_DURATION_S = 30
# How often everything is listed again before the lease is freed.
SWEEPS = 3


class Recovery:
    """One holder's recovery by a run with an identity of its own."""

    def __init__(self, world: World, plan: RecoveryPlan, *, journal: Journal, vouched: Vouched) -> None:
        self._world = world
        self._plan = plan
        self._journal = journal
        self._vouched = vouched
        self._outcome = Outcome()
        self._before: Seen | None = plan.lease.seen
        self._taken: Seen | None = None
        self._keeper: Keeper | None = None

    def run(self) -> Outcome:
        """Do all of it; never raises for what a cluster answers."""
        return self._until_stopped(
            self._rehearse,  # (0)
            self._take_lease,  # (1)
            lambda: self._release_all(list(self._plan.going)),  # (2)
            self._sweep,  # (3)
            self._free_lease,  # (4)
        )

    def rehearse(self) -> Outcome:
        """Do (0) only: the server tries each patch, rights and guards included, and stores nothing."""
        return self._until_stopped(self._rehearse)

    def _until_stopped(self, *steps: Callable[[], None]) -> Outcome:
        try:
            for step in steps:
                step()
        except StoppedError as stopped:
            self._stop(stopped.sentence, alive=stopped.alive, forbidden=stopped.forbidden)
        except (NotReadableError, LeaseLostError) as failure:
            self._stop(f"{failure.sentence}: {failure.reason}" if failure.reason else failure.sentence)
        return self._outcome

    # (0)

    def _rehearse(self) -> None:
        for patch in (*(entry.release.patch for entry in self._plan.going if entry.release), *self._lease_patch()):
            answer = send(self._world.door, patch, dry_run=True, deadline_s=WRITE_S)
            match answer:
                case Applied():
                    continue
                case Refused(Why.GONE):
                    continue
                case Refused(Why.GUARD):
                    raise StoppedError(
                        f"{patch.target.display}: {broken(self._world.door, patch)}",
                        alive=patch.target == self._lease_ref(),
                    )
                case Refused(Why.FORBIDDEN, _, detail):
                    raise StoppedError(f"{patch.target.display} may not be patched: {detail}", forbidden=True)
                case Refused(_, status, detail):
                    raise StoppedError(f"{patch.target.display}: the API server refuses ({status}: {detail})")
                case Unknown(detail):
                    raise StoppedError(f"{patch.target.display}: {detail}")

    def _lease_patch(self) -> tuple[GuardedPatch, ...]:
        before = self._before
        if before is None or self._plan.lease.dead_holder is None:
            return ()
        return (take_over_lease(before, self._terms()).patch,)

    def _lease_ref(self) -> ObjectRef | None:
        return self._before.ref if self._before is not None else None

    # (1)

    def _terms(self) -> LeaseTerms:
        return LeaseTerms(self._journal.holder, LEASE_DURATION_S, self._world.clock.wall(), self._journal)

    def _take_lease(self) -> None:
        target, clock = self._plan.lease, self._world.clock
        if target.dead_holder is None:
            # NB: it may have been freed, or made, since it was observed.
            self._before = self._read_lease()
        before = self._before
        sent_s, sent_at = clock.monotonic_s(), clock.wall()
        for _ in range(TRIES):
            answer = self._send_taking(before)
            match answer:
                case Applied(raw):
                    self._adopt(raw, sent_s, sent_at)
                    return
                case Unknown():
                    # A lost answer is read back; our identity is nobody else's.
                    found = self._read_lease()
                    if found is not None and dig(found.raw, "spec", "holderIdentity") == self._journal.holder:
                        self._adopt(found.raw, sent_s, sent_at)
                        return
                case Refused(Why.FORBIDDEN, _, detail):
                    raise StoppedError(f"the lease may not be taken over: {detail}", forbidden=True)
                case Refused(_, status, detail):
                    self._explain_not_taken(status, detail)
        raise StoppedError("nobody can say whether the lease was taken over: the API server gives no answer")

    def _send_taking(self, before: Seen | None) -> Answer:
        target = self._plan.lease
        if before is None:
            collection = f"/apis/coordination.k8s.io/v1/namespaces/{target.namespace}/leases"
            body = new_lease(target.namespace, target.name, self._terms())
            return create(self._world.door, collection, body, deadline_s=WRITE_S)
        if target.dead_holder is not None:
            return send(self._world.door, take_over_lease(before, self._terms()).patch, deadline_s=WRITE_S)
        placed = acquire_lease(before, self._terms())
        if isinstance(placed, CannotPlace):
            raise StoppedError(f"the lease was taken meanwhile: {placed.why}", alive=True)
        return send(self._world.door, placed.patch, deadline_s=WRITE_S)

    def _explain_not_taken(self, status: int, detail: str) -> None:
        found = self._read_lease()
        holder = dig(found.raw, "spec", "holderIdentity") if found is not None else None
        if found is not None and holder == self._plan.lease.dead_holder is not None:
            raise StoppedError("its lease moved while it was taken over: it is alive", alive=True)
        if holder:
            raise StoppedError(f"`{holder}` has taken the lease meanwhile", alive=True)
        raise StoppedError(f"the lease could not be taken ({status}: {detail})")

    def _adopt(self, raw: Any, sent_s: float, sent_at: datetime) -> None:
        target = self._plan.lease
        uid = str(dig(raw, "metadata", "uid"))
        ref = ObjectRef("coordination.k8s.io/v1", "Lease", "leases", target.namespace, target.name, uid)
        self._taken = Seen(ref, raw)
        self._keeper = Keeper(
            self._world.keeper_door,
            self._world.clock,
            self._taken,
            holder=self._journal.holder,
            duration_s=LEASE_DURATION_S,
            sent_s=sent_s,
            sent_at=sent_at,
        )
        self._keeper.start(self._world.threads)
        self._outcome.wrote = True
        self._outcome.lease = "taken"
        whom = self._plan.lease.dead_holder
        self._tell("taken", 0, ref.display, f"taken over from {whom}" if whom else "taken")

    def _read_lease(self) -> Seen | None:
        target = self._plan.lease
        ref = ObjectRef("coordination.k8s.io/v1", "Lease", "leases", target.namespace, target.name, "")
        return read(self._world.door, ref)

    # (2)

    def _release_all(self, entries: Sequence[FenceEntry | Found]) -> None:
        waiting = [_name(entry) for entry in entries]
        self._outcome.left = [*waiting, *self._lease_left()]
        for number, entry in enumerate(entries, 1):
            if self._world.stop.is_set():
                raise StoppedError("interrupted: what is left stays fenced")
            self._release(entry, number)
            self._outcome.left.pop(0)

    def _lease_left(self) -> list[str]:
        return [self._plan.lease.entry.object.display] if self._plan.lease.entry is not None else []

    def _release(self, entry: FenceEntry | Found, number: int) -> None:
        ref = entry.object if isinstance(entry, FenceEntry) else entry.ref
        for _ in range(TRIES):
            seen = read(self._world.door, ref)
            found = None if seen is None else self._ours(seen)
            if found is None:
                how = "gone" if seen is None else "lifted by somebody else meanwhile"
                self._outcome.released += 1
                self._tell("already", number, ref.display, how)
                return
            if found.release is None:
                why = found.refusal.why if found.refusal else "it cannot be released"
                self._refuse(number, ref.display, why)
            elif self._send_release(found, found.release.patch, number):
                return
            self._world.clock.wait(self._world.stop, PAUSE_S)
        self._refuse(number, ref.display, "nobody can say whether it was released: the API server gives no answer")

    def _send_release(self, found: Found, patch: GuardedPatch, number: int) -> bool:
        """Whether it is settled; False: read again and send again."""
        if self._keeper is not None:
            self._keeper.must_hold(WRITE_S)
        match send(self._world.door, patch, deadline_s=WRITE_S):
            case Applied():
                self._outcome.wrote = True
                self._outcome.released += 1
                self._tell("released", number, found.ref.display, found.after or "released")
                return True
            case Refused(Why.GONE) | Unknown() | Refused(Why.BUSY):
                return False
            case Refused(Why.GUARD):
                self._refuse(number, found.ref.display, broken(self._world.door, patch))
            case Refused(_, status, detail):
                self._refuse(number, found.ref.display, f"the API server refuses ({status}: {detail})")
        return False

    def _ours(self, seen: Seen) -> Found | None:
        """The fence of the dead run on this object, if it is still there."""
        found = read_object(seen, now=self._world.clock.wall(), vouched=self._vouched)
        return found if isinstance(found, Found) and found.group == self._plan.key else None

    def _refuse(self, number: int, fence: str, why: str) -> None:
        self._tell("refused", number, fence, why)
        raise StoppedError(why)

    # (3)

    def _sweep(self) -> None:
        for _ in range(SWEEPS):
            left = [f for f in self._world.sweep(self._plan.key) if f.kept_because is None]
            mine = [f for f in left if f.ref != (self._taken.ref if self._taken else None)]
            if not mine:
                return
            self._release_all(mine)
        raise StoppedError("fences of the dead run appear again and again: something still writes in its name")

    # (4)

    def _free_lease(self) -> None:
        taken, keeper = self._taken, self._keeper
        if taken is None or keeper is None:
            return
        if self._world.stop.is_set():
            raise StoppedError("interrupted: what is left stays fenced")
        keeper.must_hold(WRITE_S)
        keeper.stop()
        patch = free_own_lease(taken, holder=keeper.holder, transitions=keeper.transitions)
        for _ in range(TRIES):
            answer = send(self._world.door, patch, deadline_s=WRITE_S)
            if isinstance(answer, Applied) or not self._still_ours():
                self._outcome.lease = "freed"
                self._outcome.left = []
                if self._plan.lease.entry is not None:
                    self._outcome.released += 1
                self._tell("freed", self._plan.total, taken.ref.display, "free")
                return
        raise StoppedError("the lease could not be freed: the API server gives no answer")

    def _still_ours(self) -> bool:
        found = self._read_lease()
        return found is not None and dig(found.raw, "spec", "holderIdentity") == self._journal.holder

    # Ends

    def _stop(self, why: str, *, alive: bool = False, forbidden: bool = False) -> None:
        """Hand the lease back as it was, so that the next recovery finds the chain as it is."""
        outcome = self._outcome
        outcome.stopped, outcome.alive, outcome.forbidden = why, alive, forbidden
        if not outcome.left:
            outcome.left = [*(_name(entry) for entry in self._plan.going), *self._lease_left()]
        taken, before, keeper = self._taken, self._before, self._keeper
        if taken is None or keeper is None:
            return
        keeper.stop()
        if before is None:
            patch = free_own_lease(taken, holder=keeper.holder, transitions=keeper.transitions)
        else:
            patch = hand_back_lease(taken, before)
        for _ in range(TRIES):
            if isinstance(send(self._world.door, patch, deadline_s=WRITE_S), Applied):
                outcome.lease = "handed-back"
                self._tell("handed-back", 0, taken.ref.display, "as it was before")
                return
        outcome.lease = "kept"
        outcome.hint = (
            "the lease could not be handed back: the next recovery goes on with it once this run has ended"
        )

    def _tell(self, result: str, order: int, fence: str, detail: str) -> None:
        told = Told(result, order, self._plan.total, fence, detail, self._world.clock.wall())
        self._outcome.told.append(told)
        self._world.tell(told)


def _name(entry: FenceEntry | Found) -> str:
    return entry.object.display if isinstance(entry, FenceEntry) else entry.ref.display


def recovery_journal(own: Journal, plan: RecoveryPlan) -> Journal:
    """
    The journal of the lease while it is taken over: who recovers, and whom.

    The lease's own journal of the recovered run goes along: it alone holds what proves that run dead, and this
    recovery may die too.
    """
    text = annotations_of(plan.lease.seen.raw).get(JOURNAL) if plan.lease.seen is not None else None
    parsed = parse_journal(text) if isinstance(text, str) else None
    before = None
    if isinstance(parsed, Journal) and plan.lease.dead_holder is not None:
        before = parsed.before if parsed.recovering else parsed.to_object()
    reason = f"recover {plan.key}"
    return replace(own, phase=Phase.RECOVERING, recovering=plan.key, before=before, reason=reason, lease=None)
