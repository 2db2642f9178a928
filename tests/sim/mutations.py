"""
The sentences that the protocol stands on, each taken out of the code once.

A mutation patches the one function that carries a sentence out. Its edge is the kind of story in which the sentence
matters, and its seed the first one that failed when it was written; a change of the product may move that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from msgspec import structs

from fencectl.commands import recover
from fencectl.core import heartbeat, marks_reader, plan, releases, verdict
from fencectl.core.evidence import Strength, Verdict
from fencectl.core.heartbeat import Pulse
from fencectl.core.patches import GuardedPatch, seal
from fencectl.core.placements import Placed
from fencectl.core.profiles import HOLDER, JOURNAL
from fencectl.core.refs import dig
from fencectl.core.releases import Lifted
from fencectl.run import (
    deploy_record,
    fencing,
    keeper,
    leasing,
    nesting,
    nodes,
    overseer,
    recovery,
    servertime,
    story,
    suspending,
    takeover,
    tenure,
    transaction,
    unwind,
)
from tests.sim import deployer

Patch = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class Mutation:
    """`sentence`: what no longer holds. `edge`: the stories to look in. `seed`: the one that tells. `broken`: how."""

    name: str
    sentence: str
    edge: str
    seed: int
    broken: tuple[str, ...]
    patch: Patch


def _unguarded(patch: GuardedPatch, *paths: str) -> GuardedPatch:
    kept = [op for op in patch.operations if not (op["op"] == "test" and op["path"] in paths)]
    return GuardedPatch(patch.target, json.dumps(kept))


def _wrapped(module: Any, name: str, change: Callable[..., Any]) -> Patch:
    """Replace a function by one that calls it and changes its result; `change(result, *args)`."""
    real = getattr(module, name)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return change(real(*args, **kwargs), *args)

    return lambda: mock.patch.object(module, name, wrapper)


def _replaced(module: Any, name: str, value: Any) -> Patch:
    return lambda: mock.patch.object(module, name, value, create=name == "sorted")


def _all(*patches: Patch) -> Patch:
    @contextmanager
    def together() -> Iterator[None]:
        with ExitStack() as stack:
            for patch in patches:
                stack.enter_context(patch())
            yield

    return together


def _placed_unguarded(path: str) -> Callable[..., Any]:
    def change(placed: Any, *_: Any) -> Any:
        return (
            structs.replace(placed, patch=_unguarded(placed.patch, path)) if isinstance(placed, Placed) else placed
        )

    return change


def _lifted(change: Callable[[Lifted, Any, Any], GuardedPatch]) -> Callable[..., Any]:
    def changed(lifted: Any, seen: Any, journal: Any) -> Any:
        return (
            structs.replace(lifted, patch=change(lifted, seen, journal)) if isinstance(lifted, Lifted) else lifted
        )

    return changed


def _both_lifts(change: Callable[[Lifted, Any, Any], GuardedPatch]) -> Patch:
    return _all(
        _wrapped(marks_reader, "lift_suspension", _lifted(change)),
        _wrapped(marks_reader, "lift_cordon", _lifted(change)),
    )


def _with_version(lifted: Lifted, seen: Any, _: Any) -> GuardedPatch:
    version = dig(seen.raw, "metadata", "resourceVersion")
    guard = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
    return seal(seen.ref, [guard, *lifted.patch.operations[1:]])


def _never_lifted(lifted: Lifted, seen: Any, _: Any) -> GuardedPatch:
    """Guard the fenced value as the fence wrote it, not as it is."""
    path = "/spec/unschedulable" if seen.ref.kind == "Node" else "/spec/suspend"
    ops = [
        op | {"value": True} if op == {**op, "op": "test", "path": path} else op for op in lifted.patch.operations
    ]
    return GuardedPatch(seen.ref, json.dumps(ops))


def _prior_is(**values: Any) -> Callable[..., Any]:
    """A lift that goes back to a constant."""

    def make(real: Callable[..., Any]) -> Callable[..., Any]:
        return lambda seen, journal: real(seen, replace(journal, prior={**journal.prior, **values}))

    return make


def _constant(name: str, **values: Any) -> Patch:
    return _replaced(marks_reader, name, _prior_is(**values)(getattr(releases, name)))


def _no_journal_guard() -> Patch:
    path = "/metadata/annotations/" + JOURNAL.replace("/", "~1")
    return _both_lifts(lambda lifted, *_: _unguarded(lifted.patch, path))


def _no_mark_guard() -> Patch:
    paths = tuple("/metadata/annotations/" + key.replace("/", "~1") for key in (HOLDER, JOURNAL))
    return _both_lifts(lambda lifted, *_: _unguarded(lifted.patch, *paths))


def _expiry_is_death() -> Patch:
    real = verdict._decide

    def decide(facts: Any, reading: Any) -> Any:
        if reading.pulse is Pulse.STILL:
            return Verdict.DEAD, Strength.PROVEN, "its heartbeat has expired"
        return real(facts, reading)

    return _replaced(verdict, "_decide", decide)


def _fresh_beats_nothing() -> Patch:
    real = heartbeat.read_heartbeat

    def reading(beat: Any, **more: Any) -> Any:
        found = real(beat, **more)
        return structs.replace(found, pulse=Pulse.STILL) if found.pulse is Pulse.FRESH else found

    return _replaced(verdict, "read_heartbeat", reading)


def _forgiving_keeper() -> Patch:
    """A renewal that is acknowledged after the loss takes it back."""
    real, renew = keeper.Keeper.held_for_s, keeper.Keeper._renew_once
    renewing: set[int] = set()

    def held_for_s(self: Any) -> float:
        self._expired = False
        left_s = real(self)
        self._expired = False
        return max(left_s, 0.1) if id(self) in renewing else left_s

    def renew_once(self: Any) -> bool:
        renewing.add(id(self))
        try:
            return renew(self)
        finally:
            renewing.discard(id(self))

    return _all(
        _replaced(keeper.Keeper, "held_for_s", held_for_s), _replaced(keeper.Keeper, "_renew_once", renew_once)
    )


def _one_clock(dropped: str) -> Patch:
    """Measure a lease's age by one of the two clocks only."""
    real = keeper.Keeper.held_for_s

    def held_for_s(self: Any) -> float:
        kept = self._acknowledged
        now_s, now_at = self._clock.monotonic_s(), self._clock.wall()
        self._acknowledged = replace(kept, boot_s=now_s) if dropped == "boot" else replace(kept, wall_at=now_at)
        try:
            return real(self)
        finally:
            self._acknowledged = kept

    return _replaced(keeper.Keeper, "held_for_s", held_for_s)


def _freed_first() -> Patch:
    real = recovery.Recovery._release_all

    def release_all(self: Any, entries: Any) -> None:
        self._lease.free()
        real(self, entries)

    return _replaced(recovery.Recovery, "_release_all", release_all)


def _reversed() -> Patch:
    real = recovery.Recovery._release_all
    return _replaced(recovery.Recovery, "_release_all", lambda self, entries: real(self, list(reversed(entries))))


def _any_phase() -> Patch:
    real = marks_reader._lift_node

    def lift(seen: Any, journal: Any, observed_at: Any, vouched: Any) -> Any:
        return real(seen, journal, observed_at, structs.replace(vouched, nodes=vouched.nodes | {seen.ref.display}))

    return _replaced(marks_reader, "_lift_node", lift)


def _kept_is_nothing() -> Patch:
    return _wrapped(marks_reader, "_found", lambda found, *_: structs.replace(found, kept_because=None))


_TRANSITIONS, _HOLDER_FIELD, _RENEWED = "/spec/leaseTransitions", "/spec/holderIdentity", "/spec/renewTime"

# NB: that these maps are absent is guarded only where they are made, and then refuses the second writer as well.
_MAPS = ("/metadata/annotations", "/metadata/labels")


def _lease_unguarded(module: Any, name: str, *paths: str) -> Patch:
    def change(result: Any, *_: Any) -> Any:
        if isinstance(result, Placed):
            return structs.replace(result, patch=_unguarded(result.patch, *paths))
        return _unguarded(result, *paths) if isinstance(result, GuardedPatch) else result

    return _wrapped(module, name, change)


def _same_token_back() -> Patch:
    def change(patch: GuardedPatch, *_: Any) -> GuardedPatch:
        kept = [op for op in patch.operations if op["op"] == "test" or op["path"] != _TRANSITIONS]
        return GuardedPatch(patch.target, json.dumps(kept))

    return _wrapped(takeover, "hand_back_lease", change)


def _unresolved_forgotten() -> Patch:
    """A placement whose answer is lost counts as one that was not carried out."""
    return _replaced(fencing, "Unknown", type("Never", (), {}))


def _any_state_adopted() -> Patch:
    """After a refusal whatever is there is taken for our own."""
    return _replaced(fencing.Fencer, "_after_refusal", lambda self, seen, _: story.read(self._door, seen.ref))


def _from_the_answer() -> Patch:
    real = keeper.Keeper._renew_once

    def renew(self: Any) -> bool:
        done = real(self)
        if done:
            self._acknowledged = keeper.Acknowledged(self._clock.monotonic_s(), self._clock.wall())
        return done

    return _replaced(keeper.Keeper, "_renew_once", renew)


def _record_unchecked() -> Patch:
    real = deploy_record.DeployRecord.write

    def write(self: Any, phase: str, **more: Any) -> int:
        return real(self, phase, **{**more, "before": lambda: None})

    return _replaced(deploy_record.DeployRecord, "write", write)


def _not_recorded() -> Patch:
    real = transaction.Deploy._write_record

    def write(self: Any, phase: str, **more: Any) -> None:
        if phase != "placing":
            real(self, phase, **more)

    return _replaced(transaction.Deploy, "_write_record", write)


def _unwound_forwards() -> Patch:
    return _replaced(unwind, "sorted", lambda fences, **_: list(fences))


def _unresolved_not_unwound() -> Patch:
    real = unwind.unwind

    def forgetful(door: Any, clock: Any, threads: Any, ledger: Any, **more: Any) -> Any:
        ledger.unresolved = []
        return real(door, clock, threads, ledger, **more)

    return _replaced(nesting, "unwind", forgetful)


MUTATIONS = (
    Mutation("no-take-over", "7.1 it takes the lease over before the first release", "late", 2, ("I1", "I2"),
             _replaced(recovery.Recovery, "_take_lease", lambda _: None)),
    Mutation("take-over-unguarded", "7.1 take-over guards the renewTime as observed", "aimed-renewal", 29, ("I12",),
             _lease_unguarded(takeover, "take_over_lease", _RENEWED)),
    Mutation("window-of-a-second", "7 a heartbeat unchanged over the window", "late", 2, ("I11", "I12"),
             _replaced(recover.RecoverRun, "_window_s", lambda *_: 1.0)),
    Mutation("window-of-the-duration", "7 the larger of the duration and 40 s", "late", 11, ("I11", "I12"),
             _replaced(recover, "WINDOW_S", 0.0)),
    Mutation("second-look-trusted", "7 decided on the look that is acted on", "zombie", 224, ("I12", "I1"),
             _replaced(recover, "moved_since", lambda watched, *_: watched)),
    Mutation("not-listed-again", "7.2 it reads the fences again", "aimed", 18, ("I10",),
             _replaced(recovery.Recovery, "_listed_again", lambda self: list(self._plan.going))),
    Mutation("child-not-waited-for", "5 no ancestor while a child carries our `reconcile: disabled`", "kept", 0, ("I10",),
             _replaced(plan, "_waits_for_child", lambda *_: None)),
    Mutation("not-read-under-the-lease", "8.2 the fences are read again under the lease", "overtaken", 0, ("I5",),
             _replaced(deployer, "refuse_others", lambda *_, **__: None)),
    Mutation("late-fence-left", "5 a late fence is taken back", "sleeper", 4, ("I14",),
             _replaced(fencing.Ledger, "came_late", lambda *_: False)),
    Mutation("lost-answer-is-failure", "5 a lost answer is not a failure", "unanswered", 2, ("I15", "I6", "I10"),
             _unresolved_forgotten()),
    Mutation("any-state-adopted", "5 adopt only the exact state that this run wrote", "crowded", 0, ("I18",),
             _any_state_adopted()),
    Mutation("deploy-unchecked", "8.2 each write proves that the lease is held", "sleeper", 1, ("I2",),
             _replaced(keeper.Keeper, "must_hold", lambda *_: None)),
    Mutation("loss-at-the-end", "8.2 loss is declared at two thirds", "sleeper", 13, ("I2",),
             _replaced(keeper.Keeper, "_loss_after_s", lambda self: self.duration_s)),
    Mutation("loss-from-the-answer", "8.2 two thirds after the send, not the answer", "any", 40, ("I2", "I16"),
             _from_the_answer()),
    Mutation("record-unchecked", "8 nobody records after loss", "any", 8, ("I2",), _record_unchecked()),
    Mutation("fenced-before-recorded", "8.3 the record is written before anything becomes observable", "any", 2, ("I17",),
             _not_recorded()),
    Mutation("stolen-is-ours", "8.2 stolen: keep suspensions", "sleeper", 1, ("I2",),
             _replaced(tenure.Tenure, "_stolen", lambda *_: None)),
    Mutation("nobody-oversees", "8.2 the payload is dead before the lease is over", "starved", 211, ("I16",),
             _replaced(overseer.Overseer, "_oversee", lambda *_: None)),
    Mutation("token-starts-again", "8.3 a deleted lease starts again at its last token + 1", "overtaken", 3, ("I7",),
             _all(_replaced(deploy_record.DeployRecord, "last_token", lambda _: 0),
                  _replaced(deploy_record.DeployRecord, "_must_be_new", lambda *_: None))),
    Mutation("not-drained", "5 drain proof: one read that shows our token answered", "any", 27, ("I18",),
             _replaced(suspending.Suspender, "_is_drained", lambda *_: True)),
    Mutation("mutating-not-written", "5 `mutating` is written before the first change", "any", 2, ("I18",),
             _replaced(nodes.NodeRoller, "_enter", lambda *_: None)),
    Mutation("deploy-parent-first", "5 release is the exact reverse", "any", 3, ("I10",), _unwound_forwards()),
    Mutation("unresolved-child-forgotten", "5 no ancestor while a child may be excluded", "unanswered", 2, ("I10", "I15"),
             _unresolved_not_unwound()),
    Mutation("no-sweep", "7.3 it lists once more before it frees the lease", "aimed", 37, ("I6",),
             _replaced(recovery.Recovery, "_sweep", lambda _: None)),
    Mutation("lease-freed-first", "5 the lease is released last of all", "late", 2, ("I6", "I1", "I2", "I10"),
             _freed_first()),
    Mutation("same-token-back", "7.3 handed back with transitions + 1", "zombie", 15, ("I7",), _same_token_back()),
    Mutation("recoverer-unchecked", "8.2 each write proves that the lease is held", "aimed-recoverer", 105, ("I2",),
             _replaced(takeover.TakenLease, "must_hold", lambda _: None)),
    Mutation("free-unguarded", "5 the own lease is freed by holder and token", "aimed-recoverer", 17, ("I2", "I6"),
             _lease_unguarded(takeover, "free_own_lease", _HOLDER_FIELD, _TRANSITIONS)),
    Mutation("hand-back-unguarded", "7.3 handed back by holder and token", "aimed-recoverer", 10, ("I2", "I7"),
             _lease_unguarded(takeover, "hand_back_lease", _HOLDER_FIELD, _TRANSITIONS)),
    Mutation("renew-unguarded", "5 a renewal guards holder and token", "aimed-renewal", 6, ("I2",),
             _lease_unguarded(keeper, "renew_lease", _HOLDER_FIELD, _TRANSITIONS, _RENEWED)),
    Mutation("renewal-repeated", "5 a renewal guards the heartbeat as seen", "believed", 116, ("I13", "I1"),
             _lease_unguarded(keeper, "renew_lease", _RENEWED)),
    Mutation("heartbeat-by-own-clock", "6.1 a heartbeat is written by the server's clock", "any", 42, ("I13", "I1"),
             _replaced(servertime.ServerTime, "now", lambda self: self._clock.wall())),
    Mutation("printed-at-once", "6.3 no command while a last write may land", "printed-soon", 9, ("I11", "I10"),
             _replaced(heartbeat, "_still_after_s", lambda duration_s, **_: duration_s)),
    Mutation("acquire-unguarded", "5 the lease is taken by holder and transitions as read", "rivals", 15, ("I7", "I5", "I12"),
             _lease_unguarded(leasing, "acquire_lease", _HOLDER_FIELD, _TRANSITIONS, *_MAPS)),
    Mutation("keeper-forgives", "8.2 a loss is final", "answered-late", 0, ("I2",), _forgiving_keeper()),
    Mutation("keeper-by-wall-clock", "8.2 on either clock, whichever is longer", "any", 49, ("I2", "I1", "I5"),
             _one_clock("boot")),
    Mutation("keeper-by-boot-clock", "8.2 on either clock, whichever is longer", "sleeper", 2, ("I2",),
             _one_clock("wall")),
    Mutation("parent-first", "5 no ancestor is released while a child is excluded", "late", 2, ("I10",), _reversed()),
    Mutation("suspension-without-generation", "5 a placement guards the generation", "repeated", 7, ("I4",),
             _wrapped(suspending, "place_suspension", _placed_unguarded("/metadata/generation"))),
    Mutation("cordon-without-version", "5 a placement guards the resourceVersion", "repeated", 10, ("I4",),
             _wrapped(nodes, "place_cordon", _placed_unguarded("/metadata/resourceVersion"))),
    Mutation("release-guards-version", "5 a release never guards the resourceVersion", "printed", 11, ("I8",),
             _both_lifts(_with_version)),
    Mutation("release-without-journal", "5 a release guards the journal", "woken", 1, ("I1",), _no_journal_guard()),
    Mutation("release-without-mark", "5 a release guards the mark", "woken", 1, ("I1", "I2", "I4", "I3"), _no_mark_guard()),
    Mutation("release-guards-a-constant", "5 releases follow the live value", "any", 8, ("I8",),
             _both_lifts(_never_lifted)),
    Mutation("uncordons-always", "5 uncordon only if this run cordoned it", "late", 34, ("I3",),
             _constant("lift_cordon", unschedulable=False)),
    Mutation("resumes-to-false", "5 absent stays absent", "late", 2, ("I3",), _constant("lift_suspension", suspend=False)),
    Mutation("mutating-is-released", "5 only claimed and verified are releasable", "late", 38, ("I1",), _any_phase()),
    Mutation("kept-is-released", "7 leaves kept suspensions alone", "any", 2, ("I1",), _kept_is_nothing()),
    Mutation("expiry-is-death", "6.4 expiry alone is never proof", "sleeper-unproven", 8, ("I12", "I1"),
             _expiry_is_death()),
    Mutation("fresh-heartbeat-ignored", "6.1 a fresh heartbeat beats everything", "believed", 0, ("I1", "I12"),
             _fresh_beats_nothing()),
)  # fmt: skip
