"""Reads of a roll: what may pass by itself is told apart from what a person must mend."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from typing import TypeVar

from fencectl.cluster.answer import Answer, read_refusal
from fencectl.cluster.clock import Clock
from fencectl.cluster.failures import Unreachable
from fencectl.cluster.ports import Query
from fencectl.core.drain import Pod, read_pod
from fencectl.core.errors import NotReadableError
from fencectl.core.refs import ObjectRef, Raw, Seen, dig
from fencectl.run.nodes_errors import NodeGoneError, TroubleError
from fencectl.run.ports import Door
from fencectl.run.story import WRITE_S

PAGE_SIZE = 500
_USER = re.compile(r'User "((?:[^"\\]|\\.)*)" cannot ')

_Result = TypeVar("_Result")
Steps = Generator[None, None, _Result]
"""Work that gives control back whenever it waits, so that one thread rolls several nodes."""


def pause(clock: Clock, seconds: float) -> Steps[None]:
    """Wait without keeping the others from going on."""
    end_s = clock.monotonic_s() + seconds
    while clock.monotonic_s() < end_s:
        yield


def look(door: Door, path: str, *, right: str, query: Query | None = None) -> Raw | None:
    """
    Read one object or page; None: it is not there.

    `right`: what the read needs, for the message. Raises TroubleError where another try may go well,
    NotReadableError where the right is missing.
    """
    try:
        found = door.get(path, query=query, deadline_s=WRITE_S)
    except Unreachable as failure:
        raise TroubleError(failure.cause_in_short) from failure
    if found.status == 404:
        return None
    if found.status == 403:
        raise forbidden(found, right)
    if not found.ok:
        raise TroubleError(f"the API server answers {found.status}: {read_refusal(found).message}")
    try:
        raw: Raw = json.loads(found.body)
    except ValueError as broken:
        raise TroubleError("the answer could not be decoded") from broken
    return raw


def forbidden(answer: Answer, right: str) -> NotReadableError:
    """Name the right that is missing, and who lacks it."""
    message = read_refusal(answer).message
    user = _USER.search(message)
    if user is None:
        return NotReadableError(f"the API server forbids to {right}", reason=message)
    who = re.sub(r"\\(.)", r"\1", user.group(1))
    return NotReadableError(f"user {who} may not {right}")


def look_at_node(door: Door, ref: ObjectRef) -> Seen:
    """Read a node of which the uid is known; raises NodeGoneError."""
    raw = look(door, ref.path, right="`get` nodes (cluster scope)")
    if raw is None:
        raise NodeGoneError(anew=False)
    if dig(raw, "metadata", "uid") != ref.uid:
        raise NodeGoneError(anew=True)
    return Seen(ref, raw)


def pods_on(door: Door, node: str) -> list[Pod]:
    """List the pods of a node; the pages are of one moment."""
    found: list[Pod] = []
    token = ""
    while True:
        query: dict[str, str | int] = {"fieldSelector": f"spec.nodeName={node}", "limit": PAGE_SIZE}
        if token:
            query["continue"] = token
        # NB: an expired token is trouble, and the next round begins with the first page again.
        page = look(door, "/api/v1/pods", right="`list` pods (cluster scope)", query=query)
        items = dig(page, "items")
        if page is None or not isinstance(items, list | None):
            raise TroubleError("the list of pods could not be decoded")
        found += [read_pod(item) for item in items or []]
        token = str(dig(page, "metadata", "continue") or "")
        if not token:
            return found
