"""
The heartbeat: what a lease's times say, in one look (against the API server's clock) or over a window.

Future, absurd, missing and unparseable times never count for a death and never pin a lease for ever. In one look
they are `UNREADABLE`; a lease that did not change at all over a whole window on the observer's own clock stands
still, whatever its times say.

A heartbeat may stand still and a write of its holder still land: sent until the holder had to give its lease up,
and carried out by the API server for a while after. One look cannot tell; so long it is `SETTLING`.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from fencectl.core.found import Heartbeat
from fencectl.core.times import age_text, clock_text

MAX_DURATION_S = 300
"""No lease of ours is longer. A longer one on a lease is capped, or an absurd duration would pin it for ever."""

HELD_FOR = 2 / 3
"""The part of its duration for which a holder may believe that it holds a lease after the last renewal."""
LATE_WRITE_S = 34.0
"""So long an API server goes on with a write whose client is gone (its request timeout, and a little)."""
WINDOW_S = 40.0
"""At least so long a lease must stand still for a proof, watched or in one look: longer than a late write."""


class Pulse(StrEnum):
    """What is known of a heartbeat."""

    FRESH = "fresh"  # younger than its duration
    SETTLING = "settling"  # older than its duration, but a write of its holder may still be carried out
    STILL = "still"  # so old that nothing of its holder can land any more, or unchanged over a whole window
    NONE = "none"  # the holder holds no lease: there is nothing that could stand still
    UNREADABLE = "unreadable"  # a lease is held, and its times tell nothing


class Reading(msgspec.Struct, frozen=True):
    """
    `pulse`, and the line for people.

    `runs_out_s`: in how many seconds a fresh or settling one is no longer so. `still_in_s`: in how many it stands
    still.
    """

    pulse: Pulse
    answer: str
    runs_out_s: float | None = None
    still_in_s: float | None = None


def read_heartbeat(
    beat: Heartbeat | None,
    *,
    no_heartbeat: str | None,
    now: datetime,
    unchanged_for_s: float | None = None,
    settles: bool = True,
) -> Reading:
    """
    Read a heartbeat at `now`, the API server's clock.

    `no_heartbeat`: why there is none, where `beat` is None. `unchanged_for_s`: for how long the lease was watched
    without any change; None where it was looked at once. `settles`: whether its holder gives up as ours do, so
    that its last writes can be waited for.
    """
    if beat is None:
        return Reading(Pulse.NONE, f"none: {no_heartbeat or 'no lease of this holder was found'}")
    if unchanged_for_s is not None:
        last = f"last {clock_text(beat.renewed_at, now=now)}" if beat.renewed_at else "no time on it"
        return Reading(Pulse.STILL, f"watched for {age_text(unchanged_for_s)}: stands still, {last}")
    if beat.renewed_text is None:
        return Reading(Pulse.UNREADABLE, "unknown: the lease has no renewTime")
    if beat.renewed_at is None:
        return Reading(Pulse.UNREADABLE, f"unknown: the lease's renewTime is no time: {beat.renewed_text}")
    duration_s, duration = _duration(beat)
    age_s = (now - beat.renewed_at).total_seconds()
    last = f"last {clock_text(beat.renewed_at, now=now)}"
    if age_s < -max(duration_s, 1):
        # NB: a time in the far future is the work of a wrong clock. It must neither prove a death nor hold the
        # lease until that day comes.
        ahead = f"{last}, {age_text(-age_s)} in the future, which proves nothing; {duration}"
        return Reading(Pulse.UNREADABLE, f"unknown: {ahead}")
    still_in_s = _still_after_s(duration_s, settles=settles) - age_s
    if age_s < 0:
        ahead = f"moves: {last}, {age_text(-age_s)} ahead of the API server, {duration}"
        return Reading(Pulse.FRESH, ahead, duration_s - age_s, still_in_s)
    if age_s < duration_s:
        moves = f"moves: {last}, {age_text(age_s)} ago, {duration}"
        return Reading(Pulse.FRESH, moves, duration_s - age_s, still_in_s)
    still = f"stands still: {last}, {age_text(age_s)} ago, {duration}"
    if still_in_s > 0:
        return Reading(Pulse.SETTLING, still, still_in_s, still_in_s)
    return Reading(Pulse.STILL, still)


def _still_after_s(duration_s: float, *, settles: bool) -> float:
    """How old a heartbeat is when nothing of its holder can land any more."""
    return max(duration_s, WINDOW_S, duration_s * HELD_FOR + LATE_WRITE_S) if settles else duration_s


def _duration(beat: Heartbeat) -> tuple[int, str]:
    if beat.duration_s is None or beat.duration_s < 0:
        return 0, "no duration"
    if beat.duration_s > MAX_DURATION_S:
        return MAX_DURATION_S, f"duration {beat.duration_s}s, taken as {MAX_DURATION_S}s"
    return beat.duration_s, f"duration {beat.duration_s}s"
