"""
The lease of a recovery: taken from the dead holder, then freed or handed back, whatever becomes of the answers.

A lost answer is read back. Nobody else writes our identity, so a lease that bears it is ours, also where a first
try was carried out only after a second one had been sent.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from fencectl.cluster.write import create, send
from fencectl.core.answers import Answer, Applied, Refused, Unknown, Why
from fencectl.core.errors import NotReadableError
from fencectl.core.identity import parse_holder
from fencectl.core.lease import (
    LeaseTerms,
    acquire_lease,
    free_own_lease,
    hand_back_lease,
    new_lease,
    take_over_lease,
)
from fencectl.core.patches import GuardedPatch
from fencectl.core.placements import CannotPlace
from fencectl.core.recovery import LeaseTarget
from fencectl.core.refs import ObjectRef, Seen, dig
from fencectl.run.keeper import Keeper
from fencectl.run.servertime import ServerTime
from fencectl.run.story import PAUSE_S, TRIES, WRITE_S, StoppedError, World, read


class LeaseStolenError(StoppedError):
    """Somebody else took the lease from this recovery."""


class TakenLease:
    """
    One lease, while a recovery runs under it.

    `terms`: with what it is taken, now. `server_time`: by which its heartbeat is written. `unresolved`: a
    take-over was sent, and nobody can say what came of it.
    """

    def __init__(
        self, world: World, target: LeaseTarget, *, terms: Callable[[], LeaseTerms], server_time: ServerTime
    ) -> None:
        self._world = world
        self._server_time = server_time
        self._target = target
        self._terms = terms
        self._before = target.seen
        self._taken: Seen | None = None
        self._keeper: Keeper | None = None
        self.unresolved = False

    @property
    def ref(self) -> ObjectRef:
        """Its name; with the uid once it is taken."""
        target = self._target
        uid = self._taken.ref.uid if self._taken is not None else ""
        return ObjectRef("coordination.k8s.io/v1", "Lease", "leases", target.namespace, target.name, uid)

    @property
    def is_taken(self) -> bool:
        """Whether it was taken."""
        return self._taken is not None

    def must_hold(self) -> None:
        """Prove that there is time for one more write; raises LeaseLostError."""
        if self._keeper is not None:
            self._keeper.must_hold(WRITE_S)

    def rehearsal(self) -> tuple[GuardedPatch, ...]:
        """Give what can be tried beforehand; a free lease may look otherwise by the time it is taken."""
        if self._before is None or self._target.dead_holder is None:
            return ()
        return (take_over_lease(self._before, self._terms()).patch,)

    # Take

    def take(self, *, duration_s: int) -> None:
        """Take it, and keep it. Raises StoppedError or NotReadableError; then `unresolved` tells."""
        clock = self._world.clock
        if self._target.dead_holder is None:
            # NB: it may have been freed, or made, since it was observed.
            self._before = self._read()
        sent_s, sent_at = clock.monotonic_s(), clock.wall()
        why = "the API server gives no answer"
        for _ in range(TRIES):
            if self._world.stop.is_set():
                raise StoppedError("interrupted: what is left stays fenced")
            match self._send():
                case Applied(raw):
                    self._adopt(raw, sent_s, sent_at, duration_s)
                    return
                case Refused(Why.FORBIDDEN, _, detail):
                    raise StoppedError(f"the lease may not be taken over: {detail}", forbidden=True)
                case Refused(Why.BUSY, _, detail):
                    why = detail
                case Refused(reason, status, detail):
                    if self._adopt_if_ours(sent_s, sent_at, duration_s):
                        return
                    # NB: what was sent before has the same guards, so it cannot be carried out any more either.
                    self.unresolved = self.unresolved and reason not in (Why.GUARD, Why.GONE)
                    raise self._why_not_taken(status, detail)
                case Unknown(detail):
                    self.unresolved, why = True, detail
                    if self._adopt_if_ours(sent_s, sent_at, duration_s):
                        return
            clock.wait(self._world.stop, PAUSE_S)
        if self.unresolved:
            raise StoppedError(f"nobody can say whether the lease was taken over: {why}", unread=True)
        raise StoppedError(f"the lease could not be taken over: {why}", unread=True)

    def _send(self) -> Answer:
        target, before, door = self._target, self._before, self._world.door
        if before is None:
            collection = f"/apis/coordination.k8s.io/v1/namespaces/{target.namespace}/leases"
            body = new_lease(target.namespace, target.name, self._terms(), transitions=target.last_token + 1)
            return create(door, collection, body, deadline_s=WRITE_S)
        if target.dead_holder is not None:
            return send(door, take_over_lease(before, self._terms()).patch, deadline_s=WRITE_S)
        placed = acquire_lease(before, self._terms())
        if isinstance(placed, CannotPlace):
            raise StoppedError(f"{_whose(before)} has taken the lease meanwhile", alive=True)
        return send(door, placed.patch, deadline_s=WRITE_S)

    def _why_not_taken(self, status: int, detail: str) -> StoppedError:
        found, before = self._read(), self._before
        holder = _spec(found, "holderIdentity")
        if found is None:
            return StoppedError("the lease was deleted meanwhile")
        if not holder:
            return StoppedError("the lease was freed meanwhile")
        if holder != _spec(before, "holderIdentity"):
            return StoppedError(f"{_whose(found)} has taken the lease meanwhile", alive=True)
        if any(_spec(found, key) != _spec(before, key) for key in ("renewTime", "leaseTransitions")):
            return StoppedError("its lease moved while it was taken over: it is alive", alive=True)
        return StoppedError(f"the lease could not be taken over ({status}: {detail})")

    def _adopt_if_ours(self, sent_s: float, sent_at: datetime, duration_s: int) -> bool:
        found = self._read()
        if found is None or _spec(found, "holderIdentity") != self._terms().holder:
            return False
        self._adopt(found.raw, sent_s, sent_at, duration_s)
        return True

    def _adopt(self, raw: Any, sent_s: float, sent_at: datetime, duration_s: int) -> None:
        self.unresolved = False
        target = self._target
        uid = str(dig(raw, "metadata", "uid"))
        ref = ObjectRef("coordination.k8s.io/v1", "Lease", "leases", target.namespace, target.name, uid)
        self._taken = Seen(ref, raw)
        self._keeper = Keeper(
            self._world.keeper_door,
            self._world.clock,
            self._taken,
            holder=self._terms().holder,
            duration_s=duration_s,
            sent_s=sent_s,
            sent_at=sent_at,
            server_time=self._server_time,
        )
        self._keeper.start(self._world.threads)

    # Give it away

    def free(self) -> str:
        """
        Free it; how it is then.

        Raises LeaseStolenError where somebody took it before, StoppedError where it cannot be freed.
        """
        taken, keeper = self._must_be_taken()
        keeper.must_hold(WRITE_S)
        keeper.stop()
        patch = free_own_lease(taken, holder=keeper.holder, transitions=keeper.transitions)
        maybe_freed, why = False, "the API server gives no answer"
        for _ in range(TRIES):
            match send(self._world.door, patch, deadline_s=WRITE_S):
                case Applied():
                    return "free"
                case Unknown(detail):
                    maybe_freed, why = True, detail
                case Refused(Why.BUSY, _, detail):
                    why = detail
                case Refused(Why.GUARD | Why.GONE):
                    return self._is_gone(maybe_freed=maybe_freed)
                case Refused(_, status, detail):
                    raise StoppedError(f"the lease could not be freed ({status}: {detail})")
            self._world.clock.wait(None, PAUSE_S)
        if maybe_freed and not _spec(self._read(), "holderIdentity"):
            return "free"
        raise StoppedError(f"the lease could not be freed: {why}", unread=True)

    def _is_gone(self, *, maybe_freed: bool) -> str:
        found = self._read()
        if found is None:
            return "deleted by somebody else"
        if not _spec(found, "holderIdentity"):
            return "free"
        if maybe_freed:
            return f"freed, and taken by {_whose(found)} since"
        raise LeaseStolenError(f"{_whose(found)} took the lease from this recovery", alive=True)

    def hand_back(self) -> str:
        """Give it back as it was; `handed-back`, `lost` (in other hands) or `kept` (still ours, or unknown)."""
        taken, keeper = self._must_be_taken()
        keeper.stop()
        before = self._before
        if before is None:
            patch = free_own_lease(taken, holder=keeper.holder, transitions=keeper.transitions)
        else:
            patch = hand_back_lease(taken, before)
        for _ in range(TRIES):
            match send(self._world.door, patch, deadline_s=WRITE_S):
                case Applied():
                    return "handed-back"
                case Refused(Why.GUARD | Why.GONE):
                    return self._is_handed_back(keeper)
                case Refused() | Unknown():
                    self._world.clock.wait(None, PAUSE_S)
        return "kept"

    def _is_handed_back(self, keeper: Keeper) -> str:
        try:
            found = self._read()
        except (StoppedError, NotReadableError):
            return "kept"
        token = keeper.transitions + (self._before is not None)
        whose = _spec(self._before, "holderIdentity") or ""
        if found is None or _spec(found, "leaseTransitions") != token:
            return "lost"
        return "handed-back" if (_spec(found, "holderIdentity") or "") == whose else "lost"

    def _must_be_taken(self) -> tuple[Seen, Keeper]:
        if self._taken is None or self._keeper is None:
            raise StoppedError("the lease was not taken")
        return self._taken, self._keeper

    def _read(self) -> Seen | None:
        target = self._target
        return read(
            self._world.door,
            ObjectRef("coordination.k8s.io/v1", "Lease", "leases", target.namespace, target.name, ""),
        )


def _spec(lease: Seen | None, key: str) -> Any:
    return None if lease is None else dig(lease.raw, "spec", key)


def _whose(lease: Seen) -> str:
    return parse_holder(str(_spec(lease, "holderIdentity"))).title
