"""Assemble the report: the fences of one observation, joined by run, judged, and planned by `core.plan`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from fencectl.core.evidence import Judgement, Strength, Verdict
from fencectl.core.facts import HolderEvidence, Subject
from fencectl.core.found import Foreign, Found, Reading
from fencectl.core.groups import (
    Group,
    Judging,
    group_by_run,
    judge_group,
    judge_recoverer,
    recoverer_subject,
    subject_of,
)
from fencectl.core.identity import parse_holder
from fencectl.core.journal import MAX_TOKEN, Journal, LeaseRef
from fencectl.core.marks_reader import NOTHING_VOUCHED, Vouched, read_marks
from fencectl.core.observation import Observation
from fencectl.core.plan import Step, excluded_children, plan, position
from fencectl.core.profiles import Profile, ProfileName
from fencectl.core.records import Entry, hold_notes, read_entries, unfinished_words
from fencectl.core.refs import dig, text_or_none
from fencectl.core.report import FenceEntry, FenceKind, FenceReport, HolderBlock, NoRelease, Refusal
from fencectl.core.times import age_text

SKEW_WORTH_SAYING_S = 2.0
_VERDICT_ORDER = {
    (Verdict.DEAD, Strength.PROVEN): 0,
    (Verdict.DEAD, Strength.PRESUMED): 1,
    (Verdict.UNKNOWN, None): 2,
    (Verdict.LIVE, None): 3,
}
_RECORD_LIFT = Refusal(NoRelease.NOT_A_PATCH, "a record blocks nothing and needs no release", "none")
_CLAIM_LIFT = "a deploy or a restore that succeeds retires {}; at last a person lifts it, and no patch does"


class Runs(msgspec.Struct, frozen=True):
    """One observation, read by its profile and joined by run, before anything was asked about the holders."""

    observation: Observation
    profile: Profile
    reading: Reading
    groups: tuple[Group, ...]
    repository: str | None

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """Every holder to ask about, once each, however many fences it holds."""
        context = self.observation.print_context
        found: dict[str, Subject] = {}
        for group in self.groups:
            subject = subject_of(group, repository=self.repository, context=context)
            recoverer = recoverer_subject(group, repository=self.repository, context=context)
            for one in (subject, recoverer) if recoverer is not None else (subject,):
                found.setdefault(one.holder.identity, one)
        return tuple(found.values())


def read_runs(
    observation: Observation,
    profile: Profile,
    *,
    repository: str | None = None,
    vouched: Vouched = NOTHING_VOUCHED,
) -> Runs:
    """
    Find the fences and the runs that hold them.

    `repository`: where runs are looked up when a journal does not tell (config `github.repository`). `vouched`:
    for the default profile only; another tool's nodes are vouched for in that tool.
    """
    if profile.name is ProfileName.GHCR_BRIDGE:
        from fencectl.core.bridge import read_bridge  # NB: a third of the rules, and needed by one profile only

        reading = read_bridge(observation)
    else:
        reading = read_marks(observation, vouched)
    return Runs(observation, profile, reading, group_by_run(reading.found), repository)


def assemble(
    runs: Runs,
    *,
    evidence: Mapping[str, HolderEvidence] = MappingProxyType({}),
    unchanged_for_s: Mapping[tuple[str, str], float] = MappingProxyType({}),
) -> FenceReport:
    """Make the report. `evidence`: by holder identity; `unchanged_for_s`: by lease that was watched."""
    observation, profile, reading = runs.observation, runs.profile, runs.reading
    judging = Judging(observation, profile, runs.repository, evidence, unchanged_for_s)
    judged = sorted(((group, judge_group(group, judging)) for group in runs.groups), key=_standing)
    excluded = excluded_children(reading.found)
    open_lease = _open_lease(reading) if profile.name is ProfileName.GHCR_BRIDGE else None
    order = 1
    blocks = []
    for group, judgement in judged:
        overall = _overall_refusal(judgement, observation)
        steps = plan(group.found, overall=overall, excluded=excluded, first=order)
        order += len(steps)
        entries = (_entry(step, observation, judgement, open_lease) for step in steps)
        block = _block(group, judgement, tuple(entries))
        blocks.append(replace(block, recoverer=judge_recoverer(group, judging)))
    unowned = []
    for found in sorted((f for f in reading.found if f.group is None), key=position):
        unowned.append(_entry(Step(found, order, found.refusal, None), observation, None, None))
        order += 1
    holds, findings = [], []
    for entry in read_entries(observation):
        if entry.kind is FenceKind.HOLD:
            holds.append(_hold(entry, observation, order))
            order += 1
        elif _is_finding(entry, observation):
            findings.append(_hold(entry, observation, 0))
    return FenceReport(
        context=observation.context,
        print_context=observation.print_context,
        kubeconfig=observation.kubeconfig,
        server=observation.server,
        cluster_uid=observation.cluster_uid,
        profile=profile.name.value,
        observed_at=observation.observed_at,
        skew_s=observation.skew_s,
        unreadable=observation.unreadable,
        counts=replace(observation.counts, holds=len(holds)),
        blocks=tuple(blocks),
        unowned=tuple(unowned),
        holds=tuple(holds),
        findings=tuple(findings),
        not_ours=tuple(_foreign(item, observation) for item in reading.foreign),
        notes=_notes(observation),
    )


def _open_lease(reading: Reading) -> Found | None:
    """The other tool's lease, where only refused nodes are left and a person may free it knowingly."""
    from fencectl.core.bridge_way_out import lease_way_out

    way_out = lease_way_out(reading)
    return way_out.lease if way_out is not None and way_out.is_open else None


def _standing(judged: tuple[Group, Judgement]) -> tuple[int, float, str]:
    """Where a holder stands in the report: by verdict, then who began first."""
    group, judgement = judged
    since = min((found.since.timestamp() for found in group.found if found.since), default=0.0)
    return (_VERDICT_ORDER[(judgement.verdict, judgement.strength)], since, group.key)


def _overall_refusal(judgement: Judgement, observation: Observation) -> Refusal | None:
    """Why nothing of this holder may be released now, whatever its fences look like."""
    if judgement.verdict is Verdict.LIVE:
        return Refusal(NoRelease.LIVE, f"its holder is live: {judgement.because}", "none: live")
    if judgement.fresh:
        return Refusal(NoRelease.FRESH, f"{judgement.because}; ask again when it has run out", "none: fresh")
    if observation.unreadable:
        what = observation.unreadable[0].what
        short = f"none: {what}"
        return Refusal(
            NoRelease.INCOMPLETE,
            f"the report is incomplete: {what} could not be read, so an earlier fence may be hidden",
            short if len(short) <= 15 else "none: unread",
        )
    return None


def _entry(
    step: Step, observation: Observation, judgement: Judgement | None, open_lease: Found | None
) -> FenceEntry:
    found, release = step.found, step.found.release
    if step.refusal is not None:
        release = None
    return FenceEntry(
        kind=found.kind,
        object=found.ref,
        ours=True,
        holder=found.holder,
        holder_text=found.holder_text,
        since=found.since,
        age_s=(observation.observed_at - found.since).total_seconds() if found.since else None,
        rank=found.rank,
        order=step.order,
        now=found.now,
        after=found.after if release is not None else None,
        manager=found.manager,
        kept=found.kept_because is not None,
        release=None if release is None else replace(release, role=step.role or release.role),
        refusal=step.refusal,
        judgement=judgement,
        phase=found.phase,
        kept_because=found.kept_because,
        notes=found.notes,
        way_out=found.release if _is_way_out(step, open_lease) else None,
        raw=found.seen.raw,
    )


def _is_way_out(step: Step, open_lease: Found | None) -> bool:
    return step.found is open_lease and step.refusal is not None and step.refusal.kind is NoRelease.WAITS


def _block(group: Group, judgement: Judgement, entries: tuple[FenceEntry, ...]) -> HolderBlock:
    journals = group.journals
    details = next((journal.details for journal in journals if journal.details), {})
    lease = next((journal.lease for journal in journals if journal.lease), None)
    return HolderBlock(
        group.holder,
        judgement,
        entries,
        repository=next((j.repository for j in journals if j.repository), None),
        workflow=text_or_none(details.get("workflow")),
        server_url=next((j.server for j in journals if j.server), None),
        runner=next((j.runner for j in journals if j.runner), None),
        actor=text_or_none(details.get("actor")),
        lease=(lease.namespace, lease.name) if lease else None,
        lease_duration_s=lease.duration_s if lease else None,
        lease_token=_last_token(journals, lease),
        key=group.key,
    )


def _last_token(journals: Sequence[Journal], lease: LeaseRef | None) -> int:
    # NB: the server's transitions are 32 bits wide; what does not fit is nothing that a lease had.
    tokens = [j.lease.token for j in journals if j.lease and lease and _names(j.lease) == _names(lease)]
    return max((token for token in tokens if 0 <= token < MAX_TOKEN), default=0)


def _names(lease: LeaseRef) -> tuple[str, str]:
    return lease.namespace, lease.name


def _foreign(item: Foreign, observation: Observation) -> FenceEntry:
    why = "it carries no mark of this profile: whoever placed it has to lift it"
    return FenceEntry(
        kind=item.kind,
        object=item.seen.ref,
        ours=False,
        holder=None,
        holder_text=None,
        since=item.since,
        age_s=(observation.observed_at - item.since).total_seconds() if item.since else None,
        rank=0,
        order=0,
        now=item.now,
        after=None,
        manager=item.manager,
        kept=False,
        release=None,
        refusal=Refusal(NoRelease.NOT_OURS, why, "not ours"),
        notes=item.notes,
        raw=item.seen.raw,
    )


def _is_finding(entry: Entry, observation: Observation) -> bool:
    """A record without an outcome whose run holds no lease any more; a claim that moved nothing."""
    if not entry.unfinished:
        return entry.problem is not None or entry.is_claim
    holders = {dig(seen.raw, "spec", "holderIdentity") for seen in observation.leases}
    return entry.holder not in holders


def _hold(entry: Entry, observation: Observation, order: int) -> FenceEntry:
    refusal = _RECORD_LIFT
    if entry.kind is FenceKind.HOLD:
        by_person = f"a {entry.title} is lifted by a person, not by a patch"
        why = _CLAIM_LIFT.format(entry.title) if entry.is_claim else by_person
        refusal = Refusal(NoRelease.NOT_A_PATCH, why, "none: claim" if entry.is_claim else "none: hold")
    if entry.problem is not None:
        notes: tuple[str, ...] = (entry.problem,)
    elif entry.unfinished:
        notes = (unfinished_words(entry),)
    else:
        notes = hold_notes(entry, observation.observed_at)
    return FenceEntry(
        kind=entry.kind,
        object=entry.seen.ref,
        ours=True,
        holder=parse_holder(entry.holder) if entry.holder else None,
        holder_text=entry.holder or entry.by,
        since=entry.since,
        age_s=(observation.observed_at - entry.since).total_seconds() if entry.since else None,
        rank=0,
        order=order,
        now=entry.title,
        after=None,
        manager=None,
        kept=False,
        release=None,
        refusal=refusal,
        phase=entry.phase,
        notes=notes,
        raw=entry.seen.raw,
    )


def _notes(observation: Observation) -> tuple[str, ...]:
    skew_s = observation.skew_s
    if skew_s is None or abs(skew_s) <= SKEW_WORTH_SAYING_S:
        return ()
    side = "ahead of" if skew_s > 0 else "behind"
    return (f"this machine's clock is {age_text(abs(skew_s))} {side} the API server's; ages are by the server's",)
