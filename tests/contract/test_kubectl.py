"""
The real kubectl against both clusters: what an operator types, and what a printed command does.

Aspects: get in every output · patch · cordon and uncordon · apply on either side · annotate, label · wait, watch ·
create, replace, delete · who am I · failures.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml

from tests.contract.answers import version
from tests.support.clusters import (
    NODES,
    Cluster,
    Raw,
    grant,
    make_configmap,
    make_kustomization,
    make_lease,
    make_namespace,
    make_node,
    managers_of,
    path_of,
)
from tests.support.realcluster import find_kubectl

CONFIGMAP = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  k: {value}\n"


def _lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_get_prints_a_table_of_nodes(cluster: Cluster) -> None:
    """A cordoned node says so."""
    free = make_node(cluster)["metadata"]["name"]
    cordoned = make_node(cluster, unschedulable=True)["metadata"]["name"]
    head, *rows = _lines(cluster.kubectl("get", "nodes").stdout)
    assert head == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert {row[0]: row[1] for row in rows} == {free: "Unknown", cordoned: "Unknown,SchedulingDisabled"}


def test_get_prints_a_table_of_flux_objects(cluster: Cluster) -> None:
    """By the short name, over all namespaces."""
    obj = make_kustomization(cluster)
    head, *rows = _lines(cluster.kubectl("get", "ks", "-A").stdout)
    assert head == ["NAMESPACE", "NAME", "AGE", "READY", "STATUS"]
    assert [row[:2] for row in rows] == [[obj["metadata"]["namespace"], obj["metadata"]["name"]]]


def test_get_prints_a_table_of_leases(cluster: Cluster) -> None:
    """With the holder."""
    lease = make_lease(cluster, spec={"holderIdentity": "somebody"})
    head, row = _lines(cluster.kubectl("get", "lease", lease["metadata"]["name"]).stdout)
    assert head == ["NAME", "HOLDER", "AGE"]
    assert row[:2] == [lease["metadata"]["name"], "somebody"]


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_get_gives_the_object(cluster: Cluster, output: str) -> None:
    """Whole, with managedFields where they are asked for."""
    obj = make_kustomization(cluster, annotations={"a": "é&<"})
    name, namespace = obj["metadata"]["name"], obj["metadata"]["namespace"]
    args = ("get", "kustomization", name, "-n", namespace, "-o", output, "--show-managed-fields")
    text = cluster.kubectl(*args).stdout
    found = json.loads(text) if output == "json" else yaml.safe_load(text)
    # YAML reads the time as a time.
    for one in (found, obj):
        one["metadata"].pop("creationTimestamp")
        one["metadata"].pop("managedFields")
    assert found == obj


def test_get_gives_names_and_paths(cluster: Cluster) -> None:
    """`-o name`, `-o jsonpath`, several kinds at once."""
    node, lease = make_node(cluster, unschedulable=True), make_lease(cluster)
    node_name, lease_name = node["metadata"]["name"], lease["metadata"]["name"]
    assert cluster.kubectl("get", "node", "-o", "name").stdout == f"node/{node_name}\n"
    out = cluster.kubectl("get", f"node/{node_name}", f"lease/{lease_name}", "-o", "name").stdout
    assert out == f"node/{node_name}\nlease.coordination.k8s.io/{lease_name}\n"
    uid = cluster.kubectl("get", "node", node_name, "-o", "jsonpath={.metadata.uid}").stdout
    assert uid == node["metadata"]["uid"]


def test_get_with_selectors(cluster: Cluster) -> None:
    """Labels and fields are the server's work."""
    make_node(cluster, labels={"l": "1"})
    cordoned = make_node(cluster, unschedulable=True, labels={"l": "2"})["metadata"]["name"]
    by_field = cluster.kubectl("get", "nodes", "--field-selector", "spec.unschedulable=true", "-o", "name")
    by_label = cluster.kubectl("get", "nodes", "-l", "l=2", "-o", "name")
    assert by_field.stdout == by_label.stdout == f"node/{cordoned}\n"


def test_get_of_nothing_says_so(cluster: Cluster) -> None:
    """On stderr, exit 0."""
    namespace = make_namespace(cluster)
    done = cluster.kubectl("get", "configmaps", "-n", namespace)
    assert done.stdout == ""
    assert done.stderr == f"No resources found in {namespace} namespace.\n"


def test_get_in_small_pages(cluster: Cluster) -> None:
    """`--chunk-size` pages through the list."""
    namespace = make_namespace(cluster)
    for number in range(5):
        make_configmap(cluster, f"cm-{number}", namespace=namespace)
    out = cluster.kubectl("get", "cm", "-n", namespace, "--chunk-size=2", "-o", "name").stdout
    assert out.splitlines() == [f"configmap/cm-{number}" for number in range(5)]


def test_missing_object_is_an_error(cluster: Cluster) -> None:
    """Exit 1, with the server's words."""
    name = cluster.unique("missing")
    done = cluster.kubectl("get", "node", name, check=False)
    assert done.returncode == 1
    assert done.stderr == f'Error from server (NotFound): nodes "{name}" not found\n'


def test_missing_kind_is_an_error(cluster: Cluster) -> None:
    """Found by discovery."""
    done = cluster.kubectl("get", "nonsenses", check=False)
    assert done.returncode == 1
    assert done.stderr == 'error: the server doesn\'t have a resource type "nonsenses"\n'


def test_forbidden_is_an_error(cluster: Cluster) -> None:
    """With user, verb and resource."""
    done = cluster.kubectl("get", "nodes", user="user-1", check=False)
    assert done.returncode == 1
    assert done.stderr == (
        'Error from server (Forbidden): nodes is forbidden: User "user-1" cannot list resource "nodes" '
        'in API group "" at the cluster scope\n'
    )


def _json_patch(cluster: Cluster, obj: Raw, ops: list[Raw], *more: str) -> subprocess.CompletedProcess[str]:
    metadata = obj["metadata"]
    where = ["-n", metadata["namespace"]] if "namespace" in metadata else []
    kind = obj["kind"].lower()
    body = json.dumps(ops, ensure_ascii=False)
    args = ["patch", kind, metadata["name"], *where, "--type=json", "--field-manager=fencectl", "-p", body, *more]
    return cluster.kubectl(*args, check=False)


@pytest.mark.parametrize("value", ["plain", "é&<x>\u2028", "🦀", "a'b\"c\\d", "two\nlines"])
def test_json_patch_with_a_guard_is_applied(cluster: Cluster, value: str) -> None:
    """kubectl encodes the patch again as Go does, so a guard on any ordinary text holds."""
    obj = make_node(cluster, annotations={"k": value}, labels={"l": "1"})
    ops: list[Raw] = [
        {"op": "test", "path": "/metadata/annotations/k", "value": value},
        {"op": "add", "path": "/spec/unschedulable", "value": True},
    ]
    done = _json_patch(cluster, obj, ops)
    assert (done.returncode, done.stdout) == (0, f"node/{obj['metadata']['name']} patched\n")
    after = cluster.get(path_of(obj))
    assert after["spec"]["unschedulable"] is True
    assert "fencectl" in managers_of(after)


@pytest.mark.parametrize(
    "value", ["a\x7fb", "a\x80b", "a\x85b", "a\ufffeb"], ids=["del", "u0080", "u0085", "ufffe"]
)
def test_guard_on_rare_characters_must_be_escaped_for_kubectl(cluster: Cluster, value: str) -> None:
    """kubectl reads the patch as YAML: raw they are refused or changed, escaped they arrive as they should."""
    obj = make_node(cluster, annotations={"k": value})
    name = obj["metadata"]["name"]
    guard = [{"op": "test", "path": "/metadata/annotations/k", "value": value}]
    args = ("patch", "node", name, "--type=json", "-p")

    raw = cluster.kubectl(*args, json.dumps(guard, ensure_ascii=False), check=False)
    escaped = cluster.kubectl(*args, json.dumps(guard).replace("\x7f", "\\u007f"), check=False)

    assert raw.returncode == 1
    assert (escaped.returncode, escaped.stdout) == (0, f"node/{name} patched (no change)\n")


def test_json_patch_whose_guard_fails_is_an_error(cluster: Cluster) -> None:
    """Exit 1, nothing changed, and no word on why."""
    obj = make_kustomization(cluster, suspend=True)
    done = _json_patch(cluster, obj, [{"op": "test", "path": "/metadata/uid", "value": "other"}])
    assert done.returncode == 1
    assert done.stderr == (
        "The request is invalid: the server rejected our request due to an error in our request\n"
    )
    assert cluster.get(path_of(obj)) == obj


def test_json_patch_of_tests_only_changes_nothing(cluster: Cluster) -> None:
    """A look whether a command would still hold."""
    obj = make_node(cluster)
    done = _json_patch(cluster, obj, [{"op": "test", "path": "/metadata/uid", "value": obj["metadata"]["uid"]}])
    assert (done.returncode, done.stdout) == (0, f"node/{obj['metadata']['name']} patched (no change)\n")
    assert version(cluster.get(path_of(obj))) == version(obj)


def test_json_patch_from_a_shell(cluster: Cluster) -> None:
    """A quoted command line does through `sh` what it says."""
    lease = make_lease(cluster, spec={"holderIdentity": 'it\'s "$HOME" `x`'})
    ops = [
        {"op": "test", "path": "/spec/holderIdentity", "value": 'it\'s "$HOME" `x`'},
        {"op": "replace", "path": "/spec/holderIdentity", "value": ""},
    ]
    name = lease["metadata"]["name"]
    command = ["kubectl", "patch", "lease", name, "--type=json", "--field-manager=fencectl", "-p", json.dumps(ops)]
    done = subprocess.run(
        ["sh", "-c", shlex.join(command)],
        env=cluster.kubectl_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert cluster.get(path_of(lease))["spec"]["holderIdentity"] == ""


def test_server_side_dry_run_of_a_patch_changes_nothing(cluster: Cluster) -> None:
    """But its guards are checked."""
    obj = make_node(cluster)
    done = _json_patch(
        cluster, obj, [{"op": "add", "path": "/spec/unschedulable", "value": True}], "--dry-run=server"
    )
    assert (done.returncode, done.stdout) == (0, f"node/{obj['metadata']['name']} patched\n")
    assert cluster.get(path_of(obj)) == obj
    guard = [{"op": "test", "path": "/metadata/uid", "value": "other"}]
    assert _json_patch(cluster, obj, guard, "--dry-run=server").returncode == 1


@pytest.mark.parametrize("kind", ["merge", "strategic"])
def test_merge_patch(cluster: Cluster, kind: str) -> None:
    """As a person suspends or cordons by hand."""
    node = make_node(cluster)
    cluster.kubectl(
        "patch", "node", node["metadata"]["name"], f"--type={kind}", "-p", '{"spec":{"unschedulable":true}}'
    )
    assert cluster.get(path_of(node))["spec"]["unschedulable"] is True


def test_merge_patch_of_a_status(cluster: Cluster) -> None:
    """`--subresource=status`."""
    obj = make_kustomization(cluster)
    body = '{"status":{"lastHandledReconcileAt":"token"}}'
    where = ("-n", obj["metadata"]["namespace"])
    cluster.kubectl(
        "patch", "ks", obj["metadata"]["name"], *where, "--type=merge", "--subresource=status", "-p", body
    )
    assert cluster.get(path_of(obj))["status"]["lastHandledReconcileAt"] == "token"


def test_cordon_and_uncordon(cluster: Cluster) -> None:
    """Neither looks at who cordoned; a second time says so and changes nothing."""
    node = make_node(cluster, labels={"l": "1"})
    name = node["metadata"]["name"]
    assert cluster.kubectl("cordon", name).stdout == f"node/{name} cordoned\n"
    cordoned = cluster.get(path_of(node))
    assert cordoned["spec"]["unschedulable"] is True
    assert "kubectl" in managers_of(cordoned)
    assert cluster.kubectl("cordon", name).stdout == f"node/{name} already cordoned\n"
    assert version(cluster.get(path_of(node))) == version(cordoned)
    assert cluster.kubectl("uncordon", name).stdout == f"node/{name} uncordoned\n"
    assert "unschedulable" not in cluster.get(path_of(node))["spec"]


def test_cordon_keeps_a_mark(cluster: Cluster) -> None:
    """It leaves no trace on a node that is cordoned already."""
    node = make_node(cluster, unschedulable=True, annotations={"fencectl.dev/holder": "x"})
    cluster.kubectl("cordon", node["metadata"]["name"])
    assert cluster.get(path_of(node)) == node


def test_drain_evicts_what_is_on_a_node(cluster: Cluster) -> None:
    """Pods that nothing manages need `--force`; a pod that does not run goes at once."""
    node = make_node(cluster)["metadata"]["name"]
    namespace = make_namespace(cluster)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
        },
    }
    cluster.create(f"/api/v1/namespaces/{namespace}/pods", pod)
    done = cluster.kubectl("drain", node, "--force", "--grace-period=0", "--timeout=20s")
    assert f"evicting pod {namespace}/p" in done.stdout + done.stderr
    assert f"node/{node} drained" in done.stdout
    assert cluster.get(f"/api/v1/namespaces/{namespace}/pods")["items"] == []
    assert cluster.get(f"{NODES}/{node}")["spec"]["unschedulable"] is True


@pytest.mark.parametrize("server_side", [False, True], ids=["client-side", "server-side"])
def test_apply_creates_changes_and_leaves(cluster: Cluster, server_side: bool) -> None:
    """The three outcomes, with validation as kubectl does it by default."""
    name, namespace = cluster.unique("cm"), make_namespace(cluster)
    how = ["--server-side"] if server_side else []
    words = ["serverside-applied"] * 3 if server_side else ["created", "configured", "unchanged"]
    for value, word in zip(("one", "two", "two"), words, strict=True):
        text = CONFIGMAP.format(name=name, value=value)
        done = cluster.kubectl("apply", "-n", namespace, "-f", "-", *how, input=text)
        assert done.stdout == f"configmap/{name} {word}\n"
        assert cluster.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")["data"] == {"k": value}


@pytest.mark.parametrize("server_side", [False, True], ids=["client-side", "server-side"])
def test_apply_of_a_flux_object(cluster: Cluster, server_side: bool) -> None:
    """A custom resource is merged without Go types."""
    obj = make_kustomization(cluster)
    name, namespace = obj["metadata"]["name"] + "-applied", obj["metadata"]["namespace"]
    how = ["--server-side"] if server_side else []
    manifest: Raw = {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "metadata": {"name": name, "namespace": namespace},
        "spec": obj["spec"],
    }
    cluster.kubectl("apply", "-f", "-", *how, input=json.dumps(manifest))
    manifest["spec"]["interval"] = "20m"
    cluster.kubectl("apply", "-f", "-", *how, input=json.dumps(manifest))
    path = path_of(obj) + "-applied"
    assert cluster.get(path)["spec"]["interval"] == "20m"


def test_apply_of_an_unknown_field_is_refused(cluster: Cluster) -> None:
    """kubectl validates strictly by default."""
    name = cluster.unique("cm")
    text = CONFIGMAP.format(name=name, value="v") + "datum: {}\n"
    done = cluster.kubectl("apply", "-n", "default", "-f", "-", input=text, check=False)
    assert done.returncode == 1
    assert 'unknown field "datum"' in done.stderr


def test_server_side_apply_conflicts(cluster: Cluster) -> None:
    """Exit 1 with the owner; `--force-conflicts` goes on."""
    obj = make_configmap(cluster, data={"k": "theirs"}, manager="somebody")
    text = CONFIGMAP.format(name=obj["metadata"]["name"], value="mine")
    args = ("apply", "-n", "default", "--server-side", "-f", "-")
    done = cluster.kubectl(*args, input=text, check=False)
    assert done.returncode == 1
    assert 'Apply failed with 1 conflict: conflict with "somebody" using v1: .data.k' in done.stderr
    cluster.kubectl(*args, "--force-conflicts", input=text)
    assert cluster.get(path_of(obj))["data"] == {"k": "mine"}


def test_annotate_and_label(cluster: Cluster) -> None:
    """Set, refuse to overwrite, overwrite, remove."""
    node = make_node(cluster)
    name = node["metadata"]["name"]
    assert cluster.kubectl("annotate", "node", name, "a.dev/k=v").stdout == f"node/{name} annotated\n"
    assert cluster.kubectl("annotate", "node", name, "a.dev/k=w", check=False).returncode == 1
    cluster.kubectl("annotate", "node", name, "a.dev/k=w", "--overwrite")
    assert cluster.kubectl("label", "node", name, "l=1").stdout == f"node/{name} labeled\n"
    after = cluster.get(path_of(node))["metadata"]
    assert (after["annotations"], after["labels"]) == ({"a.dev/k": "w"}, {"l": "1"})
    cluster.kubectl("annotate", "node", name, "a.dev/k-")
    assert "annotations" not in cluster.get(path_of(node))["metadata"]


def test_create_replace_delete(cluster: Cluster) -> None:
    """The plain verbs."""
    name, namespace = cluster.unique("cm"), make_namespace(cluster)
    where = ("-n", namespace)
    path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
    assert (
        cluster.kubectl("create", "configmap", name, *where, "--from-literal=k=v").stdout
        == f"configmap/{name} created\n"
    )
    again = cluster.kubectl("create", "configmap", name, *where, check=False)
    assert again.stderr == f'error: failed to create configmap: configmaps "{name}" already exists\n'
    text = CONFIGMAP.format(name=name, value="w")
    assert cluster.kubectl("replace", *where, "-f", "-", input=text).stdout == f"configmap/{name} replaced\n"
    assert cluster.get(path)["data"] == {"k": "w"}
    done = cluster.kubectl("delete", "configmap", name, *where, "--timeout=10s")
    assert done.stdout.startswith(f'configmap "{name}" deleted')
    assert cluster.request("GET", path).status == 404


def test_delete_waits_for_a_finalizer(cluster: Cluster) -> None:
    """And says so when it takes too long."""
    obj = make_configmap(cluster)
    cluster.merge_patch(path_of(obj), {"metadata": {"finalizers": ["example.dev/a"]}})
    done = cluster.kubectl(
        "delete", "cm", obj["metadata"]["name"], "-n", "default", "--timeout=300ms", check=False
    )
    assert done.returncode == 1
    assert "timed out waiting for the condition" in done.stderr
    assert cluster.get(path_of(obj))["metadata"]["deletionTimestamp"]


@contextmanager
def _running(cluster: Cluster, *args: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [find_kubectl(), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=cluster.kubectl_environment(),
    )
    # NB: readline has no time-out of its own.
    alarm = threading.Timer(20, process.kill)
    alarm.start()
    try:
        yield process
    finally:
        alarm.cancel()
        process.kill()
        process.communicate()


def _by_name(obj: Raw) -> tuple[str, ...]:
    # NB: not `get KIND NAME --watch`: of a single object kubectl drops the first event, and with it a change
    # that comes between its read and its watch. A list is watched from its own version.
    where = ("-n", obj["metadata"]["namespace"]) if "namespace" in obj["metadata"] else ()
    return (obj["kind"].lower(), *where, "--field-selector", f"metadata.name={obj['metadata']['name']}")


def test_watch_prints_each_change(cluster: Cluster) -> None:
    """`get --watch` begins with what is there and follows."""
    node = make_node(cluster)
    name = node["metadata"]["name"]
    with _running(cluster, "get", *_by_name(node), "--watch") as process:
        assert process.stdout is not None
        assert process.stdout.readline().split()[0] == "NAME"
        assert process.stdout.readline().split()[:2] == [name, "Unknown"]
        cluster.merge_patch(path_of(node), {"spec": {"unschedulable": True}})
        assert process.stdout.readline().split()[:2] == [name, "Unknown,SchedulingDisabled"]


def test_watch_gives_fields(cluster: Cluster) -> None:
    """As a script follows."""
    obj = make_kustomization(cluster)
    with _running(cluster, "get", *_by_name(obj), "--watch", "-o", "jsonpath={.spec.suspend};") as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == ";"
        cluster.merge_patch(path_of(obj), {"spec": {"suspend": True}})
        assert process.stdout.read(5) == "true;"


def test_wait_ends_when_the_condition_holds(cluster: Cluster) -> None:
    """`wait` watches, so it sees the change."""
    obj = make_kustomization(cluster)
    name = obj["metadata"]["name"]
    args = ("wait", f"ks/{name}", "-n", obj["metadata"]["namespace"], "--for=condition=Ready", "--timeout=20s")
    with _running(cluster, *args) as process:
        # NB: without an observedGeneration that has caught up, kubectl goes on waiting.
        ready = {"status": {"observedGeneration": 1, "conditions": [_condition("Ready", "True")]}}
        cluster.merge_patch(f"{path_of(obj)}/status", ready)
        out, _error = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, f"kustomization.kustomize.toolkit.fluxcd.io/{name} condition met\n")


def _condition(kind: str, value: str) -> Raw:
    return {
        "type": kind,
        "status": value,
        "reason": "Test",
        "message": "m",
        "lastTransitionTime": "2026-11-30T12:00:00Z",
    }


def test_wait_for_a_field_and_for_a_deletion(cluster: Cluster) -> None:
    """What holds already returns at once."""
    node = make_node(cluster, unschedulable=True)
    name = f"node/{node['metadata']['name']}"
    cluster.kubectl("wait", name, "--for=jsonpath={.spec.unschedulable}=true", "--timeout=10s")
    done = cluster.kubectl(
        "wait", name, "--for=jsonpath={.spec.unschedulable}=false", "--timeout=200ms", check=False
    )
    assert done.returncode == 1
    with _running(cluster, "wait", name, "--for=delete", "--timeout=20s") as process:
        cluster.request("DELETE", path_of(node))
        process.communicate(timeout=20)
    assert process.returncode == 0


def test_whoami(cluster: Cluster) -> None:
    """Each user of the tests is who it says."""
    for user in ("admin", "user-1"):
        info = json.loads(cluster.kubectl("auth", "whoami", "-o", "json", user=user).stdout)["status"]["userInfo"]
        assert info["username"] == user


def test_can_i(cluster: Cluster) -> None:
    """By a review, exit 1 for no."""
    grant(cluster, "user-6", {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]})
    assert cluster.kubectl("auth", "can-i", "patch", "nodes", user="user-6").stdout == "yes\n"
    done = cluster.kubectl("auth", "can-i", "list", "nodes", user="user-6", check=False)
    assert (done.returncode, done.stdout) == (1, "no\n")


def test_impersonation(cluster: Cluster) -> None:
    """`--as` is honoured by the server."""
    done = cluster.kubectl("get", "nodes", "--as=user-1", check=False)
    assert 'User "user-1" cannot list resource "nodes"' in done.stderr


def test_version_and_api_resources(cluster: Cluster) -> None:
    """No warning on the skew, and the kinds that matter."""
    done = cluster.kubectl("version")
    assert "Server Version: v1." in done.stdout
    assert done.stderr == ""
    found = cluster.kubectl("api-resources", "-o", "name").stdout.split()
    assert {"nodes", "leases.coordination.k8s.io", "kustomizations.kustomize.toolkit.fluxcd.io"} <= set(found)


def test_describe_node(cluster: Cluster) -> None:
    """Reads the node, its lease, its pods and its events."""
    node = make_node(cluster, unschedulable=True, annotations={"fencectl.dev/holder": "somebody"})
    out = cluster.kubectl("describe", "node", node["metadata"]["name"]).stdout
    assert "fencectl.dev/holder: somebody" in out
    assert "Unschedulable:      true" in out


def test_raw_get(cluster: Cluster) -> None:
    """A path as it stands."""
    assert cluster.kubectl("get", "--raw", "/readyz").stdout == "ok"
    node = make_node(cluster)
    assert json.loads(cluster.kubectl("get", "--raw", path_of(node)).stdout) == node


def test_environment_is_the_clusters_own(cluster: Cluster) -> None:
    """Neither the user's kubeconfig nor his cache is touched."""
    environment = cluster.kubectl_environment()
    assert environment["HOME"] != os.environ.get("HOME")
    assert os.path.dirname(environment["KUBECONFIG"]) == environment["HOME"]  # noqa: PTH120
