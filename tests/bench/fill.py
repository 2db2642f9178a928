"""
A large cluster: thousands of nodes and Flux objects of the size that real ones have, and the fences of one run.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from fencectl.core.journal import Journal, Phase
from fencectl.core.lease import LeaseTerms, new_lease
from fencectl.core.patches import GuardedPatch
from fencectl.core.placements import CannotPlace, Placed, place_cordon, place_suspension
from fencectl.core.refs import ObjectRef, Seen
from tests.support.clusters import KUSTOMIZE, LEASES, NODES, Cluster, Raw, ensure_namespace

THREADS = 8
IMAGES = 48
HOLDER = "4f2a91c0d7e85b13-gh18093344127.2-j51234561234-7f3c"
AT = datetime(2026, 11, 30, 1, 32, 9, tzinfo=UTC)
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

# Kinds of Flux's other controllers, whose modules the test cluster does not have.
OTHER_FLUX_KINDS = (
    ("helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases"),
    ("image.toolkit.fluxcd.io", "v1", "ImageRepository", "imagerepositories"),
    ("image.toolkit.fluxcd.io", "v1", "ImagePolicy", "imagepolicies"),
    ("image.toolkit.fluxcd.io", "v1", "ImageUpdateAutomation", "imageupdateautomations"),
    ("notification.toolkit.fluxcd.io", "v1", "Receiver", "receivers"),
    ("notification.toolkit.fluxcd.io", "v1beta3", "Alert", "alerts"),
    ("notification.toolkit.fluxcd.io", "v1beta3", "Provider", "providers"),
)


def crd(group: str, version: str, kind: str, plural: str) -> Raw:
    """Make a definition that takes any spec."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything}}},
                }
            ],
        },
    }


def node(number: int) -> Raw:
    """Make a node of about 18 KB: most of it is the list of its images and the labels of a cloud."""
    name = f"worker-{number:05}"
    images = [
        {
            "names": [
                f"registry.eu-north-1.example.com/platform-images/team-{image % 9}/service-{image:03}@sha256:{image:064x}",
                f"registry.eu-north-1.example.com/platform-images/team-{image % 9}/service-{image:03}:v1.{image}.{number % 7}-build.{image * 37}",
            ],
            "sizeBytes": 100_000_000 + image * 1_234_567,
        }
        for image in range(IMAGES)
    ]
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "node.kubernetes.io/instance-type": "m6i.4xlarge",
        "topology.kubernetes.io/region": "eu-north-1",
        "topology.kubernetes.io/zone": f"eu-north-1{'abc'[number % 3]}",
    } | {f"platform.example.com/label-{n}": f"value-{n}" for n in range(14)}
    annotations = {
        "node.alpha.kubernetes.io/ttl": "0",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
        "csi.volume.kubernetes.io/nodeid": json.dumps({"ebs.csi.aws.com": f"i-{number:017x}"}),
    } | {f"projectcalico.org/setting-{n}": f"10.{number // 250}.{number % 250}.{n}/24" for n in range(6)}
    conditions = [
        {
            "type": kind,
            "status": "True" if kind == "Ready" else "False",
            "reason": f"Kubelet{kind}",
            "message": f"kubelet says that {kind} is as it should be",
            "lastHeartbeatTime": "2026-11-30T01:00:00Z",
            "lastTransitionTime": "2026-11-20T01:00:00Z",
        }
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "Ready")
    ]
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "200Gi", "hugepages-2Mi": "0"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {
            "providerID": f"aws:///eu-north-1a/i-{number:017x}",
            "podCIDR": "10.0.0.0/24",
            "podCIDRs": ["10.0.0.0/24"],
        },
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": conditions,
            "addresses": [{"type": "InternalIP", "address": f"10.0.{number // 250}.{number % 250}"}],
            "images": images,
        },
    }


def kustomization(number: int, *, parent: str | None = None) -> Raw:
    """Make a Kustomization of about 6 KB: its substitutions and patches."""
    labels = {f"platform.example.com/label-{n}": f"value-{n}" for n in range(5)}
    if parent is not None:
        labels |= {
            "kustomize.toolkit.fluxcd.io/name": parent,
            "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
        }
    patch = "\n".join(
        f"- op: replace\n  path: /spec/template/spec/containers/{n}/image\n  value: i{n}" for n in range(20)
    )
    return {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": {"name": f"app-{number:05}", "namespace": f"team-{number % 50:02}", "labels": labels},
        "spec": {
            "interval": "10m",
            "prune": True,
            "path": f"./apps/{number}",
            "sourceRef": {"kind": "GitRepository", "name": "flux-system", "namespace": "flux-system"},
            "postBuild": {"substitute": {f"variable_{n}": f"value-{n}-of-{number}" for n in range(58)}},
            "patches": [{"patch": patch, "target": {"kind": "Deployment", "name": f"app-{number}"}}],
        },
    }


def in_parallel(work: Iterable[Any], do: Callable[[Any], object]) -> None:
    """Work from several threads; the first failure is raised."""
    pending, lock = iter(work), threading.Lock()
    failures: list[AssertionError] = []

    def run() -> None:
        while not failures:
            with lock:
                item = next(pending, None)
            if item is None:
                return
            try:
                do(item)
            except AssertionError as failure:
                failures.append(failure)

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def fill(cluster: Cluster, *, nodes: int, kustomizations: int, other_crds: int) -> None:
    """Create everything, and place the fences of one run: a lease, a parent, a child and two nodes."""
    for kind in OTHER_FLUX_KINDS:
        cluster.create(_CRDS, crd(*kind))
    in_parallel(
        range(other_crds),
        lambda n: cluster.create(_CRDS, crd(f"group-{n % 20}.example.com", "v1", f"Thing{n}", f"thing{n}s")),
    )
    for namespace in ("flux-system", *(f"team-{n:02}" for n in range(50))):
        ensure_namespace(cluster, namespace)
    in_parallel(range(nodes), lambda n: cluster.create(NODES, node(n)))

    def create_kustomization(number: int) -> None:
        body = kustomization(number, parent="app-00000" if number else None)
        cluster.create(f"{KUSTOMIZE}/namespaces/{body['metadata']['namespace']}/kustomizations", body)

    in_parallel(range(kustomizations), create_kustomization)
    _place_fences(cluster, nodes=min(nodes, 2), suspensions=min(kustomizations, 2))


def _place_fences(cluster: Cluster, *, nodes: int, suspensions: int) -> None:
    seq = itertools.count(1)

    def journal(rank: int) -> Journal:
        return Journal(
            holder=HOLDER, uid="", seq=next(seq), rank=rank, at=AT, phase=Phase.HELD, repository="acme/platform"
        )

    cluster.create(
        f"{LEASES}/namespaces/flux-system/leases",
        new_lease("flux-system", "fencectl-deploy", LeaseTerms(HOLDER, 30, AT, journal(0))),
    )
    for number in range(suspensions):
        name, namespace = f"app-{number:05}", f"team-{number % 50:02}"
        raw = cluster.get(f"{KUSTOMIZE}/namespaces/{namespace}/kustomizations/{name}")
        ref = ObjectRef(raw["apiVersion"], raw["kind"], "kustomizations", namespace, name, raw["metadata"]["uid"])
        _send(cluster, place_suspension(Seen(ref, raw), journal(1 + number)))
    for number in range(nodes):
        name = f"worker-{number:05}"
        raw = cluster.get(f"{NODES}/{name}")
        ref = ObjectRef("v1", "Node", "nodes", None, name, raw["metadata"]["uid"])
        _send(cluster, place_cordon(Seen(ref, raw), journal(1000)))


def _send(cluster: Cluster, placed: Placed | CannotPlace) -> None:
    assert isinstance(placed, Placed), placed
    patch: GuardedPatch = placed.patch
    answer = cluster.json_patch(patch.target.path, patch.body)
    assert answer.status == 200, answer.text
