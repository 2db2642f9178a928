"""
Aspects, on both clusters: the first change is everything · what counts as a change and what does not · watches
that end, expire, break or are refused · nothing is left running.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fencectl.cluster import changes as module
from fencectl.cluster.changes import changes
from fencectl.cluster.clock import SystemClock
from fencectl.cluster.observe import WHOLE, Part
from fencectl.core.profiles import FENCECTL, HOLDER, JOURNAL, LEASE_LABEL
from fencectl.sandbox import Sandbox
from tests.kube.looking import opened
from tests.kube.scripted import wait_until
from tests.support.clusters import (
    Cluster,
    make_configmap,
    make_kustomization,
    make_lease,
    make_node,
    path_of,
)

KUSTOMIZATIONS = "/apis/kustomize.toolkit.fluxcd.io/v1"
MARK = {"metadata": {"annotations": {HOLDER: "x"}}}
UNMARK = {"metadata": {"annotations": {HOLDER: None}}}


@contextmanager
def followed(cluster: Cluster, **options: Any) -> Iterator[Iterator[frozenset[Part]]]:
    """Follow a cluster until the end of the block; every thread must then end."""
    before = set(threading.enumerate())
    with opened(cluster) as transport:
        chosen: dict[str, Any] = {"clock": SystemClock(), "settle_s": 0.01, **options}
        found = changes(transport, profile=FENCECTL, **chosen)
        try:
            assert next(found) == WHOLE
            yield found
        finally:
            found.close()  # type: ignore[attr-defined]
            wait_until(lambda: not [t for t in set(threading.enumerate()) - before if t.name == "fencectl-watch"])


def change(found: Iterator[frozenset[Part]]) -> frozenset[Part]:
    """Wait for the next change, however many ticks come first; the ticks bound the wait."""
    return next(parts for parts in itertools.islice(found, 100) if parts)


def suspend(value: bool | None) -> dict[str, Any]:
    return {"spec": {"suspend": value}}


Change = Callable[[Cluster], object]

CHANGES: list[tuple[str, Part, Change]] = [
    ("node marked", Part.NODES, lambda c: c.merge_patch("/api/v1/nodes/n", MARK)),
    ("node cordoned", Part.NODES, lambda c: c.merge_patch("/api/v1/nodes/n", {"spec": {"unschedulable": True}})),
    ("marked node made", Part.NODES, lambda c: make_node(c, "new", annotations={JOURNAL: ""})),
    (
        "object suspended",
        Part.FLUX,
        lambda c: c.merge_patch(f"{KUSTOMIZATIONS}/namespaces/ns/kustomizations/k", suspend(True)),
    ),
    (
        "object marked",
        Part.FLUX,
        lambda c: c.merge_patch(f"{KUSTOMIZATIONS}/namespaces/ns/kustomizations/k", MARK),
    ),
    ("lease taken", Part.LEASES, lambda c: make_lease(c, "fencectl-deploy", namespace="flux-system")),
    ("other lease taken", Part.LEASES, lambda c: make_lease(c, "l", namespace="ns", labels={LEASE_LABEL: "x"})),
    ("hold placed", Part.LEASES, lambda c: make_configmap(c, "fencectl-deploy-record", namespace="flux-system")),
]


def prepare(cluster: Cluster) -> None:
    make_node(cluster, "n")
    make_kustomization(cluster, "k", namespace="ns")
    make_lease(cluster, "unrelated", namespace="flux-system")


@pytest.mark.parametrize(("part", "make"), [pytest.param(p, c, id=name) for name, p, c in CHANGES])
def test_change_of_what_a_report_rests_on_is_said(clean_cluster: Cluster, part: Part, make: Change) -> None:
    """Placed, released or taken: the part that it concerns is read again, and no other."""
    prepare(clean_cluster)
    with followed(clean_cluster) as found:
        make(clean_cluster)
        assert next(found) == {part}


def test_release_is_said_and_noise_is_not(clean_cluster: Cluster) -> None:
    """Heartbeats, labels and specs of what is not fenced change nothing; the release of a fence does."""
    prepare(clean_cluster)
    make_node(clean_cluster, "fenced", annotations={HOLDER: "x"}, unschedulable=True)
    fenced = make_kustomization(clean_cluster, "fenced", namespace="ns", suspend=True)
    unrelated = make_lease(clean_cluster, namespace="ns")
    plain = f"{KUSTOMIZATIONS}/namespaces/ns/kustomizations/k"
    with followed(clean_cluster, tick_s=0.2) as found:
        for number in range(3):
            label = {"metadata": {"labels": {"noise": str(number)}}}
            for path in ("/api/v1/nodes/n", plain, path_of(unrelated)):
                clean_cluster.merge_patch(path, label)
        assert next(found) == frozenset()
        clean_cluster.merge_patch("/api/v1/nodes/fenced", UNMARK)
        assert change(found) == {Part.NODES}
        clean_cluster.merge_patch("/api/v1/nodes/fenced", {"spec": {"unschedulable": None}})
        assert change(found) == {Part.NODES}
        clean_cluster.merge_patch(path_of(fenced), suspend(None))
        assert change(found) == {Part.FLUX}


def test_noise_of_a_fenced_object_counts_once_at_most(clean_cluster: Cluster) -> None:
    """After the first event of an object its state is known, and only a change of that counts."""
    make_node(clean_cluster, "fenced", annotations={HOLDER: "x"}, unschedulable=True)
    with followed(clean_cluster, tick_s=0.3) as found:
        clean_cluster.merge_patch("/api/v1/nodes/fenced", {"metadata": {"labels": {"noise": "0"}}})
        while next(found):
            pass
        for number in range(1, 4):
            clean_cluster.merge_patch("/api/v1/nodes/fenced", {"metadata": {"labels": {"noise": str(number)}}})
        assert next(found) == frozenset()
        clean_cluster.merge_patch("/api/v1/nodes/fenced", {"metadata": {"annotations": {HOLDER: "other"}}})
        assert change(found) == {Part.NODES}


def test_deleted_fence_is_said(clean_cluster: Cluster) -> None:
    """An object that goes takes its fence with it."""
    make_node(clean_cluster, "fenced", annotations={HOLDER: "x"})
    with followed(clean_cluster) as found:
        clean_cluster.request("DELETE", "/api/v1/nodes/fenced")
        assert next(found) == {Part.NODES}


def test_record_of_a_lease_that_was_there_is_followed(clean_cluster: Cluster) -> None:
    """A hold beside any labelled lease is told, wherever it is."""
    make_lease(clean_cluster, "early", namespace="ns", labels={LEASE_LABEL: "x"})
    with followed(clean_cluster, tick_s=0.3) as found:
        # Its watch is begun by the one of the leases, perhaps after the first look.
        while next(found):
            pass
        make_configmap(clean_cluster, "early-record", namespace="ns", data={"hold-freeze": "{}"})
        assert change(found) == {Part.LEASES}


def test_record_of_a_lease_that_came_later_is_followed(clean_cluster: Cluster) -> None:
    """A new lease brings its record, with the holds in it."""
    with followed(clean_cluster, tick_s=0.3) as found:
        make_lease(clean_cluster, "late", namespace="ns", labels={LEASE_LABEL: "x"})
        while next(found):
            pass
        make_configmap(clean_cluster, "late-record", namespace="ns", data={"hold-freeze": "{}"})
        assert change(found) == {Part.LEASES}


def test_watch_that_the_server_ends_goes_on_from_where_it_was(clean_cluster: Cluster) -> None:
    """Servers end every watch after a while; what happens in between is still told, once."""
    make_node(clean_cluster, "n")
    with followed(clean_cluster, watch_s=1, tick_s=2.5) as found:
        assert next(found) == frozenset()
        clean_cluster.merge_patch("/api/v1/nodes/n", MARK)
        assert change(found) == {Part.NODES}


def test_next_watch_begins_where_the_one_before_ended(sandbox: Sandbox, sandbox_cluster: Cluster) -> None:
    """What was told already is not told again, and the list is not read again."""
    make_node(sandbox_cluster, "n")
    with followed(sandbox_cluster, watch_s=1, tick_s=0.5) as found:
        sandbox_cluster.merge_patch("/api/v1/nodes/n", MARK)
        assert change(found) == {Part.NODES}

        def versions() -> list[int]:
            asked = [entry.query for entry in sandbox.requests.where(verb="watch", path="/nodes")]
            return [int(query["resourceVersion"]) for query in asked if "fieldSelector" not in query]

        while len(versions()) < 2:
            assert next(found) == frozenset()
        assert versions()[1] > versions()[0]
        assert len(sandbox.requests.where(verb="list", path="/nodes")) == 2


def test_silent_watch_is_opened_again_without_a_word(
    sandbox: Sandbox, sandbox_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that died without a sign looks like silence; going on from the same place loses nothing."""
    monkeypatch.setattr(module, "IDLE_S", 0.2)
    make_node(sandbox_cluster, "n")
    with followed(sandbox_cluster, tick_s=0.5) as found:
        while len(sandbox.requests.where(verb="watch", path="/nodes")) < 4:
            assert next(found) == frozenset()
        assert len(sandbox.requests.where(verb="list", path="/nodes")) == 2
        sandbox_cluster.merge_patch("/api/v1/nodes/n", MARK)
        assert change(found) == {Part.NODES}


def test_expired_watch_is_begun_anew_and_its_part_read_again(sandbox: Sandbox, sandbox_cluster: Cluster) -> None:
    """After a 410 nobody knows what was missed."""
    make_node(sandbox_cluster, "n")
    with followed(sandbox_cluster, watch_s=1, tick_s=5) as found:
        fault = sandbox.faults.refuse(status=410, resource="nodes", verb="watch", times=1)
        assert change(found) == {Part.NODES}
        assert fault.hits == 1
        sandbox_cluster.merge_patch("/api/v1/nodes/n", MARK)
        assert change(found) == {Part.NODES}


def test_history_that_is_forgotten_during_a_watch_is_read_anew(sandbox: Sandbox, sandbox_cluster: Cluster) -> None:
    """The server says it within the stream, as an event."""
    make_node(sandbox_cluster, "n")
    with followed(sandbox_cluster, tick_s=5) as found:
        sandbox.faults.expire()
        sandbox_cluster.merge_patch("/api/v1/nodes/n", MARK)
        seen: set[Part] = set()
        while Part.NODES not in seen:
            seen |= change(found)


def test_part_that_may_not_be_watched_is_polled(sandbox: Sandbox, sandbox_cluster: Cluster) -> None:
    """Without the right to watch, the display is slower and not wrong."""
    sandbox.faults.refuse(status=403, resource="nodes", verb="watch")
    with followed(sandbox_cluster, tick_s=5) as found:
        assert change(found) == {Part.NODES}
        assert change(found) == {Part.NODES}


def test_server_that_goes_away_does_not_end_the_display(sandbox: Sandbox, sandbox_cluster: Cluster) -> None:
    """Every part is said to have changed, so that the next look says what is wrong."""
    with followed(sandbox_cluster, tick_s=20) as found:
        sandbox.stop()
        seen: set[Part] = set()
        while seen != WHOLE:
            seen |= next(found)


def test_events_that_are_no_events_make_the_part_be_read_again(sandbox: Sandbox, sandbox_cluster: Cluster) -> None:
    """A stream of something else is no reason to stop or to say nothing."""
    sandbox.faults.refuse(status=200, body="<html>\n", resource="nodes", verb="watch", times=1)
    with followed(sandbox_cluster, tick_s=20) as found:
        assert next(found) == {Part.NODES}
