"""
Write a record: read, decide, one guarded write; again from the start when somebody else was faster.

A lost answer is not a failure. The record is read back: what stands there exactly as it was written is ours; else
the same is decided and sent again, within a bound. Where that runs out, nobody can say whether the write has
happened, and the error says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from fencectl.cluster.answer import read_refusal
from fencectl.cluster.clock import Clock
from fencectl.cluster.write import create, send
from fencectl.core.answers import Answer, Applied, Refused, Unknown, Why
from fencectl.core.errors import ExitCode, FencectlError, NotReadableError, PersonNeededError, UsageError
from fencectl.core.record_write import LARGEST_BYTES, Change, is_written, new_record, size_after, write_record
from fencectl.core.refs import ObjectRef, Seen, dig, is_deleting
from fencectl.run.ports import Door

# One request may take so long, and all of one write together; then a person is told instead of kept waiting.
REQUEST_S = 10.0
WRITE_S = 30.0
# NB: grows, so that many writers at once do not all come back at the same moment.
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0

_USER = re.compile(r'User "((?:[^"\\]|\\.)*)" cannot ')


class UnresolvedWriteError(FencectlError):
    """A write was sent, and nobody can say whether it was carried out."""

    exit_code = ExitCode.STILL_FENCED


@dataclass(frozen=True, slots=True)
class Record:
    """
    A record as it was read.

    `seen` None: there is no ConfigMap yet. `at`: the server's clock, else our own. `unanswered`: what was sent
    before without an answer; it may have been carried out, and undone by somebody else since.
    """

    seen: Seen | None
    at: datetime
    unanswered: tuple[Change, ...] = ()


Decide = Callable[[Record], tuple[Change, ...]]
"""What to write, given what is there; nothing: it is as it should be. May raise, then nothing is written."""


@dataclass(slots=True)
class RecordBook:
    """
    The record beside one lease.

    `ref`: the ConfigMap, without a uid. `purpose`: who asks, for messages: `hold place`. `label`: the cluster's
    name in them. `request_s`: how long one request may take. `look`: the command that shows what came of it.
    """

    door: Door
    clock: Clock
    ref: ObjectRef
    purpose: str
    label: str
    request_s: float = REQUEST_S
    look: str = "fencectl fences"

    def read(self) -> Record:
        """Read the record; raises NotReadableError, naming the right where one is missing."""
        found = self.door.get(self.ref.path, deadline_s=self.request_s)
        at = found.date_at or self.clock.wall()
        if found.status == 404:
            return Record(None, at)
        if not found.ok:
            said = read_refusal(found)
            if found.status == 403:
                raise self._forbidden("get", said.message)
            raise NotReadableError(
                f"{self.ref.display} could not be read on {self.label}", reason=f"{found.status}: {said.message}"
            )
        try:
            raw = json.loads(found.body)
        except ValueError as broken:
            raise NotReadableError(
                f"{self.ref.display} could not be read on {self.label}", reason="the answer could not be decoded"
            ) from broken
        return Record(self._seen(raw), at)

    def write(self, decide: Decide) -> Record:
        """
        Write what `decide` says, and return the record as it is then.

        Raises whatever `decide` raises; NotReadableError where a right is missing or the server takes no write;
        UnresolvedWriteError where a write was sent and its outcome stays unknown.
        """
        end_s = self.clock.monotonic_s() + max(WRITE_S, self.request_s)
        unanswered: tuple[Change, ...] = ()
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                record = self.read()
            except NotReadableError as failure:
                if unanswered:
                    raise self._unresolved(failure.cause_in_short) from failure
                raise
            if unanswered and is_written(record.seen, unanswered):
                return record
            changes = decide(replace(record, unanswered=unanswered))
            if not changes:
                return record
            self._must_fit(record, changes)
            answer = self._send(record, changes)
            match answer:
                case Applied(raw):
                    return Record(self._seen(raw), record.at)
                case Unknown(detail):
                    unanswered = changes
                case Refused(Why.GUARD, _, detail):
                    # Somebody else wrote in between, perhaps another entry only: read, and decide again.
                    detail = (
                        f"others write it all the time ({detail})" if detail else "others write it all the time"
                    )
                case Refused(Why.BUSY, _, detail):
                    pass
                case Refused(Why.GONE, _, detail) if record.seen is not None:
                    pass  # the ConfigMap was deleted in between: made anew
                case Refused():
                    raise self._refused(record, answer)
            if self.clock.monotonic_s() + pause_s >= end_s:
                if unanswered:
                    raise self._unresolved(detail)
                raise NotReadableError(
                    f"{self.ref.display} could not be written on {self.label}", reason=f"{detail}. {_NOTHING}"
                )
            self.clock.wait(None, pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    def _send(self, record: Record, changes: tuple[Change, ...]) -> Answer:
        if record.seen is None:
            collection = self.ref.path.rpartition("/")[0]
            return create(self.door, collection, new_record(self.ref, changes), deadline_s=self.request_s)
        return send(self.door, write_record(record.seen, changes), deadline_s=self.request_s)

    def _seen(self, raw: object) -> Seen:
        ref = self.ref
        uid = str(dig(raw, "metadata", "uid"))
        return Seen(
            ObjectRef(ref.api_version, ref.kind, ref.plural, ref.namespace, ref.name, uid),
            raw if isinstance(raw, dict) else {},
        )

    def _must_fit(self, record: Record, changes: tuple[Change, ...]) -> None:
        size = size_after(record.seen, changes)
        if size > LARGEST_BYTES:
            raise PersonNeededError(
                f"{self.ref.display} on {self.label} is full: {size} bytes with this entry",
                reason=f"a ConfigMap takes {LARGEST_BYTES} bytes, and something else fills this one. {_NOTHING}",
                hint="take out of it what is not fencectl's (`record-…`, `hold-…`, `claim-…`, `lifted-…`)",
            )
        if record.seen is not None and is_deleting(record.seen.raw):
            raise PersonNeededError(
                f"{self.ref.display} on {self.label} is being deleted",
                reason=f"what is written to it now would be lost. {_NOTHING}",
            )

    def _refused(self, record: Record, answer: Refused) -> FencectlError:
        verb = "create" if record.seen is None else "patch"
        if answer.why is Why.GONE:
            return UsageError(
                f"no namespace `{self.ref.namespace}` on {self.label}",
                reason="a record stands beside its lease, and that namespace is configured for the lease",
                hint="set `lease.namespace` in fencectl.yaml, or create the namespace. Nothing was changed",
            )
        if answer.why is Why.FORBIDDEN:
            return self._forbidden(verb, answer.detail)
        return NotReadableError(
            f"{self.ref.display} could not be written on {self.label}",
            reason=f"{answer.status}: {answer.detail}. {_NOTHING}",
        )

    def _forbidden(self, verb: str, detail: str) -> NotReadableError:
        user = _USER.search(detail)
        if user is None:
            # Not a missing right: an admission rule, or a namespace that is being deleted.
            return NotReadableError(
                f"{self.label} refuses to `{verb}` {self.ref.display}", reason=f"{detail}. {_NOTHING}"
            )
        who = re.sub(r"\\(.)", r"\1", user.group(1))
        return NotReadableError(
            f"user {who} may not `{verb}` {self.ref.plural} (namespace {self.ref.namespace})",
            reason=f"{self.purpose} needs it for {self.ref.display} on {self.label}. {_NOTHING}",
        )

    def _unresolved(self, detail: str) -> UnresolvedWriteError:
        return UnresolvedWriteError(
            f"nobody can say whether {self.purpose} was carried out on {self.label}",
            reason=f"the write to {self.ref.display} was sent, and no answer came: {detail}",
            hint=f"once the API server answers, `{self.look}` shows it",
        )


_NOTHING = "Nothing was changed"
