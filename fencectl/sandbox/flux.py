"""
A scripted Flux: does what its controllers do to the objects, when a test says so.

`run()` carries out what is pending; `reconcile()` makes one object reconcile; `begin()` starts a reconcile
that stays in flight until its `end()`. After `automatic()` everything pending is carried out at once, inside
the write that caused it, without threads and without time.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from fencectl.sandbox.api import Api
from fencectl.sandbox.flux_apply import apply_manifest
from fencectl.sandbox.gojson import Obj
from fencectl.sandbox.options import WriteOptions
from fencectl.sandbox.resources import Resource, flux_resources
from fencectl.sandbox.status import StatusError
from fencectl.sandbox.storage import Change
from fencectl.sandbox.targets import Target

REQUESTED_AT = "reconcile.fluxcd.io/requestedAt"
HANDLED_AT = "lastHandledReconcileAt"
SOME_REVISION = "main@sha1:0000000000000000000000000000000000000000"
# Alerts and Providers have no such status. An ImageUpdateAutomation looks at its suspension first.
WITHOUT_PROOF = ("Alert", "Provider", "ExternalArtifact")
PROOF_ONLY_WHEN_ACTIVE = ("ImageUpdateAutomation",)
_MAX_ROUNDS = 100


@dataclass(slots=True)
class Reconcile:
    """A reconcile in flight: it saw the object as it was when it began."""

    flux: Flux
    target: Target
    seen: Obj
    ended: bool = False

    def end(self, *, revision: str | None = None, failed: str = "") -> None:
        """Finish: apply, and write the status with the token that was seen at the start."""
        if self.ended:
            return
        self.ended = True
        self.flux.finish(self, revision=revision, failed=failed)


@dataclass(slots=True)
class Flux:
    """The controllers of one sandbox."""

    api: Api
    _applies: dict[tuple[str, str], list[Obj]] = field(default_factory=dict)
    _in_flight: dict[str, Reconcile] = field(default_factory=dict)
    _seen: dict[str, int] = field(default_factory=dict)
    _is_automatic: bool = False
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _busy: bool = False

    def __post_init__(self) -> None:
        self.api.storage.on_change(self._changed)

    # -- what a test says

    def applies(self, name: str, manifests: Iterable[Obj], *, namespace: str = "flux-system") -> None:
        """Say what a Kustomization holds: it applies this at each reconcile, its own manifest included."""
        self._applies[namespace, name] = list(manifests)

    def automatic(self, on: bool = True) -> None:
        """Carry out what is pending without being told."""
        self._is_automatic = on
        if on:
            self.run()

    def reconcile(
        self,
        resource: str,
        name: str,
        *,
        namespace: str = "flux-system",
        revision: str | None = None,
        failed: str = "",
    ) -> bool:
        """Let one object reconcile now. False: it is suspended, so only its token is handled."""
        begun = self.begin(resource, name, namespace=namespace)
        if begun is None:
            return False
        begun.end(revision=revision, failed=failed)
        return True

    def begin(self, resource: str, name: str, *, namespace: str = "flux-system") -> Reconcile | None:
        """Start a reconcile and leave it in flight. None: the object is suspended, its token is handled."""
        target = Target(self.api.resources.of(resource), namespace, name)
        with self._lock:
            obj = self._get(target)
            if obj is None:
                raise target.not_found()
            uid = obj["metadata"]["uid"]
            if uid in self._in_flight:
                raise RuntimeError(f"{resource}/{namespace}/{name} is in flight already")
            self._seen[uid] = int(obj["metadata"].get("generation", 0))
            if (obj.get("spec") or {}).get("suspend"):
                self._handle_suspended(target, obj)
                return None
            begun = Reconcile(self, target, obj)
            self._in_flight[uid] = begun
        self._write_status(target, obj, {"conditions": _running(obj, now=self.api.now())})
        return begun

    def run(self) -> list[str]:
        """Carry out everything that is pending, until nothing is; returns what was reconciled."""
        done: list[str] = []
        for _ in range(_MAX_ROUNDS):
            pending = [target for target in self._targets() if self._is_pending(target)]
            if not pending:
                break
            for target in pending:
                if self._is_pending(target):
                    self.reconcile(target.resource.plural, target.name, namespace=target.namespace)
                    done.append(f"{target.resource.kind.lower()}/{target.namespace}/{target.name}")
        return done

    def publish(
        self, name: str, revision: str, *, namespace: str = "flux-system", kind: str = "GitRepository"
    ) -> None:
        """Write a source's artifact, as its controller does when there is a new revision."""
        target = Target(self.api.resources.of(kind), namespace, name)
        artifact = {
            "path": f"{kind.lower()}/{namespace}/{name}/artifact.tar.gz",
            "url": f"http://source-controller.{namespace}/{name}.tar.gz",
            "revision": revision,
            "digest": "sha256:" + "0" * 64,
            "lastUpdateTime": self.api.now(),
            "size": 1,
        }
        obj = self._get(target)
        if obj is None:
            raise target.not_found()
        message = f"stored artifact for revision '{revision}'"
        ready = _condition(obj, "Ready", "True", "Succeeded", message, now=self.api.now())
        generation = obj["metadata"].get("generation")
        status = {"artifact": artifact, "conditions": [ready], "observedGeneration": generation}
        self._write_status(target, obj, status)

    # -- the machinery

    def finish(self, begun: Reconcile, *, revision: str | None, failed: str) -> None:
        """End a reconcile in flight (called by `Reconcile.end`)."""
        target, seen = begun.target, begun.seen
        try:
            status = self._outcome(target, seen, revision=revision, failed=failed)
            if target.resource.kind not in WITHOUT_PROOF:
                self._write_status(target, seen, status)
        finally:
            with self._lock:
                self._in_flight.pop(seen["metadata"]["uid"], None)
        if self._is_automatic:
            self._run_apart()

    def _outcome(self, target: Target, seen: Obj, *, revision: str | None, failed: str) -> Obj:
        now, generation = self.api.now(), seen["metadata"].get("generation")
        before = seen.get("status") or {}
        revision = revision or self._revision(seen) or before.get("lastAppliedRevision") or SOME_REVISION
        status: Obj = {}
        if REQUESTED_AT in (seen["metadata"].get("annotations") or {}):
            status[HANDLED_AT] = seen["metadata"]["annotations"][REQUESTED_AT]
        kind = target.resource.kind
        if failed:
            # NB: a failure leaves observedGeneration where it was.
            reason = "ReconciliationFailed"
            status["conditions"] = [_condition(seen, "Ready", "False", reason, failed, now=now)]
            if kind in ("Kustomization", "HelmRelease"):
                status["lastAttemptedRevision"] = revision
            return status
        if kind == "Kustomization":
            status["inventory"] = {"entries": self._apply_all(seen)}
            status["lastAppliedRevision"] = status["lastAttemptedRevision"] = revision
        elif kind == "HelmRelease":
            status["lastAttemptedRevision"] = revision
            status["history"] = [{"chartVersion": revision, "status": "deployed", "version": generation}]
        message = f"Applied revision: {revision}"
        status["conditions"] = [_condition(seen, "Ready", "True", "ReconciliationSucceeded", message, now=now)]
        status["observedGeneration"] = generation
        return status

    def _apply_all(self, owner: Obj) -> list[Obj]:
        entries = []
        key = (owner["metadata"]["namespace"], owner["metadata"]["name"])
        for manifest in self._applies.get(key, ()):
            # NB: what asks to be left alone is dropped from the inventory, as on a real cluster.
            if apply_manifest(self.api, manifest, owner=owner):
                group, _, version = manifest["apiVersion"].rpartition("/")
                namespace = manifest["metadata"].get("namespace", owner["metadata"]["namespace"])
                identity = f"{namespace}_{manifest['metadata']['name']}_{group}_{manifest['kind']}"
                entries.append({"id": identity, "v": version})
        return entries

    def _revision(self, obj: Obj) -> str:
        source = (obj.get("spec") or {}).get("sourceRef") or {}
        try:
            resource = self.api.resources.of(str(source.get("kind", "")))
        except KeyError:
            return ""
        name = (source.get("namespace") or obj["metadata"]["namespace"], source.get("name", ""))
        found = self.api.storage.get(resource.key, name=name)
        return str(((found or {}).get("status") or {}).get("artifact", {}).get("revision", ""))

    def _handle_suspended(self, target: Target, obj: Obj) -> None:
        kind = target.resource.kind
        if kind in WITHOUT_PROOF or kind in PROOF_ONLY_WHEN_ACTIVE:
            return
        status: Obj = {}
        token = (obj["metadata"].get("annotations") or {}).get(REQUESTED_AT)
        if token is not None:
            status[HANDLED_AT] = token
        if kind == "Kustomization" and _is_ready(obj):
            status["observedGeneration"] = obj["metadata"].get("generation")
        self._write_status(target, obj, status)

    def _write_status(self, target: Target, seen: Obj, status: Obj) -> None:
        """Merge into the status of the object that was seen; one that is gone meanwhile is left."""

        def change(current: Obj) -> Obj:
            return {**current, "status": {**(current.get("status") or {}), **status}}

        area = target.resource.group.split(".", 1)[0]
        options = WriteOptions(manager=f"{area}-controller", subresource="status")
        try:
            self.api.update(target, change=change, options=options, preconditions={"uid": seen["metadata"]["uid"]})
        except StatusError as refused:
            if refused.code not in (404, 409):
                raise

    def _get(self, target: Target) -> Obj | None:
        return self.api.storage.get(target.resource.key, name=target.key)

    def _targets(self) -> Iterable[Target]:
        served = {resource.key for resource in self.api.resources.all()}
        for resource in flux_resources():
            if resource.key in served:
                for (namespace, name), _ in self.api.storage.list(resource.key)[0]:
                    yield Target(self._served(resource), namespace, name)

    def _served(self, resource: Resource) -> Resource:
        found = self.api.resources.find(group=resource.group, version=resource.version, plural=resource.plural)
        return found or resource

    def _is_pending(self, target: Target) -> bool:
        obj = self._get(target)
        if obj is None or obj["metadata"]["uid"] in self._in_flight:
            return False
        generation = int(obj["metadata"].get("generation", 0))
        if self._seen.get(obj["metadata"]["uid"]) != generation:
            return True
        kind = target.resource.kind
        suspended = bool((obj.get("spec") or {}).get("suspend"))
        if kind in WITHOUT_PROOF or (suspended and kind in PROOF_ONLY_WHEN_ACTIVE):
            return False
        token = (obj["metadata"].get("annotations") or {}).get(REQUESTED_AT)
        return token is not None and token != (obj.get("status") or {}).get(HANDLED_AT)

    def _changed(self, change: Change) -> None:
        if change.after is None and change.before is not None:
            self._seen.pop(change.before["metadata"]["uid"], None)
        if self._is_automatic and change.resource[0].endswith("toolkit.fluxcd.io"):
            self._run_apart()

    def _run_apart(self) -> None:
        with self._lock:
            if self._busy:
                return
            self._busy = True
        try:
            # NB: in a context of its own: what the controllers write is not part of the client's request.
            contextvars.Context().run(self.run)
        finally:
            self._busy = False


def _is_ready(obj: Obj) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def _condition(obj: Obj, kind: str, status: str, reason: str, message: str, *, now: str) -> Obj:
    """Make a condition; its time moves only when its status does."""
    before: Any = next(
        (item for item in (obj.get("status") or {}).get("conditions") or () if item["type"] == kind), {}
    )
    since = before.get("lastTransitionTime", now) if before.get("status") == status else now
    generation = obj["metadata"].get("generation", 0)
    made = {"type": kind, "status": status, "reason": reason, "message": message}
    return {**made, "lastTransitionTime": since, "observedGeneration": generation}


def _running(obj: Obj, *, now: str) -> list[Obj]:
    message = "Reconciliation in progress"
    return [
        _condition(obj, "Reconciling", "True", "Progressing", message, now=now),
        _condition(obj, "Ready", "Unknown", "Progressing", message, now=now),
    ]
