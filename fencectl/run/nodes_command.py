"""The command that is run for one node: several may be under way at once, all started from one thread."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence

from fencectl.cluster.clock import Clock
from fencectl.core.refs import ObjectRef
from fencectl.run.nodes_reads import Steps
from fencectl.run.payload import TIME_OVER, Ended, Payload
from fencectl.run.ports import Processes

NODE_VARIABLE = "FENCECTL_NODE"


class NodeCommand(Payload):
    """A payload that is looked at instead of waited for."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        node: ObjectRef,
        environ: Mapping[str, str],
        clock: Clock,
        processes: Processes,
    ) -> None:
        super().__init__(command, environ={**environ, NODE_VARIABLE: node.name}, clock=clock, processes=processes)
        self._end_by_s: float | None = None
        self._has_ended = False

    def steps(self, *, end_s: float, must_stop: Callable[[], str | None]) -> Steps[Ended]:
        """
        Give control back until it has ended or its time is over; closed before that, it is ended.

        A command that ends with 0 in the very moment in which it must stop has not succeeded.
        """
        try:
            while True:
                code = self._process.poll()
                if code is not None and must_stop() is None:
                    # NB: what it left behind in its group must not outlive the fences.
                    self._process.signal(signal.SIGKILL)
                    self._has_ended = True
                    return Ended(code)
                if code is None and self._clock.monotonic_s() >= end_s:
                    self._has_ended = True
                    return Ended(self.stop(), TIME_OVER)
                yield
        finally:
            if not self._has_ended:
                self.stop(grace_s=self._grace_s())

    def begin_end(self) -> None:
        """Ask it to end, so that several can use the same grace."""
        if not self._has_ended and self._end_by_s is None:
            self._end_by_s = self._clock.monotonic_s() + self.grace_s
            self._process.signal(signal.SIGTERM)

    def _grace_s(self) -> float:
        return self.grace_s if self._end_by_s is None else max(0.0, self._end_by_s - self._clock.monotonic_s())
