"""One target while it is followed: what was said of it last, for how long, and whether that counts by now."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from fencectl.core.refs import Raw, dig
from fencectl.core.rollout import Cause, Judgement, Result, RolloutVerdict, Target
from fencectl.run.follow_pace import Missing

# What may be said of an object after it has succeeded changes nothing about that.
_NOT_AFTER_SUCCESS = frozenset(
    {
        Cause.TAKEN_OVER,
        Cause.REPLACED,
        Cause.NOT_FOUND,
        Cause.DELETING,
        Cause.PAUSED,
        Cause.SUSPENDED,
        Cause.UNREADABLE,
    }
)
# How long a failure waits to be told whether the pod's node is down.
NODES_S = 10.0

_Key = tuple[RolloutVerdict, Cause, str]


@dataclass(eq=False)
class Track:
    """
    One target.

    `ours`: the object in the state that was deployed, once it was seen. `judgement`: the last one, `since_s`:
    since when it has been so; `settled`: the one that counts. A success is settled, but is taken back where the
    object gets worse before the follow ends.
    """

    target: Target
    ours: Raw | None = None
    raw: Raw | None = None
    judgement: Judgement | None = None
    settled: Judgement | None = None
    noticed_s: float = 0.0
    was_seen: bool = False
    missing: Missing = field(default_factory=Missing)
    since_s: float = 0.0
    _key: _Key | None = None
    _times: Counter[_Key] = field(default_factory=Counter)

    @property
    def is_over(self) -> bool:
        """Whether nothing that comes can change its verdict."""
        settled = self.settled
        return settled is not None and (settled.verdict is not RolloutVerdict.SUCCEEDED or settled.for_good)

    def saw(self, raw: Raw) -> None:
        """Take in the object as it is now."""
        self.raw, self.was_seen = raw, True
        self.missing = Missing()
        if self.ours is None:
            same = dig(raw, "metadata", "generation") == self.target.generation
            self.ours = self.target.made or (raw if same else None)

    def judged(self, judgement: Judgement, now_s: float) -> bool:
        """Take in a judgement; whether it says something new."""
        if self.is_over:
            return False
        if self.settled is not None and judgement.cause in _NOT_AFTER_SUCCESS:
            return False
        before, self.judgement = self.judgement, judgement
        key = (judgement.verdict, judgement.cause, judgement.about)
        if key != self._key:
            self._key, self.since_s = key, now_s
            self._times[key] += 1
        if self.settled is not None and judgement.verdict is not RolloutVerdict.SUCCEEDED:
            self.settled = None
        return before is None or (before.verdict, before.reason) != (judgement.verdict, judgement.reason)

    def settle(self, now_s: float, start_s: float, *, nodes_known: bool) -> bool:
        """Let the last judgement count if it has been so for long enough; whether it does from now on."""
        judgement = self.judgement
        if judgement is None or self.settled is not None or judgement.verdict is RolloutVerdict.WAITING:
            return False
        so_far_s = now_s - self.since_s
        often = judgement.times is not None and self._key and self._times[self._key] >= judgement.times
        if so_far_s < judgement.grace_s and not often:
            return False
        if judgement.verdict is RolloutVerdict.FAILED and not nodes_known and so_far_s < NODES_S:
            return False
        self.settled, self.noticed_s = judgement, now_s - start_s
        return True

    def result(self, judgement: Judgement, noticed_s: float) -> Result:
        """Give the result as it is reported, without evidence yet."""
        return Result(
            self.target, judgement.verdict, judgement.cause, judgement.reason, noticed_s, judgement.nodes
        )
