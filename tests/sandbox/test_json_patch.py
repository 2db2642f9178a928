"""
Aspects: bytes of a test · missing keys · arrays · paths · what is no patch. The rows a real server shares are in contract.

`jsonpatch`, which follows the RFC, is the oracle where the two agree.
"""

from __future__ import annotations

import json
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings, strategies as st

from fencectl.sandbox.gojson import NotJsonError
from fencectl.sandbox.jsonpatch import (
    NotAPatchError,
    PatchFailedError,
    apply_patch,
    read_patch,
    unknown_members,
)

DOCUMENT = {"a": {"text": "x&y<é>", "n": 30, "list": ["p", "q", "r"], "map": {"k": "5"}}, "yes": True}


def _apply(patch: str, document: Any = DOCUMENT) -> Any:
    return apply_patch(document, patch=read_patch(patch))


def _test(path: str, value: str) -> str:
    return f'[{{"op":"test","path":"{path}","value":{value}}}]'


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/a/text", '"x\\u0026y\\u003cé\\u003e"'),
        ("/a/n", "30"),
        ("/a/map", '{ "k" : "5" }'),
        ("/a/list", '["p","q","r"]'),
        ("/a/list/-1", '"r"'),
        ("/a/none", "null"),
        ("/yes", "true"),
        ("x/yes", "true"),
        ("", '{"a":{"map":{"k":"5"},"text":"x\\u0026y\\u003cé\\u003e","n":30,"list":["p","q","r"]},"yes":true}'),
    ],
)
def test_guard_holds(path: str, value: str) -> None:
    """Byte by byte for scalars, by content for containers; null is the absence of a key."""
    assert _apply(_test(path, value)) == DOCUMENT


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/a/text", '"x&y<é>"'),
        ("/a/text", '"x\\u0026y\\u003C\\u00e9\\u003e"'),
        ("/a/n", "30.0"),
        ("/a/n", '"30"'),
        ("/a/map/k", "5"),
        ("/a/map", '{"k":5}'),
        ("/a/map", "[]"),
        ("/a/list", '["p","q"]'),
        ("/a/n", "null"),
        ("/none/k", "null"),
        ("/a/list/9", '"r"'),
        ("/a/list/x", '"r"'),
        ("/a/n/deeper", "null"),
        ("yes", "true"),
    ],
)
def test_guard_fails(path: str, value: str) -> None:
    """Also where the values are equal but spelled otherwise, and where the parent is missing."""
    with pytest.raises(PatchFailedError):
        _apply(_test(path, value))


@pytest.mark.parametrize(
    ("patch", "document", "after"),
    [
        ('[{"op":"replace","path":"/new","value":1}]', {}, {"new": 1}),
        ('[{"op":"add","path":"/l/-","value":1}]', {"l": [0]}, {"l": [0, 1]}),
        ('[{"op":"add","path":"/l/0","value":1}]', {"l": [0]}, {"l": [1, 0]}),
        ('[{"op":"add","path":"/l/-1","value":1}]', {"l": [0]}, {"l": [0, 1]}),
        ('[{"op":"replace","path":"/l/0","value":1}]', {"l": [0]}, {"l": [1]}),
        ('[{"op":"remove","path":"/l/-1"}]', {"l": [0, 1]}, {"l": [0]}),
        ('[{"op":"move","from":"/a","path":"/b"}]', {"a": 1}, {"b": 1}),
        ('[{"op":"copy","from":"/a","path":"/b"}]', {"a": {"x": 1}}, {"a": {"x": 1}, "b": {"x": 1}}),
        ('[{"op":"copy","from":"/none","path":"/b"}]', {}, {"b": None}),
        ('[{"op":"add","path":"/a~1b~0c","value":1}]', {}, {"a/b~c": 1}),
        ('[{"op":"add","path":"/a"}]', {}, {"a": None}),
        ('[{"op":"replace","path":"","value":{"b":2}}]', {"a": 1}, {"b": 2}),
        ('[{"op":"add","path":"/a","value":"&"},{"op":"test","path":"/a","value":"&"}]', {}, {"a": "&"}),
        ("[]", {"a": 1}, {"a": 1}),
    ],
)
def test_patch_applies(patch: str, document: Any, after: Any) -> None:
    """A value that the patch itself put there keeps the patch's spelling within the patch."""
    assert _apply(patch, document) == after


@pytest.mark.parametrize(
    "patch",
    [
        '[{"op":"add","path":"/none/x","value":1}]',
        '[{"op":"remove","path":"/none"}]',
        '[{"op":"replace","path":"/l/7","value":1}]',
        '[{"op":"replace","path":"","value":1}]',
        '[{"op":"add","path":"","value":{}}]',
        '[{"op":"add","path":"/l/7","value":1}]',
        '[{"op":"add","path":"/l/x","value":1}]',
        '[{"op":"remove","path":"/l/7"}]',
        '[{"op":"move","from":"/none","path":"/x"}]',
        '[{"op":"tset","path":"/l","value":1}]',
        '[{"path":"/l"}]',
        '[{"op":"test"}]',
        "[null]",
        '[{"op":"test","path":"","value":{}}]',
    ],
)
def test_patch_that_never_could_apply_fails_alike(patch: str) -> None:
    """There is one failure, without a reason."""
    with pytest.raises(PatchFailedError):
        _apply(patch, {"l": [0]})


def test_copies_are_limited_in_total() -> None:
    """Three MiB, however many operations make them."""
    document = {"a": "x" * 1024 * 1024}
    patch = [{"op": "copy", "from": "/a", "path": f"/c{number}"} for number in range(4)]
    with pytest.raises(PatchFailedError):
        _apply(json.dumps(patch), document)


@pytest.mark.parametrize("body", ["{}", '"x"', "1", "[1]", "[[]]", '[{"op":1}]', '[{"path":{}}]'])
def test_json_that_is_no_patch_is_refused(body: str) -> None:
    """The message says which Go type it does not fit."""
    with pytest.raises(NotAPatchError, match="cannot unmarshal"):
        read_patch(body)


@pytest.mark.parametrize("body", ["", "{", "nope", "[1,]", '"\\x"', "NaN"])
def test_text_that_is_no_json_is_refused(body: str) -> None:
    """Before anything is looked at."""
    with pytest.raises(NotJsonError):
        read_patch(body)


def test_unknown_members_of_operations_are_named() -> None:
    """For warnings and for strict validation."""
    patch = read_patch('[{"op":"test","path":"/a","valeu":1},null]')
    assert unknown_members(patch) == ['json patch unknown field "[0].valeu"']


def test_document_is_not_changed_in_place() -> None:
    """What is stored is shared by all who read it."""
    document = {"a": {"b": [1]}}
    _apply('[{"op":"add","path":"/a/b/-","value":2},{"op":"remove","path":"/a"}]', document)
    assert document == {"a": {"b": [1]}}


_keys = st.sampled_from(["a", "b", "c/d", "e~f"])
_scalars = st.one_of(st.integers(-5, 5), st.booleans(), st.text("xyz", max_size=3))
_documents = st.recursive(
    st.dictionaries(_keys, _scalars, max_size=3),
    lambda inner: st.dictionaries(_keys, st.one_of(_scalars, inner, st.lists(_scalars, max_size=3)), max_size=3),
    max_leaves=8,
)


def _paths(value: Any, path: str = "") -> list[str]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += _paths(item, f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}")
    return found


@settings(max_examples=80, deadline=None)
@given(st.data(), _documents, _scalars)
def test_operations_on_what_exists_agree_with_the_rfc(data: st.DataObject, document: Any, value: Any) -> None:
    """Where v4 and the RFC do not differ, an independent implementation gives the same."""
    paths = _paths(document)
    if not paths:
        return
    path = data.draw(st.sampled_from(paths))
    operation = data.draw(st.sampled_from(["replace", "remove", "add", "copy"]))
    op: dict[str, Any] = {"op": operation, "path": path}
    if operation == "copy":
        op = {"op": "copy", "from": path, "path": "/copied"}
    elif operation != "remove":
        op["value"] = value
    assert _apply(json.dumps([op]), document) == jsonpatch.apply_patch(document, json.dumps([op]))
