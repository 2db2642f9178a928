"""
Following by watches: what the lines of a watch lead to, and when the list is read again.

Aspects: changes and deletions by event · bookmarks · a watch that ends, is cut, forgets, is refused, sends junk ·
nothing is polled while it stands · the real thing with threads, on both clusters.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from fencectl.cluster.answer import Answer
from fencectl.cluster.clock import SystemClock
from fencectl.cluster.failures import Kind, Unreachable, WireError
from fencectl.cluster.watching import StreamRefused
from fencectl.core.refs import ObjectRef
from fencectl.core.rollout import Cause, Followed, RolloutVerdict as V, Target
from fencectl.run.follow import Follower
from fencectl.run.follow_feed import trim_pod
from tests.kube.looking import opened
from tests.kube.scripted import wait_until
from tests.run.following import Stage, stage_on
from tests.support.clusters import Cluster, Raw, ensure_namespace, grant

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


def test_watch_that_nothing_comes_through_is_given_up_for_polls(stage: Stage) -> None:
    """A proxy that keeps a stream until it is whole: no event, no bookmark, and the rollout has long ended."""
    web = stage.deployment()
    quiet = Unreachable(WireError(Kind.TIMEOUT), context="prod", server="https://x", tries=1, elapsed_s=75)
    script = Script(stage, [75.0, quiet])
    stage.at(0.4, lambda: stage.available(1))
    assert stage.follow(web, timeout_s=300).outcome is V.SUCCEEDED
    assert len(script.versions) == 1
    assert len(stage.lists("Deployment")) == 2


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


def test_error_that_nobody_expects_is_raised_and_not_waited_for(stage: Stage) -> None:
    """A thread that died would otherwise look like a silent cluster, until the time is over."""
    web = stage.deployment()
    Script(stage, [2.0, ZeroDivisionError("a bug")])
    with pytest.raises(ZeroDivisionError, match="a bug"):
        stage.follow(web)
    assert stage.second < 10


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


def follow_really(
    cluster: Cluster, targets: list[Target], *, told: Callable[[str], None], timeout_s: float, user: str = "admin"
) -> Followed:
    before = set(threading.enumerate())
    with opened(cluster, user=user) as transport:
        found = Follower(transport, SystemClock(), told).follow(targets, timeout_s)
    wait_until(
        lambda: not [one for one in set(threading.enumerate()) - before if one.name.startswith("fencectl-follow")]
    )
    return found


GROUP = "kustomize.toolkit.fluxcd.io"


@dataclass
class Apps:
    """Kustomizations in a namespace of their own, and how to make them ready."""

    cluster: Cluster
    namespace: str

    @property
    def base(self) -> str:
        return f"/apis/{GROUP}/v1/namespaces/{self.namespace}/kustomizations"

    def make(self, name: str) -> Target:
        spec = {"interval": "10m", "prune": True, "path": ".", "sourceRef": {"kind": "GitRepository", "name": "x"}}
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Kustomization", "metadata": {"name": name}, "spec": spec}
        meta = self.cluster.create(self.base, body)["metadata"]
        ref = ObjectRef(f"{GROUP}/v1", "Kustomization", "kustomizations", self.namespace, name, meta["uid"])
        return Target(ref, meta["generation"])

    def ready(self, *names: str) -> None:
        one = {"type": "Ready", "status": "True", "reason": "ReconciliationSucceeded", "message": "m"}
        one |= {"observedGeneration": 1, "lastTransitionTime": "2026-11-30T02:00:00Z"}  # type: ignore[dict-item]
        for name in names:
            patch = {"status": {"observedGeneration": 1, "conditions": [one]}}
            assert self.cluster.merge_patch(f"{self.base}/{name}/status", patch).status == 200

    def ready_once_told(self, *names: str) -> Callable[[str], None]:
        """Give a listener that makes them ready, in a thread of its own, once something is told of one of them."""
        threads: list[threading.Thread] = []

        def told(text: str) -> None:
            if not threads:
                threads.append(threading.Thread(target=self.ready, args=names))
                threads[0].start()

        return told


@pytest.fixture
def apps(cluster: Cluster) -> Apps:
    return Apps(cluster, ensure_namespace(cluster, cluster.unique("ns")))


def test_changes_are_seen_by_a_watch_and_no_thread_is_left(apps: Apps) -> None:
    """Three objects of which nothing is said before they are followed."""
    names = [f"app-{number}" for number in range(3)]
    targets = [apps.make(name) for name in names]
    found = follow_really(apps.cluster, targets, told=apps.ready_once_told(*names), timeout_s=60)
    assert found.outcome is V.SUCCEEDED
    assert len(found.results) == 3
    if apps.cluster.name == "sandbox":
        asked = [
            one.verb
            for one in apps.cluster.sandbox.requests.where(path=apps.base)
            if one.verb in ("list", "watch")
        ]
        assert asked == ["list", "watch"]  # a poll would have come two seconds later


def test_stop_does_not_wait_for_a_server_that_hangs(sandbox_cluster: Cluster) -> None:
    """Whoever is interrupted has seven seconds for everything; the read that hangs is left behind."""
    apps = Apps(sandbox_cluster, ensure_namespace(sandbox_cluster, "ns"))
    target = apps.make("mine")
    hangs = sandbox_cluster.sandbox.faults.hang(verb="list", resource="kustomizations")
    with opened(sandbox_cluster) as transport:
        asked = iter([None, None, "TERM"])
        found = Follower(transport, SystemClock(), lambda _: None, lambda: next(asked)).follow([target], 60)
        assert (found.stopped, found.results[0].verdict) == ("TERM", V.WAITING)
        assert [one.name for one in threading.enumerate() if one.name.startswith("fencectl-follow")]
        assert hangs.hits == 1
        hangs.release()
        wait_until(lambda: not [one for one in threading.enumerate() if one.name.startswith("fencectl-follow")])


def test_right_to_one_object_is_enough_to_follow_it(apps: Apps) -> None:
    """By its name alone: neither its neighbours nor pods, nodes or events are asked for."""
    target = apps.make("mine")
    apps.make("theirs")
    rule = {
        "apiGroups": [GROUP],
        "resources": ["kustomizations"],
        "verbs": ["list", "watch"],
        "resourceNames": ["mine"],
    }
    grant(apps.cluster, "user-11", rule, namespace=apps.namespace)
    found = follow_really(apps.cluster, [target], told=apps.ready_once_told("mine"), timeout_s=60, user="user-11")
    assert (found.outcome, found.notes) == (V.SUCCEEDED, ())


def test_missing_right_to_list_is_unknown_at_once(apps: Apps) -> None:
    """Never a success, whatever the object would say; who lacks what is said."""
    target = apps.make("mine")
    apps.ready("mine")
    found = follow_really(apps.cluster, [target], told=lambda _: None, timeout_s=60, user="user-12")
    [result] = found.results
    assert (found.outcome, result.cause) == (V.UNKNOWN, Cause.UNREADABLE)
    assert f"may not `list` kustomizations.{GROUP} (namespace {apps.namespace})" in result.reason


@pytest.mark.parametrize(
    "pod", [{}, {"metadata": 3, "spec": "x"}, {"metadata": {"name": "p"}, "spec": {"containers": [1]}}]
)
def test_trimmed_pod_keeps_what_verdicts_rest_on(pod: Raw) -> None:
    """Thousands of them are kept; whatever is in one, trimming it is no error."""
    whole = {**pod, "status": {"phase": "Running"}}
    if isinstance(pod.get("spec"), dict):
        whole["spec"] = {**pod["spec"], "nodeName": "n1", "affinity": {"a": 1}}
        whole["metadata"] = {**pod["metadata"], "uid": "u", "labels": {"a": "b"}, "managedFields": [1]}
    trim_pod(whole)
    assert whole["status"] == {"phase": "Running"}
    if isinstance(pod.get("spec"), dict):
        assert whole["spec"] == {"nodeName": "n1", "affinity": {"a": 1}}
        assert whole["metadata"] == {"name": "p", "uid": "u", "labels": {"a": "b"}}
