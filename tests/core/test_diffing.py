"""Aspects: fields with their paths · lists by name · what the server keeps is left out · secrets are hidden."""

from __future__ import annotations

from typing import Any

from fencectl.core.diffing import HIDDEN, field_changes


def changes(before: Any, after: Any) -> list[tuple[str, str | None, str | None]]:
    return [(one.path, one.before, one.after) for one in field_changes(before, after)]


def test_equal_objects_have_no_changes_whatever_the_server_keeps_beside() -> None:
    """Versions, generations, managers and the status are no change of what was asked for."""
    before = {
        "metadata": {"name": "a", "resourceVersion": "1", "generation": 1, "managedFields": []},
        "status": {"x": 1},
    }
    after = {"metadata": {"name": "a", "resourceVersion": "2", "generation": 2, "uid": "u"}, "status": {"x": 2}}
    assert changes(before, after) == []


def test_fields_are_named_with_what_they_were_and_will_be() -> None:
    """Added, removed, changed; a number is not its text, `true` is not 1."""
    before = {"spec": {"replicas": 1, "paused": True, "gone": {"deep": "x"}, "n": 1}}
    after = {"spec": {"replicas": 2, "paused": 1, "new": {"a": []}, "n": "1"}}
    assert changes(before, after) == [
        ("spec.replicas", "1", "2"),
        ("spec.paused", "true", "1"),
        ("spec.gone.deep", '"x"', None),
        ("spec.n", "1", '"1"'),
        ("spec.new.a", None, "[]"),
    ]


def test_items_with_names_are_compared_by_name_and_others_by_place() -> None:
    """A container that is put in front is one change, not a change of all."""
    before = {"spec": {"containers": [{"name": "app", "image": "a:1"}], "args": ["x", "y"]}}
    after = {
        "spec": {"containers": [{"name": "log", "image": "l"}, {"name": "app", "image": "a:2"}], "args": ["x"]}
    }
    assert changes(before, after) == [
        ("spec.containers[app].image", '"a:1"', '"a:2"'),
        ("spec.containers[log].name", None, '"log"'),
        ("spec.containers[log].image", None, '"l"'),
        ("spec.args[1]", '"y"', None),
    ]


def test_secret_data_is_never_shown() -> None:
    """Neither old nor new, nor what kubectl keeps of it in an annotation; which key changed is."""
    secret = {"apiVersion": "v1", "kind": "Secret"}
    last = "kubectl.kubernetes.io/last-applied-configuration"
    before = {**secret, "data": {"a": "aHVudGVyMg=="}, "metadata": {"annotations": {last: "hunter2"}}}
    after = {
        **secret,
        "data": {"b": "aHVudGVyMg=="},
        "stringData": {"c": "hunter2"},
        "metadata": {"labels": {"x": "y"}},
    }
    assert changes(before, after) == [
        ("data.a", HIDDEN, None),
        ("data.b", None, HIDDEN),
        (f"metadata.annotations[{last}]", HIDDEN, None),
        ("metadata.labels.x", None, '"y"'),
        ("stringData.c", None, HIDDEN),
    ]


def test_long_values_are_cut() -> None:
    """A table is no dump."""
    ((_, _, after),) = changes({"data": {}}, {"data": {"a": "x" * 1000}})
    assert after
    assert len(after) < 100
