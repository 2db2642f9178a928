"""`fencectl history`: the deploys that the record of a target tells of, and one of them whole. It only reads."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from fencectl.cluster.clock import SystemClock
from fencectl.cluster.kinds import CONFIGMAPS, LEASES, ListedKind, record_of
from fencectl.cluster.read import ReadFailedError, Reads
from fencectl.commands.common import NOTHING, resolve
from fencectl.commands.options import Output
from fencectl.commands.options_acting import HistoryOptions
from fencectl.commands.output import style_of, write
from fencectl.commands.reading import subjects
from fencectl.core.errors import ExitCode, NotReadableError, UsageError
from fencectl.core.history import Past, read_history
from fencectl.core.profiles import ProfileName
from fencectl.core.refs import dig, text_or_none
from fencectl.report.escape import log_safe
from fencectl.report.history import Source, as_data, as_markdown, as_markdown_story, as_story, as_table, document
from fencectl.report.machine import encode_json, encode_yaml

SHOWN = 20
REQUEST_S = 10.0


def run(options: HistoryOptions) -> ExitCode:
    """Read the line, then list the deploys or show one."""
    generation = _read_line(options.words)
    effective = resolve(options.common)
    target = effective.one_target("history")
    if target.profile.name is not ProfileName.FENCECTL:
        raise UsageError(
            f"history is for the profile fencectl: {target.profile.name} keeps no record",
            hint=f"leave `--profile` out. {NOTHING}",
        )
    (subject,) = subjects(effective)
    connection, clock = subject.connection, SystemClock()
    label = target.print_context or connection.context_flag or connection.server
    timeout_s = options.common.request_timeout_s or REQUEST_S
    lease = target.profile.lease
    with subject.opened(clock) as getter:
        reads = Reads(getter, clock=clock, deadline_s=timeout_s)
        record = _read(reads, CONFIGMAPS, record_of(lease), label)
        data = record.get("data") if record is not None else None
        data = data if isinstance(data, Mapping) else {}
        deploys = read_history(data)
        if any(past.problem is None and past.outcome is None for past in deploys):
            now = _read(reads, LEASES, lease, label)
            deploys = read_history(data, lease_holder=text_or_none(dig(now, "spec", "holderIdentity")))
    at = reads.server_clock.latest or clock.wall()
    name = "configmap/" + "/".join(record_of(lease))
    source = Source(label, connection.context_flag, connection.server, name, at)
    if generation is not None:
        _show_one(_chosen(deploys, generation, label), source, options)
    else:
        _show_all(deploys, source, options)
    return ExitCode.OK


def _read_line(words: tuple[str, ...]) -> int | None:
    """The generation after `show`; None where all are to be listed."""
    if not words:
        return None
    example = "fencectl history show 42"
    if words[0] != "show":
        raise UsageError(f"history has no action `{words[0]}`", hint=f"{example}. {NOTHING}")
    if len(words) != 2 or not (words[1].isascii() and words[1].isdecimal() and len(words[1]) < 19):
        given = " ".join(words[1:])
        wrong = f"`{given}` is no generation" if given else "history show needs a generation"
        raise UsageError(wrong, hint=f"{example}. {NOTHING}")
    return int(words[1])


def _chosen(deploys: tuple[Past, ...], generation: int, label: str) -> Past:
    for past in deploys:
        if past.generation == generation:
            return past
    if not deploys:
        raise UsageError(f"no generation {generation} on {label}: no deploy is recorded")
    newest, oldest = deploys[0].generation, deploys[-1].generation
    raise UsageError(
        f"no generation {generation} on {label}",
        reason=f"its record tells of {oldest} to {newest}",
        hint="fencectl history lists them",
    )


def _read(reads: Reads, kind: ListedKind, name: tuple[str, str], label: str) -> Mapping[str, Any] | None:
    """One object, None where there is none; raises NotReadableError, which names the right that is missing."""
    try:
        return reads.named(kind, *name)
    except ReadFailedError as failed:
        what = f"{kind.kind.lower()}/{'/'.join(name)}"
        raise failed.total or NotReadableError(
            f"{what} could not be read on {label}", reason=failed.why
        ) from failed


def _show_all(deploys: tuple[Past, ...], source: Source, options: HistoryOptions) -> None:
    shown = deploys[: options.limit or SHOWN]
    match options.output:
        case Output.JSON | Output.YAML:
            encode = encode_json if options.output is Output.JSON else encode_yaml
            found = document(source, "DeployHistory", deploys=[as_data(past) for past in shown])
            write(stdout=encode(found))
        case Output.MARKDOWN:
            write(stdout=as_markdown(shown, source))
        case _:
            style = style_of(sys.stdout, options.common.color)
            lines = as_table(shown, source, style=style, left_out=len(deploys) - len(shown))
            write(stdout="".join(f"{log_safe(style.spelled(line))}\n" for line in lines))


def _show_one(past: Past, source: Source, options: HistoryOptions) -> None:
    match options.output:
        case Output.JSON | Output.YAML:
            encode = encode_json if options.output is Output.JSON else encode_yaml
            write(stdout=encode(document(source, "DeployStory", deploy=as_data(past))))
        case Output.MARKDOWN:
            write(stdout=as_markdown_story(past, source))
        case _:
            style = style_of(sys.stdout, options.common.color)
            lines = as_story(past, source, style=style)
            write(stdout="".join(f"{log_safe(style.spelled(line))}\n" for line in lines))
