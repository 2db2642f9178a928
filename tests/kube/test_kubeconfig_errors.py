"""What is wrong with a kubeconfig is one sentence with file and name: where kubectl refuses, and never with a secret."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from fencectl.cluster.kubeconfig import resolve
from fencectl.core.errors import ExitCode, UsageError
from tests.kube.support_kube import NO_ONE_LISTENS, SECRET, Desk, Raw, config

SECRET64 = base64.b64encode(SECRET.encode()).decode()
CERTIFICATE: Raw = {"client-certificate-data": SECRET64, "client-key-data": SECRET64}
EXEC: Raw = {"command": "plug", "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Sit down in an empty home folder."""
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path)


def refused(desk: Desk, context: str | None = None, *, kubeconfig: str | None = None) -> UsageError:
    """Return the refusal; whatever it says, no planted secret is in it."""
    with pytest.raises(UsageError) as caught:
        desk.resolve(context, kubeconfig=kubeconfig)
    error = caught.value
    assert error.exit_code is ExitCode.USAGE
    everything = f"{error.sentence} {error.reason} {error.hint} {error.args} {error.__cause__!r}"
    assert SECRET not in everything
    assert SECRET64 not in everything
    assert error.__suppress_context__ or error.__context__ is None
    return error


def kubectl_refuses(desk: Desk) -> bool:
    """Whether kubectl stops before it tries to connect."""
    done = desk.kubectl("get", "--raw", "/version", "--request-timeout=5s")
    assert done.returncode != 0, "nobody listens there"
    return "was refused" not in done.stderr


def test_a_tab_is_named_with_file_and_line(desk: Desk) -> None:
    """The commonest mistake in YAML, as the contract words it."""
    desk.write(".kube/config", "\n".join(["a: 1"] * 13) + f"\n\ttoken: {SECRET}\n")
    error = refused(desk)
    assert error.sentence == "~/.kube/config line 14: not valid YAML (found a tab)"
    assert error.hint == "`kubectl config view` reads the same file and shows the same error"
    assert kubectl_refuses(desk)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"users:\n- token: *{SECRET}\n", "f line 2: not valid YAML (found an alias that is not defined)"),
        (f"a: b\nusers: [{SECRET}\n", "f line 3: not valid YAML (did not find expected ',' or ']')"),
        (f"a: 'x\n{SECRET}", "f line 2: not valid YAML (found unexpected end of stream)"),
        (f"a: {SECRET}: b\n", "f line 1: not valid YAML (mapping values are not allowed in this context)"),
        (f'a: "\\{SECRET}"\n', "f line 1: not valid YAML"),
        (f"%{SECRET}\n", "f line 1: not valid YAML"),
        (f"a: @{SECRET}\n", "f line 1: not valid YAML"),
        (f"? [{SECRET}]\n: x\n", "f line 1: not valid YAML"),
        (f"- {SECRET}\n", "f: `the file` must be a mapping"),
        (SECRET, "f: `the file` must be a mapping"),
    ],
)
def test_broken_yaml_is_named_without_its_content(desk: Desk, text: str, sentence: str) -> None:
    """libyaml's texts quote aliases, tags and characters: none of that is passed on."""
    desk.environ["KUBECONFIG"] = str(desk.write("f", text))
    assert refused(desk).sentence == sentence.replace("f", "~/f", 1)
    assert kubectl_refuses(desk)


def test_bytes_that_are_no_text_are_refused(desk: Desk) -> None:
    """A binary file named by mistake."""
    desk.write("f", "").write_bytes(b"\x00\xff\xfe" + SECRET.encode())
    assert refused(desk, kubeconfig="f").sentence.startswith("f")


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        ({"kind": "Pod"}, "~/.kube/config: not a kubeconfig (kind and apiVersion must be `Config` and `v1`)"),
        ({"apiVersion": "v2"}, "~/.kube/config: not a kubeconfig (kind and apiVersion must be `Config` and `v1`)"),
        ({"users": {"name": SECRET}}, "~/.kube/config: `users` must be a list"),
        ({"users": [SECRET]}, "~/.kube/config: `users[0]` must be a mapping"),
        ({"users": [{"name": "u", "user": SECRET}]}, "~/.kube/config: `users[0].user` must be a mapping"),
        (
            {"users": [{"name": "u", "user": {"exec": {"args": [1]}}}]},
            "~/.kube/config: `users[0].user.exec.args[0]` must be text (a number or yes/no needs quotes)",
        ),
        (
            {"users": [{"name": "u", "user": {"as-user-extra": {"k": SECRET}}}]},
            "~/.kube/config: `users[0].user.as-user-extra.k` must be a list",
        ),
        (
            {"users": [{"name": "u", "user": {"client-key-data": f"{SECRET}!"}}]},
            "~/.kube/config: `users[0].user.client-key-data` must be base64",
        ),
        (
            {"clusters": [{"name": "c", "cluster": {"insecure-skip-tls-verify": "no"}}]},
            "~/.kube/config: `clusters[0].cluster.insecure-skip-tls-verify` must be true or false",
        ),
        (
            {"users": [{"name": "u", "user": {"token": SECRET}}, {"name": "u"}]},
            "~/.kube/config: two entries of `users` are called `u`",
        ),
    ],
)
def test_a_value_of_a_wrong_type_is_named_by_its_place(desk: Desk, raw: Raw, sentence: str) -> None:
    """One bad value spoils the whole file, in an entry that nobody uses as well."""
    desk.write(".kube/config", {**config(), **raw})
    assert refused(desk).sentence == sentence
    assert kubectl_refuses(desk)


def test_an_unknown_context_gets_the_nearest_name_and_the_list(desk: Desk) -> None:
    """Typing `prd` for `prod`, as the contract words it."""
    a = desk.write("a", config(name="prod"))
    b, c = desk.write("b", config(name="staging")), desk.write("c", config(name="dev"))
    desk.environ["KUBECONFIG"] = f"{a}:{b}:{c}"
    error = refused(desk, "prd")
    assert error.sentence == "no context `prd` in ~/a, ~/b, ~/c"
    assert error.hint == "did you mean `prod`? There are: dev, prod, staging"


def test_a_current_context_that_is_not_there_is_refused(desk: Desk) -> None:
    """A deleted context stays current in many kubeconfigs."""
    desk.write(".kube/config", {**config(), "current-context": "gone"})
    assert refused(desk).sentence == "no context `gone` in ~/.kube/config"
    assert kubectl_refuses(desk)


def test_no_context_chosen_lists_those_there_are(desk: Desk) -> None:
    """kubectl goes to localhost:8080 then; nobody's fences are there."""
    desk.write(".kube/config", {**config(), "current-context": ""})
    error = refused(desk)
    assert error.sentence == "no current context in ~/.kube/config"
    assert error.hint == "name one with --context. There are: prod"


@pytest.mark.parametrize(
    ("environ", "flag", "context", "sentence"),
    [
        ({}, None, None, "no kubeconfig: there is no ~/.kube/config"),
        ({}, None, "prod", "no context `prod`: there is no ~/.kube/config"),
        ({"KUBECONFIG": "/no/a:/no/b"}, None, None, "no kubeconfig: there is no /no/a, /no/b"),
        ({"KUBECONFIG": ":"}, None, None, "no kubeconfig: there is no file in KUBECONFIG"),
        ({}, "gone", None, "no kubeconfig at gone"),
    ],
)
def test_no_file_at_all_is_said(
    desk: Desk, environ: dict[str, str], flag: str | None, context: str | None, sentence: str
) -> None:
    """Which files were looked for is in the sentence."""
    desk.environ.update(environ)
    assert refused(desk, context, kubeconfig=flag).sentence == sentence


def test_a_file_that_may_not_be_read_spoils_the_list(desk: Desk) -> None:
    """Passing it over would resolve to another cluster than kubectl's."""
    a, b = desk.write("a", config(name="hidden")), desk.write("b", config())
    desk.environ["KUBECONFIG"] = f"{a}/under:{b}"
    assert refused(desk).sentence == "~/a/under cannot be read: not a directory"
    assert kubectl_refuses(desk)
    desk.environ["KUBECONFIG"] = f"{desk.home}:{b}"
    assert refused(desk).sentence.endswith("cannot be read: is a directory")
    assert kubectl_refuses(desk)


def test_a_dangling_cluster_or_user_is_refused(desk: Desk) -> None:
    """kubectl would go to localhost:8080 in one case, and ask for a user name in the other."""
    raw = config()
    desk.write(".kube/config", {**raw, "clusters": None})
    error = refused(desk)
    assert error.sentence == "context `prod` in ~/.kube/config names the cluster `prod`, which is not there"
    assert error.hint == "There are no clusters"
    desk.write(".kube/config", {**raw, "users": [{"name": "other"}]})
    error = refused(desk)
    assert error.sentence == "context `prod` in ~/.kube/config names the user `prod`, which is not there"
    assert error.hint == "There are users: other"
    desk.write(".kube/config", {**raw, "contexts": [{"name": "prod"}]})
    assert refused(desk).sentence == "context `prod` in ~/.kube/config names no cluster"


def test_a_cluster_without_a_server_is_refused(desk: Desk) -> None:
    """kubectl's own default is localhost:8080, where no fence stands."""
    desk.write(".kube/config", config(cluster={"server": ""}))
    assert refused(desk).sentence == "cluster `prod` in ~/.kube/config names no server"
    desk.environ["KUBERNETES_MASTER"] = NO_ONE_LISTENS
    assert desk.resolve().server == NO_ONE_LISTENS


@pytest.mark.parametrize(
    ("server", "sentence"),
    [
        ("127.0.0.1:1/a", "the server of cluster `prod` is neither a URL nor host:port"),
        ("https://127.0.0.1:abc", "the server of cluster `prod` is neither a URL nor host:port"),
        ("https://", "the server of cluster `prod` is neither a URL nor host:port"),
        ("ftp://127.0.0.1:1", "the server of cluster `prod` must begin with https:// or http://"),
    ],
)
def test_a_server_that_is_no_address_is_refused(desk: Desk, server: str, sentence: str) -> None:
    """As kubectl does, without repeating the value."""
    desk.write(".kube/config", config(cluster={"server": server}))
    assert refused(desk).sentence == sentence
    assert kubectl_refuses(desk)


def test_a_password_in_the_servers_url_is_refused(desk: Desk) -> None:
    """The server's address stands in every report; a password must not."""
    desk.write(".kube/config", config(cluster={"server": f"https://admin:{SECRET}@127.0.0.1:1"}))
    assert "user name or password" in refused(desk).sentence


@pytest.mark.parametrize(
    ("cluster", "part"),
    [
        ({"certificate-authority": "ca", "certificate-authority-data": SECRET64}, "keep one"),
        ({"certificate-authority": "ca", "insecure-skip-tls-verify": True}, "keep one"),
        ({"certificate-authority": "gone"}, "cannot be read: no such file or directory"),
        ({"proxy-url": f"ftp://{SECRET}@127.0.0.1"}, "must begin with http://, https:// or socks5://"),
        ({"proxy-url": SECRET}, "`proxy-url` of cluster `prod` is not a URL"),
        ({"proxy-url": f"http://u:{SECRET}@127.0.0.1:port"}, "is not a URL"),
    ],
)
def test_a_cluster_entry_that_kubectl_refuses_is_refused(desk: Desk, cluster: Raw, part: str) -> None:
    """Contradictions and missing files, before anything is sent."""
    desk.write(".kube/ca", "x")
    desk.write(".kube/config", config(cluster=cluster))
    assert part in refused(desk).sentence
    assert kubectl_refuses(desk)


@pytest.mark.parametrize(
    ("user", "part"),
    [
        ({"token": SECRET, "username": "a", "password": SECRET}, "has a token and a password: keep one"),
        ({"tokenFile": "here", "username": "a", "password": SECRET}, "has a token and a password: keep one"),
        ({"tokenFile": "gone"}, "cannot be read: no such file or directory"),
        ({**CERTIFICATE, "client-certificate": "here"}, "both client-certificate and client-certificate-data"),
        ({**CERTIFICATE, "client-key": "here"}, "both client-key and client-key-data"),
        ({"client-certificate-data": SECRET64}, "without client-key or client-key-data"),
        ({"client-certificate": "gone", "client-key-data": SECRET64}, "cannot be read"),
        ({"client-certificate-data": SECRET64, "client-key": "gone"}, "cannot be read"),
        ({"token": SECRET, "as-groups": ["ops"]}, "without `as`"),
        ({"token": SECRET, "as-uid": "1"}, "without `as`"),
        ({"exec": {**EXEC, "interactiveMode": ""}}, "has no interactiveMode"),
        ({"exec": {**EXEC, "interactiveMode": SECRET}}, "has an interactiveMode that is none of"),
        ({"exec": {**EXEC, "command": ""}}, "has no command"),
        ({"exec": {**EXEC, "apiVersion": ""}}, "has no apiVersion"),
        (
            {"exec": {**EXEC, "apiVersion": "client.authentication.k8s.io/v1alpha1"}},
            "has an apiVersion that is none",
        ),
        ({"exec": {**EXEC, "env": [{"name": "", "value": SECRET}]}}, "environment variable without a name"),
        ({"exec": EXEC, "auth-provider": {"name": "oidc"}}, "has an exec plugin and an auth-provider"),
        ({"auth-provider": {"name": "gcp", "config": {"access-token": SECRET}}}, "the auth-provider `gcp`"),
        ({"auth-provider": {"name": "azure"}}, "the auth-provider `azure`"),
        ({"auth-provider": {"name": "oidc", "config": {"id-token": SECRET}}}, "has no `idp-issuer-url`"),
        (
            {"auth-provider": {"name": "oidc", "config": {"idp-issuer-url": "https://i", "id-token": SECRET}}},
            "has no `client-id`",
        ),
    ],
)
def test_a_user_entry_that_kubectl_refuses_is_refused(desk: Desk, user: Raw, part: str) -> None:
    """Each of these stops kubectl before it connects, so it stops us."""
    desk.write(".kube/here", "x")
    desk.write(".kube/config", config(user=user))
    assert part in refused(desk).sentence
    assert kubectl_refuses(desk)


@pytest.mark.parametrize("token", [f"{SECRET}\nX-Evil: 1", f"{SECRET}\t", f"{SECRET}é"])
def test_a_token_that_no_header_can_carry_is_refused_unread(desk: Desk, token: str) -> None:
    """http.client would raise with the token in its text."""
    desk.write(".kube/config", config(user={"token": token}))
    assert refused(desk).sentence == "the token of user `prod` holds a character that no HTTP header can carry"


def test_an_impersonated_name_with_a_line_break_is_refused(desk: Desk) -> None:
    """A header must not begin inside a name."""
    desk.write(".kube/config", config(user={"token": "t", "as": "a\r\nX-Evil: 1"}))
    assert refused(desk).sentence == "the kubeconfig's value for Impersonate-User holds a line break"


def test_http_proxy_in_a_cgi_program_is_refused(desk: Desk) -> None:
    """A request's `Proxy:` header becomes HTTP_PROXY there; Go refuses it, too."""
    desk.environ.update({"HTTP_PROXY": "http://127.0.0.1:9", "REQUEST_METHOD": "GET"})
    desk.write(".kube/config", config(cluster={"server": "http://api.example.test"}))
    assert "REQUEST_METHOD" in refused(desk).sentence


def test_nothing_that_is_printed_of_a_connection_holds_a_secret(desk: Desk) -> None:
    """`repr` ends up in tracebacks and logs."""
    user: Raw = {
        "token": SECRET,
        **CERTIFICATE,
        "exec": {**EXEC, "args": [SECRET], "env": [{"name": "X", "value": SECRET}]},
    }
    cluster: Raw = {
        "proxy-url": f"http://me:{SECRET}@127.0.0.1:9",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"k": SECRET}}],
    }
    desk.write(".kube/config", config(user=user, cluster=cluster))
    desk.environ["SOME_TOKEN"] = SECRET
    found = desk.resolve()
    transport = found.open()
    everything = [found, found.login, found.login.user, found.login.cluster, found.proxy, found.tls, transport]
    ticket_source = found.login.source(transport._clock)
    shown = " ".join(repr(thing) for thing in [*everything, ticket_source, *vars(ticket_source).values()])
    for secret in (SECRET, SECRET64, repr(SECRET.encode())[2:-1]):
        assert secret not in shown


def test_a_relative_folder_of_the_home_is_not_confused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` is written only for what lies below the home folder."""
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "me"
    other = tmp_path / "me-too"
    other.mkdir()
    (other / "f").write_text("- a")
    with pytest.raises(UsageError) as caught:
        resolve(None, None, {"KUBECONFIG": str(other / "f")}, home)
    assert caught.value.sentence.startswith(f"{other}{os.sep}f")
