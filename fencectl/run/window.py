"""Watch leases for a while: a holder whose lease moves is alive, whatever anybody says of its job."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fencectl.cluster.clock import Clock
from fencectl.core.errors import NotReadableError
from fencectl.core.refs import ObjectRef, Seen, dig
from fencectl.run.ports import Door
from fencectl.run.story import StoppedError, read

POLL_S = 5.0
Key = tuple[str, str]
"""Namespace and name of a lease."""


@dataclass(frozen=True, slots=True)
class Moved:
    """How a lease moved. `renewed`: its holder gave a sign of life; else somebody did something to it."""

    how: str
    renewed: bool


@dataclass(frozen=True, slots=True)
class Watched:
    """
    What a window showed.

    `moved`: the lease that was written meanwhile, and how; None: all stood still for `for_s` seconds of the own
    clock. `renewed`: it was its holder's heartbeat that moved. `interrupted`: somebody asked to stop before the
    window was over.
    """

    for_s: float
    moved: str | None
    interrupted: bool = False
    renewed: bool = False


def watch_leases(
    door: Door,
    clock: Clock,
    leases: Sequence[Key],
    *,
    before: Mapping[Key, Seen | None],
    window_s: float,
    stop: threading.Event,
) -> Watched:
    """
    Read the leases again and again for `window_s`, and compare each with what was observed `before`.

    Any write counts, also one that leaves the times alone: whoever writes a lease lives. A server that is away for
    a while hides nothing, since every write moves the resourceVersion; where the last look fails, StoppedError or
    NotReadableError is raised: an unseen end proves nothing.
    """
    begun_s = clock.monotonic_s()
    while True:
        left_s = window_s - (clock.monotonic_s() - begun_s)
        if clock.wait(stop, min(POLL_S, max(0.0, left_s))):
            return Watched(clock.monotonic_s() - begun_s, None, interrupted=True)
        is_last = clock.monotonic_s() - begun_s >= window_s
        for namespace, name in leases:
            ref = ObjectRef("coordination.k8s.io/v1", "Lease", "leases", namespace, name, "")
            try:
                moved = how_moved(before.get((namespace, name)), read(door, ref))
            except (NotReadableError, StoppedError) as failure:
                if is_last or (isinstance(failure, StoppedError) and failure.forbidden):
                    raise
                continue
            if moved is not None:
                how = f"{ref.display}: {moved.how}"
                return Watched(clock.monotonic_s() - begun_s, how, renewed=moved.renewed)
        if is_last:
            return Watched(clock.monotonic_s() - begun_s, None)


def moved_since(watched: Watched, before: Mapping[Key, Seen | None], leases: Iterable[Seen]) -> Watched:
    """
    Compare once more, with the look that is acted on: a heartbeat that came just after the window counts as well.

    NB: that look takes the watched leases for still, and a take-over guards the heartbeat that it shows.
    """
    now = {(seen.ref.namespace or "", seen.ref.name): seen for seen in leases}
    for key, seen in before.items():
        moved = how_moved(seen, now.get(key))
        if moved is not None:
            return Watched(watched.for_s, f"lease/{'/'.join(key)}: {moved.how}", renewed=moved.renewed)
    return watched


def how_moved(before: Seen | None, now: Seen | None) -> Moved | None:
    """How a lease differs from what was observed; None where nobody has written it."""
    if before is None or now is None:
        gone = "it was deleted during the watch" if before else "it was made during the watch"
        return Moved(gone, renewed=False) if before is not now else None
    if dig(before.raw, "metadata", "uid") != dig(now.raw, "metadata", "uid"):
        return Moved("it was deleted and made anew during the watch", renewed=False)
    for field in ("holderIdentity", "leaseTransitions", "renewTime"):
        was, is_now = dig(before.raw, "spec", field), dig(now.raw, "spec", field)
        if was != is_now:
            how = f"its {field} moved during the watch: {_show(was)} → {_show(is_now)}"
            return Moved(how, renewed=field == "renewTime")
    if dig(before.raw, "metadata", "resourceVersion") != dig(now.raw, "metadata", "resourceVersion"):
        return Moved("it was written during the watch", renewed=False)
    return None


def _show(value: object) -> str:
    return "absent" if value is None else str(value)
