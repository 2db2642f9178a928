"""
Verdicts on DaemonSets, node by node: updated, failing and why, or not confirmed.

Counts alone cannot tell a bad version from a node that is down (kubernetes/kubernetes issue 139226): a pod on such
a node is unavailable, holds up the rollout where `maxUnavailable` is small, and is no fault of what was deployed.
A cordon stops no DaemonSet pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fencectl.core.refs import Raw, annotations_of, dig, is_deleting
from fencectl.core.rollout import Around, Cause, Judgement, NodeRollout, NodeState, PodTrouble, Target
from fencectl.core.rollout_pods import (
    doom,
    doom_words,
    is_finished,
    is_ready,
    node_of,
    owned,
    text,
    trouble_of,
    troubles,
)
from fencectl.core.rollout_reading import count, done, not_seen, section, unknown, waiting, whole
from fencectl.core.rollout_workloads import BLOCKED_GRACE_S, STEADY_S, uid_of

# The server keeps both (pkg/controller/daemon/util IsPodUpdated): every change of the template counts one up.
_TEMPLATE = "deprecated.daemonset.template.generation"
_TEMPLATE_OF_POD = "pod-template-generation"
_SHOWN = 3
_DOOMED = frozenset({Cause.CRASH, Cause.CONFIG, Cause.IMAGE})


def judge_daemon_set(target: Target, obj: Raw, around: Around) -> Judgement:
    """Judge one look at a DaemonSet."""
    early = not_seen(target, obj)
    if early is not None:
        return early
    status = section(obj, "status")
    desired = whole(status, "desiredNumberScheduled", "status")
    if desired is None:
        return waiting(Cause.NOT_SEEN, "its controller has not counted its nodes yet")
    updated, available = count(status, "updatedNumberScheduled"), count(status, "numberAvailable")
    # NB: on a node that is down a pod ends for ever, and is all that is known of that node.
    pods = [pod for pod in owned(around.pods, uid_of(obj), ending=True) if not is_finished(pod)]
    new = [pod for pod in pods if is_new(pod, obj) and not is_deleting(pod)]
    nodes = _nodes(obj, pods, around)
    every = troubles(pods, around.nodes)
    if updated >= desired and available >= desired:
        # NB: a node that is down is not desired any more, once its taint is seen; the pod on it is as it was.
        left = [one for one in nodes if one.state is not NodeRollout.UPDATED] if around.pods else []
        more = f"; not confirmed on {_names([one.node for one in left])}" if left else ""
        reason = f"updated and available on {_count(desired)}{more}"
        return done(reason, grace_s=STEADY_S, pods=every, nodes=nodes)
    bad = troubles(new, around.nodes)
    state = f"updated on {updated} of {_count(desired)}, available on {available}"
    judgement = doom(bad)
    if judgement is not None:
        failing = [one.node for one in nodes if one.state is NodeRollout.FAILING]
        reason = f"{judgement.reason} on {_names(failing)}"
        return replace(judgement, reason=reason, nodes=nodes)
    down = [one.node for one in nodes if one.state is not NodeRollout.UPDATED and _down(one.node, around)]
    if section(obj, "spec", "updateStrategy").get("type") == "OnDelete" and updated < desired and not down:
        reason = f"its strategy is OnDelete, and the pods of {updated} of {_count(desired)} were replaced"
        return unknown(Cause.ON_DELETE, reason, grace_s=BLOCKED_GRACE_S, pods=bad, nodes=nodes)
    if down and _only_held_up_by_nodes(bad):
        held = "" if updated >= desired else ", and the rollout waits for it"
        verb = "is down" if len(down) == 1 else "are down"
        reason = f"{state}; {_names(down)} {verb}{held}"
        return waiting(Cause.NODE, reason, pods=every, nodes=nodes)
    cause = Cause.ROLLING if updated < desired else Cause.NOT_READY
    open_nodes = [one for one in nodes if one.state is not NodeRollout.UPDATED]
    first = f"; {open_nodes[0].node}: {open_nodes[0].why}" if open_nodes else ""
    return waiting(cause, f"{state}{first}", pods=every, nodes=nodes)


def is_new(pod: Raw, daemon_set: Raw) -> bool:
    """Whether a pod was made from the present template."""
    wanted = annotations_of(daemon_set).get(_TEMPLATE)
    return wanted is not None and dig(pod, "metadata", "labels", _TEMPLATE_OF_POD) == wanted


def _only_held_up_by_nodes(bad: Sequence[PodTrouble]) -> bool:
    # NB: pods that just start elsewhere are no evidence against it; what is doomed was found before.
    return all(one.cause is Cause.NODE for one in bad)


def _nodes(daemon_set: Raw, pods: Sequence[Raw], around: Around) -> tuple[NodeState, ...]:
    """What each node says that a pod of it is on, worst first."""
    by_node: dict[str, NodeState] = {}
    for pod in pods:
        node = node_of(pod) or _meant_for(pod)
        if node is None:
            continue
        state = _state(node, pod, daemon_set, around)
        # NB: for a moment a node has an old and a new pod; what is new decides.
        if node not in by_node or (is_new(pod, daemon_set) and not is_deleting(pod)):
            by_node[node] = state
    order = (NodeRollout.FAILING, NodeRollout.NOT_CONFIRMED, NodeRollout.UPDATED)
    return tuple(sorted(by_node.values(), key=lambda one: (order.index(one.state), one.node)))


def _state(node: str, pod: Raw, daemon_set: Raw, around: Around) -> NodeState:
    fresh = is_new(pod, daemon_set)
    if is_ready(pod) and fresh and not is_deleting(pod):
        return NodeState(node, NodeRollout.UPDATED)
    # NB: an old pod on it may go on saying that it is ready.
    down = _down(node, around)
    if down is not None:
        return NodeState(node, NodeRollout.NOT_CONFIRMED, f"the node is down: {down}")
    found = trouble_of(pod, around.nodes)
    if is_deleting(pod):
        return NodeState(node, NodeRollout.NOT_CONFIRMED, "its pod is ending")
    if not fresh:
        return NodeState(node, NodeRollout.NOT_CONFIRMED, "still has the old pod")
    if found is None:
        return NodeState(node, NodeRollout.NOT_CONFIRMED, "not ready yet")
    if found.cause in _DOOMED:
        return NodeState(node, NodeRollout.FAILING, doom_words(found))
    return NodeState(node, NodeRollout.NOT_CONFIRMED, found.why)


def _down(node: str, around: Around) -> str | None:
    fact = around.nodes.get(node)
    return fact.down if fact is not None else None


def _meant_for(pod: Raw) -> str | None:
    """The node that a pod which nobody has bound yet is meant for: a DaemonSet's pod names it."""
    affinity = dig(pod, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = dig(affinity, "nodeSelectorTerms")
    for term in terms if isinstance(terms, list) else ():
        fields = dig(term, "matchFields")
        for one in fields if isinstance(fields, list) else ():
            values = dig(one, "values")
            if dig(one, "key") == "metadata.name" and isinstance(values, list) and len(values) == 1:
                return text(values[0]) or None
    return None


def _names(nodes: Sequence[str | None]) -> str:
    shown = [node for node in nodes if node][:_SHOWN]
    more = len(nodes) - len(shown)
    return (", ".join(shown) + (f" and {more} more" if more > 0 else "")) or "some nodes"


def _count(nodes: int) -> str:
    return "1 node" if nodes == 1 else f"{nodes} nodes"
