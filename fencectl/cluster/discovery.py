"""
Which Flux kinds a cluster serves: every listable kind of the groups `*.toolkit.fluxcd.io`, none of them pinned.

One request where the server has aggregated discovery (https://kubernetes.io/docs/concepts/overview/kubernetes-api/,
"Aggregated discovery"), else one more for each version of these groups. A kind is read in one version: its
group's preferred one where it is served there, else the newest that has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct

from fencectl.cluster.kinds import ListedKind
from fencectl.cluster.read import JSON, UNDECODABLE, Asked, ReadFailedError, Reads
from fencectl.cluster.structs import BadPageError, decode_object
from fencectl.core.refs import dig

FLUX_GROUPS = ".toolkit.fluxcd.io"
# NB: the last part matters: a server that knows no such version would answer 406 without it.
AGGREGATED = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,{JSON}"
_VERSION = re.compile(r"v(\d{1,9})(?:(alpha|beta)(\d{1,9}))?", re.ASCII)
_SAFE = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)

WITH_SUSPEND = frozenset(
    {
        "kustomizations.kustomize.toolkit.fluxcd.io",
        "helmreleases.helm.toolkit.fluxcd.io",
        "gitrepositories.source.toolkit.fluxcd.io",
        "ocirepositories.source.toolkit.fluxcd.io",
        "buckets.source.toolkit.fluxcd.io",
        "helmrepositories.source.toolkit.fluxcd.io",
        "helmcharts.source.toolkit.fluxcd.io",
        "imagerepositories.image.toolkit.fluxcd.io",
        "imagepolicies.image.toolkit.fluxcd.io",
        "imageupdateautomations.image.toolkit.fluxcd.io",
        "receivers.notification.toolkit.fluxcd.io",
        "alerts.notification.toolkit.fluxcd.io",
        "providers.notification.toolkit.fluxcd.io",
    }
)
"""Kinds that are known to have `spec.suspend`. Others are read too, but count only once one shows the field."""


class Discovered(Struct, frozen=True):
    """The kinds, and the parts of the discovery that failed (what, why)."""

    kinds: tuple[ListedKind, ...]
    failed: tuple[tuple[str, str], ...] = ()


def discover_flux(reads: Reads) -> Discovered:
    """Ask for the kinds; raises ReadFailedError where `/apis` itself cannot be read."""
    answer = reads.get("/apis", asked=Asked("get", "/apis"), accept=AGGREGATED)
    if answer.status != 200:
        raise ReadFailedError(f"{answer.status} for /apis")
    try:
        groups = decode_object(answer.body)
    except BadPageError as bad:
        raise ReadFailedError(UNDECODABLE) from bad
    if isinstance(groups.get("items"), list):
        return _from_aggregated(groups["items"])
    if isinstance(groups.get("groups"), list):
        return _from_plain(reads, groups["groups"])
    raise ReadFailedError(UNDECODABLE)


def _from_aggregated(groups: list[Any]) -> Discovered:
    kinds: list[ListedKind] = []
    failed: list[tuple[str, str]] = []
    for entry in groups:
        group = dig(entry, "metadata", "name")
        if not _is_flux(group):
            continue
        versions: dict[str, list[Any]] = {}
        for version in _dicts(entry.get("versions")):
            if version.get("freshness") == "Stale":
                # An aggregated API that is down: its kinds may be missing.
                failed.append((f"{group}/{version.get('version')}", "the server could not discover its kinds"))
            versions[str(version.get("version"))] = list(_dicts(version.get("resources")))
        # NB: the server lists versions by preference.
        kinds += _choose(group, versions, lambda resource: _kind_of(resource, "resource", "responseKind"))
    return Discovered(tuple(kinds), tuple(failed))


def _from_plain(reads: Reads, groups: list[Any]) -> Discovered:
    kinds: list[ListedKind] = []
    failed: list[tuple[str, str]] = []
    for entry in groups:
        group = dig(entry, "name")
        if not _is_flux(group):
            continue
        preferred = dig(entry, "preferredVersion", "version")
        names = [str(v.get("version")) for v in _dicts(entry.get("versions"))]
        names.sort(key=lambda name: (name != preferred, *_newest_first(name)))
        versions: dict[str, list[Any]] = {}
        for name in names:
            what = f"/apis/{group}/{name}"
            try:
                versions[name] = _plain_resources(reads, what)
            except ReadFailedError as bad:
                failed.append((f"{group}/{name}", bad.why))
        kinds += _choose(group, versions, lambda resource: _kind_of(resource, "name", "kind"))
    return Discovered(tuple(kinds), tuple(failed))


def _plain_resources(reads: Reads, path: str) -> list[Any]:
    answer = reads.get(path, asked=Asked("get", path))
    if answer.status == 404:
        return []  # gone since the groups were listed
    try:
        resources = decode_object(answer.body).get("resources")
    except BadPageError as bad:
        raise ReadFailedError(UNDECODABLE) from bad
    if answer.status != 200 or not isinstance(resources, list):
        raise ReadFailedError(UNDECODABLE)
    return list(_dicts(resources))


def _choose(
    group: str,
    versions: dict[str, list[Any]],
    read: Callable[[dict[str, Any]], tuple[str, str, bool] | None],
) -> Iterator[ListedKind]:
    """Take each kind once, in the first version that has it."""
    taken: set[str] = set()
    for version, resources in versions.items():
        for resource in resources:
            found = read(resource)
            if found is None or found[0] in taken or not _SAFE.fullmatch(version):
                continue
            plural, kind, namespaced = found
            taken.add(plural)
            yield ListedKind(group, version, kind, plural, namespaced)


def _kind_of(resource: dict[str, Any], name_key: str, kind_key: str) -> tuple[str, str, bool] | None:
    plural, verbs = resource.get(name_key), resource.get("verbs")
    kind = resource.get(kind_key)
    if isinstance(kind, dict):
        kind = kind.get("kind")
    if not isinstance(plural, str) or not isinstance(kind, str) or not _SAFE.fullmatch(plural):
        return None  # subresources (`kustomizations/status`) among them
    if not isinstance(verbs, list) or "list" not in verbs:
        return None
    namespaced = resource.get("scope") == "Namespaced" or resource.get("namespaced") is True
    return plural, kind, namespaced


def _is_flux(group: Any) -> bool:
    return isinstance(group, str) and group.endswith(FLUX_GROUPS) and _SAFE.fullmatch(group) is not None


def _dicts(values: Any) -> Iterable[dict[str, Any]]:
    return (value for value in values if isinstance(value, dict)) if isinstance(values, list) else ()


def _newest_first(version: str) -> tuple[int, int, int]:
    """Order as Kubernetes does: v2, v1, v1beta2, v1beta1, v1alpha1, anything else."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (3, 0, 0)
    major, stage, minor = match.groups()
    return ({None: 0, "beta": 1, "alpha": 2}[stage], -int(major), -int(minor or 0))
