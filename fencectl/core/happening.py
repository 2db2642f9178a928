"""
Kubernetes Events that tell the story of a fence on its object, for whoever describes that without this program.

Pure: a body for `events.k8s.io/v1`. They are evidence for people and nothing else: nothing here reads one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from fencectl.core.refs import ObjectRef
from fencectl.core.times import micro_time

CONTROLLER = "fencectl.dev/fencectl"
# As the server has it (`pkg/apis/core/validation/events.go`): noteLengthLimit, ReportingInstanceLengthLimit.
LONGEST_NOTE_BYTES = 1024
LONGEST_INSTANCE = 128


class Happening(StrEnum):
    """What happened to a fence; the `reason` of an Event."""

    FENCED = "Fenced"
    RELEASED = "Released"
    REFUSED = "RecoveryRefused"


_ACTIONS = {Happening.FENCED: "Fence", Happening.RELEASED: "Release", Happening.REFUSED: "Recover"}


def event_collection(ref: ObjectRef) -> str:
    """Where an Event of this object is created; what has no namespace has its own in `default`."""
    return f"/apis/events.k8s.io/v1/namespaces/{ref.namespace or 'default'}/events"


def event_of(ref: ObjectRef, what: Happening, note: str, *, teller: str, at: datetime) -> Mapping[str, Any]:
    """
    The Event.

    `note`: a sentence, cut to what the server takes; `teller`: the identity of the run that tells it. `at`: aware.
    """
    regarding = {"apiVersion": ref.api_version, "kind": ref.kind, "name": ref.name, "uid": ref.uid}
    if ref.namespace is not None:
        regarding["namespace"] = ref.namespace
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": "fencectl-", "namespace": ref.namespace or "default"},
        "eventTime": micro_time(at),
        "reportingController": CONTROLLER,
        "reportingInstance": teller[:LONGEST_INSTANCE],
        "action": _ACTIONS[what],
        "reason": what.value,
        "type": "Warning" if what is Happening.REFUSED else "Normal",
        "note": note.encode()[:LONGEST_NOTE_BYTES].decode(errors="ignore"),
        "regarding": regarding,
    }
