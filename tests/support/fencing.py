"""What runs leave on a cluster: the chain of a killed deploy, and that of the other tool."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fencectl.cluster.kubeconfig import resolve
from tests.support.clusters import Cluster, ensure_namespace, make_kustomization, make_lease, make_node, path_of
from tests.support.objects import HOLDER
from tests.support.played_deploy import PlayedDeploy

Raw = dict[str, Any]
LEASE = ("flux-system", "fencectl-deploy")
BRIDGE = "platform.devantler.tech/"
BRIDGE_HOLDER = "deadbeefdeadbeef-gh18093344127.2-3904-20451"


@contextmanager
def playing(cluster: Cluster, *, holder: str = HOLDER, age_s: float = 3600, **more: Any) -> Iterator[PlayedDeploy]:
    """Give a run that fences the cluster through the real patches, as of `age_s` ago, and then stops."""
    ensure_namespace(cluster, LEASE[0])
    connection = resolve(str(cluster.kubeconfig_file()), None, {}, Path.home())
    transport = connection.open()
    story = {"repository": "acme/platform", "reason": "deploy 42", "details": {"workflow": "deploy-prod.yaml"}}
    at = datetime.now(UTC) - timedelta(seconds=age_s)
    try:
        yield PlayedDeploy(transport, holder, LEASE, at, story=story, **more)
    finally:
        transport.close()


def killed_chain(cluster: Cluster, *, job_verified: bool | None = True, **more: Any) -> dict[str, Raw]:
    """
    Make a parent and its child, two nodes (one cordoned by somebody else), and a run that fences all and is killed.

    Returns what every object was before, by its path.
    """
    before = [
        make_kustomization(cluster, "flux-system"),
        make_kustomization(
            cluster, "infrastructure", applied_by=LEASE_PARENT, annotations={"note.example/a-b": "é & <b>"}
        ),
        make_node(cluster, "worker-2", taints=[]),
        make_node(cluster, "worker-3", unschedulable=True, taints=[]),
    ]
    with playing(cluster, **more) as run:
        run.story["job_verified"] = job_verified
        run.take_lease()
        run.suspend("flux-system", "flux-system", rank=1)
        run.suspend("flux-system", "infrastructure", rank=2)
        run.cordon("worker-2")
        run.cordon("worker-3")
    return {path_of(obj): obj for obj in before}


LEASE_PARENT = ("flux-system", "flux-system")


def essence(obj: Raw) -> Raw:
    """What an object says, without what every write moves, and without empty maps."""
    kept = copy.deepcopy(obj)
    for key in ("resourceVersion", "generation", "managedFields"):
        kept["metadata"].pop(key, None)
    for key in ("annotations", "labels"):
        if not kept["metadata"].get(key, True):
            del kept["metadata"][key]
    kept.pop("status", None)
    return kept


def state(cluster: Cluster, *paths: str) -> dict[str, Raw]:
    """What these objects say now."""
    return {path: essence(cluster.get(path)) for path in paths}


def bridge_journal(
    uid: str, *, was_cordoned: int = 0, phase: str = "rollback-safe", owner: str = BRIDGE_HOLDER
) -> str:
    """The journal of the other tool on a node."""
    return json.dumps(
        {
            "v": 1,
            "owner": owner,
            "uid": uid,
            "phase": phase,
            "desiredRevision": "a" * 64,
            "wasCordoned": was_cordoned,
            "initialTaints": [],
        }
    )


def bridge_chain(cluster: Cluster, *, duration_s: int = 120) -> dict[str, Raw]:
    """Make what the other tool leaves: child, parent, one claimed node and the lease of one dead run."""
    child = make_kustomization(
        cluster,
        "infrastructure",
        suspend=True,
        applied_by=LEASE_PARENT,
        annotations={
            f"{BRIDGE}ghcr-policy-handoff-owner": BRIDGE_HOLDER,
            "kustomize.toolkit.fluxcd.io/reconcile": "disabled",
        },
    )
    parent = make_kustomization(
        cluster, "flux-system", suspend=True, annotations={f"{BRIDGE}ghcr-policy-parent-owner": BRIDGE_HOLDER}
    )
    node = make_node(
        cluster,
        "worker-2",
        unschedulable=True,
        taints=[],
        annotations={
            f"{BRIDGE}ghcr-auth-drain-owner": f"{BRIDGE_HOLDER}7",
            f"{BRIDGE}ghcr-auth-drain-phase": "claimed",
        },
    )
    at = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    lease = make_lease(
        cluster,
        "ghcr-auth-refresh",
        namespace="flux-system",
        spec={
            "holderIdentity": BRIDGE_HOLDER,
            "leaseDurationSeconds": duration_s,
            "acquireTime": at,
            "renewTime": at,
            "leaseTransitions": 4,
        },
    )
    return {path_of(obj): obj for obj in (child, parent, node, lease)}
