"""
Take away what is no longer rendered: the members of the ApplySet that this deploy has not applied.

Absolute state is withheld on a partial view: where a list could not be read, where too much would go, nothing goes
(unless that was asked for), it is said, and what the parent records does not shrink. Each deletion is of the very
object that was read, still a member and under no fence.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from fencectl.cluster.api_resources import ApiResources
from fencectl.cluster.clock import Clock
from fencectl.cluster.kinds import ListedKind
from fencectl.cluster.pages import METADATA_ONLY, ListQuery, read_list
from fencectl.cluster.ports import Getter
from fencectl.cluster.read import ReadFailedError, Reads
from fencectl.cluster.structs import PageDecoder
from fencectl.cluster.write import delete
from fencectl.core.answers import Applied, Refused, Unknown, Why
from fencectl.core.applies import stage_of
from fencectl.core.apply_plan import SetPlan
from fencectl.core.applyset import PART_OF, why_withheld
from fencectl.core.marks import read_mark
from fencectl.core.refs import ObjectRef, dig, is_deleting, labels_of
from fencectl.run.applying import Hands, deadline_under
from fencectl.run.story import PAUSE_S, StoppedError, read

LIST_S = 30.0
# A member may be written all the time by its controller; each try reads it afresh.
TRIES = 5
WITHHELD_HINT = "look at what is rendered; `--allow-partial-prune` takes away what is seen nevertheless"


@dataclass(frozen=True, slots=True)
class Members:
    """The members of a set. `unreadable`: what could not be listed, and why: more may be there."""

    found: tuple[ObjectRef, ...]
    unreadable: tuple[tuple[str, str], ...] = ()


_NOT_CAPTURED = "it became a member while this deploy ran, so that its recovery point does not have it"

Key = tuple[str, str, str | None, str]


def key_of(ref: ObjectRef) -> Key:
    """What makes an object the same in another version of its group."""
    return ref.group, ref.kind, ref.namespace, ref.name


def list_members(getter: Getter, clock: Clock, applyset: SetPlan) -> Members:
    """List every kind in every namespace in which members may be. Raises nothing: what fails is named."""
    reads = Reads(getter, clock=clock, deadline_s=LIST_S)
    resources = ApiResources(reads)
    found: dict[Key, ObjectRef] = {}
    unreadable: list[tuple[str, str]] = []
    where = applyset.everything
    for group, kind in sorted(where.kinds):
        name = f"{kind}.{group}" if group else kind
        try:
            listed = resources.find_any(group, kind)
        except ReadFailedError as failed:
            unreadable.append((name, failed.why))
            continue
        # NB: a kind that is not served has no objects; the definition went, and they with it.
        for namespace in (sorted(where.namespaces) if listed.namespaced else [None]) if listed else ():
            try:
                for ref in _list(reads, listed, namespace, applyset.id) if listed else ():
                    found[key_of(ref)] = ref
            except ReadFailedError as failed:
                unreadable.append((f"{name} in {namespace}" if namespace else name, failed.why))
    return Members(tuple(found.values()), tuple(unreadable))


def _list(reads: Reads, kind: ListedKind, namespace: str | None, label: str) -> list[ObjectRef]:
    selector = (("labelSelector", f"{PART_OF}={label}"),)
    query = ListQuery(
        kind,
        PageDecoder((), everything=True),
        500,
        selector,
        accept=METADATA_ONLY,
        whole=False,
        namespace=namespace,
    )
    listed = read_list(reads, query)
    if listed.malformed:
        raise ReadFailedError(f"{listed.malformed[0]} cannot be decoded")
    return [
        ObjectRef(kind.api_version, kind.kind, kind.plural, item.namespace, item.name, item.uid)
        for item in listed.items
    ]


def why_not_prune(members: Members, rendered: Collection[Key]) -> str | None:
    """Why a prune is withheld; None where it may go on."""
    if members.unreadable:
        what, why = members.unreadable[0]
        more = len(members.unreadable) - 1
        return f"{what} could not be listed: {why}" + (f" (and {more} more)" if more else "")
    kept = sum(key_of(ref) in rendered for ref in members.found)
    return why_withheld(members=len(members.found), kept=kept, rendered=len(rendered))


@dataclass(slots=True)
class Pruned:
    """
    What came of a prune.

    `withheld`: why nothing went; `left`: what should have gone, and why not; `seen_whole`: every list was read.
    """

    gone: list[ObjectRef] = field(default_factory=list)
    left: list[tuple[ObjectRef, str]] = field(default_factory=list)
    withheld: str | None = None
    seen_whole: bool = True


class Pruner:
    """Deletes members, last stage first."""

    def __init__(
        self,
        hands: Hands,
    ) -> None:
        self._hands = hands

    def prune(
        self,
        applyset: SetPlan,
        rendered: Collection[Key],
        *,
        partial: bool,
        restorable: Collection[Key] | None = None,
    ) -> Pruned:
        """
        Delete the members that are not rendered. `partial`: also on a partial view, what is seen of it.

        `restorable`: only these, since nothing could bring another back; None: whichever.
        """
        members = list_members(self._hands.door, self._hands.clock, applyset)
        pruned = Pruned(seen_whole=not members.unreadable)
        why = why_not_prune(members, rendered)
        if why is not None and not partial:
            pruned.withheld = why
            return pruned
        stale = [ref for ref in members.found if key_of(ref) not in rendered]
        for ref in sorted(stale, key=lambda one: (-stage_of(one.kind), one.display)):
            kept = _NOT_CAPTURED if restorable is not None and key_of(ref) not in restorable else None
            kept = kept or self._delete(ref, applyset.id)
            if kept is None:
                pruned.gone.append(ref)
                self._hands.tell(f"{ref.display} pruned")
            else:
                pruned.left.append((ref, kept))
                self._hands.tell(f"{ref.display} is not pruned: {kept}")
        return pruned

    def _delete(self, ref: ObjectRef, label: str) -> str | None:
        """Delete one member; why it stays, or None where it is gone or on its way."""
        why = "it is changed all the time"
        for _ in range(TRIES):
            self._hands.stop_if_asked()
            try:
                seen = read(self._hands.door, ref)
            except StoppedError as unread:
                return unread.sentence
            if seen is None or is_deleting(seen.raw):
                return None
            if labels_of(seen.raw).get(PART_OF) != label:
                return "it is no member any more"
            if read_mark(seen) is not None:
                return "it is under a fence"
            version = str(dig(seen.raw, "metadata", "resourceVersion"))
            match delete(self._hands.door, ref, version, deadline_s=deadline_under(self._hands.keeper)):
                case Applied() | Refused(Why.GONE):
                    self._hands.begun()
                    return None
                case Unknown(detail):
                    self._hands.begun()
                    why = f"nobody can say whether it is gone: {detail}"
                case Refused(Why.GUARD):
                    continue
                case Refused(Why.BUSY, _, detail):
                    why = detail
                case Refused(_, status, detail):
                    return f"{status}: {detail}"
            self._hands.clock.wait(None, PAUSE_S)
        return why
