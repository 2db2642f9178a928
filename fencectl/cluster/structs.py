"""
Typed decoders for pages of lists: only what decides whether an object matters is ever built.

A page of 500 objects is decoded to names, the annotation keys of one profile and `spec.suspend`; a whole object
is decoded from the same bytes only where one of these says so. A page that does not fit the types (which no API
server sends, and a broken one may) is decoded item by item without types, so that one bad object neither fails
the report nor hides itself or another.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import msgspec
from msgspec import UNSET, Raw as Undecoded, Struct, field

from fencectl.core.refs import dig

# NB: the reader's own values are structs too, not dataclasses: to define a frozen slotted dataclass takes 50 times
# as long, and start-up is a promise.
# `gc=False`: only what can be part of a cycle needs the garbage collector, and thousands of these are made.


class _ListMeta(Struct, gc=False):
    continue_: str | None = field(name="continue", default=None)
    version: str | None = field(name="resourceVersion", default=None)


class _RawPage(Struct, gc=False):
    """A page whose items stay bytes."""

    items: list[Undecoded] | None
    metadata: Any = None


class BadPageError(Exception):
    """The body is no list of the API at all."""


class Item(Struct, frozen=True, gc=False):
    """
    What one object of a list says about itself.

    `marked`: it has an annotation of the profile, whatever the value. `suspend`: the value of `spec.suspend`,
    UNSET where there is none (or where the list carries no spec).
    """

    name: str
    namespace: str | None
    uid: str
    marked: bool
    suspend: Any


class Page(Struct, frozen=True):
    """
    One page. `version` is the moment of the whole list, where a watch can go on.

    `items`: the objects that matter, with their places in the page. `has_suspend`: whether any object at all
    shows `spec.suspend`. `malformed`: names of those of which it cannot be told whether they matter.
    """

    count: int
    continue_token: str
    items: tuple[tuple[int, Item], ...]
    has_suspend: bool
    malformed: tuple[str, ...]
    version: str
    body: bytes

    def wholes(self) -> Iterator[tuple[Item, dict[str, Any]]]:
        """Decode the objects that matter, each from its own bytes, so that one at a time is in memory."""
        if not self.items:
            return
        raw = _RAW_PAGE.decode(self.body).items or []
        for position, item in self.items:
            yield item, decode_object(bytes(raw[position]))


_RAW_PAGE = msgspec.json.Decoder(_RawPage)


def _annotations_of(keys: tuple[str, ...]) -> Any:
    """Make a struct of the annotations of one profile."""
    return msgspec.defstruct(
        "Annotations",
        # NB: any value is taken, since the key alone makes it a mark: an empty or broken one is reported.
        [(f"key_{n}", Any, field(name=key, default=UNSET)) for n, key in enumerate(keys)],
        gc=False,
        frozen=True,
    )


class PageDecoder:
    """
    The decoder of one profile for one list.

    `keys`: the annotations that make an object matter. With `everything`, each object matters (the lists that a
    selector has already narrowed).
    """

    def __init__(self, keys: tuple[str, ...], *, everything: bool = False) -> None:
        self._keys = keys
        self._everything = everything
        annotations = _annotations_of(keys)
        metadata: Any = msgspec.defstruct(
            "Metadata",
            [
                ("name", str),
                ("namespace", str, ""),
                ("uid", str, ""),
                ("annotations", annotations | None, None),
            ],
            gc=False,
        )
        spec = msgspec.defstruct("Spec", [("suspend", Any, UNSET)], gc=False)
        item: Any = msgspec.defstruct("Item", [("metadata", metadata), ("spec", spec | None, None)], gc=False)
        page = msgspec.defstruct(
            "Page",
            # NB: no default for the items: an answer without them is not an empty list.
            [("items", list[item] | None), ("metadata", _ListMeta | None, None)],
            gc=False,
        )
        self._decoder: Any = msgspec.json.Decoder(page)
        self._unmarked = annotations()

    def decode(self, body: bytes) -> Page:
        """Read one page; raises BadPageError where the body is no list."""
        try:
            page = self._decoder.decode(body)
        except (msgspec.DecodeError, RecursionError):
            return self._decode_untyped(body)
        items = page.items or []
        found: list[tuple[int, Item]] = []
        has_suspend = False
        unmarked = self._unmarked
        for position, one in enumerate(items):
            metadata, spec = one.metadata, one.spec
            annotations = metadata.annotations
            marked = annotations is not None and annotations != unmarked
            suspend = UNSET if spec is None else spec.suspend
            if suspend is not UNSET:
                has_suspend = True
            if marked or self._everything or _is_suspended(suspend):
                if not metadata.name:
                    return self._decode_untyped(body)
                item = Item(metadata.name, metadata.namespace or None, metadata.uid, marked, suspend)
                found.append((position, item))
        about = page.metadata or _ListMeta()
        return Page(len(items), about.continue_ or "", tuple(found), has_suspend, (), about.version or "", body)

    def _decode_untyped(self, body: bytes) -> Page:
        try:
            text = body.decode("utf-8", "replace").encode()
            page = _RAW_PAGE.decode(text)
        except (msgspec.DecodeError, RecursionError) as bad:
            raise BadPageError(str(bad)) from bad
        items = page.items or ()
        found: list[tuple[int, Item]] = []
        malformed: list[str] = []
        has_suspend = False
        for position, undecoded in enumerate(items):
            one = _decode_any(bytes(undecoded))
            name, namespace = dig(one, "metadata", "name"), dig(one, "metadata", "namespace")
            if not isinstance(name, str) or not name:
                malformed.append("an object without a name")
                continue
            annotations = dig(one, "metadata", "annotations")
            if annotations is not None and not isinstance(annotations, dict):
                # NB: whether it is marked cannot be told, so it must not count as unmarked.
                malformed.append(f"{namespace}/{name}" if isinstance(namespace, str) and namespace else name)
            marked = isinstance(annotations, dict) and any(key in annotations for key in self._keys)
            spec = one.get("spec")
            suspend = spec.get("suspend", UNSET) if isinstance(spec, dict) else UNSET
            has_suspend = has_suspend or suspend is not UNSET
            if marked or self._everything or _is_suspended(suspend):
                uid = dig(one, "metadata", "uid")
                item = Item(
                    name,
                    namespace if isinstance(namespace, str) and namespace else None,
                    uid if isinstance(uid, str) else "",
                    marked,
                    suspend,
                )
                found.append((position, item))
        token, version = dig(page.metadata, "continue"), dig(page.metadata, "resourceVersion")
        return Page(
            len(items),
            token if isinstance(token, str) else "",
            tuple(found),
            has_suspend,
            tuple(malformed),
            version if isinstance(version, str) else "",
            text,
        )


def _is_suspended(suspend: Any) -> bool:
    """Whether it is, or says something that is neither yes nor no."""
    return suspend is not UNSET and suspend is not None and suspend is not False


class Event(Struct, frozen=True, gc=False):
    """
    One event of a watch.

    `state` is what a report rests on, as a value that changes where that changes; None where the object does not
    matter (or no longer: it was deleted). `code`: of an ERROR.
    """

    type: str
    namespace: str
    name: str
    version: str
    state: Any
    code: int


class By(Enum):
    """What of an object counts as a change."""

    MARKS = "its marks and its suspension"
    VERSION = "anything"
    PRESENCE = "whether it is there"


class EventDecoder:
    """Decodes the events of one watch to what a report rests on."""

    def __init__(self, keys: tuple[str, ...] = (), *, by: By = By.MARKS) -> None:
        self._by = by
        annotations = _annotations_of(keys)
        metadata = msgspec.defstruct(
            "Metadata",
            [
                ("name", str, ""),
                ("namespace", str, ""),
                ("uid", str, ""),
                ("version", str, field(name="resourceVersion", default="")),
                ("deleted", Any, field(name="deletionTimestamp", default=None)),
                ("annotations", annotations | None, None),
            ],
            gc=False,
        )
        spec = msgspec.defstruct("Spec", [("suspend", Any, UNSET)], gc=False)
        obj: Any = msgspec.defstruct(
            "Object", [("metadata", metadata), ("spec", spec | None, None), ("code", int, 0)], gc=False
        )
        event = msgspec.defstruct("Event", [("type", str), ("object", obj)], gc=False)
        self._decoder: Any = msgspec.json.Decoder(event)
        self._unmarked = annotations()

    def decode(self, line: bytes) -> Event:
        """Read one line of a watch; raises BadPageError where it is no event."""
        try:
            event = self._decoder.decode(line)
        except (msgspec.DecodeError, RecursionError) as bad:
            raise BadPageError(str(bad)) from bad
        metadata, spec = event.object.metadata, event.object.spec
        state: Any = None
        if event.type != "DELETED":
            marks = metadata.annotations
            suspend = UNSET if spec is None else spec.suspend
            if self._by is By.VERSION:
                state = metadata.version
            elif self._by is By.PRESENCE:
                state = metadata.uid
            elif (marks is not None and marks != self._unmarked) or _is_suspended(suspend):
                state = (metadata.uid, metadata.deleted, suspend, marks)
        return Event(event.type, metadata.namespace, metadata.name, metadata.version, state, event.object.code)


def decode_object(body: bytes) -> dict[str, Any]:
    """Read one whole object; raises BadPageError where it is none."""
    obj = _decode_any(body)
    if not isinstance(obj, dict):
        raise BadPageError("not an object")
    return obj


def _decode_any(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        # Text that is not UTF-8, which the typed decoder passes over where it skips.
        return msgspec.json.decode(body.decode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError) as bad:
        raise BadPageError(str(bad)) from bad
