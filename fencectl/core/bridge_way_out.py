"""
The way out of a refused node in the profile `ghcr-bridge`.

That tool's next run clears some of what this report refuses, but it cannot start while its Lease is held. So a
refused node says which of two ways applies: prove and repair it by hand, or free the Lease knowingly.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from fencectl.core.bridge_lease import read_lease
from fencectl.core.found import Found, Reading
from fencectl.core.observation import Observation
from fencectl.core.profiles import GHCR_BRIDGE
from fencectl.core.report import FenceKind

_PLAIN = re.compile(r"[!-~]+", re.ASCII)
_LEASE = f"lease/{'/'.join(GHCR_BRIDGE.lease)}"
BY_HAND = (
    "prove and repair this node by hand: that tool's next run does not clear it",
    "once it is proven, take its mark, phase and journal away by hand",
)


@dataclass(frozen=True, slots=True)
class NextRun:
    """What stands between that tool's next run and the nodes that it would clear."""

    lease: Found | None
    command: str | None

    def advice(self, group: str | None) -> tuple[str, ...]:
        """How the next run comes to clear a node of this run; the command only where it frees the right Lease."""
        if self.lease is None or self.lease.group is None or self.lease.group != group:
            return (f"that tool's next run clears it; that can start once nobody holds {_LEASE}",)
        lines = ("when the rest is released, free the Lease knowingly and let that tool's next run clear it",)
        return lines if self.command is None else (*lines, self.command)


def next_run(observation: Observation) -> NextRun:
    """Find the Lease, and the command that prints its release when only refused nodes are left."""
    read = (read_lease(seen) for seen in observation.leases)
    lease = next((item for item in read if isinstance(item, Found)), None)
    return NextRun(lease, None if lease is None else _command(lease, observation))


def _command(lease: Found, observation: Observation) -> str | None:
    """None where a part cannot be told on one line as it is: a command that does not run helps nobody."""
    arguments = ["fencectl", "release", _LEASE, "--holder", lease.holder_text or "", "--profile", "ghcr-bridge"]
    if observation.context is not None:
        arguments += ["--context", observation.context]
    if observation.kubeconfig is not None:
        arguments += ["--kubeconfig", observation.kubeconfig]
    if lease.release is None or any(_PLAIN.fullmatch(argument) is None for argument in arguments):
        return None
    return shlex.join(arguments)


@dataclass(frozen=True, slots=True)
class LeaseWayOut:
    """
    Whether the Lease may be freed although nodes of its run stay refused.

    `refused`: those nodes. `first`: what has to be released, or looked at, before.
    """

    lease: Found
    refused: tuple[Found, ...]
    first: tuple[Found, ...]

    @property
    def is_open(self) -> bool:
        """Whether only refused nodes are left, so that freeing the Lease knowingly is the one step to take."""
        return self.lease.release is not None and bool(self.refused) and not self.first


def lease_way_out(reading: Reading) -> LeaseWayOut | None:
    """
    Say what is left of the run that holds the Lease; None where nobody holds it or its holder names nobody.

    Looks at the fences only: that the holder does not live, and that everything was read, is for the caller.
    """
    lease = next((found for found in reading.found if found.kind is FenceKind.LEASE), None)
    if lease is None or lease.group is None:
        return None
    rest = [found for found in reading.found if found.group == lease.group and found is not lease]
    refused = tuple(found for found in rest if found.kind is FenceKind.CORDON and found.refusal is not None)
    first = tuple(found for found in rest if found.kind is not FenceKind.CORDON or found.refusal is None)
    return LeaseWayOut(lease, refused, first)
