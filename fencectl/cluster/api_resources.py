"""
Which resource a kind is: asked of the server for the versions that are needed, one request for each.

A version that the server does not have is an answer; one that it cannot tell now (an aggregated API that is down)
is none, and raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from fencectl.cluster.kinds import ListedKind
from fencectl.cluster.read import UNDECODABLE, Asked, ReadFailedError, Reads
from fencectl.cluster.structs import BadPageError, decode_object
from fencectl.core.refs import dig

_SAFE = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)


class ApiResources:
    """What the server serves, as far as it was asked. Raises ReadFailedError where it does not answer."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._versions: dict[str, dict[str, ListedKind]] = {}
        self._groups: dict[str, list[str]] | None = None
        self._with_status: set[tuple[str, str]] = set()

    def find(self, api_version: str, kind: str) -> ListedKind | None:
        """The resource of a kind; None where the server has none of that name in that version."""
        if api_version not in self._versions:
            self._versions[api_version] = self._read(api_version)
        return self._versions[api_version].get(kind)

    def has_status(self, kind: ListedKind) -> bool:
        """Whether a kind that was found has a status of its own, which a controller writes."""
        return (kind.api_version, kind.plural) in self._with_status

    def find_any(self, group: str, kind: str) -> ListedKind | None:
        """The resource of a kind in whichever version has it, the preferred one first."""
        for version in ["v1"] if not group else self._versions_of(group):
            found = self.find(f"{group}/{version}" if group else version, kind)
            if found is not None:
                return found
        return None

    def _read(self, api_version: str) -> dict[str, ListedKind]:
        group, _, version = api_version.rpartition("/")
        path = f"/apis/{api_version}" if group else f"/api/{api_version}"
        answer = self._reads.get(path, asked=Asked("get", path))
        if answer.status == 404:
            return {}
        try:
            resources = decode_object(answer.body).get("resources")
        except BadPageError as bad:
            raise ReadFailedError(UNDECODABLE) from bad
        if answer.status != 200 or not isinstance(resources, list):
            raise ReadFailedError(UNDECODABLE)
        names = [str(dig(one, "name")) for one in resources]
        self._with_status |= {
            (api_version, name.removesuffix("/status")) for name in names if name.endswith("/status")
        }
        return {kind.kind: kind for kind in _kinds(group, version, resources)}

    def _versions_of(self, group: str) -> list[str]:
        if self._groups is None:
            answer = self._reads.get("/apis", asked=Asked("get", "/apis"))
            try:
                groups = decode_object(answer.body).get("groups") if answer.status == 200 else None
            except BadPageError as bad:
                raise ReadFailedError(UNDECODABLE) from bad
            if not isinstance(groups, list):
                raise ReadFailedError(UNDECODABLE)
            self._groups = {str(dig(entry, "name")): _versions(entry) for entry in groups}
        return self._groups.get(group, [])


def _versions(entry: Any) -> list[str]:
    preferred = dig(entry, "preferredVersion", "version")
    listed = dig(entry, "versions")
    names = [dig(one, "version") for one in (listed if isinstance(listed, list) else ())]
    found = [name for name in names if isinstance(name, str) and _SAFE.fullmatch(name)]
    return sorted(found, key=lambda name: name != preferred)


def _kinds(group: str, version: str, resources: Iterable[Any]) -> list[ListedKind]:
    found = []
    for one in resources:
        plural, kind = dig(one, "name"), dig(one, "kind")
        # NB: subresources (`deployments/scale`) stand in the same list, some with the kind of another.
        if isinstance(plural, str) and isinstance(kind, str) and _SAFE.fullmatch(plural):
            found.append(ListedKind(group, version, kind, plural, dig(one, "namespaced") is True))
    return found
