"""
Which proxy a request goes through: `proxy-url` of the cluster, else the environment by Go's rules.

Go's rules (golang.org/x/net/http/httpproxy): upper case wins over lower case, loopback is never proxied,
NO_PROXY holds hosts, domain suffixes, addresses, CIDR ranges, each with an optional port, or `*`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from fencectl.cluster.credentials import basic
from fencectl.core.errors import UsageError

_DEFAULT_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


@dataclass(frozen=True, slots=True)
class Proxy:
    """Where to connect instead, and how to say where to go from there."""

    scheme: str
    host: str
    port: int
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    @property
    def authorization(self) -> str | None:
        """The header's value for a proxy that wants one."""
        return basic(self.username, self.password) if self.username or self.password else None

    @property
    def shown(self) -> str:
        """The proxy's address, without its password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def configured_proxy(url: str, *, whose: str) -> Proxy:
    """Return the proxy that a cluster entry names."""
    proxy = _parse(url)
    if proxy is None:
        raise UsageError(f"`proxy-url` of {whose} is not a URL")
    if proxy.scheme not in ("http", "https", "socks5"):
        raise UsageError(f"`proxy-url` of {whose} must begin with http://, https:// or socks5://")
    return proxy


def proxy_from(environ: Mapping[str, str], *, scheme: str, host: str, port: int) -> Proxy | None:
    """Return the proxy that the environment names for this server, if any."""
    raw = _either(environ, f"{scheme}_proxy")
    if not raw or not _wanted(_either(environ, "no_proxy"), host=host.lower(), port=port):
        return None
    if scheme == "http" and environ.get("REQUEST_METHOD"):
        raise UsageError("HTTP_PROXY is not used where REQUEST_METHOD is set: a request's header could set it")
    proxy = _parse(raw) or _parse(f"http://{raw}")
    if proxy is None or proxy.scheme not in _DEFAULT_PORTS:
        raise UsageError(f"{scheme.upper()}_PROXY is not a URL of a proxy")
    return proxy


def _either(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper(), "") or environ.get(name, "")


def _parse(url: str) -> Proxy | None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if not parts.scheme or not parts.hostname:
        return None
    return Proxy(
        scheme=parts.scheme,
        host=parts.hostname,
        port=port if port is not None else _DEFAULT_PORTS.get(parts.scheme, 80),
        username=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
    )


def _wanted(no_proxy: str, *, host: str, port: int) -> bool:
    import ipaddress

    if host == "localhost":
        return False
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if address is not None and address.is_loopback:
        return False
    entries = [entry.strip().lower() for entry in no_proxy.split(",")]
    if "*" in entries:
        return False
    for entry in filter(None, entries):
        try:
            network = ipaddress.ip_network(entry, strict=False) if "/" in entry else None
        except ValueError:
            network = None
        if network is not None:
            if address is not None and address in network:
                return False
            continue
        name, entry_port = _host_and_port(entry)
        if entry_port not in ("", str(port)) or not name:
            continue
        if address is not None:
            if _same_address(name, address):
                return False
        elif _covers(name, host):
            return False
    return True


def _host_and_port(entry: str) -> tuple[str, str]:
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    name, colon, port = entry.partition(":")
    return (name, port) if colon and ":" not in port else (entry, "")


def _same_address(name: str, address: object) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(name) == address
    except ValueError:
        return False


def _covers(name: str, host: str) -> bool:
    """`.example.com` and `*.example.com` cover what is below; `example.com` covers itself as well."""
    suffix = name.removeprefix("*") if name.startswith("*.") else name
    if suffix.startswith("."):
        return host.endswith(suffix)
    return host == suffix or host.endswith(f".{suffix}")
