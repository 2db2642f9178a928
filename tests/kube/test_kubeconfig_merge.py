"""Which files count, who wins, and what a context comes out as: the same as the real kubectl says, entry by entry."""

from __future__ import annotations

import base64
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from fencectl.cluster.kubeconfig import Connection, list_contexts, resolve
from fencectl.core.errors import UsageError
from tests.kube.support_kube import NO_ONE_LISTENS, Desk, Raw, config

EVERYTHING_USER: Raw = {
    "client-certificate": "pki/client.crt",
    "client-key": "pki/client.key",
    "tokenFile": "pki/token",
    "token": "fixed",
    "as": "jane",
    "as-uid": "42",
    "as-groups": ["ops", "dev"],
    "as-user-extra": {"scopes": ["a", "b"], "Acme/Team%": ["c"]},
}
EVERYTHING_CLUSTER: Raw = {
    "server": f"{NO_ONE_LISTENS}/a/b/",
    "tls-server-name": "kubernetes",
    "certificate-authority": "../ca.crt",
    "proxy-url": "http://127.0.0.1:3128",
    "disable-compression": True,
}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Sit down in an empty home folder."""
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path)


def as_kubectl_sees(desk: Desk, *flags: str) -> Raw | None:
    """Return what kubectl makes of the same files and flags, paths made absolute; `None` when it refuses."""
    done = desk.kubectl("config", "view", "--minify", "--raw", "-o", "json", *flags)
    if done.returncode != 0:
        return None
    view = json.loads(done.stdout)
    context = view["contexts"][0]
    cluster = (view["clusters"] or [{}])[0]
    user = (view["users"] or [{}])[0]
    return {
        "context": context["name"],
        "namespace": context["context"].get("namespace", "default"),
        "cluster": cluster.get("name", ""),
        "server": cluster.get("cluster", {}).get("server", ""),
        "tls-server-name": cluster.get("cluster", {}).get("tls-server-name", ""),
        "proxy-url": cluster.get("cluster", {}).get("proxy-url", ""),
        "user": user.get("name", ""),
        "token": user.get("user", {}).get("token", ""),
        "as": user.get("user", {}).get("as", ""),
        "as-groups": user.get("user", {}).get("as-groups") or [],
        "as-user-extra": user.get("user", {}).get("as-user-extra") or {},
        "as-uid": user.get("user", {}).get("as-uid", ""),
        "username": user.get("user", {}).get("username", ""),
    }


def as_we_see(found: Connection) -> Raw:
    """Return the same of our own answer."""
    user, cluster = found.login.user, found.login.cluster
    return {
        "context": found.context_name,
        "namespace": found.namespace,
        "cluster": found.cluster_name,
        "server": found.server,
        "tls-server-name": cluster.tls_server_name,
        "proxy-url": cluster.proxy_url,
        "user": user.name,
        "token": user.token,
        "as": user.impersonation.user,
        "as-groups": list(user.impersonation.groups),
        "as-user-extra": {key: list(values) for key, values in user.impersonation.extra},
        "as-uid": user.impersonation.uid,
        "username": user.username,
    }


def agree(desk: Desk, context: str | None = None, kubeconfig: str | None = None) -> Connection:
    """Resolve, and demand that kubectl says the same."""
    flags = [f"--context={context}"] if context else []
    flags += [f"--kubeconfig={kubeconfig}"] if kubeconfig else []
    found = desk.resolve(context, kubeconfig=kubeconfig)
    assert as_we_see(found) == as_kubectl_sees(desk, *flags)
    return found


def test_the_home_file_is_read_when_nothing_else_is_named(desk: Desk) -> None:
    """`~/.kube/config` and its current context, as everywhere."""
    desk.write(".kube/config", config(context={"namespace": "shop"}))
    found = agree(desk)
    assert (found.context_name, found.namespace, found.kubectl_flags) == ("prod", "shop", ("--context", "prod"))


def test_case_65_a_context_of_the_second_file_is_found(desk: Desk) -> None:
    """KUBECONFIG=a:b with the context, cluster and user in b only."""
    a, b = desk.write("a", {}), desk.write("b", config(name="staging"))
    desk.environ["KUBECONFIG"] = f"{a}:{b}"
    assert agree(desk).context_name == "staging"


def test_case_65_the_first_current_context_wins(desk: Desk) -> None:
    """Both files name one: kubectl takes the first, other clients the last."""
    a, b = desk.write("a", config(name="first")), desk.write("b", config(name="second"))
    desk.environ["KUBECONFIG"] = f"{a}:{b}"
    assert agree(desk).context_name == "first"
    assert agree(desk, "second").context_name == "second"


def test_case_65_missing_files_and_empty_names_are_passed_over(desk: Desk) -> None:
    """KUBECONFIG=a:missing::b, with the current context in a and its context in b."""
    a = desk.write("a", {"current-context": "prod"})
    b = desk.write("b", config())
    desk.environ["KUBECONFIG"] = f"{a}:{desk.home}/missing::{b}:{a}"
    assert agree(desk).context_name == "prod"


def test_case_65_null_lists_count_as_empty(desk: Desk) -> None:
    """`contexts: null` in the first file is no error and hides nothing."""
    a = desk.write("a", "contexts: null\nclusters:\nusers: ~\ncurrent-context: null\n")
    b = desk.write("b", config())
    desk.environ["KUBECONFIG"] = f"{a}:{b}"
    assert agree(desk).context_name == "prod"


@pytest.mark.parametrize("text", ["", "\n", "---\n", "{}", "null", "# nothing\n"])
def test_case_65_an_empty_file_counts_as_empty(desk: Desk, text: str) -> None:
    """An empty file before a full one changes nothing."""
    a, b = desk.write("a", text), desk.write("b", config())
    desk.environ["KUBECONFIG"] = f"{a}:{b}"
    assert agree(desk).context_name == "prod"


def test_case_65_no_current_context_but_one_named(desk: Desk) -> None:
    """`--context` needs no current-context."""
    raw = config()
    del raw["current-context"]
    desk.write(".kube/config", raw)
    assert agree(desk, "prod").context_flag == "prod"


def test_an_entry_wins_whole_and_is_not_mixed(desk: Desk) -> None:
    """Two files have a user of one name: nothing of the second one is used, not even what the first leaves open."""
    a = desk.write("a", config(user={"as": "jane"}, cluster={"tls-server-name": "first"}))
    b = desk.write("b", config(user={"token": "second"}, cluster={"proxy-url": "http://127.0.0.1:9"}))
    desk.environ["KUBECONFIG"] = f"{a}:{b}"
    found = agree(desk)
    assert (found.login.user.token, found.login.user.impersonation.user, found.proxy) == ("", "jane", None)


def test_every_field_comes_out_as_kubectl_has_it(desk: Desk) -> None:
    """All of a cluster and a user at once, with paths beside the file they stand in."""
    desk.write("ca.crt", "x")
    for name in ("client.crt", "client.key", "token"):
        desk.write(f"sub/pki/{name}", "x")
    desk.write("sub/config", config(user=EVERYTHING_USER, cluster=EVERYTHING_CLUSTER, context={"namespace": "n"}))
    found = agree(desk, kubeconfig="sub/config")
    user = found.login.user
    assert user.cert_file == str(desk.home / "sub/pki/client.crt")
    assert user.key_file == str(desk.home / "sub/pki/client.key")
    assert user.token_file == str(desk.home / "sub/pki/token")
    assert found.login.cluster.ca_file == str(desk.home / "ca.crt")
    assert found.tls is not None
    assert (found.tls.ca_pem, found.compression, found.endpoint.base_path) == (b"x", False, "/a/b")
    assert found.kubectl_flags == ("--kubeconfig", "sub/config", "--context", "prod")


def test_the_flag_beats_the_environment(desk: Desk) -> None:
    """`--kubeconfig` reads that file alone; KUBECONFIG and the home file are not merged in."""
    desk.write(".kube/config", config(name="home"))
    desk.environ["KUBECONFIG"] = str(desk.write("env", config(name="env")))
    flag = str(desk.write("flag", config(name="flag")))
    assert agree(desk, kubeconfig=flag).context_name == "flag"
    with pytest.raises(UsageError):
        desk.resolve("env", kubeconfig=flag)


def test_an_exec_command_is_a_path_only_with_a_separator(desk: Desk) -> None:
    """`./plugin` lies beside the kubeconfig; `plugin` is looked up in PATH."""
    plugin: Raw = {"apiVersion": "client.authentication.k8s.io/v1beta1", "args": None}
    for command, seen in (("./plugin", str(desk.home / "sub/plugin")), ("plugin", "plugin"), ("/x/y", "/x/y")):
        desk.write("sub/config", config(user={"exec": {**plugin, "command": command}}))
        entry = desk.resolve(kubeconfig="sub/config").login.user.exec
        assert entry is not None
        assert (entry.command, entry.interactive_mode) == (seen, "IfAvailable")


@pytest.mark.parametrize(
    "yaml",
    [
        "2020-01-01",
        "12:30:45",
        "=",
        "!!str 123",
        "!!binary YWJj",
        "!mine abc",
        "'yes'",
        "1.2.3",
        "0x",
        "a: b"[:1],
        "~x",
    ],
)
def test_a_value_is_text_where_kubectl_takes_it_for_text(desk: Desk, yaml: str) -> None:
    """Dates, base-60 numbers, unknown tags: Go's parser reads text, so this one does."""
    desk.write(".kube/config", _with_token(yaml))
    assert agree(desk).login.user.token != ""


@pytest.mark.parametrize(
    "yaml",
    [
        "123",
        "12e5",
        "1_000",
        "0o17",
        "0x1F",
        "0899",
        ".inf",
        "+12",
        "5.",
        ".5",
        "yes",
        "y",
        "off",
        "true",
        "[a]",
        "{}",
    ],
)
def test_a_value_that_kubectl_refuses_as_no_text_is_refused(desk: Desk, yaml: str) -> None:
    """An unquoted number or boolean spoils the file for both, and our error does not repeat it."""
    desk.write(".kube/config", _with_token(yaml))
    assert as_kubectl_sees(desk) is None
    with pytest.raises(UsageError) as caught:
        desk.resolve()
    assert caught.value.sentence == (
        "~/.kube/config: `users[0].user.token` must be text (a number or yes/no needs quotes)"
    )


def _with_token(yaml: str) -> str:
    return (
        f"clusters: [{{name: c, cluster: {{server: '{NO_ONE_LISTENS}'}}}}]\n"
        "contexts: [{name: x, context: {cluster: c, user: u}}]\n"
        "current-context: x\n"
        f"users:\n- name: u\n  user:\n    token: {yaml}\n"
    )


def test_only_the_first_document_of_a_file_counts(desk: Desk) -> None:
    """What follows `---` is not even parsed."""
    desk.write(".kube/config", json.dumps(config()) + "\n---\n: [broken\n")
    assert agree(desk).context_name == "prod"


def test_json_indented_with_tabs_is_read(desk: Desk) -> None:
    """A kubeconfig may be JSON, and JSON may be indented with tabs."""
    desk.write(".kube/config", json.dumps(config(), indent="\t"))
    assert agree(desk).context_name == "prod"


def test_a_merge_key_is_followed(desk: Desk) -> None:
    """Anchors and `<<` work as in kubectl."""
    desk.write(
        ".kube/config",
        f"x: &base {{server: '{NO_ONE_LISTENS}'}}\n"
        "clusters: [{name: c, cluster: {<<: *base, tls-server-name: q}}]\n"
        "contexts: [{name: x, context: {cluster: c, user: ''}}]\n"
        "current-context: x\n",
    )
    assert agree(desk).login.cluster.tls_server_name == "q"


def test_the_file_of_the_first_kubectl_is_read_where_there_is_no_newer(desk: Desk) -> None:
    """`~/.kube/.kubeconfig` counts where `~/.kube/config` is missing, and nothing is written."""
    desk.write(".kube/.kubeconfig", config(name="ancient"))
    found = desk.resolve()
    assert not (desk.home / ".kube/config").exists()
    assert as_we_see(found) == as_kubectl_sees(desk)


def test_no_context_in_a_pod_is_the_pods_own_cluster(desk: Desk) -> None:
    """Without a kubeconfig, in a pod: the service account, its CA and its namespace; no flags are needed."""
    account = desk.home / "account"
    desk.write("account/token", "pod-token\n")
    desk.write("account/ca.crt", "pem")
    desk.write("account/namespace", "payments\n")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    found = resolve(None, None, environ, desk.home, service_account=account)
    assert (found.server, found.namespace, found.in_cluster) == ("https://[fd00::1]:443", "payments", True)
    assert found.kubectl_flags == ()
    assert found.tls is not None
    assert found.tls.ca_pem == b"pem"
    named = resolve(None, None, {**environ, "POD_NAMESPACE": "other"}, desk.home, service_account=account)
    assert named.namespace == "other"


def test_a_kubeconfig_beats_the_pods_own_cluster(desk: Desk) -> None:
    """A context that is chosen wins over the service account, also by name only."""
    desk.write("account/token", "pod-token")
    desk.write(".kube/config", config())
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    assert not resolve(None, None, environ, desk.home, service_account=desk.home / "account").in_cluster
    with pytest.raises(UsageError, match="no context `nope`"):
        resolve(None, "nope", environ, desk.home, service_account=desk.home / "account")


def test_contexts_of_all_files_are_listed_once_and_sorted(desk: Desk) -> None:
    """For completion and hints."""
    a, b = desk.write("a", config(name="zeta")), desk.write("b", config(name="alpha"))
    desk.environ["KUBECONFIG"] = f"{a}:{b}:{a}"
    assert list_contexts(None, desk.environ, desk.home) == ("alpha", "zeta")


NAMES = st.sampled_from(["a", "b"])
CLUSTERS = st.fixed_dictionaries(
    {"server": st.sampled_from([NO_ONE_LISTENS, "https://127.0.0.1:2/base"])},
    optional={
        "tls-server-name": st.sampled_from(["", "kubernetes"]),
        "certificate-authority-data": st.just(base64.b64encode(b"pem").decode()),
        "proxy-url": st.just("socks5://127.0.0.1:1080"),
    },
)
USERS = st.fixed_dictionaries(
    {},
    optional={"token": st.sampled_from(["", "one", "two"]), "as": NAMES, "as-groups": st.lists(NAMES, max_size=2)},
).filter(lambda user: "as" in user or not user.get("as-groups"))
CONTEXTS = st.fixed_dictionaries(
    {}, optional={"cluster": NAMES, "user": NAMES, "namespace": st.sampled_from(["", "n"])}
)


def _entries(kind: str, inner: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Raw]:
    entries = st.dictionaries(NAMES, st.one_of(st.none(), values), max_size=2)
    lists = entries.map(lambda found: [{"name": name, inner: value} for name, value in found.items()])
    return st.one_of(st.none(), lists).map(lambda value: {kind: value})


FILES = st.tuples(
    _entries("clusters", "cluster", CLUSTERS),
    _entries("users", "user", USERS),
    _entries("contexts", "context", CONTEXTS),
    st.one_of(st.none(), st.just(""), NAMES).map(lambda name: {"current-context": name}),
).map(lambda parts: {key: value for part in parts for key, value in part.items()})


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.lists(st.one_of(st.none(), FILES), min_size=1, max_size=3), context=st.one_of(st.none(), NAMES))
def test_any_set_of_files_resolves_as_with_kubectl(files: list[Raw | None], context: str | None) -> None:
    """Random lists of files, some missing: the same context, cluster and user, or a refusal by both."""
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(Path(folder))
        paths = []
        for number, raw in enumerate(files):
            paths.append(str(desk.home / f"file-{number}"))
            if raw is not None:
                desk.write(f"file-{number}", raw)
        desk.environ["KUBECONFIG"] = os.pathsep.join(paths)
        theirs = as_kubectl_sees(desk, *([f"--context={context}"] if context else []))
        # kubectl shows a context without a cluster or server, and then talks to localhost:8080; we refuse.
        if theirs is None or not theirs["server"]:
            with pytest.raises(UsageError):
                desk.resolve(context)
        else:
            assert as_we_see(desk.resolve(context)) == theirs
