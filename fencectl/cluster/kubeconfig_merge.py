"""
Kubeconfig files as kubectl merges them: which files, and who wins where they disagree.

Rules are those of client-go (tools/clientcmd/loader.go): the first file that names a cluster, user or context
wins as a whole entry, the first that names a current context wins, and one unreadable file spoils the list.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fencectl.cluster.kubeconfig_entries import (
    ClusterEntry,
    ContextEntry,
    FileEntries,
    UserEntry,
    read_entries,
)
from fencectl.cluster.kubeconfig_yaml import parse_text
from fencectl.core.errors import UsageError

_Entry = TypeVar("_Entry")


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """All files of one list, merged. `searched` and `found` are written as people write paths."""

    searched: tuple[str, ...]
    found: tuple[str, ...]
    clusters: Mapping[str, ClusterEntry]
    users: Mapping[str, UserEntry]
    contexts: Mapping[str, ContextEntry]
    current_context: str

    @property
    def shown(self) -> str:
        """Where a name was looked for, to say that it is not there."""
        return ", ".join(self.found or self.searched) or "file in KUBECONFIG"


def shown_path(path: str, home: Path) -> str:
    """Return the path as people write it: `~/.kube/config`."""
    prefix = f"{home}{os.sep}"
    return f"~/{path[len(prefix) :]}" if path.startswith(prefix) else path


def files_to_read(kubeconfig: str | None, environ: Mapping[str, str], home: Path) -> tuple[str, ...]:
    """Return the files in order of precedence, present or not."""
    if kubeconfig:
        return (kubeconfig,)
    listed = environ.get("KUBECONFIG", "")
    if listed:
        return tuple(dict.fromkeys(path for path in listed.split(os.pathsep) if path))
    return (_default_file(home),)


def load(kubeconfig: str | None, environ: Mapping[str, str], home: Path) -> Kubeconfig:
    """Read and merge; a missing file counts as empty unless it was named by `--kubeconfig`."""
    searched = files_to_read(kubeconfig, environ, home)
    found: dict[str, FileEntries] = {}
    for path in searched:
        text = _read(path, home, required=bool(kubeconfig))
        if text is None and path == _default_file(home):
            # kubectl copies the file of its first versions to the new place and reads that.
            text = _read(str(home / ".kube" / ".kubeconfig"), home, required=False)
        if text is not None:
            shown = shown_path(path, home)
            found[shown] = read_entries(parse_text(text, shown=shown), path=path, shown=shown)
    return Kubeconfig(
        searched=tuple(shown_path(path, home) for path in searched),
        found=tuple(found),
        clusters=_first_wins(part.clusters for part in found.values()),
        users=_first_wins(part.users for part in found.values()),
        contexts=_first_wins(part.contexts for part in found.values()),
        current_context=next((part.current_context for part in found.values() if part.current_context), ""),
    )


def _default_file(home: Path) -> str:
    return str(home / ".kube" / "config")


def _read(path: str, home: Path, *, required: bool) -> bytes | None:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - Path would drop a leading `./`
            return file.read()
    except FileNotFoundError:
        if required:
            raise UsageError(f"no kubeconfig at {shown_path(path, home)}") from None
        return None
    except OSError as error:
        raise UsageError(f"{shown_path(path, home)} cannot be read: {_why(error)}") from None


def _why(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def _first_wins(parts: Iterable[Mapping[str, _Entry]]) -> dict[str, _Entry]:
    merged: dict[str, _Entry] = {}
    for part in parts:
        for name, entry in part.items():
            merged.setdefault(name, entry)
    return merged
