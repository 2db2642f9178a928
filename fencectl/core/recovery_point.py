"""
Recovery points: the captured previous good state of what a deploy is about to change.

One per generation, compressed, cut into parts that each fit into a Secret beside the lease, checked by a digest
that the record keeps: a point that is not whole is none. Nothing of its contents is ever shown.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from fencectl.core.errors import ExitCode, FencectlError
from fencectl.core.gojson import StrictJSONError, decode_strict, encode_ascii
from fencectl.core.refs import ObjectRef, Raw, annotations_of, dig, labels_of
from fencectl.core.times import parse_time, second_time

Form = Literal["command", "apply", "flux"]
FORMS: tuple[Form, ...] = ("command", "apply", "flux")

VERSION = 1
RECOVERY = "fencectl.dev/recovery"
"""The type of the Secrets, and the label that tells whose lease they stand beside."""
DIGEST = "fencectl.dev/recovery-digest"
PART_KEY = "part"
KEPT_POINTS = 3

# A Secret takes 1 MiB (kubernetes, pkg/apis/core/types.go, MaxSecretSize), etcd 1.5 MiB a request; base64 makes
# four bytes out of three.
PART_BYTES = 700 * 1024
# So much is 22 MiB in etcd, three times over; text of the API shrinks to a tenth.
MOST_PARTS = 32
# NB: a bound before memory is spent, whatever a part unpacks to.
LARGEST_BYTES = 256 * 1024 * 1024

_LONGEST_LABEL, _LONGEST_NAME = 63, 253
_GZIP = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True)
class Captured:
    """
    One object that a deploy may change.

    `ref`: with its uid as read, or an empty one where it was absent. `before`: the object as it is to be put back
    (see `core.captured`), None where it was not there. `planned`: what the server's dry run made of it, cleaned
    the same way; None where nothing is applied or nothing could be tried.
    """

    ref: ObjectRef
    # NB: contents of Secrets among others; a repr ends up in logs.
    before: dict[str, Any] | None = field(repr=False)
    planned: dict[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class RecoveryPoint:
    """
    What ran before the deploy of a generation.

    `form`: what kind of deploy it was; `revision`: what it brought, in words. `flux`: the Flux objects in reach of
    it, each with the revision that it had applied last (None: it tells none). Where a deploy has an ApplySet, its
    parent is among the objects.
    """

    generation: int
    holder: str
    taken_at: datetime
    form: Form
    revision: str
    objects: tuple[Captured, ...]
    flux: tuple[tuple[ObjectRef, str | None], ...] = ()


class Fault(StrEnum):
    """Why a recovery point cannot be used."""

    MISSING_PART = "a part of it is missing"
    WRONG_DIGEST = "its digest is not the recorded one"
    NEWER = "it was written by a newer fencectl"
    BROKEN = "it cannot be decoded"
    TOO_LARGE = "it is too large"


class BadPointError(FencectlError):
    """A recovery point that cannot be used, and why; its text quotes nothing of it."""

    exit_code = ExitCode.INCOMPLETE

    def __init__(self, fault: Fault, *, more: str = "") -> None:
        super().__init__(f"the recovery point cannot be used: {fault.value}{more}")
        self.fault = fault


class PointTooLargeError(FencectlError):
    """What a deploy may change is more than a recovery point can hold; nothing was changed."""

    exit_code = ExitCode.FAILED_PREVIOUS_RUNS


@dataclass(frozen=True, slots=True)
class Summary:
    """
    What the record tells of a recovery point.

    `digest`: SHA-256 of the compressed bytes, in hex. `size`: how many bytes those are.
    """

    digest: str
    parts: int
    objects: int
    size: int

    @property
    def entry(self) -> dict[str, Any]:
        """The value of `recovery` in the record's entry."""
        return {"digest": self.digest, "parts": self.parts, "objects": self.objects, "bytes": self.size}


def read_summary(value: Any) -> Summary | None:
    """Read `recovery` of a record's entry; None where it is not one that was written so."""
    digest = dig(value, "digest")
    parts, objects, size = (dig(value, key) for key in ("parts", "objects", "bytes"))
    if not isinstance(digest, str) or re.fullmatch(r"[0-9a-f]{64}", digest, re.ASCII) is None:
        return None
    if not all(type(number) is int and 0 <= number < 1 << 53 for number in (parts, objects, size)):
        return None
    return Summary(digest, parts, objects, size) if 0 < parts <= MOST_PARTS else None


@dataclass(frozen=True, slots=True)
class Packed:
    """A recovery point as it is stored: its parts in order, and what the record is to say of it."""

    summary: Summary
    parts: tuple[bytes, ...] = field(repr=False)


def pack(point: RecoveryPoint) -> Packed:
    """Encode, compress and cut a point; the same one gives the same bytes. Raises PointTooLargeError."""
    text = encode_ascii(_as_data(point))
    data = compress(text.encode("ascii"))
    if len(text) > LARGEST_BYTES or len(data) > MOST_PARTS * PART_BYTES:
        raise too_large(f"{len(point.objects)} objects, {len(data)} bytes compressed")
    parts = tuple(data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES))
    return Packed(Summary(digest_of(data), len(parts), len(point.objects), len(data)), parts)


def too_large(how_much: str) -> PointTooLargeError:
    """The error for what no point can hold; `how_much`: a clause."""
    return PointTooLargeError(
        f"no recovery point can hold what this deploy may change: {how_much}",
        reason=f"at most {LARGEST_BYTES} bytes, {MOST_PARTS * PART_BYTES} compressed. Nothing was changed",
        hint="deploy it in smaller parts",
    )


def compress(data: bytes) -> bytes:
    """Compress as one gzip member that tells no time, so that equal contents are equal bytes."""
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    return packer.compress(data) + packer.flush()


def digest_of(data: bytes) -> str:
    """The digest of compressed bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def unpack(parts: Sequence[bytes | None], digest: str) -> RecoveryPoint:
    """
    Put the parts together (None: one that is not there), check them, and read the point.

    Raises BadPointError.
    """
    missing = [number for number, part in enumerate(parts) if part is None]
    if missing or not parts:
        more = f" (part {missing[0] + 1} of {len(parts)})" if missing else ""
        raise BadPointError(Fault.MISSING_PART, more=more)
    data = b"".join(part for part in parts if part is not None)
    if digest_of(data) != digest:
        raise BadPointError(Fault.WRONG_DIGEST)
    return _from_text(_decompress(data))


def _decompress(data: bytes) -> str:
    unpacker = zlib.decompressobj(_GZIP)
    try:
        text = unpacker.decompress(data, LARGEST_BYTES + 1)
    except zlib.error as broken:
        raise BadPointError(Fault.BROKEN) from broken
    if len(text) > LARGEST_BYTES:
        raise BadPointError(Fault.TOO_LARGE)
    if not unpacker.eof or unpacker.unused_data:
        raise BadPointError(Fault.BROKEN)
    try:
        return text.decode("ascii")
    except UnicodeDecodeError as broken:
        raise BadPointError(Fault.BROKEN) from broken


def _as_data(point: RecoveryPoint) -> dict[str, Any]:
    return {
        "v": VERSION,
        "generation": point.generation,
        "holder": point.holder,
        "takenAt": second_time(point.taken_at),
        "form": point.form,
        "revision": point.revision,
        "objects": [
            {"ref": _ref_data(one.ref), "before": one.before, "planned": one.planned} for one in point.objects
        ],
        "flux": [{"ref": _ref_data(ref), "revision": revision} for ref, revision in point.flux],
    }


def _ref_data(ref: ObjectRef) -> dict[str, Any]:
    return {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "plural": ref.plural,
        "namespace": ref.namespace,
        "name": ref.name,
        "uid": ref.uid,
    }


def _from_text(text: str) -> RecoveryPoint:
    try:
        value = decode_strict(text)
    except StrictJSONError as broken:
        raise BadPointError(Fault.BROKEN) from broken
    version = dig(value, "v")
    if type(version) is not int or version < 1:
        raise BadPointError(Fault.BROKEN, more=": it has no version")
    if version > VERSION:
        raise BadPointError(Fault.NEWER, more=f" (version {version}, this one reads {VERSION})")
    try:
        return RecoveryPoint(
            generation=_typed(value["generation"], int),
            holder=_typed(value["holder"], str),
            taken_at=_typed(parse_time(value["takenAt"]), datetime),
            form=FORMS[FORMS.index(value["form"])],
            revision=_typed(value["revision"], str),
            objects=tuple(_captured(one) for one in _typed(value["objects"], list)),
            flux=tuple((_ref(one["ref"]), _maybe(one["revision"], str)) for one in _typed(value["flux"], list)),
        )
    except (KeyError, TypeError, ValueError) as broken:
        # NB: not chained into its text: a message of these can quote a value.
        raise BadPointError(Fault.BROKEN, more=": it has the wrong shape") from broken


def _captured(value: Any) -> Captured:
    return Captured(_ref(value["ref"]), _maybe(value["before"], dict), _maybe(value["planned"], dict))


def _ref(value: Any) -> ObjectRef:
    text = [_typed(value[key], str) for key in ("apiVersion", "kind", "plural")]
    namespace = _maybe(value["namespace"], str)
    return ObjectRef(text[0], text[1], text[2], namespace, _typed(value["name"], str), _typed(value["uid"], str))


def _typed(value: Any, wanted: type) -> Any:
    if type(value) is not wanted:
        raise TypeError(wanted.__name__)
    return value


def _maybe(value: Any, wanted: type) -> Any:
    return None if value is None else _typed(value, wanted)


# As Secrets


def _fit(text: str, longest: int) -> str:
    """The text, or where it is too long for its place a part of it with a hash of the whole."""
    if len(text) <= longest:
        return text
    return f"{text[: longest - 17].rstrip('-.')}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def label_of(lease: str) -> str:
    """The value of the label `fencectl.dev/recovery` for a lease of this name; a label takes 63 characters."""
    return _fit(lease, _LONGEST_LABEL)


def part_ref(lease: tuple[str, str], generation: int, part: int) -> ObjectRef:
    """The Secret of a part (counted from 0) of a generation's point, for a lease (namespace, name)."""
    tail = f"-recovery-{generation}-{part}"
    return ObjectRef("v1", "Secret", "secrets", lease[0], _stem(lease[1]) + tail, "")


def _stem(lease: str) -> str:
    # NB: as long a tail as there can be, so that all parts of a lease's points have the same beginning.
    return _fit(lease, _LONGEST_NAME - len("-recovery-") - 18 - 1 - 2)


def selector_of(lease: str) -> tuple[tuple[str, str], ...]:
    """What lists the Secrets of a lease and no others: by label, and by type, which a label cannot forge."""
    return ("labelSelector", f"{RECOVERY}={label_of(lease)}"), ("fieldSelector", f"type={RECOVERY}")


def secret_for(lease: tuple[str, str], point: RecoveryPoint, packed: Packed, part: int) -> dict[str, Any]:
    """The body of one part's Secret; its creation is the guard, and nobody can change it afterwards."""
    ref = part_ref(lease, point.generation, part)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": ref.name,
            "namespace": ref.namespace,
            "labels": {RECOVERY: label_of(lease[1])},
            "annotations": {DIGEST: packed.summary.digest},
        },
        "type": RECOVERY,
        "immutable": True,
        "data": {PART_KEY: base64.b64encode(packed.parts[part]).decode("ascii")},
    }


def is_same_part(found: Raw, body: Raw) -> bool:
    """Whether a Secret that is there is what this body would create; of metadata, what tells whose it is."""
    return (
        found.get("type") == body.get("type")
        and found.get("data") == body.get("data")
        and found.get("immutable") is True
        and labels_of(found).get(RECOVERY) == labels_of(body).get(RECOVERY)
        and annotations_of(found).get(DIGEST) == annotations_of(body).get(DIGEST)
        and dig(found, "metadata", "deletionTimestamp") is None
    )


def is_own_part(found: Raw, lease: tuple[str, str]) -> bool:
    """Whether a Secret is a part of a recovery point of this lease: by type, label and name, all three."""
    name = dig(found, "metadata", "name")
    return (
        found.get("type") == RECOVERY
        and labels_of(found).get(RECOVERY) == label_of(lease[1])
        and isinstance(name, str)
        and generation_in(name, lease[1]) is not None
    )


def generation_in(name: str, lease: str) -> int | None:
    """The generation that the name of a part's Secret tells; None for every other name."""
    match = re.fullmatch(re.escape(_stem(lease)) + r"-recovery-([1-9][0-9]{0,17})-(0|[1-9][0-9]?)", name, re.ASCII)
    return int(match.group(1)) if match is not None else None


def part_in(found: Raw) -> bytes | None:
    """The bytes in a part's Secret; None where it holds none."""
    text = dig(found, "data", PART_KEY)
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else None
    except (binascii.Error, ValueError):
        return None


def outlived(stored: Collection[int], *, own: int, recorded: Collection[int]) -> frozenset[int]:
    """
    Which of the `stored` generations go once that of `own` is whole: all but the newest three that can be used.

    `recorded`: those of which a record tells a point. One of which none does was left by a run that ended before
    it could change anything, perhaps with a part of it only: it goes, and pushes out none that is whole. Higher
    ones are of a record that was lost, whose numbers have started anew. They may be all that is left of a good
    state, so they stay until their number comes up.
    """
    usable = sorted({own, *(one for one in recorded if one < own)}, reverse=True)[:KEPT_POINTS]
    return frozenset(one for one in stored if one <= own and one not in usable)
