"""What a deploy may take over of what was kept, and what refuses it all the same: pure, from a report."""

from __future__ import annotations

from typing import Any

import pytest

from fencectl.core.assemble import assemble, read_runs
from fencectl.core.deploy import Adopted, HeldError, adoptable, only_live, refuse_others, why_not
from fencectl.core.errors import ExitCode
from fencectl.core.facts import HolderEvidence, JobFact, State
from fencectl.core.journal import Phase
from fencectl.core.observation import Observation
from fencectl.core.profiles import FENCECTL
from fencectl.core.refs import Seen
from fencectl.core.report import FenceReport
from tests.support.objects import (
    HOLDER,
    NOW,
    OTHER,
    journal,
    lease,
    marked_kustomization,
    marked_node,
    observation,
)


def job(state: State) -> JobFact:
    return JobFact(state, "has the job ended?", state.value, journal().at, recorded=True, hosted=True)


def look(*seen: Seen, job_is: State = State.ENDED) -> tuple[FenceReport, Observation]:
    observed = observation(*seen)
    evidence = {holder: HolderEvidence(job=job(job_is)) for holder in (HOLDER, OTHER)}
    return assemble(read_runs(observed, FENCECTL), evidence=evidence), observed


def kept(name: str = "apps", **more: Any) -> Seen:
    return marked_kustomization(name, phase=Phase.KEPT, reason="rolled back: it must not come back", **more)


def code(*seen: Seen, adopt: bool, job_is: State = State.ENDED) -> ExitCode | None:
    found, observed = look(*seen, job_is=job_is)
    return why_not(found, observed, FENCECTL, adopted=adoptable(found) if adopt else ())


def test_kept_fence_alone_refuses_a_deploy_unless_it_is_adopted() -> None:
    """19; with `--adopt-kept` it is what the deploy takes over, with its holder and its reason."""
    assert code(kept(), adopt=False) is ExitCode.HELD_PERSON_NEEDED
    assert code(kept(), adopt=True) is None
    found, _ = look(kept())
    seen = kept()
    assert adoptable(found) == (Adopted(seen.ref, HOLDER, "rolled back: it must not come back"),)


def test_kept_fence_of_a_living_run_is_not_adopted_and_waiting_does_not_help() -> None:
    """Its job goes on: 19 and not 12, since what is kept stays when that job ends."""
    assert code(kept(), adopt=False, job_is=State.ALIVE) is ExitCode.HELD_PERSON_NEEDED
    assert code(kept(), adopt=True, job_is=State.ALIVE) is ExitCode.HELD_PERSON_NEEDED
    found, _ = look(kept(), job_is=State.ALIVE)
    assert adoptable(found) == ()
    assert not only_live(found)


@pytest.mark.parametrize("beside", [lease(), marked_node(), marked_kustomization("infrastructure")])
def test_nothing_is_adopted_of_a_holder_who_holds_anything_else(beside: Seen) -> None:
    """It died before it came to an end: `recover` has to release the rest first."""
    found, _ = look(kept(), beside)
    assert adoptable(found) == ()
    assert code(kept(), beside, adopt=True) is not None


def test_what_was_kept_since_the_first_look_refuses_it_under_the_lease() -> None:
    """Only what was seen, judged and planned is taken over, and from that holder."""
    first, _ = look(kept())
    own = lease(holder=OTHER, renewed_at=NOW)
    for late in (kept("late"), kept(holder="9be1c04477aa02d1-gh1.1-j1-20d7bb3f")):
        found, observed = look(own, kept() if late.ref.name == "late" else late, late)
        with pytest.raises(HeldError) as raised:
            refuse_others(found, observed, FENCECTL, own=OTHER, adopted=adoptable(first))
        assert raised.value.exit_code is ExitCode.HELD_PERSON_NEEDED
    found, observed = look(own, kept())
    refuse_others(found, observed, FENCECTL, own=OTHER, adopted=adoptable(first))
