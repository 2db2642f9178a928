"""
Release scripts and patch files: what `release` prints. Nothing here releases anything.

A script stops at the first refusal, says what is still held, and holds nothing that could be run past a fence
that may not be released.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fencectl.core.report import FenceEntry, FenceReport, HolderBlock, NoRelease
from fencectl.report.commands import (
    as_kubectl,
    heading,
    kept_lines,
    place_lines,
    printable,
    title_of_release,
    warning_lines,
    where_of,
)
from fencectl.report.escape import in_comment, sentence_in_comment, visible
from fencectl.report.shell import NotPrintableError, Shell, say
from fencectl.report.words import count, fencectl, label_of, name_of, read_at, run_of

_REFUSED = 19
_FILE_NAME = re.compile(r"[^a-z0-9.]+", re.ASCII)
_HEAD = {
    Shell.POSIX: ["#!/bin/sh"],
    # NB: before 7.3 PowerShell drops the quotes inside of arguments.
    Shell.POWERSHELL: ["#Requires -Version 7.3"],
}


def release_script(
    report: FenceReport,
    block: HolderBlock,
    *,
    entries: Sequence[FenceEntry] | None = None,
    shell: Shell = Shell.POSIX,
    explain: bool = False,
) -> str:
    """
    A script that releases a holder's fences in order; `entries`: these only.

    Kept fences are left out, with the reason. From the first fence on that has no command, the script has no
    command either: it names what is still held and exits with 19.
    """
    chosen = block.entries if entries is None else tuple(entries)
    lines = [*_HEAD[shell], *_introduction(report, block, chosen)]
    if shell == Shell.POSIX:
        lines += ["set -eu", "trap 'test $? = 0 || echo \"stopped: this fence and all after it are held\" >&2' 0"]
    total = len(report.held)
    done = 0
    for at, entry in enumerate(chosen):
        if entry.kept:
            lines += [f"# {heading(entry, total)} is left out", *kept_lines(entry)]
            continue
        refusal = _why_not(report, entry, shell)
        if refusal is not None:
            lines += _stop(chosen[at:], total, refusal)
            break
        lines += _one(report, block, entry, shell=shell, explain=explain)
        done += 1
    else:
        kept = len(chosen) - done
        left = f", {kept} KEPT on purpose" if kept else ""
        check = fencectl(report, "fences")
        lines.append(say(f"released {done} of {len(chosen)}{left}; check: {check}", shell=shell))
    return "".join(f"{line}\n" for line in lines)


def _introduction(report: FenceReport, block: HolderBlock, chosen: Sequence[FenceEntry]) -> Iterator[str]:
    holder = in_comment(run_of(block))
    yield (
        f"# {count(len(chosen), 'fence')} of {holder} on {in_comment(report.label)},"
        f" {block.judgement.words}, read {read_at(report)}"
    )
    yield "# Stops at the first refusal. After a stop: `fencectl release` again, no edits."
    yield from place_lines(report)
    if block.judgement.check is not None and warning_lines(block):
        yield f"# check: {in_comment(block.judgement.check)}"
    yield from warning_lines(block)


def _why_not(report: FenceReport, entry: FenceEntry, shell: Shell) -> str | None:
    if entry.release is None:
        why = entry.refusal.why if entry.refusal is not None else "it has no release"
        kind = entry.refusal.kind if entry.refusal is not None else NoRelease.REFUSED
        return f"REFUSED: {why}" if kind is NoRelease.REFUSED else why
    try:
        as_kubectl(entry.release.patch, where_of(report), shell=shell)
    except NotPrintableError as cannot:
        return f"REFUSED: {cannot}"
    return None


def _stop(left: Sequence[FenceEntry], total: int, why: str) -> Iterator[str]:
    refused = why.startswith("REFUSED")
    yield f"# {heading(left[0], total)} {'' if refused else '- '}{sentence_in_comment(why)}, see `fencectl fences`"
    for entry in left[1:]:
        yield f"# {heading(entry, total)} is still held"
    yield f"exit {_REFUSED}   # nothing is printed after a refusal, so nothing can be run past it"


def _one(
    report: FenceReport, block: HolderBlock, entry: FenceEntry, *, shell: Shell, explain: bool
) -> Iterator[str]:
    if entry.release is None:
        return
    total = len(report.held)
    if explain:
        from fencectl.report.explain import explanation

        yield f"# {heading(entry, total)}: {title_of_release(entry, block)}"
        yield from explanation(entry, read_at=report.observed_at)
    role = f" ({entry.release.role})" if entry.release.role else ""
    yield say(f"{entry.order}/{total} {name_of(entry)}{role}: {visible(entry.release.title)}", shell=shell)
    yield as_kubectl(entry.release.patch, where_of(report), shell=shell)
    if shell == Shell.POWERSHELL:
        stopped = say("stopped: this fence and all after it are held", shell=shell)
        yield f"if ($LASTEXITCODE -ne 0) {{ {stopped}; exit 1 }}"


def releasable_now(block: HolderBlock) -> tuple[FenceEntry, ...]:
    """What a script for this holder releases: its fences up to the first refusal, without the kept ones."""
    found = []
    for entry in block.entries:
        if entry.kept:
            continue
        if entry.release is None:
            break
        found.append(entry)
    return tuple(found)


def patch_files(entries: Sequence[FenceEntry]) -> dict[str, str]:
    """
    Patch files by name, for `kubectl patch --patch-file`; the names sort in release order.

    For shells that no command is printed for, and for patches that are longer than an argument may be.
    """
    width = len(str(max((entry.order for entry in entries), default=1)))
    return {
        f"{entry.order:0{max(2, width)}}-{_file_name(entry)}.json": printable(entry.release.patch.body) + "\n"
        for entry in entries
        if entry.release is not None
    }


def _file_name(entry: FenceEntry) -> str:
    # NB: a name off a cluster never chooses a path: one closed alphabet, no leading dot, a bound.
    return _FILE_NAME.sub("-", entry.object.display.lower())[:150].strip("-.") or "fence"


def patch_file_command(report: FenceReport, entry: FenceEntry, path: str, *, shell: Shell = Shell.POSIX) -> str:
    """
    The command that applies one patch file.

    Raises NotPrintableError as `as_kubectl` does, and ValueError for a fence without a release.
    """
    if entry.release is None:
        raise ValueError("a fence without a release has no patch file")
    return as_kubectl(entry.release.patch, where_of(report), shell=shell, patch_file=path)


def nothing_released(report: FenceReport, number: int, *, what: str = "command") -> str:
    """What `release` says each time: its name promises more than it does."""
    return f"nothing was released: {count(number, what)} for {label_of(report)} written, read at {read_at(report)}"
