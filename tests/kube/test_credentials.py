"""Token files and the oidc provider, without a cluster: what is used, renewed, refused and written back."""

from __future__ import annotations

import base64
import json
import stat
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs

import pytest
import yaml

from fencectl.cluster.credentials import CredentialsMissing, Ticket, TicketSource
from tests.kube.support_kube import SECRET, Asked, Desk, FakeClock, LoopbackServer, Peer, Raw, config
from tests.support.realcluster import RealCluster


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Sit down in an empty home folder."""
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path)


@pytest.fixture
def clock() -> FakeClock:
    """Let a test say what time it is."""
    return FakeClock()


def source_of(desk: Desk, clock: FakeClock, user: Raw) -> TicketSource:
    desk.write(".kube/config", config(user=user))
    return desk.resolve().login.source(clock)


def failing(source: TicketSource) -> CredentialsMissing:
    with pytest.raises(CredentialsMissing) as caught:
        source.ticket(wait_s=20)
    assert SECRET not in f"{caught.value!r} {caught.value.reason} {caught.value.hint}"
    return caught.value


def test_a_token_file_that_goes_away_leaves_what_was_read(desk: Desk, clock: FakeClock) -> None:
    """Rotation may take a moment; the last good token is used meanwhile."""
    path = desk.write(".kube/token", " one\n")
    source = source_of(desk, clock, {"tokenFile": "token"})
    assert source.ticket(wait_s=1) == Ticket("Bearer one")
    path.unlink()
    clock.now_s += 100
    assert source.ticket(wait_s=1) == Ticket("Bearer one")
    path.write_text("two")
    assert source.ticket(wait_s=1) == Ticket("Bearer two")


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe"])
def test_a_token_file_without_a_token_is_refused(desk: Desk, clock: FakeClock, content: bytes) -> None:
    """An empty file, or no text at all."""
    desk.write(".kube/token", "").write_bytes(content)
    sentence = failing(source_of(desk, clock, {"tokenFile": "token"})).sentence
    assert sentence.startswith(f"the token file {desk.home}/.kube/token ")


def test_a_token_file_with_a_line_break_inside_is_refused(desk: Desk, clock: FakeClock) -> None:
    """Two tokens in one file: nothing of them is sent or shown."""
    desk.write(".kube/token", f"one\n{SECRET}\n")
    assert "no HTTP header can carry" in failing(source_of(desk, clock, {"tokenFile": "token"})).sentence


def jwt(clock: FakeClock, lasts_s: float, marker: str = "") -> str:
    claims = json.dumps({"exp": (clock.wall() + timedelta(seconds=lasts_s)).timestamp(), "n": marker, "x": "ÿ>?"})
    payload = base64.urlsafe_b64encode(claims.encode()).decode().rstrip("=")
    return f"e30.{payload}.signature{SECRET}"


def oidc(**more: str) -> Raw:
    issuer = {"idp-issuer-url": "https://127.0.0.1:1", "client-id": "fence"}
    return {"auth-provider": {"name": "oidc", "config": {**issuer, **more}}}


def test_an_id_token_that_still_lasts_is_used(desk: Desk, clock: FakeClock) -> None:
    """Without asking anybody, and only until ten seconds before its end, as kubectl does."""
    token = jwt(clock, 60)
    source = source_of(desk, clock, oidc(**{"id-token": token}))
    assert source.ticket(wait_s=20) == Ticket(f"Bearer {token}")
    clock.now_s += 51
    assert failing(source).sentence == (
        "the oidc auth-provider of user `prod` has no valid id-token and no refresh-token: log in again"
    )


@pytest.mark.parametrize("token", [SECRET, f"a.{SECRET}.c", "e30.e30.c", "e30..c", "a.b.c.d"])
def test_an_id_token_that_is_no_jwt_is_refused(desk: Desk, clock: FakeClock, token: str) -> None:
    """Not sent, not shown."""
    assert "no JWT" in failing(source_of(desk, clock, oidc(**{"id-token": token}))).sentence


def test_an_expired_id_token_without_the_issuers_ca_is_refused(desk: Desk, clock: FakeClock) -> None:
    """The package that would renew it asks the issuer without checking who answers."""
    error = failing(source_of(desk, clock, oidc(**{"id-token": jwt(clock, -1), "refresh-token": SECRET})))
    assert "no idp-certificate-authority to renew it with" in error.sentence
    assert str(error.hint).startswith("kubectl renews it")


class Issuer(LoopbackServer):
    """An OpenID issuer on loopback: discovery and a token endpoint that answers as told."""

    def __init__(self, certificate: tuple[Path, Path]) -> None:
        super().__init__(self._answer, certificate=certificate)
        self.token_answer: Raw = {}

    def _answer(self, asked: Asked, peer: Peer) -> None:
        raw: Raw = {"issuer": self.url, "token_endpoint": f"{self.url}/token"}
        if asked.target == "/token":
            raw = {"access_token": "a", "token_type": "bearer", **self.token_answer}
        peer.say(200, json.dumps(raw).encode(), Content_Type="application/json")


@pytest.fixture
def issuer_certificate(real_cluster: RealCluster) -> tuple[Path, Path]:
    """Lend the API server's certificate to an issuer."""
    return real_cluster.folder / "certs/apiserver.crt", real_cluster.folder / "certs/apiserver.key"


@pytest.mark.real
@pytest.mark.parametrize("by_file", [True, False])
@pytest.mark.parametrize("rotates", [True, False])
def test_an_expired_id_token_is_renewed_and_written_back(
    desk: Desk, clock: FakeClock, issuer_certificate: tuple[Path, Path], by_file: bool, rotates: bool
) -> None:
    """By the refresh token, over a checked connection; kubectl finds the new tokens in its kubeconfig."""
    ca = issuer_certificate[0]
    given = (
        {"idp-certificate-authority": str(ca)}
        if by_file
        else {"idp-certificate-authority-data": base64.b64encode(ca.read_bytes()).decode()}
    )
    fresh = jwt(clock, 600, "fresh")
    with Issuer(issuer_certificate) as issuer:
        issuer.token_answer = {"id_token": fresh, **({"refresh_token": "second"} if rotates else {})}
        user = oidc(
            **{**given, "idp-issuer-url": issuer.url, "id-token": jwt(clock, -1), "refresh-token": "first"}
        )
        source = source_of(desk, clock, user)
        path = desk.home / ".kube/config"
        path.chmod(0o640)
        assert source.ticket(wait_s=20) == Ticket(f"Bearer {fresh}")
        assert source.ticket(wait_s=20) == Ticket(f"Bearer {fresh}")
    assert [asked.target for asked in issuer.asked] == ["/.well-known/openid-configuration", "/token"]
    sent = parse_qs(issuer.asked[1].body.decode())
    assert (sent["grant_type"], sent["refresh_token"]) == (["refresh_token"], ["first"])
    written = yaml.safe_load(path.read_text())
    provider = written["users"][0]["user"]["auth-provider"]["config"]
    assert provider["id-token"] == fresh
    assert provider["refresh-token"] == ("second" if rotates else "first")
    assert {key: provider[key] for key in given} == given
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [entry.name for entry in (desk.home / ".kube").iterdir()] == ["config"]
    assert (
        json.loads(desk.kubectl("config", "view", "--raw", "-o", "json").stdout)["users"][0]["user"]
        == (written["users"][0]["user"])
    )


@pytest.mark.real
def test_a_rotated_refresh_token_that_cannot_be_kept_is_said(
    desk: Desk, clock: FakeClock, issuer_certificate: tuple[Path, Path]
) -> None:
    """kubectl holds its lock: an unkept new refresh token would lock its owner out, so nobody goes on silently."""
    with Issuer(issuer_certificate) as issuer:
        issuer.token_answer = {"id_token": jwt(clock, 600), "refresh_token": SECRET}
        given = {"idp-certificate-authority": str(issuer_certificate[0]), "idp-issuer-url": issuer.url}
        source = source_of(desk, clock, oidc(**given, **{"refresh-token": "first"}))
        desk.write(".kube/config.lock", "")
        error = failing(source)
    assert error.sentence.endswith("could not be written to " + f"{desk.home}/.kube/config: file exists")
    assert (desk.home / ".kube/config.lock").exists()


@pytest.mark.real
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"error": "invalid_grant", "error_description": SECRET}, "the issuer refused"),
        ({}, "the issuer refused"),
        (None, "the issuer could not be reached"),
    ],
)
def test_an_issuer_that_refuses_is_said(
    desk: Desk, clock: FakeClock, issuer_certificate: tuple[Path, Path], answer: Raw | None, said: str
) -> None:
    """Log in again is all there is to do."""
    with Issuer(issuer_certificate) as issuer:
        issuer.token_answer = answer or {}
        url = issuer.url if answer is not None else "https://127.0.0.1:1"
        given = {"idp-certificate-authority": str(issuer_certificate[0]), "idp-issuer-url": url}
        error = failing(source_of(desk, clock, oidc(**given, **{"refresh-token": SECRET})))
    assert error.sentence == f"the oidc auth-provider of user `prod` could not renew its id-token: {said}"
    assert error.hint == "log in again"


@pytest.mark.real
def test_an_issuer_of_another_ca_is_not_believed(
    desk: Desk, clock: FakeClock, real_cluster: RealCluster, issuer_certificate: tuple[Path, Path]
) -> None:
    """The refresh token is not sent to whoever answers at that address."""
    other, _ = real_cluster.client_certificate("carla", groups=["ops", "dev"])
    with Issuer(issuer_certificate) as issuer:
        given = {"idp-certificate-authority": str(other), "idp-issuer-url": issuer.url}
        error = failing(source_of(desk, clock, oidc(**given, **{"refresh-token": SECRET})))
        assert error.sentence.endswith("the issuer could not be reached")
    assert issuer.asked == []


def test_reading_a_cluster_loads_nothing_heavy(desk: Desk) -> None:
    """Start-up is a promise: no `kubernetes`, no `requests`, no thread pool for the plain ways to log in."""
    desk.write(".kube/config", config(user={"token": "t"}, cluster={"server": "http://127.0.0.1:1"}))
    code = (
        "import sys; from pathlib import Path; from fencectl.cluster.kubeconfig import resolve\n"
        f"t = resolve(None, None, {{}}, Path({str(desk.home)!r})).open()\n"
        "print(*sorted(m for m in sys.modules if m.split('.')[0] in "
        "('kubernetes', 'requests', 'urllib3', 'concurrent', 'pydantic', 'rich', 'typer', 'subprocess', "
        "'tempfile', 'asyncio', 'logging', 'difflib') or m == 'urllib.request'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert done.stdout.strip() == ""
