"""Kill `recover` at each of its calls, with each write before, under way and late: the next one ends as if it had not been."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from fencectl.core.refs import dig
from tests.sim.actors import Actor, Scenario
from tests.sim.agents import Trip
from tests.sim.foreign import FLUX, state_of
from tests.sim.look import inline_reads
from tests.sim.scenario import draw
from tests.sim.story import LEASE, Stage

# The line tracer makes these three times as slow, and what they reach is reached, and measured, elsewhere.
pytestmark = pytest.mark.no_cover

WRITES = ("take", "release", "free")
CALLS = 90


@dataclass(frozen=True, slots=True)
class Ended:
    """The cluster when all is over, and how many calls and writes the first recovery made."""

    state: dict[str, Any]
    calls: Mapping[str, int]
    first: str


def killed_deploy() -> Scenario:
    """Parent, child and two nodes, all claimed, of a deploy that is killed before its first release; nothing else."""
    story = draw(0, "late")
    calm = replace(story.weather, latency_s=0.02, busy=0.0, lost_before=0.0, late=0.0, lost_after=0.0)
    spec = replace(
        story.spec,
        suspends=("base", "web"),
        nodes=("n1", "n2"),
        duration_s=30,
        works_s=0.5,
        keeps=False,
        rolls=False,
        drain_s=0.0,
    )
    first = replace(story.first, trips={"release.1": Trip("kill", "before")})
    flux: tuple[dict[str, Any], dict[str, str]] = ({}, {"team": "a"})
    return replace(
        story, first=first, spec=spec, second=None, recoverers=(), operator=None, weather=calm, foreign=0,
        nodes=(True, False), flux=flux, lease="free", recoverer_believed_dead_s=None,
    )  # fmt: skip


def recovered(trips: Mapping[str, Trip], *, beside_s: float | None = None) -> Ended:
    """Recover with what befalls the first recovery, then once more; `beside_s`: another one begins so much later."""
    stage = Stage(1, killed_deploy())
    kernel = stage.kernel
    try:
        with inline_reads(kernel):
            stage.play()
            assert len(stage.monitor.marks()) == 4
            first = stage.recoverer("first", Actor(kernel.now_s + 40.0, trips))
            if beside_s is not None:
                stage.recoverer("beside", Actor(kernel.now_s + 40.0 + beside_s))
            kernel.run()
            then = stage.recoverer("then", Actor(kernel.now_s + 1.0))
            kernel.run()
        assert kernel.failures == [], "\n".join(str(event) for event in kernel.trace[-40:])
        assert then.done, then.said
        store = stage.net.sandbox.store
        state: dict[str, Any] = {
            f"{obj['kind']} {obj['metadata']['name']}": state_of(obj)
            for obj in (*store.list("nodes"), *store.list("kustomizations", namespace=FLUX))
        }
        lease = store.get("leases", LEASE[1], namespace=LEASE[0])
        state["lease"] = {key: dig(lease, "spec", key) for key in ("holderIdentity", "leaseDurationSeconds")}
        state["left"] = [seen.ref.display for seen, _ in stage.monitor.marks()]
        state["lease"]["annotations"] = dig(lease, "metadata", "annotations") or {}
        return Ended(state, dict(first.agent.calls), first.agent.result)
    finally:
        kernel.close()


@pytest.fixture(scope="module")
def uninterrupted() -> Ended:
    """The end that every other one must equal."""
    ended = recovered({})
    assert ended.first == "done"
    assert ended.state["left"] == []
    return ended


def test_recover_killed_at_any_call_the_next_ends_the_same(uninterrupted: Ended) -> None:
    """Reads and writes alike, until the last call that it makes."""
    assert 40 < uninterrupted.calls[""] < CALLS
    for call in range(1, uninterrupted.calls[""] + 1):
        ended = recovered({str(call): Trip("kill", "before")})
        assert ended.state == uninterrupted.state, f"killed at call {call}"


@pytest.mark.parametrize("late", [False, True], ids=["in-time", "late"])
@pytest.mark.parametrize("kind", WRITES)
def test_recover_killed_with_a_write_under_way_the_next_ends_the_same(
    uninterrupted: Ended, kind: str, *, late: bool
) -> None:
    """The write is applied all the same, at once or up to 34 s later, before or while the next one works."""
    assert uninterrupted.calls[kind] >= 1
    for number in range(1, uninterrupted.calls[kind] + 1):
        ended = recovered({f"{kind}.{number}": Trip("kill", "sent", late=late)})
        assert ended.state == uninterrupted.state, f"killed with {kind} {number} under way"


@pytest.mark.parametrize("kind", WRITES)
def test_recover_asked_to_stop_at_any_write_the_next_ends_the_same(uninterrupted: Ended, kind: str) -> None:
    """An orderly stop hands the lease back, and nothing is lost by it."""
    for number in range(1, uninterrupted.calls[kind] + 1):
        ended = recovered({f"{kind}.{number}": Trip("stop", "after")})
        assert ended.state == uninterrupted.state, f"stopped after {kind} {number}"


@pytest.mark.parametrize("beside_s", [0.0, 0.3, 5.0, 39.0, 41.0])
def test_two_recovers_at_once_do_no_harm(uninterrupted: Ended, beside_s: float) -> None:
    """One of them releases; the other sees that the lease is written and does nothing, or finds nothing left."""
    assert recovered({}, beside_s=beside_s).state == uninterrupted.state
