"""
Tell in Kubernetes Events what happens to fences: best effort, beside the work, never in its way.

Nothing waits for an Event and nothing depends on one: a thread of its own sends them over a connection of its own,
each once; what does not fit into the queue, is not answered in time, or is not allowed is dropped without a word.
"""

from __future__ import annotations

import queue
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fencectl.cluster.clock import Clock
from fencectl.cluster.write import Sender, create
from fencectl.core.answers import Refused, Why
from fencectl.core.happening import Happening, event_collection, event_of
from fencectl.core.identity import parse_holder, run_link
from fencectl.core.journal import Journal
from fencectl.core.refs import ObjectRef
from fencectl.run.ports import Thread, Threads

# So many may wait to be sent: two for each fence of a large deploy.
ROOM = 200
SEND_S = 2.0
# How long the end of a command may be held up by those that are still to be sent; its work is all done by then.
LINGER_S = 1.0


class Tells(Protocol):
    """Where happenings are told."""

    def tell(self, ref: ObjectRef, what: Happening, sentence: str, holder: str) -> None:
        """Tell one; returns at once, and never fails. `holder`: whose fence it is."""
        ...


class Silent:
    """Tells nobody: where no cluster is spoken to, or nobody should hear of it."""

    def tell(self, ref: ObjectRef, what: Happening, sentence: str, holder: str) -> None:
        pass


@dataclass(slots=True)
class Reporter:
    """
    Sends Events as one run.

    `teller`: its identity; `repository` and `server`: where its page is, if it has one.
    """

    sender: Sender
    clock: Clock
    threads: Threads
    teller: str
    repository: str | None = None
    server: str | None = None
    _waiting: queue.Queue[tuple[str, Mapping[str, Any]] | None] = field(
        default_factory=lambda: queue.Queue(maxsize=ROOM)
    )
    _thread: Thread | None = None
    _over: bool = False

    @classmethod
    def of(cls, own: Journal, sender: Sender, clock: Clock, threads: Threads) -> Reporter:
        """One that tells as the run with this journal."""
        return cls(sender, clock, threads, own.holder, own.repository, own.server)

    def tell(self, ref: ObjectRef, what: Happening, sentence: str, holder: str) -> None:
        if self._over:
            return
        note = f"{sentence}; holder {holder}"
        link = run_link(parse_holder(self.teller), self.repository, self.server)
        body = event_of(ref, what, f"{note}, {link}" if link else note, teller=self.teller, at=self.clock.wall())
        try:
            self._waiting.put_nowait((event_collection(ref), body))
        except queue.Full:
            return
        if self._thread is None:
            self._thread = self.threads.start(self._send_all, name="events")

    def end(self, within_s: float = LINGER_S) -> None:
        """Send what is still to be sent, for so long at most; what is left then is dropped."""
        if self._thread is None:
            return
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            self._over = True
        self._thread.join(within_s)
        self._over = True

    def _send_all(self) -> None:
        while (one := self._waiting.get()) is not None and not self._over:
            try:
                answer = create(self.sender, *one, deadline_s=SEND_S)
            except Exception:  # noqa: BLE001 (the door may be closed by now; an Event is never worth an error)
                self._over = True
                return
            if isinstance(answer, Refused) and answer.why is Why.FORBIDDEN:
                # NB: the next ones would not be allowed either.
                self._over = True
                return
