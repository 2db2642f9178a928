"""
A deploy as far as its fences go, on the wire exactly as the contract has it: the stand-in for the real `deploy`.

It looks, takes the lease, looks again, fences (outermost first), works, and releases in reverse; every write proves
first that the lease is held, a lost answer is sent again, a fence that came too late is taken back, and what it may
still do after a loss depends on how the lease was lost. Replace `Deploy` by the real transaction and keep the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fencectl.cluster.write import create, send
from fencectl.core.answers import Answer, Applied, Refused, Unknown, Why
from fencectl.core.errors import FencectlError, NotReadableError
from fencectl.core.journal import Journal, LeaseRef, Phase
from fencectl.core.lease import LeaseTerms, acquire_lease, free_own_lease, new_lease
from fencectl.core.marks import Mark, read_mark
from fencectl.core.placements import CannotPlace, Placed, place_cordon, place_suspension, rewrite_journal
from fencectl.core.plan import keeping_order
from fencectl.core.refs import ObjectRef, Seen, dig
from fencectl.core.releases import CannotLift, lift_cordon, lift_suspension
from fencectl.run.keeper import Keeper, LeaseLostError, Loss
from fencectl.run.servertime import DatedDoor, ServerTime
from fencectl.run.story import PAUSE_S, WRITE_S, StoppedError, read
from tests.sim.agents import Agent
from tests.sim.deploy_spec import DeployFailedError, DeploySpec
from tests.sim.doors import Net, SimDoor
from tests.sim.kernel import SimClock, SimThreads
from tests.sim.look import Eyes, Oracle

KUSTOMIZATIONS = ("kustomize.toolkit.fluxcd.io/v1", "Kustomization", "kustomizations")
RELEASE_BUDGET_S = 90.0


@dataclass(slots=True)
class _Fence:
    """One fence in the ledger. `settled`: whether it is known to have been placed."""

    ref: ObjectRef
    settled: bool


@dataclass(slots=True)
class Deploy:
    """One run; `agent.result` says how it ended."""

    net: Net
    agent: Agent
    oracle: Oracle
    spec: DeploySpec
    on_active: Callable[[Agent, float], None]
    _keeper: Keeper | None = None
    _lease: Seen | None = None
    _lease_ref: LeaseRef | None = None
    _seq: int = 0
    _ledger: list[_Fence] = field(default_factory=list)
    _door: DatedDoor = field(init=False)
    _clock: SimClock = field(init=False)
    _server_time: ServerTime = field(init=False)
    _late: ObjectRef | None = None

    def __post_init__(self) -> None:
        self._clock = SimClock(self.agent.process)
        self._server_time = ServerTime(self._clock)
        self._door = DatedDoor(SimDoor(self.net, self.agent.process, self.agent), self._server_time)

    def run(self) -> None:
        agent = self.agent
        try:
            agent.result = self._run()
        except FencectlError as failure:
            agent.result = f"failed: {failure.sentence}: {failure.reason}"
        agent.process.say(f"ends: {agent.result}")
        agent.active = False
        agent.ended = True
        agent.process.kill("exits")

    def _run(self) -> str:
        eyes = Eyes(SimDoor(self.net, self.agent.process, self.agent), self.agent, self.oracle)
        refused = self._wait_for_fences(eyes) or self._take()  # (1), (2)
        if refused:
            return refused
        began_s = self.net.kernel.now_s
        try:
            held = self._read_again(eyes)  # (2)
            if held is not None:
                return f"refused: {held} is held; {self._free()}"
            self._must_hold(0.0)
            self.agent.active = True
            self.on_active(self.agent, began_s)
            self._watch_payload()
            self._fence()  # (4), (6)
            self._work()  # (8)
        except LeaseLostError as lost:
            return self._after_loss(lost)
        except (DeployFailedError, NotReadableError, StoppedError) as failure:
            return f"failed: {failure.sentence}; {self._unwind()}"
        return self._unwind()  # (10)

    def _read_again(self, eyes: Eyes) -> str | None:
        """Read the fences once more under the lease; the first one that is another's."""
        runs = eyes.must_be_whole(eyes.runs())
        others = [found for found in runs.reading.found if found.group != self.agent.identity]
        return others[0].ref.display if others else None

    # (1)

    def _wait_for_fences(self, eyes: Eyes) -> str | None:
        ends_s = self._clock.monotonic_s() + self.spec.waits_s
        while True:
            try:
                runs = eyes.must_be_whole(eyes.runs())
                held = [found.ref.display for found in runs.reading.found]
            except NotReadableError as failure:
                held = [failure.sentence]
            if not held:
                return None
            if self._clock.monotonic_s() >= ends_s:
                return f"refused: {held[0]} is held"
            self._clock.wait(None, 5.0)

    # (2)

    def _take(self) -> str | None:
        """Take the lease; returns why not."""
        self.agent.forget_take()
        sent_s, sent_at = self._clock.monotonic_s(), self._clock.wall()
        for _ in range(6):
            try:
                seen = self._read_lease()
            except NotReadableError:
                self._clock.wait(None, PAUSE_S)
                continue
            holder = dig(seen.raw, "spec", "holderIdentity") if seen is not None else None
            if seen is not None and holder == self.agent.identity:
                return self._adopt(seen, sent_s, sent_at)
            if holder:
                return f"refused: {holder} holds the lease"
            match self._send_take(seen):
                case Applied(raw):
                    return self._adopt(self._named_lease(raw), sent_s, sent_at)
                case _:
                    self._clock.wait(None, PAUSE_S)
        return "failed: nobody can say whether the lease was taken"

    def _send_take(self, seen: Seen | None) -> Answer:
        terms = LeaseTerms(self.agent.identity, self.spec.duration_s, self._server_time.now(), self._journal(0))
        namespace, name = self.agent.lease
        if seen is None:
            collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
            return create(self._door, collection, new_lease(namespace, name, terms), deadline_s=WRITE_S)
        taken = acquire_lease(seen, terms)
        if isinstance(taken, CannotPlace):
            raise DeployFailedError(taken.why)
        return send(self._door, taken.patch, deadline_s=WRITE_S)

    def _adopt(self, lease: Seen, sent_s: float, sent_at: Any) -> str | None:
        self._lease = lease
        token = int(dig(lease.raw, "spec", "leaseTransitions"))
        namespace, name = self.agent.lease
        self._lease_ref = LeaseRef(namespace, name, lease.ref.uid, self.spec.duration_s, token)
        self._keeper = Keeper(
            SimDoor(self.net, self.agent.process, self.agent),
            self._clock,
            lease,
            holder=self.agent.identity,
            duration_s=self.spec.duration_s,
            sent_s=sent_s,
            sent_at=sent_at,
            server_time=self._server_time,
        )
        self._keeper.start(SimThreads(self.agent.process))
        return None

    def _watch_payload(self) -> None:
        """The payload is dead before the lease can be another's: a thread that looks for itself."""

        def watch() -> None:
            keeper = self._keeper
            while keeper is not None and self.agent.active and keeper.held_for_s() > 0:
                self._clock.wait(None, 0.5)
            if self.agent.active and self.agent.held is not None:
                self.agent.held.declared = True
                self.agent.active = False
                self.agent.process.say("the payload is stopped: the lease is lost")

        SimThreads(self.agent.process).start(watch, name="payload")

    def _must_hold(self, for_s: float) -> None:
        if self._keeper is not None:
            self._keeper.must_hold(for_s)

    # (4), (6)

    def _fence(self) -> None:
        for rank, name in enumerate(self.spec.suspends, 1):
            ref = ObjectRef(*KUSTOMIZATIONS, "flux-system", name, "")
            self._place(ref, rank, place_suspension)
        for name in self.spec.nodes:
            self._place(ObjectRef("v1", "Node", "nodes", None, name, ""), 1000, place_cordon)

    def _place(self, ref: ObjectRef, rank: int, build: Callable[[Seen, Journal], Placed | CannotPlace]) -> None:
        seen = self._read(ref)
        if seen is None:
            raise DeployFailedError(f"there is no {ref.display}")
        placed = build(seen, self._journal(rank))
        if isinstance(placed, CannotPlace):
            raise DeployFailedError(f"{ref.display} cannot be fenced: {placed.why}")
        fence = _Fence(seen.ref, settled=False)
        self._ledger.append(fence)
        while True:
            self._must_hold(WRITE_S)
            match send(self._door, placed.patch, deadline_s=WRITE_S):
                case Applied():
                    break
                case Unknown() | Refused(Why.BUSY):
                    # NB: a lost answer is no failure: the same again, until it is refused or applied.
                    self._clock.wait(None, PAUSE_S)
                case Refused(_, status, detail):
                    if not self._is_placed(seen.ref, placed):
                        self._ledger.remove(fence)
                        raise DeployFailedError(f"{ref.display} could not be fenced ({status}: {detail})")
                    break
        fence.settled = True
        self._late = seen.ref
        self._must_hold(0.0)
        self._late = None

    def _is_placed(self, ref: ObjectRef, placed: Placed) -> bool:
        """Whether the very state that this run wrote is there."""
        seen = self._read(ref)
        mark = read_mark(seen) if seen is not None else None
        return mark is not None and mark.journal_text == placed.journal.text

    # (8)

    def _work(self) -> None:
        for name in self.spec.nodes:
            ref = ObjectRef("v1", "Node", "nodes", None, name, "")
            self._enter(ref, Phase.MUTATING)
            self._clock.wait(None, self.spec.works_s)
            self._enter(ref, Phase.VERIFIED)
        self._clock.wait(None, self.spec.works_s)
        if self.spec.keeps:
            for _, name in keeping_order(enumerate(self.spec.suspends, 1), rank=lambda one: one[0]):
                self._enter(ObjectRef(*KUSTOMIZATIONS, "flux-system", name, ""), Phase.KEPT)

    def _enter(self, ref: ObjectRef, phase: Phase) -> None:
        while True:
            seen = self._read(ref)
            mark = self._own_mark(seen)
            if seen is None or mark is None or mark.journal is None:
                raise DeployFailedError(f"{ref.display} does not carry our mark any more")
            if mark.journal.phase is phase:
                return
            self._must_hold(WRITE_S)
            story = mark.journal.with_phase(phase, at=self._clock.wall())
            if isinstance(
                send(self._door, rewrite_journal(seen, mark.journal, story), deadline_s=WRITE_S), Applied
            ):
                return
            self._clock.wait(None, PAUSE_S)

    # (10)

    def _unwind(self) -> str:
        """Release in reverse while the lease is held; free it last."""
        try:
            left = self._release_all(lambda: self._must_hold(WRITE_S), lambda _: True)
        except LeaseLostError as lost:
            return self._after_loss(lost)
        return "still fenced" if left else self._free()

    def _release_all(self, check: Callable[[], None], may: Callable[[Seen], bool]) -> bool:
        """Whether something is left. A refusal stops the next rank; here: the next fence."""
        ends_s = self._clock.monotonic_s() + RELEASE_BUDGET_S
        left = False
        for fence in reversed(self._ledger):
            outcome = self._release(fence, check, may, ends_s)
            if outcome is None:
                return True
            left = left or not outcome
        return left

    def _release(
        self, fence: _Fence, check: Callable[[], None], may: Callable[[Seen], bool], ends_s: float
    ) -> bool | None:
        """True: it is settled. False: left on purpose. None: it cannot be released, and nothing below may be."""
        while self._clock.monotonic_s() < ends_s:
            try:
                seen = self._read(fence.ref)
            except (NotReadableError, StoppedError):
                self._clock.wait(None, PAUSE_S)
                continue
            mark = self._own_mark(seen)
            if seen is None or mark is None or mark.journal is None:
                # NB: a placement whose answer was lost may still be under way, and then fence a child.
                return fence.settled or (False if fence.ref.kind == "Node" else None)
            if mark.kept:
                return True
            if not may(seen) or mark.journal.phase is Phase.MUTATING:
                return None if mark.journal.phase is Phase.MUTATING else False
            lifted = (lift_cordon if seen.ref.kind == "Node" else lift_suspension)(seen, mark.journal)
            if isinstance(lifted, CannotLift):
                return None
            check()
            if isinstance(send(self._door, lifted.patch, deadline_s=WRITE_S), Applied):
                return True
            self._clock.wait(None, PAUSE_S)
        return None

    def _free(self) -> str:
        keeper, lease = self._keeper, self._lease
        if keeper is None or lease is None:
            return "no lease"
        keeper.stop()
        self.agent.active = False
        patch = free_own_lease(lease, holder=keeper.holder, transitions=keeper.transitions)
        for _ in range(10):
            if isinstance(send(self._door, patch, deadline_s=WRITE_S), Applied):
                return "done"
            try:
                if not self._is_ours(self._read_lease()):
                    return "done"
            except NotReadableError:
                pass
            self._clock.wait(None, PAUSE_S)
        return "the lease could not be freed"

    # After loss

    def _after_loss(self, lost: LeaseLostError) -> str:
        """What is allowed then depends on whose the lease is now; the answer may take a while."""
        agent = self.agent
        agent.active = False
        if agent.held is not None:
            agent.held.declared = True
        agent.process.say(f"{lost.sentence}: {lost.reason}")
        if self._keeper is not None:
            self._keeper.stop()
        stolen = lost.loss is Loss.STOLEN or self._is_stolen()
        if stolen is None:
            return f"{lost.sentence}: still fenced, nobody answers"
        left = self._release_all(lambda: None, self._may_after_theft if stolen else lambda _: True)
        if stolen or left:
            return f"{lost.sentence}: {'stolen' if stolen else 'still fenced'}"
        return f"{lost.sentence}; {self._free()}"

    def _may_after_theft(self, seen: Seen) -> bool:
        late = {self._late, *(fence.ref for fence in self._ledger if not fence.settled)}
        return seen.ref.kind == "Node" or seen.ref in late

    def _is_stolen(self) -> bool | None:
        """None: nobody answered within the budget."""
        for _ in range(int(RELEASE_BUDGET_S)):
            try:
                return not self._is_ours(self._read_lease())
            except (NotReadableError, StoppedError):
                self._clock.wait(None, PAUSE_S)
        return None

    def _is_ours(self, seen: Seen | None) -> bool:
        keeper = self._keeper
        return (
            seen is not None
            and keeper is not None
            and dig(seen.raw, "spec", "holderIdentity") == self.agent.identity
            and dig(seen.raw, "spec", "leaseTransitions") == keeper.transitions
        )

    # Small

    def _own_mark(self, seen: Seen | None) -> Mark | None:
        mark = read_mark(seen) if seen is not None else None
        return mark if mark is not None and mark.owner == self.agent.identity else None

    def _journal(self, rank: int) -> Journal:
        self._seq += 1
        at = self._clock.wall()
        return Journal(self.agent.identity, "", self._seq, rank, at, Phase.HELD, lease=self._lease_ref)

    def _read(self, ref: ObjectRef) -> Seen | None:
        return read(self._door, ref)

    def _read_lease(self) -> Seen | None:
        namespace, name = self.agent.lease
        return self._read(ObjectRef("coordination.k8s.io/v1", "Lease", "leases", namespace, name, ""))

    def _named_lease(self, raw: Any) -> Seen:
        namespace, name = self.agent.lease
        uid = str(dig(raw, "metadata", "uid"))
        return Seen(ObjectRef("coordination.k8s.io/v1", "Lease", "leases", namespace, name, uid), raw)
