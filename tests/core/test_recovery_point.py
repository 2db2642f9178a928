"""
Aspects: what is packed comes back · equal contents, equal bytes · a part missing, changed or in another place · newer
and broken points · bounds · whose Secret it is · which generations go · contents in no text.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fencectl.core import recovery_point
from fencectl.core.errors import ExitCode
from fencectl.core.recovery_point import (
    MOST_PARTS,
    PART_BYTES,
    RECOVERY,
    BadPointError,
    Captured,
    Fault,
    PointTooLargeError,
    RecoveryPoint,
    Summary,
    compress,
    digest_of,
    generation_in,
    is_own_part,
    is_same_part,
    label_of,
    outlived,
    pack,
    part_in,
    part_ref,
    read_summary,
    secret_for,
    selector_of,
    unpack,
)
from fencectl.core.refs import ObjectRef

AT = datetime(2026, 11, 30, 2, 47, 31, tzinfo=UTC)
LEASE = ("flux-system", "fencectl-deploy")
CANARY = "c4n4ry-value-of-a-secret"

names = st.text(st.characters(codec="utf-8"), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 53), 1 << 53)
    | names
    | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=12
)
refs = st.builds(ObjectRef, names, names, names, st.none() | names, names, names)
objects = st.none() | st.dictionaries(names, values, max_size=4)
points = st.builds(
    RecoveryPoint,
    generation=st.integers(1, 10**12),
    holder=names,
    taken_at=st.just(AT),
    form=st.sampled_from(recovery_point.FORMS),
    revision=names,
    objects=st.lists(st.builds(Captured, refs, objects, objects), max_size=4).map(tuple),
    flux=st.lists(st.tuples(refs, st.none() | names), max_size=3).map(tuple),
)


def a_point(*captured: Captured, generation: int = 43) -> RecoveryPoint:
    return RecoveryPoint(generation, "holder", AT, "apply", "-f app/", captured)


def secret(name: str, value: str) -> Captured:
    ref = ObjectRef("v1", "Secret", "secrets", "prod", name, f"uid-{name}")
    return Captured(ref, {"kind": "Secret", "data": {"password": value}})


def noise(size: int) -> str:
    """Text that does not shrink, so that a point has many parts."""
    return random.Random(7).randbytes(size).hex()  # noqa: S311 - of the same sort each time


@given(points)
def test_point_that_is_packed_comes_back_as_it_was(point: RecoveryPoint) -> None:
    packed = pack(point)
    assert unpack(packed.parts, packed.summary.digest) == point
    assert pack(point) == packed
    assert read_summary(json.loads(json.dumps(packed.summary.entry))) == packed.summary


@pytest.mark.parametrize("most", range(390, 420))
def test_parts_fit_into_secrets_and_are_the_whole(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the edges of a part, too: none is empty, none is too large."""
    monkeypatch.setattr(recovery_point, "PART_BYTES", most // 3)
    packed = pack(a_point(secret("a", noise(120))))
    assert all(0 < len(part) <= most // 3 for part in packed.parts)
    assert len(packed.parts) == -(-packed.summary.size // (most // 3)) == packed.summary.parts > 1
    assert digest_of(b"".join(packed.parts)) == packed.summary.digest


def test_digest_is_sha_256_of_one_gzip_member_that_tells_no_time() -> None:
    """So a person can check and read it with `sha256sum` and `gunzip`."""
    packed = pack(a_point(secret("a", "x")))
    data = b"".join(packed.parts)
    assert hashlib.sha256(data).hexdigest() == packed.summary.digest
    assert data[:4] == b"\x1f\x8b\x08\x00"
    assert data[4:8] == b"\0\0\0\0"


def test_largest_part_fits_into_a_secret_that_etcd_takes() -> None:
    """The server counts 1 MiB of data decoded, etcd 1.5 MiB of the request encoded."""
    assert PART_BYTES < 1024 * 1024
    point = a_point(secret("a", noise(800 * 1024)))
    packed = pack(point)
    assert len(packed.parts) == 2
    assert len(json.dumps(secret_for(LEASE, point, packed, 0))) < 1.5 * 1024 * 1024


def three_parts() -> tuple[list[bytes | None], str]:
    data = b"".join(pack(a_point(secret("a", noise(1024)))).parts)
    third = len(data) // 3
    return [data[:third], data[third : 2 * third], data[2 * third :]], digest_of(data)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_part_that_is_missing_is_named(number: int) -> None:
    parts, digest = three_parts()
    parts[number] = None
    with pytest.raises(BadPointError, match=f"part {number + 1} of 3") as failed:
        unpack(parts, digest)
    assert failed.value.fault is Fault.MISSING_PART


def fault_of(parts: Sequence[bytes | None], digest: str) -> Fault:
    with pytest.raises(BadPointError) as failed:
        unpack(parts, digest)
    assert failed.value.exit_code is ExitCode.INCOMPLETE
    return failed.value.fault


def test_part_that_was_changed_cut_or_exchanged_is_no_point() -> None:
    """Nothing of it is unpacked before the digest is right."""
    parts, digest = three_parts()
    first, second, third = (bytes(part or b"") for part in parts)
    for wrong in (
        [second, first, third],
        [first, second],
        [first, second, third[:-1]],
        [first, second, third, b"x"],
        [first, b"x" + second[1:], third],
    ):
        assert fault_of(wrong, digest) is Fault.WRONG_DIGEST
    assert fault_of([], digest) is Fault.MISSING_PART


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", Fault.BROKEN),
        ("[]", Fault.BROKEN),
        ("{}", Fault.BROKEN),
        ('{"v": true}', Fault.BROKEN),
        ('{"v": 1}', Fault.BROKEN),
        ('{"v": 1, "v": 1}', Fault.BROKEN),
        ('{"v": 2, "objects": []}', Fault.NEWER),
        ("é", Fault.BROKEN),
    ],
)
def test_point_with_the_right_digest_and_the_wrong_contents_is_named(text: str, fault: Fault) -> None:
    data = compress(text.encode())
    assert fault_of([data], digest_of(data)) is fault


@pytest.mark.parametrize(
    "change",
    [
        {"generation": "43"},
        {"generation": True},
        {"takenAt": "yesterday"},
        {"form": "wish"},
        {"objects": {}},
        {"objects": [{"ref": {}, "before": None, "planned": None}]},
        {"flux": [{"revision": CANARY}]},
        {"holder": {"password": CANARY}},
    ],
)
def test_point_of_another_shape_is_broken_and_its_contents_stay_untold(change: dict[str, Any]) -> None:
    packed = pack(a_point(secret("a", CANARY)))
    value = json.loads(gzip.decompress(packed.parts[0])) | change
    data = compress(json.dumps(value).encode())
    with pytest.raises(BadPointError) as failed:
        unpack([data], digest_of(data))
    assert failed.value.fault is Fault.BROKEN
    assert CANARY not in f"{failed.value!r} {failed.value.sentence} {failed.value.reason}"


def test_bytes_that_are_no_gzip_or_more_than_one_member_are_broken() -> None:
    good = pack(a_point()).parts[0]
    for data in (b"", b"plain", good[:-1], good + good):
        assert fault_of([data], digest_of(data)) is Fault.BROKEN


def test_point_that_unpacks_to_too_much_is_refused_before_it_fills_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = compress(b'{"v":1,"more":"' + b"x" * 5000 + b'"}')
    assert fault_of([data], digest_of(data)) is Fault.BROKEN
    monkeypatch.setattr(recovery_point, "LARGEST_BYTES", 4000)
    assert fault_of([data], digest_of(data)) is Fault.TOO_LARGE


def test_more_than_a_point_can_hold_is_an_error_that_tells_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is cut off: half of a good state is none."""
    monkeypatch.setattr(recovery_point, "PART_BYTES", 10)
    with pytest.raises(PointTooLargeError, match="2 objects") as failed:
        pack(a_point(secret("a", noise(400)), secret("b", CANARY)))
    assert failed.value.exit_code is ExitCode.FAILED_PREVIOUS_RUNS
    assert CANARY not in f"{failed.value.sentence} {failed.value.reason} {failed.value.hint}"


def test_nothing_that_was_captured_is_in_any_text_of_the_shapes() -> None:
    """A repr ends up in a traceback, and that in a log."""
    point = a_point(secret("a", CANARY))
    packed = pack(point)
    assert CANARY not in repr(point)
    assert "objects=1" in repr(packed)
    assert repr(packed.parts) not in repr(packed)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "x",
        {},
        {"digest": "a" * 63, "parts": 1, "objects": 1, "bytes": 1},
        {"digest": "A" * 64, "parts": 1, "objects": 1, "bytes": 1},
        {"digest": "a" * 64, "parts": 0, "objects": 1, "bytes": 1},
        {"digest": "a" * 64, "parts": MOST_PARTS + 1, "objects": 1, "bytes": 1},
        {"digest": "a" * 64, "parts": True, "objects": 1, "bytes": 1},
        {"digest": "a" * 64, "parts": 1, "objects": -1, "bytes": 1},
        {"digest": "a" * 64, "parts": 1, "objects": 1},
    ],
)
def test_recovery_of_a_record_that_nobody_writes_so_is_none(value: Any) -> None:
    assert read_summary(value) is None
    assert read_summary({"digest": "a" * 64, "parts": 1, "objects": 0, "bytes": 9}) == Summary("a" * 64, 1, 0, 9)


def stored(lease: tuple[str, str] = LEASE, generation: int = 43) -> dict[str, Any]:
    point = a_point(secret("a", "x"), generation=generation)
    body = secret_for(lease, point, pack(point), 0)
    return {**body, "metadata": {**body["metadata"], "uid": "u", "resourceVersion": "9", "managedFields": []}}


def test_secret_of_a_part_is_named_typed_labelled_and_cannot_be_changed() -> None:
    point = a_point(secret("a", "x"))
    packed = pack(point)
    body = secret_for(LEASE, point, packed, 0)
    assert body["metadata"]["name"] == "fencectl-deploy-recovery-43-0" == part_ref(LEASE, 43, 0).name
    assert body["metadata"]["namespace"] == "flux-system" == part_ref(LEASE, 43, 0).namespace
    assert body["metadata"]["labels"] == {RECOVERY: "fencectl-deploy"}
    assert (body["type"], body["immutable"]) == (RECOVERY, True)
    assert base64.b64decode(body["data"]["part"]) == packed.parts[0] == part_in(body)
    assert selector_of("fencectl-deploy") == (
        ("labelSelector", "fencectl.dev/recovery=fencectl-deploy"),
        ("fieldSelector", "type=fencectl.dev/recovery"),
    )


@given(length=st.integers(1, 253), generation=st.integers(1, 10**18 - 1), part=st.integers(0, MOST_PARTS - 1))
def test_every_lease_has_names_and_labels_that_the_server_takes(length: int, generation: int, part: int) -> None:
    """Two long names that begin alike do not share theirs."""
    lease, other = "a" * (length - 1) + "b", "a" * (length - 1) + "c"
    name = part_ref(("ns", lease), generation, part).name
    assert len(name) <= 253
    assert 0 < len(label_of(lease)) <= 63
    assert generation_in(name, lease) == generation
    assert generation_in(name, other) is None
    assert label_of(lease) != label_of(other)


@pytest.mark.parametrize(
    "name",
    [
        "fencectl-deploy-recovery-43",
        "fencectl-deploy-recovery-43-0-1",
        "fencectl-deploy-recovery-0-0",
        "fencectl-deploy-recovery-043-0",
        "fencectl-deploy-recovery-43-00",
        "fencectl-deploy-recovery-43-x",
        "fencectl-deploy-recovery-٤-0",
        "fencectl-deploy-recovery-1-recovery-43-0",
        "x-fencectl-deploy-recovery-43-0",
        "fencectl-deploy-recovery-43-0\n",
        "fencectl-deployXrecovery-43-0",
    ],
)
def test_name_that_no_part_has_tells_no_generation(name: str) -> None:
    """The last but three is a part of the lease `fencectl-deploy-recovery-1`, the rest are nobody's."""
    assert generation_in(name, LEASE[1]) is None
    assert generation_in("fencectl-deploy-recovery-43-0", LEASE[1]) == 43


def test_secret_is_ours_by_type_label_and_name_together() -> None:
    found = stored()
    assert is_own_part(found, LEASE)
    meta = found["metadata"]
    for foreign in (
        {**found, "type": "Opaque"},
        {**found, "metadata": {**meta, "labels": {}}},
        {**found, "metadata": {**meta, "labels": {RECOVERY: "another"}}},
        {**found, "metadata": {**meta, "name": "fencectl-deploy"}},
        {**found, "metadata": {**meta, "name": None}},
        {},
    ):
        assert not is_own_part(foreign, LEASE), foreign
    assert not is_own_part(found, ("flux-system", "another"))


def test_secret_that_is_there_already_is_the_same_only_where_nothing_of_it_differs() -> None:
    """After an answer that was lost: what else the server wrote into it does not count."""
    found, point = stored(), a_point(secret("a", "x"))
    body = secret_for(LEASE, point, pack(point), 0)
    assert is_same_part(found, body)
    meta = found["metadata"]
    for other in (
        {**found, "type": "Opaque"},
        {**found, "data": {"part": "AAAA"}},
        {**found, "data": {**found["data"], "more": ""}},
        {**found, "immutable": False},
        {**found, "metadata": {**meta, "labels": {}}},
        {**found, "metadata": {**meta, "annotations": {}}},
        {**found, "metadata": {**meta, "deletionTimestamp": "2026-11-30T00:00:00Z"}},
    ):
        assert not is_same_part(other, body), other


@pytest.mark.parametrize("data", [None, {}, {"part": None}, {"part": "é"}, {"part": "AAA"}])
def test_secret_without_bytes_holds_no_part(data: Any) -> None:
    assert part_in({"data": data}) is None


@given(st.sets(st.integers(1, 30)), st.sets(st.integers(1, 30)), st.integers(1, 30))
def test_the_newest_three_that_a_record_tells_of_stay(stored: set[int], recorded: set[int], own: int) -> None:
    stored |= recorded | {own}
    gone = outlived(stored, own=own, recorded=recorded)
    stay = stored - gone
    usable = {one for one in recorded | {own} if one <= own}
    assert own in stay
    assert {one for one in stay if one <= own} == set(sorted(usable)[-3:])
    assert all(one <= own for one in gone)


def test_points_of_runs_that_failed_half_way_push_out_none_that_is_whole() -> None:
    """Each try again leaves a part; the three whole ones are not theirs to count."""
    assert outlived({1, 2, 3, 4, 5, 6}, own=6, recorded={1, 2, 3}) == {1, 4, 5}


def test_points_of_a_record_that_was_lost_are_not_taken_for_newer_ones() -> None:
    """Its numbers start anew: 40 to 42 must not push out 1, nor go themselves."""
    assert outlived({40, 41, 42, 1, 2}, own=2, recorded={1}) == frozenset()
    assert outlived({40, 41, 42, 1, 2, 3, 4}, own=4, recorded={1, 2, 3}) == {1}
