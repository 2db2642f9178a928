"""
The one module that writes to a cluster.

It takes guarded patches and configurations as they are, sends their very bytes once, and says what the answer
means. Nothing is repeated here: whether a lost answer may be followed by the same write again is for the caller to
know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

from fencectl.cluster import answer as wire
from fencectl.cluster.apply_answer import read_apply_answer
from fencectl.cluster.failures import NoAnswer
from fencectl.cluster.ports import Query
from fencectl.core.answers import Answer, ApplyAnswer, Refused, Unknown, Why, read_answer
from fencectl.core.applies import CONTENT_TYPE as APPLY_TYPE, Configuration
from fencectl.core.gojson import encode
from fencectl.core.patches import CONTENT_TYPE, GuardedPatch
from fencectl.core.profiles import FIELD_MANAGER
from fencectl.core.refs import ObjectRef

# How long one write may take. The API server itself gives up after 34 s; a shorter wait only loses the answer.
WRITE_DEADLINE_S = 35.0


class Sender(Protocol):
    """The part of the transport that changes something."""

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes,
        content_type: str,
        deadline_s: float | None = None,
    ) -> wire.Answer:
        """Send once; raises NoAnswer."""
        ...


def send(
    sender: Sender, patch: GuardedPatch, *, dry_run: bool = False, deadline_s: float = WRITE_DEADLINE_S
) -> Answer:
    """
    Send a guarded patch.

    `dry_run`: the server tests the guards, admits and validates, and stores nothing.
    """
    return _exchange(
        sender,
        "PATCH",
        patch.target.path,
        patch.body,
        CONTENT_TYPE,
        {"dryRun": "All"} if dry_run else {},
        deadline_s,
    )


def create(
    sender: Sender, collection: str, body: Mapping[str, Any], *, deadline_s: float = WRITE_DEADLINE_S
) -> Answer:
    """Create an object below `collection`, such as `/apis/coordination.k8s.io/v1/namespaces/x/leases`."""
    return _exchange(sender, "POST", collection, encode(dict(body)), "application/json", {}, deadline_s)


def apply(
    sender: Sender,
    configuration: Configuration,
    *,
    force: bool = False,
    dry_run: bool = False,
    deadline_s: float = WRITE_DEADLINE_S,
) -> ApplyAnswer:
    """
    Apply an object, server-side. `force`: take over fields that others own.

    The same configuration can be applied again and again: it says what shall be, not what shall change.
    """
    found = _ask(
        sender,
        "PATCH",
        configuration.target.path,
        configuration.body,
        APPLY_TYPE,
        {"force": "true" if force else "false", **({"dryRun": "All"} if dry_run else {})},
        deadline_s,
    )
    if isinstance(found, Refused | Unknown):
        return found
    return read_apply_answer(found, configuration.target)


def delete(
    sender: Sender, target: ObjectRef, resource_version: str | None, *, deadline_s: float = WRITE_DEADLINE_S
) -> Answer:
    """
    Delete an object as it was read: refused where it is another one by now, or was written meanwhile.

    `resource_version` None: however it was written since; for what cannot be changed.
    """
    version = {} if resource_version is None else {"resourceVersion": resource_version}
    body = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": target.uid, **version},
        "propagationPolicy": "Background",
    }
    found = _ask(sender, "DELETE", target.path, encode(body), "application/json", None, deadline_s)
    if isinstance(found, Refused | Unknown):
        return found
    return read_answer(found.status, _decode(found.body), retry_after="retry-after" in found.headers)


def _exchange(
    sender: Sender,
    method: str,
    path: str,
    body: str,
    content_type: str,
    more: Query,
    deadline_s: float,
) -> Answer:
    found = _ask(sender, method, path, body, content_type, more, deadline_s)
    if isinstance(found, Refused | Unknown):
        return found
    return read_answer(found.status, _decode(found.body), retry_after="retry-after" in found.headers)


def _ask(
    sender: Sender,
    method: str,
    path: str,
    body: str,
    content_type: str,
    more: Query | None,
    deadline_s: float,
) -> wire.Answer | Refused | Unknown:
    """Send once. `more`: what the query holds beside the manager; None: none of it (a deletion has no manager)."""
    # NB: a manager whose name starts with `kubectl` is taken over by kustomize-controller, marks and all.
    query = {} if more is None else {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict", **more}
    try:
        return sender.send(
            method,
            path,
            query=query,
            body=body.encode("utf-8"),
            content_type=content_type,
            deadline_s=deadline_s,
        )
    except NoAnswer as lost:
        detail = lost.cause_in_short
        return Unknown(detail) if lost.sent else Refused(Why.BUSY, 0, f"it was not sent: {detail}")


def _decode(body: bytes) -> Any:
    text = body.decode("utf-8", errors="replace")
    try:
        return json.loads(text)
    except ValueError:
        return text
