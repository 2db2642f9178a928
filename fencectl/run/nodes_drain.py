"""
Drain one node by evictions, as kubectl drain does: disruption budgets are respected, and said when they block.

Each eviction carries the pod's uid, so that it can be sent again after a lost answer, and never takes a pod that
came later under the same name. What is left is seen by listing the node's pods, never concluded from answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from fencectl.cluster.answer import Answer, Refusal, read_refusal
from fencectl.cluster.clock import Clock
from fencectl.cluster.ports import Query
from fencectl.cluster.write import Sender, create
from fencectl.core.answers import Applied
from fencectl.core.drain import (
    Block,
    Evict,
    Fate,
    Name,
    Pod,
    Refuse,
    daemon_set_of,
    judge_pod,
    read_block,
    tolerates_cordon,
)
from fencectl.core.journal import Phase
from fencectl.core.marks import read_mark
from fencectl.core.refs import ObjectRef, dig
from fencectl.core.times import age_text
from fencectl.run.fencing import Fence
from fencectl.run.keeper import Keeper
from fencectl.run.nodes_errors import NodeError, TroubleError
from fencectl.run.nodes_reads import Steps, forbidden, look, look_at_node, pause, pods_on
from fencectl.run.ports import Door
from fencectl.run.story import WRITE_S

POLL_S = 1.0
# As kubectl: a budget changes with the pods behind it, which takes seconds.
BLOCKED_RETRY_S = 5.0
_SHOWN = 5


class _Heard:
    """Passes one write on and keeps the whole answer: a budget's name and Retry-After stand in it."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self.answer: Answer | None = None

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes,
        content_type: str,
        deadline_s: float | None = None,
    ) -> Answer:
        self.answer = self._sender.send(
            method, path, query=query, body=body, content_type=content_type, deadline_s=deadline_s
        )
        return self.answer


@dataclass(slots=True)
class Drain:
    """
    The drain of one claimed node.

    `must_stop`: why no eviction may be sent any more, or None. `tell`: called with each change of what is waited
    for.
    """

    door: Door
    clock: Clock
    keeper: Keeper
    fence: Fence
    timeout_s: float
    must_stop: Callable[[], str | None]
    tell: Callable[[str], None]
    _known: dict[str, Fate] = field(default_factory=dict)
    _next_s: dict[str, float] = field(default_factory=dict)
    _quiet_until_s: float = 0.0
    _blocks: dict[Name, tuple[Block, list[Pod]]] = field(default_factory=dict)
    _said: dict[Name, str] = field(default_factory=dict)
    _left: tuple[Pod, ...] | None = None
    _trouble: str | None = None
    _gone_daemon_sets: dict[Name, bool] = field(default_factory=dict)

    @property
    def _node(self) -> ObjectRef:
        return self.fence.seen.ref

    def steps(self) -> Steps[int]:
        """
        Evict until nothing is left; returns how many pods went.

        Raises NodeError (refused, time-out, the fence changed), NodeGoneError, LeaseLostError or NotReadableError.
        """
        end_s = self.clock.monotonic_s() + self.timeout_s
        while True:
            try:
                if self._is_drained():
                    return sum(isinstance(fate, Evict) for fate in self._known.values())
                self._trouble = None
            except TroubleError as trouble:
                self._trouble = trouble.why
            if self.clock.monotonic_s() >= end_s:
                raise self._too_late()
            yield from pause(self.clock, POLL_S)

    def _is_drained(self) -> bool:
        """Look once, and evict what is due."""
        self._must_be_fenced()
        pods = pods_on(self.door, self._node.name)
        self._judge(pods)
        left = tuple(pod for pod in pods if isinstance(self._known.get(pod.uid), Evict))
        if self._left is None or len(left) != len(self._left):
            self.tell(f"draining, {_count(len(left))} left" if left else "drained")
        self._left = left
        if not left:
            return True
        self._evict_due(left)
        self._tell_blocks(left)
        return False

    def _must_be_fenced(self) -> None:
        seen = look_at_node(self.door, self._node)
        mark, name = read_mark(seen), self._node.display
        if mark is None:
            raise NodeError(f"the mark on {name} was taken away by somebody else", node=self._node, phase=None)
        if mark.journal_text != self.fence.journal.text or mark.holder_text != self.fence.journal.holder:
            raise NodeError(f"the mark on {name} was changed by somebody else", node=self._node, phase=None)
        if dig(seen.raw, "spec", "unschedulable") is not True:
            raise NodeError(
                f"{name} was uncordoned by somebody else while it was drained",
                node=self._node,
                phase=Phase.CLAIMED,
            )

    def _judge(self, pods: Iterable[Pod]) -> None:
        """Decide about the pods that are new; the first time about all of them."""
        first = self._left is None
        # NB: a pod that was bound just before the cordon shows up late and goes too. One that tolerates the cordon
        # comes back for ever; those of the first list are evicted, as kubectl does, and later ones are left.
        new = [pod for pod in pods if pod.uid not in self._known and (first or not tolerates_cordon(pod))]
        fates = {pod.uid: judge_pod(pod, daemon_sets=self._daemon_sets(new)) for pod in new}
        refused = [(pod, fate.why) for pod in new if isinstance(fate := fates[pod.uid], Refuse)]
        if refused:
            named = "; ".join(f"{pod.display}: {why}" for pod, why in refused[:_SHOWN])
            more = f"; and {len(refused) - _SHOWN} more" if len(refused) > _SHOWN else ""
            raise NodeError(
                f"{self._node.display} cannot be drained because of {_count(len(refused))}",
                node=self._node,
                phase=Phase.CLAIMED,
                reason=named + more,
                hint="move or delete them first" + (". Nothing was evicted" if first else ""),
            )
        self._known |= fates

    def _daemon_sets(self, pods: Iterable[Pod]) -> set[Name]:
        for name in {found for pod in pods if (found := daemon_set_of(pod)) is not None}:
            if name not in self._gone_daemon_sets:
                path = f"/apis/apps/v1/namespaces/{name[0]}/daemonsets/{name[1]}"
                right = f"`get` daemonsets.apps (namespace {name[0]})"
                self._gone_daemon_sets[name] = look(self.door, path, right=right) is None
        return {name for name, is_gone in self._gone_daemon_sets.items() if not is_gone}

    def _evict_due(self, left: Iterable[Pod]) -> None:
        for pod in left:
            now_s = self.clock.monotonic_s()
            if pod.is_ending or now_s < self._quiet_until_s or now_s < self._next_s.get(pod.uid, 0.0):
                continue
            if self.must_stop() is not None:
                return
            self.keeper.must_hold(WRITE_S)
            self._evict(pod)

    def _evict(self, pod: Pod) -> None:
        heard = _Heard(self.door)
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction"
        answer = create(heard, path, body, deadline_s=WRITE_S)
        for name, (block, pods) in self._blocks.items():
            self._blocks[name] = (block, [other for other in pods if other.uid != pod.uid])
        if isinstance(answer, Applied):
            return
        if heard.answer is None:
            # Lost or not sent: the next list shows whether it was carried out.
            self._trouble = "the API server gives no answer"
            return
        self._refused(pod, heard.answer)

    def _refused(self, pod: Pod, answer: Answer) -> None:
        said, now_s = read_refusal(answer), self.clock.monotonic_s()
        retry_s = max(BLOCKED_RETRY_S, said.retry_after_s or 0.0)
        block = _block(said)
        if block is not None:
            self._next_s[pod.uid] = now_s + retry_s
            _, blocked = self._blocks.get((pod.namespace, block.budget), (block, []))
            self._blocks[pod.namespace, block.budget] = (block, [*blocked, pod])
        elif said.code in (404, 409):
            return  # gone, or another pod of that name: the next list shows it
        elif said.code in (429, 503):
            self._quiet_until_s = now_s + (said.retry_after_s or POLL_S)
            self._trouble = f"the API server is busy ({said.code})"
        elif said.code in (401, 403) and not _is_ending(said):
            raise forbidden(answer, f"`create` pods/eviction (namespace {pod.namespace})")
        elif said.code == 403 or (said.code >= 500 and "more than one PodDisruptionBudget" not in said.message):
            self._next_s[pod.uid] = now_s + retry_s
            self._trouble = f"{pod.display}: {said.code}: {said.message}"
        else:
            raise NodeError(
                f"{self._node.display} cannot be drained: the API server does not evict {pod.display}",
                node=self._node,
                phase=Phase.CLAIMED,
                reason=f"{said.code}: {said.message}",
            )

    def _tell_blocks(self, left: Iterable[Pod]) -> None:
        here = {pod.uid for pod in left if not pod.is_ending}
        said: dict[Name, str] = {}
        for name, (block, pods) in list(self._blocks.items()):
            held = [pod for pod in pods if pod.uid in here]
            if not held:
                del self._blocks[name]
                continue
            said[name] = _block_text(name, block, held)
            if self._said.get(name) != said[name]:
                self.tell(said[name])
        self._said = said

    def _too_late(self) -> NodeError:
        left = self._left or ()
        whys = [_block_text(name, block, pods) for name, (block, pods) in self._blocks.items()]
        blocked = {pod.uid for _, pods in self._blocks.values() for pod in pods}
        ending = [pod for pod in left if pod.is_ending and pod.uid not in blocked]
        if ending:
            whys.append(f"still ending: {_names(ending)}")
        if self._trouble:
            whys.append(self._trouble)
        what = f"{_count(len(left))} left: {_names(left)}" if left else "its pods could not be listed"
        return NodeError(
            f"{self._node.display} is not drained after {age_text(self.timeout_s)}, {what}",
            node=self._node,
            phase=Phase.CLAIMED,
            timed_out=True,
            reason="; ".join(whys) or None,
        )


def _block(said: Refusal) -> Block | None:
    # NB: by its cause, not by the status: a budget with too many open evictions answers 403.
    return next((read_block(cause.message) for cause in said.causes if cause.reason == "DisruptionBudget"), None)


def _is_ending(said: Refusal) -> bool:
    # In a namespace that is being deleted nothing is evicted; its pods go by themselves.
    return any(cause.reason == "NamespaceTerminating" for cause in said.causes)


def _block_text(name: Name, block: Block, pods: list[Pod]) -> str:
    budget = f"disruption budget {name[0]}/{name[1]}" if name[1] else f"a disruption budget in {name[0]}"
    return f"{budget} holds back {_names(pods)}: {block.why}"


def _names(pods: Iterable[Pod]) -> str:
    names = sorted(pod.display for pod in pods)
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _count(pods: int) -> str:
    return "1 pod" if pods == 1 else f"{pods} pods"
