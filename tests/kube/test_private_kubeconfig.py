"""
The kubeconfig that a command gets inside our fences: the real kubectl must read from it what it reads from the
original, be the same user through it as through the original, and never be led elsewhere.
"""

from __future__ import annotations

import base64
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings, strategies as st

from fencectl.cluster.kubeconfig import Connection, resolve
from fencectl.cluster.private_kubeconfig import TARGET_NAME, kubeconfig_of, private_kubeconfig, written
from fencectl.core.errors import FencectlError, UsageError
from tests.kube.support_kube import NO_ONE_LISTENS, SECRET, Asked, Desk, LoopbackServer, Raw, config
from tests.support.realcluster import RealCluster

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
# header {}, payload {"exp": 2100-01-01}
ID_TOKEN = "e30.eyJleHAiOjQxMDI0NDQ4MDB9.c2ln"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Sit down in an empty home folder, with temporary files in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return Desk(tmp_path, {"PATH": "/usr/bin:/bin"})


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def view(desk: Desk, *flags: str) -> Raw:
    """Return what kubectl reads; null and empty are the same."""
    done = desk.kubectl("config", "view", "--minify", "--raw", "-o", "json", *flags)
    assert done.returncode == 0, done.stderr
    found: Raw = without_nothing(json.loads(done.stdout))
    return found


def without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: without_nothing(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, [], {}, "")}
    return [without_nothing(item) for item in value] if isinstance(value, list) else value


PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


def original_view(desk: Desk, path: str) -> Raw:
    """Return what kubectl reads from the original, with paths as it anchors them when it connects."""
    found = view(desk, "--kubeconfig", path, "--context", "prod")
    folder = (desk.home / path).parent
    user, cluster = found["users"][0].get("user", {}), found["clusters"][0]["cluster"]
    for entry, key in [(entry, key) for entry in (user, cluster) for key in PATHS if key in entry]:
        entry[key] = os.path.normpath(folder / entry[key])
    command = user.get("exec", {}).get("command", "")
    if "/" in command and not command.startswith("/"):
        user["exec"]["command"] = os.path.normpath(folder / command)
    provider = user.get("auth-provider", {}).get("config", {})
    if "idp-certificate-authority" in provider:  # the one path that is looked for where somebody stands
        provider["idp-certificate-authority"] = str(desk.home / provider["idp-certificate-authority"])
    return found


def private_view(desk: Desk, text: str) -> Raw:
    with written(text) as path:
        return view(desk, "--kubeconfig", str(path))


USERS: dict[str, Raw] = {
    "token": {"token": "fixed"},
    "token file": {"tokenFile": "pki/token"},
    "token that stands in for a file that is gone": {"token": "fixed", "tokenFile": "pki/gone"},
    "certificate file": {"client-certificate": "pki/client.crt", "client-key": "../client.key"},
    "certificate data": {"client-certificate-data": base64_of("crt"), "client-key-data": base64_of("key")},
    "certificate data, key file": {
        "client-certificate-data": base64_of("crt"),
        "client-key": "pki/client.key",
        "token": "fixed",
    },
    "password": {"username": "olé:x", "password": "p:w\\ \"'\n\t\x7f\x85\u2028\ufeff\U0001f600"},
    "exec v1": {
        "exec": {
            "apiVersion": V1,
            "command": "../bin/login",
            "args": ["--a", "", "null", "$HOME", "yes", "0123"],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": ""}],
            "interactiveMode": "Never",
            "provideClusterInfo": True,
            "installHint": "get it from\nthe shop\n",
        }
    },
    "exec v1beta1, found in PATH": {"exec": {"apiVersion": V1BETA1, "command": "login", "args": None}},
    "exec with an absolute path": {
        "exec": {"apiVersion": V1, "command": "/x/../login", "interactiveMode": "Always", "env": []}
    },
    "oidc": {
        "auth-provider": {
            "name": "oidc",
            "config": {
                "idp-issuer-url": "https://127.0.0.1:1",
                "client-id": "fence",
                "client-secret": "",
                "id-token": ID_TOKEN,
                "refresh-token": "r",
                "idp-certificate-authority": ".kube/ca.crt",
            },
        }
    },
    "impersonation": {
        "token": "fixed",
        "as": "jané",
        "as-uid": "42",
        "as-groups": ["ops", "dev team"],
        "as-user-extra": {"scopes": ["a", "b"], "Acme.io/Team%1": ["c"]},
    },
    "nobody": {},
}
CLUSTERS: dict[str, Raw] = {
    "bare": {},
    "base path": {"server": f"{NO_ONE_LISTENS}/k8s/clusters/a%20b/", "disable-compression": True},
    "plain http": {"server": "http://127.0.0.1:1"},
    "no scheme": {"server": "127.0.0.1:1"},
    "ca file": {"certificate-authority": "../ca.crt", "tls-server-name": "kubernetes"},
    "ca data": {
        "certificate-authority-data": base64_of("ca"),
        "proxy-url": "socks5://127.0.0.1:1080",
        "extensions": [
            {
                "name": "client.authentication.k8s.io/exec",
                "extension": {"a": [1, 2.5, True, None, "é\U0001f600"], "b": {"1": "x"}},
            }
        ],
    },
    "insecure": {"insecure-skip-tls-verify": True},
}


def write_everything(desk: Desk, user: Raw, cluster: Raw, **context: str) -> str:
    """Write a kubeconfig in a folder of its own, among others, with all the files that it names."""
    for name in ("ca.crt", "client.key", "sub/pki/client.crt", "sub/pki/client.key", "sub/pki/token"):
        desk.write(name, "x")
    raw = config(user=user, cluster=cluster, context=context)
    other = config(name="other", cluster={"server": "https://127.0.0.1:2"}, user={"token": SECRET})
    for kind in ("clusters", "users", "contexts"):
        raw[kind] = [*other[kind], *raw[kind]]
    raw["current-context"] = "other"
    desk.write("sub/config", yaml.safe_dump(raw))
    return "sub/config"


@pytest.mark.parametrize("kind", USERS)
def test_case_65_each_kind_of_user_reads_as_in_the_original(desk: Desk, kind: str) -> None:
    """Entry by entry, paths made absolute, and nothing of anybody else."""
    path = write_everything(desk, USERS[kind], {})
    text = private_kubeconfig(path, "prod", desk.environ, desk.home)
    assert private_view(desk, text) == original_view(desk, path)
    assert SECRET not in text


@pytest.mark.parametrize("kind", CLUSTERS)
def test_case_65_each_kind_of_cluster_reads_as_in_the_original(desk: Desk, kind: str) -> None:
    """Server with its base path, certificate authority, proxy, compression, what an exec plugin is told."""
    path = write_everything(desk, {"token": "t"}, CLUSTERS[kind], namespace="team-a")
    text = private_kubeconfig(path, "prod", desk.environ, desk.home)
    assert private_view(desk, text) == original_view(desk, path)


@pytest.mark.parametrize("kind", USERS)
def test_there_is_one_of_each_and_it_is_the_current_one(desk: Desk, kind: str) -> None:
    """Whoever asks for another context gets an error, not another cluster."""
    path = write_everything(desk, USERS[kind], {})
    found = yaml.safe_load(private_kubeconfig(path, "prod", desk.environ, desk.home))
    assert [len(found[part]) for part in ("clusters", "users", "contexts")] == [1, 1, 1]
    assert found["current-context"] == found["contexts"][0]["name"] == "prod"
    assert found["contexts"][0]["context"]["cluster"] == found["clusters"][0]["name"]
    assert found["contexts"][0]["context"]["user"] == found["users"][0]["name"]
    named = private_kubeconfig(path, "prod", desk.environ, desk.home, name="a: b\n#")
    assert yaml.safe_load(named)["current-context"] == "a: b\n#"
    assert private_view(desk, named)["contexts"][0]["name"] == "a: b\n#"


def test_a_private_kubeconfig_of_a_private_kubeconfig_is_the_same(desk: Desk) -> None:
    """A deploy inside a deploy: nothing more is lost or added."""
    for user in USERS.values():
        for cluster in CLUSTERS.values():
            once = private_kubeconfig(write_everything(desk, user, cluster), "prod", desk.environ, desk.home)
            with written(once) as path:
                assert private_kubeconfig(str(path), None, desk.environ, desk.home) == once


def test_it_comes_from_the_very_connection_that_is_fenced(desk: Desk) -> None:
    """The files are not read a second time: somebody may have switched contexts meanwhile."""
    path = write_everything(desk, {"token": "mine"}, {})
    connection = desk.resolve("prod", kubeconfig=path)
    desk.write(path, config(user={"token": "theirs"}, cluster={"server": "https://127.0.0.1:3"}))
    found = yaml.safe_load(kubeconfig_of(connection))
    assert found["users"][0]["user"] == {"token": "mine"}
    assert found["clusters"][0]["cluster"] == {"server": NO_ONE_LISTENS}


def test_what_only_other_clients_would_look_at_is_left_out(desk: Desk) -> None:
    """Where kubectl has a token to use, another client must not find a plugin, provider or other token."""
    plugin: Raw = USERS["exec v1"]
    provider: Raw = USERS["oidc"]
    certificate: Raw = {"client-certificate": str(desk.home / "ca.crt"), "client-key": str(desk.home / "ca.crt")}
    token_file: Raw = {"tokenFile": str(desk.home / "sub/pki/token")}
    password: Raw = {"username": "u", "password": "p"}
    for user, left in (
        ({**plugin, "token": "t"}, {"token": "t"}),
        ({**provider, "token": "t"}, {"token": "t"}),
        ({**provider, **password}, password),
        ({**plugin, **password}, password),
        ({**plugin, **token_file, "token": "t"}, token_file),
        ({**plugin, **certificate}, certificate),
    ):
        path = write_everything(desk, user, {})
        found = yaml.safe_load(private_kubeconfig(path, "prod", desk.environ, desk.home))
        assert found["users"][0]["user"] == left
    path = write_everything(desk, {**provider, **certificate}, {})
    found = yaml.safe_load(private_kubeconfig(path, "prod", desk.environ, desk.home))
    assert set(found["users"][0]["user"]) == {"auth-provider", "client-certificate", "client-key"}


def test_no_namespace_stays_no_namespace(desk: Desk) -> None:
    """In a pod kubectl takes the pod's where the context names none."""
    text = private_kubeconfig(write_everything(desk, {}, {}), "prod", desk.environ, desk.home)
    assert "namespace" not in yaml.safe_load(text)["contexts"][0]["context"]


def test_a_context_without_a_user_has_one_that_says_nothing(desk: Desk) -> None:
    """There is one user, so that a client which wants one does not look for another."""
    path = str(desk.write("config", config(user={"token": SECRET}, context={"user": ""})))
    text = private_kubeconfig(path, "prod", desk.environ, desk.home)
    assert yaml.safe_load(text)["users"] == [{"name": "prod", "user": {}}]
    with written(text) as private:
        private_says = desk.kubectl("get", "--raw", "/api", "--kubeconfig", str(private)).stderr
        assert (
            private_says == desk.kubectl("get", "--raw", "/api", "--kubeconfig", path, "--context", "prod").stderr
        )


def test_a_pod_gets_its_service_account_by_file(desk: Desk) -> None:
    """The token goes on being rotated, and the pod's namespace is said."""
    account = desk.home / "account"
    for name, text in (("token", SECRET), ("ca.crt", "x"), ("namespace", "team-b\n")):
        desk.write(f"account/{name}", text)
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    text = private_kubeconfig(None, None, environ, desk.home, service_account=account)
    found = private_view(desk, text)
    assert found["current-context"] == TARGET_NAME
    assert found["clusters"][0]["cluster"] == {
        "server": "https://[fd00::1]:443",
        "certificate-authority": str(account / "ca.crt"),
    }
    assert found["users"][0]["user"] == {"tokenFile": str(account / "token")}
    assert found["contexts"][0]["context"]["namespace"] == "team-b"
    assert SECRET not in text


def test_a_server_from_the_environment_is_said_in_the_file(desk: Desk) -> None:
    """KUBERNETES_MASTER may be another one where the command runs."""
    desk.environ["KUBERNETES_MASTER"] = "http://127.0.0.1:1"
    found = private_view(desk, private_kubeconfig(None, None, desk.environ, desk.home))
    assert (found["current-context"], found["clusters"][0]["cluster"]) == (
        TARGET_NAME,
        {"server": "http://127.0.0.1:1"},
    )
    path = write_everything(desk, {}, {"server": ""})
    text = private_kubeconfig(path, "prod", desk.environ, desk.home)
    assert yaml.safe_load(text)["clusters"][0]["cluster"] == {"server": "http://127.0.0.1:1"}


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=TEXTS, password=TEXTS, config_value=TEXTS)
def test_any_text_survives_json_and_two_readers_of_yaml(
    desk: Desk, name: str, password: str, config_value: str
) -> None:
    """By the YAML that other clients use, and by our own reader."""
    extension = [{"name": "client.authentication.k8s.io/exec", "extension": {config_value: config_value}}]
    raw = config(name=name, user={"username": name, "password": password}, cluster={"extensions": extension})
    path = str(desk.write("config", raw))
    text = private_kubeconfig(path, None, {}, desk.home)
    found = yaml.safe_load(text)
    assert (found["users"], found["contexts"][0]["name"]) == (raw["users"], name)
    desk.write("config", text)
    again = desk.resolve(kubeconfig=path)
    assert again.login.user.password == password
    assert again.login.cluster.exec_config == {config_value: config_value}


def test_every_kind_of_character_survives_the_real_kubectl(desk: Desk) -> None:
    """Its YAML reader refuses halves of surrogate pairs and bare control characters, and folds line separators."""
    every = "".join(map(chr, [*range(1, 0x180), *range(0x2000, 0x2070), 0xD7FF, 0xE000, 0xFEFF, 0xFFFD, 0x10FFFD]))
    path = write_everything(desk, {"username": "u", "password": every}, {})
    found = private_view(desk, private_kubeconfig(path, "prod", desk.environ, desk.home))
    assert found["users"][0]["user"]["password"] == every


@pytest.mark.parametrize("value", [".nan", "&a [*a]", "{? [a] : b}", "!!set {a}"])
def test_an_extension_that_is_no_json_is_refused_without_its_content(desk: Desk, value: str) -> None:
    """YAML can say more than a plugin could be told."""
    desk.write(
        "config",
        "current-context: p\ncontexts: [{name: p, context: {cluster: p}}]\nclusters:\n- name: p\n"
        f"  cluster:\n    server: {NO_ONE_LISTENS}\n    extensions:\n    - name: client.authentication.k8s.io/exec\n"
        f"      extension:\n        {SECRET}: {value}\n",
    )
    with pytest.raises(UsageError) as caught:
        private_kubeconfig("config", None, desk.environ, desk.home)
    assert SECRET not in f"{caught.value!r} {caught.value.reason} {caught.value.hint} {caught.value.__cause__!r}"
    assert caught.value.__suppress_context__


def test_nothing_secret_is_in_a_repr(desk: Desk) -> None:
    """Of the connection that the text comes from."""
    for user in ({"token": SECRET}, {"username": SECRET, "password": SECRET}):
        connection = desk.resolve("prod", kubeconfig=write_everything(desk, user, {}))
        assert SECRET in kubeconfig_of(connection)
        assert SECRET not in f"{connection!r} {connection.entries!r}"


def left_over(desk: Desk) -> list[Path]:
    return sorted((desk.home / "tmp").rglob("*"))


def test_the_file_is_ours_alone_and_gone_afterwards(desk: Desk) -> None:
    """Folder 0700, file 0600 whatever the umask allows, and a path that says nothing."""
    before = os.umask(0)
    try:
        with written(SECRET) as path:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            assert path.read_text() == SECRET
            assert (path.is_absolute(), SECRET in str(path)) == (True, False)
    finally:
        os.umask(before)
    assert left_over(desk) == []


@pytest.mark.parametrize("leaving", [KeyError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_the_file_is_gone_after_an_exception(desk: Desk, leaving: type[BaseException]) -> None:
    """Which goes on as it is."""
    with pytest.raises(leaving) as caught, written(SECRET):
        raise leaving("x")
    assert SECRET not in repr(caught.value)
    assert left_over(desk) == []


def test_what_a_command_leaves_beside_the_file_goes_with_it(desk: Desk) -> None:
    """kubectl's lock, another context, a read-only folder, or the file already gone."""
    with written(json.dumps(config())) as path:
        assert (
            desk.kubectl("config", "set-context", "prod", "--namespace=n", "--kubeconfig", str(path)).returncode
            == 0
        )
        (path.parent / "cache").mkdir()
        (path.parent / "cache/x").write_text("x")
        path.parent.chmod(0o500)
    assert left_over(desk) == []
    with written("x") as path:
        path.unlink()
        path.parent.rmdir()
    assert left_over(desk) == []


def test_nowhere_to_write_is_said_in_a_sentence(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder for temporary files is not there."""
    monkeypatch.setattr(tempfile, "tempdir", str(desk.home / "gone"))
    with pytest.raises(FencectlError) as caught, written(SECRET):
        pass
    assert caught.value.sentence == (
        "no private kubeconfig can be written for the command: no such file or directory"
    )
    assert SECRET not in f"{caught.value!r} {caught.value.hint} {caught.value.__cause__!r}"


# On the real API server: who the server takes us for.

Way = Callable[[Desk, RealCluster], Raw]


def plugin(desk: Desk, script: str, **more: object) -> Raw:
    desk.program(".kube/bin/login", script)
    return {"exec": {"apiVersion": V1, "command": "./bin/login", "interactiveMode": "Never", **more}}


def by_token(desk: Desk, real: RealCluster) -> Raw:
    return {"token": real.token("viewer")}


def by_token_file(desk: Desk, real: RealCluster) -> Raw:
    desk.write(".kube/token", real.token("reporter"))
    return {"tokenFile": "token"}


def by_token_file_and_token(desk: Desk, real: RealCluster) -> Raw:
    return {**by_token_file(desk, real), "token": real.token("viewer")}


def by_certificate_files(desk: Desk, real: RealCluster) -> Raw:
    cert, key = real.client_certificate("carla", groups=["ops", "dev"])
    desk.write(".kube/pki/client.crt", cert.read_text())
    desk.write(".kube/pki/client.key", key.read_text())
    return {"client-certificate": "pki/client.crt", "client-key": "pki/client.key"}


def by_certificate_data(desk: Desk, real: RealCluster) -> Raw:
    cert, key = real.client_certificate("carla", groups=["ops", "dev"])
    return {"client-certificate-data": base64_of(cert.read_text()), "client-key-data": base64_of(key.read_text())}


def by_plugin(desk: Desk, real: RealCluster) -> Raw:
    """A plugin that answers only for the right argument, variable and cluster."""
    answer = json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": {"token": real.token("deployer")}})
    script = f"""
case "$KUBERNETES_EXEC_INFO" in *"{real.url}"*) ;; *) exit 3 ;; esac
test "$1 $WHO" = "a b deployer" && echo '{answer}'"""
    return plugin(desk, script, args=["a b"], env=[{"name": "WHO", "value": "deployer"}], provideClusterInfo=True)


def by_token_beside_plugin_and_provider(desk: Desk, real: RealCluster) -> Raw:
    return {**plugin(desk, f"touch {desk.home}/was-run; exit 1"), **by_token(desk, real)}


def by_token_beside_provider(desk: Desk, real: RealCluster) -> Raw:
    return {**USERS["oidc"], **by_token(desk, real)}


def by_certificate_beside_plugin(desk: Desk, real: RealCluster) -> Raw:
    return {**plugin(desk, f"touch {desk.home}/was-run; exit 1"), **by_certificate_files(desk, real)}


def by_impersonation(desk: Desk, real: RealCluster) -> Raw:
    return {**USERS["impersonation"], "token": real.token("admin")}


WAYS: dict[Way, str] = {
    by_token: "viewer",
    by_token_file: "reporter",
    by_token_file_and_token: "reporter",
    by_certificate_files: "carla",
    by_certificate_data: "carla",
    by_plugin: "deployer",
    by_token_beside_plugin_and_provider: "viewer",
    by_token_beside_provider: "viewer",
    by_certificate_beside_plugin: "carla",
    by_impersonation: "jané",
}
ways = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


@pytest.fixture
def listed(desk: Desk, real_cluster: RealCluster) -> Iterator[list[Path]]:
    """Write other people's files: other contexts, and the same names with other values; the server is real."""
    cluster = {"server": real_cluster.url, "insecure-skip-tls-verify": True}
    decoy = {"token": real_cluster.token("operator")}
    paths = [
        desk.write("first", config(name="other", user=decoy, cluster=cluster)),
        desk.write("last", config(user={"token": SECRET}, cluster={"server": NO_ONE_LISTENS})),
    ]
    yield paths
    assert not (desk.home / "was-run").exists()


def write_original(desk: Desk, real_cluster: RealCluster, user: Raw, **more: str) -> Path:
    desk.write(".kube/ca.crt", real_cluster.ca_pem)
    cluster = {"server": real_cluster.url, "certificate-authority": "ca.crt", **more}
    return desk.write(".kube/config", config(user=user, cluster=cluster))


def known(info: Raw) -> Raw:
    """Leave out what differs from one log-in to the next: the credential's own number."""
    extra = info.get("extra") or {}
    extra.pop("authentication.kubernetes.io/credential-id", None)
    return {**info, "groups": sorted(info["groups"]), "extra": extra}


def whoami_by_the_package(path: Path) -> Raw:
    """Ask with the `kubernetes` package, which finds its way through a kubeconfig by other rules."""
    from kubernetes import config as package_config
    from kubernetes.client import ApiClient, Configuration

    configuration = Configuration()
    load: Any = package_config.load_kube_config
    load(config_file=str(path), client_configuration=configuration)
    with ApiClient(configuration) as client:
        asked = client.param_serialize(
            "POST",
            WHOAMI,
            body={"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
            header_params={"Accept": "application/json", "Content-Type": "application/json"},
            auth_settings=["BearerToken"],
        )
        answer = client.call_api(*asked, _request_timeout=(5, 30))
        body = answer.read()
    assert answer.status == 201, body
    info: Raw = json.loads(body)["status"]["userInfo"]
    return info


@pytest.mark.real
@ways
def test_case_65_the_server_takes_us_for_the_same_user(
    desk: Desk, real_cluster: RealCluster, listed: list[Path], way: Way
) -> None:
    """Whatever stands first in KUBECONFIG and whatever context is the current one."""
    original = write_original(desk, real_cluster, way(desk, real_cluster))
    theirs = known(desk.whoami("--kubeconfig", str(original), "--context", "prod"))
    assert theirs["username"] == WAYS[way]
    first, last = listed
    desk.environ["KUBECONFIG"] = f"{first}:{original}:{last}"
    text = private_kubeconfig(None, "prod", desk.environ, desk.home)
    assert desk.whoami()["username"] == "operator", "the decoy is what the caller's environment leads to"
    for order in (f"{first}:{original}:{last}", f"{last}:{original}", str(first), str(desk.home / "gone")):
        desk.environ["KUBECONFIG"] = order
        with written(text) as path:
            assert known(desk.whoami("--kubeconfig", str(path))) == theirs
            desk.environ["KUBECONFIG"] = str(path)
            assert known(desk.whoami()) == theirs
            assert desk.kubectl("auth", "whoami", "--context", "other").returncode != 0


@pytest.mark.real
@ways
def test_case_65_another_client_reaches_the_same_server_as_the_same_user(
    desk: Desk, real_cluster: RealCluster, listed: list[Path], way: Way
) -> None:
    """The `kubernetes` package, which takes the last current context of a list and knows no impersonation."""
    original = write_original(desk, real_cluster, way(desk, real_cluster))
    environ = {**desk.environ, "KUBECONFIG": f"{original}:{listed[0]}:{listed[1]}"}
    with written(private_kubeconfig(None, None, environ, desk.home)) as path:
        found = known(whoami_by_the_package(path))
        if way is not by_impersonation:
            assert found == known(desk.whoami("--kubeconfig", str(path)))
        else:
            assert found["username"] == "admin"


@pytest.mark.real
def test_a_token_file_goes_on_being_rotated(desk: Desk, real_cluster: RealCluster) -> None:
    """The private file names it and holds no copy."""
    write_original(desk, real_cluster, by_token_file(desk, real_cluster))
    with written(private_kubeconfig(None, None, desk.environ, desk.home)) as path:
        desk.write(".kube/token", real_cluster.token("viewer"))
        assert desk.whoami("--kubeconfig", str(path))["username"] == "viewer"


@pytest.mark.real
def test_a_pod_stays_its_service_account(desk: Desk, real_cluster: RealCluster) -> None:
    """kubectl through the file, where it would otherwise have found its own way."""
    host, _, port = real_cluster.url.removeprefix("https://").partition(":")
    desk.write("account/token", real_cluster.token("viewer"))
    desk.write("account/ca.crt", real_cluster.ca_pem)
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    connection: Connection = resolve(None, None, environ, desk.home, service_account=desk.home / "account")
    with written(kubeconfig_of(connection)) as path:
        assert desk.whoami("--kubeconfig", str(path))["username"] == "viewer"
        assert whoami_by_the_package(path)["username"] == "viewer"


@pytest.mark.real
def test_a_server_name_for_tls_is_kept(desk: Desk, real_cluster: RealCluster) -> None:
    """Without it the certificate would not fit the name in the URL."""
    url = real_cluster.url.replace("127.0.0.1", "localhost")
    write_original(
        desk, real_cluster, by_token(desk, real_cluster), **{"server": url, "tls-server-name": "kubernetes"}
    )
    with written(private_kubeconfig(None, None, desk.environ, desk.home)) as path:
        assert desk.whoami("--kubeconfig", str(path))["username"] == "viewer"
        assert whoami_by_the_package(path)["username"] == "viewer"


@pytest.mark.real
@pytest.mark.parametrize("kind", ["password", "oidc"])
def test_what_no_test_server_believes_goes_out_in_the_same_header(
    desk: Desk, real_cluster: RealCluster, kind: str
) -> None:
    """Original, private file, and the package with the private file, on a loopback server that compares them."""
    certificate = (real_cluster.folder / "certs/apiserver.crt", real_cluster.folder / "certs/apiserver.key")
    user = {"username": "jane", "password": "p:w"} if kind == "password" else USERS["oidc"]
    asked: list[Asked] = []
    with LoopbackServer(
        lambda _, peer: peer.say(201, b'{"status":{"userInfo":{}}}'), certificate=certificate
    ) as server:
        original = write_original(desk, real_cluster, user, server=f"{server.url}/base/")
        with written(private_kubeconfig(None, None, desk.environ, desk.home)) as path:
            for flag in (str(original), str(path)):
                assert desk.kubectl("get", "--raw", WHOAMI, "--kubeconfig", flag).returncode == 0
            whoami_by_the_package(path)
        asked = server.asked
    headers = {one.header("authorization") for one in asked}
    assert len(asked) == 3
    assert len(headers) == 1
    assert None not in headers
    assert {one.target for one in asked} == {f"/base{WHOAMI}"}
