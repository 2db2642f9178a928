"""
Printed release commands: complete, one physical line each, and the very patch that would be sent.

What stands between them is comments, so that the whole zone can be pasted into the shell it was printed for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from fencectl.core.evidence import Verdict
from fencectl.core.patches import GuardedPatch
from fencectl.core.profiles import FIELD_MANAGER
from fencectl.core.report import FenceEntry, FenceKind, FenceReport, HolderBlock
from fencectl.report.escape import ACTIVE, in_comment, sentence_in_comment, words_in_comment
from fencectl.report.shell import NotPrintableError, Shell, quote
from fencectl.report.words import label_of, proof_of, run_of

__all__ = ["NotPrintableError", "Shell", "Where", "as_kubectl", "command_of", "printable", "where_of", "zone"]

# One argument on Linux: MAX_ARG_STRLEN, its final NUL included. One command line on Windows: 32,767 characters.
_POSIX_LIMIT = 128 * 1024 - 1
_POWERSHELL_LIMIT = 32_000
_ACTIVE = re.compile(ACTIVE)
# What kubectl would read as something other than one resource and one name.
_NO_NAME = re.compile(r"[-.]|.*[/,=]|$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Where:
    """Which cluster a printed command names; None: whichever is current where it runs."""

    context: str | None = None
    kubeconfig: str | None = None


def where_of(report: FenceReport) -> Where:
    """The cluster of a report, as its commands may name it."""
    return Where(report.print_context, report.kubeconfig)


def printable(body: str) -> str:
    r"""
    A patch as it is printed: byte for byte, but for characters that would not survive.

    kubectl reads a patch as YAML, which refuses or alters raw C1 controls, DEL and U+FFFE/F; others would act on
    the terminal, or on a workflow's log (`##[`). All are written as `\uXXXX`: kubectl decodes them and sends them
    as Go encodes them, which is what the server compares. The rest stays raw, what is beyond the basic plane
    because YAML knows no surrogates.
    """
    if body.isascii() and body.isprintable() and "##[" not in body:
        return body
    return _ACTIVE.sub(lambda match: f"\\u{ord(match[0]):04x}", body)


def as_kubectl(
    patch: GuardedPatch,
    where: Where = Where(),
    *,
    shell: Shell = Shell.POSIX,
    patch_file: str | None = None,
) -> str:
    """
    Print a patch as one line for a shell; with `patch_file` the patch is read from that file.

    Raises NotPrintableError where no line would run as this patch: a name that kubectl reads as something else,
    an argument that the shell or the system cannot hand over.
    """
    target = patch.target
    for part in (target.kubectl_resource, target.name):
        if _NO_NAME.match(part):
            raise NotPrintableError("kubectl would not read this name as one object")
    words = ["kubectl"]
    if where.kubeconfig:
        words += ["--kubeconfig", quote(where.kubeconfig, shell=shell)]
    if where.context:
        words += ["--context", quote(where.context, shell=shell)]
    if target.namespace:
        words += ["-n", quote(target.namespace, shell=shell)]
    words += ["patch", quote(target.kubectl_resource, shell=shell), quote(target.name, shell=shell)]
    words += ["--type=json", f"--field-manager={FIELD_MANAGER}"]
    if patch_file is not None:
        return " ".join([*words, "--patch-file", quote(patch_file, shell=shell)])
    text = printable(patch.body)
    line = " ".join([*words, "-p", quote(text, shell=shell)])
    if len(text.encode()) > _POSIX_LIMIT or (shell == Shell.POWERSHELL and len(line) > _POWERSHELL_LIMIT):
        raise NotPrintableError("the patch is longer than one argument may be")
    return line


def command_of(entry: FenceEntry, where: Where, *, shell: Shell = Shell.POSIX) -> str | None:
    """The command of one fence; None where it has no release, or no line would run as it."""
    if entry.release is None:
        return None
    try:
        return as_kubectl(entry.release.patch, where, shell=shell)
    except NotPrintableError:
        return None


def heading(entry: FenceEntry, total: int) -> str:
    """`2/5 node/worker-2`: the same numbers as in the table."""
    role = f" ({entry.release.role})" if entry.release is not None and entry.release.role else ""
    return f"{entry.order}/{total} {in_comment(entry.object.display)}{words_in_comment(role)}"


def title_of_release(entry: FenceEntry, block: HolderBlock | None) -> str:
    """What the release does, for a comment; a lease also says what it comes after."""
    title = words_in_comment(entry.release.title) if entry.release is not None else ""
    if entry.kind is not FenceKind.LEASE or block is None:
        return title
    before = [one.order for one in block.entries if one.release is not None and one.order < entry.order]
    if not before:
        return title
    first, last = min(before), max(before)
    which = first if first == last else f"{first} {'and' if last == first + 1 else 'to'} {last}"
    return f"{title}; last, only after {which}"


def place_lines(report: FenceReport) -> list[str]:
    """Comments that say where commands go which name no context."""
    if report.print_context:
        return []
    uid = f" (kube-system uid {in_comment(report.cluster_uid)})" if report.cluster_uid else ""
    return [
        f"# they name no context: run them against {in_comment(report.server)}{uid}",
        "# check: kubectl get namespace kube-system -o jsonpath={.metadata.uid}",
    ]


def warning_lines(block: HolderBlock | None) -> list[str]:
    """Comments in capitals above the commands of a holder that nobody has proven dead."""
    if block is None or block.judgement.verdict is not Verdict.UNKNOWN:
        return []
    return [f"# NOT PROVEN DEAD: run these only if {proof_of(block)}"]


def kept_lines(entry: FenceEntry) -> list[str]:
    """A comment in capitals above the command of a fence that was left on purpose."""
    if not entry.kept:
        return []
    because = sentence_in_comment(entry.kept_because) if entry.kept_because else "it was left suspended on purpose"
    return [f"# KEPT: {because}"]


def zone(
    report: FenceReport,
    *,
    shell: Shell = Shell.POSIX,
    explain: bool = False,
    capitals: Callable[[str], str] = str,
) -> list[str]:
    """Every release command of a report under its comments, or nothing; `capitals` may colour comments."""
    if not report.releasable:
        return []
    lines = [f"# release commands for {in_comment(label_of(report))}: in this order, stop at the first that fails"]
    lines += place_lines(report)
    for block, entries in _runs(report):
        if len(report.blocks) > 1 and block is not None:
            lines.append(f"# {in_comment(run_of(block))}: {block.judgement.words}")
        lines += map(capitals, warning_lines(block))
        lines += _chain(report, block, entries, shell=shell, explain=explain, capitals=capitals)
    return lines


def _chain(
    report: FenceReport,
    block: HolderBlock | None,
    entries: Iterable[FenceEntry],
    *,
    shell: Shell,
    explain: bool,
    capitals: Callable[[str], str],
) -> Iterator[str]:
    where, total, stopped_by = where_of(report), len(report.held), 0
    for entry in entries:
        if entry.release is None:
            continue
        if stopped_by:
            yield f"# {heading(entry, total)}: waits for {stopped_by}"
            continue
        yield f"# {heading(entry, total)}: {title_of_release(entry, block)}"
        yield from map(capitals, kept_lines(entry))
        try:
            command = as_kubectl(entry.release.patch, where, shell=shell)
        except NotPrintableError as why:
            stopped_by = entry.order
            yield f"# no command: {why}"
            continue
        if explain:
            from fencectl.report.explain import explanation

            yield from explanation(entry, read_at=report.observed_at)
        yield command


def _runs(report: FenceReport) -> Iterator[tuple[HolderBlock | None, list[FenceEntry]]]:
    """The releasable fences in release order, with the holder whenever it changes."""
    holder_of = {id(entry): block for block in report.blocks for entry in block.entries}
    current: HolderBlock | None = None
    run: list[FenceEntry] = []
    for entry in report.releasable:
        block = holder_of.get(id(entry))
        if run and block is not current:
            yield current, run
            run = []
        current = block
        run.append(entry)
    if run:
        yield current, run
