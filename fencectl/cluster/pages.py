"""
Lists, page by page, at one moment.

A list that expires half-way (410) is read again from its first page: the token that the server offers to go on
would join pages of two moments, and a fence placed between them could be in neither.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from fencectl.cluster.kinds import ListedKind
from fencectl.cluster.read import JSON, UNDECODABLE, Asked, ReadFailedError, Reads
from fencectl.cluster.structs import BadPageError, Item, PageDecoder
from fencectl.core.refs import ObjectRef, Seen

METADATA_ONLY = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"
_RESTARTS = 3


class ListQuery(Struct, frozen=True):
    """
    Which list, and how.

    `whole`: decode the objects that matter wholly; else only their `Item`s are kept. `trim`: what is taken off
    a whole object because nobody needs it and it is large. `namespace`: None lists over all.
    """

    kind: ListedKind
    decoder: PageDecoder
    page_size: int
    selector: tuple[tuple[str, str], ...] = ()
    accept: str = JSON
    whole: bool = True
    namespace: str | None = None
    trim: Callable[[dict[str, object]], None] | None = None

    @property
    def path(self) -> str:
        if self.namespace is None:
            return self.kind.path
        return f"{self.kind.root}/namespaces/{self.namespace}/{self.kind.plural}"


class Listed(Struct, frozen=True):
    """What a list held, and at which version. `missing`: the server has no such list."""

    count: int = 0
    items: tuple[Item, ...] = ()
    seen: tuple[Seen, ...] = ()
    has_suspend: bool = False
    malformed: tuple[str, ...] = ()
    version: str = ""
    missing: bool = False


class _ExpiredError(Exception):
    """The server has forgotten the moment that the list was read at."""


def read_list(reads: Reads, query: ListQuery) -> Listed:
    """Read a whole list; raises ReadFailedError where any page of it could not be read."""
    for _ in range(_RESTARTS):
        try:
            return _read_once(reads, query)
        except _ExpiredError:
            continue
    raise ReadFailedError(f"the list expired while it was read, {_RESTARTS} times (410)")


def _read_once(reads: Reads, query: ListQuery) -> Listed:
    count = 0
    items: list[Item] = []
    seen: list[Seen] = []
    has_suspend = False
    malformed: list[str] = []
    token = ""
    while True:
        page = _read_page(reads, query, token)
        if page is None:
            return Listed(missing=True)
        count += page.count
        items += page.items
        seen += page.seen
        has_suspend = has_suspend or page.has_suspend
        malformed += page.malformed
        token = page.continue_token
        if not token:
            return Listed(count, tuple(items), tuple(seen), has_suspend, tuple(malformed), page.version)


class _Found(Struct, frozen=True):
    """What is kept of one page."""

    count: int
    items: tuple[Item, ...]
    seen: tuple[Seen, ...]
    has_suspend: bool
    malformed: tuple[str, ...]
    continue_token: str
    version: str


def _read_page(reads: Reads, query: ListQuery, token: str) -> _Found | None:
    # NB: nothing of the body may outlive this function, or two pages of each thread would be in memory.
    parameters = {**dict(query.selector), "limit": str(query.page_size)}
    if token:
        parameters["continue"] = token
    asked = Asked("list", query.kind.resource, query.namespace)
    answer = reads.get(query.path, asked=asked, query=parameters, accept=query.accept)
    if answer.status == 410:
        raise _ExpiredError
    if answer.status == 404:
        return None
    try:
        page = query.decoder.decode(answer.body)
        seen: list[Seen] = []
        for item, obj in page.wholes() if query.whole else ():
            if query.trim is not None:
                query.trim(obj)
            # NB: items of a list say neither; a single object does, and so does what reads it.
            whole = {"apiVersion": query.kind.api_version, "kind": query.kind.kind, **obj}
            seen.append(Seen(ref_of(query.kind, item), whole))
    except BadPageError as bad:
        raise ReadFailedError(UNDECODABLE) from bad
    items = tuple(item for _, item in page.items)
    return _Found(
        page.count, items, tuple(seen), page.has_suspend, page.malformed, page.continue_token, page.version
    )


def ref_of(kind: ListedKind, item: Item) -> ObjectRef:
    """Name an object of a list."""
    return ObjectRef(kind.api_version, kind.kind, kind.plural, item.namespace, item.name, item.uid)
