"""Name objects of the API: what a path, a printed command and a report call them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

Raw = Mapping[str, Any]
"""One object as decoded JSON. Only the modules of core that parse look into it."""


class ObjectRef(msgspec.Struct, frozen=True, order=True):
    """
    One object, by everything that a request, a guard or a reader needs.

    `api_version` as in the object (`v1`, `apps/v1`); `plural` as in its path; `namespace` is None for
    cluster-scoped kinds; `uid` tells a recreated object of the same name from this one.
    """

    api_version: str
    kind: str
    plural: str
    namespace: str | None
    name: str
    uid: str

    @property
    def group(self) -> str:
        """The API group, empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def path(self) -> str:
        """The path of the object below the server's base; names are DNS labels, so nothing is escaped."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"
        scope = f"/namespaces/{self.namespace}" if self.namespace else ""
        return f"{root}{scope}/{self.plural}/{self.name}"

    @property
    def display(self) -> str:
        """`kind/name` or `kind/namespace/name`, lower case, as `release FENCE` takes it."""
        parts = (
            (self.kind.lower(), self.namespace, self.name) if self.namespace else (self.kind.lower(), self.name)
        )
        return "/".join(str(part) for part in parts)

    @property
    def kubectl_resource(self) -> str:
        """The resource as kubectl resolves it without guessing: `node`, `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.kind.lower()


class Seen(msgspec.Struct, frozen=True):
    """One object together with the name it was read under (list items carry neither kind nor plural)."""

    ref: ObjectRef
    raw: Raw


def dig(obj: Any, *keys: str) -> Any:
    """Walk down mappings; None as soon as a step is missing or is not a mapping."""
    for key in keys:
        # NB: nearly all are dicts, of which the type alone says it ten times faster.
        if type(obj) is not dict and not isinstance(obj, Mapping):
            return None
        obj = obj.get(key)
    return obj


def annotations_of(obj: Raw) -> Mapping[str, Any]:
    """The annotations, empty where the map is absent or is not one."""
    found = dig(obj, "metadata", "annotations")
    return found if isinstance(found, Mapping) else {}


def labels_of(obj: Raw) -> Mapping[str, Any]:
    """The labels, empty where the map is absent or is not one."""
    found = dig(obj, "metadata", "labels")
    return found if isinstance(found, Mapping) else {}


def text_or_none(value: Any) -> str | None:
    """The value if it is text, else None."""
    return value if isinstance(value, str) else None


def is_deleting(obj: Raw) -> bool:
    """Whether a deletion of the object has begun."""
    return dig(obj, "metadata", "deletionTimestamp") is not None
