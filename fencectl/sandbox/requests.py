"""Requests and responses, without sockets; and what a request asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from fencectl.sandbox.gojson import Obj, encode, encode_bytes
from fencectl.sandbox.watch import WatchStream


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request. Header names are lower case; `path` has no query and no user's base path."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    as_user: str = ""

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").split(";")[0].strip()


def make_request(
    method: str,
    target: str,
    *,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    user: str = "",
) -> Request:
    """Make a request as a client would send it. A body that is no text or bytes is sent as JSON."""
    parts = urlsplit(target)
    path, as_user = split_user(parts.path)
    query = {key: values[-1] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
    if body is None:
        data = b""
    elif isinstance(body, bytes):
        data = body
    else:
        data = (body if isinstance(body, str) else encode(body)).encode()
    lower = {key.lower(): value for key, value in (headers or {}).items()}
    return Request(method, path, query, lower, data, user or as_user)


def split_user(path: str) -> tuple[str, str]:
    """Take `/as/NAME` off a path."""
    if not path.startswith("/as/"):
        return path, ""
    name, _, rest = path.removeprefix("/as/").partition("/")
    return "/" + rest, unquote(name)


@dataclass(slots=True)
class Response:
    """One answer. `drop` closes the connection instead; `stream` is an open watch."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    stream: WatchStream | None = None
    drop: bool = False

    def json(self) -> Any:
        import json

        return json.loads(self.body)


def json_response(code: int, obj: Obj, *, warnings: list[str] | None = None) -> Response:
    headers = {"Content-Type": "application/json"}
    if warnings:
        headers["Warning"] = "\n".join(f"299 - {_quoted(text)}" for text in warnings)
    return Response(code, headers, encode_bytes(obj))


def text_response(code: int, text: str, *, headers: Mapping[str, str] | None = None) -> Response:
    return Response(code, {"Content-Type": "text/plain; charset=utf-8", **(headers or {})}, text.encode())


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@dataclass(frozen=True, slots=True)
class Action:
    """What a request asks for, in the words of authorisation. Empty `resource`: not about a resource."""

    verb: str
    resource: str = ""
    group: str = ""
    version: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    def with_verb(self, verb: str) -> Action:
        return replace(self, verb=verb)


_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def read_action(request: Request) -> Action:
    """Take a path apart as the real server does."""
    return _action(request.method, request.path, request.query.get("watch") in ("true", "1"))


@lru_cache(maxsize=1024)
def _action(method: str, path: str, watching: bool) -> Action:
    parts = [unquote(part) for part in path.strip("/").split("/") if part]
    verb = _VERBS.get(method, "get")
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return Action(method.lower())
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 2 and not group:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in ("status", "finalize"):
            rest = rest[2:]
    elif rest[0] == "namespaces" and len(rest) >= 3:
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    subresource = "/".join(rest[2:]) if len(rest) > 2 else ""
    if verb == "get" and not name:
        verb = "watch" if watching else "list"
    elif verb == "delete" and not name:
        verb = "deletecollection"
    if rest[0] == "namespaces" and not group:
        namespace = name
    return Action(verb, rest[0], group, version, namespace, name, subresource)
