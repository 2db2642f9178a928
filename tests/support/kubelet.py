"""
The scripted kubelet: binds pods and writes their status and that of its nodes, as a test says.

There is neither a scheduler nor a kubelet on either cluster. `step()` does once what both would do meanwhile; a test
calls it whenever time passes. All of it goes through the API.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.clusters import LEASES, NODES, Cluster, Raw, expect, make_node
from tests.support.rawhttp import STRATEGIC_MERGE_PATCH

EPOCH = datetime(2026, 11, 30, 2, 0, tzinfo=UTC)
NODE_LEASES = f"{LEASES}/namespaces/kube-node-lease/leases"


def running(*, ready: bool = True) -> Raw:
    """Give the status of a pod that runs."""
    return {"phase": "Running", "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}


def waiting(reason: str, *, restarts: int = 0) -> Raw:
    """Give the status of a pod whose container does not start: `CrashLoopBackOff`, `ImagePullBackOff`."""
    container = {
        "name": "c",
        "image": "i",
        "imageID": "",
        "ready": False,
        "restartCount": restarts,
        "state": {"waiting": {"reason": reason, "message": f"scripted {reason}"}},
    }
    return {
        **running(ready=False),
        "phase": "Running" if restarts else "Pending",
        "containerStatuses": [container],
    }


def owned_by(kind: str, name: str, *, api_version: str = "apps/v1", controller: bool | None = True) -> Raw:
    """Give an owner reference."""
    owner: Raw = {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-of-{name}"}
    return owner if controller is None else owner | {"controller": controller}


class Kubelet:
    """
    The kubelets of all nodes that join, and their scheduler.

    `stuck`: names of pods that never end. `scripts`: what a pod of that name shows, one status per step, the last
    one for good; a pod without runs and is ready. `silent`: nodes that have gone away. `schedules`: whether pods
    without a node get one; those whose affinity names a node, as a DaemonSet's do, get it cordoned or not.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.nodes: list[str] = []
        self.stuck: set[str] = set()
        self.scripts: dict[str, list[Raw]] = {}
        self.silent: set[str] = set()
        self.schedules = False
        self._seconds = itertools.count(1)

    # Nodes

    def join(self, name: str | None = None, *, ready: bool = True, **made: Any) -> Raw:
        """Create a node that is Ready (or not), with its kubelet's Lease."""
        node = make_node(self.cluster, name, **{"taints": [], **made})
        self.nodes.append(node["metadata"]["name"])
        self.say_ready(node["metadata"]["name"], ready)
        self.beat(node["metadata"]["name"])
        return self.node(node["metadata"]["name"])

    def node(self, name: str) -> Raw:
        return self.cluster.get(f"{NODES}/{name}")

    def say_ready(self, name: str, ready: bool, *, reason: str = "", message: str = "") -> None:
        """Write the condition Ready of a node, with a new heartbeat."""
        at = self._now("%Y-%m-%dT%H:%M:%SZ")
        condition = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "reason": reason or ("KubeletReady" if ready else "KubeletNotReady"),
            "message": message or "scripted",
            "lastHeartbeatTime": at,
            "lastTransitionTime": at,
        }
        self._patch(f"{NODES}/{name}/status", {"status": {"conditions": [condition]}})

    def beat(self, name: str) -> None:
        """Renew the Lease of a node's kubelet."""
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": 40,
            "renewTime": self._now("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        answer = self.cluster.merge_patch(f"{NODE_LEASES}/{name}", {"spec": spec}, manager="kubelet")
        if answer.status == 404:
            meta = {"name": name, "namespace": "kube-node-lease"}
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
            self.cluster.create(NODE_LEASES, body)

    def _now(self, form: str) -> str:
        # NB: each word is a second later than the last one, so that no two look alike.
        return (EPOCH + timedelta(seconds=next(self._seconds))).strftime(form)

    # Pods

    def pod(
        self,
        namespace: str,
        name: str,
        *,
        node: str | None = None,
        owner: Raw | None = None,
        status: Raw | None = None,
        **more: Any,
    ) -> Raw:
        """Create a pod, bound to a node where one is given. `more`: labels, annotations, or fields of its spec."""
        meta: Raw = {"name": name, "labels": {"app": "a"} | more.pop("labels", {})}
        meta["annotations"] = more.pop("annotations", {})
        if owner is not None:
            meta["ownerReferences"] = [owner]
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": node, **more}
        pods = f"/api/v1/namespaces/{namespace}/pods"
        made = self.cluster.create(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        if node is None and status is None:
            return made
        return self.write(namespace, name, running() if status is None else status)

    def bind(self, namespace: str, name: str, node: str) -> None:
        """Put a pod on a node, as a scheduler does."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
        expect(self.cluster.request("POST", path, body=body), 201)

    def write(self, namespace: str, name: str, status: Raw) -> Raw:
        """Write the status of a pod."""
        return self._patch(f"/api/v1/namespaces/{namespace}/pods/{name}/status", {"status": status})

    def pods_on(self, node: str) -> Sequence[Raw]:
        items: list[Raw] = self.cluster.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")["items"]
        return items

    def step(self) -> None:
        """Do what scheduler and kubelets do in a moment: bind, end what is to end, write statuses, beat."""
        if self.schedules:
            self._schedule()
        for node in [name for name in self.nodes if name not in self.silent]:
            if self.cluster.request("GET", f"{NODES}/{node}").status == 404:
                self.nodes.remove(node)
                continue
            self.beat(node)
            for pod in self.pods_on(node):
                self._tend(pod)

    def _tend(self, pod: Raw) -> None:
        meta = pod["metadata"]
        if meta.get("deletionTimestamp"):
            if meta["name"] not in self.stuck:
                path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
                self.cluster.request("DELETE", path, query={"gracePeriodSeconds": 0})
            return
        script = self.scripts.get(meta["name"])
        if script:
            self.write(meta["namespace"], meta["name"], script.pop(0) if len(script) > 1 else script[0])
        elif pod["status"].get("phase") == "Pending":
            self.write(meta["namespace"], meta["name"], running())

    def _schedule(self) -> None:
        free = [
            name
            for name in self.nodes
            if name not in self.silent and not self.node(name)["spec"].get("unschedulable")
        ]
        for pod in self.cluster.get("/api/v1/pods", fieldSelector="spec.nodeName=")["items"]:
            chosen = _named_node(pod) or (free[0] if free else None)
            if chosen is not None:
                self.bind(pod["metadata"]["namespace"], pod["metadata"]["name"], chosen)

    def _patch(self, path: str, patch: Raw) -> Raw:
        answer = self.cluster.request("PATCH", path, body=patch, content_type=STRATEGIC_MERGE_PATCH)
        return expect(answer, 200)


def _named_node(pod: Raw) -> str | None:
    """Give the node that a pod's affinity names: so a DaemonSet's pods ask for theirs."""
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    for term in terms:
        for field in term.get("matchFields", []):
            if field["key"] == "metadata.name":
                return str(field["values"][0])
    return None
