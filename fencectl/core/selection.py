"""
Which fences `release` prints: those of one holder, all that can go now, or the ones that were named.

A fence is never printed while an earlier one of its holder is held and not printed before it. An unknown holder's
fences are printed only when that holder was named: then a person vouches for it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from fencectl.core.errors import ExitCode, FencectlError, NotReadableError, PersonNeededError, UsageError
from fencectl.core.evidence import Verdict
from fencectl.core.placements import applier_of
from fencectl.core.profiles import DISABLED, RECONCILE
from fencectl.core.refs import annotations_of
from fencectl.core.report import FenceEntry, FenceReport, HolderBlock


class HeldLiveError(FencectlError):
    """The holder is alive: nothing may be released, waiting helps."""

    exit_code = ExitCode.HELD_LIVE


class Selection(msgspec.Struct, frozen=True):
    """
    What to print, in order.

    `entries` have a release each. `refused`: the first fence that cannot go, after which nothing is printed.
    `kept`: fences left out because they were kept on purpose. `rest`: those that wait behind `refused`.
    """

    block: HolderBlock
    entries: tuple[FenceEntry, ...]
    refused: FenceEntry | None
    kept: tuple[FenceEntry, ...]
    rest: tuple[FenceEntry, ...]

    @property
    def all(self) -> tuple[FenceEntry, ...]:
        """Everything that was chosen, in order, whether it can go or not."""
        refused = (self.refused,) if self.refused is not None else ()
        chosen = (*self.entries, *self.kept, *refused, *self.rest)
        return tuple(sorted(chosen, key=lambda entry: entry.order))


def select(report: FenceReport, *, holder: str | None, fences: Sequence[str]) -> Selection | None:
    """
    Choose; None where nothing that a holder owns is held.

    `holder`: an identity or `RUN.ATTEMPT`. `fences`: as typed, `kind/NAME` or `kind/NS/NAME`. Raises UsageError
    for what names nothing or names too much, NotReadableError for an incomplete report, HeldLiveError and
    PersonNeededError where nothing may be printed.
    """
    if not report.complete:
        missing = report.unreadable[0]
        raise NotReadableError(
            f"report incomplete on {report.label}: {missing.what} could not be read",
            reason=f"{missing.why}. An earlier fence may be hidden, so no command is printed",
        )
    named = [_find(report, text) for text in fences]
    block = _block(report, holder, named)
    if block is None:
        return None
    live = block.judgement.verdict is Verdict.LIVE
    if live or block.judgement.fresh:
        raise HeldLiveError(
            f"nothing is printed: {block.title} {'is' if live else 'may be'} live",
            reason=block.judgement.because,
            hint="it releases its fences when it ends" if live else None,
        )
    if block.judgement.verdict is Verdict.UNKNOWN and holder is None:
        raise PersonNeededError(
            f"nothing is printed: nobody has proven {block.title} dead",
            reason=block.judgement.because,
            hint=f"check it yourself ({block.judgement.check}), then name it: --holder {block.holder.identity}"
            if block.judgement.check
            else f"find out what it is, then name it: --holder {block.holder.identity}",
        )
    return _selection(block, named, vouched=holder is not None)


def _selection(block: HolderBlock, named: Sequence[FenceEntry], *, vouched: bool) -> Selection:
    if len(named) == 1 and vouched and named[0].way_out is not None:
        chosen = replace(named[0], release=named[0].way_out, refusal=None, after="free")
        return Selection(block, (chosen,), None, (), ())
    # NB: a kept fence that was named is meant; otherwise keeping it was the point.
    wanted = (
        [replace(entry, kept=False) for entry in block.entries if entry in named] if named else list(block.entries)
    )
    kept = tuple(entry for entry in wanted if entry.kept)
    going: list[FenceEntry] = []
    for position, entry in enumerate(wanted):
        if entry in kept:
            continue
        if named:
            _refuse_out_of_turn(block, entry, going)
        if entry.release is None:
            rest = tuple(later for later in wanted[position + 1 :] if later not in kept)
            return Selection(block, tuple(going), entry, kept, rest)
        going.append(entry)
    return Selection(block, tuple(going), None, kept, ())


def _refuse_out_of_turn(block: HolderBlock, entry: FenceEntry, going: Sequence[FenceEntry]) -> None:
    for earlier in block.entries:
        if earlier.object in {one.object for one in going}:
            continue
        if (earlier.rank > entry.rank and not earlier.kept) or _is_excluded_child(earlier, entry):
            raise PersonNeededError(
                f"{entry.object.display} waits for {earlier.object.display}, which is still held",
                reason="fences are released in the reverse of the order in which they were placed",
                hint=f"name {earlier.object.display} too, or name none of them",
            )


def _is_excluded_child(child: FenceEntry, parent: FenceEntry) -> bool:
    """Whether the parent, when it reconciles, would drop the child from its inventory; kept or not."""
    own = (parent.object.namespace, parent.object.name) if parent.object.kind == "Kustomization" else None
    excluded = annotations_of(child.raw).get(RECONCILE) == DISABLED
    return excluded and child.object != parent.object and applier_of(child.raw) == own is not None


def _find(report: FenceReport, text: str) -> FenceEntry:
    called = [
        entry
        for entry in report.held
        if entry.object.display == text.lower() and entry.kind.value not in ("hold", "record")
    ]
    if len(called) > 1:
        groups = ", ".join(entry.object.api_version for entry in called)
        raise UsageError(
            f"{len(called)} fences are called `{text}` on {report.label}: {groups}",
            hint="a name cannot tell them apart; name none of them, and take the whole chain",
        )
    if called:
        return called[0]
    for entry in report.not_ours:
        if entry.object.display == text.lower():
            raise PersonNeededError(
                f"{text} is not ours: fencectl releases only what carries its mark",
                hint="whoever placed it has to lift it",
            )
    there_are = ", ".join(entry.object.display for entry in report.held[:8])
    raise UsageError(
        f"no fence `{text}` on {report.label}",
        hint=f"held: {there_are}" if there_are else "no fence is held there",
    )


def _block(report: FenceReport, holder: str | None, named: Sequence[FenceEntry]) -> HolderBlock | None:
    blocks = report.blocks
    # NB: where nothing is held at all, the named holder's fences are gone too; that is no misspelling.
    if holder is not None and blocks:
        blocks = tuple(block for block in blocks if is_called(block, holder))
        if not blocks:
            raise UsageError(f"no holder `{holder}` holds a fence on {report.label}", hint=_list(report))
    if named:
        unowned = next((entry for entry in named if entry in report.unowned), None)
        if unowned is not None and unowned.refusal is not None:
            raise PersonNeededError(f"{unowned.object.display} is refused", reason=unowned.refusal.why)
        blocks = tuple(block for block in blocks if any(entry in block.entries for entry in named))
        if not blocks or any(entry not in blocks[0].entries for entry in named):
            raise UsageError("these fences do not belong to one holder", hint=_list(report))
    if not blocks:
        if report.unowned:
            first = report.unowned[0]
            raise PersonNeededError(
                f"nothing is printed: {first.object.display} carries a mark that names no holder",
                reason=first.refusal.why if first.refusal else None,
            )
        return None
    if len(blocks) > 1:
        raise UsageError(f"{len(blocks)} holders hold fences on {report.label}: pick one", hint=_list(report))
    return blocks[0]


def is_called(block: HolderBlock, holder: str) -> bool:
    """Whether a holder goes by that name: its identity, `RUN.ATTEMPT`, or the text on one of its fences."""
    names = {block.holder.identity, block.holder.column}
    return holder in names or any(holder == entry.holder_text for entry in block.entries)


def _list(report: FenceReport) -> str:
    holders = "; ".join(f"--holder {block.holder.identity} ({block.judgement.words})" for block in report.blocks)
    return holders or "no holder holds any fence there"
