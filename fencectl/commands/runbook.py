"""`fencectl runbook`: list the runbooks, or print one with the values of a cluster. It only reads."""

from __future__ import annotations

import shutil
import sys
from difflib import get_close_matches

import msgspec
from msgspec.structs import replace

from fencectl.cluster.clock import SystemClock
from fencectl.commands.common import NOTHING, resolve
from fencectl.commands.options import Output
from fencectl.commands.options_acting import RunbookOptions
from fencectl.commands.output import style_of, write
from fencectl.commands.reading import Subject, subjects
from fencectl.commands.runbook_files import text_of
from fencectl.core.errors import ExitCode, FencectlError, UsageError
from fencectl.core.history import read_history
from fencectl.core.observation import Observation
from fencectl.core.refs import dig
from fencectl.core.report import FenceReport
from fencectl.core.runbooks import RUNBOOKS, Match, Runbook, Situation, Values, matching, values_of
from fencectl.report.escape import log_safe, visible
from fencectl.report.machine import encode_json
from fencectl.report.runbook import Cluster, as_data, document, fill, has_placeholders, list_lines, unfilled
from fencectl.report.style import WIDTH, Style, wrap
from fencectl.report.words import listed, quoted

# The values are a help, the text is what is needed: nobody should wait for a cluster that is away.
DEADLINE_S = 10.0


class _Seen(msgspec.Struct, frozen=True):
    """What is known of the cluster. `report` None: it was not read."""

    cluster: Cluster
    report: FenceReport | None = None
    lease: tuple[str, str] = ("", "")
    generation: int | None = None

    def matches(self, book: Runbook) -> tuple[Match, ...]:
        return matching(book, self.report) if self.report is not None else ()

    def unread(self, book: Runbook) -> int:
        parts = len(self.report.unreadable) if self.report is not None else 0
        return parts if Situation.INCOMPLETE in book.situations else 0


def run(options: RunbookOptions) -> ExitCode:
    """Find the runbook, look at the cluster if there is one, and print."""
    if options.name is None:
        _list(_look(options), options)
        return ExitCode.OK
    book = _named(options.name)
    text = text_of(book.name)
    # NB: nobody waits for a cluster for the sake of a text that says nothing of it.
    seen = _look(options) if has_placeholders(text) else None
    _show(book, text, seen, options)
    return ExitCode.OK


def _named(name: str) -> Runbook:
    for book in RUNBOOKS:
        if book.name == name.removesuffix(".md"):
            return book
    every = [book.name for book in RUNBOOKS]
    close = get_close_matches(name.lower(), every, n=1, cutoff=0.6)
    meant = f"did you mean `{close[0]}`? T" if close else "t"
    raise UsageError(f"no runbook `{name}`", hint=f"{meant}here are: {', '.join(every)}. {NOTHING}")


def _look(options: RunbookOptions) -> _Seen:
    """
    Read the cluster once, as a report does.

    Raises UsageError for a config or a context that was named and is wrong; whatever else keeps the cluster from
    being read is told, and the text printed all the same.
    """
    effective = resolve(options.common)
    try:
        target = effective.one_target("runbook")
        (subject,) = subjects(effective)
    except UsageError as wrong:
        if options.common.contexts or options.common.kubeconfig:
            raise
        return _Seen(Cluster(profile=options.common.profile or "fencectl", why=wrong.cause_in_short))
    subject = replace(subject, deadline_s=effective.request_timeout_s or DEADLINE_S)
    connection, clock = subject.connection, SystemClock()
    cluster = Cluster(
        label=target.print_context or connection.context_flag or connection.server,
        server=connection.server,
        context=connection.context_flag,
        print_context=target.print_context or connection.context_flag,
        kubeconfig=effective.kubeconfig,
        profile=target.profile.name,
    )
    try:
        with subject.opened(clock) as door:
            look = subject.look(door, clock)
    except FencectlError as failure:
        why = f"{failure.sentence}: {failure.reason}" if failure.reason else failure.sentence
        return _Seen(replace(cluster, why=why))
    report = look.report
    cluster = replace(cluster, reached=True, complete=report.complete, why=_missing(report))
    return _Seen(cluster, report, target.profile.lease, _newest(look.runs.observation, subject))


def _missing(report: FenceReport) -> str | None:
    if report.complete:
        return None
    return f"{listed(part.what for part in report.unreadable)} could not be read"


def _newest(observation: Observation, subject: Subject) -> int | None:
    """The newest deploy that the record beside the configured lease tells of."""
    namespace, name = subject.settings.profile.lease
    for record in observation.records:
        if (record.ref.namespace, record.ref.name) == (namespace, f"{name}-record"):
            data = dig(record.raw, "data")
            past = read_history(data if isinstance(data, dict) else {})
            return past[0].generation if past else None
    return None


def _list(seen: _Seen, options: RunbookOptions) -> None:
    found = [(book, seen.matches(book), seen.unread(book)) for book in RUNBOOKS]
    if options.output is Output.JSON:
        items = [as_data(book, matches, seen.cluster) for book, matches, _ in found]
        write(stdout=encode_json(document("RunbookList", seen.cluster, items=items)))
        return
    if options.output is Output.MARKDOWN:
        from fencectl.report.runbook import list_markdown

        write(stdout=list_markdown(found))
        return
    style, err = style_of(sys.stdout, options.common.color), style_of(sys.stderr, options.common.color)
    write(stdout="".join(f"{style.spelled(line)}\n" for line in list_lines(found, style=style)))
    context = f" --context {quoted(seen.cluster.context)}" if seen.cluster.context else ""
    matched = [book for book, matches, unread in found if matches or unread]
    # NB: one that is for a situation says more than one that also counts it.
    name = next((book.name for book in sorted(matched, key=lambda book: not book.situations)), None)
    hint = (
        f"`fencectl runbook {name}{context}` fills in this cluster's values"
        if name is not None
        else f"`fencectl runbook NAME{context}` prints one"
    )
    write(
        stderr="".join(
            f"{err.spelled(line)}\n" for line in [*_said(seen, err), *wrap(hint, first="hint: ", rest="      ")]
        )
    )


def _show(book: Runbook, text: str, seen: _Seen | None, options: RunbookOptions) -> None:
    if seen is None:
        seen, filled = _Seen(Cluster()), unfilled(text)
    else:
        known = seen.report is not None
        values = values_of(seen.matches(book), lease=seen.lease, generation=seen.generation) if known else Values()
        filled = fill(text, values, seen.cluster)
    if options.output is Output.JSON:
        found = as_data(book, seen.matches(book), seen.cluster, filled)
        write(stdout=encode_json(document("Runbook", seen.cluster, **found)))
        return
    style = style_of(sys.stdout, options.common.color)
    if options.output is Output.TEXT and sys.stdout.isatty():
        from fencectl.report.runbook_terminal import rendered

        shown = rendered(filled, style=style, width=shutil.get_terminal_size((WIDTH, 24)).columns)
    else:
        shown = filled.markdown
    write(stdout="".join(f"{log_safe(line)}\n" for line in shown.splitlines()))


def _said(seen: _Seen, style: Style) -> list[str]:
    """That no cluster was read, or not all of it: a runbook without a match may match all the same."""
    cluster = seen.cluster
    if cluster.why is None:
        return []
    if cluster.reached:
        text = f"{visible(cluster.label or '')} was not read whole, a match may be missing: {visible(cluster.why)}"
    elif cluster.label is not None:
        text = f"{visible(cluster.label)} was not read, so nothing is counted: {visible(cluster.why)}"
    else:
        text = f"no cluster was read, so nothing is counted: {visible(cluster.why)}"
    return wrap(text, first=f"{style.look} ", rest="  ")
