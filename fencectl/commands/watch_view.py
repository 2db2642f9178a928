"""
What is known of each watched cluster, folded over the news; and what is shown of it. Pure.

A cluster that cannot be read is shown as that: what was read before is told as the past, never as the present.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from msgspec import structs

from fencectl.commands.watch_follow import Looking, Sight
from fencectl.core.errors import NotReadableError
from fencectl.core.observation import ReadCounts, Unreadable
from fencectl.core.report import FenceReport
from fencectl.core.times import age_text, clock_text
from fencectl.report import watch, words
from fencectl.report.escape import cut, json_visible, log_safe, visible
from fencectl.report.machine import report_object
from fencectl.report.shell import Shell
from fencectl.report.style import Style, wrap

# How long a look may take before what was read by the last one is no longer shown as current.
SLOW_S = 5.0


@dataclass(frozen=True, slots=True)
class Known:
    """
    What is known of one cluster.

    `report`: the last one, also while the cluster is lost. `lost_at`: since when it is not readable, None while
    it is. `changed_at`: when something changed after the first look. `looking_since_s`: set while a look is
    under way.
    """

    label: str
    watched: watch.Watched = field(default_factory=watch.Watched)
    report: FenceReport | None = None
    failure: NotReadableError | None = None
    lost_at: datetime | None = None
    changed_at: datetime | None = None
    looking_since_s: float | None = None

    @property
    def seen(self) -> bool:
        """Whether a first look has ended, well or badly."""
        return self.report is not None or self.failure is not None


def learn(known: Known, news: Sight | Looking) -> tuple[Known, list[str]]:
    """Fold news into what is known; also one line for each thing that has changed by it."""
    if isinstance(news, Looking):
        return replace(known, looking_since_s=news.since_s), []
    if news.report is None:
        return _lose(known, news)
    first = known.report is None
    watched, lines = watch.step(known.watched, news.report)
    if known.lost_at is not None:
        lines = [_line(news.at, f"{known.label}: readable again"), *lines]
    return replace(
        known,
        label=words.label_of(news.report),
        watched=watched,
        report=news.report,
        failure=None,
        lost_at=None,
        changed_at=news.at if lines and not first else known.changed_at,
        looking_since_s=None,
    ), lines


def _lose(known: Known, news: Sight) -> tuple[Known, list[str]]:
    lost = replace(known, failure=news.failure, looking_since_s=None)
    if known.lost_at is not None or news.failure is None:
        return lost, []
    lines = [_line(news.at, f"{known.label}: not readable: {_why(news.failure)}")]
    changed_at = news.at if known.report is not None else None
    return replace(lost, lost_at=news.at, changed_at=changed_at), lines


def _line(at: datetime, text: str) -> str:
    return log_safe(f"{clock_text(at, now=at)}  {text}")


def _why(failure: NotReadableError) -> str:
    parts = (failure.sentence, failure.reason)
    return ": ".join(cut(visible(part)) for part in parts if part)


def frame(clusters: Sequence[Known], *, now_s: float, verbs: frozenset[str], style: Style) -> list[str]:
    """Everything that is shown at this moment, worst first, the footer last."""
    lines: list[str] = []
    for known in clusters:
        lines += [style.spelled(line) for line in _lost(known, style)]
    for known in clusters:
        lines += [style.spelled(line) for line in _waited_for(known, now_s, style)]
    reports = [known.report for known in clusters if known.report is not None and known.lost_at is None]
    changed_at = max((known.changed_at for known in clusters if known.changed_at), default=None)
    shown = watch.frame(reports, changed_at=changed_at, verbs=verbs, style=style)
    return [*lines, *(shown.splitlines() or [style.dim("watching, nothing can be read now, ctrl-c ends")])]


def _lost(known: Known, style: Style) -> list[str]:
    if known.failure is None or known.lost_at is None:
        return []
    since = f"{visible(known.label)}: not readable since {clock_text(known.lost_at, now=known.lost_at)}"
    lines = [f"{style.failed} {style.bold(since)}"]
    for part in (known.failure.sentence, known.failure.reason):
        lines += wrap(cut(visible(part)), first="  ", rest="  ") if part else []
    if known.report is not None:
        at = clock_text(known.report.observed_at, now=known.lost_at)
        lines += wrap(f"before that, at {at}: {words.held_sentence(known.report)}", first="  ", rest="  ")
    return [*lines, ""]


def _waited_for(known: Known, now_s: float, style: Style) -> list[str]:
    if known.lost_at is not None:
        return []
    if known.report is None:
        return [f"… {visible(known.label)}: reading", ""]
    waited_s = 0.0 if known.looking_since_s is None else now_s - known.looking_since_s
    if waited_s < SLOW_S:
        return []
    at = clock_text(known.report.observed_at, now=known.report.observed_at)
    label = visible(known.label)
    return [f"{style.look} {label}: no answer for {age_text(waited_s)}; what follows was so at {at}", ""]


def json_line(known: Known, *, shell: Shell) -> str:
    """The report as one line of JSON; of a cluster that is lost, an incomplete one with nothing in it."""
    report = known.report
    if report is None:
        return ""
    if known.failure is not None and known.lost_at is not None:
        report = structs.replace(
            report,
            observed_at=known.lost_at,
            unreadable=(Unreadable("everything", _why(known.failure)),),
            counts=ReadCounts(),
            blocks=(),
            unowned=(),
            holds=(),
            findings=(),
            not_ours=(),
            notes=(),
        )
    plain = json.dumps(report_object(report, shell=shell), ensure_ascii=False, separators=(",", ":"))
    return json_visible(plain) + "\n"
