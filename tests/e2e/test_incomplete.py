"""
What could not be read is never "no fence": missing rights, a server that is gone, broken settings, hostile text.

Each ends in one clear sentence, the right status, and no traceback.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencectl.sandbox import Sandbox
from tests.e2e.conftest import Fencectl
from tests.support.clusters import (
    Cluster,
    grant,
    make_configmap,
    make_git_repository,
    make_kustomization,
    make_lease,
    make_node,
)
from tests.support.fencing import killed_chain, playing
from tests.support.objects import HOLDER, OTHER
from tests.support.program import Ran, run_program, run_shell
from tests.support.realcluster import RealCluster

Raw = dict[str, Any]
NO_FENCE = re.compile(r"no fence is held", re.IGNORECASE)
RIGHTS: list[Raw] = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    {"apiGroups": ["kustomize.toolkit.fluxcd.io"], "resources": ["*"], "verbs": ["get", "list"]},
    {"apiGroups": ["source.toolkit.fluxcd.io"], "resources": ["*"], "verbs": ["get", "list"]},
]


def without(resource: str) -> list[Raw]:
    return [rule for rule in RIGHTS if resource not in (*rule["resources"], *rule["apiGroups"])]


@pytest.mark.real
@pytest.mark.parametrize(
    ("missing", "what", "why"),
    [
        ("nodes", "nodes", "may not `list` nodes (cluster scope)"),
        ("leases", "leases", "may not `list` leases"),
        ("configmaps", "configmap/flux-system/fencectl-deploy-record", "may not `get` configmaps"),
        ("kustomize.toolkit.fluxcd.io", "kustomizations", "may not `list` kustomizations"),
    ],
)
def test_viewer_without_one_right_gets_an_incomplete_report_that_names_it(
    real: Cluster, tmp_path: Path, missing: str, what: str, why: str
) -> None:
    """Exit 21, verb and resource by name, no command, and nowhere a word of "no fence"."""
    real.wipe()
    killed_chain(real)
    grant(real, "user-3", *without(missing))
    kubeconfig = real.kubeconfig_file("user-3", context="prod")
    shown = run_program("fences", kubeconfig=kubeconfig, cwd=tmp_path)
    assert shown.code == 21, shown.text
    assert "INCOMPLETE" in shown.stdout
    assert what in shown.stdout
    assert why in " ".join(shown.stdout.split())
    assert not shown.commands
    assert not NO_FENCE.search(shown.text)
    for output in ("json", "yaml", "markdown", "github", "openmetrics"):
        other = run_program("fences", "-o", output, "--exit-code", kubeconfig=kubeconfig, cwd=tmp_path)
        assert other.code == 21
        assert not NO_FENCE.search(other.text)
    report = run_program("fences", "-o", "json", kubeconfig=kubeconfig, cwd=tmp_path).json
    assert report["complete"] is False
    assert not [fence for fence in report["fences"] if fence["release"]]
    assert run_program("release", "--holder", HOLDER, kubeconfig=kubeconfig, cwd=tmp_path).code == 21


@pytest.mark.real
def test_viewer_with_exactly_these_rights_gets_a_whole_report(real: Cluster, tmp_path: Path) -> None:
    """Nothing more than reading is needed."""
    real.wipe()
    killed_chain(real)
    grant(real, "user-3", *RIGHTS)
    kubeconfig = real.kubeconfig_file("user-3", context="prod")
    shown = run_program("fences", "-o", "json", kubeconfig=kubeconfig, cwd=tmp_path)
    assert (shown.code, shown.json["held"], shown.json["complete"]) == (0, 5, True)


@pytest.mark.real
def test_configured_discovery_needs_no_right_to_list_leases(real: Cluster, tmp_path: Path) -> None:
    """`lease.discovery: configured`: the lease is read by name, and the report is whole."""
    real.wipe()
    killed_chain(real)
    named = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]}
    grant(real, "user-3", *without("leases"), named)
    (tmp_path / "fencectl.yaml").write_text(
        "apiVersion: fencectl.dev/v1\nkind: Config\nlease: {discovery: configured}\n"
    )
    kubeconfig = real.kubeconfig_file("user-3", context="prod")
    shown = run_program("fences", "-o", "json", kubeconfig=kubeconfig, cwd=tmp_path)
    assert (shown.code, shown.json["held"], shown.json["complete"]) == (0, 5, True), shown.text


def no_traceback(ran: Ran) -> None:
    assert "Traceback" not in ran.text
    assert not NO_FENCE.search(ran.text.replace('This is not "no fence"', ""))


@pytest.mark.real
def test_expired_token_is_said_as_such(real_cluster: RealCluster, tmp_path: Path) -> None:
    """401 for everything: the report is impossible, not empty."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(real_cluster.kubeconfig().replace(real_cluster.token("admin"), "expired-s3cr3t-token"))
    for verb in ("fences", "release"):
        ran = run_program(verb, kubeconfig=kubeconfig, cwd=tmp_path)
        assert ran.code == 21
        assert "did not accept the credentials of user `admin`" in ran.stderr
        assert "expired-s3cr3t-token" not in ran.text
        no_traceback(ran)


def test_server_that_is_gone_is_said_with_its_address(tmp_path: Path) -> None:
    """Nothing listens there any more."""
    with Sandbox() as sandbox:
        text = sandbox.kubeconfig(context="prod")
    (tmp_path / "kubeconfig").write_text(text)
    ran = run_program("fences", "--exit-code", kubeconfig=tmp_path / "kubeconfig", cwd=tmp_path)
    assert ran.code == 21
    assert ran.stderr.startswith("error: prod did not answer: http://127.0.0.1:")
    assert "connection refused" in ran.stderr
    no_traceback(ran)


@pytest.fixture
def silent_server() -> Iterator[int]:
    """Accept connections and never answer."""
    listener = socket.create_server(("127.0.0.1", 0))
    kept: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                kept.append(listener.accept()[0])
            except OSError:
                return

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    for connection in kept:
        connection.close()
    thread.join(5)


def test_case_67_server_that_never_answers_ends_within_the_time_out(silent_server: int, tmp_path: Path) -> None:
    """No call hangs for ever."""
    with Sandbox() as sandbox:
        text = sandbox.kubeconfig(context="prod").replace(str(sandbox.port), str(silent_server))
    (tmp_path / "kubeconfig").write_text(text)
    begun = time.monotonic()
    ran = run_program("fences", "--request-timeout", "1s", kubeconfig=tmp_path / "kubeconfig", cwd=tmp_path)
    assert ran.code == 21
    assert "did not answer" in ran.stderr
    assert time.monotonic() - begun < 30
    no_traceback(ran)


def test_case_67_one_silent_list_is_named_and_the_rest_is_shown(
    sandbox: Sandbox, sandbox_cluster: Cluster, tmp_path: Path
) -> None:
    """The node list hangs: the report is incomplete, and says so within its time."""
    killed_chain(sandbox_cluster)
    sandbox.faults.hang(verb="list", resource="nodes")
    kubeconfig = sandbox_cluster.kubeconfig_file(context="prod")
    ran = run_program("fences", "--request-timeout", "2s", kubeconfig=kubeconfig, cwd=tmp_path)
    assert ran.code == 21
    assert "nodes" in ran.stdout
    assert "lease/flux-system/fencectl-deploy" in ran.stdout
    no_traceback(ran)


KUBECONFIGS = [
    ("a: [\n", (), 2, "not valid YAML"),
    ("", (), 2, ""),
    (None, ("--context", "prd"), 2, "did you mean `prod`"),
    (None, ("--kubeconfig", "/nowhere/at-all"), 2, "/nowhere/at-all"),
]


@pytest.mark.parametrize(("text", "arguments", "code", "said"), KUBECONFIGS)
def test_case_65_broken_kubeconfig_is_one_clear_sentence(
    sandbox: Sandbox, tmp_path: Path, text: str | None, arguments: tuple[str, ...], code: int, said: str
) -> None:
    """Not YAML, empty, an unknown context, a file that is not there."""
    (tmp_path / "kubeconfig").write_text(sandbox.kubeconfig(context="prod") if text is None else text)
    ran = run_program("fences", *arguments, kubeconfig=tmp_path / "kubeconfig", cwd=tmp_path)
    assert ran.code == code, ran.text
    assert said in ran.stderr
    assert ran.stderr.startswith("error: ")
    assert ran.stdout == ""
    no_traceback(ran)


def test_fences_and_release_send_nothing_but_get(
    sandbox: Sandbox, sandbox_cluster: Cluster, tmp_path: Path
) -> None:
    """On the wire, for every output and both profiles."""
    killed_chain(sandbox_cluster)
    kubeconfig = sandbox_cluster.kubeconfig_file(context="prod")
    sandbox.requests.clear()
    for output in ("text", "json", "yaml", "markdown", "github", "openmetrics"):
        assert run_program("fences", "-o", output, "--explain", kubeconfig=kubeconfig, cwd=tmp_path).code == 0
    run_program("fences", "--profile", "ghcr-bridge", kubeconfig=kubeconfig, cwd=tmp_path)
    run_program("release", "--holder", HOLDER, kubeconfig=kubeconfig, cwd=tmp_path)
    assert len(sandbox.requests) > 50
    assert {request.method for request in sandbox.requests} == {"GET"}


def test_cluster_without_flux_is_whole(tmp_path: Path) -> None:
    """Missing kinds are "not installed", which is fine."""
    with Sandbox(flux=False) as sandbox:
        (tmp_path / "kubeconfig").write_text(sandbox.kubeconfig(context="prod"))
        ran = run_program("fences", kubeconfig=tmp_path / "kubeconfig", cwd=tmp_path)
    assert (ran.code, ran.stderr) == (0, "")
    assert "no fence is held on prod" in ran.stdout


def test_several_contexts_are_one_report_and_one_dead_cluster_does_not_hide_the_other(
    sandbox: Sandbox, sandbox_cluster: Cluster, tmp_path: Path
) -> None:
    """What was read is shown; the status is that of the worst."""
    killed_chain(sandbox_cluster)
    with Sandbox() as gone:
        dead = gone.kubeconfig(context="dead")
    (tmp_path / "a").write_text(sandbox.kubeconfig(context="prod"))
    (tmp_path / "b").write_text(dead)
    both = f"{tmp_path / 'a'}:{tmp_path / 'b'}"
    ran = run_program("fences", "--context", "prod", "--context", "dead", kubeconfig=both, cwd=tmp_path)
    assert ran.code == 21
    assert "5 fences held on prod" in ran.stdout
    assert "dead did not answer" in ran.stderr
    machine = run_program("fences", "--context", "prod", "-o", "json", kubeconfig=both, cwd=tmp_path)
    assert machine.json["kind"] == "FenceReport"
    twice = run_program(
        "fences", "--context", "prod", "--context", "dead", "-o", "json", kubeconfig=both, cwd=tmp_path
    )
    assert twice.code == 21
    assert json.loads(twice.stdout)["context"] == "prod" or json.loads(twice.stdout)["kind"] == "FenceReportList"


def test_live_holder_gets_no_command_and_release_says_to_wait(clean_cluster: Cluster, fencectl: Fencectl) -> None:
    """A heartbeat younger than its duration beats everything."""
    make_kustomization(clean_cluster, "apps")
    with playing(clean_cluster, age_s=0, duration_s=300) as run:
        run.take_lease()
        run.suspend("flux-system", "apps", rank=1)
    shown = fencectl("fences", "--exit-code")
    assert shown.code == 20
    assert "live" in shown.stdout
    assert "none: live" in shown.stdout
    assert not shown.commands
    release = fencectl("release", "--holder", HOLDER)
    assert (release.code, release.stdout) == (12, "")


def test_lease_in_another_namespace_is_found_by_its_label(clean_cluster: Cluster, fencectl: Fencectl) -> None:
    """A deploy with a lease of its own is seen by everybody."""
    with playing(clean_cluster) as run:
        run.lease = ("flux-system", "another")
        run.take_lease()
    report = fencectl("fences", "-o", "json").json
    assert [fence["object"]["name"] for fence in report["fences"]] == ["another"]


def test_holds_and_claims_of_a_record_are_shown(clean_cluster: Cluster, fencectl: Fencectl) -> None:
    """They are read where the ConfigMap exists."""
    hold = {"v": 1, "type": "incident", "reason": "INC-2291 checkout", "by": "ann", "at": "2026-11-30T02:00:00Z"}
    make_lease(clean_cluster, "fencectl-deploy", namespace="flux-system", labels={"fencectl.dev/fence": "lease"})
    make_configmap(
        clean_cluster, "fencectl-deploy-record", namespace="flux-system", data={"hold-incident": json.dumps(hold)}
    )
    shown = fencectl("fences", "--exit-code")
    assert shown.code == 20
    assert "incident" in shown.stdout
    assert "INC-2291 checkout" in shown.stdout


def test_foreign_suspensions_and_cordons_are_apart_and_have_no_command(
    clean_cluster: Cluster, fencectl: Fencectl
) -> None:
    """With manager and age; they are not counted as held."""
    make_node(clean_cluster, "worker-7")
    clean_cluster.kubectl("cordon", "worker-7")
    make_kustomization(clean_cluster, "paused", suspend=True)
    make_git_repository(clean_cluster, "repo", suspend=True)
    shown = fencectl("fences", "--exit-code")
    assert shown.code == 0
    assert "no fence is held" in shown.stdout
    report = fencectl("fences", "-o", "json").json
    found = {
        fence["object"]["name"]: (fence["ours"], fence["manager"], fence["release"]) for fence in report["fences"]
    }
    assert found == {
        # NB: the server keeps no managers of a node that was never applied: nobody is named, nobody is guessed.
        "worker-7": (False, None, None),
        "paused": (False, "kustomization-maker", None),
        "repo": (False, "source-maker", None),
    }


HOSTILE = '\x1b[31mred\x1b[0m \u202eltr [bold]x[/bold] ::error::pwned\n::warning::y | <b>&amp; `$(touch pwned)` o\'brien "q" ](http://evil)'


def test_case_40_hostile_text_has_no_effect_in_any_output(
    clean_cluster: Cluster, fencectl: Fencectl, tmp_path: Path
) -> None:
    """Holder and journal say what they like: terminal, Actions, Markdown, shell and YAML take it as text."""
    make_lease(
        clean_cluster,
        "fencectl-deploy",
        namespace="flux-system",
        spec={"holderIdentity": HOSTILE, "leaseDurationSeconds": 30, "renewTime": "2026-11-30T00:00:00.000000Z"},
    )
    make_node(
        clean_cluster,
        "evil",
        unschedulable=True,
        annotations={"fencectl.dev/holder": HOSTILE, "fencectl.dev/journal": HOSTILE},
    )
    for output in ("text", "json", "yaml", "markdown", "github", "openmetrics"):
        shown = fencectl("fences", "-o", output, "--explain", env={"FORCE_COLOR": ""})
        assert shown.code == 0, shown.text
        assert "\x1b" not in shown.text
        assert "\u202e" not in shown.text
        starts = [line.lstrip() for line in shown.text.splitlines()]
        assert not [line for line in starts if re.match(r"::(error|warning)::(pwned|y)", line)]
    # NB: what comes before this node is refused, so its lease has no command; the holder is released by name.
    clean_cluster.request("DELETE", "/api/v1/nodes/evil")
    command = fencectl("fences").commands
    assert len(command) == 1
    assert run_shell(clean_cluster, command[0]).code == 0
    assert not (tmp_path / "pwned").exists()
    assert (
        clean_cluster.get("/apis/coordination.k8s.io/v1/namespaces/flux-system/leases/fencectl-deploy")["spec"][
            "holderIdentity"
        ]
        == ""
    )


def test_two_holders_and_none_named_is_an_error_with_the_list(clean_cluster: Cluster, fencectl: Fencectl) -> None:
    """Nobody guesses whose fences are meant."""
    make_node(clean_cluster, "n1")
    make_node(clean_cluster, "n2")
    with playing(clean_cluster) as run:
        run.take_lease()
        run.cordon("n1")
    with playing(clean_cluster, holder=OTHER) as run:
        run.cordon("n2")
    refused = fencectl("release")
    assert refused.code == 2
    assert HOLDER in refused.stderr
    assert OTHER in refused.stderr
    assert fencectl("release", "--holder", OTHER).code == 0
