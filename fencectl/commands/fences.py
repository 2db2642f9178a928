"""`fencectl fences`: report every fence held. Reads only."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fencectl.commands.common import resolve
from fencectl.commands.options import FencesOptions, Output
from fencectl.commands.output import style_of, tell_failure, write
from fencectl.commands.reading import look_at_all
from fencectl.core.errors import ExitCode, NotReadableError
from fencectl.core.report import FenceReport
from fencectl.core.verbs import VERBS
from fencectl.report.shell import Shell


def run(options: FencesOptions) -> ExitCode:
    """Look once at each cluster and report; with `--watch`, go on looking."""
    effective = resolve(options.common)
    if options.watch:
        from fencectl.commands.watch import watch

        return watch(effective, options)
    try:
        looks = look_at_all(effective)
    except NotReadableError as unreadable:
        write_failure(unreadable, options)
        raise
    write_reports(looks.reports, options)
    for failure in looks.failures:
        write_failure(failure, options)
        tell_failure(failure)
    return looks.code_when_held(options.older_than_s) if options.exit_code else looks.code


def write_failure(failure: NotReadableError, options: FencesOptions) -> None:
    """
    Write what could not be read at all where people read the result later, without the log beside it.

    A summary that leaves a cluster out looks like one on which nothing is held.
    """
    if options.output is Output.MARKDOWN:
        from fencectl.report.markdown import failed_part

        write(stdout=failed_part(failure))
    if options.output is Output.GITHUB:
        from fencectl.report.github import failed_annotation

        write(stdout=failed_annotation(failure))


def write_reports(reports: Sequence[FenceReport], options: FencesOptions) -> None:
    """Render in the shape that was asked for, and write it."""
    shell = Shell(options.shell.value)
    match options.output:
        case Output.TEXT:
            from fencectl.report.text import TextOptions, render

            rendered = render(
                reports,
                options=TextOptions(
                    verbs=VERBS,
                    shell=shell,
                    explain=options.explain,
                    commands=not options.no_commands,
                    out=style_of(sys.stdout, options.common.color),
                    err=style_of(sys.stderr, options.common.color),
                ),
            )
            write(stdout=rendered.stdout, stderr=rendered.stderr)
        case Output.JSON:
            from fencectl.report.machine import to_json

            write(stdout=to_json(reports, shell=shell))
        case Output.YAML:
            from fencectl.report.machine import to_yaml

            write(stdout=to_yaml(reports, shell=shell))
        case Output.MARKDOWN:
            from fencectl.report.markdown import as_markdown

            commands = not options.no_commands
            markdown = as_markdown(reports, verbs=VERBS, shell=shell, explain=options.explain, commands=commands)
            write(stdout=markdown)
        case Output.GITHUB:
            from fencectl.report.github import as_annotations

            write(stdout=as_annotations(reports, verbs=VERBS))
        case Output.OPENMETRICS:
            from fencectl.report.openmetrics import as_openmetrics

            write(stdout=as_openmetrics(reports))
