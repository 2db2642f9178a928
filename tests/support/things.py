"""
Make real objects through the API on either cluster, as a test needs them.

Each has a name of its own unless a test gives one; `Cluster.wipe()` takes it away.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tests.support.rawhttp import RawAnswer

if TYPE_CHECKING:
    from tests.support.clusters import Cluster

Raw = dict[str, Any]

LEASES = "/apis/coordination.k8s.io/v1"
KUSTOMIZE = "/apis/kustomize.toolkit.fluxcd.io/v1"
SOURCE = "/apis/source.toolkit.fluxcd.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
POLICY = "/apis/policy/v1"
NODES = "/api/v1/nodes"

KEPT_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
MADE_BY_TESTS = "fencectl.test/made"
GRANT_TIMEOUT_S = 20.0


def ensure_namespace(cluster: Cluster, name: str) -> str:
    """Make sure that a namespace exists, and give its name."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    answer = cluster.request("POST", "/api/v1/namespaces", body=body)
    assert answer.status in (201, 409), answer.text
    return name


def make_namespace(cluster: Cluster, prefix: str = "ns") -> str:
    """Create a namespace of its own name."""
    return ensure_namespace(cluster, cluster.unique(prefix))


def make_node(
    cluster: Cluster,
    name: str | None = None,
    *,
    unschedulable: bool | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    taints: list[Raw] | None = None,
    manager: str = "node-maker",
) -> Raw:
    """
    Create a node. `unschedulable=None` leaves the field out, which is what a schedulable node has.

    Each node is born with the taint `node.kubernetes.io/not-ready`; `taints` replaces all, `[]` removes it.
    """
    spec: Raw = {} if unschedulable is None else {"unschedulable": unschedulable}
    body = _object("v1", "Node", name or cluster.unique("node"), None, annotations, labels) | {"spec": spec}
    node = _create(cluster, NODES, body, manager)
    if taints is None:
        return node
    ops: list[Raw] = [{"op": "add", "path": "/spec/taints", "value": taints}]
    return expect(cluster.json_patch(path_of(node), ops, manager=manager), 200)


def make_lease(
    cluster: Cluster,
    name: str | None = None,
    *,
    namespace: str = "default",
    spec: Raw | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    manager: str = "lease-maker",
) -> Raw:
    """Create a Lease, its spec as given."""
    body = _object(
        "coordination.k8s.io/v1", "Lease", name or cluster.unique("lease"), namespace, annotations, labels
    ) | {"spec": spec or {}}
    _need_namespace(cluster, namespace)
    return _create(cluster, f"{LEASES}/namespaces/{namespace}/leases", body, manager)


def make_configmap(
    cluster: Cluster,
    name: str | None = None,
    *,
    namespace: str = "default",
    data: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    manager: str = "configmap-maker",
) -> Raw:
    """Create a ConfigMap."""
    body = _object("v1", "ConfigMap", name or cluster.unique("cm"), namespace, annotations, labels)
    _need_namespace(cluster, namespace)
    return _create(
        cluster, f"/api/v1/namespaces/{namespace}/configmaps", body | {"data": dict(data or {})}, manager
    )


def make_kustomization(
    cluster: Cluster,
    name: str | None = None,
    *,
    namespace: str = "flux-system",
    suspend: bool | None = None,
    applied_by: tuple[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    spec: Raw | None = None,
    manager: str = "kustomization-maker",
) -> Raw:
    """
    Create a Flux Kustomization.

    `applied_by=(namespace, name)` gives it the labels of an object that this Kustomization applies.
    `suspend=None` leaves the field out.
    """
    chosen = dict(labels or {})
    if applied_by is not None:
        chosen["kustomize.toolkit.fluxcd.io/namespace"], chosen["kustomize.toolkit.fluxcd.io/name"] = applied_by
    whole: Raw = {
        "interval": "10m",
        "prune": True,
        "path": "./",
        "sourceRef": {"kind": "GitRepository", "name": "flux-system"},
        **(spec or {}),
    }
    if suspend is not None:
        whole["suspend"] = suspend
    body = _object(
        "kustomize.toolkit.fluxcd.io/v1",
        "Kustomization",
        name or cluster.unique("ks"),
        namespace,
        annotations,
        chosen,
    ) | {"spec": whole}
    _need_namespace(cluster, namespace)
    return _create(cluster, f"{KUSTOMIZE}/namespaces/{namespace}/kustomizations", body, manager)


def make_git_repository(
    cluster: Cluster, name: str | None = None, *, namespace: str = "flux-system", suspend: bool | None = None
) -> Raw:
    """Create a Flux GitRepository, which is never fetched here."""
    spec: Raw = {"interval": "10m", "url": "https://git.invalid/repo"}
    if suspend is not None:
        spec["suspend"] = suspend
    body = _object(
        "source.toolkit.fluxcd.io/v1", "GitRepository", name or cluster.unique("git"), namespace, None, None
    )
    _need_namespace(cluster, namespace)
    return _create(
        cluster, f"{SOURCE}/namespaces/{namespace}/gitrepositories", body | {"spec": spec}, "source-maker"
    )


def grant(cluster: Cluster, user: str, *rules: Raw, namespace: str | None = None) -> None:
    """
    Give a user rights, in all namespaces or in one: on the real server by RBAC objects, once they are in force.

    A rule is as in a ClusterRole: `{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}`.
    """
    if cluster.name == "sandbox":
        cluster.sandbox_grant(user, rules, namespace=namespace)
        return
    name = cluster.unique(f"grant-{user}")
    labels = {MADE_BY_TESTS: "yes"}
    version = "rbac.authorization.k8s.io/v1"
    base = f"{RBAC}/namespaces/{namespace}" if namespace else RBAC
    role, binding = ("Role", "RoleBinding") if namespace else ("ClusterRole", "ClusterRoleBinding")
    cluster.create(
        f"{base}/{role.lower()}s", _object(version, role, name, namespace, None, labels) | {"rules": list(rules)}
    )
    cluster.create(
        f"{base}/{binding.lower()}s",
        _object(version, binding, name, namespace, None, labels)
        | {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        },
    )
    for rule in rules:
        _wait_allowed(cluster, user, rule, namespace)


def _wait_allowed(cluster: Cluster, user: str, rule: Raw, namespace: str | None) -> None:
    # The real server's authorizer reads roles from a watch, so a grant takes a moment.
    attributes = {
        "verb": rule["verbs"][0],
        "group": rule["apiGroups"][0],
        "resource": rule["resources"][0].partition("/")[0],
        "subresource": rule["resources"][0].partition("/")[2],
        "namespace": namespace or "",
        "name": (rule.get("resourceNames") or [""])[0],
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    end = time.monotonic() + GRANT_TIMEOUT_S
    while True:
        answer = cluster.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body=review)
        if expect(answer, 201)["status"]["allowed"]:
            return
        assert time.monotonic() < end, f"never allowed: {answer.text}"


def path_of(obj: Raw) -> str:
    """Give the API path of an object that a helper made."""
    collections = {
        "Node": NODES,
        "Namespace": "/api/v1/namespaces",
        "Lease": f"{LEASES}/namespaces/NS/leases",
        "ConfigMap": "/api/v1/namespaces/NS/configmaps",
        "Secret": "/api/v1/namespaces/NS/secrets",
        "Pod": "/api/v1/namespaces/NS/pods",
        "PodDisruptionBudget": f"{POLICY}/namespaces/NS/poddisruptionbudgets",
        "Kustomization": f"{KUSTOMIZE}/namespaces/NS/kustomizations",
        "GitRepository": f"{SOURCE}/namespaces/NS/gitrepositories",
    }
    metadata = obj["metadata"]
    collection = collections[obj["kind"]].replace("NS", metadata.get("namespace", ""))
    return f"{collection}/{metadata['name']}"


def managers_of(obj: Raw) -> Iterable[str]:
    """Name the field managers of an object, in the server's order."""
    return [entry["manager"] for entry in obj["metadata"].get("managedFields", [])]


def _object(
    api_version: str,
    kind: str,
    name: str,
    namespace: str | None,
    annotations: Mapping[str, str] | None,
    labels: Mapping[str, str] | None,
) -> Raw:
    metadata: Raw = {"name": name}
    if namespace is not None:
        metadata["namespace"] = namespace
    # NB: an empty map and an absent one are the same here, but not to a JSON patch: leave it out.
    if annotations:
        metadata["annotations"] = dict(annotations)
    if labels:
        metadata["labels"] = dict(labels)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _create(cluster: Cluster, collection: str, body: Raw, manager: str) -> Raw:
    return expect(cluster.request("POST", collection, body=body, query={"fieldManager": manager}), 201)


def _need_namespace(cluster: Cluster, namespace: str) -> None:
    if namespace not in KEPT_NAMESPACES:
        ensure_namespace(cluster, namespace)


def expect(answer: RawAnswer, status: int) -> Raw:
    """Demand a status, and give the object."""
    assert answer.status == status, f"{answer.status} instead of {status}: {answer.text}"
    obj: Raw = answer.json()
    return obj
