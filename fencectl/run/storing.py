"""
Store a recovery point as Secrets beside the lease, whole, and take away those that are outlived.

Each write goes under the lease. An answer that was lost is no failure: the same is sent again, and a Secret that
is there then, exactly as it was sent, is ours. Nothing that is not a part of this lease's own points, by type,
label and name together, is ever written over or deleted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from fencectl.cluster.clock import Clock
from fencectl.cluster.kinds import ListedKind
from fencectl.cluster.pages import METADATA_ONLY, ListQuery, read_list
from fencectl.cluster.read import ReadFailedError
from fencectl.cluster.structs import PageDecoder
from fencectl.cluster.write import create, delete
from fencectl.core.answers import Answer, Applied, Refused, Unknown, Why
from fencectl.core.errors import ExitCode, FencectlError, NotReadableError
from fencectl.core.recovery_point import (
    Packed,
    RecoveryPoint,
    generation_in,
    is_own_part,
    is_same_part,
    outlived,
    part_ref,
    secret_for,
    selector_of,
)
from fencectl.core.refs import ObjectRef, Seen
from fencectl.run.applying import deadline_under
from fencectl.run.gathering import Gathering
from fencectl.run.keeper import Keeper
from fencectl.run.ports import Door
from fencectl.run.story import PAUSE_S

SECRETS = ListedKind("", "v1", "Secret", "secrets", namespaced=True)
# How long storing one part may take with all of its tries.
PART_S = 60.0
NOTHING = "Nothing was changed"
_LISTED = 500
_PASSING = (Why.GONE, Why.GUARD, Why.BUSY)
_USER = re.compile(r'User "((?:[^"\\]|\\.)*)" cannot ')


class NotStoredError(FencectlError):
    """A recovery point could not be stored; nothing was changed."""

    exit_code = ExitCode.FAILED_PREVIOUS_RUNS


@dataclass(slots=True)
class PointStore:
    """
    The recovery points beside one lease.

    `stop_if_asked`: raises where the work must end; asked before every request. `tell`: called with what is worth
    a line.
    """

    door: Door
    clock: Clock
    keeper: Keeper
    lease: tuple[str, str]
    stop_if_asked: Callable[[], None]
    tell: Callable[[str], None]

    def store(self, point: RecoveryPoint, packed: Packed) -> None:
        """Create every part. Raises NotStoredError, NotReadableError, LeaseLostError, and what stops the work."""
        for part in range(len(packed.parts)):
            self._create(part_ref(self.lease, point.generation, part), secret_for(self.lease, point, packed, part))

    def _create(self, ref: ObjectRef, body: Mapping[str, Any]) -> None:
        end_s = self.clock.monotonic_s() + PART_S
        collection = ref.path.rpartition("/")[0]
        asked = False
        while True:
            self.stop_if_asked()
            answer = create(self.door, collection, body, deadline_s=deadline_under(self.keeper))
            detail = "it is there and gone, again and again"
            match answer:
                case Applied():
                    return
                case Refused(_, 409, _):
                    found = self._read(ref)
                    if asked and found is not None and is_same_part(found.raw, body):
                        return
                    self._make_room(ref, found)
                case Unknown(lost):
                    asked, detail = True, lost
                case Refused(Why.BUSY, _, said):
                    detail = said
                case Refused() as refused:
                    raise _refused(ref, "create", refused)
            if self.clock.monotonic_s() >= end_s:
                raise NotReadableError(f"{ref.display} could not be stored", reason=f"{detail}. {NOTHING}")
            self.clock.wait(None, PAUSE_S)

    def _make_room(self, ref: ObjectRef, found: Seen | None) -> None:
        """Delete what is left of another run under this number: its record is lost, or it would not be ours."""
        if found is None:
            return
        if not is_own_part(found.raw, self.lease):
            raise NotStoredError(
                f"{ref.display} is not fencectl's, and this deploy's recovery point needs its name",
                reason=f"its type or its label is another. It was left as it is. {NOTHING}",
                hint="rename it, or take it away",
            )
        match self._delete(found.ref):
            case Refused(why) as refused if why not in _PASSING:
                raise _refused(ref, "delete", refused)
            case _:
                pass  # NB: whether it is gone shows when the same is created again.

    def _read(self, ref: ObjectRef) -> Seen | None:
        try:
            return Gathering(self.door, self.clock, self.stop_if_asked).one(ref)
        except ReadFailedError as failed:
            raise NotReadableError(
                f"{ref.display} could not be read", reason=f"{failed.why}. {NOTHING}"
            ) from failed

    def _delete(self, ref: ObjectRef) -> Answer:
        """Delete the very Secret that was seen."""
        self.stop_if_asked()
        # NB: nobody can change it, so that its uid is all that tells it from another.
        return delete(self.door, ref, None, deadline_s=deadline_under(self.keeper))

    def take_away(self, generation: int, recorded: Collection[int]) -> None:
        """
        Delete the parts of points that are outlived (see `core.recovery_point.outlived`).

        What stays because it could not be listed or deleted is told: it does no harm but to the room it takes.
        Raises LeaseLostError, and what stops the work.
        """
        try:
            parts = self._list()
        except ReadFailedError as failed:
            self.tell(f"older recovery points stay: {failed.why}")
            return
        gone = outlived(parts.values(), own=generation, recorded=recorded)
        for ref in (ref for ref, of in parts.items() if of in gone):
            match self._delete(ref):
                case Applied() | Refused(Why.GONE | Why.GUARD):
                    pass
                case Refused(_, status, detail):
                    self.tell(f"older recovery points stay: {ref.display} is not deleted ({status}: {detail})")
                    return
                case Unknown(detail):
                    self.tell(f"older recovery points may stay: {ref.display} is asked to go ({detail})")
                    return

    def _list(self) -> dict[ObjectRef, int]:
        namespace, lease = self.lease
        query = ListQuery(
            SECRETS,
            PageDecoder((), everything=True),
            _LISTED,
            selector_of(lease),
            accept=METADATA_ONLY,
            whole=False,
            namespace=namespace,
        )
        listed = read_list(Gathering(self.door, self.clock, self.stop_if_asked).reads(), query)
        found = {}
        for item in listed.items:
            generation = generation_in(item.name, lease)
            if generation is not None and item.uid:
                found[ObjectRef("v1", "Secret", "secrets", namespace, item.name, item.uid)] = generation
        return found


def _refused(ref: ObjectRef, verb: str, answer: Refused) -> FencectlError:
    user = _USER.search(answer.detail) if answer.why is Why.FORBIDDEN else None
    if user is not None:
        who = re.sub(r"\\(.)", r"\1", user.group(1))
        return NotReadableError(
            f"user {who} may not `{verb}` {ref.plural} (namespace {ref.namespace})",
            reason=f"deploy needs it for its recovery point. {NOTHING}",
        )
    return NotStoredError(
        f"{ref.display} could not be stored" if verb == "create" else f"{ref.display} could not be deleted",
        reason=f"the API server refuses ({answer.status}: {answer.detail}). {NOTHING}",
    )
