"""
A `Getter` that answers from a script: for what no healthy API server says on demand.

Unless told otherwise it is a healthy cluster with nothing on it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from fencectl.cluster.answer import Answer
from fencectl.cluster.failures import Kind, Unreachable, WireError
from fencectl.cluster.ports import Query
from fencectl.core.errors import NotReadableError

Reply = Answer | NotReadableError
Script = Callable[[dict[str, str]], Reply]

NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/leases"
KUSTOMIZATIONS = "/apis/kustomize.toolkit.fluxcd.io/v1/kustomizations"
DATE = datetime(2026, 11, 30, 2, 47, 31, tzinfo=UTC)


def reply(body: Any = None, status: int = 200, *, date_at: datetime | None = DATE) -> Answer:
    """Make an answer; bytes and text are sent as they stand."""
    raw = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    return Answer(status, {}, raw, date_at, 0.0, 0.0)


def refusal(status: int, message: str, reason: str = "") -> Answer:
    """Make an error answer of the API."""
    return reply({"kind": "Status", "code": status, "reason": reason, "message": message}, status)


def unreachable(kind: Kind = Kind.REFUSED) -> Unreachable:
    """Make the failure of a server that does not answer."""
    return Unreachable(WireError(kind), context="prod", server="https://prod", tries=3, elapsed_s=15.0)


def listing(*items: Any, token: str = "", version: str = "7") -> dict[str, Any]:
    """Make one page of a list."""
    metadata = {"resourceVersion": version} | ({"continue": token} if token else {})
    return {"kind": "ThingList", "apiVersion": "v1", "metadata": metadata, "items": list(items)}


def thing(name: str, namespace: str | None = None, *, marks: Any = None, **fields: Any) -> dict[str, Any]:
    """Make an object as it stands in a list; `fields` are beside the metadata."""
    metadata: dict[str, Any] = {"name": name, "uid": f"uid-of-{name}"}
    if namespace is not None:
        metadata["namespace"] = namespace
    if marks is not None:
        metadata["annotations"] = marks
    return {"metadata": metadata, **fields}


class Scripted:
    """Answers by path; every request is kept in `requests`, in the order in which they came."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.accepts: list[str] = []
        self._scripts: dict[str, Script] = {}
        self._lock = threading.Lock()
        self.on("/apis", lambda _: reply({"kind": "APIGroupList", "groups": []}))
        self.on(NODES, lambda _: reply(listing()))
        self.on(LEASES, lambda _: reply(listing()))

    def on(self, path: str, script: Script | Reply) -> None:
        """Answer this path by a function of the query, or always the same."""
        self._scripts[path] = script if callable(script) else lambda _: script

    def on_flux(self, script: Script | Reply) -> None:
        """Serve one Flux kind, Kustomizations, in this way."""
        group = "kustomize.toolkit.fluxcd.io"
        resource = {
            "resource": "kustomizations",
            "responseKind": {"group": group, "version": "v1", "kind": "Kustomization"},
            "scope": "Namespaced",
            "verbs": ["get", "list", "watch"],
        }
        version = {"version": "v1", "freshness": "Current", "resources": [resource]}
        groups = [{"metadata": {"name": group}, "versions": [version]}]
        self.on("/apis", reply({"kind": "APIGroupDiscoveryList", "items": groups}))
        self.on(KUSTOMIZATIONS, script)

    def get(
        self,
        path: str,
        *,
        query: Query | None = None,
        accept: str = "application/json",
        deadline_s: float | None = None,
    ) -> Answer:
        asked = {key: str(value) for key, value in (query or {}).items()}
        with self._lock:
            self.requests.append((path, asked))
            self.accepts.append(accept)
        script = self._scripts.get(path)
        found = refusal(404, f"{path} not found", "NotFound") if script is None else script(asked)
        if isinstance(found, NotReadableError):
            raise found
        return found

    def stream(
        self,
        path: str,
        *,
        query: Query | None = None,
        accept: str = "application/json",
        idle_s: float = 60.0,
    ) -> Iterator[bytes]:
        raise AssertionError("nothing is watched here")

    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]


class DrivenClock:
    """A clock that a test moves; waiting moves it too."""

    def __init__(self, wall: datetime = DATE) -> None:
        self.now = wall
        self.elapsed_s = 0.0

    def wall(self) -> datetime:
        return self.now

    def monotonic_s(self) -> float:
        return self.elapsed_s

    def wait(self, event: threading.Event | None, timeout_s: float) -> bool:
        self.elapsed_s += timeout_s
        return event is not None and event.is_set()


def wait_until(condition: Callable[[], bool], *, within_s: float = 10.0) -> None:
    """Wait for a condition, and fail the test where it does not come true in time."""
    ends_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < ends_s, "the condition did not come true"
        time.sleep(0.01)
