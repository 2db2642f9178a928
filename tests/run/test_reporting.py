"""
Events: what they say, and that they are never in the way.

Aspects: the body · the queue · a door that hangs, refuses, breaks or may not · the end · a whole deploy, a recovery.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from fencectl.cluster.answer import Answer, server_date
from fencectl.cluster.ports import Query
from fencectl.core.happening import Happening, event_collection, event_of
from fencectl.core.identity import parse_holder, run_link
from fencectl.core.refs import ObjectRef
from fencectl.run.ports import SystemThreads
from fencectl.run.reporting import ROOM, Reporter
from tests.support.deploying import Scene
from tests.support.inprocess import START_AT, HandClock
from tests.support.objects import HOLDER, OTHER, journal

NODE = ObjectRef("v1", "Node", "nodes", None, "worker-2", "uid-worker-2")
APPS = ObjectRef("kustomize.toolkit.fluxcd.io/v1", "Kustomization", "kustomizations", "flux-system", "apps", "u")


@dataclass
class Desk:
    """Where Events arrive; `answer` may hang, fail, or answer anything."""

    answer: Callable[[], int] = lambda: 201
    got: list[tuple[str, Any]] = field(default_factory=list)

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes,
        content_type: str,
        deadline_s: float | None = None,
    ) -> Answer:
        self.got.append((f"{method} {path}", json.loads(body)))
        status = self.answer()
        text = json.dumps({"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": status})
        return Answer(status, {}, text.encode(), server_date({}), 0.0, 0.0)


def reporter(desk: Desk) -> Reporter:
    own = journal(holder=HOLDER, repository="acme/platform")
    return Reporter.of(own, desk, HandClock(), SystemThreads())


def test_event_says_what_happened_to_whose_fence_and_where_that_run_is_seen() -> None:
    """On the object, by uid; that of a node in `default`."""
    desk = Desk()
    tells = reporter(desk)
    tells.tell(NODE, Happening.FENCED, "cordoned for deploy 43", HOLDER)
    tells.tell(APPS, Happening.RELEASED, "released", OTHER)
    tells.end()
    (first, node), (second, apps) = desk.got
    assert first == "POST /apis/events.k8s.io/v1/namespaces/default/events"
    assert second == "POST /apis/events.k8s.io/v1/namespaces/flux-system/events"
    assert node["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "worker-2", "uid": "uid-worker-2"}
    assert apps["regarding"]["namespace"] == "flux-system"
    link = "https://github.com/acme/platform/actions/runs/18093344127/attempts/2"
    assert node["note"] == f"cordoned for deploy 43; holder {HOLDER}, {link}"
    assert (node["reason"], node["action"], node["type"]) == ("Fenced", "Fence", "Normal")
    assert (apps["reason"], apps["reportingInstance"]) == ("Released", HOLDER)
    assert OTHER in apps["note"]


def test_note_and_teller_are_cut_to_what_the_server_takes() -> None:
    """In whole characters; a refusal is a warning."""
    event = event_of(NODE, Happening.REFUSED, "é" * 2000, teller="x" * 300, at=START_AT)
    assert len(event["note"].encode()) == 1024
    assert (len(event["reportingInstance"]), event["type"]) == (128, "Warning")
    assert event_of(NODE, Happening.FENCED, "a" + "é" * 2000, teller="x", at=START_AT)["note"] == "a" + "é" * 511
    assert event_collection(APPS).endswith("/flux-system/events")


@pytest.mark.parametrize(
    ("holder", "repository", "server"),
    [
        (HOLDER, None, None),
        (HOLDER, "acme", None),
        (HOLDER, "acme/platform?x", None),
        (HOLDER, "acme/platform", "javascript:alert(1)"),
        ("4f2a91c07be3d855-local-desk-47-9c41e07a", "acme/platform", None),
    ],
)
def test_run_without_a_page_of_its_own_has_no_link(
    holder: str, repository: str | None, server: str | None
) -> None:
    """Nothing is guessed, and nothing foreign becomes a link."""
    assert run_link(parse_holder(holder), repository, server) is None


def test_server_that_does_not_answer_holds_nobody_up_and_what_is_too_much_is_dropped() -> None:
    """Telling returns at once, whatever the door does; the end waits for so long and no longer."""
    going, inside = threading.Event(), threading.Event()

    def hang() -> int:
        inside.set()
        going.wait(30)
        return 201

    desk = Desk(hang)
    tells = reporter(desk)
    for _ in range(ROOM * 2):
        tells.tell(NODE, Happening.FENCED, "cordoned", HOLDER)
    assert inside.wait(30)
    tells.end(0.01)
    assert len(desk.got) == 1
    tells.tell(NODE, Happening.RELEASED, "released", HOLDER)
    going.set()
    assert tells._thread is not None
    tells._thread.join(30)
    assert len(desk.got) == 1, "what was left when it ended is dropped"


@pytest.mark.parametrize("how", ["forbidden", "broken"])
def test_one_that_may_not_or_cannot_be_sent_is_the_last_that_is_tried(how: str) -> None:
    """Without the right the next would be refused as well; a closed door stays closed. Nobody hears of it."""

    def answer() -> int:
        if how == "broken":
            raise ValueError("the door is closed")
        return 403

    desk = Desk(answer)
    tells = reporter(desk)
    tells.tell(NODE, Happening.FENCED, "cordoned", HOLDER)
    assert tells._thread is not None
    tells._thread.join(30)
    tells.tell(NODE, Happening.RELEASED, "released", HOLDER)
    tells.end()
    assert len(desk.got) == 1


@pytest.mark.parametrize("status", [409, 422, 500, 503])
def test_one_that_is_refused_is_not_sent_again_and_the_next_is(status: int) -> None:
    """Best effort: each once."""
    desk = Desk(lambda: status)
    tells = reporter(desk)
    for _ in range(2):
        tells.tell(NODE, Happening.FENCED, "cordoned", HOLDER)
    tells.end()
    assert len(desk.got) == 2


@dataclass
class Heard:
    """Takes down what is told."""

    told: list[tuple[str, str, str]] = field(default_factory=list)

    def tell(self, ref: ObjectRef, what: Happening, sentence: str, holder: str) -> None:
        assert ref.uid
        self.told.append((ref.display, what.value, sentence))


def test_deploy_tells_of_each_fence_when_it_is_placed_and_released() -> None:
    """The lease first and last; nothing of it is a write of the transaction."""
    heard, silent = Heard(), Scene()
    silent.deploy()
    scene = Scene()
    stage = scene.stage
    scene.stage = lambda **more: _with(stage(**more), heard)  # type: ignore[method-assign]
    scene.deploy()
    assert scene.door.writes == silent.door.writes
    lease = "lease/flux-system/fencectl-deploy"
    assert heard.told[0] == (lease, "Fenced", "taken for a deploy")
    assert heard.told[-1] == (lease, "Released", "freed")
    fenced = [name for name, what, _ in heard.told if what == "Fenced"]
    released = [name for name, what, _ in heard.told if what == "Released"]
    assert fenced[1:3] == ["kustomization/flux-system/flux-system", "kustomization/flux-system/apps"]
    assert sorted(fenced) == sorted(released)
    assert ("node/n1", "Fenced", "cordoned for deploy 1") in heard.told


def _with(stage: Any, heard: Heard) -> Any:
    stage.events = heard
    return stage
