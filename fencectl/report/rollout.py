"""
What came of a follow, as one block of text (worst first) and as data.

What a person would look up next stands in it: node, container, exit code, warnings, the last log lines. What has
succeeded is only counted. All of it but our own words is foreign text: a pod writes its own log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from fencectl.core.rollout import (
    WORST_FIRST,
    Cause,
    EventLine,
    Followed,
    NodeRollout,
    NodeState,
    PodEvidence,
    Result,
    RolloutVerdict,
)
from fencectl.core.times import age_text, clock_text, parse_time
from fencectl.report.escape import cut, log_safe, visible
from fencectl.report.machine import ref_data
from fencectl.report.style import PLAIN, Style, wrap
from fencectl.report.words import count

PODS_SHOWN = 3
NODES_SHOWN = 5
LOG_SHOWN = 10

_WORDS = {
    RolloutVerdict.FAILED: "failed",
    RolloutVerdict.UNKNOWN: "unknown",
    RolloutVerdict.TIMED_OUT: "timed out",
    RolloutVerdict.WAITING: "waited",
    RolloutVerdict.SUCCEEDED: "succeeded",
}
_LABEL = 8
_BELOW = " " * (2 + _LABEL)


def sum_sentence(followed: Followed) -> str:
    """`1 of 14 objects failed, 1 waited, 12 succeeded`."""
    numbers = {verdict: sum(one.verdict is verdict for one in followed.results) for verdict in WORST_FIRST}
    there = [(verdict, number) for verdict, number in numbers.items() if number]
    total = count(len(followed.results), "object")
    if not there or there[0][0] is RolloutVerdict.SUCCEEDED:
        return f"{total} succeeded"
    (worst, number), *others = there
    rest = "".join(f", {many} {_WORDS[verdict]}" for verdict, many in others)
    return f"{number} of {total} {_WORDS[worst]}{rest}"


def result_lines(followed: Followed, *, now: datetime, style: Style = PLAIN) -> list[str]:
    """
    The block below the sentence: what has not succeeded, worst first, then what to look at beside it.

    `now`: the server's time, for the times of events.
    """
    lines: list[str] = []
    for one in followed.results:
        if one.verdict is not RolloutVerdict.SUCCEEDED:
            lines += _object_lines(one, now=now, style=style)
    for one in followed.results:
        open_nodes = [node for node in one.nodes if node.state is not NodeRollout.UPDATED]
        if one.verdict is RolloutVerdict.SUCCEEDED and open_nodes:
            lines += wrap(f"{_name(one)}: {_shown(one.reason)}", first=f"{style.look} ", rest="  ")
            lines += _node_lines(open_nodes)
    for note in followed.notes:
        lines += wrap(_shown(note), first=f"{style.look} ", rest="  ")
    if followed.blames_nodes:
        lines += wrap(
            "all that is missing is on nodes that are down: that is no fault of what was deployed",
            first=f"{style.look} ",
            rest="  ",
        )
    # NB: a line that was broken may go on with foreign text, which must not begin it as a workflow command.
    return [log_safe(line) for line in lines]


def followed_object(followed: Followed) -> dict[str, Any]:
    """The same as plain data, whole: no list is cut."""
    return {
        "outcome": followed.outcome.value,
        "stopped": followed.stopped,
        "took_s": round(followed.took_s, 3),
        "blamesNodes": followed.blames_nodes,
        "notes": list(followed.notes),
        "objects": [_result_object(one) for one in followed.results],
    }


def _object_lines(one: Result, *, now: datetime, style: Style) -> list[str]:
    word = "waiting" if one.verdict is RolloutVerdict.WAITING else _WORDS[one.verdict]
    name = style.bold(_name(one))
    lines = wrap(_shown(one.reason), first=f"{name}  {word}: ", rest="  ")
    lines += _node_lines([node for node in one.nodes if node.state is not NodeRollout.UPDATED])
    named = [pod for pod in one.pods if pod.trouble.cause is not Cause.NODE or not one.nodes]
    for pod in named[:PODS_SHOWN]:
        lines += _pod_lines(pod, now=now)
    if len(named) > PODS_SHOWN:
        lines.append(f"  {'':<{_LABEL}}and {count(len(named) - PODS_SHOWN, 'more pod')}")
    return [*lines, *_event_lines(one.events, now=now)]


def _pod_lines(one: PodEvidence, *, now: datetime) -> list[str]:
    trouble = one.trouble
    where = f" on {visible(trouble.node)}" if trouble.node else ""
    why = "" if trouble.exit_code is not None else f": {_shown(trouble.why)}"
    lines = [_row("pod", f"{visible(trouble.pod)}{where}{why}")]
    if trouble.exit_code is not None:
        ended = f" ({_shown(trouble.ended)})" if trouble.ended else ""
        ran = f", {age_text(trouble.ran_s)} after its start" if trouble.ran_s is not None else ""
        lines.append(
            _row("exit", f"container `{_shown(trouble.container or '')}` {trouble.exit_code}{ended}{ran}")
        )
    elif trouble.message:
        lines += wrap(_shown(trouble.message), first=_row("said", ""), rest=_BELOW)
    lines += _event_lines(one.events, now=now)
    if one.log:
        last = one.log[-LOG_SHOWN:]
        run = ", previous run" if one.previous else ""
        lines.append(_row("log", f"last {count(len(last), 'line')}, container `{_shown(one.log_of or '')}`{run}:"))
        lines += [f"        | {_shown(line)}" for line in last]
    for missing in one.missing:
        lines += wrap(f"could not be read: {_shown(missing)}", first=_row("missing", ""), rest=_BELOW)
    return lines


def _event_lines(events: Iterable[EventLine], *, now: datetime) -> list[str]:
    lines: list[str] = []
    for event in events:
        at = parse_time(event.at)
        when = f"{clock_text(at, now=now)} " if at is not None else ""
        often = f" ({event.times}x)" if event.times > 1 else ""
        text = f"{when}{_shown(event.reason)}: {_shown(event.message)}{often}"
        lines += wrap(text, first=_row("event", ""), rest=_BELOW)
    return lines


def _node_lines(nodes: Sequence[NodeState]) -> list[str]:
    lines: list[str] = []
    for node in nodes[:NODES_SHOWN]:
        state = "failing" if node.state is NodeRollout.FAILING else "not confirmed"
        why = f", {_shown(node.why)}" if node.why else ""
        lines += wrap(f"{visible(node.node)} {state}{why}", first=_row("node", ""), rest=_BELOW)
    if len(nodes) > NODES_SHOWN:
        lines.append(f"  {'':<{_LABEL}}and {count(len(nodes) - NODES_SHOWN, 'more node')}")
    return lines


def _row(label: str, text: str) -> str:
    return f"  {label:<{_LABEL}}{text}"


def _name(one: Result) -> str:
    return visible(one.target.ref.display)


def _shown(text: str) -> str:
    return visible(cut(text))


def _result_object(one: Result) -> dict[str, Any]:
    return {
        "object": ref_data(one.target.ref),
        "generation": one.target.generation,
        "revision": one.target.revision,
        "verdict": one.verdict.value,
        "cause": one.cause.value,
        "reason": one.reason,
        "noticed_s": round(one.noticed_s, 3),
        "nodes": [{"node": node.node, "state": node.state.value, "why": node.why} for node in one.nodes],
        "pods": [_pod_object(pod) for pod in one.pods],
        "events": [_event_object(event) for event in one.events],
    }


def _pod_object(one: PodEvidence) -> dict[str, Any]:
    trouble = one.trouble
    return {
        "namespace": trouble.namespace,
        "name": trouble.pod,
        "uid": trouble.uid,
        "node": trouble.node,
        "cause": trouble.cause.value,
        "why": trouble.why,
        "message": trouble.message,
        "container": trouble.container,
        "exitCode": trouble.exit_code,
        "ended": trouble.ended,
        "ran_s": trouble.ran_s,
        "restarts": trouble.restarts,
        "events": [_event_object(event) for event in one.events],
        "log": list(one.log),
        "logOf": one.log_of,
        "previous": one.previous if one.log else None,
        "missing": list(one.missing),
    }


def _event_object(one: EventLine) -> dict[str, Any]:
    return {"at": one.at, "reason": one.reason, "message": one.message, "times": one.times}
