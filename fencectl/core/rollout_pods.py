"""
What is wrong with a pod: which container, how it ended, and whether waiting can help.

A pod is doomed where the kubelet says that it cannot start (image, configuration), or where a container has ended
more often than a budget allows. On a node that is down a pod's status is old news, so the node is what is wrong.
Pods are evidence, not verdicts: what is malformed in one is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fencectl.core.refs import Raw, dig, is_deleting
from fencectl.core.rollout import Cause, Judgement, NodeFact, PodTrouble
from fencectl.core.rollout_reading import failed
from fencectl.core.times import parse_time

CRASH_BUDGET = 3
"""A container that has ended more often than this is not waited for."""
DOOM_GRACE_S = 30.0
"""A registry stumbles, a Secret comes a moment later than its pod: so long is waited for that to pass."""
# The kubelet forgets its back-off after so long a run: what ended after it has not been looping.
_HEALTHY_RUN_S = 600.0
# kubelet, pkg/kubelet/images/types.go and pkg/kubelet/kuberuntime: the reasons of a container that waits.
_IMAGE = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_CONFIG = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "PreCreateHookError",
        "PreStartHookError",
        "RunContainerError",
    }
)
_AT_ONCE = frozenset({"InvalidImageName", "ErrImageNeverPull"})
_DOOMED = (Cause.CRASH, Cause.CONFIG, Cause.IMAGE)


def text(value: object) -> str:
    """Return the value if it is text, else nothing."""
    return value if isinstance(value, str) else ""


def owner_uid(obj: Raw) -> str | None:
    """Return the uid of the controller that owns an object."""
    owners = dig(obj, "metadata", "ownerReferences")
    for owner in owners if isinstance(owners, list) else []:
        if dig(owner, "controller") is True:
            return text(dig(owner, "uid")) or None
    return None


def owned(pods: Sequence[Raw] | None, uid: str | None, *, ending: bool = False) -> list[Raw]:
    """Return the objects that a controller owns; those that are being deleted only where they are asked for."""
    if not uid:
        return []
    return [pod for pod in pods or () if owner_uid(pod) == uid and (ending or not is_deleting(pod))]


def is_ready(pod: Raw) -> bool:
    """Whether a pod says that it is ready."""
    found = dig(pod, "status", "conditions")
    return any(
        dig(one, "type") == "Ready" and dig(one, "status") == "True"
        for one in (found if isinstance(found, list) else ())
    )


def node_of(pod: Raw) -> str | None:
    """Return the node that a pod is on."""
    return text(dig(pod, "spec", "nodeName")) or None


def is_finished(pod: Raw) -> bool:
    """Whether a pod has ended; controllers replace those that failed, and count them no more."""
    return dig(pod, "status", "phase") in ("Succeeded", "Failed")


def trouble_of(pod: Raw, nodes: Mapping[str, NodeFact]) -> PodTrouble | None:
    """Say why a pod is not ready; None where it is, or where it has ended as it should."""
    if is_ready(pod) or dig(pod, "status", "phase") == "Succeeded":
        return None
    node = node_of(pod)
    fact = nodes.get(node) if node else None
    if fact is not None and fact.down is not None:
        return _of_pod(pod, Cause.NODE, "NodeDown", fact.down)
    if dig(pod, "status", "phase") == "Failed":
        return _of_failed(pod)
    found = list(_of_containers(pod))
    if found:
        return min(found, key=lambda one: _rank(one.cause))
    return _of_conditions(pod)


def troubles(pods: Iterable[Raw], nodes: Mapping[str, NodeFact]) -> tuple[PodTrouble, ...]:
    """Say what is wrong with each pod that is not ready, worst first, the same in each run."""
    found = [one for pod in pods if (one := trouble_of(pod, nodes)) is not None]
    return tuple(sorted(found, key=lambda one: (_rank(one.cause), one.namespace, one.pod, one.uid)))


def doom(found: Sequence[PodTrouble], *, crashes: bool = True) -> Judgement | None:
    """
    Judge by pods that cannot become ready; None where none is doomed.

    `crashes`: whether containers that end again and again count; a Job counts them itself.
    """
    doomed = [one for one in found if one.cause in _DOOMED and (crashes or one.cause is not Cause.CRASH)]
    if not doomed:
        return None
    first = min(doomed, key=lambda one: (_grace_s(one), _rank(one.cause), one.uid))
    same = [one for one in doomed if one.cause is first.cause]
    return failed(
        first.cause, doom_words(first), grace_s=_grace_s(first), about=first.uid, pods=_with(same, found)
    )


def doom_words(one: PodTrouble) -> str:
    """What a doomed pod suffers from, in one clause."""
    match one.cause:
        case Cause.CRASH:
            return f"crash loop, {one.restarts} restarts (budget {CRASH_BUDGET})"
        case Cause.IMAGE:
            return f"image cannot be pulled ({one.why})"
        case _:
            return f"container cannot be created ({one.why})"


def are_nodes_to_blame(found: Sequence[PodTrouble]) -> bool:
    """Whether each pod that is not ready is on a node that is down."""
    return bool(found) and all(one.cause is Cause.NODE for one in found)


def pod_words(one: PodTrouble) -> str:
    """One pod that is not ready, in one clause: `pod web-1 on n2: ImagePullBackOff`."""
    where = f" on {one.node}" if one.node else ""
    said = f"{one.why}: {one.message}" if one.message and one.why == "Unschedulable" else one.why
    return f"pod {one.pod}{where}: {'its node is down' if one.cause is Cause.NODE else said}"


def _with(first: Sequence[PodTrouble], others: Sequence[PodTrouble]) -> tuple[PodTrouble, ...]:
    return (*first, *(one for one in others if one not in first))


def _grace_s(one: PodTrouble) -> float:
    return 0.0 if one.cause is Cause.CRASH or one.why in _AT_ONCE else DOOM_GRACE_S


def _rank(cause: Cause) -> int:
    return (*_DOOMED, Cause.POD, Cause.NOT_READY, Cause.NODE).index(cause)


def _of_pod(pod: Raw, cause: Cause, why: str, message: str = "", **more: Any) -> PodTrouble:
    namespace, name, uid = (text(dig(pod, "metadata", key)) for key in ("namespace", "name", "uid"))
    return PodTrouble(namespace, name, uid, node_of(pod), cause, why, message, **more)


def _of_failed(pod: Raw) -> PodTrouble:
    why, message = text(dig(pod, "status", "reason")), text(dig(pod, "status", "message"))
    for status in _statuses(pod):
        ended = dig(status, "state", "terminated")
        if _number(dig(ended, "exitCode")):
            return _of_pod(pod, Cause.POD, why or "Failed", message, **_last_run(status))
    return _of_pod(pod, Cause.POD, why or "Failed", message)


def _of_containers(pod: Raw) -> Iterator[PodTrouble]:
    for status in _statuses(pod):
        waits = dig(status, "state", "waiting")
        why, message = text(dig(waits, "reason")), text(dig(waits, "message"))
        run = _last_run(status)
        if why in _IMAGE:
            yield _of_pod(pod, Cause.IMAGE, why, message, **run)
        elif why in _CONFIG:
            yield _of_pod(pod, Cause.CONFIG, why, message, **run)
        elif run["exit_code"] is not None and not dig(status, "ready"):
            loops = run["restarts"] > CRASH_BUDGET and (run["ran_s"] or 0.0) < _HEALTHY_RUN_S
            if run["exit_code"] or loops:
                cause = Cause.CRASH if loops else Cause.NOT_READY
                yield _of_pod(pod, cause, why or run["ended"] or "Error", message, **run)
        elif why:
            yield _of_pod(pod, Cause.NOT_READY, why, message, container=run["container"])


def _of_conditions(pod: Raw) -> PodTrouble:
    found = dig(pod, "status", "conditions")
    for one in found if isinstance(found, list) else ():
        if dig(one, "type") == "PodScheduled" and dig(one, "status") == "False":
            why = text(dig(one, "reason")) or "Unschedulable"
            return _of_pod(pod, Cause.NOT_READY, why, text(dig(one, "message")))
    phase = text(dig(pod, "status", "phase"))
    return _of_pod(pod, Cause.NOT_READY, "not ready yet" if phase == "Running" else phase or "Pending")


def _statuses(pod: Raw) -> Iterator[Any]:
    # NB: those of init containers first: while one of them loops, the others have not begun.
    for key in ("initContainerStatuses", "containerStatuses"):
        found = dig(pod, "status", key)
        yield from found if isinstance(found, list) else ()


def _last_run(status: Any) -> dict[str, Any]:
    """How a container's last run ended, as fields of a PodTrouble."""
    ended = dig(status, "state", "terminated") or dig(status, "lastState", "terminated")
    began_at, ended_at = parse_time(dig(ended, "startedAt")), parse_time(dig(ended, "finishedAt"))
    ran_s = (ended_at - began_at).total_seconds() if began_at and ended_at else None
    return {
        "container": text(dig(status, "name")) or None,
        "exit_code": _number(dig(ended, "exitCode")),
        "ended": text(dig(ended, "reason")) or None,
        # NB: a container that never started carries the zero time of Go.
        "ran_s": ran_s if ran_s is not None and ran_s >= 0 else None,
        "restarts": _number(dig(status, "restartCount")) or 0,
    }


def _number(value: object) -> int | None:
    return value if type(value) is int else None
