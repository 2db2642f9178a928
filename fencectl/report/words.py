"""The sentences that every shape of a report shares: sums, titles, names, and fencectl's own command lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from fencectl.core.evidence import Verdict
from fencectl.core.identity import HolderKind, run_link
from fencectl.core.profiles import ProfileName
from fencectl.core.report import FenceEntry, FenceKind, FenceReport, HolderBlock, NoRelease
from fencectl.core.times import age_text, clock_text
from fencectl.report.escape import cut, visible
from fencectl.report.shell import NotPrintableError, quote

_SERVER = re.compile(r"https?://([A-Za-z0-9.-]+)(?::[0-9]+)?/?", re.ASCII)
_VERDICT_ORDER = ("dead (proven)", "dead (presumed)", "unknown", "live")
_ENTRIES = frozenset({FenceKind.HOLD, FenceKind.RECORD})
_OWN_VERB = re.compile(r"\bfencectl ([a-z]+)\b")


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 fence`, `2 fences`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def listed(names: Iterable[str], limit: int | None = 3) -> str:
    """Names, three of them, then `and 4 more`."""
    every = list(names)
    if limit is None or len(every) <= limit:
        return ", ".join(every)
    return f"{', '.join(every[:limit])} and {len(every) - limit} more"


def name_of(entry: FenceEntry) -> str:
    """The fence as `release` takes it; a hold or a record by its own title, since many share one object."""
    return visible(entry.now if entry.kind in _ENTRIES else entry.object.display)


def now_of(entry: FenceEntry) -> str:
    """What is so now."""
    if entry.kind in _ENTRIES:
        return "held" if entry.kind is FenceKind.HOLD else "found"
    return visible(entry.now)


def held_for(entry: FenceEntry) -> str:
    """How long it has been held; `?` where nobody wrote down since when."""
    return "?" if entry.age_s is None else age_text(entry.age_s)


def by_whom(entry: FenceEntry) -> str:
    """The field manager behind something that is not ours (managedFields may be absent)."""
    return f"by {visible(entry.manager)}" if entry.manager else "by unknown"


def label_of(report: FenceReport) -> str:
    """The cluster in sentences."""
    return visible(report.label)


def read_at(report: FenceReport) -> str:
    """The time of the report, on the API server's clock."""
    return clock_text(report.observed_at, now=report.observed_at)


def identity_of(block: HolderBlock) -> str:
    """The holder's identity; one that fits no spelling is somebody's text and is cut like one."""
    shown = visible(block.holder.identity)
    return cut(shown) if block.holder.kind is HolderKind.OPAQUE else shown


def run_of(block: HolderBlock) -> str:
    """Who it is: `run R attempt A job J`, `HOST pid N`, `pod NS/NAME` or `holder TEXT`."""
    return cut(visible(block.title)) if block.holder.kind is HolderKind.OPAQUE else visible(block.title)


def title_of(block: HolderBlock) -> str:
    """Who it is, and what of: `run R attempt A job J, acme/platform deploy-prod.yaml`."""
    origin = " ".join(cut(visible(part)) for part in (block.repository, block.workflow) if part)
    return f"{run_of(block)}, {origin}" if origin else run_of(block)


def run_url(block: HolderBlock) -> str | None:
    """The page of the attempt; None unless every part of it is known and is nothing but that."""
    return run_link(block.holder, block.repository, block.server_url)


def github_api_of(block: HolderBlock) -> str:
    """Who is asked about a run: the API's host, as far as the server is known."""
    if block.server_url is None:
        return "api.github.com"
    match = _SERVER.fullmatch(block.server_url)
    if match is None:
        return "GitHub"
    return "api.github.com" if match[1] == "github.com" else match[1]


def verdicts(blocks: Sequence[HolderBlock]) -> str:
    """`dead (proven)`, or `1 dead (proven), 2 live` where the holders differ."""
    words = [block.judgement.words for block in blocks]
    kinds = sorted(set(words), key=_VERDICT_ORDER.index)
    if len(kinds) == 1:
        return kinds[0]
    return ", ".join(f"{words.count(kind)} {kind}" for kind in kinds)


def held_sentence(report: FenceReport) -> str:
    """The sum, without a full stop: `5 fences held on prod by 1 holder: dead (proven)`."""
    label = label_of(report)
    if not report.complete:
        whats = listed((visible(part.what) for part in report.unreadable), 3)
        return (
            f"report INCOMPLETE on {label}: {whats} could not be read."
            f" {count(len(report.held), 'fence')} found elsewhere"
        )
    if not report.held:
        return f"no fence is held on {label}"
    sentence = f"{count(len(report.held), 'fence')} held on {label}"
    if report.unowned or report.holds:
        sentence += f": {', '.join(_parts(report))}"
    else:
        sentence += f" by {count(len(report.blocks), 'holder')}: {verdicts(report.blocks)}"
    refused = sum(len(block.refused) for block in report.blocks)
    if refused:
        sentence += f", but {refused} of them {'is' if refused == 1 else 'are'} REFUSED"
    kept = sum(1 for entry in report.held if entry.kept)
    if kept:
        sentence += f", {kept} of them KEPT on purpose"
    return sentence


def _parts(report: FenceReport) -> Iterable[str]:
    chained = sum(len(block.entries) for block in report.blocks)
    if chained:
        yield f"{chained} by {count(len(report.blocks), 'holder')} ({verdicts(report.blocks)})"
    if report.unowned:
        yield f"{len(report.unowned)} without a usable holder"
    if report.holds:
        yield f"{count(len(report.holds), 'hold')} by hand or by a claim"


def advice_sentence(report: FenceReport) -> str | None:
    """What the sum means for who reads it."""
    if not report.complete or not report.held:
        return None
    if not report.releasable:
        return "Nothing can be released now"
    unproven = [block for block in report.blocks_with(Verdict.UNKNOWN) if _has_command(block)]
    if not unproven:
        return None
    if len(report.blocks) == 1:
        return "Prove it dead before you release"
    return "Prove each unknown one dead before you release"


def not_ours_sentence(report: FenceReport) -> str | None:
    """How many foreign cordons and suspensions stand beside the fences."""
    number = len(report.not_ours)
    return f"{number} more {'is' if number == 1 else 'are'} not ours" if number and report.held else None


def opening(report: FenceReport) -> str:
    """The first sentences of a report."""
    parts = (held_sentence(report), advice_sentence(report), not_ours_sentence(report))
    return "".join(f"{part}. " for part in parts if part).rstrip()


def _has_command(block: HolderBlock) -> bool:
    return any(entry.release is not None for entry in block.entries)


def all_releasable(block: HolderBlock) -> bool:
    """Whether every fence of the holder has a command and none was kept on purpose."""
    return all(entry.release is not None and not entry.kept for entry in block.entries)


def refused_in(report: FenceReport) -> list[FenceEntry]:
    """Every fence that is refused for its own sake, those without a holder included."""
    return [
        entry for entry in report.held if entry.refusal is not None and entry.refusal.kind is NoRelease.REFUSED
    ]


def counts_of(report: FenceReport) -> str:
    """How much was read; parts that could not be are left out where nothing of them was."""
    counts = report.counts
    parts = [
        (counts.leases, count(counts.leases, "lease")),
        (counts.nodes, count(counts.nodes, "node")),
        (
            counts.flux_kinds,
            f"{count(counts.flux_objects, 'Flux object')} of {count(counts.flux_kinds, 'kind')}",
        ),
        (counts.holds, count(counts.holds, "hold")),
    ]
    return ", ".join(text for number, text in parts if number or report.complete)


def fencectl(report: FenceReport, verb: str, *more: str) -> str:
    """A command line of our own for the same cluster, as it stands."""
    parts = ["fencectl", verb]
    if report.kubeconfig:
        parts += ["--kubeconfig", quoted(report.kubeconfig)]
    if report.context:
        parts += ["--context", quoted(report.context)]
    if report.profile != ProfileName.FENCECTL:
        parts += ["--profile", quoted(report.profile)]
    return " ".join([*parts, *more])


def holder_option(block: HolderBlock) -> str:
    """The holder as `--holder` takes it: `RUN.ATTEMPT`, or the identity, quoted."""
    return block.holder.column if block.holder.run is not None else quoted(block.holder.identity)


def proof_of(block: HolderBlock, *, says: str = "the check above") -> str:
    """What has to be so before a holder that is unknown counts as gone."""
    check = block.judgement.check
    if check is None:
        return "you know that their holder is gone"
    return f"{says} says `completed`" if check.startswith("gh ") else f"{says} shows that their holder is gone"


def kubectl(report: FenceReport, *more: str) -> str:
    """A command line of kubectl that only reads, for the same cluster."""
    parts = ["kubectl"]
    if report.kubeconfig:
        parts += ["--kubeconfig", quoted(report.kubeconfig)]
    if report.print_context or report.context:
        parts += ["--context", quoted(report.print_context or report.context or "")]
    return " ".join([*parts, *more])


def quoted(text: str) -> str:
    """A word of a command line."""
    try:
        return quote(text)
    except NotPrintableError:
        # No shell can hand such a name over: shown, so that it can at least be recognised.
        return quote(visible(text))


def names_only(verbs: frozenset[str], text: str) -> bool:
    """Whether the text names no verb of fencectl but these."""
    return all(verb in verbs for verb in _OWN_VERB.findall(text))
