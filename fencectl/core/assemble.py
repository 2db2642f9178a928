"""Assemble the report: the fences of one observation, joined by run, judged, and planned by `core.plan`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from fencectl.core.bridge import read_bridge
from fencectl.core.bridge_way_out import lease_way_out
from fencectl.core.evidence import Judgement, Strength, Verdict
from fencectl.core.found import Foreign, Found, Reading
from fencectl.core.identity import Holder, parse_holder
from fencectl.core.marks_reader import read_marks
from fencectl.core.observation import Observation
from fencectl.core.plan import Step, excluded_children, plan, position
from fencectl.core.profiles import Profile, ProfileName
from fencectl.core.records import Entry, hold_notes, read_entries
from fencectl.core.refs import dig
from fencectl.core.report import FenceEntry, FenceKind, FenceReport, HolderBlock, NoRelease, Refusal
from fencectl.core.times import age_text
from fencectl.core.verdict import HolderFacts, judge

SKEW_WORTH_SAYING_S = 2.0
_READERS: dict[ProfileName, Callable[[Observation], Reading]] = {
    ProfileName.FENCECTL: read_marks,
    ProfileName.GHCR_BRIDGE: read_bridge,
}
_VERDICT_ORDER = {
    (Verdict.DEAD, Strength.PROVEN): 0,
    (Verdict.DEAD, Strength.PRESUMED): 1,
    (Verdict.UNKNOWN, None): 2,
    (Verdict.LIVE, None): 3,
}
_RECORD_LIFT = Refusal(NoRelease.NOT_A_PATCH, "a record blocks nothing and needs no release", "none")


@dataclass(frozen=True, slots=True)
class _Group:
    """The fences of one run and the judgement on it."""

    holder: Holder
    judgement: Judgement
    found: tuple[Found, ...]


def assemble(observation: Observation, profile: Profile, *, repository: str | None = None) -> FenceReport:
    """
    Turn one observation into the report on it.

    `repository`: where runs are looked up when a journal does not tell (config `github.repository`).
    """
    reading = _READERS[profile.name](observation)
    groups = _grouped(reading.found, observation, profile, repository)
    excluded = excluded_children(reading.found)
    way_out = lease_way_out(reading) if profile.name is ProfileName.GHCR_BRIDGE else None
    open_lease = way_out.lease if way_out is not None and way_out.is_open else None
    order = 1
    blocks = []
    for group in groups:
        steps = plan(
            group.found, overall=_overall_refusal(group.judgement, observation), excluded=excluded, first=order
        )
        order += len(steps)
        entries = (_entry(step, observation, group.judgement, open_lease) for step in steps)
        blocks.append(_block(group, tuple(entries)))
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


def _grouped(
    all_found: Iterable[Found], observation: Observation, profile: Profile, repository: str | None
) -> list[_Group]:
    members: dict[str, list[Found]] = defaultdict(list)
    for found in all_found:
        if found.group is not None:
            members[found.group].append(found)
    groups = []
    for key, group in members.items():
        group.sort(key=position)
        holder = _group_holder(key, group)
        groups.append(_Group(holder, judge(_facts(holder, group, observation, profile, repository)), tuple(group)))
    return sorted(
        groups,
        key=lambda group: (
            _VERDICT_ORDER[(group.judgement.verdict, group.judgement.strength)],
            min((found.since.timestamp() for found in group.found if found.since), default=0.0),
            group.holder.identity,
        ),
    )


def _group_holder(key: str, group: Sequence[Found]) -> Holder:
    """The run itself: who holds the lease, else the fence that bears the group's own name, else the first."""
    for found in group:
        if found.kind is FenceKind.LEASE and found.holder is not None:
            return found.holder
    for found in group:
        if found.holder is not None and found.holder.identity == key:
            return found.holder
    return group[0].holder or parse_holder(key)


def _facts(
    holder: Holder, group: Sequence[Found], observation: Observation, profile: Profile, repository: str | None
) -> HolderFacts:
    beats = [found.heartbeat for found in group if found.heartbeat is not None]
    # NB: of several leases the youngest heartbeat speaks: a run that renews any of them lives.
    beat = max(beats, key=lambda b: b.renewed_at.timestamp() if b.renewed_at else float("-inf"), default=None)

    def told(key: str) -> str | None:
        values = (found.story.get(key) for found in group if found.story)
        return next((value for value in values if isinstance(value, str) and value), None)

    return HolderFacts(
        holder,
        beat,
        None if beat else _why_no_heartbeat(group, observation, profile),
        observation.observed_at,
        repository=told("repository") or repository,
        server_url=told("server_url"),
        context=observation.print_context,
    )


def _why_no_heartbeat(group: Sequence[Found], observation: Observation, profile: Profile) -> str:
    named = next((found.story["lease"] for found in group if found.story and found.story.get("lease")), None)
    namespace, name = named or profile.lease
    for seen in observation.leases:
        if (seen.ref.namespace, seen.ref.name) == (namespace, name):
            holder = dig(seen.raw, "spec", "holderIdentity")
            if holder:
                return f"lease/{namespace}/{name} is held by {parse_holder(str(holder)).title}"
            return f"lease/{namespace}/{name} is free"
    return f"lease/{namespace}/{name} was not found"


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


def _block(group: _Group, entries: tuple[FenceEntry, ...]) -> HolderBlock:
    def told(key: str) -> str | None:
        values = (found.story.get(key) for found in group.found if found.story)
        return next((value for value in values if isinstance(value, str) and value), None)

    return HolderBlock(
        group.holder,
        group.judgement,
        entries,
        repository=told("repository"),
        workflow=told("workflow"),
        server_url=told("server_url"),
        runner=told("runner"),
        actor=told("actor"),
    )


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
    """A record without an outcome whose run holds no lease any more: interrupted, or about to write it."""
    if not entry.unfinished:
        return entry.problem is not None
    holders = {dig(seen.raw, "spec", "holderIdentity") for seen in observation.leases}
    return entry.holder not in holders


def _hold(entry: Entry, observation: Observation, order: int) -> FenceEntry:
    if entry.kind is FenceKind.RECORD:
        refusal = _RECORD_LIFT
        notes: tuple[str, ...] = (entry.problem or f"phase `{entry.phase}`, no outcome was written",)
    else:
        refusal = Refusal(
            NoRelease.NOT_A_PATCH, f"a {entry.title} is lifted by a person, not by a patch", "none: hold"
        )
        notes = (entry.problem,) if entry.problem else hold_notes(entry, observation.observed_at)
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
