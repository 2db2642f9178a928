"""Ways in which a node is not rolled."""

from __future__ import annotations

from collections.abc import Sequence

from fencectl.core.errors import ExitCode, FencectlError
from fencectl.core.journal import Phase
from fencectl.core.refs import ObjectRef


class NodeError(FencectlError):
    """
    A node could not be rolled.

    `phase`: of the fence that is on it now, None where there is none of this run. `command_code`: how its node
    command ended, None where it did not run or was ended by us.
    """

    def __init__(
        self,
        sentence: str,
        *,
        node: ObjectRef,
        phase: Phase | None,
        timed_out: bool = False,
        command_code: int | None = None,
        reason: str | None = None,
        hint: str | None = None,
    ) -> None:
        if hint is None and phase is Phase.MUTATING:
            hint = f"check the node; once this run has ended: fencectl recover --node-verified {node.name}"
        super().__init__(sentence, reason=reason, hint=hint)
        self.node = node
        self.phase = phase
        self.command_code = command_code
        if phase is Phase.MUTATING:
            self.exit_code = ExitCode.STILL_FENCED
        elif timed_out:
            self.exit_code = ExitCode.TIMED_OUT_PREVIOUS_RUNS
        else:
            self.exit_code = ExitCode.FAILED_PREVIOUS_RUNS


class RollStoppedError(FencectlError):
    """
    The roll was told to stop. `mutating`: the nodes whose command had begun; they stay fenced.

    Whoever told it so knows a better exit code, such as that of a signal or of a lost lease.
    """

    def __init__(self, why: str, *, mutating: Sequence[ObjectRef]) -> None:
        names = ", ".join(ref.display for ref in mutating)
        super().__init__(
            f"the nodes were not rolled to the end: {why}",
            reason=f"{names}: its node command may be half done" if names else None,
        )
        self.why = why
        self.mutating = tuple(mutating)
        self.exit_code = ExitCode.STILL_FENCED if mutating else ExitCode.FAILED_PREVIOUS_RUNS


class NodeGoneError(Exception):
    """The node is no longer there. `anew`: another one has its name."""

    def __init__(self, *, anew: bool) -> None:
        super().__init__(anew)
        self.anew = anew


class TroubleError(Exception):
    """A request got no usable answer this time; the next one may."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
