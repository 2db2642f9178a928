"""Objects as the API server shows them, for tests of the pure rules: whole, with uid, version and managers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from fencectl.core.journal import Journal, LeaseRef, Phase
from fencectl.core.observation import Observation, ReadCounts, Unreadable
from fencectl.core.refs import ObjectRef, Seen
from fencectl.core.times import micro_time, second_time

Raw = dict[str, Any]

NOW = datetime(2026, 11, 30, 2, 47, 31, tzinfo=UTC)
HOLDER = "4f2a91c07be3d855-gh18093344127.2-j51234567890-9c41e07a"
OTHER = "9be1c04477aa02d1-gh18093399201.1-j51234890117-20d7bb3f"


def before(seconds: float) -> datetime:
    """Give the time so many seconds before NOW."""
    return NOW - timedelta(seconds=seconds)


def metadata(
    name: str,
    *,
    namespace: str | None = None,
    uid: str | None = None,
    annotations: dict[str, Any] | None = None,
    labels: dict[str, str] | None = None,
    generation: int | None = None,
    deleting: bool = False,
    managed: list[Raw] | None = None,
) -> Raw:
    made: Raw = {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": "7"}
    optional = {
        "namespace": namespace,
        "annotations": annotations,
        "labels": labels,
        "generation": generation,
        "deletionTimestamp": second_time(NOW) if deleting else None,
        "managedFields": managed,
    }
    return made | {key: value for key, value in optional.items() if value is not None}


def node(
    name: str = "worker-2",
    *,
    unschedulable: bool | None = None,
    taints: list[Raw] | None = None,
    **meta: Any,
) -> Seen:
    spec: Raw = {} if unschedulable is None else {"unschedulable": unschedulable}
    if taints is not None:
        spec["taints"] = taints
    raw: Raw = {"apiVersion": "v1", "kind": "Node", "metadata": metadata(name, **meta), "spec": spec}
    return Seen(ObjectRef("v1", "Node", "nodes", None, name, raw["metadata"]["uid"]), raw)


def kustomization(
    name: str = "infrastructure",
    *,
    suspend: bool | None = None,
    applied_by: str | None = None,
    status: Raw | None = None,
    **meta: Any,
) -> Seen:
    if applied_by is not None:
        meta["labels"] = {
            "kustomize.toolkit.fluxcd.io/name": applied_by,
            "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
        } | (meta.get("labels") or {})
    spec: Raw = {"interval": "10m", "prune": True}
    if suspend is not None:
        spec["suspend"] = suspend
    raw: Raw = {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": metadata(name, namespace="flux-system", **({"generation": 3} | meta)),
        "spec": spec,
    }
    if status is not None:
        raw["status"] = status
    ref = ObjectRef(
        raw["apiVersion"], "Kustomization", "kustomizations", "flux-system", name, raw["metadata"]["uid"]
    )
    return Seen(ref, raw)


def lease(
    name: str = "fencectl-deploy",
    *,
    holder: Any = HOLDER,
    renewed_at: datetime | None = None,
    spec: Raw | None = None,
    **meta: Any,
) -> Seen:
    if spec is None:
        spec = {
            "holderIdentity": holder,
            "leaseDurationSeconds": 30,
            "acquireTime": micro_time(before(4500)),
            "renewTime": micro_time(renewed_at or before(3629)),
            "leaseTransitions": 119,
        }
        if holder is None:
            del spec["holderIdentity"]
    raw: Raw = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata(name, **({"namespace": "flux-system"} | meta)),
        "spec": spec,
    }
    ref = ObjectRef(
        raw["apiVersion"], "Lease", "leases", raw["metadata"]["namespace"], name, raw["metadata"]["uid"]
    )
    return Seen(ref, raw)


def journal(
    *,
    holder: str = HOLDER,
    uid: str = "",
    seq: int = 1,
    rank: int = 0,
    phase: Phase = Phase.SUSPENDED,
    prior: Raw | None = None,
    **more: Any,
) -> Journal:
    more.setdefault("reason", "deploy 42")
    more.setdefault("repository", "acme/platform")
    more.setdefault("lease", LeaseRef("flux-system", "fencectl-deploy", "uid-fencectl-deploy", 30, 119))
    at = more.pop("at", before(4500))
    return Journal(holder=holder, uid=uid, seq=seq, rank=rank, at=at, phase=phase, prior=prior or {}, **more)


def mark(story: Journal) -> dict[str, str]:
    """Give the annotations of a mark with this journal."""
    return {"fencectl.dev/holder": story.holder, "fencectl.dev/journal": story.text}


def marked_node(
    name: str = "worker-2",
    *,
    was: bool = False,
    live: bool | None = True,
    phase: Phase = Phase.CLAIMED,
    holder: str = HOLDER,
    seq: int = 4,
    prior: Raw | None = None,
    **meta: Any,
) -> Seen:
    story = journal(
        holder=holder,
        uid=meta.get("uid") or f"uid-{name}",
        seq=seq,
        rank=1000,
        phase=phase,
        prior={"unschedulable": was, "taints": []} if prior is None else prior,
        at=before(3660),
    )
    return node(name, unschedulable=live, annotations=mark(story) | (meta.pop("annotations", None) or {}), **meta)


def marked_kustomization(
    name: str = "infrastructure",
    *,
    was: bool | None = None,
    live: bool | None = True,
    phase: Phase = Phase.SUSPENDED,
    holder: str = HOLDER,
    seq: int = 3,
    rank: int = 2,
    applied_by: str | None = None,
    reconcile: str | None = "disabled",
    annotations: dict[str, str] | None = None,
    within: str | None = None,
    reason: str = "deploy 42",
    **meta: Any,
) -> Seen:
    prior: Raw = {"suspend": was, "requestedAt": None, "suspendedBy": None}
    found = dict(annotations or {})
    if applied_by is not None:
        prior["reconcile"] = None
        if reconcile is not None:
            found["kustomize.toolkit.fluxcd.io/reconcile"] = reconcile
    story = journal(
        holder=holder,
        uid=meta.get("uid") or f"uid-{name}",
        seq=seq,
        rank=rank,
        phase=phase,
        prior=prior,
        within=within,
        reason=reason,
    )
    return kustomization(name, suspend=live, applied_by=applied_by, annotations=mark(story) | found, **meta)


def observation(
    *seen: Seen,
    records: tuple[Seen, ...] = (),
    unreadable: tuple[Unreadable, ...] = (),
    skew_s: float | None = 0.4,
    **more: Any,
) -> Observation:
    """Give an observation of these objects, sorted in by their kinds."""
    by_kind: dict[str, list[Seen]] = {"Node": [], "Lease": [], "flux": []}
    for item in seen:
        by_kind.get(item.ref.kind, by_kind["flux"]).append(item)
    given: dict[str, Any] = {
        "context": "prod",
        "print_context": "prod",
        "kubeconfig": None,
        "server": "https://api.prod.example.com:6443",
        "cluster_uid": "5d8e0a71-4c2b-4e96-9f10-c7b3a6d2e845",
        "observed_at": NOW,
        "counts": ReadCounts(leases=1, nodes=12, flux_objects=48, flux_kinds=13),
    }
    return Observation(
        **(given | more),
        skew_s=skew_s,
        leases=tuple(by_kind["Lease"]),
        nodes=tuple(by_kind["Node"]),
        flux=tuple(by_kind["flux"]),
        records=records,
        unreadable=unreadable,
    )


def record_map(lease_name: str = "fencectl-deploy", **data: str) -> Seen:
    """Give a record ConfigMap; underscores in keys stand for dashes."""
    raw: Raw = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(f"{lease_name}-record", namespace="flux-system"),
        "data": {key.replace("_", "-"): value for key, value in data.items()},
    }
    ref = ObjectRef("v1", "ConfigMap", "configmaps", "flux-system", f"{lease_name}-record", "uid-record")
    return Seen(ref, raw)
