"""
Recover another tool's fences: the very patches that were printed, in order, and no take-over.

That tool knows no take-over, so its lease stays its own until it is freed, last in the chain or wherever its order
says. Before each patch its holder and heartbeat are read again: a run that wakes up ends the recovery.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fencectl.cluster.write import send
from fencectl.core.answers import Answer, Applied, Refused, Unknown, Why
from fencectl.core.errors import NotReadableError
from fencectl.core.outcome import Outcome, Told
from fencectl.core.patches import GuardedPatch
from fencectl.core.recovery import RecoveryPlan
from fencectl.core.refs import ObjectRef, Seen, dig
from fencectl.core.report import FenceEntry, FenceKind
from fencectl.run.story import PAUSE_S, TRIES, WRITE_S, StoppedError, World, broken, read


class ForeignRecovery:
    """One holder's recovery, all or nothing as far as rights and guards can tell beforehand."""

    def __init__(self, world: World, plan: RecoveryPlan) -> None:
        self._world = world
        self._plan = plan
        self._outcome = Outcome()
        self._baseline: Seen | None = None

    def run(self) -> Outcome:
        """Do all of it; never raises for what a cluster answers."""
        return self._until_stopped(self._rehearse, self._release_all)

    def rehearse(self) -> Outcome:
        """Have the server try each patch, rights and guards included; it stores nothing."""
        return self._until_stopped(self._rehearse)

    def _until_stopped(self, *steps: Callable[[Sequence[FenceEntry]], None]) -> Outcome:
        entries = [entry for entry in self._plan.block.entries if not entry.kept]
        self._outcome.left = [entry.object.display for entry in entries]
        try:
            for step in steps:
                step(entries)
        except StoppedError as stopped:
            self._outcome.stopped = stopped.sentence
            self._outcome.alive, self._outcome.forbidden = stopped.alive, stopped.forbidden
            self._outcome.unread = stopped.unread
        except NotReadableError as failure:
            self._outcome.stopped = f"{failure.sentence}: {failure.reason}" if failure.reason else failure.sentence
            self._outcome.unread = True
        return self._outcome

    def _release_all(self, entries: Sequence[FenceEntry]) -> None:
        self._baseline = self._observed()
        for number, entry in enumerate(entries, 1):
            if entry.release is not None:
                self._release(entry, entry.release.patch, number)
            self._outcome.left.pop(0)

    def _rehearse(self, entries: Sequence[FenceEntry]) -> None:
        for entry in entries:
            if entry.release is None:
                continue
            patch = entry.release.patch
            match self._tried(patch):
                case Applied() | Refused(Why.GONE):
                    continue
                case Refused(Why.GUARD):
                    sentence = f"{patch.target.display}: {broken(self._world.door, patch)}"
                    raise StoppedError(sentence, alive=entry.kind is FenceKind.LEASE)
                case Refused(why, status, detail):
                    what = f"{patch.target.display} may not be patched ({status}: {detail})"
                    raise StoppedError(what, forbidden=why is Why.FORBIDDEN, unread=why is Why.BUSY)
                case Unknown(detail):
                    raise StoppedError(f"{patch.target.display}: {detail}", unread=True)

    def _tried(self, patch: GuardedPatch) -> Answer:
        for _ in range(TRIES):
            self._must_not_be_interrupted()
            answer = send(self._world.door, patch, dry_run=True, deadline_s=WRITE_S)
            if isinstance(answer, Applied) or (isinstance(answer, Refused) and answer.why is not Why.BUSY):
                break
            self._world.clock.wait(self._world.stop, PAUSE_S)
        return answer

    def _must_not_be_interrupted(self) -> None:
        if self._world.stop.is_set():
            raise StoppedError("interrupted: what is left stays fenced")

    def _observed(self) -> Seen | None:
        """Give the lease as it has to stay: as it was watched, or free where another recovery has freed it."""
        if not self._plan.lease.freed_before:
            return self._plan.lease.seen
        now = self._read_lease()
        holder = None if now is None else dig(now.raw, "spec", "holderIdentity")
        if holder:
            raise StoppedError(f"`{holder}` has taken the lease meanwhile", alive=True)
        return now

    def _read_lease(self) -> Seen | None:
        target = self._plan.lease
        ref = ObjectRef("coordination.k8s.io/v1", "Lease", "leases", target.namespace, target.name, "")
        return read(self._world.door, ref)

    def _must_stand_still(self) -> None:
        """Nobody asked to stop, and the lease stands as still as when it was watched."""
        self._must_not_be_interrupted()
        target, now = self._plan.lease, self._read_lease()
        for field in ("holderIdentity", "renewTime"):
            was, found = (None if one is None else dig(one.raw, "spec", field) for one in (self._baseline, now))
            if found != was:
                where = f"lease/{target.namespace}/{target.name}"
                raise StoppedError(f"{where}: {field} changed since it was watched", alive=bool(found))

    def _release(self, entry: FenceEntry, patch: GuardedPatch, number: int) -> None:
        unknown = False
        for _ in range(TRIES):
            # NB: a freeing whose answer was lost has changed the lease itself; its own guards say the same.
            if not (unknown and entry.kind is FenceKind.LEASE):
                self._must_stand_still()
            match send(self._world.door, patch, deadline_s=WRITE_S):
                case Applied():
                    self._done("released", number, entry, entry.after or "released")
                    return
                case Refused(Why.GONE):
                    self._done("already", number, entry, "gone")
                    return
                case Refused(Why.BUSY):
                    self._world.clock.wait(self._world.stop, PAUSE_S)
                case Unknown():
                    unknown = self._outcome.unresolved = True
                    self._world.clock.wait(self._world.stop, PAUSE_S)
                case Refused(Why.GUARD):
                    if self._is_lifted(entry):
                        # NB: the answer to an earlier try was lost, or somebody else was faster.
                        self._done("released" if unknown else "already", number, entry, "lifted already")
                        return
                    self._outcome.unresolved = False
                    self._refuse(number, entry, broken(self._world.door, patch))
                case Refused(_, status, detail):
                    self._refuse(number, entry, f"the API server refuses ({status}: {detail})")
        self._refuse(number, entry, "nobody can say whether it was released: the API server gives no answer")

    def _is_lifted(self, entry: FenceEntry) -> bool:
        """Whether nothing of this run is left on the object: every field that the patch removes is absent."""
        seen = read(self._world.door, entry.object)
        if seen is None or entry.release is None:
            return True
        removed = [op["path"] for op in entry.release.patch.operations if op["op"] == "remove"]
        marks = [path for path in removed if path.startswith("/metadata/annotations/")]
        if not marks:
            return not dig(seen.raw, "spec", "holderIdentity")
        return all(dig(seen.raw, *_keys(path)) is None for path in marks)

    def _done(self, result: str, number: int, entry: FenceEntry, detail: str) -> None:
        self._outcome.wrote = self._outcome.wrote or result == "released"
        self._outcome.unresolved = False
        self._outcome.released += 1
        self._tell(result, number, entry, detail)

    def _refuse(self, number: int, entry: FenceEntry, why: str) -> None:
        self._tell("refused", number, entry, why)
        raise StoppedError(why)

    def _tell(self, result: str, number: int, entry: FenceEntry, detail: str) -> None:
        at = self._world.clock.wall()
        told = Told(result, number, self._plan.total, entry.object.display, detail, at)
        self._outcome.told.append(told)
        self._world.tell(told)


def _keys(path: str) -> tuple[str, ...]:
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])
