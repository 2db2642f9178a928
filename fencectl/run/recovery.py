"""
Carry a recovery out: exclude the dead holder, release its fences in order, free the lease last.

The steps, numbered as in messages and tests:

0. Every patch is tried on the server without being stored: rights and guards are known before the first write.
1. The lease is taken over from the dead holder, which thereby is excluded and not only believed dead.
2. Everything is listed again, and the fences are released in order, each by a patch built from a fresh read; the
   first refusal stops.
3. Once more everything is listed: what is left of the dead holder is released too, or stops the recovery.
4. The lease is freed, last of all. An orderly stop before that hands it back as it was.

If the process dies in between, it is a dead holder whose recovery the next one goes on with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NoReturn

from fencectl.cluster.write import send
from fencectl.core.answers import Answer, Applied, Refused, Unknown, Why
from fencectl.core.errors import NotReadableError
from fencectl.core.found import Found
from fencectl.core.happening import Happening
from fencectl.core.journal import MAX_LENGTH, Journal, Phase, parse_journal
from fencectl.core.lease import LeaseTerms
from fencectl.core.marks_reader import Vouched, read_object
from fencectl.core.outcome import Outcome, Told
from fencectl.core.patches import GuardedPatch
from fencectl.core.plan import excluded_children, plan as plan_releases
from fencectl.core.profiles import JOURNAL
from fencectl.core.recovery import RecoveryPlan
from fencectl.core.refs import ObjectRef, Seen, annotations_of, dig
from fencectl.core.report import FenceEntry, FenceKind
from fencectl.run.keeper import LeaseLostError
from fencectl.run.servertime import DatedDoor, ServerTime
from fencectl.run.story import PAUSE_S, TRIES, WRITE_S, StoppedError, World, broken, read
from fencectl.run.takeover import LeaseStolenError, TakenLease

LEASE_DURATION_S = 30
# How often everything is listed again before the lease is freed.
SWEEPS = 3


class Recovery:
    """One holder's recovery by a run with an identity of its own."""

    def __init__(self, world: World, plan: RecoveryPlan, *, journal: Journal, vouched: Vouched) -> None:
        self._server_time = ServerTime(world.clock)
        world = replace(world, door=DatedDoor(world.door, self._server_time))
        self._world = world
        self._plan = plan
        self._journal = journal
        self._vouched = vouched
        self._outcome = Outcome()
        self._lease = TakenLease(world, plan.lease, terms=self._terms, server_time=self._server_time)
        self._told = 0

    def run(self) -> Outcome:
        """Do all of it; never raises for what a cluster answers."""
        if not self._plan.total:
            return self._outcome
        self._outcome.left = [*(_name(entry) for entry in self._plan.going), *self._lease_left()]
        return self._until_stopped(
            self._rehearse,  # (0)
            self._take_lease,  # (1)
            lambda: self._release_all(self._listed_again()),  # (2)
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
            self._outcome.alive, self._outcome.forbidden = stopped.alive, stopped.forbidden
            self._outcome.unread = stopped.unread
            self._stop(stopped.sentence, stolen=isinstance(stopped, LeaseStolenError))
        except (NotReadableError, LeaseLostError) as failure:
            self._outcome.unread = isinstance(failure, NotReadableError)
            self._stop(f"{failure.sentence}: {failure.reason}" if failure.reason else failure.sentence)
        return self._outcome

    # (0)

    def _rehearse(self) -> None:
        self._read_kinds()
        lease = self._lease.rehearsal()
        for patch in (*(entry.release.patch for entry in self._plan.going if entry.release), *lease):
            match self._tried(patch):
                case Applied() | Refused(Why.GONE):
                    continue
                case Refused(Why.GUARD):
                    sentence = f"{patch.target.display}: {broken(self._world.door, patch)}"
                    raise StoppedError(sentence, alive=patch in lease)
                case Refused(Why.FORBIDDEN, _, detail):
                    raise StoppedError(f"{patch.target.display} may not be patched: {detail}", forbidden=True)
                case Refused(why, status, detail):
                    sentence = f"{patch.target.display}: the API server refuses ({status}: {detail})"
                    raise StoppedError(sentence, unread=why is Why.BUSY)
                case Unknown(detail):
                    raise StoppedError(f"{patch.target.display}: {detail}", unread=True)

    def _read_kinds(self) -> None:
        """
        Read one fence of each kind as each release will: a list that may be read says nothing about that.

        Raises StoppedError.
        """
        patches = [entry.release.patch for entry in self._plan.going if entry.release]
        for ref in {(one.target.path.rpartition("/")[0]): one.target for one in patches}.values():
            self._must_not_be_interrupted()
            read(self._world.door, ref)

    def _tried(self, patch: GuardedPatch) -> Answer:
        """Try a patch without storing it, again where nobody answered: that changes nothing however often."""
        for tries_left in reversed(range(TRIES)):
            self._must_not_be_interrupted()
            answer = send(self._world.door, patch, dry_run=True, deadline_s=WRITE_S)
            if not tries_left or not isinstance(answer, Unknown | Refused):
                break
            if isinstance(answer, Refused) and answer.why is not Why.BUSY:
                break
            self._world.clock.wait(self._world.stop, PAUSE_S)
        return answer

    def _must_not_be_interrupted(self) -> None:
        if self._world.stop.is_set():
            raise StoppedError("interrupted: what is left stays fenced")

    # (1)

    def _terms(self) -> LeaseTerms:
        return LeaseTerms(self._journal.holder, LEASE_DURATION_S, self._server_time.now(), self._journal)

    def _take_lease(self) -> None:
        self._lease.take(duration_s=LEASE_DURATION_S)
        self._outcome.wrote = True
        self._outcome.lease = "taken"
        whom = self._plan.lease.dead_holder
        self._tell("taken", 0, self._lease.ref.display, f"taken over from {whom}" if whom else "taken")

    def _lease_left(self) -> list[str]:
        return [self._plan.lease.entry.object.display] if self._plan.lease.entry is not None else []

    # (2)

    def _listed_again(self) -> list[FenceEntry | Found]:
        """
        What goes, now that the dead run is excluded: the plan, and what landed between it and the take-over.

        NB: a child that was fenced in that time has to go before its ancestors, which would drop it from their
        inventory while it is excluded from them. The sweep would be too late for that.
        """
        planned = {entry.object for entry in self._plan.going}
        late = [found for found in self._left() if found.ref not in planned]
        self._outcome.late += len(late)
        return sorted([*self._plan.going, *late], key=lambda entry: -entry.rank)

    def _release_all(self, entries: Sequence[FenceEntry | Found]) -> None:
        self._outcome.left = [*(_name(entry) for entry in entries), self._lease.ref.display]
        for entry in entries:
            self._must_not_be_interrupted()
            self._told += 1
            self._release(entry, self._told)
            self._outcome.left.pop(0)

    def _release(self, entry: FenceEntry | Found, number: int) -> None:
        ref = entry.object if isinstance(entry, FenceEntry) else entry.ref
        sent = False
        for _ in range(TRIES):
            seen = read(self._world.door, ref)
            found = None if seen is None else self._ours(seen, number)
            if found is None:
                self._outcome.released += 1
                if sent:
                    self._tell("released", number, ref.display, "its answer was lost")
                else:
                    how = "gone" if seen is None else "lifted by somebody else meanwhile"
                    self._tell("already", number, ref.display, how)
                return
            patch = self._patch_of(found, entry, number)
            answer = self._send_release(found, patch, number)
            if isinstance(answer, Applied):
                return
            sent = sent or isinstance(answer, Unknown)
            self._world.clock.wait(self._world.stop, PAUSE_S)
        self._refuse(number, ref, "nobody can say whether it was released: the API server gives no answer")

    def _patch_of(self, found: Found, planned: FenceEntry | Found, number: int) -> GuardedPatch:
        if found.release is None:
            self._refuse(number, found.ref, found.refusal.why if found.refusal else "it cannot be released")
        if found.kept_because is not None:
            self._refuse(number, found.ref, f"it was KEPT on purpose meanwhile: {found.kept_because}")
        if found.kind is FenceKind.LEASE and _beats(found.seen.raw) != _beats(_raw(planned)):
            # NB: a fresh read would bring the fresh heartbeat into the guard, and free the lease of a living run.
            self._outcome.alive = True
            self._refuse(number, found.ref, "its heartbeat moved since it was watched: its holder is alive")
        return found.release.patch

    def _send_release(self, found: Found, patch: GuardedPatch, number: int) -> Answer:
        self._lease.must_hold()
        answer = send(self._world.door, patch, deadline_s=WRITE_S)
        match answer:
            case Applied():
                self._outcome.released += 1
                self._tell("released", number, found.ref.display, found.after or "released")
                self._world.events.tell(found.ref, Happening.RELEASED, "released by a recovery", _whose(found))
            case Unknown() | Refused(Why.GONE | Why.BUSY):
                pass
            case Refused(Why.GUARD):
                self._refuse(number, found.ref, broken(self._world.door, patch))
            case Refused(_, status, detail):
                self._refuse(number, found.ref, f"the API server refuses ({status}: {detail})")
        return answer

    def _ours(self, seen: Seen, number: int) -> Found | None:
        """The fence of the dead run on this object, if it is still there."""
        found = read_object(seen, now=self._world.clock.wall(), vouched=self._vouched)
        if not isinstance(found, Found):
            return None
        if found.group is None:
            why = found.refusal.why if found.refusal is not None else "its mark names no holder any more"
            self._refuse(number, seen.ref, why)
        return found if found.group in self._plan.keys else None

    def _refuse(self, number: int, ref: ObjectRef, why: str) -> NoReturn:
        self._tell("refused", number, ref.display, why)
        self._world.events.tell(ref, Happening.REFUSED, f"not released by a recovery: {why}", self._plan.key)
        raise StoppedError(why, alive=self._outcome.alive)

    # (3)

    def _sweep(self) -> None:
        for _ in range(SWEEPS):
            left = self._left()
            if not left:
                return
            self._outcome.late += len(left)
            self._release_all(left)
        raise StoppedError("fences of the dead run appear again and again: something still writes in its name")

    def _left(self) -> list[Found]:
        """List once more: what of the run is to go, in order. Stops where one of them cannot."""
        found = [one for one in self._world.sweep(self._plan.key) if one.ref != self._lease.ref]
        steps = plan_releases(found, overall=None, excluded=excluded_children(found), first=1)
        going = [step for step in steps if step.found.kept_because is None]
        stuck = next((step for step in going if step.refusal is not None), None)
        if stuck is not None and stuck.refusal is not None:
            self._outcome.left = [*(step.found.ref.display for step in going), self._lease.ref.display]
            self._refuse(self._told + 1, stuck.found.ref, stuck.refusal.why)
        return [step.found for step in going]

    # (4)

    def _free_lease(self) -> None:
        self._outcome.left = [self._lease.ref.display]
        self._must_not_be_interrupted()
        how = self._lease.free()
        self._outcome.lease = "freed"
        self._outcome.left = []
        if self._plan.lease.entry is not None:
            self._outcome.released += 1
            self._told += 1
        self._tell("freed", self._told, self._lease.ref.display, how)
        self._world.events.tell(self._lease.ref, Happening.RELEASED, "freed by a recovery", self._plan.key)

    # Ends

    def _stop(self, why: str, *, stolen: bool = False) -> None:
        """Hand the lease back as it was, so that the next recovery finds the chain as it is."""
        outcome = self._outcome
        outcome.stopped = why
        outcome.unresolved = self._lease.unresolved
        if not self._lease.is_taken:
            return
        outcome.lease = "lost" if stolen else self._lease.hand_back()
        if outcome.lease == "handed-back":
            self._tell("handed-back", 0, self._lease.ref.display, "as it was before")
        if outcome.lease == "kept":
            outcome.hint = (
                "the lease could not be handed back: the next recovery goes on with it once this run has ended"
            )
        # NB: in other hands, or free as it was before, it is no fence of this run.
        if outcome.lease == "lost" or (outcome.lease == "handed-back" and self._plan.lease.entry is None):
            outcome.left = [name for name in outcome.left if name != self._lease.ref.display]

    def _tell(self, result: str, order: int, fence: str, detail: str) -> None:
        total = self._plan.total + self._outcome.late
        told = Told(result, order, total, fence, detail, self._world.clock.wall())
        self._outcome.told.append(told)
        self._world.tell(told)


def _name(entry: FenceEntry | Found) -> str:
    return entry.object.display if isinstance(entry, FenceEntry) else entry.ref.display


def _whose(found: Found) -> str:
    return found.holder_text or ""


def _raw(entry: FenceEntry | Found) -> object:
    return entry.raw if isinstance(entry, FenceEntry) else entry.seen.raw


def _beats(lease: object) -> tuple[object, ...]:
    return tuple(dig(lease, "spec", key) for key in ("holderIdentity", "renewTime", "leaseTransitions"))


def recovery_journal(own: Journal, plan: RecoveryPlan) -> Journal:
    """
    The journal of the lease while it is taken over: who recovers, and whom.

    The lease's own journal of the recovered run goes along: it alone holds what proves that run dead, and this
    recovery may die too. One that somebody else left there would tell of another process.
    """
    text = annotations_of(plan.lease.seen.raw).get(JOURNAL) if plan.lease.seen is not None else None
    parsed = parse_journal(text) if isinstance(text, str) else None
    before = None
    if isinstance(parsed, Journal) and parsed.holder == plan.lease.dead_holder:
        before = parsed.before if parsed.recovering else parsed.to_object()
    reason = f"recover {plan.key}"
    story = replace(own, phase=Phase.RECOVERING, recovering=plan.key, before=before, reason=reason, lease=None)
    # NB: too long to be read, it would tear the chain apart; the uid is filled in when it is written.
    return story if len(story.to_text()) < MAX_LENGTH - 100 else replace(story, before=None)
