"""
The main job: what a killed run left is shown in order, each printed command lifts one fence, and all comes back.

Every test runs on the sandbox and on a real API server, with the real kubectl and the real `sh`.
"""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from fencectl.core.journal import Phase
from tests.e2e.conftest import Fencectl
from tests.support.clusters import KUSTOMIZE, NODES, Cluster, make_kustomization, make_node, path_of
from tests.support.fencing import (
    BRIDGE,
    BRIDGE_HOLDER,
    bridge_chain,
    bridge_journal,
    essence,
    killed_chain,
    playing,
    state,
)
from tests.support.objects import HOLDER
from tests.support.program import run_shell

Raw = dict[str, Any]
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/flux-system/leases/fencectl-deploy"
CHILD = f"{KUSTOMIZE}/namespaces/flux-system/kustomizations/infrastructure"
PARENT = f"{KUSTOMIZE}/namespaces/flux-system/kustomizations/flux-system"
ORDER = [
    "node/worker-3",
    "node/worker-2",
    "kustomization/flux-system/infrastructure",
    "kustomization/flux-system/flux-system",
    "lease/flux-system/fencectl-deploy",
]


def displays(report: Raw) -> list[str]:
    return [
        "/".join(filter(None, (f["object"]["kind"].lower(), f["object"]["namespace"], f["object"]["name"])))
        for f in report["fences"]
        if f["ours"]
    ]


def test_printed_commands_release_a_killed_chain_in_order_and_restore_what_was(
    clean_cluster: Cluster, fencectl: Fencectl
) -> None:
    """Five fences, five commands, each by `sh` and kubectl; then no fence is held and every object is as it was."""
    before = killed_chain(clean_cluster)
    report = fencectl("fences", "--context", "prod", "-o", "json")
    assert report.code == 0, report.text
    assert displays(report.json) == ORDER
    assert report.json["held"] == 5
    assert {f["verdict"] for f in report.json["fences"] if f["ours"]} == {"unknown"}
    shown = fencectl("fences", "--context", "prod")
    assert "# NOT PROVEN DEAD" in shown.stdout
    assert "gh run view 18093344127 --repo acme/platform --attempt 2" in shown.stdout
    assert len(shown.commands) == 5
    for command in shown.commands:
        assert "--context prod " in command
        done = run_shell(clean_cluster, command)
        assert done.code == 0, done.stderr
    after = fencectl("fences", "--exit-code")
    assert after.code == 0
    assert "no fence is held" in after.stdout
    assert state(clean_cluster, *before) == {path: essence(obj) for path, obj in before.items()}
    lease = clean_cluster.get(LEASE_PATH)
    assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseDurationSeconds"]) == ("", 1)
    assert "annotations" not in lease["metadata"]


def test_release_script_of_a_named_holder_does_all_of_it(clean_cluster: Cluster, fencectl: Fencectl) -> None:
    """The script runs as it stands, says what it does, and stdout of `release` is nothing but the script."""
    before = killed_chain(clean_cluster)
    unproven = fencectl("release")
    assert (unproven.code, unproven.stdout) == (19, "")
    script = fencectl("release", "--holder", HOLDER)
    assert script.code == 0
    assert script.stderr.startswith("nothing was released: 5 commands for prod written")
    assert state(clean_cluster, *before) != {path: essence(obj) for path, obj in before.items()}
    done = run_shell(clean_cluster, script.stdout)
    assert done.code == 0, done.stderr
    assert "released 5 of 5" in done.stderr
    assert fencectl("fences", "--exit-code").code == 0
    assert state(clean_cluster, *before) == {path: essence(obj) for path, obj in before.items()}


def test_json_release_objects_hold_the_bytes_that_a_client_would_send(
    clean_cluster: Cluster, fencectl: Fencectl
) -> None:
    """`release -o json`: each body is sent as it is, in order, and accepted."""
    before = killed_chain(clean_cluster)
    released = fencectl("release", "--holder", "18093344127.2", "-o", "json").json
    assert [one["order"] for one in released] == [1, 2, 3, 4, 5]
    paths = [*list(before)[:1:-1], CHILD, PARENT, LEASE_PATH]
    for one, path in zip(released, paths, strict=True):
        assert one["contentType"] == "application/json-patch+json"
        assert clean_cluster.json_patch(path, one["body"]).status == 200
    assert state(clean_cluster, *before) == {path: essence(obj) for path, obj in before.items()}


def test_patch_files_are_private_and_work_with_kubectl(
    clean_cluster: Cluster, fencectl: Fencectl, tmp_path: Any
) -> None:
    """`--output-dir`: the printed lines apply the files; they hold cluster data, so nobody else may read them."""
    killed_chain(clean_cluster)
    folder = tmp_path / "patches"
    written = fencectl("release", "--holder", HOLDER, "--output-dir", str(folder))
    assert written.code == 0, written.text
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
    older = fencectl("release", "--holder", HOLDER, "--output-dir", str(folder))
    assert older.code == 2
    assert "exists already" in older.stderr
    done = run_shell(clean_cluster, "set -e\n" + written.stdout)
    assert done.code == 0, done.stderr
    assert fencectl("fences", "--exit-code").code == 0
    again = fencectl("release", "--holder", HOLDER, "--output-dir", str(folder))
    assert "there is nothing to release" in again.stderr


GUARDED = [
    (f"{NODES}/worker-3", "/metadata/annotations/fencectl.dev~1holder", "someone-else"),
    (f"{NODES}/worker-3", "/spec/unschedulable", False),
    (f"{NODES}/worker-2", "/metadata/annotations/fencectl.dev~1journal", "{}"),
    (CHILD, "/spec/suspend", False),
    (CHILD, "/metadata/annotations/kustomize.toolkit.fluxcd.io~1reconcile", "enabled"),
    (PARENT, "/metadata/annotations/fencectl.dev~1journal", "{}"),
    (LEASE_PATH, "/spec/renewTime", "2026-11-30T02:47:31.000000Z"),
    (LEASE_PATH, "/spec/holderIdentity", "ops-breakglass"),
]


def test_case_15_command_is_refused_once_a_guarded_value_has_changed_and_changes_nothing(
    clean_cluster: Cluster, fencectl: Fencectl
) -> None:
    """Each of its guards is tested by the server; the object stays as the other writer left it."""
    killed_chain(clean_cluster)
    script = {
        f"{NODES}/worker-3": 0,
        f"{NODES}/worker-2": 1,
        CHILD: 2,
        PARENT: 3,
        LEASE_PATH: 4,
    }
    commands = fencectl("fences").commands
    for path, pointer, value in GUARDED:
        original = clean_cluster.get(path)
        changed = clean_cluster.json_patch(
            path, [{"op": "replace", "path": pointer, "value": value}], manager="other"
        )
        assert changed.status == 200, changed.text
        disturbed = clean_cluster.get(path)
        done = run_shell(clean_cluster, commands[script[path]])
        assert done.code == 1
        assert "the server rejected our request" in done.stderr
        assert clean_cluster.get(path) == disturbed
        restored = {"metadata": {"annotations": original["metadata"]["annotations"]}, "spec": original["spec"]}
        assert clean_cluster.merge_patch(path, restored, manager="fencectl").status == 200


def test_case_20_command_still_works_after_unrelated_writes(clean_cluster: Cluster, fencectl: Fencectl) -> None:
    """A label, a status, a kubelet: the resourceVersion moves and no release minds."""
    before = killed_chain(clean_cluster)
    commands = fencectl("fences").commands
    for path in (*before, LEASE_PATH):
        patched = clean_cluster.merge_patch(path, {"metadata": {"labels": {"seen": "yes"}}}, manager="other")
        assert patched.status == 200
    for number in range(3):
        condition = {"type": "Ready", "status": "True", "reason": f"beat-{number}"}
        status = {"status": {"conditions": [condition]}}
        assert clean_cluster.merge_patch(f"{NODES}/worker-2/status", status, manager="kubelet").status == 200
    for command in commands:
        done = run_shell(clean_cluster, command)
        assert done.code == 0, done.stderr
    assert fencectl("fences", "--exit-code").code == 0


def test_case_15_node_made_anew_under_the_same_name_is_left_alone(
    clean_cluster: Cluster, fencectl: Fencectl
) -> None:
    """The printed command is refused by the uid; a new report does not know the new node."""
    killed_chain(clean_cluster)
    command = fencectl("fences").commands[1]
    clean_cluster.request("DELETE", f"{NODES}/worker-2")
    make_node(clean_cluster, "worker-2", unschedulable=True)
    before = clean_cluster.get(f"{NODES}/worker-2")
    done = run_shell(clean_cluster, command)
    assert done.code == 1
    assert clean_cluster.get(f"{NODES}/worker-2") == before
    report = fencectl("fences", "-o", "json").json
    assert "node/worker-2" not in displays(report)
    assert [f["object"]["name"] for f in report["fences"] if not f["ours"]] == ["worker-2"]


def test_case_18_node_that_is_gone_holds_nothing_back(clean_cluster: Cluster, fencectl: Fencectl) -> None:
    """The rest of the chain is released in order."""
    killed_chain(clean_cluster)
    clean_cluster.request("DELETE", f"{NODES}/worker-2")
    assert displays(fencectl("fences", "-o", "json").json) == [name for name in ORDER if name != "node/worker-2"]
    script = fencectl("release", "--holder", HOLDER)
    assert run_shell(clean_cluster, script.stdout).code == 0
    assert fencectl("fences", "--exit-code").code == 0


def test_case_22_what_was_lifted_by_hand_gets_a_command_that_drops_the_mark_only(
    clean_cluster: Cluster, fencectl: Fencectl
) -> None:
    """`flux resume` and `kubectl uncordon` on our fences: the old command is refused, the new one drops the mark."""
    before = killed_chain(clean_cluster)
    old = fencectl("fences").commands
    clean_cluster.kubectl("uncordon", "worker-2")
    # NB: `flux resume` is a plain merge patch that removes the field and looks at nothing else.
    assert clean_cluster.merge_patch(CHILD, {"spec": {"suspend": None}}, manager="flux").status == 200
    assert run_shell(clean_cluster, old[1]).code == 1
    assert run_shell(clean_cluster, old[2]).code == 1
    fences = {f["object"]["name"]: f for f in fencectl("fences", "-o", "json").json["fences"]}
    assert (fences["worker-2"]["now"], fences["worker-2"]["after"]) == ("schedulable", "mark gone")
    assert (fences["infrastructure"]["now"], fences["infrastructure"]["after"]) == ("reconciles", "mark gone")
    done = run_shell(clean_cluster, fencectl("release", "--holder", HOLDER).stdout)
    assert done.code == 0, done.stderr
    assert state(clean_cluster, *before) == {path: essence(obj) for path, obj in before.items()}


def test_refused_node_keeps_back_what_comes_after_it(clean_cluster: Cluster, fencectl: Fencectl) -> None:
    """A `mutating` node is refused with what to check; its sibling goes, suspensions and lease have no command."""
    make_kustomization(clean_cluster, "apps")
    for name in ("worker-2", "worker-3"):
        make_node(clean_cluster, name)
    with playing(clean_cluster) as run:
        run.take_lease()
        run.suspend("flux-system", "apps", rank=1)
        run.cordon("worker-2")
        run.enter_phase(run.cordon("worker-3"), Phase.MUTATING)
    shown = fencectl("fences")
    assert [shlex.split(command)[5] for command in shown.commands] == ["worker-2"]
    assert "REFUSED" in shown.stdout
    assert "waits for 2" in shown.stdout
    assert "its node command may be half done" in shown.stdout
    script = fencectl("release", "--holder", HOLDER)
    assert script.code == 19
    assert run_shell(clean_cluster, script.stdout).code == 19
    names = displays(fencectl("fences", "-o", "json").json)
    assert names == ["node/worker-3", "kustomization/flux-system/apps", "lease/flux-system/fencectl-deploy"]


def test_case_14_every_kind_of_mark_on_nodes_is_reported(clean_cluster: Cluster, fencectl: Fencectl) -> None:
    """Owner only, journal only, both, empty owner, plain cordon, owner without cordon."""
    holder, journal = "fencectl.dev/holder", "fencectl.dev/journal"
    make_node(clean_cluster, "owner-only", unschedulable=True, annotations={holder: HOLDER})
    make_node(clean_cluster, "journal-only", unschedulable=True, annotations={journal: "{}"})
    make_node(clean_cluster, "empty-owner", unschedulable=True, annotations={holder: ""})
    make_node(clean_cluster, "uncordoned", annotations={holder: HOLDER, journal: "{broken"})
    make_node(clean_cluster, "plain", unschedulable=True)
    make_node(clean_cluster, "free")
    report = fencectl("fences", "--exit-code", "-o", "json")
    assert report.code == 20
    refusals = {f["object"]["name"]: f["refusal"] for f in report.json["fences"] if f["ours"]}
    assert set(refusals) == {"owner-only", "journal-only", "empty-owner", "uncordoned"}
    assert all(refusals.values())
    assert [f["object"]["name"] for f in report.json["fences"] if not f["ours"]] == ["plain"]


def test_case_02_marked_node_is_held_although_the_lease_is_free(
    clean_cluster: Cluster, fencectl: Fencectl
) -> None:
    """One of nine nodes: its name, its holder and its cordon are shown, and the report says that it is held."""
    for number in range(9):
        make_node(clean_cluster, f"n{number}")
    with playing(clean_cluster) as run:
        run.take_lease()
        run.cordon("n4")
    release = fencectl("release", "--holder", HOLDER, "lease/flux-system/fencectl-deploy")
    assert release.code == 19
    clean_cluster.merge_patch(LEASE_PATH, {"spec": {"holderIdentity": ""}}, manager="other")
    shown = fencectl("fences", "--exit-code")
    assert shown.code == 20
    assert "node/n4" in shown.stdout
    assert "lease/flux-system/fencectl-deploy is free" in shown.stdout


def test_case_26_fences_and_releases_are_written_under_a_manager_that_flux_leaves_alone(
    clean_cluster: Cluster, fencectl: Fencectl
) -> None:
    """kustomize-controller takes over fields of managers whose names start with `kubectl`."""
    killed_chain(clean_cluster)

    def managers(path: str) -> set[str]:
        return {entry["manager"] for entry in clean_cluster.get(path)["metadata"]["managedFields"]}

    assert "fencectl" in managers(CHILD)
    assert all("--field-manager=fencectl" in command for command in fencectl("fences").commands)
    assert run_shell(clean_cluster, fencectl("release", "--holder", HOLDER).stdout).code == 0
    for path in (CHILD, PARENT, LEASE_PATH):
        assert not [name for name in managers(path) if name.startswith("kubectl")]


def test_bridge_chain_is_released_in_that_tools_order(clean_cluster: Cluster, fencectl: Fencectl) -> None:
    """Child, parent, node, lease; unknown without a token; then nothing is held."""
    chain = bridge_chain(clean_cluster)
    report = fencectl("fences", "--profile", "ghcr-bridge", "-o", "json")
    assert displays(report.json) == [
        "kustomization/flux-system/infrastructure",
        "kustomization/flux-system/flux-system",
        "node/worker-2",
        "lease/flux-system/ghcr-auth-refresh",
    ]
    assert {f["verdict"] for f in report.json["fences"]} == {"unknown"}
    shown = fencectl("fences", "--profile", "ghcr-bridge")
    assert "# NOT PROVEN DEAD" in shown.stdout
    commands = shown.commands
    assert len(commands) == 4
    for path in chain:
        patched = clean_cluster.merge_patch(path, {"metadata": {"labels": {"seen": "yes"}}}, manager="other")
        assert patched.status == 200
    for command in commands:
        done = run_shell(clean_cluster, command)
        assert done.code == 0, done.stderr
    after = fencectl("fences", "--profile", "ghcr-bridge", "--exit-code")
    assert after.code == 0
    assert "no fence is held" in after.stdout
    node = clean_cluster.get(f"{NODES}/worker-2")
    # NB: without a journal nobody knows whether it was schedulable before.
    assert node["spec"]["unschedulable"] is True
    assert not [key for key in node["metadata"].get("annotations", {}) if key.startswith(BRIDGE)]


def test_bridge_commands_are_refused_once_a_guarded_value_has_changed(
    clean_cluster: Cluster, fencectl: Fencectl
) -> None:
    """Mark, suspension, reconcile annotation, cordon, taints, heartbeat: each is tested by the server."""
    child, parent, node, lease = bridge_chain(clean_cluster)
    commands = fencectl("fences", "--profile", "ghcr-bridge").commands
    changes = [
        (child, 0, "/spec/suspend", False),
        (child, 0, "/metadata/annotations/kustomize.toolkit.fluxcd.io~1reconcile", "enabled"),
        (child, 0, f"/metadata/annotations/{BRIDGE.replace('/', '~1')}ghcr-policy-handoff-owner", "x"),
        (parent, 1, "/spec/suspend", False),
        (node, 2, "/spec/unschedulable", False),
        (node, 2, "/spec/taints", [{"key": "a", "effect": "NoSchedule"}]),
        (node, 2, f"/metadata/annotations/{BRIDGE.replace('/', '~1')}ghcr-auth-drain-phase", "mutating"),
        (lease, 3, "/spec/renewTime", "2026-11-30T02:47:31.000000Z"),
    ]
    for path, number, pointer, value in changes:
        original = clean_cluster.get(path)
        assert clean_cluster.json_patch(path, [{"op": "add", "path": pointer, "value": value}]).status == 200
        disturbed = clean_cluster.get(path)
        assert run_shell(clean_cluster, commands[number]).code == 1
        assert clean_cluster.get(path) == disturbed
        original["metadata"]["resourceVersion"] = disturbed["metadata"]["resourceVersion"]
        assert clean_cluster.request("PUT", path, body=original).status == 200


@pytest.mark.parametrize("phase", ["active", "retain"])
def test_bridge_node_that_is_refused_keeps_the_lease_and_the_way_out_frees_it_knowingly(
    clean_cluster: Cluster, fencectl: Fencectl, phase: str
) -> None:
    """Only refused nodes are left: the lease's command is printed when it and its holder are named."""
    chain = bridge_chain(clean_cluster)
    node = make_node(clean_cluster, "worker-9", unschedulable=True, taints=[])
    marks = {
        f"{BRIDGE}ghcr-auth-drain-owner": BRIDGE_HOLDER,
        f"{BRIDGE}ghcr-auth-drain-phase": "mutating",
        f"{BRIDGE}ghcr-auth-drain-recovery": bridge_journal(node["metadata"]["uid"], phase=phase),
    }
    assert clean_cluster.merge_patch(path_of(node), {"metadata": {"annotations": marks}}).status == 200
    profile = ("--profile", "ghcr-bridge")
    shown = fencectl("fences", *profile)
    assert len(shown.commands) == 3
    for command in shown.commands:
        assert run_shell(clean_cluster, command).code == 0
    left = fencectl("fences", *profile, "-o", "json").json
    assert displays(left) == ["node/worker-9", "lease/flux-system/ghcr-auth-refresh"]
    assert not [f for f in left["fences"] if f["release"]]
    lease = "lease/flux-system/ghcr-auth-refresh"
    assert fencectl("release", lease, *profile).code == 19
    way_out = fencectl("release", lease, "--holder", BRIDGE_HOLDER, *profile)
    assert way_out.code == 0, way_out.text
    assert run_shell(clean_cluster, way_out.stdout).code == 0
    assert clean_cluster.get(list(chain)[3])["spec"]["holderIdentity"] == ""
