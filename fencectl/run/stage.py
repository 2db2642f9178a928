"""What a deploy acts through, and what comes of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime

from fencectl.cluster.clock import Clock
from fencectl.core.certification import NOT_REQUESTED, Certification
from fencectl.core.errors import ExitCode, FencectlError, worst
from fencectl.core.patches import GuardedPatch
from fencectl.core.recovery_point import Summary
from fencectl.core.report import FenceReport
from fencectl.core.restored import Restored, RestoreVerdict
from fencectl.core.rollout import Followed, Follows
from fencectl.run.handing_over import Handed
from fencectl.run.keeper import LeaseLostError
from fencectl.run.keeping import Kept
from fencectl.run.payload import Ended
from fencectl.run.ports import Door, Processes, Threads
from fencectl.run.pruning import Key
from fencectl.run.record import RecordBook
from fencectl.run.reporting import Silent, Tells
from fencectl.run.unwind import Unwound

MakeFollower = Callable[[Callable[[], str | None], Callable[[str], None]], Follows]
"""Make a follower of this target that ends for a reason to stop, and tells each change."""


@dataclass(slots=True)
class Stage:
    """
    What a deploy acts through.

    `read_again`: raises where anything is held that is not this run's own. `environ`: for children, with the
    private kubeconfig in it. `interrupted`: set by a signal, with its exit code in `interrupt_code()`. `follower`:
    makes what follows applied objects. `handed_over`: entered while a command runs that writes to our streams.
    `events`: where what happens to fences is told to whoever describes their objects.
    """

    door: Door
    keeper_door: Door
    clock: Clock
    threads: Threads
    book: RecordBook
    environ: Mapping[str, str]
    interrupted: threading.Event
    interrupt_code: Callable[[], ExitCode | None]
    read_again: Callable[[str], None]
    tell: Callable[[int, str], None]
    processes: Processes
    follower: MakeFollower | None = None
    handed_over: Callable[[], AbstractContextManager[None]] = nullcontext
    events: Tells = field(default_factory=Silent)


@dataclass(slots=True)
class Result:
    """
    What came of a deploy.

    `within`: the run of whose command it was a part. `canary`: what came of its objects; `certification`: what is
    known of it and of rolled nodes. `held`: what was found to be held under the lease. `step`:
    the last one that began. `codes`: every reason for an exit code; the worst decides. `lease_patch`: frees a
    lease that was kept. `rolled_back`: what came of a rollback, None where none was begun; it has put something
    back only where it has `moved`. `rollback_owed`: one was asked for, and an interrupt came before it was done.
    `not_rolled_back`: why none was begun although it was asked for. `timed_out`: a time-out is what failed.
    `acknowledged`: step 8 ended well. `kept`: what is left suspended on purpose. `recovery`: the stored recovery
    point. `restorable`: the members of an ApplySet that are in it, so that a prune may take them away.
    """

    generation: int | None = None
    token: int | None = None
    step: int = 0
    cause: str | None = None
    reason: str | None = None
    hint: str | None = None
    payload: Ended | None = None
    handed: Handed | None = None
    canary: Handed | None = None
    certification: Certification = NOT_REQUESTED
    applied: bool = False
    acknowledged: bool = False
    codes: list[ExitCode] = field(default_factory=list)
    unwound: Unwound | None = None
    unresolved: list[str] = field(default_factory=list)
    lease_kept: bool = False
    lease_patch: GuardedPatch | None = None
    lost: LeaseLostError | None = None
    ended_at: datetime | None = None
    held: FenceReport | None = None
    within: str | None = None
    rolled_back: Restored | None = None
    rollback_owed: bool = False
    not_rolled_back: str | None = None
    timed_out: bool = False
    kept: Kept = field(default_factory=Kept)
    recovery: Summary | None = None
    restorable: frozenset[Key] = frozenset()

    def outcome(self, *, interrupted: bool) -> str:
        """The outcome in one word, for the record."""
        back = self.rolled_back
        if back is not None and back.is_back:
            # NB: also where something is left fenced: that is told by the code.
            return "rolled-back" if back.generation == self.generation else "restored"
        if back is not None and back.verdict is RestoreVerdict.SUPERSEDED:
            return "superseded"
        return "deployed" if not self.codes else "interrupted" if interrupted else "failed"

    @property
    def followed(self) -> Followed | None:
        """What came of the last follow: that of step 8, or of the canary where the deploy ended with it."""
        last = self.canary if self.step == 7 else self.handed
        return last.followed if last is not None else None

    def blame(self, failure: FencectlError) -> None:
        """Take its words for why it ended, where nothing else was said before."""
        self.cause = self.cause or failure.sentence
        self.reason = self.reason or failure.reason
        self.hint = self.hint or failure.hint

    @property
    def code(self) -> ExitCode:
        """The exit code: the worst that happened."""
        return worst(self.codes)
