"""The command by which a person can see for themselves whether a holder has ended."""

from __future__ import annotations

import re
import shlex

from fencectl.core.facts import Subject
from fencectl.core.identity import HolderKind

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}/[A-Za-z0-9_.][A-Za-z0-9_.-]{0,99}", re.ASCII)
_SERVER = re.compile(r"https://([A-Za-z0-9.-]{1,200}(?::[0-9]{1,5})?)/?", re.ASCII)


def repository_of(subject: Subject) -> str | None:
    """The repository, `owner/name`; None where what was recorded is none."""
    repository = subject.repository
    return repository if repository is not None and _REPOSITORY.fullmatch(repository) else None


def server_of(subject: Subject) -> str | None:
    """The host (and port) of the GitHub server; None where none, or none that can be, was recorded."""
    match = _SERVER.fullmatch(subject.server_url or "")
    return match.group(1) if match else None


def check_command(subject: Subject) -> str | None:
    """
    Build the command; None where there is nothing to look up.

    Always with the attempt: a re-run reuses the run's id, so the run alone may look alive while the recorded
    attempt is long over. No placeholder: what is not known is left out.
    """
    holder = subject.holder
    match holder.kind:
        case HolderKind.GITHUB:
            repository, host = repository_of(subject), server_of(subject)
            where = repository if host in (None, "github.com") else f"{host}/{repository}"
            named = f" --repo {where}" if repository else ""
            return f"gh run view {holder.run}{named} --attempt {holder.attempt} --json status,conclusion"
        case HolderKind.LOCAL:
            return f"ps -o pid,lstart,args -p {holder.pid}"
        case HolderKind.POD:
            context = f"--context {shlex.quote(subject.context)} " if subject.context else ""
            return f"kubectl {context}-n {holder.pod_namespace} get pod {holder.pod_name} -o wide"
        case HolderKind.OPAQUE:
            return None
