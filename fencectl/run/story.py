"""What a recovery acts through, and what it tells; shared by that of our own fences and of another tool's."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fencectl.cluster.answer import read_refusal
from fencectl.cluster.clock import Clock
from fencectl.core.answers import explain_refusal
from fencectl.core.errors import ExitCode, FencectlError
from fencectl.core.found import Found
from fencectl.core.outcome import Told
from fencectl.core.patches import GuardedPatch
from fencectl.core.refs import ObjectRef, Seen, dig
from fencectl.run.ports import Door, Threads
from fencectl.run.reporting import Silent, Tells

# One release may take so long. The keeper must be able to vouch for that time before each one is sent.
WRITE_S = 5.0
# How often an unanswered release is sent again, and after which pause. Its guards make that harmless.
TRIES = 3
PAUSE_S = 1.0


class StoppedError(FencectlError):
    """
    The recovery cannot go on.

    `alive`: because somebody is alive; `forbidden`: because a right is missing; `unread`: because the server could
    not be read.
    """

    def __init__(
        self, sentence: str, *, alive: bool = False, forbidden: bool = False, unread: bool = False
    ) -> None:
        super().__init__(sentence)
        self.alive = alive
        self.forbidden = forbidden
        self.unread = unread
        self.exit_code = (
            ExitCode.INCOMPLETE
            if forbidden or unread
            else ExitCode.HELD_LIVE
            if alive
            else ExitCode.HELD_PERSON_NEEDED
        )


@dataclass(slots=True)
class World:
    """
    What a recovery acts through.

    `door` and `keeper_door`: two ways to the same cluster, so that a renewal never waits for a release. `sweep`:
    look at everything again and give what is left of a run, by its key; raises NotReadableError where the look is
    not whole. `stop`: set when a signal asks for an orderly end. `tell`: called with each step; `events`: where
    what happens to fences is told to whoever describes their objects.
    """

    door: Door
    keeper_door: Door
    clock: Clock
    threads: Threads
    stop: threading.Event
    tell: Callable[[Told], None]
    sweep: Callable[[str], Sequence[Found]]
    events: Tells = field(default_factory=Silent)


def read(door: Door, ref: ObjectRef) -> Seen | None:
    """
    Read one object; None where it is gone, or is another one of the same name.

    Raises StoppedError where the server does not show it, NotReadableError where nobody answers.
    """
    found = door.get(ref.path, deadline_s=WRITE_S)
    if found.status == 404:
        return None
    if not found.ok:
        said = f": {read_refusal(found).message}" if found.status == 403 else ""
        why = f"{ref.display} cannot be read: the API server answers {found.status}{said}"
        raise StoppedError(why, forbidden=found.status in (401, 403), unread=True)
    raw = json.loads(found.body)
    uid = str(dig(raw, "metadata", "uid"))
    if ref.uid and uid != ref.uid:
        return None
    return Seen(ObjectRef(ref.api_version, ref.kind, ref.plural, ref.namespace, ref.name, uid), raw)


def broken(door: Door, patch: GuardedPatch) -> str:
    """Read a refused patch's object again, and name the guard that does not hold any more."""
    seen = read(door, patch.target)
    found = explain_refusal(patch, seen.raw if seen is not None else None)
    return found.sentence if found else "the API server refuses, and nothing that was read has changed"
