"""Aspects: kubectl's id and annotations · whose set it is · when a prune is withheld."""

from __future__ import annotations

from typing import Any

import pytest

from fencectl.core.applyset import (
    ID,
    KINDS,
    NAMESPACES,
    TOOLING,
    ApplySetError,
    Contents,
    contents_of,
    parent_of,
    read_contents,
    set_id,
    why_withheld,
)


def parent(**changed: Any) -> Any:
    made = dict(parent_of("flux-system", "shop", Contents(frozenset({("apps", "Deployment"), ("", "ConfigMap")}))))
    metadata = dict(made["metadata"])
    metadata["annotations"] = {**metadata["annotations"], **changed.pop("annotations", {})}
    made["metadata"] = {**metadata, **changed}
    return made


def test_parent_says_kinds_and_namespaces_as_kubectl_does() -> None:
    """Sorted, by kind and group, without the parent's own namespace."""
    contents = contents_of(
        [("apps", "Deployment", "shop"), ("", "ConfigMap", "flux-system"), ("", "Namespace", None)]
    )
    metadata = parent_of("flux-system", "x", contents)["metadata"]
    assert metadata["annotations"] == {
        TOOLING: "fencectl/v1",
        KINDS: "ConfigMap,Deployment.apps,Namespace",
        NAMESPACES: "shop",
    }
    assert metadata["labels"] == {ID: set_id("flux-system", "x")}


def test_contents_are_read_back_with_the_parents_own_namespace() -> None:
    """What was written comes back, and nothing is lost when more comes."""
    contents = contents_of([("apps", "Deployment", "shop"), ("", "ConfigMap", "web")])
    back = read_contents(parent_of("flux-system", "x", contents), namespace="flux-system", name="x")
    assert back == Contents(contents.kinds, frozenset({"flux-system", "shop", "web"}))
    assert (back | Contents(frozenset({("", "Secret")}))).kinds == contents.kinds | {("", "Secret")}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"labels": {}}, "has no label applyset.kubernetes.io/id"),
        ({"labels": {ID: "applyset-other-v1"}}, "carries the id `applyset-other-v1`, not its own"),
        ({"annotations": {TOOLING: "kubectl/v1.37"}}, "is managed by `kubectl/v1.37`, not by fencectl"),
    ],
)
def test_set_of_somebody_else_is_refused(changed: Any, why: str) -> None:
    """A ConfigMap that happens to be there, a copied one, kubectl's own set: nothing of it is ours to prune."""
    with pytest.raises(ApplySetError) as raised:
        read_contents(parent(**changed), namespace="flux-system", name="shop")
    assert why in raised.value.sentence


@pytest.mark.parametrize(
    ("members", "kept", "rendered", "withheld"),
    [
        (40, 40, 40, None),
        (40, 0, 0, "nothing was rendered (0 rendered, 40 in the set)"),
        (40, 12, 12, "the render has shrunk by more than half (12 rendered, 40 in the set)"),
        (40, 19, 19, "the render has shrunk by more than half (19 rendered, 40 in the set)"),
        (40, 20, 20, None),
        (40, 0, 60, "nothing of the set is rendered any more (60 rendered, 40 in the set)"),
        (1, 0, 1, None),
        (0, 0, 0, None),
        (1, 0, 0, "nothing was rendered (0 rendered, 1 in the set)"),
    ],
)
def test_case_61_prune_is_withheld_on_a_render_that_lost_too_much(
    members: int, kept: int, rendered: int, withheld: str | None
) -> None:
    """0 of 40, 12 of 40, another application altogether: counts are told. A renamed ConfigMap is an ordinary day."""
    assert why_withheld(members=members, kept=kept, rendered=rendered) == withheld
