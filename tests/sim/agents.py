"""
Runs as the wire sees them: who they are, what befalls them, and what they may believe of their lease.

Nothing here asks the code under test what it believes: it is computed from what was sent and what was answered, so
that code which believes too much is found out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from fencectl.cluster.answer import Answer
from tests.sim.deploy_spec import DeploySpec
from tests.sim.kernel import Process


@dataclass(frozen=True, slots=True)
class Trip:
    """
    What befalls a process at one of its calls.

    `what`: `kill`, `pause`, `stop` (an orderly signal), `lost` (a write that never arrives), `unanswered` (one that
    arrives, and whose answer does not), `slow` (an answer that takes `for_s`) or `nothing`. `when`: `before` the
    request leaves (after everything that was checked for it), `sent` while it is under way, `after` the answer came.
    `late`: a write that is under way then is applied any time later.
    """

    what: str
    when: str
    for_s: float = 0.0
    late: bool = False


@dataclass(slots=True)
class Write:
    """
    One request that changes something, from the moment at which its sender decided to send it.

    `kind`: take, renew, hand-back, free, place, journal, release. `left_s`: for how long the sender could be sure
    of its lease then, None where it has none. `lost`: its sender knew of its loss when the answer came.
    """

    process: Process
    kind: str
    path: str
    called_s: float
    left_s: float | None
    dry: bool
    sent_s: float = 0.0
    status: int | None = None
    reply: Answer | None = None
    waiting: bool = False
    lost: bool = False


@dataclass(slots=True)
class Held:
    """
    What a process may believe of a lease that it took, computed from the wire alone.

    Two thirds of the duration after the send of the last renewal that was acknowledged to it, it must believe it
    lost; from `declared` on (since `declared_s`) it has seen itself that it is another's, and `expired` says that a
    renewal came too late.
    `acknowledged`: of each renewal, when that was and when it was sent, by the simulation's own clock.
    """

    duration_s: float
    token: int
    boot_s: float
    wall_at: datetime
    acknowledged: list[tuple[float, float]]
    declared: bool = False
    expired: bool = False
    declared_s: float = 0.0

    def left_s(self, process: Process) -> float:
        """Seconds for which the lease is certainly held."""
        if self.declared or self.expired:
            return 0.0
        return self._by_time_s(process)

    def may_not_know_yet(self, process: Process) -> bool:
        """
        Whether whoever renews may not have been told yet what another thread of the run has just read.

        NB: such a renewal is void, its guards see to that; for longer than one look nobody may be left in the dark.
        """
        is_news = self.declared and process.kernel.now_s - self.declared_s <= self.duration_s / 3
        return is_news and not self.expired and self._by_time_s(process) > 0

    def _by_time_s(self, process: Process) -> float:
        by_boot = process.boot_s() - self.boot_s
        by_wall = (process.wall() - self.wall_at).total_seconds()
        return max(0.0, self.duration_s * 2 / 3 - max(by_boot, by_wall, 0.0))


def lease_name(path: str) -> str | None:
    """The lease that a path names."""
    return unquote(path.rpartition("/")[2]) if "/leases/" in path else None


@dataclass(slots=True, eq=False)
class Agent:
    """
    One run on the wire: its process, its identity, and what may be known of its lease.

    `trips`: what befalls it, by the number of the call (`17`) or of the write of a kind (`place.2`). `cut`: when its own network is down. `told_dead`: whom it was told to
    have ended, and when.
    """

    process: Process
    identity: str
    role: str
    lease: tuple[str, str]
    trips: Mapping[str, Trip] = field(default_factory=dict)
    cut: tuple[tuple[float, float], ...] = ()
    held: Held | None = None
    told_dead: dict[str, float] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    ended: bool = False
    active: bool = False
    sweep_began_s: float | None = None
    released_s: float = -1.0
    owned_after_loss: bool = False
    took_free: bool = False
    spec: DeploySpec | None = None
    careless: bool = False
    printed_s: float = float("inf")
    hidden_sleep: bool = False
    vouched: frozenset[str] = frozenset()
    result: str = ""
    _took: tuple[float, datetime, float] | None = None

    @property
    def gone(self) -> bool:
        """Whether its process is no more."""
        return self.ended or self.process.dead

    def call(self, kind: str = "") -> Trip | None:
        """Count a call; returns what befalls the process at it."""
        self.calls[""] += 1
        trip = self.trips.get(str(self.calls[""]))
        if kind:
            self.calls[kind] += 1
            trip = self.trips.get(f"{kind}.{self.calls[kind]}", trip)
        return trip

    def takes(self, boot_s: float, wall_at: datetime) -> None:
        if self._took is None:
            self._took = (boot_s, wall_at, self.process.kernel.now_s)

    def forget_take(self) -> None:
        """A new try to take the lease begins; nothing of an earlier one can be in flight any more."""
        self._took = None

    def read(self, path: str, answer: Answer) -> None:
        """Learn from a read that the lease is ours although the answer to taking it was lost, or another's."""
        if lease_name(path) != self.lease[1]:
            return
        if self.held is not None and (answer.ok or answer.status == 404):
            if not self.held.declared and not self._is_own(answer):
                self.held.declared, self.held.declared_s = True, self.process.kernel.now_s
        elif self._took is not None and answer.ok:
            self._adopt(json.loads(answer.body), *self._took)

    def _is_own(self, answer: Answer) -> bool:
        """Whether a read shows the lease as this run holds it."""
        spec = json.loads(answer.body)["spec"] if answer.ok else {}
        token = self.held.token if self.held is not None else None
        own = spec.get("holderIdentity") == self.identity and spec.get("leaseTransitions") == token
        if own and self.held is not None and self.held.left_s(self.process) == 0:
            self.owned_after_loss = True
        return own

    def answered(self, write: Write, answer: Answer, boot_s: float, wall_at: datetime) -> None:
        write.lost = self.held is not None and self.held.left_s(self.process) == 0
        if write.kind == "take" and not answer.ok and self._took is not None and self._took[2] == write.sent_s:
            self._took = None  # refused: this one never gave it
        if write.dry or not answer.ok:
            return
        if write.kind == "take":
            self._adopt(json.loads(answer.body), boot_s, wall_at, write.sent_s)
        elif write.kind == "renew" and self.held is not None:
            self.held.expired = self.held.expired or self.held.left_s(self.process) == 0
            self.held.boot_s, self.held.wall_at = boot_s, wall_at
            self.held.acknowledged.append((self.process.kernel.now_s, write.sent_s))
        elif write.kind in ("free", "hand-back"):
            self.held = self._took = None

    def _adopt(self, raw: Any, boot_s: float, wall_at: datetime, sent_s: float) -> None:
        spec = raw["spec"]
        if spec.get("holderIdentity") == self.identity:
            self.held = Held(spec["leaseDurationSeconds"], spec["leaseTransitions"], boot_s, wall_at, [])
            self.held.acknowledged.append((self.process.kernel.now_s, sent_s))
