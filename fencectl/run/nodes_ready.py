"""
Wait until a node is Ready again after its command, by a word of its kubelet that is newer than the command.

The condition alone proves little: for some 50 s it goes on saying Ready of a node that is switched off. The
kubelet's own Lease is renewed every 10 s, so where it can be read it must have been renewed since.
"""

from __future__ import annotations

from collections.abc import Callable

from fencectl.cluster.clock import Clock
from fencectl.core.errors import NotReadableError
from fencectl.core.journal import Phase
from fencectl.core.readiness import readiness
from fencectl.core.refs import ObjectRef, dig
from fencectl.run.nodes_errors import NodeError, TroubleError
from fencectl.run.nodes_reads import Steps, look, look_at_node, pause
from fencectl.run.ports import Door

POLL_S = 1.0
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_SILENT = "its kubelet has given no sign of life since its command ended"


def wait_ready(
    door: Door, clock: Clock, node: ObjectRef, *, end_s: float, tell: Callable[[str], None]
) -> Steps[None]:
    """
    Wait until the node of this uid is Ready.

    Raises NodeGoneError, NotReadableError, and NodeError when the time is over, naming the condition.
    """
    first: tuple[object, object] | None = None
    said: str | None = None
    while True:
        try:
            now = readiness(look_at_node(door, node).raw)
            renewed = _renewed(door, node)
            if first is None:
                first = (renewed, now.heartbeat)
            why = now.why
            if why is None and renewed is not None and (renewed, now.heartbeat) == first:
                why = _SILENT
        except TroubleError as trouble:
            why = f"it cannot be read: {trouble.why}"
        if why is None:
            return
        if clock.monotonic_s() >= end_s:
            raise NodeError(
                f"{node.display} is not Ready in time", node=node, phase=Phase.MUTATING, timed_out=True, reason=why
            )
        if why != said:
            tell(f"waits to be Ready: {why}")
            said = why
        yield from pause(clock, POLL_S)


def _renewed(door: Door, node: ObjectRef) -> object:
    """When the kubelet last renewed its Lease; None where there is none, or where it may not be read."""
    try:
        lease = look(door, f"{_LEASES}/{node.name}", right="`get` leases (namespace kube-node-lease)")
    except NotReadableError:
        return None
    return dig(lease, "spec", "renewTime")
