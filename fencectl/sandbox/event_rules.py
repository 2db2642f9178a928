"""What the server checks in an event; written through events.k8s.io it asks for more."""

from __future__ import annotations

from collections.abc import Callable

from fencectl.sandbox.gojson import Obj, quote
from fencectl.sandbox.status import Cause

TEXT_LIMIT, NOTE_LIMIT = 128, 1024


def _invalid(value: str, why: str, where: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {quote(value)}: {why}", where)


def _required(where: str) -> Cause:
    return Cause("FieldValueRequired", "Required value", where)


def event_findings(event: Obj, *, strict: bool, name_problems: Callable[[str], list[str]]) -> list[Cause]:
    """Return what is wrong. `strict`: it came through events.k8s.io."""
    about = event.get("involvedObject") or {}
    namespace, theirs = event["metadata"].get("namespace", ""), about.get("namespace", "")
    causes = []
    elsewhere = _invalid(theirs, "does not match event.namespace", "involvedObject.namespace")
    if event.get("eventTime") is None:
        allowed = (theirs,) if theirs else ("", "default")
        if namespace not in allowed:
            causes.append(elsewhere)
    else:
        if not theirs and namespace not in ("default", "kube-system"):
            causes.append(elsewhere)
        causes += _reported(event, strict=strict, name_problems=name_problems)
    return causes + _strict(event) if strict else causes


def _reported(event: Obj, *, strict: bool, name_problems: Callable[[str], list[str]]) -> list[Cause]:
    where = "reportingController" if strict else "reportingComponent"
    reporter = event.get("reportingComponent") or ""
    causes = [] if reporter else [_required(where)]
    causes += [Cause("FieldValueInvalid", text, where) for text in name_problems(reporter)]
    for name in ("reportingInstance", "action", "reason"):
        value = event.get(name) or ""
        if not value:
            causes.append(_required(name))
        if len(value) > TEXT_LIMIT:
            causes.append(_invalid("", f"can have at most {TEXT_LIMIT} characters", name))
    if len(event.get("message") or "") > NOTE_LIMIT:
        causes.append(_invalid("", f"can have at most {NOTE_LIMIT} characters", "message"))
    return causes


def _strict(event: Obj) -> list[Cause]:
    causes = [] if event.get("eventTime") else [_required("eventTime")]
    kind = event.get("type") or ""
    if kind not in ("Normal", "Warning"):
        causes.append(_invalid("", f"has invalid value: {kind}", "type"))
    old = ("firstTimestamp", "lastTimestamp", "count", "source")
    return causes + [_invalid("", "needs to be unset", name) for name in old if event.get(name)]
