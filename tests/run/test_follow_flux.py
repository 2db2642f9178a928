"""
Following a revision that the real kustomize-controller applies, from a source that the test plays.

Aspects: the revision before is no success · the wanted one is · a revision that cannot be applied fails on its third
try, not at the time-out · suspended.
"""

from __future__ import annotations

import hashlib
import http.server
import io
import tarfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from fencectl.core.refs import ObjectRef
from fencectl.core.rollout import Cause, Result, RolloutVerdict as V, Target
from fencectl.run.follow import Follower
from tests.kube.looking import opened
from tests.support.clusters import SOURCE, Cluster, Raw, ensure_namespace, make_kustomization, path_of
from tests.support.realcluster import RealCluster
from tests.support.rollouts import HastyClock

pytestmark = pytest.mark.real

AT = "2026-11-30T02:00:00Z"
ONE, TWO, THREE = ("a" * 40, "b" * 40, "d" * 40)


def config_map(namespace: str, value: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: made, namespace: {namespace}}}\ndata: {{v: '{value}'}}\n"


@dataclass
class Source:
    """A GitRepository whose artifacts this process serves."""

    cluster: Cluster
    blobs: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        blobs = self.blobs

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                data = blobs[self.path]
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None: ...

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        ensure_namespace(self.cluster, "flux-system")
        self.path = f"{SOURCE}/namespaces/flux-system/gitrepositories"
        body: Raw = {
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "GitRepository",
            "metadata": {"name": "repo"},
        }
        self.cluster.create(self.path, body | {"spec": {"url": "https://example.com/x", "interval": "1m"}})

    def publish(self, digest: str, manifest: str) -> None:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as archive:
            info = tarfile.TarInfo("cm.yaml")
            info.size = len(manifest)
            archive.addfile(info, io.BytesIO(manifest.encode()))
        data, name = out.getvalue(), f"/{digest}.tar.gz"
        self.blobs[name] = data
        artifact = {
            "path": name,
            "url": f"http://127.0.0.1:{self.server.server_port}{name}",
            "revision": f"main@sha1:{digest}",
            "digest": f"sha256:{hashlib.sha256(data).hexdigest()}",
            "size": len(data),
            "lastUpdateTime": AT,
        }
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Succeeded",
            "message": "m",
            "lastTransitionTime": AT,
        }
        status = {"artifact": artifact, "observedGeneration": 1, "conditions": [ready]}
        assert self.cluster.merge_patch(f"{self.path}/repo/status", {"status": status}).status == 200

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def source(real_cluster: RealCluster, real: Cluster) -> Iterator[Source]:
    """Run kustomize-controller over a source, at its first revision."""
    made = Source(real)
    made.publish(ONE, config_map("default", "1"))
    program = real_cluster.start_kustomize_controller()
    yield made
    real_cluster.stop_program(program)
    made.close()
    real.request("DELETE", "/api/v1/namespaces/default/configmaps/made")


def follow(
    apps: Raw, cluster: Cluster, revision: str, on_tell: Callable[[], None] | None = None
) -> tuple[Result, list[str]]:
    """Follow a revision; `on_tell` is called once, when the first thing was told."""
    meta, told = cluster.get(path_of(apps))["metadata"], list[str]()

    def tell(text: str) -> None:
        told.append(text)
        if on_tell is not None and len(told) == 1:
            on_tell()

    ref = ObjectRef(
        apps["apiVersion"], "Kustomization", "kustomizations", "flux-system", meta["name"], meta["uid"]
    )
    with opened(cluster) as transport:
        target = Target(ref, meta["generation"], revision)
        [result] = Follower(transport, HastyClock(5.0), tell).follow([target], 300.0).results
    return result, told


def test_revision_is_followed_until_it_is_applied_or_fails_again_and_again(source: Source) -> None:
    """One after the other on one object: applied, the next one applied, one that cannot be, and suspended."""
    spec = {"interval": "10m", "retryInterval": "1s", "prune": True, "path": "./"}
    reference = {"kind": "GitRepository", "name": "repo"}
    apps = make_kustomization(source.cluster, spec=spec | {"sourceRef": reference})
    first, _ = follow(apps, source.cluster, ONE[:7])
    assert (first.verdict, first.reason) == (V.SUCCEEDED, f"ready at main@sha1:{ONE}")

    second, told = follow(apps, source.cluster, TWO[:7], lambda: source.publish(TWO, config_map("default", "2")))
    assert second.verdict is V.SUCCEEDED
    assert told[0].endswith(f"it has applied main@sha1:{ONE}, not {TWO[:7]}")
    assert source.cluster.get("/api/v1/namespaces/default/configmaps/made")["data"] == {"v": "2"}

    third, told = follow(apps, source.cluster, f"main@sha1:{THREE[:7]}", lambda: source.publish(THREE, config_map("nowhere", "3")))  # fmt: skip
    assert (third.verdict, third.cause) == (V.FAILED, Cause.CONDITION)
    assert third.reason.startswith("ReconciliationFailed: ")
    assert 'namespaces "nowhere" not found' in third.reason

    assert source.cluster.merge_patch(path_of(apps), {"spec": {"suspend": True}}).status == 200
    last, _ = follow(apps, source.cluster, TWO[:7])
    assert (last.verdict, last.cause) == (V.UNKNOWN, Cause.SUSPENDED)
