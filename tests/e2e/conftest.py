"""Fixtures of the end-to-end tests: the program, bound to the cluster under test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters import Cluster
from tests.support.program import Ran, run_program

Fencectl = Callable[..., Ran]


@pytest.fixture
def fencectl(clean_cluster: Cluster, tmp_path: Path) -> Fencectl:
    """Run the program against the clean cluster of this test, as its administrator or as `user`."""

    def run(*arguments: str, user: str = "admin", **more: Any) -> Ran:
        kubeconfig = clean_cluster.kubeconfig_file(user, context="prod")
        return run_program(*arguments, kubeconfig=kubeconfig, cwd=tmp_path, **more)

    return run
