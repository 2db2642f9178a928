"""One object of one resource: how it is named in refusals, and what is checked before it is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fencectl.sandbox import status
from fencectl.sandbox.gojson import Obj, encode
from fencectl.sandbox.resources import Resource
from fencectl.sandbox.storage import ObjectName


@dataclass(frozen=True, slots=True)
class Target:
    """One object of one resource."""

    resource: Resource
    namespace: str
    name: str

    @property
    def key(self) -> ObjectName:
        return (self.namespace, self.name)

    def not_found(self) -> status.StatusError:
        return status.not_found(self.resource.plural, group=self.resource.group, name=self.name)

    def other_name(self, name: str) -> status.StatusError:
        return status.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({self.name})"
        )

    def conflict(self, why: str) -> status.StatusError:
        return status.conflict(self.resource.plural, group=self.resource.group, name=self.name, why=why)


def check_preconditions(target: Target, current: Obj, wanted: Mapping[str, str]) -> None:
    """Refuse a write that was meant for another object or another revision."""
    metadata = current["metadata"]
    uid, version = wanted.get("uid"), wanted.get("resourceVersion")
    if uid is not None and uid != metadata["uid"]:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({metadata['uid']}). "
            "The object might have been deleted and then recreated"
        )
    elif version is not None and version != metadata["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
            f"({metadata['resourceVersion']}). The object might have been modified"
        )
    else:
        return
    # NB: here the real server names the kind, not the resource.
    resource = target.resource
    raise status.conflict(resource.kind, group=resource.group, name=target.name, why=why)


def other_uid(target: Target, wanted: str, have: str) -> status.StatusError:
    """Refuse a PUT whose body names another uid; the text is the storage's own."""
    resource = target.resource
    place = f"{resource.group}/{resource.plural}" if resource.custom else resource.plural
    space = f"{target.namespace}/" if target.namespace else ""
    return target.conflict(
        f"StorageError: invalid object, Code: 4, Key: /registry/{place}/{space}{target.name}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {have}"
    )


def is_same(old: Obj, new: Obj) -> bool:
    # NB: as text, because 0 == False in Python.
    return old == new and encode(_sorted(old)) == encode(_sorted(new))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value


_ORDER = (
    "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers",
    "managedFields",
)  # fmt: skip


def ordered_metadata(metadata: Obj) -> Obj:
    return {key: metadata[key] for key in _ORDER if metadata.get(key) not in (None, "", {}, [])}
