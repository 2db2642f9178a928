"""Watch leases for a while: a holder whose lease moves is alive, whatever anybody says of its job."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fencectl.cluster.clock import Clock
from fencectl.core.refs import ObjectRef, Seen, dig
from fencectl.run.ports import Door
from fencectl.run.story import read

POLL_S = 5.0


@dataclass(frozen=True, slots=True)
class Watched:
    """
    What a window showed.

    `moved`: the lease that was written meanwhile, and how; None: all stood still for `for_s` seconds of the own
    clock. `interrupted`: somebody asked to stop before the window was over.
    """

    for_s: float
    moved: str | None
    interrupted: bool = False


def watch_leases(
    door: Door,
    clock: Clock,
    leases: Sequence[tuple[str, str]],
    *,
    before: Mapping[tuple[str, str], Seen | None],
    window_s: float,
    stop: threading.Event,
) -> Watched:
    """
    Read the leases again and again for `window_s`, and compare each with what was observed `before`.

    Any write counts, also one that leaves the times alone: whoever writes a lease lives. Raises StoppedError or
    NotReadableError where a lease cannot be read: an unseen window proves nothing.
    """
    begun_s = clock.monotonic_s()
    while True:
        left_s = window_s - (clock.monotonic_s() - begun_s)
        if clock.wait(stop, min(POLL_S, max(0.0, left_s))):
            return Watched(clock.monotonic_s() - begun_s, None, interrupted=True)
        for namespace, name in leases:
            ref = ObjectRef("coordination.k8s.io/v1", "Lease", "leases", namespace, name, "")
            moved = _moved(before.get((namespace, name)), read(door, ref))
            if moved is not None:
                return Watched(clock.monotonic_s() - begun_s, f"{ref.display}: {moved}")
        if clock.monotonic_s() - begun_s >= window_s:
            return Watched(clock.monotonic_s() - begun_s, None)


def _moved(before: Seen | None, now: Seen | None) -> str | None:
    if before is None or now is None:
        return None if before is now else "it was made or deleted during the watch"
    for field in ("holderIdentity", "renewTime", "leaseTransitions"):
        was, is_now = dig(before.raw, "spec", field), dig(now.raw, "spec", field)
        if was != is_now:
            return f"its {field} moved during the watch: {_show(was)} → {_show(is_now)}"
    if dig(before.raw, "metadata", "uid") != dig(now.raw, "metadata", "uid"):
        return "it was deleted and made anew during the watch"
    if dig(before.raw, "metadata", "resourceVersion") != dig(now.raw, "metadata", "resourceVersion"):
        return "it was written during the watch"
    return None


def _show(value: object) -> str:
    return "absent" if value is None else str(value)
