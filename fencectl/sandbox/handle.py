"""
From a request to a response, without sockets and without threads of its own.

The order is the real server's: who asks, may they, does the resource exist, then the verb. Faults strike
before the verb, and after it where they lose the answer.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from fencectl.sandbox import discovery, status
from fencectl.sandbox.api import Api
from fencectl.sandbox.bodies import read_body
from fencectl.sandbox.faults import Faults
from fencectl.sandbox.negotiate import MEDIA_TYPES, clauses, not_served
from fencectl.sandbox.openapi import openapi_response
from fencectl.sandbox.options import read_options
from fencectl.sandbox.requestlog import LoggedRequest, RequestLog
from fencectl.sandbox.requests import (
    Action,
    Request,
    Response,
    json_response,
    read_action,
    text_response,
)
from fencectl.sandbox.resources import Resource
from fencectl.sandbox.reviews import review
from fencectl.sandbox.targets import Target
from fencectl.sandbox.users import User, Users, forbidden, forbidden_path
from fencectl.sandbox.verbs import Verbs

MAX_BODY = 3 * 1024 * 1024
_Running = tuple[Action, Request, str]
_running: contextvars.ContextVar[_Running | None] = contextvars.ContextVar("running", default=None)


@dataclass(slots=True)
class Handler:
    """Answers requests."""

    api: Api
    users: Users
    faults: Faults
    log: RequestLog
    aggregated_discovery: bool = True
    _verbs: Verbs = field(init=False)

    def __post_init__(self) -> None:
        self._verbs = Verbs(self.api)
        self.api.between = self._between

    def handle(self, request: Request) -> Response:
        """Answer one request; every refusal is an answer, never an exception."""
        action = read_action(request)
        name = ""
        try:
            user = self.users.of(request, action)
            name = user.name
            response = self._answer(request, action, user)
        except status.StatusError as refused:
            response = json_response(refused.code, refused.body, warnings=refused.warnings)
            if refused.code == 403:
                response.headers["X-Content-Type-Options"] = "nosniff"
            wait_s = (refused.details or {}).get("retryAfterSeconds")
            if wait_s:
                response.headers["Retry-After"] = str(wait_s)
            response.headers.update(refused.headers)
        except status.PlainTextError as refused:
            response = text_response(refused.code, refused.text, headers=refused.headers)
        self.log.add(
            LoggedRequest(
                request.method,
                request.path,
                request.query,
                request.headers,
                request.body,
                0 if response.drop else response.status,
                name,
                action.verb,
                action.resource,
            )
        )
        return response

    def _between(self, target: Target, verb: str) -> None:
        running = _running.get()
        if running is None:
            return
        action, request, user = running
        for fault in self.faults.strike(("on",), action=action, request=request, user=user):
            if fault.action is None:
                continue
            # NB: what the callback does is another writer's; it must not strike itself.
            token = _running.set(None)
            try:
                fault.action()
            finally:
                _running.reset(token)

    def _answer(self, request: Request, action: Action, user: User) -> Response:
        early = self.faults.before(action=action, request=request, user=user.name)
        if early is not None:
            return early
        token = _running.set((action, request, user.name))
        try:
            response = self._resource(request, action, user) if action.resource else self._other(request, user)
        finally:
            _running.reset(token)
        if self.faults.strike(("drop_after",), action=action, request=request, user=user.name):
            return Response(drop=True)
        return response

    # -- what is no resource

    def _other(self, request: Request, user: User) -> Response:
        path = request.path.rstrip("/") or "/"
        if not is_open(path) and not user.may(Action("get", "nonresource", name=path)):
            raise forbidden_path(user, request.method.lower(), request.path)
        if path in ("/healthz", "/readyz", "/livez"):
            return text_response(200, "ok", headers={"X-Content-Type-Options": "nosniff"})
        if path == "/":
            return json_response(200, {"paths": discovery.paths(self.api.resources)})
        if path == "/version":
            return json_response(200, discovery.VERSION)
        if path in ("/api", "/apis"):
            return self._groups(request, core=path == "/api")
        parts = path.strip("/").split("/")
        if parts[0] == "api" and len(parts) == 2:
            return self._version("", parts[1])
        if parts[0] == "apis" and len(parts) == 3:
            return self._version(parts[1], parts[2])
        if parts[0] == "apis" and len(parts) == 2:
            versions = discovery.groups(self.api.resources).get(parts[1])
            if versions:
                group = discovery.api_group(parts[1], versions)
                return json_response(200, {"kind": "APIGroup", "apiVersion": "v1", **group})
        if parts[0] == "openapi":
            found = openapi_response(self.api.resources, request)
            if found is not None:
                return found
        if parts[0] == "api":
            raise status.path_not_found()
        raise _page_not_found()

    def _groups(self, request: Request, *, core: bool) -> Response:
        table = self.api.resources
        plain = discovery.api_versions(request.headers.get("host", "")) if core else discovery.group_list(table)
        accept = request.headers.get("accept", "")
        if not accept.strip():
            return json_response(200, plain)
        for media, params in clauses(accept):
            if media not in ("application/json", "*/*", "application/*"):
                continue
            wanted = params.get("as", "")
            if not wanted:
                return json_response(200, plain)
            fits = (
                wanted == discovery.AGGREGATED
                and params.get("g") == "apidiscovery.k8s.io"
                and params.get("v") == "v2"
            )
            if fits and self.aggregated_discovery:
                response = json_response(200, discovery.aggregated(table, core=core))
                response.headers["Content-Type"] = (
                    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
                )
                response.headers["Vary"] = "Accept"
                response.headers["Cache-Control"] = "public"
                return response
        if any(media in MEDIA_TYPES for media, _ in clauses(accept)):
            raise status.not_acceptable(MEDIA_TYPES)
        raise not_served()

    def _version(self, group: str, version: str) -> Response:
        found = discovery.resource_list(self.api.resources, group=group, version=version)
        if found is None:
            raise status.path_not_found() if not group else _page_not_found()
        return json_response(200, found)

    # -- resources

    def _resource(self, request: Request, action: Action, user: User) -> Response:
        for plural, kind in discovery.REVIEWS.get((action.group, action.version), ()):
            if plural == action.resource and not action.name:
                if request.method != "POST":
                    raise status.method_not_allowed()
                body = read_body(request)
                manager = read_options(
                    request.query, user_agent=request.headers.get("user-agent", ""), kind="CreateOptions"
                ).manager
                made = review(kind, body=body, user=user, created_at=self.api.now(), manager=manager)
                return json_response(201, made)
        named = _named_by_selector(request, action)
        if not user.may(named):
            raise forbidden(user, named)
        resource = self.api.resources.find(group=action.group, version=action.version, plural=action.resource)
        if resource is None or (action.namespace and not resource.namespaced and resource.kind != "Namespace"):
            raise _page_not_found() if not self._knows(action) else status.path_not_found()
        if len(request.body) > MAX_BODY:
            raise status.too_large(f"Request entity too large: limit is {MAX_BODY}")
        return self._dispatch(request, action, resource, user)

    def _knows(self, action: Action) -> bool:
        """Say whether this version has built-in kinds: those of custom kinds alone are routed otherwise."""
        return any(
            (resource.group, resource.version) == (action.group, action.version) and not resource.custom
            for resource in self.api.resources.all()
        )

    def _dispatch(self, request: Request, action: Action, resource: Resource, user: User) -> Response:
        if action.subresource and action.subresource not in resource.subresources:
            raise status.path_not_found()
        namespace = action.namespace if resource.namespaced else ""
        if action.name and resource.namespaced and not namespace:
            raise status.path_not_found()
        if action.verb in ("create", "deletecollection") and resource.namespaced and not namespace:
            raise status.method_not_allowed()
        target = Target(resource, namespace, action.name)
        verbs: dict[str, Callable[[Request, Target, Action], Response]] = {
            "get": self._verbs.get,
            "list": self._verbs.list,
            "watch": self._verbs.watch,
            "create": self._verbs.create,
            "update": self._verbs.update,
            "patch": self._verbs.patch,
            "delete": self._verbs.delete,
            "deletecollection": self._verbs.delete_collection,
        }
        if action.verb == "create" and action.name and not action.subresource:
            raise status.method_not_allowed()
        if action.verb in ("update", "patch") and not action.name:
            raise status.method_not_allowed()
        return verbs[action.verb](request, target, action)


def _named_by_selector(request: Request, action: Action) -> Action:
    """Take the name of a list that selects one object: rights on that name are enough for it."""
    if action.name or action.verb not in ("list", "watch", "deletecollection"):
        return action
    for part in request.query.get("fieldSelector", "").split(","):
        key, _, value = part.replace("==", "=").partition("=")
        if key == "metadata.name" and value:
            return replace(action, name=value)
    return action


def _page_not_found() -> status.PlainTextError:
    return status.PlainTextError(404, "404 page not found\n", headers={"X-Content-Type-Options": "nosniff"})


def is_open(path: str) -> bool:
    """Say whether everybody may read this path."""
    if path in ("/healthz", "/readyz", "/livez", "/version"):
        return True
    return path.split("/")[1] in ("api", "apis", "openapi")
