"""Play seeds; the invariants (`invariants.py`) must hold after every write of every one, and at the end of each."""

from __future__ import annotations

import pytest

from tests.sim.aim import tell_any

# The line tracer makes these three times as slow, and what they reach is reached, and measured, elsewhere.
pytestmark = pytest.mark.no_cover


def test_seeds_whatever_happens_every_invariant_holds(chunk: range, pytestconfig: pytest.Config) -> None:
    """Deploys, recoverers, printed commands and foreigners, killed, stopped, cut off and lied to."""
    for seed in chunk:
        told = tell_any(seed)
        if pytestconfig.getoption("--sim-seed", None) is not None:
            print(
                "\n".join(
                    (f"seed {seed}: {told.words}, {told.steps} steps, {told.digest}", *map(str, told.events))
                )
            )
        told.must_hold()
