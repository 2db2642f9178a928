"""
What a client is told when it asks too often.

Aspects: the plain text of priority and fairness · Retry-After · that nothing was carried out.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from tests.support.clusters import Cluster, Raw, grant, make_node, path_of
from tests.support.rawhttp import JSON_PATCH, RawAnswer

FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"
USER = "user-20"
DEADLINE_S = 20.0


def _throttle(cluster: Cluster) -> None:
    """Give the user a priority level without any seat."""
    if cluster.name == "sandbox":
        cluster.sandbox.faults.throttle(user=USER)
        return
    name = cluster.unique("jail")
    version = "flowcontrol.apiserver.k8s.io/v1"
    # NB: without a borrowing limit of 0 it would borrow seats from idle levels.
    limited: Raw = {
        "nominalConcurrencyShares": 0,
        "lendablePercent": 0,
        "borrowingLimitPercent": 0,
        "limitResponse": {"type": "Reject"},
    }
    level = {
        "apiVersion": version,
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": name},
        "spec": {"type": "Limited", "limited": limited},
    }
    rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    flow = {
        "apiVersion": version,
        "kind": "FlowSchema",
        "metadata": {"name": name},
        "spec": {
            "priorityLevelConfiguration": {"name": name},
            "matchingPrecedence": 10,
            "rules": [{"subjects": [{"kind": "User", "user": {"name": USER}}], "resourceRules": [rule]}],
        },
    }
    cluster.create(f"{FLOWS}/prioritylevelconfigurations", level)
    cluster.create(f"{FLOWS}/flowschemas", flow)


def _at_once(cluster: Cluster, nodes: list[Raw]) -> list[RawAnswer]:
    """Cordon each node in a thread of its own, all at once."""
    ops = '[{"op":"add","path":"/spec/unschedulable","value":true}]'
    barrier = threading.Barrier(len(nodes))

    def cordon(node: Raw) -> RawAnswer:
        barrier.wait()
        return cluster.request("PATCH", path_of(node), body=ops, content_type=JSON_PATCH, user=USER)

    with ThreadPoolExecutor(len(nodes)) as pool:
        return list(pool.map(cordon, nodes))


def test_throttled_write_is_told_so_in_plain_text_and_not_carried_out(cluster: Cluster) -> None:
    """No Status object, but Retry-After; and 429 proves that nothing happened."""
    grant(cluster, USER, {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]})
    _throttle(cluster)
    end = time.monotonic() + DEADLINE_S
    throttled: list[RawAnswer] = []
    # NB: a level without seats still serves one request at a time, and the server takes up a new flow schema
    # a moment after it is written.
    while not throttled:
        assert time.monotonic() < end, "never throttled"
        nodes = [make_node(cluster) for _ in range(8)]
        for node, answer in zip(nodes, _at_once(cluster, nodes), strict=True):
            cordoned = cluster.get(path_of(node))["spec"].get("unschedulable", False)
            assert cordoned == (answer.status == 200), answer.text
            if answer.status == 429:
                throttled.append(answer)

    for answer in throttled:
        assert answer.text == "Too many requests, please try again later.\n"
        assert answer.content_type.startswith("text/plain")
        assert 1 <= int(answer.headers["Retry-After"]) <= 32
