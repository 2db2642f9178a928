"""
A broad pass with the real kubectl: what the contract suite does not reach because it is only here.

Aspects: kinds made by typed clients · workloads · drain with a kubelet · base path of a user · discovery fallback.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from fencectl.sandbox import Rule, Sandbox
from tests.sandbox.support import Raw, node
from tests.support.realcluster import find_kubectl


class Kubectl:
    """The real kubectl, as one user of one sandbox."""

    def __init__(self, sandbox: Sandbox, folder: Path, user: str = "admin") -> None:
        self._config = folder / f"kubeconfig-{user}"
        self._config.write_text(sandbox.kubeconfig(user))
        self._folder = folder

    def __call__(self, *args: str, fails: bool = False, text: str | None = None) -> str:
        done = subprocess.run(
            [find_kubectl(), *args],
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={"KUBECONFIG": str(self._config), "HOME": str(self._folder)},
        )
        assert (done.returncode != 0) is fails, f"kubectl {' '.join(args)}: {done.returncode}\n{done.stderr}"
        return done.stderr if fails else done.stdout


@pytest.fixture
def kubectl(served: Sandbox, tmp_path: Path) -> Kubectl:
    return Kubectl(served, tmp_path)


def test_kinds_that_typed_clients_create(kubectl: Kubectl, served: Sandbox) -> None:
    """They come as protobuf, and arrive whole."""
    kubectl("create", "namespace", "team")
    where = ("-n", "team")
    kubectl("create", "secret", "generic", "s", "--from-literal=k=v", *where)
    kubectl("create", "serviceaccount", "sa", *where)
    kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=2", *where)
    kubectl("create", "job", "once", "--image=busybox", *where, "--", "true")
    kubectl("create", "poddisruptionbudget", "b", "--selector=app=web", "--min-available=50%", *where)
    kubectl("create", "clusterrole", "r", "--verb=get,list", "--resource=nodes")
    kubectl("create", "clusterrolebinding", "rb", "--clusterrole=r", "--user=somebody")
    assert served.store.get("secrets", "s", namespace="team")["data"] == {"k": "dg=="}
    deployment = served.store.get("deploy", "web", namespace="team")
    assert deployment["spec"]["replicas"] == 2
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:1"
    job = served.store.get("jobs", "once", namespace="team")
    assert job["spec"]["template"]["spec"]["containers"][0]["command"] == ["true"]
    budget = served.store.get("pdb", "b", namespace="team")
    assert budget["spec"] == {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}}
    role = served.store.get("clusterroles", "r")
    assert role["rules"] == [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["nodes"]}]
    assert served.store.get("clusterrolebindings", "rb")["subjects"][0]["name"] == "somebody"


def test_workload_is_scaled_restarted_and_described(kubectl: Kubectl, served: Sandbox) -> None:
    """As an operator does it."""
    kubectl("create", "deployment", "web", "--image=nginx:1")
    kubectl("scale", "deployment/web", "--replicas=3")
    kubectl("set", "image", "deployment/web", "nginx=nginx:2")
    kubectl("rollout", "restart", "deployment/web")
    spec = served.store.get("deploy", "web", namespace="default")["spec"]
    assert spec["replicas"] == 3
    assert spec["template"]["spec"]["containers"][0]["image"] == "nginx:2"
    assert "kubectl.kubernetes.io/restartedAt" in spec["template"]["metadata"]["annotations"]
    state = {
        "observedGeneration": 99,
        "replicas": 3,
        "updatedReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
    }
    served.store.set_status("deploy", "web", state, namespace="default")
    assert "successfully rolled out" in kubectl("rollout", "status", "deployment/web", "--timeout=10s")
    assert "3 desired | 3 updated | 3 total | 3 available" in kubectl("describe", "deployment", "web")
    assert "3/3" in kubectl("get", "deployment", "web", "-o", "wide")
    assert "holderIdentity" in kubectl("explain", "lease.spec")


def test_drain_ends_where_a_kubelet_is_at_work(tmp_path: Path) -> None:
    """Without one, a pod on a node stays until it is deleted by force."""
    with Sandbox(kubelet=True) as sandbox:
        kubectl = Kubectl(sandbox, tmp_path)
        sandbox.store.create(node("w"))
        pod: Raw = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default", "labels": {"app": "x"}},
            "spec": {"nodeName": "w", "containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }
        sandbox.store.create(pod)
        assert "node/w drained" in kubectl("drain", "w", "--force", "--timeout=20s")
        assert sandbox.store.list("pods") == []
        assert sandbox.store.get("nodes", "w")["spec"]["unschedulable"] is True


def test_events_tell_the_story_of_an_object(kubectl: Kubectl, served: Sandbox) -> None:
    """Written as events.k8s.io/v1, shown by `events` and `describe`."""
    uid = served.store.create(node("w"))["metadata"]["uid"]
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "w.1", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "regarding": {"kind": "Node", "name": "w", "uid": uid, "apiVersion": "v1"},
        "reason": "Fenced",
        "note": "fenced by a deploy",
        "type": "Normal",
        "action": "Fence",
        "reportingController": "fencectl.dev/fencectl",
        "reportingInstance": "x",
    }
    kubectl("create", "-f", "-", text=json.dumps(event))
    assert "fenced by a deploy" in kubectl("events", "-n", "default")
    assert "fenced by a deploy" in kubectl("describe", "node", "w")


def test_user_of_a_base_path_has_that_users_rights(served: Sandbox, tmp_path: Path) -> None:
    """Discovery works, nodes are listed, nothing else."""
    served.users.add("viewer", rules=[Rule(("list",), ("nodes",))])
    kubectl = Kubectl(served, tmp_path, "viewer")
    served.store.create(node("w"))
    assert kubectl("get", "nodes", "-o", "name") == "node/w\n"
    assert "leases" in kubectl("api-resources")
    refused = kubectl("get", "leases", "-A", fails=True)
    assert 'User "viewer" cannot list resource "leases" in API group "coordination.k8s.io"' in refused
    assert json.loads(kubectl("auth", "whoami", "-o", "json"))["status"]["userInfo"]["username"] == "viewer"


@pytest.mark.parametrize("aggregated", [True, False])
def test_discovery_with_and_without_aggregation(tmp_path: Path, aggregated: bool) -> None:
    """Older servers answer the plain form: kubectl falls back."""
    with Sandbox(aggregated_discovery=aggregated, flux=False) as sandbox:
        kubectl = Kubectl(sandbox, tmp_path)
        listed = kubectl("api-resources", "-o", "name").split()
        assert "nodes" in listed
        assert "leases.coordination.k8s.io" in listed
        assert "the server doesn't have a resource type" in kubectl("get", "ks", fails=True)
        asked = [entry.path for entry in sandbox.requests if entry.path.count("/") == 3]
        assert ("/apis/apps/v1" in asked) is not aggregated


def test_definition_can_be_applied_and_used(kubectl: Kubectl) -> None:
    """`kubectl apply` of a CRD, then of one of its objects."""
    definition: Raw = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                    },
                }
            ],
        },
    }
    kubectl("apply", "--server-side", "-f", "-", text=json.dumps(definition))
    kubectl("wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=10s")
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"x": 1}}
    kubectl("apply", "-f", "-", text=json.dumps(widget))
    assert kubectl("get", "widgets", "a", "-o", "jsonpath={.spec.x}") == "1"
    assert "a" in kubectl("get", "widgets")
    kubectl("delete", "crd", "widgets.example.com")
    assert "not find" in kubectl("get", "--raw", "/apis/example.com/v1/widgets", fails=True)
