"""Where the API server is: the `server` of a cluster entry, taken apart as client-go does."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

import msgspec

from fencectl.core.errors import UsageError


class Endpoint(msgspec.Struct, frozen=True):
    """Scheme, host, port, and the path under which the API is served (empty, or `/a/b`)."""

    scheme: str
    host: str
    port: int
    base_path: str = ""

    @property
    def secure(self) -> bool:
        """Whether the connection is protected: only then are credentials sent."""
        return self.scheme == "https"

    @property
    def host_header(self) -> str:
        """The Host header: the port only where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


def parse_server(server: str, *, whose: str) -> Endpoint:
    """Return the endpoint; without a scheme it is plain http, as for kubectl."""
    parts = _split(server)
    if parts is not None and not (parts.scheme and parts.netloc):
        parts = _split(f"http://{server}")
        if parts is not None and parts.path not in ("", "/"):
            parts = None
    if parts is None or not parts.hostname:
        raise UsageError(f"the server of {whose} is neither a URL nor host:port")
    if parts.scheme not in ("http", "https"):
        raise UsageError(f"the server of {whose} must begin with https:// or http://")
    if "@" in parts.netloc:
        raise UsageError(
            f"the server of {whose} holds a user name or password, which would end up in logs",
            hint="put it into the user entry of the kubeconfig",
        )
    if not all(character.isprintable() and character != " " for character in server):
        raise UsageError(f"the server of {whose} holds a character that no URL can carry")
    default = 443 if parts.scheme == "https" else 80
    return Endpoint(
        scheme=parts.scheme,
        host=parts.hostname,
        port=parts.port or default,
        base_path=parts.path.rstrip("/"),
    )


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # which is only now read, and may be no number
    except ValueError:
        return None
    return parts
