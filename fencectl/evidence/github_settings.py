"""
Which GitHub is asked, and with what: from the environment, never from a journal.

A journal is text that anybody may have written who may annotate a fenced object. It can say on which server a run
was recorded; it can never say where the token goes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Self
from urllib.parse import urlsplit

_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})|[0-9A-Fa-f:.]{2,45}", re.ASCII)
_PATH = re.compile(r"(?:/[A-Za-z0-9._~-]+)*/?", re.ASCII)
# Shorter than any that there is: it could be taken out of no text without harm.
_TOKEN = re.compile(r"[\x21-\x7e]{8,4096}", re.ASCII)
_TENANT = ".ghe.com"
_ENTERPRISE_PATH = "/api/v3"
_PORTS = {"https": 443, "http": 80}
# What decides about the way there. The rest of the environment is nobody's business here.
_WAY = ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR")


@dataclass(frozen=True, slots=True)
class Origin:
    """A server: `host` in lower case, `path` without a slash at its end."""

    scheme: str
    host: str
    port: int
    path: str = ""

    @property
    def authority(self) -> str:
        """Host and, where it is not the usual one, port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The whole of it as a URL."""
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def is_loopback(self) -> bool:
        """Whether nothing that is sent there leaves this machine."""
        return is_loopback(self.host)


@dataclass(frozen=True, slots=True)
class GitHubSettings:
    """
    Where GitHub's API is, which server it speaks for, and the token.

    `problem`: why these cannot be used (what can be no token, two variables that contradict each other); nobody is
    asked then. `repository`: asked in where a holder recorded none. `way`: proxies and trusted certificates, as
    the environment names them.
    """

    api_url: str
    server_url: str
    token: str | None = field(default=None, repr=False)
    repository: str | None = None
    problem: str | None = None
    way: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """
        Read GITHUB_API_URL, GITHUB_SERVER_URL, GITHUB_REPOSITORY, GITHUB_TOKEN or GH_TOKEN, and the way there.

        Either URL follows from the other: the API of github.com is at api.github.com, of an Enterprise Server
        below /api/v3, of a tenant with data residency at api.SUBDOMAIN.ghe.com. Never fails: see `problem`.
        """
        api_text, server_text = environ.get("GITHUB_API_URL", ""), environ.get("GITHUB_SERVER_URL", "")
        api, server = origin_of(api_text), origin_of(server_text)
        problem = None
        if api_text and api is None:
            problem = "GITHUB_API_URL is no https URL"
        elif server_text and server is None:
            problem = "GITHUB_SERVER_URL is no https URL"
        elif api is not None and server is not None and _contradict(api, server):
            problem = "GITHUB_API_URL and GITHUB_SERVER_URL name different servers"
        if server is None:
            server = _PUBLIC if api is None else _server_behind(api) or api
        api = api or _api_of(server)
        token = (environ.get("GITHUB_TOKEN", "").strip() or environ.get("GH_TOKEN", "").strip()) or None
        if token is not None and not _TOKEN.fullmatch(token):
            # NB: http.client would refuse it too, and quote it.
            token, problem = None, problem or "GITHUB_TOKEN or GH_TOKEN holds what can be no token"
        way = {name: environ[name] for name in _WAY if environ.get(name)}
        repository = environ.get("GITHUB_REPOSITORY") or None
        return cls(api.url, server.url, token, repository, problem, MappingProxyType(way))

    @property
    def api(self) -> Origin:
        """The API's address."""
        origin = origin_of(self.api_url)
        if origin is None:
            raise ValueError("GitHub's API is no https URL")
        return origin

    @property
    def host(self) -> str:
        """Who is asked, for people."""
        origin = origin_of(self.api_url)
        return origin.authority if origin else "GitHub"

    def speaks_for(self, recorded: str | None) -> bool:
        """Whether a run that was recorded on this server can be asked about here; None: nobody said which."""
        if recorded is None:
            return True
        origin, own = origin_of(recorded), origin_of(self.server_url)
        return origin is not None and origin == own


def origin_of(url: str) -> Origin | None:
    """Read a URL of a server; None for what is neither https nor http to loopback, or has a user in it."""
    if len(url) > 500 or not url.isascii() or not url.isprintable():
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    host = (parts.hostname or "").lower()
    if parts.scheme not in _PORTS or not _HOST.fullmatch(host) or not _PATH.fullmatch(parts.path):
        return None
    if "@" in parts.netloc or ("[" in parts.netloc and ":" not in host) or parts.query or parts.fragment:
        return None
    if parts.scheme == "http" and not is_loopback(host):
        return None
    return Origin(parts.scheme, host, port or _PORTS[parts.scheme], parts.path.rstrip("/"))


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    import ipaddress

    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_PUBLIC = Origin("https", "github.com", 443)


def _api_of(server: Origin) -> Origin:
    if server == _PUBLIC or server.host.endswith(_TENANT):
        return Origin(server.scheme, f"api.{server.host}", server.port)
    return Origin(server.scheme, server.host, server.port, _ENTERPRISE_PATH)


def _server_behind(api: Origin) -> Origin | None:
    """Return the server that an API speaks for; None where its address does not tell."""
    bare = Origin(api.scheme, api.host.removeprefix("api."), api.port)
    if api.path == "" and api.host.startswith("api.") and (bare == _PUBLIC or bare.host.endswith(_TENANT)):
        return bare
    return Origin(api.scheme, api.host, api.port) if api.path == _ENTERPRISE_PATH else None


def _contradict(api: Origin, server: Origin) -> bool:
    """
    Whether an API is certainly that of another server.

    A run's id means something on one server only: asked elsewhere, it may name a run that has ended.
    """
    behind = _server_behind(api)
    return behind is not None and behind != server and not api.is_loopback
