"""Play seeds; the invariants (`invariants.py`) must hold after every write of every one, and at the end of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import pytest

from tests.sim.aim import tell_any
from tests.sim.invariants import Counts

# The line tracer makes these three times as slow, and what they reach is reached, and measured, elsewhere.
pytestmark = pytest.mark.no_cover


def test_seeds_whatever_happens_every_invariant_holds(
    chunk: range, pytestconfig: pytest.Config, record_property: Callable[[str, object], None]
) -> None:
    """Deploys, recoverers, printed commands and foreigners, killed, stopped, cut off and lied to."""
    steps, counts = 0, Counts()
    for seed in chunk:
        told = tell_any(seed)
        steps += told.steps
        counts.add(told.counts)
        if pytestconfig.getoption("--sim-seed", None) is not None:
            print(
                "\n".join(
                    (f"seed {seed}: {told.words}, {told.steps} steps, {told.digest}", *map(str, told.events))
                )
            )
        told.must_hold()
    record_property("simulated", {"seeds": len(chunk), "steps": steps, **asdict(counts)})
