"""
Watches that say which part of a report may have changed, so that nothing is read again for nothing.

Each list is read once for its version and for what matters in it, then followed from there. Only a change of what
a report rests on counts: a node's heartbeat or a Kustomization's status does not. Where a list cannot be watched
its part is said to have changed every now and then, which makes the display a slow poll instead of a wrong one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from queue import Empty, SimpleQueue
from typing import Any

from msgspec import Struct

from fencectl.cluster.clock import Clock
from fencectl.cluster.discovery import discover_flux
from fencectl.cluster.failures import Unreachable
from fencectl.cluster.kinds import CONFIGMAPS, LEASES, NODES, LeaseName, ListedKind, record_of
from fencectl.cluster.observe import METADATA_PAGE, PAGE, WHOLE, Discovery, Part, named_leases
from fencectl.cluster.pages import METADATA_ONLY, ListQuery, read_list
from fencectl.cluster.ports import Getter
from fencectl.cluster.read import JSON, ReadFailedError, Reads
from fencectl.cluster.structs import BadPageError, By, Event, EventDecoder, PageDecoder
from fencectl.cluster.watching import StreamRefused
from fencectl.cluster.workers import THREADS
from fencectl.core.errors import NotReadableError
from fencectl.core.profiles import LEASE_LABEL, Profile

# How long a watch is asked to last; the server ends it then, and it goes on from where it was.
WATCH_S = 300
# A watch is silent for longer than this only where the connection is dead: bookmarks come about once a minute.
IDLE_S = 100.0
# NB: `as=PartialObjectMetadataList`, right for a list, gives cut events on a watch.
METADATA_EVENTS = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
# Changes come in flocks (a deploy suspends, cordons, journals); one look for all of a flock is enough.
SETTLE_S = 0.5
LONGEST_PAUSE_S = 30.0
# Now and then everything is read again: kinds may have been installed, and a bug here must not last.
WHOLE_EVERY_S = 300.0
_LIST_S = 30.0
# NB: a server that ends each watch at once must not be asked a thousand times a second.
_GOOD_AFTER_S = 1.0


def changes(
    getter: Getter,
    *,
    profile: Profile,
    clock: Clock,
    leases: Iterable[LeaseName] = (),
    discovery: Discovery = "labelled",
    tick_s: float | None = None,
    settle_s: float = SETTLE_S,
    watch_s: int = WATCH_S,
) -> Iterator[frozenset[Part]]:
    """
    Yield the parts that may have changed.

    The first time that is everything, as soon as the watches stand: what is read after that misses nothing. With
    `tick_s` an empty set comes after so much silence, for a clock to be drawn.

    Closing the iterator ends the watches. Nothing is raised: what cannot be watched is polled.
    """
    watches = _Watches(getter, profile=profile, clock=clock, watch_s=watch_s)
    try:
        watches.start(named=named_leases(profile, leases), by_label=profile.by_label and discovery == "labelled")
        watches.wait_until_they_stand(_LIST_S)
        watches.take(within_s=0)
        yield WHOLE
        whole_at_s = clock.monotonic_s() + WHOLE_EVERY_S
        while True:
            left_s = whole_at_s - clock.monotonic_s()
            changed = watches.take(within_s=left_s if tick_s is None else min(tick_s, left_s))
            if changed:
                clock.wait(None, settle_s)
                changed |= watches.take(within_s=0)
            if clock.monotonic_s() >= whole_at_s:
                changed = WHOLE
                whole_at_s = clock.monotonic_s() + WHOLE_EVERY_S
            yield changed
    finally:
        watches.stop()


class _Followed(Struct, frozen=True):
    """One list and the watch that goes on from it."""

    part: Part
    query: ListQuery
    events: EventDecoder
    accept: str = JSON


class _Watches:
    """A thread for each watch, and what they say."""

    def __init__(self, getter: Getter, *, profile: Profile, clock: Clock, watch_s: int) -> None:
        self.getter = getter
        self.clock = clock
        self.watch_s = watch_s
        self.stopped = threading.Event()
        self._profile = profile
        self._said: SimpleQueue[Part] = SimpleQueue()
        self._lock = threading.Lock()
        self._not_standing = 0
        self._standing = threading.Condition(self._lock)
        self._records: set[LeaseName] = set()
        self._streams: set[Any] = set()
        # As many lists at a time as for a report; all at once would be a crowd at the server, and in memory.
        self.listing = threading.Semaphore(THREADS)

    def start(self, *, named: tuple[LeaseName, ...], by_label: bool) -> None:
        """Begin everything that does not wait for discovery, and discovery."""
        keys = self._profile.node_keys
        self._follow(
            _Followed(
                Part.NODES,
                ListQuery(NODES, PageDecoder(keys), METADATA_PAGE, accept=METADATA_ONLY, whole=False),
                EventDecoder(keys),
                METADATA_EVENTS,
            )
        )
        cordoned = (("fieldSelector", "spec.unschedulable=true"),)
        everything = PageDecoder((), everything=True)
        self._follow(
            _Followed(
                Part.NODES,
                ListQuery(NODES, everything, METADATA_PAGE, cordoned, accept=METADATA_ONLY, whole=False),
                EventDecoder(by=By.PRESENCE),
                METADATA_EVENTS,
            )
        )
        if by_label:
            labelled = (("labelSelector", LEASE_LABEL),)
            query = ListQuery(LEASES, everything, PAGE, labelled, whole=False)
            self._follow(_Followed(Part.LEASES, query, EventDecoder(by=By.VERSION)))
        for lease in named:
            self._follow_named(LEASES, lease)
            self.follow_record(lease)
        self._begin(self._discover)

    def follow_record(self, lease: LeaseName) -> None:
        """Watch the record beside a lease, once."""
        with self._lock:
            if lease in self._records:
                return
            self._records.add(lease)
        self._follow_named(CONFIGMAPS, record_of(lease))

    def wait_until_they_stand(self, within_s: float) -> None:
        """Wait until each watch has its version, or has failed once."""
        with self._standing:
            self._standing.wait_for(lambda: self._not_standing == 0, timeout=within_s)

    def take(self, *, within_s: float) -> frozenset[Part]:
        """Wait for the first change, and return all that there are."""
        found: set[Part] = set()
        try:
            found.add(self._said.get(timeout=within_s) if within_s > 0 else self._said.get_nowait())
            while True:
                found.add(self._said.get_nowait())
        except Empty:
            return frozenset(found)

    def say(self, part: Part) -> None:
        """Tell that a part may have changed."""
        self._said.put(part)

    def stop(self) -> None:
        """End all watches; their threads end by themselves."""
        self.stopped.set()
        with self._lock:
            streams = list(self._streams)
        for stream in streams:
            stream.close()

    def keep(self, stream: Any, *, is_open: bool) -> None:
        """Know which streams are open, so that `stop` can end them."""
        with self._lock:
            if is_open:
                self._streams.add(stream)
            else:
                self._streams.discard(stream)
        if is_open and self.stopped.is_set():
            stream.close()

    def stands(self) -> None:
        """Count one more watch that stands."""
        with self._standing:
            self._not_standing -= 1
            self._standing.notify_all()

    def pause(self, seconds: float) -> None:
        """Wait, unless it is over."""
        self.clock.wait(self.stopped, seconds)

    def _follow_named(self, kind: ListedKind, name: LeaseName) -> None:
        namespace, own_name = name
        selector = (("fieldSelector", f"metadata.name={own_name}"),)
        query = ListQuery(kind, PageDecoder((), everything=True), PAGE, selector, whole=False, namespace=namespace)
        self._follow(_Followed(Part.LEASES, query, EventDecoder(by=By.VERSION)))

    def _follow(self, followed: _Followed) -> None:
        self._begin(_Watch(self, followed).run)

    def _begin(self, run: Callable[[], None]) -> None:
        with self._lock:
            self._not_standing += 1
        threading.Thread(target=run, name="fencectl-watch", daemon=True).start()

    def _discover(self) -> None:
        pauses, stand = _Pauses(), _Once(self.stands)
        while not self.stopped.is_set():
            try:
                found = discover_flux(Reads(self.getter, clock=self.clock, deadline_s=_LIST_S))
            except ReadFailedError:
                stand()
                self.say(Part.FLUX)
                self.pause(pauses.next())
                continue
            for kind in found.kinds:
                keys = self._profile.flux_keys
                query = ListQuery(kind, PageDecoder(keys), PAGE, whole=False)
                self._follow(_Followed(Part.FLUX, query, EventDecoder(keys)))
            stand()
            return


class _Once:
    """Does something the first time that it is called; says whether it did."""

    def __init__(self, do: Callable[[], None]) -> None:
        self._do: Callable[[], None] | None = do

    def __call__(self) -> bool:
        do, self._do = self._do, None
        if do is not None:
            do()
        return do is not None


class _Pauses:
    """Pauses between tries: 1 s, then twice as long each time, up to a limit."""

    def __init__(self) -> None:
        self._next_s = 1.0

    def next(self) -> float:
        """Return how long to wait now."""
        now_s = self._next_s
        self._next_s = min(2 * now_s, LONGEST_PAUSE_S)
        return now_s

    def reset(self) -> None:
        """Begin anew: something went well."""
        self._next_s = 1.0


# Stands for the state of an object that was only seen in the list.
_SEEN = object()


class _Watch:
    """One list, followed until it is over."""

    def __init__(self, watches: _Watches, followed: _Followed) -> None:
        self._watches = watches
        self._followed = followed
        self._pauses = _Pauses()
        self._known: dict[tuple[str, str], object] = {}

    def run(self) -> None:
        """Read the list, follow it; from the start again when its history is gone or the way to the server was."""
        watches, part = self._watches, self._followed.part
        stand = _Once(watches.stands)
        while not watches.stopped.is_set():
            try:
                with watches.listing:
                    version = self._list()
                if not stand():
                    # What happened since the watch before is in no event.
                    watches.say(part)
                if version is None:
                    return  # no such list any more; a whole look finds it when it is back
                self._follow(version)
            except (ReadFailedError, NotReadableError, BadPageError):
                stand()
                watches.say(part)
                watches.pause(self._pauses.next())
            except AttributeError:
                # NB: http.client stumbles over its own None when `stop` closes a connection that it waits on.
                if not watches.stopped.is_set():
                    raise

    def _list(self) -> str | None:
        query = self._followed.query
        listed = read_list(Reads(self._watches.getter, clock=self._watches.clock, deadline_s=_LIST_S), query)
        self._known = {(item.namespace or "", item.name): _SEEN for item in listed.items}
        if query.kind is LEASES:
            for lease in self._known:
                self._watches.follow_record(lease)
        return None if listed.missing else listed.version

    def _follow(self, version: str) -> None:
        """Watch on from a version; returns when the server no longer knows it."""
        watches, query = self._watches, self._followed.query
        while not watches.stopped.is_set():
            parameters = {
                **dict(query.selector),
                "watch": "1",
                "allowWatchBookmarks": "true",
                "resourceVersion": version,
                "timeoutSeconds": str(watches.watch_s),
            }
            try:
                stream: Any = watches.getter.stream(
                    query.path, query=parameters, accept=self._followed.accept, idle_s=IDLE_S
                )
            except StreamRefused as refused:
                if refused.answer.status == 410:
                    return
                raise
            began_s = watches.clock.monotonic_s()
            with closing(stream):
                watches.keep(stream, is_open=True)
                try:
                    new_version = self._take_in(stream, version)
                finally:
                    watches.keep(stream, is_open=False)
                    lasted = watches.clock.monotonic_s() - began_s >= _GOOD_AFTER_S
                    if lasted:
                        self._pauses.reset()
            if new_version is None:
                return
            version = new_version
            if not lasted:
                watches.pause(self._pauses.next())

    def _take_in(self, stream: Iterator[bytes], version: str) -> str | None:
        """Take in events; the version to go on from, or None where that is gone."""
        try:
            for line in stream:
                event = self._followed.events.decode(line)
                if event.type == "ERROR":
                    if event.code == 410:
                        return None
                    raise ReadFailedError(f"the watch ended with {event.code}")
                version = event.version or version
                if event.type != "BOOKMARK" and self._is_change(event):
                    self._watches.say(self._followed.part)
        except Unreachable:
            # Silent for too long, or cut. Nothing is lost if the server still knows the version; whether anybody
            # is there shows when it is asked again.
            return version
        return version

    def _is_change(self, event: Event) -> bool:
        key = (event.namespace, event.name)
        before = self._known.get(key)
        if event.state is None:
            self._known.pop(key, None)
        else:
            self._known[key] = event.state
        if self._followed.query.kind is LEASES and event.state is not None:
            self._watches.follow_record(key)
        return bool(before != event.state)
