"""
Which exec plugins may run: the policy that a person keeps in kubectl's `kuberc`, obeyed as kubectl obeys it.

A kubeconfig may come from anywhere, and names a program to run; `credentialPluginPolicy` is the guard against
that. It would be worth little if this program ran what kubectl refuses.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fencectl.cluster.kubeconfig_yaml import parse_text
from fencectl.core.errors import UsageError

_VERSIONS = ("kubectl.config.k8s.io/v1beta1", "kubectl.config.k8s.io/v1alpha1")


def check_policy(command: str, *, whose: str, environ: Mapping[str, str], home: Path) -> None:
    """Refuse a plugin that the policy does not allow, or a policy that nobody can obey."""
    path, preference = _preference(environ, home)
    if preference is None:
        return
    policy = preference.get("credentialPluginPolicy") or ""
    listed = preference.get("credentialPluginAllowlist")
    if policy in ("", "AllowAll", "DenyAll") and listed is not None:
        raise UsageError(f"{path} has a credentialPluginAllowlist, but its policy is not `Allowlist`")
    if policy in ("", "AllowAll"):
        return
    if policy == "Allowlist":
        if command_is_listed(command, _commands(listed, path=path), environ):
            return
    elif policy != "DenyAll":
        raise UsageError(f"{path} has a credentialPluginPolicy that is none of AllowAll, DenyAll and Allowlist")
    raise UsageError(
        f"{path} does not allow the exec plugin `{command}` of {whose}",
        reason=f"credentialPluginPolicy is {policy}; kubectl refuses it, too",
    )


def command_is_listed(command: str, listed: list[str], environ: Mapping[str, str]) -> bool:
    """Return whether a plugin is on the list as it is written, or as both are found in PATH."""
    written = os.path.normpath(command)
    if written in listed:
        return True
    found = look_path(written, environ)
    return found is not None and (
        found in listed or found in [look_path(entry, environ) for entry in listed if _base(entry) == _base(found)]
    )


def look_path(command: str, environ: Mapping[str, str]) -> str | None:
    """
    Return the program that a command stands for; `None` when there is none that can be run.

    NB: Go finds nothing by a relative folder in PATH: that would be whichever folder somebody stands in.
    """
    if os.sep in command:
        candidates = [os.path.normpath(command)]
    else:
        folders = environ.get("PATH", "").split(os.pathsep)
        candidates = [os.path.join(folder, command) for folder in folders if os.path.isabs(folder)]  # noqa: PTH117, PTH118
    for candidate in candidates:
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):  # noqa: PTH113
            return candidate
    return None


def _base(path: str) -> str:
    return path.rpartition(os.sep)[2]


def _preference(environ: Mapping[str, str], home: Path) -> tuple[str, Mapping[str, Any] | None]:
    named = environ.get("KUBERC", "")
    path = named or str(home / ".kube" / "kuberc")
    if named == "off" or environ.get("KUBECTL_KUBERC", "").lower() in ("false", "0", "f"):
        return path, None
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            found = parse_text(file.read(), shown=path)
    except (OSError, UsageError):
        if named:
            raise UsageError(f"KUBERC names {path}, which cannot be read as kubectl's preferences") from None
        # kubectl only warns about its default file.
        return path, None
    usable = isinstance(found, dict) and found.get("kind") == "Preference" and found.get("apiVersion") in _VERSIONS
    if not usable and named and found is not None:
        raise UsageError(f"KUBERC names {path}, which holds no preferences of kubectl")
    return path, found if usable else None


def _commands(listed: object, *, path: str) -> list[str]:
    entries = listed if isinstance(listed, list) else []
    commands = [
        entry.get("command") or entry.get("name") or "" if isinstance(entry, dict) else "" for entry in entries
    ]
    if not commands:
        raise UsageError(f"{path} says `credentialPluginPolicy: Allowlist`, but lists no plugin")
    for command in commands:
        if not isinstance(command, str) or not command or os.path.normpath(command) != command:
            raise UsageError(f"{path} has an entry in credentialPluginAllowlist that is no clean command")
    return commands
