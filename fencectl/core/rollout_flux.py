"""
Verdicts on Flux objects: what they have applied, at which revision, and why they stand still.

Ready of a Flux object may be of an older generation: kustomize-controller moves `observedGeneration` only when it
has succeeded or given up. A suspended object shows its last state for ever. A failing one is tried again and
again, each time as Progressing in between, so a failure counts when it stays or comes back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from fencectl.core.refs import Raw, dig
from fencectl.core.rollout import Cause, EventLine, Judgement, Target
from fencectl.core.rollout_pods import text
from fencectl.core.rollout_reading import (
    Condition,
    MalformedError,
    conditions,
    done,
    failed,
    flag,
    generation_of,
    is_so,
    observed_generation,
    section,
    unknown,
    waiting,
)

GROUPS = ".toolkit.fluxcd.io"
FAILING_GRACE_S = 60.0
FAILING_TIMES = 3
TAKEN_OVER_GRACE_S = 60.0
"""A source may pass through revisions on the way to the wanted one."""
# What waiting for something else looks like; all other reasons of a Ready that is False are failures.
_WAITS = frozenset({"DependencyNotReady", "Progressing", "ProgressingWithRetry", "ReconciliationInProgress"})
_HEX = re.compile(r"[0-9a-f]{7,64}")
# NB: a branch names no state: `main` would be any commit of it.
_VERSION = re.compile(r"v?\d[\w.+-]*", re.ASCII)
STUCK = "a Helm release is stuck in a pending state"
_PENDING = "another operation (install/upgrade/rollback) is in progress"


def judge_flux(target: Target, obj: Raw, ours: Raw | None) -> Judgement:
    """Judge one look at a Flux object. `ours`: as it was when it was deployed, with the revision before."""
    if flag(section(obj, "spec"), "suspend", "spec"):
        return unknown(Cause.SUSPENDED, "it is suspended: Flux applies nothing, and its status is old")
    generation = generation_of(obj)
    if generation is None:
        raise MalformedError("metadata.generation")
    wanted = max(generation, target.generation or 0)
    found, observed = conditions(obj), observed_generation(obj)
    ready, stalled = found.get("Ready"), found.get("Stalled")
    applied, attempted = _revisions(target.ref.kind, obj)
    if stalled is not None and stalled.status == "True" and _speaks_of(stalled, observed, wanted):
        return failed(Cause.CONDITION, f"Stalled: {_why(stalled, ready)}")
    if target.revision is not None and not matches(applied, target.revision):
        before = _revisions(target.ref.kind, ours)[0] if ours is not None else None
        if ours is not None and applied is not None and applied != before:
            reason = f"taken over: it has applied {applied}, neither {target.revision} nor what was there before"
            return unknown(Cause.TAKEN_OVER, reason, grace_s=TAKEN_OVER_GRACE_S, about=applied)
        return _behind(target.revision, applied, attempted, ready)
    if ready is None:
        return waiting(Cause.NOT_SEEN, "its controller has not said anything about it yet")
    if ready.status == "True":
        if not _speaks_of(ready, observed, wanted):
            return waiting(Cause.NOT_SEEN, f"its controller has not finished generation {wanted} yet")
        if is_so(found, "Reconciling"):
            return waiting(Cause.ROLLING, f"reconciling: {found['Reconciling'].words}")
        return done(f"ready at {applied}" if applied else "ready")
    return _not_ready(ready)


def matches(seen: str | None, wanted: str) -> bool:
    """Whether a revision is the wanted one: `main@sha1:4f2a91c0…` is `4f2a91c0`, `6.1.0` is `6.1.0@sha256:…`."""
    if not seen:
        return False
    if seen == wanted or (seen.partition("@")[0] == wanted and _VERSION.fullmatch(wanted)):
        return True
    (where, _, digest), (head, _, wanted_digest) = seen.rpartition(":"), wanted.rpartition(":")
    if _HEX.fullmatch(wanted_digest) is None or not digest.startswith(wanted_digest):
        return False
    return not head or where == head or where.endswith(f"@{head}")


def helm_release_of(obj: Raw) -> tuple[str, str]:
    """Where Helm keeps the records of a HelmRelease, and under which name."""
    spec, meta = (dig(obj, key) for key in ("spec", "metadata"))
    own, target = text(dig(meta, "name")), text(dig(spec, "targetNamespace"))
    name = text(dig(spec, "releaseName")) or (f"{target}-{own}" if target else own)
    return text(dig(spec, "storageNamespace")) or text(dig(meta, "namespace")), name


def helm_records(secrets: Iterable[object]) -> tuple[EventLine, ...]:
    """
    Say which record of Helm is pending, since when, and which one was deployed last, from the records' labels.

    Labels alone: what is in a record is never read. A record is never deleted either, since nobody here can tell
    whether its writer lives.
    """
    found = []
    for secret in secrets:
        labels, at = dig(secret, "metadata", "labels"), text(dig(secret, "metadata", "creationTimestamp"))
        version, status = text(dig(labels, "version")), text(dig(labels, "status"))
        if version.isascii() and version.isdigit() and len(version) < 10:
            found.append((int(version), status, at))
    deployed = max((version for version, status, _ in found if status in ("deployed", "superseded")), default=None)
    last = f"the last deployed one is {deployed}" if deployed is not None else "none was ever deployed"
    return tuple(
        EventLine(at, status, f"Helm's record {version} is pending since then; {last}")
        for version, status, at in sorted(found)
        if status.startswith("pending-")
    )


def _behind(wanted: str, applied: str | None, attempted: str | None, ready: Condition | None) -> Judgement:
    """Judge an object that has not applied the wanted revision."""
    where = f"it has applied {applied}" if applied else "it has applied nothing yet"
    if ready is not None and ready.status == "False" and (attempted is None or matches(attempted, wanted)):
        return _not_ready(ready)
    return waiting(Cause.NOT_SEEN, f"{where}, not {wanted}")


def _not_ready(ready: Condition) -> Judgement:
    if ready.status == "Unknown" or ready.reason in _WAITS:
        return waiting(Cause.ROLLING, ready.words)
    if _PENDING in ready.message:
        # NB: the writer of a pending Helm record is gone; no retry gets past it (https://github.com/helm/helm/issues/4558).
        return failed(Cause.CONDITION, f"{STUCK}: {ready.words}")
    return failed(Cause.CONDITION, ready.words, grace_s=FAILING_GRACE_S, times=FAILING_TIMES)


def _speaks_of(condition: Condition, observed: int | None, wanted: int) -> bool:
    """Whether a condition is of the wanted generation: by its own word, else by the status's."""
    said = condition.observed if condition.observed is not None else observed
    return said is not None and said >= wanted


def _why(stalled: Condition, ready: Condition | None) -> str:
    # NB: Ready often says why in more words (a release without a revision to go back to).
    more = ready.message if ready is not None and ready.message not in ("", stalled.message) else ""
    return f"{stalled.words}; {more}" if more else stalled.words


def _revisions(kind: str, obj: Raw) -> tuple[str | None, str | None]:
    """What is applied, and what was tried last; None where the kind does not say."""
    status = section(obj, "status")
    attempted = text(status.get("lastAttemptedRevision")) or None
    if kind == "Kustomization":
        return text(status.get("lastAppliedRevision")) or None, attempted
    if kind == "HelmRelease":
        return _deployed(status), attempted
    return text(dig(status, "artifact", "revision")) or None, None


def _deployed(status: Mapping[str, Any]) -> str | None:
    history = status.get("history")
    newest = history[0] if isinstance(history, list) and history else None
    if dig(newest, "status") != "deployed":
        return None
    return text(dig(newest, "chartVersion")) or None
