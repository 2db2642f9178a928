"""
Holders: the fences of one reading joined by run, with where to ask about each, and the judgement on it.

A lease that was taken over to recover a run belongs to that run's chain as its last fence; whoever took it is a
subject of its own, since the recovered run can be released only if that one is dead too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import msgspec

from fencectl.core.checks import check_command
from fencectl.core.evidence import Judgement, Strength, Verdict
from fencectl.core.facts import NOT_ASKED, HolderEvidence, Subject
from fencectl.core.found import Found
from fencectl.core.gojson import encode
from fencectl.core.identity import Holder, parse_holder
from fencectl.core.journal import Journal, parse_journal
from fencectl.core.observation import Observation
from fencectl.core.plan import position
from fencectl.core.profiles import Profile, ProfileName
from fencectl.core.refs import dig
from fencectl.core.report import FenceKind
from fencectl.core.verdict import HolderFacts, judge


class Group(msgspec.Struct, frozen=True):
    """
    The fences of one run, in release order.

    `holder`: the run. `lease`: its lease, held by itself or by whoever `recoverer` is.
    """

    key: str
    holder: Holder
    found: tuple[Found, ...]
    lease: Found | None
    recoverer: Holder | None

    @property
    def journals(self) -> tuple[Journal, ...]:
        """
        The journals of this run, its own and fullest first.

        NB: details name a process and a pod. Those of a nested run, or left on the lease by somebody else, would
        let the end of another process prove this run dead.
        """
        found = [f.journal for f in self.found if f.journal is not None and f.journal.recovering is None]
        if self.recoverer is not None and self.lease is not None and self.lease.journal is not None:
            kept = self.lease.journal.before
            parsed = parse_journal(encode(kept)) if kept is not None else None
            found += [parsed] if isinstance(parsed, Journal) and parsed.recovering is None else []
        own = [journal for journal in found if journal.holder == self.holder.identity]
        others = [replace(journal, details=None) for journal in found if journal.holder != self.holder.identity]
        return (*sorted(own, key=lambda journal: journal.details is None), *others)


def group_by_run(all_found: Iterable[Found]) -> tuple[Group, ...]:
    """Join fences by run, nested runs with their outermost one; those that name no usable holder stay out."""
    usable = [found for found in all_found if found.group is not None]
    outer = {f.holder_text: f.group for f in usable if f.journal is not None and f.journal.within is not None}
    members: dict[str, list[Found]] = defaultdict(list)
    for found in usable:
        members[_outermost(found.group or "", outer)].append(found)
    return tuple(_group(key, sorted(found, key=position)) for key, found in members.items())


def _outermost(key: str, outer: Mapping[str | None, str | None]) -> str:
    passed = [key]
    while (further := outer.get(passed[-1])) is not None and further != passed[-1]:
        if further in passed:
            # NB: no run of ours nests in itself; forged or not, each such circle is one run.
            return min(passed[passed.index(further) :])
        passed.append(further)
    return passed[-1]


def _group(key: str, found: Sequence[Found]) -> Group:
    leases = [f for f in found if f.kind is FenceKind.LEASE]
    taken = next((f for f in leases if f.journal is not None and f.journal.recovering is not None), None)
    own = next((f for f in leases if f.holder_text == key), None)
    lease = taken or own or next(iter(leases), None)
    return Group(key, _holder(key, found), tuple(found), lease, taken.holder if taken is not None else None)


def _holder(key: str, found: Sequence[Found]) -> Holder:
    """
    The run itself: whose fence bears its own name, else whom nested fences or a taken lease name.

    Else who holds the lease, or any fence: another tool's runs are joined by less than the whole identity.
    """
    named = any(f.journal is not None and key in (f.journal.within, f.journal.recovering) for f in found)
    leases_first = sorted(found, key=lambda f: f.kind is not FenceKind.LEASE)
    holders = [] if named else [f.holder for f in leases_first if f.holder is not None]
    own = [f.holder for f in found if f.holder is not None and f.holder_text == key]
    return next(iter(own or holders), parse_holder(key))


def subject_of(group: Group, *, repository: str | None, context: str | None) -> Subject:
    """Where to ask about a run. `repository`: the config's, where no journal tells."""
    return _subject(group.holder, group.journals, repository=repository, context=context)


def recoverer_subject(group: Group, *, repository: str | None, context: str | None) -> Subject | None:
    """Where to ask about whoever took the run's lease over; None where nobody did."""
    if group.recoverer is None or group.lease is None:
        return None
    journals = (group.lease.journal,) if group.lease.journal else ()
    return _subject(group.recoverer, journals, repository=repository, context=context)


def _subject(
    holder: Holder, journals: Sequence[Journal], *, repository: str | None, context: str | None
) -> Subject:
    return Subject(
        holder,
        journals[0] if journals else None,
        repository=next((j.repository for j in journals if j.repository), None) or repository,
        server_url=next((j.server for j in journals if j.server), None),
        context=context,
    )


class Judging(msgspec.Struct, frozen=True):
    """
    What a judgement needs besides the fences.

    `evidence`: by holder identity. `unchanged_for_s`: by lease (namespace, name), for how long it was watched
    without a change.
    """

    observation: Observation
    profile: Profile
    repository: str | None
    evidence: Mapping[str, HolderEvidence]
    unchanged_for_s: Mapping[tuple[str, str], float]


def judge_group(group: Group, judging: Judging) -> Judgement:
    """Judge a run; one whose lease was taken over is judged after whoever took it."""
    context = judging.observation.print_context
    check = check_command(subject_of(group, repository=judging.repository, context=context))
    succession = None
    if group.recoverer is not None:
        succession = _judge(group, group.recoverer, judging)
        if succession.verdict is Verdict.LIVE:
            why = f"{group.recoverer.title} is recovering it: {succession.because}"
            return Judgement(Verdict.LIVE, None, why, succession.evidence, fresh=succession.fresh, check=check)
        if all(found is group.lease for found in group.found):
            # NB: nothing of the recovered run is left, so nothing of it has to be proven any more.
            return succession
    taken = group.lease if group.recoverer is not None else None
    beats = [f for f in group.found if f.heartbeat is not None and f is not taken]
    # NB: of several leases the youngest heartbeat speaks: a run that renews any of them lives.
    beating = max(beats, key=_renewed, default=None)
    proven = succession is not None and succession.strength is Strength.PROVEN
    judgement = judge(
        HolderFacts(
            group.holder,
            beating.heartbeat if beating else None,
            None if beating else _why_no_heartbeat(group, judging),
            judging.observation.observed_at,
            evidence=judging.evidence.get(group.holder.identity, NOT_ASKED),
            unchanged_for_s=_watched(beating, judging),
            succession_proven=proven,
            check=check,
            settles=_settles(judging),
        )
    )
    if succession is not None and succession.fresh:
        return Judgement(
            Verdict.UNKNOWN,
            None,
            f"{group.recoverer.title} was recovering it: {succession.because}" if group.recoverer else "",
            (*judgement.evidence, *succession.evidence),
            fresh=True,
            only_heartbeat=succession.only_heartbeat and judgement.verdict is Verdict.DEAD,
            check=judgement.check,
        )
    return judgement


def judge_recoverer(group: Group, judging: Judging) -> Judgement | None:
    """Judge whoever took a run's lease over to recover it; None where nobody did."""
    return None if group.recoverer is None else _judge(group, group.recoverer, judging)


def _judge(group: Group, recoverer: Holder, judging: Judging) -> Judgement:
    lease = group.lease
    return judge(
        HolderFacts(
            recoverer,
            lease.heartbeat if lease else None,
            None,
            judging.observation.observed_at,
            evidence=judging.evidence.get(recoverer.identity, NOT_ASKED),
            unchanged_for_s=_watched(lease, judging),
            settles=_settles(judging),
        )
    )


def _settles(judging: Judging) -> bool:
    # NB: of another tool's runs nobody knows for how long they go on writing; its own rules say what is enough.
    return judging.profile.name is ProfileName.FENCECTL


def _renewed(found: Found) -> float:
    at = found.heartbeat.renewed_at if found.heartbeat else None
    return at.timestamp() if at else float("-inf")


def _watched(lease: Found | None, judging: Judging) -> float | None:
    if lease is None:
        return None
    return judging.unchanged_for_s.get((lease.ref.namespace or "", lease.ref.name))


def _why_no_heartbeat(group: Group, judging: Judging) -> str:
    if group.recoverer is not None and group.lease is not None:
        return f"{group.lease.ref.display} was taken over by {group.recoverer.title} to recover it"
    named = next((journal.lease for journal in group.journals if journal.lease is not None), None)
    namespace, name = (named.namespace, named.name) if named else judging.profile.lease
    for seen in judging.observation.leases:
        if (seen.ref.namespace, seen.ref.name) == (namespace, name):
            holder = dig(seen.raw, "spec", "holderIdentity")
            if holder:
                return f"lease/{namespace}/{name} is held by {parse_holder(str(holder)).title}"
            return f"lease/{namespace}/{name} is free"
    return f"lease/{namespace}/{name} was not found"
