"""
What a deploy is to fence and run, and why it may not begin: pure, from what was read.

Refusals are those of design: 12 for a live holder, 17 while that one restores, 16 for one that is provably dead
and recoverable, 19 where a person is needed. The worst of several decides.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from msgspec.structs import replace

from fencectl.core.apply_plan import ApplyPlan
from fencectl.core.claims import restoring_holder
from fencectl.core.config import AfterRollback
from fencectl.core.errors import ExitCode, FencectlError, NotReadableError, UsageError, worst
from fencectl.core.evidence import Strength, Verdict
from fencectl.core.marks import read_mark
from fencectl.core.observation import Observation
from fencectl.core.profiles import Profile
from fencectl.core.record_write import data_of
from fencectl.core.recovery import Wanted, plan_recovery
from fencectl.core.recovery_point import RecoveryPoint
from fencectl.core.refs import ObjectRef, Seen
from fencectl.core.report import FenceEntry, FenceKind, FenceReport, HolderBlock


@dataclass(frozen=True, slots=True)
class FluxPlan:
    """
    Let Flux take a revision.

    `ref`: the object that does; `chain`: it and its ancestors with their ranks, outermost first. `revision`: None
    where any will do. `follow_timeout_s`: follow no longer than this.
    """

    ref: ObjectRef
    chain: tuple[tuple[ObjectRef, int], ...]
    revision: str | None = None
    follow_timeout_s: float | None = None


def plan_flux(
    name: tuple[str, str, str],
    objects: Sequence[tuple[ObjectRef, int]],
    chains: Mapping[ObjectRef, Sequence[ObjectRef]],
    revision: str | None,
) -> FluxPlan:
    """
    Plan to resume an object (kind, namespace, name) of those that are to be suspended.

    Raises UsageError where another of them stands under one of its ancestors: to resume that one would bring its
    new revision to what is fenced there.
    """
    kind, namespace, called = name
    wanted = (kind.lower(), namespace, called)
    found = [ref for ref, _ in objects if (ref.kind.lower(), ref.namespace, ref.name) == wanted]
    if not found:
        raise UsageError(
            f"{'/'.join(wanted)} is fenced by the run around this one already", hint="nothing was changed"
        )
    (ref,) = found
    chain = {ref, *chains[ref]}
    for other, above in chains.items():
        shared = [one for one in above if one in chain]
        if other not in chain and shared:
            raise UsageError(
                f"`--flux` would resume {shared[0].display}, and {other.display} under it is to stay suspended",
                hint="leave that one out of what is suspended. Nothing was changed",
            )
    return FluxPlan(ref, tuple((one, rank) for one, rank in objects if one in chain), revision)


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """
    Put back what ran before a deploy: the payload of `rollback`.

    `ended_at`: when that deploy had ended, None where it has written no end. `timeout_s`: for all of it.
    """

    point: RecoveryPoint
    ended_at: datetime | None
    timeout_s: float


@dataclass(frozen=True, slots=True)
class CertifyPlan:
    """
    Certify before step 8.

    `canary`: the objects of step 7, None: there is none; `source`: where they come from, as it was asked for.
    `command` judges it, and each rolled node; empty: nothing does. `timeout_s`: of one run of the command.
    `allow_uncertified`: go on over what is not certified, unless it was rejected.
    """

    command: tuple[str, ...] = ()
    canary: ApplyPlan | None = None
    source: str = ""
    timeout_s: float = 300.0
    allow_uncertified: bool = False


@dataclass(frozen=True, slots=True)
class Adopted:
    """A kept suspension that a deploy takes over: whose it is, and why it was kept."""

    ref: ObjectRef
    holder: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeployPlan:
    """
    One deploy on one target.

    `suspend`: objects with their ranks, outermost ancestor first. `nodes`: nodes to fence. `command`: the payload,
    or `apply`: the objects that are it, or `flux`. `covered`: what a run around this one has fenced already. Times
    in seconds; `drain_timeout_s` None: from the objects. `restore`: what `rollback` puts back. `rollback_s`: how
    long the rollback of a failure may take, None: none is wanted. `certify`: what is certified before step 8.
    `adopt`: those to suspend that were kept by others; `after_rollback`: whether any are kept by this run.
    `over_claim`: no claim stops it.
    """

    lease: tuple[str, str]
    command: tuple[str, ...]
    suspend: tuple[tuple[ObjectRef, int], ...] = ()
    nodes: tuple[ObjectRef, ...] = ()
    node_command: tuple[str, ...] = ()
    max_unavailable: int = 1
    lease_duration_s: int = 30
    timeout_s: float = 3600.0
    node_timeout_s: float = 1800.0
    drain_timeout_s: float | None = None
    added: tuple[ObjectRef, ...] = field(default=())
    covered: tuple[ObjectRef, ...] = ()
    apply: ApplyPlan | None = None
    flux: FluxPlan | None = None
    restore: RestorePlan | None = None
    rollback_s: float | None = None
    certify: CertifyPlan | None = None
    adopt: tuple[Adopted, ...] = ()
    after_rollback: AfterRollback = AfterRollback.KEEP
    over_claim: bool = False

    def kept_by(self, ref: ObjectRef) -> str | None:
        """Whose suspension of this object is to be adopted; None: none is."""
        return next((one.holder for one in self.adopt if one.ref == ref), None)

    @property
    def form(self) -> str | None:
        """What step 8 is: `command`, `apply`, `flux` or `restore`; None: there is none."""
        if self.restore is not None:
            return "restore"
        return "apply" if self.apply is not None else "flux" if self.flux else "command" if self.command else None

    @property
    def passes_claims(self) -> bool:
        """Whether no claim stops it: a rollback, or a deploy by a person who has chosen so."""
        return self.over_claim or self.restore is not None

    @property
    def undoes(self) -> int | None:
        """The generation that a rollback undoes; None for a deploy."""
        return self.restore.point.generation if self.restore is not None else None

    @property
    def payload(self) -> tuple[str, ...]:
        """The payload as it was asked for: the command, where manifests come from, or what takes a revision."""
        if self.restore is not None:
            return ("rollback", str(self.restore.point.generation))
        if self.flux is not None:
            revision = () if self.flux.revision is None else ("--revision", self.flux.revision)
            return ("--flux", self.flux.ref.display, *revision)
        return self.command or (self.apply.arguments if self.apply is not None else ())


class HeldError(FencectlError):
    """The deploy may not begin: fences are held. `exit_code`: 12, 16, 17 or 19."""

    def __init__(self, report: FenceReport, code: ExitCode) -> None:
        super().__init__(f"not deployed to {report.label}: fences are held")
        self.report = report
        self.exit_code = code


class LeaseGoneError(FencectlError):
    """The lease that was just taken is not there any more; nothing was recorded or fenced."""

    exit_code = ExitCode.LEASE_LOST

    def __init__(self) -> None:
        super().__init__("the lease was deleted or freed by somebody else just after it was taken")


def adoptable(report: FenceReport) -> tuple[Adopted, ...]:
    """
    What a deploy can take over: all that holders hold that hold nothing else any more, and do not live.

    NB: a run keeps last of all; whoever still holds anything else has not come so far, and may yet change it.
    """
    found = []
    for block in report.blocks:
        if _is_kept(block) and not _may_live(block):
            found += [
                Adopted(entry.object, entry.holder_text or "", _journal_reason(entry)) for entry in block.entries
            ]
    return tuple(found)


def _is_kept(block: HolderBlock) -> bool:
    return all(entry.kept for entry in block.entries)


def _may_live(block: HolderBlock) -> bool:
    return block.judgement.verdict is Verdict.LIVE or block.judgement.fresh


def _journal_reason(entry: FenceEntry) -> str:
    mark = read_mark(Seen(entry.object, entry.raw))
    reason = mark.journal.reason if mark is not None and mark.journal is not None else None
    return reason or "it was kept on purpose"


def _stand_in_the_way(report: FenceReport, adopted: Collection[Adopted]) -> list[HolderBlock]:
    """The holders of whom not everything is to be adopted."""
    going = {(one.ref, one.holder) for one in adopted}
    return [
        block
        for block in report.blocks
        if not all(entry.kept and (entry.object, entry.holder_text) in going for entry in block.entries)
    ]


def without_claims(report: FenceReport) -> FenceReport:
    """The report as it is for a rollback, or for a deploy by a person who has chosen so: no claim stops it."""
    claims = tuple(hold for hold in report.holds if hold.is_claim)
    holds = tuple(hold for hold in report.holds if not hold.is_claim)
    return replace(report, holds=holds, passed_over=claims)


def why_not(
    report: FenceReport,
    observation: Observation,
    profile: Profile,
    *,
    within: str | None = None,
    adopted: Collection[Adopted] = (),
) -> ExitCode | None:
    """
    Why a deploy may not begin over this report; None where nothing is held.

    `within`: the run that it is a part of, whose own fences are no obstacle; nor does a hold stop it. `adopted`:
    what it is to take over.
    """
    standing = _stand_in_the_way(report, adopted)
    blocks = [block for block in standing if within is None or block.key != within]
    codes = [_code_of(block, report, observation, profile) for block in blocks]
    holds = report.holds if within is None else ()
    codes += [ExitCode.HELD_PERSON_NEEDED for _ in (*report.unowned, *holds)]
    return worst(codes) if codes else None


def refuse_others(
    report: FenceReport,
    observation: Observation,
    profile: Profile,
    *,
    own: str,
    adopted: Collection[Adopted] = (),
) -> None:
    """
    Read under the lease: anything that is held and is not of `own` ends the deploy before it has fenced anything.

    Raises HeldError; NotReadableError where the report is incomplete: a fence may be hidden; LeaseGoneError where
    it shows no lease of `own` any more.
    """
    if not report.complete:
        missing = report.unreadable[0]
        raise NotReadableError(f"{missing.what} could not be read again", reason=missing.why)
    # NB: the own lease is free again by the time that anybody reads this.
    others = replace(report, blocks=tuple(block for block in report.blocks if block.holder.identity != own))
    left = replace(others, blocks=tuple(_stand_in_the_way(others, adopted)))
    if left.held:
        code = why_not(others, observation, profile, adopted=adopted)
        raise HeldError(others, code or ExitCode.HELD_PERSON_NEEDED)
    if len(others.blocks) == len(report.blocks):
        raise LeaseGoneError


def _code_of(block: HolderBlock, report: FenceReport, observation: Observation, profile: Profile) -> ExitCode:
    # NB: whether or not whoever kept it lives: that run is over, and waiting for anything does not help.
    if _is_kept(block):
        return ExitCode.HELD_PERSON_NEEDED
    if _may_live(block):
        return ExitCode.ROLLBACK_IN_PROGRESS if is_restoring(block, observation) else ExitCode.HELD_LIVE
    if block.judgement.strength is not Strength.PROVEN:
        return ExitCode.HELD_PERSON_NEEDED
    try:
        plan_recovery(report, observation, profile, Wanted(holder=block.holder.identity))
    except FencectlError:
        return ExitCode.HELD_PERSON_NEEDED
    return ExitCode.HELD_DEAD


def is_restoring(block: HolderBlock, observation: Observation) -> bool:
    """Whether this holder has its lease still, and its own record, the newest beside it, says `restoring`."""
    own = block.holder.identity
    holds_lease = any(e.kind is FenceKind.LEASE and e.holder_text == own for e in block.entries)
    return holds_lease and any(restoring_holder(data_of(seen)) == own for seen in observation.records)


def only_live(report: FenceReport) -> bool:
    """Whether waiting can help: everything that is held has a live holder, and no hold is in place."""
    live = all(_may_live(block) and not _is_kept(block) for block in report.blocks)
    return live and not report.unowned and not report.holds


def ordered(objects: Sequence[tuple[ObjectRef, int]]) -> tuple[tuple[ObjectRef, int], ...]:
    """Outermost ancestor first: by rank, then by name."""
    return tuple(sorted(objects, key=lambda one: (one[1], one[0].display)))
