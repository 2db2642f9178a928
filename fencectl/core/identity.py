"""
Holder identities: who placed a fence, as text that names the run.

Written: `<rev16>-gh<run>.<attempt>[-j<job>]-<nonce>` in CI, `<rev16>-local-<host>-<pid>-<nonce>` on a
workstation, `<rev16>-pod-<namespace>.<name>-<nonce>` in a pod.
Read besides: `<rev>-gh<run>.<attempt>-<pid>-<random>`, `<rev>-local-<pid>-<random>`, `bootstrap-<rev>-…` and
`<rev>-<pid>-<random>`, which names no run at all.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache

import msgspec

MAX_LENGTH = 200
_UNSAFE = re.compile(r"[^a-z0-9.-]+", re.ASCII)

_REV = r"(?P<revision>[0-9a-z]{1,40})"
_RUN = r"gh(?P<run>[0-9]{1,20})\.(?P<attempt>[0-9]{1,6})"
_NONCE = r"(?P<nonce>[0-9a-z]{1,32})"


_PATTERNS = (
    rf"{_REV}-{_RUN}-j(?P<job>[0-9]{{1,20}})-{_NONCE}",
    rf"{_REV}-{_RUN}-(?P<pid>[0-9]{{1,10}})-{_NONCE}",
    rf"{_REV}-{_RUN}-{_NONCE}",
    rf"bootstrap-{_REV}-{_RUN}-(?P<pid>[0-9]{{1,10}})-{_NONCE}",
    rf"{_REV}-local-(?P<host>[a-z0-9.-]+)-(?P<pid>[0-9]{{1,10}})-{_NONCE}",
    rf"bootstrap-{_REV}-local-(?P<pid>[0-9]{{1,10}})-{_NONCE}",
    rf"{_REV}-local-(?P<pid>[0-9]{{1,10}})-{_NONCE}",
    rf"{_REV}-pod-(?P<pod_namespace>[a-z0-9-]+)\.(?P<pod_name>[a-z0-9.-]+)-{_NONCE}",
    rf"{_REV}-(?P<pid>[0-9]{{1,10}})-{_NONCE}",
)


@cache
def _spellings() -> tuple[re.Pattern[str], ...]:
    # NB: compiled when the first identity is read: on most looks there is none, and it costs as much as msgspec.
    return tuple(re.compile(pattern, re.ASCII) for pattern in _PATTERNS)


class HolderKind(StrEnum):
    """What an identity names."""

    GITHUB = "github"
    LOCAL = "local"
    POD = "pod"
    OPAQUE = "opaque"


class Holder(msgspec.Struct, frozen=True):
    """
    A holder, as far as its identity alone tells.

    `identity` is the text as it stands on the object, which may be hostile; every other field was matched
    against a closed alphabet. `kind` OPAQUE: no run, process or pod can be looked up from it.
    """

    identity: str
    kind: HolderKind
    revision: str | None = None
    run: int | None = None
    attempt: int | None = None
    job: int | None = None
    host: str | None = None
    pid: int | None = None
    pod_namespace: str | None = None
    pod_name: str | None = None
    nonce: str | None = None

    @property
    def title(self) -> str:
        """`run R attempt A job J`, `HOST pid N`, `pod NS/NAME`, or the identity itself (to be escaped)."""
        if self.kind is HolderKind.GITHUB:
            job = f" job {self.job}" if self.job is not None else ""
            return f"run {self.run} attempt {self.attempt}{job}"
        if self.kind is HolderKind.LOCAL:
            return f"{self.host or 'a workstation'} pid {self.pid}"
        if self.kind is HolderKind.POD:
            return f"pod {self.pod_namespace}/{self.pod_name}"
        return f"holder {self.identity}"

    @property
    def column(self) -> str:
        """The short form for table columns: `R.A` for a run, else the title."""
        return f"{self.run}.{self.attempt}" if self.kind is HolderKind.GITHUB else self.title


def parse_holder(identity: str) -> Holder:
    """Read an identity. Never fails: what fits no spelling is an OPAQUE holder."""
    if len(identity) <= MAX_LENGTH:
        for spelling in _spellings():
            match = spelling.fullmatch(identity)
            if match is not None:
                return _from_groups(identity, match.groupdict())
    return Holder(identity, HolderKind.OPAQUE)


def _from_groups(identity: str, groups: dict[str, str | None]) -> Holder:
    def number(key: str) -> int | None:
        text = groups.get(key)
        return int(text) if text is not None else None

    kind = HolderKind.OPAQUE
    if groups.get("run") is not None:
        kind = HolderKind.GITHUB
    elif groups.get("pod_name") is not None:
        kind = HolderKind.POD
    elif "-local-" in identity:
        kind = HolderKind.LOCAL
    return Holder(
        identity,
        kind,
        revision=groups.get("revision"),
        run=number("run"),
        attempt=number("attempt"),
        job=number("job"),
        host=groups.get("host"),
        pid=number("pid"),
        pod_namespace=groups.get("pod_namespace"),
        pod_name=groups.get("pod_name"),
        nonce=groups.get("nonce"),
    )


def revision16(revision: str) -> str:
    """The first 16 characters of a revision in the alphabet of identities; zeros where there is none."""
    return re.sub(r"[^0-9a-z]", "", revision.lower())[:16] or "0" * 16


def github_identity(*, revision: str, run: int, attempt: int, job: int | None, nonce: str) -> str:
    """The identity of a job of GitHub Actions."""
    job_part = f"-j{job}" if job is not None else ""
    return f"{revision16(revision)}-gh{run}.{attempt}{job_part}-{nonce}"


def local_identity(*, revision: str, host: str, pid: int, nonce: str) -> str:
    """The identity of a process on a workstation."""
    return f"{revision16(revision)}-local-{_fit(host, 100)}-{pid}-{nonce}"


def pod_identity(*, revision: str, namespace: str, name: str, nonce: str) -> str:
    """The identity of a pod; what does not fit is cut and gets a hash, so that two never look alike."""
    # NB: the first dot ends the namespace, so none may be left in it.
    return f"{revision16(revision)}-pod-{_fit(namespace, 63).replace('.', '-')}.{_fit(name, 80)}-{nonce}"


def _fit(text: str, length: int) -> str:
    safe = _UNSAFE.sub("-", text.lower()).strip("-.") or "unnamed"
    if safe == text.lower() and len(safe) <= length:
        return safe
    import hashlib  # it loads OpenSSL, and next to no name needs it

    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{safe[: length - 9].rstrip('-.')}-{digest}"


# NB: compiled where they are first needed: most looks name no run.
_REPOSITORY = r"(?a:[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+)"
_SERVER = r"(?a:https?://[A-Za-z0-9.-]+(?::[0-9]+)?/?)"


def run_link(holder: Holder, repository: str | None, server: str | None) -> str | None:
    """The page of a run's attempt; None unless every part of it is known and is nothing but that."""
    if holder.kind is not HolderKind.GITHUB or not re.fullmatch(_REPOSITORY, repository or ""):
        return None
    server = server or "https://github.com"
    if not re.fullmatch(_SERVER, server):
        return None
    return f"{server.rstrip('/')}/{repository}/actions/runs/{holder.run}/attempts/{holder.attempt}"
