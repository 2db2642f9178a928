"""
Placing, draining and unwinding on the sandbox: lost answers, changed objects, a lease that is lost in between.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from fencectl.cluster.write import create
from fencectl.core.answers import Applied
from fencectl.core.fluxdrain import DrainBound, drain_bound, duration_s
from fencectl.core.journal import Journal, Phase
from fencectl.core.lease import LeaseTerms, new_lease
from fencectl.core.marks import read_mark
from fencectl.core.placements import place_cordon, place_suspension, rewrite_journal
from fencectl.core.plan import keeping_order
from fencectl.core.refs import ObjectRef, Seen
from fencectl.core.report import FenceKind
from fencectl.run.fencing import Fence, Fencer, Ledger, NotFencedError
from fencectl.run.keeper import Keeper, LeaseLostError
from fencectl.run.ports import SystemThreads
from fencectl.run.suspending import NotDrainedError, Suspender, SuspendingStoppedError, ToSuspend
from fencectl.run.unwind import unwind
from fencectl.sandbox import Request, Sandbox
from tests.support.inprocess import START_AT, HandClock, SandboxDoor
from tests.support.objects import HOLDER, OTHER, journal, kustomization

KS = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations"
Raw = dict[str, Any]


@dataclass
class Scene:
    """A run that holds its lease, two Kustomizations (parent and child), two nodes."""

    sandbox: Sandbox
    clock: HandClock
    door: SandboxDoor
    keeper: Keeper
    ledger: Ledger = field(default_factory=Ledger)
    told: list[str] = field(default_factory=list)
    seq: int = 0

    @property
    def fencer(self) -> Fencer:
        return Fencer(self.door, self.clock, self.keeper, self.ledger)

    def journal(self, rank: int) -> Journal:
        self.seq += 1
        return journal(seq=self.seq, rank=rank)

    def suspender(self, must_stop: Callable[[], str | None] = lambda: None) -> Suspender:
        return Suspender(
            self.door,
            self.clock,
            self.fencer,
            self.keeper,
            journal_for=self.journal,
            must_stop=must_stop,
            tell=self.told.append,
        )

    def suspend(self, *names: str, drain_timeout_s: float | None = None, **more: Any) -> None:
        targets = [ToSuspend(ks(name), rank) for rank, name in enumerate(names, 1)]
        self.suspender(**more).suspend_all(targets, drain_timeout_s=drain_timeout_s)

    def cordon(self, name: str) -> Fence:
        return self.fencer.place(FenceKind.CORDON, node(name), lambda seen: place_cordon(seen, self.journal(1000)))

    def raw(self, path: str) -> Raw:
        found: Raw = json.loads(self.door.get(path).body)
        return found

    def unwind(self, **more: Any) -> Any:
        given: dict[str, Any] = {"budget_s": 30.0, "tell": self.told.append, "may_release": lambda _: None}
        return unwind(self.door, self.clock, SystemThreads(), self.ledger, **(given | more))

    def merge(self, path: str, patch: Raw) -> None:
        request = Request(
            "PATCH",
            path,
            {"fieldManager": "other"},
            {"content-type": "application/merge-patch+json"},
            json.dumps(patch).encode(),
            "admin",
        )
        assert self.sandbox.handle(request).status == 200


def ks(name: str) -> ObjectRef:
    return ObjectRef("kustomize.toolkit.fluxcd.io/v1", "Kustomization", "kustomizations", "flux-system", name, "")


def node(name: str) -> ObjectRef:
    return ObjectRef("v1", "Node", "nodes", None, name, "")


@pytest.fixture
def scene() -> Scene:
    sandbox = Sandbox(manual_clock_at=START_AT)
    clock = HandClock()
    door = SandboxDoor(sandbox, clock)

    def follow(seconds: float) -> None:
        sandbox.clock.advance(seconds)

    clock.on_wait = follow
    for name in ("flux-system", "apps"):
        labels = (
            {
                "kustomize.toolkit.fluxcd.io/name": "flux-system",
                "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
            }
            if name == "apps"
            else {}
        )
        sandbox.store.create(
            {
                "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
                "kind": "Kustomization",
                "metadata": {"name": name, "namespace": "flux-system", "labels": labels},
                "spec": {
                    "interval": "10m",
                    "prune": True,
                    "path": "./",
                    "sourceRef": {"kind": "GitRepository", "name": "x"},
                },
            }
        )
    for name in ("n1", "n2"):
        sandbox.store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    terms = LeaseTerms(HOLDER, 30, clock.wall(), journal(phase=Phase.HELD))
    collection = "/apis/coordination.k8s.io/v1/namespaces/flux-system/leases"
    made = create(door, collection, new_lease("flux-system", "fencectl-deploy", terms))
    assert isinstance(made, Applied)
    ref = ObjectRef(
        "coordination.k8s.io/v1", "Lease", "leases", "flux-system", "fencectl-deploy", made.raw["metadata"]["uid"]
    )
    keeper = Keeper(
        door, clock, Seen(ref, made.raw), holder=HOLDER, duration_s=30, sent_s=clock.boot_s, sent_at=clock.at
    )
    return Scene(sandbox, clock, door, keeper)


def test_fences_are_placed_and_unwound_in_reverse_and_all_comes_back(scene: Scene) -> None:
    """Parent, child, nodes; then nodes, child, parent; every object as it was."""
    paths = [f"{KS}/flux-system", f"{KS}/apps", "/api/v1/nodes/n1", "/api/v1/nodes/n2"]
    before = [scene.raw(path)["spec"] for path in paths]
    scene.suspend("flux-system", "apps", drain_timeout_s=0)
    scene.cordon("n1")
    scene.cordon("n2")
    assert [scene.raw(path)["metadata"]["annotations"]["fencectl.dev/holder"] for path in paths] == [HOLDER] * 4
    result = scene.unwind()
    assert result.clean
    assert [scene.raw(path)["spec"] for path in paths] == before
    assert not any(scene.raw(path)["metadata"].get("annotations") for path in paths)
    order = [text.rpartition("/")[2] for text in scene.told if text.startswith("released")]
    assert sorted(order[:2]) == ["n1", "n2"]
    assert order[2:] == ["apps", "flux-system"]


@pytest.mark.parametrize("times", [1, 3])
def test_case_33_placement_whose_answer_was_lost_is_adopted(scene: Scene, times: int) -> None:
    """Sent again until the server says no, then read back: only the exact text of this run is ours."""
    scene.sandbox.faults.drop_after(verb="patch", resource="nodes", times=times)
    scene.cordon("n1")
    assert len(scene.ledger.fences) == 1
    assert scene.ledger.unresolved == []
    assert scene.unwind().clean


def test_case_20_placement_reads_again_while_kubelets_write(scene: Scene) -> None:
    """The resourceVersion moves between the read and the write, three times."""
    for _ in range(3):
        scene.sandbox.faults.on(
            lambda: scene.merge("/api/v1/nodes/n1", {"metadata": {"labels": {"beat": str(scene.clock.boot_s)}}}),
            verb="patch",
            resource="nodes",
            times=1,
        )
        scene.clock.advance(0.1)
    scene.cordon("n1")
    assert scene.raw("/api/v1/nodes/n1")["spec"]["unschedulable"] is True


def test_object_that_somebody_else_marks_first_is_refused(scene: Scene) -> None:
    """By whom it was changed is said."""
    marks = {"fencectl.dev/holder": OTHER, "fencectl.dev/journal": "{}"}
    scene.sandbox.faults.on(
        lambda: scene.merge("/api/v1/nodes/n1", {"metadata": {"annotations": marks}}),
        verb="patch",
        resource="nodes",
    )
    with pytest.raises(NotFencedError, match="n1 cannot be fenced"):
        scene.cordon("n1")
    assert scene.ledger.fences == []


def test_nothing_is_placed_after_the_lease_is_lost(scene: Scene) -> None:
    """The keeper is asked right before each send."""
    scene.clock.advance(21)
    sent = len(scene.door.sent)
    with pytest.raises(LeaseLostError):
        scene.cordon("n1")
    assert len(scene.door.sent) == sent


def test_fence_that_came_too_late_is_in_the_ledger_and_goes_back(scene: Scene) -> None:
    """A pause between the check and the answer: the placement stands, is noticed, and is unwound."""
    scene.sandbox.faults.on(lambda: scene.clock.advance(30), verb="patch", resource="nodes")
    with pytest.raises(LeaseLostError):
        scene.cordon("n1")
    assert len(scene.ledger.fences) == 1
    assert scene.unwind().clean
    assert "unschedulable" not in scene.raw("/api/v1/nodes/n1")["spec"]


def test_placement_that_stays_unanswered_until_the_loss_is_named_as_unresolved(scene: Scene) -> None:
    """Nobody can say whether it was carried out."""
    scene.sandbox.faults.drop_before(verb="patch", resource="nodes")
    with pytest.raises(LeaseLostError):
        scene.cordon("n1")
    assert [one.fence.seen.ref.display for one in scene.ledger.unresolved] == ["node/n1"]


def test_drain_is_proven_by_the_token_that_the_controller_copies(scene: Scene) -> None:
    """Automatic Flux answers at once."""
    scene.sandbox.flux.automatic()
    scene.suspend("flux-system", "apps")
    assert any(text.startswith("drained") for text in scene.told)


def test_missing_proof_ends_with_the_objects_and_the_way_on(scene: Scene) -> None:
    """Nobody runs the controller: the time-out comes from the object's own interval."""
    keep = scene.clock.on_wait

    def renew(seconds: float) -> None:
        if keep is not None:
            keep(seconds)
        scene.keeper.renew()

    scene.clock.on_wait = renew
    with pytest.raises(
        NotDrainedError, match="no drain proof of kustomization/flux-system/apps within 10m00s"
    ) as raised:
        scene.suspend("apps")
    assert "--drain-timeout 0s" in (raised.value.hint or "")


def test_token_that_somebody_else_overwrites_is_written_again(scene: Scene) -> None:
    """`flux reconcile` on top of ours: a new token, and the proof for that one."""
    other = {"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": "2026-11-30T02:00:00Z"}}}
    done = threading.Event()

    def interfere(_: float) -> None:
        scene.keeper.renew()
        if not done.is_set():
            done.set()
            scene.merge(f"{KS}/apps", other)
        elif scene.raw(f"{KS}/apps")["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"].startswith(
            "9c41e07a"
        ):
            scene.sandbox.flux.run()

    scene.clock.on_wait = interfere
    scene.suspend("apps")
    assert any("our token was written again" in text for text in scene.told)
    assert scene.unwind().clean
    assert "annotations" not in scene.raw(f"{KS}/apps")["metadata"]


def test_suspension_that_is_lifted_while_it_drains_ends_the_wait(scene: Scene) -> None:
    """`flux resume` by somebody else: said, not waited for."""
    scene.clock.on_wait = lambda _: scene.merge(f"{KS}/apps", {"spec": {"suspend": None}})
    with pytest.raises(NotFencedError, match="changed by somebody else"):
        scene.suspend("apps")


def test_interrupt_ends_the_wait_for_the_proof(scene: Scene) -> None:
    """And what is suspended is unwound."""
    with pytest.raises(SuspendingStoppedError, match="interrupted"):
        scene.suspend("apps", must_stop=lambda: "interrupted")
    assert scene.unwind().clean


def test_kind_without_a_proof_needs_a_decision() -> None:
    """Named, unless nothing is to be waited for."""
    seen = kustomization()
    without = Seen(ObjectRef("notification.toolkit.fluxcd.io/v1beta3", "Alert", "alerts", "x", "a", "u"), seen.raw)
    assert drain_bound((seen, without), asked_s=None) == DrainBound(600.0, ("alert/x/a",))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1h30m", 5400),
        ("90s", 90),
        ("1.5m", 90),
        ("500ms", 0.5),
        ("10", None),
        ("", None),
        (5, None),
        ("5x", None),
    ],
)
def test_durations_are_read_as_go_writes_them(text: object, seconds: float | None) -> None:
    """Flux's own spelling."""
    assert duration_s(text) == seconds


def test_refusal_in_one_rank_keeps_the_next_ones_held(scene: Scene) -> None:
    """A node in `mutating` stays; its sibling goes; the suspensions wait."""
    scene.suspend("flux-system", drain_timeout_s=0)
    scene.cordon("n1")
    fence = scene.cordon("n2")
    story = fence.journal.with_phase(Phase.MUTATING, at=scene.clock.wall())
    scene.fencer.change(fence, rewrite_journal(fence.seen, fence.journal, story), story)
    result = scene.unwind()
    assert [one.fence.seen.ref.name for one in result.left] == ["n2"]
    assert [one.seen.ref.name for one in result.waiting] == ["flux-system"]
    assert [one.seen.ref.name for one in result.released] == ["n1"]


def keep(scene: Scene, *names: str) -> None:
    """Mark suspensions as kept, in the order in which it has to be done."""
    fences = [fence for fence in scene.ledger.fences if fence.seen.ref.name in names]
    for fence in keeping_order(fences, rank=lambda one: one.rank):
        kept = fence.journal.with_phase(Phase.KEPT, at=scene.clock.wall(), reason="rolled back")
        scene.fencer.change(fence, rewrite_journal(fence.seen, fence.journal, kept), kept)


def kept_now(scene: Scene) -> dict[str, str]:
    """The phase of each suspension as the server has it."""
    marks = {name: read_mark(Seen(ks(name), scene.raw(ks(name).path))) for name in ("flux-system", "apps")}
    return {name: mark.journal.phase.value for name, mark in marks.items() if mark is not None and mark.journal}


def test_suspensions_are_kept_outermost_first_so_that_a_failure_in_between_harms_nothing(scene: Scene) -> None:
    """The second of the two changes fails: the child is released, and never the parent of a kept child."""
    scene.suspend("flux-system", "apps", drain_timeout_s=0)
    scene.sandbox.faults.refuse(verb="patch", resource="kustomizations", status=403, after=1, times=1)
    with pytest.raises(NotFencedError):
        keep(scene, "apps", "flux-system")
    assert kept_now(scene) == {"flux-system": "kept", "apps": "suspended"}
    assert scene.unwind().clean
    assert kept_now(scene) == {"flux-system": "kept"}


def test_parent_of_a_kept_child_is_not_released(scene: Scene) -> None:
    """Whatever went wrong before: it would drop the child from its inventory. It stays, and is said."""
    scene.suspend("flux-system", "apps", drain_timeout_s=0)
    scene.cordon("n1")
    keep(scene, "apps")
    result = scene.unwind()
    assert [fence.seen.ref.name for fence in result.released] == ["n1"]
    (left,) = result.left
    assert (left.fence.seen.ref.name, "apps is kept" in left.why) == ("flux-system", True)
    assert kept_now(scene) == {"flux-system": "suspended", "apps": "kept"}


def test_what_was_lifted_or_deleted_by_others_is_released(scene: Scene) -> None:
    """Gone, resumed, uncordoned: nothing is left to do but the mark."""
    scene.suspend("flux-system", drain_timeout_s=0)
    scene.cordon("n1")
    scene.cordon("n2")
    scene.merge(f"{KS}/flux-system", {"spec": {"suspend": None}})
    scene.merge("/api/v1/nodes/n1", {"spec": {"unschedulable": None}})
    scene.sandbox.handle(Request("DELETE", "/api/v1/nodes/n2", {}, {}, b"", "admin"))
    assert scene.unwind().clean
    assert "annotations" not in scene.raw("/api/v1/nodes/n1")["metadata"]


def test_server_that_is_away_for_a_while_does_not_end_the_unwinding(scene: Scene) -> None:
    """Tried until the time is over; then named with why."""
    scene.cordon("n1")
    fault = scene.sandbox.faults.refuse(verb="patch", resource="nodes", status=503)
    keep = scene.clock.on_wait
    waits = iter(range(100))

    def heal(seconds: float) -> None:
        if keep is not None:
            keep(seconds)
        if next(waits) == 5:
            fault.cancel()

    scene.clock.on_wait = heal
    assert scene.unwind().clean
    scene.cordon("n2")
    scene.door.away = True
    result = scene.unwind(budget_s=3.0)
    assert [one.fence.seen.ref.name for one in result.left] == ["n2"]


def test_suspension_placed_by_the_same_patch_again_after_its_release_is_refused(scene: Scene) -> None:
    """A late placement cannot fence again: the generation has grown."""
    path = f"{KS}/apps"
    raw = scene.raw(path)
    seen = Seen(
        ObjectRef(
            "kustomize.toolkit.fluxcd.io/v1",
            "Kustomization",
            "kustomizations",
            "flux-system",
            "apps",
            raw["metadata"]["uid"],
        ),
        raw,
    )
    built = place_suspension(seen, scene.journal(1))
    scene.suspend("apps", drain_timeout_s=0)
    assert scene.unwind().clean
    assert not hasattr(built, "why")
    request = Request(
        "PATCH",
        path,
        {"fieldManager": "fencectl"},
        {"content-type": "application/json-patch+json"},
        built.patch.body.encode(),
        "admin",
    )
    assert scene.sandbox.handle(request).status == 422
