"""Step 5 for a transaction: capture, store, take outlived points away, say so."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from fencectl.core.deploy import DeployPlan
from fencectl.core.recovery_point import RecoveryPoint, pack
from fencectl.run.capturing import Capturer
from fencectl.run.deploy_record import DeployRecord
from fencectl.run.keeper import Keeper
from fencectl.run.storing import PointStore

if TYPE_CHECKING:
    from fencectl.run.stage import Result, Stage


def capture(
    stage: Stage,
    result: Result,
    plan: DeployPlan,
    story: DeployRecord,
    keeper: Keeper,
    stop_if_asked: Callable[[], None],
    write_record: Callable[[str], None],
) -> RecoveryPoint:
    """
    Do step 5; the point, once it is stored whole.

    The record tells of it from its next write on, which is made at once where nodes come first. Raises
    NotCapturedError, PointTooLargeError, NotStoredError, NotReadableError, LeaseLostError, and what stops it.
    """
    tell = partial(stage.tell, 5)
    generation = result.generation or 0
    found = Capturer(stage.door, stage.clock, stop_if_asked=stop_if_asked, tell=tell).capture(plan)
    point = found.point(plan, generation, story.holder, stage.clock, story.command)
    packed = pack(point)
    store = PointStore(stage.door, stage.clock, keeper, plan.lease, stop_if_asked, tell)
    store.store(point, packed)
    result.recovery, result.restorable = packed.summary, found.pruned
    story.recovery = packed.summary
    counted = f"{len(point.objects)} {'object' if len(point.objects) == 1 else 'objects'}"
    tell(f"recovery point {generation}: {counted}")
    store.take_away(generation, story.points)
    if plan.nodes:
        # NB: all other steps record before they change anything; a node command would be earlier.
        write_record("placing")
    return point
