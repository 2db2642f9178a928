"""
Aspects, on both clusters: which nodes, Flux objects, leases and records are seen · whole and unchanged · in pages ·
what a user may not read · which requests are sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fencectl.cluster import observe as module
from fencectl.cluster.clock import SystemClock
from fencectl.cluster.observe import Part, observe
from fencectl.core.errors import NotReadableError
from fencectl.core.observation import Observation
from fencectl.core.profiles import (
    BRIDGE_CHILD_OWNER,
    BRIDGE_NODE_JOURNAL,
    BRIDGE_NODE_OWNER,
    BRIDGE_NODE_PHASE,
    BRIDGE_PARENT_OWNER,
    FENCECTL,
    GHCR_BRIDGE,
    HOLDER,
    JOURNAL,
    LEASE_LABEL,
)
from fencectl.core.refs import Seen, dig
from fencectl.sandbox import Sandbox
from tests.kube.looking import look, opened
from tests.kube.scripted import wait_until
from tests.support.clusters import (
    Cluster,
    grant,
    make_configmap,
    make_git_repository,
    make_kustomization,
    make_lease,
    make_node,
)

FLUX_KINDS = {
    "kustomize": ["kustomizations"],
    "source": [
        "gitrepositories",
        "ocirepositories",
        "buckets",
        "helmrepositories",
        "helmcharts",
        "externalartifacts",
    ],
    "helm": ["helmreleases"],
    "image": ["imagerepositories", "imagepolicies", "imageupdateautomations"],
    "notification": ["receivers", "alerts", "providers"],
}
READ_FLUX: dict[str, Any] = {
    "apiGroups": [f"{name}.toolkit.fluxcd.io" for name in FLUX_KINDS],
    "resources": [plural for plurals in FLUX_KINDS.values() for plural in plurals],
    "verbs": ["get", "list"],
}
READ_LEASES: dict[str, Any] = {
    "apiGroups": ["coordination.k8s.io"],
    "resources": ["leases"],
    "verbs": ["get", "list"],
}
READ_CONFIGMAPS: dict[str, Any] = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
READ_NODES: dict[str, Any] = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}


def names(seen: Iterable[Seen]) -> list[str]:
    return [one.ref.name for one in seen]


def allow(cluster: Cluster, *rules: dict[str, Any], namespace: str | None = None) -> None:
    """Give the viewer rights, and wait until the server knows (it learns of roles by a watch)."""
    grant(cluster, "viewer", *rules, namespace=namespace)
    where = f"/namespaces/{namespace}" if namespace else ""
    for rule in rules:
        name = "/any" if rule["verbs"] == ["get"] else ""
        for group in rule["apiGroups"]:
            base = f"/apis/{group}/v1" if group else "/api/v1"
            within = where or ("/namespaces/default" if name else "")
            for resource in rule["resources"]:
                _wait_until_allowed(cluster, f"{base}{within}/{resource}{name}")


def _wait_until_allowed(cluster: Cluster, path: str) -> None:
    wait_until(lambda: cluster.request("GET", path, user="viewer").status != 403)


def whats(found: Observation) -> list[str]:
    return [one.what for one in found.unreadable]


def assert_as_a_single_read(cluster: Cluster, found: Iterable[Seen]) -> None:
    """case_15: everything that a patch may guard is the object's own, byte for byte."""
    for seen in found:
        now = cluster.get(seen.ref.path)
        dig(now, "status").pop("images", None) if now["kind"] == "Node" else None
        assert seen.raw == now
        assert seen.ref.uid == now["metadata"]["uid"]


NODE_STATES: dict[str, dict[str, Any]] = {
    "a-owner-only": {"annotations": {HOLDER: "x"}, "unschedulable": True},
    "b-journal-only": {"annotations": {JOURNAL: "{}"}, "unschedulable": True},
    "c-both": {"annotations": {HOLDER: "x", JOURNAL: "{}"}, "unschedulable": True},
    "d-owner-empty": {"annotations": {HOLDER: ""}, "unschedulable": True},
    "e-foreign-cordon": {"unschedulable": True},
    "f-owner-not-cordoned": {"annotations": {HOLDER: "x"}},
    "g-owner-cordon-false": {"annotations": {HOLDER: "x"}, "unschedulable": False},
}


def test_every_state_of_a_node_is_seen_and_read_whole(clean_cluster: Cluster) -> None:
    """case_14, case_15: either mark, an empty one, a cordon without marks, marks without a cordon."""
    for name, state in NODE_STATES.items():
        make_node(clean_cluster, name, **state)
    make_node(clean_cluster, "h-plain", annotations={"other": "x"})
    make_node(clean_cluster, "i-schedulable", unschedulable=False)
    found = look(clean_cluster)
    assert names(found.nodes) == sorted(NODE_STATES)
    assert found.counts.nodes == len(NODE_STATES) + 2
    assert found.unreadable == ()
    assert_as_a_single_read(clean_cluster, found.nodes)


def test_node_that_is_being_deleted_is_seen_and_one_that_is_gone_is_not(clean_cluster: Cluster) -> None:
    """case_18: a node on its way out still stands in the report; a gone one makes no gap in it."""
    marks = {HOLDER: "x"}
    leaving = make_node(clean_cluster, annotations=marks)
    gone = make_node(clean_cluster, annotations=marks)
    path = f"/api/v1/nodes/{leaving['metadata']['name']}"
    clean_cluster.merge_patch(path, {"metadata": {"finalizers": ["example.com/wait"]}})
    clean_cluster.request("DELETE", path)
    clean_cluster.request("DELETE", f"/api/v1/nodes/{gone['metadata']['name']}")
    (seen,) = look(clean_cluster).nodes
    assert seen.ref.name == leaving["metadata"]["name"]
    assert seen.raw["metadata"]["deletionTimestamp"]


def test_marked_and_suspended_flux_objects_are_seen(clean_cluster: Cluster) -> None:
    """case_22: forty foreign suspensions, one of ours, one whose mark was left behind, another kind."""
    for number in range(40):
        make_kustomization(clean_cluster, f"foreign-{number:02}", suspend=True)
    make_kustomization(clean_cluster, "ours", suspend=True, annotations={HOLDER: "x", JOURNAL: "{}"})
    make_kustomization(clean_cluster, "stale-mark", suspend=False, annotations={HOLDER: "x"})
    make_kustomization(clean_cluster, "plain")
    make_kustomization(clean_cluster, "not-suspended", suspend=False)
    make_git_repository(clean_cluster, "repository", suspend=True)
    found = look(clean_cluster)
    by_kind = {seen.ref.kind for seen in found.flux}
    assert by_kind == {"GitRepository", "Kustomization"}
    seen_names = names(found.flux)
    assert {"ours", "stale-mark", "repository", "foreign-00", "foreign-39"} <= set(seen_names)
    assert len(seen_names) == 43
    assert found.counts.flux_objects == 45
    assert found.counts.flux_kinds >= 6
    assert_as_a_single_read(clean_cluster, found.flux)


def test_leases_are_found_by_label_and_by_name_with_their_records(clean_cluster: Cluster) -> None:
    """A lease of somebody else's config is found by its label; the profile's own and the other tool's by name."""
    make_lease(clean_cluster, "team-deploy", namespace="team-a", labels={LEASE_LABEL: "lease"})
    make_lease(clean_cluster, "fencectl-deploy", namespace="flux-system")
    make_lease(clean_cluster, "ghcr-auth-refresh", namespace="flux-system")
    make_lease(clean_cluster, "named-in-config", namespace="team-b")
    make_lease(clean_cluster, "unrelated", namespace="team-b")
    make_configmap(clean_cluster, "team-deploy-record", namespace="team-a", data={"hold-freeze": "{}"})
    make_configmap(clean_cluster, "fencectl-deploy-record", namespace="flux-system", data={"record-1": "{}"})
    make_configmap(clean_cluster, "unrelated-record", namespace="team-b", data={"hold-freeze": "{}"})
    found = look(clean_cluster, leases=[("team-b", "named-in-config"), ("team-b", "not-there")])
    assert [seen.ref.display for seen in found.leases] == [
        "lease/flux-system/fencectl-deploy",
        "lease/flux-system/ghcr-auth-refresh",
        "lease/team-a/team-deploy",
        "lease/team-b/named-in-config",
    ]
    assert names(found.records) == ["fencectl-deploy-record", "team-deploy-record"]
    assert (found.counts.leases, found.counts.holds) == (4, 1)
    assert_as_a_single_read(clean_cluster, [*found.leases, *found.records])


def test_other_profile_is_read_by_its_own_names(clean_cluster: Cluster) -> None:
    """Each of the other tool's annotations makes a fence of an object; ours do not, there."""
    for number, key in enumerate((BRIDGE_NODE_OWNER, BRIDGE_NODE_PHASE, BRIDGE_NODE_JOURNAL)):
        make_node(clean_cluster, f"node-{number}", annotations={key: "x"})
    for number, key in enumerate((BRIDGE_CHILD_OWNER, BRIDGE_PARENT_OWNER)):
        make_kustomization(clean_cluster, f"layer-{number}", annotations={key: "x"})
    make_node(clean_cluster, "of-the-default-profile", annotations={HOLDER: "x"})
    found = look(clean_cluster, profile=GHCR_BRIDGE)
    assert names(found.nodes) == ["node-0", "node-1", "node-2"]
    assert names(found.flux) == ["layer-0", "layer-1"]


def test_small_pages_show_the_same(clean_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """However a list is cut into pages, nothing is lost or doubled between them."""
    for number in range(7):
        make_node(clean_cluster, f"n-{number}", unschedulable=True, annotations={HOLDER: "x"})
        make_kustomization(clean_cluster, f"k-{number}", suspend=True)
        make_lease(clean_cluster, f"l-{number}", labels={LEASE_LABEL: "lease"})
    whole = look(clean_cluster)
    for size in ("METADATA_PAGE", "CORDONED_PAGE", "PAGE"):
        monkeypatch.setattr(module, size, 3)
    paged = look(clean_cluster)
    assert (paged.nodes, paged.flux, paged.leases) == (whole.nodes, whole.flux, whole.leases)
    assert paged.counts == whole.counts
    assert (len(paged.nodes), len(paged.flux), len(paged.leases)) == (7, 7, 7)


def test_cluster_uid_is_that_of_kube_system(clean_cluster: Cluster) -> None:
    """It names the cluster where no context does."""
    assert (
        look(clean_cluster).cluster_uid == clean_cluster.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    )


def test_time_is_the_servers_and_close_to_ours(clean_cluster: Cluster) -> None:
    """Both run on this machine, so no difference may be claimed."""
    found = look(clean_cluster)
    assert abs((found.observed_at - datetime.now(UTC)).total_seconds()) < 60
    assert found.skew_s == 0


def test_user_who_may_not_list_nodes_gets_everything_else(clean_cluster: Cluster) -> None:
    """The report names the right that is missing, and goes on."""
    allow(clean_cluster, READ_FLUX, READ_LEASES, READ_CONFIGMAPS)
    make_node(clean_cluster, annotations={HOLDER: "x"})
    make_kustomization(clean_cluster, "ours", annotations={HOLDER: "x"})
    found = look(clean_cluster, user="viewer")
    assert [(one.what, one.why) for one in found.unreadable] == [
        ("nodes", "forbidden: user viewer may not `list` nodes (cluster scope)")
    ]
    assert (names(found.nodes), names(found.flux)) == ([], ["ours"])


def test_user_without_any_right_reads_nothing_and_every_gap_is_named(clean_cluster: Cluster) -> None:
    """Never "no fence": each kind, each lease and each record is missing by name."""
    found = look(clean_cluster, user="viewer")
    assert {
        "nodes",
        "leases.coordination.k8s.io",
        "lease/flux-system/fencectl-deploy",
        "configmap/flux-system/fencectl-deploy-record",
        "kustomizations.kustomize.toolkit.fluxcd.io",
        "gitrepositories.source.toolkit.fluxcd.io",
    } <= set(whats(found))
    assert found.cluster_uid is None


def test_user_who_may_not_list_leases_can_say_that_config_names_them_all(clean_cluster: Cluster) -> None:
    """`discovery: configured` needs no right on leases beyond the named ones."""
    allow(clean_cluster, READ_NODES, READ_CONFIGMAPS, READ_FLUX)
    make_lease(clean_cluster, "fencectl-deploy", namespace="flux-system")
    by_name = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]}
    allow(clean_cluster, by_name, namespace="flux-system")
    assert whats(look(clean_cluster, user="viewer")) == ["leases.coordination.k8s.io"]
    found = look(clean_cluster, user="viewer", discovery="configured")
    assert (whats(found), names(found.leases)) == ([], ["fencectl-deploy"])


def test_part_is_read_again_and_the_rest_is_taken_over(clean_cluster: Cluster) -> None:
    """A display that is refreshed reads only what changed."""
    make_node(clean_cluster, "n-1", annotations={HOLDER: "x"})
    make_kustomization(clean_cluster, "k-1", suspend=True)
    first = look(clean_cluster)
    make_node(clean_cluster, "n-2", annotations={HOLDER: "x"})
    make_kustomization(clean_cluster, "k-2", suspend=True)
    make_lease(clean_cluster, "fencectl-deploy", namespace="flux-system")
    second = look(clean_cluster, previous=first, parts=frozenset({Part.NODES}))
    assert (names(second.nodes), names(second.flux), names(second.leases)) == (["n-1", "n-2"], ["k-1"], [])
    third = look(clean_cluster, previous=second, parts=frozenset({Part.FLUX, Part.LEASES}))
    assert (names(third.nodes), names(third.flux)) == (["n-1", "n-2"], ["k-1", "k-2"])
    assert names(third.leases) == ["fencectl-deploy"]
    assert (third.cluster_uid, third.counts) == (first.cluster_uid, look(clean_cluster).counts)


def test_gap_of_a_part_that_is_not_read_again_stays(clean_cluster: Cluster) -> None:
    """What could not be read does not heal by not asking."""
    allow(clean_cluster, READ_FLUX, READ_LEASES, READ_CONFIGMAPS)
    first = look(clean_cluster, user="viewer")
    second = look(clean_cluster, user="viewer", previous=first, parts=frozenset({Part.FLUX, Part.LEASES}))
    assert whats(second) == ["nodes"]
    allow(clean_cluster, READ_NODES)
    third = look(clean_cluster, user="viewer", previous=second, parts=frozenset({Part.NODES}))
    assert whats(third) == []


@pytest.mark.real
def test_expired_token_is_one_sentence(real: Cluster, tmp_path: Path) -> None:
    """Every read would fail in the same way, so there is one error and no report."""
    broken = Cluster("real", real.backend, tmp_path)
    text = real.kubeconfig_file().read_text()
    start = text.index("token: ") + len("token: ")
    path = broken.kubeconfig_file()
    path.write_text(text[:start] + "expired" + text[text.index("\n", start) :])
    with pytest.raises(NotReadableError, match="did not accept the credentials"):
        look(broken)


def test_only_get_is_sent_and_the_number_of_requests_depends_on_kinds(
    sandbox: Sandbox, sandbox_cluster: Cluster
) -> None:
    """A report never writes, and costs as many requests with a hundred objects as with none."""

    def requests() -> int:
        sandbox.requests.clear()
        look(sandbox_cluster)
        assert {entry.method for entry in sandbox.requests} == {"GET"}
        return len(sandbox.requests)

    empty = requests()
    for number in range(100):
        sandbox_cluster.create(
            "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n-{number}"}}
        )
        make_kustomization(sandbox_cluster, f"k-{number}", suspend=True)
    assert requests() == empty


def test_node_lists_carry_neither_specs_nor_images_of_all_nodes(
    sandbox: Sandbox, sandbox_cluster: Cluster
) -> None:
    """Never a list of whole nodes: the only whole ones are the cordoned."""
    look(sandbox_cluster)
    lists = [entry for entry in sandbox.requests if entry.path == "/api/v1/nodes"]
    assert len(lists) == 2
    for entry in lists:
        whole = "as=PartialObjectMetadataList" not in entry.headers["accept"]
        assert whole == (entry.query.get("fieldSelector") == "spec.unschedulable=true")


def test_cluster_without_flux_is_read_whole(sandbox: Sandbox, sandbox_cluster: Cluster) -> None:
    """Not installed is no gap."""
    sandbox.remove_flux()
    found = look(sandbox_cluster)
    assert (found.unreadable, found.counts.flux_kinds) == ((), 0)


def test_server_without_aggregated_discovery_shows_the_same(sandbox: Sandbox, sandbox_cluster: Cluster) -> None:
    """Old servers need some more requests, and that is all."""
    make_kustomization(sandbox_cluster, "k", suspend=True)
    new = look(sandbox_cluster)
    sandbox.aggregated_discovery = False
    old = look(sandbox_cluster)
    assert (old.flux, old.counts) == (new.flux, new.counts)


def test_list_that_expires_between_its_pages_is_read_from_the_start(
    sandbox: Sandbox, sandbox_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The object that was there all the time is seen, once, whatever happened to the history."""
    for number in range(5):
        make_kustomization(sandbox_cluster, f"k-{number}", suspend=True)
    monkeypatch.setattr(module, "PAGE", 2)
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "metadata": {"continue": "inconsistent"}}
    fault = sandbox.faults.refuse(status=410, body=gone, resource="kustomizations", after=1, times=1)
    found = look(sandbox_cluster)
    assert fault.hits == 1
    assert names(found.flux) == [f"k-{number}" for number in range(5)]
    assert found.unreadable == ()
    assert "inconsistent" not in str([entry.query for entry in sandbox.requests])


def test_throttled_list_is_read_after_the_pause_that_was_asked_for(
    sandbox: Sandbox, sandbox_cluster: Cluster
) -> None:
    """A busy server says when to come back; that is no gap."""
    fault = sandbox.faults.throttle(retry_after=0, resource="nodes", times=1)
    assert look(sandbox_cluster).unreadable == ()
    assert fault.hits == 1


def test_list_that_hangs_is_named_in_time(sandbox: Sandbox, sandbox_cluster: Cluster) -> None:
    """case_67: a server that takes a request and never answers it costs the deadline, and that part."""
    fault = sandbox.faults.hang(resource="nodes")
    found = look(sandbox_cluster, deadline_s=0.5)
    fault.release()
    assert [(one.what, one.why) for one in found.unreadable] == [("nodes", "no answer within 0.5s")]


def test_list_that_is_cut_off_is_named(sandbox: Sandbox, sandbox_cluster: Cluster) -> None:
    """A connection that breaks each time is a gap with its reason."""
    sandbox.faults.drop_before(resource="nodes")
    found = look(sandbox_cluster, deadline_s=5.0)
    assert whats(found) == ["nodes"]
    assert found.unreadable[0].why.startswith("connection closed, 3 tries in ")


def test_skew_is_what_the_servers_clock_proves(sandbox: Sandbox, sandbox_cluster: Cluster) -> None:
    """A server whose clock stands still somewhere else makes ours look as far off as that, at least."""
    sandbox.clock.freeze(datetime(2026, 1, 1, tzinfo=UTC))
    found = look(sandbox_cluster)
    assert found.observed_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert found.skew_s is not None
    assert abs(found.skew_s) > 3600


def test_server_that_is_gone_is_one_sentence(sandbox: Sandbox, sandbox_cluster: Cluster) -> None:
    """Nobody listens any more: no report, and the reason why."""
    with opened(sandbox_cluster) as transport:
        sandbox.stop()
        with pytest.raises(NotReadableError) as caught:
            observe(transport, profile=FENCECTL, clock=SystemClock(), deadline_s=1.0, server="")
    assert caught.value.sentence.startswith("sandbox did not answer: http://127.0.0.1:")
    assert "connection refused" in (caught.value.reason or "")
    assert 'This is not "no fence"' in (caught.value.reason or "")
