"""
What must hold of a deploy's record, commands and end, seen from outside.

I15  A deploy whose exit code says that nothing is fenced has left neither a mark nor the lease.
I16  A command begins while the lease is certainly held, and is dead before its duration is over, counted from the
     send of the last renewal that was acknowledged (unless its deploy was stopped just then); never two at once.
I17  Nothing is fenced by a deploy that has no record yet; nobody touches the record of another run,
     but to tell that it died without an outcome; after that nobody touches it at all.
I18  When a command begins, everything that its deploy is to fence was fenced by it, and where it waits for the drain
     proof, the controller has answered its token while that was suspended; a node command finds its node `mutating`.
I19  When a command begins, the recovery point that the deploy's record tells of is stored whole, and nothing in it is
     marked or suspended (unless somebody has made the object anew).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fencectl.cluster.kinds import record_of
from fencectl.core.errors import ExitCode
from fencectl.core.journal import Phase
from fencectl.core.profiles import HOLDER, JOURNAL
from fencectl.core.recovery_point import BadPointError, part_in, part_ref, read_summary, unpack
from fencectl.core.refs import annotations_of, dig
from fencectl.core.releases import is_own_token
from fencectl.sandbox.storage import Change
from tests.sim.agents import Agent
from tests.sim.foreign import FLUX
from tests.sim.processes import SimProcess
from tests.sim.reading import mark_of

if TYPE_CHECKING:
    from tests.sim.invariants import Monitor

RESUMED_S = 4.0
"""A deploy that was stopped may need so long to end its command: it notices, TERM, a grace, KILL."""


@dataclass(slots=True)
class DeployMonitor:
    """Sees what the monitor sees, and every command that begins and every deploy that ends."""

    all: Monitor
    commands: list[SimProcess] = field(default_factory=list)
    drained: set[tuple[str, str]] = field(default_factory=set)
    gone: set[tuple[str, str]] = field(default_factory=set)

    # Records

    def records(self) -> list[dict[str, Any]]:
        """All records beside the lease."""
        namespace, name = record_of(self.all.lease)
        return _records(self.all.net.sandbox.store.find("configmaps", name, namespace=namespace, shared=True))

    def recorded(self, change: Change, agent: Agent) -> None:
        """A record was written."""
        self.all.counts.records += 1
        # NB: one whose answer was lost may land when its run has freed the lease and ended: it tells of that run, and
        # its guards keep it from any other entry.
        if agent.identity in self.all.stale:
            self.all.fail("I7", f"{agent.process.name} records with a token that was given before")
        after = _records(change.after)
        for one in _records(change.before):
            if one["holder"] != agent.identity and one not in after and not _told_dead(one, after, agent):
                self.all.fail("I17", f"{agent.process.name} writes over the record of {one['holder']}")
            if "foundBy" in one and one not in after:
                self.all.fail("I17", f"{agent.process.name} writes a record of {one['holder']}, told to be dead")

    def must_be_recorded(self, agent: Agent, what: str) -> None:
        """I17: something is fenced."""
        if not any(one["holder"] == agent.identity for one in self.records()):
            self.all.fail("I17", f"{agent.process.name} fences {what} before it is recorded")

    # Objects

    def changed(self, change: Change) -> None:
        """See objects go, and controllers answer."""
        shown = change.shown
        if change.after is None:
            self.gone.add((shown["kind"], shown["metadata"]["name"]))
            return
        handled = dig(change.after, "status", "lastHandledReconcileAt")
        mark = mark_of(change.after) if handled else None
        if mark is None or mark.journal is None or dig(change.after, "spec", "suspend") is not True:
            return
        if is_own_token(handled, str(mark.owner), mark.journal.seq):
            self.drained.add((shown["metadata"]["uid"], str(mark.owner)))

    # Commands

    def command_begins(self, command: SimProcess) -> None:
        """I16, I18: a command of a deploy begins."""
        self.all.counts.commands += 1
        agent, now_s = command.agent, self.all.net.kernel.now_s
        name = agent.process.name
        if agent.held is None or agent.held.left_s(agent.process) == 0:
            self.all.fail("I16", f"{name} begins `{command.command}` under a lease that is lost")
        for other in self.commands:
            stopped = other.agent.process.paused or self._just_resumed(other, now_s)
            if other.agent is not agent and other.dead_s > now_s and not stopped:
                self.all.fail("I16", f"`{command.command}` of {name} and {other.agent.process.name} run at once")
        self.commands.append(command)
        self._must_be_fenced(command)
        self._must_be_restorable(command)

    def _must_be_fenced(self, command: SimProcess) -> None:
        agent, spec = command.agent, command.agent.spec
        if spec is None:
            return
        for name in spec.suspends:
            obj = self._find("kustomizations", "Kustomization", name)
            if obj is None:
                continue
            uid = obj["metadata"]["uid"]
            if not any(key[:2] == (uid, agent.identity) for key in self.all.placed):
                self.all.fail("I18", f"{agent.process.name} begins `{command.command}`, and {name} is not fenced")
            elif spec.drain_s > 0 and (uid, agent.identity) not in self.drained:
                self.all.fail("I18", f"{agent.process.name} begins `{command.command}`, and {name} is not drained")
        for name in () if spec.rolls else spec.nodes:
            obj = self._find("nodes", "Node", name)
            uid = obj["metadata"]["uid"] if obj is not None else None
            if uid is not None and not any(key[:2] == (uid, agent.identity) for key in self.all.placed):
                self.all.fail("I18", f"{agent.process.name} begins `{command.command}`, and {name} is not claimed")
        kind, _, node = command.command.partition(" ")
        obj = self._find("nodes", "Node", node) if kind == "roll" else None
        mark = mark_of(obj) if obj is not None else None
        if obj is not None and (mark is None or mark.journal is None or mark.journal.phase is not Phase.MUTATING):
            self.all.fail("I18", f"{agent.process.name} begins `{command.command}`, and the node does not say so")

    def _must_be_restorable(self, command: SimProcess) -> None:
        agent = command.agent
        title = f"{agent.process.name} begins `{command.command}`"
        (own,) = [one for one in self.records() if one["holder"] == agent.identity][-1:] or [{}]
        summary = read_summary(own.get("recovery"))
        if summary is None:
            self.all.fail("I19", f"{title} without a recovery point")
            return
        refs = [part_ref(self.all.lease, own["generation"], part) for part in range(summary.parts)]
        found = [
            self.all.net.sandbox.store.find("secrets", ref.name, namespace=ref.namespace or "") for ref in refs
        ]
        try:
            point = unpack([part_in(one or {}) for one in found], summary.digest)
        except BadPointError as failure:
            self.all.fail("I19", f"{title}: {failure.sentence}")
            return
        for one in point.objects:
            before = one.before or {}
            is_suspended = dig(before, "spec", "suspend") is True and (one.ref.kind, one.ref.name) not in self.gone
            if HOLDER in annotations_of(before) or JOURNAL in annotations_of(before) or is_suspended:
                self.all.fail("I19", f"{title}, and would put the fence on {one.ref.display} back")

    def _find(self, plural: str, kind: str, name: str) -> dict[str, Any] | None:
        if (kind, name) in self.gone:
            return None
        namespace = FLUX if kind == "Kustomization" else ""
        return self.all.net.sandbox.store.find(plural, name, namespace=namespace, shared=True)

    @staticmethod
    def _just_resumed(command: SimProcess, at_s: float) -> bool:
        """Whether its deploy was stopped at that time, or so shortly before that it could not have ended it yet."""
        return any(begin_s <= at_s <= end_s + RESUMED_S for begin_s, end_s in command.agent.process.pauses)

    # Ends

    def all_ended(self) -> None:
        """I16: every command was dead in time."""
        for command in self.commands:
            held, dead_s = command.held, command.dead_s
            if held is None or self._just_resumed(command, dead_s):
                continue
            sent_s = max(sent_s for at_s, sent_s in held.acknowledged if at_s <= dead_s)
            if dead_s - sent_s > held.duration_s:
                late = f"{dead_s - sent_s - held.duration_s:.1f}s after the lease was over"
                self.all.fail("I16", f"`{command.command}` of {command.agent.process.name} was dead {late}")

    def deploy_ended(self, agent: Agent, code: ExitCode) -> None:
        """I15: a deploy says how it ended."""
        if code is ExitCode.STILL_FENCED:
            return
        marks = self.all.marks()
        left = [seen.ref.display for seen, mark in marks if mark.owner == agent.identity and not mark.kept]
        if self.all.holder == agent.identity:
            left.append("its lease")
        if left:
            self.all.fail("I15", f"{agent.process.name} ends with {int(code)} and leaves {', '.join(left)}")


def _told_dead(one: dict[str, Any], after: list[dict[str, Any]], by: Agent) -> bool:
    """Whether all that was done to another's record is to say that its run died without an outcome, and by whom."""
    told = {"outcome": "interrupted", "foundBy": by.identity}
    kept = [{key: value for key, value in other.items() if key != "foundAt"} for other in after]
    return one.get("outcome") is None and one | told in kept


def _records(config_map: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    data = dig(config_map, "data") or {}
    return [json.loads(text) for key, text in data.items() if key.startswith("record-")]
