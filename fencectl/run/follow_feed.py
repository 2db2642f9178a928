"""
One kind in one namespace, as it is and as it changes: a list, then a watch that goes on from it.

Lists and watches run in threads and only leave messages; all state is the follower's, which takes them in one by
one. A watch that ends is continued from where it was; where that is forgotten (410), or there is no watch to be
had, the list is read again, at the pace of a poll.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from fencectl.cluster.changes import IDLE_S, METADATA_EVENTS, WATCH_S
from fencectl.cluster.clock import Clock
from fencectl.cluster.failures import Kind, Unreachable
from fencectl.cluster.kinds import ListedKind
from fencectl.cluster.observe import PAGE
from fencectl.cluster.pages import METADATA_ONLY, ListQuery, read_list
from fencectl.cluster.ports import Getter
from fencectl.cluster.read import JSON, ReadFailedError, Reads
from fencectl.cluster.structs import BadPageError, PageDecoder, decode_object
from fencectl.cluster.watching import StreamRefused
from fencectl.cluster.workers import THREADS
from fencectl.core.errors import NotReadableError
from fencectl.core.refs import Raw, dig, text_or_none
from fencectl.run.ports import Threads

LIST_S = 10.0
"""How long one list may take, all tries of it together."""


@dataclass(frozen=True, slots=True)
class Scope:
    """
    What is read: a kind in a namespace (None: cluster-scoped), or one object of it where `name` is given.

    `metadata_only`: neither spec nor status is asked for (a Secret's data never leaves the server).
    """

    kind: ListedKind
    namespace: str | None
    name: str | None = None
    metadata_only: bool = False

    @property
    def what(self) -> str:
        """The scope as a person says it: `pods (namespace shop)`."""
        return f"{self.kind.resource} (namespace {self.namespace})" if self.namespace else self.kind.resource

    @property
    def query(self) -> ListQuery:
        """How it is listed."""
        return ListQuery(
            self.kind,
            PageDecoder((), everything=True),
            PAGE,
            (("fieldSelector", f"metadata.name={self.name}"),) if self.name else (),
            accept=METADATA_ONLY if self.metadata_only else JSON,
            namespace=self.namespace,
            trim=trim_pod if self.kind.resource == "pods" else None,
        )


_POD_METADATA = ("managedFields", "annotations", "finalizers")
_POD_SPEC = ("nodeName", "affinity")


def trim_pod(pod: dict[str, object]) -> None:
    """Take off a pod what no verdict rests on: a namespace may have thousands, and all of them are kept."""
    metadata, spec = pod.get("metadata"), pod.get("spec")
    if isinstance(metadata, dict):
        for key in _POD_METADATA:
            metadata.pop(key, None)
    if isinstance(spec, dict):
        pod["spec"] = {key: spec[key] for key in _POD_SPEC if key in spec}


@dataclass(frozen=True, slots=True)
class Listed:
    """A list was read. `check`: beside a watch, only to see what is missing; the watch knows better."""

    scope: Scope
    objects: dict[str, Raw]
    version: str
    check: bool


@dataclass(frozen=True, slots=True)
class ReadFailed:
    """A list could not be read. `status`: the answer's, None where there was none."""

    scope: Scope
    why: str
    status: int | None
    check: bool


@dataclass(frozen=True, slots=True)
class Changed:
    """A watch says that an object is so now (`raw`), or is gone. `version`: where the watch is."""

    scope: Scope
    name: str
    raw: Raw | None
    version: str


@dataclass(frozen=True, slots=True)
class Bookmark:
    """A watch says how far it is."""

    scope: Scope
    version: str


@dataclass(frozen=True, slots=True)
class WatchEnded:
    """
    A watch has ended.

    `forgotten`: its history is gone (410). `refused`: it may not or cannot be watched. `silent`: nothing came for
    so long that whatever stands in between keeps it to itself.
    """

    scope: Scope
    lasted_s: float
    forgotten: bool = False
    refused: bool = False
    silent: bool = False


@dataclass(frozen=True, slots=True)
class Broken:
    """A thread has met what it cannot handle; whoever follows raises it, instead of waiting for that thread."""

    error: Exception


Message = Listed | ReadFailed | Changed | Bookmark | WatchEnded | Broken


@dataclass
class Feeds:
    """Runs the reads and watches of one follow, and hands over what they say."""

    getter: Getter
    clock: Clock
    threads: Threads
    wake: threading.Event = field(default_factory=threading.Event)
    _said: SimpleQueue[Any] = field(default_factory=SimpleQueue)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _streams: set[Any] = field(default_factory=set)
    # NB: all lists at once would be a crowd at the server.
    _listing: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(THREADS))

    def take(self) -> Iterator[Any]:
        """Yield what was said up to now; what comes meanwhile is for the next time."""
        for _ in range(self._said.qsize()):
            yield self._said.get_nowait()

    def say(self, message: Any) -> None:
        """Leave a message, from any thread."""
        self._said.put(message)
        self.wake.set()

    def begin_read(self, scope: Scope, *, check: bool) -> None:
        """Read the list in a thread."""
        self.begin(lambda: self._read(scope, check=check), name="fencectl-follow-read")

    def begin_watch(self, scope: Scope, version: str) -> None:
        """Watch on from a version in a thread."""
        self.begin(lambda: self._watch(scope, version), name="fencectl-follow-watch")

    def begin(self, work: Callable[[], None], *, name: str) -> None:
        """Do something in a thread; what it raises is raised by whoever follows."""

        def guarded() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 (handed to the thread that waits)
                self.say(Broken(error))

        self.threads.start(guarded, name=name)

    def stop(self) -> None:
        """End all watches; their threads end by themselves."""
        self._stopped.set()
        with self._lock:
            streams = list(self._streams)
        for stream in streams:
            stream.close()

    def _read(self, scope: Scope, *, check: bool) -> None:
        try:
            with self._listing:
                reads = Reads(self.getter, clock=self.clock, deadline_s=LIST_S)
                found = read_list(reads, scope.query)
        except ReadFailedError as failed:
            self.say(ReadFailed(scope, failed.why, failed.status, check))
            return
        # NB: without the list there is no such kind (any more), and then there is no object of it either.
        objects = {seen.ref.name: seen.raw for seen in found.seen}
        self.say(Listed(scope, objects, found.version, check))

    def _watch(self, scope: Scope, version: str) -> None:
        began_s = self.clock.monotonic_s()
        query = scope.query
        parameters = {
            **dict(query.selector),
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH_S),
        }
        accept = METADATA_EVENTS if scope.metadata_only else JSON
        forgotten = refused = silent = False
        stream: Any = None
        try:
            stream = self.getter.stream(query.path, query=parameters, accept=accept, idle_s=IDLE_S)
            self._keep(stream)
            forgotten = self._hand_on(scope, stream)
        except StreamRefused as error:
            forgotten = error.answer.status == 410
            refused = error.answer.status in (403, 405)
        except (NotReadableError, BadPageError) as error:
            # Cut, silent, or no event: whether anybody is there shows when the list is read.
            silent = isinstance(error, Unreachable) and error.kind is Kind.TIMEOUT
        except AttributeError:
            # NB: http.client stumbles over its own None when `stop` closes a connection that it waits on.
            if not self._stopped.is_set():
                raise
        finally:
            if stream is not None:
                self._drop(stream)
            self.say(WatchEnded(scope, self.clock.monotonic_s() - began_s, forgotten, refused, silent))

    def _hand_on(self, scope: Scope, lines: Iterable[bytes]) -> bool:
        """Hand on each event; True where the server has forgotten the version."""
        trim = scope.query.trim
        for line in lines:
            event = decode_object(line)
            raw, kind = event.get("object"), event.get("type")
            if kind == "ERROR":
                return bool(dig(raw, "code") == 410)
            version = text_or_none(dig(raw, "metadata", "resourceVersion")) or ""
            if kind == "BOOKMARK":
                self.say(Bookmark(scope, version))
                continue
            name = text_or_none(dig(raw, "metadata", "name"))
            if not isinstance(raw, dict) or name is None:
                raise BadPageError("no object in an event")
            if trim is not None:
                trim(raw)
            self.say(Changed(scope, name, None if kind == "DELETED" else raw, version))
        return False

    def _keep(self, stream: Any) -> None:
        with self._lock:
            self._streams.add(stream)
        if self._stopped.is_set():
            stream.close()

    def _drop(self, stream: Any) -> None:
        with self._lock:
            self._streams.discard(stream)
        stream.close()
