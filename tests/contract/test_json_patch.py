"""
JSON patches as the API server applies them (evanphx/json-patch v4 on the Go-encoded document).

Aspects: `test` of scalars byte by byte · of objects and lists · of what is absent · replace, add, remove and their
missing parents · keys with `/` and `~` · list indices · the same on built-in kinds and on custom resources.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from tests.contract.answers import not_applicable, ok, settled, version
from tests.support.clusters import Cluster, Raw, make_configmap, make_kustomization, make_lease, make_node, path_of

Annotations = dict[str, str] | None


@dataclass(frozen=True, slots=True)
class Row:
    """A patch as text on an object with these annotations; `after=None` means that it does not apply."""

    name: str
    before: Annotations
    ops: str
    after: Annotations | bool


def _test(value: str, *, key: str = "k") -> str:
    return f'[{{"op":"test","path":"/metadata/annotations/{key}","value":{value}}}]'


SAME, REFUSED = True, False
KEY = "/metadata/annotations/k"

SCALARS = [
    Row("ascii", {"k": "plain"}, _test('"plain"'), SAME),
    Row("another-value", {"k": "plain"}, _test('"other"'), REFUSED),
    Row("empty-text", {"k": ""}, _test('""'), SAME),
    Row("empty-text-is-not-null", {"k": ""}, _test("null"), REFUSED),
    Row("ampersand-as-go", {"k": "x&y"}, _test('"x\\u0026y"'), SAME),
    Row("ampersand-raw", {"k": "x&y"}, _test('"x&y"'), REFUSED),
    Row("less-as-go", {"k": "<a>"}, _test('"\\u003ca\\u003e"'), SAME),
    Row("less-upper-case-hex", {"k": "<a>"}, _test('"\\u003Ca\\u003E"'), REFUSED),
    Row("less-raw", {"k": "<a>"}, _test('"<a>"'), REFUSED),
    Row("accent-raw", {"k": "é"}, _test('"é"'), SAME),
    Row("accent-as-python", {"k": "é"}, _test('"\\u00e9"'), REFUSED),
    Row("astral-raw", {"k": "🦀"}, _test('"🦀"'), SAME),
    Row("astral-surrogates", {"k": "🦀"}, _test('"\\ud83e\\udd80"'), REFUSED),
    Row("line-separators-as-go", {"k": "a\u2028b\u2029c"}, _test('"a\\u2028b\\u2029c"'), SAME),
    Row("line-separators-raw", {"k": "a\u2028b\u2029c"}, _test('"a\u2028b\u2029c"'), REFUSED),
    Row("quote-and-backslash", {"k": 'a"b\\c'}, _test('"a\\"b\\\\c"'), SAME),
    Row("slash-escaped", {"k": "a/b"}, _test('"a\\/b"'), REFUSED),
    Row("newline-tab-return", {"k": "a\nb\tc\rd"}, _test('"a\\nb\\tc\\rd"'), SAME),
    Row("newline-as-hex", {"k": "a\nb"}, _test('"a\\u000ab"'), REFUSED),
    Row("other-control-as-hex", {"k": "a\x01b"}, _test('"a\\u0001b"'), SAME),
    Row("backspace-and-form-feed-short", {"k": "a\bb\fc"}, _test('"a\\bb\\fc"'), SAME),
    Row("backspace-and-form-feed-as-hex", {"k": "a\bb\fc"}, _test('"a\\u0008b\\u000cc"'), REFUSED),
    Row("delete-raw", {"k": "a\x7fb"}, _test('"a\x7fb"'), SAME),
    Row("next-line-raw", {"k": "a\x85b"}, _test('"a\x85b"'), SAME),
    Row("next-line-as-hex", {"k": "a\x85b"}, _test('"a\\u0085b"'), REFUSED),
    Row("number-for-text", {"k": "5"}, _test("5"), REFUSED),
    Row("bool-for-text", {"k": "true"}, _test("true"), REFUSED),
    Row("blanks-around-the-value", {"k": "v"}, _test(' "v" '), SAME),
    Row("no-value-member-is-null", {"k": "v"}, f'[{{"op":"test","path":"{KEY}"}}]', REFUSED),
]

ABSENT = [
    Row("key-absent", {"a": "1"}, _test("null"), SAME),
    Row("key-absent-no-value-member", {"a": "1"}, f'[{{"op":"test","path":"{KEY}"}}]', SAME),
    Row("key-present", {"k": "v"}, _test("null"), REFUSED),
    Row("key-absent-tested-empty", {"a": "1"}, _test('""'), REFUSED),
    Row("parent-absent", None, _test("null"), REFUSED),
    Row("map-absent", None, '[{"op":"test","path":"/metadata/annotations","value":null}]', SAME),
    Row("map-present", {"a": "1"}, '[{"op":"test","path":"/metadata/annotations","value":null}]', REFUSED),
    Row("map-absent-is-not-empty", None, '[{"op":"test","path":"/metadata/annotations","value":{}}]', REFUSED),
]

CHANGES = [
    Row("replace", {"k": "v"}, f'[{{"op":"replace","path":"{KEY}","value":"w"}}]', {"k": "w"}),
    Row(
        "replace-absent-adds", {"a": "1"}, f'[{{"op":"replace","path":"{KEY}","value":"w"}}]', {"a": "1", "k": "w"}
    ),
    Row("replace-below-absent", None, f'[{{"op":"replace","path":"{KEY}","value":"w"}}]', REFUSED),
    Row("add", {"a": "1"}, f'[{{"op":"add","path":"{KEY}","value":"w"}}]', {"a": "1", "k": "w"}),
    Row("add-over", {"k": "v"}, f'[{{"op":"add","path":"{KEY}","value":"w"}}]', {"k": "w"}),
    Row("add-below-absent", None, f'[{{"op":"add","path":"{KEY}","value":"w"}}]', REFUSED),
    Row(
        "add-map-then-key",
        None,
        '[{"op":"test","path":"/metadata/annotations","value":null},'
        '{"op":"add","path":"/metadata/annotations","value":{}},'
        f'{{"op":"add","path":"{KEY}","value":"w"}}]',
        {"k": "w"},
    ),
    Row(
        "add-map-wipes-it",
        {"a": "1", "b": "2"},
        f'[{{"op":"add","path":"/metadata/annotations","value":{{}}}},{{"op":"add","path":"{KEY}","value":"w"}}]',
        {"k": "w"},
    ),
    Row("remove", {"a": "1", "k": "v"}, f'[{{"op":"remove","path":"{KEY}"}}]', {"a": "1"}),
    Row("remove-the-last", {"k": "v"}, f'[{{"op":"remove","path":"{KEY}"}}]', None),
    Row("remove-absent", {"a": "1"}, f'[{{"op":"remove","path":"{KEY}"}}]', REFUSED),
    Row("remove-below-absent", None, f'[{{"op":"remove","path":"{KEY}"}}]', REFUSED),
    Row(
        "copy",
        {"a": "1"},
        f'[{{"op":"copy","from":"/metadata/annotations/a","path":"{KEY}"}}]',
        {"a": "1", "k": "1"},
    ),
    Row("move", {"a": "1"}, f'[{{"op":"move","from":"/metadata/annotations/a","path":"{KEY}"}}]', {"k": "1"}),
    Row("move-absent", {"b": "1"}, f'[{{"op":"move","from":"/metadata/annotations/a","path":"{KEY}"}}]', REFUSED),
    Row("unknown-op", {"k": "v"}, f'[{{"op":"tset","path":"{KEY}","value":"v"}}]', REFUSED),
    Row("op-in-capitals", {"k": "v"}, f'[{{"op":"Test","path":"{KEY}","value":"v"}}]', REFUSED),
    Row("no-op-member", {"k": "v"}, f'[{{"path":"{KEY}","value":"v"}}]', REFUSED),
    Row("no-path-member", {"k": "v"}, '[{"op":"test","value":"v"}]', REFUSED),
    Row("unknown-member", {"k": "v"}, f'[{{"op":"test","path":"{KEY}","value":"v","why":"not"}}]', SAME),
    Row("empty-list", {"k": "v"}, "[]", SAME),
    Row(
        "a-late-test-undoes-all",
        {"k": "v"},
        f'[{{"op":"replace","path":"{KEY}","value":"w"}},{{"op":"test","path":"{KEY}","value":"v"}}]',
        REFUSED,
    ),
    Row(
        "a-late-test-sees-the-change",
        {"k": "v"},
        f'[{{"op":"replace","path":"{KEY}","value":"w"}},{{"op":"test","path":"{KEY}","value":"w"}}]',
        {"k": "w"},
    ),
    # NB: a value that the same patch wrote is compared in the patch's own spelling, not in Go's.
    Row(
        "a-late-test-sees-the-spelling",
        {"k": "v"},
        f'[{{"op":"replace","path":"{KEY}","value":"x&y"}},{{"op":"test","path":"{KEY}","value":"x&y"}}]',
        {"k": "x&y"},
    ),
    Row(
        "a-late-test-in-gos-spelling",
        {"k": "v"},
        f'[{{"op":"replace","path":"{KEY}","value":"x&y"}},{{"op":"test","path":"{KEY}","value":"x\\u0026y"}}]',
        REFUSED,
    ),
]

KEYS = [
    Row("slash-as-~1", {"a.b/c": "v"}, _test('"v"', key="a.b~1c"), SAME),
    Row("slash-bare", {"a.b/c": "v"}, _test('"v"', key="a.b/c"), REFUSED),
    Row(
        "slash-removed",
        {"a.b/c": "v", "k": "1"},
        '[{"op":"remove","path":"/metadata/annotations/a.b~1c"}]',
        {"k": "1"},
    ),
    Row(
        "path-with-escaped-letters",
        {"k": "v"},
        '[{"op":"test","path":"/metadata\\u002fannotations/k","value":"v"}]',
        SAME,
    ),
]


@pytest.mark.parametrize("row", SCALARS + ABSENT + CHANGES + KEYS, ids=lambda row: row.name)
@pytest.mark.parametrize("kind", ["configmap", "kustomization"])
def test_patch_of_annotations_applies_as_the_table_says(cluster: Cluster, kind: str, row: Row) -> None:
    """A built-in kind and a custom resource are patched alike, row by row."""
    make = make_configmap if kind == "configmap" else make_kustomization
    obj = settled(cluster, make(cluster, annotations=row.before))

    answer = cluster.json_patch(path_of(obj), row.ops)

    if row.after is REFUSED:
        not_applicable(answer)
        assert cluster.get(path_of(obj)) == obj
    elif row.after is SAME:
        assert ok(answer) == obj
    else:
        assert ok(answer)["metadata"].get("annotations") == row.after
        assert version(answer.json()) != version(obj)


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A patch on a node with this spec."""

    name: str
    spec: Raw
    ops: list[Raw]
    after: Raw | bool


TAINTS = [{"key": "a", "value": "1", "effect": "NoSchedule"}, {"key": "b", "effect": "NoExecute"}]
TAINTS_OTHER_KEY_ORDER = [{"effect": "NoSchedule", "value": "1", "key": "a"}, {"effect": "NoExecute", "key": "b"}]
UNSCHEDULABLE = "/spec/unschedulable"

NODE_ROWS = [
    NodeRow("schedulable-tested-false", {}, [{"op": "test", "path": UNSCHEDULABLE, "value": False}], REFUSED),
    NodeRow("schedulable-tested-null", {}, [{"op": "test", "path": UNSCHEDULABLE, "value": None}], SAME),
    NodeRow(
        "made-false-tested-false",
        {"unschedulable": False},
        [{"op": "test", "path": UNSCHEDULABLE, "value": False}],
        REFUSED,
    ),
    NodeRow(
        "cordoned-tested-true",
        {"unschedulable": True},
        [{"op": "test", "path": UNSCHEDULABLE, "value": True}],
        SAME,
    ),
    NodeRow(
        "cordoned-tested-text",
        {"unschedulable": True},
        [{"op": "test", "path": UNSCHEDULABLE, "value": "true"}],
        REFUSED,
    ),
    NodeRow("remove-on-schedulable", {}, [{"op": "remove", "path": UNSCHEDULABLE}], REFUSED),
    NodeRow("remove-on-cordoned", {"unschedulable": True}, [{"op": "remove", "path": UNSCHEDULABLE}], {}),
    NodeRow(
        "set-false-is-absent",
        {"unschedulable": True},
        [{"op": "replace", "path": UNSCHEDULABLE, "value": False}],
        {},
    ),
    NodeRow(
        "set-null-is-absent",
        {"unschedulable": True},
        [{"op": "replace", "path": UNSCHEDULABLE, "value": None}],
        {},
    ),
    NodeRow(
        "replace-on-schedulable",
        {},
        [{"op": "replace", "path": UNSCHEDULABLE, "value": True}],
        {"unschedulable": True},
    ),
    NodeRow(
        "taints-in-another-key-order",
        {"taints": TAINTS},
        [{"op": "test", "path": "/spec/taints", "value": TAINTS_OTHER_KEY_ORDER}],
        SAME,
    ),
    NodeRow(
        "taints-in-another-order",
        {"taints": TAINTS},
        [{"op": "test", "path": "/spec/taints", "value": TAINTS[::-1]}],
        REFUSED,
    ),
    NodeRow(
        "taints-one-less",
        {"taints": TAINTS},
        [{"op": "test", "path": "/spec/taints", "value": TAINTS[:1]}],
        REFUSED,
    ),
    NodeRow("taints-absent", {}, [{"op": "test", "path": "/spec/taints", "value": None}], SAME),
    NodeRow(
        "taint-by-index", {"taints": TAINTS}, [{"op": "test", "path": "/spec/taints/1/key", "value": "b"}], SAME
    ),
    NodeRow(
        "taint-index-out-of-range",
        {"taints": TAINTS},
        [{"op": "test", "path": "/spec/taints/2/key", "value": "b"}],
        REFUSED,
    ),
    NodeRow(
        "remove-by-index", {"taints": TAINTS}, [{"op": "remove", "path": "/spec/taints/0"}], {"taints": TAINTS[1:]}
    ),
    NodeRow(
        "remove-index-out-of-range", {"taints": TAINTS}, [{"op": "remove", "path": "/spec/taints/2"}], REFUSED
    ),
    NodeRow(
        "insert-by-index",
        {"taints": TAINTS[1:]},
        [{"op": "add", "path": "/spec/taints/0", "value": TAINTS[0]}],
        {"taints": TAINTS},
    ),
    NodeRow(
        "append",
        {"taints": TAINTS[:1]},
        [{"op": "add", "path": "/spec/taints/-", "value": TAINTS[1]}],
        {"taints": TAINTS},
    ),
    NodeRow("append-to-absent", {}, [{"op": "add", "path": "/spec/taints/-", "value": TAINTS[1]}], REFUSED),
]


@pytest.mark.parametrize("row", NODE_ROWS, ids=lambda row: row.name)
def test_patch_of_a_nodes_spec_applies_as_the_table_says(cluster: Cluster, row: NodeRow) -> None:
    """A false `unschedulable` is never stored, and lists are compared and edited in order."""
    node = make_node(cluster, unschedulable=row.spec.get("unschedulable"), taints=row.spec.get("taints", []))

    answer = cluster.json_patch(path_of(node), row.ops)

    if row.after is REFUSED:
        not_applicable(answer)
        assert cluster.get(path_of(node)) == node
    else:
        assert ok(answer)["spec"] == (row.spec if row.after is SAME else row.after)


def test_objects_are_compared_without_key_order_but_scalars_by_bytes(cluster: Cluster) -> None:
    """A map in another order passes, the same map with one scalar spelt otherwise does not."""
    path = path_of(make_configmap(cluster, annotations={"a": "1", "b": "x&y"}))
    place = '[{"op":"test","path":"/metadata/annotations","value":%s}]'

    ok(cluster.json_patch(path, place % '{"b":"x\\u0026y",  "a":"1"}'))
    not_applicable(cluster.json_patch(path, place % '{"b":"x&y","a":"1"}'))
    not_applicable(cluster.json_patch(path, place % '{"a":"1"}'))
    not_applicable(cluster.json_patch(path, place % '{"a":"1","b":"x\\u0026y","c":"1"}'))


@pytest.mark.parametrize(
    ("value", "passes"), [("30", True), ("30.0", False), ("3e1", False), ('"30"', False), ("31", False)]
)
def test_numbers_are_compared_by_their_spelling(cluster: Cluster, value: str, passes: bool) -> None:
    """30.0 is not 30."""
    path = path_of(make_lease(cluster, spec={"leaseDurationSeconds": 30}))

    answer = cluster.json_patch(path, f'[{{"op":"test","path":"/spec/leaseDurationSeconds","value":{value}}}]')

    if passes:
        ok(answer)
    else:
        not_applicable(answer)


def test_resource_version_and_uid_can_be_tested_as_text(cluster: Cluster) -> None:
    """Both stand in the document; the version is a string, so a number never matches it."""
    obj = make_configmap(cluster)
    uid = {"op": "test", "path": "/metadata/uid", "value": obj["metadata"]["uid"]}
    as_text = {"op": "test", "path": "/metadata/resourceVersion", "value": version(obj)}
    as_number = {**as_text, "value": int(version(obj))}

    ok(cluster.json_patch(path_of(obj), [uid, as_text]))
    not_applicable(cluster.json_patch(path_of(obj), [as_number]))


def test_kind_and_version_stand_in_the_patched_document(cluster: Cluster) -> None:
    """The document is the whole object as the API shows it."""
    obj = make_kustomization(cluster)
    ops = [
        {"op": "test", "path": "/kind", "value": "Kustomization"},
        {"op": "test", "path": "/apiVersion", "value": "kustomize.toolkit.fluxcd.io/v1"},
        {"op": "test", "path": "/metadata/generation", "value": 1},
    ]
    ok(cluster.json_patch(path_of(obj), json.dumps(ops)))


def test_generation_of_a_node_is_absent(cluster: Cluster) -> None:
    """A node has no generation to guard."""
    node = make_node(cluster)
    assert "generation" not in node["metadata"]
    ok(cluster.json_patch(path_of(node), [{"op": "test", "path": "/metadata/generation", "value": None}]))
