"""
What must hold after every single write, judged by what is on the server and by what each run can have known.

I1   A fence is released by its own run; or by a recoverer that was told of its end and holds the lease by
     take-over (or sent the release while it still could believe so), when the run is dead or must by its own clocks
     know that it lost the lease; or by a person's printed command under the same condition. Never a node whose work
     is half done, never a kept suspension that nobody vouched for.
I2   Nobody sends a renewal, a placement, a phase, a record, a recovery point, or another run's release once it must know of its loss,
     or with less time left than the write may take. After a loss a deploy resumes what it suspended only where it
     has read that the lease is still its own (or what it fenced last, which may have come too late). A placement
     that lands after the loss is counted, and must be one that
     was under way.
I3   A release restores exactly what the journal says was there before, where nobody else has changed it.
I4   What a run of ours fences carries a mark that can be read; nothing loses its mark and stays fenced that was not
     fenced before; a placement is applied at most once, ever.
I5   At most one deploy at a time is past its second reading, and none gets there over another run's fence.
I6   A lease is freed only when nothing of the run that it stood for is fenced, kept suspensions apart.
I7   The fencing token grows with every holder; one that got an old one of a lease that was deleted does nothing.
I10  No Kustomization is released while an object that it applies is excluded from it; one that was fenced after
     everything had been listed (by a deploy wrongly believed dead, or before a printed command ran) is counted.
I11  Nothing of a run that is truly dead lands after its lease went to others.
I13  A renewal never sets the heartbeat back, nor leaves one that was older by the server's clock when it was sent.
I14  A run that has lost its lease when it is told that a fence of its own has landed takes it back.
I15 to I19: see `deploy_invariants.py`.
I12  A lease is taken over only from a holder that was told dead and did not write it for a whole window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from fencectl.core.answers import explain_refusal
from fencectl.core.journal import Journal, Phase
from fencectl.core.marks import Mark, read_mark
from fencectl.core.patches import GuardedPatch
from fencectl.core.placements import applier_of
from fencectl.core.profiles import DISABLED, RECONCILE
from fencectl.core.refs import Seen, annotations_of, dig
from fencectl.run.story import WRITE_S
from fencectl.sandbox.storage import Change
from tests.sim.agents import Agent, Write
from tests.sim.deploy_invariants import DeployMonitor
from tests.sim.doors import Net
from tests.sim.foreign import FLUX
from tests.sim.look import Oracle
from tests.sim.reading import (
    PLURALS,
    group_of,
    journal_of,
    mark_of,
    not_restored,
    placement_of,
    renewed_at,
    seen_of,
)

WINDOW_S = 40.0
SLOW_CLOCK = timedelta(seconds=9.0)
"""A `Date` is a second long, and the slowest answer takes seven; one renewal is written by what the last one told.
A boot clock that does not count what a machine slept is behind by that as well."""
_GUARDED_BY_LEASE = {"renew", "place", "journal", "record", "evict", "point"}


@dataclass(slots=True)
class Counts:
    """How often the simulation came to the interesting places."""

    writes: int = 0
    placements: int = 0
    late_placements: int = 0
    releases: int = 0
    late_releases: int = 0
    blind_releases: int = 0
    takeovers: int = 0
    hand_backs: int = 0
    actives: int = 0
    records: int = 0
    commands: int = 0

    def add(self, other: Counts) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(slots=True)
class Monitor:
    """Sees every call and every write."""

    net: Net
    oracle: Oracle
    lease: tuple[str, str]
    counts: Counts = field(default_factory=Counts)
    token: int = 0
    lease_written_s: float = -1e9
    freed_by_hand: bool = False
    lease_deleted: bool = False
    stale: set[str] = field(default_factory=set)
    placed: dict[tuple[str, str, int], float] = field(default_factory=dict)
    late: list[tuple[tuple[str, str, int], Agent, Write]] = field(default_factory=list)
    deploys: DeployMonitor = field(init=False)

    def __post_init__(self) -> None:
        self.deploys = DeployMonitor(self)

    def attach(self) -> None:
        self.net.on_call = self.called
        self.net.on_refused = self.refused
        self.net.sandbox.storage.on_change(self.changed)

    def fail(self, number: str, what: str) -> None:
        """Note that the invariant of this number does not hold."""
        self.net.kernel.fail(f"{number}: {what}")

    @property
    def agents(self) -> Mapping[str, Agent]:
        return self.oracle.agents

    def _agent_of(self, write: Write) -> Agent:
        return next(agent for agent in self.agents.values() if agent.process is write.process)

    # Calls

    def called(self, write: Write) -> None:
        """I2: what a run decides to send, with what it knows then."""
        agent = self._agent_of(write)
        if write.kind == "release" and agent.role == "deploy":
            self._own_release(agent, write)
        foreign_release = write.kind == "release" and agent.role == "recoverer"
        if agent.role == "operator" or not (write.kind in _GUARDED_BY_LEASE or foreign_release):
            return
        need_s = 0.0 if write.kind == "renew" else WRITE_S
        if write.left_s is None:
            self.fail("I2", f"{agent.process.name} sends `{write.kind} {write.path}` without a lease")
        elif write.left_s <= need_s:
            if write.kind == "renew" and agent.held is not None and agent.held.may_not_know_yet(agent.process):
                return
            left = f"with {write.left_s:.1f}s of its lease left"
            self.fail("I2", f"{agent.process.name} sends `{write.kind} {write.path}` {left}")

    def _own_release(self, agent: Agent, write: Write) -> None:
        """I2, after a loss: nodes always; a suspension only under an own lease, or where it may have come too late."""
        if write.left_s or "/nodes/" in write.path:
            return
        own = [key for key in self.placed if key[1] == agent.identity]
        last = max(own, key=lambda key: key[2], default=("", "", 0))
        held = agent.held
        if held is None or held.declared or not agent.owned_after_loss:
            target = write.path.rpartition("/")[2]
            found = self.net.sandbox.store.find("kustomizations", target, namespace=FLUX, shared=True)
            if found is not None and found["metadata"]["uid"] != last[0]:
                self.fail("I2", f"{agent.process.name} resumes {target} although its lease is lost")

    def refused(self, patch: GuardedPatch) -> None:
        """A printed command is refused only where something that matters has changed."""
        target = patch.target
        found = self.net.sandbox.store.find(target.plural, target.name, namespace=target.namespace or "")
        broken = explain_refusal(patch, found)
        if broken is None or broken.path == "/metadata/resourceVersion":
            why = broken.sentence if broken else "nothing has changed"
            self.fail("I8", f"the printed command for {target.display} is refused over nothing: {why}")

    # Writes

    def changed(self, change: Change) -> None:
        write = self.net.applying
        shown = change.shown
        kind = shown.get("kind")
        if kind == "ConfigMap" and write is not None:
            self.deploys.recorded(change, self._agent_of(write))
        if kind not in PLURALS:
            return
        if kind in ("Node", "Kustomization"):
            self.deploys.changed(change)
        if write is not None:
            self.counts.writes += 1
        if kind == "Lease":
            self._lease_changed(change, write)
        elif write is not None:
            self._object_changed(change, write)

    def ended(self) -> None:
        """I14: once everybody has ended, nothing is left that its run knew to be late and could take back."""
        left = {placement_of(seen, mark): seen.ref.display for seen, mark in self.marks()}
        for key, agent, write in self.late:
            told = write.reply is not None and write.reply.ok and write.lost
            if key in left and told and agent.ended and "still fenced" not in agent.result:
                self.fail("I14", f"{agent.process.name} leaves {left[key]}, which it fenced too late")

    # Leases

    def _lease_changed(self, change: Change, write: Write | None) -> None:
        if change.name != self.lease:
            return
        if change.after is None:
            # NB: a lease that is made anew goes on from what the record beside it knows.
            self.lease_deleted, self.token = True, max((one["token"] for one in self.deploys.records()), default=0)
            return
        before, after = change.before or {}, change.after
        was, now = dig(before, "spec", "holderIdentity") or "", dig(after, "spec", "holderIdentity") or ""
        old, new = dig(before, "spec", "leaseTransitions") or 0, dig(after, "spec", "leaseTransitions") or 0
        quiet_s = self.net.kernel.now_s - self.lease_written_s
        self.lease_written_s = self.net.kernel.now_s
        if write is None:
            return
        agent = self._agent_of(write)
        name = agent.process.name
        if now == was and new == old:
            if was and was != agent.identity:
                self.fail("I2", f"{name} renews the lease of {was}")
            elif agent.held is not None and agent.held.token != new:
                self.fail("I2", f"{name} renews a lease that has gone from token {agent.held.token} to {new}")
            else:
                self._renewed(agent, write, renewed_at(before), renewed_at(after))
            return
        if not now:
            self._freed(agent, was, journal_of(before))
            return
        if new <= self.token and self.lease_deleted:
            self.stale.add(now)
        elif new <= self.token:
            self.fail("I7", f"{now} holds the lease with token {new} after token {self.token}")
        self.token = max(self.token, new)
        if now != agent.identity:
            self.counts.hand_backs += 1
            if was != agent.identity:
                self.fail("I2", f"{name} hands a lease back that {was or 'nobody'} holds")
        agent.took_free = not was
        if now == agent.identity and was:
            self._taken_over(agent, was, quiet_s, dig(before, "spec", "leaseDurationSeconds") or 0)
        self._at_most_one_active()

    def _renewed(self, agent: Agent, write: Write, was_at: datetime | None, at: datetime | None) -> None:
        now_at = self.net.sandbox.clock.now()
        sent_at = now_at - timedelta(seconds=self.net.kernel.now_s - write.called_s)
        name = agent.process.name
        if at is None or (was_at is not None and at < min(was_at, now_at)):
            self.fail("I13", f"{name} sets the heartbeat back from {was_at} to {at}")
        elif at < sent_at - SLOW_CLOCK - timedelta(seconds=agent.process.unseen_s):
            self.fail("I13", f"{name} sends a heartbeat at {sent_at} that says {at}")

    def _taken_over(self, agent: Agent, was: str, quiet_s: float, duration_s: float) -> None:
        self.counts.takeovers += 1
        if agent.role != "recoverer" or was not in agent.told_dead:
            self.fail("I12", f"{agent.process.name} takes the lease from {was} without a proof of its end")
        window_s = max(WINDOW_S, min(duration_s, 300.0))
        if quiet_s < window_s:
            self.fail("I12", f"{agent.process.name} takes over a lease that was written {quiet_s:.1f}s ago")

    def _freed(self, agent: Agent, was: str, journal: Journal | None) -> None:
        if agent.role == "operator":
            # NB: a printed command knows nothing of what landed since, or was left out by a careless hand.
            self.freed_by_hand = True
            if was not in agent.told_dead:
                self.fail("I1", f"{agent.process.name} frees the lease of {was}, which it was not told dead")
            return
        if was != agent.identity:
            self.fail("I2", f"{agent.process.name} frees the lease of {was}")
            return
        run = journal.recovering if journal is not None and journal.recovering else agent.identity
        swept_s = agent.sweep_began_s
        for seen, mark in self.marks():
            if group_of(mark) != run or mark.kept:
                continue
            placed_s = self.placed.get(placement_of(seen, mark), -1.0)
            if agent.role == "recoverer" and agent.took_free:
                continue  # it was free before: a recovery that stops leaves it so
            swept = swept_s is not None and swept_s >= agent.released_s
            if agent.role == "recoverer" and swept and swept_s is not None and placed_s >= swept_s:
                continue  # it landed while it was looked for: visible, and the next reading finds it
            self.fail("I6", f"{agent.process.name} frees the lease while {seen.ref.display} of {run} is fenced")

    # Deploys

    def became_active(self, agent: Agent, second_reading_s: float) -> None:
        """I5: a deploy is past its second reading."""
        self.counts.actives += 1
        for seen, mark in self.marks():
            if mark.owner != agent.identity and self.placed.get(placement_of(seen, mark), -1.0) < second_reading_s:
                self.fail("I5", f"{agent.process.name} begins over {seen.ref.display} of {mark.owner}")
        self._at_most_one_active()

    def _at_most_one_active(self) -> None:
        active = [agent for agent in self.agents.values() if agent.active and self._is_live(agent)]
        if len(active) > 1:
            self.fail("I5", f"{' and '.join(agent.process.name for agent in active)} deploy at once")

    @staticmethod
    def _is_live(agent: Agent) -> bool:
        """Whether it runs (or will go on) and may believe that it holds its lease."""
        return not agent.gone and agent.held is not None and agent.held.left_s(agent.process) > 0

    # Fenced objects

    def _object_changed(self, change: Change, write: Write) -> None:
        agent = self._agent_of(write)
        before = mark_of(change.before)
        after = mark_of(change.after)
        seen = seen_of(change.shown)
        name = agent.process.name
        if after is not None and (after.problem is not None or after.journal is None):
            self.fail("I4", f"{name} leaves a mark on {seen.ref.display} that cannot be read: {after.problem}")
        elif before is None and after is None:
            self.fail("I4", f"{name} changes {seen.ref.display}, which carries no mark")
        elif before is None and after is not None:
            self._placed(agent, write, seen, after)
        elif before is not None and after is not None:
            self._rewritten(agent, seen, before)
        elif before is not None and change.before is not None:
            self._released(agent, write, seen_of(change.before), seen, before)

    def _placed(self, agent: Agent, write: Write, seen: Seen, mark: Mark) -> None:
        self.counts.placements += 1
        if mark.owner != agent.identity or agent.role != "deploy":
            self.fail("I4", f"{agent.process.name} fences {seen.ref.display} in the name of {mark.owner}")
        key = placement_of(seen, mark)
        if key in self.placed:
            self.fail("I4", f"{seen.ref.display} is fenced again by a placement of {mark.owner} that was released")
        self.placed[key] = self.net.kernel.now_s
        if not self._holds(agent):
            self.late.append((key, agent, write))
        self.deploys.must_be_recorded(agent, seen.ref.display)
        self._under_way(agent, write, f"fences {seen.ref.display}")

    def _under_way(self, agent: Agent, write: Write, what: str) -> None:
        """A write that needs the lease lands: it is still held, or the write was under way before that was over."""
        if agent.identity in self.stale:
            self.fail("I7", f"{agent.process.name} {what} with a token that was given before")
        if self._holds(agent):
            return
        self.counts.late_placements += 1
        lied = agent.identity in self.oracle.lied_about
        # NB: whoever sleeps between its last check and the send writes when no heartbeat can tell of it any more.
        slept = self.freed_by_hand and write.sent_s - write.called_s > 1.0
        if not (lied or slept or self.lease_deleted):
            self.fail("I11", f"{agent.identity} {what} after its lease went to others ({write.path})")

    def _holds(self, agent: Agent) -> bool:
        spec = dig(self._lease(), "spec")
        held = agent.held
        return (
            dig(spec, "holderIdentity") == agent.identity
            and held is not None
            and dig(spec, "leaseTransitions") == held.token
        )

    def _rewritten(self, agent: Agent, seen: Seen, before: Mark) -> None:
        if before.owner != agent.identity:
            self.fail("I1", f"{agent.process.name} rewrites the mark of {before.owner} on {seen.ref.display}")

    def _released(self, agent: Agent, write: Write, was: Seen, now: Seen, mark: Mark) -> None:
        self.counts.releases += 1
        agent.released_s = self.net.kernel.now_s
        where = f"{agent.process.name} releases {was.ref.display} of {mark.owner}"
        if mark.journal is None:
            self.fail("I1", f"{where}, whose journal cannot be read")
            return
        if mark.owner != agent.identity:
            self._released_by_another(agent, write, was, mark, mark.journal, where)
        if not agent.careless:
            self._ancestors(agent, was, where)
        for field_name, wanted, found in not_restored(was, now, mark.journal):
            self.fail("I3", f"{where}: {field_name} is {found!r} and not {wanted!r}")

    def _released_by_another(
        self, agent: Agent, write: Write, was: Seen, mark: Mark, journal: Journal, where: str
    ) -> None:
        owner = self.agents.get(str(mark.owner))
        if mark.owner not in agent.told_dead:
            self.fail("I1", f"{where}, which nobody told it to be dead")
        if owner is not None and self._is_live(owner):
            self.fail("I1", f"{where}, which is alive and holds its lease by every clock of its own")
        vouched = was.ref.display in agent.vouched
        if journal.phase in (Phase.MUTATING, Phase.KEPT) and not vouched:
            self.fail("I1", f"{where} in phase {journal.phase.value}")
        if agent.role == "recoverer" and not self._recovers(agent, group_of(mark)):
            self.counts.late_releases += 1
            # NB: judged when it was called (I2); one that was under way harms nobody, its guards see to that.
            if write.left_s is None:
                self.fail("I1", f"{where} without having taken the lease")

    def _recovers(self, agent: Agent, run: str) -> bool:
        journal = journal_of(self._lease())
        return self._holds(agent) and journal is not None and journal.recovering == run

    def _ancestors(self, agent: Agent, was: Seen, where: str) -> None:
        """I10: nothing that this Kustomization applies is excluded from it by a fence."""
        if was.ref.kind != "Kustomization":
            return
        for seen, mark in self.marks():
            excluded = annotations_of(seen.raw).get(RECONCILE) == DISABLED
            ours = mark.journal is not None and "reconcile" in mark.journal.prior
            itself = (seen.ref.namespace, seen.ref.name) == (was.ref.namespace, was.ref.name)
            listed_s = agent.printed_s if agent.sweep_began_s is None else agent.sweep_began_s
            if self.placed.get(placement_of(seen, mark), -1.0) >= listed_s:
                self.counts.blind_releases += 1  # nobody can know of what landed since all was listed
                continue
            if excluded and ours and not itself and applier_of(seen.raw) == (was.ref.namespace, was.ref.name):
                self.fail("I10", f"{where} while {seen.ref.display} is excluded from it")

    # Reading the server

    def _lease(self) -> dict[str, Any] | None:
        namespace, name = self.lease
        return self.net.sandbox.store.find("leases", name, namespace=namespace, shared=True)

    @property
    def holder(self) -> object:
        """Who holds the lease."""
        return dig(self._lease(), "spec", "holderIdentity")

    def marks(self) -> list[tuple[Seen, Mark]]:
        """Every marked object."""
        store = self.net.sandbox.store
        found = []
        nodes, flux = store.list("nodes", shared=True), store.list("kustomizations", namespace=FLUX, shared=True)
        for obj in (*nodes, *flux):
            seen = seen_of(obj)
            mark = read_mark(seen)
            if mark is not None:
                found.append((seen, mark))
        return found
