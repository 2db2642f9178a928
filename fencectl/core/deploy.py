"""
What a deploy is to fence and run, and why it may not begin: pure, from what was read.

Refusals are those of design: 12 for a live holder, 16 for one that is provably dead and recoverable, 19 where a
person is needed. The worst of several decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from fencectl.core.apply_plan import ApplyPlan
from fencectl.core.errors import ExitCode, FencectlError, NotReadableError, worst
from fencectl.core.evidence import Strength, Verdict
from fencectl.core.observation import Observation
from fencectl.core.profiles import Profile
from fencectl.core.recovery import Wanted, plan_recovery
from fencectl.core.refs import ObjectRef
from fencectl.core.report import FenceReport, HolderBlock


@dataclass(frozen=True, slots=True)
class DeployPlan:
    """
    One deploy on one target.

    `suspend`: objects with their ranks, outermost ancestor first. `nodes`: nodes to fence. `command`: the payload,
    or `apply`: the objects that are it. `covered`: what a run around this one has fenced already. Times in
    seconds; `drain_timeout_s` None: from the objects.
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

    @property
    def payload(self) -> tuple[str, ...]:
        """The payload as it was asked for: the command, or where the manifests come from."""
        return self.command or (self.apply.arguments if self.apply is not None else ())


class HeldError(FencectlError):
    """The deploy may not begin: fences are held. `exit_code`: 12, 16 or 19."""

    def __init__(self, report: FenceReport, code: ExitCode) -> None:
        super().__init__(f"not deployed to {report.label}: fences are held")
        self.report = report
        self.exit_code = code


def why_not(
    report: FenceReport, observation: Observation, profile: Profile, *, within: str | None = None
) -> ExitCode | None:
    """
    Why a deploy may not begin over this report; None where nothing is held.

    `within`: the run that it is a part of, whose own fences are no obstacle; nor does a hold stop it.
    """
    blocks = [block for block in report.blocks if within is None or block.key != within]
    codes = [_code_of(block, report, observation, profile) for block in blocks]
    holds = report.holds if within is None else ()
    codes += [ExitCode.HELD_PERSON_NEEDED for _ in (*report.unowned, *holds)]
    return worst(codes) if codes else None


def refuse_others(report: FenceReport, observation: Observation, profile: Profile, *, own: str) -> None:
    """
    Read under the lease: anything that is held and is not of `own` ends the deploy before it has fenced anything.

    Raises HeldError, or NotReadableError where the report is incomplete: a fence may be hidden.
    """
    if not report.complete:
        missing = report.unreadable[0]
        raise NotReadableError(f"{missing.what} could not be read again", reason=missing.why)
    # NB: the own lease is free again by the time that anybody reads this.
    others = replace(report, blocks=tuple(block for block in report.blocks if block.holder.identity != own))
    if others.held:
        code = why_not(others, observation, profile)
        raise HeldError(others, code or ExitCode.HELD_PERSON_NEEDED)


def _code_of(block: HolderBlock, report: FenceReport, observation: Observation, profile: Profile) -> ExitCode:
    judgement = block.judgement
    if judgement.verdict is Verdict.LIVE or judgement.fresh:
        return ExitCode.HELD_LIVE
    if judgement.strength is not Strength.PROVEN or all(entry.kept for entry in block.entries):
        return ExitCode.HELD_PERSON_NEEDED
    try:
        plan_recovery(report, observation, profile, Wanted(holder=block.holder.identity))
    except FencectlError:
        return ExitCode.HELD_PERSON_NEEDED
    return ExitCode.HELD_DEAD


def only_live(report: FenceReport) -> bool:
    """Whether waiting can help: everything that is held has a live holder, and no hold is in place."""
    live = all(block.judgement.verdict is Verdict.LIVE or block.judgement.fresh for block in report.blocks)
    return live and not report.unowned and not report.holds


def ordered(objects: Sequence[tuple[ObjectRef, int]]) -> tuple[tuple[ObjectRef, int], ...]:
    """Outermost ancestor first: by rank, then by name."""
    return tuple(sorted(objects, key=lambda one: (one[1], one[0].display)))
