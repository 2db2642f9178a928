"""
Read many objects as they are now: a few by name, many of one kind and namespace by one list, page by page.

Whoever may not list reads each by name. An object that is not there is an answer; everything else that is not the
object raises: half of what was asked for is none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from msgspec import structs

from fencectl.cluster.answer import Answer
from fencectl.cluster.clock import Clock
from fencectl.cluster.kinds import ListedKind
from fencectl.cluster.pages import ListQuery, read_list
from fencectl.cluster.ports import Getter, Query
from fencectl.cluster.read import Asked, ReadFailedError, Reads, path_part
from fencectl.cluster.structs import Page, PageDecoder
from fencectl.core.refs import ObjectRef, Seen, dig
from fencectl.run.story import PAUSE_S

# One request, and one list with all of its pages.
REQUEST_S = 10.0
LIST_S = 60.0
TRIES = 3
# NB: an object can have more than a MiB, and a page must fit into memory whole.
PAGE = 100
# So many by name cost no more than a list of everything beside them.
FEW = 4

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class _Halting:
    """A getter that asks before each request whether the work must end; whoever asks raises."""

    getter: Getter
    stop_if_asked: Callable[[], None]

    def get(
        self,
        path: str,
        *,
        query: Query | None = None,
        accept: str = "application/json",
        deadline_s: float | None = None,
    ) -> Answer:
        self.stop_if_asked()
        limit_s = REQUEST_S if deadline_s is None else min(deadline_s, REQUEST_S)
        return self.getter.get(path, query=query, accept=accept, deadline_s=limit_s)

    def stream(
        self, path: str, *, query: Query | None = None, accept: str = "application/json", idle_s: float = 60.0
    ) -> Iterator[bytes]:
        return self.getter.stream(path, query=query, accept=accept, idle_s=idle_s)


class _Named(PageDecoder):
    """Decodes only the objects that have one of these names; the rest of a page is passed over."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__((), everything=True)
        self._names = frozenset(names)

    def decode(self, body: bytes) -> Page:
        page = super().decode(body)
        return structs.replace(page, items=tuple(one for one in page.items if one[1].name in self._names))


@dataclass(slots=True)
class Gathering:
    """
    Reads of one cluster.

    `stop_if_asked`: raises where the work must end; asked before every request. `halting`: the getter that does
    so, for what asks the server itself.
    """

    getter: Getter
    clock: Clock
    stop_if_asked: Callable[[], None]
    halting: Getter = field(init=False)

    def __post_init__(self) -> None:
        self.halting = _Halting(self.getter, self.stop_if_asked)

    def reads(self, deadline_s: float = LIST_S) -> Reads:
        """Reads that end when the work must end."""
        return Reads(self.halting, clock=self.clock, deadline_s=deadline_s)

    def gather(self, refs: Collection[ObjectRef], take: Callable[[Seen], None]) -> None:
        """
        Read all of these (their uids do not count); `take` is called with each that is there.

        Raises ReadFailedError, and what stops the work.
        """
        groups: dict[tuple[str, str, str, str | None], list[ObjectRef]] = {}
        for ref in dict.fromkeys(refs):
            groups.setdefault((ref.api_version, ref.kind, ref.plural, ref.namespace), []).append(ref)
        for wanted in groups.values():
            if len(wanted) > FEW and self._by_list(wanted, take):
                continue
            for ref in wanted:
                seen = self.one(ref)
                if seen is not None:
                    take(seen)

    def one(self, ref: ObjectRef) -> Seen | None:
        """Read one object by name; None where there is none. Raises ReadFailedError."""
        path_part(ref.name)
        asked = Asked("get", f"{ref.plural}.{ref.group}" if ref.group else ref.plural, ref.namespace)
        raw = self.patiently(lambda: self.reads(REQUEST_S).object_or_none(ref.path, asked=asked))
        return None if raw is None else _seen(ref, raw)

    def _by_list(self, wanted: list[ObjectRef], take: Callable[[Seen], None]) -> bool:
        """Whether a list gave them; else each has to be read by name."""
        first = wanted[0]
        version = first.api_version.rpartition("/")[2]
        kind = ListedKind(first.group, version, first.kind, first.plural, first.namespace is not None)
        decoder = _Named([ref.name for ref in wanted])
        query = ListQuery(kind, decoder, PAGE, namespace=first.namespace)
        try:
            listed = self.patiently(lambda: read_list(self.reads(), query))
        except ReadFailedError as failed:
            if failed.status in (403, 405):
                return False
            raise
        if listed.malformed:
            raise ReadFailedError(f"{listed.malformed[0]} cannot be decoded")
        for seen in listed.seen:
            take(seen)
        return True

    def patiently(self, do: Callable[[], _Result]) -> _Result:
        """Try again what a busy server or a lost connection refused; reads change nothing."""
        for _ in range(TRIES - 1):
            try:
                return do()
            except ReadFailedError as failed:
                if failed.status is not None and failed.status != 429 and failed.status < 500:
                    raise
            self.clock.wait(None, PAUSE_S)
        return do()


def _seen(ref: ObjectRef, raw: dict[str, Any]) -> Seen:
    uid = dig(raw, "metadata", "uid")
    return Seen(
        ObjectRef(
            ref.api_version, ref.kind, ref.plural, ref.namespace, ref.name, uid if isinstance(uid, str) else ""
        ),
        raw,
    )
