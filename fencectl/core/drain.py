"""
What a drain does with each pod of a node, and what a disruption budget says when it forbids an eviction.

The rules are those of `kubectl drain --ignore-daemonsets` (k8s.io/kubectl pkg/drain/filters.go): what nothing
would start again, and what would lose its data, is refused before anything is evicted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from fencectl.core.refs import Raw, annotations_of, dig, is_deleting

_MIRROR = "kubernetes.io/config.mirror"
_CORDON_TAINT = "node.kubernetes.io/unschedulable"
_BLOCK = re.compile(r"The disruption budget (\S+) (.*)", re.DOTALL)
_HEALTHY = re.compile(r"needs (\d{1,9}) healthy pods and has (\d{1,9}) currently", re.ASCII)

Name = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class Evict:
    """The pod goes."""


@dataclass(frozen=True, slots=True)
class Skip:
    """The pod stays, and the node counts as drained with it."""

    why: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """The node is not drained because of this pod."""

    why: str


Fate = Evict | Skip | Refuse


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod on the node, as it was listed."""

    namespace: str
    name: str
    uid: str
    raw: Raw

    @property
    def display(self) -> str:
        """`namespace/name`, as kubectl drain writes it."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_ending(self) -> bool:
        """Whether its end has begun: it needs no eviction, only time."""
        return is_deleting(self.raw)


def read_pod(raw: Raw) -> Pod:
    """Name a pod of a list."""
    namespace, name, uid = (str(dig(raw, "metadata", key) or "") for key in ("namespace", "name", "uid"))
    return Pod(namespace, name, uid, raw)


def daemon_set_of(pod: Pod) -> Name | None:
    """The DaemonSet whose existence decides about the pod; None where none does."""
    owner = _controller(pod.raw)
    if owner is None or _is_finished(pod.raw):
        return None
    if owner.get("kind") != "DaemonSet" or owner.get("apiVersion") != "apps/v1":
        return None
    return (pod.namespace, str(owner.get("name")))


def judge_pod(pod: Pod, *, daemon_sets: Collection[Name]) -> Fate:
    """Decide about one pod. `daemon_sets`: those of `daemon_set_of` that exist."""
    daemon_set = daemon_set_of(pod)
    if daemon_set is not None:
        if daemon_set in daemon_sets:
            return Skip("a DaemonSet runs it on every node, cordoned or not")
        return Refuse(f"its DaemonSet {daemon_set[1]} is gone, so nothing would start it again")
    if _MIRROR in annotations_of(pod.raw):
        return Skip("a static pod: its kubelet runs it from a file")
    if _is_finished(pod.raw):
        return Evict()
    if _has_local_data(pod.raw):
        return Refuse("it has an emptyDir volume, whose data would be lost")
    if _controller(pod.raw) is None:
        return Refuse("no controller owns it, so nothing would start it again")
    return Evict()


def tolerates_cordon(pod: Pod) -> bool:
    """Whether the scheduler may put the pod on a cordoned node: then it comes back as often as it is evicted."""
    found = dig(pod.raw, "spec", "tolerations")
    for one in found if isinstance(found, list) else []:
        if dig(one, "effect") not in (None, "", "NoSchedule"):
            continue
        key, exists = dig(one, "key"), dig(one, "operator") == "Exists"
        if (exists and not key) or (key == _CORDON_TAINT and (exists or not dig(one, "value"))):
            return True
    return False


@dataclass(frozen=True, slots=True)
class Block:
    """
    A disruption budget that forbids an eviction for now.

    `needs` and `has`: healthy pods; None where the server gives another reason, which `why` has in its words.
    """

    budget: str
    needs: int | None
    has: int | None
    why: str


def read_block(message: str) -> Block:
    """Read the cause `DisruptionBudget` of a refused eviction, as the API server words it."""
    match = _BLOCK.fullmatch(message.strip())
    if match is None:
        return Block("", None, None, message.strip() or "the server does not say why")
    budget, why = match.groups()
    healthy = _HEALTHY.fullmatch(why)
    if healthy is None:
        return Block(budget, None, None, why.rstrip("."))
    return Block(budget, int(healthy[1]), int(healthy[2]), f"needs {healthy[1]} healthy pods and has {healthy[2]}")


def _controller(pod: Raw) -> Mapping[str, Any] | None:
    owners = dig(pod, "metadata", "ownerReferences")
    for owner in owners if isinstance(owners, list) else []:
        if isinstance(owner, Mapping) and owner.get("controller") is True:
            return owner
    return None


def _is_finished(pod: Raw) -> bool:
    return dig(pod, "status", "phase") in ("Succeeded", "Failed")


def _has_local_data(pod: Raw) -> bool:
    volumes = dig(pod, "spec", "volumes")
    # NB: an emptyDir without settings is `{}`, which is there all the same.
    return any(dig(volume, "emptyDir") is not None for volume in (volumes if isinstance(volumes, list) else []))
