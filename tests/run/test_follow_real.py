"""
Following on a real API server with the real kube-controller-manager; only the kubelets are scripted.

Aspects: becomes ready · crash loop · image missing on one node · DaemonSet with a node down and one cordoned · stuck
in the middle · a Job that backs off · deleted during the follow. All scenes are played at once, on one cluster.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencectl.core.rollout import Cause, NodeRollout as N, RolloutVerdict as V, Target
from tests.support.clusters import Cluster, Raw, make_namespace
from tests.support.realcluster import RealCluster
from tests.support.rollouts import APPS, Follow, Played, Theatre, change, make, until, workload

pytestmark = pytest.mark.real

# The follow's clock: graces of half a minute need not be waited out.
TIMES = 10.0


def ready(cluster: Cluster, follow: Follow, theatre: Theatre) -> Played:
    namespace = make_namespace(cluster)
    return follow(
        make(cluster, "deployments", workload("Deployment", "web", "ready", replicas=2), namespace=namespace)
    )


def crash(cluster: Cluster, follow: Follow, theatre: Theatre) -> Played:
    namespace = make_namespace(cluster)
    return follow(make(cluster, "deployments", workload("Deployment", "web", "crash"), namespace=namespace))


def image(cluster: Cluster, follow: Follow, theatre: Theatre) -> Played:
    namespace = make_namespace(cluster)
    raw = workload("Deployment", "web", "image-n2", replicas=3)
    return follow(make(cluster, "deployments", raw, namespace=namespace))


def _daemons(cluster: Cluster, theatre: Theatre, *tolerations: Raw) -> Target:
    """Let a DaemonSet run on every node, lose one of them, and deploy the next version."""
    raw = workload("DaemonSet", "agent", "ready")
    raw["spec"]["template"]["spec"]["tolerations"] = list(tolerations)
    # NB: with 1 the pod on the lost node holds up all others.
    raw["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
    first = make(cluster, "daemonsets", raw, namespace=make_namespace(cluster))
    until(lambda: cluster.get(first.ref.path)["status"].get("numberAvailable") == 5)
    theatre.lose(cluster, "n-down", after=2)
    labels = {"app": "agent", "does": "ready", "version": "2"}
    return change(cluster, first, {"spec": {"template": {"metadata": {"labels": labels}}}})


def daemons(cluster: Cluster, follow: Follow, theatre: Theatre) -> Played:
    return follow(_daemons(cluster, theatre, {"operator": "Exists"}), timeout_s=150.0)


def plain_daemons(cluster: Cluster, follow: Follow, theatre: Theatre) -> Played:
    return follow(_daemons(cluster, theatre))


def stuck(cluster: Cluster, follow: Follow, theatre: Theatre) -> Played:
    namespace = make_namespace(cluster)
    raw = workload("StatefulSet", "cart", "ready", replicas=3, serviceName="cart", podManagementPolicy="Parallel")
    first = make(cluster, "statefulsets", raw, namespace=namespace)
    until(lambda: cluster.get(first.ref.path)["status"].get("availableReplicas") == 3)
    labels = {"app": "cart", "does": "crash-1"}
    return follow(change(cluster, first, {"spec": {"template": {"metadata": {"labels": labels}}}}))


def backs_off(cluster: Cluster, follow: Follow, theatre: Theatre) -> Played:
    namespace = make_namespace(cluster)
    pod = workload("Job", "import", "fail")["spec"]["template"]
    pod["spec"]["restartPolicy"] = "Never"
    raw: Raw = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "import"},
        "spec": {"backoffLimit": 1, "template": pod},
    }
    return follow(make(cluster, "jobs", raw, namespace=namespace))


def deleted(cluster: Cluster, follow: Follow, theatre: Theatre) -> Played:
    namespace = make_namespace(cluster)
    target = make(cluster, "deployments", workload("Deployment", "web", "nothing"), namespace=namespace)

    def when_told(text: str) -> None:
        if " 0 available" in text:
            cluster.request("DELETE", target.ref.path, query={"propagationPolicy": "Background"})

    return follow(target, when_told)


SCENES = {
    scene.__name__: scene for scene in (ready, crash, image, daemons, plain_daemons, stuck, backs_off, deleted)
}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Played]]:
    """Play all scenes, once for all tests."""
    with RealCluster(controllers=True) as real:
        theatre = Theatre(real, tmp_path_factory.mktemp("theatre"), TIMES)
        cluster = theatre.cluster
        for name in ("n1", "n2", "n3"):
            theatre.kubelet.join(name)
        theatre.kubelet.join("n-cordoned", unschedulable=True)
        theatre.kubelet.join("n-down")
        theatre.kubelet.reserved.add("n-down")
        # NB: the controllers refuse pods before a namespace has its service account; once one has, they run.
        until(lambda: cluster.request("GET", "/api/v1/namespaces/default/serviceaccounts/default").status == 200)
        assert cluster.get(APPS)
        theatre.begin()
        for name, scene in SCENES.items():
            theatre.scene(name, scene)
        theatre.end()
        yield theatre.played


# What each verdict waits out before it counts, in seconds of the follow's clock.
GRACE_S = {
    "ready": 2.0,
    "crash": 0.0,
    "image": 30.0,
    "daemons": 150.0,
    "plain_daemons": 2.0,
    "stuck": 0.0,
    "backs_off": 0.0,
    "deleted": 20.0,
}


def test_results_say_when_they_were_noticed(played: dict[str, Played]) -> None:
    """None before its grace is over, and each long before the ten minutes of the follow are."""
    assert GRACE_S.keys() == SCENES.keys()
    for name, scene in played.items():
        [result] = scene.followed.results
        assert GRACE_S[name] <= result.noticed_s <= scene.followed.took_s < 600.0, name


def test_deployment_that_becomes_ready_succeeds(played: dict[str, Played]) -> None:
    found = played["ready"].followed
    assert (found.outcome, found.results[0].reason) == (V.SUCCEEDED, "2 replicas updated and available")
    assert found.notes == ()


def test_deployment_that_crash_loops_fails_with_container_exit_code_and_node(played: dict[str, Played]) -> None:
    [result] = played["crash"].followed.results
    assert (result.verdict, result.cause, result.reason) == (
        V.FAILED,
        Cause.CRASH,
        "crash loop, 4 restarts (budget 3)",
    )
    [one] = result.pods
    assert (one.trouble.container, one.trouble.exit_code, one.trouble.ran_s) == ("c", 3, 4.0)
    assert one.trouble.node in {"n1", "n2", "n3"}
    # There is no kubelet that could give a log: that is said, and the verdict stands.
    assert [text.partition(":")[0] for text in one.missing] == ["log"]


def test_image_that_cannot_be_pulled_on_one_node_fails_with_that_node(played: dict[str, Played]) -> None:
    """Two of three are fine, and the deploy is not."""
    [result] = played["image"].followed.results
    assert (result.verdict, result.cause) == (V.FAILED, Cause.IMAGE)
    assert [one.trouble.node for one in result.pods] == ["n2"]
    assert result.reason == "image cannot be pulled (ImagePullBackOff)"


GOOD_NODES = dict.fromkeys(("n1", "n2", "n3", "n-cordoned"), N.UPDATED)


def test_daemon_set_with_a_node_down_and_one_cordoned_times_out_on_the_node_alone(
    played: dict[str, Played],
) -> None:
    """case_54: the cordoned node is updated like any other; the one that is down is named, and nothing else is."""
    found = played["daemons"].followed
    [result] = found.results
    assert (result.verdict, result.cause, found.blames_nodes) == (V.TIMED_OUT, Cause.NODE, True)
    assert {one.node: one.state for one in result.nodes} == GOOD_NODES | {"n-down": N.NOT_CONFIRMED}
    assert result.nodes[0].why.startswith("the node is down: its condition Ready is")
    assert "n-down is down" in result.reason


def test_daemon_set_that_does_not_tolerate_a_node_that_is_down_is_done_without_it(
    played: dict[str, Played],
) -> None:
    """Its controller does not want that node any more. What is on it nobody can confirm, and that is said."""
    [result] = played["plain_daemons"].followed.results
    assert result.verdict is V.SUCCEEDED
    assert {one.node: one.state for one in result.nodes} == GOOD_NODES | {"n-down": N.NOT_CONFIRMED}
    assert result.reason == "updated and available on 4 nodes; not confirmed on n-down"


def test_stateful_set_stuck_in_the_middle_fails_with_the_pod_that_holds_it_up(played: dict[str, Played]) -> None:
    """cart-2 is new and ready, cart-1 is new and crashes, cart-0 is old: three of three are there."""
    [result] = played["stuck"].followed.results
    assert (result.verdict, result.cause) == (V.FAILED, Cause.CRASH)
    assert result.pods[0].trouble.pod == "cart-1"
    assert result.pods[0].trouble.node is not None
    assert result.reason == "crash loop, 4 restarts (budget 3)"


def test_job_that_backs_off_is_waited_for_until_it_gives_up(played: dict[str, Played]) -> None:
    """The first failure is told, the second is the end, by the Job's own word."""
    scene = played["backs_off"]
    [result] = scene.followed.results
    assert (result.verdict, result.cause) == (V.FAILED, Cause.JOB)
    assert result.reason.startswith("BackoffLimitExceeded: ")
    assert any("after 1 pod failed (limit 1)" in text for text in scene.said)
    assert {one.trouble.exit_code for one in result.pods} == {3}
    assert {one.trouble.node for one in result.pods} <= {"n1", "n2", "n3"}


def test_object_deleted_during_the_follow_is_unknown(played: dict[str, Played]) -> None:
    [result] = played["deleted"].followed.results
    assert (result.verdict, result.cause) == (V.UNKNOWN, Cause.NOT_FOUND)
    assert result.reason.startswith("not found: it was there, and somebody deleted it")
