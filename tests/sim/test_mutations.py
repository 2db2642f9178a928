"""Each sentence that the protocol stands on is taken out once, and some seed must tell."""

from __future__ import annotations

import pytest

from tests.sim.aim import tell_edge
from tests.sim.mutations import MUTATIONS, Mutation
from tests.sim.story import Told

# The line tracer makes these three times as slow, and what they reach is reached, and measured, elsewhere.
pytestmark = pytest.mark.no_cover

# How many seeds may be played before a mutation counts as not found.
SEEDS = 400


def first_broken(mutation: Mutation, seeds: int = SEEDS) -> Told | None:
    """The first seed that tells, the known one before all others."""
    for seed in (mutation.seed, *range(seeds)):
        with mutation.patch():
            told = tell_edge(mutation.edge, seed)
        if any(failure.startswith(f"{number}:") for failure in told.failures for number in mutation.broken):
            return told
    return None


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[f"{one.name}-seed-{one.seed}" for one in MUTATIONS])
def test_sentence_taken_out_a_seed_tells(mutation: Mutation) -> None:
    """The sentence is needed, and the invariants see it."""
    told = first_broken(mutation)
    assert told is not None, f"no seed of `{mutation.edge}` tells that it is gone: {mutation.sentence}"
    if told.seed != mutation.seed:
        print(f"{mutation.name}: seed {told.seed}, {told.failures[0]}")


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[one.name for one in MUTATIONS])
def test_sentence_left_in_the_same_seed_holds(mutation: Mutation) -> None:
    """It is the mutation that the seed tells of, and nothing else."""
    tell_edge(mutation.edge, mutation.seed).must_hold()
