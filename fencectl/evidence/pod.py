"""
What the API server says about the pod that a holder runs in.

Only the kubelet's word that *this* container has terminated is proof. A pod that is gone was perhaps deleted by
force while its node could not be reached, and its process writes on; so was one that came anew under its name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from fencectl.core.errors import NotReadableError
from fencectl.core.facts import Fact, State, Subject
from fencectl.core.identity import HolderKind
from fencectl.core.reader import Reader, Reply
from fencectl.core.refs import Raw, dig, text_or_none
from fencectl.core.times import clock_text, parse_time

OVERDUE = timedelta(seconds=60)
"""How long after its grace a pod that is being deleted may still be said to run by a kubelet that is heard."""

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
_MAYBE_CUT = re.compile(r".{60,}-[0-9a-f]{8}", re.ASCII)
_KINDS = (
    ("containers", "containerStatuses"),
    ("initContainers", "initContainerStatuses"),
    ("ephemeralContainers", "ephemeralContainerStatuses"),
)
_NOT_LOCATED = "ContainerStatusUnknown"
_STATES = ("running", "waiting", "terminated")


@dataclass(frozen=True, slots=True)
class RecordedPod:
    """The pod that a holder recorded. `uid` and `container` are None where nothing tells them."""

    namespace: str
    name: str
    uid: str | None
    container: str | None
    maybe_cut: bool = False

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    @property
    def display(self) -> str:
        return f"pod {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class _Finding:
    state: State
    answer: str


def ask_pod(subject: Subject, reader: Reader, *, at: datetime, deadline_s: float | None = None) -> Fact | None:
    """Read a holder's pod; None where it runs in none that is known. `at`: now, on the API server's clock."""
    recorded = recorded_pod(subject)
    if recorded is None:
        return None
    try:
        reply = reader.get(recorded.path, deadline_s=deadline_s)
    except NotReadableError as failed:
        found = _unknown(f"not answered: {failed.sentence}")
    else:
        found = _read(reply, recorded, at)
    return Fact(found.state, question_about(recorded), found.answer, at)


def recorded_pod(subject: Subject) -> RecordedPod | None:
    """The pod that a holder runs in, from its own journal, else its identity; None where neither names one."""
    holder, journal = subject.holder, subject.journal
    own = journal is not None and journal.holder == holder.identity
    details: Mapping[str, Any] = (journal.details or {}) if journal is not None and own else {}
    namespace, name = _match(_LABEL, details.get("pod_namespace")), _match(_NAME, details.get("pod_name"))
    uid = text_or_none(details.get("pod_uid")) or None
    if namespace is not None and name is not None and (uid is not None or holder.kind is HolderKind.POD):
        return RecordedPod(namespace, name, uid, _match(_LABEL, details.get("container")))
    if holder.kind is not HolderKind.POD:
        return None
    namespace, name = _match(_LABEL, holder.pod_namespace), _match(_NAME, holder.pod_name)
    if namespace is None or name is None:
        return None
    return RecordedPod(namespace, name, None, None, maybe_cut=_MAYBE_CUT.fullmatch(name) is not None)


def question_about(recorded: RecordedPod) -> str:
    """What is asked."""
    what = f"container {recorded.container} of {recorded.display}" if recorded.container else recorded.display
    return f"has {what} ended?"


def _read(reply: Reply, recorded: RecordedPod, at: datetime) -> _Finding:
    body = _decode(reply.body)
    if reply.status == 404:
        return _missing(body, recorded)
    if reply.status in (401, 403):
        return _unknown(f"forbidden: may not `get` pods (namespace {recorded.namespace})")
    if reply.status != 200:
        # NB: the server's own text may quote a whole object.
        return _unknown(f"the API server answered {reply.status}")
    uid = dig(body, "metadata", "uid")
    if body is None or body.get("kind") != "Pod" or not isinstance(uid, str) or not uid:
        return _unknown("the answer is no pod")
    if (dig(body, "metadata", "namespace"), dig(body, "metadata", "name")) != (recorded.namespace, recorded.name):
        return _unknown("the answer is another pod")
    if recorded.uid is None:
        return _unknown(f"{recorded.display} exists, but whether it is this one is not known: no uid is recorded")
    if uid != recorded.uid:
        return _Finding(State.VANISHED, f"gone: {recorded.display} was made anew, and nobody saw the old one end")
    return _containers(body, recorded, at)


def _missing(body: Raw | None, recorded: RecordedPod) -> _Finding:
    """
    Say what a 404 proves.

    NB: proxies answer 404 too, for all kinds of reasons; only the API server's own word on this very pod counts.
    """
    named = (dig(body, "details", "kind"), dig(body, "details", "name"))
    if dig(body, "reason") != "NotFound" or named != ("pods", recorded.name):
        return _unknown("a 404 that does not name the pod")
    if recorded.maybe_cut:
        return _unknown(f"there is no {recorded.display}, but its name may have been cut")
    return _Finding(State.VANISHED, f"gone: there is no {recorded.display} on this cluster, and nobody saw it end")


def _containers(pod: Raw, recorded: RecordedPod, at: datetime) -> _Finding:
    states = dict(_states(pod))
    if recorded.container is not None:
        if recorded.container not in states:
            return _unknown(f"{recorded.display} has no container {recorded.container}")
        states = {recorded.container: states[recorded.container]}
    if not states:
        return _unknown(f"{recorded.display} shows no containers")
    words = {_word(state) for state in states.values()}
    if words == {"terminated"}:
        return _terminated(states)
    if None in words:
        return _unknown("the state of its container is not reported")
    if "terminated" in words and not words.isdisjoint({"running", "waiting"}):
        return _unknown("which of its containers it was is not recorded, and not all have terminated")
    lost = _lost(pod, at)
    if lost is not None:
        return _unknown(f"last seen {min(filter(None, words))}, but {lost}")
    return _Finding(State.ALIVE, _alive(pod, states))


def _states(pod: Raw) -> Iterator[tuple[str, Any]]:
    """Every container of the pod with its status; None for one that has none (yet, or any more)."""
    for plural, statuses in _KINDS:
        found = dict(_named(dig(pod, "status", statuses)))
        for name, _ in _named(dig(pod, "spec", plural)):
            yield name, found.get(name)


def _named(items: Any) -> Iterator[tuple[str, Raw]]:
    for item in items if isinstance(items, list) else ():
        name = dig(item, "name")
        if isinstance(name, str):
            yield name, item


def _word(status: Any) -> str | None:
    """Which of the three states it is; None where it is none or several."""
    state = dig(status, "state")
    found = [word for word in _STATES if isinstance(dig(state, word), Mapping)]
    return found[0] if len(found) == 1 else None


def _terminated(states: Mapping[str, Any]) -> _Finding:
    said = [dig(status, "state", "terminated") for status in states.values()]
    if any(dig(one, "reason") == _NOT_LOCATED for one in said):
        # NB: the kubelet writes this for a container that it does not find any more, not for one that it saw end.
        return _Finding(State.VANISHED, "its node no longer finds its container, and nobody saw it end")
    parts = []
    for name, one in zip(states, said, strict=True):
        code, reason = dig(one, "exitCode"), dig(one, "reason")
        how = f"exit code {code}" if type(code) is int else "no exit code"
        parts.append(f"container {name} terminated ({how}{f', {reason}' if isinstance(reason, str) else ''})")
    return _Finding(State.ENDED, "; ".join(parts[:3]))


def _lost(pod: Raw, at: datetime) -> str | None:
    """Say why nobody has heard of the container since; None where its node still reports."""
    phase, reason = dig(pod, "status", "phase"), dig(pod, "status", "reason")
    if reason == "NodeLost" or phase == "Unknown":
        return "its node has been lost"
    if phase in ("Failed", "Succeeded"):
        # NB: written from afar, when its node is gone (pod garbage collection) or has thrown the pod out.
        return f"its pod was declared {phase.lower()}, and its container's end was not reported"
    due = parse_time(dig(pod, "metadata", "deletionTimestamp"))
    if due is not None and at > due + OVERDUE:
        return f"its pod should have ended at {clock_text(due, now=at)}, and its node has not said so"
    return None


def _alive(pod: Raw, states: Mapping[str, Any]) -> str:
    name, status = next(iter(states.items()))
    restarts = dig(status, "restartCount")
    parts = [f"alive: container {name} is {_word(status)}"]
    if type(restarts) is int and restarts > 0:
        parts.append(f"restarted {restarts} times" if restarts > 1 else "restarted once")
    if dig(pod, "metadata", "deletionTimestamp") is not None:
        parts.append("its pod is being deleted")
    return ", ".join(parts)


def _decode(body: bytes) -> Raw | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _match(shape: re.Pattern[str], value: Any) -> str | None:
    return value if isinstance(value, str) and shape.fullmatch(value) else None


def _unknown(why: str) -> _Finding:
    return _Finding(State.UNKNOWN, why)
