"""Release one node as soon as it is verified, by a patch from a fresh read that follows the live value."""

from __future__ import annotations

from fencectl.cluster.clock import Clock
from fencectl.cluster.write import send
from fencectl.core.answers import Applied, Refused, Unknown, Why
from fencectl.core.errors import NotReadableError
from fencectl.core.marks import read_mark
from fencectl.core.releases import CannotLift, lift_cordon
from fencectl.run.fencing import Fence
from fencectl.run.nodes_errors import NodeError, TroubleError
from fencectl.run.nodes_reads import Steps, pause
from fencectl.run.ports import Door
from fencectl.run.story import PAUSE_S, WRITE_S, StoppedError, broken, read

# How long the release may take before the roll ends with it; the unwinding tries again.
RELEASE_S = 30.0


def release_cordon(door: Door, clock: Clock, fence: Fence) -> Steps[str]:
    """
    Release a node; returns how it is afterwards.

    Gone, another node of that name, or a mark that somebody else took away: that fence is released. Raises
    NodeError where it stays.
    """
    ref, end_s = fence.seen.ref, clock.monotonic_s() + RELEASE_S
    while True:
        try:
            return _release_once(door, fence)
        except TroubleError as trouble:
            if clock.monotonic_s() >= end_s:
                raise NodeError(
                    f"{ref.display} is not released in time",
                    node=ref,
                    phase=fence.journal.phase,
                    reason=trouble.why,
                ) from trouble
        yield from pause(clock, PAUSE_S)


def _release_once(door: Door, fence: Fence) -> str:
    try:
        seen = read(door, fence.seen.ref)
        if seen is None:
            return "it is gone"
        mark = read_mark(seen)
        if mark is None or mark.holder_text != fence.journal.holder:
            return "its mark was taken away by somebody else"
        if mark.journal_text != fence.journal.text:
            raise _stays(fence, "somebody else changed its journal")
        lifted = lift_cordon(seen, fence.journal)
        if isinstance(lifted, CannotLift):
            raise _stays(fence, lifted.why)
        match send(door, lifted.patch, deadline_s=WRITE_S):
            case Applied():
                return lifted.after
            case Refused(Why.GONE | Why.GUARD):
                # NB: the live value moved between the read and the write: the next patch follows it.
                raise TroubleError(broken(door, lifted.patch))
            case Refused(Why.BUSY, _, detail) | Unknown(detail):
                raise TroubleError(detail)
            case Refused(_, status, detail):
                raise _stays(fence, f"the API server refuses ({status}: {detail})")
    except (NotReadableError, StoppedError) as failure:
        raise TroubleError(failure.cause_in_short) from failure


def _stays(fence: Fence, why: str) -> NodeError:
    ref = fence.seen.ref
    return NodeError(f"{ref.display} is not released: {why}", node=ref, phase=fence.journal.phase)
