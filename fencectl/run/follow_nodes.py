"""
The nodes that pods in trouble are on: read by name, a few at a time, since a list of all nodes can be 90 MB.

Where nodes may not be read nothing is said about them, and a failure is one of what was deployed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from fencectl.cluster.read import Asked, ReadFailedError, Reads, path_part
from fencectl.core.readiness import readiness
from fencectl.core.refs import dig
from fencectl.core.rollout import NodeFact
from fencectl.run.follow_feed import Feeds

AGAIN_S = 30.0
AT_ONCE = 50
_READ_S = 10.0
_ASKED = Asked("get", "nodes")


@dataclass(frozen=True, slots=True)
class NodesRead:
    """What was read of some nodes; None: that one could not be read. `forbidden`: why no node may be read."""

    facts: dict[str, NodeFact | None]
    forbidden: str | None = None


@dataclass
class NodeBook:
    """What is known of nodes, and when they are asked about again."""

    facts: dict[str, NodeFact] = field(default_factory=dict)
    forbidden: str | None = None
    _asked_s: dict[str, float] = field(default_factory=dict)
    _is_reading: bool = False

    def ask(self, feeds: Feeds, names: Collection[str], now_s: float) -> None:
        """Read those that are due, in a thread."""
        if self._is_reading or self.forbidden is not None:
            return
        due = sorted(name for name in names if now_s - self._asked_s.get(name, -AGAIN_S) >= AGAIN_S)[:AT_ONCE]
        if not due:
            return
        self._is_reading = True
        self._asked_s |= dict.fromkeys(due, now_s)
        feeds.begin(lambda: feeds.say(_read(feeds, due)), name="fencectl-follow-nodes")

    def take(self, found: NodesRead) -> set[str]:
        """Take in what was read; the nodes of which something new is known."""
        self._is_reading = False
        self.forbidden = found.forbidden
        new = {name for name, fact in found.facts.items() if fact is not None and self.facts.get(name) != fact}
        self.facts |= {name: fact for name, fact in found.facts.items() if fact is not None}
        return new

    def knows(self, names: Collection[str]) -> bool:
        """Whether all is known of these nodes that can be."""
        return self.forbidden is not None or all(name in self.facts for name in names)


def _read(feeds: Feeds, names: list[str]) -> NodesRead:
    reads = Reads(feeds.getter, clock=feeds.clock, deadline_s=_READ_S)
    facts: dict[str, NodeFact | None] = {}
    for name in names:
        try:
            node = reads.object_or_none(f"/api/v1/nodes/{path_part(name)}", asked=_ASKED)
        except ReadFailedError as failed:
            if failed.status in (401, 403):
                return NodesRead(facts, forbidden=failed.why)
            facts[name] = None
            continue
        if node is None:
            facts[name] = NodeFact("it no longer exists")
        else:
            facts[name] = NodeFact(readiness(node).why, dig(node, "spec", "unschedulable") is True)
    return NodesRead(facts)
