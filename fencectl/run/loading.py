"""Read a recovery point back from the Secrets beside the lease: whole and with the recorded digest, or not."""

from __future__ import annotations

import json

from fencectl.cluster.answer import read_refusal
from fencectl.cluster.clock import Clock
from fencectl.core.errors import NotReadableError
from fencectl.core.recovery_point import (
    BadPointError,
    Fault,
    RecoveryPoint,
    Summary,
    is_own_part,
    part_in,
    part_ref,
    unpack,
)
from fencectl.run.ports import Door
from fencectl.run.story import PAUSE_S, TRIES

# One part has up to 700 KiB, and a slow line may bring it.
READ_S = 30.0


def load_point(door: Door, clock: Clock, lease: tuple[str, str], generation: int, told: Summary) -> RecoveryPoint:
    """
    Read the recovery point of a generation as its record tells of it.

    Raises BadPointError where it is not whole, NotReadableError where a part cannot be read.
    """
    parts = [_part(door, clock, lease, generation, part) for part in range(told.parts)]
    point = unpack(parts, told.digest)
    if point.generation != generation:
        raise BadPointError(Fault.BROKEN, more=f": it is that of generation {point.generation}")
    return point


def _part(door: Door, clock: Clock, lease: tuple[str, str], generation: int, part: int) -> bytes | None:
    ref = part_ref(lease, generation, part)
    tries = 0
    while True:
        tries += 1
        try:
            found = door.get(ref.path, deadline_s=READ_S)
        except NotReadableError:
            if tries >= TRIES:
                raise
            clock.wait(None, PAUSE_S)
            continue
        if found.status == 404:
            return None
        if found.ok:
            raw = json.loads(found.body)
            return part_in(raw) if is_own_part(raw, lease) else None
        if found.status in (401, 403) or tries >= TRIES:
            # NB: of an error the server quotes names only; what is in a Secret stands in no answer but a good one.
            said = f": {read_refusal(found).message}" if found.status == 403 else ""
            raise NotReadableError(
                f"{ref.display}, a part of the recovery point, cannot be read",
                reason=f"the API server answers {found.status}{said}",
                hint="`fencectl doctor --rbac deploy` prints the role that a rollback needs",
            )
        clock.wait(None, PAUSE_S)
