"""The verbs as HTTP has them: bodies, options and forms around the read and write paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fencectl.sandbox import status
from fencectl.sandbox.admission import admitted
from fencectl.sandbox.api import Api, shows_object_when_deleted
from fencectl.sandbox.bodies import check_kind, read_body
from fencectl.sandbox.events import as_events_v1, as_seen, as_stored
from fencectl.sandbox.evictions import evict
from fencectl.sandbox.gojson import Obj, decode, quote
from fencectl.sandbox.negotiate import Form, negotiate
from fencectl.sandbox.options import WriteOptions, read_options
from fencectl.sandbox.patching import (
    APPLY_YAML,
    patch_object,
    patch_types,
)
from fencectl.sandbox.reading import list_objects, read_list_options
from fencectl.sandbox.requests import Action, Request, Response, json_response, text_response
from fencectl.sandbox.resources import Resource
from fencectl.sandbox.scale import read_scale, write_scale
from fencectl.sandbox.tables import as_table, metadata_only
from fencectl.sandbox.targets import Target
from fencectl.sandbox.watch import WatchStream


class Verbs:
    """One method per verb."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def _known(self) -> set[tuple[str, str]]:
        return {(item.api_version, item.kind) for item in self._api.resources.all() if not item.custom}

    def _form(
        self, request: Request, resource: Resource, *, is_list: bool = False, is_watch: bool = False
    ) -> Form:
        accept = request.headers.get("accept", "")
        return negotiate(accept, resource=resource, is_list=is_list, is_watch=is_watch)

    def _shown(
        self, request: Request, obj: Obj, *, code: int, resource: Resource, warnings: list[str] | None = None
    ) -> Response:
        shown = self._render(request, self._form(request, resource), resource)(obj)
        return json_response(code, shown, warnings=warnings)

    def _render(self, request: Request, form: Form, resource: Resource) -> Callable[[Obj], Obj]:
        if form.target == "PartialObjectMetadata":
            return metadata_only
        if form.target == "Table":
            include = request.query.get("includeObject", "Metadata") or "Metadata"
            headers = True

            def table(obj: Obj) -> Obj:
                # NB: in a watch only the first table has its column definitions.
                nonlocal headers
                metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
                seen = as_seen(resource, obj)
                now = self._api.clock.now()
                made = as_table(resource, [seen], metadata=metadata, now=now, include=include, headers=headers)
                headers = request.query.get("watch", "") not in ("true", "1")
                return made

            return table
        return lambda obj: as_seen(resource, obj)

    # -- reads

    def get(self, request: Request, target: Target, action: Action) -> Response:
        resource = target.resource
        self._form(request, resource)
        obj = self._api.storage.get(_key(resource), name=target.key)
        if obj is None:
            raise target.not_found()
        if action.subresource == "log":
            return text_response(200, obj["metadata"].get("annotations", {}).get("sandbox/log", ""))
        if action.subresource == "scale":
            return json_response(200, read_scale(obj))
        return self._shown(request, obj, code=200, resource=resource)

    def list(self, request: Request, target: Target, action: Action) -> Response:
        resource = target.resource
        form = self._form(request, resource, is_list=True)
        options = read_list_options(request.query)
        page = list_objects(self._api.storage, resource, namespace=target.namespace, options=options)
        items = [as_seen(resource, obj) for obj in page.items]
        body: Obj
        if form.target == "Table":
            include = request.query.get("includeObject", "Metadata") or "Metadata"
            now = self._api.clock.now()
            body = as_table(resource, items, metadata=page.metadata(), now=now, include=include)
        elif form.target:
            body = {
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": page.metadata(),
                # NB: the real server writes null, not an empty list, and clients must cope.
                "items": [metadata_only(obj) for obj in items] or None,
            }
        elif resource.custom:
            body = {
                "apiVersion": resource.api_version,
                "items": items,
                "kind": resource.list_kind,
                "metadata": {"continue": "", **page.metadata()},
            }
        else:
            body = {
                "kind": "EventList" if resource.alias_of else resource.list_kind,
                "apiVersion": resource.api_version,
                "metadata": page.metadata(),
                "items": [_without_type(obj) for obj in items],
            }
        return json_response(200, body)

    def watch(self, request: Request, target: Target, action: Action) -> Response:
        resource = target.resource
        form = self._form(request, resource, is_watch=True)
        options = read_list_options(request.query)
        matches = options.matcher(resource)
        _check_initial_events(options.initial_events, options.match)
        clock = self._api.clock
        ends = clock.monotonic_s() + options.timeout_s if options.timeout_s else None
        stream = WatchStream(
            storage=self._api.storage,
            resource=_stored_as(resource),
            clock=clock,
            matches=matches,
            render=self._render(request, form, resource),
            namespace=target.namespace,
            bookmarks=options.bookmarks,
            ends_at_s=ends,
        )
        stream.begin(options)
        return Response(200, {"Content-Type": "application/json"}, stream=stream)

    # -- writes

    def _options(self, request: Request, action: Action, kind: str, *, is_apply: bool = False) -> WriteOptions:
        agent = request.headers.get("user-agent", "")
        options = read_options(request.query, user_agent=agent, kind=kind, is_apply=is_apply)
        options.subresource = action.subresource
        found = self._api.resources.find(group=action.group, version=action.version, plural=action.resource)
        options.owned_as = found if found and found.alias_of else None
        return options

    def create(self, request: Request, target: Target, action: Action) -> Response:
        options = self._options(request, action, "CreateOptions")
        with _warned(options):
            return self._create(request, target, action, options)

    def _create(self, request: Request, target: Target, action: Action, options: WriteOptions) -> Response:
        resource = target.resource
        sent = read_body(request, kind=resource.kind)
        if action.subresource:
            return self._create_below(request, target, action, sent, options)
        check_kind(resource, sent, raw=request.body, known=self._known())
        stored = as_stored(resource, sent)
        options.admit = admitted
        obj = self._api.create(_stored_as(resource), namespace=target.namespace, sent=stored, options=options)
        return self._shown(request, obj, code=201, resource=resource, warnings=options.warnings)

    def _create_below(
        self, request: Request, target: Target, action: Action, sent: Obj, options: WriteOptions
    ) -> Response:
        if action.subresource == "eviction":
            return json_response(201, evict(self._api, target, body=sent, dry_run=options.dry_run))
        if action.subresource == "binding":
            return self._bind(target, sent, options)
        raise status.method_not_allowed()

    def _bind(self, target: Target, sent: Obj, options: WriteOptions) -> Response:
        node = (sent.get("target") or {}).get("name", "")

        def bound(pod: Obj) -> Obj:
            if pod.get("spec", {}).get("nodeName"):
                name = pod["spec"]["nodeName"]
                why = f"pod {target.name} is already assigned to node {quote(name)}"
                raise status.conflict("pods/binding", group="", name=target.name, why=why)
            condition = {
                "type": "PodScheduled",
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": self._api.now(),
            }
            state = {**pod.get("status", {})}
            state["conditions"] = [*(state.get("conditions") or ()), condition]
            return {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": state}

        options.subresource = "binding"
        current = self._api.storage.get(("", "pods"), name=target.key)
        if current is None:
            raise target.not_found()
        new = bound(current)
        if not options.dry_run:
            self._api.storage.put(("", "pods"), name=target.key, expected=current, obj=new)
        done: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
        return json_response(201, done)

    def update(self, request: Request, target: Target, action: Action) -> Response:
        options = self._options(request, action, "UpdateOptions")
        with _warned(options):
            return self._update(request, target, action, options)

    def _update(self, request: Request, target: Target, action: Action, options: WriteOptions) -> Response:
        resource = target.resource
        sent = read_body(request, kind=resource.kind)
        if action.subresource == "scale":
            done = write_scale(self._api, target, change=lambda scale: sent, options=options)
            return json_response(200, done)
        check_kind(resource, sent, raw=request.body, known=self._known())
        stored_target = Target(_stored_as(resource), target.namespace, target.name)
        obj, created = self._api.put_or_create(stored_target, sent=as_stored(resource, sent), options=options)
        code = 201 if created else 200
        return self._shown(request, obj, code=code, resource=resource, warnings=options.warnings)

    def patch(self, request: Request, target: Target, action: Action) -> Response:
        resource = target.resource
        content_type = request.media_type
        accepted = patch_types(resource)
        if content_type not in accepted:
            raise status.unsupported_media(accepted) if resource.custom else status.unsupported_patch()
        self._form(request, resource)
        options = self._options(request, action, "PatchOptions", is_apply=content_type == APPLY_YAML)
        if action.subresource == "scale":
            from fencectl.sandbox.mergepatch import merge

            patch = decode(request.body)
            done = write_scale(self._api, target, change=lambda scale: merge(scale, patch), options=options)
            return json_response(200, done)
        stored_target = Target(_stored_as(resource), target.namespace, target.name)
        with _warned(options):
            obj, created = patch_object(
                self._api, stored_target, content_type=content_type, body=request.body, options=options
            )
        code = 201 if created else 200
        return self._shown(request, obj, code=code, resource=resource, warnings=options.warnings)

    def delete(self, request: Request, target: Target, action: Action) -> Response:
        resource = target.resource
        wanted = self._delete_options(request)
        stored_target = Target(_stored_as(resource), target.namespace, target.name)
        obj, gone = self._api.delete(
            stored_target,
            preconditions=wanted.get("preconditions") or {},
            dry_run=bool(wanted.get("dryRun")),
            grace_s=wanted.get("gracePeriodSeconds"),
        )
        if not gone or shows_object_when_deleted(resource):
            return self._shown(request, obj, code=200, resource=resource)
        details: Obj = {"name": target.name}
        if resource.group:
            details["group"] = resource.group
        details["kind"] = resource.plural
        details["uid"] = obj["metadata"]["uid"]
        done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return json_response(200, done)

    def _delete_options(self, request: Request) -> Obj:
        body: Obj = dict(read_body(request)) if request.body.strip() else {}
        query = request.query
        if not body:
            if query.get("dryRun"):
                body["dryRun"] = [query["dryRun"]]
            if query.get("gracePeriodSeconds"):
                body["gracePeriodSeconds"] = int(query["gracePeriodSeconds"])
        elif query.get("dryRun"):
            body["dryRun"] = [query["dryRun"]]
        dry: Any = body.get("dryRun") or []
        if dry and dry != ["All"]:
            cause = status.Cause(
                "FieldValueNotSupported",
                f'Unsupported value: [{quote(str(dry[0]))}]: supported values: "All"',
                "dryRun",
            )
            raise status.invalid("DeleteOptions", group="meta.k8s.io", name="", causes=[cause])
        policy = body.get("propagationPolicy", query.get("propagationPolicy"))
        if policy not in (None, "Foreground", "Background", "Orphan"):
            cause = status.Cause(
                "FieldValueNotSupported",
                f"Unsupported value: {quote(str(policy))}: supported values: "
                '"Foreground", "Background", "Orphan", "nil"',
                "propagationPolicy",
            )
            raise status.invalid("DeleteOptions", group="meta.k8s.io", name="", causes=[cause])
        return body

    def delete_collection(self, request: Request, target: Target, action: Action) -> Response:
        resource = target.resource
        if "deletecollection" not in resource.verbs:
            raise status.method_not_allowed()
        wanted = self._delete_options(request)
        options = read_list_options(request.query)
        page = list_objects(self._api.storage, resource, namespace=target.namespace, options=options)
        for obj in page.items:
            metadata = obj["metadata"]
            one = Target(_stored_as(resource), metadata.get("namespace", ""), metadata["name"])
            self._api.delete(
                one,
                preconditions={"uid": metadata["uid"]},
                dry_run=bool(wanted.get("dryRun")),
                grace_s=wanted.get("gracePeriodSeconds"),
            )
        body: Obj = {
            "kind": resource.list_kind,
            "apiVersion": resource.api_version,
            "metadata": page.metadata(),
            "items": [_without_type(as_seen(resource, obj)) for obj in page.items],
        }
        return json_response(200, body)


@contextmanager
def _warned(options: WriteOptions) -> Iterator[None]:
    """Let a refusal carry the warnings that came before it."""
    try:
        yield
    except status.StatusError as refused:
        refused.warnings = list(options.warnings)
        raise


def _key(resource: Resource) -> tuple[str, str]:
    return resource.alias_of or resource.key


def _stored_as(resource: Resource) -> Resource:
    return as_events_v1.stored if resource.alias_of else resource


def _without_type(obj: Obj) -> Obj:
    """Drop kind and apiVersion, which items of a built-in list do not have."""
    return {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}


def _check_initial_events(wanted: bool, match: str) -> None:
    why = ""
    if wanted and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    elif match and not wanted:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    if why:
        cause = status.Cause("FieldValueForbidden", f"Forbidden: {why}", "resourceVersionMatch")
        raise status.invalid("ListOptions", group="meta.k8s.io", name="", causes=[cause])
