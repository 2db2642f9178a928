"""
The test bench itself: a real cluster that starts, says why when it cannot, and leaves nothing behind.

Aspects: users by token and by certificate · kubeconfigs · a failed start · missing programs · what `wipe` takes away ·
the controller manager.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.contract.answers import ok
from tests.support import programs
from tests.support.clusters import (
    KUSTOMIZE,
    NODES,
    Cluster,
    make_configmap,
    make_kustomization,
    make_lease,
    make_namespace,
    make_node,
)
from tests.support.realcluster import RealCluster, StartFailedError

pytestmark = pytest.mark.real

DEADLINE_S = 30.0


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(("user", "groups"), [("admin", "system:masters"), ("user-7", None)])
def test_client_certificate_is_the_same_user_as_the_token(
    real_cluster: RealCluster, real: Cluster, tmp_path: Path, user: str, groups: str | None
) -> None:
    """Both ways in, by the real kubectl."""
    path = tmp_path / "kubeconfig"
    path.write_text(real_cluster.kubeconfig(user, certificate=True))
    out = real.kubectl("--kubeconfig", str(path), "auth", "whoami", "-o", "json").stdout
    info = json.loads(out)["status"]["userInfo"]
    assert info["username"] == user
    assert ("system:masters" in info["groups"]) == (groups is not None)


def test_kubeconfig_names_the_context_that_was_asked_for(real: Cluster) -> None:
    """So that tests can print and read contexts."""
    path = real.kubeconfig_file("user-1", context="prod")
    assert real.kubectl("--kubeconfig", str(path), "config", "current-context").stdout == "prod\n"
    assert path.stat().st_mode & 0o077 == 0


def test_wipe_takes_away_what_a_test_made(real: Cluster) -> None:
    """Finalizers included; what belongs to the server stays."""
    namespace = make_namespace(real)
    make_node(real)
    make_lease(real, namespace=namespace)
    make_configmap(real, namespace=namespace)
    held = make_kustomization(real, namespace=namespace)
    path = f"{KUSTOMIZE}/namespaces/{namespace}/kustomizations/{held['metadata']['name']}"
    ok(real.merge_patch(path, {"metadata": {"finalizers": ["finalizers.fluxcd.io"]}}))
    ok(real.request("DELETE", path))

    real.wipe(everything=True)

    assert real.get(NODES)["items"] == []
    assert real.get(f"{KUSTOMIZE}/kustomizations")["items"] == []
    assert real.request("GET", f"/api/v1/namespaces/{namespace}").status == 404
    left = {item["metadata"]["namespace"] for item in real.get("/api/v1/configmaps")["items"]}
    assert left <= {"kube-system", "kube-public"}
    assert "kube-system" in {item["metadata"]["name"] for item in real.get("/api/v1/namespaces")["items"]}


def test_wipe_sees_what_kubectl_made(real: Cluster) -> None:
    """Whoever was given a kubeconfig may have written anything."""
    name = real.unique("cm")
    real.kubectl("create", "configmap", name, "-n", "default")
    real.wipe()
    assert real.request("GET", f"/api/v1/namespaces/default/configmaps/{name}").status == 404


def test_failed_start_quotes_the_log_and_leaves_no_process() -> None:
    """A flag that the API server does not know."""
    cluster = RealCluster(api_server_flags=["--no-such-flag"])
    with pytest.raises(StartFailedError, match=r"(?s)kube-apiserver ended with 1.*no-such-flag"):
        cluster.start()
    with pytest.raises(RuntimeError):
        cluster.folder  # noqa: B018


def test_missing_program_is_skipped_with_the_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not for whoever has no Go."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("FENCECTL_TESTBENCH", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match="tests/cluster/build"):
        programs.require_program("kube-apiserver")


def test_missing_program_fails_in_ci(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A skip would hide that nothing was proven."""
    monkeypatch.setenv("CI", "true")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("FENCECTL_TESTBENCH", str(tmp_path))
    with pytest.raises(pytest.fail.Exception, match="tests/cluster/build"):
        programs.require_program("kube-apiserver")


def test_program_of_envtest_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """KUBEBUILDER_ASSETS names the folder."""
    (tmp_path / "kube-apiserver").touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert programs.require_program("kube-apiserver") == tmp_path / "kube-apiserver"


def test_controllers_run_and_all_of_it_ends(tmp_path: Path) -> None:
    """The controller manager makes service accounts and taints a cordoned node; `stop` leaves no process."""
    with RealCluster(controllers=True) as running:
        handle = Cluster("real", running, tmp_path)
        node = make_node(handle, unschedulable=True, taints=[])
        path = f"{NODES}/{node['metadata']['name']}"
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        end = time.monotonic() + DEADLINE_S
        while True:
            taints = {one["key"] for one in handle.get(path)["spec"].get("taints", [])}
            named = {one["metadata"]["name"] for one in handle.get(accounts)["items"]}
            if "node.kubernetes.io/unschedulable" in taints and "default" in named:
                break
            assert time.monotonic() < end, (taints, named)
            time.sleep(0.05)
        pids = running.pids()
        assert len(pids) == 3
        assert all(_alive(pid) for pid in pids)
        folder = running.folder
        handle.close()
    assert not any(_alive(pid) for pid in pids)
    assert not folder.exists()
