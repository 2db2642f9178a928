"""
One kubeconfig with one cluster, one user and one context: what a command gets that runs inside our fences.

It says where we are and who we are once more, as resolved, so that nothing which the command asks for - another
current context, a list in KUBECONFIG, another client's way to merge one - can lead it to a cluster that is not
fenced. The text holds credentials: it is written to one private file and is never shown.
"""

from __future__ import annotations

import binascii
import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencectl.cluster.credentials import os_reason, read_file
from fencectl.cluster.kubeconfig import SERVICE_ACCOUNT, resolve
from fencectl.cluster.kubeconfig_entries import (
    EXEC_EXTENSION,
    AuthProviderEntry,
    ClusterEntry,
    ExecEntry,
    UserEntry,
)
from fencectl.core.errors import FencectlError, UsageError

if TYPE_CHECKING:
    from fencectl.cluster.kubeconfig import Connection

# What the context is called where none was chosen: in a pod, or with KUBERNETES_MASTER alone.
TARGET_NAME = "fencectl-target"


def private_kubeconfig(
    kubeconfig: str | None,
    context: str | None,
    environ: Mapping[str, str],
    home: Path,
    *,
    name: str | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> str:
    """Resolve as `resolve` does, and return the text of a kubeconfig that holds nothing else."""
    return kubeconfig_of(resolve(kubeconfig, context, environ, home, service_account=service_account), name=name)


def kubeconfig_of(connection: Connection, *, name: str | None = None) -> str:
    """
    Return the text of a kubeconfig that leads to this connection's cluster, as its user, and nowhere else.

    `name` is what the context is called; without it, it keeps its own name.
    """
    context, cluster, user = connection.entries
    called = name or context.name or TARGET_NAME
    cluster_name, user_name = cluster.name or called, user.name or called
    found = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster_name, "cluster": _cluster(cluster)}],
        "users": [{"name": user_name, "user": _user(_what_counts(user))}],
        "contexts": [
            {
                "name": called,
                # NB: no namespace is not `default`: in a pod it is the pod's.
                "context": {
                    "cluster": cluster_name,
                    "user": user_name,
                    **_given({"namespace": context.namespace}),
                },
            }
        ],
        "current-context": called,
    }
    try:
        return _as_yaml(found)
    except (TypeError, ValueError):
        # Everything else is text or a flag. What YAML can hold and JSON cannot, no plugin could be given either.
        raise UsageError(f"the extension {EXEC_EXTENSION} of cluster `{cluster.name}` is not JSON") from None


@contextlib.contextmanager
def written(text: str) -> Iterator[Path]:
    """Keep the text in a file and a folder that are ours alone, until the block is left in whatever way."""
    import tempfile

    try:
        # NB: a folder, because kubectl writes a lock file, and for a moment a new file, beside a kubeconfig.
        folder = tempfile.TemporaryDirectory(prefix="fencectl-")
    except OSError as error:
        raise _unwritable(error) from None
    # NB: kubectl writes a renewed oidc refresh token here and not to the original; it goes with the folder.
    with folder:
        path = Path(folder.name) / "config"
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(text.encode())
        except OSError as error:
            raise _unwritable(error) from None
        yield path


def _unwritable(error: OSError) -> FencectlError:
    return FencectlError(
        f"no private kubeconfig can be written for the command: {os_reason(error)}",
        hint="TMPDIR names the folder for temporary files",
    )


def _cluster(cluster: ClusterEntry) -> dict[str, Any]:
    extensions = []
    if cluster.exec_config is not None:
        extensions.append({"name": EXEC_EXTENSION, "extension": cluster.exec_config})
    return _given(
        {
            "server": cluster.server,
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure,
            "certificate-authority": cluster.ca_file,
            "certificate-authority-data": _base64(cluster.ca_data),
            "proxy-url": cluster.proxy_url,
            "disable-compression": cluster.disable_compression,
            "extensions": extensions,
        }
    )


def _what_counts(user: UserEntry) -> UserEntry:
    """
    Leave out credentials that kubectl does not look at because of others beside them.

    NB: other clients have other orders; several take a token before the token file, or a provider before either.
    """
    if user.token and user.token_file and _holds_something(user.token_file):
        user = replace(user, token="")
    if user.token or user.token_file or user.username or user.password:
        return replace(user, exec=None, auth_provider=None)
    if user.cert_file or user.cert_data:
        return replace(user, exec=None)
    return user


def _holds_something(path: str) -> bool:
    try:
        return bool(read_file(path).decode().strip())
    except (OSError, UnicodeDecodeError):
        return False


def _user(user: UserEntry) -> dict[str, Any]:
    provider, who = user.auth_provider, user.impersonation
    return _given(
        {
            "client-certificate": user.cert_file,
            "client-certificate-data": _base64(user.cert_data),
            "client-key": user.key_file,
            "client-key-data": _base64(user.key_data),
            "token": user.token,
            "tokenFile": user.token_file,
            "as": who.user,
            "as-uid": who.uid,
            "as-groups": list(who.groups),
            "as-user-extra": {key: list(values) for key, values in who.extra},
            "username": user.username,
            "password": user.password,
            "auth-provider": None if provider is None else _provider(provider),
            "exec": None if user.exec is None else _exec(user.exec),
        }
    )


def _provider(provider: AuthProviderEntry) -> dict[str, Any]:
    config = dict(provider.config)
    ca_file = config.get("idp-certificate-authority")
    if ca_file:
        # NB: the one path of a kubeconfig that is relative to where somebody stands; the command may go elsewhere.
        config["idp-certificate-authority"] = os.path.abspath(ca_file)  # noqa: PTH100 - kubectl joins text, too
    return {"name": provider.name, "config": config}


def _exec(entry: ExecEntry) -> dict[str, Any]:
    return _given(
        {
            "apiVersion": entry.api_version,
            "command": entry.command,
            "args": list(entry.args),
            "env": [{"name": name, "value": value} for name, value in entry.env],
            "installHint": entry.install_hint,
            "provideClusterInfo": entry.provide_cluster_info,
            "interactiveMode": entry.interactive_mode,
        }
    )


def _given(values: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is empty: other clients stumble over a list that is null, or a path that is no path."""
    return {key: value for key, value in values.items() if value}


def _base64(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def _as_yaml(value: Any) -> str:
    """Return JSON which is also YAML: no halved surrogate pair, no bare control character, nothing that folds."""
    import json

    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2)
    return re.sub(r"[\x7f-\uffff]", lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"
