"""Entries of a record: guarded as read, in one patch; what else is in the ConfigMap is left alone."""

from __future__ import annotations

import json
from typing import Any

import jsonpatch
import pytest
from msgspec.structs import replace

from fencectl.core.patches import GuardedPatch
from fencectl.core.record_write import (
    LARGEST_BYTES,
    Change,
    data_of,
    is_written,
    new_record,
    size_after,
    write_record,
)
from fencectl.core.refs import ObjectRef, Seen, dig
from tests.support import objects

Raw = dict[str, Any]


def record_map(**data: str) -> Seen:
    """Give a record whose name is that of its object, the uid included."""
    found = objects.record_map(**data)
    return Seen(replace(found.ref, uid=found.raw["metadata"]["uid"]), found.raw)


def applied(seen: Seen, patch: GuardedPatch) -> Raw:
    """Apply it by an independent library, which knows no `test` against something that is absent."""
    ops = []
    for op in patch.operations:
        if op["op"] == "test" and op["value"] is None:
            assert dig(seen.raw, *op["path"].split("/")[1:]) is None
        else:
            ops.append(op)
    done: Raw = jsonpatch.apply_patch(json.loads(json.dumps(seen.raw)), json.dumps(ops))
    return done


def without_data() -> Seen:
    seen = record_map()
    return Seen(seen.ref, {key: value for key, value in seen.raw.items() if key != "data"})


def test_new_entry_is_guarded_as_absent_and_put_beside_the_others() -> None:
    """Uid first, then the guard, then the change; a foreign key has no part in it."""
    seen = record_map(other="x")
    patch = write_record(seen, [Change("hold-incident", None, "{}")])
    assert patch.operations == [
        {"op": "test", "path": "/metadata/uid", "value": "uid-fencectl-deploy-record"},
        {"op": "test", "path": "/data/hold-incident", "value": None},
        {"op": "add", "path": "/data/hold-incident", "value": "{}"},
    ]
    assert applied(seen, patch)["data"] == {"other": "x", "hold-incident": "{}"}


def test_entry_that_changes_or_goes_is_guarded_by_its_very_text() -> None:
    """Byte for byte as it was read, however odd."""
    seen = record_map(hold_incident='{"a": "é & <b>"}', claim_1="{}")
    text = data_of(seen)["hold-incident"]
    patch = write_record(seen, [Change("hold-incident", text, None), Change("claim-1", "{}", '{"v":1}')])
    assert [op["op"] for op in patch.operations] == ["test", "test", "remove", "test", "replace"]
    assert patch.operations[1]["value"] == text
    assert applied(seen, patch)["data"] == {"claim-1": '{"v":1}'}


def test_entry_that_stays_is_only_guarded() -> None:
    """A write may depend on what it does not change."""
    patch = write_record(
        record_map(a="1"), [Change("a", "1", "1"), Change("b", None, None), Change("c", None, "3")]
    )
    assert [(op["op"], op["path"]) for op in patch.operations[1:]] == [
        ("test", "/data/a"),
        ("test", "/data/b"),
        ("test", "/data/c"),
        ("add", "/data/c"),
    ]


@pytest.mark.parametrize("seen", [without_data(), record_map()])
def test_missing_data_is_asserted_and_made_whole(seen: Seen) -> None:
    """`add` below a missing map fails on the server, and making it unasserted would wipe another writer's."""
    patch = write_record(seen, [Change("hold-freeze", None, "{}"), Change("lifted-freeze", None, None)])
    assert patch.operations[1:] == [
        {"op": "test", "path": "/data", "value": None},
        {"op": "add", "path": "/data", "value": {"hold-freeze": "{}"}},
    ]


def test_key_with_a_slash_or_tilde_is_escaped_as_a_pointer() -> None:
    """The API server would refuse such a key; nothing of it may become another path."""
    patch = write_record(record_map(x="1"), [Change("a/b~c", None, "2")])
    assert patch.operations[1]["path"] == "/data/a~1b~0c"


def test_new_record_carries_its_label_and_the_entries_alone() -> None:
    """What is only guarded is no entry."""
    ref = ObjectRef("v1", "ConfigMap", "configmaps", "flux-system", "fencectl-deploy-record", "")
    assert new_record(ref, [Change("hold-freeze", None, "{}"), Change("lifted-freeze", None, None)]) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "fencectl-deploy-record",
            "namespace": "flux-system",
            "labels": {"fencectl.dev/record": "record"},
        },
        "data": {"hold-freeze": "{}"},
    }


def test_written_is_only_what_stands_there_exactly() -> None:
    """A lost answer is adopted by this, so nothing like it counts."""
    changes = [Change("a", None, "1"), Change("b", "x", None)]
    assert is_written(record_map(a="1", c="9"), changes)
    assert not is_written(record_map(a="1 "), changes)
    assert not is_written(record_map(a="1", b="x"), changes)
    assert not is_written(None, changes)


def records(*generations: int) -> dict[str, str]:
    return {f"record-{number}": "{}" for number in generations}


def test_fifty_first_record_pushes_the_oldest_out_in_the_same_guarded_patch() -> None:
    """By generation, not by text; claims, holds and what is not ours stay."""
    seen = record_map(**records(*range(60, 110)), hold_freeze="h", claim_3="c", other="o", **{"record-x": "?"})
    patch = write_record(seen, [Change("record-110", None, "{}")])
    data = applied(seen, patch)["data"]
    assert sorted(data) == sorted([*records(*range(61, 111)), "hold-freeze", "claim-3", "other", "record-x"])
    assert {"op": "test", "path": "/data/record-60", "value": "{}"} in patch.operations


def test_record_that_is_written_is_never_the_one_that_goes() -> None:
    """An old record may still get its outcome."""
    seen = record_map(**records(*range(60, 110)), **{"record-5": "{}"})
    patch = write_record(seen, [Change("record-5", "{}", '{"v":1}')])
    assert applied(seen, patch)["data"]["record-5"] == '{"v":1}'
    assert not any(op["op"] == "remove" for op in patch.operations)


def test_hold_pushes_no_record_out() -> None:
    """It has no business with them."""
    seen = record_map(**records(*range(100)))
    assert len(applied(seen, write_record(seen, [Change("hold-freeze", None, "h")]))["data"]) == 101


def test_size_counts_what_the_server_counts() -> None:
    """Bytes of values, not characters, not keys; what goes away no longer counts; binary data does."""
    seen = record_map(a="é", b="xx")
    assert size_after(seen, []) == 4
    assert size_after(seen, [Change("b", "xx", None), Change("c", None, "1")]) == 3
    assert size_after(None, [Change("c", None, "1")]) == 1
    full = Seen(seen.ref, {**seen.raw, "binaryData": {"z": "A" * 4096}})
    assert size_after(full, []) == 4 + 3072
    assert LARGEST_BYTES == 1048576
