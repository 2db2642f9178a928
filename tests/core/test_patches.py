"""The builder of patches: Go's encoding, escaped pointers, and no patch without a uid."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st
from jsonpointer import JsonPointer

from fencectl.core.gojson import StrictJSONError, decode_strict, encode, encode_ascii
from fencectl.core.managers import last_writer
from fencectl.core.patches import annotation, guard, pointer, put_annotations, seal
from fencectl.core.refs import ObjectRef
from tests.support.objects import kustomization, lease, node


def test_encoding_is_gos() -> None:
    """`test` compares raw bytes: these five are escaped, in lower case, and nothing else is."""
    assert encode({"a": "x&y <é> \u2028\u2029 💥"}) == '{"a":"x\\u0026y \\u003cé\\u003e \\u2028\\u2029 💥"}'
    assert encode('\b\f\n\r\t"\\\x01\x7f') == '"\\b\\f\\n\\r\\t\\"\\\\\\u0001\x7f"'
    assert encode([1, True, None]) == "[1,true,null]"


def test_not_a_number_is_never_written() -> None:
    """It is no JSON."""
    with pytest.raises(ValueError, match="JSON"):
        encode(float("nan"))


@given(st.text())
def test_encoded_text_is_read_back(text: str) -> None:
    """By any JSON reader."""
    assert json.loads(encode(text)) == text
    assert json.loads(encode_ascii(text)) == text


@pytest.mark.parametrize("text", ['{"a":1,"a":2}', "NaN", "[Infinity]", "{", "", "\ufeff{}", "[" * 100_000])
def test_strict_reader_refuses_what_readers_disagree_about(text: str) -> None:
    """Also far too deep."""
    with pytest.raises(StrictJSONError):
        decode_strict(text)


@given(st.lists(st.text(max_size=6), min_size=1, max_size=4))
def test_case_38_pointer_is_understood_by_an_independent_reader(keys: list[str]) -> None:
    """`~` first, then `/`, in paths and never in values."""
    assert JsonPointer(pointer(*keys)).parts == keys


def test_case_38_annotation_keys_are_escaped_in_the_right_order() -> None:
    """`~1` must not become `~01`."""
    assert annotation("fence.example.io/owner") == "/metadata/annotations/fence.example.io~1owner"
    assert annotation("a~b/c~1") == "/metadata/annotations/a~0b~1c~01"


def test_sealed_patch_guards_the_uid_first() -> None:
    """Only the uid tells a recreated object from the one that was read."""
    patch = seal(node().ref, [guard("/spec/x", None)])
    assert (
        patch.body
        == '[{"op":"test","path":"/metadata/uid","value":"uid-worker-2"},{"op":"test","path":"/spec/x","value":null}]'
    )


def test_annotations_that_do_not_exist_are_made_under_a_guard() -> None:
    """Otherwise those that another writer adds meanwhile would be wiped."""
    assert put_annotations(None, {"a": "b"})[0] == {"op": "test", "path": "/metadata/annotations", "value": None}
    assert put_annotations({"x": "y"}, {"x": "z"})[0]["op"] == "replace"


@pytest.mark.parametrize(
    ("ref", "path", "display", "resource"),
    [
        (node().ref, "/api/v1/nodes/worker-2", "node/worker-2", "node"),
        (
            lease().ref,
            "/apis/coordination.k8s.io/v1/namespaces/flux-system/leases/fencectl-deploy",
            "lease/flux-system/fencectl-deploy",
            "leases.coordination.k8s.io",
        ),
        (
            kustomization().ref,
            "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/infrastructure",
            "kustomization/flux-system/infrastructure",
            "kustomizations.kustomize.toolkit.fluxcd.io",
        ),
    ],
)
def test_object_is_named_alike_everywhere(ref: ObjectRef, path: str, display: str, resource: str) -> None:
    """For a request, for a person, for kubectl."""
    assert (ref.path, ref.display, ref.kubectl_resource) == (path, display, resource)


@pytest.mark.parametrize("managed", [None, [], [{}], [{"manager": 5}], "x", [{"manager": "m", "fieldsV1": []}]])
def test_writer_of_a_field_is_unknown_where_managed_fields_do_not_tell(managed: object) -> None:
    """They may be absent, or anything."""
    assert last_writer({"metadata": {"managedFields": managed}}, "spec", "suspend") == (None, None)


def test_last_of_several_owners_is_named() -> None:
    """One whose time cannot be read comes first."""
    entry: dict[str, object] = {"fieldsV1": {"f:spec": {"f:suspend": {}}}}
    managed = [
        entry | {"manager": "late", "time": "2026-11-30T02:00:00Z"},
        entry | {"manager": "early", "time": "2026-11-29T02:00:00Z"},
        entry | {"manager": "odd", "time": "never"},
    ]
    assert last_writer({"metadata": {"managedFields": managed}}, "spec", "suspend")[0] == "late"
