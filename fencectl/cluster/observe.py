"""
One look at one cluster: all that a report needs, read in parallel, and every part that could not be read by name.

Nodes are listed twice: all of them without their specs, and the cordoned ones whole. That is a tenth of the cost
of whole nodes, and two moments: a node whose mark is in one of the two only is read again by name. Flux kinds
have no cheaper form than whole pages, of which only marked and suspended objects are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import partial
from typing import Any, Literal

from msgspec.structs import replace

from fencectl.cluster.clock import Clock
from fencectl.cluster.discovery import WITH_SUSPEND, discover_flux
from fencectl.cluster.kinds import CONFIGMAPS, LEASES, NAMESPACES, NODES, LeaseName, ListedKind, record_of
from fencectl.cluster.pages import METADATA_ONLY, Listed, ListQuery, read_list, ref_of
from fencectl.cluster.ports import Getter
from fencectl.cluster.read import UNDECODABLE, ReadFailedError, Reads, utc_now
from fencectl.cluster.structs import Item, PageDecoder
from fencectl.cluster.workers import Workers
from fencectl.core.errors import NotReadableError
from fencectl.core.observation import Observation, ReadCounts, Unreadable
from fencectl.core.profiles import LEASE_LABEL, Profile
from fencectl.core.refs import ObjectRef, Seen, annotations_of, dig

FLUX = "Flux kinds"
KUSTOMIZATIONS = "kustomizations.kustomize.toolkit.fluxcd.io"

# Larger pages cost memory (one page is held twice, as sent and as text), smaller ones round trips.
METADATA_PAGE = 1000
CORDONED_PAGE = 100
PAGE = 500
# How much later than the deadline a report may be: a request that is cut off at the deadline says so itself.
_GRACE_S = 0.5

Discovery = Literal["labelled", "configured"]


class Part(StrEnum):
    """What can be read again by itself. Records, holds and claims go with their leases."""

    LEASES = "leases"
    NODES = "nodes"
    FLUX = "flux"


WHOLE = frozenset(Part)


def observe(
    getter: Getter,
    *,
    profile: Profile,
    clock: Clock,
    deadline_s: float,
    server: str,
    context: str | None = None,
    print_context: str | None = None,
    kubeconfig: str | None = None,
    leases: Iterable[LeaseName] = (),
    discovery: Discovery = "labelled",
    previous: Observation | None = None,
    parts: frozenset[Part] = WHOLE,
) -> Observation:
    """
    Read one cluster.

    `leases`: (namespace, name) of those that config names, read besides the profile's own. `discovery`:
    `configured` leaves out the search for labelled leases. With `previous` only the `parts` are read and the rest
    is taken over, which is for a display that is refreshed: such a look is of several moments. Raises
    NotReadableError where nobody answered or the credentials were refused; whatever else could not be read is in
    `unreadable`.
    """
    look = _Look(
        Reads(getter, clock=clock, deadline_s=deadline_s),
        profile=profile,
        named=named_leases(profile, leases),
        by_label=profile.by_label and discovery == "labelled",
        parts=WHOLE if previous is None else parts,
    )
    look.run(timeout_s=deadline_s + _GRACE_S)
    reads = look.reads
    # NB: it may have given up before an answer came after all; what was dropped then is in no list.
    if look.gave_up is not None:
        raise look.gave_up
    if not reads.any_answer:
        raise _no_answer(reads.no_answer, server=server, context=context, kubeconfig=kubeconfig)
    found = Observation(
        context=context,
        print_context=print_context,
        kubeconfig=kubeconfig,
        server=server,
        cluster_uid=look.cluster_uid,
        observed_at=reads.server_clock.latest or utc_now(clock),
        skew_s=reads.server_clock.skew_s,
        leases=_sorted(look.leases),
        nodes=_sorted(look.nodes),
        flux=_sorted(look.flux),
        records=_sorted(look.records),
        unreadable=tuple(sorted(set(look.unreadable), key=lambda one: (one.what, one.why))),
        counts=look.counts(),
    )
    return found if previous is None else _merged(found, previous, parts)


def named_leases(profile: Profile, leases: Iterable[LeaseName] = ()) -> tuple[LeaseName, ...]:
    """List the leases that are read by name, each once."""
    return tuple(dict.fromkeys((profile.lease, *leases, profile.other_lease)))


class _Look:
    """The reads of one observation, and what came of them."""

    def __init__(
        self,
        reads: Reads,
        *,
        profile: Profile,
        named: tuple[LeaseName, ...],
        by_label: bool,
        parts: frozenset[Part],
    ) -> None:
        self.reads = reads
        self.gave_up: NotReadableError | None = None
        self.cluster_uid: str | None = None
        self.leases: list[Seen] = []
        self.nodes: list[Seen] = []
        self.flux: list[Seen] = []
        self.records: list[Seen] = []
        self.unreadable: list[Unreadable] = []
        self._profile = profile
        self._named = named
        self._by_label = by_label
        self._parts = parts
        self._workers = Workers()
        self._flux_decoder = PageDecoder(profile.flux_keys)
        self._flux_objects = 0
        self._flux_kinds = 0
        # None: not read yet, or not readable.
        self._node_lists_left = 2
        self._marked_nodes: Listed | None = None
        self._cordoned_nodes: Listed | None = None

    def run(self, *, timeout_s: float) -> None:
        """Read everything. `gave_up` says why nothing at all can be said, if so."""
        # The longest first.
        if Part.NODES in self._parts:
            self._add(NODES.resource, self._list_marked_nodes, then=self._after_node_list)
        if Part.FLUX in self._parts:
            self._add(FLUX, self._discover)
        if Part.NODES in self._parts:
            self._add(NODES.resource, self._list_cordoned_nodes, then=self._after_node_list)
        if Part.LEASES in self._parts:
            self._add(LEASES.resource, self._find_leases)
        if self._parts == WHOLE:
            self._workers.add("", self._read_cluster_uid)
        undone = self._workers.run(timeout_s=timeout_s)
        self.unreadable += (Unreadable(what, self.reads.no_answer) for what in undone if what)

    def counts(self) -> ReadCounts:
        """Say how much was looked at."""
        nodes = self._marked_nodes or self._cordoned_nodes
        return ReadCounts(
            leases=len(self.leases),
            nodes=nodes.count if nodes else 0,
            flux_objects=self._flux_objects,
            flux_kinds=self._flux_kinds,
            holds=sum(_holds_in(record) for record in self.records),
        )

    def _add(self, what: str, job: Callable[[], None], *, then: Callable[[], None] | None = None) -> None:
        self._workers.add(what, partial(self._try, what, job, then))

    def _try(self, what: str, job: Callable[[], None], then: Callable[[], None] | None) -> None:
        try:
            job()
        except ReadFailedError as failed:
            self._fail(what, failed)
        if then is not None:
            then()

    def _fail(self, what: str, failed: ReadFailedError) -> None:
        self._keep(self.unreadable, [Unreadable(what, failed.why)])
        # NB: nobody there, or nobody who knows us: the other reads would only take as long to say the same.
        if failed.total is not None and not self.reads.any_answer:
            self.gave_up = failed.total
            self._workers.stop()

    def _keep(self, into: list[Any], found: Iterable[Any]) -> None:
        with self._workers.lock:
            # NB: a thread that comes late must not change what is being reported.
            if not self._workers.stopped:
                into.extend(found)

    def _keep_malformed(self, kind: ListedKind, listed: Listed) -> None:
        names = (f"{kind.kind.lower()}/{name}" for name in listed.malformed)
        self._keep(self.unreadable, [Unreadable(name, UNDECODABLE) for name in names])

    # Leases and records

    def _find_leases(self) -> None:
        found: set[LeaseName] = set()
        try:
            if self._by_label:
                found = self._list_labelled_leases()
        finally:
            # NB: those with a name are read even where leases may not be listed.
            for namespace, name in self._named:
                if (namespace, name) not in found:
                    self._add(f"lease/{namespace}/{name}", partial(self._read_lease, namespace, name))
            for lease in dict.fromkeys((*self._named, *sorted(found))):
                namespace, record = record_of(lease)
                self._add(f"configmap/{namespace}/{record}", partial(self._read_record, namespace, record))

    def _list_labelled_leases(self) -> set[LeaseName]:
        selector = (("labelSelector", LEASE_LABEL),)
        listed = read_list(self.reads, ListQuery(LEASES, PageDecoder((), everything=True), PAGE, selector))
        if listed.missing:
            raise ReadFailedError("404: the server has no leases")
        self._keep(self.leases, listed.seen)
        self._keep_malformed(LEASES, listed)
        return {(seen.ref.namespace or "", seen.ref.name) for seen in listed.seen}

    def _read_lease(self, namespace: str, name: str) -> None:
        self._keep(self.leases, self._by_name(LEASES, namespace, name))

    def _read_record(self, namespace: str, name: str) -> None:
        self._keep(self.records, self._by_name(CONFIGMAPS, namespace, name))

    # Nodes

    def _list_marked_nodes(self) -> None:
        decoder = PageDecoder(self._profile.node_keys)
        query = ListQuery(NODES, decoder, METADATA_PAGE, accept=METADATA_ONLY, whole=False)
        self._marked_nodes = self._node_list(query)

    def _list_cordoned_nodes(self) -> None:
        selector = (("fieldSelector", "spec.unschedulable=true"),)
        decoder = PageDecoder(self._profile.node_keys, everything=True)
        self._cordoned_nodes = self._node_list(ListQuery(NODES, decoder, CORDONED_PAGE, selector, trim=_trim_node))

    def _node_list(self, query: ListQuery) -> Listed:
        listed = read_list(self.reads, query)
        if listed.missing:
            raise ReadFailedError("404: the server has no nodes")
        self._keep_malformed(NODES, listed)
        return listed

    def _after_node_list(self) -> None:
        with self._workers.lock:
            self._node_lists_left -= 1
            if self._node_lists_left:
                return
        marked = {item.name: item for item in self._marked_nodes.items} if self._marked_nodes else {}
        cordoned = self._cordoned_nodes.seen if self._cordoned_nodes else ()
        both_read = self._marked_nodes is not None and self._cordoned_nodes is not None
        for seen in cordoned:
            item = marked.pop(seen.ref.name, None)
            agrees = (item is not None) == self._is_marked(seen) and (item is None or item.uid == seen.ref.uid)
            if agrees or (item is None and not both_read):
                self._keep(self.nodes, [seen])
            else:
                self._read_node_again(seen.ref, last_seen=seen)
        for item in marked.values():
            self._read_node_again(ref_of(NODES, item), last_seen=None)

    def _read_node_again(self, ref: ObjectRef, *, last_seen: Seen | None) -> None:
        self._add(f"node/{ref.name}", partial(self._read_node, ref.name, last_seen))

    def _read_node(self, name: str, last_seen: Seen | None) -> None:
        try:
            found = self._by_name(NODES, None, name)
        except ReadFailedError:
            # The report says that it is not whole; what was seen of the node is not kept back.
            self._keep(self.nodes, [last_seen] if last_seen else [])
            raise
        for seen in found:
            if isinstance(seen.raw, dict):
                _trim_node(seen.raw)
            if self._is_marked(seen) or dig(seen.raw, "spec", "unschedulable") not in (None, False):
                self._keep(self.nodes, [seen])

    def _is_marked(self, seen: Seen) -> bool:
        return any(key in annotations_of(seen.raw) for key in self._profile.node_keys)

    # Flux

    def _discover(self) -> None:
        discovered = discover_flux(self.reads)
        self._keep(self.unreadable, [Unreadable(what, why) for what, why in discovered.failed])
        for kind in discovered.kinds:
            self._add(kind.resource, partial(self._list_flux, kind))

    def _list_flux(self, kind: ListedKind) -> None:
        listed = read_list(self.reads, ListQuery(kind, self._flux_decoder, PAGE))
        self._keep_malformed(kind, listed)
        self._keep(self.flux, listed.seen)
        if not listed.missing and (kind.resource in WITH_SUSPEND or listed.has_suspend or listed.seen):
            with self._workers.lock:
                self._flux_objects += listed.count
                self._flux_kinds += 1
        if kind.resource == KUSTOMIZATIONS and not listed.missing:
            there = {(seen.ref.namespace, seen.ref.name) for seen in listed.seen}
            for namespace, name in self._profile.flux_names:
                if (namespace, name) not in there:
                    read = partial(self._read_flux, kind, namespace, name)
                    self._add(f"kustomization/{namespace}/{name}", read)

    def _read_flux(self, kind: ListedKind, namespace: str, name: str) -> None:
        self._keep(self.flux, self._by_name(kind, namespace, name))

    # Single objects

    def _by_name(self, kind: ListedKind, namespace: str | None, name: str) -> list[Seen]:
        obj = self.reads.named(kind, namespace, name)
        if obj is None:
            return []
        uid = dig(obj, "metadata", "uid")
        item = Item(name, namespace, uid if isinstance(uid, str) else "", marked=False, suspend=None)
        return [Seen(ref_of(kind, item), obj)]

    def _read_cluster_uid(self) -> None:
        try:
            found = self._by_name(NAMESPACES, None, "kube-system")
        except ReadFailedError:
            return  # only to name the cluster in comments; many may not read it
        self.cluster_uid = next((seen.ref.uid or None for seen in found), None)


def _trim_node(obj: dict[str, Any]) -> None:
    """Take off the list of images: half of a node, and nobody's evidence."""
    status = obj.get("status")
    if isinstance(status, dict):
        status.pop("images", None)


def _holds_in(record: Seen) -> int:
    data = record.raw.get("data")
    return sum(key.startswith(("hold-", "claim-")) for key in data) if isinstance(data, dict) else 0


def _sorted(found: Iterable[Seen]) -> tuple[Seen, ...]:
    """Order by name, whichever thread was first; one object once."""
    by_name = {(s.ref.api_version, s.ref.kind, s.ref.namespace or "", s.ref.name): s for s in found}
    return tuple(by_name[key] for key in sorted(by_name))


def _merged(found: Observation, previous: Observation, parts: frozenset[Part]) -> Observation:
    """Take over from the look before what was not read again."""
    kept = WHOLE - parts
    old, counts = previous.counts, found.counts
    if Part.LEASES in kept:
        found = replace(found, leases=previous.leases, records=previous.records)
        counts = replace(counts, leases=old.leases, holds=old.holds)
    if Part.NODES in kept:
        found = replace(found, nodes=previous.nodes)
        counts = replace(counts, nodes=old.nodes)
    if Part.FLUX in kept:
        found = replace(found, flux=previous.flux)
        counts = replace(counts, flux_objects=old.flux_objects, flux_kinds=old.flux_kinds)
    unreadable = {*found.unreadable, *(one for one in previous.unreadable if _part_of(one) in kept)}
    return replace(
        found,
        cluster_uid=found.cluster_uid or previous.cluster_uid,
        unreadable=tuple(sorted(unreadable, key=lambda one: (one.what, one.why))),
        counts=counts,
    )


def _part_of(one: Unreadable) -> Part:
    if one.what == NODES.resource or one.what.startswith("node/"):
        return Part.NODES
    if one.what == LEASES.resource or one.what.startswith(("lease/", "configmap/")):
        return Part.LEASES
    return Part.FLUX


def _no_answer(why: str, *, server: str, context: str | None, kubeconfig: str | None) -> NotReadableError:
    import shlex

    kubectl = ["kubectl"]
    kubectl += ["--kubeconfig", kubeconfig] if kubeconfig else []
    kubectl += ["--context", context] if context else []
    return NotReadableError(
        f"{context} did not answer: {server}" if context else f"{server} did not answer",
        reason=f'{why}. This is not "no fence"',
        hint=shlex.join([*kubectl, "get", "--raw", "/readyz"]),
    )
