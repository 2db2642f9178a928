"""Exec plugins for tests: a script, the kubeconfig that names it, and what came of it."""

from __future__ import annotations

import json

import pytest

from fencectl.cluster.credentials import CredentialsMissing, TicketSource
from fencectl.core.errors import ExitCode
from tests.kube.support_kube import SECRET, Desk, FakeClock, Raw, config

V1 = "client.authentication.k8s.io/v1"


V1BETA1 = "client.authentication.k8s.io/v1beta1"


def credential(version: str = V1, **status: object) -> str:
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


def source_of(
    desk: Desk, clock: FakeClock, script: str = "", cluster: Raw | None = None, **more: object
) -> TicketSource:
    """Write a plugin and a kubeconfig that names it, and return where its tickets come from."""
    if script:
        desk.program(".kube/login", script)
    entry: Raw = {"apiVersion": V1, "command": "./login", "interactiveMode": "Never", **more}
    desk.write(".kube/config", config(user={"exec": entry}, cluster=cluster))
    return desk.resolve().login.source(clock)


def answering(desk: Desk, text: str) -> str:
    """Return a script that writes this text and counts its runs."""
    answer = desk.write("answer.json", text)
    return f"echo run >>{desk.home}/runs; cat {answer}"


def runs(desk: Desk) -> int:
    path = desk.home / "runs"
    return path.read_text().count("run") if path.exists() else 0


def failing(source: TicketSource, wait_s: float = 20.0) -> CredentialsMissing:
    """Return the failure; no planted secret is in it, and nobody goes on without credentials."""
    with pytest.raises(CredentialsMissing) as caught:
        source.ticket(wait_s=wait_s)
    error = caught.value
    assert error.exit_code is ExitCode.INCOMPLETE
    assert SECRET not in f"{error.sentence} {error.reason} {error.hint} {error.__cause__!r}"
    return error
