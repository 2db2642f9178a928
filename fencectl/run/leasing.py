"""Take a free lease, adopt it where the answer was lost (nobody else writes our identity), and free it again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from fencectl.cluster.clock import Clock
from fencectl.cluster.write import create, send
from fencectl.core.answers import Answer, Applied, Refused, Unknown, Why
from fencectl.core.errors import ExitCode, FencectlError, NotReadableError
from fencectl.core.identity import parse_holder
from fencectl.core.lease import LeaseTerms, acquire_lease, free_own_lease, new_lease
from fencectl.core.placements import CannotPlace
from fencectl.core.refs import ObjectRef, Seen, dig
from fencectl.run.keeper import Keeper, LeaseLostError, Loss, renewal_text
from fencectl.run.ports import Door, Threads
from fencectl.run.servertime import DatedDoor, ServerTime
from fencectl.run.story import PAUSE_S, TRIES, WRITE_S, StoppedError, read


class LeaseBusyError(FencectlError):
    """Somebody else holds the lease; `holder` is their identity."""

    exit_code = ExitCode.HELD_LIVE

    def __init__(self, holder: str) -> None:
        super().__init__(f"the lease was taken by {parse_holder(holder).title} meanwhile")
        self.holder = holder


class LeaseUnresolvedError(FencectlError):
    """The lease was asked for, and nobody can say whether it was given: it is named as held."""

    exit_code = ExitCode.STILL_FENCED


@dataclass(frozen=True, slots=True)
class LeaseAt:
    """Where a lease is, and from which token a new one counts on (a deleted lease must not start again)."""

    namespace: str
    name: str
    last_token: int = 0

    @property
    def ref(self) -> ObjectRef:
        """Its name, without a uid."""
        return ObjectRef("coordination.k8s.io/v1", "Lease", "leases", self.namespace, self.name, "")


def take_lease(
    door: Door, keeper_door: Door, clock: Clock, threads: Threads, at: LeaseAt, terms: LeaseTerms
) -> Keeper:
    """
    Take the lease and start its keeper; its times are written by the server's clock, whatever `terms.at` says.

    Raises LeaseBusyError where somebody else has it, NotReadableError where it was certainly not taken (nobody
    answers, or a right is missing), LeaseUnresolvedError where nobody can say.
    """
    asked = False
    server_time = ServerTime(clock)
    door = DatedDoor(door, server_time)
    sent_s, sent_at = clock.monotonic_s(), clock.wall()
    for _ in range(TRIES):
        if not asked:
            # NB: where an answer was lost, the lease runs from the first try that may have been carried out.
            sent_s, sent_at = clock.monotonic_s(), clock.wall()
        found: Seen | None = None
        try:
            seen = read(door, at.ref)
            answer = _ask(door, at, replace(terms, at=server_time.now()), seen)
            asked = asked or isinstance(answer, Unknown)
            now = None if isinstance(answer, Applied) else read(door, at.ref)
        except (NotReadableError, StoppedError):
            if not asked:
                raise
            clock.wait(None, PAUSE_S)
            continue
        match answer:
            case Applied(raw):
                found = Seen(_with_uid(at.ref, str(dig(raw, "metadata", "uid"))), raw)
            case Refused(Why.FORBIDDEN, _, detail):
                raise NotReadableError(f"lease/{at.namespace}/{at.name} may not be taken", reason=detail)
            case Refused(Why.INVALID, status, detail) if status != 409:
                raise NotReadableError(f"lease/{at.namespace}/{at.name} cannot be taken: {status}", reason=detail)
            case Refused() | Unknown():
                found = now
                holder = dig(found.raw, "spec", "holderIdentity") if found is not None else None
                if holder and holder != terms.holder:
                    raise LeaseBusyError(str(holder))
                if holder != terms.holder:
                    clock.wait(None, PAUSE_S)
                    continue
        if found is not None:
            keeper = Keeper(
                keeper_door,
                clock,
                found,
                holder=terms.holder,
                duration_s=terms.duration_s,
                sent_s=sent_s,
                sent_at=sent_at,
                server_time=server_time,
            )
            keeper.start(threads)
            return keeper
    name = f"lease/{at.namespace}/{at.name}"
    if asked:
        raise LeaseUnresolvedError(
            f"nobody can say whether {name} was taken: it may be STILL HELD by this run",
            reason="the API server gives no answer",
            hint="`fencectl fences` shows it as soon as it answers",
        )
    raise NotReadableError(f"{name} could not be taken", reason="the API server gives no answer")


class Freed(Enum):
    """
    What came of freeing the own lease.

    `IN_OTHER_HANDS`: it was somebody else's before. `NOT_OURS`: nobody can say whether we have freed it, and it is
    the next deploy's by now, or whoever took it before that.
    """

    FREE = "free"
    IN_OTHER_HANDS = "in other hands"
    NOT_OURS = "not ours"
    STILL_OURS = "still ours"


def free_lease(door: Door, clock: Clock, keeper: Keeper, seen: Seen, *, end_s: float) -> Freed:
    """Free the own lease, as it was `seen`: at least some tries, and until `end_s` where nobody answers."""
    tries, unanswered = 0, False
    while tries < TRIES or clock.monotonic_s() < end_s:
        tries += 1
        patch = free_own_lease(seen, holder=keeper.holder, transitions=keeper.transitions)
        answer = send(door, patch, deadline_s=WRITE_S)
        if isinstance(answer, Applied):
            return Freed.FREE
        unanswered = unanswered or isinstance(answer, Unknown)
        try:
            now = read(door, keeper.lease.ref)
        except (NotReadableError, StoppedError):
            clock.wait(None, PAUSE_S)
            continue
        if now is None or dig(now.raw, "spec", "holderIdentity") != keeper.holder:
            return Freed.NOT_OURS if unanswered else Freed.IN_OTHER_HANDS
        seen = now
    return Freed.STILL_OURS


def _ask(door: Door, at: LeaseAt, terms: LeaseTerms, seen: Seen | None) -> Answer:
    if seen is None:
        collection = f"/apis/coordination.k8s.io/v1/namespaces/{at.namespace}/leases"
        body = new_lease(at.namespace, at.name, terms, transitions=at.last_token + 1)
        return create(door, collection, body, deadline_s=WRITE_S)
    placed = acquire_lease(seen, terms, last_token=at.last_token)
    if isinstance(placed, CannotPlace):
        holder = str(dig(seen.raw, "spec", "holderIdentity"))
        if holder != terms.holder:
            raise LeaseBusyError(holder)
        return Applied(seen.raw)
    return send(door, placed.patch, deadline_s=WRITE_S)


def _with_uid(ref: ObjectRef, uid: str) -> ObjectRef:
    return ObjectRef(ref.api_version, ref.kind, ref.plural, ref.namespace, ref.name, uid)


def theft(keeper: Keeper, now: Seen | None) -> LeaseLostError | None:
    """Judge a lease as it was read (None: it is not there): that it was taken, or None where it is still ours."""
    holder = None if now is None else dig(now.raw, "spec", "holderIdentity")
    token = None if now is None else dig(now.raw, "spec", "leaseTransitions")
    if holder == keeper.holder and token == keeper.transitions:
        return None
    whom = "it was deleted" if now is None else f"`{holder}` holds it now" if holder else "nobody holds it now"
    renewed = "" if now is None else f", {renewal_text(now.raw)}"
    return LeaseLostError(Loss.STOLEN, reason=f"{whom} (token {keeper.transitions} → {token}{renewed})")
