"""The next step, one per screen: a command that runs as it stands, naming only verbs that exist."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fencectl.core.evidence import Strength, Verdict
from fencectl.core.profiles import ProfileName
from fencectl.core.report import FenceEntry, FenceReport, NoRelease
from fencectl.report.words import (
    all_releasable,
    count,
    fencectl,
    holder_option,
    kubectl,
    proof_of,
    quoted,
    refused_in,
    run_url,
)

_RESOURCE = re.compile(r"[a-z][a-z0-9]*(?:\.[a-z0-9.-]+)?", re.ASCII)
_MERGE = "merge the fix or the revert before that is released"
_REJECTED = (
    "a command that kubectl answers with `the server rejected our request` found its fence changed: stop, run"
)


def hint_for(reports: Sequence[FenceReport], *, verbs: frozenset[str], commands: bool = True) -> str | None:
    """
    The hint below a screen; None when there is nothing to do.

    `commands`: whether the release commands are on the screen. What is worst gets the hint.
    """
    for choose in (_incomplete, _releasable, _refused, _waiting, _held_by_hand):
        for report in reports:
            hint = choose(report, verbs, commands)
            if hint is not None:
                return hint
    return None


def vouch_command(report: FenceReport, entry: FenceEntry, *, verified: Sequence[str] = ()) -> str | None:
    """What goes on with a node that was left half changed, once it has been checked; None for anything else."""
    refused = entry.refusal is not None and entry.refusal.kind is NoRelease.REFUSED
    if not refused or entry.phase != "mutating" or report.profile != ProfileName.FENCECTL:
        return None
    block = next((one for one in report.blocks if entry in one.entries), None)
    if block is None or block.judgement.verdict is not Verdict.DEAD:
        return None
    more = ["--accept-presumed"] if block.judgement.strength is Strength.PRESUMED else []
    more += ["--holder", holder_option(block)] if len(report.blocks) > 1 else []
    nodes = [*verified, entry.object.name]
    return fencectl(
        report, "recover", *more, *(word for name in nodes for word in ("--node-verified", quoted(name)))
    )


def vouch_hint(report: FenceReport, sentence: str, *, verified: Sequence[str] = ()) -> str | None:
    """The hint of a recovery that such a node stopped; `sentence`: why it stopped."""
    for entry in refused_in(report):
        command = vouch_command(report, entry, verified=verified)
        about_it = sentence.endswith(f" {entry.object.display} cannot be released")
        if about_it and command is not None and entry.refusal is not None:
            return f"{'; '.join(entry.refusal.advice)}; then vouch for it: {command}"
    return None


def _incomplete(report: FenceReport, verbs: frozenset[str], commands: bool) -> str | None:
    if report.complete:
        return None
    missing = "a fence may be missing here, so no command is printed"
    forbidden = [part for part in report.unreadable if part.why.startswith("forbidden")]
    if forbidden and "doctor" in verbs:
        return f"{missing}; `{fencectl(report, 'doctor', '--rbac', 'report')}` prints the role to ask for"
    for part in forbidden:
        if _RESOURCE.fullmatch(part.what):
            return f"{missing}; `{kubectl(report, 'auth', 'can-i', 'list', part.what, '-A')}` asks for this right"
    return f"{missing}; `{kubectl(report, 'get', '--raw', '/readyz')}` asks the API server how it is"


def _refused(report: FenceReport, verbs: frozenset[str], commands: bool) -> str | None:
    refused = refused_in(report)
    if not refused:
        return None
    what = "what is REFUSED needs a person; what waits for it gets its command"
    return f"{what} when that is done: run `{fencectl(report, 'fences')}` again"


def _releasable(report: FenceReport, verbs: frozenset[str], commands: bool) -> str | None:
    if not report.releasable:
        return None
    go = _in_one_go(report, verbs)
    kept = any(entry.kept for entry in report.releasable)
    first = f"{go} and leaves what is KEPT: {_MERGE}" if go and kept else go or _unproven(report, verbs)
    if kept and not go:
        first = f"what is KEPT: {_MERGE}"
    parts = [first] if first else []
    if commands:
        parts.append(f"{_REJECTED} `{fencectl(report, 'fences')}` again")
    return "; ".join(parts) or None


def _in_one_go(report: FenceReport, verbs: frozenset[str]) -> str | None:
    dead = report.blocks_with(Verdict.DEAD)
    proven = [block for block in dead if block.judgement.strength is Strength.PROVEN]
    going = [entry for block in proven for entry in block.entries if not entry.kept]
    if "recover" in verbs and going and all(e.release is not None for e in going) and not report.unowned:
        more = (
            ["--all"]
            if len(proven) > 1
            else ["--holder", holder_option(proven[0])]
            if len(report.blocks) > 1
            else []
        )
        number = len(going)
        which = f"all {number}" if number == len(report.held) and number > 1 else f"{number} of {len(report.held)}"
        return f"`{fencectl(report, 'recover', *more)}` does {which if number > 1 else 'it'} in order"
    if "release" in verbs and len(dead) == 1 and all(map(all_releasable, dead)):
        number = len(dead[0].entries)
        return f"`{fencectl(report, 'release')}` prints {'them' if number > 1 else 'it'} as one script"
    return None


def _unproven(report: FenceReport, verbs: frozenset[str]) -> str | None:
    """Say what comes after the proof: a script that only whoever names the holder gets."""
    unknown = [block for block in report.blocks_with(Verdict.UNKNOWN) if all_releasable(block)]
    if "release" not in verbs or len(unknown) != 1 or report.blocks_with(Verdict.DEAD) or refused_in(report):
        return None
    (block,) = unknown
    script = fencectl(report, "release", "--holder", holder_option(block))
    number = len(block.entries)
    what = f"its {count(number, 'fence')}" if len(report.held) > number else "them" if number > 1 else "it"
    return f"once {proof_of(block, says='the check')}, `{script}` prints {what} as one script"


def _waiting(report: FenceReport, verbs: frozenset[str], commands: bool) -> str | None:
    for block in report.blocks:
        kinds = {entry.refusal.kind for entry in block.entries if entry.refusal is not None}
        if block.judgement.verdict is Verdict.LIVE:
            url = run_url(block)
            end = "they end" if len(report.blocks) > 1 else "it ends"
            who = "they release" if len(report.blocks) > 1 else "it releases"
            fence = "its fences" if len(report.blocks) > 1 else "them" if len(block.entries) > 1 else "it"
            say = f"{who} {fence} when {end}"
            return f"{say}; to end it early, cancel the run at {url}" if url else say
        if NoRelease.FRESH in kinds:
            return f"its heartbeat may still move: ask again with `{fencectl(report, 'fences')}`"
    return None


def _held_by_hand(report: FenceReport, verbs: frozenset[str], commands: bool) -> str | None:
    if not report.holds or "hold" not in verbs:
        return None
    name, *flags = report.holds[0].hold_words
    lift = fencectl(report, f"hold lift {name}", *map(quoted, flags))
    if report.holds[0].is_claim:
        return f"a deploy or a restore that succeeds retires the claim; `{lift}` is the last resort"
    which = "it" if len(report.holds) == 1 else "the first of them"
    return f"when its reason is gone, `{lift}` lifts {which}"
