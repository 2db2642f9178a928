"""
The runbooks there are, and which of them fits what is held now.

Each exit code that needs a person has one, and so has each refusal; a test compares this table with the exit
codes, with the refusals and with the files. Plain data: the texts are Markdown, filled in by `report.runbook`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import assert_never

import msgspec

from fencectl.core.errors import ExitCode
from fencectl.core.evidence import Strength, Verdict
from fencectl.core.report import FenceEntry, FenceKind, FenceReport, HolderBlock, NoRelease


class Situation(StrEnum):
    """What is so of a fence or of a deploy: the closed set of what fencectl leaves to a person, or refuses."""

    PROVEN = "proven"  # its holder is dead: `recover` may go on
    PRESUMED = "presumed"
    UNKNOWN = "unknown"
    LIVE = "live"
    MUTATING = "mutating"  # a node whose command may be half done
    UNUSABLE = "unusable"  # a mark or a state that no patch can be guarded by
    KEPT = "kept"
    HOLD = "hold"
    CLAIM = "claim"
    NOT_OURS = "not-ours"
    INCOMPLETE = "incomplete"  # something could not be read
    PRUNE_WITHHELD = "prune-withheld"


class Runbook(msgspec.Struct, frozen=True):
    """
    One runbook; its text is the file `<name>.md`.

    `sign`: how it is recognised, at most 39 cells. `codes` and `situations`: what it is the runbook for. `also`:
    situations whose fences it counts besides, and that have a runbook of their own.
    """

    name: str
    sign: str
    codes: tuple[ExitCode, ...] = ()
    situations: tuple[Situation, ...] = ()
    also: tuple[Situation, ...] = ()


_LEFT = (Situation.PROVEN, Situation.PRESUMED, Situation.UNKNOWN, Situation.MUTATING, Situation.UNUSABLE)
RUNBOOKS: tuple[Runbook, ...] = (
    Runbook("still-fenced", "a deploy ended with exit 11", (ExitCode.STILL_FENCED,), also=_LEFT),
    Runbook("dead-holder", "a deploy was refused with exit 16", (ExitCode.HELD_DEAD,), (Situation.PROVEN,)),
    Runbook("unknown-holder", "nobody can say whether the holder lives", (), (Situation.UNKNOWN,)),
    Runbook("presumed-holder", "a holder is only presumed dead", (), (Situation.PRESUMED,)),
    Runbook("live-holder", "a deploy was refused with exit 12", (ExitCode.HELD_LIVE,), (Situation.LIVE,)),
    Runbook("node-mutating", "a node was left half changed", (), (Situation.MUTATING,)),
    Runbook("unusable-mark", "a mark that no patch can be made from", (), (Situation.UNUSABLE,)),
    Runbook("kept-suspension", "a suspension was kept on purpose", (), (Situation.KEPT,)),
    Runbook("hold", "somebody placed a hold by hand", (), (Situation.HOLD,)),
    Runbook("claim", "a rollback did not succeed", (), (Situation.CLAIM,)),
    Runbook(
        "rollback-running", "a rollback was refused with exit 17", (ExitCode.ROLLBACK_IN_PROGRESS,)
    ),
    Runbook("not-ours", "suspended or cordoned by somebody else", (), (Situation.NOT_OURS,)),
    Runbook(
        "person-needed",
        "refused with 19, or a gate found 20",
        (ExitCode.HELD_PERSON_NEEDED, ExitCode.FENCES_FOUND),
    ),
    Runbook("lease-lost", "a deploy ended with exit 13", (ExitCode.LEASE_LOST,)),
    Runbook("new-state-live", "a deploy ended with exit 18", (ExitCode.FAILED_NEW_STATE_LIVE,)),
    Runbook("outcome-unknown", "a deploy ended with exit 15", (ExitCode.OUTCOME_UNKNOWN,)),
    Runbook("prune-withheld", "exit 15, and a prune was withheld", (), (Situation.PRUNE_WITHHELD,)),
    Runbook(
        "deploy-failed",
        "a deploy ended with exit 10 or 14",
        (ExitCode.FAILED_PREVIOUS_RUNS, ExitCode.TIMED_OUT_PREVIOUS_RUNS),
    ),
    Runbook(
        "incomplete", "a command ended with exit 21", (ExitCode.INCOMPLETE,), (Situation.INCOMPLETE,)
    ),
    Runbook("doctor-failed", "doctor ended with exit 22", (ExitCode.DOCTOR_FAILED,)),
    Runbook("unexpected", "a command ended with exit 1", (ExitCode.UNEXPECTED,)),
    Runbook("exit-codes", "what each exit code means"),
)  # fmt: skip

NOBODY_NEEDED = frozenset(
    {
        ExitCode.OK,
        ExitCode.USAGE,  # nothing was read or changed, and the error says what to write instead
        ExitCode.HANGUP,  # asked for, and nothing is fenced
        ExitCode.INTERRUPTED,
        ExitCode.TERMINATED,
    }
)


def runbook_for(code: ExitCode) -> Runbook | None:
    """The runbook of an exit code; None where nobody is needed."""
    return next((book for book in RUNBOOKS if code in book.codes), None)


def situation_of(entry: FenceEntry, block: HolderBlock | None) -> Situation | None:
    """What is so of a fence of that holder; None for a record, which holds nothing."""
    if entry.kind is FenceKind.RECORD:
        return None
    if entry.kind is FenceKind.HOLD:
        return Situation.CLAIM if entry.now.startswith("claim ") else Situation.HOLD
    if entry.kept:
        return Situation.KEPT
    kind = entry.refusal.kind if entry.refusal is not None else None
    match kind:
        case NoRelease.REFUSED:
            return Situation.MUTATING if entry.phase == "mutating" else Situation.UNUSABLE
        case NoRelease.NOT_OURS:
            return Situation.NOT_OURS
        case NoRelease.INCOMPLETE:
            return Situation.INCOMPLETE
        case NoRelease.LIVE | NoRelease.FRESH:
            return Situation.LIVE
        case NoRelease.WAITS | NoRelease.NOT_A_PATCH | None:
            return _by_verdict(entry, block)
        case _:
            assert_never(kind)


def _by_verdict(entry: FenceEntry, block: HolderBlock | None) -> Situation:
    judgement = entry.judgement if block is None else block.judgement
    if judgement is None or judgement.verdict is Verdict.UNKNOWN:
        return Situation.UNKNOWN
    if judgement.verdict is Verdict.LIVE:
        return Situation.LIVE
    return Situation.PROVEN if judgement.strength is Strength.PROVEN else Situation.PRESUMED


class Match(msgspec.Struct, frozen=True):
    """A fence that a runbook is for, with its holder's block where a holder has it."""

    entry: FenceEntry
    situation: Situation
    block: HolderBlock | None = None


def matching(book: Runbook, report: FenceReport) -> tuple[Match, ...]:
    """Every fence that the runbook is for now, in the order of the report."""
    wanted = {*book.situations, *book.also}
    return tuple(match for match in _matches(report) if match.situation in wanted)


def _matches(report: FenceReport) -> Iterator[Match]:
    for block in report.blocks:
        yield from _each(block.entries, block)
    for entries in (report.unowned, report.holds, report.not_ours):
        yield from _each(entries, None)


def _each(entries: tuple[FenceEntry, ...], block: HolderBlock | None) -> Iterator[Match]:
    for entry in entries:
        situation = situation_of(entry, block)
        if situation is not None:
            yield Match(entry, situation, block)


class Values(msgspec.Struct, frozen=True):
    """
    What a runbook's placeholders stand for on one cluster; all of it hostile until escaped.

    `known`: by the placeholder's name, without its braces. `several`: those of which there is more than one, with
    all that there are; the first of them is filled in, or of `fences` all of one holder, in their order.
    `without`: those that this cluster has no use for, so that the option before them goes too. `missing`: why the
    others are not known.
    """

    known: Mapping[str, str] = MappingProxyType({})
    several: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    without: frozenset[str] = frozenset()
    missing: Mapping[str, str] = MappingProxyType({})


PLACEHOLDERS = (
    "context", "lease", "lease-namespace", "lease-name", "holder", "fence", "fences", "node", "resource", "name",
    "namespace", "hold", "generation",
)  # fmt: skip


def values_of(matches: tuple[Match, ...], *, lease: tuple[str, str], generation: int | None) -> Values:
    """
    Fill what a runbook needs from the fences that match it.

    `lease`: the configured one (namespace, name), for where no holder's journal names another. `generation`: the
    newest deploy that the record tells of.
    """
    found: dict[str, list[str]] = {}
    without: set[str] = set()
    for match in matches:
        for name, value in _told_by(match):
            if value not in found.setdefault(name, []):
                found[name].append(value)
    if matches and matches[0].entry.object.namespace is None:
        without.add("namespace")
        found.pop("namespace", None)
    named = next((match.block.lease for match in matches if match.block is not None and match.block.lease), lease)
    found |= {"lease": ["/".join(named)], "lease-namespace": [named[0]], "lease-name": [named[1]]}
    if generation is not None:
        found["generation"] = [str(generation)]
    # NB: what names one object must be of one object: the first one's, whatever else matches.
    several = {name: tuple(all_) for name, all_ in found.items() if len(all_) > 1 and name in _COUNTED}
    together = tuple(
        m.entry.object.display for m in matches if m.block is matches[0].block and m.block is not None
    )
    if together:
        found["fences"] = list(together)
        several["fences"] = together
    none = "no fence matches this runbook now"
    missing = {name: none for name in PLACEHOLDERS if name not in found and name not in without}
    missing |= {"generation": "no deploy is recorded"} if generation is None else {}
    return Values({name: all_[0] for name, all_ in found.items()}, several, frozenset(without), missing)


# Of which one may be chosen; the others are parts of one name.
_COUNTED = frozenset({"holder", "fence", "node", "hold"})


def _told_by(match: Match) -> Iterator[tuple[str, str]]:
    entry = match.entry
    if entry.kind is FenceKind.HOLD:
        kind, _, name = entry.now.partition(" ")
        yield "hold", f"claim-{name}" if kind == "claim" else name
        return
    if match.block is not None:
        yield "holder", match.block.holder.identity
    yield "fence", entry.object.display
    yield "resource", entry.object.kubectl_resource
    yield "name", entry.object.name
    if entry.object.namespace is not None:
        yield "namespace", entry.object.namespace
    if entry.kind is FenceKind.CORDON:
        yield "node", entry.object.name
