"""
Following a revision that the real kustomize-controller applies, from a source that the test plays.

Aspects: the revision before is no success · the wanted one is · a revision that cannot be applied fails on its third
try, not at the time-out · suspended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from fencectl.core.refs import ObjectRef
from fencectl.core.rollout import Cause, Result, RolloutVerdict as V, Target
from fencectl.run.follow import Follower
from tests.kube.looking import opened
from tests.support.clusters import Cluster, Raw, make_kustomization, path_of
from tests.support.flux_source import Source
from tests.support.realcluster import RealCluster
from tests.support.rollouts import HastyClock

pytestmark = pytest.mark.real

ONE, TWO, THREE = ("a" * 40, "b" * 40, "d" * 40)


def config_map(namespace: str, value: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: made, namespace: {namespace}}}\ndata: {{v: '{value}'}}\n"


@pytest.fixture
def source(real_cluster: RealCluster, real: Cluster) -> Iterator[Source]:
    """Run kustomize-controller over a source, at its first revision."""
    made = Source(real)
    made.publish(ONE, {"cm.yaml": config_map("default", "1")})
    program = real_cluster.start_kustomize_controller()
    yield made
    real_cluster.stop_program(program)
    made.close()
    real.request("DELETE", "/api/v1/namespaces/default/configmaps/made")


def follow(
    apps: Raw, cluster: Cluster, revision: str, on_tell: Callable[[], object] | None = None
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

    second, told = follow(
        apps, source.cluster, TWO[:7], lambda: source.publish(TWO, {"cm.yaml": config_map("default", "2")})
    )
    assert second.verdict is V.SUCCEEDED
    assert told[0].endswith(f"it has applied main@sha1:{ONE}, not {TWO[:7]}")
    assert source.cluster.get("/api/v1/namespaces/default/configmaps/made")["data"] == {"v": "2"}

    third, told = follow(apps, source.cluster, f"main@sha1:{THREE[:7]}", lambda: source.publish(THREE, {"cm.yaml": config_map("nowhere", "3")}))  # fmt: skip
    assert (third.verdict, third.cause) == (V.FAILED, Cause.CONDITION)
    assert third.reason.startswith("ReconciliationFailed: ")
    assert 'namespaces "nowhere" not found' in third.reason

    assert source.cluster.merge_patch(path_of(apps), {"spec": {"suspend": True}}).status == 200
    last, _ = follow(apps, source.cluster, TWO[:7])
    assert (last.verdict, last.cause) == (V.UNKNOWN, Cause.SUSPENDED)
