"""Fixtures for tests of the sandbox itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencectl.sandbox import Sandbox


@pytest.fixture
def quiet() -> Sandbox:
    """Give a sandbox that is not started: no sockets, no threads."""
    return Sandbox(seed=1)


@pytest.fixture
def served() -> Iterator[Sandbox]:
    """Give a sandbox that is served on loopback."""
    with Sandbox(seed=1) as running:
        yield running
