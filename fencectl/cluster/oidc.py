"""
The `oidc` auth-provider: an id-token that is still good is used; one that ran out is renewed like kubectl does.

Renewal is handed to the `kubernetes` package, and only where the issuer's certificate authority is given:
without one that package asks the issuer without checking who answers. New tokens are written back to the
kubeconfig under kubectl's own lock file, because an issuer may accept a refresh token only once.
"""

from __future__ import annotations

import binascii
import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from fencectl.cluster.clock import Clock
from fencectl.cluster.credentials import CredentialsMissing, Ticket, bearer, os_reason, read_file
from fencectl.cluster.kubeconfig_entries import AuthProviderEntry, UserEntry
from fencectl.cluster.kubeconfig_yaml import parse_text
from fencectl.cluster.renewal import Fetched, RenewedTicket
from fencectl.core.errors import UsageError

_EARLY = timedelta(seconds=10)
# header {}, payload {"exp":0}: makes the package see an expired token, whatever the kubeconfig holds.
_EXPIRED = "e30.eyJleHAiOjB9.x"


def check_provider(provider: AuthProviderEntry, *, whose: str) -> None:
    """Refuse a provider that kubectl refuses."""
    if provider.name != "oidc":
        raise UsageError(
            f"{whose} uses the auth-provider `{provider.name}`, which kubectl no longer has",
            hint="use that provider's exec plugin, such as gke-gcloud-auth-plugin or kubelogin",
        )
    for key in ("idp-issuer-url", "client-id"):
        if not provider.config.get(key):
            raise UsageError(f"the oidc auth-provider of {whose} has no `{key}`")


@dataclass(frozen=True, slots=True)
class Oidc:
    """One user's provider."""

    user: UserEntry
    provider: AuthProviderEntry = field(repr=False)
    clock: Clock

    @property
    def name(self) -> str:
        """How errors call it."""
        return f"the oidc auth-provider of user `{self.user.name}`"

    def source(self) -> RenewedTicket:
        """Return where its tickets come from."""
        return RenewedTicket(_Tokens(self).fetch, what=self.name, clock=self.clock)


class _Tokens:
    """The tokens as they are now: those of the kubeconfig, later those that replaced them."""

    def __init__(self, oidc: Oidc) -> None:
        self._oidc = oidc
        self._config = dict(oidc.provider.config)
        self._handed_out = ""

    def fetch(self) -> Fetched:
        """Return a good id-token; the same one is not handed out twice, since then it was refused."""
        token = self._config.get("id-token", "")
        expires_at = _expiry(token, whose=self._oidc.name) if token else None
        now = self._oidc.clock.wall()
        if expires_at is None or now + _EARLY >= expires_at or token == self._handed_out:
            self._renew()
            token = self._config["id-token"]
            expires_at = _expiry(token, whose=self._oidc.name)
        self._handed_out = token
        return Fetched(Ticket(bearer(token, whose=self._oidc.name)), expires_at - _EARLY)

    def _renew(self) -> None:
        name = self._oidc.name
        if not self._config.get("refresh-token"):
            raise CredentialsMissing(f"{name} has no valid id-token and no refresh-token: log in again")
        ca_keys = ("idp-certificate-authority", "idp-certificate-authority-data")
        if not any(self._config.get(key) for key in ca_keys):
            raise CredentialsMissing(
                f"{name} has an id-token that ran out, and no idp-certificate-authority to renew it with",
                reason="without it the issuer would be asked without checking who answers",
                hint="kubectl renews it: run `kubectl auth whoami` once, or use an exec plugin",
            )
        renewed = _ask_issuer(self._config, name=name)
        rotated = renewed["refresh-token"] != self._config["refresh-token"]
        self._config = renewed
        try:
            _write_back(self._oidc.user, renewed)
        except (OSError, UsageError) as error:
            if rotated:
                why = os_reason(error) if isinstance(error, OSError) else error.sentence
                raise CredentialsMissing(
                    f"{name} got a new refresh-token that could not be written to {self._oidc.user.origin}: {why}"
                ) from None


def _expiry(token: str, *, whose: str) -> datetime:
    import json

    _, _, rest = token.partition(".")
    payload, _, signature = rest.partition(".")
    padded = payload.replace("-", "+").replace("_", "/") + "=" * (-len(payload) % 4)
    try:
        claims = json.loads(binascii.a2b_base64(padded))
        expires_at = datetime.fromtimestamp(float(claims["exp"]), UTC)
    except (ValueError, KeyError, TypeError, OverflowError, OSError):
        expires_at = None
    if expires_at is None or not signature or "." in signature:
        raise CredentialsMissing(f"{whose} has an id-token that is no JWT with an expiry")
    return expires_at


def _ask_issuer(config: dict[str, str], *, name: str) -> dict[str, str]:
    """Let the `kubernetes` package renew; it changes the mapping that it is given and says little else."""
    import oauthlib.oauth2  # type: ignore[import-untyped]
    import requests
    import urllib3
    from kubernetes.client import Configuration
    from kubernetes.config import kube_config

    given: dict[str, Any] = {"client-secret": "", **config, "id-token": _EXPIRED}
    loader: Any = kube_config.KubeConfigLoader(  # type: ignore[no-untyped-call]
        config_dict={
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "clusters": [{"name": "it", "cluster": {"server": "https://localhost"}}],
            "users": [{"name": "it", "user": {"auth-provider": {"name": "oidc", "config": given}}}],
        }
    )
    why = "the issuer refused"
    try:
        loader.load_and_set(Configuration())
    except (requests.RequestException, urllib3.exceptions.HTTPError):
        why = "the issuer could not be reached"
    except (oauthlib.oauth2.OAuth2Error, ValueError, KeyError):
        # NB: a KeyError is an answer without a new refresh token, which is fine; the id-token is there by then.
        pass
    if given["id-token"] == _EXPIRED:
        raise CredentialsMissing(f"{name} could not renew its id-token: {why}", hint="log in again")
    return {**config, "id-token": given["id-token"], "refresh-token": given["refresh-token"]}


def _write_back(user: UserEntry, config: dict[str, str]) -> None:
    import yaml

    path = os.path.realpath(user.origin)
    with _kubectl_lock(user.origin):
        raw = parse_text(read_file(path), shown=user.origin)
        for entry in raw.get("users") or ():
            if entry.get("name") == user.name:
                entry["user"]["auth-provider"]["config"] = config
        fresh = f"{path}.fencectl-{os.getpid()}"
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                yaml.safe_dump(raw, file, sort_keys=False)
            os.chmod(fresh, os.stat(path).st_mode & 0o777)  # noqa: PTH101, PTH116
            os.replace(fresh, path)  # noqa: PTH105
        except BaseException:
            os.unlink(fresh)  # noqa: PTH108
            raise


@contextlib.contextmanager
def _kubectl_lock(path: str) -> Iterator[None]:
    """Hold the lock that kubectl holds while it writes: `<file>.lock`, which must not be there before."""
    lock = f"{path}.lock"
    os.close(os.open(lock, os.O_CREAT | os.O_EXCL, 0))
    try:
        yield
    finally:
        os.unlink(lock)  # noqa: PTH108
