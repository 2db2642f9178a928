"""
Recover another tool's fences: the very patches that were printed, in order, and no take-over.

That tool knows no take-over, so its lease stays its own until it is freed, last in the chain or wherever its order
says. Before each patch its holder and heartbeat are read again: a run that wakes up ends the recovery.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fencectl.cluster.write import send
from fencectl.core.answers import Applied, Refused, Unknown, Why
from fencectl.core.errors import NotReadableError
from fencectl.core.outcome import Outcome, Told
from fencectl.core.patches import GuardedPatch
from fencectl.core.recovery import RecoveryPlan
from fencectl.core.refs import ObjectRef, dig
from fencectl.core.report import FenceEntry
from fencectl.run.story import PAUSE_S, TRIES, WRITE_S, StoppedError, World, broken, read


class ForeignRecovery:
    """One holder's recovery, all or nothing as far as rights and guards can tell beforehand."""

    def __init__(self, world: World, plan: RecoveryPlan) -> None:
        self._world = world
        self._plan = plan
        self._outcome = Outcome()

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
        except NotReadableError as failure:
            self._outcome.stopped = failure.reason or failure.sentence
        return self._outcome

    def _rehearse(self, entries: Sequence[FenceEntry]) -> None:
        for patch in [entry.release.patch for entry in entries if entry.release is not None]:
            match send(self._world.door, patch, dry_run=True, deadline_s=WRITE_S):
                case Applied() | Refused(Why.GONE):
                    continue
                case Refused(Why.GUARD):
                    raise StoppedError(f"{patch.target.display}: {broken(self._world.door, patch)}")
                case Refused(why, status, detail):
                    what = f"{patch.target.display} may not be patched ({status}: {detail})"
                    raise StoppedError(what, forbidden=why is Why.FORBIDDEN)
                case Unknown(detail):
                    raise StoppedError(f"{patch.target.display}: {detail}")

    def _release_all(self, entries: Sequence[FenceEntry]) -> None:
        for number, entry in enumerate(entries, 1):
            self._must_go_on()
            if entry.release is not None:
                self._release(entry, entry.release.patch, number)
            self._outcome.left.pop(0)

    def _must_go_on(self) -> None:
        """Nobody asked to stop, and the lease stands as still as when it was watched."""
        if self._world.stop.is_set():
            raise StoppedError("interrupted: what is left stays fenced")
        target = self._plan.lease
        if target.seen is None:
            return
        ref = ObjectRef("coordination.k8s.io/v1", "Lease", "leases", target.namespace, target.name, "")
        now = read(self._world.door, ref)
        before = target.seen.raw
        for field in ("holderIdentity", "renewTime"):
            was = dig(before, "spec", field)
            found = dig(now.raw, "spec", field) if now is not None else None
            if found != was:
                raise StoppedError(f"{ref.display}: {field} changed since it was watched", alive=bool(found))

    def _release(self, entry: FenceEntry, patch: GuardedPatch, number: int) -> None:
        for _ in range(TRIES):
            match send(self._world.door, patch, deadline_s=WRITE_S):
                case Applied():
                    self._done("released", number, entry, entry.after or "released")
                    return
                case Refused(Why.GONE):
                    self._done("already", number, entry, "gone")
                    return
                case Refused(Why.BUSY) | Unknown():
                    self._world.clock.wait(self._world.stop, PAUSE_S)
                case Refused(Why.GUARD):
                    if self._is_lifted(entry):
                        # NB: the answer to an earlier try was lost, or somebody else was faster.
                        self._done("already", number, entry, "lifted already")
                        return
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
        self._outcome.wrote = True
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
