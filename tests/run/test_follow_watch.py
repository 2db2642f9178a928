"""
Following by watches: what the lines of a watch lead to, and when the list is read again.

Aspects: changes and deletions by event · bookmarks · a watch that ends, is cut, forgets, is refused, sends junk ·
nothing is polled while it stands · the real thing with threads, on both clusters.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fencectl.cluster.answer import Answer
from fencectl.cluster.clock import SystemClock
from fencectl.cluster.failures import Kind, Unreachable, WireError
from fencectl.cluster.watching import StreamRefused
from fencectl.core.refs import ObjectRef
from fencectl.core.rollout import Cause, Followed, RolloutVerdict as V, Target
from fencectl.run.follow import Follower
from tests.kube.looking import opened
from tests.kube.scripted import wait_until
from tests.run.following import Stage, stage_on
from tests.support.clusters import Cluster, Raw, ensure_namespace

GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}


def line(event: Raw) -> bytes:
    return json.dumps(event).encode()


def cut() -> Unreachable:
    return Unreachable(WireError(Kind.RESET), context="c", server="s", tries=1, elapsed_s=1.0)


def refused(code: int) -> StreamRefused:
    return StreamRefused(Answer(code, {}, b"", None, 0.0, 0.0), context="c", path="/x")


@pytest.fixture
def stage(sandbox_cluster: Cluster) -> Stage:
    return stage_on(sandbox_cluster)


class Script:
    """
    What each watch of Deployments sends, one after the other: an event, how long it is silent, or how it breaks.

    When all are played, each stands for 4 s. Watches of anything else end at once.
    """

    def __init__(self, stage: Stage, *watches: list[Any]) -> None:
        self.stage = stage
        self.watches = list(watches)
        self.versions: list[str] = []
        stage.door.watch = self.open

    def open(self, path: str, query: dict[str, str]) -> Iterator[bytes]:
        assert query["allowWatchBookmarks"] == "true"
        if not path.endswith("/deployments"):
            return iter(())
        self.versions.append(query["resourceVersion"])
        steps = self.watches.pop(0) if self.watches else [4.0]
        if steps and isinstance(steps[0], StreamRefused):
            raise steps[0]
        return self._lines(steps)

    def _lines(self, steps: list[Any]) -> Iterator[bytes]:
        for step in steps:
            if isinstance(step, BaseException):
                raise step
            if isinstance(step, float):
                self.stage.clock.advance(step)  # the watch stands for so long
            elif callable(step):
                yield line(step())
            else:
                yield line(step) if isinstance(step, dict) else step


def modified(stage: Stage, number: int) -> Any:
    """Give an event that is made when it is due: the Deployment with so many replicas available."""

    def make() -> Raw:
        stage.available(number)
        return {"type": "MODIFIED", "object": stage.cluster.get(stage.path("Deployment", "web"))}

    return make


def test_watch_that_the_server_ends_goes_on_from_its_last_version(stage: Stage) -> None:
    """After events and bookmarks alike; the list is not read again."""
    web = stage.deployment()
    mark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "777777"}}}
    script = Script(stage, [2.0, modified(stage, 0)], [2.0, mark, 2.0], [2.0, modified(stage, 1)])
    found = stage.follow(web)
    assert found.outcome is V.SUCCEEDED
    seen = stage.cluster.get(stage.path("Deployment", "web"))["metadata"]["resourceVersion"]
    assert script.versions[2] == "777777"
    assert script.versions[0] < script.versions[1] < seen
    assert len(stage.lists("Deployment")) == 1


@pytest.mark.parametrize("first", [[GONE], [2.0, GONE], [refused(410)]])
def test_watch_whose_history_is_gone_reads_the_list_again(stage: Stage, first: list[Any]) -> None:
    """410 before or in the stream: what happened in between stands in the list."""
    web = stage.deployment()
    script = Script(stage, first)
    stage.at(0.4, lambda: stage.available(1))
    assert stage.follow(web).outcome is V.SUCCEEDED
    lists = stage.lists("Deployment")
    assert len(lists) == 2
    assert lists[1] - lists[0] >= 1.0  # never a thousand times a second
    assert script.versions[1] != script.versions[0]


def test_server_that_forgets_each_version_at_once_is_not_hammered(stage: Stage) -> None:
    """One list a second at most."""
    web = stage.deployment()
    Script(stage, *([GONE] for _ in range(100)))
    stage.follow(web, timeout_s=30)
    assert 10 <= len(stage.lists("Deployment")) <= 31


@pytest.mark.parametrize("end", [[cut()], [refused(500)], [b"not json"], [{"type": "MODIFIED", "object": 7}], []])
def test_watch_that_breaks_at_once_is_a_poll(stage: Stage, end: list[Any]) -> None:
    """At the pace of polls, and each time a watch is tried again: the last one stands."""
    web = stage.deployment()
    script = Script(stage, end, end, [2.0, modified(stage, 1)])
    assert stage.follow(web).outcome is V.SUCCEEDED
    assert len(stage.lists("Deployment")) == 3
    assert stage.lists("Deployment")[2] >= 4.0
    assert len(set(script.versions[:3])) == 1


@pytest.mark.parametrize("code", [403, 405])
def test_list_that_may_not_be_watched_is_polled_and_not_asked_again(stage: Stage, code: int) -> None:
    web = stage.deployment()
    script = Script(stage, *([refused(code)] for _ in range(9)))
    stage.at(9, lambda: stage.available(1))
    assert stage.follow(web).outcome is V.SUCCEEDED
    assert len(script.versions) == 1
    assert len(stage.lists("Deployment")) >= 5


def test_deletion_by_event_is_checked_by_reads_beside_the_watch(stage: Stage) -> None:
    """The watch stands and is silent; 20 s of good reads without the object make it `not found`."""
    web = stage.deployment(available=0)

    def deleted() -> Raw:
        raw = stage.cluster.get(stage.path("Deployment", "web"))
        stage.delete("Deployment", "web")
        return {"type": "DELETED", "object": raw}

    Script(stage, [2.0, deleted, *(0.0 for _ in range(3))])
    result = stage.follow_one(web)
    assert (result.verdict, result.cause) == (V.UNKNOWN, Cause.NOT_FOUND)


# With threads, on both clusters


def follow_really(cluster: Cluster, targets: list[Any], *, told: Any, timeout_s: float) -> Followed:
    before = set(threading.enumerate())
    with opened(cluster) as transport:
        found = Follower(transport, SystemClock(), told).follow(targets, timeout_s)
    wait_until(
        lambda: not [one for one in set(threading.enumerate()) - before if one.name.startswith("fencectl-follow")]
    )
    return found


def test_changes_are_seen_by_a_watch_within_a_moment_and_nothing_is_polled(cluster: Cluster) -> None:
    """Three custom resources of which nothing is said before they are followed; no thread is left at the end."""
    namespace = ensure_namespace(cluster, cluster.unique("ns"))
    base = f"/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/{namespace}/kustomizations"
    spec = {"interval": "10m", "prune": True, "path": ".", "sourceRef": {"kind": "GitRepository", "name": "x"}}
    body = {"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization"}
    names = [f"app-{number}" for number in range(3)]
    made = [cluster.create(base, body | {"metadata": {"name": name}, "spec": spec}) for name in names]
    targets = [
        Target(
            ObjectRef(body["apiVersion"], "Kustomization", "kustomizations", namespace, one["metadata"]["name"], one["metadata"]["uid"]),
            one["metadata"]["generation"],
        )
        for one in made
    ]  # fmt: skip
    ready = {"type": "Ready", "status": "True", "reason": "ReconciliationSucceeded", "message": "m", "observedGeneration": 1, "lastTransitionTime": "2026-11-30T02:00:00Z"}  # fmt: skip
    waits = threading.Event()

    def told(text: str) -> None:
        if "has not said anything" in text:
            waits.set()

    def write() -> None:
        waits.wait(20)
        for name in names:
            patch = {"status": {"observedGeneration": 1, "conditions": [ready]}}
            assert cluster.merge_patch(f"{base}/{name}/status", patch).status == 200

    writer = threading.Thread(target=write)
    writer.start()
    # NB: polls are 2 s apart, so that what is known in less than that was seen by the watch.
    found = follow_really(cluster, targets, told=told, timeout_s=30)
    writer.join()
    assert found.outcome is V.SUCCEEDED
    assert len(found.results) == 3
