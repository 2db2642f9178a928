"""
The write path: create, update, patch, delete, with the checks in the order of the real server.

Knows nothing of HTTP. Reads and writes race as on the real server: a change is computed from what was
read, and computed again when somebody else wrote first.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fencectl.sandbox import status
from fencectl.sandbox.clock import SandboxClock, rfc3339
from fencectl.sandbox.decode import DecodeError, decode_object
from fencectl.sandbox.events import as_seen
from fencectl.sandbox.gojson import Obj, encode, quote
from fencectl.sandbox.managers import ManagerKey, read_managers, track_update, with_managers
from fencectl.sandbox.options import WriteOptions
from fencectl.sandbox.resources import Resource, ResourceTable
from fencectl.sandbox.storage import RaceLostError, Storage
from fencectl.sandbox.strategy import default_object, prepare_for_create, prepare_for_update
from fencectl.sandbox.targets import Target, check_preconditions, is_same, ordered_metadata, other_uid
from fencectl.sandbox.validation import changed_identity, validate

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
_SHOWN_WHEN_DELETED = {"Pod", "Service", "ServiceAccount"}
MAX_OBJECT_BYTES = 1_500_000
# A change reads the present object and returns the new one, managers included when `tracked`.
Change = Callable[[Obj], Obj]


@dataclass(slots=True)
class Api:
    """The verbs that write, over a storage."""

    storage: Storage
    resources: ResourceTable
    clock: SandboxClock
    # Run once between the read and the write of a change, so that a test can be the other writer.
    between: Callable[[Target, str], None] | None = None
    # Whether a kubelet is at work, so that a pod on a node goes at once when it is deleted. Without one it
    # stays, marked, until somebody deletes it without grace.
    has_kubelet: bool = False
    random: random.Random = field(default_factory=random.Random)
    _unsettled: set[str] = field(default_factory=set)

    def now(self) -> str:
        return rfc3339(self.clock.now())

    # -- create

    def create(self, resource: Resource, *, namespace: str, sent: Obj, options: WriteOptions) -> Obj:
        """Create an object from what was sent."""
        obj = self.decoded(resource, sent, options=options)
        return self._create(resource, namespace=namespace, obj=obj, options=options, managed=None)

    def create_applied(self, resource: Resource, *, namespace: str, obj: Obj, options: WriteOptions) -> Obj:
        """Create an object whose managers are already known (server-side apply)."""
        return self._create(
            resource, namespace=namespace, obj=obj, options=options, managed=obj["metadata"].get("managedFields")
        )

    def _create(self, resource: Resource, *, namespace: str, obj: Obj, options: WriteOptions, managed: Any) -> Obj:
        metadata = dict(obj.get("metadata") or {})
        if metadata.get("namespace", namespace) != namespace and resource.namespaced:
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        metadata.pop("namespace", None)
        if resource.namespaced:
            metadata["namespace"] = namespace
        if metadata.get("resourceVersion"):
            raise status.StatusError(
                500, reason="", message="resourceVersion should not be set on objects to be created"
            )
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"):
            metadata.pop(name, None)
        metadata["creationTimestamp"] = self.now()
        metadata["uid"] = self._uid()
        generated = not metadata.get("name") and bool(metadata.get("generateName"))
        if generated:
            metadata["name"] = metadata["generateName"][:58] + "".join(self.random.choices(_SUFFIX, k=5))
        obj = default_object(resource, {**obj, "metadata": metadata})
        target = Target(resource, namespace if resource.namespaced else "", metadata.get("name", ""))
        if managed is None:
            empty = decode_object(resource, {"metadata": {}}).obj
            obj = self._tracked(resource, live=empty, new=obj, options=options, creating=True)
        else:
            obj = {**obj, "metadata": {**obj["metadata"], "managedFields": managed}}
        obj = prepare_for_create(resource, obj)
        if options.admit:
            obj = options.admit(resource, obj)
        self._check(resource, obj, options=options)
        self._check_namespace(target)
        obj["metadata"] = ordered_metadata(obj["metadata"])
        if options.dry_run:
            if self.storage.get(resource.key, name=target.key) is not None:
                raise self._exists(target)
            return obj
        # NB: holds the place of the revision that the storage gives.
        obj["metadata"] = ordered_metadata({**obj["metadata"], "resourceVersion": "0"})
        if self.between:
            self.between(target, "create")
        # NB: a defaulted status is shown from the start, but stored with the first write that follows.
        if resource.custom and obj.get("status") is not None:
            self._unsettled.add(obj["metadata"]["uid"])
        try:
            return self.storage.put(resource.key, name=target.key, expected=None, obj=obj)
        except RaceLostError:
            raise self._exists(target) from None

    def _exists(self, target: Target) -> status.StatusError:
        resource = target.resource
        refused = status.already_exists(resource.plural, group=resource.group, name=target.name)
        present = self.storage.get(resource.key, name=target.key)
        if present is not None and present["metadata"].get("deletionTimestamp"):
            refused.message = f"object is being deleted: {refused.message}"
        return refused

    def _tracked(self, resource: Resource, *, live: Obj, new: Obj, options: WriteOptions, creating: bool) -> Obj:
        """Return `new` with its owners after this write."""
        owned_as = options.owned_as or resource
        key: ManagerKey = (options.manager, "Update", owned_as.api_version, options.subresource)
        before, after = as_seen(owned_as, live), as_seen(owned_as, new)
        done = track_update(owned_as, live=before, new=after, key=key, now=self.now(), creating=creating)
        return with_managers(new, read_managers(done))

    def _uid(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def _check(self, resource: Resource, obj: Obj, *, options: WriteOptions, old: Obj | None = None) -> None:
        causes = changed_identity(old, obj) if old else []
        strict = options.owned_as is not None
        causes += validate(resource, obj, subresource=options.subresource, strict=strict)
        if causes:
            name = obj["metadata"].get("name", "")
            raise status.invalid(resource.kind, group=resource.group, name=name, causes=causes)
        if len(encode(obj)) > MAX_OBJECT_BYTES:
            raise status.StatusError(500, reason="", message="etcdserver: request is too large")

    def _check_namespace(self, target: Target) -> None:
        if not target.resource.namespaced:
            return
        space = self.storage.get(("", "namespaces"), name=("", target.namespace))
        if space is None:
            raise status.not_found("namespaces", group="", name=target.namespace)
        if space["metadata"].get("deletionTimestamp"):
            resource = target.resource
            message = (
                f"{status.qualified(resource.plural, resource.group)} {quote(target.name)} is forbidden: "
                f"unable to create new content in namespace {target.namespace} because it is being terminated"
            )
            raise status.forbidden(message, name=target.name, group=resource.group, kind=resource.plural)

    def decoded(self, resource: Resource, sent: Obj, *, options: WriteOptions) -> Obj:
        """Decode a body that was sent whole; what it holds beyond the type is a warning or a 400."""
        as_what = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        try:
            done = decode_object(resource, sent)
        except DecodeError as err:
            raise status.bad_request(f"{as_what}: {err}") from err
        if done.unknown:
            found = [f"unknown field {quote(path)}" for path in done.unknown]
            if options.validation == "Strict":
                raise status.bad_request(f"{as_what}: strict decoding error: {', '.join(found)}")
            if options.validation == "Warn":
                options.warnings += found
        done.obj.setdefault("metadata", {})
        return done.obj

    # -- update

    def update(
        self,
        target: Target,
        *,
        change: Change,
        options: WriteOptions,
        preconditions: Mapping[str, str] | None = None,
        is_put: bool = False,
        tracked: bool = False,
    ) -> Obj:
        """Change an object; `change` is computed again when another writer was faster."""
        first = True
        warned = len(options.warnings)
        while True:
            current = self.storage.get(target.resource.key, name=target.key)
            if current is None:
                raise target.not_found()
            if preconditions and preconditions["uid"] != current["metadata"]["uid"]:
                raise other_uid(target, preconditions["uid"], current["metadata"]["uid"])
            # NB: a second attempt must not repeat the warnings of the first.
            del options.warnings[warned:]
            new = self._changed(target, current, change(current), options=options, is_put=is_put, tracked=tracked)
            if first and self.between:
                first = False
                self.between(target, "update")
            if options.dry_run:
                return new
            try:
                return self._store(target, current, new)
            except RaceLostError:
                continue

    def _changed(
        self, target: Target, current: Obj, new: Obj, *, options: WriteOptions, is_put: bool, tracked: bool
    ) -> Obj:
        resource = target.resource
        metadata = new["metadata"]
        if not metadata.get("name"):
            raise status.bad_request(
                f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
            )
        if metadata.get("name") != target.name:
            raise target.other_name(metadata["name"])
        if resource.namespaced and metadata.get("namespace", target.namespace) != target.namespace:
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        if resource.namespaced and "namespace" not in metadata:
            metadata = {**metadata, "namespace": target.namespace}
            new = {**new, "metadata": metadata}
        self._check_version(target, current, metadata, is_put=is_put)
        new = default_object(resource, new)
        if not tracked:
            new = self._tracked(resource, live=current, new=new, options=options, creating=False)
        new = prepare_for_update(resource, old=current, new=new, subresource=options.subresource)
        self._check(resource, new, options=options, old=current)
        new["metadata"] = {
            **ordered_metadata(new["metadata"]),
            "resourceVersion": current["metadata"]["resourceVersion"],
        }
        return new

    def _check_version(self, target: Target, current: Obj, metadata: Obj, *, is_put: bool) -> None:
        resource = target.resource
        given = metadata.get("resourceVersion") or ""
        if given in ("", "0"):
            if not resource.unconditional_update:
                cause = status.Cause(
                    "FieldValueInvalid",
                    "Invalid value: 0: must be specified for an update",
                    "metadata.resourceVersion",
                )
                raise status.invalid(resource.plural, group=resource.group, name=target.name, causes=[cause])
            return
        if not given.isdigit():
            message = f"strconv.ParseUint: parsing {quote(given)}: invalid syntax"
            raise status.StatusError(500, reason="", message=message)
        if given != current["metadata"]["resourceVersion"]:
            raise target.conflict(status.MODIFIED)

    def _store(self, target: Target, current: Obj, new: Obj) -> Obj:
        resource = target.resource
        metadata = new["metadata"]
        leaving = metadata.get("deletionTimestamp") and not metadata.get("finalizers")
        if leaving and not (new.get("spec") or {}).get("finalizers") and not self._pod_stays(resource, metadata):
            gone = self.storage.delete(resource.key, name=target.key, expected=current)
            return {**new, "metadata": {**metadata, "resourceVersion": gone["metadata"]["resourceVersion"]}}
        unsettled = metadata["uid"] in self._unsettled
        if not unsettled and is_same(current, new):
            # NB: a change of nothing is not written: same revision, no event.
            return current
        self._unsettled.discard(metadata["uid"])
        return self.storage.put(resource.key, name=target.key, expected=current, obj=new)

    def _pod_stays(self, resource: Resource, metadata: Obj) -> bool:
        return resource.kind == "Pod" and bool(metadata.get("deletionGracePeriodSeconds"))

    def put_or_create(self, target: Target, *, sent: Obj, options: WriteOptions) -> tuple[Obj, bool]:
        """PUT: update, or create where the kind allows it. Says whether it was created."""
        obj = self.decoded(target.resource, sent, options=options)
        present = self.storage.get(target.resource.key, name=target.key)
        if present is None and target.resource.create_on_update and not options.subresource:
            if obj["metadata"].get("name") != target.name:
                raise target.other_name(obj["metadata"].get("name", ""))
            if obj["metadata"].get("uid"):
                raise other_uid(target, obj["metadata"]["uid"], "")
            # NB: a version that it carries says nothing about an object that is not there.
            metadata = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
            obj = {**obj, "metadata": metadata}
            return self.create(target.resource, namespace=target.namespace, sent=obj, options=options), True
        uid = obj["metadata"].get("uid")
        wanted = {"uid": uid} if uid else {}
        done = self.update(target, change=lambda current: obj, options=options, preconditions=wanted, is_put=True)
        return done, False

    # -- delete

    def delete(
        self,
        target: Target,
        *,
        preconditions: Mapping[str, str],
        dry_run: bool = False,
        grace_s: int | None = None,
    ) -> tuple[Obj, bool]:
        """Delete an object, or mark it as being deleted. Says whether it is gone."""
        while True:
            current = self.storage.get(target.resource.key, name=target.key)
            if current is None:
                raise target.not_found()
            check_preconditions(target, current, preconditions)
            if self.between:
                self.between(target, "delete")
            try:
                return self._delete(target, current, dry_run=dry_run, grace_s=grace_s)
            except RaceLostError:
                continue

    def _delete(self, target: Target, current: Obj, *, dry_run: bool, grace_s: int | None) -> tuple[Obj, bool]:
        resource, metadata = target.resource, current["metadata"]
        grace = self._grace_s(current, grace_s) if resource.kind == "Pod" else 0
        stays = grace > 0
        if metadata.get("finalizers") or stays:
            if metadata.get("deletionTimestamp"):
                return current, False
            marked = {
                **metadata,
                "deletionTimestamp": self.now(),
                "deletionGracePeriodSeconds": grace,
            }
            if resource.has_generation:
                marked["generation"] = int(metadata.get("generation", 0)) + 1
            new = {**current, "metadata": ordered_metadata(marked)}
            if dry_run:
                return new, False
            return self.storage.put(resource.key, name=target.key, expected=current, obj=new), False
        shown = current
        if resource.kind == "Pod":
            since = metadata.get("deletionTimestamp") or self.now()
            ended = {**metadata, "deletionTimestamp": since, "deletionGracePeriodSeconds": 0}
            shown = {**current, "metadata": ordered_metadata(ended)}
        if dry_run:
            return shown, True
        if resource.kind == "Namespace":
            return self._delete_namespace(target, current)
        gone = self.storage.delete(resource.key, name=target.key, expected=current)
        version = gone["metadata"]["resourceVersion"]
        return {**shown, "metadata": {**shown["metadata"], "resourceVersion": version}}, True

    def _grace_s(self, pod: Obj, asked_s: int | None) -> int:
        """Return how long a pod may take to end: no time where nothing runs."""
        spec = pod.get("spec") or {}
        ended = (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded")
        if self.has_kubelet or ended or not spec.get("nodeName"):
            return 0
        return int(spec.get("terminationGracePeriodSeconds", 30) if asked_s is None else asked_s)

    def _delete_namespace(self, target: Target, current: Obj) -> tuple[Obj, bool]:
        """Mark, empty and remove a namespace, as the controller manager would."""
        marked = {
            **current,
            "metadata": {**current["metadata"], "deletionTimestamp": self.now()},
            "status": {"phase": "Terminating"},
        }
        stored = self.storage.put(target.resource.key, name=target.key, expected=current, obj=marked)
        blocked = False
        for resource in self.resources.all():
            if not resource.namespaced or resource.alias_of:
                continue
            for name, obj in self.storage.list(resource.key)[0]:
                if name[0] == target.name:
                    blocked |= not self._delete(Target(resource, *name), obj, dry_run=False, grace_s=0)[1]
        if blocked:
            return stored, False
        self.storage.delete(target.resource.key, name=target.key, expected=stored)
        return stored, False


def shows_object_when_deleted(resource: Resource) -> bool:
    return resource.kind in _SHOWN_WHEN_DELETED
