"""Small helpers for tests of the sandbox: requests without sockets, objects, bounded waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from fencectl.sandbox import Response, Sandbox, make_request

Raw = dict[str, Any]
JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/flux-system/leases"
WAIT_S = 10.0


def ask(
    sandbox: Sandbox,
    method: str,
    path: str,
    body: Any = None,
    *,
    content_type: str = "",
    user: str = "",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Send one request through `handle`, without a socket."""
    sent = dict(headers or {})
    if content_type:
        sent["Content-Type"] = content_type
    return sandbox.handle(make_request(method, path, body=body, headers=sent, user=user))


def node(name: str, **spec: Any) -> Raw:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec}


def lease(name: str, holder: str | None = None, namespace: str = "flux-system") -> Raw:
    spec = {} if holder is None else {"holderIdentity": holder}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def config_map(name: str, namespace: str = "default", **data: str) -> Raw:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def kustomization(name: str, **spec: Any) -> Raw:
    return {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": {"name": name, "namespace": "flux-system"},
        "spec": {
            "interval": "10m",
            "prune": True,
            "sourceRef": {"kind": "GitRepository", "name": "flux-system"},
            **spec,
        },
    }


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, for a bounded time."""
    ends_at = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < ends_at, "the condition did not become true"
        threading.Event().wait(0.005)


class Background:
    """Run a function on a thread and hand its result over."""

    def __init__(self, action: Callable[[], Any]) -> None:
        self._result: list[Any] = []
        self._thread = threading.Thread(target=lambda: self._result.append(action()), daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> Any:
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive(), "still running"
        return self._result[0]
