"""
Roll nodes: claim, drain, `mutating`, the node command, wait until Ready, certify, `verified`, release.

`mutating` is written before the first change, so that whatever ends this run in between leaves a node that says it
may be half changed. One thread rolls several nodes: each is a generator that gives control back while it waits.
Without a node command nodes are only claimed, and stay cordoned until the run unwinds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from fencectl.cluster.clock import Clock
from fencectl.core.errors import FencectlError
from fencectl.core.journal import Journal, Phase
from fencectl.core.marks import read_mark
from fencectl.core.placements import CannotPlace, Placed, place_cordon, rewrite_journal
from fencectl.core.refs import ObjectRef, Seen, is_deleting
from fencectl.core.report import FenceKind
from fencectl.core.times import age_text
from fencectl.run.fencing import Fence, Fencer, Ledger, NotFencedError
from fencectl.run.keeper import Keeper, LeaseLostError
from fencectl.run.nodes_certify import NodeCertifier
from fencectl.run.nodes_command import NodeCommand
from fencectl.run.nodes_drain import Drain
from fencectl.run.nodes_errors import NodeError, NodeGoneError, RollStoppedError
from fencectl.run.nodes_reads import Steps
from fencectl.run.nodes_ready import wait_ready
from fencectl.run.nodes_release import release_cordon
from fencectl.run.ports import Door, Processes
from fencectl.run.story import read

__all__ = ["NodeError", "NodeRoller", "RollStoppedError"]

# How long one turn of all nodes under way waits; a signal is noticed within it.
TICK_S = 0.1


@dataclass(slots=True)
class _Roll:
    """One node under way."""

    ref: ObjectRef
    fence: Fence | None = None
    steps: Steps[None] | None = None
    command: NodeCommand | None = None

    @property
    def is_mutating(self) -> bool:
        return self.fence is not None and self.fence.journal.phase is Phase.MUTATING


class NodeRoller:
    """
    Rolls nodes under a lease that its keeper vouches for.

    `journal_for`: a new journal for each claim. `command`: the node command, split; None: nodes are only claimed.
    `drain_timeout_s`: for one node's drain; `node_timeout_s`: for its command and until it is Ready, together.
    `must_stop`: why the roll must end now, or None; asked several times a second. `tell`: called with a node and
    what is new about it. `handed_over`: entered while a node command runs. `certifier`: certifies each node; then
    the first one goes alone, until something is known of what its command does.
    """

    def __init__(
        self,
        door: Door,
        clock: Clock,
        fencer: Fencer,
        keeper: Keeper,
        ledger: Ledger,
        *,
        journal_for: Callable[[], Journal],
        command: Sequence[str] | None,
        environ: Mapping[str, str],
        processes: Processes,
        drain_timeout_s: float,
        node_timeout_s: float,
        must_stop: Callable[[], str | None],
        tell: Callable[[str, str], None],
        handed_over: Callable[[], AbstractContextManager[None]] = nullcontext,
        certifier: NodeCertifier | None = None,
    ) -> None:
        self._door = door
        self._clock = clock
        self._fencer = fencer
        self._keeper = keeper
        self._ledger = ledger
        self._journal_for = journal_for
        self._command = command
        self._environ = environ
        self._processes = processes
        self._drain_timeout_s = drain_timeout_s
        self._node_timeout_s = node_timeout_s
        self._must_stop = must_stop
        self._tell = tell
        self._handed_over = handed_over
        self._certifier = certifier

    def roll(self, node: ObjectRef) -> None:
        """Roll one node; see `roll_all`."""
        self.roll_all([node], max_unavailable=1)

    def roll_all(self, nodes: Sequence[ObjectRef], *, max_unavailable: int) -> None:
        """
        Roll all nodes, so many at once. Call it from the main thread: the commands' lives hang on it.

        The first failure begins no further node: those that are drained stop and stay claimed, those whose command
        runs are seen to their end. Raises NodeError, NotFencedError, LeaseLostError,
        NotReadableError, StoppedError or RollStoppedError; what is still fenced is in the ledger.
        """
        self._must_be_free(nodes)
        waiting, under_way = deque(nodes), list[_Roll]()
        failure: FencectlError | None = None
        try:
            while under_way or (waiting and failure is None):
                why = self._must_stop()
                if why is not None:
                    raise RollStoppedError(why, mutating=self._mutating()) from failure
                self._keeper.must_hold(0.0)
                while waiting and failure is None and len(under_way) < self._at_once(max_unavailable):
                    under_way.append(self._begin(waiting.popleft()))
                failure = self._turn(under_way, failure)
                if under_way:
                    self._clock.wait(None, TICK_S)
        finally:
            self._end(under_way)
        if failure is not None:
            raise failure

    def _at_once(self, max_unavailable: int) -> int:
        unproven = self._certifier is not None and not self._certifier.vouched
        return 1 if unproven else max(1, max_unavailable)

    def _must_be_free(self, nodes: Iterable[ObjectRef]) -> None:
        """Refuse before the first write where a later node could not be claimed anyway."""
        for ref in nodes:
            seen = read(self._door, ref)
            if seen is None:
                continue  # said when its turn comes
            mark = read_mark(seen)
            if mark is not None:
                whose = f"of {mark.owner}" if mark.owner else "without a holder"
                raise NotFencedError(f"{ref.display} cannot be fenced: it carries a mark {whose}")
            if is_deleting(seen.raw):
                raise NotFencedError(f"{ref.display} cannot be fenced: it is being deleted")

    def _mutating(self) -> list[ObjectRef]:
        return [fence.seen.ref for fence in self._ledger.fences if fence.journal.phase is Phase.MUTATING]

    def _begin(self, ref: ObjectRef) -> _Roll:
        roll = _Roll(ref)
        roll.steps = self._steps(roll)
        return roll

    def _turn(self, under_way: list[_Roll], failure: FencectlError | None) -> FencectlError | None:
        """Let each node go on until it waits; returns the first failure."""
        for roll in list(under_way):
            if failure is not None and not roll.is_mutating:
                # NB: only a node whose command runs is seen to its end: half a change is worse than none.
                self._close(roll)
                under_way.remove(roll)
                continue
            try:
                if roll.steps is not None:
                    next(roll.steps)
            except StopIteration:
                under_way.remove(roll)
            except LeaseLostError:
                raise
            except FencectlError as found:
                under_way.remove(roll)
                if under_way or failure is not None:
                    self._tell(roll.ref.display, found.sentence)
                failure = failure or found
        return failure

    def _end(self, under_way: Iterable[_Roll]) -> None:
        """End what still runs: all are asked first, so that they share one grace."""
        left = list(under_way)
        for roll in left:
            if roll.command is not None:
                roll.command.begin_end()
        for roll in left:
            self._close(roll)

    @staticmethod
    def _close(roll: _Roll) -> None:
        if roll.steps is not None:
            roll.steps.close()

    # One node

    def _steps(self, roll: _Roll) -> Steps[None]:
        try:
            fence = self._claim(roll)
            if self._command is None:
                return
            yield from Drain(
                self._door,
                self._clock,
                self._keeper,
                fence,
                timeout_s=self._drain_timeout_s,
                must_stop=self._must_stop,
                tell=lambda text: self._tell(roll.ref.display, text),
            ).steps()
            while self._must_stop() is not None:
                yield  # NB: no phase is left that says less than what may follow
            self._enter(roll, Phase.MUTATING)
            yield from self._change(roll, fence.seen.ref, self._command)
            self._enter(roll, Phase.VERIFIED)
        except NodeGoneError as gone:
            self._gone(roll, gone)
            return
        yield from self._release(roll)

    def _claim(self, roll: _Roll) -> Fence:
        """Cordon and mark."""

        def build(seen: Seen) -> Placed | CannotPlace:
            return place_cordon(seen, self._journal_for())

        try:
            roll.fence = self._fencer.place(FenceKind.CORDON, roll.ref, build)
        except NotFencedError:
            if roll.ref.uid and read(self._door, roll.ref) is None:
                raise NodeGoneError(anew=False) from None
            raise
        was = (
            "it was cordoned before and stays so" if roll.fence.journal.prior.get("unschedulable") else "cordoned"
        )
        self._tell(roll.ref.display, f"claimed, {was}")
        return roll.fence

    def _enter(self, roll: _Roll, phase: Phase) -> None:
        """Write the next phase of the fence."""
        fence = roll.fence
        if fence is None:
            return
        journal = fence.journal.with_phase(phase, at=self._clock.wall())
        try:
            patch = rewrite_journal(fence.seen, fence.journal, journal)
            roll.fence = self._fencer.change(fence, patch, journal)
        except NotFencedError:
            if read(self._door, fence.seen.ref) is None:
                raise NodeGoneError(anew=False) from None
            raise

    def _change(self, roll: _Roll, node: ObjectRef, command: Sequence[str]) -> Steps[None]:
        """Run the node command, and wait until the node is Ready after it."""
        begun_s = self._clock.monotonic_s()
        end_s = begun_s + self._node_timeout_s
        # NB: the last look before the change; a lease that is lost from here on ends the command.
        self._keeper.must_hold(0.0)
        self._tell(node.display, "its node command runs")
        with self._handed_over():
            roll.command = NodeCommand(
                command, node=node, environ=self._environ, clock=self._clock, processes=self._processes
            )
            ended = yield from roll.command.steps(end_s=end_s, must_stop=self._must_stop)
        if ended.why_stopped is not None:
            raise NodeError(
                f"the node command of {node.display} was ended after {age_text(self._node_timeout_s)}",
                node=node,
                phase=Phase.MUTATING,
                timed_out=True,
                reason=ended.why_stopped,
            )
        if not ended.ok:
            raise NodeError(
                f"the node command of {node.display} ended with {ended.code}",
                node=node,
                phase=Phase.MUTATING,
                command_code=ended.code,
            )
        yield from wait_ready(
            self._door,
            self._clock,
            node,
            end_s=end_s,
            tell=lambda text: self._tell(node.display, text),
        )
        self._tell(node.display, f"Ready, {age_text(self._clock.monotonic_s() - begun_s)} after its command began")
        if self._certifier is not None:
            yield from self._certify(roll, node, self._certifier)

    def _certify(self, roll: _Roll, node: ObjectRef, certifier: NodeCertifier) -> Steps[None]:
        """Have the certify command look at the node."""
        while self._must_stop() is not None:
            yield  # NB: the roll ends this; no command begins that would have to be ended at once
        self._keeper.must_hold(0.0)
        self._tell(node.display, "its certify command runs")
        with self._handed_over():
            roll.command = command = certifier.start(node, self._environ, self._clock, self._processes)
            yield from certifier.steps(
                command,
                node,
                clock=self._clock,
                must_stop=self._must_stop,
                tell=lambda text: self._tell(node.display, text),
            )

    def _gone(self, roll: _Roll, gone: NodeGoneError) -> None:
        fence, name = roll.fence, roll.ref.display
        how = "was deleted and made anew under the same name" if gone.anew else "is gone"
        if fence is not None:
            self._ledger.forget(fence)
        if fence is not None and roll.command is not None:
            raise NodeError(
                f"{name} {how} since its node command began: it cannot be verified",
                node=fence.seen.ref,
                phase=None,
                reason="nothing of this run is left on it",
            )
        self._tell(name, f"{how}, nothing to release")

    def _release(self, roll: _Roll) -> Steps[None]:
        fence = roll.fence
        if fence is None:
            return
        after = yield from release_cordon(self._door, self._clock, fence)
        self._ledger.forget(fence)
        self._tell(roll.ref.display, f"released ({after})")
