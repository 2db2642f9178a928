"""
One handle for both clusters that tests run on: the sandbox in this process and a real kube-apiserver.

What a test may rely on is the same on both. Everything goes through the API, by a client that is not the
product's own or by the real kubectl. Names come from `unique()`, because the real cluster is shared by the
tests of a session; whatever a test leaves there is taken away by `wipe()` after it.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import secrets
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import yaml

from tests.support.rawhttp import JSON, JSON_PATCH, MERGE_PATCH, Body, RawAnswer, RawClient, Server
from tests.support.realcluster import ADMIN, RealCluster, find_kubectl
from tests.support.things import (
    KEPT_NAMESPACES,
    KUSTOMIZE,
    LEASES,
    MADE_BY_TESTS,
    NODES,
    POLICY,
    RBAC,
    SOURCE,
    Raw,
    ensure_namespace,
    expect,
    grant,
    make_configmap,
    make_git_repository,
    make_kustomization,
    make_lease,
    make_namespace,
    make_node,
    managers_of,
    path_of,
)

if TYPE_CHECKING:
    from fencectl.sandbox import Sandbox

__all__ = [
    "KUSTOMIZE",
    "LEASES",
    "NODES",
    "POLICY",
    "RBAC",
    "SOURCE",
    "Backend",
    "Cluster",
    "Name",
    "Raw",
    "Watch",
    "ensure_namespace",
    "expect",
    "grant",
    "make_configmap",
    "make_git_repository",
    "make_kustomization",
    "make_lease",
    "make_namespace",
    "make_node",
    "managers_of",
    "path_of",
]

Name = Literal["sandbox", "real"]

KUBECTL_TIMEOUT_S = 60.0


# What tests make, as lists over all namespaces. Namespaces come last: emptied before they go.
_WIPED = (
    NODES,
    f"{LEASES}/leases",
    *(f"/apis/apps/v1/{plural}" for plural in ("deployments", "daemonsets", "statefulsets", "replicasets")),
    "/apis/batch/v1/jobs",
    "/api/v1/pods",
    f"{POLICY}/poddisruptionbudgets",
    "/api/v1/configmaps",
    "/api/v1/secrets",
    "/api/v1/events",
)
_RBAC_KINDS = tuple(
    f"{RBAC}/{plural}" for plural in ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
)
_NAMESPACES = "/api/v1/namespaces"
# A collection that objects are posted to; what is posted below an object (an eviction) leaves none.
_COLLECTION = re.compile(r"(/api/v1|/apis/[^/]+/[^/]+)(/namespaces/[^/]+)?/[a-z]+")

_counter = itertools.count(1)
# NB: not `random`, whose seed the test runner sets anew before each test: names would repeat.
_nonce = secrets.token_hex(3)


class Backend(Protocol):
    """What both clusters offer: where they are, and a kubeconfig for a user."""

    @property
    def url(self) -> str: ...

    def kubeconfig(self, user: str = ..., context: str = ...) -> str: ...


@dataclass(frozen=True, slots=True)
class Watch:
    """An open watch: `events()` yields each as decoded JSON until the server ends the stream."""

    response: HTTPResponse

    @property
    def status(self) -> int:
        return self.response.status

    def events(self) -> Iterator[Raw]:
        while line := self.response.readline():
            yield json.loads(line)

    def next(self) -> Raw:
        """Wait for one event; StopIteration when the stream has ended."""
        return next(self.events())


class Cluster:
    """A cluster under test, as the user `admin` unless a call says otherwise."""

    def __init__(self, name: Name, backend: Backend, folder: Path) -> None:
        self.name: Name = name
        self.backend = backend
        self._folder = folder
        self._clients: dict[str, RawClient] = {}
        self._lock = threading.Lock()
        self._flux: list[str] | None = None
        # Paths of what was created through this handle; None: others could write, so everything is looked through.
        self._made: list[str] | None = []

    def __repr__(self) -> str:
        return f"<Cluster {self.name}>"

    @property
    def url(self) -> str:
        self._made = None
        return self.backend.url

    def kubeconfig_file(self, user: str = ADMIN, *, context: str | None = None) -> Path:
        """Write a kubeconfig for the user, once, and say where it is."""
        self._made = None
        context = context or self.name
        path = self._folder / f"{user}@{context}.kubeconfig"
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(self.backend.kubeconfig(user=user, context=context))
        return path

    def kubectl_environment(self, user: str = ADMIN, *, context: str | None = None) -> dict[str, str]:
        """Give the environment in which kubectl (or a shell that calls it) talks to this cluster."""
        kubectl = Path(find_kubectl()).parent
        return {
            "PATH": f"{kubectl}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "HOME": str(self._folder),
            "KUBECONFIG": str(self.kubeconfig_file(user, context=context)),
        }

    def kubectl(
        self,
        *args: str,
        user: str = ADMIN,
        input: str | None = None,  # noqa: A002 -- as subprocess.run calls it
        check: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run the real kubectl as a user."""
        done = subprocess.run(
            [find_kubectl(), *args],
            input=input,
            capture_output=True,
            text=True,
            env={**self.kubectl_environment(user), **(env or {})},
            timeout=KUBECTL_TIMEOUT_S,
            check=False,
        )
        if check:
            assert done.returncode == 0, f"kubectl {' '.join(args)}: {done.returncode}\n{done.stderr}"
        return done

    def client(self, user: str = ADMIN) -> RawClient:
        """Give the kept-alive client of one user."""
        self._made = None
        return self._client(user)

    def _client(self, user: str) -> RawClient:
        with self._lock:
            if user not in self._clients:
                self._clients[user] = RawClient(_server_of(self.backend.kubeconfig(user=user, context=self.name)))
            return self._clients[user]

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Body = None,
        content_type: str | None = None,
        accept: str | None = JSON,
        headers: Mapping[str, str] | None = None,
        user: str = ADMIN,
        query: Mapping[str, Any] | str | None = None,
    ) -> RawAnswer:
        """Send one request as it stands and give the whole answer, whatever its status."""
        answer = self._client(user).request(
            method, path, query=query, body=body, content_type=content_type, accept=accept, headers=headers
        )
        if answer.status == 201 and self._made is not None:
            if method != "POST":
                self._made.append(path)
            elif _COLLECTION.fullmatch(path) and (name := answer.json().get("metadata", {}).get("name")):
                self._made.append(f"{path}/{name}")
        return answer

    def get(self, path: str, **query: Any) -> Raw:
        """Read an object or a list that must be there."""
        return expect(self.request("GET", path, query=query), 200)

    def create(self, collection: str, obj: Raw) -> Raw:
        """Create an object that must be accepted."""
        return expect(self.request("POST", collection, body=obj), 201)

    def json_patch(self, path: str, ops: list[Raw] | str, *, manager: str = "fencectl", **query: Any) -> RawAnswer:
        """Send a JSON patch, encoded plainly; text is sent as it stands."""
        return self.request(
            "PATCH", path, body=ops, content_type=JSON_PATCH, query={"fieldManager": manager, **query}
        )

    def merge_patch(self, path: str, patch: Raw, *, manager: str = "fencectl", **query: Any) -> RawAnswer:
        return self.request(
            "PATCH", path, body=patch, content_type=MERGE_PATCH, query={"fieldManager": manager, **query}
        )

    @contextmanager
    def watch(
        self,
        path: str,
        *,
        accept: str = JSON,
        headers: Mapping[str, str] | None = None,
        user: str = ADMIN,
        timeout_s: float = 15.0,
        **query: Any,
    ) -> Iterator[Watch]:
        """Open a watch; a server that stays silent for `timeout_s` fails the test."""
        stream: AbstractContextManager[HTTPResponse] = self._client(user).stream(
            path, query={"watch": "1", **query}, accept=accept, headers=headers, timeout_s=timeout_s
        )
        with stream as response:
            yield Watch(response)

    def unique(self, prefix: str) -> str:
        """Give a name that no other test of this or any other run uses."""
        return f"{prefix}-{_nonce}-{next(_counter)}"

    def expire(self, token: str = "") -> str:
        """
        Make the server forget its history, and give a `continue` token that is too old for it.

        The real server's cache goes on serving pages that it still holds; its token is set back to a time
        before that, as a token is after five minutes.
        """
        if isinstance(self.backend, RealCluster):
            self.backend.compact()
            if not token:
                return ""
            inner = json.loads(base64.urlsafe_b64decode(token + "=="))
            text = json.dumps({**inner, "rv": 1}, separators=(",", ":")).encode()
            return base64.urlsafe_b64encode(text).decode().rstrip("=")
        self.sandbox.faults.expire()
        return token

    def sandbox_grant(self, user: str, rules: Iterable[Raw], *, namespace: str | None) -> None:
        """Add rules to a user of the sandbox, which has no RBAC objects in force."""
        from fencectl.sandbox import Rule

        users = self.sandbox.users
        known = users.named(user)
        added = [
            Rule(
                tuple(rule["verbs"]),
                tuple(
                    f"{name}.{group}" if group else name
                    for group in rule["apiGroups"]
                    for name in rule["resources"]
                ),
                ("*",) if namespace is None else (namespace,),
                tuple(rule.get("resourceNames", ())),
            )
            for rule in rules
        ]
        users.add(user, rules=[*(known.rules if known else ()), *added])

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox behind this handle, for what can only be scripted there."""
        from fencectl.sandbox import Sandbox

        assert isinstance(self.backend, Sandbox)
        return self.backend

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def wipe(self, *, everything: bool = False) -> None:
        """
        Take away what tests make: nodes, Flux objects, leases, configmaps, secrets, pods, roles, namespaces.

        Deletes only what was created through this handle, unless somebody else could have created something
        (kubectl, or whoever was given a kubeconfig or the address), or `everything` is asked for.
        """
        made, self._made = self._made, []
        if made is not None and not everything:
            # Last made, first deleted, so that a namespace goes after what is in it.
            for path in reversed(made):
                answer = self.request("GET", path)
                if answer.status == 200:
                    self._delete(path, answer.json())
            return
        for collection in (*_WIPED, *self._flux_collections(), *_RBAC_KINDS, _NAMESPACES):
            selector = {"labelSelector": MADE_BY_TESTS} if collection in _RBAC_KINDS else {}
            for item in self._items(collection, **selector):
                self._delete(_path_in(collection, item), item)

    def _items(self, collection: str, **query: Any) -> list[Raw]:
        answer = self.request("GET", collection, query=query)
        if answer.status == 404:
            return []
        return [
            item
            for item in expect(answer, 200).get("items") or []
            if item["metadata"].get("namespace", "") not in KEPT_NAMESPACES - {"default"}
            and item["metadata"]["name"] not in KEPT_NAMESPACES | {"kube-root-ca.crt"}
        ]

    def _delete(self, path: str, item: Raw) -> None:
        if item["metadata"].get("finalizers"):
            self.merge_patch(path, {"metadata": {"finalizers": None}})
        answer = self.request("DELETE", path, query={"gracePeriodSeconds": 0})
        assert answer.status in (200, 202, 404, 409), answer.text
        if path.startswith(_NAMESPACES) and path.count("/") == 4:
            # No namespace controller runs here, so the last finalizer is ours to take.
            finalized = {"metadata": {"name": item["metadata"]["name"]}, "spec": {"finalizers": []}}
            self.request("PUT", f"{path}/finalize", body=finalized)

    def _flux_collections(self) -> list[str]:
        if self._flux is not None:
            return self._flux
        found: list[str] = []
        for group in self.get("/apis")["groups"]:
            if group["name"].endswith(".toolkit.fluxcd.io"):
                version = group["preferredVersion"]["groupVersion"]
                found += [
                    f"/apis/{version}/{resource['name']}"
                    for resource in self.get(f"/apis/{version}")["resources"]
                    if "/" not in resource["name"]
                ]
        self._flux = found
        return found


def _server_of(kubeconfig: str) -> Server:
    config = yaml.load(kubeconfig, Loader=yaml.CSafeLoader)
    cluster = config["clusters"][0]["cluster"]
    ca = cluster.get("certificate-authority-data")
    user = config["users"][0]["user"] if config.get("users") else {}
    return Server(
        cluster["server"],
        token=(user or {}).get("token"),
        ca_pem=None if ca is None else _decoded(ca),
    )


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode()


def _path_in(collection: str, item: Raw) -> str:
    metadata = item["metadata"]
    base, _, plural = collection.rpartition("/")
    within = f"/namespaces/{metadata['namespace']}" if metadata.get("namespace") else ""
    return f"{base}{within}/{plural}/{metadata['name']}"
