"""Aspects: aggregated and plain discovery · versions · what is left out · parts that fail."""

from __future__ import annotations

from typing import Any

import pytest

from fencectl.cluster.discovery import AGGREGATED, WITH_SUSPEND, Discovered, discover_flux
from fencectl.cluster.read import ReadFailedError, Reads
from tests.kube.scripted import DrivenClock, Scripted, refusal, reply

KUSTOMIZE, SOURCE = "kustomize.toolkit.fluxcd.io", "source.toolkit.fluxcd.io"


def discover(getter: Scripted) -> Discovered:
    return discover_flux(Reads(getter, clock=DrivenClock(), deadline_s=30))


def names(discovered: Discovered) -> list[str]:
    return [f"{kind.api_version}/{kind.plural}" for kind in discovered.kinds]


def group(name: str, *versions: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "versions": list(versions)}


def version(
    name: str, *plurals: str, freshness: str = "Current", verbs: tuple[str, ...] = ("list",)
) -> dict[str, Any]:
    resources = [
        {"resource": plural, "responseKind": {"kind": plural.title()}, "scope": "Namespaced", "verbs": list(verbs)}
        for plural in plurals
    ]
    return {"version": name, "freshness": freshness, "resources": resources}


def aggregated(*groups: dict[str, Any]) -> Scripted:
    getter = Scripted()
    getter.on("/apis", reply({"kind": "APIGroupDiscoveryList", "items": list(groups)}))
    return getter


def plain(groups: dict[str, tuple[str, dict[str, list[str]]]]) -> Scripted:
    """Serve the old discovery: group → (preferred version, {version: plurals})."""
    getter = Scripted()
    entries = []
    for name, (preferred, versions) in groups.items():
        entries.append(
            {
                "name": name,
                "versions": [{"groupVersion": f"{name}/{v}", "version": v} for v in versions],
                "preferredVersion": {"groupVersion": f"{name}/{preferred}", "version": preferred},
            }
        )
        for v, plurals in versions.items():
            resources = [
                {"name": plural, "kind": plural.title(), "namespaced": True, "verbs": ["list"]}
                for plural in plurals
            ]
            getter.on(f"/apis/{name}/{v}", reply({"kind": "APIResourceList", "resources": resources}))
    getter.on("/apis", reply({"kind": "APIGroupList", "groups": entries}))
    return getter


def test_aggregated_discovery_takes_one_request() -> None:
    """Only Flux's own groups count, whatever else is installed and however its name looks."""
    getter = aggregated(
        group(KUSTOMIZE, version("v1", "kustomizations")),
        group("apps", version("v1", "deployments")),
        group("toolkit.fluxcd.io.example.com", version("v1", "things")),
        group("xtoolkit.fluxcd.io", version("v1", "things")),
    )
    assert names(discover(getter)) == [f"{KUSTOMIZE}/v1/kustomizations"]
    assert getter.paths() == ["/apis"]
    assert getter.accepts == [AGGREGATED]


def test_each_kind_is_read_in_the_first_version_that_has_it() -> None:
    """The server lists versions by preference; a kind that only an old one has is read there."""
    getter = aggregated(group(SOURCE, version("v1", "buckets"), version("v1beta2", "buckets", "oldthings")))
    assert names(discover(getter)) == [f"{SOURCE}/v1/buckets", f"{SOURCE}/v1beta2/oldthings"]


def test_plain_discovery_asks_each_version_and_prefers_as_the_server_does() -> None:
    """Without aggregated discovery: the preferred version first, then the newest."""
    getter = plain(
        {
            SOURCE: ("v1", {"v1beta2": ["buckets", "c"], "v2alpha1": ["a", "c"], "v1": ["buckets"], "v2": ["a"]}),
            "apps": ("v1", {"v1": ["deployments"]}),
        }
    )
    assert names(discover(getter)) == [f"{SOURCE}/v1/buckets", f"{SOURCE}/v2/a", f"{SOURCE}/v1beta2/c"]
    assert "/apis/apps/v1" not in getter.paths()


def test_subresources_and_kinds_that_cannot_be_listed_are_left_out() -> None:
    """Nothing can be read of them."""
    getter = aggregated(
        group(KUSTOMIZE, version("v1", "kustomizations/status", "x"), version("v2", "y", verbs=("get",)))
    )
    assert names(discover(getter)) == [f"{KUSTOMIZE}/v1/x"]


def test_no_flux_is_no_failure() -> None:
    """A cluster without Flux has nothing to suspend."""
    assert discover(aggregated(group("apps", version("v1", "deployments")))) == Discovered(())
    assert discover(plain({"apps": ("v1", {"v1": ["deployments"]})})) == Discovered(())


def test_stale_group_is_named() -> None:
    """An extension server that is down may have kinds that are missing here."""
    found = discover(aggregated(group(KUSTOMIZE, version("v1", freshness="Stale"))))
    assert found.failed == ((f"{KUSTOMIZE}/v1", "the server could not discover its kinds"),)


def test_version_that_cannot_be_asked_for_is_named_and_the_others_are_read() -> None:
    """One broken version costs its own kinds only; one that is gone costs nothing."""
    getter = plain({SOURCE: ("v1", {"v1": ["buckets"], "v1beta2": ["c"], "v1beta1": ["d"]})})
    getter.on(f"/apis/{SOURCE}/v1", refusal(500, "etcd is away"))
    getter.on(f"/apis/{SOURCE}/v1beta1", refusal(404, "gone"))
    found = discover(getter)
    assert names(found) == [f"{SOURCE}/v1beta2/c"]
    assert found.failed == ((f"{SOURCE}/v1", "500: etcd is away"),)


@pytest.mark.parametrize("body", ["", "[]", "{}", "<html>", '{"groups": 7}'])
def test_answer_that_is_no_discovery_is_a_failure(body: str) -> None:
    """It must not read as "Flux is not installed"."""
    getter = Scripted()
    getter.on("/apis", reply(body))
    with pytest.raises(ReadFailedError, match="could not be decoded"):
        discover(getter)


@pytest.mark.parametrize(
    "entry",
    [
        None,
        7,
        {},
        {"metadata": None},
        {"metadata": {"name": 7}},
        group("../.toolkit.fluxcd.io", version("v1", "x")),
    ],
)
def test_malformed_group_is_passed_over(entry: Any) -> None:
    """It has no name by which it could be read, and the others do."""
    assert names(discover(aggregated(entry, group(KUSTOMIZE, version("v1", "x"))))) == [f"{KUSTOMIZE}/v1/x"]


def test_malformed_parts_of_a_group_are_passed_over() -> None:
    """A version or kind with a hostile name never becomes a path."""
    bad = {"resource": "a/../b", "responseKind": {"kind": "B"}, "verbs": ["list"]}
    kinds = version("v1", "x")
    kinds["resources"] += [
        bad,
        7,
        None,
        {"resource": "y", "verbs": ["list"]},
        {"resource": "z", "responseKind": "Z"},
    ]
    getter = aggregated(group(KUSTOMIZE, kinds, version("../v2", "w")))
    assert names(discover(getter)) == [f"{KUSTOMIZE}/v1/x"]


def test_known_kinds_are_plural_and_group() -> None:
    """The names that decide which kinds count are spelled as RBAC spells them."""
    assert all(name.endswith(".toolkit.fluxcd.io") for name in WITH_SUSPEND)
    assert len(WITH_SUSPEND) == 13
