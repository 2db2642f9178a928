"""
Options of the simulation: how many seeds, or one seed with its whole story.

`pytest tests/sim --sim-seeds 100000 -n 2` (or SIM_SEEDS=100000) plays more of them; `--sim-from` begins elsewhere;
`--sim-seed 4711 -s` prints one.
"""

from __future__ import annotations

import os

import pytest

SEEDS = 2000
CHUNK = 25


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("simulation")
    group.addoption("--sim-seeds", type=int, default=None, help=f"how many seeds to play (default {SEEDS})")
    group.addoption("--sim-from", type=int, default=0, help="the first seed")
    group.addoption("--sim-seed", type=int, default=None, help="play this one seed and print its story")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    config = metafunc.config
    one = config.getoption("--sim-seed", None)
    if "chunk" in metafunc.fixturenames:
        count = config.getoption("--sim-seeds", None) or int(os.environ.get("SIM_SEEDS", SEEDS))
        first = config.getoption("--sim-from", 0)
        chunks = [range(at, min(at + CHUNK, first + count)) for at in range(first, first + count, CHUNK)]
        if one is not None:
            chunks = [range(one, one + 1)]
        metafunc.parametrize("chunk", chunks, ids=[f"{chunk[0]}-{chunk[-1]}" for chunk in chunks])
