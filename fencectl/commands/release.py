"""`fencectl release`: print the release commands of one holder, and change nothing."""

from __future__ import annotations

import os
from pathlib import Path

from fencectl.commands.common import resolve
from fencectl.commands.options import Output, ReleaseOptions
from fencectl.commands.output import write
from fencectl.commands.reading import look_at_all
from fencectl.core.errors import ExitCode, PersonNeededError, UsageError
from fencectl.core.report import FenceReport
from fencectl.core.selection import Selection, select
from fencectl.report.escape import visible
from fencectl.report.shell import NotPrintableError, Shell


def run(options: ReleaseOptions) -> ExitCode:
    """Look once, choose, print; stderr says each time that nothing was released."""
    effective = resolve(options.common)
    effective.one_target("release")
    (report,) = look_at_all(effective).reports
    selection = select(report, holder=options.holder, fences=options.fences)
    if selection is None:
        write(
            stdout="[]\n" if options.output is Output.JSON else "",
            stderr=f"no holder holds a fence on {visible(report.label)}: there is nothing to release\n",
        )
        return ExitCode.OK
    if options.output_dir is not None:
        _write_files(report, selection, options.output_dir, Shell(options.shell.value))
    elif options.output is Output.JSON:
        from fencectl.report.machine import releases_to_json

        _tell(report, selection, releases_to_json(report, selection.entries, shell=Shell(options.shell.value)))
    else:
        from fencectl.report.release import release_script

        script = release_script(
            report,
            selection.block,
            entries=selection.all,
            shell=Shell(options.shell.value),
            explain=options.explain,
        )
        _tell(report, selection, script)
    return ExitCode.OK if selection.refused is None else ExitCode.HELD_PERSON_NEEDED


def _tell(report: FenceReport, selection: Selection, stdout: str, *, what: str = "command") -> None:
    from fencectl.report.release import nothing_released

    lines = [nothing_released(report, len(selection.entries), what=what)]
    if selection.refused is not None and selection.refused.refusal is not None:
        fence, refusal = selection.refused.object.display, selection.refused.refusal
        lines.append(f"refused: {visible(fence)}: {visible(refusal.why)}")
        lines += [f"  {visible(advice)}" for advice in refusal.advice]
    if selection.kept:
        names = ", ".join(visible(entry.object.display) for entry in selection.kept)
        lines.append(f"left out, KEPT on purpose: {names}")
    write(stdout=stdout, stderr="".join(f"{line}\n" for line in lines))


def _write_files(report: FenceReport, selection: Selection, folder: str, shell: Shell) -> None:
    """
    Write the patches, readable by the user alone, and print the commands that apply them.

    Raises UsageError before the first file is written where one of them exists, or the folder cannot be used.
    """
    from fencectl.report.release import patch_file_command, patch_files

    files = patch_files(selection.entries)
    where = Path(folder)
    try:
        lines = [
            patch_file_command(report, entry, str(where / name), shell=shell)
            for entry, name in zip(selection.entries, files, strict=True)
        ]
    except NotPrintableError as cannot:
        raise PersonNeededError(f"no command can be printed: {cannot}", hint="nothing was written") from cannot
    try:
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        taken = next((name for name in files if os.path.lexists(where / name)), None)
        if taken is not None:
            raise UsageError(
                f"{where / taken} exists already",
                reason="an older patch must not be taken for a new one",
                hint="name an empty folder",
            )
        for name, text in files.items():
            # NB: exclusive and without following links: the folder may be writable by others.
            descriptor = os.open(where / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123  it is open already
                file.write(text)
    except OSError as failed:
        raise UsageError(f"{folder} cannot be written: {failed.strerror}") from failed
    _tell(report, selection, "".join(f"{line}\n" for line in lines), what="patch file")
