"""`fencectl history`: the deploys that the record of a target tells of, and one of them whole. It only reads."""

from __future__ import annotations

import sys

from fencectl.cluster.clock import SystemClock
from fencectl.cluster.kinds import CONFIGMAPS, LEASES, record_of
from fencectl.commands.common import NOTHING, resolve
from fencectl.commands.options import Output
from fencectl.commands.options_acting import HistoryOptions
from fencectl.commands.output import style_of, write
from fencectl.commands.reading import subjects
from fencectl.core.errors import ExitCode, UsageError
from fencectl.core.history import Past, read_history
from fencectl.core.profiles import ProfileName
from fencectl.core.record_write import data_of
from fencectl.core.refs import ObjectRef, dig, text_or_none
from fencectl.report.escape import log_safe
from fencectl.report.history import Source, as_data, as_markdown, as_markdown_story, as_story, as_table, document
from fencectl.report.machine import encode_json, encode_yaml
from fencectl.run.ports import Door
from fencectl.run.record import REQUEST_S, RecordBook
from fencectl.run.story import read

SHOWN = 20


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
    namespace, name = record_of(target.profile.lease)
    ref = ObjectRef(CONFIGMAPS.api_version, CONFIGMAPS.kind, CONFIGMAPS.plural, namespace, name, "")
    with subject.opened(clock) as door:
        record = RecordBook(door, clock, ref, "history", label, timeout_s).read()
        deploys = read_history(data_of(record.seen))
        if any(past.problem is None and past.outcome is None for past in deploys):
            holder = _lease_holder(door, target.profile.lease)
            deploys = read_history(data_of(record.seen), lease_holder=holder)
    source = Source(label, connection.context_flag, connection.server, ref.display, record.at)
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


def _lease_holder(door: Door, lease: tuple[str, str]) -> str | None:
    """Who holds the lease now; None where it is free or there is none."""
    seen = read(door, ObjectRef(LEASES.api_version, LEASES.kind, LEASES.plural, *lease, ""))
    return None if seen is None else text_or_none(dig(seen.raw, "spec", "holderIdentity"))


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
