"""
What Flux's controller does with a fence: the real kustomize-controller, and the one that the sandbox plays.

Aspects: the drain proof of a suspended object · no reconcile while suspended · resumption.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.contract.answers import ok
from tests.support.clusters import Cluster, Raw, ensure_namespace, make_kustomization, path_of
from tests.support.realcluster import RealCluster

DEADLINE_S = 30.0
REQUESTED = "reconcile.fluxcd.io/requestedAt"


@pytest.fixture(scope="module")
def controller(real_cluster: RealCluster, real_handle: Cluster) -> Iterator[None]:
    """Run kustomize-controller for the tests of this module."""
    ensure_namespace(real_handle, "flux-system")
    program = real_cluster.start_kustomize_controller()
    yield
    real_cluster.stop_program(program)
    real_handle.wipe(everything=True)


@pytest.fixture
def flux(request: pytest.FixtureRequest, cluster: Cluster) -> Cluster:
    """Give a cluster on which Flux is at work."""
    if cluster.name == "real":
        request.getfixturevalue("controller")
    else:
        cluster.sandbox.flux.automatic()
    return cluster


def _until(read: Callable[[], Raw], *, holds: Callable[[Raw], bool]) -> Raw:
    end = time.monotonic() + DEADLINE_S
    while True:
        obj = read()
        if holds(obj):
            return obj
        assert time.monotonic() < end, obj
        time.sleep(0.05)


def _handled(obj: Raw) -> str | None:
    token: str | None = obj["status"].get("lastHandledReconcileAt")
    return token


def _ready(obj: Raw) -> Raw:
    found: list[Raw] = [one for one in obj["status"].get("conditions", []) if one["type"] == "Ready"]
    return found[0] if found else {}


def test_suspended_object_proves_that_it_is_drained(flux: Cluster) -> None:
    """The token comes back although nothing is reconciled; a second token, too."""
    obj = make_kustomization(flux, suspend=True, annotations={REQUESTED: "nonce-1"})
    path = path_of(obj)

    proof = _until(lambda: flux.get(path), holds=lambda one: _handled(one) == "nonce-1")
    assert proof["spec"]["suspend"] is True
    assert _ready(proof) == {}

    ok(flux.merge_patch(path, {"metadata": {"annotations": {REQUESTED: "nonce-2"}}}))
    proof = _until(lambda: flux.get(path), holds=lambda one: _handled(one) == "nonce-2")
    assert _ready(proof) == {}


@pytest.mark.parametrize("value", [None, False], ids=["absent", "false"])
def test_resumed_object_is_reconciled(flux: Cluster, value: bool | None) -> None:
    """Removed or false, it runs again and comes to a result, whatever that is without a source."""
    obj = make_kustomization(flux, suspend=True, annotations={REQUESTED: "nonce-1"})
    path = path_of(obj)
    _until(lambda: flux.get(path), holds=lambda one: _handled(one) == "nonce-1")

    ok(flux.merge_patch(path, {"spec": {"suspend": value}}))

    _until(lambda: flux.get(path), holds=lambda one: _ready(one).get("status") in ("True", "False"))


def test_token_that_is_taken_away_leaves_the_proof(flux: Cluster) -> None:
    """A release that removes `requestedAt` asks for nothing."""
    obj = make_kustomization(flux, suspend=True, annotations={REQUESTED: "nonce-1"})
    path = path_of(obj)
    _until(lambda: flux.get(path), holds=lambda one: _handled(one) == "nonce-1")
    ok(flux.merge_patch(path, {"metadata": {"annotations": {REQUESTED: None}}}))
    ok(flux.merge_patch(path, {"metadata": {"annotations": {REQUESTED: "nonce-2"}}}))
    _until(lambda: flux.get(path), holds=lambda one: _handled(one) == "nonce-2")
