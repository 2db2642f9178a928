"""
A deploy over several targets: one after the other, in the order named, and what is to be said of all of them.

Nothing of this is stored. Each target has its own lease, record and result, and what is so on one of them is read
there; so what came of one never releases, overwrites or hides what is held on another. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from fencectl.core.errors import ExitCode, NotReadableError, UsageError, worst


@dataclass(frozen=True, slots=True)
class Part:
    """What came of one target. `code`: None where it was not started. `begun`: its transaction was."""

    label: str
    code: ExitCode | None = None
    begun: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where a target is: the uid of its namespace kube-system (None: not readable), and its lease there."""

    label: str
    cluster_uid: str | None
    lease: tuple[str, str]


def refuse_same_names(labels: Sequence[str]) -> None:
    """Raises UsageError where two targets have one name: no line could say which of them it is about."""
    for one, other in combinations(labels, 2):
        if one == other:
            raise UsageError(
                f"two of the targets are `{one}`",
                hint="a deploy goes to each of them once: name one of the two. Nothing was read or changed",
            )


def refuse_same_places(places: Sequence[Place]) -> None:
    """
    Make sure that no lease is taken twice.

    Raises UsageError where two contexts lead to the same lease on the same cluster, NotReadableError where nobody
    can tell. NB: the servers' addresses prove neither: one cluster has several, and behind a proxy or a tunnel
    several clusters have one.
    """
    for one, other in combinations(places, 2):
        if one.lease != other.lease:
            continue
        unread = next((place.label for place in (one, other) if place.cluster_uid is None), None)
        if unread is not None:
            raise NotReadableError(
                f"nobody can tell whether {one.label} and {other.label} are two clusters",
                reason=f"a cluster is known by the uid of its kube-system, and that of {unread} could not be read;"
                " the right to `get` that namespace may be missing. Nothing was changed",
                hint="`fencectl doctor --rbac deploy` prints the role",
            )
        if one.cluster_uid == other.cluster_uid:
            raise UsageError(
                f"{one.label} and {other.label} lead to one lease/{'/'.join(one.lease)} on one cluster, whose"
                f" kube-system has the uid {one.cluster_uid}",
                hint="a deploy goes to each cluster once: name one of the two. Nothing was changed",
            )


def goes_on(parts: Sequence[Part], interrupted: ExitCode | None) -> bool:
    """Whether the next target may be started: all before it have succeeded, and no signal has come."""
    return interrupted is None and all(part.code is ExitCode.OK for part in parts)


def code_of(parts: Sequence[Part], interrupted: ExitCode | None) -> ExitCode:
    """
    The worst of all. A signal counts where it kept a target from being started.

    One that was not started for any other reason is no success either; whatever stopped it is among the rest.
    """
    codes = [part.code for part in parts if part.code is not None]
    if interrupted is not None and len(codes) < len(parts):
        codes.append(interrupted)
    return worst(codes)


def sentence_of(parts: Sequence[Part], interrupted: ExitCode | None) -> str:
    """What came of all of them, on one line: `deployed to 1 of 3 targets: a; b ended with 18; not started: c`."""
    good = [part.label for part in parts if part.code is ExitCode.OK]
    if len(good) == len(parts):
        return f"deployed to {len(parts)} targets: {', '.join(good)}"
    begin = f"deployed to {len(good) or 'none'} of {len(parts)} targets"
    said = [f"{begin}: {', '.join(good)}" if good else begin]
    said += [_ended(part.label, part.code, begun=part.begun) for part in parts if part.code]
    left = [part.label for part in parts if part.code is None]
    if left:
        because = " (interrupted)" if interrupted is not None else ""
        said.append(f"not started: {', '.join(left)}{because}")
    if not any(part.begun for part in parts):
        said.append("nothing was changed")
    return "; ".join(said)


def _ended(label: str, code: ExitCode, *, begun: bool) -> str:
    if not begun:
        return f"{label} refused ({code.value})"
    if code is ExitCode.STILL_FENCED:
        return f"{label} ended with {code.value}, and fences are STILL HELD there"
    return f"{label} ended with {code.value}"
