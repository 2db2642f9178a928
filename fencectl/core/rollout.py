"""
What following means: what is followed, what can be said of it, and what came of all of it.

A deploy that was handed to a controller is not done. Each object is followed to a terminal verdict, and what
cannot be followed is `unknown`, which is never a success. The rules per kind stand in `rollout_judge` and its
neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from fencectl.core.refs import ObjectRef, Raw


class RolloutVerdict(StrEnum):
    """What became of one object. Only SUCCEEDED is a success; WAITING is no end of anything."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    WAITING = "waiting"
    TIMED_OUT = "timed-out"
    UNKNOWN = "unknown"


WORST_FIRST: tuple[RolloutVerdict, ...] = (
    RolloutVerdict.FAILED,
    RolloutVerdict.UNKNOWN,
    RolloutVerdict.TIMED_OUT,
    RolloutVerdict.WAITING,
    RolloutVerdict.SUCCEEDED,
)
"""The order of results, and which of several verdicts is that of all of them."""


class Cause(StrEnum):
    """Why a verdict is what it is: for those who decide what to do about it. The reason in words is beside it."""

    DONE = "done"
    # Waiting.
    NOT_SEEN = "not-seen"  # the controller has not seen this generation yet
    ROLLING = "rolling"
    NOT_READY = "not-ready"
    DELETING = "deleting"
    NODE = "node"  # all that is missing is on nodes that are down: no fault of what was deployed
    # Failed.
    IMAGE = "image"
    CONFIG = "config"
    CRASH = "crash"
    POD = "pod"  # a pod that ended in failure
    JOB = "job"
    DEADLINE = "deadline"  # the controller's own progress deadline
    CONDITION = "condition"  # the object says so itself
    # Unknown.
    PAUSED = "paused"
    SUSPENDED = "suspended"
    ON_DELETE = "on-delete"
    NO_STATUS = "no-status"
    MALFORMED = "malformed"
    NOT_FOUND = "not-found"
    REPLACED = "replaced"  # deleted, and made anew by somebody
    TAKEN_OVER = "taken-over"  # somebody else's newer state is being rolled out
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Target:
    """
    One object to follow.

    `generation`: `metadata.generation` as the server answered to the change; None for kinds that have none.
    `revision`: what a Flux object must have applied (`main@sha1:…`, a bare hash of seven digits or more, a tag or
    a chart version); None where any revision will do. `made`: the object as the server answered to the change;
    with it a change of replicas alone (an autoscaler's) is told apart from somebody else's new rollout.
    `has_status`: False for a kind without a status, which is done as soon as it is there; kinds of Kubernetes
    itself and of Flux that have none are known without it.
    """

    ref: ObjectRef
    generation: int | None
    revision: str | None = None
    made: Raw | None = field(default=None, compare=False, repr=False)
    has_status: bool = True


@dataclass(frozen=True, slots=True)
class PodTrouble:
    """
    What is wrong with one pod. All texts are foreign.

    `node`: None where it has none yet. `container`: None where the pod as a whole is meant. `why`: the kubelet's
    word (`ImagePullBackOff`, `CrashLoopBackOff`, `Unschedulable`, …), `message` its sentence. `exit_code`,
    `ended` (`OOMKilled`, `Error`) and `ran_s` are of the container's last run. `cause`: IMAGE, CONFIG, CRASH or
    POD where it is doomed, NODE where its node is down, NOT_READY otherwise.
    """

    namespace: str
    pod: str
    uid: str
    node: str | None
    cause: Cause
    why: str
    message: str = ""
    container: str | None = None
    exit_code: int | None = None
    ended: str | None = None
    ran_s: float | None = None
    restarts: int = 0


class NodeRollout(StrEnum):
    """What one node says about a DaemonSet."""

    UPDATED = "updated"
    FAILING = "failing"
    NOT_CONFIRMED = "not-confirmed"


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node of a DaemonSet. `why`: empty where it is updated."""

    node: str
    state: NodeRollout
    why: str = ""


@dataclass(frozen=True, slots=True)
class NodeFact:
    """What is known of a node that pods are on. `down`: how it is not Ready; None where it is Ready."""

    down: str | None
    cordoned: bool = False


@dataclass(frozen=True, slots=True)
class Around:
    """
    What is known beside the object itself.

    `pods`: the pods of its namespace; None where they could not be read. `replica_sets`: likewise. `nodes`: by
    name, as far as they were asked about.
    """

    pods: Sequence[Raw] | None = None
    replica_sets: Sequence[Raw] | None = None
    nodes: Mapping[str, NodeFact] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judgement:
    """
    What one look at an object says.

    `reason`: one clause; may quote foreign text. `grace_s`: for how long this must have been so, without a break,
    before it counts; WAITING never does. `times`: it also counts once it has been so this often, with breaks
    between (a controller that tries again and again). `about`: what it is said of (a pod's uid), where the time
    must not go on for another. `for_good`: nothing that comes later can change it (a job that is complete).
    """

    verdict: RolloutVerdict
    cause: Cause
    reason: str
    grace_s: float = 0.0
    times: int | None = None
    about: str = ""
    for_good: bool = False
    pods: tuple[PodTrouble, ...] = ()
    nodes: tuple[NodeState, ...] = ()


@dataclass(frozen=True, slots=True)
class PodEvidence:
    """
    What a failing pod left behind: warnings of the API server's events, newest last, and the last log lines.

    All texts are foreign. `log_of`: the container; `previous`: whether the log is of its run before this one.
    `missing`: why events or log could not be read.
    """

    trouble: PodTrouble
    events: tuple[EventLine, ...] = ()
    log: tuple[str, ...] = ()
    log_of: str | None = None
    previous: bool = False
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EventLine:
    """One warning. `at`: RFC 3339 as the event says it, empty where it does not; `times`: how often it came."""

    at: str
    reason: str
    message: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class Result:
    """
    What came of one target. `noticed_s`: how long after the start of the follow that was known.

    `cause` says what to do about it: NODE is a problem of nodes, not of what was deployed; TAKEN_OVER and REPLACED
    are somebody else's to judge. `events`: warnings about the object itself.
    """

    target: Target
    verdict: RolloutVerdict
    cause: Cause
    reason: str
    noticed_s: float
    nodes: tuple[NodeState, ...] = ()
    pods: tuple[PodEvidence, ...] = ()
    events: tuple[EventLine, ...] = ()


@dataclass(frozen=True, slots=True)
class Followed:
    """
    What came of a follow: one result per target, worst first, and the verdict of all of them.

    `outcome`: the worst verdict; WAITING only where the follow was ended before its time (`stopped` says why).
    `notes`: what could not be read and why, beside the targets themselves.
    """

    results: tuple[Result, ...]
    outcome: RolloutVerdict
    stopped: str | None = None
    took_s: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def blames_nodes(self) -> bool:
        """Whether all that is missing is on nodes that are down: going back to the old state would help nobody."""
        bad = [one for one in self.results if one.verdict is not RolloutVerdict.SUCCEEDED]
        return bool(bad) and all(one.cause is Cause.NODE for one in bad)


def worst_verdict(results: Sequence[Result]) -> RolloutVerdict:
    """Return the verdict of all results together; SUCCEEDED when there is none."""
    return min((one.verdict for one in results), key=WORST_FIRST.index, default=RolloutVerdict.SUCCEEDED)


def worst_first(results: Sequence[Result]) -> tuple[Result, ...]:
    """Sort results: worst first, then kind, namespace, name."""
    return tuple(
        sorted(results, key=lambda one: (WORST_FIRST.index(one.verdict), one.target.ref.display, one.target.ref))
    )


Tell = Callable[[str], None]
"""Called with one line for each change of what is followed; foreign text in it is not escaped yet."""


class Follows(Protocol):
    """What a deploy needs of a follower: `run.follow.Follower` is one."""

    def follow(self, targets: Sequence[Target], timeout_s: float) -> Followed:
        """
        Follow all targets until each has a terminal verdict, or the time is over.

        At most 30 minutes. Ends soon after the first failure, and at once when it is told to stop. Raises nothing
        that a cluster can cause: what cannot be read is `unknown`.
        """
        ...
