"""
The crash matrix: every write of a deploy, struck in every way.

The writes are those that an undisturbed deploy makes, so a step that is added to the transaction joins by itself.
After each cell the state is that before the deploy, or every leftover is listed with a command that works, and running
those commands in order gives the state before.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fencectl.cluster.observe import observe
from fencectl.cluster.write import send
from fencectl.core.answers import Applied
from fencectl.core.assemble import assemble, read_runs
from fencectl.core.errors import ExitCode, FencectlError
from fencectl.core.facts import HolderEvidence, JobFact, State
from fencectl.core.lease import LeaseTerms, free_own_lease, take_over_lease
from fencectl.core.marks_reader import NOTHING_VOUCHED, Vouched
from fencectl.core.patches import GuardedPatch
from fencectl.core.profiles import FENCECTL
from fencectl.core.refs import ObjectRef, Seen, dig
from fencectl.core.report import FenceEntry, FenceReport
from fencectl.run.left import patches_left
from tests.support.deploying import LEASE, LEASE_PATH, Scene, undisturbed_writes
from tests.support.inprocess import SandboxDoor
from tests.support.objects import OTHER, journal

ENDED = JobFact(State.ENDED, "has the job ended?", "completed", journal().at, recorded=True, hosted=True)
STRIKES = (
    "refused",
    "forbidden",
    "error",
    "dropped before",
    "answer lost",
    "killed before",
    "killed after",
    "interrupted",
    "stolen",
    "away",
)


def strike(scene: Scene, how: str, number: int) -> None:
    """Let it come over the write with this number."""

    def at(wanted: int) -> bool:
        return wanted == number

    def once(status: int) -> None:
        scene.sandbox.faults.refuse(status=status, verb=None, times=1)

    def before(now: int) -> None:
        if not at(now):
            return
        match how:
            case "refused":
                once(503)
            case "forbidden":
                once(403)
            case "error":
                once(500)
            case "dropped before":
                scene.sandbox.faults.drop_before(times=1)
            case "answer lost":
                scene.sandbox.faults.drop_after(times=1)
            case "killed before":
                scene.door.killed = True
            case "stolen":
                steal(scene)
                scene.clock.advance(11)
                scene.renew()
            case "away":
                scene.door.away = True

    def after(now: int) -> None:
        if not at(now):
            return
        if how == "killed after":
            scene.door.killed = True
        if how == "interrupted":
            scene.interrupt_code = ExitCode.TERMINATED
            scene.interrupted.set()

    scene.door.before, scene.door.after = before, after


def steal(scene: Scene) -> None:
    """Let somebody take the lease over, if it is held."""
    raw = scene.raw(LEASE_PATH)
    if not dig(raw, "spec", "holderIdentity"):
        return
    ref = ObjectRef("coordination.k8s.io/v1", "Lease", "leases", *LEASE, raw["metadata"]["uid"])
    terms = LeaseTerms(OTHER, 30, scene.clock.wall(), journal(holder=OTHER))
    send(SandboxDoor(scene.sandbox, scene.clock), take_over_lease(Seen(ref, raw), terms).patch)


def report(scene: Scene, *, vouched: Vouched = NOTHING_VOUCHED) -> FenceReport:
    """What `fences` says, once the holder is proven dead and its lease was watched; of vouched nodes `recover`."""
    door = SandboxDoor(scene.sandbox, scene.clock)
    found = observe(
        door, profile=FENCECTL, clock=scene.clock, deadline_s=60, server="http://sandbox", context="prod"
    )
    evidence = {scene.holder: HolderEvidence(job=ENDED)}
    return assemble(read_runs(found, FENCECTL, vouched=vouched), evidence=evidence, unchanged_for_s={LEASE: 40.0})


def give_back(scene: Scene) -> None:
    """Whoever stole the lease ends, and frees it."""
    raw = scene.raw(LEASE_PATH)
    if dig(raw, "spec", "holderIdentity") == OTHER:
        ref = ObjectRef("coordination.k8s.io/v1", "Lease", "leases", *LEASE, raw["metadata"]["uid"])
        patch = free_own_lease(Seen(ref, raw), holder=OTHER, transitions=raw["spec"]["leaseTransitions"])
        assert isinstance(send(SandboxDoor(scene.sandbox, scene.clock), patch), Applied)


def cells() -> list[tuple[str, bool, int]]:
    """Every write of a deploy that claims its nodes; of one that rolls them, those on nodes and pods."""
    claims = [(False, number) for number in range(1, len(undisturbed_writes()) + 1)]
    rolls = [
        (True, number)
        for number, path in enumerate(undisturbed_writes(rolled=True), 1)
        if "/nodes/" in path or "/pods/" in path
    ]
    return [(how, rolled, number) for how in STRIKES for rolled, number in claims + rolls]


def is_half_done(entry: FenceEntry) -> bool:
    """Whether a fence is refused because its node may be half changed: a person has to look first."""
    return entry.refusal is not None and "phase `mutating`" in entry.refusal.why


def release_as_printed(scene: Scene, patches: Sequence[GuardedPatch], left: FenceReport) -> None:
    """What a deploy itself says about what it leaves: those fences, in that order, and it works."""
    said = [entry.object.display for entry in left.held]
    assert [patch.target.display for patch in patches] == said[: len(patches)]
    assert len(patches) == len(said) or any(is_half_done(entry) for entry in left.held)
    for patch in patches:
        assert isinstance(send(SandboxDoor(scene.sandbox, scene.clock), patch), Applied), patch
    if len(patches) == len(said):
        assert scene.state() == scene.before
        assert not report(scene).held


CELLS = cells()


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("how", "rolled", "number"),
    CELLS,
    ids=[f"{how.replace(' ', '-')}-{'rolled-' * rolled}{number}" for how, rolled, number in CELLS],
)
def test_struck_deploy_gives_everything_back_or_names_it_with_a_command_that_works(
    how: str, rolled: bool, number: int
) -> None:
    """One cell: this write, struck in this way."""
    scene = Scene(rolled=rolled)
    strike(scene, how, number)
    code, result = None, None
    try:
        result = scene.deploy()
        code = result.code if result is not None else None
    except FencectlError as refused:
        code = refused.exit_code
    scene.sandbox.faults.clear()
    scene.door.away = False
    give_back(scene)
    left = report(scene)
    assert left.complete
    if code is ExitCode.OK:
        assert scene.state() == scene.before
        assert not left.held
    held = left.held
    if result is not None and (patches := patches_left(result, now=scene.clock.wall())) and how != "stolen":
        assert code is ExitCode.STILL_FENCED
        release_as_printed(scene, patches, left)
        return
    if held and code is not None and code is not ExitCode.STILL_FENCED:
        raise AssertionError(f"exit {code} although fences are held: {[e.object.display for e in held]}")
    half_done = frozenset(entry.object.display for entry in held if is_half_done(entry))
    assert rolled or not half_done
    if half_done:
        # What comes after such a node waits for it; all of it has a command once somebody vouches for the node.
        assert not any(entry.release for entry in held if entry.object.display in half_done)
        held = report(scene, vouched=Vouched(nodes=half_done)).held
    for entry in held:
        assert entry.release is not None, (entry.object.display, entry.refusal)
        answer = send(SandboxDoor(scene.sandbox, scene.clock), entry.release.patch)
        assert isinstance(answer, Applied), (entry.object.display, answer)
    assert scene.state() == scene.before
    assert not report(scene).held


def test_matrix_covers_every_write_of_a_deploy() -> None:
    """
    Lease, record, two suspensions, recovery point, record, two nodes, record, four releases, record, lease; rolled:
    each phase as well.
    """
    claims, rolls = undisturbed_writes(), undisturbed_writes(rolled=True)
    assert (len(claims), len(rolls)) == (15, 20)
    assert sum("/secrets" in path for path in claims) == 1
    assert sum("/eviction" in path for path in rolls) == 1
    assert len(CELLS) == len(STRIKES) * (15 + 9)
