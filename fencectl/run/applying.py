"""
Step 8, by server-side apply: one object after the other, each write proven under the lease as every other is.

A configuration says what shall be, so one whose answer was lost is sent again while the lease is held. Nothing is
forced unless that was asked for; the first object that cannot be applied ends it, and what was applied is told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fencectl.cluster.clock import Clock
from fencectl.cluster.write import WRITE_DEADLINE_S, apply
from fencectl.core.answers import Applied, ApplyAnswer, Conflicted, FieldConflict, Refused, Unknown, Why
from fencectl.core.applies import Configuration, is_established
from fencectl.core.apply_plan import ApplyPlan, Planned
from fencectl.core.errors import ExitCode, FencectlError
from fencectl.core.refs import ObjectRef, Raw, dig
from fencectl.run.keeper import Keeper
from fencectl.run.ports import Door
from fencectl.run.story import PAUSE_S, WRITE_S, read

# How long a definition may take to be served. The API server needs a second or two; one that needs more is broken.
ESTABLISH_S = 60.0
ESTABLISH_POLL_S = 0.5
_SHOWN_CONFLICTS = 5


class ApplyError(FencectlError):
    """An object could not be applied. Whether anything was changed before it is for the deploy to know."""

    exit_code = ExitCode.FAILED_PREVIOUS_RUNS


class ApplyUnknownError(FencectlError):
    """Nobody can say whether an object was applied."""

    exit_code = ExitCode.OUTCOME_UNKNOWN


@dataclass(frozen=True, slots=True)
class Made:
    """An object as the server answered its apply. `changed`: it is not what was read before."""

    ref: ObjectRef
    raw: Raw
    changed: bool
    has_status: bool = True
    held: bool = False


@dataclass(slots=True)
class Tally:
    """What was applied so far, in order."""

    made: list[Made] = field(default_factory=list)

    @property
    def changed(self) -> int:
        """How many objects are new or different now."""
        return sum(one.changed for one in self.made)


def deadline_under(keeper: Keeper) -> float:
    """
    How long a write may take that is sent now: admission webhooks are slow, and the lease must outlast it.

    Raises LeaseLostError.
    """
    keeper.must_hold(WRITE_S)
    return min(WRITE_DEADLINE_S, max(WRITE_S, keeper.held_for_s() - 1.0))


def conflict_text(conflicts: tuple[FieldConflict, ...]) -> str:
    """Name managers and fields: `helm` owns spec.replicas, `kubectl` owns data.a."""
    named = [f"`{one.manager}` owns {one.field.removeprefix('.')}" for one in conflicts[:_SHOWN_CONFLICTS]]
    more = len(conflicts) - len(named)
    return ", ".join([*named, *([f"{more} more"] if more else [])])


@dataclass(frozen=True, slots=True)
class Hands:
    """
    What step 8 acts through.

    `keeper` vouches for the lease; `stop_if_asked`: raises where the work must end; `begun`: called as soon as it
    is possible that something has changed.
    """

    door: Door
    clock: Clock
    keeper: Keeper
    stop_if_asked: Callable[[], None]
    tell: Callable[[str], None]
    begun: Callable[[], None]


class Applier:
    """Applies a plan; `force`: takes over fields that others own."""

    def __init__(
        self,
        hands: Hands,
        *,
        force: bool,
    ) -> None:
        self._hands = hands
        self._force = force
        self._established: set[str] = set()

    def apply_all(self, plan: ApplyPlan, tally: Tally, *, timeout_s: float) -> None:
        """
        Apply everything in order; `tally` says how far it came, also when it ends early.

        Raises ApplyError, ApplyUnknownError, LeaseLostError, StoppedError, NotReadableError.
        """
        end_s = self._hands.clock.monotonic_s() + timeout_s
        if plan.applyset is not None:
            # NB: before any member is made, or a run that dies in between would leave members out of sight.
            self.apply_one(plan.applyset.parent(plan.applyset.everything), end_s=end_s, counts=False)
        for planned in plan.objects:
            if planned.definition is not None:
                self._wait_established(planned, end_s=end_s)
            raw = self.apply_one(planned.configuration, end_s=end_s, new_kind=planned.definition is not None)
            tally.made.append(self._made(planned, raw))

    def _made(self, planned: Planned, raw: Raw) -> Made:
        ref = planned.ref
        changed = dig(raw, "metadata", "resourceVersion") != planned.version
        made = ObjectRef(
            ref.api_version, ref.kind, ref.plural, ref.namespace, ref.name, str(dig(raw, "metadata", "uid"))
        )
        if planned.configuration.left_out:
            self._hands.tell(
                f"{ref.display}: left out, a fence has it: {', '.join(planned.configuration.left_out)}"
            )
        if changed:
            self._hands.tell(f"{ref.display} {'created' if planned.version is None else 'changed'}")
        return Made(made, raw, changed, planned.has_status, planned.held)

    def apply_one(
        self, configuration: Configuration, *, end_s: float, new_kind: bool = False, counts: bool = True
    ) -> Raw:
        """
        Apply one object; what the server answered.

        `new_kind`: its path may not be served at once. `counts`: it is a part of the new state.
        """
        name = configuration.target.display
        asked = False
        while True:
            self._hands.stop_if_asked()
            answer = apply(
                self._hands.door, configuration, force=self._force, deadline_s=deadline_under(self._hands.keeper)
            )
            match answer:
                case Applied(raw):
                    if counts:
                        self._hands.begun()
                    return raw
                case Unknown(detail):
                    asked = True
                    if counts:
                        self._hands.begun()
                    if self._hands.clock.monotonic_s() >= end_s:
                        raise ApplyUnknownError(f"nobody can say whether {name} was applied", reason=detail)
                case Refused(Why.BUSY, _, detail):
                    if self._hands.clock.monotonic_s() >= end_s:
                        raise self._timed_out(name, detail, asked=asked)
                case Refused(Why.GONE, 404, detail) if new_kind and self._hands.clock.monotonic_s() < end_s:
                    pass
                case _:
                    raise _refused(name, configuration.where, answer)
            self._hands.clock.wait(None, PAUSE_S)

    @staticmethod
    def _timed_out(name: str, detail: str, *, asked: bool) -> FencectlError:
        if asked:
            return ApplyUnknownError(f"nobody can say whether {name} was applied", reason=detail)
        failure = ApplyError(f"{name} could not be applied in time", reason=detail)
        failure.exit_code = ExitCode.TIMED_OUT_PREVIOUS_RUNS
        return failure

    def _wait_established(self, planned: Planned, *, end_s: float) -> None:
        """Wait until the definition of a kind that comes with this deploy is served."""
        name = planned.definition
        if name is None or name in self._established:
            return
        end_s = min(end_s, self._hands.clock.monotonic_s() + ESTABLISH_S)
        ref = ObjectRef(
            "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", None, name, ""
        )
        while True:
            self._hands.stop_if_asked()
            seen = read(self._hands.door, ref)
            if seen is not None and is_established(seen.raw):
                self._established.add(name)
                return
            if self._hands.clock.monotonic_s() >= end_s:
                raise ApplyError(f"{ref.display} is not served, so that {planned.ref.display} cannot be applied")
            self._hands.clock.wait(None, ESTABLISH_POLL_S)


def _refused(name: str, where: str, answer: ApplyAnswer) -> FencectlError:
    match answer:
        case Conflicted(conflicts):
            return ApplyError(
                f"{name} was not applied: {conflict_text(conflicts)}",
                reason=f"from {where}. Nothing was forced",
                hint="leave those fields out of the manifest, or take them over with `--force-conflicts`",
            )
        case Refused(Why.FORBIDDEN, status, detail):
            failure: FencectlError = ApplyError(
                f"{name} was not applied ({status}: {detail})", reason=f"from {where}"
            )
            failure.exit_code = ExitCode.INCOMPLETE
            return failure
        case Refused(_, status, detail):
            return ApplyError(f"{name} was not applied ({status}: {detail})", reason=f"from {where}")
        case Applied() | Unknown():
            raise AssertionError(answer)
