"""
The record of one run: an entry of its generation, before anything becomes observable, and at the end.

What changes of the claims on the target is in the same write as the outcome, and what a run that has died left
undecided is decided in the first one: each under the lease, by compare-and-swap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fencectl.cluster.clock import Clock
from fencectl.core.certification import NOT_REQUESTED, Certification
from fencectl.core.claims import RunEnd, claim_changes, claimed, close_dead, end_of, holding
from fencectl.core.deploy import DeployPlan
from fencectl.core.errors import ExitCode, FencectlError, PersonNeededError
from fencectl.core.gojson import StrictJSONError, decode_strict, encode_ascii
from fencectl.core.identity import parse_holder
from fencectl.core.journal import Journal
from fencectl.core.record_write import Change, data_of
from fencectl.core.records import VERSION
from fencectl.core.recovery_point import Summary
from fencectl.core.refs import dig
from fencectl.core.times import second_time
from fencectl.evidence.redact import redact_command
from fencectl.run.record import Record, RecordBook
from fencectl.run.stage import Result, Stage
from fencectl.run.timeline import Timeline

_KEY = "record-"


class TokenUsedError(FencectlError):
    """The token of this run was given before, so nothing may be done under it; nothing is recorded or fenced."""

    exit_code = ExitCode.FAILED_PREVIOUS_RUNS


class ClaimedError(PersonNeededError):
    """A claim stands on this target that was not there when it was looked at; nothing is recorded or fenced."""

    def __init__(self, claims: tuple[str, ...], died: tuple[int, ...]) -> None:
        names = ", ".join(f"`{claim}`" for claim in claims)
        reason = "it was left after the fences were looked at"
        if died:
            reason = f"generation {died[-1]} died while it restored this target, so nobody knows what runs there"
        super().__init__(
            f"a restore that did not end well holds this target: {names}",
            reason=reason,
            hint="a rollback runs over it; a person may deploy over it with `--over-claim`; success retires it",
        )


@dataclass(slots=True)
class DeployRecord:
    """
    The story of one run in the record beside its lease. `command`: secrets are taken out of it already.

    `plan`: whether it runs over claims, and what it undoes. `rollback`: what became of a rollback, or that one is
    `owed`. `certification`: what is known of the canary. `is_begun`: its first write was acknowledged. `recovery`:
    what it tells of its recovery point from the next write on. `points`: the other generations of which a record
    tells a point, as of the last write.
    """

    book: RecordBook
    clock: Clock
    holder: str
    begun_at: datetime
    command: str
    timeline: Timeline
    plan: DeployPlan | None = None
    generation: int | None = None
    rollback: dict[str, Any] | str | None = None
    certification: Certification = NOT_REQUESTED
    is_begun: bool = False
    recovery: Summary | None = None
    points: frozenset[int] = frozenset()

    def last_token(self) -> int:
        """The highest fencing token that any record tells, so that a deleted lease does not start again."""
        return _last_token(self.book.read())

    def write(
        self,
        phase: str,
        *,
        token: int,
        outcome: str | None,
        result: Result,
        before: Callable[[], None],
    ) -> int:
        """
        Write the phase, or the outcome with the last step, the exit code and what it means for claims.

        Gives the generation. `before`: called right before each try is sent; what it raises ends the write. Raises
        TokenUsedError; ClaimedError where the first write finds a claim that this run may not pass; and what the
        book raises.
        """
        stands: list[ClaimedError] = []

        def decide(record: Record) -> tuple[Change, ...]:
            stands.clear()
            data, closing = data_of(record.seen), tuple[Change, ...]()
            if not self.is_begun:
                dead, closing = close_dead(data, holder=self.holder, at=record.at)
                claims = holding({**data, **{one.key: one.after or "" for one in closing}})
                if claims and not (self.plan is not None and self.plan.passes_claims):
                    died = tuple(one.generation for one in dead if one.claim is not None)
                    stands.append(ClaimedError(claims, died))
            if not stands:
                closing += self._changes(record, phase, token, outcome, result)
            if outcome is not None and self.generation is not None:
                closing += claim_changes(data, self._end(result, self.generation, record.at))
            before()
            return closing

        self.book.write(decide)
        if stands:
            raise stands[0]
        self.is_begun = True
        return self.generation or 0

    def _end(self, result: Result, generation: int, at: datetime) -> RunEnd:
        """What this run is evidence of."""
        restored = result.rolled_back
        undoes = self.plan.undoes if self.plan is not None else None
        restore = None if restored is None else end_of(restored, undoes or generation)
        return RunEnd(generation, self.holder, at, result.acknowledged, restore)

    def _changes(
        self, record: Record, phase: str, token: int, outcome: str | None, result: Result
    ) -> tuple[Change, ...]:
        data = data_of(record.seen)
        self.points = frozenset(number for number, one in _records(record) if _may_have_a_point(one))
        if self.generation is None or not self._is_own(data.get(f"{_KEY}{self.generation}")):
            # NB: also where a write of another run that was still under way has taken that number meanwhile.
            self._must_be_new(record, token)
            # NB: claims too: where only they are left, success has to come after them.
            last = max((number for number, _ in _records(record)), default=0)
            self.generation = max(last, *claimed(data)) + 1
        value: dict[str, Any] = {
            "v": VERSION,
            "generation": self.generation,
            "holder": self.holder,
            "token": token,
            "phase": phase,
            "startedAt": second_time(self.begun_at),
            "command": self.command,
            "certification": self.certification.as_data(),
            **self.timeline.as_data(),
        }
        if self.rollback is not None:
            value["rollback"] = self.rollback
        if self.recovery is not None:
            value["recovery"] = self.recovery.entry
        if outcome is not None:
            ended = second_time(self.clock.wall())
            value |= {"outcome": outcome, "step": result.step, "code": result.code, "endedAt": ended}
        key = f"{_KEY}{self.generation}"
        # NB: the numbers never start again: the newest 50 stay, and what writes takes the older ones away.
        return (Change(key, data.get(key), encode_ascii(value)),)

    def superseded(self) -> str | None:
        """By which later run the target was changed since; None where the newest record is still this one's."""
        newest, value = max(_records(self.book.read()), key=lambda one: one[0], default=(0, None))
        if newest == self.generation and dig(value, "holder") == self.holder:
            return None
        holder = dig(value, "holder")
        if newest < (self.generation or 0) or not isinstance(holder, str):
            return "somebody unknown: the record of this run is gone"
        return f"generation {newest}, {parse_holder(holder).title}"

    def _must_be_new(self, record: Record, token: int) -> None:
        last = _last_token(record)
        if last >= token:
            raise TokenUsedError(
                f"the fencing token {token} was given before: a record tells of {last}",
                reason="the lease was deleted and made anew while this deploy was about to take it",
                hint="run it again: it goes on from the record",
            )

    def _is_own(self, text: str | None) -> bool:
        try:
            return text is not None and dig(decode_strict(text), "holder") == self.holder
        except StrictJSONError:
            return False


def story_of(stage: Stage, plan: DeployPlan, own: Journal, timeline: Timeline) -> DeployRecord:
    """The story of a deploy that begins; secrets on its command line do not get into it."""
    command = redact_command(plan.payload, stage.environ)
    return DeployRecord(
        stage.book,
        stage.clock,
        holder=own.holder,
        begun_at=own.at,
        command=command,
        timeline=timeline,
        plan=plan,
    )


def _last_token(record: Record) -> int:
    tokens = [dig(value, "token") for _, value in _records(record)]
    return max((token for token in tokens if isinstance(token, int) and not isinstance(token, bool)), default=0)


def _may_have_a_point(value: Any) -> bool:
    """Whether a record tells of a recovery point, or may: one that this version cannot read whole."""
    return not isinstance(value, dict) or value.get("v") != VERSION or "recovery" in value


def _records(record: Record) -> list[tuple[int, Any]]:
    found = []
    for key, text in data_of(record.seen).items():
        number = key.removeprefix(_KEY)
        if key.startswith(_KEY) and number.isascii() and number.isdecimal() and len(number) < 19:
            try:
                found.append((int(number), decode_strict(text)))
            except StrictJSONError:
                found.append((int(number), None))
    return found
