"""
The keeper: renews one lease, and knows for how long it is certainly still held.

Loss is declared two thirds of the duration after the *send* of the last renewal that was acknowledged, on the
clock that counts suspend or the wall clock, whichever shows more; it is never taken back. Everything that writes
asks first (`must_hold`). Three kinds are told apart: *stolen* (somebody else holds it), *not renewed* (the server
answers and refuses) and *unreachable* (nobody answers).
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from fencectl.cluster.clock import Clock
from fencectl.cluster.write import send
from fencectl.core.answers import Applied, Refused, Unknown, Why
from fencectl.core.errors import ExitCode, FencectlError, NotReadableError
from fencectl.core.heartbeat import HELD_FOR
from fencectl.core.lease import renew_lease
from fencectl.core.refs import Raw, Seen, dig
from fencectl.run.ports import Door, Thread, Threads
from fencectl.run.servertime import DatedDoor, ServerTime

# A renewal every third of the duration leaves one spare before loss at two thirds. After a failure it is tried
# again every second: what is left of the duration is short.
RENEWALS_PER_DURATION = 3
RETRY_S = 1.0
# A renewal that meets an earlier one of our own is sent again at once, with that one's time as its guard.
OWN_COPIES = 3
# How often somebody who waits for a renewal looks.
LOOK_S = 0.1


class Loss(StrEnum):
    """How a lease was lost."""

    STOLEN = "STOLEN"
    NOT_RENEWED = "NOT RENEWED"
    UNREACHABLE = "UNREACHABLE"


class LeaseLostError(FencectlError):
    """The lease is not certainly held any more; `loss` says how, `reason` by whom or since when."""

    exit_code = ExitCode.LEASE_LOST

    def __init__(self, loss: Loss, *, reason: str) -> None:
        super().__init__(f"lease {loss.value}", reason=reason)
        self.loss = loss


@dataclass(slots=True)
class Acknowledged:
    """When the last renewal that the server acknowledged was sent, on both clocks."""

    boot_s: float
    wall_at: datetime


class Keeper:
    """
    Holds a lease that was just taken.

    `lease` as the server answered it, `sent_s`/`sent_at`: when that request was sent. `door`: a connection of its
    own, so that bulk traffic never delays a renewal. `server_time`: what is known of the server's clock already.
    """

    def __init__(
        self,
        door: Door,
        clock: Clock,
        lease: Seen,
        *,
        holder: str,
        duration_s: int,
        sent_s: float,
        sent_at: datetime,
        server_time: ServerTime | None = None,
    ) -> None:
        self.holder = holder
        self.duration_s = duration_s
        self.lease = lease
        self._seen = lease
        self._server_time = server_time or ServerTime(clock)
        self._door = DatedDoor(door, self._server_time)
        self._clock = clock
        self._transitions = int(dig(lease.raw, "spec", "leaseTransitions") or 0)
        self._lock = threading.Lock()
        self._acknowledged = Acknowledged(sent_s, sent_at)
        self._stolen: str | None = None
        self._expired = False
        self._trouble: tuple[Loss, str] | None = None
        self._stop = threading.Event()
        self._thread: Thread | None = None

    @property
    def transitions(self) -> int:
        """The fencing token: the lease's transitions when it was taken."""
        return self._transitions

    @property
    def last_seen(self) -> Seen:
        """The lease as the server last showed it while it was ours."""
        return self._seen

    def start(self, threads: Threads) -> None:
        """Begin to renew."""
        self._thread = threads.start(self._keep, name="keeper")

    def stop(self) -> None:
        """Stop renewing, and wait for a renewal in flight: a release must not race with it."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(self._deadline_s() + RETRY_S)
            self._thread = None

    def held_for_s(self) -> float:
        """For how many seconds more the lease is certainly held; 0 once it is lost."""
        with self._lock:
            if self._stolen is not None or self._expired:
                return 0.0
            acknowledged = self._acknowledged
        by_boot = self._clock.monotonic_s() - acknowledged.boot_s
        by_wall = (self._clock.wall() - acknowledged.wall_at).total_seconds()
        # NB: a clock that was set back must not lengthen the lease; one that jumped ahead only costs a renewal.
        left_s = self._loss_after_s() - max(by_boot, by_wall, 0.0)
        if left_s <= 0:
            # NB: for good. A process that slept past its time must not go on because a late renewal still passed.
            with self._lock:
                self._expired = True
        return max(0.0, left_s)

    def must_hold(self, for_s: float) -> None:
        """
        Prove that the lease is held for so long.

        Where less is left it waits for the next renewal: one that comes in time goes on. Raises LeaseLostError
        where the lease is lost, also while it waits.
        """
        while (left_s := self.held_for_s()) <= for_s:
            if left_s == 0:
                raise self._lost()
            self._clock.wait(None, min(left_s, LOOK_S))

    def _lost(self) -> LeaseLostError:
        with self._lock:
            stolen, trouble = self._stolen, self._trouble
        if stolen is not None:
            return LeaseLostError(Loss.STOLEN, reason=stolen)
        loss, why = trouble or (Loss.NOT_RENEWED, "no renewal was acknowledged in time")
        return LeaseLostError(loss, reason=why)

    def _loss_after_s(self) -> float:
        return self.duration_s * HELD_FOR

    def _deadline_s(self) -> float:
        return self.duration_s / RENEWALS_PER_DURATION

    def _keep(self) -> None:
        pause_s = self._deadline_s()
        while not self._clock.wait(self._stop, pause_s):
            pause_s = self._deadline_s() if self.renew() else RETRY_S
            if self.held_for_s() == 0:
                return

    def renew(self) -> bool:
        """Renew once; whether the server acknowledged it. Nothing is sent once the lease is lost."""
        for _ in range(OWN_COPIES):
            if self.held_for_s() == 0:
                return False
            guarded = self._seen
            if self._renew_once():
                return True
            if self._seen is guarded or self._stop.is_set():
                return False
        return False

    def _renew_once(self) -> bool:
        """Send one renewal; where it fails although the lease is ours, `_seen` is the lease as it is now."""
        sent_s, sent_at = self._clock.monotonic_s(), self._clock.wall()
        # NB: the heartbeat is written by the server's clock, by which others measure its age; how long the lease
        # lasts is measured by our own clocks alone.
        at = self._server_time.now()
        patch = renew_lease(self._seen, holder=self.holder, transitions=self._transitions, at=at)
        # NB: shorter than the pause between renewals, or one that hangs would cost the next one too.
        answer = send(self._door, patch, deadline_s=self._deadline_s() * 0.8)
        match answer:
            case Applied(raw):
                if self.held_for_s() == 0:
                    # NB: it came through, but only after the loss: that is never taken back, noticed or not.
                    return False
                with self._lock:
                    self._acknowledged = Acknowledged(sent_s, sent_at)
                    self._trouble = None
                self._seen = Seen(self.lease.ref, raw)
                return True
            case Refused(Why.GUARD | Why.GONE, _, detail):
                self._look(detail)
            case Refused(Why.BUSY, 0, detail):
                # NB: not sent at all, since nobody takes the connection: the server has refused nothing.
                self._in_trouble(Loss.UNREACHABLE, f"nobody answers: {detail}")
            case Refused(_, status, detail):
                self._in_trouble(Loss.NOT_RENEWED, f"the API server refuses the renewal ({status}: {detail})")
            case Unknown(detail) if self._clock.monotonic_s() - sent_s < self._deadline_s() / 2:
                # NB: it came at once, as a 503 does: what the server shows tells a refusal from silence.
                self._look(detail)
            case Unknown(detail):
                self._in_trouble(Loss.UNREACHABLE, f"nobody answers: {detail}")
        return False

    def _look(self, detail: str) -> bool:
        """Read the lease after a refused renewal: somebody else's is final, our own is tried again."""
        try:
            found = self._door.get(self.lease.ref.path, deadline_s=self._deadline_s() / 2)
        except NotReadableError as failure:
            self._in_trouble(Loss.UNREACHABLE, failure.cause_in_short)
            return False
        if found.status == 404:
            self.is_stolen("the lease was deleted")
            return False
        if not found.ok:
            self._in_trouble(Loss.NOT_RENEWED, f"the lease cannot be read ({found.status})")
            return False
        raw: Raw = json.loads(found.body)
        return self._judge(raw, detail)

    def _judge(self, raw: Raw, detail: str) -> bool:
        holder, transitions = dig(raw, "spec", "holderIdentity"), dig(raw, "spec", "leaseTransitions")
        if dig(raw, "metadata", "uid") != self.lease.ref.uid:
            self.is_stolen("the lease was deleted and made anew")
        elif holder != self.holder or transitions != self._transitions:
            whom = f"`{holder}`" if holder else "nobody"
            token = f"token {self._transitions} → {_number(transitions)}"
            self.is_stolen(f"{whom} holds it now ({token}, {renewal_text(raw)})")
        else:
            return self._is_ours(raw, detail)
        return False

    def _is_ours(self, raw: Raw, detail: str) -> bool:
        seen = f"token {self._transitions}, {renewal_text(raw)}"
        why = f"the renewal did not pass although the lease is ours ({seen}): {detail}"
        self._in_trouble(Loss.NOT_RENEWED, why)
        if dig(raw, "spec", "renewTime") != dig(self._seen.raw, "spec", "renewTime"):
            # NB: an earlier renewal of ours was carried out and its answer lost; its time is guarded next.
            self._seen = Seen(self.lease.ref, raw)
        return False

    def is_stolen(self, how: str) -> None:
        """Note that somebody else has the lease, as whoever has read it knows; nothing more is sent then."""
        with self._lock:
            self._stolen = how

    def _in_trouble(self, loss: Loss, why: str) -> None:
        is_lost = self.held_for_s() == 0
        with self._lock:
            # NB: how it was lost stays as it was then: a renewal that was on its way may be answered at last.
            if self._trouble is None or not is_lost:
                self._trouble = (loss, why)


def renewal_text(raw: Raw) -> str:
    """When a lease was renewed and its version, as they were read: what tells its state from any other one."""
    renewed, version = dig(raw, "spec", "renewTime"), dig(raw, "metadata", "resourceVersion")
    return f"renewTime {renewed or 'none'}, resourceVersion {version or 'none'}"


def _number(value: Any) -> str:
    return str(value) if isinstance(value, int) else "none"
