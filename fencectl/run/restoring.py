"""
Put a recovery point back (9): each object by one guarded patch from a fresh read, then follow what was changed.

Before each write it is proven that the lease is held and that no other run has changed the target since; a write
whose answer was lost is settled by reading back. What cannot be brought back is named, and the rest goes on.
Nothing is ever deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from fencectl.cluster.clock import Clock
from fencectl.cluster.write import create, send
from fencectl.core.answers import Answer, Applied, Refused, Unknown, Why
from fencectl.core.applies import stage_of
from fencectl.core.errors import NotReadableError
from fencectl.core.owners import hand_back, is_applied
from fencectl.core.profiles import HOLDER
from fencectl.core.recovery_point import Captured, RecoveryPoint
from fencectl.core.refs import ObjectRef, Raw, Seen, annotations_of, dig
from fencectl.core.restore import Doing, Restoration, restore_one
from fencectl.core.restored import LeftAsItIs, Restored, RestoreVerdict
from fencectl.core.rollout import Follows, RolloutVerdict, Target
from fencectl.core.times import span_text
from fencectl.run.applying import deadline_under
from fencectl.run.keeper import Keeper, LeaseLostError
from fencectl.run.ports import Door
from fencectl.run.story import PAUSE_S, StoppedError, broken, read

# An object that others write all the time may need several fresh reads.
FRESH_READS = 20
# To hand the ownership of fields back is tried so often; whatever stops it does not stop the restore.
HAND_BACK_TRIES = 3


class SupersededError(StoppedError):
    """Another run has changed the target since: this one has no word in it any more."""


@dataclass(frozen=True, slots=True)
class Hands:
    """
    What a restore acts through.

    `keeper` vouches for the lease. `superseded`: by whom the target was changed since, or None; may raise where
    nobody can say. `stop_if_asked`: raises where the work must end; `tell`: called with each change.
    """

    door: Door
    clock: Clock
    keeper: Keeper
    superseded: Callable[[], str | None]
    stop_if_asked: Callable[[], None]
    tell: Callable[[str], None]
    follower: Follows | None


class Restorer:
    """
    Puts one recovery point back.

    `ended_at`: when the deploy that is undone had ended, None while it still runs.
    """

    def __init__(self, hands: Hands, restored: Restored, *, ended_at: datetime | None = None) -> None:
        self._hands = hands
        self._restored = restored
        self._ended_at = ended_at
        self._targets: list[Target] = []
        self._end_s = 0.0
        self._asked = False

    def run(self, point: RecoveryPoint) -> None:
        """
        Do all of it within the budget; the result tells how far it came, also when it ends early.

        Raises LeaseLostError; whatever else goes wrong is in the result.
        """
        restored, begun_s = self._restored, self._hands.clock.monotonic_s()
        self._end_s = begun_s + restored.budget_s
        restored.verdict = RestoreVerdict.REFUSED
        try:
            if all(one.before is None for one in point.objects):
                restored.new += [one.ref for one in point.objects]
                self._end(RestoreVerdict.NO_PREVIOUS, "no previous good state: nothing of it was there before")
                return
            self._all(point.objects)
            self._follow()
        except SupersededError as failure:
            verdict = RestoreVerdict.PARTIAL if restored.moved else RestoreVerdict.SUPERSEDED
            self._end(verdict, failure.sentence)
        except (StoppedError, NotReadableError) as failure:
            verdict = RestoreVerdict.PARTIAL if restored.moved else RestoreVerdict.REFUSED
            self._end(RestoreVerdict.UNKNOWN if restored.unresolved else verdict, failure.cause_in_short)
        except LeaseLostError as failure:
            verdict = RestoreVerdict.PARTIAL if restored.moved else RestoreVerdict.SUPERSEDED
            self._end(verdict, f"{failure.sentence}: {failure.reason}")
            raise
        except BaseException as failure:
            # NB: it may have been in the middle of a write, and then nobody can say what came of that.
            self._end(RestoreVerdict.UNKNOWN, f"it ended unexpectedly ({type(failure).__name__})")
            raise
        finally:
            restored.took_s = self._hands.clock.monotonic_s() - begun_s

    def _end(self, verdict: RestoreVerdict, why: str | None) -> None:
        self._restored.verdict, self._restored.why = verdict, why

    # Writes

    def _all(self, objects: Sequence[Captured]) -> None:
        """Bring every object back that can be, what others need first."""
        ordered = sorted(objects, key=lambda one: stage_of(one.ref.kind))
        for number, was in enumerate(ordered):
            try:
                self._one(was)
            except (StoppedError, NotReadableError, LeaseLostError) as failure:
                if self._asked:
                    # NB: what was sent without an answer may have been carried out, or may yet be.
                    self._restored.unresolved.append(was.ref)
                known = {*self._restored.unresolved, *(one.ref for one in self._restored.left)}
                for one in ordered[number:]:
                    if one.before is not None and _bare(one.ref) not in {_bare(ref) for ref in known}:
                        self._leave(one.ref, f"the restore ended before: {failure.sentence}", tell=False)
                raise

    def _one(self, was: Captured) -> None:
        """Bring one object back: again and again, until it is or cannot be."""
        hands, restored = self._hands, self._restored
        self._asked, applied, reads = False, False, 0
        while True:
            try:
                self._may_go_on()
                seen = read(hands.door, _bare(was.ref))
            except (StoppedError, NotReadableError) as failure:
                if not self._may_try_again(failure):
                    raise
                hands.clock.wait(None, PAUSE_S)
                continue
            reads += 1
            applied = applied or (seen is not None and is_applied(seen.raw))
            wanted = restore_one(was, seen, ended_at=self._ended_at)
            if not wanted.writes:
                self._needs_nothing(wanted, seen, applied=applied)
                return
            if wanted.paused and wanted.ref not in restored.paused:
                restored.paused.append(wanted.ref)
                hands.tell(
                    f"{wanted.ref.display} is paused: it goes back, but does not roll out before it is resumed"
                )
            self._prove()
            answer = self._send(wanted)
            match answer:
                case Applied(raw):
                    self._brought_back(wanted, raw, applied=applied)
                    return
                case Unknown():
                    self._asked = True
                case Refused(Why.GUARD | Why.GONE | Why.BUSY) if reads < FRESH_READS:
                    # NB: written by others in between, gone, or busy: looked at again.
                    if wanted.doing is Doing.CREATE and answer.why is Why.GONE:
                        self._leave(wanted.ref, "it was deleted since, and its namespace or kind is gone")
                        return
                case Refused(Why.GUARD) if wanted.patch is not None:
                    self._leave(wanted.ref, f"others write it all the time: {broken(hands.door, wanted.patch)}")
                    return
                case Refused():
                    self._leave(wanted.ref, _why_refused(wanted, answer))
                    return
            hands.clock.wait(None, PAUSE_S)

    def _may_go_on(self) -> None:
        self._hands.stop_if_asked()
        if self._hands.clock.monotonic_s() >= self._end_s:
            budget = span_text(self._restored.budget_s)
            raise _OverError(
                f"its own budget of {budget} is over{': no answer came' if self._asked else ''}", unread=True
            )

    def _may_try_again(self, failure: StoppedError | NotReadableError) -> bool:
        """Whether the object may yet be read: nobody answers, or the server is at fault; and there is time."""
        lasts = isinstance(failure, _OverError | SupersededError) or (
            isinstance(failure, StoppedError) and (failure.forbidden or not failure.unread)
        )
        return not lasts and self._hands.clock.monotonic_s() < self._end_s

    def _prove(self) -> None:
        """Prove, right before a write, that the target is still this run's to change."""
        deadline_under(self._hands.keeper)
        by = self._hands.superseded()
        if by is not None:
            raise SupersededError(f"superseded by {by}")

    def _send(self, wanted: Restoration) -> Answer:
        deadline_s = deadline_under(self._hands.keeper)
        if wanted.patch is not None:
            return send(self._hands.door, wanted.patch, deadline_s=deadline_s)
        collection = wanted.ref.path.rpartition("/")[0]
        return create(self._hands.door, collection, wanted.body or {}, deadline_s=deadline_s)

    def _needs_nothing(self, wanted: Restoration, seen: Seen | None, *, applied: bool) -> None:
        match wanted.doing:
            case Doing.NEW:
                self._restored.new.append(wanted.ref)
                self._hands.tell(f"{wanted.ref.display} was not there before; it stays, nothing is deleted")
            case Doing.LEFT:
                if self._asked:
                    # NB: what was sent may have been carried out before somebody else came.
                    self._restored.unresolved.append(wanted.ref)
                self._leave(wanted.ref, wanted.why)
            case _ if self._asked and seen is not None:
                self._brought_back(replace(wanted, doing=Doing.PATCH), seen.raw, applied=applied)
            case _:
                self._restored.same.append(wanted.ref)

    def _brought_back(self, wanted: Restoration, raw: Raw, *, applied: bool) -> None:
        restored, ref = self._restored, wanted.ref
        ref = replace_uid(ref, str(dig(raw, "metadata", "uid")))
        made = wanted.doing is Doing.CREATE
        (restored.made if made else restored.done).append(ref)
        self._hands.tell(f"{ref.display} {'made again' if made else 'changed back'}")
        if applied:
            self._hand_back(Seen(ref, raw))
        if HOLDER in annotations_of(raw) or wanted.ref in restored.paused:
            # NB: what is suspended or paused does not move, so there is nothing to follow.
            return
        generation = dig(raw, "metadata", "generation")
        self._targets.append(Target(ref, generation if isinstance(generation, int) else None, made=raw))

    def _hand_back(self, seen: Seen) -> None:
        """Let the fields that were written belong to this program's applies again; best effort, and said."""
        now: Seen | None = seen
        for _ in range(HAND_BACK_TRIES):
            patch = hand_back(now) if now is not None else None
            if patch is None:
                return
            try:
                answer = send(self._hands.door, patch, deadline_s=deadline_under(self._hands.keeper))
                if isinstance(answer, Applied):
                    return
                now = read(self._hands.door, seen.ref)
            except (StoppedError, NotReadableError):
                break
        self._hands.tell(
            f"{seen.ref.display}: a later apply may be refused over fields that `fencectl` has updated"
        )

    def _leave(self, ref: ObjectRef, why: str, *, tell: bool = True) -> None:
        self._restored.left.append(LeftAsItIs(ref, why))
        if tell:
            self._hands.tell(f"{ref.display} is left as it is: {why}")

    # Follow

    def _follow(self) -> None:
        restored = self._restored
        if self._targets:
            self._hands.tell(f"follows {len(self._targets)} of them")
            if self._hands.follower is not None:
                left_s = max(1.0, self._end_s - self._hands.clock.monotonic_s())
                restored.followed = self._hands.follower.follow(self._targets, left_s)
                if restored.followed.outcome is not RolloutVerdict.SUCCEEDED:
                    self._hands.stop_if_asked()
        self._end(*self._judge())

    def _judge(self) -> tuple[RestoreVerdict, str | None]:
        restored, followed = self._restored, self._restored.followed
        if restored.unresolved:
            return RestoreVerdict.UNKNOWN, f"nobody can say whether {restored.unresolved[0].display} was changed"
        if restored.left:
            first = restored.left[0]
            verdict = RestoreVerdict.PARTIAL if restored.moved else RestoreVerdict.REFUSED
            return verdict, f"{first.ref.display} is left as it is: {first.why}"
        if restored.paused:
            names = ", ".join(ref.display for ref in restored.paused)
            return RestoreVerdict.PARTIAL, f"{names} is paused, and does not roll out before it is resumed"
        if self._targets and followed is None:
            return RestoreVerdict.UNKNOWN, "what was changed back was not followed"
        if followed is not None and followed.outcome is not RolloutVerdict.SUCCEEDED:
            unknown = followed.outcome is RolloutVerdict.UNKNOWN
            bad = next((one for one in followed.results if one.verdict is not RolloutVerdict.SUCCEEDED), None)
            why = (
                followed.stopped if bad is None else f"{bad.target.ref.display} {bad.verdict.value}: {bad.reason}"
            )
            return RestoreVerdict.UNKNOWN if unknown else RestoreVerdict.PARTIAL, why
        return RestoreVerdict.BACK, None


class _OverError(StoppedError):
    """The budget is over."""


def _bare(ref: ObjectRef) -> ObjectRef:
    """An object by its name alone: whichever bears it now."""
    return replace_uid(ref, "")


def replace_uid(ref: ObjectRef, uid: str) -> ObjectRef:
    """The object of that name with another uid."""
    return ObjectRef(ref.api_version, ref.kind, ref.plural, ref.namespace, ref.name, uid)


def _why_refused(wanted: Restoration, answer: Refused) -> str:
    """Why the server takes no such change; of a Secret no word of the server's that could quote it."""
    secret = wanted.ref.kind == "Secret" and not wanted.ref.group
    verb = "make it" if wanted.doing is Doing.CREATE else "change it back"
    if answer.why is Why.FORBIDDEN:
        return f"this user may not {verb} ({answer.status}: {answer.detail})"
    fields = ", ".join(answer.fields)
    if secret or not answer.detail:
        return f"the API server does not {verb} ({answer.status}{f': {fields}' if fields else ''})"
    named = f"{fields}: " if fields and not any(one in answer.detail for one in answer.fields) else ""
    return f"the API server does not {verb} ({answer.status}: {named}{answer.detail})"
