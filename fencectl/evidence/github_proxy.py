"""
Which proxy leads to GitHub: HTTPS_PROXY and NO_PROXY by Go's rules, as `gh` reads them.

Upper case wins over lower case, loopback is never proxied, NO_PROXY holds hosts, domain suffixes, addresses and
CIDR ranges, each with an optional port, or `*`.
"""

from __future__ import annotations

import ipaddress
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from fencectl.evidence.github_failures import UnansweredError
from fencectl.evidence.github_settings import Origin


@dataclass(frozen=True, slots=True)
class Proxy:
    """Where to connect instead; `authorization` is a header's value, for a proxy that wants one."""

    host: str
    port: int
    authorization: str | None = field(default=None, repr=False)


def proxy_for(environ: Mapping[str, str], to: Origin) -> Proxy | None:
    """
    Return the proxy on the way to this server; None where there is none.

    Raises UnansweredError for a proxy that cannot be spoken to: going past it would be no kindness.
    """
    raw = environ.get("HTTPS_PROXY") or environ.get("https_proxy") or ""
    if to.scheme != "https" or not raw or to.is_loopback:
        return None
    if _excepted(environ.get("NO_PROXY") or environ.get("no_proxy") or "", to):
        return None
    try:
        parts = urlsplit(raw if "://" in raw else f"http://{raw}")
        port = parts.port
    except ValueError:
        raise UnansweredError("HTTPS_PROXY is no URL of a proxy") from None
    if not parts.hostname:
        raise UnansweredError("HTTPS_PROXY is no URL of a proxy")
    if parts.scheme != "http":
        raise UnansweredError("HTTPS_PROXY names a proxy of another kind than http://, which cannot be used here")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    basic = b64encode(f"{user}:{password}".encode()).decode() if user or password else None
    return Proxy(parts.hostname, port or 80, f"Basic {basic}" if basic else None)


def _excepted(no_proxy: str, to: Origin) -> bool:
    address = _address(to.host)
    for entry in (part.strip().lower() for part in no_proxy.split(",")):
        if entry == "*":
            return True
        if "/" in entry:
            try:
                network = ipaddress.ip_network(entry, strict=False)
            except ValueError:
                continue
            if address is not None and address in network:
                return True
            continue
        name, port = _host_and_port(entry)
        if name and port in ("", str(to.port)) and _covers(name, to.host, address):
            return True
    return False


def _host_and_port(entry: str) -> tuple[str, str]:
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    name, colon, port = entry.partition(":")
    return (name, port) if colon and ":" not in port else (entry, "")


def _covers(name: str, host: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None) -> bool:
    """`.example.com` and `*.example.com` cover what is below; `example.com` covers itself as well."""
    if address is not None:
        return _address(name) == address
    suffix = name.removeprefix("*") if name.startswith("*.") else name
    if suffix.startswith("."):
        return host.endswith(suffix)
    return host == suffix or host.endswith(f".{suffix}")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
