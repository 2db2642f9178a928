"""
What one kubeconfig file says: clusters, users and contexts, with every value of the type that kubectl demands.

kubectl refuses a whole file for one value of a wrong type, so this does too; the error names the place and
never the value, which may be a credential.
"""

from __future__ import annotations

import binascii
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from fencectl.core.errors import UsageError

EXEC_EXTENSION = "client.authentication.k8s.io/exec"


@dataclass(frozen=True, slots=True)
class ClusterEntry:
    """How to reach a cluster."""

    name: str
    server: str = ""
    tls_server_name: str = ""
    insecure: bool = False
    ca_file: str = ""
    ca_data: bytes = b""
    proxy_url: str = field(default="", repr=False)
    disable_compression: bool = False
    exec_config: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ExecEntry:
    """The plugin that a user entry names."""

    command: str
    args: tuple[str, ...] = field(repr=False)
    env: tuple[tuple[str, str], ...] = field(repr=False)
    api_version: str
    install_hint: str
    provide_cluster_info: bool
    interactive_mode: str


@dataclass(frozen=True, slots=True)
class AuthProviderEntry:
    """The built-in provider that a user entry names."""

    name: str
    config: Mapping[str, str] = field(repr=False)


class Impersonation(msgspec.Struct, frozen=True):
    """Whom to act as."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class UserEntry:
    """Who somebody is. Nothing in here that proves it is ever shown."""

    name: str
    origin: str = ""
    token: str = field(default="", repr=False)
    token_file: str = ""
    cert_file: str = ""
    cert_data: bytes = field(default=b"", repr=False)
    key_file: str = ""
    key_data: bytes = field(default=b"", repr=False)
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    auth_provider: AuthProviderEntry | None = None
    exec: ExecEntry | None = None
    impersonation: Impersonation = field(default_factory=Impersonation)


class ContextEntry(msgspec.Struct, frozen=True):
    """A cluster, a user and a namespace under one name."""

    name: str
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class FileEntries(msgspec.Struct, frozen=True):
    """All of one file."""

    clusters: Mapping[str, ClusterEntry]
    users: Mapping[str, UserEntry]
    contexts: Mapping[str, ContextEntry]
    current_context: str


_Entry = TypeVar("_Entry")


def read_entries(raw: Any, *, path: str, shown: str) -> FileEntries:
    """Take a parsed file apart; `path` anchors relative paths, `shown` is how an error calls the file."""
    top = _Node(raw, shown=shown, place="")
    kind, version = top.text("kind"), top.text("apiVersion")
    if kind not in ("", "Config") or version not in ("", "v1"):
        raise UsageError(f"{shown}: not a kubeconfig (kind and apiVersion must be `Config` and `v1`)")
    folder = os.path.dirname(os.path.abspath(path))  # noqa: PTH100, PTH120 - kubectl joins text, too
    return FileEntries(
        clusters=top.named("clusters", "cluster", lambda name, node: _cluster(name, node, folder)),
        users=top.named("users", "user", lambda name, node: _user(name, node, folder, path)),
        contexts=top.named("contexts", "context", _context),
        current_context=top.text("current-context"),
    )


def _cluster(name: str, node: _Node, folder: str) -> ClusterEntry:
    extensions = node.named("extensions", "extension", lambda _, found: found.raw)
    return ClusterEntry(
        name=name,
        server=node.text("server"),
        tls_server_name=node.text("tls-server-name"),
        insecure=node.flag("insecure-skip-tls-verify"),
        ca_file=_anchored(node.text("certificate-authority"), folder),
        ca_data=node.base64("certificate-authority-data"),
        proxy_url=node.text("proxy-url"),
        disable_compression=node.flag("disable-compression"),
        exec_config=extensions.get(EXEC_EXTENSION),
    )


def _user(name: str, node: _Node, folder: str, path: str) -> UserEntry:
    plugin = node.child("exec")
    provider = node.child("auth-provider")
    return UserEntry(
        name=name,
        origin=path,
        token=node.text("token"),
        token_file=_anchored(node.text("tokenFile"), folder),
        cert_file=_anchored(node.text("client-certificate"), folder),
        cert_data=node.base64("client-certificate-data"),
        key_file=_anchored(node.text("client-key"), folder),
        key_data=node.base64("client-key-data"),
        username=node.text("username"),
        password=node.text("password"),
        auth_provider=None
        if provider is None
        else AuthProviderEntry(name=provider.text("name"), config=provider.texts_by_key("config")),
        exec=None if plugin is None else _exec(plugin, folder),
        impersonation=Impersonation(
            user=node.text("as"),
            uid=node.text("as-uid"),
            groups=node.texts("as-groups"),
            extra=node.lists_by_key("as-user-extra"),
        ),
    )


def _exec(node: _Node, folder: str) -> ExecEntry:
    command = node.text("command")
    version = node.text("apiVersion")
    mode = node.text("interactiveMode")
    if not mode and version.startswith("client.authentication.k8s.io/v1") and not version.endswith("/v1"):
        # Only the versions before v1 have a default.
        mode = "IfAvailable"
    return ExecEntry(
        # NB: only a command with a path separator is a path; a bare word is looked up in PATH.
        command=_anchored(command, folder) if os.sep in command else command,
        args=node.texts("args"),
        env=tuple((item.text("name"), item.text("value")) for item in node.items("env")),
        api_version=version,
        install_hint=node.text("installHint"),
        provide_cluster_info=node.flag("provideClusterInfo"),
        interactive_mode=mode,
    )


def _context(name: str, node: _Node) -> ContextEntry:
    return ContextEntry(
        name=name,
        cluster=node.text("cluster"),
        user=node.text("user"),
        namespace=node.text("namespace"),
    )


def _anchored(path: str, folder: str) -> str:
    return os.path.normpath(os.path.join(folder, path)) if path and not os.path.isabs(path) else path  # noqa: PTH117, PTH118


class _Node:
    """One mapping of the file, its keys read by type. `null` is the same as absent everywhere."""

    __slots__ = ("place", "raw", "shown")

    def __init__(self, raw: Any, *, shown: str, place: str) -> None:
        self.raw = raw
        self.shown = shown
        self.place = place
        if raw is not None and not isinstance(raw, dict):
            raise self.wrong("", "a mapping")

    def wrong(self, key: str, wanted: str) -> UsageError:
        place = ".".join(part for part in (self.place, key) if part) or "the file"
        return UsageError(
            f"{self.shown}: `{place}` must be {wanted}",
            hint="`kubectl config view` refuses this file, too",
        )

    def _get(self, key: str) -> Any:
        return None if self.raw is None else self.raw.get(key)

    def _path(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key

    def text(self, key: str) -> str:
        value = self._get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.wrong(key, "text (a number or yes/no needs quotes)")
        return value

    def flag(self, key: str) -> bool:
        value = self._get(key)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def base64(self, key: str) -> bytes:
        value = self.text(key)
        try:
            # Go's decoder skips line breaks, and nothing else.
            return binascii.a2b_base64(value.replace("\n", "").replace("\r", ""), strict_mode=True)
        except ValueError:
            raise self.wrong(key, "base64") from None

    def child(self, key: str) -> _Node | None:
        value = self._get(key)
        return None if value is None else _Node(value, shown=self.shown, place=self._path(key))

    def items(self, key: str) -> tuple[_Node, ...]:
        return tuple(
            _Node(value, shown=self.shown, place=f"{self._path(key)}[{position}]")
            for position, value in enumerate(self._list(key))
        )

    def _list(self, key: str) -> list[Any]:
        value = self._get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.wrong(key, "a list")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        values = tuple("" if value is None else value for value in self._list(key))
        for position, value in enumerate(values):
            if not isinstance(value, str):
                raise self.wrong(f"{key}[{position}]", "text (a number or yes/no needs quotes)")
        return values

    def texts_by_key(self, key: str) -> dict[str, str]:
        node = self.child(key)
        return {} if node is None else {str(name): node.text(name) for name in node.raw}

    def lists_by_key(self, key: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
        node = self.child(key)
        return () if node is None else tuple((str(name), node.texts(name)) for name in sorted(node.raw, key=str))

    def named(self, key: str, inner: str, read: Callable[[str, _Node], _Entry]) -> dict[str, _Entry]:
        found: dict[str, _Entry] = {}
        for item in self.items(key):
            name = item.text("name")
            if name in found:
                raise UsageError(
                    f"{self.shown}: two entries of `{self._path(key)}` are called `{name}`",
                    hint="`kubectl config view` refuses this file, too",
                )
            found[name] = read(name, item.child(inner) or _Node(None, shown=self.shown, place=item.place))
        return found
