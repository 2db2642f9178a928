"""The one module that writes: what goes over the wire, and what each answer becomes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencectl.cluster.kubeconfig import resolve
from fencectl.cluster.transport import Transport
from fencectl.cluster.write import create, send
from fencectl.core.answers import Applied, Refused, Unknown, Why
from fencectl.core.patches import guard, put, seal
from fencectl.core.refs import ObjectRef
from fencectl.sandbox import Sandbox

KINDS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("v1", "Node", "nodes", {}),
    ("coordination.k8s.io/v1", "Lease", "leases", {}),
    (
        "kustomize.toolkit.fluxcd.io/v1",
        "Kustomization",
        "kustomizations",
        {"interval": "10m", "prune": True, "sourceRef": {"kind": "GitRepository", "name": "x"}},
    ),
    (
        "helm.toolkit.fluxcd.io/v2",
        "HelmRelease",
        "helmreleases",
        {"interval": "10m", "chartRef": {"kind": "HelmChart", "name": "x"}},
    ),
    ("v1", "ConfigMap", "configmaps", {}),
]


@pytest.fixture
def transport(sandbox: Sandbox, tmp_path: Path) -> Iterator[Transport]:
    (tmp_path / "kubeconfig").write_text(sandbox.kubeconfig(context="prod"))
    opened = resolve(str(tmp_path / "kubeconfig"), None, {}, tmp_path).open()
    yield opened
    opened.close()


def made(sandbox: Sandbox, api_version: str, kind: str, plural: str, spec: dict[str, Any]) -> ObjectRef:
    namespace = None if kind == "Node" else "flux-system"
    metadata = {"name": "x"} | ({"namespace": namespace} if namespace else {})
    body: dict[str, Any] = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    raw = sandbox.store.create(body | ({"spec": spec} if kind != "ConfigMap" else {}))
    return ObjectRef(api_version, kind, plural, namespace, "x", raw["metadata"]["uid"])


@pytest.mark.parametrize(
    ("api_version", "kind", "plural", "spec"), KINDS, ids=lambda part: part if isinstance(part, str) else ""
)
def test_case_68_every_kind_is_patched_as_json_patch_with_the_very_bytes(
    sandbox: Sandbox, transport: Transport, api_version: str, kind: str, plural: str, spec: dict[str, Any]
) -> None:
    """Neither merge nor strategic merge, whatever the kind; our own field manager; the body as it is printed."""
    ref = made(sandbox, api_version, kind, plural, spec)
    patch = seal(
        ref, [guard("/metadata/annotations", None), put("/metadata/annotations", {"a": "é & <b>"}, present=False)]
    )
    answer = send(transport, patch)
    assert isinstance(answer, Applied)
    assert answer.raw["metadata"]["annotations"] == {"a": "é & <b>"}
    (asked,) = [request for request in sandbox.requests if request.method == "PATCH"]
    assert asked.headers["content-type"] == "application/json-patch+json"
    assert asked.body == patch.body.encode()
    assert asked.query["fieldManager"] == "fencectl"
    assert "\\u0026 \\u003cb\\u003e" in patch.body


def test_dry_run_tests_the_guards_and_stores_nothing(sandbox: Sandbox, transport: Transport) -> None:
    """Rights and guards are known before the first write."""
    ref = made(sandbox, "v1", "Node", "nodes", {})
    fine = seal(ref, [put("/spec/unschedulable", True, present=False)])
    assert isinstance(send(transport, fine, dry_run=True), Applied)
    stale = seal(ref, [guard("/spec/unschedulable", True)])
    answer = send(transport, stale, dry_run=True)
    assert isinstance(answer, Refused)
    assert answer.why is Why.GUARD
    assert "unschedulable" not in sandbox.store.get("nodes", "x")["spec"]


@pytest.mark.parametrize(("fault", "sent"), [("drop_before", True), ("drop_after", True)])
def test_answer_that_never_comes_is_unknown_and_sent_once(
    sandbox: Sandbox, transport: Transport, fault: str, sent: bool
) -> None:
    """Nobody may take it for a refusal, and nothing is repeated here."""
    ref = made(sandbox, "v1", "Node", "nodes", {})
    getattr(sandbox.faults, fault)(verb="patch")
    answer = send(transport, seal(ref, [put("/spec/unschedulable", True, present=False)]))
    assert isinstance(answer, Unknown) is sent
    assert len([request for request in sandbox.requests if request.method == "PATCH"]) == 1


def test_server_that_is_not_there_got_nothing(sandbox: Sandbox, transport: Transport) -> None:
    """A refused connection is certainly no write."""
    ref = made(sandbox, "v1", "Node", "nodes", {})
    sandbox.stop()
    answer = send(transport, seal(ref, [put("/spec/unschedulable", True, present=False)]))
    assert isinstance(answer, Refused)
    assert answer.why is Why.BUSY
    assert answer.detail.startswith("it was not sent")


def test_object_that_is_there_already_is_not_created_again(sandbox: Sandbox, transport: Transport) -> None:
    """Creation is its own guard."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "flux-system"}}
    path = "/api/v1/namespaces/flux-system/configmaps"
    assert isinstance(create(transport, path, body), Applied)
    answer = create(transport, path, body)
    assert isinstance(answer, Refused)
    assert answer.status == 409
