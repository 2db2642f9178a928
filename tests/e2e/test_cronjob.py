"""The CronJob for checking from inside of the cluster: the server takes it, and its rights are enough and no more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fencectl.core.profiles import PROFILES, ProfileName
from fencectl.core.rights import Role, documents_for
from tests.support.clusters import Cluster, ensure_namespace, make_node
from tests.support.deploys import wait_until
from tests.support.fencing import playing
from tests.support.program import Ran, run_program
from tests.support.runner import EXAMPLES

PATH = EXAMPLES / "cronjob.yaml"
DOCUMENTS: list[dict[str, Any]] = list(yaml.safe_load_all(PATH.read_text()))
ROLES = ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "ServiceAccount")
ACCOUNT = "system:serviceaccount:flux-system:fencectl-report"


def test_its_rights_are_those_that_doctor_prints_for_a_report() -> None:
    """One less and it would be blind somewhere, one more and it would be a risk."""
    roles = [one for one in DOCUMENTS if one["kind"] in ("Role", "ClusterRole")]
    assert roles == documents_for(Role.REPORT, PROFILES[ProfileName.FENCECTL])


@pytest.fixture
def ready(real: Cluster) -> Iterator[Cluster]:
    """A clean server with the namespace, which is as it was afterwards."""
    real.wipe(everything=True)
    ensure_namespace(real, "flux-system")
    yield real
    real.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", str(PATH))


@pytest.mark.real
def test_server_takes_all_of_it_in_a_dry_run_without_a_warning(ready: Cluster) -> None:
    """Strictly: a misspelt field would be dropped in silence."""
    done = ready.kubectl("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", str(PATH))
    assert len(done.stdout.splitlines()) == len(DOCUMENTS) == 6
    assert "cronjob.batch/fencectl-report serverside-applied (server dry run)" in done.stdout
    assert "arning" not in done.stderr


@pytest.mark.real
def test_what_its_container_runs_works_with_its_rights_alone(ready: Cluster, tmp_path: Path) -> None:
    """0 where nothing is held, 20 for a fence of three hours; nothing is said to be missing."""
    bound = [one for one in DOCUMENTS if one["kind"] in ROLES]
    ready.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(bound))
    kubeconfig = yaml.safe_load(ready.kubeconfig_file(context="prod").read_text())
    kubeconfig["users"][0]["user"]["as"] = ACCOUNT
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig))
    [job] = [one for one in DOCUMENTS if one["kind"] == "CronJob"]
    [container] = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]

    def look() -> Ran:
        return run_program(*container["args"], kubeconfig=path, cwd=tmp_path)

    # The server's authorizer reads roles from a watch, so a grant takes a moment.
    wait_until(lambda: look().code != 21, "its rights are in force")
    assert look().code == 0
    make_node(ready, "worker-2", taints=[])
    with playing(ready, age_s=3 * 3600) as run:
        run.take_lease()
        run.cordon("worker-2")
    shown = look()
    assert shown.code == 20, shown.text
    assert "2 fences held on prod" in shown.stdout
