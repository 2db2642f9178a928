"""Fixtures: a GitHub on loopback, over plain HTTP and over TLS, with its clock at NOW."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.github import LoopbackGitHub, server_certificate
from tests.support.objects import NOW


@pytest.fixture
def github() -> Iterator[LoopbackGitHub]:
    """Start a GitHub with nothing on it but its repository."""
    with LoopbackGitHub(date_at=NOW) as running:
        yield running


@pytest.fixture(scope="session")
def github_certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a certificate that only those trust who are told to; its key lies beside it."""
    return server_certificate(tmp_path_factory.mktemp("github"))


@pytest.fixture
def github_tls(github_certificate: Path) -> Iterator[LoopbackGitHub]:
    """Start a GitHub behind TLS; SSL_CERT_FILE in its environment makes it trusted."""
    with LoopbackGitHub(date_at=NOW, certificate=github_certificate) as running:
        yield running
