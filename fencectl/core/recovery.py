"""
What `recover` may release, decided from one report: whose fences, in which order, and why not.

Only a holder that is dead (proven), or presumed dead where a person accepts that; only if every one of its fences
can go; never over an incomplete report or a mark that nobody can read; never unattended over a hold.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fencectl.core.errors import FencectlError, NotReadableError, PersonNeededError, UsageError
from fencectl.core.evidence import Strength, Verdict
from fencectl.core.identity import parse_holder
from fencectl.core.observation import Observation
from fencectl.core.profiles import Profile, ProfileName
from fencectl.core.refs import Seen, dig
from fencectl.core.report import FenceEntry, FenceKind, FenceReport, HolderBlock
from fencectl.core.selection import HeldLiveError, is_called


@dataclass(frozen=True, slots=True)
class Wanted:
    """
    What was asked for.

    `holder`: an identity or `RUN.ATTEMPT`; None: the only dead one, or `every` one of them. `accept_presumed`: a
    person's choice. `attended`: a person is asked before anything is written. `keys`: the very runs that were
    chosen at a first look; a run that turns up later was not watched.
    """

    holder: str | None = None
    every: bool = False
    accept_presumed: bool = False
    attended: bool = False
    keys: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class LeaseTarget:
    """
    The lease under which a recovery runs.

    `seen`: as observed, None where it does not exist. `dead_holder`: whom it is taken over from, None where it is
    free. `entry`: its fence in the chain, None where the dead run does not hold it. `last_token`: the highest one
    that is known of, from which a lease that was deleted counts on. `freed_before`: another run holds it now, and
    is recovered first.
    """

    namespace: str
    name: str
    seen: Seen | None
    dead_holder: str | None
    entry: FenceEntry | None
    last_token: int = 0
    freed_before: bool = False


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """
    One holder's recovery.

    `key`: the run, as other fences name it. `going`: what is released, in order, without the lease. `kept`: what
    is left alone. `lease`: None for a foreign profile whose lease is only one of the fences.
    """

    block: HolderBlock
    going: tuple[FenceEntry, ...]
    kept: tuple[FenceEntry, ...]
    lease: LeaseTarget

    @property
    def key(self) -> str:
        """What joins the fences of this run: for the default profile the identity of the outermost run."""
        return self.block.key

    @property
    def keys(self) -> frozenset[str]:
        """By what a fence of this run, read alone, names its run: nested runs name the one around them."""
        marks = (entry.holder_text for entry in self.block.entries if entry.kind is not FenceKind.LEASE)
        return frozenset({self.key, *(text for text in marks if text is not None)})

    @property
    def total(self) -> int:
        """How many fences this plan releases, the lease included where the run holds it."""
        return len(self.going) + (self.lease.entry is not None)


def leases_to_watch(
    report: FenceReport, profile: Profile, wanted: Wanted, observation: Observation | None = None
) -> tuple[tuple[HolderBlock, ...], tuple[tuple[str, str], ...]]:
    """
    Decide, from a first look, whether watching can lead anywhere: the holders in question, and their leases.

    Raises as `plan_recovery` does where it cannot. A holder that only a fresh or unusable heartbeat keeps from
    being dead goes on to be watched. With the `observation` every refusal that is known already is told at once.
    """
    _must_be_whole(report)
    blocks = _chosen(report, wanted)
    if blocks:
        _must_be_clear(report, wanted)
    for block in blocks:
        if not block.judgement.only_heartbeat:
            _must_be_dead(report, block, wanted)
    if observation is not None and not any(block.judgement.only_heartbeat for block in blocks):
        plan_recovery(report, observation, profile, wanted)
    return blocks, tuple(dict.fromkeys(lease for block in blocks for lease in _leases_of(block, profile)))


def plan_recovery(
    report: FenceReport, observation: Observation, profile: Profile, wanted: Wanted
) -> tuple[RecoveryPlan, ...]:
    """
    Decide; empty where nothing is held.

    Raises NotReadableError (21), HeldLiveError (12), PersonNeededError (19) or UsageError (2); nothing is changed
    then.
    """
    _must_be_whole(report)
    blocks = _chosen(report, wanted)
    if not blocks:
        return ()
    _must_be_clear(report, wanted)
    for block in blocks:
        _must_be_dead(report, block, wanted)
    # NB: a run whose lease is held by another dead run comes after it: that one's recovery frees the lease.
    ordered = sorted(blocks, key=_holds_no_lease)
    return tuple(
        _plan(report, block, observation, profile, ordered, accept_presumed=wanted.accept_presumed)
        for block in ordered
    )


def _must_be_whole(report: FenceReport) -> None:
    if not report.complete:
        missing = report.unreadable[0]
        raise NotReadableError(
            f"nothing was released on {report.label}: {missing.what} could not be read",
            reason=f"{missing.why}. An earlier fence may be hidden",
        )


def _must_be_clear(report: FenceReport, wanted: Wanted) -> None:
    if report.unowned:
        first = report.unowned[0]
        raise _refuse(report, f"{first.object.display} carries a mark that nobody can read", _why(first))
    holds = (*report.holds, *report.passed_over)
    if holds and not wanted.attended:
        hold = holds[0]
        raise _refuse(
            report,
            f"a {hold.now} is in place",
            "; ".join(hold.notes).removeprefix("reason: ") or None,
            hint=_lift_hint(report, hold),
        )


def _holds_no_lease(block: HolderBlock) -> bool:
    return not any(entry.kind is FenceKind.LEASE for entry in block.entries)


def _chosen(report: FenceReport, wanted: Wanted) -> tuple[HolderBlock, ...]:
    if wanted.keys is not None:
        return tuple(block for block in report.blocks if block.key in wanted.keys)
    if wanted.holder is not None:
        exact = tuple(block for block in report.blocks if wanted.holder in (block.key, block.holder.identity))
        found = exact or tuple(block for block in report.blocks if is_called(block, wanted.holder))
        if not found and report.blocks:
            raise UsageError(
                f"no holder `{wanted.holder}` holds a fence on {report.label}", hint=_list(report.blocks)
            )
        if len(found) > 1:
            raise UsageError(
                f"{len(found)} holders are called `{wanted.holder}` on {report.label}: pick one", hint=_list(found)
            )
        return found
    dead = report.blocks_with(Verdict.DEAD)
    if wanted.every or len(dead) == 1:
        return dead or report.blocks
    if dead:
        raise UsageError(
            f"{len(dead)} dead holders hold fences on {report.label}: pick one, or take --all", hint=_list(dead)
        )
    return report.blocks


def _must_be_dead(report: FenceReport, block: HolderBlock, wanted: Wanted) -> None:
    judgement = block.judgement
    if judgement.verdict is Verdict.LIVE or judgement.fresh:
        raise HeldLiveError(
            f"nothing was released on {report.label}: {block.title} is alive"
            if judgement.verdict is Verdict.LIVE
            else f"nothing was released on {report.label}: {block.title} may be alive",
            reason=judgement.because,
        )
    if judgement.verdict is Verdict.UNKNOWN:
        hint = f"look for yourself: {judgement.check}" if judgement.check else None
        raise _refuse(report, f"nobody has proven {block.title} dead", judgement.because, hint=hint)
    if judgement.strength is Strength.PRESUMED and not wanted.accept_presumed:
        raise _refuse(
            report,
            f"{block.title} is only presumed dead",
            judgement.because,
            hint="if you know that it is gone: --accept-presumed",
        )


def _plan(
    report: FenceReport,
    block: HolderBlock,
    observation: Observation,
    profile: Profile,
    chosen: Sequence[HolderBlock],
    *,
    accept_presumed: bool,
) -> RecoveryPlan:
    kept = tuple(entry for entry in block.entries if entry.kept)
    going = tuple(entry for entry in block.entries if not entry.kept)
    stuck = next((entry for entry in going if entry.release is None), None)
    if stuck is not None:
        advice = stuck.refusal.advice[0] if stuck.refusal and stuck.refusal.advice else None
        raise _refuse(report, f"{stuck.object.display} cannot be released", _why(stuck), hint=advice)
    lease = _main_lease(block, going)
    if profile.name is ProfileName.FENCECTL and lease is not None:
        _must_not_be_taken_by_the_living(report, block, lease, accept_presumed=accept_presumed)
    target = _lease_target(report, block, lease, observation, profile, chosen)
    return RecoveryPlan(block, tuple(entry for entry in going if entry is not lease), kept, target)


def _main_lease(block: HolderBlock, going: Sequence[FenceEntry]) -> FenceEntry | None:
    """Of several leases the one that the fences name, which keeps others out; else the last in the order."""
    leases = [entry for entry in going if entry.kind is FenceKind.LEASE]
    named = [entry for entry in leases if block.lease == (entry.object.namespace, entry.object.name)]
    return next(reversed(named or leases), None)


def _must_not_be_taken_by_the_living(
    report: FenceReport, block: HolderBlock, lease: FenceEntry, *, accept_presumed: bool
) -> None:
    """Refuse a lease that somebody took over to recover this run, unless that one is dead as well."""
    recoverer = block.recoverer
    if recoverer is None or recoverer.strength is Strength.PROVEN:
        return
    if recoverer.strength is Strength.PRESUMED and accept_presumed:
        return
    who = lease.holder.title if lease.holder is not None else "somebody"
    raise HeldLiveError(
        f"nothing was released on {report.label}: {who} is recovering {block.title}, and is not proven dead",
        reason=recoverer.because,
    )


def _lease_target(
    report: FenceReport,
    block: HolderBlock,
    entry: FenceEntry | None,
    observation: Observation,
    profile: Profile,
    chosen: Sequence[HolderBlock],
) -> LeaseTarget:
    if entry is not None:
        namespace, name = entry.object.namespace or "", entry.object.name
        return LeaseTarget(namespace, name, Seen(entry.object, entry.raw), entry.holder_text, entry)
    namespace, name = _named_lease(block, profile)
    seen = _find(observation, namespace, name)
    holder = dig(seen.raw, "spec", "holderIdentity") if seen is not None else None
    free = LeaseTarget(namespace, name, seen, None, None, block.lease_token)
    if not holder:
        return free
    other = next((b for b in report.blocks if any(_holds(e, namespace, name) for e in b.entries)), None)
    who = parse_holder(str(holder)).title
    if other is not None and other in chosen:
        return replace(free, freed_before=True)
    if other is not None and other.judgement.strength is Strength.PROVEN:
        raise _refuse(
            report,
            f"lease/{namespace}/{name} is held by {who}, which is dead too",
            "its fences have to go first, since without the lease a deploy could start",
            hint="--all releases both, in the right order",
        )
    raise HeldLiveError(
        f"nothing was released on {report.label}: lease/{namespace}/{name} is held by {who}",
        reason="it is not proven dead, and without the lease its deploy could start over a half-released chain",
    )


def _holds(entry: FenceEntry, namespace: str, name: str) -> bool:
    return entry.kind is FenceKind.LEASE and (entry.object.namespace, entry.object.name) == (namespace, name)


def _leases_of(block: HolderBlock, profile: Profile) -> tuple[tuple[str, str], ...]:
    """Every lease of a run: those that it (or its recoverer) holds, and else the one that its journals name."""
    held = [e.object for e in block.entries if e.kind is FenceKind.LEASE]
    return tuple((ref.namespace or "", ref.name) for ref in held) or (_named_lease(block, profile),)


def _named_lease(block: HolderBlock, profile: Profile) -> tuple[str, str]:
    named = block.lease if profile.name is ProfileName.FENCECTL else None
    return named or profile.lease


def _find(observation: Observation, namespace: str, name: str) -> Seen | None:
    for seen in observation.leases:
        if (seen.ref.namespace, seen.ref.name) == (namespace, name):
            return seen
    return None


def _why(entry: FenceEntry) -> str | None:
    return entry.refusal.why if entry.refusal else None


def _refuse(report: FenceReport, what: str, why: str | None, *, hint: str | None = None) -> FencectlError:
    return PersonNeededError(f"nothing was released on {report.label}: {what}", reason=why, hint=hint)


def _lift_hint(report: FenceReport, hold: FenceEntry) -> str:
    """The command that lifts a hold; without `--yes` a person at a terminal may go on under it."""
    given = {"--kubeconfig": report.kubeconfig, "--context": report.context}
    flags = [shlex.quote(word) for flag, value in given.items() if value for word in (flag, value)]
    words = [shlex.quote(word) for word in hold.hold_words]
    lift = " ".join(["fencectl", "hold", "lift", *words, *flags])
    return f"`{lift}` lifts it; at a terminal, a person may also go on under it: leave `--yes` out"


def _list(blocks: Sequence[HolderBlock]) -> str:
    return "; ".join(f"--holder {block.holder.identity} ({block.judgement.words})" for block in blocks)
