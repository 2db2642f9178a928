"""
Read the fences of the profile `ghcr-bridge`: another tool's, which only a report and a release may touch.

Every object that was read ends in exactly one place: a fence with its own release or its own refusal, something
that is only shown, or nothing at all. An unusable value never drops its object, or a later one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fencectl.core.bridge_flux import CHILD, PARENT, absent_objects, read_flux
from fencectl.core.bridge_lease import read_lease
from fencectl.core.bridge_nodes import read_nodes
from fencectl.core.bridge_way_out import LeaseWayOut, lease_way_out, next_run
from fencectl.core.found import Foreign, Found, Reading
from fencectl.core.observation import Observation

__all__ = ["CHILD", "PARENT", "LeaseWayOut", "lease_way_out", "read_bridge"]


def read_bridge(observation: Observation) -> Reading:
    """Find every fence of that tool, and every state beside them that would make its next run refuse."""
    items = list(_items(observation))
    return Reading(
        tuple(item for item in items if isinstance(item, Found)),
        tuple(item for item in items if isinstance(item, Foreign)),
    )


def _items(observation: Observation) -> Iterator[Found | Foreign]:
    yield from _present(read_flux(seen) for seen in observation.flux)
    yield from absent_objects(observation)
    yield from read_nodes(observation.nodes, next_run(observation))
    yield from _present(read_lease(seen) for seen in observation.leases)


def _present(items: Iterable[Found | Foreign | None]) -> Iterator[Found | Foreign]:
    return (item for item in items if item is not None)
