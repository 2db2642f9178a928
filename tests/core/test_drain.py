"""
What a drain does with a pod, against the real kubectl; what a disruption budget says.

Aspects: controllers · DaemonSets there and gone · static pods · emptyDir · finished pods · tolerations · budgets.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from fencectl.core.drain import (
    Block,
    Evict,
    Refuse,
    Skip,
    daemon_set_of,
    judge_pod,
    read_block,
    read_pod,
    tolerates_cordon,
)
from tests.support.clusters import Cluster, Raw, make_namespace
from tests.support.kubelet import Kubelet, owned_by, running

REPLICAS = owned_by("ReplicaSet", "web")
EMPTY_DIR: Raw = {"volumes": [{"name": "v", "emptyDir": {}}]}
MIRROR = {"annotations": {"kubernetes.io/config.mirror": "x"}}
DONE, FAILED = {"phase": "Succeeded"}, {"phase": "Failed"}

# What is made, and what becomes of it where a DaemonSet `agent` exists and `gone` does not.
PODS: dict[str, tuple[Raw, type]] = {
    "replicated": ({"owner": REPLICAS}, Evict),
    "stateful": ({"owner": owned_by("StatefulSet", "db")}, Evict),
    "job": ({"owner": owned_by("Job", "once", api_version="batch/v1")}, Evict),
    "custom": ({"owner": owned_by("Thing", "t", api_version="example.com/v1")}, Evict),
    "not-ready": ({"owner": REPLICAS, "status": running(ready=False)}, Evict),
    "pending": ({"owner": REPLICAS, "status": {"phase": "Pending"}}, Evict),
    "alone": ({}, Refuse),
    "owner-is-no-controller": ({"owner": owned_by("ReplicaSet", "web", controller=None)}, Refuse),
    "owner-denies-control": ({"owner": owned_by("ReplicaSet", "web", controller=False)}, Refuse),
    "alone-done": ({"status": DONE}, Evict),
    "alone-failed": ({"status": FAILED}, Evict),
    "daemon": ({"owner": owned_by("DaemonSet", "agent")}, Skip),
    "daemon-with-data": ({"owner": owned_by("DaemonSet", "agent"), **EMPTY_DIR}, Skip),
    "daemon-done": ({"owner": owned_by("DaemonSet", "agent"), "status": DONE}, Evict),
    "daemon-orphan": ({"owner": owned_by("DaemonSet", "gone")}, Refuse),
    "daemon-orphan-failed": ({"owner": owned_by("DaemonSet", "gone"), "status": FAILED}, Evict),
    "daemon-of-another": ({"owner": owned_by("DaemonSet", "gone", api_version="example.com/v1")}, Evict),
    "with-data": ({"owner": REPLICAS, **EMPTY_DIR}, Refuse),
    "with-data-done": ({"owner": REPLICAS, "status": DONE, **EMPTY_DIR}, Evict),
    "with-config": ({"owner": REPLICAS, "volumes": [{"name": "v", "configMap": {"name": "c"}}]}, Evict),
    "mirror": (MIRROR, Skip),
    "mirror-done": ({**MIRROR, "status": DONE}, Skip),
    "mirror-of-a-daemon-set": ({**MIRROR, "owner": owned_by("DaemonSet", "gone")}, Refuse),
}


def as_pod(name: str, made: Raw) -> Raw:
    """Make the object that `Kubelet.pod` creates, without a cluster."""
    meta: Raw = {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        "annotations": made.get("annotations", {}),
    }
    if "owner" in made:
        meta["ownerReferences"] = [made["owner"]]
    return {
        "metadata": meta,
        "spec": {"volumes": made.get("volumes", [])},
        "status": made.get("status", running()),
    }


@pytest.mark.parametrize("name", PODS)
def test_fate_of_a_pod(name: str) -> None:
    """Each kind of pod goes, stays, or keeps the node from being drained."""
    made, fate = PODS[name]
    assert isinstance(judge_pod(read_pod(as_pod(name, made)), daemon_sets={("shop", "agent")}), fate)


@pytest.fixture
def drained(cluster: Cluster) -> tuple[Cluster, str, str]:
    """Put all pods of the table on one node; the DaemonSet `agent` exists."""
    kubelet, namespace = Kubelet(cluster), make_namespace(cluster)
    node = kubelet.join()["metadata"]["name"]
    labels = {"app": "agent"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    cluster.create(
        f"/apis/apps/v1/namespaces/{namespace}/daemonsets",
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "agent"},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        },
    )
    for name, (made, _) in PODS.items():
        kubelet.pod(namespace, name, node=node, **made)
    return cluster, node, namespace


def by_kubectl(cluster: Cluster, node: str, namespace: str) -> dict[str, set[str]]:
    """Ask kubectl what it would do: the names of what it evicts, ignores and refuses."""
    done = cluster.kubectl(
        "drain", node, "--dry-run=client", "--ignore-daemonsets", check=False
    )  # fmt: skip
    found: dict[str, set[str]] = {"evict": set(), "refuse": set()}
    name = rf"{namespace}/([a-z-]+)"
    for line in (done.stdout + done.stderr).splitlines():
        if line.startswith("evicting pod"):
            found["evict"] |= set(re.findall(name, line))
        elif "cannot delete" in line:
            found["refuse"] |= set(re.findall(name, line))
    # NB: orphans of a DaemonSet are refused with another sentence: `daemonsets.apps "gone" not found: ns/pod`.
    return found


def test_case_54_fates_are_those_of_kubectl(drained: tuple[Cluster, str, str]) -> None:
    """The same pods, on both clusters, asked of the real kubectl: refused first, then without those, evicted."""
    cluster, node, namespace = drained
    refused = {name for name, (_, fate) in PODS.items() if fate is Refuse}
    assert by_kubectl(cluster, node, namespace) == {"evict": set(), "refuse": refused}

    for name in refused:
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        cluster.request("DELETE", path, query={"gracePeriodSeconds": 0})

    evicted = {name for name, (_, fate) in PODS.items() if fate is Evict}
    assert by_kubectl(cluster, node, namespace) == {"evict": evicted, "refuse": set()}


def test_daemon_set_of_a_pod_is_looked_up_only_where_it_decides() -> None:
    """A finished pod goes whatever becomes of its DaemonSet."""
    decides = read_pod(as_pod("daemon", PODS["daemon"][0]))
    assert daemon_set_of(decides) == ("shop", "agent")
    assert daemon_set_of(read_pod(as_pod("daemon-done", PODS["daemon-done"][0]))) is None


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"metadata": {"ownerReferences": "x"}},
        {"metadata": {"ownerReferences": [None, {"controller": "yes"}]}},
        {"spec": {"volumes": {"emptyDir": 1}}},
        {"metadata": None, "spec": None, "status": []},
    ],
)
def test_pod_of_an_unknown_shape_is_refused(broken: Raw) -> None:
    """What cannot be read is never evicted."""
    assert isinstance(judge_pod(read_pod(broken), daemon_sets=()), Refuse)


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}, True),
        ({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, True),
        ({"key": "node.kubernetes.io/unschedulable", "value": "x"}, False),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "node.kubernetes.io/not-ready", "operator": "Exists"}, False),
        (None, False),
    ],
)
def test_toleration_of_a_cordon(toleration: Any, tolerates: bool) -> None:
    """As the scheduler reads it."""
    assert tolerates_cordon(read_pod({"spec": {"tolerations": [toleration]}})) is tolerates


@pytest.mark.parametrize(
    ("message", "block"),
    [
        (
            "The disruption budget web needs 2 healthy pods and has 2 currently",
            Block("web", 2, 2, "needs 2 healthy pods and has 2"),
        ),
        (
            "The disruption budget web is still being processed by the server.",
            Block("web", None, None, "is still being processed by the server"),
        ),
        (
            "The disruption budget web does not allow evicting pods currently because it failed sync: no controller",
            Block(
                "web", None, None, "does not allow evicting pods currently because it failed sync: no controller"
            ),
        ),
        ("something else", Block("", None, None, "something else")),
        ("", Block("", None, None, "the server does not say why")),
    ],
)
def test_block_names_its_budget_and_its_numbers(message: str, block: Block) -> None:
    """Every sentence that the server has for it, and one that it may have tomorrow."""
    assert read_block(message) == block
