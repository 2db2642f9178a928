"""
The one builder of patches: what is sent is what is printed, byte for byte.

Nothing else in the package spells a patch operation. A `GuardedPatch` is frozen and its body is the final
text; the writer takes only this type, and a printed command prints this text. A patch that lifts a fence is
never built without a guard on the uid.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fencectl.core.gojson import encode
from fencectl.core.refs import ObjectRef

CONTENT_TYPE = "application/json-patch+json"

Op = dict[str, Any]
ABSENT = None
"""The value of a guard that asserts absence: json-patch v4 lets `test` null pass on a missing key."""


@dataclass(frozen=True, slots=True)
class GuardedPatch:
    """One guarded change of one object. `body` is the JSON text, encoded as Go does, sent and printed as it is."""

    target: ObjectRef
    body: str

    @property
    def operations(self) -> list[Op]:
        """The operations, decoded: for explanations and for JSON output."""
        decoded: list[Op] = json.loads(self.body)
        return decoded


def pointer(*keys: str) -> str:
    """A JSON pointer (RFC 6901): `~` is escaped first, else the `~` of `~1` would be escaped again."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in keys)


def annotation(key: str) -> str:
    """The pointer of an annotation."""
    return pointer("metadata", "annotations", key)


def guard(path: str, value: Any) -> Op:
    """A guard: the whole patch is refused unless the field has this very value (None: is absent)."""
    return {"op": "test", "path": path, "value": value}


def put(path: str, value: Any, *, present: bool) -> Op:
    """Set a field; `present` says whether it exists now, so that strict readers of RFC 6902 agree too."""
    return {"op": "replace" if present else "add", "path": path, "value": value}


def drop(path: str) -> Op:
    """Remove a field that exists now; guard it, since removing a missing one sinks the whole patch."""
    return {"op": "remove", "path": path}


def put_annotations(current: Mapping[str, Any] | None, values: Mapping[str, str]) -> list[Op]:
    """
    Add annotations.

    An absent map is asserted absent and made whole: `add` below a missing map fails, and making the map
    unasserted would wipe what another writer added meanwhile (https://github.com/evanphx/json-patch/issues/92).
    """
    if not current:
        return [
            guard(pointer("metadata", "annotations"), ABSENT),
            put(pointer("metadata", "annotations"), dict(values), present=False),
        ]
    return [put(annotation(key), value, present=key in current) for key, value in values.items()]


def seal(target: ObjectRef, operations: Iterable[Op]) -> GuardedPatch:
    """
    Make the patch final, with the guard on the uid in front.

    Raises ValueError for a target without uid: a patch that any object of that name would accept is no
    guarded patch.
    """
    if not target.uid:
        raise ValueError("a guarded patch needs the uid of its object")
    return GuardedPatch(target, encode([guard("/metadata/uid", target.uid), *operations]))
