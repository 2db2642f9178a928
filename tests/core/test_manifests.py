"""Aspects: YAML as kubectl reads it · JSON · lists · every mistake with file and line · hostile text · twins."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fencectl.core.manifest_text import ManifestError, read_documents
from fencectl.core.manifests import Manifest, Source, read_manifests, refuse_twins

CM = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n"


def read(text: str | bytes, *, shown: str = "a.yaml") -> tuple[Manifest, ...]:
    return read_manifests([Source(shown, text.encode() if isinstance(text, str) else text)])


def refused(text: str | bytes) -> str:
    """The error of a text, with its place."""
    with pytest.raises(ManifestError) as raised:
        read(text)
    assert raised.value.exit_code == 2
    assert "Nothing was read or changed" in str(raised.value.hint)
    return raised.value.sentence


def value(text: str) -> Any:
    (document,) = read_documents(text.encode(), shown="x")
    return document.value


def test_documents_of_a_file_are_taken_in_order_with_their_lines() -> None:
    """Empty documents and comments are none."""
    text = f"# first\n---\n{CM.format(name='a')}---\n---\n# nothing\n---\n{CM.format(name='b')}...\n"
    assert [(one.name, one.where) for one in read(text)] == [("a", "a.yaml:3"), ("b", "a.yaml:11")]


def test_plain_values_are_what_kubectl_takes_them_for() -> None:
    """Go's parser and YAML 1.1: `on` is true, a date is text, 1e3 an integer; keys become text."""
    assert value("{on: yes, 1: 2001-01-01, 1.5: n, a: 1e3, b: 0o17, c: 1.5, d: ~, e: 12:30}") == {
        "true": True,
        "1": "2001-01-01",
        "1.5": False,
        "a": 1000,
        "b": 15,
        "c": 1.5,
        "d": None,
        "e": "12:30",
    }


def test_anchors_aliases_and_merge_keys_work_and_own_keys_win() -> None:
    """As in every chart."""
    assert value("a: &a {x: 1, z: 2}\nb: {<<: *a, z: 3}\nc: *a\n") == {
        "a": {"x": 1, "z": 2},
        "b": {"x": 1, "z": 3},
        "c": {"x": 1, "z": 2},
    }


def test_json_is_read_also_with_tabs_and_one_value_after_the_other() -> None:
    """`kubectl get -o json` prints one, a stream has several."""
    one = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}, indent="\t")
    assert [(m.name, m.where) for m in read(f"{one}\n{one.replace('a', 'a', 1)}")] == [
        ("a", "a.yaml:1"),
        ("a", "a.yaml:8"),
    ]


def test_json_that_is_yaml_in_flow_style_is_read_as_yaml() -> None:
    """It begins alike."""
    assert [m.name for m in read("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")] == ["a"]


def test_byte_order_mark_is_no_part_of_the_text() -> None:
    """Editors on Windows write one."""
    assert [m.name for m in read(b"\xef\xbb\xbf" + CM.format(name="a").encode())] == ["a"]


def test_lists_are_taken_apart_and_typed_ones_give_their_items_the_kind() -> None:
    """As `kubectl get -o yaml` prints them, also one in the other; each item has its own line."""
    text = (
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Secret\n  metadata: {name: s}\n"
        "- apiVersion: v1\n  kind: ConfigMapList\n  items:\n  - metadata: {name: c}\n"
    )
    assert [(m.kind, m.api_version, m.name, m.where) for m in read(text)] == [
        ("Secret", "v1", "s", "a.yaml:4"),
        ("ConfigMap", "v1", "c", "a.yaml:7"),
    ]
    assert read("apiVersion: v1\nkind: List\nitems: []\n") == read("kind: List\nitems:\n") == ()


def test_kind_that_ends_with_list_and_has_no_items_is_an_object() -> None:
    """A custom resource may be called so."""
    assert [m.kind for m in read("apiVersion: x.io/v1\nkind: AllowList\nmetadata: {name: a}\n")] == ["AllowList"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: b: c\n", "a.yaml:1: not valid YAML (mapping values are not allowed in this context)"),
        ("a: 1\n\tb: 2\n", "a.yaml:2: not valid YAML (found a tab)"),
        ("a: *secret\n", "a.yaml:1: not valid YAML (found an alias that is not defined)"),
        ("a: 1\nb: {x: 1,\n  x: 2}\n", "a.yaml:3: duplicate key, first on line 2"),
        ("true: 1\non: 2\n", "a.yaml:2: duplicate key, first on line 1"),
        ("a: .nan\n", "a.yaml:1: a number that JSON has not"),
        ("? [a, b]\n: 1\n", "a.yaml:1: a key must be text"),
        ("~: 1\n", "a.yaml:1: a key must be text"),
        ("<<: 1\n", "a.yaml:1: `<<` takes a mapping, or a list of them"),
        ("a: !!timestamp 2001-01-01\n", "a.yaml:1: a value that JSON has not"),
        ("a: &a [*a]\n", "a.yaml:1: an alias contains itself"),
        ("a: 1\nb: \x07\n", "a.yaml:2: the character U+0007 is in no manifest"),
        (b"a: 1\nb: \xff\n", "a.yaml:2: not UTF-8 text"),
        ('{"a": 1,\n "a": 2}', "a.yaml:1: a key occurs twice"),
        ('{"a": NaN}', "a.yaml:1: NaN is not JSON"),
        ('{"a": "\\ud800"}', "a.yaml:1: half a character, which no text can hold"),
        ('{"apiVersion": "v1",\n "kind" "x"}', "a.yaml:2: not JSON"),
        ("[" * 200, "a.yaml:1: nested too deep for a manifest"),
        ('{"a":' * 5000, "a.yaml:1: not JSON"),
        ("- a\n", "a.yaml:1: not an object: a manifest has `apiVersion`, `kind` and `metadata`"),
        ("just text\n", "a.yaml:1: not an object: a manifest has `apiVersion`, `kind` and `metadata`"),
        ("kind: ConfigMap\n", "a.yaml:1: no `apiVersion`"),
        ("apiVersion: v1/v1/v1\nkind: X\n", "a.yaml:1: `apiVersion` is none"),
        ("apiVersion: 1\nkind: X\n", "a.yaml:1: `apiVersion` is none"),
        ("apiVersion: v1\n", "a.yaml:1: no `kind`"),
        ("apiVersion: v1\nkind: ../x\nmetadata: {name: a}\n", "a.yaml:1: `kind` is none"),
        ("apiVersion: v1\nkind: ConfigMap\n", "a.yaml:1: a ConfigMap without `metadata`"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n", "a.yaml:1: a ConfigMap without `metadata.name`"),
        (CM.format(name="7"), "a.yaml:1: `metadata.name` of a ConfigMap must be text"),
        (CM.format(name="../x"), "a.yaml:1: `metadata.name` of a ConfigMap is no name"),
        (CM.format(name="'..'"), "a.yaml:1: `metadata.name` of a ConfigMap is no name"),
        (CM.format(name="'a b'"), "a.yaml:1: `metadata.name` of a ConfigMap is no name"),
        (
            CM.replace("name", "generateName", 1).format(name="a") + "",
            "a.yaml:1: a ConfigMap with `generateName` cannot be applied, it needs a `name`",
        ),
        (CM.format(name="a") + "  namespace: A/b\n", "a.yaml:1: `metadata.namespace` of configmap/a is no namespace"),
        (
            CM.format(name="a") + "  labels: {on: true}\n",
            "a.yaml:1: `metadata.labels` of configmap/a: the value of `true` is no text",
        ),
        (CM.format(name="a") + "  annotations: [x]\n", "a.yaml:1: `metadata.annotations` of configmap/a must be a mapping"),
        (
            CM.format(name="a") + "  managedFields: [{manager: x}]\n",
            "a.yaml:1: configmap/a carries `metadata.managedFields`: it was read off a cluster",
        ),
        (
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n",
            "a.yaml:1: a Kustomization is built, not applied",
        ),
        ("apiVersion: v1\nkind: List\nitems: x\n", "a.yaml:1: `items` of a List must be a list"),
    ],
)  # fmt: skip
def test_mistake_is_refused_with_file_and_line(text: str | bytes, sentence: str) -> None:
    """Exit 2, and not a word of what the file holds beyond what is named."""
    assert refused(text) == sentence


def test_file_with_a_secret_is_never_quoted() -> None:
    """Whatever is wrong with it: the parser's own texts quote what they stumble over."""
    for broken in (
        "a: *hunter2\n",
        "hunter2: [\n",
        "password: hunter2: x\n",
        "- %hunter2\n",
        '"hunter2\n',
        "!<hunter2 x",
    ):
        assert "hunter2" not in refused(f"apiVersion: v1\nkind: Secret\n---\n{broken}")


def test_aliases_that_double_each_other_come_to_an_end() -> None:
    """Ten lines that would be a billion values."""
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert "aliases repeat without end" in refused("\n".join(lines))


def test_every_broken_file_is_named_at_once() -> None:
    """One round trip through CI, not three."""
    with pytest.raises(ManifestError) as raised:
        read_manifests([Source(f"{n}.yaml", b"kind: x\n") for n in "abcdefg"])
    assert raised.value.sentence == "a.yaml:1: no `apiVersion`"
    assert raised.value.reason == (
        "also b.yaml:1: no `apiVersion`; c.yaml:1: no `apiVersion`; d.yaml:1: no `apiVersion`;"
        " e.yaml:1: no `apiVersion`; 2 more"
    )


def test_object_that_is_there_twice_is_refused_with_both_places() -> None:
    """Also where one says the namespace that the other leaves to the context, or another version of the group."""
    twins = read(f"{CM.format(name='a')}---\n{CM.format(name='a')}  namespace: shop\n")
    with pytest.raises(ManifestError) as raised:
        refuse_twins(twins, lambda one: one.namespace or "shop")
    assert raised.value.sentence == "a.yaml:6: configmap/shop/a is there twice, first at a.yaml:1"
    refuse_twins(twins, lambda one: one.namespace or "other")
    versions = read(
        "apiVersion: a.io/v1\nkind: X\nmetadata: {name: a}\n---\napiVersion: a.io/v2\nkind: X\nmetadata: {name: a}\n"
    )
    with pytest.raises(ManifestError, match="is there twice"):
        refuse_twins(versions, lambda _: None)
