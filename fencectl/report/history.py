"""Past deploys: a row each, or one of them with its timeline, for a terminal and for Markdown."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from fencectl.core.certification import Outcome
from fencectl.core.history import Past, Span
from fencectl.core.recovery_point import Summary
from fencectl.core.times import age_text, clock_text, second_time
from fencectl.report.escape import code_span, cut, fence_for, inline, visible
from fencectl.report.machine import time_data
from fencectl.report.style import PLAIN, WIDTH, Style, cells, pad, wrap

_STARTED = 13
_AGE = 5
_NAME = 30
_ENDS = 10  # ` kept`, ` released`
_BAD = ("failed", "held", "rejected", "uncertified", "unavailable")
_LABEL = re.compile(r"[^A-Za-z0-9 ./_()-]+", re.ASCII)


class Source(msgspec.Struct, frozen=True):
    """Which record this is. `label`: the cluster in sentences; names are hostile until escaped."""

    label: str
    context: str | None
    server: str
    record: str
    observed_at: datetime


def as_table(deploys: Sequence[Past], source: Source, *, style: Style = PLAIN, left_out: int = 0) -> list[str]:
    """A row for each, newest first; `left_out`: so many older ones are not shown."""
    if not deploys:
        return wrap(f"no deploy of {visible(source.label)} is recorded ({visible(source.record)})")
    now = source.observed_at
    outcomes = [visible(cut(past.result, 40)) for past in deploys]
    widths = max(3, *(len(str(past.generation)) for past in deploys)), max(7, *map(cells, outcomes))
    columns = f"{'GEN':>{widths[0] + 1}}  {'OUTCOME':<{widths[1]}}  {'STARTED':<{_STARTED + _AGE + 2}}"
    lines = [f"{columns}  {'TOOK':<6}  REVISION  RUN"]
    for past, outcome in zip(deploys, outcomes, strict=True):
        started = clock_text(past.began_at, now=now) if past.began_at else "?"
        age = age_text((now - past.began_at).total_seconds()) if past.began_at else "?"
        took = age_text(past.took_s) if past.took_s is not None else "-"
        run = visible(cut(past.holder.column, 60)) if past.holder is not None else "?"
        mark = style.bold(outcome) if past.code else outcome
        lines.append(
            f"{past.generation:>{widths[0] + 1}}  {mark}{' ' * (widths[1] - cells(outcome))}  "
            f"{pad(started, _STARTED)}  {age:>{_AGE}}  {took:<6}  {past.revision or '-':<8}  {run}"
        )
        if past.problem is not None:
            lines += wrap(visible(past.problem), first=f"{' ' * (widths[0] + 3)}{style.look} ", rest="       ")
    if left_out:
        lines += wrap(f"{left_out} older not shown")
    return lines


def as_story(past: Past, source: Source, *, style: Style = PLAIN) -> list[str]:
    """One deploy: what came of it, who it was, its timeline, and what failed first."""
    title = f"generation {past.generation} on {visible(source.label)}: {visible(cut(past.result))}"
    code = f" (exit {past.code})" if past.code is not None else ""
    lines = wrap(style.bold(title) + code + (f" · {past.revision}" if past.revision else ""))
    if past.problem is not None:
        return lines + wrap(visible(past.problem), first=f"{style.look} ", rest="  ")
    lines += wrap(_who(past, source))
    if past.command:
        lines += wrap(visible(past.command), first="command  ", rest=" " * 9)
    if (said := _certified(past)) is not None:
        lines += wrap(visible(cut(said, 300)), first="canary   ", rest=" " * 9)
    if past.rollback is not None:
        lines += wrap(visible(cut(past.rollback.words, 300)), first="rollback ", rest=" " * 9)
    if past.recovery is not None:
        lines += wrap(_recovery(past, past.recovery), first="recovery point  ", rest=" " * 16)
    lines += _bars(past, source, style)
    if past.more:
        lines += wrap(f"{past.more} more found no room in the record", first=f"{style.look} ", rest="  ")
    if past.failure:
        at = f"{clock_text(past.failed_at, now=source.observed_at)} " if past.failed_at else ""
        lines += wrap(f"{at}{visible(past.failure)}", first="first failure  ", rest=" " * 15)
    if past.outcome is None or past.found_by is not None:
        lines += wrap(_without_outcome(past, source), first=f"{style.look} ", rest="  ")
    return lines


def _recovery(past: Past, summary: Summary) -> str:
    objects = f"{summary.objects} {'object' if summary.objects == 1 else 'objects'}"
    gone = "" if past.restorable else ", no longer kept"
    return f"{objects}, {size_text(summary.size)}{gone}"


def size_text(size: int) -> str:
    """A number of bytes as people say it: `812 bytes`, `3.1 KiB`, `20.4 MiB`."""
    if size < 1024:
        return f"{size} {'byte' if size == 1 else 'bytes'}"
    kib = size / 1024
    return f"{kib:.1f} KiB" if kib < 1024 else f"{kib / 1024:.1f} MiB"


def _without_outcome(past: Past, source: Source) -> str:
    if past.held:
        return "the lease is still held by this run: it goes on, or it was killed; `fencectl fences` says which"
    said = f"nobody wrote how it ended; it was last seen in phase `{visible(past.phase or 'unknown')}`"
    if past.found_by is None:
        return said
    at = f" at {clock_text(past.found_at, now=source.observed_at)}" if past.found_at is not None else ""
    return f"{said}, and was found dead by {visible(cut(past.found_by.title))}{at}"


def _certified(past: Past) -> str | None:
    """What is known of the canary; None where there was none."""
    found = past.certification
    if found is None or found.outcome is Outcome.NOT_REQUESTED:
        return None
    return f"{found.word}{', and that was allowed' if found.allowed else ''}{': ' if found.why else ''}{found.why}"


def _who(past: Past, source: Source) -> str:
    now = source.observed_at
    who = visible(cut(past.holder.title)) if past.holder is not None else "nobody says who"
    if past.began_at is None:
        return who
    began = clock_text(past.began_at, now=now)
    if past.ended_at is None or past.took_s is None:
        return f"{who}, since {began}"
    return f"{who}, {began} to {clock_text(past.ended_at, now=now)} ({age_text(past.took_s)})"


def _bounds(past: Past, source: Source) -> tuple[float, float]:
    """From when to when the timeline goes, in seconds since the epoch."""
    times = [span.began_at for span in past.spans] + [span.ended_at for span in past.spans if span.ended_at]
    times += [at for at in (past.began_at, past.ended_at) if at is not None]
    if past.outcome is None and past.held:
        times.append(source.observed_at)
    first, last = min(times).timestamp(), max(times).timestamp()
    return first, max(last, first + 1)


def _bars(past: Past, source: Source, style: Style) -> Iterator[str]:
    if not past.spans:
        return
    first, last = _bounds(past, source)
    names = _names(past.spans)
    width = min(_NAME, max(8, *map(cells, names)))
    room = WIDTH - 5 - width - 2 - _ENDS
    yield f"{' ' * (5 + width + 2)}{_axis(first, last, room)}"
    for span, name in zip(past.spans, names, strict=True):
        bar = _bar(span, first, last, room, style, over=past.outcome is not None)
        if cells(name) <= width:
            yield f"{span.step:>3}  {pad(name, width)}  {bar}"
        else:
            # NB: an object's name is never cut; it gets a line of its own.
            yield f"{span.step:>3}  {name}"
            yield f"{' ' * (5 + width + 2)}{bar}"


def _names(spans: Sequence[Span]) -> list[str]:
    """Names without kind and namespace, where that still tells them apart."""
    short = [span.what.rpartition("/")[2] or span.what for span in spans]
    return [
        visible(name if short.count(name) == 1 else span.what) for name, span in zip(short, spans, strict=True)
    ]


def _bar(span: Span, first: float, last: float, room: int, style: Style, *, over: bool) -> str:
    scale = (room - 1) / (last - first)
    start = round((span.began_at.timestamp() - first) * scale)
    ended = last if span.ended_at is None else span.ended_at.timestamp()
    end = max(start, round((ended - first) * scale))
    opens, line, closes, goes_on = ("├", "─", "┤", "▶") if style.unicode else ("|", "-", "|", ">")
    bad = span.how in _BAD
    # NB: the record is written before the lease is freed, so the lease's own end is not in it.
    stays = span.ended_at is None and (not over or span.how is not None)
    last_mark = goes_on if stays else style.failed if bad else closes
    bar = last_mark if end == start else f"{opens}{line * (end - start - 1)}{last_mark}"
    told = span.how if span.how not in (None, "released", "done", "certified") else ""
    told = style.bold(visible(cut(told or "", 24))) if told else ""
    return f"{' ' * start}{bar} {told}".rstrip()


def _axis(first: float, last: float, room: int) -> str:
    """Times above the bars, each where it stands, to the minute; to the second for what was quick."""
    quick = last - first < 240
    form, taken = ("%H:%M:%S", 8) if quick else ("%H:%M", 5)
    text = ""
    for number in range(max(2, min(5, room // (taken + 4)))):
        column = round(number * (room - 1) / max(1, min(5, room // (taken + 4)) - 1))
        at = datetime.fromtimestamp(math.floor(first + (last - first) * column / (room - 1)), UTC)
        column = min(column, room - taken)
        label = at.strftime(form)
        if (len(text) < column or not text) and not text.endswith(label):
            text = f"{text:<{column}}{label}"
    return f"{text} UTC"


def as_markdown(deploys: Sequence[Past], source: Source) -> str:
    """The table, as GitHub renders it."""
    lines = [f"### Deploys of {inline(source.label)}", ""]
    if not deploys:
        return "\n".join([*lines, f"None is recorded ({code_span(source.record)}).", ""])
    lines += ["| Gen | Outcome | Started | Took | Revision | Run |", "| --: | --- | --- | --- | --- | --- |"]
    for past in deploys:
        started = clock_text(past.began_at, now=source.observed_at) if past.began_at else "?"
        took = age_text(past.took_s) if past.took_s is not None else ""
        run = code_span(past.holder.column, cell=True) if past.holder is not None else ""
        why = f": {inline(past.problem, cell=True)}" if past.problem is not None else ""
        revision = f"`{past.revision}`" if past.revision else ""
        outcome = f"{inline(past.result, cell=True)}{why}"
        lines.append(f"| {past.generation} | {outcome} | {started} | {took} | {revision} | {run} |")
    return "\n".join([*lines, ""])


def as_markdown_story(past: Past, source: Source) -> str:
    """One deploy with its timeline as a Gantt chart, as GitHub renders it."""
    code = f" (exit {past.code})" if past.code is not None else ""
    lines = [f"### Generation {past.generation} on {inline(source.label)}: {inline(past.result)}{code}", ""]
    if past.problem is not None:
        return "\n".join([*lines, inline(past.problem), ""])
    lines += [inline(_who(past, source)), ""]
    if past.command:
        # NB: in the log of an Actions step a line that begins with `::` is a command to the runner.
        block = f"$ {visible(past.command)}"
        lines += [fence_for(block), block, fence_for(block), ""]
    if (said := _certified(past)) is not None:
        lines += [f"Canary: {inline(said)}", ""]
    if past.rollback is not None:
        lines += [f"Rollback: {inline(past.rollback.words)}", ""]
    if past.recovery is not None:
        lines += [f"Recovery point: {_recovery(past, past.recovery)}", ""]
    if past.spans:
        lines += ["```mermaid", *_gantt(past, source), "```", ""]
    if past.failure:
        at = f"{clock_text(past.failed_at, now=source.observed_at)} " if past.failed_at else ""
        lines += [f"First failure: {at}{inline(past.failure)}", ""]
    return "\n".join(lines)


def _gantt(past: Past, source: Source) -> Iterator[str]:
    # NB: the chart shows times in the reader's zone unless they are given as local times; as such UTC stays UTC.
    yield "gantt"
    yield f"  title Generation {past.generation}, times in UTC"
    yield "  dateFormat YYYY-MM-DD HH:mm:ss"
    yield "  axisFormat %H:%M"
    yield "  todayMarker off"
    _, last = _bounds(past, source)
    section = None
    for span in past.spans:
        if span.step != section:
            section = span.step
            yield f"  section {section}"
        # NB: nothing of the name may end it, or begin another line of the chart.
        name = _LABEL.sub(" ", span.what).strip() or "unnamed"
        how = _LABEL.sub(" ", span.how or "").strip()
        name = f"{name} ({how})" if how and how not in ("released", "done", "certified") else name
        ended = datetime.fromtimestamp(last, UTC) if span.ended_at is None else span.ended_at.astimezone(UTC)
        tag = "crit, " if span.how in _BAD else "active, " if span.ended_at is None else "done, "
        began = span.began_at.astimezone(UTC)
        yield f"  {name} :{tag}{began:%Y-%m-%d %H:%M:%S}, {ended:%Y-%m-%d %H:%M:%S}"


def as_data(past: Past) -> dict[str, Any]:
    """One deploy as JSON."""
    holder = past.holder
    return {
        "generation": past.generation,
        "outcome": past.outcome,
        "phase": past.phase,
        "holdsLease": past.held,
        "foundDeadBy": past.found_by.identity if past.found_by is not None else None,
        "exitCode": past.code,
        "step": past.step,
        "token": past.token,
        "rollback": None if past.rollback is None else msgspec.to_builtins(past.rollback),
        "certification": None if past.certification is None else past.certification.as_data(),
        "holder": None
        if holder is None
        else {
            "identity": holder.identity,
            "run": holder.run,
            "attempt": holder.attempt,
            "job": holder.job,
            "revision": holder.revision,
        },
        "command": past.command,
        "startedAt": time_data(past.began_at),
        "endedAt": time_data(past.ended_at),
        "firstFailure": None if past.failure is None else {"at": time_data(past.failed_at), "what": past.failure},
        "timeline": [
            {
                "step": span.step,
                "what": span.what,
                "from": time_data(span.began_at),
                "to": time_data(span.ended_at),
                "how": span.how,
            }
            for span in past.spans
        ],
        "timelineMore": past.more,
        "recovery": None if past.recovery is None else {**past.recovery.entry, "kept": past.restorable},
        "problem": past.problem,
    }


def document(source: Source, kind: str, **more: Any) -> dict[str, Any]:
    """What every JSON answer begins with."""
    about = {"context": source.context, "server": source.server, "record": source.record}
    return {
        "apiVersion": "fencectl.dev/v1",
        "kind": kind,
        **about,
        "observedAt": second_time(source.observed_at),
        **more,
    }
