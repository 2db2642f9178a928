"""
Releases of the other tool's fences on both clusters: built from what the server shows, accepted by it in order.

Aspects: the whole chain leaves nothing held · each guard is the server's to refuse · hostile text is compared byte by
byte · unrelated writes do not matter.
"""

from __future__ import annotations

from typing import Any

import pytest

from fencectl.core.assemble import assemble, read_runs
from fencectl.core.bridge import read_bridge
from fencectl.core.found import Found
from fencectl.core.patches import GuardedPatch
from fencectl.core.profiles import GHCR_BRIDGE
from fencectl.core.refs import Seen
from tests.core.test_bridge_states import (
    BATCH,
    CHILD_OWNER,
    LONG_AGO,
    NODE_JOURNAL,
    NODE_OWNER,
    NODE_PHASE,
    NODE_RUN,
    PARENT_OWNER,
    RECONCILE,
    RUN,
    journal_text,
    observe,
    seen_as,
)
from tests.support.clusters import Cluster, make_kustomization, make_lease, make_node

Raw = dict[str, Any]
TAINT = {"key": "example.com/zone", "effect": "NoSchedule", "value": "a"}
CHILD_PATH = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/infrastructure"
PARENT_PATH = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/flux-system"
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/flux-system/leases/ghcr-auth-refresh"


def place_chain(cluster: Cluster, holder: str = RUN, node_holder: str = NODE_RUN) -> None:
    """Put on the cluster what one killed run leaves: both suspensions, three nodes and the Lease."""
    make_kustomization(
        cluster, "infrastructure", suspend=True, annotations={CHILD_OWNER: holder, RECONCILE: "disabled"}
    )
    make_kustomization(cluster, "flux-system", suspend=True, annotations={PARENT_OWNER: holder})
    make_node(cluster, "claimed", unschedulable=True, annotations={NODE_OWNER: node_holder, NODE_PHASE: "claimed"})
    for name, was_cordoned in (("was-free", 0), ("was-cordoned", 1)):
        uid = make_node(cluster, name, unschedulable=True, taints=[TAINT])["metadata"]["uid"]
        text = journal_text(owner=BATCH, juid=uid, wasCordoned=was_cordoned, initialTaints=[TAINT])
        marks = {NODE_OWNER: BATCH, NODE_PHASE: "mutating", NODE_JOURNAL: text}
        cluster.merge_patch(f"/api/v1/nodes/{name}", {"metadata": {"annotations": marks}}, manager="bridge")
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 120, "acquireTime": LONG_AGO, "renewTime": LONG_AGO}
    make_lease(cluster, "ghcr-auth-refresh", namespace="flux-system", spec=spec)


def look(cluster: Cluster) -> list[Seen]:
    """Everything that the profile looks at, as the server shows it now."""
    seen = []
    for path, api_version, kind in (
        ("/api/v1/nodes", "v1", "Node"),
        ("/apis/kustomize.toolkit.fluxcd.io/v1/kustomizations", "kustomize.toolkit.fluxcd.io/v1", "Kustomization"),
        ("/apis/coordination.k8s.io/v1/leases", "coordination.k8s.io/v1", "Lease"),
    ):
        items: list[Raw] = cluster.get(path)["items"]
        seen += [seen_as(item, api_version, kind, path.rpartition("/")[2]) for item in items]
    return seen


def found_by_name(cluster: Cluster) -> dict[str, Found]:
    return {found.ref.name: found for found in read_bridge(observe(*look(cluster))).found}


def patch_of(found: Found) -> GuardedPatch:
    assert found.release is not None
    return found.release.patch


def send(cluster: Cluster, patch: GuardedPatch) -> int:
    return cluster.json_patch(patch.target.path, patch.body).status


@pytest.mark.parametrize("holder", [RUN, "o'brien & <sons> \u00e9\u2028"])
def test_whole_chain_is_released_in_the_order_of_the_report(clean_cluster: Cluster, holder: str) -> None:
    """Six patches, sent as they are printed; afterwards no fence is held, and prior states are back."""
    place_chain(clean_cluster, holder, holder if holder != RUN else NODE_RUN)
    report = assemble(read_runs(observe(*look(clean_cluster)), GHCR_BRIDGE))
    assert len(report.held) == 6
    for entry in report.held:
        assert entry.release is not None
        assert send(clean_cluster, entry.release.patch) == 200
    assert read_bridge(observe(*look(clean_cluster))).found == ()
    cordoned = {
        name: clean_cluster.get(f"/api/v1/nodes/{name}")["spec"].get("unschedulable")
        for name in ("claimed", "was-free", "was-cordoned")
    }
    assert cordoned == {"claimed": True, "was-free": None, "was-cordoned": True}
    child = clean_cluster.get(CHILD_PATH)
    assert child["spec"]["suspend"] is False
    assert child["metadata"].get("annotations", {}) == {}
    assert clean_cluster.get(PARENT_PATH)["spec"]["suspend"] is False
    lease = clean_cluster.get(LEASE_PATH)["spec"]
    assert (lease["holderIdentity"], lease["leaseDurationSeconds"]) == ("", 1)


@pytest.mark.parametrize(
    ("name", "path", "change"),
    [
        ("infrastructure", CHILD_PATH, {"spec": {"suspend": False}}),
        ("infrastructure", CHILD_PATH, {"metadata": {"annotations": {RECONCILE: "enabled"}}}),
        ("infrastructure", CHILD_PATH, {"metadata": {"annotations": {CHILD_OWNER: "another"}}}),
        ("flux-system", PARENT_PATH, {"spec": {"suspend": None}}),
        ("flux-system", PARENT_PATH, {"metadata": {"annotations": {PARENT_OWNER: None}}}),
        ("claimed", "/api/v1/nodes/claimed", {"metadata": {"annotations": {NODE_PHASE: "mutating"}}}),
        ("claimed", "/api/v1/nodes/claimed", {"metadata": {"annotations": {NODE_JOURNAL: "{}"}}}),
        ("claimed", "/api/v1/nodes/claimed", {"spec": {"unschedulable": None}}),
        ("was-free", "/api/v1/nodes/was-free", {"spec": {"taints": [TAINT, {**TAINT, "effect": "NoExecute"}]}}),
        ("was-free", "/api/v1/nodes/was-free", {"metadata": {"annotations": {NODE_JOURNAL: "{}"}}}),
        ("ghcr-auth-refresh", LEASE_PATH, {"spec": {"renewTime": "2026-11-30T02:47:30.000000Z"}}),
        ("ghcr-auth-refresh", LEASE_PATH, {"spec": {"holderIdentity": "another"}}),
    ],
)
def test_release_is_refused_by_the_server_after_a_guarded_write(
    clean_cluster: Cluster, name: str, path: str, change: Raw
) -> None:
    """422, and nothing is changed."""
    place_chain(clean_cluster)
    patch = patch_of(found_by_name(clean_cluster)[name])
    assert clean_cluster.merge_patch(path, change, manager="somebody").status == 200
    before = clean_cluster.get(path)
    assert send(clean_cluster, patch) == 422
    assert clean_cluster.get(path) == before


def test_case_20_release_is_accepted_after_unrelated_writes(clean_cluster: Cluster) -> None:
    """A label and a node's status move the resourceVersion of every object, and no release minds."""
    place_chain(clean_cluster)
    found = found_by_name(clean_cluster)
    for name, path in (
        ("infrastructure", CHILD_PATH),
        ("claimed", "/api/v1/nodes/claimed"),
        ("ghcr-auth-refresh", LEASE_PATH),
    ):
        clean_cluster.merge_patch(path, {"metadata": {"labels": {"a": "b"}}}, manager="somebody")
        assert send(clean_cluster, patch_of(found[name])) == 200
    status = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    assert clean_cluster.merge_patch("/api/v1/nodes/was-free/status", status, manager="kubelet").status == 200
    assert send(clean_cluster, patch_of(found["was-free"])) == 200


def test_case_22_child_resumed_by_hand_is_released_by_its_live_values(clean_cluster: Cluster) -> None:
    """A new report after a manual resume: the exclusion and the mark go, the resume stays."""
    place_chain(clean_cluster)
    stale = patch_of(found_by_name(clean_cluster)["infrastructure"])
    clean_cluster.merge_patch(CHILD_PATH, {"spec": {"suspend": None}}, manager="flux")
    assert send(clean_cluster, stale) == 422
    assert send(clean_cluster, patch_of(found_by_name(clean_cluster)["infrastructure"])) == 200
    child = clean_cluster.get(CHILD_PATH)
    assert "suspend" not in child["spec"]
    assert child["metadata"].get("annotations", {}) == {}
