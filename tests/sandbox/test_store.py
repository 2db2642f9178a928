"""Aspects: the store from Python · revisions · history · snapshots · resources that come and go."""

from __future__ import annotations

import pytest

from fencectl.sandbox import Sandbox, StatusError
from fencectl.sandbox.storage import HISTORY, CompactedError, RaceLostError, Storage
from tests.sandbox.support import Raw, ask, config_map, kustomization, lease, node


def test_store_goes_through_the_checks_of_a_client(quiet: Sandbox) -> None:
    """The same refusals, as errors."""
    quiet.store.create(lease("l"))
    with pytest.raises(StatusError) as refused:
        quiet.store.create(lease("l"))
    assert (refused.value.code, refused.value.reason) == (409, "AlreadyExists")
    with pytest.raises(StatusError) as refused:
        quiet.store.patch("leases", "l", {"spec": {"leaseDurationSeconds": -1}}, namespace="flux-system")
    assert refused.value.body["details"]["causes"][0]["field"] == "spec.leaseDurationSeconds"
    with pytest.raises(StatusError) as refused:
        quiet.store.get("nodes", "none")
    assert refused.value.code == 404
    with pytest.raises(KeyError):
        quiet.store.get("unheard-of", "x")


def test_store_reads_writes_and_deletes(quiet: Sandbox) -> None:
    """By any name of the resource."""
    made = quiet.store.create(kustomization("apps"))
    assert quiet.store.get("ks", "apps", namespace="flux-system") == made
    assert quiet.store.find("kustomizations.kustomize.toolkit.fluxcd.io", "none", namespace="flux-system") is None
    body = '[{"op":"add","path":"/spec/suspend","value":true}]'
    patched = quiet.store.patch("ks", "apps", body, namespace="flux-system", kind="json", manager="fencectl")
    assert patched["spec"]["suspend"] is True
    assert {entry["manager"] for entry in patched["metadata"]["managedFields"]} == {"sandbox", "fencectl"}
    put = quiet.store.update({**patched, "spec": {**patched["spec"], "suspend": False}})
    assert put["metadata"]["generation"] == 3
    assert quiet.store.list("ks", namespace="flux-system") == [put]
    assert quiet.store.list("ks", labels="a=b") == []
    quiet.store.delete("ks", "apps", namespace="flux-system", uid=put["metadata"]["uid"])
    assert quiet.store.list("ks") == []


def test_objects_handed_out_are_the_callers_own(quiet: Sandbox) -> None:
    """Changing one changes nothing that is stored, nor what others were handed."""
    sent = config_map("c", a="1")
    made = quiet.store.create(sent)
    sent["data"]["a"] = made["data"]["a"] = quiet.store.get("cm", "c", namespace="default")["data"]["a"] = "2"
    quiet.store.list("cm")[0]["data"]["a"] = "3"
    assert quiet.store.get("cm", "c", namespace="default")["data"] == {"a": "1"}


def test_status_given_at_creation_is_stored(quiet: Sandbox) -> None:
    """As its controller would have written it afterwards."""
    status = {"observedGeneration": 1, "lastAppliedRevision": "main@sha1:1"}
    made = quiet.store.create({**kustomization("apps"), "status": status})
    assert made["status"] == status
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    made = quiet.store.create({**node("a"), "status": ready})
    assert made["status"]["conditions"][0]["status"] == "True"
    assert made["spec"] == {}


def test_revisions_only_grow_and_uids_differ(quiet: Sandbox) -> None:
    """An object made again under its name is another."""
    first = quiet.store.create(node("a"))
    quiet.store.delete("nodes", "a")
    second = quiet.store.create(node("a"))
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    assert second["metadata"]["uid"] != first["metadata"]["uid"]


def test_seed_makes_uids_the_same_in_every_run() -> None:
    """So that printed stories can be compared."""
    uids = [Sandbox(seed=7).store.create(node("a"))["metadata"]["uid"] for _ in range(2)]
    assert uids[0] == uids[1]
    assert Sandbox().store.create(node("a"))["metadata"]["uid"] != uids[0]


def test_pages_show_the_moment_of_the_first(quiet: Sandbox) -> None:
    """Whatever is written in between."""
    for name in ("a", "b", "c"):
        quiet.store.create(node(name))
    page = ask(quiet, "GET", "/api/v1/nodes?limit=1").json()
    quiet.store.delete("nodes", "b")
    quiet.store.create(node("bb"))
    quiet.store.patch("nodes", "c", {"metadata": {"labels": {"new": "1"}}})
    rest = ask(quiet, "GET", f"/api/v1/nodes?continue={page['metadata']['continue']}").json()
    assert [item["metadata"]["name"] for item in rest["items"]] == ["b", "c"]
    assert "labels" not in rest["items"][1]["metadata"]
    assert rest["metadata"]["resourceVersion"] == page["metadata"]["resourceVersion"]


def _object(name: str) -> Raw:
    return {"metadata": {"name": name}}


def test_write_expects_what_was_read() -> None:
    """A race is lost, never overwritten."""
    storage, key = Storage(), ("", "things")
    first = storage.put(key, name=("", "a"), expected=None, obj=_object("a"))
    with pytest.raises(RaceLostError):
        storage.put(key, name=("", "a"), expected=None, obj=_object("a"))
    second = storage.put(key, name=("", "a"), expected=first, obj=_object("a"))
    with pytest.raises(RaceLostError):
        storage.delete(key, name=("", "a"), expected=first)
    storage.delete(key, name=("", "a"), expected=second)
    assert storage.count(key) == 0


def test_history_is_bounded() -> None:
    """A sandbox that runs for long does not grow; what is forgotten is an error, not a wrong answer."""
    storage, key = Storage(), ("", "things")
    start, obj = storage.revision, None
    for _ in range(HISTORY + 10):
        obj = storage.put(key, name=("", "a"), expected=obj, obj=_object("a"))
    with pytest.raises(CompactedError):
        storage.since(start)
    with pytest.raises(CompactedError):
        storage.list(key, at=start)
    assert len(storage.since(storage.revision - 5)[0]) == 5


def test_flux_can_be_absent_and_installed_later() -> None:
    """ "Not installed" is a 404 that is no Status."""
    sandbox = Sandbox(flux=False)
    path = "/apis/kustomize.toolkit.fluxcd.io/v1/kustomizations"
    answer = ask(sandbox, "GET", path)
    assert (answer.status, answer.body) == (404, b"404 page not found\n")
    assert "kustomize" not in ask(sandbox, "GET", "/apis").body.decode()
    sandbox.install_flux()
    assert ask(sandbox, "GET", path).json()["items"] == []
    sandbox.store.create(kustomization("apps"))
    sandbox.remove_flux()
    assert ask(sandbox, "GET", path).status == 404
    sandbox.install_flux()
    assert ask(sandbox, "GET", path).json()["items"] == []


def test_deleting_a_namespace_takes_what_is_in_it(quiet: Sandbox) -> None:
    """All kinds, at once; what has a finalizer keeps it from going."""
    quiet.store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}})
    quiet.store.create(config_map("c", "x"))
    held = lease("l", namespace="x")
    held["metadata"]["finalizers"] = ["a/b"]
    quiet.store.create(held)
    quiet.store.delete("ns", "x")
    assert quiet.store.list("cm", namespace="x") == []
    assert quiet.store.get("ns", "x")["status"]["phase"] == "Terminating"
    with pytest.raises(StatusError, match="being terminated"):
        quiet.store.create(config_map("d", "x"))


CRD: Raw = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["size"],
                                "properties": {
                                    "size": {"type": "integer"},
                                    "mode": {"type": "string", "default": "fast", "enum": ["fast", "slow"]},
                                    "tags": {"type": "object", "additionalProperties": {"type": "string"}},
                                    "port": {"x-kubernetes-int-or-string": True},
                                    "any": {"x-kubernetes-preserve-unknown-fields": True},
                                    "list": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["k"],
                                        "items": {"type": "object", "properties": {"k": {"type": "string"}}},
                                    },
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


def _widget(name: str, **spec: object) -> Raw:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": spec}


def test_definition_adds_a_resource_with_its_schema(quiet: Sandbox) -> None:
    """Defaults, pruning, types, enumerations and required fields."""
    made = quiet.store.create(CRD)
    assert ask(quiet, "GET", "/apis/example.com/v1").json()["resources"][0]["name"] == "widgets"
    stored = quiet.store.get("crd", made["metadata"]["name"])
    assert {item["type"] for item in stored["status"]["conditions"]} == {"NamesAccepted", "Established"}
    widget = quiet.store.create(_widget("a", size=3, bogus=1, tags={"a": "b"}, port="http", any={"x": [1]}))
    spec = {"size": 3, "mode": "fast", "tags": {"a": "b"}, "port": "http", "any": {"x": [1]}}
    assert widget["spec"] == spec
    for wrong, field in (({"size": "x"}, "spec.size"), ({}, "spec.size"), ({"size": 1, "mode": "?"}, "spec.mode")):
        with pytest.raises(StatusError) as refused:
            quiet.store.create(_widget("b", **wrong))
        assert refused.value.body["details"]["causes"][0]["field"] == field
    table = ask(
        quiet,
        "GET",
        "/apis/example.com/v1/widgets",
        headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"},
    ).json()
    assert table["rows"][0]["cells"] == ["a", 3]


def test_deleted_definition_takes_its_objects_away(quiet: Sandbox) -> None:
    """And the resource is not found any more."""
    quiet.store.create(CRD)
    quiet.store.create(_widget("a", size=1))
    quiet.store.delete("crd", "widgets.example.com")
    assert ask(quiet, "GET", "/apis/example.com/v1/widgets").status == 404
    quiet.store.create(CRD)
    assert quiet.store.list("wd") == []
