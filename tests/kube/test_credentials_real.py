"""Each way to log in, on a real API server: the server must take us for whom it takes the real kubectl for."""

from __future__ import annotations

import base64
import json
import os
import tempfile
from pathlib import Path

import pytest

from fencectl.cluster.answer import read_refusal
from fencectl.cluster.failures import Kind, Unauthorised, Unreachable
from fencectl.cluster.kubeconfig import resolve
from fencectl.cluster.transport import Transport
from fencectl.core.errors import UsageError
from tests.kube.support_kube import SECRET, Desk, FakeClock, LoopbackServer, Raw, config
from tests.support.realcluster import RealCluster

pytestmark = pytest.mark.real

WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
QUESTION = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
V1 = "client.authentication.k8s.io/v1"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Sit down in an empty home folder, with nothing but PATH in the environment."""
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path, {"PATH": "/usr/bin:/bin"})


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def ca(real_cluster: RealCluster) -> Raw:
    return {"certificate-authority-data": base64_of(real_cluster.ca_pem)}


def write_config(desk: Desk, real_cluster: RealCluster, user: Raw, cluster: Raw | None = None) -> None:
    entry = {"server": real_cluster.url, **(ca(real_cluster) if cluster is None else cluster)}
    desk.write(".kube/config", config(user=user, cluster=entry))


def whoami(transport: Transport) -> Raw:
    """Ask the API server whom it takes us for."""
    answer = transport.send("POST", WHOAMI, body=QUESTION, content_type="application/json")
    assert answer.status == 201, answer
    info: Raw = json.loads(answer.body)["status"]["userInfo"]
    return info


def both(desk: Desk) -> Raw:
    """Ask through kubectl and by ourselves; return what both were told."""
    theirs = desk.whoami()
    with desk.resolve().open() as transport:
        ours = whoami(transport)
    for info in (theirs, ours):
        # Differs from one log-in to the next: the credential's own number.
        info.get("extra", {}).pop("authentication.kubernetes.io/credential-id", None)
    assert ours == theirs
    return ours


def test_a_token_logs_in(desk: Desk, real_cluster: RealCluster) -> None:
    """The plainest way."""
    write_config(desk, real_cluster, {"token": real_cluster.token("viewer")})
    assert both(desk)["username"] == "viewer"


def test_a_token_file_logs_in_and_wins_over_a_token(desk: Desk, real_cluster: RealCluster) -> None:
    """Other clients take the token that stands in the kubeconfig."""
    desk.write(".kube/token", f"{real_cluster.token('reporter')}\n")
    write_config(desk, real_cluster, {"tokenFile": "token"})
    assert both(desk)["username"] == "reporter"
    write_config(desk, real_cluster, {"tokenFile": "token", "token": real_cluster.token("viewer")})
    assert both(desk)["username"] == "reporter"


def test_a_token_stands_in_for_a_token_file_that_is_gone(desk: Desk, real_cluster: RealCluster) -> None:
    """Both are given and the file is missing: kubectl goes on with the token."""
    write_config(desk, real_cluster, {"tokenFile": "gone", "token": real_cluster.token("viewer")})
    assert both(desk)["username"] == "viewer"


def test_a_token_file_that_is_rotated_is_read_again(desk: Desk, real_cluster: RealCluster) -> None:
    """After a minute by itself, and at once when the server answers 401."""
    token = desk.write(".kube/token", real_cluster.token("viewer"))
    write_config(desk, real_cluster, {"tokenFile": "token"})
    clock = FakeClock()
    transport = desk.resolve().open(clock=clock)
    assert whoami(transport)["username"] == "viewer"
    token.write_text(real_cluster.token("reporter"))
    assert whoami(transport)["username"] == "viewer"
    clock.now_s += 60
    assert whoami(transport)["username"] == "reporter"
    token.write_text("expired")
    clock.now_s += 60
    with pytest.raises(Unauthorised):
        transport.get("/api")
    token.write_text(real_cluster.token("deployer"))
    assert whoami(transport)["username"] == "deployer"
    transport.close()


@pytest.mark.parametrize("by_file", [True, False])
def test_a_client_certificate_logs_in(desk: Desk, real_cluster: RealCluster, by_file: bool) -> None:
    """By file or by data, with its organisations as groups."""
    cert, key = real_cluster.client_certificate("carla", groups=["ops", "dev"])
    if by_file:
        user: Raw = {"client-certificate": str(cert), "client-key": str(key)}
    else:
        user = {
            "client-certificate-data": base64_of(cert.read_text()),
            "client-key-data": base64_of(key.read_text()),
        }
    write_config(desk, real_cluster, user)
    seen = both(desk)
    assert (seen["username"], sorted(seen["groups"])) == ("carla", ["dev", "ops", "system:authenticated"])


def test_a_client_key_is_not_left_behind_where_there_is_no_memfd(
    desk: Desk, real_cluster: RealCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere than on Linux it passes through a file that nobody else can read, and that is gone at once."""
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr(tempfile, "tempdir", str(desk.home / "tmp"))
    (desk.home / "tmp").mkdir()
    cert, key = real_cluster.client_certificate("carla", groups=["ops", "dev"])
    answer = credential(clientCertificateData=cert.read_text(), clientKeyData=key.read_text())
    desk.write("answer.json", answer)
    write_config(desk, real_cluster, exec_entry(desk, f"cat {desk.home}/answer.json"))
    assert both(desk)["username"] == "carla"
    assert list((desk.home / "tmp").iterdir()) == []


def test_a_certificate_by_data_with_its_key_by_file_logs_in(desk: Desk, real_cluster: RealCluster) -> None:
    """Mixed, as kubectl allows."""
    cert, key = real_cluster.client_certificate("carla", groups=["ops", "dev"])
    write_config(
        desk,
        real_cluster,
        {"client-certificate-data": base64_of(cert.read_text()), "client-key": str(key)},
    )
    assert both(desk)["username"] == "carla"


def test_a_token_beside_a_certificate(desk: Desk, real_cluster: RealCluster) -> None:
    """The server asks for both; whichever it believes, it is the same for kubectl."""
    cert, key = real_cluster.client_certificate("carla", groups=["ops", "dev"])
    write_config(
        desk,
        real_cluster,
        {
            "client-certificate": str(cert),
            "client-key": str(key),
            "token": real_cluster.token("viewer"),
        },
    )
    both(desk)


def test_a_client_certificate_that_is_rotated_is_used_at_once(desk: Desk, real_cluster: RealCluster) -> None:
    """New files, and the open connection still speaks for the old one: it is left."""
    paths = [desk.home / "client.crt", desk.home / "client.key"]
    write_config(desk, real_cluster, {"client-certificate": str(paths[0]), "client-key": str(paths[1])})
    transport = None
    for name in ("carla", "carlo"):
        groups = ["ops", "dev"] if name == "carla" else ["ops"]
        for path, source in zip(paths, real_cluster.client_certificate(name, groups=groups), strict=True):
            path.write_bytes(source.read_bytes())
        transport = transport or desk.resolve().open()
        assert whoami(transport)["username"] == name
    assert transport is not None
    transport.close()


def test_a_certificate_and_key_that_do_not_fit_are_refused(desk: Desk, real_cluster: RealCluster) -> None:
    """Before anything is sent, in one sentence."""
    cert, _ = real_cluster.client_certificate("carla", groups=["ops", "dev"])
    _, key = real_cluster.client_certificate("carlo", groups=["ops"])
    write_config(desk, real_cluster, {"client-certificate": str(cert), "client-key": str(key)})
    with pytest.raises(UsageError) as caught:
        desk.resolve().open().get("/api")
    assert "do not fit each other" in caught.value.sentence
    assert desk.kubectl("get", "--raw", "/api").returncode != 0


def exec_entry(desk: Desk, script: str, **more: object) -> Raw:
    program = desk.program("bin/login", script)
    return {"exec": {"apiVersion": V1, "command": str(program), "interactiveMode": "Never", **more}}


def credential(**status: object) -> str:
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})


def test_an_exec_plugin_logs_in_by_token(desk: Desk, real_cluster: RealCluster) -> None:
    """Token, arguments and environment as the kubeconfig says."""
    script = f"""test "$1 $WHO" = "login viewer" && echo '{credential(token=real_cluster.token("viewer"))}'"""
    user = exec_entry(desk, script, args=["login"], env=[{"name": "WHO", "value": "viewer"}])
    write_config(desk, real_cluster, user)
    assert both(desk)["username"] == "viewer"


def test_an_exec_plugin_logs_in_by_certificate(desk: Desk, real_cluster: RealCluster) -> None:
    """A certificate and key in the plugin's answer."""
    cert, key = real_cluster.client_certificate("carla", groups=["ops", "dev"])
    answer = credential(clientCertificateData=cert.read_text(), clientKeyData=key.read_text())
    desk.write("answer.json", answer)
    write_config(desk, real_cluster, exec_entry(desk, f"cat {desk.home}/answer.json"))
    assert both(desk)["username"] == "carla"


def test_a_token_beats_an_exec_plugin(desk: Desk, real_cluster: RealCluster) -> None:
    """The plugin is not even run, as with kubectl."""
    user = exec_entry(desk, f"touch {desk.home}/was-run; exit 1")
    write_config(desk, real_cluster, {**user, "token": real_cluster.token("viewer")})
    assert both(desk)["username"] == "viewer"
    assert not (desk.home / "was-run").exists()


def test_a_certificate_beats_an_exec_plugin(desk: Desk, real_cluster: RealCluster) -> None:
    """Likewise."""
    cert, key = real_cluster.client_certificate("carla", groups=["ops", "dev"])
    user = exec_entry(desk, f"touch {desk.home}/was-run; exit 1")
    write_config(desk, real_cluster, {**user, "client-certificate": str(cert), "client-key": str(key)})
    assert both(desk)["username"] == "carla"
    assert not (desk.home / "was-run").exists()


def test_case_69_a_plugins_token_is_fetched_anew_once_the_server_refuses_it(
    desk: Desk, real_cluster: RealCluster
) -> None:
    """A token without an expiry that stops working: one more run of the plugin, and the read goes on."""
    answer = desk.write("answer.json", credential(token=real_cluster.token("viewer")))
    write_config(desk, real_cluster, exec_entry(desk, f"echo run >>{desk.home}/runs; cat {answer}"))
    transport = desk.resolve().open()
    assert whoami(transport)["username"] == "viewer"
    assert whoami(transport)["username"] == "viewer"
    assert (desk.home / "runs").read_text().count("run") == 1
    transport._tickets.renew(transport._tickets.ticket(wait_s=9), wait_s=9)  # the plugin's answer is still good
    answer.write_text(credential(token="revoked"))
    transport._tickets.renew(transport._tickets.ticket(wait_s=9), wait_s=9)  # and now it is not
    runs = (desk.home / "runs").read_text().count("run")
    answer.write_text(credential(token=real_cluster.token("reporter")))
    assert whoami(transport)["username"] == "reporter"
    assert (desk.home / "runs").read_text().count("run") == runs + 1
    transport.close()


def test_impersonation_of_user_groups_uid_and_extra(desk: Desk, real_cluster: RealCluster) -> None:
    """Other clients ignore `as` and act as the admin who impersonates."""
    write_config(
        desk,
        real_cluster,
        {
            "token": real_cluster.token("admin"),
            "as": "jané",
            "as-uid": "42",
            "as-groups": ["ops", "dev team"],
            "as-user-extra": {"scopes": ["a", "b"], "Acme.io/Team%1": ["c"]},
        },
    )
    seen = both(desk)
    assert (seen["username"], seen["uid"]) == ("jané", "42")
    assert seen["extra"] == {"scopes": ["a", "b"], "acme.io/team%1": ["c"]}
    assert sorted(seen["groups"]) == ["dev team", "ops", "system:authenticated"]


def test_no_user_is_anonymous(desk: Desk, real_cluster: RealCluster) -> None:
    """A context without a user sends no credentials; the server says 401 or lets `anonymous` in."""
    raw = config(cluster={"server": real_cluster.url, **ca(real_cluster)}, context={"user": ""})
    desk.write(".kube/config", raw)
    transport = desk.resolve().open()
    answer = transport.get("/api/v1/nodes")
    assert (answer.status, 'User "system:anonymous"' in read_refusal(answer).message) == (403, True)
    transport.close()


def test_a_token_that_the_server_does_not_know_is_said_without_the_token(
    desk: Desk, real_cluster: RealCluster
) -> None:
    """401: who was refused, by whom."""
    write_config(desk, real_cluster, {"token": SECRET})
    with desk.resolve().open() as transport, pytest.raises(Unauthorised) as caught:
        transport.get("/api")
    assert caught.value.sentence == f"prod did not accept the credentials of user `prod`: {real_cluster.url}"
    assert SECRET not in f"{caught.value!r} {caught.value.reason} {caught.value.hint}"


@pytest.mark.parametrize("by_file", [True, False])
def test_the_ca_is_taken_from_file_or_data(desk: Desk, real_cluster: RealCluster, by_file: bool) -> None:
    """A path beside the kubeconfig, or base64 in it."""
    desk.write(".kube/ca.crt", real_cluster.ca_pem)
    cluster = {"certificate-authority": "ca.crt"} if by_file else ca(real_cluster)
    write_config(desk, real_cluster, {"token": real_cluster.token("viewer")}, cluster)
    assert both(desk)["username"] == "viewer"


def test_an_unknown_ca_is_a_failure_of_tls(desk: Desk, real_cluster: RealCluster) -> None:
    """Another cluster's CA, and the system's own: not trusted, and not tried three times."""
    cert, _ = real_cluster.client_certificate("carla", groups=["ops", "dev"])
    for cluster in ({"certificate-authority": str(cert)}, {"disable-compression": False}):
        write_config(desk, real_cluster, {"token": real_cluster.token("viewer")}, cluster)
        with pytest.raises(Unreachable) as caught:
            desk.resolve().open(clock=FakeClock()).get("/api")
        assert (caught.value.kind, caught.value.tries) == (Kind.TLS, 1)
        assert desk.kubectl("get", "--raw", "/api").returncode != 0


def test_a_server_certificate_may_be_its_own_ca(desk: Desk, real_cluster: RealCluster) -> None:
    """Go trusts whatever stands in the CA file, an end certificate as well."""
    first = real_cluster.ca_pem.split("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----\n"
    write_config(
        desk,
        real_cluster,
        {"token": real_cluster.token("viewer")},
        {"certificate-authority-data": base64_of(first)},
    )
    assert both(desk)["username"] == "viewer"


def test_a_certificate_for_another_name_is_refused_unless_told(desk: Desk, real_cluster: RealCluster) -> None:
    """`tls-server-name` is what the certificate is checked against."""
    token = {"token": real_cluster.token("viewer")}
    by_name = {"server": real_cluster.url.replace("127.0.0.1", "localhost"), **ca(real_cluster)}
    write_config(desk, real_cluster, token, {**by_name, "tls-server-name": "kubernetes"})
    assert both(desk)["username"] == "viewer"
    for cluster in (by_name, {**ca(real_cluster), "tls-server-name": "example.test"}):
        write_config(desk, real_cluster, token, cluster)
        with pytest.raises(Unreachable) as caught:
            desk.resolve().open().get("/api")
        assert caught.value.kind is Kind.TLS
        assert desk.kubectl("get", "--raw", "/api").returncode != 0


def test_insecure_skips_the_check(desk: Desk, real_cluster: RealCluster) -> None:
    """`insecure-skip-tls-verify: true`, any certificate for any name."""
    cluster = {"insecure-skip-tls-verify": True, "tls-server-name": "example.test"}
    write_config(desk, real_cluster, {"token": real_cluster.token("viewer")}, cluster)
    assert both(desk)["username"] == "viewer"


def test_a_pod_logs_in_by_its_service_account(desk: Desk, real_cluster: RealCluster) -> None:
    """Token and CA from the mounted folder, host and port from the environment; the token is read again."""
    host, _, port = real_cluster.url.removeprefix("https://").partition(":")
    token = desk.write("account/token", real_cluster.token("viewer"))
    desk.write("account/ca.crt", real_cluster.ca_pem)
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    clock = FakeClock()
    transport = resolve(None, None, environ, desk.home, service_account=desk.home / "account").open(clock=clock)
    assert whoami(transport)["username"] == "viewer"
    token.write_text(real_cluster.token("reporter"))
    clock.now_s += 60
    assert whoami(transport)["username"] == "reporter"
    transport.close()


def test_a_password_goes_into_the_same_header_as_with_kubectl(desk: Desk, real_cluster: RealCluster) -> None:
    """No API server takes passwords any more, so a loopback server compares the two."""
    certificate = (real_cluster.folder / "certs/apiserver.crt", real_cluster.folder / "certs/apiserver.key")
    with LoopbackServer(lambda _, peer: peer.say(200, b"{}"), certificate=certificate) as server:
        desk.write(
            ".kube/config",
            config(
                user={"username": "olé:x", "password": "p:w", "as": "jane"},
                cluster={"server": server.url, **ca(real_cluster)},
            ),
        )
        assert desk.kubectl("get", "--raw", "/api").returncode == 0
        transport = desk.resolve().open()
        assert transport.get("/api").ok
        transport.close()
    theirs, ours = server.asked
    for name in ("authorization", "impersonate-user"):
        assert ours.headers[name] == theirs.headers[name]


def test_plain_http_gets_no_credentials_from_either(desk: Desk, real_cluster: RealCluster) -> None:
    """kubectl keeps token, password and certificate to itself over http; impersonation it sends."""
    with LoopbackServer(lambda _, peer: peer.say(200, b"{}")) as server:
        for address in (server.url, server.url.removeprefix("http://")):
            user = {"token": SECRET, "as": "jane", "as-groups": ["a", "b"]}
            desk.write(".kube/config", config(user=user, cluster={"server": address}))
            assert desk.kubectl("get", "--raw", "/api").returncode == 0
            transport = desk.resolve().open()
            assert transport.get("/api").ok
            transport.close()
    for asked in server.asked:
        assert asked.header("authorization") is None
        assert asked.headers["impersonate-group"] == ("a", "b")


def test_a_base_path_in_the_server_is_kept(desk: Desk, real_cluster: RealCluster) -> None:
    """`server: https://host/k8s/clusters/a/`, as Rancher writes it: the same targets as kubectl's."""
    with LoopbackServer(lambda _, peer: peer.say(200, b"{}")) as server:
        for path in ("", "/", "/k8s/clusters/a", "/k8s/clusters/a/", "/k8s/a%20b/?x=1#f"):
            desk.write(".kube/config", config(cluster={"server": server.url + path}))
            assert desk.kubectl("get", "--raw", "/api/v1").returncode == 0
            transport = desk.resolve().open()
            assert transport.get("/api/v1").ok
            transport.close()
    targets = [asked.target for asked in server.asked]
    assert targets[1::2] == targets[0::2]
    assert "/k8s/clusters/a/api/v1" in targets
