"""Events live once and are seen through two groups: core/v1 and events.k8s.io/v1."""

from __future__ import annotations

from fencectl.sandbox.gojson import Obj
from fencectl.sandbox.resources import Resource, built_in_resources

_RENAMED = (
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
)


_OMITTED = ("reportingController", "reportingInstance")


class _AsEventsV1:
    """The core resource that events of both groups are stored as."""

    stored: Resource = next(item for item in built_in_resources() if item.key == ("", "events"))


as_events_v1 = _AsEventsV1()


def as_stored(resource: Resource, sent: Obj) -> Obj:
    """Return what was sent as core/v1 spells it."""
    if not resource.alias_of:
        return sent
    out = {**sent, "apiVersion": "v1"}
    for theirs, ours in _RENAMED:
        if theirs in out:
            out[ours] = out.pop(theirs)
    return out


def as_seen(resource: Resource, obj: Obj) -> Obj:
    """Return a stored event as events.k8s.io/v1 spells it; anything else as it is."""
    if not resource.alias_of or obj.get("kind") != "Event":
        return obj
    out = {**obj, "apiVersion": resource.api_version}
    for theirs, ours in _RENAMED:
        if ours in out:
            out[theirs] = out.pop(ours)
    # NB: core/v1 writes these even when they are empty, this version does not.
    return {key: value for key, value in out.items() if value != "" or key not in _OMITTED}
