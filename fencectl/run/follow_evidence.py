"""
What failing pods left behind: warnings about them, and the last lines that the container wrote.

Best effort and bounded: a log that cannot be read is said, and changes no verdict. All of it is foreign text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fencectl.cluster.answer import Answer, read_refusal
from fencectl.cluster.clock import Clock
from fencectl.cluster.pages import METADATA_ONLY
from fencectl.cluster.ports import Getter
from fencectl.cluster.read import ReadFailedError, path_part
from fencectl.cluster.structs import BadPageError, decode_object
from fencectl.core.errors import NotReadableError
from fencectl.core.refs import Raw, dig, text_or_none
from fencectl.core.rollout import Cause, EventLine, PodEvidence, PodTrouble, Result, RolloutVerdict
from fencectl.core.rollout_flux import STUCK, helm_records, helm_release_of

PODS_EACH, PODS_AT_ALL = 3, 8
EVENTS, LOG_LINES = 3, 10
# One line of a log may be a whole document.
_LOG_BYTES = 16_384
READ_S = 2.0
BUDGET_S = 8.0
_SPEAKS = frozenset({RolloutVerdict.FAILED, RolloutVerdict.TIMED_OUT})
_ANY = "text/plain, application/json, */*"


@dataclass
class Evidence:
    """Gathers for one follow, within one budget of time. `must_stop`: asked before each read."""

    getter: Getter
    clock: Clock
    must_stop: Callable[[], str | None]
    _left: int = PODS_AT_ALL
    _end_s: float = 0.0

    def gather(
        self, results: Sequence[Result], troubles: Sequence[Sequence[PodTrouble]], objects: Sequence[Raw | None]
    ) -> list[Result]:
        """Give the results, in the same order, with what their pods (or Helm) left behind."""
        self._end_s = self.clock.monotonic_s() + BUDGET_S
        return [self._of(*one) for one in zip(results, troubles, objects, strict=True)]

    def _of(self, result: Result, troubles: Sequence[PodTrouble], raw: Raw | None) -> Result:
        if result.verdict not in _SPEAKS:
            return replace(result, pods=tuple(PodEvidence(one) for one in troubles))
        found: list[PodEvidence] = []
        for number, one in enumerate(troubles):
            is_asked = number < PODS_EACH and self._left > 0 and one.cause is not Cause.NODE
            self._left -= is_asked
            found.append(self._of_pod(one) if is_asked else PodEvidence(one))
        ref = result.target.ref
        events: tuple[EventLine, ...] = ()
        if raw is not None and result.reason.startswith(STUCK):
            events = self._helm(raw)
        elif not found and ref.namespace is not None:
            events, _ = self._events(ref.namespace, ref.uid)
        return replace(result, pods=tuple(found), events=events)

    def _of_pod(self, one: PodTrouble) -> PodEvidence:
        events, no_events = self._events(one.namespace, one.uid)
        missing = [no_events] if no_events else []
        log: tuple[str, ...] = ()
        previous = one.cause is not Cause.POD
        if one.container is not None and one.exit_code is not None:
            found = self._log(one, previous=previous)
            if isinstance(found, Answer) and found.status == 400 and previous:
                # NB: there is no run before this one, or its log is gone.
                previous = False
                found = self._log(one, previous=False)
            if isinstance(found, Answer) and found.ok:
                log = tuple(found.body.decode("utf-8", "replace").splitlines()[-LOG_LINES:])
            else:
                missing.append(f"log: {_why(found)}")
        return PodEvidence(one, events, log, one.container if log else None, previous, tuple(missing))

    def _log(self, one: PodTrouble, *, previous: bool) -> Answer | str:
        query: dict[str, str | int] = {
            "container": one.container or "",
            "tailLines": LOG_LINES,
            "limitBytes": _LOG_BYTES,
        }
        if previous:
            query["previous"] = "true"
        return self._get(("pods", one.namespace, one.pod, "log"), query, _ANY)

    def _helm(self, raw: Raw) -> tuple[EventLine, ...]:
        """What the labels of Helm's records say; nothing where they may not be listed."""
        namespace, name = helm_release_of(raw)
        query: dict[str, str | int] = {"labelSelector": f"owner=helm,name={name}", "limit": 100}
        found = self._get(("secrets", namespace), query, METADATA_ONLY)
        if not isinstance(found, Answer) or not found.ok:
            return ()
        try:
            items = decode_object(found.body).get("items")
        except BadPageError:
            return ()
        return helm_records(items if isinstance(items, list) else ())

    def _events(self, namespace: str, uid: str) -> tuple[tuple[EventLine, ...], str | None]:
        """The newest warnings about an object, and why there are none to be had."""
        if not uid:
            return (), None
        try:
            selector = f"involvedObject.uid={path_part(uid)},type=Warning"
        except ReadFailedError as bad:
            return (), f"events: {bad.why}"
        found = self._get(("events", namespace), {"fieldSelector": selector, "limit": 100}, "application/json")
        if not isinstance(found, Answer) or not found.ok:
            return (), f"events: {_why(found)}"
        try:
            items = decode_object(found.body).get("items")
        except BadPageError:
            return (), "events: the answer could not be decoded"
        lines = [_line(one) for one in (items if isinstance(items, list) else ()) if isinstance(one, dict)]
        return tuple(sorted(lines, key=lambda one: one.at)[-EVENTS:]), None

    def _get(self, where: tuple[str, ...], query: dict[str, str | int], accept: str) -> Answer | str:
        """Ask for `plural, namespace[, name[, subresource]]`; a text says why there is no answer."""
        if self.must_stop() is not None:
            return "not asked: the follow was stopped"
        left_s = min(READ_S, self._end_s - self.clock.monotonic_s())
        if left_s <= 0:
            return "not asked: no time was left"
        try:
            plural, namespace, *rest = (path_part(one) for one in where)
            path = "/".join(["/api/v1/namespaces", namespace, plural, *rest])
            return self.getter.get(path, query=query, accept=accept, deadline_s=left_s)
        except ReadFailedError as bad:
            return bad.why
        except NotReadableError as failed:
            return failed.sentence


def _why(found: Answer | str) -> str:
    return found if isinstance(found, str) else f"{found.status}: {read_refusal(found).message}"


def _line(event: dict[str, Any]) -> EventLine:
    at = next(
        (
            text
            for keys in (("series", "lastObservedTime"), ("lastTimestamp",), ("eventTime",), ("firstTimestamp",))
            if (text := text_or_none(dig(event, *keys)))
        ),
        "",
    )
    times = dig(event, "series", "count") or event.get("count")
    return EventLine(
        at,
        text_or_none(event.get("reason")) or "",
        text_or_none(event.get("message")) or "",
        times if type(times) is int and times > 0 else 1,
    )
