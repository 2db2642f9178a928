"""
What it costs to follow 300 objects until all have come up: requests, processor time, memory.

    python -m tests.bench.follow [--deployments 240] [--kustomizations 60] [--namespaces 6] [--seconds 30]

Each Deployment has a ReplicaSet and two pods; all statuses are written by this process, one object after the other
over the given time, as controllers and kubelets would. The follow is a process of its own, and its requests are
counted by the API server's audit log.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from fencectl.cluster.clock import SystemClock
from fencectl.cluster.kubeconfig import resolve
from fencectl.core.refs import ObjectRef
from fencectl.core.rollout import Target
from fencectl.run.follow import Follower
from tests.bench.fences import USER, environment
from tests.bench.relay import Relay
from tests.support.clusters import KUSTOMIZE, NODES, Cluster, Raw, ensure_namespace, grant, make_node
from tests.support.realcluster import RealCluster

AT = "2026-11-30T02:00:00Z"
APPS = "/apis/apps/v1"
REVISION = "deployment.kubernetes.io/revision"
TEMPLATE: Raw = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
_NODES = 40
_AUDIT_POLICY = f"""
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {{level: Metadata, users: [{USER}]}}
- {{level: None}}
"""


def main() -> None:
    """Make the objects, follow them in a process while their statuses come, print what that cost."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.follow", description=__doc__)
    parser.add_argument("--deployments", type=int, default=240)
    parser.add_argument("--kustomizations", type=int, default=60)
    parser.add_argument("--namespaces", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _follow(Path(options.child))
        return
    folder = Path(tempfile.mkdtemp(prefix="fencectl-bench-"))
    policy, audit_log = folder / "audit.yaml", folder / "audit.log"
    policy.write_text(_AUDIT_POLICY)
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={audit_log}"]
    with RealCluster(flux_crds=True, api_server_flags=flags) as real:
        cluster = Cluster("real", real, folder)
        grant(cluster, USER, {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]})
        made = _make(cluster, options)
        wanted = folder / "targets.json"
        wanted.write_text(json.dumps(made))
        with Relay(int(real.url.rpartition(":")[2])) as relay:
            env = environment(real, folder, relay)
            relay.reset()
            command = [sys.executable, "-m", "tests.bench.follow", "--child", str(wanted)]
            with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
                _bring_up(cluster, made, seconds=options.seconds)
                found = json.loads(process.stdout.readline())
            received = relay.received
        cluster.close()
        asked = _requests(audit_log)
    total = sum(asked.values())
    sys.stdout.write(
        f"{len(made)} objects in {options.namespaces} namespaces: {found['outcome']} after {found['wall_s']:.1f} s\n"
        f"{found['cpu_s']:.2f} s of CPU ({1000 * found['cpu_s'] / found['wall_s']:.1f} ms a second; start-up "
        f"{found['start_cpu_s']:.2f} s besides), {found['peak_mib']:.0f} MiB, {received / 1e6:.2f} MB, "
        f"{found['told']} lines told\n"
        f"{total} requests: {', '.join(f'{number} {what}' for what, number in sorted(asked.items()))}\n"
        f"known {found['lag_s']:.2f} s after the last status was written\n"
    )


def _follow(wanted: Path) -> None:
    """Be the process that is measured."""
    targets = [
        Target(
            ObjectRef(one["apiVersion"], one["kind"], one["plural"], one["namespace"], one["name"], one["uid"]), 1
        )
        for one in json.loads(wanted.read_text())
    ]
    told: list[str] = []
    with resolve(None, None, os.environ, Path.home()).open() as transport:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        start_cpu_s, started_s = time.process_time(), time.monotonic()
        followed = Follower(transport, SystemClock(), told.append).follow(targets, 600.0)
        found: dict[str, Any] = {
            "outcome": followed.outcome.value,
            "cpu_s": time.process_time() - start_cpu_s,
            "start_cpu_s": start_cpu_s,
            "wall_s": time.monotonic() - started_s,
            "ended_s": time.time(),
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "told": len(told),
        }
    last_s = json.loads(wanted.with_name("last.json").read_text())
    sys.stdout.write(json.dumps(found | {"lag_s": found["ended_s"] - last_s}) + "\n")


def _make(cluster: Cluster, options: argparse.Namespace) -> list[Raw]:
    """Create everything, without statuses."""
    for number in range(_NODES):
        make_node(cluster, f"n{number:02}")
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": AT, "lastTransitionTime": AT}
        cluster.merge_patch(f"{NODES}/n{number:02}/status", {"status": {"conditions": [ready]}})
    made: list[Raw] = []
    for number in range(options.deployments + options.kustomizations):
        namespace = ensure_namespace(cluster, f"team-{number % options.namespaces}")
        if number < options.deployments:
            made.append(_make_deployment(cluster, namespace, number))
            continue
        name = f"app-{number}"
        spec = {"interval": "10m", "prune": True, "path": ".", "sourceRef": {"kind": "GitRepository", "name": "x"}}
        body: Raw = {"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "spec": spec}
        path = f"{KUSTOMIZE}/namespaces/{namespace}/kustomizations"
        made.append(_named(cluster.create(path, body | {"metadata": {"name": name}}), "kustomizations"))
    return made


def _make_deployment(cluster: Cluster, namespace: str, number: int) -> Raw:
    name, selector = f"web-{number}", {"matchLabels": {"app": "web"}}
    meta: Raw = {"name": name, "annotations": {REVISION: "1"}}
    spec: Raw = {"replicas": 2, "selector": selector, "template": TEMPLATE}
    body: Raw = {"apiVersion": "apps/v1", "metadata": meta, "spec": spec}
    made = cluster.create(f"{APPS}/namespaces/{namespace}/deployments", body | {"kind": "Deployment"})
    owner = {"ownerReferences": [_owner(made)]}
    owned = body | {"kind": "ReplicaSet", "metadata": meta | owner}
    replica_set = cluster.create(f"{APPS}/namespaces/{namespace}/replicasets", owned)
    for index in range(2):
        pod: Raw = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-{index}",
                "ownerReferences": [_owner(replica_set)],
                "labels": {"app": "web"},
            },
            "spec": TEMPLATE["spec"] | {"nodeName": f"n{(2 * number + index) % _NODES:02}"},
        }
        cluster.create(f"/api/v1/namespaces/{namespace}/pods", pod)
    return _named(made, "deployments")


def _owner(made: Raw) -> Raw:
    meta = made["metadata"]
    return {
        "apiVersion": "apps/v1",
        "kind": made["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }


def _named(made: Raw, plural: str) -> Raw:
    meta = made["metadata"]
    names = {key: meta[key] for key in ("namespace", "name", "uid")}
    return names | {"apiVersion": made["apiVersion"], "kind": made["kind"], "plural": plural}


def _bring_up(cluster: Cluster, made: list[Raw], *, seconds: float) -> None:
    """Write the statuses, one object after the other."""
    started_s = time.monotonic()
    for number, one in enumerate(made):
        time.sleep(max(0.0, started_s + seconds * number / len(made) - time.monotonic()))
        path = f"/apis/{one['apiVersion']}/namespaces/{one['namespace']}/{one['plural']}/{one['name']}/status"
        if one["kind"] == "Deployment":
            for index in range(2):
                ready = {"type": "Ready", "status": "True", "lastTransitionTime": AT}
                pod = f"/api/v1/namespaces/{one['namespace']}/pods/{one['name']}-{index}/status"
                _write(cluster, pod, {"phase": "Running", "conditions": [ready]})
            counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 2)
            good = {"type": "Available", "status": "True", "lastTransitionTime": AT}
            _write(cluster, path, counts | {"observedGeneration": 1, "conditions": [good]})
        else:
            good = {
                "type": "Ready",
                "status": "True",
                "reason": "ReconciliationSucceeded",
                "message": "m",
                "lastTransitionTime": AT,
            }
            _write(cluster, path, {"observedGeneration": 1, "conditions": [good]})
    (cluster.kubeconfig_file().parent / "last.json").write_text(json.dumps(time.time()))


def _write(cluster: Cluster, path: str, status: Raw) -> None:
    answer = cluster.merge_patch(path, {"status": status})
    assert answer.status == 200, answer.text


def _requests(audit_log: Path) -> Counter[str]:
    """Count requests by verb and resource; a watch once, although its beginning and its end are both logged."""
    seen: dict[str, str] = {}
    for line in audit_log.read_text().splitlines():
        event = json.loads(line)
        ref = event.get("objectRef", {})
        seen[event["auditID"]] = f"{event['verb']} {ref.get('resource', event['requestURI'])}"
    return Counter(seen.values())


if __name__ == "__main__":
    main()
