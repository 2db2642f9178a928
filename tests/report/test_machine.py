"""JSON and YAML: the schema that others build on, the exact patch, several contexts."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
import yaml

from fencectl.report.machine import SCHEMA, releases_to_json, to_json, to_yaml
from fencectl.report.shell import Shell
from tests.report import hostile, story

SITUATIONS = ["dead", "unknown", "live", "incomplete", "nothing", "refused", "kept", "mixed"]


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft202012Validator:
    """The schema as the package ships it."""
    loaded = json.loads(files("fencectl.report").joinpath(SCHEMA).read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(loaded)
    return jsonschema.Draft202012Validator(loaded)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_situation_as_json_fits_the_published_schema(
    schema: jsonschema.Draft202012Validator, situation: str
) -> None:
    """Strictly: a key that the schema does not know is an error of ours."""
    document = json.loads(to_json([getattr(story, situation)()]))
    assert list(schema.iter_errors(document)) == []
    assert yaml.safe_load(to_yaml([getattr(story, situation)()])) == document


def test_several_contexts_are_a_list_that_fits_the_schema(schema: jsonschema.Draft202012Validator) -> None:
    """One document, whatever the number of contexts."""
    document = json.loads(to_json([story.dead(), story.live()]))
    assert document["kind"] == "FenceReportList"
    assert [len(item["fences"]) for item in document["items"]] == [7, 3]
    assert list(schema.iter_errors(document)) == []


@pytest.mark.parametrize("text", hostile.TEXTS.values(), ids=hostile.TEXTS)
def test_hostile_report_fits_the_schema(schema: jsonschema.Draft202012Validator, text: str) -> None:
    """No text can bend the document."""
    assert list(schema.iter_errors(json.loads(to_json([hostile.report(text)])))) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(extra=1),
        lambda d: d.pop("complete"),
        lambda d: d["fences"][0].update(refusal="and a release", refusalKind="live"),
        lambda d: d["fences"][0].update(ours=False),
        lambda d: d["fences"][0]["release"].update(command=1),
        lambda d: d["fences"][0]["release"]["patch"][0].update(op="tset"),
        lambda d: d["fences"][0].update(verdict="gone"),
        lambda d: d.update(observedAt="yesterday"),
    ],
)
def test_schema_refuses_what_is_no_report(schema: jsonschema.Draft202012Validator, change: Any) -> None:
    """A schema that takes anything proves nothing."""
    document = json.loads(to_json([story.dead()]))
    change(document)
    assert list(schema.iter_errors(document)) != []


def test_fences_are_in_release_order_with_unique_numbers() -> None:
    """Held fences first, in order; what is not counted has no number."""
    document = json.loads(to_json([story.mixed()]))
    orders = [fence["order"] for fence in document["fences"]]
    assert orders == [*range(1, 11), None, None, None]
    assert document["held"] == 10


def test_release_object_holds_the_very_patch() -> None:
    """Body byte for byte, its operations, and the command of the shell asked for."""
    report = story.dead()
    objects = json.loads(releases_to_json(report, report.held, shell=Shell.POWERSHELL))
    for one, entry in zip(objects, report.held, strict=True):
        assert entry.release is not None
        assert one["body"] == entry.release.patch.body
        assert one["patch"] == json.loads(one["body"])
        assert one["order"] == entry.order
        assert one["command"].startswith("kubectl --context prod ")


def test_entry_without_release_has_no_release_object() -> None:
    """A list of releases holds nothing that cannot be released."""
    report = story.refused()
    assert json.loads(releases_to_json(report, report.held)) == []


def test_yaml_has_neither_anchors_nor_folded_lines() -> None:
    """Both would let text from elsewhere begin a line."""
    text = to_yaml([story.mixed()])
    assert "&id" not in text
    assert all(line.lstrip()[:1].isalpha() or line.lstrip().startswith("- ") for line in text.splitlines())
