"""
Aspects: when to look and at what · a heartbeat that gets old without an event · only what changed is read again ·
a cluster that is lost and found · holders are not asked about at each look · a follower that breaks says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fencectl.cluster.kubeconfig import resolve
from fencectl.cluster.observe import WHOLE, Part
from fencectl.cluster.transport import Transport
from fencectl.commands.demo_stage import subject_of
from fencectl.commands.reading import Subject
from fencectl.commands.watch_evidence import ASK_AGAIN_S
from fencectl.commands.watch_follow import (
    EXPIRED_MARGIN_S,
    LOOK_AGAIN_S,
    Broken,
    Follower,
    Looking,
    News,
    Pace,
    Sight,
    pause_after,
)
from fencectl.core.evidence import Verdict
from fencectl.core.profiles import FENCECTL
from fencectl.core.times import micro_time
from fencectl.sandbox import Sandbox
from tests.kube.support_kube import FakeClock
from tests.report import story
from tests.support.played_deploy import PlayedDeploy

NODES, LEASES = frozenset({Part.NODES}), frozenset({Part.LEASES})
HOLDER = "4f2a91c07be3d855-local-desk-4711-9c41e07a"


class Desk:
    """A sandbox with one cordoned node and the follower of it; both clocks stand still together."""

    def __init__(self, sandbox: Sandbox, folder: Path, clock: FakeClock) -> None:
        self.sandbox = sandbox
        self.clock = clock
        self.news: list[News] = []
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(sandbox.kubeconfig(context="prod"))
        connection = resolve(str(kubeconfig), "prod", {}, folder)
        self.subject: Subject = structs.replace(subject_of(connection), deadline_s=5.0)
        self.door: Transport = connection.open(clock=clock)
        self.follower = Follower(self.subject, clock, self.news.append)

    def deploy(self, holder: str = HOLDER, **more: Any) -> None:
        run = PlayedDeploy(self.door, holder, FENCECTL.lease, self.clock.wall(), **more)
        run.take_lease()
        run.cordon("worker-2")

    def advance(self, seconds: float) -> None:
        self.clock.now_s += seconds
        self.sandbox.clock.advance(seconds)

    def look(self, *changed: Part) -> Sight | None:
        """Let the follower look if it is due; return what it saw."""
        before = len(self.news)
        self.follower.look_if_due(self.door, frozenset(changed))
        told = self.news[before:]
        assert [type(one) for one in told] in ([], [Looking, Sight])
        return told[1] if told and isinstance(told[1], Sight) else None

    def asked(self) -> set[str]:
        return {entry.resource for entry in self.sandbox.requests if entry.resource}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    clock = FakeClock()
    with Sandbox(manual_clock_at=clock.wall()) as sandbox:
        sandbox.store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-2"}})
        made = Desk(sandbox, tmp_path, clock)
        yield made
        made.door.close()


def verdict(sight: Sight | None) -> Verdict:
    assert sight is not None
    assert sight.report is not None
    return sight.report.blocks[0].judgement.verdict


# When


def test_pace_looks_at_everything_first_and_then_at_what_changed() -> None:
    """Nothing is read again for nothing; after so much silence the leases are."""
    pace = Pace()
    assert pace.due(0.0) == WHOLE
    pace.looked(story.nothing(), 0.0)
    assert pace.due(0.0) == frozenset()
    pace.hear(NODES)
    assert pace.due(0.0) == NODES
    pace.looked(story.nothing(), 1.0)
    assert pace.due(LOOK_AGAIN_S + 0.9) == frozenset()
    assert pace.due(LOOK_AGAIN_S + 1.0) == LEASES


def test_pace_backs_off_while_the_cluster_is_lost_whatever_its_watches_say() -> None:
    """They break as well, again and again: only time counts. Then everything is read."""
    pace, now_s, waited = Pace(), 0.0, []
    for _ in range(6):
        pace.failed(now_s)
        pace.hear(NODES)
        step_s = next(step_s for step_s in range(100) if pace.due(now_s + step_s))
        assert pace.due(now_s + step_s) == WHOLE
        now_s += step_s
        waited.append(step_s)
    assert waited == [1, 2, 4, 8, 10, 10]
    pace.looked(story.nothing(), now_s)
    pace.failed(now_s)
    assert pace.due(now_s + 1.0) == WHOLE


@pytest.mark.parametrize(
    ("age_s", "duration", "pause_s"),
    [
        pytest.param(26, 30, 4 + EXPIRED_MARGIN_S, id="expires soon"),
        pytest.param(0, 30, LOOK_AGAIN_S, id="fresh"),
        pytest.param(31, 30, LOOK_AGAIN_S, id="expired already"),
        pytest.param(-3, 4, 7 + EXPIRED_MARGIN_S, id="a little ahead"),
        pytest.param(-500, 30, LOOK_AGAIN_S, id="absurdly ahead"),
        pytest.param(298, 100000, 2 + EXPIRED_MARGIN_S, id="absurdly long"),
        pytest.param(5, "30", LOOK_AGAIN_S, id="no number"),
        pytest.param(5, None, LOOK_AGAIN_S, id="no duration"),
    ],
)
def test_report_stands_no_longer_than_a_heartbeat_is_fresh(age_s: float, duration: Any, pause_s: float) -> None:
    """A heartbeat that gets old sends no event, so somebody has to look when it does."""
    held = story.held_lease(1)
    renewed = micro_time(story.NOW - timedelta(seconds=age_s))
    raw = {"spec": {"renewTime": renewed, "leaseDurationSeconds": duration}}
    report = story.report(story.block([structs.replace(held, raw=raw)]))
    assert pause_after(report) == pytest.approx(pause_s)


# What


def test_heartbeat_that_gets_old_changes_the_verdict_without_any_event(desk: Desk) -> None:
    """Live at first; 31 s later nothing has happened, and that is the news."""
    desk.deploy()
    assert verdict(desk.look()) is Verdict.LIVE
    desk.sandbox.requests.clear()
    seen: list[Verdict] = []
    while not seen or seen[-1] is Verdict.LIVE:
        desk.advance(1.0)
        sight = desk.look()
        seen += [verdict(sight)] if sight is not None else []
    assert seen[-1] is Verdict.UNKNOWN
    assert timedelta(seconds=30) <= desk.clock.wall() - desk.clock.start_at <= timedelta(seconds=32)
    # Leases and their records: no node and no Flux kind was read for that.
    assert desk.asked() == {"leases", "configmaps"}


def test_only_the_part_that_changed_is_read_again(desk: Desk) -> None:
    """A node was cordoned: nodes are read, and the rest of the report is kept."""
    desk.deploy()
    desk.look()
    desk.sandbox.requests.clear()
    desk.sandbox.store.patch("nodes", "worker-2", {"spec": {"unschedulable": None}})
    sight = desk.look(Part.NODES)
    assert sight is not None
    assert sight.report is not None
    assert [(entry.object.name, entry.now) for entry in sight.report.held] == [
        ("worker-2", "schedulable"),
        ("fencectl-deploy", "taken"),
    ]
    assert desk.asked() == {"nodes"}


def test_nothing_is_sent_while_nothing_is_due(desk: Desk) -> None:
    """Ticks cost no request."""
    desk.look()
    desk.sandbox.requests.clear()
    assert desk.look() is None
    assert len(desk.sandbox.requests) == 0


def test_lost_cluster_is_told_and_found_again(desk: Desk) -> None:
    """A failure is news, at the time that the server's clock would show; then everything is read again."""
    desk.sandbox.clock.advance(3600)
    desk.look()
    port = desk.sandbox.port
    desk.sandbox.stop()
    sight = desk.look(Part.NODES)
    assert sight is not None
    assert sight.report is None
    assert sight.failure is not None
    assert sight.failure.reason is not None
    assert "connection refused" in sight.failure.reason
    assert abs((sight.at - _an_hour_after(desk.clock)).total_seconds()) < 1
    assert desk.look(Part.NODES) is None
    desk.sandbox.start(port=port)
    desk.sandbox.requests.clear()
    desk.clock.now_s += 1.0
    again = desk.look()
    assert again is not None
    assert again.report is not None
    assert again.report.complete
    assert {"leases", "nodes", "kustomizations"} <= desk.asked()


def _an_hour_after(clock: FakeClock) -> datetime:
    return clock.wall() + timedelta(hours=1)


def test_holders_are_asked_about_once_and_again_when_the_answer_is_old(desk: Desk) -> None:
    """Twenty looks are not twenty questions to GitHub or the pods; another holder is asked about at once."""
    desk.deploy(f"{'0' * 16}-pod-ci.runner-1-0a0b0c0d", story={"details": _pod("runner-1")})
    desk.look()
    assert len(desk.sandbox.requests.where(path="/pods/")) == 1
    for _ in range(5):
        desk.look(Part.NODES)
    assert len(desk.sandbox.requests.where(path="/pods/")) == 1
    desk.advance(ASK_AGAIN_S)
    desk.look()
    assert len(desk.sandbox.requests.where(path="/pods/")) == 2
    desk.sandbox.store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-3"}})
    other = f"{'0' * 16}-pod-ci.runner-2-0a0b0c0e"
    run = PlayedDeploy(
        desk.door, other, ("flux-system", "another"), desk.clock.wall(), story={"details": _pod("runner-2")}
    )
    run.take_lease()
    desk.look(Part.LEASES)
    assert len(desk.sandbox.requests.where(path="/pods/")) == 4


def _pod(name: str) -> dict[str, str]:
    uid = "5d8e0a71-4c2b-4e96-9f10-c7b3a6d2e845"
    return {"pod_namespace": "ci", "pod_name": name, "pod_uid": uid, "container": "deploy"}


def test_follower_that_breaks_hands_the_error_over(desk: Desk) -> None:
    """A fault of our own must end the program, and not leave an old frame standing for ever."""
    told: list[News] = []

    def tell(news: News) -> None:
        told.append(news)
        if isinstance(news, Looking):
            raise ZeroDivisionError

    follower = Follower(desk.subject, desk.clock, tell)
    with _ended(follower):
        pass
    assert isinstance(told[-1], Broken)
    assert isinstance(told[-1].error, ZeroDivisionError)


@contextmanager
def _ended(follower: Follower) -> Iterator[None]:
    """Run a follower to its end in this thread."""
    yield
    follower._run()
