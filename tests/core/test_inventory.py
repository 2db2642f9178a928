"""Inventories: what an entry names, and that what cannot be read is never "nothing"."""

from __future__ import annotations

from typing import Any

import pytest

from fencectl.core.inventory import Key, inventory_key, inventory_of
from fencectl.core.refs import ObjectRef


def status(*ids: Any) -> dict[str, Any]:
    return {"status": {"inventory": {"entries": [{"id": one, "v": "v1"} for one in ids]}}}


@pytest.mark.parametrize(
    ("identity", "key"),
    [
        ("shop_web_apps_Deployment", ("apps", "Deployment", "shop", "web")),
        ("shop_web__Service", ("", "Service", "shop", "web")),
        ("_shop__Namespace", ("", "Namespace", "", "shop")),
        ("_x.acme.io_apiextensions.k8s.io_CustomResourceDefinition",
         ("apiextensions.k8s.io", "CustomResourceDefinition", "", "x.acme.io")),
        ("_system__node_rbac.authorization.k8s.io_ClusterRole",
         ("rbac.authorization.k8s.io", "ClusterRole", "", "system:node")),
    ],
)  # fmt: skip
def test_entry_names_group_kind_namespace_and_name(identity: str, key: Key) -> None:
    """With empty parts where there are none, and the colons of RBAC names."""
    assert inventory_of(status(identity)) == frozenset({key})


@pytest.mark.parametrize(
    "obj",
    [{}, {"status": {}}, {"status": {"inventory": {}}}, {"status": {"inventory": {"entries": None}}},
     status("shop_web_apps_Deployment", "shop_web"), status(7), status("___"), status("a_b_c_")],
)  # fmt: skip
def test_inventory_that_cannot_be_read_whole_is_unknown(obj: Any) -> None:
    """One entry too many that nobody understands makes all of it unknown."""
    assert inventory_of(obj) is None


def test_empty_inventory_is_nothing_and_a_reference_is_named_alike() -> None:
    """What an inventory and a reference say of the same object compares equal."""
    assert inventory_of(status()) == frozenset()
    ref = ObjectRef("apps/v1beta1", "Deployment", "deployments", "shop", "web", "uid")
    assert inventory_of(status("shop_web_apps_Deployment")) == frozenset({inventory_key(ref)})
    node = ObjectRef("v1", "Node", "nodes", None, "n1", "")
    assert inventory_key(node) == ("", "Node", "", "n1")
