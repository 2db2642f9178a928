"""Aspects: lines · anchors, aliases, merges · several documents · not YAML · tags · sizes and depths without end."""

from __future__ import annotations

import pytest

from fencectl.core.config_yaml import MAX_CHARACTERS, ConfigError, Items, Node, Scalar, Table, read_yaml


def read(text: str) -> Node:
    return read_yaml(text, path="fencectl.yaml")


def problem(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return caught.value.sentence.removeprefix("fencectl.yaml:")


def test_every_node_knows_its_line() -> None:
    """Lines count from 1, as editors count."""
    root = read("a: 1\n\nb:\n  - x\n  - {c: d}\n")
    assert isinstance(root, Table)
    assert [(entry.key, entry.line) for entry in root.entries] == [("a", 1), ("b", 3)]
    items = root.entries[1].value
    assert isinstance(items, Items)
    assert [item.line for item in items.items] == [4, 5]
    assert root.entries[0].value == Scalar("1", "int", 1)


def test_anchor_is_repeated_and_merge_fills_in_what_is_not_said() -> None:
    """Aliases and `<<` work as in YAML: what a mapping says itself wins, earlier merges win over later ones."""
    root = read("a: &a {x: 1, y: 1}\nb: &b {x: 2, z: 2}\nc: {<<: [*a, *b], y: 3}\nd: *a\n")
    assert isinstance(root, Table)
    merged = root.entries[2].value
    assert isinstance(merged, Table)
    assert {entry.key: entry.value.text for entry in merged.entries if isinstance(entry.value, Scalar)} == {
        "y": "3",
        "x": "1",
        "z": "2",
    }
    assert root.entries[3].value == root.entries[0].value


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: 1\n---\nb: 2\n", "2: a second document starts here; a config is one"),
        ("a:\n\t- b\n", "2: not valid YAML (found a tab where only spaces may stand)"),
        ("a: 1\n b: 2\n", "2: not valid YAML (mapping values are not allowed in this context)"),
        ("a: [1\n", "2: not valid YAML (did not find expected ',' or ']')"),
        ("a: *b\n", "1: not valid YAML (found undefined alias)"),
        ("a: \x07\n", "1: not valid YAML (found the character U+0007)"),
        ("a: 1\nb: \ud800\n", "2: not valid YAML (found the character U+D800)"),
        ("a: !!python/object/apply:os.system [id]\n", "1: a config has no tags, found `tag:yaml.org,2002:python/object/apply:os.system`"),
        ("a: !secret x\n", "1: a config has no tags, found `!secret`"),
        ("a: !!set {x}\n", "1: a config has no tags, found `tag:yaml.org,2002:set`"),
        ("[a]: b\n", "1: a key must be plain text"),
        ("a: &a\n  <<: *a\n", "2: aliases repeat without end, or almost"),
        ("a: {<<: b}\n", "1: `<<` takes a mapping, or a list of them"),
        ("a: &a [*a]\n", "1: aliases repeat without end, or almost"),
        ("a: 1\na: 2\n", "2: duplicate key `a`, first on line 1"),
    ],
)  # fmt: skip
def test_what_is_no_plain_yaml_is_refused_with_its_line(text: str, sentence: str) -> None:
    """One sentence that says where, and in words what was found."""
    assert problem(text) == sentence


def test_nesting_without_end_is_refused_before_anything_recurses() -> None:
    """A hundred thousand brackets end in a sentence, not in a crash of the interpreter."""
    assert "not valid YAML" in problem("[" * 100_000) or "nested too deep" in problem("[" * 100_000)
    assert problem("a: " + "[" * 20 + "]" * 20) == "1: nested too deep for a config"


def test_aliases_that_multiply_are_refused() -> None:
    """Ten of ten of ten … (the billion laughs) come to an end quickly."""
    lines = ["a0: &a0 [x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert "aliases repeat" in problem("\n".join(lines))
    merges = ["a0: &a0 {x: 1}"]
    merges += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 9)]
    assert "aliases repeat" in problem("\n".join(merges))


def test_file_of_enormous_length_is_refused_unread() -> None:
    """A config is a page."""
    assert problem("#" * (MAX_CHARACTERS + 1)).startswith(" too long")
