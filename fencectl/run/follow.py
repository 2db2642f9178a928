"""
Follow what was changed until each object has a terminal verdict, or cannot be followed.

One watch for each kind and namespace; polls where there is none. Nothing in the loop waits for the server: reads
and watches run in threads and leave messages, so that a stop is heard at once and a slow list holds up nobody.
What cannot be read is `unknown`, never a success and never a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from fencectl.cluster.clock import Clock
from fencectl.cluster.ports import Getter
from fencectl.core.refs import Raw, dig
from fencectl.core.rollout import (
    Around,
    Cause,
    Followed,
    Judgement,
    NodeRollout,
    Result,
    RolloutVerdict,
    Target,
    Tell,
    worst_first,
    worst_verdict,
)
from fencectl.core.rollout_judge import judge, needs_replica_sets
from fencectl.core.rollout_pods import owner_uid
from fencectl.core.rollout_reading import unknown
from fencectl.core.times import age_text
from fencectl.run.follow_evidence import Evidence
from fencectl.run.follow_feed import (
    Bookmark,
    Broken,
    Changed,
    Feeds,
    Listed,
    ReadFailed,
    Scope,
    WatchEnded,
)
from fencectl.run.follow_known import Objects, plan_scopes
from fencectl.run.follow_nodes import NodeBook, NodesRead
from fencectl.run.follow_pace import LONGEST_S, MISSING_S, Missing, Pace
from fencectl.run.follow_track import Track
from fencectl.run.ports import SystemThreads, Threads

TICK_S = 0.5
"""How often it is asked whether to stop, and what is due; nothing is sent for that."""
SETTLE_S = 0.1
"""Changes come in flocks; one look for all of a flock is enough."""
AFTER_FAILURE_S = 5.0
"""What else is failing shows within this time; the rest need not be waited for."""
ASK_NODES_AFTER_S = 5.0


@dataclass
class Follower:
    """
    Follows on one cluster.

    `tell`: called with each change, from the thread that follows. `must_stop`: why the follow is to end now, or
    None; asked at least twice a second.
    """

    getter: Getter
    clock: Clock
    tell: Tell
    must_stop: Callable[[], str | None] = lambda: None
    threads: Threads = field(default_factory=SystemThreads)

    def follow(self, targets: Sequence[Target], timeout_s: float) -> Followed:
        """Follow until each target has a terminal verdict; see `core.rollout.Follows`."""
        following = _Following(self, targets, min(timeout_s, LONGEST_S))
        try:
            stopped = following.run()
        finally:
            following.feeds.stop()
        return following.end(stopped)


class _Following:
    """One follow."""

    def __init__(self, follower: Follower, targets: Sequence[Target], timeout_s: float) -> None:
        self._clock = follower.clock
        self._tell = follower.tell
        self._must_stop = follower.must_stop
        self._start_s = follower.clock.monotonic_s()
        self._timeout_s = timeout_s
        self.feeds = Feeds(follower.getter, follower.clock, follower.threads)
        self._evidence = Evidence(follower.getter, follower.clock, follower.must_stop)
        self._plan = plan_scopes(targets)
        self._known = {scope: Objects() for scope in self._plan.scopes}
        self._paces = {scope: Pace(self._start_s) for scope in self._plan.scopes}
        self._versions: dict[Scope, str] = {}
        self._nodes = NodeBook()
        self._tracks = [Track(target) for target in targets]
        self._of: dict[Scope, dict[str, list[Track]]] = {scope: {} for scope in self._plan.scopes}
        self._by_uid: dict[str, list[Track]] = {}
        for track in self._tracks:
            ref = track.target.ref
            self._of[self._plan.of_target[ref]].setdefault(ref.name, []).append(track)
        self._dirty: dict[int, Track] = {}
        self._failed_s: float | None = None

    # The loop

    def run(self) -> str | None:
        """Follow; returns why it was stopped, None where it came to its own end."""
        while True:
            self._take_messages()
            self._look()
            now_s = self._clock.monotonic_s()
            if all(track.settled is not None for track in self._tracks):
                return None
            stop = self._must_stop()
            if stop is not None:
                return stop
            if now_s - self._start_s >= self._timeout_s:
                return None
            if self._failed_s is not None and now_s - self._failed_s >= AFTER_FAILURE_S:
                return None
            self._begin_due(now_s)
            if self._clock.wait(self.feeds.wake, TICK_S):
                self.feeds.wake.clear()
                self._clock.wait(None, SETTLE_S)

    def _begin_due(self, now_s: float) -> None:
        for scope, pace in self._paces.items():
            if pace.is_due(now_s, something_missing=bool(self._missing_of(scope))):
                pace.begins()
                self.feeds.begin_read(scope, check=pace.is_watching)
        self._nodes.ask(self.feeds, self._nodes_in_question(now_s), now_s)

    def _missing_of(self, scope: Scope) -> list[Track]:
        """The targets of a list that are not in it and still matter."""
        known = self._known[scope]
        if not known.is_read:
            return []
        return [
            track
            for name, tracks in self._of[scope].items()
            for track in tracks
            if name not in known.by_name and track.settled is None
        ]

    def _nodes_in_question(self, now_s: float) -> set[str]:
        """
        The nodes to ask about: of pods that a verdict is about to name, or that have not been ready for a while.

        NB: while a rollout goes on as it should, each pod is unready for a moment; that is no reason to ask.
        """
        found: set[str] = set()
        for track in self._tracks:
            judgement = track.judgement
            if judgement is None or track.settled is not None:
                continue
            if judgement.verdict is not RolloutVerdict.WAITING or now_s - track.since_s >= ASK_NODES_AFTER_S:
                found |= _nodes_of(judgement)
        return found

    # Messages

    def _take_messages(self) -> None:
        for message in self.feeds.take():
            now_s = self._clock.monotonic_s()
            match message:
                case Listed():
                    self._listed(message, now_s)
                case ReadFailed():
                    self._read_failed(message, now_s)
                case Changed(scope, name, raw, version):
                    self._heard(scope, version, now_s)
                    before = self._known[scope].put(name, raw)
                    self._soil(scope, name, before, raw)
                case Bookmark(scope, version):
                    self._heard(scope, version, now_s)
                case WatchEnded():
                    self._watch_ended(message, now_s)
                case NodesRead():
                    self._nodes_read(message)
                case Broken(error):
                    raise error

    def _heard(self, scope: Scope, version: str, now_s: float) -> None:
        self._paces[scope].heard(now_s)
        self._versions[scope] = version or self._versions[scope]

    def _listed(self, listed: Listed, now_s: float) -> None:
        scope, known, pace = listed.scope, self._known[listed.scope], self._paces[listed.scope]
        if pace.failures:
            self._tell(f"{scope.what} can be read again")
        pace.read(now_s)
        if not listed.check and not pace.is_watching:
            for name in {*known.by_name, *listed.objects}:
                self._soil(scope, name, known.by_name.get(name), listed.objects.get(name))
            known.replace(listed.objects)
            self._versions[scope] = listed.version
            self._watch(scope)
        for track in self._missing_of(scope):
            if track.target.ref.name in listed.objects:
                track.missing = Missing()
            elif track.missing.saw_missing(now_s):
                self._not_found(track, now_s)

    def _not_found(self, track: Track, now_s: float) -> None:
        was = "it was there, and somebody deleted it" if track.was_seen else "it is not there"
        reason = f"not found: {was} ({MISSING_S:.0f}s of reads without it)"
        self._judged(track, unknown(Cause.NOT_FOUND, reason), now_s)

    def _read_failed(self, failed: ReadFailed, now_s: float) -> None:
        scope, pace = failed.scope, self._paces[failed.scope]
        pace.failed(now_s, failed.why, failed.status)
        for tracks in self._of[scope].values():
            for track in tracks:
                track.missing.broke()
        if pace.lost is None:
            if pace.failures == 1:
                self._tell(f"{scope.what} cannot be read: {failed.why}")
            return
        self._tell(f"{scope.what} cannot be followed: {pace.lost}")
        for track in self._tracks:
            if self._plan.of_target[track.target.ref] == scope:
                self._judged(track, unknown(Cause.UNREADABLE, f"it cannot be read: {pace.lost}"), now_s)

    def _watch(self, scope: Scope) -> None:
        pace, version = self._paces[scope], self._versions.get(scope, "")
        if pace.watchable and version:
            pace.is_watching = True
            self.feeds.begin_watch(scope, version)

    def _watch_ended(self, ended: WatchEnded, now_s: float) -> None:
        pace = self._paces[ended.scope]
        cannot = ended.refused or ended.silent
        again = pace.watch_ended(now_s, ended.lasted_s, forgotten=ended.forgotten, refused=cannot)
        if again and pace.lost is None:
            self._watch(ended.scope)

    def _nodes_read(self, found: NodesRead) -> None:
        new = self._nodes.take(found)
        for track in self._tracks:
            if track.judgement is not None and new & _nodes_of(track.judgement):
                self._dirty[id(track)] = track

    # Looks

    def _soil(self, scope: Scope, name: str, before: Raw | None, after: Raw | None) -> None:
        """Remember which targets a change concerns."""
        if before == after:
            return
        for track in self._of[scope].get(name, ()):
            self._dirty[id(track)] = track
        for raw in (before, after):
            uid = owner_uid(raw) if raw is not None else None
            for track in self._owners(uid, scope):
                self._dirty[id(track)] = track

    def _owners(self, uid: str | None, scope: Scope) -> Iterable[Track]:
        if uid is None:
            return ()
        # A pod of a ReplicaSet belongs to whoever owns that.
        sets = self._objects(self._plan.sets, scope.namespace)
        owner = sets.owner_of.get(uid, "") if sets is not None else ""
        return [*self._by_uid.get(uid, ()), *self._by_uid.get(owner, ())]

    def _objects(self, scopes: dict[str, Scope], namespace: str | None) -> Objects | None:
        """What is known beside the targets in a namespace; None where it is not followed, or was never read."""
        scope = scopes.get(namespace or "")
        known = self._known[scope] if scope is not None else None
        return known if known is not None and known.is_read else None

    def _look(self) -> None:
        now_s = self._clock.monotonic_s()
        dirty, self._dirty = self._dirty, {}
        for track in dirty.values():
            raw = self._known[self._plan.of_target[track.target.ref]].by_name.get(track.target.ref.name)
            if raw is None:
                if track.settled is None and track.was_seen:
                    self._judged(track, Judgement(RolloutVerdict.WAITING, Cause.NOT_FOUND, "it is gone"), now_s)
                continue
            track.saw(raw)
            for uid in {str(dig(raw, "metadata", "uid")), track.target.ref.uid} - {""}:
                mine = self._by_uid.setdefault(uid, [])
                if track not in mine:
                    mine.append(track)
            self._judged(track, judge(track.target, raw, self._around(track, raw), ours=track.ours), now_s)
        for track in self._tracks:
            judgement = track.judgement
            if judgement is None or track.settled is not None:
                continue
            known = self._nodes.knows({pod.node for pod in judgement.pods if pod.node})
            if track.settle(now_s, self._start_s, nodes_known=known):
                self._settled(track)

    def _around(self, track: Track, raw: Raw) -> Around:
        namespace, uid = track.target.ref.namespace, str(dig(raw, "metadata", "uid"))
        pods = self._objects(self._plan.pods, namespace)
        sets: list[Raw] | None = None
        owners = [uid]
        if needs_replica_sets(track.target):
            known = self._objects(self._plan.sets, namespace)
            sets = known.owned_by([uid]) if known is not None else None
            owners = [str(dig(one, "metadata", "uid")) for one in sets or ()]
        return Around(pods.owned_by(owners) if pods is not None else None, sets, self._nodes.facts)

    def _judged(self, track: Track, judgement: Judgement, now_s: float) -> None:
        was_settled = track.settled is not None
        if not track.judged(judgement, now_s):
            return
        counts_now = judgement.verdict is not RolloutVerdict.WAITING and judgement.grace_s == 0
        is_news = judgement.verdict is not RolloutVerdict.SUCCEEDED or was_settled
        if is_news and not counts_now:  # what counts at once is told as the end that it is
            self._tell(f"{track.target.ref.display} {judgement.reason}")

    def _settled(self, track: Track) -> None:
        settled = track.settled
        if settled is None:
            return
        if settled.verdict is RolloutVerdict.FAILED and self._failed_s is None:
            self._failed_s = self._clock.monotonic_s()
        self._tell(f"{track.target.ref.display} {settled.verdict.value}: {settled.reason}")

    # The end

    def end(self, stopped: str | None) -> Followed:
        """Put the results together, with what failing pods left behind."""
        took_s = self._clock.monotonic_s() - self._start_s
        is_over = took_s >= self._timeout_s
        judged = [(track, *self._last_word(track, took_s, is_over=is_over)) for track in self._tracks]
        results: list[Result] = [track.result(judgement, at_s) for track, judgement, at_s in judged]
        troubles = [judgement.pods for _, judgement, _ in judged]
        results = self._evidence.gather(results, troubles, [track.raw for track in self._tracks])
        ordered = worst_first(results)
        return Followed(ordered, worst_verdict(ordered), stopped, took_s, self._notes())

    def _last_word(self, track: Track, took_s: float, *, is_over: bool) -> tuple[Judgement, float]:
        if track.settled is not None:
            return track.settled, track.noticed_s
        pace, last = self._paces[self._plan.of_target[track.target.ref]], track.judgement
        if pace.failures and is_over:
            seen = f"; when last seen: {last.reason}" if last is not None else ""
            return unknown(Cause.UNREADABLE, f"it cannot be read: {pace.why}{seen}"), took_s
        if last is None:
            last = Judgement(RolloutVerdict.WAITING, Cause.NOT_SEEN, "it was not seen yet")
        if not is_over:
            reason = f"{last.reason} when the follow ended"
            return Judgement(RolloutVerdict.WAITING, last.cause, reason, pods=last.pods, nodes=last.nodes), took_s
        reason = f"{last.reason}, after {age_text(took_s)}"
        verdict = RolloutVerdict.TIMED_OUT
        return Judgement(verdict, last.cause, reason, pods=last.pods, nodes=last.nodes), took_s

    def _notes(self) -> tuple[str, ...]:
        beside = [*self._plan.pods.values(), *self._plan.sets.values()]
        notes = [
            f"{scope.what} could not be read: {self._paces[scope].why}"
            for scope in dict.fromkeys(beside)
            if self._paces[scope].failures and scope not in self._plan.of_target.values()
        ]
        if self._nodes.forbidden:
            notes.append(f"nodes could not be read, so none is said to be down: {self._nodes.forbidden}")
        return tuple(notes)


def _nodes_of(judgement: Judgement) -> set[str]:
    """The nodes that a judgement rests on: of pods that are not ready, and those that have not confirmed."""
    found = {pod.node for pod in judgement.pods if pod.node}
    return found | {one.node for one in judgement.nodes if one.state is not NodeRollout.UPDATED}
